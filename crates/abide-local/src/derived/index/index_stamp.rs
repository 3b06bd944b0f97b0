//! The stamp: the size and time of `index.db` when abide last wrote it, stored in `index.stamp`.
//!
//! SQLite has no checksums over its pages, so it would accept what another program wrote into them.
//! Our changes go to SQLite's WAL, which has checksums, and are moved into the file under our lock;
//! then its size and time are recorded here. A file that differs was changed by another program and
//! is discarded.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use abide_journal::{Access, Disk, Storage, StorageFile, write_full};
use serde::{Deserialize, Serialize};

/// What the index file looked like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexStamp {
    bytes: u64,
    seconds: i64,
    nanoseconds: i64,
    /// How often the index was changed: an index with fewer changes has lost some with its WAL.
    #[serde(default)]
    changes: u64,
    /// A checkpoint was started and its end was not recorded: the file must be checked.
    settling: bool,
}

/// What a stamp says of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StampVerdict {
    /// It is as we left it.
    Same,
    /// We may have changed it last.
    Doubtful,
    /// Another program changed it, or it does not exist.
    None,
}

impl IndexStamp {
    /// The stamp of the current file.
    pub(super) fn of(index: &Path) -> io::Result<Self> {
        let file = std::fs::symlink_metadata(index)?;
        Ok(Self {
            bytes: file.size(),
            seconds: file.mtime(),
            nanoseconds: file.mtime_nsec(),
            changes: 0,
            settling: false,
        })
    }

    /// Compares the file with its stamp.
    pub(super) fn trust(stamp: &Path, index: &Path) -> StampVerdict {
        let (Some(noted), Ok(now)) = (Self::read(stamp), Self::of(index)) else {
            return StampVerdict::None;
        };
        if now == (Self { settling: false, changes: 0, ..noted }) {
            StampVerdict::Same
        } else if noted.settling {
            StampVerdict::Doubtful
        } else {
            StampVerdict::None
        }
    }

    fn read(stamp: &Path) -> Option<Self> {
        let mut text = String::new();
        File::open(stamp).ok()?.take(1024).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// How often the index was changed, as far as recorded.
    pub(super) fn changes(stamp: &Path) -> u64 {
        Self::read(stamp).map_or(0, |stamp| stamp.changes)
    }

    /// Records that the file is about to change.
    pub(super) fn settling(stamp: &Path, index: &Path, changes: u64) -> io::Result<()> {
        Self { settling: true, changes, ..Self::of(index)? }.write(stamp)?.sync()
    }

    /// Records the file's current size and time.
    pub(super) fn settled(stamp: &Path, index: &Path, changes: u64) -> io::Result<()> {
        Self { changes, ..Self::of(index)? }.write(stamp)?.sync()
    }

    /// Records that the index has changed, but not its file.
    pub(super) fn changed(stamp: &Path, index: &Path, changes: u64) -> io::Result<()> {
        Self { changes, ..Self::of(index)? }.write(stamp).map(|_| ())
    }

    fn write(self, stamp: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let json = serde_json::to_string(&self)?;
        let file = Disk.open(stamp, Access::Create)?;
        // Padded to a fixed length, so that it is overwritten in place.
        write_full(&*file, format!("{json:<191}\n").as_bytes(), 0)?;
        Ok(file)
    }
}
