//! Reads the objects that entries refer to.

use std::ops::ControlFlow;

use abide_model::{ObjectHash, Objects, StoreError};

use crate::{ChunkList, EntryKind, Tree, TreeEntry, TreeError};

/// Why a part of a snapshot cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An object is missing from the store or damaged.
    #[error("object {0} is missing or damaged in the store")]
    Missing(ObjectHash),
    /// An object is readable but malformed.
    #[error("object {hash} is malformed")]
    Form {
        /// The object.
        hash: ObjectHash,
        /// What is wrong with it.
        #[source]
        source: TreeError,
    },
    /// Directories are nested too deeply.
    #[error("the snapshot has directories nested more than {0} levels deep")]
    TooDeep(usize),
}

pub(crate) fn read_object(objects: &dyn Objects, hash: ObjectHash) -> Result<Vec<u8>, ReadError> {
    objects.read(hash)?.ok_or(ReadError::Missing(hash))
}

/// Reads these trees, in the order of the hashes.
pub(crate) fn read_trees(
    objects: &dyn Objects,
    hashes: &[ObjectHash],
) -> Result<Vec<Tree>, ReadError> {
    let mut trees: Vec<Option<Tree>> = vec![None; hashes.len()];
    let mut wrong = None;
    objects.read_many(hashes, &mut |at, bytes| {
        let read = bytes.map(Tree::read);
        match (read, trees.get_mut(at)) {
            (Some(Ok(tree)), Some(place)) => *place = Some(tree),
            (Some(Err(source)), _) => {
                wrong = hashes.get(at).map(|hash| ReadError::Form { hash: *hash, source });
                return ControlFlow::Break(());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    let pairs = trees.into_iter().zip(hashes);
    pairs.map(|(tree, hash)| tree.ok_or(ReadError::Missing(*hash))).collect()
}

pub(crate) fn read_chunks(
    objects: &dyn Objects,
    entry: &TreeEntry,
) -> Result<ChunkList, ReadError> {
    let hash = entry.hash;
    let chunks = ChunkList::read(&read_object(objects, hash)?);
    let chunks = chunks.map_err(|source| ReadError::Form { hash, source })?;
    if chunks.size() == entry.size {
        Ok(chunks)
    } else {
        Err(ReadError::Form { hash, source: TreeError::Form })
    }
}

/// The content of a file or the target of a link; empty for a directory.
pub fn read_content(objects: &dyn Objects, entry: &TreeEntry) -> Result<Vec<u8>, ReadError> {
    match entry.kind {
        EntryKind::Directory => Ok(Vec::new()),
        EntryKind::File | EntryKind::Link => read_object(objects, entry.hash),
        EntryKind::Large => {
            let mut content = Vec::new();
            for (_, hash) in read_chunks(objects, entry)?.chunks {
                content.extend_from_slice(&read_object(objects, hash)?);
            }
            Ok(content)
        }
    }
}
