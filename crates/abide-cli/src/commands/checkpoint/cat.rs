//! `abide checkpoint cat`: writes a file of a checkpoint to stdout.

use abide::workspace::{EntryKind, ReadError, TreeEntry, content_objects, diff, find_entry};
use abide::{
    SessionRef,
    backend::Objects,
    checkpoint::{CheckpointEntry, Snapshot},
    event::ObjectHash,
    locate::near_names,
};
use abide_transcript::escape;

use crate::checkpoint_lookup::{find_checkpoint, snapshot_of};
use crate::command_context::CommandContext;
use crate::command_output::CommandOutput;
use crate::error::CommandError;
use crate::session_args::{SessionOption, SessionPurpose};

/// Print a file as it was at a checkpoint, byte for byte
///
/// For a symbolic link, its target is printed. Binary data is not written to a terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide checkpoint cat 3 src/main.rs
  abide checkpoint cat \"tests pass\" app.db > old.db")]
pub(crate) struct CheckpointCatArgs {
    /// The checkpoint: its number, its label or its id
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: String,
    /// The file, relative to the workspace
    #[arg(value_name = "PATH")]
    path: String,
    #[command(flatten)]
    session: SessionOption,
    /// Write binary data to a terminal too
    #[arg(long)]
    force: bool,
}

impl CheckpointCatArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::FilesNear, &opened, surroundings)?;
        let view = opened.store.view(&SessionRef::Id(id))?;
        let checkpoint = find_checkpoint(&view, Some(&self.checkpoint))?;
        let objects = opened.store.objects()?;
        let snapshot = snapshot_of(&checkpoint, &*objects)?;
        let path = self.relative(&checkpoint);
        let found = find_entry(&*objects, snapshot.tree, path.as_bytes());
        let Some(entry) = found.map_err(abide::Error::from)? else {
            return Err(missing(&checkpoint, &snapshot, &path, &*objects));
        };
        if entry.kind == EntryKind::Directory {
            let number = checkpoint.number;
            return Err(CommandError::failed(format!("{:?} is a directory", self.path))
                .with_hint(format!("`abide checkpoint files {number}` lists its files")));
        }
        self.write(&entry, &*objects)
    }

    /// The path below the workspace, however it was typed.
    fn relative(&self, checkpoint: &CheckpointEntry) -> String {
        let root = checkpoint.checkpoint.workspace.as_ref().map(|counts| counts.root.as_str());
        let below = root.and_then(|root| self.path.strip_prefix(root)?.strip_prefix('/'));
        let path = below.unwrap_or(&self.path);
        let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
        parts.collect::<Vec<_>>().join("/")
    }

    fn write(&self, entry: &TreeEntry, objects: &dyn Objects) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        let parts = content_objects(objects, entry).map_err(abide::Error::from)?;
        let read = |hash: ObjectHash| -> Result<Vec<u8>, CommandError> {
            let bytes = objects.read(hash).map_err(abide::Error::from)?;
            Ok(bytes.ok_or_else(|| abide::Error::from(ReadError::Missing(hash)))?)
        };
        if out.is_terminal() && !self.force {
            for hash in &parts {
                if is_binary(&read(*hash)?) {
                    return Err(CommandError::failed(format!("{:?} is binary", self.path))
                        .with_hint("`--force` writes it to the terminal; `> FILE` to a file"));
                }
            }
        }
        for hash in parts {
            out.bytes(&read(hash)?)?;
        }
        out.flush()
    }
}

/// Does it hold what is not text? A control character may do anything to a terminal. A letter may be
/// cut at either end, since a large file is held in parts.
fn is_binary(bytes: &[u8]) -> bool {
    let is_cut = |byte: &u8| (0x80..0xc0).contains(byte);
    let cut = bytes.iter().take(3).take_while(|byte| is_cut(byte)).count();
    let whole = bytes.get(cut..).unwrap_or_default();
    let text = match std::str::from_utf8(whole) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            let valid = whole.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(valid).unwrap_or_default()
        }
        Err(_) => return true,
    };
    text.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\x0c'))
}

fn missing(
    checkpoint: &CheckpointEntry,
    snapshot: &Snapshot,
    path: &str,
    objects: &dyn Objects,
) -> CommandError {
    let number = checkpoint.number;
    let error = CommandError::failed(format!("there is no {path:?} in checkpoint {number}"));
    let omitted = snapshot.omitted.iter().find(|omission| omission.path == path);
    if let Some(omission) = omitted {
        return error.with_hint(format!("it was left out: {}", omission.reason));
    }
    let files = diff(objects, None, snapshot.tree, false).unwrap_or_default();
    let names: Vec<String> =
        files.iter().map(|file| String::from_utf8_lossy(&file.path).into_owned()).collect();
    let near = near_names(path, names.iter().map(String::as_str));
    if near.is_empty() {
        return error.with_hint(format!("`abide checkpoint files {number}` lists its files"));
    }
    let near: Vec<_> = near.into_iter().map(|name| escape::text(name).into_owned()).collect();
    error.with_hint(format!("similar paths: {}", near.join(", ")))
}
