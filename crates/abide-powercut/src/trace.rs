//! A run in one file: the empty file system, everything asked of the disk, and the story. With
//! it a cut is made again exactly, which a seed alone cannot do: processes run as they like.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::filesystem::FileSystem;
use crate::image::{Image, PAGE};
use crate::log::Record;
use crate::story::Story;

/// What stands before the bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) kind: FileSystem,
    pub(crate) seed: u64,
    /// Sessions know where their files are.
    pub(crate) mounted: PathBuf,
    pub(crate) story: Story,
}

#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) head: Head,
    pub(crate) base: Image,
    pub(crate) records: Vec<Record>,
}

fn number(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn bytes(from: &mut impl Read, count: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count as usize];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

impl Trace {
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let mut to = zstd::Encoder::new(File::create(path)?, 1)?;
        let head = serde_json::to_vec(&self.head)?;
        to.write_all(&(head.len() as u64).to_le_bytes())?;
        to.write_all(&head)?;
        to.write_all(&self.base.size.to_le_bytes())?;
        to.write_all(&(self.base.pages.len() as u64).to_le_bytes())?;
        for (number, page) in &self.base.pages {
            to.write_all(&number.to_le_bytes())?;
            to.write_all(page)?;
        }
        to.write_all(&(self.records.len() as u64).to_le_bytes())?;
        for record in &self.records {
            // A write of nothing is a flush.
            let (offset, bytes): (u64, &[u8]) = match record {
                Record::Write { offset, bytes } => (*offset, bytes),
                Record::Flush => (0, &[]),
            };
            to.write_all(&offset.to_le_bytes())?;
            to.write_all(&(bytes.len() as u64).to_le_bytes())?;
            to.write_all(bytes)?;
        }
        to.finish()?.sync_all()
    }

    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let mut from = io::BufReader::new(zstd::Decoder::new(File::open(path)?)?);
        let length = number(&mut from)?;
        let head = serde_json::from_slice(&bytes(&mut from, length)?)?;
        let mut base = Image::new(number(&mut from)?);
        for _ in 0..number(&mut from)? {
            let page = number(&mut from)?;
            base.pages.insert(page, bytes(&mut from, PAGE as u64)?.into_boxed_slice());
        }
        let mut records = Vec::new();
        for _ in 0..number(&mut from)? {
            let offset = number(&mut from)?;
            let length = number(&mut from)?;
            records.push(match length {
                0 => Record::Flush,
                length => Record::Write { offset, bytes: bytes(&mut from, length)? },
            });
        }
        Ok(Self { head, base, records })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_as_it_was_written() {
        let mut base = Image::new(1 << 20);
        base.write(5000, b"there before");
        let story = Story {
            begun: 1,
            sessions: Vec::new(),
            keeper: 0,
            checkpoints: Vec::new(),
            settled: Vec::new(),
        };
        let head = Head { kind: FileSystem::Xfs, seed: 7, mounted: PathBuf::from("/mnt"), story };
        let write = Record::Write { offset: 512, bytes: b"written".to_vec() };
        let trace = Trace { head, base, records: vec![write, Record::Flush] };
        let path = std::env::temp_dir().join(format!("abide-trace-{}", std::process::id()));
        trace.write(&path).unwrap();
        let read = Trace::read(&path);
        std::fs::remove_file(&path).unwrap();
        let read = read.unwrap();
        assert_eq!((read.base, read.records), (trace.base, trace.records));
        assert_eq!((read.head.kind, read.head.seed), (FileSystem::Xfs, 7));
    }
}
