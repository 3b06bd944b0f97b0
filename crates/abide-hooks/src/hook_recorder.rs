//! Records what hooks told: drains the inbox of a session into the session.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide::backend::HeldSessionAccess;
use abide::checkpoint::{AutomaticCheckpointLimits, CapturedCheckpoint};
use abide::history::HistoryEntry;
use abide::{
    HistoryQuery, NewSession, Session, SessionFields, SessionId, SessionRef, Store, StoreError,
};
use abide_agents::AgentKind;
use abide_import::SourceFinder;

use crate::HooksError;
use crate::asking_process::AskingProcess;
use crate::hook_inbox::{HookInbox, SessionInbox, read_report};
use crate::hook_trace::HookTrace;
use crate::live_state::LiveState;
use crate::step_recording::StepRecording;

/// How long a session is waited for that another process holds.
const HELD_WAIT: Duration = Duration::from_millis(300);
/// A session of which nothing was heard for so long is forgotten, in milliseconds.
const QUIET: i64 = 24 * 3600 * 1000;

/// Records what hooks told in a store.
#[derive(Clone, Copy)]
pub struct HookRecorder<'a> {
    /// The store, of local files.
    pub store: &'a Store,
    /// The id of a directory's project.
    pub project: &'a dyn Fn(&Path) -> Option<String>,
    /// Finds what the agents keep in files of their own.
    pub finder: &'a SourceFinder,
    /// Where it is told what was recorded.
    pub trace: &'a HookTrace,
}

/// The report of a hook whose process records it, with the files as they were then.
#[derive(Debug)]
pub struct OwnReport {
    /// The name of its file. The process holds the file's lock.
    pub name: String,
    /// The files, if they were captured.
    pub captured: Option<CapturedCheckpoint>,
    /// Why they were not, if they were to be.
    pub without_files: Option<String>,
    /// Its file, locked by this process.
    pub file: File,
}

/// How a drain ended.
enum DrainEnd {
    /// Nothing is left that had landed.
    Empty,
    /// This report is another process's, who captures files for it.
    Behind(File),
    /// Another process holds the session. Whoever comes next drains.
    Held,
}

impl HookRecorder<'_> {
    /// Records the reports of a session in their order. Without a report of one's own it does nothing if
    /// another process is at it.
    pub fn drain(&self, inbox: &SessionInbox, own: Option<OwnReport>) -> Result<(), HooksError> {
        let mut own = own;
        loop {
            let Some(lock) = inbox.lock(own.is_some())? else { return Ok(()) };
            let end = self.drain_locked(inbox, &mut own)?;
            drop(lock);
            match end {
                DrainEnd::Held => return Ok(()),
                // Its process drains what comes after it.
                DrainEnd::Behind(_) if own.is_none() => return Ok(()),
                DrainEnd::Behind(other) => other.lock().map_err(HooksError::inbox(&inbox.dir))?,
                // What landed while the lock was held was left to this process.
                DrainEnd::Empty if inbox.is_empty() => return Ok(()),
                DrainEnd::Empty => {}
            }
        }
    }

    /// Drains every inbox, imports what agents wrote since, and ends the turns of agents that are gone.
    /// What cannot be done now is left to the next sweep.
    pub fn sweep(&self, inboxes: &HookInbox) {
        if inboxes.is_paused() {
            return;
        }
        for inbox in inboxes.sessions() {
            if let Err(error) = self.drain(&inbox, None).and_then(|()| self.catch_up(&inbox)) {
                self.trace.tell(format_args!("{}: {error}", inbox.dir.display()));
            }
        }
    }

    /// Once a day drops old checkpoints that hooks made, by these limits.
    pub fn drop_old_checkpoints(
        &self,
        inboxes: &HookInbox,
        limits: AutomaticCheckpointLimits,
    ) -> Result<(), HooksError> {
        if !inboxes.claims_upkeep() {
            return Ok(());
        }
        let found = self.store.history(&HistoryQuery::default())?;
        let is_live = |entry: &HistoryEntry| {
            let key = entry.overview.fields.key.as_ref();
            let agent = key.and_then(|key| key.split_once('/')?.0.parse::<AgentKind>().ok());
            agent.is_some_and(|agent| agent.hooks().is_some())
        };
        let sessions: Vec<SessionId> =
            found.entries.into_iter().filter(is_live).map(|entry| entry.id).collect();
        let dropped = self.store.drop_automatic_checkpoints(&sessions, limits)?;
        self.trace.tell(format_args!(
            "dropped {} old checkpoints, {} bytes",
            dropped.checkpoints, dropped.freed
        ));
        Ok(())
    }

    fn drain_locked(
        &self,
        inbox: &SessionInbox,
        own: &mut Option<OwnReport>,
    ) -> Result<DrainEnd, HooksError> {
        let names = inbox.report_names().map_err(HooksError::inbox(&inbox.dir))?;
        if names.is_empty() {
            return Ok(DrainEnd::Empty);
        }
        let mut state = inbox.state();
        let mut session = None;
        let mut end = DrainEnd::Empty;
        for name in names {
            let Some(mut file) = inbox.open_report(&name)? else { continue };
            let is_own = own.as_ref().is_some_and(|own| own.name == name);
            if !is_own {
                match file.try_lock() {
                    Ok(()) => {}
                    Err(TryLockError::WouldBlock) => {
                        end = DrainEnd::Behind(file);
                        break;
                    }
                    Err(TryLockError::Error(error)) => {
                        return Err(HooksError::inbox(&inbox.dir)(error));
                    }
                }
            }
            let read = read_report(&mut file).map_err(HooksError::inbox(&inbox.dir))?;
            let hooks = inbox.agent.hooks();
            let report = read.and_then(|(head, payload)| {
                let report = hooks.and_then(|hooks| (hooks.reader)(&payload))?;
                Some((head, report))
            });
            let Some((head, report)) = report else {
                self.trace.tell(format_args!("{name}: it is no report"));
                inbox.remove_report(&name)?;
                continue;
            };
            state.see(&head, &report);
            if session.is_none() {
                session = match self.open(inbox, &mut state, report.model.clone(), HELD_WAIT)? {
                    OpenedSession::Open(session) => Some(*session),
                    OpenedSession::Held => None,
                    OpenedSession::Removed => {
                        self.trace.tell(format_args!("{name}: the session was removed here"));
                        inbox.remove_report(&name)?;
                        continue;
                    }
                };
            }
            let Some(session) = &session else {
                end = DrainEnd::Held;
                break;
            };
            let files = if is_own { own.take() } else { None };
            let lock = files.as_ref().map(|own| own.file.try_clone());
            let mut recording = StepRecording { recorder: self, inbox, session, state: &mut state };
            recording.report(&head, report, files)?;
            inbox.remove_report(&name)?;
            // Whoever waits for it goes on.
            if let Some(Ok(file)) = lock {
                let _ = file.unlock();
            }
        }
        if let Some(session) = session {
            // What is noted is on stable storage.
            session.close()?;
            inbox.write_state(&state)?;
            if state.ended {
                inbox.forget();
            }
        }
        Ok(end)
    }

    /// Imports what the agent wrote since, and ends its open turn if it is gone.
    fn catch_up(&self, inbox: &SessionInbox) -> Result<(), HooksError> {
        let Some(_lock) = inbox.lock(false)? else { return Ok(()) };
        // What waits comes first, and its process is at it.
        if !inbox.is_empty() {
            return Ok(());
        }
        let mut state = inbox.state();
        let quiet = self.store.now().as_millis() - state.heard > QUIET;
        let is_gone = state.asking.and_then(AskingProcess::is_gone).unwrap_or(quiet);
        let is_left = is_gone && state.turn.is_some();
        if state.session.is_empty() || !(is_left || self.has_news(inbox, &state)) {
            if quiet && state.turn.is_none() {
                inbox.forget();
            }
            return Ok(());
        }
        let opened = self.open(inbox, &mut state, None, Duration::ZERO)?;
        let OpenedSession::Open(session) = opened else { return Ok(()) };
        let mut recording =
            StepRecording { recorder: self, inbox, session: &session, state: &mut state };
        recording.import()?;
        if is_gone {
            recording.end_open_turn("interrupted")?;
        }
        session.close()?;
        inbox.write_state(&state)
    }

    /// Has the agent written to its file since? A database is looked at by its own reports.
    fn has_news(&self, inbox: &SessionInbox, state: &LiveState) -> bool {
        if self.finder.database_stamp(inbox.agent).is_some() {
            return false;
        }
        state.find(inbox.agent, self.finder).is_some_and(|found| {
            state.position.as_ref().is_none_or(|position| position.is_behind(&found))
        })
    }

    /// Opens the session; makes it where nothing was heard of it before.
    fn open(
        &self,
        inbox: &SessionInbox,
        state: &mut LiveState,
        model: Option<String>,
        wait: Duration,
    ) -> Result<OpenedSession, HooksError> {
        let agent = inbox.agent.as_str();
        let id = match state.held_in {
            Some(id) => id,
            None => {
                let workspace = state.workspace.as_ref();
                let fields = SessionFields {
                    workspace: workspace.map(|dir| dir.to_string_lossy().into_owned()),
                    project_id: workspace.and_then(|dir| (self.project)(dir)),
                    agent: Some(agent.to_owned()),
                    model,
                    ..SessionFields::default()
                };
                let new = NewSession::from(fields).with_key(format!("{agent}/{}", state.session));
                self.store.make_new(new)?.id
            }
        };
        let store = self.store.clone().waiting(wait);
        let store = store.with_held_sessions(HeldSessionAccess::Wait);
        let session = match store.open_session(&SessionRef::Id(id)) {
            Ok(session) => session,
            Err(abide::Error::Store(StoreError::Held { holder, .. })) => {
                self.trace.tell(format_args!("{agent}/{}: held by {holder}", state.session));
                return Ok(OpenedSession::Held);
            }
            // Nobody wants it back.
            Err(abide::Error::Store(StoreError::NoSession { .. })) => {
                return Ok(OpenedSession::Removed);
            }
            Err(error) => return Err(error.into()),
        };
        // An import, or an earlier drain, may know another directory.
        let known = session.core()?.fields.workspace.map(PathBuf::from);
        state.workspace = known.or(state.workspace.take());
        state.held_in = Some(id);
        Ok(OpenedSession::Open(Box::new(session)))
    }
}

/// What became of the wish to open a session.
enum OpenedSession {
    Open(Box<Session>),
    /// Another process holds it.
    Held,
    /// It was removed from the store.
    Removed,
}
