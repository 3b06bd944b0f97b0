//! Inputs of several files, and a disk in memory to put them on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_journal::{Access, Storage, StorageFile, write_full};
use abide_testkit::SimDisk;

/// What stands between the files of an input.
pub const CUT: &[u8] = b"\n%%\n";

/// The parts of an input.
pub fn parts(data: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut rest = data;
    while let Some(at) = rest.windows(CUT.len()).position(|window| window == CUT) {
        parts.push(&rest[..at]);
        rest = &rest[at + CUT.len()..];
    }
    parts.push(rest);
    parts
}

/// Which of the mends an input asks for: a bit each, in its first byte.
#[derive(Debug, Clone, Copy)]
pub struct Wish(u8);

impl Wish {
    /// Takes the first byte of an input.
    pub fn take(data: &[u8]) -> Option<(Self, &[u8])> {
        data.split_first().map(|(wish, rest)| (Self(*wish), rest))
    }

    /// Is this bit set?
    pub fn has(self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }
}

/// Where the disk of a target begins.
pub fn root() -> PathBuf {
    PathBuf::from("/fuzz")
}

/// A disk with these files below [`root`].
pub fn disk<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Arc<SimDisk> {
    let disk = SimDisk::new(&root());
    for (name, bytes) in files {
        put(&disk, name, bytes);
    }
    Arc::new(disk)
}

/// Puts a file below [`root`], and the directories on the way to it.
pub fn put(disk: &SimDisk, name: &str, bytes: &[u8]) {
    let path = root().join(name);
    make_dirs(disk, path.parent().expect("a file is in a directory"));
    let file: Arc<dyn StorageFile> = disk.open(&path, Access::Create).expect("a file");
    write_full(&*file, bytes, 0).expect("its bytes");
}

fn make_dirs(disk: &SimDisk, dir: &Path) {
    if dir != root() {
        make_dirs(disk, dir.parent().expect("below the root"));
        disk.make_dir(dir).expect("a directory");
    }
}
