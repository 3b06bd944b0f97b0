//! Which events of the journal make up the context of a lane.

use crate::{LaneState, Lineage, LiveCompaction, Seq};

/// The events that a context is read from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VisibleRanges {
    /// The compactions whose summaries are shown, ordered by what they cover.
    pub summaries: Vec<LiveCompaction>,
    /// The ranges of events to read, in order and disjoint, both ends included.
    pub ranges: Vec<(Seq, Seq)>,
}

/// Ranges with fewer events than this between them are read as one.
const CLOSE: u64 = 16;

impl VisibleRanges {
    /// The visible events of a lane whose last event is `end`.
    #[must_use]
    pub fn of(lane: &LaneState, lineage: &Lineage, end: Seq) -> Self {
        let mut summaries: Vec<LiveCompaction> = Vec::new();
        for later in &lane.compactions {
            // A compaction of compactions replaces them too.
            let within = |one: &LiveCompaction| later.first <= one.first && one.last <= later.last;
            summaries.retain(|one| !within(one));
            summaries.push(later.clone());
        }
        summaries.sort_unstable_by_key(|one| (one.first, one.last));
        let mut ranges = Vec::new();
        let mut from = lane.first.unwrap_or(end.next());
        for one in &summaries {
            if one.first > from {
                ranges.push((from, one.first.back(1)));
            }
            from = from.max(one.last.next());
        }
        ranges.push((from, end));
        let keeps = summaries.iter().flat_map(|one| one.keeps.iter().chain([&one.at]));
        ranges.extend(lane.instructions.iter().chain(keeps).map(|seq| (*seq, *seq)));
        Self { ranges: live(ranges, lineage), summaries }
    }

    /// Does a summary cover this event?
    #[must_use]
    pub fn covers(&self, seq: Seq) -> bool {
        self.summaries.iter().any(|one| one.covers(seq))
    }
}

/// The live parts of the ranges, in order, with close ones joined.
fn live(mut ranges: Vec<(Seq, Seq)>, lineage: &Lineage) -> Vec<(Seq, Seq)> {
    ranges.retain(|(first, last)| first <= last);
    ranges.sort_unstable();
    let mut parts: Vec<(Seq, Seq)> = Vec::new();
    for (first, last) in ranges {
        let live = lineage.ranges();
        let from = live.partition_point(|(_, end)| *end < first);
        for (start, end) in live.iter().skip(from).take_while(|(start, _)| *start <= last) {
            let part = (first.max(*start), last.min(*end));
            match parts.last_mut() {
                Some(before) if part.0.0 <= before.1.0.saturating_add(CLOSE) => {
                    before.1 = before.1.max(part.1);
                }
                _ => parts.push(part),
            }
        }
    }
    parts
}
