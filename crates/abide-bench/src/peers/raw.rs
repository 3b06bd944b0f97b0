//! A file of JSON lines, with an `fdatasync` after each: what the disk allows. Its lines are made
//! before the clock starts.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::Outcome;
use crate::calibration::{Growth, RawFile};
use crate::peers::clock::{Appended, Clock};
use crate::peers::work::{Loaded, Peer, Turns};
use crate::text::PIECE;

#[derive(Debug)]
pub(crate) struct Raw(pub(crate) Growth);

const FILE: &str = "raw.jsonl";

impl Peer for Raw {
    fn version(&self) -> Option<String> {
        None
    }

    fn append(&self, dir: &Path, texts: &[String]) -> Outcome<Appended> {
        let (mut lines, mut ends) = (Vec::new(), Vec::with_capacity(texts.len()));
        for text in texts {
            serde_json::to_writer(&mut lines, text)?;
            lines.push(b'\n');
            ends.push(lines.len());
        }
        let mut file = RawFile::create(&dir.join(FILE), self.0)?;
        let mut start = 0;
        let clock = Clock::start();
        for end in ends {
            file.append_bytes(&lines[start..end]);
            start = end;
        }
        Ok(clock.stop())
    }

    fn load(&self, dir: &Path) -> Outcome<Vec<String>> {
        self.last(dir, usize::MAX)
    }

    /// The whole file is read, but only the last lines are decoded.
    fn last(&self, dir: &Path, count: usize) -> Outcome<Vec<String>> {
        let bytes = std::fs::read(dir.join(FILE))?;
        let lines = bytes.trim_ascii_end().rsplit(|&byte| byte == b'\n').take(count);
        let texts: Result<Vec<String>, _> = lines.map(serde_json::from_slice).collect();
        let mut texts = texts?;
        texts.reverse();
        Ok(texts)
    }

    fn build(&self, dir: &Path, texts: &[String], _: usize) -> Outcome {
        let mut file = BufWriter::new(File::create_new(dir.join(FILE))?);
        for text in texts {
            serde_json::to_writer(&mut file, text)?;
            file.write_all(b"\n")?;
        }
        Ok(file.into_inner()?.sync_data()?)
    }

    fn turns(&self, dir: &Path, context: usize) -> Outcome<Box<dyn Turns>> {
        let file = OpenOptions::new().read(true).append(true).open(dir.join(FILE))?;
        Ok(Box::new(Open { file, context }))
    }
}

/// A file that takes turns.
struct Open {
    file: File,
    context: usize,
}

impl Turns for Open {
    fn append(&mut self, text: &str) -> Outcome {
        let mut line = serde_json::to_vec(text)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        Ok(self.file.sync_data()?)
    }

    /// As many bytes are read as surely hold the last lines.
    fn context(&mut self) -> Outcome<Loaded> {
        let room = (self.context * 2 * PIECE) as u64;
        let start = self.file.metadata()?.len().saturating_sub(room);
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(start))?;
        self.file.read_to_end(&mut bytes)?;
        let lines = bytes.trim_ascii_end().rsplit(|&byte| byte == b'\n').take(self.context);
        let texts: Result<Vec<String>, _> = lines.map(serde_json::from_slice).collect();
        let mut texts = texts?;
        texts.reverse();
        Ok(Loaded::Texts(texts))
    }
}
