//! The directory of a session.

use std::path::PathBuf;

use abide_model::{SessionId, StoreError};

use crate::LocalStore;

impl LocalStore {
    /// The directory of a session.
    ///
    /// # Errors
    ///
    /// There is no such session, or the store cannot be read.
    pub fn session_dir(&self, id: SessionId) -> Result<PathBuf, StoreError> {
        Ok(self.layout_of(id)?.dir)
    }
}
