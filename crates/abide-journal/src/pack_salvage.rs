//! Salvage: copies what is readable in a damaged pack to a new pack.

use std::sync::Arc;

use crate::pack_index::PackIndex;
use crate::packs::each_whole_block;
use crate::{Access, JournalError, PackWriter, Packs, read_full};

impl Packs {
    /// Copies every whole block of a pack into a new one and removes the pack. Returns how many
    /// objects were kept. The caller holds [`Packs::lock_for_collection`] and has a copy of the
    /// pack.
    pub fn salvage(self: &Arc<Self>, number: u64) -> Result<u64, JournalError> {
        let path = self.path(number);
        let read = |error| JournalError::io("read", &path)(error);
        let file =
            self.storage.open(&path, Access::Read).map_err(JournalError::io("open", &path))?;
        let writer = PackWriter::beginning_a_pack(self.clone());
        let mut objects = 0;
        let mut copied = Ok(());
        each_whole_block(&*file, &mut |offset, block| {
            let copy = || -> Result<(), JournalError> {
                let mut bytes = vec![0; usize::try_from(block.size()).unwrap_or(0)];
                read_full(&*file, &mut bytes, offset).map_err(read)?;
                writer.write(&bytes, &mut block.rows.iter().map(|row| row.hash)).map(|_| ())
            };
            if copied.is_ok() {
                copied = copy();
                objects += block.rows.len() as u64;
            }
        })
        .map_err(read)?;
        copied?;
        writer.sync()?;
        PackIndex::remove(&*self.storage, &path).map_err(JournalError::io("remove", &path))?;
        self.storage.remove(&path).map_err(JournalError::io("remove", &path))?;
        self.storage.sync_dir(&self.dir).map_err(JournalError::io("sync", &self.dir))?;
        self.forget()?;
        Ok(objects)
    }

    /// The pack number in this file name; `None` if it does not name a pack.
    #[must_use]
    pub fn number_of(path: &std::path::Path) -> Option<u64> {
        let name = path.file_name()?.to_str()?;
        crate::packs::pack_number(name, ".pack")
    }
}
