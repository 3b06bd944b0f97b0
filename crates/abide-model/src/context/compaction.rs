//! What of a context can give way to a summary.

use std::collections::HashSet;
use std::ops::Range;

use super::{Context, Entry};
use crate::{Compacted, LaneState, Seq};

/// What a compaction would cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionPlan {
    /// The first event that is covered.
    pub first: Seq,
    /// The last one.
    pub last: Seq,
    /// Events in between that stay: what is pinned, with the outcomes of its calls.
    pub keeps: Vec<Seq>,
    /// The entries that are covered, by their places in the context.
    pub covered: Vec<usize>,
    /// How many entries stay.
    pub kept: usize,
}

/// Why there is nothing to compact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Uncompactable {
    /// Nothing was said.
    #[error("there is nothing in the context")]
    Empty,
    /// All of it is kept.
    #[error(
        "all {messages} messages of the context are kept: the last {keep}, what is pinned, and the instructions"
    )]
    Kept {
        /// How many messages there are.
        messages: usize,
        /// How many of the last ones were to be kept.
        keep: usize,
    },
}

/// A message with the outcomes of its calls, or the parts of an answer with theirs: never split.
struct Group {
    entries: Range<usize>,
    /// The first and the last event of it.
    first: Seq,
    last: Seq,
    kept: bool,
}

impl CompactionPlan {
    /// Covers all but the last `keep` messages. More are kept where a call would be split from its
    /// result; what is pinned stays, and so do the instructions at the beginning.
    pub fn of(context: &Context, lane: &LaneState, keep: usize) -> Result<Self, Uncompactable> {
        let groups = groups(context, lane);
        if context.entries.is_empty() {
            return Err(Uncompactable::Empty);
        }
        let nothing = Uncompactable::Kept { messages: context.entries.len(), keep };
        let mut cut = groups.len();
        let mut tail = 0;
        while let Some(group) = cut.checked_sub(1).and_then(|at| groups.get(at)) {
            // One behind which the model has not spoken may still get its results.
            let waits = tail == 0 && is_open(context, group);
            if tail >= keep && !waits {
                break;
            }
            tail += group.entries.len();
            cut -= 1;
        }
        // Everything that is covered must lie before everything that is not.
        while let Some(covered) = groups.get(..cut) {
            let last = covered.iter().filter(|group| !group.kept).map(|group| group.last).max();
            let later = groups.get(cut..).unwrap_or_default().iter();
            let first = later.filter(|group| !group.kept).map(|group| group.first).min();
            match (last, first) {
                (Some(last), Some(first)) if last >= first => cut -= 1,
                _ => break,
            }
        }
        let covered: Vec<&Group> =
            groups.get(..cut).unwrap_or_default().iter().filter(|group| !group.kept).collect();
        let places: Vec<usize> = covered.iter().flat_map(|group| group.entries.clone()).collect();
        let first = covered.iter().map(|group| group.first).min();
        let last = covered.iter().map(|group| group.last).max();
        let (Some(first), Some(last)) = (first, last) else { return Err(nothing) };
        let kept = groups.iter().filter(|group| group.kept);
        let mut keeps: Vec<Seq> = kept
            .flat_map(|group| context.entries.get(group.entries.clone()).unwrap_or_default())
            .filter_map(Entry::seq)
            .filter(|seq| first < *seq && *seq < last && !lane.instructions.contains(seq))
            .collect();
        keeps.sort_unstable();
        keeps.dedup();
        // To put a summary in the place of a summary alone is no gain.
        if places.len() < 2 || keeps.len() > Compacted::KEEPS {
            return Err(nothing);
        }
        let kept = context.entries.len() - places.len();
        Ok(Self { first, last, keeps, covered: places, kept })
    }

    /// The part of a context that is covered.
    #[must_use]
    pub fn covered_of(&self, context: &Context) -> Context {
        let covered = self.covered.iter().filter_map(|place| context.entries.get(*place));
        Context { lane: context.lane.clone(), entries: covered.cloned().collect() }
    }
}

impl Context {
    /// The events that hold a message, with the outcomes of its calls and the other parts of the
    /// answer that it is a part of. None where it is not in the context.
    #[must_use]
    pub fn together(&self, message: Seq) -> Vec<Seq> {
        let groups = groups(self, &LaneState::default());
        let seqs = |group: &Group| -> Vec<Seq> {
            let entries = self.entries.get(group.entries.clone()).unwrap_or_default();
            let recorded = entries.iter().filter(|entry| !matches!(entry, Entry::Summary { .. }));
            let mut seqs: Vec<Seq> = recorded.filter_map(Entry::seq).collect();
            seqs.sort_unstable();
            seqs.dedup();
            seqs
        };
        groups.iter().map(seqs).find(|seqs| seqs.contains(&message)).unwrap_or_default()
    }
}

/// Has a call of it no result?
fn is_open(context: &Context, group: &Group) -> bool {
    let entries = context.entries.get(group.entries.clone()).unwrap_or_default();
    entries.iter().any(|entry| matches!(entry, Entry::Unknown { .. }))
}

fn groups(context: &Context, lane: &LaneState) -> Vec<Group> {
    let stays: HashSet<Seq> = lane.instructions.iter().chain(&lane.pins).copied().collect();
    let mut groups: Vec<Group> = Vec::new();
    let mut answer = None;
    for (place, entry) in context.entries.iter().enumerate() {
        let part_of = entry.answer();
        let joins = entry.is_outcome() || (part_of.is_some() && part_of == answer);
        if !entry.is_outcome() {
            answer = part_of;
        }
        let (first, last) = match entry {
            Entry::Summary { seq, .. } => {
                let range = lane.compactions.iter().find(|one| one.at == *seq);
                range.map_or((*seq, *seq), |one| (one.first, one.last))
            }
            // An outcome that is unknown is where its call is.
            entry => entry.seq().map_or((Seq(u64::MAX), Seq::ZERO), |seq| (seq, seq)),
        };
        let kept = entry.seq().is_some_and(|seq| stays.contains(&seq));
        match groups.last_mut().filter(|_| joins) {
            Some(group) => {
                group.entries.end = place + 1;
                group.first = group.first.min(first);
                group.last = group.last.max(last);
                group.kept |= kept;
            }
            None => groups.push(Group { entries: place..place + 1, first, last, kept }),
        }
    }
    groups
}
