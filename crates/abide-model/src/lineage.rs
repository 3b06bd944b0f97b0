//! The lineage: the events that are live after rewinds.

use serde::{Deserialize, Serialize};

use crate::{Event, Fact, Kind, Seq, SessionState};

/// The ranges of live events, in order, both ends included. A rewind at `seq` to `to` removes
/// everything between the two from the lineage; the events stay in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lineage {
    ranges: Vec<(Seq, Seq)>,
}

impl Lineage {
    /// Adds `seq` as the newest live event.
    pub fn extend(&mut self, seq: Seq) {
        match self.ranges.last_mut() {
            Some((_, end)) if end.next() == seq => *end = seq,
            _ => self.ranges.push((seq, seq)),
        }
    }

    /// The lineage as of `end`. `rewinds` holds the seq and the target of every rewind up to there,
    /// in order.
    #[must_use]
    pub fn at(end: Seq, rewinds: &[(Seq, Seq)]) -> Self {
        let mut ranges = Vec::new();
        let mut end = end;
        while end > Seq::ZERO {
            let before = rewinds.partition_point(|(seq, _)| *seq <= end);
            let rewind = before.checked_sub(1).and_then(|index| rewinds.get(index));
            ranges.push((rewind.map_or(Seq::FIRST, |(seq, _)| *seq), end));
            // Each step moves `end` back, so the loop ends.
            end = rewind.map_or(Seq::ZERO, |(seq, to)| (*to).min(seq.back(1)));
        }
        ranges.reverse();
        // A rewind to the event just before it removes nothing.
        ranges.dedup_by(|later, earlier| {
            let adjacent = earlier.1.next() == later.0;
            if adjacent {
                earlier.1 = later.1;
            }
            adjacent
        });
        Self { ranges }
    }

    /// Is this event live?
    #[must_use]
    pub fn contains(&self, seq: Seq) -> bool {
        let after = self.ranges.partition_point(|(start, _)| *start <= seq);
        after.checked_sub(1).and_then(|at| self.ranges.get(at)).is_some_and(|(_, end)| seq <= *end)
    }

    /// Was anything after this event taken back?
    #[must_use]
    pub fn is_rewound_after(&self, seq: Seq) -> bool {
        let before_the_last = self.ranges.split_last().map_or(&[][..], |(_, before)| before);
        before_the_last.iter().any(|(_, end)| *end >= seq)
    }

    /// The live ranges, in order.
    #[must_use]
    pub fn ranges(&self) -> &[(Seq, Seq)] {
        &self.ranges
    }
}

/// The target of a valid rewind. `None` if it removes no event because only files were restored.
#[must_use]
pub fn rewind_target(event: &Event) -> Option<Seq> {
    if event.kind != Kind::SESSION_REWOUND {
        return None;
    }
    match event.fact() {
        Ok(Fact::Rewind(rewind)) if rewind.to > Seq::ZERO && rewind.to.next() < event.seq => {
            Some(rewind.to)
        }
        _ => None,
    }
}

/// Calls a function with each event up to some seq, in order.
pub type EventReplay<'a, E> = dyn Fn(&mut dyn FnMut(&Event)) -> Result<(), E> + 'a;

/// The state as of `to`: folds the lineage as of there. Visits the events twice.
pub fn fold_lineage<E>(to: Seq, each: &EventReplay<'_, E>) -> Result<SessionState, E> {
    let mut rewinds = Vec::new();
    each(&mut |event| rewinds.extend(rewind_target(event).map(|to| (event.seq, to))))?;
    let lineage = Lineage::at(to, &rewinds);
    let mut state = SessionState::default();
    each(&mut |event| {
        if lineage.contains(event.seq) {
            state.apply(event);
        } else {
            state.apply_dead(event);
        }
    })?;
    Ok(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewind_takes_a_range_out_and_a_second_one_takes_out_more_or_brings_it_back() {
        let mut lineage = Lineage::default();
        (1..=10).for_each(|seq| lineage.extend(Seq(seq)));
        assert_eq!(lineage, Lineage::at(Seq(10), &[]));
        let first = [(Seq(11), Seq(4))];
        let lineage = Lineage::at(Seq(12), &first);
        assert_eq!(lineage.ranges(), [(Seq(1), Seq(4)), (Seq(11), Seq(12))]);
        assert!(lineage.contains(Seq(4)) && lineage.contains(Seq(11)));
        assert!(
            !lineage.contains(Seq(5)) && !lineage.contains(Seq(13)) && !lineage.contains(Seq(0))
        );
        assert!(lineage.is_rewound_after(Seq(4)) && lineage.is_rewound_after(Seq(1)));
        assert!(!lineage.is_rewound_after(Seq(11)) && !Lineage::default().is_rewound_after(Seq(1)));
        let back = Lineage::at(Seq(13), &[first[0], (Seq(13), Seq(2))]);
        assert_eq!(back.ranges(), [(Seq(1), Seq(2)), (Seq(13), Seq(13))]);
        assert_eq!(Lineage::at(Seq(6), &[(Seq(6), Seq(5))]), Lineage::at(Seq(6), &[]));
        let forward = Lineage::at(Seq(14), &[first[0], (Seq(13), Seq(9))]);
        assert_eq!(forward.ranges(), [(Seq(1), Seq(9)), (Seq(13), Seq(14))]);
    }
}
