//! Which sessions have changed: a file of no bytes for each, named as the session, in `changed/`.
//!
//! A writer makes the file before its first commit and again after it; whoever follows the
//! journals moves the directory aside, reads the sessions it names, and then removes it. The
//! second making is for the follower that comes between: by then it either finds the file or, in
//! the journal, a writer that has not closed, and looks again the next time. Nothing here is synced:
//! after a power cut a follower does not go by it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_journal::{Access, Storage};

use crate::layout::{StoreLayout, short_of};

/// Says that a session has changed.
#[derive(Debug)]
pub(crate) struct ChangedMark {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    path: PathBuf,
    /// What is removed where a mark cannot be made, so that a follower does not trust the marks.
    stamp: PathBuf,
    done: bool,
}

impl ChangedMark {
    pub(crate) fn new(storage: &Arc<dyn Storage>, layout: &StoreLayout, session: &Path) -> Self {
        let dir = layout.changed();
        let path = dir.join(session.file_name().unwrap_or_default());
        Self { storage: storage.clone(), dir, path, stamp: layout.index_lock(), done: false }
    }

    /// Before a commit.
    pub(crate) fn before(&self) {
        if !self.done {
            self.make();
        }
    }

    /// After a commit.
    pub(crate) fn after(&mut self) {
        if !std::mem::replace(&mut self.done, true) {
            self.make();
        }
    }

    /// Recording goes on whatever becomes of this.
    fn make(&self) {
        let make = || self.storage.open(&self.path, Access::Create).map(|_| ());
        let made = make().or_else(|_| {
            self.storage.make_dir(&self.dir)?;
            make()
        });
        if made.is_err() {
            let _ = self.storage.remove(&self.stamp);
        }
    }
}

/// The names of changed sessions, moved aside. They are named again until they are [`done`].
///
/// [`done`]: Taken::done
#[derive(Debug)]
pub(crate) struct Taken {
    dir: PathBuf,
    pub(crate) names: Vec<String>,
}

impl Taken {
    /// Takes the names that are there; `None` when there are none. What an earlier follower took
    /// and did not get done comes first.
    pub(crate) fn next(layout: &StoreLayout) -> std::io::Result<Option<Self>> {
        let dir = layout.changed_taken();
        if let Some(names) = list(&dir)? {
            return Ok(Some(Self { dir, names }));
        }
        match std::fs::rename(layout.changed(), &dir) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        let names = list(&dir)?.unwrap_or_default();
        if names.is_empty() {
            Self { dir, names }.done();
            return Ok(None);
        }
        Ok(Some(Self { dir, names }))
    }

    /// They are followed. One that was named meanwhile stays, and so does the directory.
    pub(crate) fn done(self) {
        for name in &self.names {
            let _ = std::fs::remove_file(self.dir.join(name));
        }
        let _ = std::fs::remove_dir(&self.dir);
    }
}

/// The names in a directory that can be sessions'; `None` when it is not there or has none.
fn list(dir: &Path) -> std::io::Result<Option<Vec<String>>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string().ok().filter(|name| short_of(name).is_some()));
    }
    names.sort_unstable();
    Ok((!names.is_empty()).then_some(names))
}
