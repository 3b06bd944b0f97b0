//! The stamp: what `index.db` looked like when we last wrote to it, in `index.stamp`.
//!
//! SQLite has no sums over its pages, so that it would believe what somebody else wrote into them.
//! Every change of ours goes to SQLite's log first, which has sums, and comes into the file under
//! our lock, after which its length and time are noted here. A file that looks otherwise was
//! changed by somebody else and is thrown away.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use abide_journal::{Access, Disk, Storage, StorageFile, write_full};
use serde::{Deserialize, Serialize};

/// What the index's file looked like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    bytes: u64,
    seconds: i64,
    nanoseconds: i64,
    /// How often the index was changed: one that tells of fewer changes has lost some, with its log.
    #[serde(default)]
    changes: u64,
    /// A change of the file had been begun and its end was not noted: whether it is whole must be
    /// looked at.
    settling: bool,
}

/// What a stamp says of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is as we left it.
    Same,
    /// We may have changed it last.
    Doubtful,
    /// Somebody else changed it, or it is not there.
    None,
}

impl Stamp {
    /// The file as it is now.
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

    /// Is the file as it was noted?
    pub(super) fn trust(stamp: &Path, index: &Path) -> Trust {
        let (Some(noted), Ok(now)) = (Self::read(stamp), Self::of(index)) else {
            return Trust::None;
        };
        if now == (Self { settling: false, changes: 0, ..noted }) {
            Trust::Same
        } else if noted.settling {
            Trust::Doubtful
        } else {
            Trust::None
        }
    }

    fn read(stamp: &Path) -> Option<Self> {
        let mut text = String::new();
        File::open(stamp).ok()?.take(1024).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// How often the index was changed, as far as it was noted.
    pub(super) fn changes(stamp: &Path) -> u64 {
        Self::read(stamp).map_or(0, |stamp| stamp.changes)
    }

    /// Notes that the file is about to change.
    pub(super) fn settling(stamp: &Path, index: &Path, changes: u64) -> io::Result<()> {
        Self { settling: true, changes, ..Self::of(index)? }.write(stamp)?.sync()
    }

    /// Notes how the file is now.
    pub(super) fn settled(stamp: &Path, index: &Path, changes: u64) -> io::Result<()> {
        Self { changes, ..Self::of(index)? }.write(stamp)?.sync()
    }

    /// Notes that the index has changed, though not its file.
    pub(super) fn changed(stamp: &Path, index: &Path, changes: u64) -> io::Result<()> {
        Self { changes, ..Self::of(index)? }.write(stamp).map(|_| ())
    }

    fn write(self, stamp: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let json = serde_json::to_string(&self)?;
        let file = Disk.open(stamp, Access::Create)?;
        // Padded, and of one length, so that it is written over in place.
        write_full(&*file, format!("{json:<191}\n").as_bytes(), 0)?;
        Ok(file)
    }
}
