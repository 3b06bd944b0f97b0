//! Lists, closes, deletes and forks sessions.

use std::path::Path;
use std::sync::Arc;

use abide::Session;
use serde_json::value::RawValue;

use super::load::{load_refusal, with_inner_session};
use super::{Switch, directory_in_params};
use crate::acp_recorder::AcpRecorder;
use crate::catalog::CatalogError;
use crate::live_session::{LiveSession, PrimeScope, UpdateHandling};
use crate::member_splice::{member_text, session_member, spliced_with_member};
use crate::pending_request::Purpose;
use crate::record::Translator;
use crate::rpc_message::{self, RpcError};

/// How an open session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LiveEnd {
    /// The client closed it.
    Completed,
    /// It is no longer open, for another reason.
    Left,
}

impl Switch {
    /// The translator for a session.
    pub(super) fn session_translator(&self, session: &Session, directory: &Path) -> Translator {
        let translator = Translator::new(&self.abilities().name)
            .in_directory(directory)
            .redacted_by(session.redactor().cloned());
        match session.state() {
            Ok(state) => translator.resuming(&state),
            Err(_) => translator,
        }
    }

    /// Answers `session/list` from the store.
    pub(super) fn list_sessions(&self, id: &str, params: &str) {
        let directory = directory_in_params(params);
        let cursor = member_text(params, &["cursor"]);
        match self.catalog.list(directory.as_deref(), cursor.as_deref()) {
            Ok(page) => {
                let result = serde_json::to_string(&page).unwrap_or_else(|_| "{}".into());
                self.client.send(&rpc_message::result_message(id, &result));
            }
            Err(error) => self.refuse(id, &load_refusal(error)),
        }
    }

    /// Handles a `session/close`.
    pub(super) fn close_session(
        self: &Arc<Self>,
        line: &str,
        id: &str,
        params: Option<&RawValue>,
        able: bool,
    ) {
        let Some((name, _)) = params.and_then(session_member) else {
            return self.forward(line, id, "session/close", Purpose::Other);
        };
        let live = self.table().sessions.get(&*name).cloned();
        let inner = live.as_ref().and_then(|live| live.inner().id.clone());
        let there = live.is_none() || inner.is_some();
        if able && there {
            let renamed = inner.and_then(|inner| with_inner_session(line, &inner));
            let line = renamed.as_deref().unwrap_or(line);
            self.forward(line, id, "session/close", Purpose::Close(name.into_owned()));
            return;
        }
        match live {
            Some(live) => {
                self.stop_session(&live);
                self.complete_live(&name);
                self.client.send(&rpc_message::result_message(id, "{}"));
            }
            None => self.refuse(id, &RpcError::missing(format!("session {name:?} is not open"))),
        }
    }

    /// Asks the agent to stop its work in a session.
    fn stop_session(&self, live: &LiveSession) {
        let inner = live.inner().id.clone();
        if !live.prompts().is_empty()
            && let Some(inner) = inner
        {
            let id = serde_json::Value::from(inner);
            self.agent.send(&rpc_message::notification_message(
                "session/cancel",
                &format!(r#"{{"sessionId":{id}}}"#),
            ));
        }
    }

    /// Closes an open session that the client is done with.
    pub(super) fn complete_live(&self, name: &str) {
        self.end_live(name, LiveEnd::Completed);
    }

    /// Closes an open session.
    pub(super) fn close_live_session(&self, name: &str) {
        self.end_live(name, LiveEnd::Left);
    }

    fn end_live(&self, name: &str, end: LiveEnd) {
        let mut table = self.table();
        let Some(live) = table.sessions.remove(name) else { return };
        let inner = live.inner().id.take();
        if let Some(inner) = inner {
            table.inner.remove(&inner);
        }
        table.children.retain(|_, parent| !Arc::ptr_eq(parent, &live));
        drop(table);
        let mut book = live.book();
        let recorded = book.translator.interrupted("cancelled");
        let _ = book.write(recorded);
        live.compactor().take();
        if end == LiveEnd::Completed {
            book.complete();
        }
        book.close();
    }

    /// Handles a `session/delete`.
    pub(super) fn delete_session(
        self: &Arc<Self>,
        line: &str,
        id: &str,
        params: Option<&RawValue>,
        able: bool,
    ) {
        let Some((name, _)) = params.and_then(session_member) else {
            return self.forward(line, id, "session/delete", Purpose::Other);
        };
        if able {
            let live = self.table().sessions.get(&*name).cloned();
            let inner = match live {
                Some(live) => live.inner().id.clone().or_else(|| {
                    let own = session_recorded_as(&live)?;
                    self.inner_of_closed_session(&own)
                }),
                None => {
                    // The agent must not delete a session that may be another one's.
                    let found = self.catalog.find(None, &name);
                    if let Err(error @ CatalogError::Ambiguous { .. }) = found {
                        return self.refuse(id, &load_refusal(error));
                    }
                    self.inner_of_closed_session(&name)
                }
            };
            let renamed = inner.and_then(|inner| with_inner_session(line, &inner));
            let line = renamed.as_deref().unwrap_or(line);
            self.forward(line, id, "session/delete", Purpose::Delete(name.into_owned()));
            return;
        }
        match self.erase_session(&name) {
            Ok(()) => self.client.send(&rpc_message::result_message(id, "{}")),
            Err(failure) => self.refuse(id, &failure),
        }
    }

    /// The agent's id of a session that is not open.
    fn inner_of_closed_session(&self, name: &str) -> Option<String> {
        let session = self.catalog.open(None, name).ok()?;
        AcpRecorder::new(Arc::new(session), Translator::new("")).inner().map(|known| known.id)
    }

    /// Removes a session from the store. A session that does not exist counts as removed.
    pub(super) fn erase_session(&self, name: &str) -> Result<(), RpcError> {
        let live = self.table().sessions.get(name).cloned();
        let own = live.as_deref().and_then(session_recorded_as);
        // It was never recorded. A session of another project with that id is kept.
        let unrecorded = live.is_some() && own.is_none() && !self.catalog.knows(name);
        if let Some(live) = live {
            self.stop_session(&live);
        }
        self.close_live_session(name);
        if unrecorded {
            return Ok(());
        }
        match self.catalog.delete(None, own.as_deref().unwrap_or(name)) {
            Ok(()) | Err(CatalogError::NoSession { .. }) => Ok(()),
            Err(error) => Err(load_refusal(error)),
        }
    }

    /// Handles a `session/fork`.
    pub(super) fn fork_session(self: &Arc<Self>, line: &str, id: &str, params: &str, able: bool) {
        let Ok(raw) = serde_json::from_str::<&RawValue>(params) else { return };
        let (Some((name, _)), Some(directory)) = (session_member(raw), directory_in_params(params))
        else {
            let failure = RpcError::params("`sessionId` and `cwd` are required");
            return self.refuse(id, &failure);
        };
        let setup =
            crate::member_splice::spliced_without_member(params, "sessionId").unwrap_or_default();
        if able {
            let live = self.table().sessions.get(&*name).cloned();
            let inner = live.and_then(|live| live.inner().id.clone());
            let line = inner.and_then(|inner| with_inner_session(line, &inner));
            let line = line.as_deref();
            if let Some(line) = line {
                let purpose = Purpose::Fork(name.into_owned(), setup);
                return self.forward(line, id, "session/fork", purpose);
            }
        }
        match self.fork_session_anew(&name, &directory, setup) {
            Ok(result) => self.client.send(&rpc_message::result_message(id, &result)),
            Err(failure) => self.refuse(id, &failure),
        }
    }

    /// Forks for an agent that cannot: opens a new session of its own, primed with the past.
    fn fork_session_anew(
        self: &Arc<Self>,
        of: &str,
        directory: &Path,
        setup: String,
    ) -> Result<String, RpcError> {
        self.catalog.find_parent(directory, &self.recorded_session_id(of)).map_err(load_refusal)?;
        let result = self.ask("session/new", &setup)?;
        let inner = member_text(&result, &["sessionId"])
            .ok_or_else(|| RpcError::internal("the agent returned no id for a new session"))?
            .into_owned();
        let live = self.record_forked_session(of, directory, setup, &inner, true)?;
        let id = serde_json::Value::from(&*live.id).to_string();
        Ok(spliced_with_member(&result, "sessionId", &id).unwrap_or(result))
    }

    /// The id for the store: of an open session its own id, whichever session has the client's id
    /// elsewhere.
    fn recorded_session_id(&self, name: &str) -> String {
        let live = self.table().sessions.get(name).cloned();
        live.as_deref().and_then(session_recorded_as).unwrap_or_else(|| name.to_owned())
    }

    /// Records a fork that the agent knows as `inner`.
    pub(super) fn record_forked_session(
        self: &Arc<Self>,
        of: &str,
        directory: &Path,
        setup: String,
        inner: &str,
        primed: bool,
    ) -> Result<Arc<LiveSession>, RpcError> {
        let (name, session) = self
            .catalog
            .fork(directory, &self.recorded_session_id(of), inner)
            .map_err(load_refusal)?;
        let session = Arc::new(session);
        let translator = self.session_translator(&session, directory);
        let book = AcpRecorder::new(session, translator);
        let live = self.keep(LiveSession::new(name, directory.to_owned(), setup, book));
        self.attach_inner(&live, inner, UpdateHandling::News);
        if primed {
            let mut known = live.inner();
            known.prime = PrimeScope::All;
            known.observed = false;
        } else {
            self.observe_inner(&live, inner, false);
        }
        Ok(live)
    }
}

/// The own id of the recorded session.
fn session_recorded_as(live: &LiveSession) -> Option<String> {
    live.book().session().map(|session| session.id().to_string())
}
