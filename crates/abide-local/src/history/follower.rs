//! The follower: reads what the journals have more than the index, and brings it there.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use abide_index::{Delta, Followed, Index, IndexError};
use abide_journal::{Found, JournalError, SegmentForm, SegmentName, Start, Sum};
use abide_model::{Applied, EventRange, Overview};
use serde::{Deserialize, Serialize};

use super::{Progress, Step};
use crate::reader::LocalReader;

/// So much is brought to the index at once.
const PIECE_BYTES: usize = 2 << 20;
/// After so much the index commits.
const COMMIT_BYTES: usize = 64 << 20;

/// Where in a journal the index stands, as the index keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    segment: u64,
    offset: u64,
    sum: String,
}

/// What a session's journal has, against what the index has of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// The same.
    Same,
    /// Perhaps more, from here on.
    More(Start),
    /// Something else: it must be read from the beginning.
    Other,
}

/// A session to be looked at, and what the index has of it.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) name: String,
    pub(super) followed: Option<Followed>,
}

/// A piece of a session, ready for the index.
enum Piece {
    Delta(Box<Delta>, String),
    Gone(String),
    Done { events: u64 },
}

/// Why following ended early.
#[derive(Debug)]
pub(super) enum FollowError {
    Index(IndexError),
    Journal(JournalError),
}

impl From<IndexError> for FollowError {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}

impl From<JournalError> for FollowError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

/// Opens sessions by the names of their directories.
pub(super) trait Sessions: Sync {
    /// A reader of the session; `None` when there is none.
    fn reader(&self, name: &str) -> Result<Option<LocalReader>, JournalError>;
}

/// Brings the index up to what these sessions have, and says whether there was anything new. One
/// thread reads, another writes.
pub(super) fn follow(
    index: &mut Index,
    sessions: &dyn Sessions,
    work: &[Work],
    progress: &Progress,
) -> Result<bool, FollowError> {
    std::thread::scope(|scope| {
        let (send, receive) = sync_channel(4);
        let reading = scope.spawn(move || read_all(sessions, work, &send));
        let written = write_all(index, receive, work.len(), progress);
        // Without a receiver the reader ends at its next piece.
        let read = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let changed = written?;
        read?;
        Ok(changed)
    })
}

fn read_all(
    sessions: &dyn Sessions,
    work: &[Work],
    send: &SyncSender<Piece>,
) -> Result<(), JournalError> {
    for work in work {
        let mut stopped = false;
        read(sessions, work, &mut |piece| match send.send(piece) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => {
                stopped = true;
                ControlFlow::Break(())
            }
        })?;
        if stopped {
            break;
        }
    }
    Ok(())
}

fn write_all(
    index: &mut Index,
    pieces: Receiver<Piece>,
    total: usize,
    progress: &Progress,
) -> Result<bool, FollowError> {
    let mut tally = Tally {
        step: Step { sessions: 0, of: total, events: 0 },
        told: Instant::now(),
        telling: false,
    };
    let mut pieces = pieces.into_iter();
    let mut changed = false;
    // Nothing is begun for sessions that have nothing new.
    while let Some(first) = pieces.find(|piece| !tally.count(piece, progress)) {
        changed = true;
        let mut update = index.update()?;
        let mut next = Some(first);
        let mut bytes = 0;
        while let Some(piece) = next {
            match &piece {
                Piece::Delta(delta, place) => {
                    bytes += delta.bytes();
                    update.put(delta, place)?;
                }
                Piece::Gone(name) => update.forget(name)?,
                Piece::Done { .. } => {}
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
        // Whoever was told of the middle is told of the end.
        progress.tell(Step { sessions: total, ..tally.step });
    }
    Ok(changed)
}

/// Counts what is done and tells it now and then.
struct Tally {
    step: Step,
    told: Instant,
    telling: bool,
}

impl Tally {
    /// Is it the end of a session?
    fn count(&mut self, piece: &Piece, progress: &Progress) -> bool {
        let Piece::Done { events } = piece else { return false };
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

/// Reads what one session has more than the index.
fn read(
    sessions: &dyn Sessions,
    work: &Work,
    give: &mut dyn FnMut(Piece) -> ControlFlow<()>,
) -> Result<(), JournalError> {
    let Some(reader) = sessions.reader(&work.name)? else {
        if work.followed.is_some() {
            let _ = give(Piece::Gone(work.name.clone()));
        }
        let _ = give(Piece::Done { events: 0 });
        return Ok(());
    };
    let stand = match &work.followed {
        None => Stand::More(Start::beginning()),
        Some(followed) => stand(&reader, followed)?,
    };
    let (start, mut delta) = match stand {
        Stand::Same => {
            let _ = give(Piece::Done { events: 0 });
            return Ok(());
        }
        Stand::More(start) => {
            let overview = work.followed.as_ref().map(|followed| followed.overview.clone());
            (start, Delta::new(&work.name, overview.unwrap_or_default()))
        }
        Stand::Other => (Start::beginning(), Delta::restart(&work.name)),
    };
    let mut events = 0;
    let mut place = None;
    let mut rewound = Ok(());
    let mark = reader.mark()?;
    reader.journal().walk(start, mark, &mut |found| {
        let Found::Event { line, segment, end, .. } = found else {
            return ControlFlow::Continue(());
        };
        let (Some(event), _) = reader.event(&line) else {
            return ControlFlow::Continue(());
        };
        events += 1;
        if delta.take_in(&event) == Applied::Rewound {
            match Overview::of(|| reader.events(EventRange { last: event.seq, ..EventRange::ALL }))
            {
                Ok(overview) => delta.set_overview(overview),
                Err(error) => {
                    rewound = Err(error);
                    return ControlFlow::Break(());
                }
            }
        }
        let here = place_of(segment, end, line.sum);
        if delta.bytes() >= PIECE_BYTES {
            let piece = Piece::Delta(Box::new(delta.split()), here);
            place = None;
            return give(piece);
        }
        place = Some(here);
        ControlFlow::Continue(())
    })?;
    rewound?;
    if let Some(place) = place {
        let _ = give(Piece::Delta(Box::new(delta), place));
    } else if stand == Stand::Other && events == 0 {
        let _ = give(Piece::Gone(work.name.clone()));
    }
    let _ = give(Piece::Done { events });
    Ok(())
}

fn place_of(segment: u64, offset: u64, sum: Sum) -> String {
    let sum = String::from_utf8_lossy(sum.as_ascii()).into_owned();
    serde_json::to_string(&Place { segment, offset, sum }).unwrap_or_default()
}

/// Compares the journal with what the index has, without reading more than the end of it.
fn stand(reader: &LocalReader, followed: &Followed) -> Result<Stand, JournalError> {
    let Ok(place) = serde_json::from_str::<Place>(&followed.place) else {
        return Ok(Stand::Other);
    };
    let Some(sum) = Sum::from_ascii(place.sum.as_bytes()) else { return Ok(Stand::Other) };
    let name = |number| SegmentName { number, form: SegmentForm::Plain };
    let journal = reader.journal();
    let missing = |error: JournalError| match error {
        JournalError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Ok(()),
        error => Err(error),
    };
    let segment = match journal.open_segment(name(place.segment)) {
        Ok(segment) => segment,
        Err(error) => return missing(error).map(|()| Stand::Other),
    };
    // The line that was read last ends with its sum, and must still do so.
    let mut end = [0; Sum::WIDTH + 3];
    let from = place.offset.saturating_sub(end.len() as u64);
    let read = segment.read_at(&mut end, from)?;
    let same = read == end.len() && end.get(..Sum::WIDTH) == Some(sum.as_ascii().as_slice());
    if !same {
        return Ok(Stand::Other);
    }
    let start = Start {
        segment: place.segment,
        offset: place.offset,
        expected: Some(followed.overview.seq.next()),
        sum: Some(sum),
    };
    if segment.len()? > place.offset {
        return Ok(Stand::More(start));
    }
    match journal.open_segment(name(place.segment + 1)) {
        Ok(_) => Ok(Stand::More(start)),
        Err(error) => missing(error).map(|()| Stand::Same),
    }
}
