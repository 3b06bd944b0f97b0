//! Handles messages from the client.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;

use super::load::with_inner_session;
use super::{Switch, lock_switch_state};
use crate::line_worker::LineWorker;
use crate::live_session::LiveSession;
use crate::member_splice::{member, session_member, spliced_line};
use crate::pending_request::Purpose;
use crate::rpc_message::{self, MalformedMessage, RpcError, RpcMessage, RpcOutcome, RpcRequestId};

/// The most sessions with a worker of their own.
const MOST_WORKERS: usize = 1024;

impl Switch {
    /// Handles a line from the client.
    pub(crate) fn from_client(self: &Arc<Self>, line: String) {
        if line.trim().is_empty() {
            return;
        }
        let (id, session) = match RpcMessage::read(&line) {
            Err(malformed) => return self.reject_client_line(&line, &malformed),
            Ok(RpcMessage::Response { id, outcome }) => {
                return self.handle_client_response(&line, id, outcome);
            }
            Ok(RpcMessage::Stray) => {
                self.agent.send(&line);
                return;
            }
            Ok(RpcMessage::Notification { method, params }) => {
                if method == "session/cancel" {
                    return self.cancel_for_client(&line, params);
                }
                if method.starts_with("$/") {
                    self.agent.send(&line);
                    return;
                }
                if self.may_skip_client_queue(params) {
                    return self.handle_client_line(&line);
                }
                (None, params.and_then(session_member).map(|(session, _)| session.into_owned()))
            }
            Ok(RpcMessage::Request { id, method, params }) => {
                // Before it is queued, so that it can be cancelled while it waits.
                if method == "session/prompt"
                    && let Some(live) = params.and_then(|params| self.client_session(params))
                {
                    live.prompts().entry(RpcRequestId::of(id)).or_default();
                }
                if method == "initialize" {
                    lock_switch_state(&self.greeting).waiting = true;
                }
                let session = params.and_then(session_member);
                (Some(id.get().to_owned()), session.map(|(session, _)| session.into_owned()))
            }
        };
        let worker = self.client_worker(session.as_deref());
        let switch = Arc::clone(self);
        if worker.push(line, move |line| switch.handle_client_line(line)).is_err() {
            match id {
                Some(id) => {
                    let live = session.and_then(|name| self.table().sessions.get(&name).cloned());
                    if let (Some(live), Ok(key)) =
                        (live, serde_json::from_str(&id).map(RpcRequestId::of))
                    {
                        live.prompts().remove(&key);
                    }
                    self.refuse(
                        &id,
                        &RpcError::internal("the agent's queue is full; try again later"),
                    );
                }
                None => (self.note)("dropped a notification: the agent's queue is full"),
            }
        }
    }

    /// Whether a notification may be forwarded at once: if nothing of the same session is queued.
    /// Otherwise it would overtake messages that other threads handle.
    fn may_skip_client_queue(&self, params: Option<&RawValue>) -> bool {
        let session = params.and_then(session_member);
        let table = self.table();
        let Some((session, _)) = session else { return self.general.is_idle() };
        let worker = table.workers.get(&*session).unwrap_or(&self.general);
        let known = table.sessions.get(&*session).is_none_or(|live| live.inner().id.is_some());
        worker.is_idle() && known
    }

    fn reject_client_line(&self, line: &str, malformed: &MalformedMessage) {
        let batch = line.trim_start().starts_with('[');
        let failure = match malformed {
            MalformedMessage::Parse(_) => RpcError { code: -32700, message: malformed.to_string() },
            MalformedMessage::Invalid(_) if batch => RpcError {
                code: -32600,
                message: "ACP has no batches: send each message by itself".to_owned(),
            },
            MalformedMessage::Invalid(_) => {
                RpcError { code: -32600, message: malformed.to_string() }
            }
        };
        self.refuse("null", &failure);
    }

    /// The worker for this session's messages.
    fn client_worker(&self, session: Option<&str>) -> Arc<LineWorker> {
        let Some(session) = session else { return Arc::clone(&self.general) };
        let mut table = self.table();
        if let Some(worker) = table.workers.get(session) {
            return Arc::clone(worker);
        }
        if table.workers.len() >= MOST_WORKERS {
            table.workers.retain(|_, worker| !worker.is_idle());
        }
        if table.workers.len() >= MOST_WORKERS {
            return Arc::clone(&self.general);
        }
        let worker = LineWorker::new();
        table.workers.insert(session.to_owned(), Arc::clone(&worker));
        worker
    }

    /// Handles a request or a notification on its worker's thread.
    fn handle_client_line(self: &Arc<Self>, line: &str) {
        match RpcMessage::read(line) {
            Ok(RpcMessage::Request { id, method, params }) => {
                self.handle_client_request(line, id.get(), &method, params);
            }
            Ok(RpcMessage::Notification { params, .. }) => {
                if let Ok(line) = self.client_line_for_agent(line, params) {
                    self.agent.send(&line);
                }
            }
            _ => {}
        }
    }

    fn handle_client_request(
        self: &Arc<Self>,
        line: &str,
        id: &str,
        method: &str,
        params: Option<&RawValue>,
    ) {
        if let Err(failure) = self.ready_for_client(method, params) {
            if method == "initialize" {
                self.greeting_over();
            }
            if method == "session/prompt"
                && let Some(params) = params
                && let Some(live) = self.client_session(params)
                && let Ok(key) = serde_json::from_str(id).map(RpcRequestId::of)
            {
                return self.lost_prompt(&live, params, &key, &failure);
            }
            return self.refuse(id, &failure);
        }
        if method != "initialize" {
            self.await_greeting();
        }
        let params = params.map_or("{}", RawValue::get);
        let raw = serde_json::from_str::<&RawValue>(params).ok();
        let can = self.abilities();
        if !self.understands() {
            let purpose = if method == "initialize" { Purpose::Greet } else { Purpose::Other };
            return self.forward(line, id, method, purpose);
        }
        match method {
            "initialize" => self.forward(line, id, method, Purpose::Greet),
            "authenticate" => {
                self.forward(line, id, method, Purpose::Authenticate(params.to_owned()));
            }
            "session/new" => self.forward(line, id, method, Purpose::Open(params.to_owned())),
            "session/prompt" => self.prompt(line, id, params),
            "session/load" => self.load(line, id, params),
            "session/resume" => self.resume(line, id, params),
            "session/list" if can.list => self.forward(line, id, method, Purpose::List),
            "session/list" => self.list_sessions(id, params),
            "session/close" => self.close_session(line, id, raw, can.close),
            "session/delete" => self.delete_session(line, id, raw, can.delete),
            "session/fork" => self.fork_session(line, id, params, can.fork),
            "session/set_mode" | "session/set_config_option" => {
                let purpose = match raw.and_then(|raw| self.client_session(raw)) {
                    Some(live) => Purpose::Configure(live, method.to_owned(), params.to_owned()),
                    None => Purpose::Other,
                };
                self.forward_client_request(line, id, method, raw, purpose);
            }
            _ => self.forward_client_request(line, id, method, raw, Purpose::Other),
        }
    }

    /// Makes sure that there is an agent for a request, and remembers the client's first
    /// `initialize`.
    fn ready_for_client(
        self: &Arc<Self>,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<(), RpcError> {
        if method != "initialize" {
            return self.ready();
        }
        {
            let _one = lock_switch_state(&self.starting);
            self.agent.ensure(self).map_err(RpcError::internal)?;
        }
        let params = params.map_or("{}", RawValue::get);
        let notices = member(params, &["clientCapabilities", "session", "notices"]);
        let mut greeting = lock_switch_state(&self.greeting);
        greeting.initialize = Some(params.to_owned());
        greeting.notices = notices.is_some_and(|raw| raw.get().starts_with('{'));
        Ok(())
    }

    /// Waits for the answer to `initialize`: how the rest is handled depends on it.
    fn await_greeting(&self) {
        while lock_switch_state(&self.greeting).waiting {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The open session that params name.
    pub(super) fn client_session(&self, params: &RawValue) -> Option<Arc<LiveSession>> {
        let (session, _) = session_member(params)?;
        self.table().sessions.get(&*session).cloned()
    }

    /// Forwards a request that may name a session.
    pub(super) fn forward_client_request(
        self: &Arc<Self>,
        line: &str,
        id: &str,
        method: &str,
        params: Option<&RawValue>,
        purpose: Purpose,
    ) {
        match self.client_line_for_agent(line, params) {
            Ok(line) => self.forward(&line, id, method, purpose),
            Err(failure) => self.refuse(id, &failure),
        }
    }

    /// The line with the agent's id of the session that it names.
    fn client_line_for_agent(
        self: &Arc<Self>,
        line: &str,
        params: Option<&RawValue>,
    ) -> Result<String, RpcError> {
        let Some(live) = params.and_then(|params| self.client_session(params)) else {
            return Ok(line.to_owned());
        };
        let inner = self.establish_inner(&live)?;
        with_inner_session(line, &inner)
            .ok_or_else(|| RpcError::internal("cannot replace the session id in the message"))
    }

    /// Handles the client's response to a request of the agent's.
    fn handle_client_response(&self, line: &str, id: &RawValue, outcome: RpcOutcome<&RawValue>) {
        let key = RpcRequestId::of(id);
        let asked = {
            let mut table = self.table();
            let asked = table.asked.remove(&key);
            if asked.is_none() && table.stale.take(&key) {
                return;
            }
            asked
        };
        let Some(asked) = asked else {
            self.agent.send(line);
            return;
        };
        if let Some(live) = &asked.live
            && let Ok(own) = serde_json::from_str::<&RawValue>(&asked.id)
        {
            let mut book = live.book();
            let recorded = book.translator.answered(own, outcome);
            if let Err(failed) = book.write(recorded) {
                drop(book);
                self.tell_failed(live, failed);
            }
        }
        if asked.id == id.get() {
            self.agent.send(line);
        } else if let Some(line) = spliced_line(line, id.get(), &asked.id) {
            self.agent.send(&line);
        }
    }

    /// Handles `session/cancel`.
    fn cancel_for_client(self: &Arc<Self>, line: &str, params: Option<&RawValue>) {
        let Some(live) = params.and_then(|params| self.client_session(params)) else {
            self.agent.send(line);
            return;
        };
        let mut prompts = live.prompts();
        let mut news = Vec::new();
        for (id, prompt) in prompts.iter_mut() {
            if !prompt.cancelled.swap(true, Ordering::Relaxed) {
                news.push(id.clone());
            }
            if !prompt.sent {
                prompt.cancel = Some(line.to_owned());
            }
        }
        let sent = prompts.is_empty() || prompts.values().any(|prompt| prompt.sent);
        drop(prompts);
        if sent {
            // Lets the client's earlier messages go first, but waits for them only briefly.
            let until = Instant::now() + Duration::from_millis(50);
            while !self.general.is_idle() && Instant::now() < until {
                std::thread::sleep(Duration::from_micros(200));
            }
            self.forward_client_cancel(&live, line);
        }
        for id in news {
            let (switch, live) = (Arc::downgrade(self), Arc::clone(&live));
            let when = Instant::now() + self.manner.cancel_grace;
            self.deadlines.at(when, move || {
                if let Some(switch) = switch.upgrade() {
                    // On its own thread: it writes to the store, which may take a while.
                    std::thread::spawn(move || switch.answer_client_cancel(&live, &id));
                }
            });
        }
    }

    /// Forwards a cancellation to the agent.
    pub(super) fn forward_client_cancel(&self, live: &LiveSession, line: &str) {
        let Some(inner) = live.inner().id.clone() else { return };
        if let Some(line) = with_inner_session(line, &inner) {
            self.agent.send(&line);
        }
    }

    /// Answers a cancelled prompt that the agent has not ended.
    fn answer_client_cancel(&self, live: &Arc<LiveSession>, id: &RpcRequestId) {
        if live.prompts().remove(id).is_none() {
            return;
        }
        let mut table = self.table();
        table.pending.remove(id);
        table.given_up.put(id.clone());
        drop(table);
        self.interrupt_prompt(live, "cancelled");
        (self.note)("the agent did not end a cancelled prompt; abide answered it");
        self.client.send(&rpc_message::result_message(id.json(), r#"{"stopReason":"cancelled"}"#));
    }
}
