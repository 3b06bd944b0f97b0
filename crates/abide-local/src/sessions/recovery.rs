//! Opens a session for writing: finds the end of its journal, recovers the end, folds the state.
//!
//! `look` is read-only; `mend` then does what must be done before the next line can be written: cut
//! a torn tail, end an open line, cut filling. Nothing acknowledged is destroyed: lost events leave a gap that
//! the next writer names.

use std::ops::ControlFlow;

use abide_journal::{
    Access, AcknowledgedEnd, Damage, Journal, JournalEnd, JournalError, JournalItem,
    JournalWalkStart, RepairSplice, SegmentDamageReason, SegmentForm, SegmentName, Storage, Sum,
    filling_start, read_full, write_full,
};
use abide_model::{Event, Seq, SessionId, SessionState, Timestamp, fold_lineage, rewind_target};

use crate::derived::state_cache::{CachedJournalEnd, CachedState, StateCache, StatePages};
use crate::sessions::local_reader::LocalReader;
use crate::sessions::session_ancestry::MissingParentPolicy;

/// What reading a journal found.
#[derive(Debug)]
pub(crate) struct RecoveryScan {
    pub(crate) state: SessionState,
    pub(crate) pages: StatePages,
    /// Where the journal ends: the last known event, readable or lost.
    pub(crate) end: JournalEnd,
    /// Where the last line starts.
    pub(crate) line: u64,
    /// The last line has its line feed.
    pub(crate) ended: bool,
    pub(crate) damage: Vec<Damage>,
    /// A torn tail: segment, offset and bytes.
    pub(crate) torn: Option<(u64, u64, u64)>,
    pub(crate) at: Timestamp,
    /// The segments, in order.
    pub(crate) segments: Vec<SegmentName>,
}

impl RecoveryScan {
    /// The events that are lost.
    pub(crate) fn lost(&self) -> Vec<(Seq, Seq)> {
        self.damage.iter().filter_map(|damage| damage.lost).collect()
    }

    /// Continues after a splice. If that is the last line, the next one is chained to what it says.
    fn pass(
        &mut self,
        splice: &RepairSplice,
        segment: u64,
        (offset, end): (u64, u64),
        ended: bool,
    ) {
        let sum = splice.prev.sum();
        self.end = JournalEnd { segment, offset: end, seq: splice.next.back(1), sum };
        self.line = offset;
        self.ended = ended;
    }
}

/// Finds the end of the journal and the state there, starting at the newest state cache that fits.
pub(crate) fn look_for_recovery(
    reader: &LocalReader,
    snapshots: &mut StateCache,
    mark: Option<AcknowledgedEnd>,
    gone: MissingParentPolicy,
) -> Result<RecoveryScan, JournalError> {
    let journal = reader.journal();
    if let Some(restored) = snapshots.restore(journal) {
        let start = restored.start();
        if let Some(look) = look_for_recovery_from(reader, restored, start, mark, gone)? {
            return Ok(look);
        }
    }
    let past = reader.past()?;
    // A fork starts with the events that it shares.
    let (state, sum) = if past.is_fork() {
        (past.state_at(past.last(), gone)?, past.sum()?)
    } else {
        (SessionState::default(), Some(Sum::genesis(reader.session())))
    };
    // When reading from the beginning no page is stored elsewhere, so none can be missing.
    let beginning = CachedState {
        state,
        pages: StatePages::new(reader.storage().clone(), reader.state_dir().to_owned(), 0, 0),
        stand: CachedJournalEnd {
            end: JournalEnd {
                segment: 1,
                offset: 0,
                seq: past.last(),
                sum: sum.unwrap_or_else(|| Sum::genesis(reader.session())),
            },
            line: 0,
        },
    };
    let start = JournalWalkStart { segment: 1, offset: 0, expected: Some(past.own_first()), sum };
    look_for_recovery_from(reader, beginning, start, mark, gone)?.ok_or_else(|| {
        JournalError::Damaged {
            path: journal.dir().to_owned(),
            offset: 0,
            reason: "the state cannot be folded".to_owned(),
        }
    })
}

/// `None` if a page of the state cache cannot be read.
fn look_for_recovery_from(
    reader: &LocalReader,
    restored: CachedState,
    start: JournalWalkStart,
    mark: Option<AcknowledgedEnd>,
    gone: MissingParentPolicy,
) -> Result<Option<RecoveryScan>, JournalError> {
    let journal = reader.journal();
    let CachedState { state, pages, stand } = restored;
    let mut look = RecoveryScan {
        at: state.core.at,
        state,
        pages,
        end: stand.end,
        line: stand.line,
        ended: true,
        damage: Vec::new(),
        torn: None,
        segments: recovery_segments_from(journal, start, mark)?,
    };
    let segments = look.segments.clone();
    let mut unreadable = false;
    let mut rewound = false;
    journal.walk_in(&segments, start, mark, &mut |found| match found {
        JournalItem::Event { line, segment, offset, end, ended } => {
            if let Some(event) = line.event() {
                if !look.pages.bring(&mut look.state, &event) {
                    unreadable = true;
                    return ControlFlow::Break(());
                }
                if rewind_target(&event).is_some() {
                    // Only a fold gives the state at the event rewound to.
                    rewound = true;
                    return ControlFlow::Break(());
                }
                look.state.apply(&event);
                look.at = look.at.max(event.at);
            }
            look.end = JournalEnd { segment, offset: end, seq: line.seq, sum: line.sum };
            look.line = offset;
            look.ended = ended;
            ControlFlow::Continue(())
        }
        JournalItem::Splice { splice, segment, offset, end, ended } => {
            look.pass(&splice, segment, (offset, end), ended);
            ControlFlow::Continue(())
        }
        JournalItem::Damage(damage) => {
            look.damage.push(damage);
            ControlFlow::Continue(())
        }
        JournalItem::Torn { segment, offset, bytes, .. } => {
            look.torn = Some((segment, offset, bytes));
            ControlFlow::Continue(())
        }
    })?;
    if unreadable {
        return Ok(None);
    }
    if rewound {
        return fold_with_rewinds(reader, look, mark, gone).map(Some);
    }
    finish_recovery_scan(journal, &mut look, mark)?;
    Ok(Some(look))
}

/// The segments from `start` on. Normally there is one, which is found without listing them all, so
/// that opening costs the same however many there are.
fn recovery_segments_from(
    journal: &Journal,
    start: JournalWalkStart,
    mark: Option<AcknowledgedEnd>,
) -> Result<Vec<SegmentName>, JournalError> {
    let marked = mark.filter(|mark| mark.segment == start.segment);
    match marked.and_then(|mark| journal.last_segment(mark)) {
        Some(last) => Ok(vec![last]),
        None => journal.segments(),
    }
}

fn finish_recovery_scan(
    journal: &Journal,
    look: &mut RecoveryScan,
    mark: Option<AcknowledgedEnd>,
) -> Result<(), JournalError> {
    if let Some(last) = look.segments.last().copied()
        && last.number > look.end.segment
        && look.torn.is_none_or(|(segment, _, _)| segment != last.number)
    {
        // A segment with nothing but its header, or nothing readable.
        let segment = journal.open_segment(last)?;
        look.end = JournalEnd { segment: last.number, offset: segment.len()?, ..look.end };
        look.line = look.end.offset;
        look.ended = recovered_end_is_line_break(&segment)?;
    }
    if let Some(mark) = mark.filter(|mark| mark.seq > look.end.seq) {
        // Acknowledged events at the end are lost. The next line is chained to the last of them and
        // follows whatever bytes are left.
        let name = SegmentName { number: look.end.segment, form: SegmentForm::Plain };
        let segment = journal.open_segment(name)?;
        look.end = JournalEnd { seq: mark.seq, sum: mark.sum, offset: segment.len()?, ..look.end };
        look.ended = recovered_end_is_line_break(&segment)?;
        look.line = look.end.offset;
    }
    Ok(())
}

fn recovered_end_is_line_break(segment: &abide_journal::Segment) -> Result<bool, JournalError> {
    let Some(at) = segment.len()?.checked_sub(1) else {
        return Ok(true);
    };
    let mut byte = [0];
    segment.read_at(&mut byte, at)?;
    Ok(byte == [b'\n'])
}

/// The state at `to`: a fold over the lineage from the beginning, which for a fork is that of its
/// first ancestor.
pub(crate) fn recovered_state_at(
    reader: &LocalReader,
    to: Seq,
    mark: Option<AcknowledgedEnd>,
    gone: MissingParentPolicy,
) -> Result<SessionState, JournalError> {
    let past = reader.past()?;
    if to < past.own_first() {
        let mut state = past.state_at(to, gone)?;
        reader.each_own_event(past.own_first(), mark, &mut |event| state.apply_dead(event))?;
        return Ok(state);
    }
    past.check(gone)?;
    fold_lineage(to, &|visit| each_recovered_event(reader, to, mark, visit))
}

/// The state after a rewind, given the state before it.
pub(crate) fn apply_rewind(
    reader: &LocalReader,
    before: SessionState,
    event: &Event,
    mark: Option<AcknowledgedEnd>,
) -> Result<SessionState, JournalError> {
    let Some(to) = rewind_target(event) else {
        return Ok(before);
    };
    let mut state = SessionState::rewound(
        recovered_state_at(reader, to, mark, MissingParentPolicy::Refuse)?,
        before,
    );
    state.apply(event);
    Ok(state)
}

fn each_recovered_event(
    reader: &LocalReader,
    to: Seq,
    mark: Option<AcknowledgedEnd>,
    visit: &mut dyn FnMut(&Event),
) -> Result<(), JournalError> {
    reader.past()?.each_event(to, visit)?;
    reader.each_own_event(to, mark, visit)
}

/// Folds a journal with rewinds after the state cache from the beginning.
fn fold_with_rewinds(
    reader: &LocalReader,
    mut look: RecoveryScan,
    mark: Option<AcknowledgedEnd>,
    gone: MissingParentPolicy,
) -> Result<RecoveryScan, JournalError> {
    let journal = reader.journal();
    look.damage.clear();
    look.torn = None;
    journal.walk(JournalWalkStart::beginning(), mark, &mut |found| {
        match found {
            JournalItem::Event { line, segment, offset, end, ended } => {
                look.end = JournalEnd { segment, offset: end, seq: line.seq, sum: line.sum };
                look.line = offset;
                look.ended = ended;
                if let Some(event) = line.event() {
                    look.at = look.at.max(event.at);
                }
            }
            JournalItem::Splice { splice, segment, offset, end, ended } => {
                look.pass(&splice, segment, (offset, end), ended);
            }
            JournalItem::Damage(damage) => look.damage.push(damage),
            JournalItem::Torn { segment, offset, bytes, .. } => {
                look.torn = Some((segment, offset, bytes))
            }
        }
        ControlFlow::Continue(())
    })?;
    look.state = recovered_state_at(reader, look.end.seq, mark, gone)?;
    finish_recovery_scan(journal, &mut look, mark)?;
    Ok(look)
}

/// Where the next line goes, and what is known to be durable.
#[derive(Debug)]
pub(crate) struct MendedJournal {
    /// The last event that is known to be durable.
    pub(crate) durable: Seq,
    /// The directory entry of the current segment may not be durable.
    pub(crate) new_name: bool,
}

/// Does what must be done before the next line is written.
pub(crate) fn mend_recovered_journal(
    storage: &dyn Storage,
    journal: &Journal,
    session: SessionId,
    look: &mut RecoveryScan,
    mark: Option<AcknowledgedEnd>,
) -> Result<MendedJournal, JournalError> {
    let dir = journal.dir();
    let segments = look.segments.clone();
    let mut active = segments.last().copied().ok_or_else(|| JournalError::Damaged {
        path: dir.to_owned(),
        offset: 0,
        reason: SegmentDamageReason::Missing.to_string(),
    })?;
    if let Some((number, offset, _)) = look.torn {
        let path = dir.join(SegmentName { number, form: SegmentForm::Plain }.file_name());
        let io = |action, source| JournalError::Io { action, path: path.clone(), source };
        if offset == 0 && number > 1 {
            // A segment that was created and never held anything.
            storage.remove(&path).map_err(|error| io("remove", error))?;
            storage.sync_dir(dir).map_err(|error| io("sync", error))?;
            if let Some(before) = segments.iter().rev().nth(1) {
                active = *before;
            }
        } else {
            let file = storage.open(&path, Access::Write).map_err(|error| io("open", error))?;
            file.truncate(offset).map_err(|error| io("cut", error))?;
            file.sync().map_err(|error| io("sync", error))?;
            if number == look.end.segment && look.end.offset > offset {
                // The line feed of the last line was part of what is torn.
                look.end.offset = offset;
                look.ended = false;
            }
        }
    }
    if active.form == SegmentForm::Sealed {
        return begin_recovered_segment(storage, journal, session, look, active.number + 1);
    }
    let path = dir.join(active.file_name());
    let io = |action, source| JournalError::Io { action, path: path.clone(), source };
    let file = storage.open(&path, Access::Write).map_err(|error| io("open", error))?;
    let lines_end = filling_start(&*file).map_err(|error| io("read", error))?;
    if look.end.segment != active.number {
        look.end = JournalEnd { segment: active.number, offset: lines_end, ..look.end };
    }
    if !look.ended {
        write_full(&*file, b"\n", lines_end).map_err(|error| io("write", error))?;
        look.end.offset = lines_end + 1;
        look.ended = true;
    }
    if file.len().map_err(|error| io("read", error))? > look.end.offset {
        // Filling. Before the file grows again the cut must be durable: a power cut could bring back
        // what stood there.
        file.truncate(look.end.offset).map_err(|error| io("cut", error))?;
        file.sync().map_err(|error| io("sync", error))?;
    }
    // Unacknowledged lines may exist only in the page cache, marked clean after a failed sync.
    // Writing them again makes the pages dirty, so that the next sync really makes them durable.
    let durable =
        mark.filter(|mark| mark.segment == active.number && mark.offset <= look.end.offset);
    let from = durable.map_or(0, |mark| mark.offset);
    let mut at = from;
    while at < look.end.offset {
        let left = usize::try_from(look.end.offset - at).unwrap_or(usize::MAX);
        let mut bytes = vec![0; left.min(1 << 20)];
        let read = read_full(&*file, &mut bytes, at).map_err(|error| io("read", error))?;
        if read == 0 {
            break;
        }
        bytes.truncate(read);
        write_full(&*file, &bytes, at).map_err(|error| io("write", error))?;
        at += read as u64;
    }
    Ok(MendedJournal {
        durable: mark.map_or(Seq::ZERO, |mark| mark.seq).min(look.end.seq),
        new_name: mark.is_none_or(|mark| mark.segment < active.number),
    })
}

fn begin_recovered_segment(
    storage: &dyn Storage,
    journal: &Journal,
    session: SessionId,
    look: &mut RecoveryScan,
    number: u64,
) -> Result<MendedJournal, JournalError> {
    let header = abide_journal::SegmentHeader {
        version: journal.version()?,
        session,
        segment: number,
        first: look.end.seq.next(),
        prev: look.end.sum,
    }
    .write();
    let path = journal.dir().join(SegmentName { number, form: SegmentForm::Plain }.file_name());
    let io = |action, source| JournalError::Io { action, path: path.clone(), source };
    let file = storage.open(&path, Access::CreateNew).map_err(|error| io("create", error))?;
    write_full(&*file, &header, 0).map_err(|error| io("write", error))?;
    file.sync().map_err(|error| io("sync", error))?;
    storage.sync_dir(journal.dir()).map_err(|error| io("sync", error))?;
    look.end = JournalEnd { segment: number, offset: header.len() as u64, ..look.end };
    look.line = look.end.offset;
    Ok(MendedJournal { durable: look.end.seq, new_name: false })
}
