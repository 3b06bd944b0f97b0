//! One run of the program: where it works, how much it does, what it has found.

use std::cell::{OnceCell, RefCell};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Outcome;
use crate::figure::{Figure, Row};
use crate::fixture::Long;
use crate::text::Text;

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// What the targets are about.
    Full,
    /// A twentieth.
    Quick,
}

impl Scale {
    pub(crate) fn of(self, full: usize) -> usize {
        match self {
            Self::Full => full,
            Self::Quick => (full / 20).max(1),
        }
    }
}

/// A run.
#[derive(Debug)]
pub(crate) struct Bench {
    dir: PathBuf,
    pub(crate) rounds: usize,
    pub(crate) scale: Scale,
    pub(crate) abide: PathBuf,
    text: OnceCell<Text>,
    long: OnceCell<Long>,
    rows: RefCell<Vec<Row>>,
}

impl Bench {
    pub(crate) fn new(dir: PathBuf, rounds: usize, scale: Scale, abide: PathBuf) -> Self {
        Self {
            dir,
            rounds,
            scale,
            abide,
            text: OnceCell::new(),
            long: OnceCell::new(),
            rows: RefCell::default(),
        }
    }

    /// A new directory, removed when it is dropped.
    pub(crate) fn fresh(&self) -> Outcome<TempDir> {
        Ok(TempDir::with_prefix_in("abide-bench-", &self.dir)?)
    }

    /// The text of the messages.
    pub(crate) fn text(&self) -> &Text {
        self.text.get_or_init(Text::load)
    }

    /// The session of a million events, made the first time it is asked for.
    pub(crate) fn long(&self) -> Outcome<&Long> {
        if self.long.get().is_none() {
            let long = Long::build(self)?;
            let _ = self.long.set(long);
        }
        Ok(self.long.get().ok_or("the long session was not made")?)
    }

    /// Gives out a figure.
    pub(crate) fn report(&self, figure: &Figure) -> Outcome {
        println!("{}", figure.to_json()?);
        self.rows.borrow_mut().push(figure.row());
        Ok(())
    }

    /// Says that a figure was not measured, and why.
    pub(crate) fn skip(&self, name: &str, reason: &str) {
        println!("{}", serde_json::json!({ "figure": name, "skipped": reason }));
        self.rows.borrow_mut().push(Row::skipped(name, reason));
    }

    /// The table for people.
    pub(crate) fn summarise(&self) {
        eprintln!("{}", Row::heading());
        for row in self.rows.borrow().iter() {
            eprintln!("{row}");
        }
    }
}

/// The bytes of the files below a directory.
pub(crate) fn bytes_below(dir: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.metadata()?;
        bytes += if kind.is_dir() { bytes_below(&entry.path())? } else { kind.len() };
    }
    Ok(bytes)
}

/// The bytes that the file system set aside for what is below a directory.
pub(crate) fn room_below(dir: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.metadata()?;
        bytes += kind.blocks() * 512;
        if kind.is_dir() {
            bytes += room_below(&entry.path())?;
        }
    }
    Ok(bytes)
}
