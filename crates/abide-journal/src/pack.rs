//! The block of a pack: objects compressed together, or each as its difference from another one.
//!
//! ```text
//! magic 4 | codec 1 | 0 3 | count 4 | plain 8 | stored 8 | check 16     the head
//! (hash 32, length 8) × count                                           the table
//! stored bytes
//! ```
//!
//! Codec 4 holds differences. Its rows are longer, each object is compressed by itself, and an
//! all-zero base means none:
//!
//! ```text
//! (hash 32, length 8, base 32, depth 4, stored length 4) × count
//! ```
//!
//! The check covers the rest of the head, the table and the stored bytes, so a torn or damaged
//! block is noticed without unpacking it. The hash of each object covers its plain bytes and is
//! verified on every read.

use std::io;

use abide_model::ObjectHash;

use crate::compression::{self, Codec, Compression};
use crate::{StorageFile, read_full};

pub(crate) const HEAD: usize = 44;
const ROW: usize = 40;
const LIKE_ROW: usize = 80;
pub(crate) const MAGIC: &[u8; 4] = b"aBLK";
const CHECK: usize = 16;
const LIKE: u8 = 4;
/// The most plain bytes in a block, and the most objects.
const MAX_PLAIN: u64 = 256 << 20;
const MAX_COUNT: u32 = 1 << 20;

/// The row of an object in a block's table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackRow {
    pub(crate) hash: ObjectHash,
    pub(crate) length: u64,
    /// Where it starts: in the plain bytes, or in the stored bytes if it is compressed by itself.
    start: u64,
    like: Option<DifferenceFields>,
}

impl PackRow {
    /// The object it is a difference from.
    pub(crate) fn base(&self) -> Option<ObjectHash> {
        self.like.and_then(|like| like.base)
    }

    /// How many objects must be read before it.
    pub(crate) fn depth(&self) -> u32 {
        self.like.map_or(0, |like| like.depth)
    }
}

#[derive(Debug, Clone, Copy)]
struct DifferenceFields {
    base: Option<ObjectHash>,
    depth: u32,
    stored: u32,
}

/// An object compressed by itself, for a block of differences.
#[derive(Debug, Clone)]
pub(crate) struct DifferenceObject {
    pub(crate) hash: ObjectHash,
    pub(crate) length: u64,
    pub(crate) base: Option<ObjectHash>,
    pub(crate) depth: u32,
    pub(crate) stored: Vec<u8>,
}

/// The head and the table of a block.
#[derive(Debug, Clone)]
pub(crate) struct PackBlock {
    code: u8,
    plain: u64,
    stored: u64,
    check: [u8; CHECK],
    pub(crate) rows: Vec<PackRow>,
}

fn pack_codec(code: u8) -> Option<Codec> {
    [Codec::None, Codec::Zstd, Codec::Gzip, Codec::Lz4].get(usize::from(code)).copied()
}

const fn pack_codec_number(codec: Codec) -> u8 {
    match codec {
        Codec::None => 0,
        Codec::Zstd => 1,
        Codec::Gzip => 2,
        Codec::Lz4 => 3,
    }
}

impl PackBlock {
    fn row_size(&self) -> usize {
        if self.code == LIKE { LIKE_ROW } else { ROW }
    }

    /// Its size in the file, in bytes.
    pub(crate) fn size(&self) -> u64 {
        HEAD as u64 + (self.rows.len() * self.row_size()) as u64 + self.stored
    }

    /// Is each object compressed by itself?
    pub(crate) const fn is_like(&self) -> bool {
        self.code == LIKE
    }

    /// The total size of its objects in bytes.
    pub(crate) const fn plain(&self) -> u64 {
        self.plain
    }

    /// Writes objects as one block. `plain` holds their bytes in the same order.
    pub(crate) fn pack(
        rows: &[(ObjectHash, u64)],
        plain: &[u8],
        compression: Compression,
    ) -> io::Result<Vec<u8>> {
        let compressed = compression::compress(plain, compression)?;
        let (code, stored) = match &compressed {
            Some((codec, stored)) => (pack_codec_number(*codec), stored.as_slice()),
            None => (pack_codec_number(Codec::None), plain),
        };
        let mut table = Vec::with_capacity(rows.len() * ROW);
        for (hash, length) in rows {
            table.extend_from_slice(&hash.0);
            table.extend_from_slice(&length.to_le_bytes());
        }
        write_pack_block(code, rows.len(), plain.len() as u64, &table, stored)
    }

    /// Writes a block of objects that are each compressed by themselves.
    pub(crate) fn pack_like(objects: &[DifferenceObject]) -> io::Result<Vec<u8>> {
        let mut table = Vec::with_capacity(objects.len() * LIKE_ROW);
        let mut stored = Vec::new();
        let mut plain = 0;
        for object in objects {
            let length = u32::try_from(object.stored.len()).map_err(io::Error::other)?;
            table.extend_from_slice(&object.hash.0);
            table.extend_from_slice(&object.length.to_le_bytes());
            table.extend_from_slice(&object.base.map_or([0; 32], |base| base.0));
            table.extend_from_slice(&object.depth.to_le_bytes());
            table.extend_from_slice(&length.to_le_bytes());
            stored.extend_from_slice(&object.stored);
            plain += object.length;
        }
        write_pack_block(LIKE, objects.len(), plain, &table, &stored)
    }

    /// Reads the head and the table of the block at `offset`. `None` if there is none.
    pub(crate) fn read(file: &dyn StorageFile, offset: u64, end: u64) -> io::Result<Option<Self>> {
        // Most tables are short: read the head and the table at once.
        let mut first = [0; HEAD + 16 * LIKE_ROW];
        let got = read_full(file, &mut first, offset)?;
        let Some(head) = first.get(..HEAD).filter(|_| got >= HEAD) else { return Ok(None) };
        let Some((code, count, plain, stored, check)) = parse_pack_head(head) else {
            return Ok(None);
        };
        let size = if code == LIKE { LIKE_ROW } else { ROW };
        let table = count as usize * size;
        if offset + HEAD as u64 + table as u64 + stored > end {
            return Ok(None);
        }
        let mut long = Vec::new();
        let bytes = match first.get(HEAD..HEAD + table).filter(|_| got >= HEAD + table) {
            Some(bytes) => bytes,
            None => {
                long.resize(table, 0);
                if read_full(file, &mut long, offset + HEAD as u64)? < table {
                    return Ok(None);
                }
                &long
            }
        };
        let rows = parse_pack_rows(bytes, code, plain, stored);
        Ok(rows.map(|rows| Self { code, plain, stored, check, rows }))
    }

    /// Do its bytes match its check?
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

    /// The plain bytes of all its objects, or of those up to `last`. `None` if they are unreadable.
    /// Not for blocks of differences.
    pub(crate) fn unpack(
        &self,
        file: &dyn StorageFile,
        offset: u64,
        last: Option<&PackRow>,
    ) -> io::Result<Option<Vec<u8>>> {
        let Some(codec) = pack_codec(self.code) else { return Ok(None) };
        let at = offset + self.size() - self.stored;
        let mut stored = vec![0; usize::try_from(self.stored).unwrap_or(0)];
        let read = read_full(file, &mut stored, at)?;
        stored.truncate(read);
        let whole = usize::try_from(self.plain).unwrap_or(0);
        let until = last.map_or(whole, |row| usize::try_from(row.start + row.length).unwrap_or(0));
        Ok(compression::decompress(codec, stored, until, whole))
    }

    /// The stored bytes of an object that is compressed by itself.
    pub(crate) fn stored_of(
        &self,
        file: &dyn StorageFile,
        offset: u64,
        row: &PackRow,
    ) -> io::Result<Option<Vec<u8>>> {
        let Some(like) = row.like else { return Ok(None) };
        let at = offset + self.size() - self.stored + row.start;
        let mut stored = vec![0; like.stored as usize];
        let read = read_full(file, &mut stored, at)?;
        Ok((read == stored.len()).then_some(stored))
    }
}

/// The bytes of an object, from the plain bytes of its block; `None` if they do not match its hash.
pub(crate) fn pack_slice<'a>(plain: &'a [u8], row: &PackRow) -> Option<&'a [u8]> {
    let start = usize::try_from(row.start).ok()?;
    let end = usize::try_from(row.start.checked_add(row.length)?).ok()?;
    plain.get(start..end).filter(|bytes| ObjectHash::of(bytes) == row.hash)
}

/// Restores an object that is compressed by itself from its stored bytes and its base.
pub(crate) fn unpack_pack_like(
    stored: &[u8],
    base: Option<&[u8]>,
    row: &PackRow,
) -> Option<Vec<u8>> {
    let whole = usize::try_from(row.length).ok()?;
    let bytes = compression::decompress_like(stored, base.unwrap_or_default(), whole)?;
    (ObjectHash::of(&bytes) == row.hash).then_some(bytes)
}

fn write_pack_block(
    code: u8,
    count: usize,
    plain: u64,
    table: &[u8],
    stored: &[u8],
) -> io::Result<Vec<u8>> {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    if count > MAX_COUNT || plain > MAX_PLAIN || stored.len() as u64 > MAX_PLAIN {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "a block of objects is too large"));
    }
    let mut out = Vec::with_capacity(HEAD + table.len() + stored.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[code, 0, 0, 0]);
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&plain.to_le_bytes());
    out.extend_from_slice(&(stored.len() as u64).to_le_bytes());
    let mut hasher = blake3::Hasher::new();
    hasher.update(&out);
    hasher.update(table);
    hasher.update(stored);
    out.extend_from_slice(hasher.finalize().as_bytes().get(..CHECK).unwrap_or_default());
    out.extend_from_slice(table);
    out.extend_from_slice(stored);
    Ok(out)
}

fn parse_pack_head(head: &[u8]) -> Option<(u8, u32, u64, u64, [u8; CHECK])> {
    let rest = head.strip_prefix(MAGIC)?;
    let (codec, rest) = rest.split_at_checked(4)?;
    let code = match codec {
        [code, 0, 0, 0] if *code <= LIKE => *code,
        _ => return None,
    };
    let (count, rest) = rest.split_at_checked(4)?;
    let (plain, rest) = rest.split_at_checked(8)?;
    let (stored, check) = rest.split_at_checked(8)?;
    let count = u32::from_le_bytes(count.try_into().ok()?);
    let plain = u64::from_le_bytes(plain.try_into().ok()?);
    let stored = u64::from_le_bytes(stored.try_into().ok()?);
    let sane = count <= MAX_COUNT && plain <= MAX_PLAIN && stored <= MAX_PLAIN;
    sane.then_some((code, count, plain, stored, check.try_into().ok()?))
}

/// Parses the rows of a table; `None` if their lengths do not add up.
fn parse_pack_rows(table: &[u8], code: u8, plain: u64, stored: u64) -> Option<Vec<PackRow>> {
    let size = if code == LIKE { LIKE_ROW } else { ROW };
    let mut rows = Vec::with_capacity(table.len() / size);
    let (mut lengths, mut stored_lengths) = (0_u64, 0_u64);
    for row in table.chunks_exact(size) {
        let (hash, rest) = row.split_at_checked(32)?;
        let (length, rest) = rest.split_at_checked(8)?;
        let length = u64::from_le_bytes(length.try_into().ok()?);
        let like = if code == LIKE { Some(parse_pack_like(rest)?) } else { None };
        let start = if code == LIKE { stored_lengths } else { lengths };
        rows.push(PackRow { hash: ObjectHash(hash.try_into().ok()?), length, start, like });
        lengths = lengths.checked_add(length)?;
        stored_lengths += like.map_or(0, |like| u64::from(like.stored));
    }
    let fits = lengths == plain && (code != LIKE || stored_lengths == stored);
    fits.then_some(rows)
}

fn parse_pack_like(rest: &[u8]) -> Option<DifferenceFields> {
    let (base, rest) = rest.split_at_checked(32)?;
    let (depth, stored) = rest.split_at_checked(4)?;
    let base: [u8; 32] = base.try_into().ok()?;
    Some(DifferenceFields {
        base: (base != [0; 32]).then_some(ObjectHash(base)),
        depth: u32::from_le_bytes(depth.try_into().ok()?),
        stored: u32::from_le_bytes(stored.try_into().ok()?),
    })
}
