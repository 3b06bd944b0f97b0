//! `abide undo` and `abide redo`: take back what was done to a session, and do it again.

use std::time::Duration;

use abide::{
    EventRange, LaneId, LocalStore, Seq, Session, SessionRef, SessionView, Timestamp,
    checkpoint::{ReversibleAct, ReversibleActKind},
    context::{CompactionError, LiveCompaction},
    maintenance::{Doctor, UndoPlan},
};
use abide_transcript::escape;

use crate::apply_args::{ApplyArgs, PlanDialog, capture_watch};
use crate::command_context::CommandContext;
use crate::command_output::CommandOutput;
use crate::confirm::confirm;
use crate::error::CommandError;
use crate::interrupt::interrupt_flag;
use crate::interrupted_rewind::{finish_rewind, tell_interrupted_rewind};
use crate::rewind_report::LISTED;
use crate::session_args::{ActSearch, SessionOption, SessionPurpose};

/// Undo the last rewind or compaction
///
/// Repeat the command to undo earlier ones of the session. `abide redo` does them again, until the
/// next rewind or compaction. Undoing a rewind brings back the files and the conversation as they were before
/// it; a checkpoint of the present state is made first. Undoing a compaction gives the model the
/// original messages again in place of the summary.
///
/// What an agent did is taken back by `abide rewind`.
///
/// A repair is undone only with --repair: the journal's files are restored as they were, with the
/// damage; `abide doctor --repair` repairs them again.
#[derive(Debug, clap::Args)]
pub(crate) struct UndoArgs {
    #[command(flatten)]
    session: SessionOption,
    /// Undo the last compaction, even if a rewind came after it
    #[arg(long)]
    compaction: bool,
    /// Undo a compaction of this lane instead of the main lane
    #[arg(long, value_name = "LANE")]
    lane: Option<String>,
    /// Undo the last repair
    #[arg(long, conflicts_with_all = ["compaction", "lane"])]
    repair: bool,
    #[command(flatten)]
    act: ApplyArgs,
}

/// Redo what was last undone
///
/// Repeat the command until everything is redone. After a new rewind or compaction there is nothing to
/// redo. Events recorded since the undo stay readable, and `abide undo` returns to them.
#[derive(Debug, clap::Args)]
pub(crate) struct RedoArgs {
    #[command(flatten)]
    session: SessionOption,
    #[command(flatten)]
    act: ApplyArgs,
}

impl UndoArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        // A compaction or a repair that was asked for by name is that of the latest session.
        let id = match self.repair || self.compaction || self.lane.is_some() {
            true => self.session.find(SessionPurpose::RewindHere, &opened, surroundings)?,
            false => self.session.find_latest_act("undo", &opened, surroundings, latest_done)?,
        };
        let doctor = opened.store.as_files().map(LocalStore::doctor);
        if self.repair {
            if doctor.is_none() {
                return Err(CommandError::failed("a repair of a shared store is not undone")
                    .with_hint("the rows that it set aside are in the table `quarantine`"));
            }
            let plan = doctor.as_ref().map(|doctor| doctor.plan_undo(id)).transpose()?.flatten();
            return match (doctor, plan) {
                (Some(doctor), Some(plan)) => {
                    self.act.undo_repair(&doctor, &plan, surroundings.wait)
                }
                _ => Err(CommandError::failed("there is no repair to undo")),
            };
        }
        let lane = self.lane.filter(|lane| !lane.is_empty()).map(LaneId);
        opened.warn_of_others_here(id, surroundings);
        let session = opened.store.open_session(&SessionRef::Id(id))?;
        self.act.finish_first(&session)?;
        let by_name = self.compaction || lane.is_some();
        // One that cannot be finished here is what is taken back, whatever came before it.
        if !by_name && let Some(at) = session.core()?.restoring {
            let heading = format!("the state before the interrupted rewind @{at}");
            self.act.undo_rewind(&session, at, (heading, "abide redo"), surroundings)?;
            return Ok(session.close()?);
        }
        let act = if by_name { None } else { session.next_undo(None)? };
        match act {
            Some(ReversibleAct { kind: ReversibleActKind::Rewind, at, first, .. }) => {
                let heading = format!("the state before the rewind @{first}");
                self.act.undo_rewind(&session, at, (heading, "abide redo"), surroundings)?;
            }
            Some(_) => self.act.undo_compaction(&session, None)?,
            None if by_name => self.act.undo_compaction(&session, lane.as_ref())?,
            None => {
                let error = CommandError::from(abide::Error::NothingToUndo);
                let repair = doctor.map(|doctor| doctor.plan_undo(id)).transpose()?.flatten();
                let error = error.with_hint(
                    "to take back what an agent did, choose a checkpoint: `abide rewind`",
                );
                return Err(match repair {
                    Some(repair) => error.with_hint(format!(
                        "`abide undo --repair` undoes the repair of {}",
                        repair.at
                    )),
                    None => error,
                });
            }
        }
        Ok(session.close()?)
    }
}

impl RedoArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find_latest_act("redo", &opened, surroundings, latest_undone)?;
        opened.warn_of_others_here(id, surroundings);
        let session = opened.store.open_session(&SessionRef::Id(id))?;
        self.act.finish_first(&session)?;
        let Some(act) = session.next_redo()? else {
            return Err(abide::Error::NothingToRedo.into());
        };
        match act.kind {
            ReversibleActKind::Rewind => {
                let heading = format!("the state before the rewind @{} was undone", act.first);
                self.act.undo_rewind(&session, act.at, (heading, "abide undo"), surroundings)?;
            }
            ReversibleActKind::Compaction => self.act.redo_compaction(&session, &act)?,
        }
        Ok(session.close()?)
    }
}

/// When the latest act of a session that can be undone was done.
fn latest_done(view: &SessionView, search: ActSearch) -> Result<Option<Timestamp>, abide::Error> {
    let core = view.state()?.core;
    if let Some(at) = core.restoring {
        return time_of(view, at);
    }
    if search == ActSearch::Rewinds && core.last_rewind.is_none() {
        return Ok(None);
    }
    latest_act(view, view.undo_history()?.done(), search)
}

/// When the latest act of a session that can be done again was undone.
fn latest_undone(view: &SessionView, search: ActSearch) -> Result<Option<Timestamp>, abide::Error> {
    if search == ActSearch::Rewinds && view.state()?.core.last_rewind.is_none() {
        return Ok(None);
    }
    latest_act(view, view.undo_history()?.undone(), search)
}

fn latest_act(
    view: &SessionView,
    acts: &[ReversibleAct],
    search: ActSearch,
) -> Result<Option<Timestamp>, abide::Error> {
    let counts = |act: &&ReversibleAct| match act.kind {
        ReversibleActKind::Rewind => true,
        ReversibleActKind::Compaction => search == ActSearch::All && act.lane.is_none(),
    };
    match acts.iter().rev().find(counts) {
        Some(act) => time_of(view, act.at),
        None => Ok(None),
    }
}

fn time_of(view: &SessionView, seq: Seq) -> Result<Option<Timestamp>, abide::Error> {
    let page = view.page(EventRange { first: seq, last: seq, ..EventRange::ALL })?;
    Ok(page.events.first().map(|event| event.at))
}

impl ApplyArgs {
    /// Finishes a rewind that was cut off: a half-way state must not become what redo goes back to.
    fn finish_first(&self, session: &Session) -> Result<(), CommandError> {
        if self.dry_run { tell_interrupted_rewind(session) } else { finish_rewind(session) }
    }

    /// Undoes the rewind that an event records, which may itself have undone one.
    fn undo_rewind(
        &self,
        session: &Session,
        at: Seq,
        (heading, inverse): (String, &'static str),
        surroundings: &CommandContext,
    ) -> Result<(), CommandError> {
        let asked = interrupt_flag()?;
        let plan = {
            let (watch, _line) = capture_watch(&asked);
            session.plan_undo_of(at, &watch)?
        };
        let dialog = PlanDialog {
            heading,
            to: None,
            surroundings: Some(surroundings),
            choose: None,
            inverse,
        };
        self.carry_out(session, plan, &dialog, &asked)
    }

    /// Undoes the newest compaction of a lane. Nothing is overwritten or deleted, so nothing is asked.
    fn undo_compaction(
        &self,
        session: &Session,
        lane: Option<&LaneId>,
    ) -> Result<(), CommandError> {
        let context = session.context_of(lane)?;
        let Some(&LiveCompaction { at, first, last, .. }) = context.lane.compacted() else {
            return Err(abide::Error::from(CompactionError::NothingToUndo).into());
        };
        if !self.dry_run {
            session.undo_compaction(lane)?;
        }
        let mut out = CommandOutput::stdout();
        if self.json {
            let done = !self.dry_run;
            let line =
                serde_json::json!({"compaction": at, "first": first, "last": last, "undone": done});
            out.json(&line.to_string())?;
        } else {
            let done = if self.dry_run { "Would undo" } else { "Undid" };
            out.line(format_args!(
                "{done} the compaction @{at}: the model sees @{first} to @{last} as they were"
            ))?;
        }
        out.flush()
    }

    /// Does a compaction again.
    fn redo_compaction(&self, session: &Session, act: &ReversibleAct) -> Result<(), CommandError> {
        let done = if self.dry_run { None } else { Some(session.redo_compaction(act.at)?) };
        let mut out = CommandOutput::stdout();
        if self.json {
            let line =
                serde_json::json!({"compaction": done, "redoes": act.at, "redone": done.is_some()});
            out.json(&line.to_string())?;
        } else {
            let (verb, again) = match done {
                Some(seq) => ("Redid", format!(", as @{seq}")),
                None => ("Would redo", String::new()),
            };
            out.line(format_args!("{verb} the compaction @{}{again}", act.first))?;
        }
        out.flush()
    }

    /// Undoes a repair.
    fn undo_repair(
        &self,
        doctor: &Doctor<'_>,
        plan: &UndoPlan,
        wait: Duration,
    ) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        if self.json {
            out.json(&serde_json::to_string(plan).unwrap_or_default())?;
        } else {
            out.line(format_args!("Undo the repair of {}", plan.at))?;
            for file in plan.files.iter().take(LISTED) {
                out.line(format_args!("  {} as it was", escape::text(file)))?;
            }
            for file in plan.removed.iter().take(LISTED) {
                out.line(format_args!("  {} is deleted: it did not exist", escape::text(file)))?;
            }
            if let Some(to) = plan.to {
                out.line(format_args!(
                    "  the session is rewound to event @{to}; {} later events stay in the journal",
                    plan.left_out
                ))?;
            }
        }
        out.flush()?;
        if self.dry_run {
            return Ok(());
        }
        confirm("Undo the repair?", self.yes, None)?;
        doctor.undo(plan, wait)?;
        if !self.json {
            out.line(
                "Done: `abide doctor` shows what is wrong, `abide doctor --repair` repairs it",
            )?;
        }
        out.flush()
    }
}
