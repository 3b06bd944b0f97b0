//! The conversation of one lane: its messages, and which result belongs to which call.
//!
//! A call is recorded in a message, or only by a `tool.called` (a bare call). If both are recorded,
//! in either order, it is one call and the message holds it. The two are matched by their id.

use std::collections::{HashMap, HashSet};

use super::reading::{MessageReading, ReadResult, SpeakerRole};
use crate::{Event, LaneId, MessageForm, Seq, TaskId, ToolCall, TurnNumber};

/// A message in its place, or a bare call.
#[derive(Debug)]
pub(super) struct LaneEntry {
    pub(super) seq: Seq,
    /// `None` if its content is unknown: it was erased or is malformed.
    pub(super) role: Option<SpeakerRole>,
    /// The range of its calls.
    pub(super) calls: (usize, usize),
    /// It holds something besides results. False for a bare call that a message has taken over.
    pub(super) rest: bool,
    /// It is a bare call.
    pub(super) bare: bool,
}

/// A call in a message, or a bare one.
#[derive(Debug)]
pub(super) struct LaneCall {
    pub(super) message: usize,
    pub(super) seq: Seq,
    pub(super) turn: Option<TurnNumber>,
    pub(super) task: Option<TaskId>,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) form: MessageForm,
    /// The message with its result.
    pub(super) result: Option<usize>,
    /// That result was recorded later, by a repair.
    pub(super) repaired: bool,
    /// The `tool.finished` with its outcome.
    pub(super) executed: Option<Seq>,
    /// No message holds it.
    pub(super) bare: bool,
    /// Hash of the `tool.called` that started it.
    pub(super) begun: Option<u64>,
    /// The bare call that its message has taken over, if that had already ended.
    pub(super) taken: Option<BareCall>,
}

/// A bare call: its lane, and its index among the calls there.
pub(super) type BareCall = (Option<LaneId>, usize);

/// What was recorded about a call before the message that holds it.
#[derive(Debug, Default)]
pub(super) struct PriorCallRecord {
    pub(super) executed: Option<Seq>,
    pub(super) begun: Option<u64>,
    /// The message with its result.
    pub(super) result: Option<usize>,
    pub(super) taken: Option<BareCall>,
}

/// Which call a `tool.called` starts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BegunCall {
    /// One that is known here.
    Known,
    /// A call of a message here. The message had taken over this bare call, which turns out to be
    /// another one.
    Instead(BareCall),
    /// No call here.
    None,
}

/// A result that no call waited for.
#[derive(Debug)]
pub(super) struct StrayResult {
    pub(super) message: usize,
    pub(super) id: String,
    /// The call that already had a result; `None` if there is no such call.
    pub(super) second_for: Option<usize>,
    /// A call with its id came later.
    pub(super) early: bool,
}

/// A call with the id of an earlier one.
#[derive(Debug)]
pub(super) struct DuplicateCallId {
    pub(super) first: usize,
    pub(super) second: usize,
}

/// A range of the conversation that a summary replaces.
#[derive(Debug, Clone, Copy)]
pub(super) struct CompactedRange {
    pub(super) at: Seq,
    pub(super) first: Seq,
    pub(super) last: Seq,
}

/// The conversation of one lane.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) messages: Vec<LaneEntry>,
    pub(super) calls: Vec<LaneCall>,
    pub(super) loose: Vec<StrayResult>,
    pub(super) same_ids: Vec<DuplicateCallId>,
    pub(super) compacted: Vec<CompactedRange>,
    /// Calls without a result, by id, newest last.
    open: HashMap<String, Vec<usize>>,
    /// The newest calls of each id: those of one message, or a bare one.
    newest: HashMap<String, Vec<usize>>,
    /// The newest bare call of each id that no message has taken over.
    bare: HashMap<String, usize>,
    /// Calls that the API ran itself; messages hold them with their results.
    served: HashSet<String>,
    /// Results that came before any call with their id.
    early: HashMap<String, Vec<usize>>,
}

impl Lane {
    /// Adds a message; `reading` is `None` if its content is unknown. `before` holds what was
    /// recorded earlier about each of its calls.
    pub(super) fn message(
        &mut self,
        event: &Event,
        reading: Option<MessageReading<'_>>,
        before: Vec<PriorCallRecord>,
    ) {
        let index = self.messages.len();
        let first = self.calls.len();
        let Some(reading) = reading else {
            let (role, calls) = (None, (first, first));
            let unknown = LaneEntry { seq: event.seq, role, calls, rest: false, bare: false };
            return self.messages.push(unknown);
        };
        for (call, before) in reading.calls.into_iter().zip(before) {
            self.call(LaneCall {
                message: index,
                seq: event.seq,
                turn: event.turn,
                task: event.task.clone(),
                id: call.id.clone(),
                name: call.name.clone(),
                form: call.form,
                result: before.result,
                repaired: false,
                executed: before.executed,
                bare: false,
                begun: before.begun,
                taken: before.taken,
            });
        }
        let (role, calls) = (Some(reading.role), (first, self.calls.len()));
        let rest = reading.rest;
        self.messages.push(LaneEntry { seq: event.seq, role, calls, rest, bare: false });
        for result in reading.results {
            self.result(index, &result);
        }
        self.served.extend(reading.served);
    }

    /// Adds a call that no message holds.
    pub(super) fn bare(&mut self, event: &Event, call: &ToolCall, begun: u64) {
        let (index, message) = (self.calls.len(), self.messages.len());
        self.bare.insert(call.call.0.clone(), index);
        self.call(LaneCall {
            message,
            seq: event.seq,
            turn: event.turn,
            task: event.task.clone(),
            id: call.call.0.clone(),
            name: call.name.clone(),
            form: MessageForm::Abide,
            result: None,
            repaired: false,
            executed: None,
            bare: true,
            begun: Some(begun),
            taken: None,
        });
        let (role, calls) = (Some(SpeakerRole::Assistant), (index, index + 1));
        self.messages.push(LaneEntry { seq: event.seq, role, calls, rest: true, bare: true });
    }

    /// Adds a `tool.called` and returns which call it starts. In another lane, only a call that
    /// waits to be started counts.
    pub(super) fn begin(&mut self, id: &str, begun: u64, own: bool) -> BegunCall {
        if own && self.served.contains(id) {
            return BegunCall::Known;
        }
        let newest = self.newest.get(id).map(Vec::as_slice).unwrap_or_default();
        for at in newest {
            let Some(call) = self.calls.get_mut(*at) else { continue };
            // Tools run after the message: an earlier execution belongs to another call with the
            // same id.
            let answered = call.result.is_some_and(|result| result >= call.message);
            if let Some(bare) = call.taken.take_if(|_| !answered) {
                (call.executed, call.begun) = (None, Some(begun));
                if call.result.take().is_some() {
                    self.open.entry(id.to_owned()).or_default().push(*at);
                }
                return BegunCall::Instead(bare);
            }
            if call.begun.is_none() && (own || call.is_open()) {
                call.begun = Some(begun);
                return BegunCall::Known;
            }
        }
        // Recorded twice, or run again. A bare call that has ended leaves its id to the next.
        let calls = newest.iter().filter_map(|at| self.calls.get(*at));
        let mut same = calls.filter(|call| call.begun == Some(begun));
        match same.any(|call| !call.bare || call.is_open()) {
            true => BegunCall::Known,
            false => BegunCall::None,
        }
    }

    /// Hands the newest bare call with this id to a message of the lane `to`; this is the lane
    /// `own`.
    pub(super) fn take(
        &mut self,
        id: &str,
        own: &Option<LaneId>,
        to: &Option<LaneId>,
    ) -> Option<PriorCallRecord> {
        let at = self.bare.remove(id)?;
        let call = self.calls.get(at)?;
        self.messages.get_mut(call.message)?.rest = false;
        self.newest.remove(id);
        if let Some(open) = self.open.get_mut(id) {
            open.retain(|open| *open != at);
        }
        Some(PriorCallRecord {
            executed: call.executed,
            begun: call.begun,
            result: call.result.filter(|_| own == to),
            taken: (!call.is_open()).then(|| (own.clone(), at)),
        })
    }

    /// Makes sure that no later message takes over a bare call with this id.
    pub(super) fn keep(&mut self, id: &str) {
        self.bare.remove(id);
    }

    /// Restores a bare call that a message had taken over: it was another call.
    pub(super) fn give_back(&mut self, at: usize) {
        let message = self.calls.get(at).map(|call| call.message);
        if let Some(said) = message.and_then(|message| self.messages.get_mut(message)) {
            said.rest = true;
        }
    }

    /// Is there a call with this id?
    pub(super) fn has_call(&self, id: &str) -> bool {
        self.newest.contains_key(id)
    }

    fn call(&mut self, mut call: LaneCall) {
        let index = self.calls.len();
        let newest = self.newest.entry(call.id.clone()).or_default();
        if let Some(first) = newest.last().copied() {
            self.same_ids.push(DuplicateCallId { first, second: index });
            if self.calls.get(first).is_some_and(|first| first.message != call.message) {
                newest.clear();
            }
        } else if call.result.is_none()
            && let Some(loose) = self.early.get_mut(&call.id).and_then(Vec::pop)
            && let Some(loose) = self.loose.get_mut(loose)
        {
            loose.early = true;
            call.result = Some(loose.message);
        }
        newest.push(index);
        if call.result.is_none() {
            self.open.entry(call.id.clone()).or_default().push(index);
        }
        self.calls.push(call);
    }

    fn result(&mut self, message: usize, &ReadResult { id, unknown }: &ReadResult<'_>) {
        let calls = &self.calls;
        let is_open = |at: &usize| calls.get(*at).is_some_and(LaneCall::is_open);
        let open = self.open.get_mut(id).and_then(|open| match unknown {
            true => open.iter().rposition(is_open).map(|at| open.remove(at)),
            false => open.pop(),
        });
        if let Some(call) = open.and_then(|open| self.calls.get_mut(open)) {
            call.result = Some(message);
            call.repaired = unknown;
            return;
        }
        // A repair closes a call that was also executed twice: as an execution and in its message.
        // What was recorded about the execution says as much or more.
        if unknown && self.open.get(id).is_some_and(|open| !open.is_empty()) {
            return;
        }
        let second_for = self.newest.get(id).and_then(|newest| newest.last().copied());
        if second_for.is_none() {
            self.early.entry(id.to_owned()).or_default().push(self.loose.len());
        }
        self.loose.push(StrayResult { message, id: id.to_owned(), second_for, early: false });
    }

    /// Adds the end of an execution, and returns whether a call here waited for it.
    pub(super) fn executed(&mut self, id: &str, seq: Seq) -> bool {
        // Of several calls with the same id in a message, the first that waits.
        let waiting = self.open.get(id).and_then(|open| {
            let newest = self.calls.get(*open.last()?)?.message;
            let waits = |at: &&usize| {
                self.calls.get(**at).is_some_and(|call| call.message == newest && call.is_open())
            };
            open.iter().find(waits).or(open.last())
        });
        let newest = || self.newest.get(id)?.last().copied();
        match waiting.copied().or_else(newest).and_then(|at| self.calls.get_mut(at)) {
            Some(call) if call.executed.is_none() => {
                call.executed = Some(seq);
                true
            }
            _ => false,
        }
    }

    /// What the compactions in force cover.
    pub(super) fn cover(&self) -> LaneCoverage {
        let mut ranges: Vec<_> =
            self.compacted.iter().map(|range| (range.first, range.last)).collect();
        ranges.sort_unstable();
        ranges.dedup_by(|later, earlier| {
            let joins = later.0 <= earlier.1.next();
            if joins {
                earlier.1 = earlier.1.max(later.1);
            }
            joins
        });
        LaneCoverage(ranges)
    }
}

impl LaneCall {
    /// Its outcome is not recorded.
    pub(super) const fn is_open(&self) -> bool {
        self.result.is_none() && self.executed.is_none()
    }
}

/// Ranges of events that a summary covers, in order and disjoint.
#[derive(Debug)]
pub(super) struct LaneCoverage(Vec<(Seq, Seq)>);

impl LaneCoverage {
    /// Is this event covered?
    pub(super) fn contains(&self, seq: Seq) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= seq);
        let range = after.checked_sub(1).and_then(|at| self.0.get(at));
        range.is_some_and(|(_, last)| seq <= *last)
    }

    /// Is there a summary before this event?
    pub(super) fn is_before(&self, seq: Seq) -> bool {
        self.0.first().is_some_and(|(first, _)| *first <= seq)
    }
}
