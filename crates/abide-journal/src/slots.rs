//! Two files written in turn, for derived data that must be found quickly (the state cache). Each
//! is either whole or ignored. They are never synced; a torn one is skipped.

use std::path::{Path, PathBuf};

use crate::{Access, JournalError, Storage, read_full, write_full};

const HEAD: usize = 16 + 1 + 16 + 1 + 32 + 1;
const MAX: usize = 64 << 20;
/// The last valid generation.
const LAST: u64 = u64::MAX - 1;

/// A pair of files; the newest whole one counts.
#[derive(Debug)]
pub struct Slots {
    paths: [PathBuf; 2],
    generation: u64,
}

impl Slots {
    /// The pair with this name.
    #[must_use]
    pub fn new(dir: &Path, name: &str) -> Self {
        let path = |slot: &str| dir.join(format!("{name}.{slot}"));
        Self { paths: [path("0"), path("1")], generation: 0 }
    }

    /// The contents of the whole files, newest first.
    pub fn read(&mut self, storage: &dyn Storage) -> Vec<Vec<u8>> {
        let mut found: Vec<_> =
            self.paths.iter().filter_map(|path| read_slot(storage, path)).collect();
        found.sort_by_key(|(generation, _)| std::cmp::Reverse(*generation));
        self.generation = found.first().map_or(0, |(generation, _)| *generation);
        found.into_iter().map(|(_, content)| content).collect()
    }

    /// Removes both files.
    pub fn remove(&mut self, storage: &dyn Storage) {
        for path in &self.paths {
            let _ = storage.remove(path);
        }
    }

    /// Writes the next file.
    pub fn write(&mut self, storage: &dyn Storage, content: &[u8]) -> Result<(), JournalError> {
        if self.generation == LAST {
            // No generation could be newer: start over.
            self.remove(storage);
            self.generation = 0;
        }
        let generation = self.generation + 1;
        let [even, odd] = &self.paths;
        let path = if generation.is_multiple_of(2) { even } else { odd };
        let mut bytes = slot_head(generation, content).into_bytes();
        bytes.extend_from_slice(content);
        let file = storage.open(path, Access::Create).map_err(JournalError::io("open", path))?;
        write_full(&*file, &bytes, 0).map_err(JournalError::io("write", path))?;
        self.generation = generation;
        Ok(())
    }
}

fn slot_head(generation: u64, content: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&generation.to_le_bytes());
    hasher.update(content);
    let check: String = hasher.finalize().to_hex().chars().take(32).collect();
    format!("{:016x} {:016x} {check}\n", content.len(), generation)
}

fn read_slot(storage: &dyn Storage, path: &Path) -> Option<(u64, Vec<u8>)> {
    let file = storage.open(path, Access::Read).ok()?;
    let len = usize::try_from(file.len().ok()?).ok().filter(|len| *len <= MAX)?;
    let mut bytes = vec![0; len];
    let read = read_full(&*file, &mut bytes, 0).ok()?;
    bytes.truncate(read);
    let text = std::str::from_utf8(bytes.get(..HEAD)?).ok()?;
    let mut words = text.split(' ');
    let size = usize::from_str_radix(words.next()?, 16).ok()?;
    let generation = u64::from_str_radix(words.next()?, 16).ok()?;
    // No generation follows the last one, so a file that claims more could never be replaced.
    let generation = Some(generation).filter(|generation| *generation <= LAST)?;
    let content = bytes.get(HEAD..HEAD.checked_add(size)?)?;
    (slot_head(generation, content) == text).then(|| (generation, content.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Disk;

    #[test]
    fn the_newest_whole_one_counts_and_the_one_before_stands_in_for_a_torn_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut slots = Slots::new(dir.path(), "handover");
        assert!(slots.read(&Disk).is_empty());
        for content in ["one, which is long", "two", "three"] {
            slots.write(&Disk, content.as_bytes()).unwrap();
        }
        let mut again = Slots::new(dir.path(), "handover");
        assert_eq!(again.read(&Disk), [b"three".to_vec(), b"two".to_vec()]);
        let path = dir.path().join("handover.1");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[70] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(again.read(&Disk), [b"two".to_vec()]);
    }

    #[test]
    fn the_last_generation_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let last = [slot_head(LAST, b"last").as_bytes(), b"last"].concat();
        std::fs::write(dir.path().join("handover.0"), last).unwrap();
        let mut slots = Slots::new(dir.path(), "handover");
        assert_eq!(slots.read(&Disk), [b"last".to_vec()]);
        slots.write(&Disk, b"first").unwrap();
        assert_eq!(slots.read(&Disk), [b"first".to_vec()]);
    }

    #[test]
    fn one_that_nothing_could_come_after_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let last = [slot_head(u64::MAX, b"last").as_bytes(), b"last"].concat();
        std::fs::write(dir.path().join("handover.0"), last).unwrap();
        let mut slots = Slots::new(dir.path(), "handover");
        assert!(slots.read(&Disk).is_empty());
        slots.write(&Disk, b"first").unwrap();
        assert_eq!(slots.read(&Disk), [b"first".to_vec()]);
    }
}
