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
    slot[..16].copy_from_slice(&hexadecimal::<16>(mark.seq.0));
    slot[17..25].copy_from_slice(&hexadecimal::<8>(mark.segment));
    slot[26..36].copy_from_slice(&hexadecimal::<10>(mark.offset));
    slot[37..57].copy_from_slice(mark.sum.as_ascii());
    let check = Sum::from_hash(&blake3::hash(&slot[..CHECKED]));
    let [c1, c2, c3, c4, c5, ..] = *check.as_ascii();
    slot[CHECKED..].copy_from_slice(&[c1, c2, c3, c4, c5, b'\n']);
    slot
}

/// The last digits of a number.
fn hexadecimal<const WIDTH: usize>(number: u64) -> [u8; WIDTH] {
    let mut digits = [b'0'; WIDTH];
    let mut rest = number;
    for place in digits.iter_mut().rev() {
        let digit = (rest & 15) as u8;
        *place = digit + if digit < 10 { b'0' } else { b'a' - 10 };
        rest >>= 4;
    }
    digits
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
