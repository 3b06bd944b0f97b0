//! Deletes one session on request.
//!
//! The session is removed as a cleanup does it, under the same lock and conditions: not while a
//! writer has it open, and not while another session is, or may be, a fork of it.

use abide_journal::Identity;
use abide_model::{DeleteError, SessionId, StoreError};

use crate::cleanup::INDEX_PART;
use crate::error::store_error;
use crate::layout::shown;
use crate::store::LocalStore;

impl LocalStore {
    /// Deletes a session permanently: its journal and derived files, its key, and its entry in the
    /// index. Objects that only it names are removed by the next collection. Errors after the
    /// session is gone are returned as notes.
    pub fn delete_session(&self, session: SessionId) -> Result<Vec<String>, DeleteError> {
        // Keeps forks from being created and cleanups from running.
        let _lock = self.hold_cleanup()?;
        let layout = self.layout_of(session)?;
        if let Some(fork) = self.fork_of(session)? {
            return Err(DeleteError::Forked { session, fork });
        }
        let count = self.unsorted_names()?.len();
        let last = self.reader_at(session, &layout).last().map_err(store_error)?;
        let mut notes = Vec::new();
        self.remove_session(session, last, &mut notes)?;
        // Only a rebuild removes words from the index that no session has any more.
        let settled =
            if INDEX_PART >= count { self.drop_index().map(drop) } else { self.update_index() };
        if let Err(error) = settled {
            notes.push(format!("the index still contains session {session}: {error}"));
        }
        Ok(notes)
    }

    /// A fork of a session; an error if one that may be a fork cannot be read.
    fn fork_of(&self, session: SessionId) -> Result<Option<SessionId>, StoreError> {
        for name in self.names()? {
            let layout = self.layout().session(&name);
            let doubt = |reason: &str| StoreError::Damaged {
                place: shown(&layout.dir),
                reason: format!("{reason}; it may be a fork of session {session}"),
            };
            let id = match self.identify(&layout).map_err(store_error)? {
                Identity::Known(id) => id,
                Identity::Empty => continue,
                Identity::Unknown => return Err(doubt("no segment names the session")),
            };
            let reader = self.reader_at(id, &layout);
            if id == session || !reader.journal().origin().map_err(store_error)?.is_fork() {
                continue;
            }
            let link = reader.past().map_err(store_error)?.link();
            let parent = link.ok_or_else(|| doubt("its parent cannot be read"))?;
            if parent.session == session {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }
}
