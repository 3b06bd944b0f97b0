//! The conversation of one lane: its messages, and which result belongs to which call.

use std::collections::HashMap;

use super::reading::{MessageForm, ReadResult, Reading, Role};
use crate::{Event, Seq, TaskId, TurnNumber};

/// A message in its place.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) seq: Seq,
    /// None when it is not known what it says: it was erased, or is malformed.
    pub(super) role: Option<Role>,
    /// Its calls, first and one after the last.
    pub(super) calls: (usize, usize),
    /// It holds something besides results.
    pub(super) rest: bool,
}

/// A call that a message holds.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) message: usize,
    pub(super) seq: Seq,
    pub(super) turn: Option<TurnNumber>,
    pub(super) task: Option<TaskId>,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) form: MessageForm,
    /// The message that holds its result.
    pub(super) result: Option<usize>,
    /// A repair has recorded that result, later than the call.
    pub(super) repaired: bool,
    /// The `tool.finished` that has its outcome.
    pub(super) executed: Option<Seq>,
}

/// A result that no call waited for.
#[derive(Debug)]
pub(super) struct Loose {
    pub(super) message: usize,
    pub(super) id: String,
    /// The call that already had a result; none when there is no such call.
    pub(super) second_for: Option<usize>,
    /// A call with its id came later.
    pub(super) early: bool,
}

/// A call with the id of one before it.
#[derive(Debug)]
pub(super) struct SameId {
    pub(super) first: usize,
    pub(super) second: usize,
}

/// A part of the conversation that gave way to a summary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compacted {
    pub(super) at: Seq,
    pub(super) first: Seq,
    pub(super) last: Seq,
}

/// One lane's conversation.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) messages: Vec<Said>,
    pub(super) calls: Vec<Call>,
    pub(super) loose: Vec<Loose>,
    pub(super) same_ids: Vec<SameId>,
    pub(super) compacted: Vec<Compacted>,
    /// Calls without a result by their id, newest last.
    open: HashMap<String, Vec<usize>>,
    /// The newest call of each id.
    newest: HashMap<String, usize>,
    /// Results that came before any call of their id.
    early: HashMap<String, Vec<usize>>,
}

impl Lane {
    /// Takes a message in. `finished` tells whether a tool with this id has already run.
    pub(super) fn message(&mut self, event: &Event, mut finished: impl FnMut(&str) -> Option<Seq>) {
        let index = self.messages.len();
        let reading = event.data.as_ref().and_then(Reading::of);
        let first = self.calls.len();
        let (role, rest) =
            (reading.as_ref().map(|r| r.role), reading.as_ref().is_some_and(|r| r.rest));
        let Reading { calls, results, .. } =
            reading.unwrap_or(Reading { role: Role::Other, calls: vec![], results: vec![], rest });
        for call in calls {
            let executed = finished(&call.id);
            self.call(Call {
                message: index,
                seq: event.seq,
                turn: event.turn,
                task: event.task.clone(),
                id: call.id,
                name: call.name,
                form: call.form,
                result: None,
                repaired: false,
                executed,
            });
        }
        let calls = (first, self.calls.len());
        self.messages.push(Said { seq: event.seq, role, calls, rest });
        for result in results {
            self.result(index, result);
        }
    }

    fn call(&mut self, mut call: Call) {
        let index = self.calls.len();
        if let Some(first) = self.newest.insert(call.id.clone(), index) {
            self.same_ids.push(SameId { first, second: index });
        } else if let Some(loose) = self.early.get_mut(&call.id).and_then(Vec::pop)
            && let Some(loose) = self.loose.get_mut(loose)
        {
            loose.early = true;
            call.result = Some(loose.message);
        }
        if call.result.is_none() {
            self.open.entry(call.id.clone()).or_default().push(index);
        }
        self.calls.push(call);
    }

    fn result(&mut self, message: usize, ReadResult { id, unknown }: ReadResult) {
        let calls = &self.calls;
        let is_open = |at: &usize| calls.get(*at).is_some_and(Call::is_open);
        let open = self.open.get_mut(&id).and_then(|open| match unknown {
            true => open.iter().rposition(is_open).map(|at| open.remove(at)),
            false => open.pop(),
        });
        if let Some(call) = open.and_then(|open| self.calls.get_mut(open)) {
            call.result = Some(message);
            call.repaired = unknown;
            return;
        }
        // A call that was also executed is ended twice by a repair, as executed and in its message.
        // What was recorded of the execution says as much or more.
        if unknown && self.open.get(&id).is_some_and(|open| !open.is_empty()) {
            return;
        }
        let second_for = self.newest.get(&id).copied();
        if second_for.is_none() {
            self.early.entry(id.clone()).or_default().push(self.loose.len());
        }
        self.loose.push(Loose { message, id, second_for, early: false });
    }

    /// Takes in that a tool has run; says whether a call here waited for it.
    pub(super) fn executed(&mut self, id: &str, seq: Seq) -> bool {
        // Of several with one id in a message, the first that waits.
        let waiting = self.open.get(id).and_then(|open| {
            let newest = self.calls.get(*open.last()?)?.message;
            let waits = |at: &&usize| {
                self.calls.get(**at).is_some_and(|call| call.message == newest && call.is_open())
            };
            open.iter().find(waits).or(open.last())
        });
        let open = waiting.copied();
        match open.or_else(|| self.newest.get(id).copied()).and_then(|at| self.calls.get_mut(at)) {
            Some(call) if call.executed.is_none() => {
                call.executed = Some(seq);
                true
            }
            _ => false,
        }
    }

    /// What the compactions that stand cover.
    pub(super) fn cover(&self) -> Cover {
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
        Cover(ranges)
    }
}

impl Call {
    /// Nothing is recorded of how it ended.
    pub(super) const fn is_open(&self) -> bool {
        self.result.is_none() && self.executed.is_none()
    }
}

/// Ranges of events that a summary stands for, in order and apart.
#[derive(Debug)]
pub(super) struct Cover(Vec<(Seq, Seq)>);

impl Cover {
    /// Is this event covered?
    pub(super) fn contains(&self, seq: Seq) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= seq);
        let range = after.checked_sub(1).and_then(|at| self.0.get(at));
        range.is_some_and(|(_, last)| seq <= *last)
    }

    /// Does a summary stand before this event?
    pub(super) fn is_before(&self, seq: Seq) -> bool {
        self.0.first().is_some_and(|(first, _)| *first <= seq)
    }
}
