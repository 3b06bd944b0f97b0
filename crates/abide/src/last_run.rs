//! The last run of a session: how it was begun, and whether by this machine.

use abide_model::{
    Event, EventRange, Fact, Kind, Parent, ParentReason, RunStart, Seq, SessionId, SessionRef,
    Timestamp,
};
use pollster::block_on;

use crate::{Error, SessionView, Store};

/// So far a chain of forks is followed.
const FORKS: usize = 64;

/// The last run of a session.
#[derive(Debug, Clone)]
pub struct LastRun {
    /// Where it stands in the journal.
    pub seq: Seq,
    /// When it was begun.
    pub at: Timestamp,
    /// Its command, directory and options.
    pub start: RunStart,
    /// Who wrote the journal then, by its own words: program, process and machine.
    pub by: Option<String>,
    /// This machine and user began it, just so, in this store: there is a note of it.
    pub own: bool,
}

impl Store {
    /// The last run of a session, up to event `at` where it is given. A fork shares the runs before
    /// its beginning with its parent: who began them is looked up there.
    pub fn last_run(&self, view: &SessionView, at: Option<Seq>) -> Result<Option<LastRun>, Error> {
        let (core, _) = block_on(view.reader().lane(None, at))?;
        let Some(run) = core.run else { return Ok(None) };
        let Some(event) = event_at(view, run.started)? else { return Ok(None) };
        let Ok(Fact::RunStarted(start)) = event.fact() else { return Ok(None) };
        let own = self.began(view, event.seq, &start)?;
        let by = writer_at(view, event.seq)?;
        Ok(Some(LastRun { seq: event.seq, at: event.at, start, by, own }))
    }

    /// Was a run at this event begun here, in the session or in one that it shares its past with?
    fn began(&self, view: &SessionView, seq: Seq, start: &RunStart) -> Result<bool, Error> {
        let mut next = Some(view.clone());
        for _ in 0..FORKS {
            let Some(view) = next else { break };
            if self.began_run(view.id(), start)? {
                return Ok(true);
            }
            let shares = |parent: &Parent| parent.reason == ParentReason::Fork && seq <= parent.seq;
            let parent = view.state()?.core.fields.parent.filter(shares);
            next = parent.map(|parent| self.parent_view(parent.session)).transpose()?.flatten();
        }
        Ok(false)
    }

    /// A parent that is gone says nothing.
    fn parent_view(&self, session: SessionId) -> Result<Option<SessionView>, Error> {
        match self.view(&SessionRef::Id(session)) {
            Err(Error::Store(abide_model::StoreError::NoSession { .. })) => Ok(None),
            found => found.map(Some),
        }
    }
}

fn event_at(view: &SessionView, seq: Seq) -> Result<Option<Event>, Error> {
    let range = EventRange { first: seq, last: seq, ..EventRange::ALL };
    Ok(view.page(range)?.events.pop())
}

/// Who had opened the journal for writing at an event.
fn writer_at(view: &SessionView, seq: Seq) -> Result<Option<String>, Error> {
    let range = EventRange { last: seq, ..EventRange::ALL }.backward();
    let events = view.page(range)?.events;
    let opened = events.iter().find(|event| event.kind == Kind::WRITER_OPENED);
    Ok(opened.and_then(|event| match event.fact() {
        Ok(Fact::WriterOpened(opened)) => Some(opened.by),
        _ => None,
    }))
}
