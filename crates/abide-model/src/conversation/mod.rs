//! Conversations: the messages of a session in an order that a model's API accepts.
//!
//! The APIs are strict: exactly one result follows each call at once, and no result occurs anywhere
//! else. A journal is not: agents die between a call and its result, and results arrive in the
//! order in which the tools end. A [`Conversation`] reads the live messages of a session lane by
//! lane. It knows which calls have no result, which events would provide one, and which order is
//! valid.

mod lane;
mod lane_order;
mod reading;
mod repair;
mod revisions;
#[cfg(test)]
mod tests;

pub(crate) use lane_order::{AwaitedResult, PlacedEntry};
pub use lane_order::{ContextSource, OrderAnomaly, OrderAnomalyKind};
pub use reading::OUTCOME_UNKNOWN;
pub use revisions::{MessageRevisions, MessageVersions};

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::message::RecordedMessage;
use crate::{
    CallId, Event, Fact, FactError, Kind, LaneId, MessageForm, Seq, TaskId, ToolCall, TurnNumber,
};
use lane::{BegunCall, CompactedRange, Lane, PriorCallRecord};
use reading::MessageReading;

/// How a call was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallForm {
    /// In a message of this form.
    Message(MessageForm),
    /// By the `tool.called` of its execution.
    Tool,
    /// By the `api.called` of a request to a model.
    Api,
}

/// A call without a recorded result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnansweredCall {
    /// Its event.
    pub seq: Seq,
    /// Its lane.
    pub lane: Option<LaneId>,
    /// Its turn.
    pub turn: Option<TurnNumber>,
    /// Its task.
    pub task: Option<TaskId>,
    /// Its id.
    pub call: CallId,
    /// The tool; `api` for a request to a model.
    pub name: String,
    /// How it was recorded.
    pub form: CallForm,
}

/// The live messages and calls of a session, lane by lane.
#[derive(Debug, Default)]
pub struct Conversation {
    lanes: BTreeMap<Option<LaneId>, Lane>,
    /// Executions without a result.
    executed: HashMap<String, UnansweredCall>,
    /// Results of executions whose call is not known yet.
    finished: HashMap<String, Seq>,
    /// The lane of the newest call in a message, by call id.
    called: HashMap<String, Option<LaneId>>,
}

impl Conversation {
    /// Adds the next live event and its fact. A malformed message may still be in another API's
    /// form; otherwise it counts as unknown.
    pub fn event(&mut self, event: &Event, fact: &Result<Fact, FactError>) {
        if event.kind == Kind::MESSAGE_ADDED {
            let message = event.data.as_ref().and_then(RecordedMessage::of);
            self.message(event, message.as_ref());
            return;
        }
        let Ok(fact) = fact else { return };
        match fact {
            Fact::ToolCall(call) => {
                self.open(event, &call.call, &call.name, CallForm::Tool);
                self.begin(event, call);
            }
            Fact::ApiCall(call) => {
                if let Some(call) = &call.call {
                    self.open(event, call, "api", CallForm::Api);
                }
            }
            Fact::ToolResult(result) => self.finish(event, &result.call),
            Fact::ApiResult(result) => {
                if let Some(call) = &result.call {
                    self.executed.remove(call.as_str());
                }
            }
            // An impossible range covers nothing.
            Fact::Compaction(range) if range.first <= range.last && range.last < event.seq => {
                let compacted =
                    CompactedRange { at: event.seq, first: range.first, last: range.last };
                self.lane(event).compacted.push(compacted);
            }
            Fact::ContextRestored(restored) => {
                let compacted = &mut self.lane(event).compacted;
                // Compactions are in the order of the journal.
                if let Ok(at) = compacted.binary_search_by_key(&restored.compaction, |one| one.at) {
                    compacted.remove(at);
                }
            }
            _ => {}
        }
    }

    /// Adds the next message; `None` if it is not known or cannot be read.
    pub(crate) fn message(&mut self, event: &Event, message: Option<&RecordedMessage>) {
        let reading = message.and_then(MessageReading::of);
        let mut before = Vec::new();
        for call in reading.iter().flat_map(|reading| &reading.calls) {
            self.called.insert(call.id.clone(), event.lane.clone());
            let finished = self.finished.remove(&call.id);
            let taken = self.take(&call.id, &event.lane).unwrap_or_default();
            before.push(PriorCallRecord { executed: taken.executed.or(finished), ..taken });
        }
        for id in reading.iter().flat_map(|reading| &reading.served) {
            let _ = self.take(id, &event.lane);
        }
        self.lane(event).message(event, reading, before);
    }

    /// What was recorded earlier about a call in a message of this lane, in the lane itself or
    /// outside the lanes.
    fn take(&mut self, id: &str, to: &Option<LaneId>) -> Option<PriorCallRecord> {
        let mut lanes = [to.clone()].into_iter().chain(to.is_some().then_some(None));
        lanes.find_map(|own| self.lanes.get_mut(&own)?.take(id, &own, to))
    }

    /// Adds a `tool.called`: the execution of a call in a message, or a bare call.
    fn begin(&mut self, event: &Event, call: &ToolCall) {
        let id = call.call.as_str();
        let mut hasher = DefaultHasher::new();
        event.data.as_ref().map(|data| data.as_str()).hash(&mut hasher);
        let begun = hasher.finish();
        // Tools often run outside the lanes: the call belongs to the lane of its message.
        let said = self.called.get(id).filter(|said| **said != event.lane).cloned();
        for name in [Some(event.lane.clone()), said].into_iter().flatten() {
            let Some(lane) = self.lanes.get_mut(&name) else { continue };
            match lane.begin(id, begun, name == event.lane) {
                BegunCall::Known => return,
                BegunCall::Instead((lane, bare)) => {
                    if let Some(lane) = self.lanes.get_mut(&lane) {
                        lane.give_back(bare);
                    }
                    return;
                }
                BegunCall::None => {}
            }
        }
        self.lane(event).bare(event, call, begun);
    }

    fn lane(&mut self, event: &Event) -> &mut Lane {
        self.lanes.entry(event.lane.clone()).or_default()
    }

    fn open(&mut self, event: &Event, call: &CallId, name: &str, form: CallForm) {
        let open = UnansweredCall {
            seq: event.seq,
            lane: event.lane.clone(),
            turn: event.turn,
            task: event.task.clone(),
            call: call.clone(),
            name: name.to_owned(),
            form,
        };
        self.executed.insert(call.0.clone(), open);
    }

    fn finish(&mut self, event: &Event, call: &CallId) {
        // Tools often run outside the lanes: the call belongs to the lane of its message.
        let lane = self.executed.remove(call.as_str()).map(|open| open.lane);
        let said = self.called.get(call.as_str()).cloned();
        let mut said_already = said.is_some();
        for lane in [Some(event.lane.clone()), lane, said].into_iter().flatten() {
            let Some(lane) = self.lanes.get_mut(&lane) else { continue };
            if lane.executed(call.as_str(), event.seq) {
                return;
            }
            said_already |= lane.has_call(call.as_str());
        }
        // A second outcome of a call does not count for the next call with the same id.
        if !said_already {
            self.finished.insert(call.0.clone(), event.seq);
        }
    }

    /// A summary covers this call, so no later message can hold it.
    pub(crate) fn summarized(&mut self, lane: &Option<LaneId>, call: &str) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.keep(call);
        }
    }

    /// Has this tool been called without a result so far?
    pub(crate) fn is_running(&self, call: &str) -> bool {
        self.executed.contains_key(call)
    }

    /// Does a message hold a call with this id?
    pub(crate) fn has_call(&self, call: &str) -> bool {
        self.called.contains_key(call)
    }

    /// The calls without a result, in the order in which they were recorded. Calls that a
    /// compaction covers are left out: the model does not see them.
    #[must_use]
    pub fn open_calls(&self) -> Vec<UnansweredCall> {
        let mut open: Vec<UnansweredCall> = self.executed.values().cloned().collect();
        for (name, lane) in &self.lanes {
            let cover = lane.cover();
            // A bare call is listed by its execution.
            let calls = lane.calls.iter().filter(|call| call.is_open() && !call.bare);
            open.extend(calls.filter(|call| !cover.contains(call.seq)).map(|call| {
                UnansweredCall {
                    seq: call.seq,
                    lane: name.clone(),
                    turn: call.turn,
                    task: call.task.clone(),
                    call: CallId(call.id.clone()),
                    name: call.name.clone(),
                    form: CallForm::Message(call.form),
                }
            }));
        }
        // The outcome of an execution precedes the message that reports it to the model.
        open.sort_by(|a, b| {
            let message = |form| matches!(form, CallForm::Message(_));
            (message(a.form), a.seq).cmp(&(message(b.form), b.seq))
        });
        open
    }
}
