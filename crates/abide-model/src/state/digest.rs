//! An incremental digest of a set.
//!
//! The hashes of the entries are added up. Adding or removing an entry has constant cost, and the
//! order of the entries does not matter.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The sum of the BLAKE3 hashes of a set's entries, in four lanes of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest([u64; 4]);

impl Digest {
    /// The hash of one entry.
    #[must_use]
    pub fn of(table: &str, key: &str, value: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in [table.as_bytes(), key.as_bytes()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.update(value);
        let hash = hasher.finalize();
        let mut lanes = [0; 4];
        for (lane, chunk) in lanes.iter_mut().zip(hash.as_bytes().chunks_exact(8)) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(chunk);
            *lane = u64::from_le_bytes(bytes);
        }
        Self(lanes)
    }

    /// Adds an entry.
    pub fn add(&mut self, other: Self) {
        for (lane, more) in self.0.iter_mut().zip(other.0) {
            *lane = lane.wrapping_add(more);
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, other: Self) {
        for (lane, less) in self.0.iter_mut().zip(other.0) {
            *lane = lane.wrapping_sub(less);
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|lane| write!(f, "{lane:016x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <[u64; 4]>::deserialize(deserializer).map(Self)
    }
}
