//! `abide state`: shows the state of a session, part by part. Read-only.

mod list;
mod overview;

use abide::{
    SessionId, SessionRef,
    state::{StatePart, StateReport},
};

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, warning};
use crate::error::CommandError;
use crate::scoped_store::ScopedStore;
use crate::session_args::{SessionOption, SessionPurpose};

/// Show the state of a session: tasks, files, usage, results
///
/// Without PART, every part is summarized in a line or two. The parts are: tasks, calls, files,
/// usage, artifacts, dependencies, git, resources, health. The command only reads, and works while
/// an agent writes to the session.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide state                     every part of the latest session, in brief
  abide state artifacts           the newest test result first
  abide state k3x9ab calls        calls without a result, and counts by tool
  abide state tasks --json | jq '.tasks.list[] | select(.ready).task'")]
pub(crate) struct StateArgs {
    /// The session, by its id, name or key [default: $ABIDE_SESSION, else the latest]
    #[arg(value_name = "ID")]
    first: Option<String>,
    /// The part: tasks, calls, files, usage, artifacts, dependencies, git, resources or health
    #[arg(value_name = "PART")]
    second: Option<String>,
    #[command(flatten)]
    session: SessionOption,
    /// Print one JSON object with all of the part, or of all parts
    #[arg(long)]
    json: bool,
}

/// What the arguments ask for.
struct StateQuestion {
    session: Option<String>,
    part: Option<StatePart>,
}

impl StateArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let question = self.question()?;
        let opened = surroundings.open_store()?;
        let id = self.find(&question, &opened, surroundings)?;
        let wanted = question.part.map_or_else(|| StatePart::ALL.to_vec(), |part| vec![part]);
        let report = opened.store.view(&SessionRef::Id(id))?.state_report(&wanted)?;
        let mut out = CommandOutput::stdout();
        if self.json {
            let mut line = serde_json::json!(report);
            if let Some(fields) = line.as_object_mut() {
                fields.insert("short".to_owned(), opened.short(id).into());
            }
            out.json(&line.to_string())?;
        } else {
            let lines = match question.part {
                Some(part) => list::lines(&report, part),
                None => overview_lines(id, &opened, &report),
            };
            for line in lines {
                out.line(line)?;
            }
        }
        out.flush()?;
        report.notes.iter().for_each(warning);
        Ok(())
    }

    /// A word that names a part is the part, in either place.
    fn question(&self) -> Result<StateQuestion, CommandError> {
        let mut question = StateQuestion { session: None, part: None };
        for word in [&self.first, &self.second].into_iter().flatten() {
            match (StatePart::named(word), question.part) {
                (Some(part), None) => question.part = Some(part),
                (Some(part), Some(first)) => {
                    let (first, part) = (first.as_str(), part.as_str());
                    let both = format!("one part at a time: {first} and {part} are named");
                    return Err(CommandError::Usage(both));
                }
                (None, _) if question.session.is_none() => question.session = Some(word.clone()),
                (None, _) => {
                    let unknown = format!("there is no part {word:?} (parts: {})", part_names());
                    return Err(CommandError::Usage(unknown));
                }
            }
        }
        Ok(question)
    }

    fn find(
        &self,
        question: &StateQuestion,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        match &question.session {
            Some(_) if self.session.is_named() => {
                Err(CommandError::Usage("the session is named twice".to_owned()))
            }
            Some(named) => opened.find(named).map_err(|error| {
                error.with_hint(format!("if a part was meant, it is one of {}", part_names()))
            }),
            None => self.session.find(SessionPurpose::Read, opened, surroundings),
        }
    }
}

fn part_names() -> String {
    StatePart::ALL.map(StatePart::as_str).join(", ")
}

fn overview_lines(id: SessionId, opened: &ScopedStore, report: &StateReport) -> Vec<String> {
    let short = opened.short(id);
    let mut lines = vec![format!("Session {short} after event {}", report.seq)];
    lines.extend(overview::lines(report));
    lines
}
