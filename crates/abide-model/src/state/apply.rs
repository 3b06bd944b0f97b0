//! The fold: applies one event to the state. Total: any event can be applied to any state.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::session_core::add_to_core_count;
use super::{
    CallState, CheckpointState, FileState, KEYS, LaneState, LiveCompaction, RunState, SessionState,
    StateTable, TurnState,
};
use super::{state_hashed_key, state_usage_keys};
use crate::fact::{
    ApiCall, ApiResult, Checkpoint, Compaction, ContextPin, ContextRestored, FileOp, FileTouch,
    FilesRestored, GitState, Rewind, SessionCreated, ToolCall, ToolResult, TurnEnd, TurnStart,
    Usage,
};
use crate::{Anomaly, CallId, Event, Fact, Kind, LaneId, Seq, TurnNumber};

/// How many names are counted individually; the rest count as `other`.
const COUNTED: usize = 16;
/// Maximum length of a text in a state, in characters.
const CLIP: usize = 200;

impl SessionState {
    /// Applies an event and returns its anomaly, if any. An event with an anomaly is applied as far
    /// as possible. A `session.rewound` is only counted here; [`SessionState::rewound`] applies it,
    /// because it needs the state at the target.
    pub fn apply(&mut self, event: &Event) -> Option<Anomaly> {
        self.core.seq = event.seq;
        self.core.at = self.core.at.max(event.at);
        self.core.lineage.extend(event.seq);
        if let Some(key) = &event.key {
            self.apply_key(key, event);
        }
        let anomaly = if event.kind == Kind::MESSAGE_ADDED {
            self.apply_message(event)
        } else {
            event.fact().map_or(Some(Anomaly::Malformed), |fact| self.apply_fact(event, fact))
        };
        if let Some(anomaly) = anomaly {
            add_to_core_count(&mut self.core.health.anomalies, 1);
            self.core.health.last_anomaly = Some((event.seq, anomaly));
        }
        anomaly
    }

    /// Applies an event that was rewound: only what never reverts. Its key becomes free again.
    pub fn apply_dead(&mut self, event: &Event) {
        self.core.seq = event.seq;
        self.core.at = self.core.at.max(event.at);
        match event.fact() {
            // A fork stays a fork, however far it is rewound.
            Ok(Fact::SessionCreated(fact)) if fact.fields.forked_from(event.seq).is_some() => {
                self.apply_session_created(event, fact);
            }
            Ok(Fact::Rewind(fact)) => self.apply_rewind(event, &fact),
            Ok(Fact::FilesRestored(fact)) => self.apply_files_restored(&fact),
            Ok(Fact::Thinning(fact)) => self.core.checkpoints.thin(&fact.checkpoints),
            Ok(Fact::WriterOpened(fact)) => {
                self.core.epoch = self.core.epoch.max(fact.epoch);
                self.core.writing = true;
            }
            Ok(Fact::WriterClosed) => self.core.writing = false,
            Ok(Fact::TurnStarted(fact)) => {
                let last = self.core.turns.last;
                self.core.turns.last = last.max(fact.turn.unwrap_or(last.next()));
            }
            Ok(Fact::Checkpoint(fact)) => _ = self.core.checkpoints.number(fact.number),
            Ok(Fact::Erased) => self.apply_erased(event),
            Ok(Fact::ApiResult(fact)) => {
                if let Some(usage) = &fact.usage {
                    self.apply_usage(event, fact.model.as_deref(), usage);
                }
            }
            Ok(Fact::TurnFinished(fact)) => {
                if let Some(usage) = &fact.usage {
                    self.apply_usage(event, None, usage);
                }
            }
            Ok(Fact::Usage(fact)) => self.apply_usage(event, fact.model.as_deref(), &fact.usage),
            Ok(Fact::Recovery(fact)) => self.core.health.recovered(&fact),
            Ok(Fact::Erasure(_)) => add_to_core_count(&mut self.core.health.erased, 1),
            _ => {}
        }
    }

    fn apply_fact(&mut self, event: &Event, fact: Fact) -> Option<Anomaly> {
        match fact {
            Fact::SessionCreated(fact) => return self.apply_session_created(event, fact),
            Fact::SessionUpdated(fact) => self.core.fields.update(fact),
            Fact::SessionStatus(fact) => {
                self.core.status = fact.status;
                self.core.reason = fact.reason.map(clip_state_text);
                self.core.summary = fact.summary.map(clip_state_text).or(self.core.summary.take());
            }
            Fact::Rewind(fact) => {
                self.apply_rewind(event, &fact);
                return (fact.to >= event.seq || fact.to.0 == 0)
                    .then_some(Anomaly::UnknownPosition);
            }
            Fact::WriterOpened(fact) => {
                let stale = fact.epoch <= self.core.epoch;
                self.core.epoch = self.core.epoch.max(fact.epoch);
                self.core.writing = true;
                return stale.then_some(Anomaly::StaleEpoch);
            }
            Fact::WriterClosed => self.core.writing = false,
            Fact::TurnStarted(fact) => return self.apply_turn_start(event, fact),
            Fact::TurnDecided(fact) => {
                self.core.turns.decided = Some(event.seq);
                let turn = self.turn_named(fact.turn, applied_lane(event));
                return self.apply_to_turn(turn, |turn| turn.decided = Some(event.seq));
            }
            Fact::TurnFinished(fact) => return self.apply_turn_end(event, fact),
            Fact::Message(_) => {}
            Fact::ToolCall(fact) => return self.apply_tool_call(event, fact),
            Fact::ToolResult(fact) => return self.apply_tool_result(&fact),
            Fact::ApiCall(fact) => return self.apply_api_call(event, fact),
            Fact::ApiResult(fact) => return self.apply_api_result(event, &fact),
            Fact::TaskCreated(fact) => return self.task_created(event, &fact),
            Fact::TaskChanged(fact) => return self.task_changed(event, &fact),
            Fact::TaskStatus(fact) => return self.task_status(event, &fact),
            Fact::AgentObserved(fact) => self.observe_task_agent(event, fact),
            Fact::RunStarted(_) => {
                self.core.run = Some(RunState { started: event.seq, finished: None });
            }
            Fact::RunFinished(_) => {
                if let Some(run) = &mut self.core.run {
                    run.finished = Some(event.seq);
                }
            }
            Fact::FileTouched(fact) => self.apply_file_touch(event, &fact),
            Fact::Artifact(fact) => {
                add_to_core_count(&mut self.core.artifacts.0, 1);
                add_to_core_count(&mut self.core.artifacts.1, u64::from(!fact.ok));
                self.artifacts.set(&fact.name, Some(event.seq));
            }
            Fact::Checkpoint(fact) => return self.apply_checkpoint(event, *fact),
            Fact::Thinning(fact) => self.core.checkpoints.thin(&fact.checkpoints),
            Fact::FilesRestored(fact) => self.apply_files_restored(&fact),
            Fact::Compaction(fact) => return self.apply_compaction(event, &fact),
            Fact::ContextRestored(fact) => return self.apply_context_restored(event, &fact),
            Fact::Pin(fact) => return self.apply_pin(event, &fact),
            Fact::Usage(fact) => {
                self.apply_usage(event, fact.model.as_deref(), &fact.usage);
                self.apply_turn_usage(event, &fact.usage);
            }
            Fact::Limit(fact) => {
                if self.core.limits.len() < COUNTED || self.core.limits.contains_key(&fact.name) {
                    self.core.limits.insert(fact.name.clone(), fact);
                }
            }
            Fact::Model(fact) => {
                self.core.model = Some((clip_state_text(fact.model), event.seq));
                self.core.window = fact.window;
            }
            Fact::Git(fact) => {
                self.core.git = Some(GitState {
                    branch: fact.branch.map(clip_state_text),
                    head: fact.head.map(clip_state_text),
                    error: fact.error.map(clip_state_text),
                    ..GitState::default()
                });
            }
            Fact::Resources(fact) => {
                self.core.peak_rss_bytes = self.core.peak_rss_bytes.max(fact.rss_bytes);
                self.core.resources = Some(fact);
            }
            Fact::Dependencies(_) => self.core.dependencies = Some(event.seq),
            Fact::Log(fact) => {
                if fact.level == "error" {
                    self.core.last_error = Some(event.seq);
                }
                apply_count(&mut self.core.logs, &fact.level);
            }
            Fact::Recovery(fact) => self.core.health.recovered(&fact),
            Fact::Erasure(fact) => {
                add_to_core_count(&mut self.core.health.erased, 1);
                return (fact.seq >= event.seq).then_some(Anomaly::UnknownPosition);
            }
            Fact::PlanRecorded(_)
            | Fact::PermissionAsked(_)
            | Fact::PermissionAnswered(_)
            | Fact::SourceRecord(_)
            | Fact::SourceProgress(_)
            | Fact::Foreign => {}
            Fact::Erased => self.apply_erased(event),
        }
        None
    }

    /// A number that was used stays used, even if its event can no longer be read.
    fn apply_erased(&mut self, event: &Event) {
        if event.kind == Kind::CHECKPOINT_CREATED {
            self.core.checkpoints.number(None);
        }
    }

    fn apply_session_created(&mut self, event: &Event, fact: SessionCreated) -> Option<Anomaly> {
        if fact.fields.forked_from(event.seq).is_some() {
            *self = std::mem::take(self).forked();
        }
        let again = self.core.id.is_some();
        if !again {
            self.core.id = Some(fact.session);
            self.core.created = event.at;
            self.core.fields.project_id.clone_from(&fact.fields.project_id);
        }
        self.core.fields.update(fact.fields);
        again.then_some(Anomaly::SessionCreatedTwice)
    }

    fn apply_key(&mut self, key: &str, event: &Event) {
        if self.key(key).is_some() {
            return;
        }
        let [new, old] = &mut self.keys;
        if new.len() >= KEYS {
            *old = std::mem::replace(new, StateTable::new("keys"));
        }
        new.set(&state_hashed_key(key), Some(event.seq));
    }

    fn apply_message(&mut self, event: &Event) -> Option<Anomaly> {
        let revised = event.replaces();
        if let Some(old) = revised {
            self.apply_revision(event, old);
        }
        // All versions of a message are one.
        let one = u64::from(revised.is_none());
        add_to_core_count(&mut self.core.messages.total, one);
        self.core.messages.last = Some(event.seq);
        // The fold needs only the role. A message may be long, so it is not parsed completely.
        let role =
            event.data.as_ref().and_then(|data| data.field("role")).and_then(plain_or_parsed);
        let instructs = matches!(role.as_deref(), Some("system" | "developer"));
        self.apply_to_lane(event, |lane| {
            lane.first.get_or_insert(event.seq);
            let begins = lane.messages == lane.instructions.len() as u64;
            if instructs
                && begins
                && revised.is_none()
                && lane.instructions.len() < LaneState::INSTRUCTIONS
            {
                lane.instructions.push(event.seq);
            }
            add_to_core_count(&mut lane.messages, one);
        });
        let data = event.data.as_ref()?;
        match role {
            Some(role) if data.has_any_field(&["content", "tool_calls"]) => {
                if revised.is_none() {
                    apply_count(&mut self.core.messages.by_role, &role);
                }
                None
            }
            _ => Some(Anomaly::Malformed),
        }
    }

    /// A lane by its name; "" for the main lane.
    #[must_use]
    pub fn lane(&self, name: &str) -> Option<&LaneState> {
        if name.is_empty() { Some(&self.core.main) } else { self.lanes.get(name) }
    }

    pub(super) fn apply_to_lane(&mut self, event: &Event, change: impl FnOnce(&mut LaneState)) {
        match &event.lane {
            Some(lane) => self.lanes.update(lane.as_str(), change),
            None => change(&mut self.core.main),
        }
    }

    /// The turn that a fact names, or else the open turn of its lane.
    pub(super) fn turn_named(&self, turn: Option<TurnNumber>, lane: &str) -> Option<TurnNumber> {
        turn.or_else(|| self.lane(lane).and_then(|lane| lane.turn))
    }

    fn apply_to_turn(
        &mut self,
        turn: Option<TurnNumber>,
        change: impl FnOnce(&mut TurnState),
    ) -> Option<Anomaly> {
        let name = turn.map(|turn| turn.to_string());
        match name.filter(|name| self.turns.get(name).is_some_and(|turn| turn.last.is_none())) {
            Some(name) => {
                self.turns.update(&name, change);
                None
            }
            None => Some(Anomaly::UnknownTurn),
        }
    }

    fn apply_turn_start(&mut self, event: &Event, fact: TurnStart) -> Option<Anomaly> {
        let last = self.core.turns.last;
        let number = fact.turn.unwrap_or(last.next());
        let again = number <= last;
        self.core.turns.last = last.max(number);
        add_to_core_count(&mut self.core.turns.total, 1);
        let turn = TurnState {
            first: event.seq,
            started: event.at,
            agent: clip_state_text(fact.agent),
            role: fact.role,
            ..TurnState::default()
        };
        self.turns.set(&number.to_string(), Some(turn));
        self.apply_to_lane(event, |lane| lane.turn = Some(number));
        again.then_some(Anomaly::DuplicateTurn)
    }

    /// The name of the turn of an event.
    pub(super) fn turn_of(&self, event: &Event) -> Option<String> {
        self.turn_named(event.turn, applied_lane(event)).map(|turn| turn.to_string())
    }

    /// Adds to the usage of the turn of a live event.
    fn apply_turn_usage(&mut self, event: &Event, usage: &Usage) {
        let turn = self.turn_of(event);
        if let Some(turn) = turn.filter(|turn| self.turns.get(turn).is_some()) {
            self.turns.update(&turn, |turn| turn.usage.add(usage));
        }
    }

    fn apply_turn_end(&mut self, event: &Event, fact: TurnEnd) -> Option<Anomaly> {
        if let Some(usage) = &fact.usage {
            self.apply_usage(event, None, usage);
        }
        let turn = self.turn_named(fact.turn, applied_lane(event));
        let anomaly = self.apply_to_turn(turn, |turn| {
            turn.usage.add(&fact.usage.unwrap_or_default());
            turn.last = Some(event.seq);
            turn.status = clip_state_text(fact.status);
        });
        add_to_core_count(&mut self.core.turns.finished, u64::from(anomaly.is_none()));
        self.apply_to_lane(event, |lane| {
            if lane.turn == turn {
                lane.turn = None;
            }
        });
        anomaly
    }

    fn apply_tool_call(&mut self, event: &Event, fact: ToolCall) -> Option<Anomaly> {
        add_to_core_count(&mut self.core.calls.tools, 1);
        add_to_core_count(&mut self.core.calls.observed, u64::from(fact.observed));
        // If no message holds the call, the call itself is part of the conversation.
        if self.lane(applied_lane(event)).is_none_or(|lane| lane.first.is_none()) {
            self.apply_to_lane(event, |lane| lane.first = Some(event.seq));
        }
        self.apply_call_start(event, &fact.call, clip_state_text(fact.name), fact.observed)
    }

    fn apply_tool_result(&mut self, fact: &ToolResult) -> Option<Anomaly> {
        add_to_core_count(&mut self.core.calls.finished, 1);
        add_to_core_count(&mut self.core.calls.failed, u64::from(!fact.ok));
        self.apply_call_end(&fact.call)
    }

    fn apply_api_call(&mut self, event: &Event, fact: ApiCall) -> Option<Anomaly> {
        add_to_core_count(&mut self.core.calls.requests, 1);
        let call = fact.call?;
        let odd = self.apply_call_start(event, &call, "api".to_owned(), false);
        let open = self.calls.get(call.as_str()).cloned();
        self.calls.set(call.as_str(), open.map(|open| CallState { request: true, ..open }));
        odd
    }

    fn apply_api_result(&mut self, event: &Event, fact: &ApiResult) -> Option<Anomaly> {
        add_to_core_count(&mut self.core.calls.answers, 1);
        add_to_core_count(&mut self.core.calls.errors, u64::from(fact.error.is_some()));
        if let Some(usage) = &fact.usage {
            self.apply_usage(event, fact.model.as_deref(), usage);
            self.apply_turn_usage(event, usage);
            let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
            if tokens > 0 {
                self.apply_to_lane(event, |lane| lane.reported = Some((event.seq, tokens)));
            }
        }
        fact.call.as_ref().and_then(|call| self.apply_call_end(call))
    }

    fn apply_call_start(
        &mut self,
        event: &Event,
        call: &CallId,
        name: String,
        observed: bool,
    ) -> Option<Anomaly> {
        let again = self.calls.get(call.as_str()).is_some();
        let state = CallState {
            seq: event.seq,
            name,
            observed,
            request: false,
            lane: event.lane.clone(),
            task: event.task.clone(),
        };
        self.calls.set(call.as_str(), Some(state));
        again.then_some(Anomaly::DuplicateCall)
    }

    fn apply_call_end(&mut self, call: &CallId) -> Option<Anomaly> {
        let unknown = self.calls.get(call.as_str()).is_none();
        self.calls.set(call.as_str(), None);
        unknown.then_some(Anomaly::UnknownCall)
    }

    fn apply_usage(&mut self, event: &Event, model: Option<&str>, usage: &Usage) {
        self.core.usage.add(usage);
        for key in state_usage_keys(model, applied_lane(event)) {
            self.usage.update(&key, |sum| sum.add(usage));
        }
    }

    fn apply_file_touch(&mut self, event: &Event, fact: &FileTouch) {
        add_to_core_count(self.core.files.entry(fact.op).or_default(), 1);
        let state = FileState { op: fact.op, seq: event.seq, after: fact.after };
        if let Some(to) = &fact.to {
            self.files.set(to, Some(FileState { op: FileOp::Write, ..state.clone() }));
        }
        self.files.set(&fact.path, Some(state));
    }

    fn apply_checkpoint(&mut self, event: &Event, fact: Checkpoint) -> Option<Anomaly> {
        let last = self.core.checkpoints.last;
        let number = self.core.checkpoints.number(fact.number);
        add_to_core_count(&mut self.core.checkpoints.total, 1);
        self.core.checkpoints.newest = Some(number);
        self.core.checkpoints.snapshot = fact.snapshot.or(self.core.checkpoints.snapshot);
        let state = CheckpointState::new(event, fact);
        self.checkpoints.set(&number.to_string(), Some(state));
        (number <= last).then_some(Anomaly::DuplicateCheckpoint)
    }

    fn apply_rewind(&mut self, event: &Event, fact: &Rewind) {
        add_to_core_count(&mut self.core.rewinds, 1);
        self.core.last_rewind = Some(event.seq);
        if fact.files {
            self.core.restoring = Some(event.seq);
        }
    }

    fn apply_files_restored(&mut self, fact: &FilesRestored) {
        if self.core.restoring == Some(fact.rewind) {
            self.core.restoring = None;
        }
    }

    fn apply_compaction(&mut self, event: &Event, fact: &Compaction) -> Option<Anomaly> {
        add_to_core_count(&mut self.core.compactions, 1);
        let impossible =
            fact.first == Seq::ZERO || fact.first > fact.last || fact.last >= event.seq;
        if impossible || fact.keeps.len() > LiveCompaction::KEEPS || !fact.keeps.is_sorted() {
            return Some(Anomaly::UnknownPosition);
        }
        let new = LiveCompaction {
            at: event.seq,
            first: fact.first,
            last: fact.last,
            keeps: fact.keeps.clone(),
        };
        let mut taken = false;
        self.apply_to_lane(event, |lane| taken = lane.compact(new));
        (!taken).then_some(Anomaly::UnknownPosition)
    }

    fn apply_pin(&mut self, event: &Event, fact: &ContextPin) -> Option<Anomaly> {
        if fact.message >= event.seq {
            return Some(Anomaly::UnknownPosition);
        }
        let mut full = false;
        self.apply_to_lane(event, |lane| {
            match (fact.pinned, lane.pins.binary_search(&fact.message)) {
                (true, Err(_)) if lane.pins.len() >= LaneState::PINS => full = true,
                (true, Err(place)) => lane.pins.insert(place, fact.message),
                (false, Ok(place)) => {
                    lane.pins.remove(place);
                }
                _ => {}
            }
        });
        full.then_some(Anomaly::UnknownPosition)
    }

    fn apply_context_restored(&mut self, event: &Event, fact: &ContextRestored) -> Option<Anomaly> {
        let current = self.lane(applied_lane(event)).and_then(LaneState::compacted);
        if current.map(|standing| standing.at) != Some(fact.compaction) {
            return Some(Anomaly::UnknownPosition);
        }
        self.apply_to_lane(event, |lane| {
            let _ = lane.compactions.pop();
            // Token counts reported since then belong to the compacted context.
            lane.reported = lane.reported.filter(|(seq, _)| *seq < fact.compaction);
        });
        None
    }
}

/// The text of a JSON string. Most have no escape and are not parsed.
fn plain_or_parsed(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let plain = |inner: &&str| inner.bytes().all(|b| b >= b' ' && b != b'"' && b != b'\\');
    match inner.filter(plain) {
        Some(inner) => Some(Cow::Borrowed(inner)),
        None => serde_json::from_str(json).ok(),
    }
}

fn applied_lane(event: &Event) -> &str {
    event.lane.as_ref().map(LaneId::as_str).unwrap_or_default()
}

pub(super) fn clip_state_text(text: String) -> String {
    if text.len() <= CLIP { text } else { text.chars().take(CLIP).collect() }
}

fn apply_count(counts: &mut BTreeMap<String, u64>, name: &str) {
    let name = if counts.len() < COUNTED || counts.contains_key(name) { name } else { "other" };
    if let Some(count) = counts.get_mut(name) {
        add_to_core_count(count, 1);
    } else {
        counts.insert(name.chars().take(CLIP).collect(), 1);
    }
}
