//! Reads a journal: its segments in order, telling damage from a torn tail.
//!
//! A bad place is a **torn tail** if nothing proves that the event expected there was ever
//! acknowledged: everything from there on is an unacknowledged write. It is **damage** if something
//! does: the watermark, a later line (which records how far the journal was durable when it was
//! written), or the header of a later segment. Damage loses only what it covers; reading continues
//! behind it.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_model::{Fact, Seq, SessionId, SessionParent};

use crate::journal_walker::JournalWalker;
use crate::{
    AcknowledgedEnd, Damage, JournalError, JournalLine, RepairSplice, ScannedPiece, Segment,
    SegmentForm, SegmentHeader, SegmentName, SegmentScan, Storage, Sum, split_scanned,
};

/// A position to start reading from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalWalkStart {
    /// The segment.
    pub segment: u64,
    /// The offset of a line in it.
    pub offset: u64,
    /// The event of that line, if known.
    pub expected: Option<Seq>,
    /// The sum of the previous line, if known.
    pub sum: Option<Sum>,
}

impl JournalWalkStart {
    /// The beginning of a session's journal. Its [`JournalOrigin`] says which event that is.
    #[must_use]
    pub const fn beginning() -> Self {
        Self { segment: 1, offset: 0, expected: None, sum: None }
    }

    const fn is_beginning(&self) -> bool {
        self.segment == 1 && self.offset == 0 && self.expected.is_none()
    }
}

/// What a journal starts with. A fork's journal continues the numbering and the chain of its
/// parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalOrigin {
    /// The journal's first event.
    pub first: Seq,
    /// The sum that the first line is chained to, if the header is readable.
    pub prev: Option<Sum>,
    /// The parent whose past it shares, if `session.created` is readable.
    pub parent: Option<SessionParent>,
}

impl JournalOrigin {
    const PLAIN: Self = Self { first: Seq::FIRST, prev: None, parent: None };

    /// Is the past of this session in the journal of another?
    #[must_use]
    pub fn is_fork(&self) -> bool {
        self.first > Seq::FIRST
    }
}

/// An item found on a walk over a journal.
#[derive(Debug)]
pub enum JournalItem<'a> {
    /// An event.
    Event {
        /// Its line.
        line: JournalLine<'a>,
        /// The segment it is in.
        segment: u64,
        /// Where its line starts.
        offset: u64,
        /// Where the next line starts.
        end: u64,
        /// Whether the line break is there.
        ended: bool,
    },
    /// Where a repair joined the journal across damage.
    Splice {
        /// The splice.
        splice: RepairSplice,
        /// The segment it is in.
        segment: u64,
        /// Where it starts.
        offset: u64,
        /// Where the next line starts.
        end: u64,
        /// Whether the line break is there.
        ended: bool,
    },
    /// Damage: something unreadable that was acknowledged or is in the way.
    Damage(Damage),
    /// A torn write that was never acknowledged. Nothing follows it.
    Torn {
        /// The segment it is in.
        segment: u64,
        /// The file.
        path: &'a Path,
        /// Where it starts.
        offset: u64,
        /// How many bytes.
        bytes: u64,
    },
}

/// Whose journal it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalIdentity {
    /// This session's.
    Known(SessionId),
    /// It has events, but no readable header and no readable `session.created`.
    Unknown,
    /// It has no events: the session was never created.
    Empty,
}

/// A journal, open for reading.
#[derive(Debug, Clone)]
pub struct Journal {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
}

pub(crate) type JournalVisitor<'f> = dyn FnMut(JournalItem<'_>) -> ControlFlow<()> + 'f;

impl Journal {
    /// The journal in this directory.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>, dir: PathBuf) -> Self {
        Self { storage, dir }
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The segments in order. If a segment exists in both forms, the plain one: it was sealed but
    /// not removed yet.
    pub fn segments(&self) -> Result<Vec<SegmentName>, JournalError> {
        // A listing that races with sealing may miss both forms of a segment, also of the last. A
        // second listing tells whether the segment is really gone.
        let mut segments = self.list_segments()?;
        let gap = segments.windows(2).any(|pair| match pair {
            [one, next] => one.number + 1 != next.number,
            _ => false,
        });
        let next = segments.last().map_or(1, |last| last.number + 1);
        if gap || self.form_of(next).is_some() {
            segments = self.list_segments()?;
        }
        Ok(segments)
    }

    /// The form that a segment has now; `None` if there is no such segment.
    #[must_use]
    pub fn form_of(&self, number: u64) -> Option<SegmentForm> {
        // The plain form first: sealing removes it only once the sealed one is there.
        [SegmentForm::Plain, SegmentForm::Sealed].into_iter().find(|form| {
            let path = self.dir.join(SegmentName { number, form: *form }.file_name());
            self.storage.open(&path, crate::Access::Read).is_ok()
        })
    }

    fn list_segments(&self) -> Result<Vec<SegmentName>, JournalError> {
        let names = self.storage.list(&self.dir).map_err(JournalError::io("list", &self.dir))?;
        let mut segments: Vec<_> =
            names.iter().filter_map(|name| SegmentName::parse(name)).collect();
        segments.sort_by_key(|name| (name.number, name.form == SegmentForm::Sealed));
        segments.dedup_by_key(|name| name.number);
        Ok(segments)
    }

    /// Files in the journal's directory that are not segments.
    pub fn foreign_files(&self) -> Result<Vec<PathBuf>, JournalError> {
        let names = self.storage.list(&self.dir).map_err(JournalError::io("list", &self.dir))?;
        let foreign = names.iter().filter(|name| SegmentName::parse(name).is_none());
        Ok(foreign.map(|name| self.dir.join(name)).collect())
    }

    /// Opens a segment in whichever form it has now.
    pub fn open_segment(&self, name: SegmentName) -> Result<Segment, JournalError> {
        match Segment::open(&*self.storage, &self.dir, name) {
            Err(JournalError::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && name.form == SegmentForm::Plain =>
            {
                // It was sealed between listing and opening.
                let sealed = SegmentName { form: SegmentForm::Sealed, ..name };
                Segment::open(&*self.storage, &self.dir, sealed)
            }
            opened => opened,
        }
    }

    /// Which session the journal belongs to: from the header of a segment, newest first, else from
    /// the first event.
    pub fn identify(&self) -> Result<JournalIdentity, JournalError> {
        let mut identity = JournalIdentity::Empty;
        for name in self.segments()?.into_iter().rev() {
            let segment = self.open_segment(name)?;
            let mut session = None;
            SegmentScan::new(&segment).chunks(0, &mut |_, raw, _| {
                split_scanned(raw, &segment, &mut |_, _, piece| match piece {
                    ScannedPiece::Header(header) => {
                        session = Some(header.session);
                        // A later segment is started only if there are events before it.
                        if name.number == 1 {
                            ControlFlow::Continue(())
                        } else {
                            ControlFlow::Break(())
                        }
                    }
                    ScannedPiece::Line(line) => {
                        identity = JournalIdentity::Unknown;
                        let fact = line.event().map(|event| event.fact());
                        if let (None, Some(Ok(Fact::SessionCreated(created)))) = (session, fact) {
                            session = Some(created.session);
                        }
                        ControlFlow::Break(())
                    }
                    ScannedPiece::Splice(_) | ScannedPiece::Bad => ControlFlow::Continue(()),
                })
            })?;
            match session {
                Some(session) if name.number > 1 || identity == JournalIdentity::Unknown => {
                    return Ok(JournalIdentity::Known(session));
                }
                _ => {}
            }
        }
        Ok(identity)
    }

    /// The journal's origin: from the header of its first segment, else from its first event.
    pub fn origin(&self) -> Result<JournalOrigin, JournalError> {
        let first = SegmentName { number: 1, form: SegmentForm::Plain };
        let segment = match self.open_segment(first) {
            Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(JournalOrigin::PLAIN);
            }
            segment => segment?,
        };
        let header = segment.header()?;
        if let Some(header) = &header
            && header.first == Seq::FIRST
        {
            return Ok(JournalOrigin { prev: Some(header.prev), ..JournalOrigin::PLAIN });
        }
        let parent = journal_parent_in(&segment)?;
        let prev = header.as_ref().map(|header| header.prev);
        let first = header.map(|header| header.first);
        let first = first.or_else(|| parent.as_ref().map(|parent| parent.seq.next()));
        Ok(JournalOrigin { first: first.unwrap_or(Seq::FIRST), prev, parent })
    }

    /// The segment that the watermark names, if no segment follows it, which saves listing them
    /// all. `None` if they must be listed.
    pub fn last_segment(&self, mark: AcknowledgedEnd) -> Option<SegmentName> {
        let form = self.form_of(mark.segment)?;
        let alone = self.form_of(mark.segment + 1).is_none();
        alone.then_some(SegmentName { number: mark.segment, form })
    }

    /// The header of a segment, if readable.
    pub fn header(&self, number: u64) -> Result<Option<SegmentHeader>, JournalError> {
        self.open_segment(SegmentName { number, form: SegmentForm::Plain })?.header()
    }

    /// The version that its segments have: the newest header that is readable tells. If none is, the
    /// version that every program reads.
    pub fn version(&self) -> Result<u64, JournalError> {
        for name in self.segments()?.into_iter().rev() {
            if let Some(header) = self.open_segment(name)?.header()? {
                return Ok(header.version);
            }
        }
        Ok(1)
    }

    /// Walks the journal from `start` and visits each item in order.
    pub fn walk(
        &self,
        start: JournalWalkStart,
        mark: Option<AcknowledgedEnd>,
        visit: &mut JournalVisitor<'_>,
    ) -> Result<(), JournalError> {
        self.walk_in(&self.segments()?, start, mark, visit)
    }

    /// [`Journal::walk`] over segments that were already listed.
    pub fn walk_in(
        &self,
        names: &[SegmentName],
        start: JournalWalkStart,
        mark: Option<AcknowledgedEnd>,
        visit: &mut JournalVisitor<'_>,
    ) -> Result<(), JournalError> {
        let (expected, sum) = if start.is_beginning() {
            let origin = self.origin()?;
            (Some(origin.first), origin.prev.or(start.sum))
        } else {
            (start.expected, start.sum)
        };
        let link = sum.map(|sum| sum.link());
        let mut walker = JournalWalker::new(self, names, mark, visit).behind(expected, link);
        let mut end = (start.segment, start.offset);
        for (index, name) in names.iter().enumerate() {
            if name.number < start.segment {
                continue;
            }
            let segment = self.open_segment(*name)?;
            let from = if name.number == start.segment { start.offset } else { 0 };
            walker.segment(index, &segment, from)?;
            if walker.is_done() {
                return Ok(());
            }
            end = (name.number, segment.len()?);
        }
        walker.end(end.0, end.1);
        Ok(())
    }

    /// A position at or shortly before the line of `seq`.
    pub fn seek(&self, seq: Seq) -> Result<JournalWalkStart, JournalError> {
        let names = self.segments()?;
        let mut low = 0;
        let mut high = names.len();
        // Most searches are near the end or the beginning.
        let mut ends = [1, high.saturating_sub(1)].into_iter().rev();
        while high - low > 1 {
            let near = ends.find(|at| low < *at && *at < high);
            let middle = near.unwrap_or_else(|| low.midpoint(high));
            let Some(name) = names.get(middle) else { break };
            let segment = self.open_segment(*name)?;
            match first_seq(&segment)? {
                Some(first) if first <= seq => low = middle,
                _ => high = middle,
            }
        }
        let Some(name) = names.get(low) else {
            return Ok(JournalWalkStart::beginning());
        };
        let segment = self.open_segment(*name)?;
        let offset = seek_in_segment(&segment, seq)?;
        Ok(JournalWalkStart { segment: name.number, offset, expected: None, sum: None })
    }
}

/// Within this distance it is faster to read on than to search.
const NEAR: u64 = 32 << 10;

fn seek_in_segment(segment: &Segment, seq: Seq) -> Result<u64, JournalError> {
    if let Some(offset) = segment.seek(seq) {
        return Ok(offset);
    }
    let mut low = 0;
    let mut high = segment.len()?;
    while high - low > NEAR {
        let middle = low.midpoint(high);
        match first_journal_line_after(segment, middle)? {
            Some((offset, found)) if found <= seq && offset < high => low = offset,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// The first good line that starts after `offset`, and its event.
fn first_journal_line_after(
    segment: &Segment,
    offset: u64,
) -> Result<Option<(u64, Seq)>, JournalError> {
    let mut found = None;
    let mut first = true;
    SegmentScan::new(segment).chunks(offset, &mut |at, raw, ended| {
        // The first chunk is the rest of an earlier line.
        if !std::mem::take(&mut first)
            && ended
            && let Ok(line) = JournalLine::read(raw)
        {
            found = Some((at, line.seq));
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// The parent named by the session's first event.
fn journal_parent_in(segment: &Segment) -> Result<Option<SessionParent>, JournalError> {
    let mut parent = None;
    SegmentScan::new(segment).chunks(0, &mut |_, raw, _| {
        split_scanned(raw, segment, &mut |_, _, piece| match piece {
            ScannedPiece::Line(line) => {
                let fact = line.event().map(|event| event.fact());
                if let Some(Ok(Fact::SessionCreated(created))) = fact {
                    parent = created.fields.forked_from(line.seq).cloned();
                }
                ControlFlow::Break(())
            }
            ScannedPiece::Header(_) | ScannedPiece::Splice(_) | ScannedPiece::Bad => {
                ControlFlow::Continue(())
            }
        })
    })?;
    Ok(parent)
}

fn first_seq(segment: &Segment) -> Result<Option<Seq>, JournalError> {
    if let Some(header) = segment.header()? {
        return Ok(Some(header.first));
    }
    Ok(first_journal_line_after(segment, 0)?.map(|(_, seq)| seq))
}
