//! Recovers the end of a session and makes it durable, without opening a writer.

use abide_journal::{Appender, Journal, SegmentForm, StorageLock, Watermark};
use abide_model::{SessionId, StoreError};

use crate::error::{storage_error, store_error};
use crate::sessions::local_store::LocalStore;
use crate::sessions::recovery;
use crate::sessions::session_ancestry::MissingParentPolicy;
use crate::store_layout::SessionLayout;

/// Keeps a session locked.
pub(crate) struct SessionHold {
    _lock: Option<Box<dyn StorageLock>>,
    _appender: Option<Appender>,
}

/// Recovers the end of a session and makes all of it durable, as a writer does before it
/// appends. The lock is held until the returned value is dropped.
pub(crate) fn settle_session(
    store: &LocalStore,
    id: SessionId,
    layout: &SessionLayout,
    lock: Box<dyn StorageLock>,
) -> Result<SessionHold, StoreError> {
    let storage = store.storage();
    let mut look =
        store.reader_at(id, layout).look(MissingParentPolicy::PassOver).map_err(store_error)?;
    let names = vec![layout.journal(), layout.dir.clone(), store.sessions_dir()];
    if look.segments.last().is_some_and(|last| last.form == SegmentForm::Sealed) {
        // It was made durable before it was sealed.
        for dir in names {
            storage.sync_dir(&dir).map_err(storage_error("sync", &dir))?;
        }
        return Ok(SessionHold { _lock: Some(lock), _appender: None });
    }
    let journal = Journal::new(storage.clone(), layout.journal());
    let mark = Watermark::read(&**storage, &layout.watermark()).map_err(store_error)?;
    let mended = recovery::mend_recovered_journal(&**storage, &journal, id, &mut look, mark)
        .map_err(store_error)?;
    let new_names = if mended.new_name { names } else { Vec::new() };
    let to = store.append_to(id, layout);
    let mut appender =
        Appender::resume(to, lock, look.end, mended.durable, new_names).map_err(store_error)?;
    appender.settle().map_err(store_error)?;
    Ok(SessionHold { _lock: None, _appender: Some(appender) })
}
