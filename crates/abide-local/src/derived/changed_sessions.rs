//! Marks of changed sessions: an empty file for each in `changed/`, named like the session's
//! directory.
//!
//! A writer creates the file before its first commit and again after it. The follower moves the
//! directory aside, reads the sessions it names, and removes it. The second creation is for a
//! follower that comes in between: the next one finds either the file or, in the journal, a writer
//! that has not closed, and checks the session again. Nothing here is synced; after a power cut a
//! follower does not rely on it.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_journal::{Access, Disk, Storage};

use crate::store_layout::{StoreLayout, short_of};

/// Marks a session as changed.
#[derive(Debug)]
pub(crate) struct ChangedMark {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    path: PathBuf,
    /// Removed if a mark cannot be created, so that a follower does not trust the marks.
    stamp: PathBuf,
    done: bool,
}

impl ChangedMark {
    pub(crate) fn new(storage: &Arc<dyn Storage>, layout: &StoreLayout, session: &Path) -> Self {
        let dir = layout.changed();
        let path = dir.join(session.file_name().unwrap_or_default());
        Self { storage: storage.clone(), dir, path, stamp: layout.index_stamp(), done: false }
    }

    /// Called before a change.
    pub(crate) fn before(&self) {
        if !self.done {
            self.make();
        }
    }

    /// Called after a change.
    pub(crate) fn after(&mut self) {
        if !std::mem::replace(&mut self.done, true) {
            self.make();
        }
    }

    /// A failure here must not stop recording.
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

/// The names of changed sessions, moved aside. They are returned again until they are [`done`].
///
/// [`done`]: ChangedSessions::done
#[derive(Debug)]
pub(crate) struct ChangedSessions {
    dir: PathBuf,
    /// All entries, whatever they are.
    entries: Vec<OsString>,
    /// An earlier follower took these and did not finish: there may be more.
    pub(crate) left_over: bool,
}

impl ChangedSessions {
    /// Takes the current names; `None` if there are none. Those that an earlier follower took and
    /// did not finish come first.
    pub(crate) fn next(layout: &StoreLayout) -> io::Result<Option<Self>> {
        let dir = layout.changed_taken();
        if let Some(entries) = list_changed(&dir)? {
            return Ok(Some(Self { dir, entries, left_over: true }));
        }
        match std::fs::rename(layout.changed(), &dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            renamed => renamed?,
        }
        let entries = list_changed(&dir)?.unwrap_or_default();
        Ok(Some(Self { dir, entries, left_over: false }))
    }

    /// The changed sessions.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.entries.iter().filter_map(|name| name.to_str());
        let mut names: Vec<String> =
            names.filter(|name| short_of(name).is_some()).map(str::to_owned).collect();
        names.sort_unstable();
        names
    }

    /// Removes the marks that were followed. A session that was marked meanwhile keeps its mark, and
    /// the directory stays.
    pub(crate) fn done(self) -> io::Result<()> {
        for name in &self.entries {
            let path = self.dir.join(name);
            match std::fs::symlink_metadata(&path) {
                Ok(entry) if entry.is_dir() => std::fs::remove_dir_all(&path)?,
                Ok(_) => std::fs::remove_file(&path)?,
                Err(_) => {}
            }
        }
        match std::fs::remove_dir(&self.dir) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => removed,
        }
    }
}

/// Marks sessions that could not be followed.
pub(crate) fn mark_changed(layout: &StoreLayout, names: &[String]) -> io::Result<()> {
    let dir = layout.changed();
    for name in names {
        Disk.make_dir(&dir)?;
        // Any existing entry is a mark: only its name counts.
        match Disk.open(&dir.join(name), Access::CreateNew) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The entries of a directory; `None` if it does not exist.
fn list_changed(dir: &Path) -> io::Result<Option<Vec<OsString>>> {
    match std::fs::read_dir(dir) {
        Ok(entries) => {
            entries.map(|entry| entry.map(|e| e.file_name())).collect::<io::Result<_>>().map(Some)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use abide_journal::Disk;

    use super::*;

    const NAME: &str = "2025-11-15T01-20-00-aaaaaa";
    const OTHER: &str = "2025-11-15T01-20-00-bbbbbb";

    fn marked(layout: &StoreLayout, name: &str) {
        let storage: Arc<dyn Storage> = Arc::new(Disk);
        let mut mark = ChangedMark::new(&storage, layout, Path::new(name));
        mark.before();
        mark.after();
    }

    /// A follower may be killed at any place between the two.
    #[test]
    fn what_was_taken_is_named_again_until_it_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let layout = StoreLayout { root: dir.path().to_owned() };
        assert!(ChangedSessions::next(&layout).unwrap().is_none());
        marked(&layout, NAME);
        drop(ChangedSessions::next(&layout).unwrap());
        marked(&layout, OTHER);
        let again = ChangedSessions::next(&layout).unwrap().unwrap();
        assert_eq!((again.names(), again.left_over), (vec![NAME.to_owned()], true));
        // Named once more while it is followed: into the directory that was moved aside.
        std::fs::write(layout.changed_taken().join(OTHER), b"").unwrap();
        again.done().unwrap();
        let late = ChangedSessions::next(&layout).unwrap().unwrap();
        assert_eq!((late.names(), late.left_over), (vec![OTHER.to_owned()], true));
        late.done().unwrap();
        let rest = ChangedSessions::next(&layout).unwrap().unwrap();
        assert_eq!((rest.names(), rest.left_over), (vec![OTHER.to_owned()], false));
        rest.done().unwrap();
        assert!(ChangedSessions::next(&layout).unwrap().is_none());
    }

    #[test]
    fn a_mark_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let layout = StoreLayout { root: dir.path().to_owned() };
        let outside = dir.path().join("precious");
        std::fs::write(&outside, "mine").unwrap();
        std::fs::create_dir(layout.changed()).unwrap();
        std::os::unix::fs::symlink(&outside, layout.changed().join(NAME)).unwrap();
        let missing = dir.path().join("missing");
        std::os::unix::fs::symlink(&missing, layout.changed().join(OTHER)).unwrap();
        mark_changed(&layout, &[NAME.to_owned(), OTHER.to_owned()]).unwrap();
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine");
        assert!(!missing.exists());
        assert_eq!(ChangedSessions::next(&layout).unwrap().unwrap().names(), [NAME, OTHER]);
    }

    #[test]
    fn a_mark_that_cannot_be_made_takes_the_stamp_away() {
        let dir = tempfile::tempdir().unwrap();
        let layout = StoreLayout { root: dir.path().to_owned() };
        std::fs::write(layout.changed(), b"a file").unwrap();
        std::fs::write(layout.index_stamp(), b"{}").unwrap();
        std::fs::write(layout.index_lock(), b"").unwrap();
        marked(&layout, NAME);
        assert!(!layout.index_stamp().exists() && layout.index_lock().exists());
    }
}
