//! Creates the directories above a store, private to the user and durable.

use std::io::ErrorKind;
use std::path::Path;

use abide_journal::{Disk, Storage};
use abide_model::StoreError;

use crate::error::storage_error;

/// Creates the missing directories above a store and makes them durable: if a power cut took one
/// away, the store and everything acknowledged would be lost with it.
///
/// # Errors
///
/// One of them cannot be created.
pub fn make_parents(root: &Path) -> Result<(), StoreError> {
    let Some(parent) = root.parent() else { return Ok(()) };
    make_parent(&Disk, parent)?;
    if !root.join("config.toml").is_file() {
        // An existing directory may have been created a moment ago by a process that has not synced
        // it. Not every ancestor can be opened, and one that has existed for long need not be
        // synced.
        parent.ancestors().for_each(|dir| drop(Disk.sync_dir(dir)));
    }
    Ok(())
}

fn make_parent(storage: &dyn Storage, dir: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    let above = dir.parent();
    match (storage.make_dir(dir), above) {
        (Err(error), Some(above)) if error.kind() == ErrorKind::NotFound => {
            make_parent(storage, above)?;
            storage.make_dir(dir).map_err(storage_error("create", dir))?;
        }
        (made, _) => made.map_err(storage_error("create", dir))?,
    }
    let Some(above) = above else { return Ok(()) };
    storage.sync_dir(above).map_err(storage_error("sync", above))
}
