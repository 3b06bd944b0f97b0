//! Finds the directories of a store's sessions.

use std::sync::Arc;

use abide_journal::{Journal, JournalError, JournalIdentity, Storage, Watermark};
use abide_model::SessionId;

use crate::store_layout::{LINK, SessionLayout, StoreLayout, session_name, short_of};

/// The directory of a store's sessions.
#[derive(Debug, Clone)]
pub(crate) struct SessionDirectory {
    storage: Arc<dyn Storage>,
    layout: StoreLayout,
}

impl SessionDirectory {
    pub(crate) const fn new(storage: Arc<dyn Storage>, layout: StoreLayout) -> Self {
        Self { storage, layout }
    }

    /// Which session a directory belongs to. Only a missing one counts as never created; anything
    /// else that keeps it from being read is an error, and so is a symlink that leads out of the
    /// store.
    pub(crate) fn identify(&self, layout: &SessionLayout) -> Result<JournalIdentity, JournalError> {
        let dirs = [layout.dir.clone(), layout.journal(), layout.state()];
        if let Some(path) = dirs.into_iter().find(|dir| dir.is_symlink()) {
            return Err(JournalError::Damaged { path, offset: 0, reason: LINK.to_owned() });
        }
        let journal = Journal::new(self.storage.clone(), layout.journal());
        let mark = Watermark::read(&*self.storage, &layout.watermark())?;
        if let Some(mark) = mark
            && let Ok(Some(header)) = journal.header(mark.segment)
        {
            return Ok(JournalIdentity::Known(header.session));
        }
        match journal.identify() {
            Err(JournalError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                Ok(if mark.is_some() { JournalIdentity::Unknown } else { JournalIdentity::Empty })
            }
            // A session that lost all its events is not one that was never created.
            Ok(JournalIdentity::Empty) if mark.is_some() => Ok(JournalIdentity::Unknown),
            identity => identity,
        }
    }

    /// The directory of a session; `None` if it is not in the store.
    pub(crate) fn find(&self, id: SessionId) -> Result<Option<SessionLayout>, JournalError> {
        for short in SessionId::SHORT..=12 {
            let layout = self.layout.session(&session_name(id, short));
            match self.identify(&layout)? {
                JournalIdentity::Known(other) if other != id => {}
                // It is this session, or the name fits and nothing says otherwise.
                JournalIdentity::Known(_) | JournalIdentity::Unknown => return Ok(Some(layout)),
                JournalIdentity::Empty => break,
            }
        }
        Ok(None)
    }

    /// Every session whose id can be read.
    pub(crate) fn all(&self) -> Result<Vec<(SessionId, SessionLayout)>, JournalError> {
        let dir = self.layout.sessions();
        let names = self.storage.list(&dir).map_err(JournalError::io("list", &dir))?;
        let mut all = Vec::new();
        for name in names.iter().filter(|name| short_of(name).is_some()) {
            let layout = self.layout.session(name);
            if let Ok(JournalIdentity::Known(id)) = self.identify(&layout) {
                all.push((id, layout));
            }
        }
        Ok(all)
    }
}
