//! Trees of real files: found, copied, and changed as an agent changes them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Outcome;
use crate::bench::{Bench, Scale};
use crate::text;

/// What is touched within this time before a snapshot is read again by the next one.
const YOUNG: Duration = Duration::from_secs(37);
/// Only files of such sizes are edited.
const EDITED: std::ops::Range<u64> = 200..200_000;
const EDITED_KINDS: [&str; 9] = ["c", "h", "rs", "py", "md", "rst", "txt", "toml", "S"];
/// Where there is no tree, so many files of the dependencies' sources are taken.
const SOURCES: usize = 6000;

/// Where a tree comes from.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) name: String,
    dir: PathBuf,
    most: usize,
}

/// The trees in a directory, one in each directory of it; else the sources of the dependencies.
/// Of those names, or of any where none is given.
pub(crate) fn origins(bench: &Bench, dir: Option<&Path>, names: &[String]) -> Outcome<Vec<Origin>> {
    let Some(dir) = dir else {
        let dir = text::registry().filter(|dir| dir.is_dir());
        let dir = dir.ok_or("there are no sources of the dependencies: --trees DIR")?;
        let most = bench.scale.of(SOURCES);
        return Ok(vec![Origin { name: "sources".to_owned(), dir, most }]);
    };
    let mut origins = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let named = names.is_empty() || names.contains(&name);
        if named && entry.file_type()?.is_dir() {
            origins.push(Origin { name, dir: entry.path(), most: usize::MAX });
        }
    }
    if origins.is_empty() {
        return Err(format!("there is no tree in {}: scripts/bench-trees", dir.display()).into());
    }
    // 6k before 20k before 80k.
    origins.sort_unstable_by_key(|origin| (origin.name.len(), origin.name.clone()));
    Ok(origins)
}

/// A copy of a tree that may be changed, in a new directory.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) name: String,
    place: TempDir,
    files: Vec<PathBuf>,
    touched: Instant,
    dice: Dice,
    edits: usize,
}

impl Tree {
    pub(crate) fn copy(bench: &Bench, origin: &Origin) -> Outcome<Self> {
        let place = bench.fresh()?;
        let to = place.path().join("work");
        if origin.most == usize::MAX {
            let status = Command::new("cp").arg("-a").arg(&origin.dir).arg(&to).status()?;
            if !status.success() {
                return Err(format!("{} was not copied: {status}", origin.dir.display()).into());
            }
        } else {
            std::fs::create_dir(&to)?;
            copy_some(&origin.dir, &to, &mut origin.most.clone())?;
        }
        let mut files = Vec::new();
        text_files(&to, &mut files)?;
        files.sort_unstable();
        Ok(Self {
            name: origin.name.clone(),
            place,
            files,
            touched: Instant::now(),
            dice: Dice(0x9e37_79b9_7f4a_7c15),
            edits: 0,
        })
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.place.path().join("work")
    }

    /// A path beside the files.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Waits until no file counts as young.
    pub(crate) fn settle(&self, bench: &Bench) {
        let left = YOUNG.saturating_sub(self.touched.elapsed());
        if bench.scale == Scale::Full && !left.is_zero() {
            eprintln!("waiting {} s until the files are old", left.as_secs());
            std::thread::sleep(left);
        }
    }

    /// Files to edit, by chance.
    pub(crate) fn pick(&mut self, count: usize) -> Outcome<Vec<PathBuf>> {
        if self.files.len() < count {
            return Err(format!("{} has too few files of text", self.name).into());
        }
        let mut picked: Vec<PathBuf> = Vec::new();
        while picked.len() < count {
            let file = &self.files[self.dice.below(self.files.len())];
            if !picked.contains(file) {
                picked.push(file.clone());
            }
        }
        Ok(picked)
    }

    /// Changes a line of each of these files.
    pub(crate) fn edit(&mut self, files: &[PathBuf]) -> Outcome {
        for file in files {
            let text = std::fs::read_to_string(file)?;
            let mut lines: Vec<&str> = text.lines().collect();
            self.edits += 1;
            let line = format!("edit {} of what stood here: {:x}", self.edits, self.dice.next());
            match lines.len() {
                0 => lines.push(&line),
                count => lines[self.dice.below(count)] = &line,
            }
            std::fs::write(file, lines.join("\n") + "\n")?;
        }
        self.touched = Instant::now();
        Ok(())
    }
}

/// The files that can be edited.
fn text_files(dir: &Path, files: &mut Vec<PathBuf>) -> Outcome {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let of_kind = path.extension().and_then(|it| it.to_str());
        if kind.is_dir() {
            text_files(&path, files)?;
        } else if kind.is_file()
            && of_kind.is_some_and(|it| EDITED_KINDS.contains(&it))
            && EDITED.contains(&entry.metadata()?.len())
            && std::str::from_utf8(&std::fs::read(&path)?).is_ok()
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Copies files as long as `left` allows.
fn copy_some(from: &Path, to: &Path, left: &mut usize) -> Outcome {
    let mut entries = std::fs::read_dir(from)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_unstable_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if *left == 0 {
            break;
        }
        if kind.is_dir() {
            std::fs::create_dir(&to)?;
            copy_some(&entry.path(), &to, left)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), &to)?;
            *left -= 1;
        }
    }
    Ok(())
}

/// Numbers that are the same in every run.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }
}
