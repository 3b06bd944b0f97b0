//! Handles messages from the agent.

use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;

use super::{Switch, directory_in_params, lock_switch_state};
use crate::abilities::Abilities;
use crate::acp_recorder::AcpRecorder;
use crate::catalog::clean_up_catalog_store;
use crate::live_session::{LiveSession, UpdateHandling};
use crate::member_splice::{member, member_text, session_member, spliced_line};
use crate::pending_request::{OwnRequest, PendingAgentRequest, PendingRequest, Purpose};
use crate::record::subagent_lane;
use crate::rpc_message::{self, RpcError, RpcMessage, RpcOutcome, RpcRequestId};

impl Switch {
    /// Handles a line from the agent.
    pub(crate) fn from_agent(self: &Arc<Self>, line: &str) {
        match RpcMessage::read(line) {
            Ok(RpcMessage::Response { id, outcome }) => {
                self.handle_agent_response(line, id, outcome)
            }
            Ok(RpcMessage::Notification { method, params: Some(params) })
                if method == "session/update" =>
            {
                self.handle_agent_update(line, params);
            }
            Ok(RpcMessage::Notification { params, .. }) => self.forward_from_agent(line, params),
            Ok(RpcMessage::Request { id, method, params }) => {
                self.handle_agent_request(line, id, &method, params)
            }
            Ok(RpcMessage::Stray) => self.client.send(line),
            Err(malformed) => {
                if !line.trim().is_empty() {
                    let begin: String = line.chars().take(120).collect();
                    (self.note)(&format!(
                        "the agent printed a line that is not a message ({malformed}): {}",
                        begin.escape_debug()
                    ));
                }
            }
        }
    }

    /// Forwards a message that may name a session.
    fn forward_from_agent(&self, line: &str, params: Option<&RawValue>) {
        let named = params.and_then(session_member);
        let live = named.as_ref().and_then(|(id, _)| self.table().inner.get(&**id).cloned());
        match (live, named) {
            (Some(live), Some((id, raw))) => self.relay_agent_line(&live, line, &id, raw),
            _ => self.client.send(line),
        }
    }

    /// Sends a line to the client, with the client's id of the session.
    fn relay_agent_line(&self, live: &LiveSession, line: &str, id: &str, raw: &RawValue) {
        if live.id == id {
            return self.client.send(line);
        }
        let new = serde_json::Value::from(&*live.id).to_string();
        match spliced_line(line, raw.get(), &new) {
            Some(line) => self.client.send(&line),
            None => self.client.send(line),
        }
    }

    /// Handles a `session/update`.
    fn handle_agent_update(&self, line: &str, params: &RawValue) {
        let Some((id, raw)) = session_member(params) else { return self.client.send(line) };
        let (live, child) = {
            let table = self.table();
            match (table.inner.get(&*id), table.children.get(&*id)) {
                (Some(live), _) => (Arc::clone(live), false),
                (None, Some(parent)) => (Arc::clone(parent), true),
                (None, None) => {
                    drop(table);
                    return self.client.send(line);
                }
            }
        };
        if !child {
            let mut inner = live.inner();
            match &mut inner.updates {
                UpdateHandling::Hidden(check) if is_agent_conversation_update(params) => {
                    check.replayed(params);
                    inner.heard = Some(Instant::now());
                    return;
                }
                UpdateHandling::Shown(check) => {
                    check.replayed(params);
                    inner.heard = Some(Instant::now());
                    drop(inner);
                    return self.relay_agent_line(&live, line, &id, raw);
                }
                UpdateHandling::News | UpdateHandling::Hidden(_) => {}
            }
        }
        let mut book = live.book();
        let recorded = if child {
            book.translator.update_in(Some(&id), params)
        } else {
            book.translator.update(params)
        };
        // An update that ends a block is forwarded only once the block is recorded; chunks within a
        // block do not wait.
        let before = !recorded.events.is_empty();
        let send = || {
            if child {
                self.client.send(line)
            } else {
                self.relay_agent_line(&live, line, &id, raw)
            }
        };
        if !before {
            send();
        }
        let written = book.write(recorded);
        drop(book);
        if before {
            send();
        }
        if let Err(failed) = written {
            self.tell_failed(&live, failed);
        }
        if params.get().contains("subagent_update")
            && let Some(child) = subagent_lane(params)
        {
            self.table().children.insert(child, live);
        }
    }

    /// Handles a request from the agent to the client.
    fn handle_agent_request(
        &self,
        line: &str,
        id: &RawValue,
        method: &str,
        params: Option<&RawValue>,
    ) {
        let named = params.and_then(session_member);
        let live = named.as_ref().and_then(|(session, _)| {
            let table = self.table();
            table.inner.get(&**session).or_else(|| table.children.get(&**session)).cloned()
        });
        if let Some(live) = &live {
            let mut book = live.book();
            let recorded = book.translator.asked(id, method, params);
            let written = book.write(recorded);
            drop(book);
            if let Err(failed) = written {
                self.tell_failed(live, failed);
            }
        }
        let own = live.as_ref().zip(named).filter(|(live, (session, _))| {
            live.id != **session && self.table().inner.contains_key(&**session)
        });
        let line = own
            .and_then(|(live, (_, raw))| {
                spliced_line(line, raw.get(), &serde_json::Value::from(&*live.id).to_string())
            })
            .map_or(std::borrow::Cow::Borrowed(line), std::borrow::Cow::Owned);
        let key = RpcRequestId::of(id);
        let asked = PendingAgentRequest { id: id.get().to_owned(), live };
        let mut table = self.table();
        // A late answer to an agent that is gone must not be taken for an answer to this one.
        if table.stale.has(&key) || table.asked.contains_key(&key) {
            let key = self.own_id();
            let renamed = match RpcMessage::read(&line) {
                Ok(RpcMessage::Request { id, .. }) => spliced_line(&line, id.get(), key.json()),
                _ => None,
            };
            table.asked.insert(key, asked);
            drop(table);
            return self.client.send(renamed.as_deref().unwrap_or(&line));
        }
        table.asked.insert(key, asked);
        drop(table);
        self.client.send(&line);
    }

    /// Handles a response from the agent.
    fn handle_agent_response(
        self: &Arc<Self>,
        line: &str,
        id: &RawValue,
        outcome: RpcOutcome<&RawValue>,
    ) {
        let key = RpcRequestId::of(id);
        let mut table = self.table();
        if let Some(OwnRequest { answer, opens }) = table.own.remove(&key) {
            drop(table);
            let outcome =
                outcome.map(|raw| raw.get().to_owned()).map_err(|raw| raw.get().to_owned());
            if let (Some(live), Ok(result)) = (opens, &outcome)
                && let Some(inner) = member_text(result, &["sessionId"])
            {
                self.attach_inner(&live, &inner, UpdateHandling::News);
            }
            let _ = answer.try_send(outcome);
            return;
        }
        let pending = table.pending.remove(&key);
        if pending.is_none() && table.given_up.take(&key) {
            return;
        }
        drop(table);
        let Some(PendingRequest { purpose, deadline, .. }) = pending else {
            return self.client.send(line);
        };
        if let Some(deadline) = deadline {
            self.deadlines.call_off(deadline);
        }
        self.finish_agent_request(line, id, &key, outcome, purpose);
    }

    fn finish_agent_request(
        self: &Arc<Self>,
        line: &str,
        id: &RawValue,
        key: &RpcRequestId,
        outcome: RpcOutcome<&RawValue>,
        purpose: Purpose,
    ) {
        match (purpose, outcome) {
            (Purpose::Greet, Ok(result)) => return self.handle_agent_greeting(line, result),
            (Purpose::Authenticate(params), Ok(_)) => {
                lock_switch_state(&self.greeting).authenticate = Some(params);
            }
            (Purpose::Open(setup), Ok(result)) => {
                return self.record_agent_session(line, result, setup);
            }
            (Purpose::Fork(of, setup), Ok(result)) => {
                return self.agent_forked(line, result, &of, setup);
            }
            (Purpose::Prompt(live), outcome) => {
                // Whoever removes it answers it.
                if live.prompts().remove(key).is_none() {
                    return;
                }
                let mut book = live.book();
                let recorded = book.translator.prompted(outcome);
                let written = book.write(recorded);
                drop(book);
                if let Err(failed) = written {
                    self.tell_failed(&live, failed);
                }
                self.observe_primed_agent(&live, outcome.is_ok());
                self.compact(&live);
            }
            (Purpose::Configure(live, method, params), Ok(result)) => {
                if let Ok(params) = serde_json::from_str::<&RawValue>(&params) {
                    let mut book = live.book();
                    let recorded = book.translator.configured(&method, params, result);
                    let written = book.write(recorded);
                    drop(book);
                    if let Err(failed) = written {
                        self.tell_failed(&live, failed);
                    }
                }
            }
            (Purpose::Load(live), Ok(_)) => {
                if !self.is_inner_complete(&live) {
                    // Some agents answer before they have replayed everything; the client gets the
                    // answer after the replay.
                    let (switch, line) = (Arc::clone(self), line.to_owned());
                    std::thread::spawn(move || {
                        switch.await_inner_replay(&live, true);
                        switch.client.send(&line);
                    });
                    return;
                }
                self.settle_inner(&live);
            }
            (Purpose::Load(live), Err(_)) => return self.load_new_agent_session(live, id, true),
            (Purpose::Resume(live), Err(_)) => return self.load_new_agent_session(live, id, false),
            (Purpose::Adopt(live), Err(_)) => {
                let _ = self.erase_session(&live.id);
            }
            // The last replayed message is recorded too.
            (Purpose::Adopt(live), Ok(_)) => self.interrupt_prompt(&live, "interrupted"),
            (Purpose::Greet, Err(_)) => self.greeting_over(),
            (Purpose::List, Ok(_)) => return self.forward_agent_list(line),
            (Purpose::Close(name), Ok(_)) => self.complete_live(&name),
            // The agent does not know this session, but abide does.
            (Purpose::Close(name), Err(_)) if self.is_open(&name) => {
                self.complete_live(&name);
                return self.client.send(&rpc_message::result_message(id.get(), "{}"));
            }
            (Purpose::Delete(name), Err(_)) if self.catalog.find(None, &name).is_ok() => {
                return match self.erase_session(&name) {
                    Ok(()) => self.client.send(&rpc_message::result_message(id.get(), "{}")),
                    Err(failure) => self.refuse(id.get(), &failure),
                };
            }
            (Purpose::Delete(name), Ok(_)) => {
                if let Err(failure) = self.erase_session(&name) {
                    return self.refuse(id.get(), &failure);
                }
            }
            _ => {}
        }
        self.client.send(line);
    }

    /// Opens a new session of the agent's, primed with the past, since the agent could not open its
    /// own. On another thread: it waits for the agent's answers, which are read on this one.
    fn load_new_agent_session(
        self: &Arc<Self>,
        live: Arc<LiveSession>,
        id: &RawValue,
        shown: bool,
    ) {
        let (switch, id) = (Arc::clone(self), id.get().to_owned());
        std::thread::spawn(move || switch.load_for(&live, &id, shown));
    }

    fn is_open(&self, name: &str) -> bool {
        self.table().sessions.contains_key(name)
    }

    /// Records the agent's id once a primed agent has answered: from then on it knows the session.
    fn observe_primed_agent(&self, live: &LiveSession, answered: bool) {
        let inner = {
            let known = live.inner();
            known.id.clone().filter(|_| answered && !known.observed)
        };
        if let Some(inner) = inner {
            self.observe_inner(live, &inner, true);
        }
    }

    fn handle_agent_greeting(&self, line: &str, result: &RawValue) {
        let abilities = Abilities::read(result.get());
        let known = abilities.version == 1;
        if !known {
            (self.note)(&format!(
                "the agent speaks version {} of the protocol; abide knows 1, and passes what is \
                 said without a record",
                abilities.version
            ));
        }
        *lock_switch_state(&self.abilities) = abilities;
        self.greeting_over();
        let completed = Abilities::completed(result.get()).filter(|_| known);
        let completed = completed.and_then(|new| spliced_line(line, result.get(), &new));
        self.client.send(completed.as_deref().unwrap_or(line));
    }

    /// Handles the answer to `session/new`.
    fn record_agent_session(self: &Arc<Self>, line: &str, result: &RawValue, setup: String) {
        let (Some(inner), Some(directory)) =
            (member_text(result.get(), &["sessionId"]), directory_in_params(&setup))
        else {
            return self.client.send(line);
        };
        let agent = self.abilities().name;
        match self.catalog.create(&directory, &inner, &agent) {
            Ok((name, session)) => {
                clean_up_catalog_store(session.store(), session.id());
                let session = Arc::new(session);
                let translator = self.session_translator(&session, &directory);
                let book = AcpRecorder::new(session, translator);
                let live = self.keep(LiveSession::new(name, directory, setup, book));
                self.attach_inner(&live, &inner, UpdateHandling::News);
                self.observe_inner(&live, &inner, false);
                self.send_new_id(line, result, &live, &inner);
            }
            Err(error) => {
                // The client must know the session before it is told about a problem with it.
                self.client.send(line);
                self.unrecorded(&inner, directory, setup, &error);
            }
        }
    }

    fn agent_forked(self: &Arc<Self>, line: &str, result: &RawValue, of: &str, setup: String) {
        let (Some(inner), Some(directory)) =
            (member_text(result.get(), &["sessionId"]), directory_in_params(&setup))
        else {
            return self.client.send(line);
        };
        match self.record_forked_session(of, &directory, setup.clone(), &inner, false) {
            Ok(live) => self.send_new_id(line, result, &live, &inner),
            Err(failure) => {
                self.client.send(line);
                let error = std::io::Error::other(failure.message);
                self.unrecorded(&inner, directory, setup, &error);
            }
        }
    }

    fn send_new_id(&self, line: &str, result: &RawValue, live: &LiveSession, inner: &str) {
        let raw = member(result.get(), &["sessionId"]);
        match raw.filter(|_| live.id != inner) {
            Some(raw) => {
                let new = serde_json::Value::from(&*live.id).to_string();
                let line = spliced_line(line, raw.get(), &new).unwrap_or_else(|| line.to_owned());
                self.client.send(&line);
            }
            None => self.client.send(line),
        }
    }

    /// Forwards the agent's list, with the client's ids.
    fn forward_agent_list(&self, line: &str) {
        let mut list = line.to_owned();
        let known: Vec<(String, String)> = {
            let table = self.table();
            let renamed = table.inner.iter().filter(|(inner, live)| **inner != live.id);
            renamed.map(|(inner, live)| (inner.clone(), live.id.clone())).collect()
        };
        for (inner, name) in known {
            if let Some(renamed) = agent_renamed_in_list(&list, &inner, &name) {
                list = renamed;
            }
        }
        self.client.send(&list);
    }

    /// Answers every open request after the agent is gone.
    pub(crate) fn agent_gone(&self, why: &str) {
        let (pending, own, lives) = {
            let mut table = self.table();
            let pending: Vec<_> = table.pending.drain().collect();
            let own: Vec<_> = table.own.drain().collect();
            let asked: Vec<_> = table.asked.drain().collect();
            for (key, _) in asked {
                table.stale.put(key);
            }
            table.inner.clear();
            table.children.clear();
            (pending, own, table.sessions.values().cloned().collect::<Vec<_>>())
        };
        for live in &lives {
            let mut inner = live.inner();
            inner.id = None;
            inner.updates = UpdateHandling::News;
        }
        let error = serde_json::json!({"code": -32603, "message": why}).to_string();
        for (_, OwnRequest { answer, .. }) in own {
            let _ = answer.try_send(Err(error.clone()));
        }
        for (key, PendingRequest { method, purpose, deadline }) in pending {
            if let Some(deadline) = deadline {
                self.deadlines.call_off(deadline);
            }
            match &purpose {
                Purpose::Prompt(live) => {
                    if live.prompts().remove(&key).is_none() {
                        continue;
                    }
                    self.interrupt_prompt(live, "interrupted");
                }
                Purpose::Adopt(live) => {
                    let _ = self.erase_session(&live.id);
                }
                Purpose::Greet => self.greeting_over(),
                _ => {}
            }
            let hint = match purpose {
                Purpose::Prompt(_) => {
                    ". Its work so far is recorded; prompt again to restart it and continue"
                }
                _ => "",
            };
            let message = format!("{why} before it answered {method}{hint}");
            self.refuse(key.json(), &RpcError::internal(message));
        }
    }
}

/// A list of sessions with one of them renamed.
fn agent_renamed_in_list(line: &str, inner: &str, name: &str) -> Option<String> {
    let sessions = member(line, &["result", "sessions"])?;
    let sessions: Vec<&RawValue> = serde_json::from_str(sessions.get()).ok()?;
    let raw = sessions.into_iter().find_map(|session| {
        session_member(session).filter(|(id, _)| id == inner).map(|(_, raw)| raw)
    })?;
    spliced_line(line, raw.get(), &serde_json::Value::from(name).to_string())
}

/// Whether an update is part of the conversation, rather than of the session's status.
fn is_agent_conversation_update(params: &RawValue) -> bool {
    let sort = member_text(params.get(), &["update", "sessionUpdate"]).unwrap_or_default();
    sort.ends_with("_chunk") || sort.starts_with("tool_call") || sort.starts_with("plan")
}
