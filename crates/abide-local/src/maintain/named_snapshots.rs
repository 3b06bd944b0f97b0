//! The workspace snapshots that a session's checkpoints and rewinds name and that still count.
//!
//! Whether one counts is known at the end of the journal: retention may have removed the
//! checkpoint, and an erasure the files of a rewind.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use abide_journal::{JournalError, JournalItem, JournalLine, JournalWalkStart};
use abide_model::{Fact, Kind, ObjectHash, Seq};

use crate::sessions::local_reader::LocalReader;
use crate::sessions::session_ancestry::AncestryCheckpointNumbers;

/// The kinds of events that are about snapshots.
const KINDS: [Kind; 4] = [
    Kind::CHECKPOINT_CREATED,
    Kind::CHECKPOINT_THINNED,
    Kind::SESSION_REWOUND,
    Kind::PAYLOAD_ERASED,
];

/// An event that names snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedSnapshot {
    pub(crate) seq: Seq,
    pub(crate) by: NamedBy,
    pub(crate) snapshots: Vec<ObjectHash>,
}

/// What names a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// A checkpoint, by its number; `None` if that is unknown.
    Checkpoint(Option<u64>),
    /// A rewind: its target, and the state before it.
    Rewind,
}

/// The snapshots that a session names.
#[derive(Debug)]
pub(crate) struct NamedSnapshots {
    all: Vec<NamedSnapshot>,
    thinned: BTreeSet<u64>,
    /// Rewinds whose files were erased.
    erased: BTreeSet<Seq>,
    numbers: AncestryCheckpointNumbers,
}

impl NamedSnapshots {
    /// An empty set, for the session that `reader` reads.
    pub(crate) fn of(reader: &LocalReader) -> Result<Self, JournalError> {
        let numbers = reader.checkpoints_in_ancestry()?;
        Ok(Self { all: Vec::new(), thinned: BTreeSet::new(), erased: BTreeSet::new(), numbers })
    }

    /// The snapshots that the journal of a session names.
    pub(crate) fn in_journal(reader: &LocalReader) -> Result<Self, JournalError> {
        let mark = reader.mark()?;
        let mut snapshots = Self::of(reader)?;
        reader.journal().walk(JournalWalkStart::beginning(), mark, &mut |found| {
            if let JournalItem::Event { line, .. } = found {
                snapshots.line(&line);
            }
            ControlFlow::Continue(())
        })?;
        Ok(snapshots)
    }

    /// Treats these checkpoints as removed.
    pub(crate) fn without(mut self, thinned: &BTreeSet<u64>) -> Self {
        self.thinned.extend(thinned);
        self
    }

    /// Adds a line. Returns the snapshots that it names.
    pub(crate) fn line(&mut self, line: &JournalLine<'_>) -> Vec<ObjectHash> {
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
    pub(crate) fn erased(&self) -> impl Iterator<Item = (Seq, ObjectHash)> {
        let rewinds = self.all.iter().filter(|named| named.by == NamedBy::Rewind);
        let erased = rewinds.filter(|named| self.erased.contains(&named.seq));
        erased.flat_map(|named| named.snapshots.iter().map(|snapshot| (named.seq, *snapshot)))
    }

    /// Those that count.
    pub(crate) fn staying(&self) -> impl Iterator<Item = &NamedSnapshot> {
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
