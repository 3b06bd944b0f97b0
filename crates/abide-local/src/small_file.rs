//! Reads small files that somebody else may have put there: a pointer, git's files about a
//! worktree, an id.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opening a pipe without a writer would block; a terminal would become our controlling terminal.
const CAREFUL: i32 = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits().cast_signed();

/// Opens a regular file. Refuses anything else, without blocking.
pub(crate) fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let refused = || Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
    if !fs::metadata(path)?.is_file() {
        return refused();
    }
    let file = OpenOptions::new().read(true).custom_flags(CAREFUL).open(path)?;
    // It may have been replaced since.
    let found = file.metadata()?;
    if found.is_file() { Ok((file, found)) } else { refused() }
}

/// Reads an open file of at most this many bytes.
pub(crate) fn read_at_most(file: &File, bytes: u64) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    file.take(bytes.saturating_add(1)).read_to_end(&mut read)?;
    if read.len() as u64 > bytes {
        let why = format!("longer than {bytes} bytes");
        return Err(io::Error::new(ErrorKind::InvalidData, why));
    }
    Ok(read)
}

/// Reads a regular file of at most this many bytes. Refuses anything else, without blocking.
pub fn read_small_file(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let (file, _) = open_regular(path)?;
    read_at_most(&file, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_regular_files_are_read_and_nothing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (file, pipe) = (dir.path().join("file"), dir.path().join("pipe"));
        fs::write(&file, "12345").unwrap();
        assert_eq!(read_small_file(&file, 5).unwrap(), b"12345");
        assert_eq!(read_small_file(&file, 4).unwrap_err().kind(), ErrorKind::InvalidData);
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for odd in [pipe.as_path(), dir.path(), Path::new("/dev/null")] {
            let refused = read_small_file(odd, 5).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{}", odd.display());
        }
    }
}
