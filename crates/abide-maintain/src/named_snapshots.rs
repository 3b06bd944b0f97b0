//! The workspace snapshots that a session's checkpoints and rewinds name and that still count.
//!
//! Whether one counts is known at the end of the journal: retention may have removed the
//! checkpoint, and an erasure the files of a rewind.

use std::collections::BTreeSet;

use abide_journal::JournalLine;
use abide_model::{Fact, Kind, ObjectHash, Seq};

use crate::checkpoint_numbers::CheckpointNumbers;

/// The kinds of events that are about snapshots.
const KINDS: [Kind; 4] = [
    Kind::CHECKPOINT_CREATED,
    Kind::CHECKPOINT_THINNED,
    Kind::SESSION_REWOUND,
    Kind::PAYLOAD_ERASED,
];

/// An event that names snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSnapshot {
    /// Its seq.
    pub seq: Seq,
    /// What kind of event it is.
    pub by: NamedBy,
    /// The snapshots.
    pub snapshots: Vec<ObjectHash>,
}

/// What names a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    /// A checkpoint, by its number; `None` if that is unknown.
    Checkpoint(Option<u64>),
    /// A rewind: its target, and the state before it.
    Rewind,
}

/// The snapshots that a session names.
#[derive(Debug)]
pub struct NamedSnapshots {
    all: Vec<NamedSnapshot>,
    thinned: BTreeSet<u64>,
    /// Rewinds whose files were erased.
    erased: BTreeSet<Seq>,
    numbers: CheckpointNumbers,
}

impl NamedSnapshots {
    /// An empty set, for a session whose own checkpoints are numbered like this.
    #[must_use]
    pub fn new(numbers: CheckpointNumbers) -> Self {
        Self { all: Vec::new(), thinned: BTreeSet::new(), erased: BTreeSet::new(), numbers }
    }

    /// Treats these checkpoints as removed.
    #[must_use]
    pub fn without(mut self, thinned: &BTreeSet<u64>) -> Self {
        self.thinned.extend(thinned);
        self
    }

    /// Adds a line. Returns the snapshots that it names.
    pub fn line(&mut self, line: &JournalLine<'_>) -> Vec<ObjectHash> {
        let Some(kind) = line.head().map(|head| head.kind).filter(|kind| KINDS.contains(kind))
        else {
            return Vec::new();
        };
        let Some(Ok(fact)) = line.event().map(|event| event.fact()) else { return Vec::new() };
        let number = self.numbers.take(&kind, &fact);
        let (by, snapshots) = match fact {
            Fact::Checkpoint(checkpoint) => {
                (NamedBy::Checkpoint(number), checkpoint.snapshot.into_iter().collect())
            }
            Fact::Rewind(rewind) => {
                let both: Vec<_> = rewind.snapshot.into_iter().chain(rewind.safety).collect();
                (NamedBy::Rewind, both)
            }
            Fact::Thinning(thinning) => {
                self.thinned.extend(thinning.checkpoints);
                return Vec::new();
            }
            Fact::Erasure(erasure) => {
                self.erased.extend(erasure.files.then_some(erasure.seq));
                return Vec::new();
            }
            _ => return Vec::new(),
        };
        if !snapshots.is_empty() {
            self.all.push(NamedSnapshot { seq: line.seq, by, snapshots: snapshots.clone() });
        }
        snapshots
    }

    /// Those of rewinds whose files were erased.
    pub fn erased(&self) -> impl Iterator<Item = (Seq, ObjectHash)> {
        let rewinds = self.all.iter().filter(|named| named.by == NamedBy::Rewind);
        let erased = rewinds.filter(|named| self.erased.contains(&named.seq));
        erased.flat_map(|named| named.snapshots.iter().map(|snapshot| (named.seq, *snapshot)))
    }

    /// Those that count.
    pub fn staying(&self) -> impl Iterator<Item = &NamedSnapshot> {
        self.all.iter().filter(|named| self.stays(named))
    }

    fn stays(&self, named: &NamedSnapshot) -> bool {
        match named.by {
            NamedBy::Checkpoint(number) => {
                number.is_none_or(|number| !self.thinned.contains(&number))
            }
            NamedBy::Rewind => !self.erased.contains(&named.seq),
        }
    }
}
