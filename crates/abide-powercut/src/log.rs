//! Everything that was asked of the disk while the work ran, in order: writes, and flushes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::image::Image;

/// One thing that was asked of the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    /// Bytes, which are in the disk's cache from then on.
    Write { offset: u64, bytes: Vec<u8> },
    /// All that was written before is on stable storage from then on.
    Flush,
}

/// A disk that remembers. Clones are the same disk.
#[derive(Debug, Clone)]
pub(crate) struct Disk(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    /// What a reader sees: every write, flushed or not.
    present: Image,
    records: Vec<Record>,
}

impl Disk {
    pub(crate) fn new(base: Image) -> Self {
        Self(Arc::new(Mutex::new(Inner { present: base, records: Vec::new() })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn size(&self) -> u64 {
        self.inner().present.size
    }

    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) {
        self.inner().present.read(offset, buffer);
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) {
        let mut inner = self.inner();
        inner.present.write(offset, bytes);
        inner.records.push(Record::Write { offset, bytes: bytes.to_vec() });
    }

    pub(crate) fn flush(&self) {
        self.inner().records.push(Record::Flush);
    }

    /// How many records there are: the moment, as everything here counts time.
    pub(crate) fn position(&self) -> usize {
        self.inner().records.len()
    }

    pub(crate) fn take_records(&self) -> Vec<Record> {
        std::mem::take(&mut self.inner().records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_what_is_not_flushed_and_the_log_has_everything_in_order() {
        let disk = Disk::new(Image::new(8192));
        let clone = disk.clone();
        disk.write(512, b"one");
        assert_eq!(disk.position(), 1);
        clone.flush();
        clone.write(512, b"two");
        let mut seen = [0; 3];
        disk.read(512, &mut seen);
        assert_eq!(&seen, b"two");
        let write = |bytes: &[u8]| Record::Write { offset: 512, bytes: bytes.to_vec() };
        assert_eq!(disk.take_records(), [write(b"one"), Record::Flush, write(b"two")]);
    }
}
