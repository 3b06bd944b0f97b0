//! What the figures were measured on: no names, only what bears on them.

use std::path::Path;

use crate::Outcome;

/// The kind of the file system that a directory is on, as the system names it.
pub(crate) fn file_system(dir: &Path) -> Outcome<String> {
    let dir = dir.canonicalize()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let kinds = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind) = (Path::new(fields.next()?), fields.next()?);
        dir.starts_with(place).then(|| (place.components().count(), kind))
    });
    let (_, kind) = kinds.max_by_key(|(depth, _)| *depth).ok_or("no mount has the directory")?;
    Ok(kind.to_owned())
}

/// How many processors this process may use.
pub(crate) fn cores() -> Outcome<usize> {
    Ok(std::thread::available_parallelism()?.get())
}
