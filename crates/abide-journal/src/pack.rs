//! The block of a pack: one or more objects, compressed together.
//!
//! ```text
//! magic 4 | codec 1 | 0 3 | count 4 | plain 8 | stored 8 | check 16     the head
//! (hash 32, length 8) × count                                           the table
//! stored bytes
//! ```
//!
//! The check covers the rest of the head, the table and the stored bytes, so that a torn or
//! damaged block is noticed without unpacking it. The hash of each object covers its plain
//! bytes, and is compared whenever one is read.

use std::io;

use abide_model::ObjectHash;

use crate::{StorageFile, read_full};

pub(crate) const HEAD: usize = 44;
const ROW: usize = 40;
pub(crate) const MAGIC: &[u8; 4] = b"aBLK";
const CHECK: usize = 16;
/// The most plain bytes of a block, and the most objects.
const MAX_PLAIN: u64 = 256 << 20;
const MAX_COUNT: u32 = 1 << 20;

/// How the bytes of a block are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    Stored = 0,
    Zstd = 1,
}

/// Where a block is and what is in it.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    codec: Codec,
    plain: u64,
    stored: u64,
    check: [u8; CHECK],
    /// Hash and length of each object, in order.
    pub(crate) objects: Vec<(ObjectHash, u64)>,
}

impl Block {
    /// How many bytes it takes in the file.
    pub(crate) fn size(&self) -> u64 {
        HEAD as u64 + self.objects.len() as u64 * ROW as u64 + self.stored
    }

    /// Writes objects as one block.
    pub(crate) fn pack(objects: &[(ObjectHash, &[u8])], level: i32) -> io::Result<Vec<u8>> {
        let plain: Vec<u8> = objects.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
        let compressed = zstd::bulk::compress(&plain, level)?;
        let (codec, stored) = if compressed.len() < plain.len() {
            (Codec::Zstd, compressed)
        } else {
            (Codec::Stored, plain.clone())
        };
        let count =
            u32::try_from(objects.len()).map_err(|_| io::Error::other("too many objects"))?;
        let mut out = Vec::with_capacity(HEAD + objects.len() * ROW + stored.len());
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[codec as u8, 0, 0, 0]);
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(&(plain.len() as u64).to_le_bytes());
        out.extend_from_slice(&(stored.len() as u64).to_le_bytes());
        let mut hasher = blake3::Hasher::new();
        hasher.update(&out);
        let mut table = Vec::with_capacity(objects.len() * ROW);
        for (hash, bytes) in objects {
            table.extend_from_slice(&hash.0);
            table.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        }
        hasher.update(&table);
        hasher.update(&stored);
        out.extend_from_slice(hasher.finalize().as_bytes().get(..CHECK).unwrap_or_default());
        out.extend_from_slice(&table);
        out.extend_from_slice(&stored);
        Ok(out)
    }

    /// Reads the head and the table of the block at `offset`. `None` when there is none.
    pub(crate) fn read(file: &dyn StorageFile, offset: u64, end: u64) -> io::Result<Option<Self>> {
        let mut head = [0; HEAD];
        if read_full(file, &mut head, offset)? < HEAD {
            return Ok(None);
        }
        let Some((codec, count, plain, stored, check)) = parse_head(&head) else {
            return Ok(None);
        };
        let rows = count as usize * ROW;
        if offset + HEAD as u64 + rows as u64 + stored > end {
            return Ok(None);
        }
        let mut table = vec![0; rows];
        if read_full(file, &mut table, offset + HEAD as u64)? < rows {
            return Ok(None);
        }
        let mut objects = Vec::with_capacity(count as usize);
        for row in table.chunks_exact(ROW) {
            let (hash, len) = row.split_at(32);
            let (Ok(hash), Ok(len)) = (hash.try_into(), len.try_into()) else {
                return Ok(None);
            };
            objects.push((ObjectHash(hash), u64::from_le_bytes(len)));
        }
        let sum = objects.iter().try_fold(0_u64, |sum, (_, len)| sum.checked_add(*len));
        Ok((sum == Some(plain)).then_some(Self { codec, plain, stored, check, objects }))
    }

    /// Are its bytes those that were written?
    pub(crate) fn verify(&self, file: &dyn StorageFile, offset: u64) -> io::Result<bool> {
        let size = usize::try_from(self.size()).unwrap_or(usize::MAX);
        let mut bytes = vec![0; size];
        if read_full(file, &mut bytes, offset)? < size {
            return Ok(false);
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(bytes.get(..HEAD - CHECK).unwrap_or_default());
        hasher.update(bytes.get(HEAD..).unwrap_or_default());
        Ok(hasher.finalize().as_bytes().get(..CHECK) == Some(&self.check[..]))
    }

    /// The plain bytes of object `index`; `None` when they are not what its hash says.
    pub(crate) fn object(
        &self,
        file: &dyn StorageFile,
        offset: u64,
        index: usize,
    ) -> io::Result<Option<Vec<u8>>> {
        let at = offset + HEAD as u64 + self.objects.len() as u64 * ROW as u64;
        let mut stored = vec![0; usize::try_from(self.stored).unwrap_or(0)];
        let read = read_full(file, &mut stored, at)?;
        stored.truncate(read);
        let plain = match self.codec {
            Codec::Stored => stored,
            Codec::Zstd => {
                let capacity = usize::try_from(self.plain).unwrap_or(0);
                match zstd::bulk::decompress(&stored, capacity) {
                    Ok(plain) => plain,
                    Err(_) => return Ok(None),
                }
            }
        };
        let start: u64 = self.objects.iter().take(index).map(|(_, len)| len).sum();
        let Some((hash, len)) = self.objects.get(index) else {
            return Ok(None);
        };
        let range = usize::try_from(start).unwrap_or(usize::MAX)
            ..usize::try_from(start + len).unwrap_or(usize::MAX);
        Ok(plain.get(range).filter(|bytes| ObjectHash::of(bytes) == *hash).map(<[u8]>::to_vec))
    }
}

fn parse_head(head: &[u8; HEAD]) -> Option<(Codec, u32, u64, u64, [u8; CHECK])> {
    let rest = head.strip_prefix(MAGIC)?;
    let (codec, rest) = rest.split_at_checked(4)?;
    let codec = match codec {
        [0, 0, 0, 0] => Codec::Stored,
        [1, 0, 0, 0] => Codec::Zstd,
        _ => return None,
    };
    let (count, rest) = rest.split_at_checked(4)?;
    let (plain, rest) = rest.split_at_checked(8)?;
    let (stored, check) = rest.split_at_checked(8)?;
    let count = u32::from_le_bytes(count.try_into().ok()?);
    let plain = u64::from_le_bytes(plain.try_into().ok()?);
    let stored = u64::from_le_bytes(stored.try_into().ok()?);
    let sane = count <= MAX_COUNT && plain <= MAX_PLAIN && stored <= MAX_PLAIN;
    sane.then_some((codec, count, plain, stored, check.try_into().ok()?))
}
