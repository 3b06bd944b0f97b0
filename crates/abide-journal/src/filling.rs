//! Filling: line feeds that a busy writer puts behind the last line of a segment.
//!
//! A sync of a file that grows writes the file's length too. Lines that overwrite line feeds leave the
//! length alone, so their sync writes data and nothing else. Readers pass over empty lines. Filling ends
//! where a segment is full, and a close and a sealing cut it off. Were it to go further, a rotation would
//! have to cut it off and sync that: a cut that is lost leaves zeros before the next segment, which read
//! as damage.

use std::io;

use crate::{StorageFile, read_full, write_full};

/// When a segment is filled, and by how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FillingPolicy {
    /// A writer fills after this many synced commits, so that a short-lived one does not pay.
    pub after: u64,
    /// The bytes of the first filling. Each later one has twice as many.
    pub first: u64,
    /// The most bytes of one filling.
    pub most: u64,
}

impl Default for FillingPolicy {
    fn default() -> Self {
        Self { after: 4, first: 16 << 10, most: 64 << 10 }
    }
}

/// What is written at once. A writer that fills need not make its line feeds first.
static LINE_FEEDS: [u8; 16 << 10] = [b'\n'; 16 << 10];

/// Writes filling from `from` to `to`. If that fails, the file ends at `from` again.
pub(crate) fn write_filling(file: &dyn StorageFile, from: u64, to: u64) -> io::Result<bool> {
    let mut at = from;
    while at < to {
        let bytes = usize::try_from(to - at).unwrap_or(usize::MAX).min(LINE_FEEDS.len());
        let written = write_full(file, LINE_FEEDS.get(..bytes).unwrap_or_default(), at);
        if written.is_err() {
            return file.truncate(from).map(|()| false);
        }
        at += bytes as u64;
    }
    Ok(true)
}

/// Where the filling of a file starts: behind the line feed that ends its last line. Without filling,
/// the length of the file.
pub fn filling_start(file: &dyn StorageFile) -> io::Result<u64> {
    let len = file.len()?;
    let mut end = len;
    // Nearly always there is none, and few bytes show it.
    let mut block = 64;
    while end > 0 {
        let start = end.saturating_sub(block);
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0)];
        let read = read_full(file, &mut bytes, start)?;
        bytes.truncate(read);
        if let Some(last) = bytes.iter().rposition(|byte| *byte != b'\n') {
            return Ok((start + last as u64 + 2).min(len));
        }
        (end, block) = (start, 32 << 10);
    }
    Ok(0)
}

/// How many line feeds these bytes start with.
pub(crate) fn leading_line_feeds(bytes: &[u8]) -> usize {
    const RUN: [u8; 64] = [b'\n'; 64];
    let (runs, _) = bytes.as_chunks::<64>();
    let whole = runs.iter().take_while(|run| **run == RUN).count() * RUN.len();
    let rest = bytes.get(whole..).unwrap_or_default();
    whole + rest.iter().take_while(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Disk, Storage};

    #[test]
    fn filling_starts_behind_the_line_feed_of_the_last_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("segment");
        let start_of = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            filling_start(&*Disk.open(&path, Access::Read).unwrap()).unwrap()
        };
        assert_eq!(start_of(b""), 0);
        assert_eq!(start_of(b"\n\n\n"), 0);
        for text in [1, 63, 64, 65, 40_000] {
            for filling in [0, 1, 2, 62, 63, 64, 65, 32_767, 32_768, 32_769, 100_000] {
                let mut bytes = vec![b'x'; text];
                bytes.resize(text + filling, b'\n');
                let expected = (text + filling.min(1)) as u64;
                assert_eq!(start_of(&bytes), expected, "{text} bytes and {filling}");
                bytes.push(0);
                assert_eq!(start_of(&bytes), bytes.len() as u64, "zeros are no filling");
            }
        }
    }

    #[test]
    fn line_feeds_are_counted_up_to_the_first_other_byte() {
        for count in [0, 1, 63, 64, 65, 128, 1000] {
            let mut bytes = vec![b'\n'; count];
            assert_eq!(leading_line_feeds(&bytes), count);
            bytes.extend_from_slice(b"x\n\n");
            assert_eq!(leading_line_feeds(&bytes), count);
        }
    }
}
