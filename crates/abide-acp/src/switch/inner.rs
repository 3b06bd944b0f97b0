//! How the agent gets to know a session: it resumes or loads its own, or makes a new one and is
//! told the past.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Switch, SwitchQuestion};
use crate::acp_recorder::{AcpRecorder, RecordedAgentSession};
use crate::live_session::{LiveSession, PrimeScope, UpdateHandling};
use crate::member_splice::{member, member_text, spliced_with_member};
use crate::replay::{ReplayCheck, ReplayCheckReport, Replayer};
use crate::rpc_message::RpcError;

impl Switch {
    /// The agent's id of a session; establishes one first if the agent has none.
    pub(super) fn establish_inner(
        self: &Arc<Self>,
        live: &Arc<LiveSession>,
    ) -> Result<String, RpcError> {
        if let Some(inner) = live.inner().id.clone() {
            return Ok(inner);
        }
        self.open_inner(live).map(|opened| opened.inner)
    }

    /// Has the agent open the session, its own if it can. Returns its id and its answer.
    pub(super) fn open_inner(
        self: &Arc<Self>,
        live: &Arc<LiveSession>,
    ) -> Result<OpenedAgentSession, RpcError> {
        let can = self.abilities();
        let known = live.book().inner();
        if let Some(RecordedAgentSession { id, .. }) = known
            && (can.load || can.resume)
        {
            let setup = live.setup().clone();
            let raw = serde_json::Value::from(&*id).to_string();
            let params = spliced_with_member(&setup, "sessionId", &raw).unwrap_or(setup);
            let method = if can.load { "session/load" } else { "session/resume" };
            self.attach_inner(live, &id, UpdateHandling::Hidden(live.replay_check()));
            if let Ok(result) = self.ask(method, &params) {
                if can.load {
                    self.gather_inner_replay(live);
                } else {
                    self.settle_inner(live);
                }
                return Ok(OpenedAgentSession { inner: id, result, news: Vec::new() });
            }
            self.detach_inner(live);
        }
        let before = self.before(live)?;
        let question = self.asking("session/new", &live.setup().clone(), Some(live))?;
        self.renew_inner(live, question, &before)
    }

    /// Reads the record of a session.
    fn before(&self, live: &LiveSession) -> Result<Replayer, RpcError> {
        let mut replay = Replayer::default();
        let session = live.book().session().cloned();
        if let Some(session) = session {
            let read = AcpRecorder::each(&session, &mut |event| {
                replay.event(event, &mut |_| {});
                true
            });
            read.map_err(|error| RpcError::internal(error.to_string()))?;
        }
        Ok(replay)
    }

    /// Handles the answer to a `session/new` that was sent for a session already recorded.
    pub(super) fn renew_inner(
        self: &Arc<Self>,
        live: &Arc<LiveSession>,
        question: SwitchQuestion,
        before: &Replayer,
    ) -> Result<OpenedAgentSession, RpcError> {
        let result = question.wait(self)?;
        let inner = member_text(&result, &["sessionId"])
            .ok_or_else(|| RpcError::internal("the agent returned no id for a new session"))?
            .into_owned();
        {
            let mut known = live.inner();
            known.prime = PrimeScope::All;
            known.observed = false;
        }
        let news = self.configure_inner(&inner, before);
        Ok(OpenedAgentSession { inner, result, news })
    }

    /// Restores the mode and the options that were set before. Returns the updates that show it.
    fn configure_inner(&self, inner: &str, before: &Replayer) -> Vec<String> {
        let id = serde_json::Value::from(inner);
        let mut news = Vec::new();
        if let Some(mode) = before.mode() {
            let mode = serde_json::Value::from(mode);
            let params = format!(r#"{{"sessionId":{id},"modeId":{mode}}}"#);
            if self.ask("session/set_mode", &params).is_ok() {
                let sort = r#""sessionUpdate":"current_mode_update""#;
                news.push(format!(r#"{{{sort},"currentModeId":{mode}}}"#));
            }
        }
        for (option, value) in before.options() {
            let option = serde_json::Value::from(option);
            let params = format!(r#"{{"sessionId":{id},"configId":{option},"value":{value}}}"#);
            if let Ok(result) = self.ask("session/set_config_option", &params)
                && let Some(options) = member(&result, &["configOptions"])
            {
                let sort = r#""sessionUpdate":"config_option_update""#;
                news.push(format!(r#"{{{sort},"configOptions":{options}}}"#));
            }
        }
        news
    }

    /// Records that the agent knows the session by this id.
    pub(super) fn observe_inner(&self, live: &LiveSession, inner: &str, primed: bool) {
        let agent = self.abilities().name;
        live.inner().observed = true;
        let observed = live.book().observe(inner, &agent, primed);
        if let Err(failed) = observed {
            self.tell_failed(live, failed);
        }
    }

    /// Maps the session to this id of the agent's.
    pub(super) fn attach_inner(
        &self,
        live: &Arc<LiveSession>,
        inner: &str,
        updates: UpdateHandling,
    ) {
        let mut table = self.table();
        let mut known = live.inner();
        if let Some(old) = known.id.replace(inner.to_owned()) {
            table.inner.remove(&old);
        }
        known.updates = updates;
        known.prime = PrimeScope::Nothing;
        known.observed = true;
        known.heard = None;
        table.inner.insert(inner.to_owned(), Arc::clone(live));
    }

    /// Drops the mapping to the agent's id.
    pub(super) fn detach_inner(&self, live: &LiveSession) {
        let mut table = self.table();
        let mut known = live.inner();
        if let Some(old) = known.id.take() {
            table.inner.remove(&old);
        }
        known.updates = UpdateHandling::News;
    }

    /// Treats the agent's updates as new from here on. Returns the check of what it had replayed.
    pub(super) fn settle_inner(&self, live: &LiveSession) -> Option<Box<ReplayCheck>> {
        match std::mem::take(&mut live.inner().updates) {
            UpdateHandling::News => None,
            UpdateHandling::Shown(check) | UpdateHandling::Hidden(check) => Some(check),
        }
    }

    /// Waits for the agent's replay, which may go on after its answer, and completes it.
    fn gather_inner_replay(&self, live: &LiveSession) {
        if self.is_inner_complete(live) {
            self.settle_inner(live);
        } else {
            self.await_inner_replay(live, false);
        }
    }

    /// Whether the agent has replayed everything recorded. Call it once.
    pub(super) fn is_inner_complete(&self, live: &LiveSession) -> bool {
        self.compare_inner_replay(live).is_none_or(|checked| replay_is_whole(&checked))
    }

    /// Waits until the agent has finished its replay, and completes it.
    pub(super) fn await_inner_replay(&self, live: &LiveSession, shown: bool) {
        /// How long the agent must be silent, and how long it may take in all.
        const QUIET: Duration = Duration::from_millis(250);
        const MOST: Duration = Duration::from_secs(10);
        let until = Instant::now() + MOST;
        let from = Instant::now();
        while Instant::now() < until {
            let heard = live.inner().heard.unwrap_or(from).max(from);
            if heard.elapsed() >= QUIET {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if let Some(check) = self.settle_inner(live) {
            self.complete_inner_replay(live, check.finish(), shown);
        }
    }

    /// Compares the agent's replay so far with the record.
    fn compare_inner_replay(&self, live: &LiveSession) -> Option<ReplayCheckReport> {
        let session = live.book().session().cloned()?;
        let mut updates = Vec::new();
        let mut replay = Replayer::default();
        let read = AcpRecorder::each(&session, &mut |event| {
            replay.event(event, &mut |update| updates.push(update));
            true
        });
        if let Err(error) = read {
            let failed = live.book().failed(&error);
            self.tell_failed(live, failed);
            return None;
        }
        let mut inner = live.inner();
        let (UpdateHandling::Shown(check) | UpdateHandling::Hidden(check)) = &mut inner.updates
        else {
            return None;
        };
        updates.iter().for_each(|update| check.recorded(update));
        Some(check.finish())
    }

    /// Logs how the agent's replay differs. An end that is missing is shown to the client if
    /// `shown`, and told to the agent with the next prompt.
    pub(super) fn complete_inner_replay(
        &self,
        live: &LiveSession,
        checked: ReplayCheckReport,
        shown: bool,
    ) {
        let session = live.book().session().cloned();
        let Some(session) = session else { return };
        if !replay_is_whole(&checked) || checked.foreign > 0 {
            let text = format!(
                "what the agent replayed is not what is recorded: {} the same, {} lacking, {} not \
                 recorded{}",
                checked.same,
                checked.lacking,
                checked.foreign,
                if checked.tail.is_some() { ", and the end is lacking" } else { "" }
            );
            (self.note)(&text);
            let logged = live.book().log(text);
            if let Err(failed) = logged {
                self.tell_failed(live, failed);
            }
        }
        let Some(tail) = checked.tail else { return };
        let (mut replay, mut count, mut since) = (Replayer::default(), 0_usize, None);
        let read = AcpRecorder::each(&session, &mut |event| {
            replay.event(event, &mut |update| {
                if count >= tail {
                    since.get_or_insert(event.seq);
                    if shown {
                        self.send_update(&live.id, &update.update);
                    }
                }
                count += 1;
            });
            true
        });
        if let Err(error) = read {
            let failed = live.book().failed(&error);
            self.tell_failed(live, failed);
        }
        if let Some(since) = since {
            live.inner().prime = PrimeScope::Since(since);
        }
    }
}

/// A session that the agent has opened.
pub(super) struct OpenedAgentSession {
    /// The agent's id.
    pub(super) inner: String,
    /// The agent's answer.
    pub(super) result: String,
    /// Updates to send to the client after it.
    pub(super) news: Vec<String>,
}

/// Whether the agent has everything recorded.
fn replay_is_whole(checked: &ReplayCheckReport) -> bool {
    checked.lacking == 0 && checked.tail.is_none()
}
