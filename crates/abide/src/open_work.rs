//! What a session left open: calls without a result, the last decision, tasks that are not done.

use abide_model::{EventRange, Fact, TaskState, TaskStatus};

use crate::primer::one_line;
use crate::{Error, Session};

/// The most calls listed.
const CALLS: usize = 20;
/// The most open tasks listed.
const TASKS: usize = 50;
/// The most characters of a title, a name or a reason.
const TITLE: usize = 200;
/// The most bytes of a list: with the conversation it must fit into one argument of a command.
const LIST: usize = 8 << 10;

impl Session {
    /// The last decision of an arbiter in one line, with its reason in parentheses; `None` if none
    /// is live.
    pub fn last_decision(&self) -> Result<Option<String>, Error> {
        let Some(seq) = self.core()?.turns.decided else { return Ok(None) };
        let range = EventRange { first: seq, last: seq, ..EventRange::ALL };
        let event = self.view().page(range)?.events.pop();
        let Some(Ok(Fact::TurnDecided(decision))) = event.map(|event| event.fact()) else {
            return Ok(None);
        };
        let what = decision.selected.or(decision.decision).unwrap_or_default();
        let reason = decision.reason.map(|reason| format!(" ({})", one_line(&reason, TITLE)));
        Ok(Some(format!("{}{}", one_line(&what, TITLE), reason.unwrap_or_default())))
    }

    /// What the session left open, as text for an agent: calls whose outcome is unknown, the last
    /// decision, and the open tasks. Empty if there is none of it.
    pub fn open_work(&self) -> Result<String, Error> {
        let state = self.state()?;
        let mut calls: Vec<_> = state.calls.iter().filter(|(_, call)| !call.request).collect();
        calls.sort_unstable_by_key(|(id, call)| (call.seq, *id));
        let calls = calls
            .into_iter()
            .map(|(id, call)| format!("{} ({})", one_line(&call.name, TITLE), one_line(id, TITLE)));
        let calls = listed(
            "Calls whose outcome is unknown (look before you repeat them):",
            calls.collect(),
            CALLS,
        );
        let decision = self.last_decision()?;
        let decision = decision.map(|decision| format!("The last decision: {decision}\n\n"));
        let open = state.tasks.iter().filter(|(_, task)| task.known && !task.status.is_done());
        let mut open: Vec<(&str, &TaskState)> = open.collect();
        open.sort_unstable_by_key(|(_, task)| task.order);
        let tasks = open.into_iter().map(|(id, task)| {
            let title = if task.title.is_empty() { id } else { task.title.as_str() };
            let status = match task.status {
                TaskStatus::Planned => String::new(),
                status => format!(" ({})", status.as_str()),
            };
            format!("{}{status}", one_line(title, TITLE))
        });
        let tasks = listed("Tasks that are open:", tasks.collect(), TASKS);
        Ok(format!("{calls}{}{tasks}", decision.unwrap_or_default()))
    }
}

/// A list under a heading, with its first lines; nothing if it is empty.
fn listed(heading: &str, lines: Vec<String>, most: usize) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("{heading}\n");
    let mut shown = 0;
    for line in lines.iter().take(most) {
        if text.len() + line.len() > LIST {
            break;
        }
        text.push_str(&format!("- {line}\n"));
        shown += 1;
    }
    if shown < lines.len() {
        text.push_str(&format!("- … and {} more\n", lines.len() - shown));
    }
    text.push('\n');
    text
}
