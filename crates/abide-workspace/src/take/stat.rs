//! Metadata that tells whether a file changed.

use rustix::fs::{FileType, Stat};

/// A file is considered unchanged if these, its type and its mode are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) size: u64,
    pub(crate) mtime: i64,
    pub(crate) ctime: i64,
    pub(crate) ino: u64,
}

impl FileStamp {
    pub(crate) const LENGTH: usize = 32;

    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            size: stat.st_size as u64,
            mtime: stat_nanoseconds(stat.st_mtime, stat.st_mtime_nsec as i64),
            ctime: stat_nanoseconds(stat.st_ctime, stat.st_ctime_nsec as i64),
            ino: stat.st_ino,
        }
    }

    /// Encodes the values.
    pub(crate) fn write(&self) -> [u8; Self::LENGTH] {
        let mut out = [0; Self::LENGTH];
        let fields = [self.size, self.mtime.cast_unsigned(), self.ctime.cast_unsigned(), self.ino];
        for (place, field) in out.as_chunks_mut::<8>().0.iter_mut().zip(fields) {
            *place = field.to_le_bytes();
        }
        out
    }

    /// Returns true if it was last modified before this time.
    pub(crate) fn settled(&self, before: i64) -> bool {
        self.mtime < before && self.ctime < before
    }
}

fn stat_nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds)
}

/// The device of the file.
// The type of `st_dev` differs between systems.
#[allow(clippy::unnecessary_cast)]
pub(crate) fn stat_device(stat: &Stat) -> u64 {
    stat.st_dev as u64
}

/// The permission bits.
pub(crate) fn stat_mode(stat: &Stat) -> u16 {
    (stat.st_mode & 0o7777) as u16
}

pub(crate) fn stat_kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode as _)
}
