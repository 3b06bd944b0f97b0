//! Sessions from before: loaded with their conversation, or resumed without it.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::inner::OpenedAgentSession;
use super::{Switch, directory_in_params};
use crate::acp_recorder::AcpRecorder;
use crate::catalog::{CatalogError, clean_up_catalog_store};
use crate::live_session::{LiveSession, UpdateHandling};
use crate::member_splice::{session_member, spliced_line, spliced_without_member};
use crate::pending_request::Purpose;
use crate::record::Translator;
use crate::replay::{ReplayCheck, Replayer};
use crate::rpc_message::{self, RpcError, RpcMessage};

impl Switch {
    /// Handles a `session/load`.
    pub(super) fn load(self: &Arc<Self>, line: &str, id: &str, params: &str) {
        self.load_or_resume(line, id, params, true);
    }

    /// Handles a `session/resume`.
    pub(super) fn resume(self: &Arc<Self>, line: &str, id: &str, params: &str) {
        self.load_or_resume(line, id, params, false);
    }

    fn load_or_resume(self: &Arc<Self>, line: &str, id: &str, params: &str, shown: bool) {
        let can = self.abilities();
        let method = if shown { "session/load" } else { "session/resume" };
        let able = if shown { can.load } else { can.resume };
        let live = match self.open_for_load(params) {
            Ok(live) => live,
            // Only the agent knows it; it is recorded from here on.
            Err(failure) if failure.code == MISSING && able => {
                return self.adopt_on_load(line, id, method, params);
            }
            Err(failure) => return self.refuse(id, &failure),
        };
        let known = live.book().inner();
        // A primed session would replay the primer instead of the conversation.
        let whole = known.filter(|known| able && (!known.primed || !shown));
        match whole.map(|known| known.id) {
            Some(inner) => {
                let updates = if shown {
                    UpdateHandling::Shown(live.replay_check())
                } else {
                    UpdateHandling::News
                };
                self.attach_inner(&live, &inner, updates);
                let purpose =
                    if shown { Purpose::Load(Arc::clone(&live)) } else { Purpose::Resume(live) };
                match with_inner_session(line, &inner) {
                    Some(line) => self.forward(&line, id, method, purpose),
                    None => self
                        .refuse(id, &RpcError::params("cannot replace `sessionId` in the message")),
                }
            }
            None => self.load_for(&live, id, shown),
        }
    }

    /// Answers for an agent that cannot load, or failed to.
    pub(super) fn load_for(self: &Arc<Self>, live: &Arc<LiveSession>, id: &str, shown: bool) {
        let heard = live.inner().heard.is_some();
        let part = self.settle_inner(live).filter(|_| heard);
        let able = self.abilities().load && live.book().inner().is_some_and(|known| known.primed);
        self.detach_inner(live);
        let loaded = match (shown, part) {
            // It failed in the middle of its replay: show the rest for it.
            (true, Some(mut check)) => {
                self.show_rest_of_load(live, &mut check).and_then(|()| self.open_inner(live))
            }
            (true, None) if able => {
                self.show_loaded_session(live).and_then(|_| self.open_inner(live))
            }
            // The agent opens a session while the client is shown the conversation.
            (true, None) => {
                self.asking("session/new", &live.setup().clone(), Some(live)).and_then(|question| {
                    let before = self.show_loaded_session(live)?;
                    self.renew_inner(live, question, &before)
                })
            }
            (false, _) => self.open_inner(live),
        };
        match loaded {
            Ok(OpenedAgentSession { result, news, .. }) => {
                let result =
                    spliced_without_member(&result, "sessionId").unwrap_or_else(|| "{}".into());
                self.client.send(&rpc_message::result_message(id, &result));
                news.iter().for_each(|update| self.send_update(&live.id, update));
            }
            Err(failure) => {
                self.close_live_session(&live.id);
                self.refuse(id, &failure);
            }
        }
    }

    /// Shows the client what the agent has not replayed.
    fn show_rest_of_load(
        &self,
        live: &LiveSession,
        check: &mut ReplayCheck,
    ) -> Result<(), RpcError> {
        let session = live.book().session().cloned();
        let session = session.ok_or_else(|| RpcError::internal("the store has failed"))?;
        let mut replay = Replayer::default();
        let read = AcpRecorder::each(&session, &mut |event| {
            replay.event(event, &mut |update| check.recorded(&update));
            true
        });
        read.map_err(|error| RpcError::internal(error.to_string()))?;
        self.complete_inner_replay(live, check.finish(), true);
        Ok(())
    }

    /// Shows the client the recorded conversation.
    fn show_loaded_session(&self, live: &LiveSession) -> Result<Replayer, RpcError> {
        let session = live.book().session().cloned();
        let session = session.ok_or_else(|| RpcError::internal("the store has failed"))?;
        let mut replay = Replayer::default();
        let shown = AcpRecorder::each(&session, &mut |event| {
            replay.event(event, &mut |update| self.send_update(&live.id, &update.update));
            true
        });
        shown.map_err(|error| RpcError::internal(error.to_string()))?;
        replay.finish(&mut |update| self.send_update(&live.id, &update.update));
        Ok(replay)
    }

    /// Opens a recorded session for this client.
    fn open_for_load(&self, params: &str) -> Result<Arc<LiveSession>, RpcError> {
        let raw: &RawValue =
            serde_json::from_str(params).map_err(|error| RpcError::params(error.to_string()))?;
        let (name, _) =
            session_member(raw).ok_or_else(|| RpcError::params("`sessionId` is not a string"))?;
        let directory =
            directory_in_params(params).ok_or_else(|| RpcError::params("`cwd` is not a string"))?;
        let setup = spliced_without_member(params, "sessionId").unwrap_or_else(|| "{}".into());
        let here = self.table().sessions.get(&*name).cloned();
        if let Some(live) = here.filter(|live| live.book().session().is_some()) {
            if !live.prompts().is_empty() {
                return Err(RpcError::params("a prompt of this session is still running"));
            }
            let own = live.book().session().map(|session| session.id());
            if own.is_some_and(|own| self.catalog.is_another(&directory, &name, own)) {
                return Err(RpcError::params(format!(
                    "session {name:?} of {} is open: close it before opening the one of {}",
                    live.directory.display(),
                    directory.display()
                )));
            }
            *live.setup() = setup;
            return Ok(live);
        }
        let session = self.catalog.open(Some(&directory), &name).map_err(load_refusal)?;
        clean_up_catalog_store(session.store(), session.id());
        let session = Arc::new(session);
        let translator = self.session_translator(&session, &directory);
        let mut book = AcpRecorder::new(session, translator);
        let settled = book.go_on().and_then(|()| book.settle());
        let live = self.keep(LiveSession::new(name.into_owned(), directory, setup, book));
        if let Err(failed) = settled {
            self.tell_failed(&live, failed);
        }
        Ok(live)
    }

    /// Has the agent load a session of its own, and records what it replays.
    fn adopt_on_load(self: &Arc<Self>, line: &str, id: &str, method: &str, params: &str) {
        let Ok(raw) = serde_json::from_str::<&RawValue>(params) else { return };
        let (Some((name, _)), Some(directory)) = (session_member(raw), directory_in_params(params))
        else {
            return self.forward(line, id, method, Purpose::Other);
        };
        let agent = self.abilities().name;
        let setup = spliced_without_member(params, "sessionId").unwrap_or_else(|| "{}".into());
        match self.catalog.create(&directory, &name, &agent) {
            Ok((own, session)) if own == *name => {
                let session = Arc::new(session);
                let translator = self.session_translator(&session, &directory);
                let book = AcpRecorder::new(session, translator);
                let live = self.keep(LiveSession::new(own, directory, setup, book));
                self.attach_inner(&live, &name, UpdateHandling::News);
                self.observe_inner(&live, &name, false);
                self.forward(line, id, method, Purpose::Adopt(live));
            }
            Ok(_) => self.forward(line, id, method, Purpose::Other),
            Err(error) => {
                let live = self.unrecorded(name.as_ref(), directory, setup, &error);
                self.forward(line, id, method, Purpose::Adopt(live));
            }
        }
    }

    /// A session that is forwarded without a record because the store failed.
    pub(super) fn unrecorded(
        &self,
        name: &str,
        directory: std::path::PathBuf,
        setup: String,
        error: &dyn std::error::Error,
    ) -> Arc<LiveSession> {
        let translator = Translator::new(&self.abilities().name);
        let live =
            LiveSession::new(name.to_owned(), directory, setup, AcpRecorder::none(translator));
        let live = self.keep(live);
        self.attach_inner(&live, name, UpdateHandling::News);
        let failed = live.book().failed(error);
        self.tell_failed(&live, failed);
        live
    }

    /// Registers the session as open.
    pub(super) fn keep(&self, live: LiveSession) -> Arc<LiveSession> {
        let live = Arc::new(live);
        self.table().sessions.insert(live.id.clone(), Arc::clone(&live));
        live
    }
}

/// The JSON-RPC error code for a resource that does not exist.
const MISSING: i32 = -32002;

/// The JSON-RPC error for a session that is not available.
pub(super) fn load_refusal(error: CatalogError) -> RpcError {
    let message = error.message();
    match error {
        CatalogError::NoSession { .. } => RpcError::missing(message),
        CatalogError::BadCursor { .. }
        | CatalogError::Ambiguous { .. }
        | CatalogError::Forked { .. } => RpcError::params(message),
        CatalogError::Held { .. } => RpcError::held(message),
        CatalogError::Store(_) => RpcError::internal(message),
    }
}

/// The line with the agent's id of its session.
pub(super) fn with_inner_session(line: &str, inner: &str) -> Option<String> {
    let (Ok(RpcMessage::Request { params: Some(params), .. })
    | Ok(RpcMessage::Notification { params: Some(params), .. })) = RpcMessage::read(line)
    else {
        return None;
    };
    let (session, raw) = session_member(params)?;
    if session == inner {
        return Some(line.to_owned());
    }
    spliced_line(line, raw.get(), &serde_json::Value::from(inner).to_string())
}
