//! A walk over the segments of a journal.

use std::ops::ControlFlow;
use std::path::PathBuf;

use abide_model::Seq;

use crate::journal::{Journal, JournalItem, JournalVisitor};
use crate::{
    AcknowledgedEnd, Damage, JournalError, JournalLine, Link, RepairSplice, ScanEnd, ScannedPiece,
    Segment, SegmentDamageReason, SegmentForm, SegmentHeader, SegmentName, SegmentScan,
    split_scanned,
};

/// A run of lines this long is not a misplaced sector.
const LONG_RUN: u64 = 256;

/// A part that cannot be read, not yet known to be damage.
struct BadRegion {
    segment: u64,
    path: PathBuf,
    offset: u64,
    bytes: u64,
    reason: SegmentDamageReason,
}

/// A walk over the segments of a journal, which tells damage from a torn tail.
pub(crate) struct JournalWalker<'a, 'f> {
    journal: &'a Journal,
    names: &'a [SegmentName],
    expected: Option<Seq>,
    /// What the next line is chained to.
    link: Option<Link>,
    mark: Option<AcknowledgedEnd>,
    bad: Option<BadRegion>,
    /// How far the lines behind the first bad place prove the journal durable.
    proven: Option<Seq>,
    done: bool,
    visit: &'a mut JournalVisitor<'f>,
}

impl<'a, 'f> JournalWalker<'a, 'f> {
    /// A walk from the beginning. `mark` is the last event known to be acknowledged.
    pub(crate) fn new(
        journal: &'a Journal,
        names: &'a [SegmentName],
        mark: Option<AcknowledgedEnd>,
        visit: &'a mut JournalVisitor<'f>,
    ) -> Self {
        Self {
            journal,
            names,
            expected: None,
            link: None,
            mark,
            bad: None,
            proven: None,
            done: false,
            visit,
        }
    }

    /// The same from where the event `expected` follows a line with this link, as far as known.
    pub(crate) fn behind(self, expected: Option<Seq>, link: Option<Link>) -> Self {
        Self { expected, link, ..self }
    }

    /// Whether there is nothing more to find, or nobody wants more.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Walks over the segment at `index` of the names, from an offset on.
    pub(crate) fn segment(
        &mut self,
        index: usize,
        segment: &Segment,
        from: u64,
    ) -> Result<(), JournalError> {
        let mut at_header = from == 0;
        let ended = SegmentScan::new(segment).chunks(from, &mut |offset, raw, ended| {
            let mut failed = None;
            let flow = split_scanned(raw, segment, &mut |start, end, piece| {
                let place = offset + start as u64;
                let bytes = (end - start) as u64;
                let after = offset + end as u64 + u64::from(ended || end < raw.len());
                match piece {
                    // A seek would trust a header whose number goes back.
                    ScannedPiece::Header(header)
                        if self.expected.is_some_and(|seq| header.first < seq) =>
                    {
                        self.bad(segment, place, bytes, SegmentDamageReason::Header);
                    }
                    ScannedPiece::Header(header) => self.header(&header),
                    ScannedPiece::Splice(splice) => {
                        let found = self.splice(index, segment, splice, place, after, ended);
                        if let Err(error) = found {
                            failed = Some(error);
                            self.done = true;
                        }
                    }
                    ScannedPiece::Line(line) => {
                        if let Err(error) = self.line(index, segment, line, place, after, ended) {
                            failed = Some(error);
                            self.done = true;
                        }
                    }
                    ScannedPiece::Bad => {
                        let reason = if at_header {
                            SegmentDamageReason::Header
                        } else {
                            SegmentDamageReason::Unreadable
                        };
                        self.bad(segment, place, bytes, reason);
                    }
                }
                at_header = false;
                if self.done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            failed.map_or(Ok(flow), Err)
        })?;
        let is_last = index + 1 == self.names.len();
        if ended == ScanEnd::End && self.bad.is_none() && is_last && !segment.has_its_end() {
            self.bad(segment, segment.len()?, 0, SegmentDamageReason::Unreadable);
        }
        self.done |= ended == ScanEnd::Stopped;
        Ok(())
    }

    fn header(&mut self, header: &SegmentHeader) {
        // A segment is started only once everything before it is durable.
        let first = header.first;
        if self.expected.is_none() {
            self.expected = Some(first);
        }
        if self.expected == Some(first) && self.link.is_none() {
            self.link = Some(header.prev.link());
        }
        let before = first.back(1);
        if self.mark.is_none_or(|mark| mark.seq < before) {
            self.mark = Some(AcknowledgedEnd {
                seq: before,
                sum: header.prev,
                segment: header.segment,
                offset: 0,
            });
        }
    }

    fn bad(&mut self, segment: &Segment, offset: u64, bytes: u64, reason: SegmentDamageReason) {
        match &mut self.bad {
            Some(bad) if bad.segment == segment.number() => {
                bad.bytes = (offset + bytes).saturating_sub(bad.offset);
            }
            Some(_) => {}
            none => {
                *none = Some(BadRegion {
                    segment: segment.number(),
                    path: segment.path().to_owned(),
                    offset,
                    bytes,
                    reason,
                });
            }
        }
    }

    fn line(
        &mut self,
        index: usize,
        segment: &Segment,
        line: JournalLine<'_>,
        offset: u64,
        end: u64,
        ended: bool,
    ) -> Result<(), JournalError> {
        let expected = self.expected.unwrap_or(line.seq);
        if line.seq < expected {
            self.bad(segment, offset, end - offset, SegmentDamageReason::Repeated);
            return Ok(());
        }
        if line.seq > expected
            && self.expected.is_some()
            && self.is_misplaced(expected, (line.seq, line.seq.next()), index, segment, end)?
        {
            self.bad(segment, offset, end - offset, SegmentDamageReason::Repeated);
            return Ok(());
        }
        let chained = line.seq == expected && self.link.is_none_or(|link| link == line.prev);
        if !chained || self.bad.is_some() {
            let torn_at = self
                .bad
                .as_ref()
                .map_or((segment.number(), offset), |bad| (bad.segment, bad.offset));
            let in_the_way = chained && self.link.is_some();
            if !in_the_way && !self.was_acknowledged(expected, &line, index, segment, end)? {
                self.torn(segment, torn_at);
                return Ok(());
            }
            let lost = (line.seq > expected).then(|| (expected, line.seq.back(1)));
            let bad = self.bad.take().unwrap_or_else(|| BadRegion {
                segment: segment.number(),
                path: segment.path().to_owned(),
                offset,
                bytes: 0,
                reason: if lost.is_some() {
                    SegmentDamageReason::Missing
                } else {
                    SegmentDamageReason::Unchained
                },
            });
            self.damage(bad, lost);
            if self.done {
                return Ok(());
            }
        }
        if self.mark.is_some_and(|mark| mark.seq == line.seq && mark.sum != line.sum) {
            // It was acknowledged with another sum: it was altered.
            let bad = BadRegion {
                segment: segment.number(),
                path: segment.path().to_owned(),
                offset,
                bytes: end - offset,
                reason: SegmentDamageReason::Unchained,
            };
            self.damage(bad, None);
            if self.done {
                return Ok(());
            }
        }
        self.expected = Some(line.seq.next());
        self.link = Some(line.sum.link());
        let found = JournalItem::Event { line, segment: segment.number(), offset, end, ended };
        self.done = (self.visit)(found).is_break();
        Ok(())
    }

    /// The repair knew that everything before its splice was acknowledged.
    fn splice(
        &mut self,
        index: usize,
        segment: &Segment,
        splice: RepairSplice,
        offset: u64,
        end: u64,
        ended: bool,
    ) -> Result<(), JournalError> {
        let first = splice.after.next();
        let expected = self.expected.unwrap_or(first);
        if first < expected
            || (first > expected
                && self.is_misplaced(expected, (first, splice.next), index, segment, end)?)
        {
            self.bad(segment, offset, end - offset, SegmentDamageReason::Repeated);
            return Ok(());
        }
        let lost = (first > expected).then_some((expected, splice.after));
        if lost.is_some() || self.bad.is_some() {
            let bad = self.bad.take().unwrap_or_else(|| BadRegion {
                segment: segment.number(),
                path: segment.path().to_owned(),
                offset,
                bytes: 0,
                reason: SegmentDamageReason::Missing,
            });
            self.damage(bad, lost);
            if self.done {
                return Ok(());
            }
        }
        self.expected = Some(splice.next);
        self.link = Some(splice.prev.link());
        let found = JournalItem::Splice { splice, segment: segment.number(), offset, end, ended };
        self.done = (self.visit)(found).is_break();
        Ok(())
    }

    fn damage(&mut self, bad: BadRegion, lost: Option<(Seq, Seq)>) {
        let damage = Damage {
            path: bad.path,
            offset: bad.offset,
            bytes: bad.bytes,
            reason: bad.reason,
            lost,
        };
        self.done = (self.visit)(JournalItem::Damage(damage)).is_break();
    }

    fn torn(&mut self, segment: &Segment, at: (u64, u64)) {
        let path = self.bad.take().map_or_else(|| segment.path().to_owned(), |bad| bad.path);
        let end = if at.0 == segment.number() { segment.len().unwrap_or(at.1) } else { at.1 };
        let bytes = end.saturating_sub(at.1);
        let _ = (self.visit)(JournalItem::Torn { segment: at.0, path: &path, offset: at.1, bytes });
        self.done = true;
    }

    /// Does anything prove that the event `expected` was acknowledged? `line` is the first good
    /// line behind the bad place; the proof may be further on.
    fn was_acknowledged(
        &mut self,
        expected: Seq,
        line: &JournalLine<'_>,
        index: usize,
        segment: &Segment,
        behind: u64,
    ) -> Result<bool, JournalError> {
        let proven_by = |line: &JournalLine<'_>| line.seq.back(line.lag);
        // A segment is sealed only once all of it is durable.
        if segment.form() == SegmentForm::Sealed {
            return Ok(true);
        }
        if self.mark.is_some_and(|mark| mark.seq >= expected)
            || (line.seq > expected && proven_by(line) >= expected)
        {
            return Ok(true);
        }
        if self.proven.is_none() {
            // The rest is scanned only once, however many bad places there are. A line proves
            // nothing about later events, so scanning from the first bad place is enough.
            let mut proven = Seq::ZERO;
            self.lines_behind(index, segment, behind, &mut |piece| {
                match piece {
                    ScannedPiece::Line(line) => proven = proven.max(proven_by(&line)),
                    ScannedPiece::Header(header) => proven = proven.max(header.first.back(1)),
                    ScannedPiece::Splice(splice) => proven = proven.max(splice.next.back(1)),
                    ScannedPiece::Bad => {}
                }
                ControlFlow::Continue(())
            })?;
            self.proven = Some(proven);
        }
        Ok(self.proven.is_some_and(|proven| proven >= expected))
    }

    /// Is a line that comes too early a stray copy (a sector written to the wrong place)? It is if
    /// the run of lines it starts breaks off and a line that belongs before it follows. `found` is
    /// the event of that line and the one after it.
    fn is_misplaced(
        &self,
        expected: Seq,
        (first, behind_it): (Seq, Seq),
        index: usize,
        segment: &Segment,
        behind: u64,
    ) -> Result<bool, JournalError> {
        let mut next = behind_it;
        let mut misplaced = false;
        let mut looked = 0;
        let mut judge = |found: &JournalLine<'_>| {
            looked += 1;
            if found.seq == next {
                next = next.next();
            } else if found.seq >= expected {
                misplaced = found.seq <= first;
                return ControlFlow::Break(());
            }
            // A run this long is not a stray copy.
            if looked > 4 * LONG_RUN || next.0 - behind_it.0 >= LONG_RUN {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        self.lines_behind(index, segment, behind, &mut |piece| match piece {
            ScannedPiece::Line(line) => judge(&line),
            ScannedPiece::Header(_) | ScannedPiece::Splice(_) | ScannedPiece::Bad => {
                ControlFlow::Continue(())
            }
        })?;
        Ok(misplaced)
    }

    /// Looks ahead from a position without moving.
    fn lines_behind(
        &self,
        index: usize,
        segment: &Segment,
        behind: u64,
        look: &mut dyn FnMut(ScannedPiece<'_>) -> ControlFlow<()>,
    ) -> Result<ScanEnd, JournalError> {
        let mut from = behind;
        let mut here = Some(segment);
        let mut opened;
        for name in self.names.iter().skip(index) {
            let looked_at = match here.take() {
                Some(segment) => segment,
                None => {
                    opened = self.journal.open_segment(*name)?;
                    &opened
                }
            };
            let ended = SegmentScan::new(looked_at).chunks(from, &mut |_, raw, _| {
                split_scanned(raw, looked_at, &mut |_, _, piece| look(piece))
            })?;
            if ended == ScanEnd::Stopped {
                return Ok(ScanEnd::Stopped);
            }
            from = 0;
        }
        Ok(ScanEnd::End)
    }

    /// The end of the bytes: any remainder is torn, unless the watermark proves otherwise or the
    /// segment is sealed, which it is only once all of it is durable.
    pub(crate) fn end(&mut self, segment: u64, offset: u64) {
        let expected = self.expected.unwrap_or(Seq::FIRST);
        let bad = self.bad.take();
        match self.mark.filter(|mark| mark.seq >= expected) {
            Some(mark) => {
                let bad = bad.unwrap_or_else(|| BadRegion {
                    segment,
                    path: self.journal.dir().join(
                        SegmentName { number: segment, form: SegmentForm::Plain }.file_name(),
                    ),
                    offset,
                    bytes: 0,
                    reason: SegmentDamageReason::Missing,
                });
                self.damage(bad, Some((expected, mark.seq)));
            }
            None => match bad {
                Some(bad) if self.is_sealed(bad.segment) => self.damage(bad, None),
                Some(bad) => {
                    let _ = (self.visit)(JournalItem::Torn {
                        segment: bad.segment,
                        path: &bad.path,
                        offset: bad.offset,
                        bytes: bad.bytes,
                    });
                }
                None => {}
            },
        }
    }

    fn is_sealed(&self, number: u64) -> bool {
        self.names.iter().any(|name| name.number == number && name.form == SegmentForm::Sealed)
    }
}
