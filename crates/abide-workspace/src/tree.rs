//! Tree objects: the contents of one directory.
//!
//! ```text
//! magic 4 | version 1
//! then for each entry, by name: kind 1 | mode 2 | size 8 | hash 32 | length of name 2 | name
//! ```
//!
//! Numbers are little-endian. Names are bytes, in ascending order, without duplicates.

use abide_model::ObjectHash;

const MAGIC: &[u8; 4] = b"aTRE";
const VERSION: u8 = 1;
const FIXED: usize = 1 + 2 + 8 + 32 + 2;
/// The longest name that a supported file system allows.
const MAX_NAME: usize = 255;

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A directory; the hash names a [`Tree`].
    Directory,
    /// A file; the hash names its content.
    File,
    /// A symbolic link; the hash names its target.
    Link,
    /// A large file; the hash names a list of [`ChunkList`](crate::ChunkList).
    Large,
}

impl EntryKind {
    const ALL: [Self; 4] = [Self::Directory, Self::File, Self::Link, Self::Large];

    const fn code(self) -> u8 {
        match self {
            Self::Directory => 0,
            Self::File => 1,
            Self::Link => 2,
            Self::Large => 3,
        }
    }
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// The name as the file system gives it.
    pub name: Vec<u8>,
    /// Its type.
    pub kind: EntryKind,
    /// Permission bits; 0 for a link.
    pub mode: u16,
    /// Size in bytes of a file or of a link's target; 0 for a directory.
    pub size: u64,
    /// The object that holds the content.
    pub hash: ObjectHash,
}

/// A directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree {
    /// The entries, sorted by name.
    pub entries: Vec<TreeEntry>,
}

/// Why bytes cannot be decoded as a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// Truncated, or not a tree at all.
    #[error("truncated, or not a tree")]
    Form,
    /// Written by a newer version.
    #[error("unsupported version {0}")]
    Version(u8),
    /// An invalid file name: empty, `.`, `..`, containing a slash or a zero byte, or too long.
    #[error("invalid file name")]
    Name,
    /// Names out of order or duplicated.
    #[error("names are out of order")]
    Order,
    /// An unknown kind or an invalid mode.
    #[error("unknown entry kind")]
    Kind,
}

impl Tree {
    /// Encodes the tree. The entries must be sorted.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let names: usize = self.entries.iter().map(|entry| entry.name.len()).sum();
        let mut out = Vec::with_capacity(5 + self.entries.len() * FIXED + names);
        out.extend_from_slice(MAGIC);
        out.push(VERSION);
        for entry in &self.entries {
            out.push(entry.kind.code());
            out.extend_from_slice(&entry.mode.to_le_bytes());
            out.extend_from_slice(&entry.size.to_le_bytes());
            out.extend_from_slice(&entry.hash.0);
            let length = u16::try_from(entry.name.len()).unwrap_or(u16::MAX);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&entry.name);
        }
        out
    }

    /// Decodes a tree. The bytes are untrusted: names that could lead out of the directory are
    /// refused.
    pub fn read(bytes: &[u8]) -> Result<Self, TreeError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(TreeError::Form)?;
        let (version, mut rest) = rest.split_first().ok_or(TreeError::Form)?;
        if *version != VERSION {
            return Err(TreeError::Version(*version));
        }
        let mut entries: Vec<TreeEntry> = Vec::with_capacity(rest.len() / (FIXED + 8));
        while !rest.is_empty() {
            let (entry, after) = read_tree_entry(rest)?;
            if entries.last().is_some_and(|last| last.name >= entry.name) {
                return Err(TreeError::Order);
            }
            entries.push(entry);
            rest = after;
        }
        Ok(Self { entries })
    }

    /// The entry with this name.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&TreeEntry> {
        let at = self.entries.binary_search_by(|entry| entry.name.as_slice().cmp(name)).ok()?;
        self.entries.get(at)
    }
}

fn read_tree_entry(bytes: &[u8]) -> Result<(TreeEntry, &[u8]), TreeError> {
    let (fixed, rest) = bytes.split_at_checked(FIXED).ok_or(TreeError::Form)?;
    let form = |_| TreeError::Form;
    let (head, length) = fixed.split_at(FIXED - 2);
    let (head, hash) = head.split_at(11);
    let (head, size) = head.split_at(3);
    let (code, mode) = head.split_at(1);
    let kind = EntryKind::ALL.into_iter().find(|kind| code == [kind.code()]);
    let kind = kind.ok_or(TreeError::Kind)?;
    let mode = u16::from_le_bytes(mode.try_into().map_err(form)?);
    if mode > 0o7777 {
        return Err(TreeError::Kind);
    }
    let size = u64::from_le_bytes(size.try_into().map_err(form)?);
    let hash = ObjectHash(hash.try_into().map_err(form)?);
    let length = usize::from(u16::from_le_bytes(length.try_into().map_err(form)?));
    let (name, rest) = rest.split_at_checked(length).ok_or(TreeError::Form)?;
    let bad = name.is_empty() || name.len() > MAX_NAME || name == b"." || name == b"..";
    if bad || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(TreeError::Name);
    }
    Ok((TreeEntry { name: name.to_vec(), kind, mode, size, hash }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &[u8], kind: EntryKind) -> TreeEntry {
        let hash = ObjectHash::of(name);
        TreeEntry { name: name.to_vec(), kind, mode: 0o644, size: 7, hash }
    }

    #[test]
    fn a_tree_comes_back_and_a_hostile_one_is_refused() {
        let names: [&[u8]; 3] = [b"a", b"b\xff", b"c d"];
        let entries: Vec<_> =
            names.iter().zip(EntryKind::ALL).map(|(name, kind)| entry(name, kind)).collect();
        let tree = Tree { entries };
        let bytes = tree.write();
        assert_eq!(Tree::read(&bytes), Ok(tree.clone()));
        assert_eq!(tree.get(b"b\xff").map(|entry| entry.kind), Some(EntryKind::File));
        assert_eq!(Tree::read(&Tree::default().write()), Ok(Tree::default()));
        for cut in 0..bytes.len() {
            let _ = Tree::read(&bytes[..cut]);
        }
        let refused = |names: &[&[u8]]| {
            let entries = names.iter().map(|name| entry(name, EntryKind::File)).collect();
            Tree::read(&Tree { entries }.write()).unwrap_err()
        };
        for name in [&b".."[..], b".", b"", b"a/b", b"a\0", &[b'x'; 256]] {
            assert_eq!(refused(&[name]), TreeError::Name);
        }
        assert_eq!(refused(&[b"b", b"a"]), TreeError::Order);
        assert_eq!(refused(&[b"a", b"a"]), TreeError::Order);
    }
}
