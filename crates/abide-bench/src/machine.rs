//! What the figures were measured on: no names, only what bears on them.

use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::bench::Bench;

/// A mounted file system.
#[derive(Debug)]
pub(crate) struct Mount {
    /// What is mounted: a device, where it is one.
    pub(crate) source: PathBuf,
    /// The kind of file system, as the system names it.
    pub(crate) kind: String,
}

impl Mount {
    /// The kind, and of ext4 whether it has a journal.
    pub(crate) fn describe(&self) -> String {
        if self.kind != "ext4" {
            return self.kind.clone();
        }
        // The kernel has a directory for each journal, named after its device and an inode.
        let device = format!("{}-", self.source.file_name().unwrap_or_default().display());
        let journals = std::fs::read_dir("/proc/fs/jbd2").into_iter().flatten().flatten();
        let mut names = journals.map(|journal| journal.file_name());
        let journaled = names.any(|name| name.to_string_lossy().starts_with(&device));
        format!("ext4 {} a journal", if journaled { "with" } else { "without" })
    }
}

/// The file system that a directory is on.
pub(crate) fn mount_of(dir: &Path) -> Outcome<Mount> {
    let dir = dir.canonicalize()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let found = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (source, place, kind) = (fields.next()?, Path::new(fields.next()?), fields.next()?);
        dir.starts_with(place).then(|| (place.components().count(), source, kind))
    });
    let (_, source, kind) =
        found.max_by_key(|(depth, ..)| *depth).ok_or("no mount has the directory")?;
    Ok(Mount { source: source.into(), kind: kind.to_owned() })
}

/// How many processors this process may use.
pub(crate) fn cores() -> Outcome<usize> {
    Ok(std::thread::available_parallelism()?.get())
}

/// When and on what a table was measured.
pub(crate) fn measured(bench: &Bench) -> Outcome<String> {
    let day = jiff::Timestamp::now().strftime("%Y-%m-%d");
    let (rounds, cores) = (bench.rounds, cores()?);
    Ok(format!("Measured {day}: {rounds} rounds, {cores} cores, {}.", bench.file_system()?))
}
