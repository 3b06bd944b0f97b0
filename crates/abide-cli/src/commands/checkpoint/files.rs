//! `abide checkpoint files`: lists the files of a checkpoint.

use abide::workspace::{ChangedPath, EntryKind, diff};
use abide::{SessionRef, maintenance::ByteSize};

use crate::checkpoint_lookup::{find_checkpoint, snapshot_of};
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, shown, status};
use crate::error::CommandError;
use crate::noun_count::noun_count;
use crate::session_args::{SessionOption, SessionPurpose};

/// List the files of a checkpoint, with their modes and sizes
///
/// Each line has the type and the mode, the size in bytes, and the path. Directories are listed only
/// if they are empty.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide checkpoint files 3
  abide checkpoint files 3 --json | jq -r 'select(.size > 1000000).path'")]
pub(crate) struct CheckpointFilesArgs {
    /// The checkpoint: its number, its label or its id [default: the newest]
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: Option<String>,
    #[command(flatten)]
    session: SessionOption,
    /// Print each file as a line of JSON
    #[arg(long)]
    json: bool,
}

/// A file as a line of JSON.
#[derive(serde::Serialize)]
struct ListedFile<'a> {
    path: std::borrow::Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    mode: String,
    size: u64,
    hash: String,
}

impl CheckpointFilesArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::FilesNear, &opened, surroundings)?;
        let view = opened.store.view(&SessionRef::Id(id))?;
        let entry = find_checkpoint(&view, self.checkpoint.as_deref())?;
        let objects = opened.store.objects()?;
        let snapshot = snapshot_of(&entry, &*objects)?;
        let files = diff(&*objects, None, snapshot.tree, false).map_err(abide::Error::from)?;
        let mut out = CommandOutput::stdout();
        for file in &files {
            match (self.json, &file.new) {
                (_, None) => {}
                (true, Some(_)) => out.json(&json(file))?,
                (false, Some(entry)) => {
                    let (kind, path) = (letter(entry.kind), shown(&file.path));
                    out.line(format_args!("{kind}{:04o} {:>12} {path}", entry.mode, entry.size))?;
                }
            }
        }
        out.flush()?;
        if !self.json {
            let (files, bytes) = (noun_count(snapshot.files, "file"), ByteSize(snapshot.bytes));
            status(format_args!("Checkpoint {}: {files}, {bytes}", entry.number));
        }
        Ok(())
    }
}

const fn letter(kind: EntryKind) -> char {
    match kind {
        EntryKind::File | EntryKind::Large => '-',
        EntryKind::Link => 'l',
        EntryKind::Directory => 'd',
    }
}

fn json(file: &ChangedPath) -> String {
    let Some(entry) = &file.new else { return String::new() };
    let kind = match entry.kind {
        EntryKind::File | EntryKind::Large => "file",
        EntryKind::Link => "link",
        EntryKind::Directory => "directory",
    };
    let listed = ListedFile {
        path: String::from_utf8_lossy(&file.path),
        kind,
        mode: format!("{:04o}", entry.mode),
        size: entry.size,
        hash: entry.hash.to_string(),
    };
    serde_json::to_string(&listed).unwrap_or_default()
}
