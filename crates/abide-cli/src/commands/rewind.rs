//! `abide rewind`: goes back to an earlier point. `abide undo`: reverts that.

use std::time::Duration;

use abide::workspace::RestoreReport;
use abide::{
    LaneId, RewindRequest, Session, SessionRef,
    checkpoint::RewindWatch,
    context::{CompactionError, LiveCompaction},
    maintenance::{Doctor, UndoPlan},
};
use abide_transcript::escape;

use crate::apply_args::{ApplyArgs, capture_watch};
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status, warning};
use crate::confirm::confirm;
use crate::error::CommandError;
use crate::interrupt::interrupt_flag;
use crate::interrupted_rewind::{finish_rewind, tell_interrupted_rewind};
use crate::progress;
use crate::rewind_report::{
    LISTED, checkpoint_in_report, report_files_left, report_files_told, report_finish_json,
    report_path_reasons,
};
use crate::session_args::{SessionArg, SessionPurpose};

/// Go back to a checkpoint or a turn: the files, the conversation, or both
///
/// The plan is shown before anything is done, and a checkpoint of the present is made first: `abide
/// undo` takes the rewind back. What abide has not stored (ignored files, files over the cap) stays
/// as it is. What came after stays readable (`abide show --all`), and one can go forward to it.
/// A place that has no checkpoint of its own gets the files of the nearest one that fits: the plan
/// says which, and how far from the place it is.
///
/// A rewind that was cut off is finished by the next command where this machine has begun it. Any
/// other one, as in a clone of a store, is only offered: --finish shows what is left and asks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
WHERE is a checkpoint (its number, label or id), the end of a turn (turn:3), an event (@41),
`decision`: the last decision of an arbiter, or `latest`: the newest checkpoint that is whole.

Examples:
  abide rewind --to 3 --dry-run
  abide rewind --to turn:4 --both
  abide rewind --to \"tests pass\" --files src/parser.rs
  abide rewind --finish")]
pub(crate) struct RewindArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Where to
    #[arg(long, value_name = "WHERE", required_unless_present = "finish")]
    to: Option<String>,
    /// Finish a rewind that was cut off
    #[arg(long, conflicts_with_all = ["to", "files", "conversation", "both"])]
    finish: bool,
    /// The files; with paths, only these files and directories (`.` in the root: all)
    #[arg(long, value_name = "PATH", num_args = 0.., conflicts_with_all = ["conversation", "both"])]
    files: Option<Vec<String>>,
    /// The conversation, with tasks and all else that the session knows, and no file
    #[arg(long, conflicts_with = "both")]
    conversation: bool,
    /// The files and the conversation [default]
    #[arg(long)]
    both: bool,
    #[command(flatten)]
    act: ApplyArgs,
}

/// Take the last rewind, compaction or repair back
///
/// The undo of a rewind is a rewind itself, and can be undone. That of a compaction shows the model
/// again what the summary stood for. That of a repair puts the journal's files back as they were,
/// damage and all; `abide doctor --repair` does it again.
#[derive(Debug, clap::Args)]
pub(crate) struct RewindUndoArgs {
    #[command(flatten)]
    session: SessionArg,
    /// The newest compaction, though a rewind came after it
    #[arg(long)]
    compaction: bool,
    /// A compaction of this lane rather than of the main one
    #[arg(long, value_name = "LANE")]
    lane: Option<String>,
    #[command(flatten)]
    act: ApplyArgs,
}

impl RewindArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::RewindHere, &opened, surroundings)?;
        let session = opened.store.open_session(&SessionRef::Id(id))?;
        let Some(to) = self.to.clone() else {
            self.act.finish(&session)?;
            return Ok(session.close()?);
        };
        if self.act.dry_run {
            tell_interrupted_rewind(&session)?;
        } else {
            finish_rewind(&session)?;
        }
        let asked = interrupt_flag()?;
        let to = if to == "latest" { latest_rewind_target(&session)? } else { to };
        let to = session.view().resolve(&to)?;
        let base = session.store().workspace_root(id, &session.core()?.fields).ok();
        let mut paths = Vec::new();
        for path in self.files.iter().flatten() {
            paths.push(surroundings.within(path, base.as_deref())?);
        }
        if paths.iter().any(String::is_empty) {
            // The root means everything in it.
            paths.clear();
        }
        let request =
            RewindRequest { files: !self.conversation, conversation: self.files.is_none(), paths };
        let plan = {
            let (watch, _line) = capture_watch(&asked);
            session.plan_rewind(&to, &request, &watch)?
        };
        let heading = match &plan.checkpoint {
            Some(entry) if entry.seq == to.seq => checkpoint_in_report(entry),
            _ => format!("event @{}", to.seq),
        };
        self.act.carry_out(&session, plan, &heading, Some(to.seq), &asked)?;
        Ok(session.close()?)
    }
}

impl RewindUndoArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::RewindHere, &opened, surroundings)?;
        let lane = self.lane.filter(|lane| !lane.is_empty()).map(LaneId);
        let compaction = self.compaction || lane.is_some();
        if !compaction
            && let Some(doctor) = opened.store.doctor()
            && let Some(plan) = doctor.plan_undo(id)?
        {
            return self.act.undo_repair(&doctor, &plan, surroundings.wait);
        }
        let session = opened.store.open_session(&SessionRef::Id(id))?;
        let context = session.context_of(lane.as_ref())?;
        // The newest operation that can be undone.
        let rewound = context.core.last_rewind.filter(|_| !compaction);
        if let Some(standing) = context.lane.compacted()
            && rewound.is_none_or(|rewind| rewind < standing.at)
        {
            self.act.undo_compaction(&session, lane.as_ref(), standing)?;
            return Ok(session.close()?);
        }
        if compaction {
            return Err(abide::Error::from(CompactionError::NothingToUndo).into());
        }
        let asked = interrupt_flag()?;
        let plan = {
            let (watch, _line) = capture_watch(&asked);
            session.plan_undo(&watch)?
        };
        self.act.carry_out(&session, plan, "where it was before the last rewind", None, &asked)?;
        Ok(session.close()?)
    }
}

/// The newest intact checkpoint; damaged ones are reported.
fn latest_rewind_target(session: &Session) -> Result<String, CommandError> {
    let objects = session.store().objects()?;
    let (found, damaged) = session.view().latest_checkpoint(&*objects)?;
    for entry in &damaged {
        warning(format_args!("checkpoint {} is damaged; the one before it is taken", entry.number));
    }
    let found = found.ok_or_else(|| {
        CommandError::failed("there is no intact checkpoint")
            .with_hint("`abide checkpoint list` shows those that there are")
    })?;
    Ok(found.number.to_string())
}

impl ApplyArgs {
    /// Undoes a compaction. Nothing is overwritten or deleted, so nothing is asked.
    fn undo_compaction(
        &self,
        session: &Session,
        lane: Option<&LaneId>,
        standing: &LiveCompaction,
    ) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        let (at, first, last) = (standing.at, standing.first, standing.last);
        if !self.dry_run {
            session.undo_compaction(lane)?;
        }
        if self.json {
            let done = !self.dry_run;
            let line =
                serde_json::json!({"compaction": at, "first": first, "last": last, "undone": done});
            out.json(&line.to_string())?;
        } else {
            let done = if self.dry_run { "Would take back" } else { "Took back" };
            out.line(format_args!(
                "{done} the compaction @{at}: the model sees @{first} to @{last} as they were"
            ))?;
        }
        out.flush()
    }

    /// Finishes an interrupted rewind.
    fn finish(&self, session: &Session) -> Result<(), CommandError> {
        let Some(plan) = session.plan_finish()? else {
            status("There is no rewind to finish");
            return Ok(());
        };
        let mut out = CommandOutput::stdout();
        let root = plan.root.to_string_lossy().into_owned();
        if self.json {
            out.json(&report_finish_json(&plan))?;
        } else {
            out.line(format_args!("Finish the rewind at event @{}", plan.seq))?;
            if !plan.own {
                out.line("It was not begun by you on this machine, as far as is known here")?;
            }
            for line in report_files_told(&root, &plan.files) {
                out.line(line)?;
            }
        }
        out.flush()?;
        if self.dry_run {
            return Ok(());
        }
        confirm("Finish it?", self.yes, None)?;
        let done = {
            let (restore, _line) = progress::restoring_progress();
            let watch = RewindWatch { restore: Some(restore), ..RewindWatch::default() };
            session.finish(plan, &watch)?
        };
        let Some(done) = done else {
            status("Another process has finished it");
            return Ok(());
        };
        let RestoreReport { created, changed, deleted, .. } = done.files;
        if self.json {
            let wire = serde_json::json!({
                "rewind": done.seq, "created": created, "changed": changed, "deleted": deleted,
                "kept": report_path_reasons(&done.files.kept), "failed": report_path_reasons(&done.files.failed),
            });
            out.json(&wire.to_string())?;
        } else {
            out.line(format_args!(
                "Done: {created} created, {changed} changed, {deleted} deleted; `abide undo` takes the \
                 rewind back"
            ))?;
        }
        out.flush()?;
        report_files_left(&done.files)
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
                out.line(format_args!("  {} goes: it was not there", escape::text(file)))?;
            }
            if let Some(to) = plan.to {
                out.line(format_args!(
                    "  the session goes back to event @{to}; {} events leave its view and stay in the journal",
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
            out.line("Done: `abide doctor` says what is wrong, `abide doctor --repair` mends it")?;
        }
        out.flush()
    }
}
