//! `abide` by itself: what runs, the last sessions, and what to type next, in at most 15 lines.

use abide::{HistoryQuery, history::HistoryEntry};
use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, terminal_width};
use crate::error::CommandError;
use crate::next_step::{CommandWords, NextStep, next_step};
use crate::scoped_store::ScopedStore;
use crate::session_status::{CurrentStatus, DisplayedState};
use crate::text_table::cut_to_column;
use crate::typed_time::time_ago;

/// How many sessions are listed.
const LISTED: usize = 6;
/// The width where there is no terminal.
const WIDTH: usize = 100;

/// `abide` without a command.
#[derive(Debug)]
pub(crate) struct OverviewArgs;

impl OverviewArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        let listed = match surroundings.find_store()? {
            Some(opened) => overview_lines(&opened, &CommandWords::of(surroundings))?,
            None => Vec::new(),
        };
        let lines = if listed.is_empty() { first_steps() } else { listed };
        lines.into_iter().try_for_each(|line| out.line(line))?;
        out.flush()
    }
}

/// What a newcomer types.
fn first_steps() -> Vec<String> {
    [
        "abide: durable sessions for AI coding agents. Nothing is recorded here yet.",
        "",
        "  abide demo              watch a session survive a kill -9, in a few seconds",
        "  abide run AGENT …       run an agent and record everything it says and does",
        "  abide save -m NAME      make a checkpoint of the files here",
        "  abide help              all commands, and topics",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The last sessions, those that run first, and the commands that fit them.
fn overview_lines(opened: &ScopedStore, words: &CommandWords) -> Result<Vec<String>, CommandError> {
    let query = HistoryQuery { limit: Some(LISTED), ..HistoryQuery::default() };
    let found = opened.store.history(&query)?;
    let Some(latest) = found.entries.first() else { return Ok(Vec::new()) };
    let now = jiff::Timestamp::now();
    let width = terminal_width().unwrap_or(WIDTH);
    let states = CurrentStatus::of_entries(&found.entries, &opened.store);
    let states = states.into_iter().map(|now| now.state);
    let mut rows: Vec<(&HistoryEntry, DisplayedState)> = found.entries.iter().zip(states).collect();
    rows.sort_by_key(|(_, state)| *state != DisplayedState::Running);
    let of = opened.project.as_ref().map(|project| escape::text(&project.name).into_owned());
    let of = of.unwrap_or_else(|| "all projects".to_owned());
    let more = found.more.unwrap_or_default();
    let more = if more > 0 { format!("; {more} more: `abide ls`") } else { String::new() };
    let mut lines = vec![format!("Sessions of {of}{more}")];
    let age = |entry: &HistoryEntry| time_ago(entry.overview.updated, now);
    let ages = rows.iter().map(|(entry, _)| age(entry).len()).max().unwrap_or_default();
    let states = rows.iter().map(|(_, state)| state.as_str().len()).max().unwrap_or_default();
    for (entry, state) in &rows {
        let name = entry.overview.name().unwrap_or_default();
        let line = format!(
            "  {}  {:<states$}  {:<ages$}  {}",
            entry.short,
            state.as_str(),
            age(entry),
            escape::text(&name)
        );
        lines.push(cut_to_column(&line, width));
    }
    lines.push(String::new());
    let stopped = [DisplayedState::Crashed, DisplayedState::Stopped];
    let resumable = rows.iter().find(|(entry, state)| {
        stopped.contains(state) && next_step(*state, entry.overview.run) == NextStep::Resume
    });
    if let Some((entry, state)) = resumable {
        let what = format!("resume the {state} session");
        lines.push(told(words, NextStep::Resume, entry, &what));
    }
    let running = rows.iter().find(|(_, state)| *state == DisplayedState::Running);
    if let Some((entry, _)) = running {
        lines.push(told(words, NextStep::Follow, entry, "follow the running session"));
    }
    lines.push(told(words, NextStep::Show, latest, "show a session"));
    lines.push("  abide search TEXT       search messages and tool calls".to_owned());
    lines.push("  abide rewind            rewind to a checkpoint".to_owned());
    lines.push("  abide help              all commands, and topics".to_owned());
    Ok(lines)
}

/// A command for a session, and what it does.
fn told(words: &CommandWords, step: NextStep, entry: &HistoryEntry, what: &str) -> String {
    let command = words.step(step, &entry.short);
    format!("  {:<23} {what}", escape::text(&command))
}
