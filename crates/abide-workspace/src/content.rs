//! What an entry names, read from the objects.

use std::ops::ControlFlow;

use abide_model::{ObjectHash, Objects, StoreError};

use crate::{Chunks, Entry, EntryKind, Tree, TreeError};

/// Why a part of a snapshot cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ContentError {
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An object is not in the store, or damaged there.
    #[error("object {0} is missing or damaged in the store")]
    Missing(ObjectHash),
    /// An object is there and is not what it should be.
    #[error("object {hash} is not what its snapshot says")]
    Form {
        /// Which.
        hash: ObjectHash,
        /// In what way.
        #[source]
        source: TreeError,
    },
    /// Directories within directories without end.
    #[error("the snapshot has more than {0} directories within each other")]
    TooDeep(usize),
}

pub(crate) fn read_object(
    objects: &dyn Objects,
    hash: ObjectHash,
) -> Result<Vec<u8>, ContentError> {
    objects.read(hash)?.ok_or(ContentError::Missing(hash))
}

/// The trees of these hashes, in their order.
pub(crate) fn read_trees(
    objects: &dyn Objects,
    hashes: &[ObjectHash],
) -> Result<Vec<Tree>, ContentError> {
    let mut trees: Vec<Option<Tree>> = vec![None; hashes.len()];
    let mut wrong = None;
    objects.read_many(hashes, &mut |at, bytes| {
        let read = bytes.map(Tree::read);
        match (read, trees.get_mut(at)) {
            (Some(Ok(tree)), Some(place)) => *place = Some(tree),
            (Some(Err(source)), _) => {
                wrong = hashes.get(at).map(|hash| ContentError::Form { hash: *hash, source });
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
    pairs.map(|(tree, hash)| tree.ok_or(ContentError::Missing(*hash))).collect()
}

pub(crate) fn read_chunks(objects: &dyn Objects, entry: &Entry) -> Result<Chunks, ContentError> {
    let hash = entry.hash;
    let chunks = Chunks::read(&read_object(objects, hash)?);
    let chunks = chunks.map_err(|source| ContentError::Form { hash, source })?;
    if chunks.size() == entry.size {
        Ok(chunks)
    } else {
        Err(ContentError::Form { hash, source: TreeError::Form })
    }
}

/// The bytes of a file or of a link's target; none for a directory.
pub(crate) fn read_content(objects: &dyn Objects, entry: &Entry) -> Result<Vec<u8>, ContentError> {
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
