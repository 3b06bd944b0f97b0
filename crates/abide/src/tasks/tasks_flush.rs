//! Records pending task changes.
//!
//! Others, the holder's children, may write to the session at the same time. A change that
//! conflicts with theirs is never recorded as if it had worked. It is redone on top of theirs, or
//! refused.

use abide_model::{
    AcknowledgedEvent, AnomalyPolicy, AppendError, Durability, NewEvent, TaskTree, is_check,
};

use super::{SessionTasks, TaskIntent};
use crate::Error;

/// Maximum number of events in one write. Less than the number of keys that a session remembers, so
/// that the result of a failed write is recognised.
const MOST: usize = 8192;
/// Maximum payload bytes in one write, unless a single event is larger. A child's write is a line
/// over a socket, which has a limit.
const MOST_BYTES: usize = 16 << 20;
/// How often to retry a write that conflicts with others.
const TRIES: usize = 16;

/// The result of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct FlushReport {
    /// Number of events written.
    pub items: u64,
    /// Number of writes saved, compared with one per event.
    pub writes_saved: u64,
}

impl SessionTasks {
    /// Records all pending changes in one durable write. If that fails, everything not known to be
    /// durable is kept and the next flush tries again; if the session's writer has stopped, the
    /// session must be opened again first, see [`SessionTasks::into_pending`]. Only what can never be
    /// recorded is dropped, and the error says why: an event that no session accepts, or a change
    /// that somebody else has made illegal meanwhile.
    pub fn flush(&mut self) -> Result<FlushReport, Error> {
        self.flush_and(|_| ())
    }

    /// Like [`SessionTasks::flush`], and calls `told` with each event as it was recorded.
    pub fn flush_and(&mut self, mut told: impl FnMut(&NewEvent)) -> Result<FlushReport, Error> {
        let mut flushed = FlushReport::default();
        let mut next = NextWrite::Batch;
        let mut tries = 0;
        while !self.pending.is_empty() {
            let (count, odd) = match next {
                NextWrite::Batch => (self.flush_size(MOST), AnomalyPolicy::Refuse),
                NextWrite::Before(index) => (self.flush_size(index), AnomalyPolicy::Refuse),
                NextWrite::Odd => (1, AnomalyPolicy::Keep),
            };
            let events = self.pending.iter().take(count).map(|waiting| waiting.event.clone());
            let written = self
                .session
                .append_with(events.collect(), Durability::Synced, odd)
                .and_then(|ticket| Ok(ticket.wait()?));
            let written = match written {
                Ok(written) => written,
                Err(Error::Append(AppendError::Odd { index, .. })) if self.is_other(index) => {
                    // An event that is not a checked change is recorded by itself, even if it is
                    // anomalous.
                    next = if index == 0 { NextWrite::Odd } else { NextWrite::Before(index) };
                    continue;
                }
                Err(error @ Error::Append(AppendError::Odd { .. })) => {
                    tries += 1;
                    if tries >= TRIES {
                        return Err(error);
                    }
                    self.redo_unflushed()?;
                    next = NextWrite::Batch;
                    continue;
                }
                Err(error) => {
                    self.drop_refused(&error);
                    return Err(error);
                }
            };
            (next, tries) = (NextWrite::Batch, 0);
            for (waiting, done) in self.pending.drain(..count).zip(written) {
                place_flushed_task(&mut self.tree, &waiting.wish, done);
                told(&waiting.event);
            }
            flushed.items += count as u64;
            flushed.writes_saved += count as u64 - 1;
        }
        if std::mem::take(&mut self.stale) {
            self.refresh()?;
        }
        Ok(flushed)
    }

    /// How many of the next events fit into one write; at least one.
    fn flush_size(&self, most: usize) -> usize {
        let mut bytes = 0;
        let fits = self.pending.iter().take(most.clamp(1, MOST)).take_while(|waiting| {
            let before = bytes;
            bytes += waiting.event.data.as_str().len();
            before == 0 || bytes <= MOST_BYTES
        });
        fits.count()
    }

    fn is_other(&self, index: usize) -> bool {
        self.pending.get(index).is_some_and(|waiting| matches!(waiting.wish, TaskIntent::Other))
    }

    /// Reapplies the pending changes on top of what others wrote. Changes that are no longer legal
    /// are dropped, with an error.
    fn redo_unflushed(&mut self) -> Result<(), Error> {
        // The conflicting event may be accepted but not readable yet.
        self.session
            .append_with(Vec::new(), Durability::Synced, AnomalyPolicy::Keep)
            .and_then(|ticket| Ok(ticket.wait()?))?;
        match self.refresh()?.into_iter().next() {
            Some(refused) => Err(refused.into()),
            None => Ok(()),
        }
    }

    /// An event that no session accepts would block all others.
    fn drop_refused(&mut self, error: &Error) {
        if let Error::Append(AppendError::Input { index, .. }) = error
            && *index < self.pending.len()
        {
            self.pending.remove(*index);
        }
    }
}

/// What to write next.
#[derive(Debug, Clone, Copy)]
enum NextWrite {
    Batch,
    /// Only the events before this one.
    Before(usize),
    /// One anomalous event.
    Odd,
}

/// Records in the tree where an event was stored. A task that is gone needs no such note.
fn place_flushed_task(tree: &mut TaskTree, wish: &TaskIntent, done: AcknowledgedEvent) {
    let seq = done.seq;
    let _ = match wish {
        TaskIntent::Create(created) | TaskIntent::CreateNext(created, _) => {
            let id = created.task.as_str();
            tree.set_created(id, seq).and_then(|()| {
                if created.details.is_some() {
                    tree.set_details(id, seq)?;
                }
                if !created.documents.is_empty() {
                    tree.set_documents(id, Some(seq))?;
                }
                if created.check.as_deref().is_some_and(is_check) {
                    tree.set_check(id, Some(seq))?;
                }
                Ok(())
            })
        }
        TaskIntent::Change(change) => {
            let id = change.task.as_str();
            let details = if change.details.is_some() { tree.set_details(id, seq) } else { Ok(()) };
            let documents = details.and_then(|()| match &change.documents {
                Some(documents) => tree.set_documents(id, (!documents.is_empty()).then_some(seq)),
                None => Ok(()),
            });
            documents.and_then(|()| match &change.check {
                Some(check) => tree.set_check(id, is_check(check).then_some(seq)),
                None => Ok(()),
            })
        }
        TaskIntent::Set(change) if change.result.is_some() => {
            tree.set_result(change.task.as_str(), seq)
        }
        TaskIntent::Set(_) | TaskIntent::Follow | TaskIntent::Other => Ok(()),
    };
}
