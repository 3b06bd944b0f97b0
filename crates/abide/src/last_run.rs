//! The last run of a session: how it was started, and whether by this machine.

use abide_model::{
    Event, EventRange, Fact, Kind, ParentReason, RunStart, Seq, SessionId, SessionParent,
    SessionRef, Timestamp,
};

use crate::{Error, SessionView, Store};

/// Maximum number of forks to follow.
const FORKS: usize = 64;

/// The last run of a session.
#[derive(Debug, Clone)]
pub struct LastRun {
    /// Its event.
    pub seq: Seq,
    /// When it started.
    pub at: Timestamp,
    /// Its command, directory and options.
    pub start: RunStart,
    /// Who was writing the journal, as recorded there: program, process and machine.
    pub by: Option<String>,
    /// True if this user started exactly this run on this machine, in this store: there is a note
    /// of it.
    pub own: bool,
}

impl Store {
    /// The last run of a session, up to event `at` if given. A fork shares the runs before its
    /// start with its parent, so their notes are looked up there.
    pub fn last_run(&self, view: &SessionView, at: Option<Seq>) -> Result<Option<LastRun>, Error> {
        let (core, _) = view.reader().lane(None, at)?;
        let Some(run) = core.run else { return Ok(None) };
        let Some(event) = event_of_last_run(view, run.started)? else { return Ok(None) };
        let Ok(Fact::RunStarted(start)) = event.fact() else { return Ok(None) };
        let own = self.began_last_run(view, event.seq, &start)?;
        let by = writer_of_last_run(view, event.seq)?;
        Ok(Some(LastRun { seq: event.seq, at: event.at, start, by, own }))
    }

    /// Returns true if the run at this event was started here, in this session or in one it shares
    /// its history with.
    fn began_last_run(
        &self,
        view: &SessionView,
        seq: Seq,
        start: &RunStart,
    ) -> Result<bool, Error> {
        let mut next = Some(view.clone());
        for _ in 0..FORKS {
            let Some(view) = next else { break };
            if self.has_consent_to_run(view.id(), start)? {
                return Ok(true);
            }
            let shares =
                |parent: &SessionParent| parent.reason == ParentReason::Fork && seq <= parent.seq;
            let parent = view.state()?.core.fields.parent.filter(shares);
            next = parent.map(|parent| self.parent_view(parent.session)).transpose()?.flatten();
        }
        Ok(false)
    }

    /// `None` if the parent is gone.
    fn parent_view(&self, session: SessionId) -> Result<Option<SessionView>, Error> {
        match self.view(&SessionRef::Id(session)) {
            Err(Error::Store(abide_model::StoreError::NoSession { .. })) => Ok(None),
            found => found.map(Some),
        }
    }
}

fn event_of_last_run(view: &SessionView, seq: Seq) -> Result<Option<Event>, Error> {
    let range = EventRange { first: seq, last: seq, ..EventRange::ALL };
    Ok(view.page(range)?.events.pop())
}

/// Who had the journal open for writing at an event.
fn writer_of_last_run(view: &SessionView, seq: Seq) -> Result<Option<String>, Error> {
    let range = EventRange { last: seq, ..EventRange::ALL }.backward();
    let events = view.page(range)?.events;
    let opened = events.iter().find(|event| event.kind == Kind::WRITER_OPENED);
    Ok(opened.and_then(|event| match event.fact() {
        Ok(Fact::WriterOpened(opened)) => Some(opened.by),
        _ => None,
    }))
}
