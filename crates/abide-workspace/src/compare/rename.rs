//! Detects renames among the deleted and created files.
//!
//! First by equal content, then by similarity as git measures it: the number of bytes of the old
//! file, in lines or pieces of 64 bytes, that also occur in the new one, divided by the size of the
//! larger.

use std::collections::{HashMap, HashSet};

use abide_model::{ObjectHash, Objects};

use crate::compare::read::{ReadError, read_content};
use crate::compare::walk::split_walked_path;
use crate::{ChangeKind, ChangedPath, EntryKind, TreeEntry};

/// Minimum similarity of a rename, in percent.
pub(crate) const LEAST: u64 = 50;
/// Maximum number of files per side to compare by similarity. With more, only identical files
/// match.
const MAX_FILES: usize = 256;
/// Larger files are not compared by similarity.
const MAX_SIZE: u64 = 1024 * 1024;
const PIECE: usize = 64;

/// Replaces each deletion and creation that form a rename by one change.
pub(crate) fn find_renames(
    objects: &dyn Objects,
    changes: &mut Vec<ChangedPath>,
) -> Result<(), ReadError> {
    let mut pairs = RenamePairs::default();
    pair_equal_renames(changes, &mut pairs);
    pair_similar_renames(objects, changes, &mut pairs)?;
    let from: HashMap<usize, usize> = pairs.found.iter().copied().collect();
    let gone: HashSet<usize> = from.values().copied().collect();
    let before = changes.clone();
    for (at, change) in changes.iter_mut().enumerate() {
        if let Some(old) = from.get(&at).and_then(|old| before.get(*old)) {
            change.change = ChangeKind::Renamed { from: old.path.clone() };
            change.old.clone_from(&old.old);
        }
    }
    let mut at = 0;
    changes.retain(|_| {
        at += 1;
        !gone.contains(&(at - 1))
    });
    Ok(())
}

/// Indexes into the list of changes: (new, old).
#[derive(Default)]
struct RenamePairs {
    found: Vec<(usize, usize)>,
    taken: HashSet<usize>,
}

impl RenamePairs {
    fn join(&mut self, new: usize, old: usize) {
        self.found.push((new, old));
        self.taken.extend([new, old]);
    }

    fn free(&self, at: usize) -> bool {
        !self.taken.contains(&at)
    }
}

fn rename_side<'a>(changes: &'a [ChangedPath], side: &ChangeKind) -> RenameSide<'a> {
    let entry = |change: &'a ChangedPath| change.new.as_ref().or(change.old.as_ref());
    (changes.iter().enumerate())
        .filter(|(_, change)| change.change == *side)
        .filter_map(|(at, change)| entry(change).map(|entry| (at, change, entry)))
        .filter(|(_, _, entry)| entry.kind != EntryKind::Directory && entry.size > 0)
        .collect()
}

fn pair_equal_renames(changes: &[ChangedPath], pairs: &mut RenamePairs) {
    let mut olds = HashMap::<(ObjectHash, EntryKind), Vec<(usize, &[u8])>>::new();
    for (at, change, entry) in rename_side(changes, &ChangeKind::Deleted) {
        let name = split_walked_path(&change.path).1;
        olds.entry((entry.hash, entry.kind)).or_default().push((at, name));
    }
    for (at, change, entry) in rename_side(changes, &ChangeKind::Created) {
        let Some(olds) = olds.get_mut(&(entry.hash, entry.kind)) else { continue };
        let name = split_walked_path(&change.path).1;
        let best = olds.iter().position(|(_, old)| *old == name).unwrap_or(0);
        if best < olds.len() {
            pairs.join(at, olds.remove(best).0);
        }
    }
}

struct Candidate<'a> {
    at: usize,
    name: &'a [u8],
    pieces: ContentPieces,
}

type RenameSide<'a> = Vec<(usize, &'a ChangedPath, &'a TreeEntry)>;

fn read_rename_candidates<'a>(
    objects: &dyn Objects,
    side: RenameSide<'a>,
) -> Result<Vec<Candidate<'a>>, ReadError> {
    let candidate = |(at, change, entry): (usize, &'a ChangedPath, &TreeEntry)| {
        let pieces = ContentPieces::of(&read_content(objects, entry)?);
        Ok(Candidate { at, name: split_walked_path(&change.path).1, pieces })
    };
    side.into_iter().map(candidate).collect()
}

fn pair_similar_renames(
    objects: &dyn Objects,
    changes: &[ChangedPath],
    pairs: &mut RenamePairs,
) -> Result<(), ReadError> {
    let candidates = |change: &ChangeKind| {
        let mut found = rename_side(changes, change);
        found.retain(|(at, _, entry)| {
            pairs.free(*at) && entry.kind != EntryKind::Link && entry.size <= MAX_SIZE
        });
        found
    };
    let (olds, news) = (candidates(&ChangeKind::Deleted), candidates(&ChangeKind::Created));
    if olds.is_empty() || news.is_empty() || olds.len() > MAX_FILES || news.len() > MAX_FILES {
        return Ok(());
    }
    let (olds, news) =
        (read_rename_candidates(objects, olds)?, read_rename_candidates(objects, news)?);
    let mut scores = Vec::new();
    for new in &news {
        for old in &olds {
            let score = old.pieces.similarity(&new.pieces);
            if score >= LEAST {
                scores.push((score, old.name == new.name, new.at, old.at));
            }
        }
    }
    scores.sort_by_key(|(score, same_name, new, old)| {
        (std::cmp::Reverse((*score, *same_name)), *new, *old)
    });
    for (_, _, new, old) in scores {
        if pairs.free(new) && pairs.free(old) {
            pairs.join(new, old);
        }
    }
    Ok(())
}

/// The similarity of two contents, in percent.
pub(crate) fn similarity(a: &[u8], b: &[u8]) -> u64 {
    if a == b { 100 } else { ContentPieces::of(a).similarity(&ContentPieces::of(b)).min(99) }
}

/// For each distinct piece of a content, the bytes that all its occurrences take.
struct ContentPieces {
    size: u64,
    bytes: HashMap<u64, u64>,
}

impl ContentPieces {
    fn of(content: &[u8]) -> Self {
        let mut bytes = HashMap::new();
        let mut rest = content;
        while !rest.is_empty() {
            let head = rest.get(..PIECE).unwrap_or(rest);
            let end = head.iter().position(|byte| *byte == b'\n');
            let (piece, after) = rest.split_at(end.map_or(head.len(), |end| end + 1));
            *bytes.entry(rename_piece_key(piece)).or_default() += piece.len() as u64;
            rest = after;
        }
        Self { size: content.len() as u64, bytes }
    }

    fn similarity(&self, other: &Self) -> u64 {
        let (least, most) = (self.size.min(other.size), self.size.max(other.size));
        if most == 0 || least * 100 < most * LEAST {
            return 0;
        }
        let shared = |(piece, bytes): (&u64, &u64)| {
            other.bytes.get(piece).map_or(0, |others| *bytes.min(others))
        };
        self.bytes.iter().map(shared).sum::<u64>() * 100 / most
    }
}

fn rename_piece_key(piece: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(piece);
    hasher.finish()
}
