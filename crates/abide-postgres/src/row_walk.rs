//! A walk over the rows of a session that notices what is missing, cannot be read or does not follow.

use abide_journal::{JournalLine, Link, Sum};
use abide_model::Seq;

use crate::postgres_reader::parse_sound_line;

/// What was found so far.
#[derive(Debug)]
pub(crate) struct RowWalk {
    /// The event that should come next.
    pub(crate) expected: Seq,
    /// The last sound line, or what comes before the first.
    pub(crate) sound: (Seq, Sum),
    /// What the next line must be chained to, if that is known.
    link: Option<Link>,
    /// Rows that cannot be read, and why.
    pub(crate) unreadable: Vec<(Seq, String)>,
    /// Events without a row: first and last of each range.
    pub(crate) missing: Vec<(Seq, Seq)>,
    /// Sound lines that do not follow from the one before.
    pub(crate) unchained: Vec<Seq>,
}

impl RowWalk {
    /// Before the first row, after this event. Its sum is not known where it cannot be read.
    pub(crate) fn after(before: Seq, sum: Option<Sum>, genesis: Sum) -> Self {
        Self {
            expected: before.next(),
            sound: (before, sum.unwrap_or(genesis)),
            link: sum.map(|sum| sum.link()),
            unreadable: Vec::new(),
            missing: Vec::new(),
            unchained: Vec::new(),
        }
    }

    /// Takes the next row. Returns its line if that is sound.
    pub(crate) fn row<'a>(&mut self, seq: Seq, raw: &'a [u8]) -> Option<JournalLine<'a>> {
        self.reaches(seq.back(1));
        self.expected = seq.next();
        match parse_sound_line(seq, raw) {
            Ok(line) => {
                if self.link.is_some_and(|link| link != line.prev) {
                    self.unchained.push(seq);
                }
                self.link = Some(line.sum.link());
                self.sound = (seq, line.sum);
                Some(line)
            }
            Err(reason) => {
                self.link = None;
                self.unreadable.push((seq, reason));
                None
            }
        }
    }

    /// Notes that there should be rows up to this event.
    pub(crate) fn reaches(&mut self, last: Seq) {
        if last >= self.expected {
            self.missing.push((self.expected, last));
            self.expected = last.next();
            self.link = None;
        }
    }

    /// The events that cannot be read, except those that are named as lost: first and last of each
    /// range.
    pub(crate) fn lost(&self, named: &[(Seq, Seq)]) -> Vec<(Seq, Seq)> {
        let unreadable = self.unreadable.iter().map(|(seq, _)| (*seq, *seq));
        let mut lost: Vec<(Seq, Seq)> = self.missing.iter().copied().chain(unreadable).collect();
        for (from, to) in named {
            let rest = |(first, last): (Seq, Seq)| {
                let before = (first < *from).then(|| (first, last.min(from.back(1))));
                let after = (last > *to).then(|| (first.max(to.next()), last));
                before.into_iter().chain(after)
            };
            lost = lost.into_iter().flat_map(rest).collect();
        }
        joined_ranges(lost)
    }

    /// Whether every event is there and follows from the one before, but for those that are named as
    /// lost.
    pub(crate) fn is_whole_but(&self, named: &[(Seq, Seq)]) -> bool {
        self.lost(named).is_empty() && self.unreadable.is_empty() && self.unchained.is_empty()
    }

    /// Whether an event of a range is missing or cannot be read.
    pub(crate) fn is_lacking(&self, (first, last): (Seq, Seq)) -> bool {
        let is_in = |seq: &Seq| (first..=last).contains(seq);
        self.unreadable.iter().any(|(seq, _)| is_in(seq))
            || self.missing.iter().any(|(from, to)| *from <= last && first <= *to)
    }

    /// The rows that cannot be read: first and last of each range.
    pub(crate) fn unreadable_ranges(&self) -> Vec<(Seq, Seq)> {
        joined_ranges(self.unreadable.iter().map(|(seq, _)| (*seq, *seq)).collect())
    }
}

/// Sorts ranges, and joins those without a gap between them.
fn joined_ranges(mut ranges: Vec<(Seq, Seq)>) -> Vec<(Seq, Seq)> {
    ranges.sort_unstable();
    let mut joined: Vec<(Seq, Seq)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match joined.last_mut() {
            Some(before) if first <= before.1.next() => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use abide_model::{SessionId, Timestamp};

    use super::*;

    #[test]
    fn what_is_named_as_lost_is_left_out() {
        let id = SessionId::new(Timestamp::from_millis(0), [0; 10]);
        let mut walk = RowWalk::after(Seq::ZERO, None, Sum::genesis(id));
        walk.reaches(Seq(9));
        let at = |first, last| (Seq(first), Seq(last));
        assert_eq!(walk.lost(&[]), [at(1, 9)]);
        assert_eq!(walk.lost(&[at(3, 4), at(7, 20)]), [at(1, 2), at(5, 6)]);
        assert_eq!(walk.lost(&[at(1, 9)]), []);
        assert_eq!(walk.lost(&[at(20, 30)]), [at(1, 9)]);
        assert_eq!(
            joined_ranges(vec![at(5, 5), at(1, 2), at(3, 4), at(8, 9)]),
            [at(1, 5), at(8, 9)]
        );
    }
}
