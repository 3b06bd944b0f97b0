//! `abide checkpoint diff`: shows the changes between two checkpoints, or since one.

use std::sync::Arc;

use abide::workspace::{ChangeKind, ChangedPath, DiffStat, diff, stat, unified};
use abide::{SessionRef, SessionView, backend::Objects, checkpoint::Snapshot, event::ObjectHash};
use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, shown, terminal_width};
use crate::error::CommandError;
use crate::interrupt::interrupt_flag;
use crate::pager::PagedOutput;
use crate::progress;
use crate::scoped_store::ScopedStore;
use crate::session_args::{SessionOption, SessionPurpose};

/// Context lines around a change.
const CONTEXT: usize = 3;

/// Show what changed between two checkpoints, or between one and the files as they are now
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
    /// The checkpoint to compare with [default: the files as they are now]
    #[arg(value_name = "B")]
    to: Option<String>,
    /// How many lines came and went, by file
    #[arg(long, conflicts_with = "patch")]
    stat: bool,
    /// The lines themselves, as a patch
    #[arg(short, long)]
    patch: bool,
    /// Each changed file as a line of JSON
    #[arg(long, conflicts_with_all = ["stat", "patch"])]
    json: bool,
    #[command(flatten)]
    session: SessionOption,
}

impl CheckpointDiffArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::FilesHere, &opened, surroundings)?;
        let view = opened.store.view(&SessionRef::Id(id))?;
        let objects = opened.store.objects()?;
        let from = tree_of(&view, &self.from, &objects)?;
        let to = match &self.to {
            Some(to) => tree_of(&view, to, &objects)?,
            None => present(&opened, &view, &*objects)?,
        };
        let changed = diff(&*objects, Some(from), to, true).map_err(abide::Error::from)?;
        if self.patch {
            return patch(&changed, &*objects, surroundings);
        }
        let mut out = CommandOutput::stdout();
        if self.json {
            for changed in &changed {
                out.json(&json(changed))?;
            }
        } else if self.stat {
            stats(&mut out, &changed, &*objects)?;
        } else {
            for changed in &changed {
                out.line(told(changed))?;
            }
        }
        out.flush()
    }
}

/// The files of a checkpoint.
fn tree_of(
    view: &SessionView,
    name: &str,
    objects: &Arc<dyn Objects>,
) -> Result<ObjectHash, CommandError> {
    let at = view.resolve(name)?;
    let found = at.checkpoint.and_then(|(_, state)| state.snapshot);
    let snapshot = found.ok_or_else(|| {
        CommandError::failed(format!("{name:?} is not a checkpoint with files"))
            .with_hint("`abide checkpoint list` shows those that there are")
    })?;
    let bytes = objects.read(snapshot).map_err(abide::Error::from)?;
    let read = bytes.and_then(|bytes| Snapshot::read(&bytes).ok());
    read.map(|snapshot| snapshot.tree).ok_or_else(|| {
        let reason = "it is missing from the store or damaged".to_owned();
        abide::Error::Snapshot { hash: snapshot, reason }.into()
    })
}

/// The current files.
fn present(
    opened: &ScopedStore,
    view: &SessionView,
    objects: &dyn Objects,
) -> Result<ObjectHash, CommandError> {
    let root = opened.store.workspace_root(view.id(), &view.state()?.core.fields)?;
    let workspace = opened.store.workspace(&root)?;
    let (watch, _line) = progress::capturing_progress(interrupt_flag()?);
    let taken = workspace.snapshot(objects, &watch).map_err(abide::Error::from)?;
    Ok(taken.snapshot.tree)
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
        "{} files changed, {insertions} lines came, {deletions} went",
        rows.len()
    ))
}

fn patch(
    changed: &[ChangedPath],
    objects: &dyn Objects,
    surroundings: &CommandContext,
) -> Result<(), CommandError> {
    let mut out = CommandOutput::stdout();
    if !out.is_terminal() {
        // Byte for byte, so that the patch applies.
        for changed in changed {
            let text = unified(objects, changed, CONTEXT).map_err(abide::Error::from)?.text;
            out.bytes(&text)?;
        }
        return out.flush();
    }
    let mut paged = PagedOutput::start(surroundings.pager.as_deref());
    for changed in changed {
        let text = unified(objects, changed, CONTEXT).map_err(abide::Error::from)?.text;
        for line in String::from_utf8_lossy(&text).lines() {
            let line = coloured(&escape::text(line), surroundings.colours);
            if !paged.write(&format!("{line}\n"))? {
                return paged.finish();
            }
        }
    }
    paged.finish()
}

fn coloured(line: &str, colours: bool) -> String {
    let code = match line.as_bytes().first() {
        _ if !colours => None,
        Some(b'+') if !line.starts_with("+++") => Some("32"),
        Some(b'-') if !line.starts_with("---") => Some("31"),
        Some(b'@') => Some("36"),
        Some(b'd') if line.starts_with("diff ") => Some("1"),
        _ => None,
    };
    code.map_or_else(|| line.to_owned(), |code| format!("\x1b[{code}m{line}\x1b[0m"))
}
