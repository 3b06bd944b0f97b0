//! Shows the plan of a rewind and carries it out: the part that every command with a rewind in it
//! shares.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use abide::workspace::RestoreReport;
use abide::{
    Seq, Session,
    checkpoint::{CheckpointEntry, RewindPlan, RewindWatch},
};

use crate::command_output::{CommandOutput, status};
use crate::confirm::confirm;
use crate::error::CommandError;
use crate::progress;
use crate::rewind_report::{
    checkpoint_in_report, report_files_left, report_path_reasons, rewind_report_json,
    rewind_report_lines, rewind_untouched_error,
};

/// Whether a plan is only shown, asked about, or carried out.
#[derive(Debug, clap::Args)]
pub(crate) struct ApplyArgs {
    /// Only show what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do it without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print the plan, and what was done, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Restores the files of a checkpoint, for the place `at`, if the user agrees; the conversation is
/// unchanged.
pub(crate) fn apply_files_back(
    session: &Session,
    files: CheckpointEntry,
    at: Seq,
    yes: bool,
) -> Result<(), CommandError> {
    let heading = checkpoint_in_report(&files);
    let asked = Arc::new(AtomicBool::new(false));
    let plan = {
        let (watch, _line) = capture_watch(&asked);
        session.plan_restore(files, &watch)?
    };
    let act = ApplyArgs { dry_run: false, yes, json: false };
    act.carry_out(session, plan, &heading, Some(at), &asked)
}

/// Shows the progress of capturing the current files.
pub(crate) fn capture_watch(asked: &Arc<AtomicBool>) -> (RewindWatch, progress::ProgressLine) {
    let (snapshot, line) = progress::capturing_progress(asked.clone());
    (RewindWatch { snapshot, restore: None }, line)
}

impl ApplyArgs {
    /// Shows the plan and, once the user agrees, goes back.
    pub(crate) fn carry_out(
        &self,
        session: &Session,
        plan: RewindPlan,
        heading: &str,
        to: Option<Seq>,
        asked: &Arc<AtomicBool>,
    ) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        if self.json {
            out.json(&rewind_report_json(&plan))?;
        } else {
            for line in rewind_report_lines(&plan, heading, to) {
                out.line(line)?;
            }
        }
        out.flush()?;
        let idle = plan.files.steps.is_empty() && plan.left.0 == 0;
        if idle && let Some(error) = rewind_untouched_error(&plan) {
            return Err(error);
        }
        if self.dry_run {
            return Ok(());
        }
        if idle {
            status("There is nothing to do");
            return Ok(());
        }
        confirm("Go back?", self.yes, Some(asked))?;
        let done = {
            let (mut watch, _capture) = capture_watch(asked);
            let (restore, _line) = progress::restoring_progress();
            watch.restore = Some(restore);
            session.rewind(plan, &watch).inspect_err(|error| {
                if error.is_cancelled() {
                    status("Stopped; everything is as it was");
                }
            })?
        };
        let RestoreReport { created, changed, deleted, .. } = done.files;
        if self.json {
            let wire = serde_json::json!({
                "rewind": done.seq, "safety": done.safety,
                "created": created, "changed": changed, "deleted": deleted,
                "kept": report_path_reasons(&done.files.kept), "failed": report_path_reasons(&done.files.failed),
            });
            out.json(&wire.to_string())?;
        } else {
            let files = format!("{created} created, {changed} changed, {deleted} deleted");
            let safety = done.safety.map(|number| {
                format!("; checkpoint {number} holds what was before, `abide undo` goes back to it")
            });
            let safety = safety.unwrap_or_else(|| "; `abide undo` takes it back".to_owned());
            out.line(format_args!("Done: {files}{safety}"))?;
        }
        out.flush()?;
        report_files_left(&done.files)
    }
}
