//! From the events of the visible places to the context.

use std::collections::{HashMap, HashSet};

use super::{Context, Entry, Visible, answer_of};
use crate::conversation::Placed;
use crate::{CallId, Conversation, Event, Fact, Kind, LaneId, LaneState, Lineage, Payload, Seq};

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
    /// Calls that were begun, by their id.
    begun: HashSet<String>,
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
    /// It was begun, by a `tool.called`, and its outcome is unknown. One that was not begun has
    /// had no effect.
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
            begun: HashSet::new(),
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
        if self.visible.covers(seq) && !self.kept.contains(&seq) {
            return;
        }
        if event.kind == Kind::MESSAGE_ADDED {
            if event.lane == self.lane {
                self.conversation.message(&event);
                self.data.extend(event.data.map(|data| (seq, data)));
            }
            return;
        }
        let finishes = event.kind == Kind::TOOL_FINISHED;
        if finishes || event.kind == Kind::TOOL_CALLED {
            // Tools are often run beside the lanes: they are told by their calls.
            let fact = event.fact();
            if let Ok(Fact::ToolCall(call)) = &fact {
                self.begun.insert(call.call.0.clone());
            }
            self.conversation.event(&event, &fact);
            if finishes {
                self.data.extend(event.data.map(|data| (seq, data)));
            }
        }
    }

    fn summary(&mut self, event: &Event) {
        let shown = self.visible.summaries.iter().find(|one| one.at == event.seq);
        if let (Some(shown), Ok(Fact::Compaction(fact))) = (shown, event.fact()) {
            self.summaries
                .push((shown.first, Entry::Summary { seq: event.seq, text: fact.summary }));
        }
    }

    /// The calls that have no result, in the order of the journal.
    #[must_use]
    pub fn pending(&self) -> Vec<PendingCall> {
        let open = self.conversation.open_in(self.lane.as_ref());
        open.map(|(seq, id, name)| PendingCall {
            seq,
            call: CallId(id.to_owned()),
            name: name.to_owned(),
            begun: self.begun.contains(id),
        })
        .collect()
    }

    /// The context.
    #[must_use]
    pub fn build(mut self) -> Context {
        let placed = self.conversation.placed(self.lane.as_ref());
        self.summaries.sort_by_key(|(first, _)| *first);
        let mut summaries = self.summaries.drain(..).peekable();
        let mut entries = Vec::with_capacity(placed.len() + 2);
        // The outcomes that wait for the end of the answer that holds their calls.
        let mut outcomes: Vec<Entry> = Vec::new();
        let mut answer: Option<String> = None;
        for one in placed {
            match one {
                Placed::Message(seq) => {
                    let Some(data) = self.data.get(&seq) else { continue };
                    let part_of = answer_of(data);
                    if part_of.is_none() || part_of != answer {
                        entries.append(&mut outcomes);
                        while let Some((_, summary)) = summaries.next_if(|(at, _)| *at <= seq) {
                            entries.push(summary);
                        }
                    }
                    answer = part_of;
                    entries.push(Entry::Message { seq, data: data.clone() });
                }
                Placed::Result { seq, call, executed } => match self.data.get(&seq) {
                    Some(data) => {
                        outcomes.push(Entry::Result { seq, call, data: data.clone(), executed });
                    }
                    // It was erased.
                    None => outcomes.push(Entry::Unknown { call }),
                },
                Placed::Unknown(call) => outcomes.push(Entry::Unknown { call }),
            }
        }
        entries.append(&mut outcomes);
        entries.extend(summaries.map(|(_, summary)| summary));
        Context { lane: self.lane, entries }
    }
}
