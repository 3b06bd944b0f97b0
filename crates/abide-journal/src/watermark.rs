//! The watermark: a second record of the last acknowledged event.
//!
//! It is written after the sync and never synced itself, so it costs no sync and never runs ahead
//! of the journal. It tells damage to the very last record from a torn tail, and tells a follower
//! in another process how far it may read. Two slots are written in turn, so a torn write to one
//! leaves the other intact.

use std::io;
use std::path::Path;
use std::sync::Arc;

use abide_model::Seq;

use crate::{Access, JournalError, Storage, StorageFile, Sum, read_full, write_full};

const SLOT: usize = 64;
/// The bytes of a slot that its check covers.
const CHECKED: usize = 58;

/// How far the journal is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcknowledgedEnd {
    /// The last acknowledged event.
    pub seq: Seq,
    /// Its sum.
    pub sum: Sum,
    /// The segment it is in.
    pub segment: u64,
    /// Where its line ends in that segment.
    pub offset: u64,
}

/// The watermark file.
#[derive(Debug)]
pub struct Watermark {
    file: Arc<dyn StorageFile>,
    next_slot: u64,
}

impl Watermark {
    /// Opens the file for writing, creating it if missing. The slot with the newest mark is not the
    /// first to be overwritten.
    pub fn open(storage: &dyn Storage, path: &Path) -> Result<Self, JournalError> {
        let file = storage.open(path, Access::Create).map_err(JournalError::io("open", path))?;
        let slots = read_watermark_slots(&*file).map_err(JournalError::io("read", path))?;
        let [first, second] = slots.map(|mark| mark.map_or(0, |mark| mark.seq.0));
        Ok(Self { file, next_slot: u64::from(first > second) })
    }

    /// Reads the mark; `None` if there is no file or no whole slot. A read error is returned:
    /// without the mark, damage would be mistaken for a torn tail.
    pub fn read(
        storage: &dyn Storage,
        path: &Path,
    ) -> Result<Option<AcknowledgedEnd>, JournalError> {
        let file = match storage.open(path, Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(JournalError::io("open", path))?,
        };
        let slots = read_watermark_slots(&*file).map_err(JournalError::io("read", path))?;
        Ok(slots.into_iter().flatten().max_by_key(|mark| mark.seq))
    }

    /// Writes the mark, which must be durable already. Failing to write it does not fail the
    /// append: the watermark is an aid, not the source of truth.
    pub fn write(&mut self, mark: AcknowledgedEnd) {
        let slot = format_watermark(mark);
        let _ = write_full(&*self.file, &slot, self.next_slot * SLOT as u64);
        self.next_slot = 1 - self.next_slot;
    }
}

fn read_watermark_slots(file: &dyn StorageFile) -> io::Result<[Option<AcknowledgedEnd>; 2]> {
    let mut bytes = [0; SLOT * 2];
    let read = read_full(file, &mut bytes, 0)?;
    let mut slots = [None; 2];
    for (slot, bytes) in slots.iter_mut().zip(bytes.get(..read).unwrap_or_default().chunks(SLOT)) {
        *slot = parse_watermark(bytes);
    }
    Ok(slots)
}

/// `seq segment offset sum check` and a line break; numbers are hexadecimal of fixed width. This is
/// on the append path, so it avoids the formatting machinery.
fn format_watermark(mark: AcknowledgedEnd) -> [u8; SLOT] {
    let mut slot = [b' '; SLOT];
    let numbers = [(0, 16, mark.seq.0), (17, 8, mark.segment), (26, 10, mark.offset)];
    for (start, width, number) in numbers {
        let mut rest = number;
        for place in slot.iter_mut().skip(start).take(width).rev() {
            *place = *b"0123456789abcdef".get((rest & 15) as usize).unwrap_or(&b'0');
            rest >>= 4;
        }
    }
    for (place, byte) in slot.iter_mut().skip(37).zip(mark.sum.as_ascii()) {
        *place = *byte;
    }
    let check = Sum::from_hash(&blake3::hash(slot.get(..CHECKED).unwrap_or_default()));
    for (place, byte) in slot.iter_mut().skip(CHECKED).zip(check.as_ascii().iter().take(5)) {
        *place = *byte;
    }
    if let Some(last) = slot.last_mut() {
        *last = b'\n';
    }
    slot
}

fn parse_watermark(slot: &[u8]) -> Option<AcknowledgedEnd> {
    let text = std::str::from_utf8(slot).ok()?;
    let mut words = text.trim_end().split(' ');
    let seq = u64::from_str_radix(words.next()?, 16).ok()?;
    let segment = u64::from_str_radix(words.next()?, 16).ok()?;
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let sum = Sum::from_ascii(words.next()?.as_bytes())?;
    let mark = AcknowledgedEnd { seq: Seq(seq), sum, segment, offset };
    (format_watermark(mark) == slot).then_some(mark)
}

#[cfg(test)]
mod tests {
    use abide_model::{SessionId, Timestamp};

    use super::*;
    use crate::Disk;

    #[test]
    fn the_newest_whole_slot_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("watermark");
        assert_eq!(Watermark::read(&Disk, &path).unwrap(), None);
        let sum = Sum::genesis(SessionId::new(Timestamp::from_millis(0), [0; 10]));
        let mark = |seq| AcknowledgedEnd { seq: Seq(seq), sum, segment: 3, offset: 1 << 30 };
        let mut watermark = Watermark::open(&Disk, &path).unwrap();
        for seq in 1..=5 {
            watermark.write(mark(seq));
            assert_eq!(Watermark::read(&Disk, &path).unwrap(), Some(mark(seq)));
        }
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 2 * SLOT);
        for at in 0..SLOT {
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            std::fs::write(&path, &flipped).unwrap();
            assert_eq!(Watermark::read(&Disk, &path).unwrap(), Some(mark(4)), "byte {at}");
        }
    }
}
