//! `abide status`: what runs, what crashed or failed, and what comes next; or disk usage. Read-only.

mod disk;
mod page;
mod row;
mod survey;

use abide::{
    SessionId, SessionRef, SessionStatus, SessionView,
    event::SessionCore,
    history::RunOutline,
    liveness::Liveness,
    maintenance::{ByteSize, DiskUse},
};
use abide_transcript::escape;

use self::row::{RecordedRow, StatusRow};
use self::survey::{StatusSurvey, SurveyDepth, SurveyExtent, count_recorded};
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status, warning};
use crate::error::CommandError;
use crate::next_step::CommandWords;
use crate::noun_count::noun_count;
use crate::scoped_store::ScopedStore;
use crate::session_status::{CurrentStatus, RecordedOutcome};

/// Show running, crashed and failed sessions, and what to do next
///
/// A session is `running` while a live process has it open, `crashed` if that process died,
/// `failed` or `stopped` if its run ended that way, `idle` if it was closed and can be resumed,
/// `ended` if it was completed, and `new` if nothing has happened in it. It is `unclear` if abide
/// cannot see whether its process still runs: the process is on another machine and gave no sign of
/// life for a minute, or it is suspended (SIGSTOP).
///
/// The list has the running sessions, those that crashed, failed or were stopped in the last days,
/// and the ten most recent others, each with the command to run next. A crashed session also shows
/// what it was doing and the calls whose outcome is unknown.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide status               running, broken and recent sessions
  abide status k3x9ab        one session
  abide status --all --json  every session that has not ended, with the evidence
  abide status --disk        the largest sessions, journals, objects, index, leftovers")]
pub(crate) struct StatusArgs {
    /// Show only this session, given by its id, name or key
    #[arg(value_name = "SESSION", conflicts_with_all = ["disk", "all"])]
    positional: Option<String>,
    /// The session, as an option
    #[arg(short, long, value_name = "SESSION", conflicts_with_all = ["positional", "disk", "all"])]
    session: Option<String>,
    /// List every session that has not ended
    #[arg(long, conflicts_with = "disk")]
    all: bool,
    /// Show disk usage
    #[arg(long)]
    disk: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl StatusArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let words = CommandWords::of(surroundings);
        let mut out = CommandOutput::stdout();
        if let Some(named) = self.positional.as_ref().or(self.session.as_ref()) {
            let row = one_session(opened.find(named)?, &opened, &words)?;
            if self.json {
                out.json(&row.json().to_string())?;
            } else {
                page::show_session_page(&row, surroundings, &mut out)?;
            }
            return out.flush();
        }
        if self.disk {
            let used = opened.store.disk_use()?;
            if self.json {
                out.json(&disk_json(&opened, &used))?;
            } else {
                let place = status_place(&opened, used.sessions.len() as u64);
                out.line(format_args!("{place}, {}", ByteSize(used.total)))?;
                disk::show_disk_use(&opened, &used, &mut out)?;
            }
            return out.flush();
        }
        let extent = if self.all { SurveyExtent::All } else { SurveyExtent::Newest };
        let depth = if self.json { SurveyDepth::Listed } else { SurveyDepth::Open };
        let survey = StatusSurvey::take(&opened, extent, depth, &words)?;
        if self.json {
            out.json(&status_json(&opened, &survey)?)?;
        } else {
            out.line(status_place(&opened, survey.sessions))?;
            page::show_status_page(&survey, surroundings, &mut out)?;
        }
        out.flush()?;
        survey.notes.iter().for_each(|note| status(format_args!("Note: {note}")));
        survey.unreadable.iter().for_each(|(short, error)| {
            warning(format_args!("cannot examine session {short}: {error}"));
        });
        Ok(())
    }
}

/// One session, looked at as it is now. The index is not asked: it knows less.
fn one_session(
    id: SessionId,
    opened: &ScopedStore,
    words: &CommandWords,
) -> Result<StatusRow, CommandError> {
    let short = opened.store.sessions()?.into_iter().find(|one| one.id == id);
    let short = short.map_or_else(|| id.short(SessionId::SHORT), |one| one.short);
    let found = opened.store.liveness(id)?;
    let view = opened.store.view(&SessionRef::Id(id))?;
    let core = view.state()?.core;
    let recorded = RecordedRow {
        session: id,
        short,
        // What cannot be read has no name.
        name: view.name().ok().flatten(),
        fields: found.fields.clone(),
        at: found.at,
        ending: core.reason.clone(),
        run: run_outline(opened, &view, &core)?,
    };
    let outcome =
        RecordedOutcome { status: found.evidence.status, ..RecordedOutcome::of_core(&core) };
    let now = CurrentStatus::seen(outcome, &found);
    Ok(StatusRow::of(recorded, now, Some(found), opened, words))
}

/// The last run of a session, as the index would have it.
fn run_outline(
    opened: &ScopedStore,
    view: &SessionView,
    core: &SessionCore,
) -> Result<Option<RunOutline>, CommandError> {
    let Some(last) = opened.store.last_run(view, None)? else { return Ok(None) };
    let started = last.seq;
    if core.lineage.is_rewound_after(started) {
        return Ok(None);
    }
    let finished = core.run.is_some_and(|run| run.finished.is_some());
    let conversation = last.start.conversation;
    // The run before a conversation tells what the session is about.
    let mut first = Some(last);
    while let Some(talk) = first.as_ref().filter(|run| run.start.conversation) {
        first = opened.store.last_run(view, Some(talk.seq.back(1)))?;
    }
    let planned = first.is_some_and(|run| run.start.planned);
    Ok(Some(RunOutline { planned, conversation, finished, started }))
}

/// The first line: where the store is, and how many sessions it has in scope.
fn status_place(opened: &ScopedStore, sessions: u64) -> String {
    format!("{}: {}", escape::text(&opened.place()), noun_count(sessions, "session"))
}

fn disk_json(opened: &ScopedStore, used: &DiskUse) -> String {
    serde_json::json!({
        "store": opened.place(),
        "sessions": used.sessions.len(),
        "bytes": used.total,
        "disk": serde_json::to_value(used).unwrap_or_default(),
    })
    .to_string()
}

fn status_json(opened: &ScopedStore, survey: &StatusSurvey) -> Result<String, CommandError> {
    let completed = count_recorded(opened, SessionStatus::Completed)?;
    let failed = count_recorded(opened, SessionStatus::Failed)?;
    let [alive, stale, crashed] =
        [Liveness::Alive, Liveness::Stale, Liveness::Crashed].map(|of| survey.count(of));
    let unclosed = survey.not_closed + survey.unreadable.len();
    let open = (alive + stale + crashed + unclosed) as u64;
    let rows: Vec<_> = survey.rows.iter().map(StatusRow::json).collect();
    let report = serde_json::json!({
        "store": opened.place(),
        "sessions": survey.sessions,
        "listed": rows,
        "more": survey.more(),
        "counts": {
            "alive": alive,
            "stale": stale,
            "crashed": crashed,
            "idle": survey.sessions.saturating_sub(open + completed + failed),
            "not_closed": survey.not_closed,
            "completed": completed,
            "failed": failed,
            "unreadable": survey.unreadable.len(),
        },
    });
    Ok(report.to_string())
}
