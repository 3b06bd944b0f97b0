//! A file of JSON lines, with an `fdatasync` after each: what the disk allows.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use crate::Outcome;
use crate::calibration::millis;
use crate::peers::work::Peer;

#[derive(Debug)]
pub(crate) struct Raw;

const FILE: &str = "raw.jsonl";

impl Peer for Raw {
    fn version(&self) -> Option<String> {
        None
    }

    fn append(&self, dir: &Path, texts: &[String]) -> Outcome<f64> {
        let mut file = OpenOptions::new().create_new(true).append(true).open(dir.join(FILE))?;
        let mut line = Vec::new();
        let start = Instant::now();
        for text in texts {
            line.clear();
            serde_json::to_writer(&mut line, text)?;
            line.push(b'\n');
            file.write_all(&line)?;
            file.sync_data()?;
        }
        Ok(millis(start.elapsed()))
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
}
