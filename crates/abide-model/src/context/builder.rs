//! From the events of the visible places to the context.

use std::collections::{HashMap, HashSet};

use super::{Context, Entry, Visible};
use crate::conversation::{Placed, Waiting};
use crate::{
    CallId, Conversation, Event, Fact, Kind, LaneId, LaneState, Lineage, Marks, Payload, Seq,
};

/// Builds the context of a lane.
#[derive(Debug)]
pub struct ContextBuilder {
    lane: Option<LaneId>,
    visible: Visible,
    lineage: Lineage,
    /// The instructions stay although a summary covers them.
    kept: HashSet<Seq>,
    conversation: Conversation,
    data: HashMap<Seq, Payload>,
    summaries: Vec<(Seq, Entry)>,
    /// Where the newest execution of each call was begun.
    begun: HashMap<String, Seq>,
    /// The newest execution that was erased: it may be of any call.
    erased: Seq,
    /// The requests to a model that have no answer yet.
    asked: HashSet<String>,
}

/// A call that the model has made and that has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    /// The message that holds it.
    pub seq: Seq,
    /// Its id.
    pub call: CallId,
    /// Which tool.
    pub name: String,
    /// How many calls of that message with the same id stand before it.
    pub nth: usize,
    /// It was begun, by a `tool.called`, or may have been, and its outcome is unknown. Where every
    /// execution is recorded, one that was not begun has had no effect.
    pub begun: bool,
}

impl ContextBuilder {
    /// For a lane as its state says, whose last event is `end`. Give it the events of the places
    /// that [`ContextBuilder::ranges`] names, in order.
    #[must_use]
    pub fn new(lane: Option<LaneId>, state: &LaneState, lineage: &Lineage, end: Seq) -> Self {
        Self {
            lane,
            visible: Visible::of(state, lineage, end),
            lineage: lineage.clone(),
            kept: state.instructions.iter().copied().collect(),
            conversation: Conversation::default(),
            data: HashMap::new(),
            summaries: Vec::new(),
            begun: HashMap::new(),
            erased: Seq::ZERO,
            asked: HashSet::new(),
        }
    }

    /// Where the events are that it needs.
    #[must_use]
    pub fn ranges(&self) -> &[(Seq, Seq)] {
        &self.visible.ranges
    }

    /// Takes the next event in.
    pub fn event(&mut self, event: Event) {
        let seq = event.seq;
        if !self.lineage.contains(seq) {
            return;
        }
        if event.kind == Kind::CONTEXT_COMPACTED {
            self.summary(&event);
            return;
        }
        if event.kind == Kind::MESSAGE_ADDED {
            let ours = event.lane == self.lane;
            if ours && self.visible.covers(seq) && !self.kept.contains(&seq) {
                return;
            }
            // Those of other lanes too: a tool that is run beside the lanes is told by its call.
            self.conversation.message(&event);
            if ours {
                self.data.extend(event.data.map(|data| (seq, data)));
            }
            return;
        }
        let fact = event.fact();
        match &fact {
            Ok(Fact::ToolCall(call)) => {
                self.begun.insert(call.call.0.clone(), seq);
            }
            // What was begun where a summary stands is not the outcome of a later call.
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

    /// Where the execution of a call was begun, as far as that is known.
    fn begun_at(&self, message: Seq, id: &str) -> Option<Seq> {
        let begun = self.begun.get(id).copied();
        // Ids are used again: one before the message is another call's, unless it still runs.
        begun.filter(|begun| *begun > message || self.conversation.is_running(id))
    }

    /// May this call have been begun without our seeing it?
    fn may_be_begun(&self, message: Seq) -> bool {
        self.erased > message || self.visible.summaries.iter().any(|one| one.last > message)
    }

    /// Is a request to the model open: asked, and not answered to the end?
    #[must_use]
    pub fn is_asking(&self) -> bool {
        !self.asked.is_empty()
    }

    fn summary(&mut self, event: &Event) {
        let shown = self.visible.summaries.iter().find(|one| one.at == event.seq);
        if let (Some(shown), Ok(Fact::Compaction(fact))) = (shown, event.fact()) {
            self.summaries
                .push((shown.first, Entry::Summary { seq: event.seq, text: fact.summary }));
        }
    }

    /// The calls of the model's last answer that have no result, in order.
    #[must_use]
    pub fn pending(&self) -> Vec<PendingCall> {
        let pending = |Waiting { seq, id, name, nth }: Waiting<'_>| PendingCall {
            seq,
            call: CallId(id.to_owned()),
            name: name.to_owned(),
            nth,
            begun: self.begun_at(seq, id).is_some() || self.may_be_begun(seq),
        };
        self.conversation.waiting(self.lane.as_ref()).into_iter().map(pending).collect()
    }

    /// The context.
    #[must_use]
    pub fn build(self) -> Context {
        let placed = self.conversation.placed(self.lane.as_ref());
        let begun_at = |message, id: &str| self.begun_at(message, id);
        let mut summaries = self.summaries.clone();
        summaries.sort_by_key(|(first, _)| *first);
        let mut summaries = summaries.into_iter().peekable();
        let mut entries = Vec::with_capacity(placed.len() + 2);
        // The outcomes that wait for the end of the answer that holds their calls.
        let mut outcomes: Vec<Entry> = Vec::new();
        let mut answer: Option<String> = None;
        let mut message = Seq::ZERO;
        for one in placed {
            match one {
                Placed::Message(seq) => {
                    let Some(data) = self.data.get(&seq) else { continue };
                    let part_of = Marks::of(data).answer;
                    if part_of.is_none() || part_of != answer {
                        entries.append(&mut outcomes);
                        while let Some((_, summary)) = summaries.next_if(|(at, _)| *at <= seq) {
                            entries.push(summary);
                        }
                    }
                    answer = part_of;
                    message = seq;
                    entries.push(Entry::Message { seq, data: data.clone() });
                }
                Placed::Result { seq, call, executed } => match self.data.get(&seq) {
                    Some(data) => {
                        outcomes.push(Entry::Result { seq, call, data: data.clone(), executed });
                    }
                    // It was erased.
                    None => outcomes.push(Entry::Unknown { call, begun: Some(seq) }),
                },
                Placed::Unknown(call) => {
                    let begun = begun_at(message, &call.0);
                    outcomes.push(Entry::Unknown { call, begun });
                }
            }
        }
        entries.append(&mut outcomes);
        entries.extend(summaries.map(|(_, summary)| summary));
        Context { lane: self.lane, entries }
    }
}
