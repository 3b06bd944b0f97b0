//! `abide rewind`: goes back to an earlier point. `abide undo`: reverts that.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use abide::workspace::{RestoreAction, RestorePlan, RestoreReport};
use abide::{
    CheckpointEntry, CompactionError, DEFAULT_WAIT, FinishPlan, LaneId, LiveCompaction, LocalStore,
    RewindPlan, RewindRequest, RewindWatch, Seq, Session, SessionRef, UndoPlan,
};
use abide_transcript::escape;

use crate::confirm::confirm;
use crate::error::CommandError;
use crate::interrupt::interruptible;
use crate::output::{CommandOutput, shown, status, warning};
use crate::progress;
use crate::store::{CommandContext, SessionArg, finish_rewind, tell_half_way};
use crate::when::ago;

/// How many paths are listed.
const LISTED: usize = 100;

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
WHERE is a checkpoint (its number, label or id), the end of a turn (turn:3), an event (@41), or
`latest`: the newest checkpoint that is whole.

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
pub(crate) struct UndoArgs {
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

#[derive(Debug, clap::Args)]
struct ApplyArgs {
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Do it without asking
    #[arg(long)]
    yes: bool,
    /// Print the plan, and what was done, as JSON
    #[arg(long)]
    json: bool,
}

impl RewindArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open()?;
        let id = self.session.find_here(&opened, surroundings)?;
        let session = opened.store.open_session(&SessionRef::Id(id))?;
        let Some(to) = self.to.clone() else {
            self.act.finish(&session)?;
            return Ok(session.close()?);
        };
        if self.act.dry_run {
            tell_half_way(&session)?;
        } else {
            finish_rewind(&session)?;
        }
        let asked = interruptible()?;
        let to = if to == "latest" { latest(&session)? } else { to };
        let to = session.view().resolve(&to)?;
        let base = session.store().workspace_root(id, &session.core()?.0.fields).ok();
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
            let (watch, _line) = capturing(&asked);
            session.plan_rewind(&to, &request, &watch)?
        };
        let heading = match &plan.checkpoint {
            Some(entry) if entry.seq == to.seq => named(entry),
            _ => format!("event @{}", to.seq),
        };
        self.act.carry_out(&session, plan, &heading, Some(to.seq), &asked)?;
        Ok(session.close()?)
    }
}

impl UndoArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open()?;
        let id = self.session.find_here(&opened, surroundings)?;
        let lane = self.lane.filter(|lane| !lane.is_empty()).map(LaneId);
        let compaction = self.compaction || lane.is_some();
        if !compaction
            && let Some(files) = opened.store.as_files()
            && let Some(plan) = files.doctor().plan_undo(id)?
        {
            return self.act.undo_repair(files, &plan);
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
        let asked = interruptible()?;
        let plan = {
            let (watch, _line) = capturing(&asked);
            session.plan_undo(&watch)?
        };
        self.act.carry_out(&session, plan, "where it was before the last rewind", None, &asked)?;
        Ok(session.close()?)
    }
}

/// Restores the files of a point if the user agrees; the conversation is unchanged.
pub(crate) fn files_back(session: &Session, at: &str, yes: bool) -> Result<(), CommandError> {
    let to = session.view().resolve(at)?;
    let request = RewindRequest { files: true, ..RewindRequest::default() };
    let asked = Arc::new(AtomicBool::new(false));
    let plan = {
        let (watch, _line) = capturing(&asked);
        session.plan_rewind(&to, &request, &watch)?
    };
    let heading = match &plan.checkpoint {
        Some(entry) => named(entry),
        None => format!("event @{}", to.seq),
    };
    let act = ApplyArgs { dry_run: false, yes, json: false };
    act.carry_out(session, plan, &heading, Some(to.seq), &asked)
}

/// Shows the progress of capturing the current files.
fn capturing(asked: &Arc<AtomicBool>) -> (RewindWatch, progress::ProgressLine) {
    let (snapshot, line) = progress::capturing(asked.clone());
    (RewindWatch { snapshot, restore: None }, line)
}

/// The newest intact checkpoint; damaged ones are reported.
fn latest(session: &Session) -> Result<String, CommandError> {
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
            out.json(&finish_json(&plan))?;
        } else {
            out.line(format_args!("Finish the rewind at event @{}", plan.seq))?;
            if !plan.own {
                out.line("It was not begun by you on this machine, as far as is known here")?;
            }
            for line in files_told(&root, &plan.files) {
                out.line(line)?;
            }
        }
        out.flush()?;
        if self.dry_run {
            return Ok(());
        }
        confirm("Finish it?", self.yes, None)?;
        let done = {
            let (restore, _line) = progress::restoring();
            let watch = RewindWatch { restore: Some(restore), ..RewindWatch::default() };
            session.finish(plan, &watch)?
        };
        let RestoreReport { created, changed, deleted, .. } = done.files;
        if self.json {
            let wire = serde_json::json!({
                "rewind": done.seq, "created": created, "changed": changed, "deleted": deleted,
                "kept": pairs(&done.files.kept), "failed": pairs(&done.files.failed),
            });
            out.json(&wire.to_string())?;
        } else {
            out.line(format_args!(
                "Done: {created} created, {changed} changed, {deleted} deleted; `abide undo` takes the \
                 rewind back"
            ))?;
        }
        out.flush()?;
        tell_left(&done.files)
    }

    /// Undoes a repair.
    fn undo_repair(&self, files: &LocalStore, plan: &UndoPlan) -> Result<(), CommandError> {
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
        files.doctor().undo(plan, DEFAULT_WAIT)?;
        if !self.json {
            out.line("Done: `abide doctor` says what is wrong, `abide doctor --repair` mends it")?;
        }
        out.flush()
    }

    fn carry_out(
        &self,
        session: &Session,
        plan: RewindPlan,
        heading: &str,
        to: Option<Seq>,
        asked: &Arc<AtomicBool>,
    ) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        if self.json {
            out.json(&json(&plan))?;
        } else {
            for line in told(&plan, heading, to) {
                out.line(line)?;
            }
        }
        out.flush()?;
        let idle = plan.files.steps.is_empty() && plan.left.0 == 0;
        if idle && let Some(error) = untouched(&plan) {
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
            let (mut watch, _capture) = capturing(asked);
            let (restore, _line) = progress::restoring();
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
                "kept": pairs(&done.files.kept), "failed": pairs(&done.files.failed),
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
        tell_left(&done.files)
    }
}

/// An error if nothing can be done for a named path.
fn untouched(plan: &RewindPlan) -> Option<CommandError> {
    let named = |path: &[u8]| plan.rewind.paths.iter().any(|named| named.as_bytes() == path);
    let kept = plan.files.kept.iter().filter(|kept| named(&kept.path)).take(LISTED);
    let kept: Vec<_> =
        kept.map(|kept| format!("{} is left unchanged: {}", shown(&kept.path), kept.why)).collect();
    (!kept.is_empty()).then(|| CommandError::failed(kept.join("; ")))
}

/// A checkpoint, for display.
fn named(entry: &CheckpointEntry) -> String {
    let label = entry.checkpoint.label.as_deref();
    let label = label.map(|label| format!(" {:?}", escape::text(label))).unwrap_or_default();
    format!("checkpoint {}{label} ({})", entry.number, ago(entry.at, jiff::Timestamp::now()))
}

/// How far the files are from the requested point, if they are not exactly its own.
fn elsewhere(entry: &CheckpointEntry, to: Seq) -> Option<String> {
    let (away, side) = match entry.seq.0.cmp(&to.0) {
        Ordering::Less => (to.0 - entry.seq.0, "before"),
        Ordering::Equal => return None,
        Ordering::Greater => (entry.seq.0 - to.0, "after"),
    };
    let events = if away == 1 { "event" } else { "events" };
    Some(format!("Files are those of {}, {away} {events} {side} that place", named(entry)))
}

fn pairs(paths: &[(Vec<u8>, String)]) -> Vec<serde_json::Value> {
    let pair = |(path, why): &(Vec<u8>, String)| serde_json::json!({"path": String::from_utf8_lossy(path), "why": why});
    paths.iter().map(pair).collect()
}

/// Reports what was left unchanged; a file that could not be restored is an error.
pub(crate) fn tell_left(files: &RestoreReport) -> Result<(), CommandError> {
    for (path, why) in files.kept.iter().take(LISTED) {
        warning(format_args!("{} was left as it is: {why}", shown(path)));
    }
    if files.failed.is_empty() {
        return Ok(());
    }
    for (path, why) in files.failed.iter().take(LISTED) {
        warning(format_args!("{} could not be put back: {why}", shown(path)));
    }
    Err(CommandError::failed(format!("{} files could not be restored", files.failed.len()))
        .with_hint("`abide undo` takes the rewind back"))
}

fn told(plan: &RewindPlan, heading: &str, to: Option<Seq>) -> Vec<String> {
    let mut lines = vec![format!("Back to {heading}")];
    let (events, messages) = plan.left;
    if events > 0 {
        lines.push(format!(
            "Conversation: {events} events leave it, {messages} of them messages; \
             `abide show --all` still shows them"
        ));
    }
    if !plan.rewind.files {
        return lines;
    }
    let elsewhere = plan.checkpoint.as_ref().zip(to).and_then(|(entry, to)| elsewhere(entry, to));
    lines.extend(elsewhere);
    lines.extend(files_told(plan.rewind.workspace.as_deref().unwrap_or_default(), &plan.files));
    if let Some((then, now)) = &plan.head {
        let short = |head: &Option<String>| {
            let head = head.as_deref().unwrap_or("no commit");
            escape::text(head.get(..10).unwrap_or(head)).into_owned()
        };
        lines.push(format!(
            "Git's HEAD has moved since then, from {} to {}; it stays where it is",
            short(then),
            short(now)
        ));
    }
    lines
}

/// What happens to the files in a directory.
fn files_told(root: &str, files: &RestorePlan) -> Vec<String> {
    let mut lines = vec![format!("Files in {}:", escape::text(root))];
    for step in files.steps.iter().take(LISTED) {
        lines.push(format!("  {:<7} {}", word(step.action), shown(&step.path)));
    }
    let steps = files.steps.len();
    if steps > LISTED {
        lines.push(format!("  … and {} more; --json lists all", steps - LISTED));
    }
    let count =
        |action: RestoreAction| files.steps.iter().filter(|step| step.action == action).count();
    lines.push(format!(
        "  {} to create, {} to change, {} to delete; everything else is kept",
        count(RestoreAction::Create),
        count(RestoreAction::Change) + count(RestoreAction::Chmod),
        count(RestoreAction::Delete)
    ));
    for kept in files.kept.iter().take(LISTED) {
        lines.push(format!("  keep    {} ({})", shown(&kept.path), kept.why));
    }
    lines
}

const fn word(action: RestoreAction) -> &'static str {
    match action {
        RestoreAction::Create => "create",
        RestoreAction::Change => "change",
        RestoreAction::Delete => "delete",
        RestoreAction::Chmod => "chmod",
    }
}

/// The steps, and what is kept.
fn files_json(files: &RestorePlan) -> (Vec<serde_json::Value>, Vec<serde_json::Value>) {
    let steps = files.steps.iter().map(|step| {
        serde_json::json!({
            "path": String::from_utf8_lossy(&step.path), "action": word(step.action),
        })
    });
    let kept = files.kept.iter().map(
        |kept| serde_json::json!({"path": String::from_utf8_lossy(&kept.path), "why": kept.why}),
    );
    (steps.collect(), kept.collect())
}

fn finish_json(plan: &FinishPlan) -> String {
    let (steps, kept) = files_json(&plan.files);
    serde_json::json!({
        "rewind": plan.seq,
        "workspace": plan.root.to_string_lossy(),
        "own": plan.own,
        "files": steps,
        "kept": kept,
    })
    .to_string()
}

fn json(plan: &RewindPlan) -> String {
    let (steps, kept) = files_json(&plan.files);
    serde_json::json!({
        "to": plan.rewind.to,
        "checkpoint": plan.checkpoint.as_ref().map(|entry| entry.number),
        "checkpoint_seq": plan.checkpoint.as_ref().map(|entry| entry.seq),
        "workspace": plan.rewind.workspace,
        "events_left": plan.left.0,
        "messages_left": plan.left.1,
        "files": steps,
        "kept": kept,
        "head": plan.head.as_ref().map(|(then, now)| serde_json::json!({"then": then, "now": now})),
    })
    .to_string()
}
