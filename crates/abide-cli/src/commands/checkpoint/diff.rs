//! `abide diff` and `abide checkpoint diff`: show the changes between two checkpoints, or since one.

use std::sync::Arc;

use abide::workspace::{ChangeKind, ChangedPath, DiffStat, diff, stat};
use abide::{
    SessionRef, SessionView,
    backend::Objects,
    checkpoint::{CheckpointEntry, Snapshot, Trigger},
    event::ObjectHash,
};
use clap_complete::ArgValueCandidates;

use crate::checkpoint_lookup::{is_safety_checkpoint, present_tree, snapshot_of};
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, shown, status, terminal_width};
use crate::completion_candidates::place_candidates;
use crate::error::CommandError;
use crate::noun_count::noun_count;
use crate::patch_output::write_patch;
use crate::rewind_report::checkpoint_in_report;
use crate::session_args::{SessionOption, SessionPurpose};

/// Show what changed between two checkpoints, or between one and the current files
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide checkpoint diff 3           from checkpoint 3 to now
  abide checkpoint diff 3 5 --stat
  abide checkpoint diff 3 -p | git apply -R")]
pub(crate) struct CheckpointDiffArgs {
    /// The checkpoint to start from: its number, its label or its id
    #[arg(value_name = "A")]
    from: String,
    /// The checkpoint to compare with [default: the current files]
    #[arg(value_name = "B")]
    to: Option<String>,
    #[command(flatten)]
    form: DiffOptions,
    #[command(flatten)]
    session: SessionOption,
}

/// Show what changed since a checkpoint, or between two
///
/// Without A and B, the last checkpoint is compared with the current files; those that rewinds make of
/// what they take back do not count. Where nothing differs and the last checkpoint was made at the end of a
/// turn, what that turn changed is shown. A and B are each a
/// checkpoint (its number, label or id), the end of a turn (turn:3) or an event (@41).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide diff                     since the last checkpoint
  abide diff 3 -p -- src         since checkpoint 3, line by line, in src alone
  abide diff 3 5 --stat
  abide diff 3 -p | git apply -R")]
pub(crate) struct DiffArgs {
    /// Compare from here [default: the last checkpoint]
    #[arg(value_name = "A", add = ArgValueCandidates::new(place_candidates))]
    from: Option<String>,
    /// Compare to here [default: the current files]
    #[arg(value_name = "B", add = ArgValueCandidates::new(place_candidates))]
    to: Option<String>,
    /// Only these files and directories
    #[arg(value_name = "PATH", last = true)]
    paths: Vec<String>,
    #[command(flatten)]
    form: DiffOptions,
    #[command(flatten)]
    session: SessionOption,
}

/// How changes are shown.
#[derive(Debug, clap::Args)]
struct DiffOptions {
    /// Show how many lines were added and removed in each file
    #[arg(long, conflicts_with = "patch")]
    stat: bool,
    /// Show the changed lines as a patch
    #[arg(short, long)]
    patch: bool,
    /// Print each changed file as a line of JSON
    #[arg(long, conflicts_with_all = ["stat", "patch"])]
    json: bool,
}

impl CheckpointDiffArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let Self { from, to, form, session } = self;
        let whole = DiffArgs { from: Some(from), to, paths: Vec::new(), form, session };
        whole.run(surroundings)
    }
}

impl DiffArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let (purpose, from) = (SessionPurpose::FilesHere, self.from.as_deref());
        let id = self.session.find_with_place(purpose, from, &opened, surroundings)?;
        let view = opened.store.view(&SessionRef::Id(id))?;
        let objects = opened.store.objects()?;
        let last = match &self.from {
            Some(_) => None,
            None => Some(last_checkpoint(&view)?),
        };
        let from = match (&self.from, &last) {
            (Some(from), _) => tree_of(&view, from, &objects)?,
            (None, Some(last)) => snapshot_of(last, &*objects)?.tree,
            (None, None) => return Ok(()),
        };
        let to = match &self.to {
            Some(to) => tree_of(&view, to, &objects)?,
            None => present_tree(&opened, &view, &*objects)?,
        };
        let root = opened.store.workspace_root(id, &view.state()?.core.fields).ok();
        let within = |path: &String| surroundings.within(path, root.as_deref());
        let paths = self.paths.iter().map(within).collect::<Result<Vec<String>, _>>()?;
        let mut changed = diff(&*objects, Some(from), to, true).map_err(abide::Error::from)?;
        if let Some(last) = &last {
            // Where nothing was done since a turn ended, the turn is what a person asks about.
            let before =
                changed.is_empty().then(|| before_turn(&view, last)).transpose()?.flatten();
            if let Some(before) = before {
                let (from, to) = (snapshot_of(&before, &*objects)?, snapshot_of(last, &*objects)?);
                changed =
                    diff(&*objects, Some(from.tree), to.tree, true).map_err(abide::Error::from)?;
                let (from, to) = (checkpoint_in_report(&before), last.number);
                status(format_args!("In the last turn, from {from} to {to}; nothing since"));
            } else {
                status(format_args!("Since {}", checkpoint_in_report(last)));
            }
        }
        changed.retain(|changed| is_meant(changed, &paths));
        if changed.is_empty() && !self.form.json {
            status("No file differs");
        }
        self.form.show(&changed, &*objects, surroundings)
    }
}

/// The checkpoint with the files from before a turn, if this one was made at its end.
fn before_turn(
    view: &SessionView,
    last: &CheckpointEntry,
) -> Result<Option<CheckpointEntry>, CommandError> {
    if last.checkpoint.trigger != Trigger::Turn.as_str() {
        return Ok(None);
    }
    let entries = view.checkpoints()?.into_iter().rev();
    let mut earlier = entries.filter(|entry| entry.seq < last.seq && entry.live);
    Ok(earlier.find(|entry| entry.checkpoint.snapshot.is_some()))
}

impl DiffOptions {
    fn show(
        &self,
        changed: &[ChangedPath],
        objects: &dyn Objects,
        surroundings: &CommandContext,
    ) -> Result<(), CommandError> {
        if self.patch {
            return write_patch(changed, objects, surroundings);
        }
        let mut out = CommandOutput::stdout();
        if self.json {
            for changed in changed {
                out.json(&json(changed))?;
            }
        } else if self.stat {
            stats(&mut out, changed, objects)?;
        } else {
            for changed in changed {
                out.line(told(changed))?;
            }
        }
        out.flush()
    }
}

/// Is it one of these paths, or below one of them? Without any, everything is meant.
fn is_meant(changed: &ChangedPath, paths: &[String]) -> bool {
    let is_below = |path: &[u8], above: &str| {
        let rest = path.strip_prefix(above.as_bytes());
        above.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    let from = match &changed.change {
        ChangeKind::Renamed { from } => Some(from.as_slice()),
        _ => None,
    };
    let mut sides = std::iter::once(changed.path.as_slice()).chain(from);
    paths.is_empty() || sides.any(|side| paths.iter().any(|above| is_below(side, above)))
}

/// The last checkpoint that has files, but for those that rewinds made of what they took back.
fn last_checkpoint(view: &SessionView) -> Result<CheckpointEntry, CommandError> {
    let mut entries = view.checkpoints()?;
    entries.retain(|entry| entry.checkpoint.snapshot.is_some());
    let last = entries.iter().rposition(|entry| !is_safety_checkpoint(entry));
    let last = last.or_else(|| entries.len().checked_sub(1)).map(|last| entries.swap_remove(last));
    last.ok_or_else(|| {
        CommandError::failed("there is no checkpoint with files to compare with")
            .with_hint("`abide save` makes one")
    })
}

/// The files of a checkpoint.
fn tree_of(
    view: &SessionView,
    name: &str,
    objects: &Arc<dyn Objects>,
) -> Result<ObjectHash, CommandError> {
    let at = view.resolve(name)?;
    let found = match &at.checkpoint {
        Some((_, state)) => state.snapshot,
        None => view.files_at(&at)?.checkpoint.snapshot,
    };
    let snapshot = found.ok_or_else(|| {
        CommandError::failed(format!("{name:?} is not a checkpoint with files"))
            .with_hint("`abide saves` lists the checkpoints")
    })?;
    let bytes = objects.read(snapshot).map_err(abide::Error::from)?;
    let read = bytes.and_then(|bytes| Snapshot::read(&bytes).ok());
    read.map(|snapshot| snapshot.tree).ok_or_else(|| {
        let reason = "it is missing from the store or damaged".to_owned();
        abide::Error::Snapshot { hash: snapshot, reason }.into()
    })
}

fn letter(change: &ChangeKind) -> &'static str {
    match change {
        ChangeKind::Created => "A",
        ChangeKind::Deleted => "D",
        ChangeKind::Modified => "M",
        ChangeKind::ModeChanged => "m",
        ChangeKind::KindChanged => "T",
        ChangeKind::Renamed { .. } => "R",
    }
}

fn told(changed: &ChangedPath) -> String {
    let path = shown(&changed.path);
    match &changed.change {
        ChangeKind::Renamed { from } => format!("R  {} -> {path}", shown(from)),
        change => format!("{}  {path}", letter(change)),
    }
}

fn json(changed: &ChangedPath) -> String {
    let word = match &changed.change {
        ChangeKind::Created => "created",
        ChangeKind::Deleted => "deleted",
        ChangeKind::Modified => "modified",
        ChangeKind::ModeChanged => "mode_changed",
        ChangeKind::KindChanged => "kind_changed",
        ChangeKind::Renamed { .. } => "renamed",
    };
    let from = match &changed.change {
        ChangeKind::Renamed { from } => Some(String::from_utf8_lossy(from)),
        _ => None,
    };
    serde_json::json!({
        "path": String::from_utf8_lossy(&changed.path),
        "change": word,
        "from": from,
        "old_size": changed.old.as_ref().map(|entry| entry.size),
        "new_size": changed.new.as_ref().map(|entry| entry.size),
    })
    .to_string()
}

fn stats(
    out: &mut CommandOutput,
    changed: &[ChangedPath],
    objects: &dyn Objects,
) -> Result<(), CommandError> {
    let mut rows: Vec<(String, DiffStat)> = Vec::with_capacity(changed.len());
    for changed in changed {
        rows.push((told(changed), stat(objects, changed).map_err(abide::Error::from)?));
    }
    let widest = rows.iter().map(|(told, _)| told.chars().count()).max().unwrap_or(0);
    let most = rows.iter().map(|(_, stat)| stat.insertions + stat.deletions).max().unwrap_or(0);
    let room = terminal_width().unwrap_or(80).saturating_sub(widest + 12).clamp(8, 60) as u64;
    let (mut insertions, mut deletions) = (0, 0);
    for (told, stat) in &rows {
        let count = stat.insertions + stat.deletions;
        let scaled = |part: u64| {
            if most <= room { part } else { (part * room).div_ceil(most) }
        };
        let bar = |sign: &str, part: u64| sign.repeat(usize::try_from(scaled(part)).unwrap_or(0));
        let end = if stat.binary {
            "binary".to_owned()
        } else {
            format!("{count:>5} {}{}", bar("+", stat.insertions), bar("-", stat.deletions))
        };
        out.line(format_args!("{told:<widest$} | {end}"))?;
        insertions += stat.insertions;
        deletions += stat.deletions;
    }
    out.line(format_args!(
        "{} changed, {} added, {deletions} removed",
        noun_count(rows.len(), "file"),
        noun_count(insertions, "line")
    ))
}
