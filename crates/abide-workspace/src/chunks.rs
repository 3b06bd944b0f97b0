//! Chunk lists: how a large file is stored.
//!
//! ```text
//! magic 4 | version 1, then for each chunk in order: length 4 | hash 32
//! ```

use abide_model::ObjectHash;

use crate::TreeError;

const MAGIC: &[u8; 4] = b"aCHK";
const VERSION: u8 = 1;
const ROW: usize = 36;

/// The chunks of a large file, in file order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChunkList {
    /// Length and hash of each chunk.
    pub chunks: Vec<(u32, ObjectHash)>,
}

impl ChunkList {
    /// Encodes the list.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(5 + self.chunks.len() * ROW);
        out.extend_from_slice(MAGIC);
        out.push(VERSION);
        for (length, hash) in &self.chunks {
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&hash.0);
        }
        out
    }

    /// Decodes a list of chunks.
    pub fn read(bytes: &[u8]) -> Result<Self, TreeError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(TreeError::Form)?;
        let (version, rest) = rest.split_first().ok_or(TreeError::Form)?;
        if *version != VERSION {
            return Err(TreeError::Version(*version));
        }
        let rows = rest.chunks_exact(ROW);
        if !rows.remainder().is_empty() {
            return Err(TreeError::Form);
        }
        let mut chunks = Vec::with_capacity(rows.len());
        for row in rows {
            let (length, hash) = row.split_at(4);
            let length = length.try_into().map_err(|_| TreeError::Form)?;
            let hash = hash.try_into().map_err(|_| TreeError::Form)?;
            chunks.push((u32::from_le_bytes(length), ObjectHash(hash)));
        }
        Ok(Self { chunks })
    }

    /// The size of the whole file in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.chunks.iter().map(|(length, _)| u64::from(*length)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_back() {
        let chunks =
            ChunkList { chunks: vec![(5, ObjectHash::of(b"a")), (9, ObjectHash::of(b"b"))] };
        assert_eq!(ChunkList::read(&chunks.write()), Ok(chunks.clone()));
        assert_eq!(chunks.size(), 14);
        assert_eq!(ChunkList::read(&chunks.write()[..40]), Err(TreeError::Form));
        assert_eq!(ChunkList::read(b"aCHK\x09"), Err(TreeError::Version(9)));
    }
}
