//! Deleting one session because somebody wants to be rid of it.
//!
//! It goes as a cleanup removes one, under the same lock, and stays where a cleanup would let it
//! stay: while a writer has it, and while another session is a fork of it or may be one.

use abide_journal::Identity;
use abide_model::{DeleteError, SessionId, StoreError};

use crate::cleanup::INDEX_PART;
use crate::error::store_error;
use crate::layout::shown;
use crate::store::LocalStore;

impl LocalStore {
    /// Deletes a session for good: its journal with all that is derived from it, its key, and its
    /// entry in the index. Objects that it alone names go with the next collection. What could not
    /// be tidied up after it was gone is a note.
    pub fn delete_session(&self, session: SessionId) -> Result<Vec<String>, DeleteError> {
        // No fork is made meanwhile, and no cleanup runs.
        let _lock = self.hold_cleanup()?;
        let layout = self.layout_of(session)?;
        if let Some(fork) = self.fork_of(session)? {
            return Err(DeleteError::Forked { session, fork });
        }
        let count = self.unsorted_names()?.len();
        let last = self.reader_at(session, &layout).last().map_err(store_error)?;
        let mut notes = Vec::new();
        self.remove_session(session, last, &mut notes)?;
        // Of words that no session has any more an index is not rid but by being made anew.
        let settled =
            if INDEX_PART >= count { self.drop_index().map(drop) } else { self.update_index() };
        if let Err(error) = settled {
            notes.push(format!("the index still has session {session}: {error}"));
        }
        Ok(notes)
    }

    /// A fork of a session; an error where one cannot be read that may be.
    fn fork_of(&self, session: SessionId) -> Result<Option<SessionId>, StoreError> {
        for name in self.names()? {
            let layout = self.layout().session(&name);
            let doubt = |reason: &str| StoreError::Damaged {
                place: shown(&layout.dir),
                reason: format!("{reason}, and it may be a fork of session {session}"),
            };
            let id = match self.identify(&layout).map_err(store_error)? {
                Identity::Known(id) => id,
                Identity::Empty => continue,
                Identity::Unknown => return Err(doubt("no segment tells which session it is")),
            };
            let reader = self.reader_at(id, &layout);
            if id == session || !reader.journal().origin().map_err(store_error)?.is_fork() {
                continue;
            }
            let link = reader.past().map_err(store_error)?.link();
            let parent = link.ok_or_else(|| doubt("where it comes from cannot be read"))?;
            if parent.session == session {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }
}
