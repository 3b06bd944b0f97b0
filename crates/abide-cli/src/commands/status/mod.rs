//! `abide status`: shows running, crashed and idle sessions, or disk usage. Read-only.

mod disk;
mod page;
mod row;
mod survey;

use abide::{
    liveness::Liveness,
    maintenance::{ByteSize, DiskUse},
};
use abide_transcript::escape;

use self::row::StatusRow;
use self::survey::{StatusSurvey, SurveyExtent};
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status, warning};
use crate::error::CommandError;
use crate::scoped_store::ScopedStore;

/// Say which sessions run, which crashed and which rest, or where the space went
///
/// A session whose writer lives is running. One whose writer died with it open has crashed: what
/// it was doing is listed, with the calls whose outcome is unknown, how it is known, and the
/// command that goes on. One that was closed is idle. Stale is what cannot be told: a writer on
/// another machine that was not heard of for a minute, one that was stopped.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide status               how much there is, and what runs, crashed or rests
  abide status k3x9ab        one session
  abide status --all --json  every session that is not over, with the evidence
  abide status --disk        the largest sessions, journals, objects, index, leftovers")]
pub(crate) struct StatusArgs {
    /// One session: its name, its id, its short id, the start of any of them, or your key
    #[arg(value_name = "SESSION", conflicts_with_all = ["disk", "all"])]
    positional: Option<String>,
    /// The same, as an option
    #[arg(short, long, value_name = "SESSION", conflicts_with_all = ["positional", "disk", "all"])]
    session: Option<String>,
    /// List every session that is not over, not the newest alone
    #[arg(long, conflicts_with = "disk")]
    all: bool,
    /// Show where the space went
    #[arg(long)]
    disk: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl StatusArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let mut out = CommandOutput::stdout();
        if let Some(named) = self.positional.as_ref().or(self.session.as_ref()) {
            let id = opened.find(named)?;
            let short = opened.store.sessions()?.into_iter().find(|one| one.id == id);
            let short = short.map_or_else(|| id.short(abide::SessionId::SHORT), |one| one.short);
            let found = opened.store.liveness(id)?;
            // What cannot be read has no name.
            let name = opened.name_of(id);
            let row = StatusRow::of(short, name, found, &opened, surroundings);
            if self.json {
                out.json(&row.json().to_string())?;
            } else {
                page::show_session_page(&row, surroundings, &mut out)?;
            }
            return out.flush();
        }
        let used = opened.store.disk_use()?;
        let extent = if self.all { SurveyExtent::All } else { SurveyExtent::Newest };
        let survey =
            (!self.disk).then(|| StatusSurvey::take(&opened, extent, surroundings)).transpose()?;
        if self.json {
            out.json(&status_json(&opened, &used, survey.as_ref()))?;
        } else {
            let sessions = used.sessions.len();
            let plural = if sessions == 1 { "" } else { "s" };
            out.line(format_args!(
                "{}: {sessions} session{plural}, {}",
                escape::text(&opened.place()),
                ByteSize(used.total)
            ))?;
            match &survey {
                None => disk::show_disk_use(&opened, &used, &mut out)?,
                Some(survey) => page::show_status_page(survey, surroundings, &mut out)?,
            }
        }
        out.flush()?;
        if let Some(survey) = survey {
            survey.notes.iter().for_each(|note| status(format_args!("Note: {note}")));
            survey.unreadable.iter().for_each(|(short, error)| {
                warning(format_args!("session {short} cannot be looked at: {error}"));
            });
        }
        Ok(())
    }
}

fn status_json(opened: &ScopedStore, used: &DiskUse, survey: Option<&StatusSurvey>) -> String {
    let mut report = serde_json::json!({
        "store": opened.place(),
        "sessions": used.sessions.len(),
        "bytes": used.total,
    });
    let Some(fields) = report.as_object_mut() else { return report.to_string() };
    match survey {
        None => {
            fields.insert("disk".to_owned(), serde_json::to_value(used).unwrap_or_default());
        }
        Some(survey) => {
            let rows: Vec<_> = survey.rows.iter().map(StatusRow::json).collect();
            fields.insert("listed".to_owned(), rows.into());
            let counts = serde_json::json!({
                "alive": survey.count(Liveness::Alive),
                "stale": survey.count(Liveness::Stale),
                "crashed": survey.count(Liveness::Crashed),
                "idle": survey.count(Liveness::Idle) + survey.more_idle,
                "not_closed": survey.more_open,
                "completed": survey.completed,
                "failed": survey.failed,
                "unreadable": survey.unreadable.len(),
            });
            fields.insert("counts".to_owned(), counts);
        }
    }
    report.to_string()
}
