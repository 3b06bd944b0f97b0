//! The file `erased`: one line for each event whose data was erased here, so that an older bundle or
//! copy does not bring it back after its session was removed.
//!
//! A line has the session, the event and the event's sum. It is durable before the data is erased, and
//! stays until an import is told to bring the data back. A line that cannot be read is kept; imports
//! are refused while there is one.

use std::collections::BTreeSet;

use abide_journal::{Access, Storage, Sum, read_full, write_full};
use abide_model::{Seq, SessionId, StoreError};

use crate::error::storage_error;
use crate::maintain::erase::Eraser;
use crate::store_layout::{StoreLayout, layout_path_text};

/// A larger file is not read. It has some hundred bytes for each event.
const MAX: u64 = 1 << 30;

/// The events that were erased in a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ErasedRecord {
    events: BTreeSet<(SessionId, Seq, Sum)>,
    /// Lines that cannot be read, with their numbers.
    unread: Vec<(usize, Vec<u8>)>,
}

impl ErasedRecord {
    /// Reads the record of a store.
    pub(crate) fn read(storage: &dyn Storage, layout: &StoreLayout) -> Result<Self, StoreError> {
        let path = layout.erased();
        let file = match storage.open(&path, Access::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            file => file.map_err(storage_error("open", &path))?,
        };
        let len = file.len().map_err(storage_error("read", &path))?;
        let too_large = || StoreError::Damaged {
            place: layout_path_text(&path),
            reason: format!("it has {len} bytes"),
        };
        let len = Some(len).filter(|len| *len <= MAX).and_then(|len| usize::try_from(len).ok());
        let mut bytes = vec![0; len.ok_or_else(too_large)?];
        let read = read_full(&*file, &mut bytes, 0).map_err(storage_error("read", &path))?;
        bytes.truncate(read);
        let mut record = Self::default();
        for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            match read_erased_entry(line) {
                Some(event) => drop(record.events.insert(event)),
                None if line.is_empty() => {}
                None => record.unread.push((number + 1, line.to_owned())),
            }
        }
        Ok(record)
    }

    /// The record, if all of it can be read: what a lost line protects must not come back unnoticed.
    pub(crate) fn whole(self, layout: &StoreLayout) -> Result<Self, StoreError> {
        match self.unread.first() {
            None => Ok(self),
            Some((number, _)) => Err(StoreError::Damaged {
                place: format!("line {number} of {}", layout_path_text(&layout.erased())),
                reason: "it does not name an erased event; without that line, what it named may \
                         come back"
                    .to_owned(),
            }),
        }
    }

    /// The numbers of the lines that cannot be read.
    pub(crate) fn unread_lines(&self) -> impl Iterator<Item = usize> {
        self.unread.iter().map(|(number, _)| *number)
    }

    /// Writes the record in place of the one before, durably.
    fn write(&self, storage: &dyn Storage, layout: &StoreLayout) -> Result<(), StoreError> {
        let path = layout.erased();
        let temporary = path.with_extension("tmp");
        let file = storage
            .open(&temporary, Access::Create)
            .map_err(storage_error("create", &temporary))?;
        let mut bytes = Vec::new();
        for (_, line) in &self.unread {
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        }
        for (session, seq, sum) in &self.events {
            bytes.extend(format!("{session} {seq} {sum}\n").into_bytes());
        }
        let written = file.truncate(0).and_then(|()| write_full(&*file, &bytes, 0));
        written.and_then(|()| file.sync()).map_err(storage_error("write", &temporary))?;
        storage.rename(&temporary, &path).map_err(storage_error("write", &path))?;
        let root = layout.root.as_path();
        storage.sync_dir(root).map_err(storage_error("sync", root))
    }

    /// Whether this very event was erased. Another event with its number was not.
    pub(crate) fn has(&self, session: SessionId, seq: Seq, sum: Sum) -> bool {
        self.events.contains(&(session, seq, sum))
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
    /// Whether events of a session were erased here, also if it was removed since.
    pub fn has_erased(&self, session: SessionId) -> Result<bool, StoreError> {
        let record = self.erased_record()?.whole(self.store.layout())?;
        Ok(record.events.iter().any(|(erased, ..)| *erased == session))
    }

    pub(crate) fn erased_record(&self) -> Result<ErasedRecord, StoreError> {
        ErasedRecord::read(&**self.store.storage(), self.store.layout())
    }

    /// Records that these events of a session are erased. The caller holds the lock of cleanups.
    pub(crate) fn record_erased(
        &self,
        session: SessionId,
        events: &[(Seq, Sum)],
    ) -> Result<(), StoreError> {
        let mut record = self.erased_record()?;
        let before = record.events.len();
        record.events.extend(events.iter().map(|(seq, sum)| (session, *seq, *sum)));
        if record.events.len() == before {
            return Ok(());
        }
        record.write(&**self.store.storage(), self.store.layout())
    }

    /// Forgets that these events of a session were erased: an import has brought them back.
    pub(crate) fn forget_erased(
        &self,
        session: SessionId,
        events: &[(Seq, Sum)],
    ) -> Result<(), StoreError> {
        let _lock = self.store.cleaner().hold_cleanup()?;
        let mut record = self.erased_record()?;
        record
            .events
            .retain(|(erased, seq, sum)| *erased != session || !events.contains(&(*seq, *sum)));
        record.write(&**self.store.storage(), self.store.layout())
    }
}
