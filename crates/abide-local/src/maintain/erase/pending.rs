//! The file `erasing`: one line for each erasure in progress, until it is complete. It is durable
//! before anything is erased.

use abide_journal::{Access, read_full, write_full};
use abide_maintain::PendingErasure;
use abide_model::StoreError;

use crate::error::storage_error;
use crate::maintain::erase::Eraser;
use crate::store_layout::layout_path_text;

impl Eraser<'_> {
    /// Whether an erasure is in progress or was interrupted.
    pub fn is_erasing(&self) -> bool {
        self.store.storage().open(&self.store.layout().erasing(), Access::Read).is_ok()
    }

    pub(crate) fn read_pending(&self) -> Result<Vec<PendingErasure>, StoreError> {
        let path = self.store.layout().erasing();
        let file = match self.store.storage().open(&path, Access::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file.map_err(storage_error("open", &path))?,
        };
        let len = file.len().map_err(storage_error("read", &path))?;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let read = read_full(&*file, &mut bytes, 0).map_err(storage_error("read", &path))?;
        bytes.truncate(read);
        let entries = serde_json::Deserializer::from_slice(&bytes).into_iter();
        entries.collect::<Result<_, _>>().map_err(|error| StoreError::Damaged {
            place: layout_path_text(&path),
            reason: error.to_string(),
        })
    }

    pub(crate) fn add_pending(&self, unfinished: &PendingErasure) -> Result<(), StoreError> {
        let mut all = self.read_pending()?;
        if !all.contains(unfinished) {
            all.push(unfinished.clone());
        }
        self.write_pending(&all)
    }

    pub(crate) fn forget_pending(&self, unfinished: &PendingErasure) -> Result<(), StoreError> {
        let mut left = self.read_pending()?;
        left.retain(|one| one != unfinished);
        if !left.is_empty() {
            return self.write_pending(&left);
        }
        let path = self.store.layout().erasing();
        self.store.storage().remove(&path).map_err(storage_error("remove", &path))
    }

    fn write_pending(&self, all: &[PendingErasure]) -> Result<(), StoreError> {
        let storage = &**self.store.storage();
        let path = self.store.layout().erasing();
        let temporary = path.with_extension("tmp");
        let file = storage
            .open(&temporary, Access::Create)
            .map_err(storage_error("create", &temporary))?;
        let mut bytes = Vec::new();
        for one in all {
            bytes.extend(serde_json::to_vec(one).unwrap_or_default());
            bytes.push(b'\n');
        }
        let written = file.truncate(0).and_then(|()| write_full(&*file, &bytes, 0));
        written.and_then(|()| file.sync()).map_err(storage_error("write", &temporary))?;
        storage.rename(&temporary, &path).map_err(storage_error("write", &path))?;
        storage.sync_dir(self.store.root()).map_err(storage_error("sync", self.store.root()))
    }
}
