//! The file `erased`: one line for each event whose data was erased here, so that an older bundle or
//! copy does not bring it back after its session was removed.
//!
//! A line has the session, the event and the event's sum. It is durable before the data is erased,
//! and stays until somebody asks to forget it.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use abide_journal::{Access, Storage, Sum, read_full, write_full};
use abide_model::{Seq, SessionId, StoreError};

use crate::error::storage_error;
use crate::maintain::erase::Eraser;
use crate::store_layout::{StoreLayout, layout_path_text};

/// The events that were erased in a store, by session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ErasedRecord {
    sessions: BTreeMap<SessionId, BTreeMap<Seq, Sum>>,
}

impl ErasedRecord {
    /// Reads the record of a store. A line that cannot be read is an error: what it protects must
    /// not come back unnoticed.
    pub(crate) fn read(storage: &dyn Storage, layout: &StoreLayout) -> Result<Self, StoreError> {
        let path = layout.erased();
        let file = match storage.open(&path, Access::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            file => file.map_err(storage_error("open", &path))?,
        };
        let len = file.len().map_err(storage_error("read", &path))?;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let read = read_full(&*file, &mut bytes, 0).map_err(storage_error("read", &path))?;
        bytes.truncate(read);
        let mut record = Self::default();
        for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            let (session, seq, sum) =
                read_erased_entry(line).ok_or_else(|| StoreError::Damaged {
                    place: format!("line {} of {}", number + 1, layout_path_text(&path)),
                    reason: "it does not name an erased event".to_owned(),
                })?;
            record.add(session, seq, sum);
        }
        Ok(record)
    }

    /// Writes the record in place of the one before, durably.
    fn write(&self, storage: &dyn Storage, layout: &StoreLayout) -> Result<(), StoreError> {
        let path = layout.erased();
        let temporary = path.with_extension("tmp");
        let file = storage
            .open(&temporary, Access::Create)
            .map_err(storage_error("create", &temporary))?;
        let mut text = String::new();
        for (session, events) in &self.sessions {
            for (seq, sum) in events {
                let _ = writeln!(text, "{session} {seq} {sum}");
            }
        }
        let written = file.truncate(0).and_then(|()| write_full(&*file, text.as_bytes(), 0));
        written.and_then(|()| file.sync()).map_err(storage_error("write", &temporary))?;
        storage.rename(&temporary, &path).map_err(storage_error("write", &path))?;
        let root = layout.root.as_path();
        storage.sync_dir(root).map_err(storage_error("sync", root))
    }

    fn add(&mut self, session: SessionId, seq: Seq, sum: Sum) -> bool {
        self.sessions.entry(session).or_default().insert(seq, sum) != Some(sum)
    }

    /// Whether this very event was erased. Another event with its number was not.
    pub(crate) fn has(&self, session: SessionId, seq: Seq, sum: Sum) -> bool {
        self.sessions.get(&session).and_then(|events| events.get(&seq)) == Some(&sum)
    }
}

/// The session, event and sum of a line.
fn read_erased_entry(line: &[u8]) -> Option<(SessionId, Seq, Sum)> {
    let mut words = str::from_utf8(line).ok()?.split(' ');
    let session = words.next()?.parse().ok()?;
    let seq = words.next()?.parse().ok().map(Seq)?;
    let sum = Sum::from_ascii(words.next()?.as_bytes())?;
    words.next().is_none().then_some((session, seq, sum))
}

impl Eraser<'_> {
    /// The events of a session that were erased here, also if the session was removed since.
    pub fn erased_events(&self, session: SessionId) -> Result<Vec<Seq>, StoreError> {
        let events = self.erased_record()?.sessions.remove(&session).unwrap_or_default();
        Ok(events.into_keys().collect())
    }

    /// Forgets that events of a session were erased, so that an import brings their data back.
    /// Returns how many.
    pub fn forget_erased(&self, session: SessionId) -> Result<u64, StoreError> {
        let _lock = self.store.cleaner().hold_cleanup()?;
        let mut record = self.erased_record()?;
        let Some(events) = record.sessions.remove(&session) else { return Ok(0) };
        record.write(&**self.store.storage(), self.store.layout())?;
        Ok(events.len() as u64)
    }

    pub(crate) fn erased_record(&self) -> Result<ErasedRecord, StoreError> {
        ErasedRecord::read(&**self.store.storage(), self.store.layout())
    }

    /// Records that these events of a session are erased. The caller holds the lock of cleanups.
    pub(crate) fn record_erased(
        &self,
        session: SessionId,
        events: &HashMap<Seq, Sum>,
    ) -> Result<(), StoreError> {
        let mut record = self.erased_record()?;
        let mut added = false;
        for (seq, sum) in events {
            added |= record.add(session, *seq, *sum);
        }
        if added { record.write(&**self.store.storage(), self.store.layout()) } else { Ok(()) }
    }
}
