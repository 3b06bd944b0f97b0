//! Prompts: first a checkpoint, then the record, then the agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::value::RawValue;

use super::Switch;
use crate::acp_recorder::AcpRecorder;
use crate::live_session::{LiveSession, PrimeScope};
use crate::member_splice::{list_with_first, member, spliced_line};
use crate::pending_request::Purpose;
use crate::rpc_message::{self, RpcError, RpcMessage, RpcRequestId};

impl Switch {
    /// Handles a `session/prompt`.
    pub(super) fn prompt(self: &Arc<Self>, line: &str, id: &str, params: &str) {
        let Ok(raw) = serde_json::from_str::<&RawValue>(params) else { return };
        let Some(live) = self.client_session(raw) else {
            return self.forward(line, id, "session/prompt", Purpose::Other);
        };
        let Ok(key) = serde_json::from_str(id).map(RpcRequestId::of) else { return };
        let cancelled = Arc::clone(&live.prompts().entry(key.clone()).or_default().cancelled);
        self.reopen_for_prompt(&live);
        self.checkpoint_before_prompt(&live, cancelled);
        let inner = match self.establish_inner(&live) {
            Ok(inner) => inner,
            Err(failure) => return self.lost_prompt(&live, raw, &key, &failure),
        };
        // Before the prompt is recorded, since the primer must not contain it.
        let (line, prime) = self.primed_prompt(&live, line, &inner);
        if !live.prompts().contains_key(&key) {
            // It was cancelled, and already answered while it waited.
            live.inner().prime = prime;
            return;
        }
        let written = {
            let mut book = live.book();
            let recorded = book.translator.prompt(raw);
            book.write(recorded)
        };
        if let Err(failed) = written {
            self.tell_failed(&live, failed);
        }
        if matches!(prime, PrimeScope::Since(_)) {
            // From here on the agent's own session holds the primer, not the conversation.
            self.observe_inner(&live, &inner, true);
        }
        // Cancelling takes the same lock, so a cancellation is sent only after the prompt.
        let mut prompts = live.prompts();
        let Some(prompt) = prompts.get_mut(&key) else {
            drop(prompts);
            live.inner().prime = prime;
            return self.interrupt_prompt(&live, "cancelled");
        };
        prompt.sent = true;
        let cancel = prompt.cancel.take();
        let sent = self.deliver(&line, id, "session/prompt", Purpose::Prompt(Arc::clone(&live)));
        if !sent {
            prompts.remove(&key);
        }
        drop(prompts);
        if !sent {
            self.interrupt_prompt(&live, "interrupted");
        } else if let Some(cancel) = cancel {
            self.forward_client_cancel(&live, &cancel);
        }
    }

    /// Records that a turn ended without an answer from the agent.
    pub(super) fn interrupt_prompt(&self, live: &LiveSession, why: &str) {
        let written = {
            let mut book = live.book();
            let recorded = book.translator.interrupted(why);
            book.write(recorded)
        };
        if let Err(failed) = written {
            self.tell_failed(live, failed);
        }
    }

    /// Records a prompt that could not be started, since the client shows it.
    pub(super) fn lost_prompt(
        &self,
        live: &LiveSession,
        params: &RawValue,
        key: &RpcRequestId,
        failure: &RpcError,
    ) {
        live.prompts().remove(key);
        let line = rpc_message::failure_message(key.json(), failure);
        let written = {
            let mut book = live.book();
            let mut recorded = book.translator.prompt(params);
            let error = member(&line, &["error"]);
            let ended = error.map(|error| book.translator.prompted(Err(error)));
            recorded.events.extend(ended.map(|ended| ended.events).unwrap_or_default());
            book.write(recorded)
        };
        if let Err(failed) = written {
            self.tell_failed(live, failed);
        }
        self.client.send(&line);
    }

    /// Resumes recording if the store failed before.
    fn reopen_for_prompt(&self, live: &LiveSession) {
        if live.book().is_homeless() {
            let made = self.catalog.create(&live.directory, &live.id, &self.abilities().name);
            if let Ok((name, session)) = made
                && name == live.id
            {
                let mut book = live.book();
                book.take(session);
                drop(book);
                self.tell(live, "info", "abide records this session from here on.");
            }
        }
        let again = live.book().reopen();
        if let Some(what) = again {
            self.tell(live, "info", &what);
        }
    }

    /// Makes a checkpoint of the workspace. No lock is held meanwhile.
    fn checkpoint_before_prompt(&self, live: &LiveSession, cancelled: Arc<AtomicBool>) {
        let session = live.book().session().cloned();
        let Some(session) = session.filter(|_| self.manner.checkpoint) else { return };
        if let Err(error) = AcpRecorder::checkpoint(&session, Arc::clone(&cancelled))
            && !cancelled.load(Ordering::Relaxed)
        {
            let failed = live.book().failed(&error);
            self.tell_failed(live, failed);
        }
    }

    /// The prompt for the agent: in its session, and with what it does not know yet. Also returns
    /// what it was told.
    fn primed_prompt(&self, live: &LiveSession, line: &str, inner: &str) -> (String, PrimeScope) {
        let mut line = line.to_owned();
        if inner != live.id {
            let new = serde_json::Value::from(inner).to_string();
            line = with_changed_prompt_member(&line, "sessionId", |_| Some(new)).unwrap_or(line);
        }
        let prime = std::mem::take(&mut live.inner().prime);
        let session = live.book().session().cloned();
        let told = match (prime, session) {
            (PrimeScope::Nothing, _) | (_, None) => None,
            (PrimeScope::All, Some(session)) => session.primer().transpose(),
            (PrimeScope::Since(seq), Some(session)) => session.primer_since(seq).transpose(),
        };
        let line = match told {
            None => line,
            Some(Ok(text)) => {
                let text = serde_json::Value::from(text);
                let block = format!(r#"{{"type":"text","text":{text}}}"#);
                with_changed_prompt_member(&line, "prompt", |list| list_with_first(list, &block))
                    .unwrap_or(line)
            }
            Some(Err(error)) => {
                self.tell(
                    live,
                    "error",
                    &format!("abide cannot tell the agent what happened before: {error}"),
                );
                line
            }
        };
        (line, prime)
    }
}

/// The line with a member of its params changed.
fn with_changed_prompt_member(
    line: &str,
    name: &str,
    change: impl FnOnce(&str) -> Option<String>,
) -> Option<String> {
    let Ok(RpcMessage::Request { params: Some(params), .. }) = RpcMessage::read(line) else {
        return None;
    };
    let old = member(params.get(), &[name])?;
    spliced_line(line, old.get(), &change(old.get())?)
}
