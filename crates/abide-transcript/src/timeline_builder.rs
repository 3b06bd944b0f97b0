//! Builds a session's timeline: events in, entries out, in journal order.
//!
//! A call is one entry together with its outcome, so it waits for its result, and later entries
//! wait behind it. The wait is bounded: at the end of the call's turn, or when too much is waiting,
//! the call is emitted without an outcome. A requested call and the call that ran are joined by id,
//! and each call appears once.

use std::collections::{BTreeSet, VecDeque};

use abide_model::{
    Event, Fact, KnownBlock, Lineage, Message, MessageBlock, MessageContent, TaskStatus, ToolCall,
    TurnNumber,
};

use crate::note::event_note;
use crate::place_tracker::PlaceTracker;
use crate::readable;
use crate::target::call_target;
use crate::timeline_entry::{CallOutcome, EntryBody, EntryPart, TimelineCall, TimelineEntry};

/// Limits on the entries and bytes that wait for an outcome.
const WAITING: usize = 256;
const WAITING_BYTES: usize = 8 << 20;
/// How many call ids and turn starts are remembered.
const REMEMBERED: usize = 4096;

/// Builds timeline entries from events.
#[derive(Debug, Default)]
pub struct TimelineBuilder {
    lineage: Option<Lineage>,
    places: PlaceTracker,
    waiting: VecDeque<WaitingEntry>,
    bytes: usize,
    /// The start time of each turn.
    turns: VecDeque<(TurnNumber, i64)>,
    /// The calls that ran, as a set and in order.
    ran: BTreeSet<String>,
    ran_in_order: VecDeque<String>,
}

#[derive(Debug)]
struct WaitingEntry {
    item: TimelineEntry,
    bytes: usize,
    until: ReleaseCondition,
}

#[derive(Debug, PartialEq, Eq)]
enum ReleaseCondition {
    /// It can be emitted.
    Now,
    /// The call has its result.
    Result,
    /// The calls it requests have run.
    Run,
}

impl TimelineBuilder {
    /// Starts at the beginning of a session.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses these places, for a timeline that starts mid-session.
    #[must_use]
    pub fn at(mut self, places: PlaceTracker) -> Self {
        self.places = places;
        self
    }

    /// Marks entries outside this lineage as rewound.
    #[must_use]
    pub fn with_lineage(mut self, lineage: Lineage) -> Self {
        self.lineage = Some(lineage);
        self
    }

    /// Adds the next event.
    pub fn push(&mut self, event: &Event) {
        let fact = event.fact().ok();
        let place = self.places.next_of(event, fact.as_ref());
        let rewound = self.lineage.as_ref().is_some_and(|lineage| !lineage.contains(event.seq));
        let item = |what| TimelineEntry {
            seq: event.seq,
            at: event.at,
            place: place.clone(),
            lane: event.lane.clone(),
            rewound,
            what,
        };
        let bytes = event.data.as_ref().map_or(0, |data| data.as_str().len());
        let what = match fact {
            Some(Fact::Message(message)) => {
                self.release(|item| {
                    item.lane == event.lane && matches!(item.what, EntryBody::Message { .. })
                });
                self.message(message)
            }
            Some(Fact::ToolCall(fact)) => {
                self.take_asked(&fact.call.0);
                EntryBody::Call(timeline_call(&fact))
            }
            Some(Fact::ToolResult(result)) => {
                let text =
                    result.result.as_deref().map(readable::readable_text).unwrap_or_default();
                let outcome = |millis| CallOutcome::Ended { ok: result.ok, text, millis };
                self.remember(&result.call.0);
                if let Some(at) = self.open_call(&result.call.0) {
                    if let Some(waiting) = self.waiting.get_mut(at) {
                        waiting.until = ReleaseCondition::Now;
                        let millis = event.at.as_millis() - waiting.item.at.as_millis();
                        waiting.bytes += bytes;
                        self.bytes += bytes;
                        if let EntryBody::Call(call) = &mut waiting.item.what {
                            call.outcome = outcome(Some(millis));
                        }
                    }
                    return;
                }
                EntryBody::LateResult { call: result.call.0, outcome: outcome(None) }
            }
            Some(Fact::TurnStarted(start)) => {
                let number = place.turn.unwrap_or_default();
                if self.turns.len() >= REMEMBERED {
                    self.turns.pop_front();
                }
                self.turns.push_back((number, event.at.as_millis()));
                EntryBody::TurnStarted { number, agent: start.agent, role: start.role }
            }
            Some(Fact::TurnFinished(end)) => {
                self.release(|item| item.place.turn == place.turn);
                let began = self.turns.iter().rev().find(|(turn, _)| Some(*turn) == place.turn);
                EntryBody::TurnFinished {
                    number: place.turn,
                    status: end.status,
                    millis: began.map(|(_, began)| event.at.as_millis() - began),
                    usage: end.usage,
                }
            }
            Some(Fact::TurnDecided(decision)) => EntryBody::Decided {
                choice: decision.selected.or(decision.decision).unwrap_or_default(),
                reason: decision.reason,
            },
            Some(Fact::SessionStatus(change)) => EntryBody::Status {
                status: change.status,
                reason: change.reason,
                summary: change.summary,
            },
            Some(Fact::TaskCreated(task)) => EntryBody::Task {
                task: task.task,
                change: "created".to_owned(),
                text: Some(task.title),
            },
            Some(Fact::TaskChanged(change)) => EntryBody::Task {
                task: change.task,
                change: "changed".to_owned(),
                text: change.title,
            },
            Some(Fact::TaskStatus(change)) => EntryBody::Task {
                task: change.task,
                change: timeline_task_status(change.status).to_owned(),
                text: change.reason,
            },
            Some(Fact::FileTouched(touch)) => {
                EntryBody::File { op: touch.op, path: touch.path, to: touch.to }
            }
            fact => {
                let (label, text, weight) = event_note(event, fact);
                EntryBody::Note { label, text, weight }
            }
        };
        let until = match &what {
            EntryBody::Call(_) => ReleaseCondition::Result,
            EntryBody::Message { parts, .. }
                if parts.iter().any(|part| matches!(part, EntryPart::Asked(_))) =>
            {
                ReleaseCondition::Run
            }
            EntryBody::Message { parts, .. } if parts.is_empty() => return,
            _ => ReleaseCondition::Now,
        };
        self.bytes += bytes;
        self.waiting.push_back(WaitingEntry { item: item(what), bytes, until });
    }

    /// Skips an event that a rewind removed from the lineage.
    pub fn pass(&mut self, event: &Event) {
        self.places.pass(event);
    }

    /// Returns the next entry that is ready.
    pub fn next_item(&mut self) -> Option<TimelineEntry> {
        loop {
            let full = self.waiting.len() > WAITING || self.bytes > WAITING_BYTES;
            if self.waiting.front()?.until != ReleaseCondition::Now && !full {
                return None;
            }
            let waiting = self.waiting.pop_front()?;
            self.bytes = self.bytes.saturating_sub(waiting.bytes);
            // Every call it requested was emitted when it ran.
            let empty =
                matches!(&waiting.item.what, EntryBody::Message { parts, .. } if parts.is_empty());
            if !empty {
                return Some(waiting.item);
            }
        }
    }

    /// Ends the input: every waiting entry becomes ready.
    pub fn finish(&mut self) {
        self.release(|_| true);
    }

    fn release(&mut self, which: impl Fn(&TimelineEntry) -> bool) {
        for waiting in &mut self.waiting {
            if which(&waiting.item) {
                waiting.until = ReleaseCondition::Now;
            }
        }
    }

    fn open_call(&self, id: &str) -> Option<usize> {
        self.waiting.iter().position(|waiting| {
            matches!(&waiting.item.what, EntryBody::Call(call)
                if call.call == id && call.outcome == CallOutcome::Unknown)
        })
    }

    /// Drops a requested call from waiting messages: it runs now and gets its own entry.
    fn take_asked(&mut self, id: &str) {
        for waiting in
            self.waiting.iter_mut().filter(|waiting| waiting.until == ReleaseCondition::Run)
        {
            if let EntryBody::Message { parts, .. } = &mut waiting.item.what {
                parts.retain(|part| !matches!(part, EntryPart::Asked(call) if call.call == id));
                if !parts.iter().any(|part| matches!(part, EntryPart::Asked(_))) {
                    waiting.until = ReleaseCondition::Now;
                }
            }
        }
    }

    fn remember(&mut self, call: &str) {
        if !self.ran.insert(call.to_owned()) {
            return;
        }
        self.ran_in_order.push_back(call.to_owned());
        if self.ran_in_order.len() > REMEMBERED
            && let Some(oldest) = self.ran_in_order.pop_front()
        {
            self.ran.remove(&oldest);
        }
    }

    fn message(&self, message: Message) -> EntryBody {
        let parts = match message.content {
            MessageContent::Text(text) => vec![EntryPart::Text(text)],
            MessageContent::Blocks(blocks) => {
                blocks.into_iter().filter_map(|block| self.part(block)).collect()
            }
            MessageContent::Other(json) => {
                vec![EntryPart::Other(readable::readable_indented(json.get()))]
            }
        };
        EntryBody::Message { role: message.role, parts }
    }

    fn part(&self, block: MessageBlock) -> Option<EntryPart> {
        Some(match block {
            MessageBlock::Known(KnownBlock::Text { text }) => EntryPart::Text(text),
            MessageBlock::Known(KnownBlock::Thinking { thinking, .. }) => {
                EntryPart::Thinking(thinking)
            }
            MessageBlock::Known(KnownBlock::ToolCall { call: id, name, arguments }) => {
                EntryPart::Asked(timeline_call(&ToolCall {
                    call: id,
                    name,
                    arguments: Some(arguments),
                    observed: false,
                }))
            }
            MessageBlock::Known(KnownBlock::ToolResult { call, ok, content }) => {
                if self.ran.contains(&call.0) {
                    return None;
                }
                let text = readable::readable_text(&content);
                EntryPart::Result {
                    call: call.0,
                    outcome: CallOutcome::Ended { ok, text, millis: None },
                }
            }
            MessageBlock::Other(json) => EntryPart::Other(readable::readable_indented(json.get())),
        })
    }
}

fn timeline_call(fact: &ToolCall) -> TimelineCall {
    let target = call_target(fact.arguments.as_deref());
    let arguments = fact.arguments.as_deref().filter(|json| json.get() != target.text);
    TimelineCall {
        call: fact.call.0.clone(),
        name: fact.name.clone(),
        arguments: arguments
            .and_then(|json| readable::readable_fields(json, target.field.as_deref())),
        target: target.text,
        observed: fact.observed,
        outcome: CallOutcome::Unknown,
    }
}

pub(crate) const fn timeline_task_status(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Planned => "planned",
        TaskStatus::Researching => "researching",
        TaskStatus::Implementing => "implementing",
        TaskStatus::Retrying => "retrying",
        TaskStatus::Complete => "complete",
        TaskStatus::Failed => "failed",
        TaskStatus::Blocked => "blocked",
        TaskStatus::Obsolete => "obsolete",
    }
}
