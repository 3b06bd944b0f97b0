//! A segment: one file of a journal. It is plain while it is written, then sealed (compressed).
//!
//! Offsets always count plain bytes, in both forms.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use abide_model::Seq;

use crate::sealed_segment::SealedSegment;
use crate::{Access, JournalError, SegmentHeader, Storage, StorageFile, filling_start, read_full};

/// Segment numbers stay below this, so there is always a next one.
const MAX_NUMBER: u64 = 1 << 48;

/// The two forms of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentForm {
    /// `00000001.jsonl`
    Plain,
    /// `00000001.jsonl.zst`
    Sealed,
}

/// The name of a segment's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentName {
    /// Its number, from 1.
    pub number: u64,
    /// Its form.
    pub form: SegmentForm,
}

impl SegmentName {
    /// Parses a file name; `None` if it does not name a segment.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (digits, form) = match name.strip_suffix(".jsonl") {
            Some(digits) => (digits, SegmentForm::Plain),
            None => (name.strip_suffix(".jsonl.zst")?, SegmentForm::Sealed),
        };
        let number = digits.parse().ok().filter(|number| (1..MAX_NUMBER).contains(number))?;
        let name = Self { number, form };
        (digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
    }

    /// The file name.
    #[must_use]
    pub fn file_name(self) -> String {
        match self.form {
            SegmentForm::Plain => format!("{:08}.jsonl", self.number),
            SegmentForm::Sealed => format!("{:08}.jsonl.zst", self.number),
        }
    }
}

#[derive(Debug)]
enum SegmentBytes {
    Plain(Arc<dyn StorageFile>),
    Sealed(SealedSegment),
}

/// An open segment.
#[derive(Debug)]
pub struct Segment {
    number: u64,
    path: PathBuf,
    bytes: SegmentBytes,
    /// Where the lines of a plain one ended when that was first asked.
    lines_end: OnceLock<u64>,
}

impl Segment {
    /// Opens a segment for reading.
    pub fn open(
        storage: &dyn Storage,
        dir: &Path,
        name: SegmentName,
    ) -> Result<Self, JournalError> {
        let path = dir.join(name.file_name());
        let file = storage.open(&path, Access::Read).map_err(JournalError::io("open", &path))?;
        let bytes = match name.form {
            SegmentForm::Plain => SegmentBytes::Plain(file),
            SegmentForm::Sealed => SegmentBytes::Sealed(
                SealedSegment::open(file).map_err(JournalError::io("read", &path))?,
            ),
        };
        Ok(Self { number: name.number, path, bytes, lines_end: OnceLock::new() })
    }

    /// A plain segment over an open file.
    #[cfg(test)]
    pub(crate) fn over(file: Arc<dyn StorageFile>) -> Self {
        let bytes = SegmentBytes::Plain(file);
        Self { number: 1, path: PathBuf::from("segment"), bytes, lines_end: OnceLock::new() }
    }

    /// Its number.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its form.
    #[must_use]
    pub const fn form(&self) -> SegmentForm {
        match self.bytes {
            SegmentBytes::Plain(_) => SegmentForm::Plain,
            SegmentBytes::Sealed(_) => SegmentForm::Sealed,
        }
    }

    /// The number of plain bytes, without the filling. Later calls give the same: what is read is a
    /// beginning of what a writer beside it writes.
    pub fn len(&self) -> Result<u64, JournalError> {
        let file = match &self.bytes {
            SegmentBytes::Plain(file) => file,
            SegmentBytes::Sealed(sealed) => return Ok(sealed.len()),
        };
        if let Some(end) = self.lines_end.get() {
            return Ok(*end);
        }
        let end = filling_start(&**file).map_err(JournalError::io("read", &self.path))?;
        Ok(*self.lines_end.get_or_init(|| end))
    }

    /// Is it empty?
    pub fn is_empty(&self) -> Result<bool, JournalError> {
        self.len().map(|len| len == 0)
    }

    /// Reads plain bytes, the filling too, perhaps fewer than fit into `buf`; 0 at the end.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, JournalError> {
        let read: io::Result<usize> = match &self.bytes {
            SegmentBytes::Plain(file) => read_full(&**file, buf, offset),
            SegmentBytes::Sealed(sealed) => sealed.read_at(buf, offset),
        };
        read.map_err(JournalError::io("read", &self.path))
    }

    /// An offset at or before the line of `seq`, if the segment has a table to find one.
    #[must_use]
    pub fn seek(&self, seq: Seq) -> Option<u64> {
        match &self.bytes {
            SegmentBytes::Sealed(sealed) if sealed.has_table() => Some(sealed.seek(seq)),
            _ => None,
        }
    }

    /// Can nothing be missing at its end? A sealed file ends with its table: without one it may
    /// have been cut, between two frames even. What a plain one lacks only later bytes can tell.
    #[must_use]
    pub const fn has_its_end(&self) -> bool {
        match &self.bytes {
            SegmentBytes::Plain(_) => true,
            SegmentBytes::Sealed(sealed) => sealed.has_table(),
        }
    }

    /// Its header, if readable.
    pub fn header(&self) -> Result<Option<SegmentHeader>, JournalError> {
        let mut bytes = [0; SegmentHeader::MAX];
        let read = self.read_at(&mut bytes, 0)?;
        let start = bytes.get(..read).unwrap_or_default();
        match memchr::memchr(b'\n', start).and_then(|end| start.get(..end)) {
            Some(line) if SegmentHeader::is_header(line) => SegmentHeader::read_in(line, self),
            _ => Ok(None),
        }
    }

    /// What is wrong with a sealed file, if anything.
    #[must_use]
    pub fn seal_damage(&self) -> Option<String> {
        match &self.bytes {
            SegmentBytes::Plain(_) => None,
            SegmentBytes::Sealed(sealed) => sealed.damage(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_foreign_files_are_told_apart() {
        for form in [SegmentForm::Plain, SegmentForm::Sealed] {
            let name = SegmentName { number: 42, form };
            assert_eq!(SegmentName::parse(&name.file_name()), Some(name));
        }
        for foreign in [
            "x",
            "1.jsonl",
            "00000000.jsonl",
            "18446744073709551615.jsonl",
            "+0000001.jsonl",
            "00000001.jsonl.tmp",
            "notes.jsonl",
        ] {
            assert_eq!(SegmentName::parse(foreign), None, "{foreign}");
        }
    }
}
