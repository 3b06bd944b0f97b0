//! The snapshot object: root tree, counts and omissions. It records no time, so an unchanged
//! workspace always gives the same snapshot.

use abide_model::ObjectHash;
use serde::{Deserialize, Serialize};

/// Why a file that exists and is not ignored is missing from a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OmissionReason {
    /// Larger than the limit for one file.
    TooLarge,
    /// The snapshot reached its limit on files or bytes.
    OverCap,
    /// A socket, pipe or device.
    Special,
    /// No permission to read it.
    Unreadable,
    /// It changed each time it was read.
    Changing,
    /// On another file system, or the store itself.
    Elsewhere,
}

impl std::fmt::Display for OmissionReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "larger than the limit for one file",
            Self::OverCap => "over the limit for a snapshot",
            Self::Special => "a socket, a pipe or a device",
            Self::Unreadable => "not readable",
            Self::Changing => "changed each time it was read",
            Self::Elsewhere => "on another file system",
        })
    }
}

/// A file or directory that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omission {
    /// Path relative to the root; bytes that are not UTF-8 are escaped.
    pub path: String,
    /// The reason.
    pub reason: OmissionReason,
    /// Size in bytes.
    #[serde(default)]
    pub size: u64,
}

/// The files of a workspace at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The format version: 1.
    pub version: u32,
    /// The root directory.
    pub tree: ObjectHash,
    /// Number of files and links.
    pub files: u64,
    /// Number of directories, not counting the root.
    pub directories: u64,
    /// Total size of the files in bytes.
    pub bytes: u64,
    /// The first thousand omissions, sorted by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<Omission>,
    /// The total number of omissions.
    #[serde(default)]
    pub omissions: u64,
}

impl Snapshot {
    /// The version this program writes, and the newest one it can read.
    pub const VERSION: u32 = 1;

    /// Encodes the snapshot.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Decodes a snapshot.
    pub fn read(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let snapshot: Self = serde_json::from_slice(bytes)?;
        if snapshot.version > Self::VERSION {
            return Err(serde::de::Error::custom(format!(
                "unsupported snapshot version {} (this program reads up to {})",
                snapshot.version,
                Self::VERSION
            )));
        }
        Ok(snapshot)
    }
}
