//! Finds a checkpoint that the user names, its snapshot, and what has changed since.

use abide::{
    SessionView,
    backend::Objects,
    checkpoint::{CheckpointEntry, FileChanges, Snapshot, Trigger},
    event::ObjectHash,
};

use crate::error::CommandError;
use crate::interrupt::interrupt_flag;
use crate::progress;
use crate::scoped_store::ScopedStore;

/// The checkpoint with this number, label or id; without a name the newest.
pub(crate) fn find_checkpoint(
    view: &SessionView,
    name: Option<&str>,
) -> Result<CheckpointEntry, CommandError> {
    let all = view.all_checkpoints()?;
    let entry = match name {
        Some(name) => {
            let at = view.resolve(name)?;
            all.into_iter().find(|entry| entry.seq == at.seq)
        }
        None => all.into_iter().rfind(|entry| entry.live && !entry.thinned),
    };
    entry.ok_or_else(|| {
        CommandError::failed("there is no such checkpoint")
            .with_hint("`abide saves` lists the checkpoints")
    })
}

/// Was a checkpoint made by a rewind or an undo, of what it was about to change?
pub(crate) fn is_safety_checkpoint(entry: &CheckpointEntry) -> bool {
    entry.checkpoint.trigger == Trigger::Rewind.as_str() && entry.checkpoint.label.is_none()
}

/// The snapshot of a checkpoint.
pub(crate) fn snapshot_of(
    entry: &CheckpointEntry,
    objects: &dyn Objects,
) -> Result<Snapshot, CommandError> {
    let number = entry.number;
    let Some(hash) = entry.checkpoint.snapshot else {
        return Err(CommandError::failed(format!("checkpoint {number} was made without files"))
            .with_hint("`abide checkpoint list` shows how many files each has"));
    };
    let bytes = objects.read(hash).map_err(abide::Error::from)?;
    let read = bytes.and_then(|bytes| Snapshot::read(&bytes).ok());
    read.ok_or_else(|| {
        if entry.thinned {
            return CommandError::failed(format!(
                "retention has deleted the files of checkpoint {number}"
            ));
        }
        let reason = "it is missing from the store or damaged".to_owned();
        abide::Error::Snapshot { hash, reason }.into()
    })
}

/// The current files.
pub(crate) fn present_tree(
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

/// How files differ: `+2 ~1 -0`.
pub(crate) fn changes_text(changes: &FileChanges) -> String {
    format!("+{} ~{} -{}", changes.added, changes.changed, changes.removed)
}
