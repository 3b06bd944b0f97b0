//! One run of the program: where it works, how much it does, what it has found.

use std::cell::{OnceCell, RefCell};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tempfile::TempDir;

use crate::Outcome;
use crate::figure::{Figure, Row};
use crate::fixture::Long;
use crate::machine::mount_of;
use crate::page::Page;
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
    /// Before the names of figures, where another file system is measured.
    prefix: String,
    page: Page,
    text: Rc<OnceCell<Text>>,
    long: OnceCell<Long>,
    rows: Rc<RefCell<Vec<Row>>>,
    figures: Rc<RefCell<Vec<Figure>>>,
}

impl Bench {
    pub(crate) fn new(
        dir: PathBuf,
        rounds: usize,
        scale: Scale,
        abide: PathBuf,
        page: Page,
    ) -> Self {
        Self {
            dir,
            rounds,
            scale,
            abide,
            prefix: String::new(),
            page,
            text: Rc::default(),
            long: OnceCell::new(),
            rows: Rc::default(),
            figures: Rc::default(),
        }
    }

    /// The same run in another directory. Its figures are named after that.
    pub(crate) fn on(&self, name: &str, dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            rounds: self.rounds,
            scale: self.scale,
            abide: self.abide.clone(),
            prefix: format!("{name}."),
            page: self.page.clone(),
            text: Rc::clone(&self.text),
            long: OnceCell::new(),
            rows: Rc::clone(&self.rows),
            figures: Rc::clone(&self.figures),
        }
    }

    /// The name of a figure in this directory.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A figure of this directory that was given out, without the prefix of its name.
    pub(crate) fn figure(&self, name: &str) -> Option<Figure> {
        let name = self.name(name);
        self.figures.borrow().iter().find(|figure| figure.name() == name).cloned()
    }

    /// All figures that were given out and whose names begin so.
    pub(crate) fn figures(&self, begin: &str) -> Vec<Figure> {
        let figures = self.figures.borrow();
        figures.iter().filter(|figure| figure.name().starts_with(begin)).cloned().collect()
    }

    /// Where tables go.
    pub(crate) fn page(&self) -> &Page {
        &self.page
    }

    /// Where stores are made.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file system that stores are on, as it is said in tables.
    pub(crate) fn file_system(&self) -> Outcome<String> {
        Ok(mount_of(&self.dir)?.describe())
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
        self.figures.borrow_mut().push(figure.clone());
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
