//! Sessions whose files were last in another clone of their project, on this machine or another.
//!
//! Each machine notes up to which event its clone has the files of a session. A path is not enough,
//! since two machines may have clones at the same path. If the note is missing, or something newer
//! was recorded elsewhere, the files must be fetched.

use std::io::{self, ErrorKind};
use std::path::Path;

use abide_local::{Access, Disk, Storage, write_full};
use abide_model::Seq;
use serde::{Deserialize, Serialize};

use crate::{
    Error, Session,
    checkpoint::{CheckpointEntry, Trigger},
};

/// Which files of a session this machine has.
#[derive(Debug, Serialize, Deserialize)]
struct FilesNote {
    root: String,
    seq: Seq,
}

impl Session {
    /// The checkpoint that the session continues from, if this clone of its project does not have
    /// its files. `None` if the session's files are at its recorded path.
    pub fn files_elsewhere(&self) -> Result<Option<CheckpointEntry>, Error> {
        if self.store().workspace_here(self.id())?.is_none() {
            return Ok(None);
        }
        let core = self.core()?;
        let root = self.store().workspace_root(self.id(), &core.fields)?;
        let entries = self.view().checkpoints()?;
        let with_files = |entry: &&CheckpointEntry| entry.checkpoint.snapshot.is_some();
        // The state saved before a rewind is not what the session continues from.
        let made = |entry: &&CheckpointEntry| entry.checkpoint.trigger != Trigger::Rewind.as_str();
        let last = entries.iter().rev().filter(with_files).find(made);
        let after = |seq: &Seq| last.is_none_or(|last| last.seq < *seq);
        let rewound = core.last_rewind.filter(after);
        let rewound = rewound.map(|seq| Ok::<_, Error>((seq, self.rewind_at(seq)?))).transpose()?;
        // A rewind of single files leaves the others alone.
        let rewound = rewound.filter(|(_, rewind)| rewind.files && rewind.paths.is_empty());
        let (seq, entry) = match (rewound, last) {
            (Some((seq, rewind)), _) => {
                let all = self.view().all_checkpoints()?;
                let goal = rewind.snapshot;
                let fits = |entry: &CheckpointEntry| entry.checkpoint.snapshot == goal;
                (seq, all.into_iter().rev().find(fits).or_else(|| last.cloned()))
            }
            (None, Some(last)) => (last.seq, Some(last.clone())),
            (None, None) => return Ok(None),
        };
        Ok(entry.filter(|_| !self.has_files(&root, seq)))
    }

    fn has_files(&self, root: &Path, seq: Seq) -> bool {
        let Ok(path) = self.store().files_note(self.id()) else { return false };
        let noted: Option<FilesNote> =
            std::fs::read(path).ok().and_then(|noted| serde_json::from_slice(&noted).ok());
        noted.is_some_and(|noted| Path::new(&noted.root) == root && noted.seq >= seq)
    }

    /// Notes that this clone has the files of the session as of an event.
    pub fn note_files(&self, seq: Seq) -> Result<(), Error> {
        if self.store().workspace_here(self.id())?.is_none() {
            return Ok(());
        }
        let root = self.store().workspace_root(self.id(), &self.core()?.fields)?;
        let note = FilesNote { root: root.to_string_lossy().into_owned(), seq };
        let path = self.store().files_note(self.id())?;
        let temporary = path.with_extension("files.new");
        let written = write_note_anew(&temporary, &serde_json::to_vec(&note).unwrap_or_default());
        let placed = written.and_then(|()| std::fs::rename(&temporary, &path));
        placed.map_err(Error::file("write", &path))
    }
}

/// Creates a file. An existing one is removed first, so links are not followed.
fn write_note_anew(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match Disk.remove(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = Disk.open(path, Access::CreateNew)?;
    write_full(&*file, bytes, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_new_is_written_through_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let (outside, path) = (dir.path().join("precious"), dir.path().join("note.new"));
        std::fs::write(&outside, "mine").unwrap();
        std::os::unix::fs::symlink(&outside, &path).unwrap();
        write_note_anew(&path, b"noted").unwrap();
        write_note_anew(&path, b"noted again").unwrap();
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "noted again");
        assert!(!path.is_symlink());
    }
}
