//! The directories above a store, made for the user alone and durable.

use std::io::ErrorKind;
use std::path::Path;

use abide_journal::{Disk, Storage};
use abide_model::StoreError;

use crate::error::storage_error;

/// Makes the directories above a store that are missing, durable: a store whose directory a power cut
/// takes away is gone with all that was acknowledged.
///
/// # Errors
///
/// One of them cannot be made.
pub fn make_parents(root: &Path) -> Result<(), StoreError> {
    let Some(parent) = root.parent() else { return Ok(()) };
    make(&Disk, parent)?;
    if !root.join("config.toml").is_file() {
        // What is there may have been made a moment ago by somebody who is not done. Not every
        // directory above can be opened, and one that was there for long need not be.
        parent.ancestors().for_each(|dir| drop(Disk.sync_dir(dir)));
    }
    Ok(())
}

fn make(storage: &dyn Storage, dir: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    let above = dir.parent();
    match (storage.make_dir(dir), above) {
        (Err(error), Some(above)) if error.kind() == ErrorKind::NotFound => {
            make(storage, above)?;
            storage.make_dir(dir).map_err(storage_error("create", dir))?;
        }
        (made, _) => made.map_err(storage_error("create", dir))?,
    }
    let Some(above) = above else { return Ok(()) };
    storage.sync_dir(above).map_err(storage_error("sync", above))
}
