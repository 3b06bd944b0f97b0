//! The order in which a model may be shown a conversation, and where the journal deviates from it.

use super::Conversation;
use super::lane::{CompactedRange, Lane, LaneCall, LaneCoverage, LaneEntry};
use super::reading::SpeakerRole;
use crate::{CallId, LaneId, Seq};

/// Something to show to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextSource {
    /// The lane.
    pub lane: Option<LaneId>,
    /// Its event.
    pub seq: Seq,
    /// The result of this call, taken from the event, which is a message or a `tool.finished`.
    /// `None` for a message without the results in it, and for the `tool.called` of a call that no
    /// message holds.
    pub result: Option<CallId>,
}

/// How the journal deviates from the order that the models' APIs require.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OrderAnomalyKind {
    /// A call has no result, and the model did not continue after it.
    NoResult,
    /// A call has no result, and the model continued without it.
    PassedOver,
    /// A result has no call.
    NoCall,
    /// A result precedes its call.
    Early,
    /// A second result for a call.
    SecondResult,
    /// A call has the id of an earlier one.
    SameId,
    /// A call has the id of an earlier one that has no result or is in the same message.
    SameIdOpen,
    /// Something is between a call and its result.
    Between,
    /// A conversation does not start with a user or instructions.
    Beginning,
}

/// A deviation from the order that the models' APIs require.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderAnomaly {
    /// What is wrong.
    pub sort: OrderAnomalyKind,
    /// The lane.
    pub lane: Option<LaneId>,
    /// The message.
    pub seq: Seq,
    /// The call it is about.
    pub call: Option<CallId>,
    /// The tool.
    pub name: String,
}

/// A message or an outcome in its place.
#[derive(Debug)]
pub(crate) enum PlacedEntry {
    Message(Seq),
    /// A call that no message holds.
    Call {
        seq: Seq,
        call: CallId,
    },
    /// The outcome of a call: in a message or, if `executed`, in a `tool.finished`.
    Result {
        seq: Seq,
        call: CallId,
        executed: bool,
    },
    Unknown(CallId),
}

/// A call without an outcome.
#[derive(Debug)]
pub(crate) struct AwaitedResult<'a> {
    /// The message that holds it, or its `tool.called`.
    pub(crate) seq: Seq,
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    /// How many calls with the same id precede it in that message.
    pub(crate) nth: usize,
}

impl Conversation {
    /// The calls of the last answer in a lane that have no outcome, and later calls that no message
    /// holds. Calls that the model has gone past no longer wait.
    pub(crate) fn waiting(&self, lane: Option<&LaneId>) -> Vec<AwaitedResult<'_>> {
        let Some(lane) = self.lanes.get(&lane.cloned()) else { return Vec::new() };
        let spoke = |said: &LaneEntry| !said.bare && said.role == Some(SpeakerRole::Assistant);
        let end = lane.messages.iter().rposition(spoke).map_or(0, |last| last + 1);
        let before = lane.messages.get(..end).unwrap_or_default();
        let others = |said: &LaneEntry| !said.bare && !spoke(said);
        let first = before.iter().rposition(others).map_or(0, |at| at + 1);
        let mut waiting = Vec::new();
        for (at, said) in lane.messages.iter().enumerate().skip(first) {
            if !said.rest || (at >= end && !said.bare) {
                continue;
            }
            let calls = lane.calls.get(said.calls.0..said.calls.1).unwrap_or_default();
            for (place, call) in calls.iter().enumerate().filter(|(_, call)| call.is_open()) {
                let same = |other: &&LaneCall| other.id == call.id;
                let nth = calls.get(..place).unwrap_or_default().iter().filter(same).count();
                waiting.push(AwaitedResult { seq: call.seq, id: &call.id, name: &call.name, nth });
            }
        }
        waiting
    }

    /// The messages of one lane and the calls that no message holds, each followed by its outcomes.
    /// Ignores compactions.
    pub(crate) fn placed(&self, lane: Option<&LaneId>) -> Vec<PlacedEntry> {
        let Some(lane) = self.lanes.get(&lane.cloned()) else { return Vec::new() };
        let mut placed = Vec::with_capacity(lane.messages.len());
        for said in lane.messages.iter().filter(|said| said.role.is_some() && said.rest) {
            if !said.bare {
                placed.push(PlacedEntry::Message(said.seq));
            }
            for call in lane.calls.get(said.calls.0..said.calls.1).unwrap_or_default() {
                let message = call.result.and_then(|at| lane.messages.get(at));
                let id = CallId(call.id.clone());
                if said.bare {
                    placed.push(PlacedEntry::Call { seq: said.seq, call: id.clone() });
                }
                placed.push(match (message, call.executed) {
                    (Some(said), _) => {
                        PlacedEntry::Result { seq: said.seq, call: id, executed: false }
                    }
                    (None, Some(seq)) => PlacedEntry::Result { seq, call: id, executed: true },
                    (None, None) => PlacedEntry::Unknown(id),
                });
            }
        }
        placed
    }

    /// What a model may be shown, in order, lane by lane, the main lane first. Each result directly
    /// follows the message with its call, wherever it is in the journal. A call has at most one
    /// result, a result has a call, and each call occurs once, even if no message holds it. Events
    /// that a compaction covers and unknown messages are left out. A call without a result stays
    /// without one: see [`Conversation::repairs`].
    #[must_use]
    pub fn valid_order(&self) -> Vec<ContextSource> {
        let mut shown = Vec::new();
        for (name, lane) in &self.lanes {
            let cover = lane.cover();
            let seen =
                |said: &&LaneEntry| said.role.is_some() && said.rest && !cover.contains(said.seq);
            for said in lane.messages.iter().filter(seen) {
                shown.push(ContextSource { lane: name.clone(), seq: said.seq, result: None });
                let calls = lane.calls.get(said.calls.0..said.calls.1).unwrap_or_default();
                // A result stays with its call even if a compaction covers only the result.
                shown.extend(calls.iter().filter_map(|call| {
                    let message = call.result.and_then(|at| lane.messages.get(at));
                    let seq = message.map(|said| said.seq).or(call.executed)?;
                    let result = Some(CallId(call.id.clone()));
                    Some(ContextSource { lane: name.clone(), seq, result })
                }));
            }
        }
        shown
    }

    /// Where the order of the journal is invalid, in the order of the journal, lane by lane.
    #[must_use]
    pub fn disorder(&self) -> Vec<OrderAnomaly> {
        let mut found = Vec::new();
        for (name, lane) in &self.lanes {
            let start = found.len();
            LaneOrderScan::new(lane).all(&mut |sort, seq, call, tool| {
                let call = call.map(|call| CallId(call.to_owned()));
                let (lane, name) = (name.clone(), tool.to_owned());
                found.push(OrderAnomaly { sort, lane, seq, call, name });
            });
            if let Some(new) = found.get_mut(start..) {
                new.sort_by_key(|disorder| (disorder.seq, disorder.sort));
            }
        }
        found
    }

    /// For each compaction in force, the calls that it separates from their results, unless the
    /// other one is covered too: a few of them, in the order of the journal.
    pub(crate) fn splits(&self) -> Vec<(Seq, Vec<SplitCall>)> {
        let mut splits = Vec::new();
        for lane in self.lanes.values() {
            let cover = lane.cover();
            let split = |range: &CompactedRange| (range.at, lane.split_by(range, &cover));
            splits.extend(lane.compacted.iter().map(split).filter(|(_, calls)| !calls.is_empty()));
        }
        splits.sort_by_key(|(at, _)| *at);
        splits
    }
}

impl Lane {
    fn split_by(&self, range: &CompactedRange, cover: &LaneCoverage) -> Vec<SplitCall> {
        let mut split = Vec::new();
        // A call and its result are close together. Only the calls near both ends of the range are
        // checked, so that many compactions cost no more than one.
        for edge in [range.first.back(1), range.last] {
            let end = self.calls.partition_point(|call| call.seq <= edge);
            let near = self.calls.get(end.saturating_sub(NEAR)..end).unwrap_or_default();
            for call in near {
                let shown = self.messages.get(call.message).is_some_and(|said| said.rest);
                let result = call.result.filter(|_| shown).and_then(|at| self.messages.get(at));
                let Some(result) = result else { continue };
                let crosses = call.seq <= edge && result.seq > edge && result.seq < range.at;
                if crosses && cover.contains(call.seq) != cover.contains(result.seq) {
                    split.push((CallId(call.id.clone()), call.seq, result.seq));
                }
            }
        }
        split
    }
}

/// A call that a compaction separates from its result: the events of both.
pub(crate) type SplitCall = (CallId, Seq, Seq);

/// How many calls before the end of a range are checked.
const NEAR: usize = 256;

/// Scans the messages of one lane. Skips bare calls: they have no order that an agent gave them,
/// and open ones are found by their execution.
struct LaneOrderScan<'a> {
    lane: &'a Lane,
    cover: LaneCoverage,
    /// For each message, the last message of the run of assistant messages it starts or is in.
    run_end: Vec<usize>,
    /// For each message, how many up to it hold more than results.
    spoken: Vec<usize>,
    /// For each message, whether a message from here on is unknown, or the assistant's.
    after: Vec<LaneRemainder>,
}

#[derive(Clone, Copy, Default)]
struct LaneRemainder {
    unknown: bool,
    assistant: bool,
}

type OrderAnomalySink<'f> = &'f mut dyn FnMut(OrderAnomalyKind, Seq, Option<&str>, &str);

impl<'a> LaneOrderScan<'a> {
    fn new(lane: &'a Lane) -> Self {
        let cover = lane.cover();
        let count = lane.messages.len();
        let mut spoken = Vec::with_capacity(count + 1);
        spoken.push(0);
        let mut sum = 0;
        for said in &lane.messages {
            let spoke = said.rest && said.role.is_some() && !said.bare;
            sum += usize::from(spoke && !cover.contains(said.seq));
            spoken.push(sum);
        }
        let mut run_end = vec![0; count];
        let mut after = vec![LaneRemainder::default(); count + 1];
        let mut later = LaneRemainder::default();
        let mut end = count;
        for (index, said) in lane.messages.iter().enumerate().rev() {
            if said.bare {
                if let Some(slot) = after.get_mut(index) {
                    *slot = later;
                }
                continue;
            }
            let assistant = said.role == Some(SpeakerRole::Assistant);
            // A model's answer may be recorded in several consecutive messages.
            if !assistant || end == count {
                end = index;
            }
            if let Some(slot) = run_end.get_mut(index) {
                *slot = end;
            }
            if !assistant {
                end = count;
            }
            if !cover.contains(said.seq) {
                later.unknown |= said.role.is_none();
                later.assistant |= assistant;
            }
            if let Some(slot) = after.get_mut(index) {
                *slot = later;
            }
        }
        Self { lane, cover, run_end, spoken, after }
    }

    fn all(&self, tell: OrderAnomalySink<'_>) {
        self.beginning(tell);
        self.calls(tell);
        self.results(tell);
    }

    fn beginning(&self, tell: OrderAnomalySink<'_>) {
        let mut messages = self.lane.messages.iter().filter(|said| !said.bare);
        let first = messages.find(|said| !self.cover.contains(said.seq));
        let Some(first) = first.filter(|first| !self.cover.is_before(first.seq)) else { return };
        if first
            .role
            .is_some_and(|role| !matches!(role, SpeakerRole::User | SpeakerRole::Instruction))
        {
            tell(OrderAnomalyKind::Beginning, first.seq, None, "");
        }
    }

    /// The last message of the run of assistant messages that holds the call.
    fn run_end(&self, call: &LaneCall) -> usize {
        self.run_end.get(call.message).copied().unwrap_or(call.message)
    }

    /// What follows the answer with this call.
    fn after(&self, call: &LaneCall) -> LaneRemainder {
        self.after.get(self.run_end(call) + 1).copied().unwrap_or_default()
    }

    fn calls(&self, tell: OrderAnomalySink<'_>) {
        let mut told = None;
        for call in &self.lane.calls {
            if call.bare || self.cover.contains(call.seq) {
                continue;
            }
            let end = self.run_end(call);
            if call.is_open() {
                let after = self.after(call);
                // Somebody may speak while a tool runs, and an unknown message may be the result.
                let sort = if after.assistant && !after.unknown {
                    OrderAnomalyKind::PassedOver
                } else {
                    OrderAnomalyKind::NoResult
                };
                tell(sort, call.seq, Some(&call.id), &call.name);
            }
            let Some(result) = call.result.filter(|result| *result > end) else { continue };
            let spoken = |at: usize| self.spoken.get(at).copied().unwrap_or_default();
            let apart = spoken(result) > spoken(end + 1) && !call.repaired;
            if apart && told != Some(call.message) {
                told = Some(call.message);
                tell(OrderAnomalyKind::Between, call.seq, Some(&call.id), &call.name);
            }
        }
        for same in &self.lane.same_ids {
            let calls = (self.lane.calls.get(same.first), self.lane.calls.get(same.second));
            let (Some(first), Some(second)) = calls else { continue };
            if self.cover.contains(first.seq) || self.cover.contains(second.seq) {
                continue;
            }
            if first.bare || second.bare {
                continue;
            }
            // An unknown message may be the result of the first call.
            let open = first.is_open() && !self.after(first).unknown;
            let sort = if open || first.message == second.message {
                OrderAnomalyKind::SameIdOpen
            } else {
                OrderAnomalyKind::SameId
            };
            tell(sort, second.seq, Some(&second.id), &second.name);
        }
    }

    fn results(&self, tell: OrderAnomalySink<'_>) {
        let unknown = self.lane.messages.iter().position(|said| said.role.is_none());
        for loose in &self.lane.loose {
            let Some(said) = self.lane.messages.get(loose.message) else { continue };
            if self.cover.contains(said.seq) {
                continue;
            }
            let call = loose.second_for.and_then(|call| self.lane.calls.get(call));
            let (sort, name) = match call {
                Some(call) if self.cover.contains(call.seq) => continue,
                Some(call) => (OrderAnomalyKind::SecondResult, call.name.as_str()),
                None if loose.early => (OrderAnomalyKind::Early, ""),
                // Its call may be in an unknown message.
                None if unknown.is_some_and(|unknown| unknown < loose.message) => continue,
                None => (OrderAnomalyKind::NoCall, ""),
            };
            tell(sort, said.seq, Some(&loose.id), name);
        }
    }
}
