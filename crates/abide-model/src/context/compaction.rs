//! What part of a context a summary can replace.

use std::collections::HashSet;
use std::ops::Range;

use super::{Context, ContextEntry};
use crate::{LaneState, LiveCompaction, Seq};

/// What a compaction would cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionPlan {
    /// The first covered event.
    pub first: Seq,
    /// The last covered event.
    pub last: Seq,
    /// Events in between that stay: pinned messages with the outcomes of their calls.
    pub keeps: Vec<Seq>,
    /// Indices of the covered entries in the context.
    pub covered: Vec<usize>,
    /// The number of entries that stay.
    pub kept: usize,
}

/// Why there is nothing to compact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NothingToCompact {
    /// The context is empty.
    #[error("the context is empty")]
    Empty,
    /// Every message is kept.
    #[error(
        "all {messages} messages of the context are kept: the last {keep}, pinned ones, and the instructions"
    )]
    Kept {
        /// The number of messages.
        messages: usize,
        /// The number of newest messages to keep.
        keep: usize,
    },
    /// A call and its result enclose everything else.
    #[error("the only possible range would split @{first} from its result @{last}")]
    Joined {
        /// The message with the call.
        first: Seq,
        /// Its result.
        last: Seq,
    },
}

/// A message with the outcomes of its calls, all parts of an answer with theirs, or a call that no
/// message holds with its own. A group is never split.
struct MessageGroup {
    entries: Range<usize>,
    /// Its first and last event.
    first: Seq,
    last: Seq,
    kept: bool,
}

impl CompactionPlan {
    /// Covers everything but the last `keep` messages. Keeps more if a call would be split from its
    /// result. Pinned messages and the instructions at the start are kept.
    pub fn of(context: &Context, lane: &LaneState, keep: usize) -> Result<Self, NothingToCompact> {
        let groups = groups(context, lane);
        if context.entries.is_empty() {
            return Err(NothingToCompact::Empty);
        }
        let mut cut = groups.len();
        let mut tail = 0;
        let waiting = first_waiting(context, &groups);
        while let Some(group) = cut.checked_sub(1).and_then(|at| groups.get(at)) {
            let waits = cut > waiting;
            if tail >= keep && !waits {
                break;
            }
            tail += group.entries.len();
            cut -= 1;
        }
        // Everything covered must precede everything that is not.
        let wanted = cut;
        let cut = last_cut(&groups, wanted);
        let covered: Vec<&MessageGroup> =
            groups.get(..cut).unwrap_or_default().iter().filter(|group| !group.kept).collect();
        let places: Vec<usize> = covered.iter().flat_map(|group| group.entries.clone()).collect();
        let first = covered.iter().map(|group| group.first).min();
        let last = covered.iter().map(|group| group.last).max();
        let nothing = || nothing_for(&groups, (cut, wanted), context.entries.len(), keep);
        let (Some(first), Some(last)) = (first, last) else { return Err(nothing()) };
        let kept = groups.iter().filter(|group| group.kept);
        let mut keeps: Vec<Seq> = kept
            .flat_map(|group| context.entries.get(group.entries.clone()).unwrap_or_default())
            .filter_map(ContextEntry::seq)
            .flat_map(|seq| context.versions_of(seq))
            // Without its newest version, a message before the range would be its first again.
            .chain(context.places.iter().filter(|(_, place)| **place < first).map(|(seq, _)| *seq))
            .filter(|seq| first < *seq && *seq < last && !lane.instructions.contains(seq))
            .collect();
        keeps.sort_unstable();
        keeps.dedup();
        // Replacing a single summary by another one gains nothing.
        if places.len() < 2 || keeps.len() > LiveCompaction::KEEPS {
            return Err(nothing());
        }
        let kept = context.entries.len() - places.len();
        Ok(Self { first, last, keeps, covered: places, kept })
    }

    /// The covered part of a context.
    #[must_use]
    pub fn covered_of(&self, context: &Context) -> Context {
        let covered = self.covered.iter().filter_map(|place| context.entries.get(*place));
        Context {
            lane: context.lane.clone(),
            entries: covered.cloned().collect(),
            places: context.places.clone(),
        }
    }
}

impl Context {
    /// The events of a message, of the outcomes of its calls and of the other parts of its answer.
    /// Empty if the message is not in the context.
    #[must_use]
    pub fn together(&self, message: Seq) -> Vec<Seq> {
        let groups = groups(self, &LaneState::default());
        let seqs = |group: &MessageGroup| -> Vec<Seq> {
            let entries = self.entries.get(group.entries.clone()).unwrap_or_default();
            let recorded =
                entries.iter().filter(|entry| !matches!(entry, ContextEntry::Summary { .. }));
            let mut seqs: Vec<Seq> = recorded.filter_map(ContextEntry::seq).collect();
            seqs.sort_unstable();
            seqs.dedup();
            seqs
        };
        let place = self.place_of(message);
        let holds = |seqs: &Vec<Seq>| seqs.iter().any(|seq| self.place_of(*seq) == place);
        groups.iter().map(seqs).find(holds).unwrap_or_default()
    }
}

/// The last index up to `wanted` at which everything before it precedes everything after it.
fn last_cut(groups: &[MessageGroup], wanted: usize) -> usize {
    let free = |group: &&MessageGroup| !group.kept;
    let behind = groups.get(wanted..).unwrap_or_default().iter().filter(free);
    let mut begins = behind.map(|group| group.first).min().unwrap_or(Seq(u64::MAX));
    // For each index, the last event before it.
    let mut ends = vec![Seq::ZERO];
    for group in groups.iter().take(wanted) {
        let end = ends.last().copied().unwrap_or(Seq::ZERO);
        ends.push(if group.kept { end } else { end.max(group.last) });
    }
    let mut cut = ends.len() - 1;
    while cut > 0 && ends.get(cut).is_some_and(|end| *end >= begins) {
        cut -= 1;
        if let Some(group) = groups.get(cut).filter(free) {
            begins = begins.min(group.first);
        }
    }
    cut
}

/// Why nothing can be covered.
fn nothing_for(
    groups: &[MessageGroup],
    (cut, wanted): (usize, usize),
    messages: usize,
    keep: usize,
) -> NothingToCompact {
    let free = groups.get(..wanted).unwrap_or_default().iter().filter(|group| !group.kept);
    match free.max_by_key(|group| group.last).filter(|_| cut < wanted) {
        Some(group) => NothingToCompact::Joined { first: group.first, last: group.last },
        None => NothingToCompact::Kept { messages, keep },
    }
}

/// How many of the last groups are searched for calls that may still get a result.
const WAITING: usize = 16;

/// The first group with a call without a result among the last message and the bare calls after it,
/// which are made side by side. Its result may still come.
fn first_waiting(context: &Context, groups: &[MessageGroup]) -> usize {
    let mut first = groups.len();
    for (at, group) in groups.iter().enumerate().rev().take(WAITING) {
        if is_open(context, group) {
            first = at;
        }
        if !matches!(context.entries.get(group.entries.start), Some(ContextEntry::Call { .. })) {
            break;
        }
    }
    first
}

/// Does any of its calls lack a result?
fn is_open(context: &Context, group: &MessageGroup) -> bool {
    let entries = context.entries.get(group.entries.clone()).unwrap_or_default();
    entries.iter().any(|entry| matches!(entry, ContextEntry::Unknown { .. }))
}

fn groups(context: &Context, lane: &LaneState) -> Vec<MessageGroup> {
    let stays: HashSet<Seq> =
        lane.instructions.iter().chain(&lane.pins).map(|seq| context.place_of(*seq)).collect();
    let mut groups: Vec<MessageGroup> = Vec::new();
    let mut answer = None;
    for (index, entry) in context.entries.iter().enumerate() {
        // A newer version is covered where it stands.
        let place = entry.seq().map(|seq| context.place_of(seq));
        let part_of = entry.answer();
        let joins = entry.is_outcome() || (part_of.is_some() && part_of == answer);
        if !entry.is_outcome() {
            answer = part_of;
        }
        let (first, last) = match entry {
            ContextEntry::Summary { seq, .. } => {
                let range = lane.compactions.iter().find(|one| one.at == *seq);
                range.map_or((*seq, *seq), |one| (one.first, one.last))
            }
            // An unknown outcome counts as part of its call.
            _ => place.map_or((Seq(u64::MAX), Seq::ZERO), |seq| (seq, seq)),
        };
        let kept = place.is_some_and(|seq| stays.contains(&seq));
        match groups.last_mut().filter(|_| joins) {
            Some(group) => {
                group.entries.end = index + 1;
                group.first = group.first.min(first);
                group.last = group.last.max(last);
                group.kept |= kept;
            }
            None => groups.push(MessageGroup { entries: index..index + 1, first, last, kept }),
        }
    }
    groups
}
