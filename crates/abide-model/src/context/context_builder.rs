//! Builds the context from the visible events.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::iter::Peekable;
use std::sync::Arc;
use std::vec::IntoIter;

use super::{Context, ContextEntry, RecordedResult, VisibleRanges};
use crate::conversation::{AwaitedResult, PlacedEntry};
use crate::message::RecordedMessage;
use crate::{
    CallId, Conversation, Event, Fact, Kind, LaneId, LaneState, Lineage, MessageRevisions, Payload,
    Seq,
};

/// Gathers the events that the context of a lane is read from.
#[derive(Debug)]
pub struct ContextBuilder {
    lane: Option<LaneId>,
    visible: VisibleRanges,
    lineage: Lineage,
    /// Instructions, which stay although a summary covers them.
    kept: HashSet<Seq>,
    events: Vec<Event>,
    revisions: MessageRevisions,
}

/// The events of the context of a lane, read in order.
#[derive(Debug)]
pub struct ContextReading {
    lane: Option<LaneId>,
    visible: VisibleRanges,
    conversation: Conversation,
    messages: HashMap<Seq, Arc<RecordedMessage>>,
    /// The first version of each message in the place of which a newer one stands, by the seq of any
    /// of its versions.
    places: BTreeMap<Seq, Seq>,
    /// The data of calls that no message may hold, and of their results.
    data: HashMap<Seq, Payload>,
    summaries: Vec<(Seq, ContextEntry)>,
    /// Where the newest execution of each call started.
    begun: HashMap<String, Seq>,
    /// The newest erased execution, which may be of any call.
    erased: Seq,
    /// Requests to a model without an answer.
    asked: HashSet<String>,
}

/// A call that the model has made and that has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    /// The message that holds it, or else its `tool.called`.
    pub seq: Seq,
    /// Its id.
    pub call: CallId,
    /// The tool.
    pub name: String,
    /// How many calls with the same id precede it in that message.
    pub nth: usize,
    /// A `tool.called` started it, or may have, and its outcome is unknown. If every execution is
    /// recorded, a call that was not started has had no effect.
    pub begun: bool,
}

impl ContextBuilder {
    /// For a lane with this state, whose last event is `end`. Feed it the events of
    /// [`ContextBuilder::ranges`], in order.
    #[must_use]
    pub fn new(lane: Option<LaneId>, state: &LaneState, lineage: &Lineage, end: Seq) -> Self {
        Self {
            lane,
            visible: VisibleRanges::of(state, lineage, end),
            lineage: lineage.clone(),
            kept: state.instructions.iter().copied().collect(),
            events: Vec::new(),
            revisions: MessageRevisions::default(),
        }
    }

    /// The ranges of events it needs.
    #[must_use]
    pub fn ranges(&self) -> &[(Seq, Seq)] {
        &self.visible.ranges
    }

    /// Adds the next event.
    pub fn event(&mut self, event: Event) {
        let read = [
            Kind::MESSAGE_ADDED,
            Kind::CONTEXT_COMPACTED,
            Kind::TOOL_CALLED,
            Kind::TOOL_FINISHED,
            Kind::API_CALLED,
            Kind::API_FINISHED,
        ];
        if !self.lineage.contains(event.seq) || !read.contains(&event.kind) {
            return;
        }
        if event.kind == Kind::MESSAGE_ADDED {
            if event.lane == self.lane && self.is_summarized(event.seq) {
                return;
            }
            self.revisions.note(&event);
        }
        self.events.push(event);
    }

    fn is_summarized(&self, seq: Seq) -> bool {
        self.visible.covers(seq) && !self.kept.contains(&seq)
    }

    /// Reads the events. The newest version of a message stands where its first one stood; if a
    /// summary covers that one, it speaks for the newest too.
    #[must_use]
    pub fn finish(mut self) -> ContextReading {
        let mut events: Vec<Option<Event>> =
            std::mem::take(&mut self.events).into_iter().map(Some).collect();
        let places = self.settle(&mut events);
        let mut reading = ContextReading {
            lane: self.lane,
            visible: self.visible,
            conversation: Conversation::default(),
            messages: HashMap::new(),
            places,
            data: HashMap::new(),
            summaries: Vec::new(),
            begun: HashMap::new(),
            erased: Seq::ZERO,
            asked: HashSet::new(),
        };
        events.into_iter().flatten().for_each(|event| reading.event(event));
        reading
    }

    /// Leaves only the newest version of each message, in its place. Returns the places.
    fn settle(&mut self, events: &mut [Option<Event>]) -> BTreeMap<Seq, Seq> {
        let mut places = BTreeMap::new();
        let versions = std::mem::take(&mut self.revisions).settled(&self.lineage);
        // Where the first version of each message is, if it can be seen.
        let mut firsts: HashMap<(Option<LaneId>, Seq), usize> = HashMap::new();
        for at in 0..events.len() {
            let Some(event) = events.get(at).and_then(Option::as_ref) else { continue };
            let Some((first, newest)) = versions.of(event) else { continue };
            let (ours, seq) = (event.lane == self.lane, event.seq);
            if seq == first {
                firsts.insert((event.lane.clone(), first), at);
                if ours {
                    places.insert(first, first);
                }
                continue;
            }
            let place = firsts.get(&(event.lane.clone(), first)).copied();
            if ours && place.is_some() {
                places.insert(seq, first);
            }
            let spoken_for = place.is_none() && ours && self.is_summarized(first);
            let stays = seq == newest && place.is_none() && !spoken_for;
            let newer = events.get_mut(at).filter(|_| !stays).and_then(Option::take);
            let first = place.and_then(|place| events.get_mut(place));
            if let (Some(first), Some(newer)) = (first, newer.filter(|_| seq == newest)) {
                *first = Some(newer);
            }
        }
        places
    }
}

impl ContextReading {
    fn event(&mut self, event: Event) {
        let seq = event.seq;
        if event.kind == Kind::CONTEXT_COMPACTED {
            self.summary(&event);
            return;
        }
        if event.kind == Kind::MESSAGE_ADDED {
            // Messages of other lanes too: a tool may run outside the lanes and is then found by
            // its call.
            let message = event.data.as_ref().and_then(RecordedMessage::of);
            self.conversation.message(&event, message.as_ref());
            if event.lane == self.lane {
                self.messages.extend(message.map(|message| (seq, Arc::new(message))));
            }
            return;
        }
        let fact = event.fact();
        match &fact {
            Ok(Fact::ToolCall(call)) => {
                self.begun.insert(call.call.0.clone(), seq);
                self.conversation.event(&event, &fact);
                if event.lane == self.lane && self.visible.covers(seq) {
                    self.conversation.summarized(&self.lane, call.call.as_str());
                } else if event.lane == self.lane {
                    // Shown if no message holds the call.
                    self.data.extend(event.data.map(|data| (seq, data)));
                }
                return;
            }
            // A result whose call a summary covers is not the outcome of a later call.
            Ok(Fact::ToolResult(result)) => {
                let id = result.call.as_str();
                if !self.conversation.has_call(id) && !self.begun.contains_key(id) {
                    return;
                }
                self.data.extend(event.data.clone().map(|data| (seq, data)));
            }
            Ok(Fact::ApiCall(call)) if event.lane == self.lane => {
                self.asked.extend(call.call.as_ref().map(|call| call.0.clone()));
            }
            Ok(Fact::ApiResult(result)) => {
                if let Some(call) = &result.call {
                    self.asked.remove(call.as_str());
                }
            }
            Ok(Fact::Erased)
                if event.kind == Kind::TOOL_CALLED || event.kind == Kind::TOOL_FINISHED =>
            {
                self.erased = seq;
            }
            _ => return,
        }
        self.conversation.event(&event, &fact);
    }

    /// Where a message stands.
    fn place_of(&self, message: Seq) -> Seq {
        self.places.get(&message).copied().unwrap_or(message)
    }

    /// Where the execution of a call started, if known.
    fn begun_at(&self, message: Seq, id: &str) -> Option<Seq> {
        let message = self.place_of(message);
        let begun = self.begun.get(id).copied();
        // Ids are reused: an execution before the message belongs to another call, unless it still
        // runs.
        begun.filter(|begun| *begun > message || self.conversation.is_running(id))
    }

    /// May an erased or covered event have started this call?
    fn may_be_begun(&self, message: Seq) -> bool {
        let message = self.place_of(message);
        self.erased > message || self.visible.summaries.iter().any(|one| one.last > message)
    }

    /// Is a request to the model open, that is, not completely answered?
    #[must_use]
    pub fn is_asking(&self) -> bool {
        !self.asked.is_empty()
    }

    fn summary(&mut self, event: &Event) {
        let shown = self.visible.summaries.iter().find(|one| one.at == event.seq);
        if let (Some(shown), Ok(Fact::Compaction(fact))) = (shown, event.fact()) {
            self.summaries
                .push((shown.first, ContextEntry::Summary { seq: event.seq, text: fact.summary }));
        }
    }

    /// The calls of the model's last answer that have no result, and later calls that no message
    /// holds, in order.
    #[must_use]
    pub fn pending(&self) -> Vec<PendingCall> {
        let pending = |AwaitedResult { seq, id, name, nth }: AwaitedResult<'_>| PendingCall {
            seq,
            call: CallId(id.to_owned()),
            name: name.to_owned(),
            nth,
            begun: self.begun_at(seq, id).is_some() || self.may_be_begun(seq),
        };
        let waiting = self.conversation.waiting(self.lane.as_ref()).into_iter();
        let known = |seq: &Seq| self.messages.contains_key(seq) || self.data.contains_key(seq);
        waiting.filter(|call| known(&call.seq)).map(pending).collect()
    }

    /// Builds the context.
    #[must_use]
    pub fn build(self) -> Context {
        let mut summaries = self.summaries.clone();
        summaries.sort_by_key(|(first, _)| *first);
        let mut built = ContextAssembly::new(summaries);
        for one in self.conversation.placed(self.lane.as_ref()) {
            match one {
                PlacedEntry::Message(seq) => {
                    if let Some(message) = self.messages.get(&seq) {
                        built.message(seq, self.place_of(seq), message.clone());
                    }
                }
                PlacedEntry::Call { seq, call } => {
                    let data = self.data.get(&seq).cloned();
                    built.call(seq, data.map(|data| ContextEntry::Call { seq, call, data }));
                }
                PlacedEntry::Result { seq, call, executed } => {
                    let result = match executed {
                        true => self.data.get(&seq).cloned().map(RecordedResult::Executed),
                        false => self.messages.get(&seq).cloned().map(RecordedResult::Message),
                    };
                    // The data may be erased.
                    let unknown = ContextEntry::Unknown { call: call.clone(), begun: Some(seq) };
                    let known = |result| ContextEntry::Result { seq, call, result };
                    built.outcome(result.map_or(unknown, known));
                }
                PlacedEntry::Unknown(call) => {
                    let begun = match built.of {
                        OutcomeOwner::Message(message) => self.begun_at(message, &call.0),
                        OutcomeOwner::Call(begun) => Some(begun),
                    };
                    built.outcome(ContextEntry::Unknown { call, begun });
                }
            }
        }
        Context { lane: self.lane, entries: built.finish(), places: self.places }
    }
}

/// The owner of the outcomes that come next.
#[derive(Debug, Clone, Copy)]
enum OutcomeOwner {
    Message(Seq),
    Call(Seq),
}

/// A context under construction.
#[derive(Debug)]
struct ContextAssembly {
    entries: Vec<ContextEntry>,
    /// Summaries still to be placed, ordered by what they cover.
    summaries: Peekable<IntoIter<(Seq, ContextEntry)>>,
    /// The answer whose parts are being placed.
    answer: Option<String>,
    /// Outcomes that wait for the end of that answer.
    outcomes: Vec<ContextEntry>,
    /// Calls that no message holds and that wait for it too, each with its outcome. Empty for a
    /// call that a summary covers.
    calls: Vec<(Seq, Vec<ContextEntry>)>,
    of: OutcomeOwner,
}

impl ContextAssembly {
    fn new(summaries: Vec<(Seq, ContextEntry)>) -> Self {
        Self {
            entries: Vec::new(),
            summaries: summaries.into_iter().peekable(),
            answer: None,
            outcomes: Vec::new(),
            calls: Vec::new(),
            of: OutcomeOwner::Message(Seq::ZERO),
        }
    }

    fn message(&mut self, seq: Seq, place: Seq, message: Arc<RecordedMessage>) {
        let part_of = message.marks.answer.clone();
        if part_of.is_none() || part_of != self.answer {
            self.end_answer();
            self.summarize(place);
        }
        self.answer = part_of;
        self.of = OutcomeOwner::Message(seq);
        self.entries.push(ContextEntry::Message { seq, message });
    }

    fn call(&mut self, seq: Seq, call: Option<ContextEntry>) {
        self.of = OutcomeOwner::Call(seq);
        self.calls.push((seq, call.into_iter().collect()));
    }

    fn outcome(&mut self, outcome: ContextEntry) {
        match (self.of, self.calls.last_mut()) {
            (OutcomeOwner::Call(_), Some((_, call))) if !call.is_empty() => call.push(outcome),
            (OutcomeOwner::Call(_), _) => {}
            (OutcomeOwner::Message(_), _) => self.outcomes.push(outcome),
        }
    }

    /// Places the summaries of everything before an event.
    fn summarize(&mut self, seq: Seq) {
        while let Some((_, summary)) = self.summaries.next_if(|(first, _)| *first <= seq) {
            self.entries.push(summary);
        }
    }

    fn end_answer(&mut self) {
        self.entries.append(&mut self.outcomes);
        for (seq, mut call) in std::mem::take(&mut self.calls) {
            self.summarize(seq);
            self.entries.append(&mut call);
        }
    }

    fn finish(mut self) -> Vec<ContextEntry> {
        self.end_answer();
        self.entries.extend(self.summaries.map(|(_, summary)| summary));
        self.entries
    }
}
