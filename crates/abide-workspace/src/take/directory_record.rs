//! The cache record of one directory: its state, and the state of each name in it.
//!
//! ```text
//! sum 4 | length 4 | tree 32 | outer 16 | chain 16 | mtime 8 | ctime 8 | inode 8 | mode 2 | flags 1
//! | 5 free | files 8 | bytes 8
//! then for each name, in the order of the listing:
//!   kind 1 | flag 1 | mode 2 | length of name 2 | 2 free
//!   a file, a link:  size 8 | mtime 8 | ctime 8 | inode 8 | hash 32
//!   a directory:     number 4 | 4 free
//!   then             name | 0
//! ```
//!
//! The checksum is the CRC-32 of everything after it. Names keep the order in which the file system
//! lists them, so an unchanged directory is compared from front to back.

use std::ffi::CStr;

use abide_model::ObjectHash;
use rustix::fs::FileType;

use crate::snapshot::OmissionReason;
use crate::take::rules::{IgnoreStatus, RulesHash};
use crate::take::stat::FileStamp;

const SUM: usize = 4;
const HEAD: usize = 120;
const LISTED: u8 = 1;
const HIDDEN: u8 = 2;

/// The type of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameKind {
    File,
    Large,
    Link,
    Directory,
    Ignored,
    Omitted,
}

impl NameKind {
    const fn code(self) -> u8 {
        match self {
            Self::File => 0,
            Self::Large => 1,
            Self::Link => 2,
            Self::Directory => 3,
            Self::Ignored => 4,
            Self::Omitted => 5,
        }
    }

    const fn of(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::File,
            1 => Self::Large,
            2 => Self::Link,
            3 => Self::Directory,
            4 => Self::Ignored,
            5 => Self::Omitted,
            _ => return None,
        })
    }
}

/// One name of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordRow<'a> {
    pub(crate) kind: NameKind,
    /// File or link: whether it was settled. Directory: its [`IgnoreStatus`]. Ignored: whether it was a
    /// directory. Omitted: the reason.
    pub(crate) flag: u8,
    pub(crate) mode: u16,
    /// Its [`FileStamp`], encoded.
    pub(crate) facts: &'a [u8; FileStamp::LENGTH],
    pub(crate) hash: &'a [u8; 32],
    /// The number of a directory's record.
    pub(crate) number: u32,
    pub(crate) name: &'a CStr,
}

impl RecordRow<'_> {
    pub(crate) const SETTLED: u8 = 1;

    /// Size of a file or link.
    pub(crate) fn size(&self) -> u64 {
        self.facts.first_chunk().map_or(0, |size| u64::from_le_bytes(*size))
    }

    pub(crate) fn object(&self) -> ObjectHash {
        ObjectHash(*self.hash)
    }

    /// Returns true if it was a directory.
    pub(crate) fn was_directory(&self) -> bool {
        match self.kind {
            NameKind::Directory => true,
            NameKind::Ignored => self.flag == 1,
            _ => false,
        }
    }
}

const NO_FACTS: &[u8; FileStamp::LENGTH] = &[0; FileStamp::LENGTH];
const NO_HASH: &[u8; 32] = &[0; 32];

/// Iterates over the names of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordRows<'a> {
    bytes: &'a [u8],
}

impl<'a> RecordRows<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Number of bytes left.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }

    fn take(&mut self) -> Option<RecordRow<'a>> {
        let ([code, flag, mode @ .., low, high, _, _], rest) =
            self.bytes.split_first_chunk::<8>()?;
        let kind = NameKind::of(*code)?;
        let [mode_low, mode_high] = mode;
        let mode = u16::from_le_bytes([*mode_low, *mode_high]);
        let length = usize::from(u16::from_le_bytes([*low, *high])) + 1;
        let (mut facts, mut hash, mut number) = (NO_FACTS, NO_HASH, 0);
        let rest = match kind {
            NameKind::File | NameKind::Large | NameKind::Link => {
                let (found, rest) = rest.split_first_chunk()?;
                facts = found;
                let (found, rest) = rest.split_first_chunk()?;
                hash = found;
                rest
            }
            NameKind::Directory => {
                let (found, rest) = rest.split_first_chunk::<8>()?;
                number = u64::from_le_bytes(*found) as u32;
                rest
            }
            NameKind::Ignored | NameKind::Omitted => rest,
        };
        let (name, rest) = rest.split_at_checked(length)?;
        self.bytes = rest;
        let name = CStr::from_bytes_with_nul(name).ok()?;
        Some(RecordRow { kind, flag: *flag, mode, facts, hash, number, name })
    }
}

impl<'a> Iterator for RecordRows<'a> {
    type Item = RecordRow<'a>;

    fn next(&mut self) -> Option<RecordRow<'a>> {
        self.take()
    }
}

/// The names of a record being built.
#[derive(Debug, Default)]
pub(crate) struct RecordBody {
    pub(crate) bytes: Vec<u8>,
}

impl RecordBody {
    pub(crate) fn file(
        &mut self,
        kind: NameKind,
        name: &CStr,
        mode: u16,
        facts: &FileStamp,
        hash: ObjectHash,
        settled: bool,
    ) {
        self.head(kind, u8::from(settled), mode, name);
        self.bytes.extend_from_slice(&facts.write());
        self.bytes.extend_from_slice(&hash.0);
        self.name(name);
    }

    pub(crate) fn directory(&mut self, name: &CStr, number: u32, within: IgnoreStatus) {
        self.head(NameKind::Directory, within.code(), 0, name);
        self.bytes.extend_from_slice(&u64::from(number).to_le_bytes());
        self.name(name);
    }

    pub(crate) fn ignored(&mut self, name: &CStr, kind: FileType) {
        self.head(NameKind::Ignored, u8::from(kind == FileType::Directory), 0, name);
        self.name(name);
    }

    pub(crate) fn omitted(&mut self, name: &CStr, reason: OmissionReason) {
        self.head(NameKind::Omitted, reason as u8, 0, name);
        self.name(name);
    }

    /// Copies a row, with a new number if it is a directory.
    pub(crate) fn row(&mut self, row: &RecordRow<'_>, number: u32) {
        self.head(row.kind, row.flag, row.mode, row.name);
        match row.kind {
            NameKind::File | NameKind::Large | NameKind::Link => {
                self.bytes.extend_from_slice(row.facts);
                self.bytes.extend_from_slice(row.hash);
            }
            NameKind::Directory => self.bytes.extend_from_slice(&u64::from(number).to_le_bytes()),
            NameKind::Ignored | NameKind::Omitted => {}
        }
        self.name(row.name);
    }

    fn head(&mut self, kind: NameKind, flag: u8, mode: u16, name: &CStr) {
        let [low, high] = mode.to_le_bytes();
        let length = u16::try_from(name.to_bytes().len()).unwrap_or(u16::MAX).to_le_bytes();
        let [first, second] = length;
        self.bytes.extend_from_slice(&[kind.code(), flag, low, high, first, second, 0, 0]);
    }

    fn name(&mut self, name: &CStr) {
        self.bytes.extend_from_slice(name.to_bytes_with_nul());
    }
}

/// What a record says about the directory itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordHead {
    pub(crate) tree: ObjectHash,
    /// The rules from above.
    pub(crate) outer: RulesHash,
    /// The rules for the names in it.
    pub(crate) chain: RulesHash,
    pub(crate) mtime: i64,
    pub(crate) ctime: i64,
    pub(crate) ino: u64,
    pub(crate) mode: u16,
    /// True if it was settled when it was listed, so the listing is valid as long as its times are
    /// unchanged.
    pub(crate) listed: bool,
    /// True if it is left out of its parent's tree.
    pub(crate) hidden: bool,
    /// Number of files and links in it.
    pub(crate) files: u64,
    /// Their total size.
    pub(crate) bytes: u64,
}

impl RecordHead {
    /// Encodes the record.
    pub(crate) fn write(&self, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + body.len());
        out.extend_from_slice(&[0; SUM]);
        let length = u32::try_from(HEAD + body.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&self.tree.0);
        out.extend_from_slice(&self.outer.0);
        out.extend_from_slice(&self.chain.0);
        out.extend_from_slice(&self.mtime.to_le_bytes());
        out.extend_from_slice(&self.ctime.to_le_bytes());
        out.extend_from_slice(&self.ino.to_le_bytes());
        out.extend_from_slice(&self.mode.to_le_bytes());
        out.push(if self.listed { LISTED } else { 0 } | if self.hidden { HIDDEN } else { 0 });
        out.extend_from_slice(&[0; 5]);
        out.extend_from_slice(&self.files.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(body);
        let sum = out.get(SUM..).map_or(0, crc32fast::hash);
        if let Some(place) = out.first_chunk_mut::<SUM>() {
            *place = sum.to_le_bytes();
        }
        out
    }
}

/// A decoded record.
#[derive(Debug, Clone)]
pub(crate) struct DirectoryRecord<'a> {
    pub(crate) head: RecordHead,
    pub(crate) body: &'a [u8],
    /// The whole encoded record.
    pub(crate) whole: &'a [u8],
}

impl<'a> DirectoryRecord<'a> {
    /// Decodes the record at the start of these bytes; `None` if it is truncated or damaged.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut fields = FixedFields(bytes);
        let sum = fields.number::<4>()?;
        let length = usize::try_from(fields.number::<4>()?).ok()?;
        let whole = bytes.get(..length)?;
        if u64::from(crc32fast::hash(whole.get(SUM..)?)) != sum {
            return None;
        }
        let tree = ObjectHash(*fields.take()?);
        let (outer, chain) = (RulesHash(*fields.take()?), RulesHash(*fields.take()?));
        let mtime = fields.number::<8>()?.cast_signed();
        let ctime = fields.number::<8>()?.cast_signed();
        let ino = fields.number::<8>()?;
        let mode = fields.number::<2>()? as u16;
        let flags = fields.number::<1>()? as u8;
        fields.take::<5>()?;
        let (files, bytes) = (fields.number::<8>()?, fields.number::<8>()?);
        let (listed, hidden) = (flags & LISTED != 0, flags & HIDDEN != 0);
        let head = RecordHead {
            tree,
            outer,
            chain,
            mtime,
            ctime,
            ino,
            mode,
            listed,
            hidden,
            files,
            bytes,
        };
        Some(Self { head, body: whole.get(HEAD..)?, whole })
    }

    pub(crate) fn rows(&self) -> RecordRows<'a> {
        RecordRows::new(self.body)
    }
}

/// Reads fields of fixed length in sequence.
pub(crate) struct FixedFields<'a>(pub(crate) &'a [u8]);

impl<'a> FixedFields<'a> {
    pub(crate) fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(field)
    }

    /// A little-endian number of up to eight bytes.
    pub(crate) fn number<const N: usize>(&mut self) -> Option<u64> {
        let field: &[u8; N] = self.take()?;
        Some(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}
