//! The journal as found and as a repair rewrites it: which lines of which segment are kept, what is
//! written between them, and which segments must be rewritten.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use abide_journal::{
    AcknowledgedEnd, Journal, JournalError, JournalItem, JournalLine, JournalWalkStart,
    LineObjectRef, Link, RepairSplice, Salt, SegmentForm, SegmentHeader, SegmentName, SpliceTarget,
    Sum,
};
use abide_model::{Event, Seq, SessionId};

/// A line or splice that can be read.
#[derive(Debug, Clone)]
struct ReadableRecord {
    segment: u64,
    offset: u64,
    end: u64,
    ended: bool,
    what: ReadableRecordKind,
}

#[derive(Debug, Clone)]
enum ReadableRecordKind {
    Line { seq: Seq, prev: Link, sum: Sum },
    Splice(RepairSplice),
}

/// What is known of the file of a segment.
#[derive(Debug, Clone, Default)]
struct SurveyedSegment {
    form: Option<SegmentForm>,
    header: Option<SegmentHeader>,
    length: u64,
    /// It is sealed and its table cannot be read.
    unsealed: bool,
}

/// A journal as found.
#[derive(Debug)]
pub(super) struct JournalSurvey {
    session: SessionId,
    journal: Journal,
    version: u64,
    /// The event before its first, and what the first line is chained to.
    before: (Seq, Sum),
    mark: Option<AcknowledgedEnd>,
    files: BTreeMap<u64, SurveyedSegment>,
    standing: Vec<ReadableRecord>,
    /// Where a torn tail starts: segment and byte.
    torn: Option<(u64, u64)>,
}

/// A reconstructed event, with the objects that it names.
pub(super) type ReconstructedEvent = (Event, Vec<LineObjectRef>);

/// A rewritten segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RewrittenSegment {
    pub(super) number: u64,
    /// The form of the file that it replaces; `None` if that is gone.
    pub(super) old: Option<SegmentForm>,
    pub(super) bytes: Vec<u8>,
    /// The number of events kept, and of events reconstructed.
    pub(super) kept: u64,
    pub(super) again: u64,
}

/// A journal as a repair writes it.
#[derive(Debug, Clone, Default)]
pub(super) struct JournalRewrite {
    pub(super) segments: Vec<RewrittenSegment>,
    /// What stays lost: first and last of each range.
    pub(super) lost: Vec<(Seq, Seq)>,
    /// What is reconstructed: first and last of each range.
    pub(super) again: Vec<(Seq, Seq)>,
    /// Where it ends.
    pub(super) end: Option<(Seq, Sum)>,
    /// The number of the next segment.
    pub(super) next: u64,
    /// The version of the journal.
    pub(super) version: u64,
}

/// The most segments that may be missing.
const MOST_MISSING: u64 = 65_536;

/// A part of a segment's new bytes.
enum SegmentPart {
    Keep { offset: u64, end: u64, ended: bool, is_line: bool },
    Line(Vec<u8>),
    Splice(Vec<u8>),
}

impl JournalSurvey {
    /// Reads the journal of a session. `before` is the event before its first, if the journal does
    /// not tell.
    pub(super) fn of(
        journal: &Journal,
        session: SessionId,
        before: (Seq, Sum),
        mark: Option<AcknowledgedEnd>,
    ) -> Result<Self, JournalError> {
        let mut files: BTreeMap<u64, SurveyedSegment> = BTreeMap::new();
        for name in journal.segments()? {
            let segment = journal.open_segment(name)?;
            let header = journal.header(name.number)?;
            let header =
                header.filter(|header| header.segment == name.number && header.session == session);
            files.insert(
                name.number,
                SurveyedSegment {
                    form: Some(segment.form()),
                    header,
                    length: segment.len()?,
                    unsealed: segment.seal_damage().is_some(),
                },
            );
        }
        let (mut standing, mut torn) = (Vec::new(), None);
        journal.walk(JournalWalkStart::beginning(), mark, &mut |found| {
            match found {
                JournalItem::Event { line, segment, offset, end, ended } => {
                    let what =
                        ReadableRecordKind::Line { seq: line.seq, prev: line.prev, sum: line.sum };
                    standing.push(ReadableRecord { segment, offset, end, ended, what });
                }
                JournalItem::Splice { splice, segment, offset, end, ended } => {
                    standing.push(ReadableRecord {
                        segment,
                        offset,
                        end,
                        ended,
                        what: ReadableRecordKind::Splice(splice),
                    });
                }
                JournalItem::Torn { segment, offset, .. } => torn = Some((segment, offset)),
                JournalItem::Damage(_) => {}
            }
            ControlFlow::Continue(())
        })?;
        let last = files.keys().next_back().copied().unwrap_or(1);
        if last.saturating_sub(files.len() as u64) > MOST_MISSING {
            return Err(JournalError::Damaged {
                path: journal.dir().to_owned(),
                offset: 0,
                reason: format!("segment {last} in a journal of {} segments", files.len()),
            });
        }
        for number in 1..=last {
            files.entry(number).or_default();
        }
        let (journal, version) = (journal.clone(), journal.version()?);
        Ok(Self { session, journal, version, before, mark, files, standing, torn })
    }

    /// Plans the journal so that it reads without damage, with these events reconstructed where
    /// they are lost. `last` is the last event known from another source.
    pub(super) fn rewrite(
        &self,
        repair: &str,
        again: &BTreeMap<Seq, ReconstructedEvent>,
        last: Seq,
        salt: &mut dyn FnMut() -> Salt,
    ) -> Result<JournalRewrite, JournalError> {
        let mut joining = JournalGapJoiner {
            repair,
            again,
            salt,
            last: (self.before.0, SpliceTarget::Sum(self.before.1)),
            lost: Vec::new(),
            written: Vec::new(),
        };
        let mut parts: BTreeMap<u64, Vec<SegmentPart>> = BTreeMap::new();
        let mut headers: BTreeMap<u64, (Seq, Sum)> = BTreeMap::new();
        let mut segment = 1;
        headers.insert(1, (joining.last.0, joining.last.1.sum()));
        for one in &self.standing {
            // A gap before this line belongs to the segment that lacks it: one that is missing or
            // empty, else the one before.
            let gap = (segment + 1..one.segment)
                .find(|number| self.files.get(number).is_none_or(|file| file.form.is_none()))
                .or((one.segment > segment + 1).then_some(segment + 1))
                .unwrap_or(segment);
            let (next, prev) = match &one.what {
                ReadableRecordKind::Line { seq, prev, .. } => (*seq, Some(*prev)),
                ReadableRecordKind::Splice(splice) if joining.fills(splice) => continue,
                ReadableRecordKind::Splice(splice) => (splice.after.next(), None),
            };
            headers.entry(gap).or_insert((joining.last.0, joining.last.1.sum()));
            parts.entry(gap).or_default().extend(joining.bridge(next, prev));
            for number in segment + 1..=one.segment {
                headers.entry(number).or_insert((joining.last.0, joining.last.1.sum()));
            }
            segment = one.segment;
            let is_line = matches!(one.what, ReadableRecordKind::Line { .. });
            let keep =
                SegmentPart::Keep { offset: one.offset, end: one.end, ended: one.ended, is_line };
            parts.entry(segment).or_default().push(keep);
            joining.last = match &one.what {
                ReadableRecordKind::Line { seq, sum, .. } => (*seq, SpliceTarget::Sum(*sum)),
                ReadableRecordKind::Splice(splice) => (splice.next.back(1), splice.prev),
            };
        }
        let end = self.mark.map_or(Seq::ZERO, |mark| mark.seq).max(last);
        if end > joining.last.0 {
            let bridge = joining.bridge(end.next(), None);
            parts.entry(segment).or_default().extend(bridge);
        }
        let mut rewrite = JournalRewrite {
            lost: joining.lost,
            again: joining.written,
            end: Some((joining.last.0, joining.last.1.sum())),
            next: self.files.keys().next_back().copied().unwrap_or(1) + 1,
            version: self.version,
            segments: Vec::new(),
        };
        for (number, file) in &self.files {
            let parts = parts.remove(number).unwrap_or_default();
            let first = headers.get(number).map(|(before, _)| before.next());
            if self.is_whole(*number, file, first, &parts) {
                continue;
            }
            let (before, prev) = headers.get(number).copied().unwrap_or(self.before);
            // A header whose `first` is lost would be reported as damage again.
            let header = file.header.clone().filter(|header| header.first == before.next());
            let header = header.unwrap_or(SegmentHeader {
                version: self.version,
                session: self.session,
                segment: *number,
                first: before.next(),
                prev,
            });
            rewrite.segments.push(self.written(*number, file, header, &parts)?);
        }
        Ok(rewrite)
    }

    /// Whether the file of a segment holds exactly this. A torn tail is left to the next writer.
    fn is_whole(
        &self,
        number: u64,
        file: &SurveyedSegment,
        first: Option<Seq>,
        parts: &[SegmentPart],
    ) -> bool {
        let Some(header) = file.header.as_ref().filter(|_| file.form.is_some() && !file.unsealed)
        else {
            return false;
        };
        if first.is_some_and(|first| first != header.first) {
            return false;
        }
        let mut at = header.write().len() as u64;
        for part in parts {
            match part {
                SegmentPart::Keep { offset, end, ended, .. } if *offset == at => {
                    // The line feed of the last line may be part of what is torn.
                    if !ended && self.torn.is_none() && *end < file.length {
                        return false;
                    }
                    at = *end;
                }
                _ => return false,
            }
        }
        // Filling may stand before what is torn.
        at == file.length || self.torn.is_some_and(|(torn, from)| torn == number && from >= at)
    }

    fn written(
        &self,
        number: u64,
        file: &SurveyedSegment,
        header: SegmentHeader,
        parts: &[SegmentPart],
    ) -> Result<RewrittenSegment, JournalError> {
        let mut new =
            RewrittenSegment { number, old: file.form, bytes: header.write(), kept: 0, again: 0 };
        let old = match file.form {
            Some(form) => Some(self.journal.open_segment(SegmentName { number, form })?),
            None => None,
        };
        for part in parts {
            match part {
                SegmentPart::Keep { offset, end, is_line, .. } => {
                    let mut bytes = vec![0; usize::try_from(end - offset).unwrap_or(0)];
                    let mut read = 0;
                    while let (Some(old), Some(rest)) = (&old, bytes.get_mut(read..)) {
                        match old.read_at(rest, offset + read as u64)? {
                            0 => break,
                            more => read += more,
                        }
                    }
                    bytes.truncate(read);
                    if bytes.last() != Some(&b'\n') {
                        bytes.push(b'\n');
                    }
                    new.bytes.extend_from_slice(&bytes);
                    new.kept += u64::from(*is_line);
                }
                SegmentPart::Line(bytes) => {
                    new.bytes.extend_from_slice(bytes);
                    new.again += 1;
                }
                SegmentPart::Splice(bytes) => new.bytes.extend_from_slice(bytes),
            }
        }
        Ok(new)
    }
}

/// Joins the two sides of a gap.
struct JournalGapJoiner<'a> {
    repair: &'a str,
    again: &'a BTreeMap<Seq, ReconstructedEvent>,
    salt: &'a mut dyn FnMut() -> Salt,
    /// The last event so far, and what the next line is chained to.
    last: (Seq, SpliceTarget),
    lost: Vec<(Seq, Seq)>,
    written: Vec<(Seq, Seq)>,
}

impl JournalGapJoiner<'_> {
    /// Whether more is now known between the two sides of a splice than when it was written.
    fn fills(&self, splice: &RepairSplice) -> bool {
        splice.lost().is_some_and(|(first, last)| self.again.range(first..=last).next().is_some())
    }

    /// What comes between the last line and that of `next`, which is chained to `prev`, or if that
    /// is `None`, to whatever precedes it.
    fn bridge(&mut self, next: Seq, prev: Option<Link>) -> Vec<SegmentPart> {
        let mut parts = Vec::new();
        let from = self.last.0.next();
        if from < next {
            let again = self.again;
            for (seq, (event, objects)) in again.range(from..next) {
                if *seq > self.last.0.next() {
                    parts.push(self.splice(*seq, self.last.1));
                }
                let mut bytes = Vec::new();
                let (salt, link) = ((self.salt)(), self.last.1.link());
                let sum = JournalLine::write(&mut bytes, event, objects, 1, salt, link);
                parts.push(SegmentPart::Line(bytes));
                self.last = (*seq, SpliceTarget::Sum(sum));
                grow_journal_ranges(&mut self.written, *seq);
            }
        }
        let chained = prev.is_none_or(|prev| prev == self.last.1.link());
        if self.last.0.next() < next || !chained {
            let prev = prev.map_or(self.last.1, SpliceTarget::Link);
            parts.push(self.splice(next, prev));
        }
        parts
    }

    fn splice(&mut self, next: Seq, prev: SpliceTarget) -> SegmentPart {
        let splice =
            RepairSplice { repair: self.repair.to_owned(), after: self.last.0, next, prev };
        self.lost.extend(splice.lost());
        self.last = (next.back(1), prev);
        SegmentPart::Splice(splice.write())
    }
}

/// Adds an event to ascending ranges.
fn grow_journal_ranges(ranges: &mut Vec<(Seq, Seq)>, seq: Seq) {
    match ranges.last_mut() {
        Some((_, last)) if last.next() == seq => *last = seq,
        _ => ranges.push((seq, seq)),
    }
}
