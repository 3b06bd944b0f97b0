//! The follower: reads what the journals have beyond the index, and adds it to the index.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use abide_index::{FollowedSession, HistoryIndex, IndexError};
use abide_journal::{JournalError, JournalItem, JournalWalkStart, SegmentForm, SegmentName, Sum};
use abide_model::{
    Event, EventRange, HistoryDelta, Kind, Overview, OverviewUpdate, Seq, rewind_of,
};
use serde::{Deserialize, Serialize};

use super::{IndexProgress, IndexProgressCallback};
use crate::sessions::local_reader::LocalReader;

/// How many bytes are passed to the index at once.
const PIECE_BYTES: usize = 2 << 20;
/// The index commits after this many bytes.
const COMMIT_BYTES: usize = 64 << 20;

/// The position in a journal that the index has reached, as the index stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FollowerPosition {
    segment: u64,
    offset: u64,
    sum: String,
}

impl FollowerPosition {
    /// The stored form.
    fn written((segment, offset, sum): (u64, u64, Sum)) -> String {
        let sum = String::from_utf8_lossy(sum.as_ascii()).into_owned();
        serde_json::to_string(&Self { segment, offset, sum }).unwrap_or_default()
    }
}

/// What a session's journal has, compared with the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JournalDrift {
    /// The same.
    Same,
    /// Possibly more, from here on.
    More(JournalWalkStart),
    /// Something else: it must be read from the beginning.
    Other,
}

/// A session to check, and what the index has of it.
#[derive(Debug)]
pub(super) struct FollowTask {
    pub(super) name: String,
    pub(super) followed: Option<FollowedSession>,
}

/// A piece of a session, ready for the index.
enum FollowerUpdate {
    Delta(Box<HistoryDelta>, String),
    Gone(String),
    /// No writer has it open.
    Resting(String),
    Done {
        events: u64,
    },
    /// It cannot be read; other sessions can.
    Failed(String, JournalError),
}

/// The result of following.
#[derive(Debug, Default)]
pub(super) struct FollowOutcome {
    /// The index was changed.
    pub(super) changed: bool,
    /// Sessions that cannot be read, and why.
    pub(super) failed: Vec<(String, JournalError)>,
}

impl FollowOutcome {
    pub(super) fn add(&mut self, more: Self) {
        self.changed |= more.changed;
        self.failed.extend(more.failed);
    }
}

/// Opens sessions by the names of their directories.
pub(super) trait FollowedSessionOpener: Sync {
    /// A reader of the session; `None` if it does not exist.
    fn reader(&self, name: &str) -> Result<Option<LocalReader>, JournalError>;
    /// Whether no writer has this session open.
    fn is_at_rest(&self, name: &str) -> bool;
}

/// Updates the index from these sessions. One thread reads, another writes.
pub(super) fn follow_sessions(
    index: &mut HistoryIndex,
    sessions: &dyn FollowedSessionOpener,
    work: &[FollowTask],
    progress: &IndexProgressCallback,
) -> Result<FollowOutcome, IndexError> {
    std::thread::scope(|scope| {
        let (send, receive) = sync_channel(4);
        let reading = scope.spawn(move || read_followed_sessions(sessions, work, &send));
        let written = write_follower_updates(index, receive, work.len(), progress);
        // Without a receiver the reading thread ends at its next piece.
        reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written
    })
}

fn read_followed_sessions(
    sessions: &dyn FollowedSessionOpener,
    work: &[FollowTask],
    send: &SyncSender<FollowerUpdate>,
) {
    for work in work {
        let mut give = |piece| match send.send(piece) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let last = match read_followed_session(sessions, work, &mut give) {
            Ok(events) => FollowerUpdate::Done { events },
            Err(error) => FollowerUpdate::Failed(work.name.clone(), error),
        };
        if give(last).is_break() {
            return;
        }
    }
}

fn write_follower_updates(
    index: &mut HistoryIndex,
    pieces: Receiver<FollowerUpdate>,
    total: usize,
    progress: &IndexProgressCallback,
) -> Result<FollowOutcome, IndexError> {
    let mut outcome = FollowOutcome::default();
    let mut tally = FollowerTally {
        step: IndexProgress { sessions: 0, of: total, events: 0 },
        told: Instant::now(),
        telling: false,
    };
    let mut pieces = pieces.into_iter();
    // No transaction is started for sessions without news.
    while let Some(first) = pieces.find(|piece| !tally.count(piece, progress)) {
        let mut update = index.update()?;
        let mut next = Some(first);
        let mut bytes = 0;
        while let Some(piece) = next {
            match piece {
                FollowerUpdate::Delta(delta, place) => {
                    outcome.changed = true;
                    bytes += delta.bytes();
                    update.put(&delta, &place)?;
                }
                FollowerUpdate::Gone(name) => {
                    outcome.changed = true;
                    update.forget(&name)?;
                }
                FollowerUpdate::Resting(name) => update.let_rest(&name)?,
                FollowerUpdate::Failed(name, error) => outcome.failed.push((name, error)),
                FollowerUpdate::Done { .. } => {}
            }
            if bytes >= COMMIT_BYTES {
                break;
            }
            next = pieces.next();
            if let Some(piece) = &next {
                tally.count(piece, progress);
            }
        }
        update.commit()?;
    }
    if tally.telling {
        // A caller that was told of progress is also told of the end.
        progress.tell(IndexProgress { sessions: total, ..tally.step });
    }
    Ok(outcome)
}

/// Counts progress and reports it from time to time.
struct FollowerTally {
    step: IndexProgress,
    told: Instant,
    telling: bool,
}

impl FollowerTally {
    /// Returns whether the piece ends a session.
    fn count(&mut self, piece: &FollowerUpdate, progress: &IndexProgressCallback) -> bool {
        let FollowerUpdate::Done { events } = piece else { return false };
        self.step.sessions += 1;
        self.step.events += events;
        if self.told.elapsed() > Duration::from_millis(100) {
            self.told = Instant::now();
            self.telling = true;
            progress.tell(self.step);
        }
        true
    }
}

/// Reads what one session has beyond the index. Returns the number of events.
fn read_followed_session(
    sessions: &dyn FollowedSessionOpener,
    work: &FollowTask,
    give: &mut dyn FnMut(FollowerUpdate) -> ControlFlow<()>,
) -> Result<u64, JournalError> {
    let Some(reader) = sessions.reader(&work.name)? else {
        if work.followed.is_some() {
            let _ = give(FollowerUpdate::Gone(work.name.clone()));
        }
        return Ok(0);
    };
    let stand = match &work.followed {
        None => JournalDrift::More(JournalWalkStart::beginning()),
        Some(followed) => follower_drift(&reader, followed)?,
    };
    let (start, delta) = match stand {
        JournalDrift::Same => {
            let watched = work.followed.as_ref().is_some_and(|followed| followed.overview.writing);
            if watched && sessions.is_at_rest(&work.name) {
                let _ = give(FollowerUpdate::Resting(work.name.clone()));
            }
            return Ok(0);
        }
        JournalDrift::More(start) => match &work.followed {
            Some(followed) => (start, HistoryDelta::new(&work.name, followed.overview.clone())),
            None => (start, HistoryDelta::new(&work.name, followed_beginning(&reader)?)),
        },
        JournalDrift::Other => {
            (JournalWalkStart::beginning(), restart_following(&work.name, &reader)?)
        }
    };
    let mut reading = JournalFollower {
        reader: &reader,
        delta,
        place: None,
        events: 0,
        whole: start == JournalWalkStart::beginning(),
        rewound: false,
        rewinds: None,
    };
    let mut read = reading.walk(start, give)?;
    if read == FollowEnd::Rewound {
        // Many rewinds, each of which would need everything before it: read once from the
        // beginning, with their targets known.
        reading = JournalFollower {
            delta: restart_following(&work.name, &reader)?,
            place: None,
            events: 0,
            rewinds: Some(followed_rewinds(&reader)?),
            ..reading
        };
        read = reading.walk(JournalWalkStart::beginning(), give)?;
    }
    if read == FollowEnd::Stopped {
        return Ok(reading.events);
    }
    if let Some(place) = reading.place {
        let _ =
            give(FollowerUpdate::Delta(Box::new(reading.delta), FollowerPosition::written(place)));
    } else if stand == JournalDrift::Other && reading.events == 0 {
        let _ = give(FollowerUpdate::Gone(work.name.clone()));
    }
    Ok(reading.events)
}

/// The overview before the first event: a fork continues its parent's turn numbers.
fn followed_beginning(reader: &LocalReader) -> Result<Overview, JournalError> {
    let mut overview = Overview::default();
    overview.open.last_turn = reader.turns_in_ancestry()?;
    overview.fields.project_id = reader.find_given_project()?;
    Ok(overview)
}

fn restart_following(name: &str, reader: &LocalReader) -> Result<HistoryDelta, JournalError> {
    let mut delta = HistoryDelta::restart(name);
    delta.set_overview(followed_beginning(reader)?);
    Ok(delta)
}

/// A session that is being read.
struct JournalFollower<'a> {
    reader: &'a LocalReader,
    delta: HistoryDelta,
    /// How far `delta` goes, if it is not empty: segment, offset, and the sum of the last line.
    place: Option<(u64, u64, Sum)>,
    events: u64,
    /// It is read from its beginning.
    whole: bool,
    /// It has already met a rewind.
    rewound: bool,
    /// The targets of rewinds, and the overview at those that were passed; `None` if they were not
    /// looked up.
    rewinds: Option<BTreeMap<Seq, Option<Overview>>>,
}

/// How reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FollowEnd {
    /// At the end.
    All,
    /// At a rewind whose target is unknown.
    Rewound,
    /// The receiver is gone.
    Stopped,
}

impl JournalFollower<'_> {
    fn walk(
        &mut self,
        start: JournalWalkStart,
        give: &mut dyn FnMut(FollowerUpdate) -> ControlFlow<()>,
    ) -> Result<FollowEnd, JournalError> {
        let mut read = FollowEnd::All;
        let mut failed = Ok(());
        let (reader, mark) = (self.reader, self.reader.mark()?);
        reader.journal().walk(start, mark, &mut |found| {
            let JournalItem::Event { line, segment, end, ended, .. } = found else {
                return ControlFlow::Continue(());
            };
            let (Some(event), _) = reader.event(&line) else {
                return ControlFlow::Continue(());
            };
            self.events += 1;
            if self.delta.take_in(&event) == OverviewUpdate::Rewound {
                match self.rewound(&event) {
                    Ok(FollowEnd::All) => {}
                    Ok(other) => {
                        read = other;
                        return ControlFlow::Break(());
                    }
                    Err(error) => {
                        failed = Err(error);
                        return ControlFlow::Break(());
                    }
                }
            }
            self.delta.identify(reader.session());
            if let Some(rewinds) = &mut self.rewinds
                && let Some(passed) = rewinds.get_mut(&event.seq)
            {
                *passed = Some(self.delta.overview().clone());
            }
            // A line feed that is not there yet is the next byte.
            let here = (segment, end + u64::from(!ended), line.sum);
            if self.delta.bytes() >= PIECE_BYTES {
                let piece = FollowerUpdate::Delta(
                    Box::new(self.delta.split()),
                    FollowerPosition::written(here),
                );
                self.place = None;
                let given = give(piece);
                if given.is_break() {
                    read = FollowEnd::Stopped;
                }
                return given;
            }
            self.place = Some(here);
            ControlFlow::Continue(())
        })?;
        failed.map(|()| read)
    }

    /// Handles a rewind: the overview becomes that of its target, except for what never reverts.
    fn rewound(&mut self, event: &Event) -> Result<FollowEnd, JournalError> {
        if let Some(rewinds) = &self.rewinds {
            let to = rewind_of(event).map(|(_, to)| to);
            if let Some(Some(before)) = to.and_then(|to| rewinds.get(&to)) {
                let overview = self.delta.overview().rewound(before);
                self.delta.set_overview(overview);
                return Ok(FollowEnd::All);
            }
        } else if self.whole || std::mem::replace(&mut self.rewound, true) {
            return Ok(FollowEnd::Rewound);
        }
        let all = || self.reader.own_events(EventRange { last: event.seq, ..EventRange::ALL });
        let overview = followed_beginning(self.reader)?.followed_by(all)?;
        self.delta.set_overview(overview);
        Ok(FollowEnd::All)
    }
}

/// The targets of a session's rewinds.
fn followed_rewinds(reader: &LocalReader) -> Result<BTreeMap<Seq, Option<Overview>>, JournalError> {
    let mut rewinds = BTreeMap::new();
    reader.journal().walk(JournalWalkStart::beginning(), reader.mark()?, &mut |found| {
        if let JournalItem::Event { line, .. } = found
            && line.head().is_some_and(|head| head.kind == Kind::SESSION_REWOUND)
            && let Some((_, to)) = line.event().as_ref().and_then(rewind_of)
        {
            rewinds.insert(to, None);
        }
        ControlFlow::Continue(())
    })?;
    Ok(rewinds)
}

/// Compares the journal with the index, reading no more than its end.
fn follower_drift(
    reader: &LocalReader,
    followed: &FollowedSession,
) -> Result<JournalDrift, JournalError> {
    let Ok(place) = serde_json::from_str::<FollowerPosition>(&followed.place) else {
        return Ok(JournalDrift::Other);
    };
    let Some(sum) = Sum::from_ascii(place.sum.as_bytes()) else { return Ok(JournalDrift::Other) };
    let name = |number| SegmentName { number, form: SegmentForm::Plain };
    let journal = reader.journal();
    let missing = |error: JournalError| match error {
        JournalError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Ok(()),
        error => Err(error),
    };
    let segment = match journal.open_segment(name(place.segment)) {
        Ok(segment) => segment,
        Err(error) => return missing(error).map(|()| JournalDrift::Other),
    };
    // The last line read ended with its sum, and must still do so. A line behind it starts at once;
    // filling does not count.
    let mut end = [b'\n'; Sum::WIDTH + 4];
    let line_end = Sum::WIDTH + 3;
    let read = segment.read_at(&mut end, place.offset.saturating_sub(line_end as u64))?;
    // The line feed may not be there yet.
    let same = read + 1 >= line_end && end.get(..Sum::WIDTH) == Some(sum.as_ascii().as_slice());
    if !same {
        return Ok(JournalDrift::Other);
    }
    let start = JournalWalkStart {
        segment: place.segment,
        offset: place.offset,
        expected: Some(followed.overview.seq.next()),
        sum: Some(sum),
    };
    if end.last() != Some(&b'\n') {
        return Ok(JournalDrift::More(start));
    }
    match journal.open_segment(name(place.segment + 1)) {
        Ok(_) => Ok(JournalDrift::More(start)),
        Err(error) => missing(error).map(|()| JournalDrift::Same),
    }
}
