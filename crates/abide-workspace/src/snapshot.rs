//! A snapshot as an object: its root tree, counts, and what was left out. It says nothing of when
//! it was taken, so that an unchanged workspace has the same snapshot.

use abide_model::ObjectHash;
use serde::{Deserialize, Serialize};

/// Why something is not in a snapshot although it is there and not ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OmissionReason {
    /// Larger than the cap for one file.
    TooLarge,
    /// The snapshot has reached its cap on files or bytes.
    OverCap,
    /// A socket, a pipe or a device.
    Special,
    /// It may not be read.
    Unreadable,
    /// It changed each time it was read.
    Changing,
    /// On another file system, or the store itself.
    Elsewhere,
}

impl std::fmt::Display for OmissionReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "larger than the cap for one file",
            Self::OverCap => "over the cap of the whole",
            Self::Special => "a socket, a pipe or a device",
            Self::Unreadable => "not readable",
            Self::Changing => "changed each time it was read",
            Self::Elsewhere => "on another file system",
        })
    }
}

/// Something that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omission {
    /// Its path from the root; what is not UTF-8 is escaped.
    pub path: String,
    /// Why.
    pub reason: OmissionReason,
    /// Its bytes.
    #[serde(default)]
    pub size: u64,
}

/// The files of a workspace at an instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The version of this form: 1.
    pub version: u32,
    /// The root directory.
    pub tree: ObjectHash,
    /// Files and links.
    pub files: u64,
    /// Directories, without the root.
    pub directories: u64,
    /// The bytes of the files.
    pub bytes: u64,
    /// The first thousand of what was left out, by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<Omission>,
    /// How much was left out in all.
    #[serde(default)]
    pub omissions: u64,
}

impl Snapshot {
    /// The version that this program writes, and the newest it reads.
    pub const VERSION: u32 = 1;

    /// Its bytes.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a snapshot.
    pub fn read(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let snapshot: Self = serde_json::from_slice(bytes)?;
        if snapshot.version > Self::VERSION {
            return Err(serde::de::Error::custom(format!(
                "the snapshot is of version {}, and this program knows {}",
                snapshot.version,
                Self::VERSION
            )));
        }
        Ok(snapshot)
    }
}
