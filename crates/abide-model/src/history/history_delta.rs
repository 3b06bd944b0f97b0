//! The changes that a range of a session's events makes to an index. Pure: the follower computes
//! them, possibly on another thread, and the index applies them.

use std::collections::{BTreeMap, BTreeSet};

use super::usage_report::{UsageKey, counted_usage};
use super::words::folded_parts;
use super::{EventTraits, Overview, OverviewUpdate, TEXT_BYTES, folded_words, searchable_text};
use crate::{
    Event, Fact, FileOp, Kind, LaneId, Seq, SessionId, Timestamp, TurnNumber, TurnRole, Usage,
};

/// The changes of a range of events, and the overview at its end.
#[derive(Debug)]
pub struct HistoryDelta {
    /// The name of the session in the index.
    pub name: String,
    /// The overview at the end of the range.
    pub overview: Overview,
    /// Whether the index must first drop everything it has of the session.
    pub restart: bool,
    /// New searchable texts.
    pub texts: Vec<TextDelta>,
    /// Changes to turns.
    pub turns: BTreeMap<TurnNumber, TurnDelta>,
    /// Changes to files.
    pub files: BTreeMap<(String, FileOp), FileDelta>,
    /// From which event on a turn was open or not: lane, event, turn.
    pub open_turns: Vec<(String, Seq, Option<TurnNumber>)>,
    /// The agents that occurred.
    pub agents: BTreeSet<String>,
    /// New usage.
    pub usage: BTreeMap<UsageKey, Usage>,
    bytes: usize,
}

/// The searchable text of an event.
#[derive(Debug)]
pub struct TextDelta {
    /// The event.
    pub seq: Seq,
    /// Its turn.
    pub turn: Option<TurnNumber>,
    /// When it happened.
    pub at: Timestamp,
    /// Its words, folded and separated by one space.
    pub words: String,
    /// The parts of its words.
    pub parts: String,
    /// Words for what a search may ask of it beside these.
    pub traits: String,
}

impl TextDelta {
    /// The searchable text of an event; `None` if there is nothing to find it by.
    #[must_use]
    pub fn of(event: &Event, turn: Option<TurnNumber>, traits: &EventTraits) -> Option<Self> {
        let text = searchable_text(event);
        let words = text.as_deref().map(|text| folded_words(text, TEXT_BYTES)).unwrap_or_default();
        if words.is_empty() && !traits.is_failure() {
            return None;
        }
        let parts = text.as_deref().map(folded_parts).unwrap_or_default();
        Some(Self { seq: event.seq, turn, at: event.time(), words, parts, traits: traits.words() })
    }
}

/// The changes to a turn.
#[derive(Debug, Default)]
pub struct TurnDelta {
    /// It started. Replaces an earlier start.
    pub started: Option<TurnOpening>,
    /// The decision made in it, and its reason.
    pub decided: Option<(Option<String>, Option<String>)>,
    /// When and how it ended.
    pub finished: Option<(Timestamp, String)>,
    /// The number of tool calls in it.
    pub tool_calls: u64,
}

/// The start of a turn.
#[derive(Debug)]
pub struct TurnOpening {
    /// When.
    pub at: Timestamp,
    /// The agent.
    pub agent: String,
    /// Agent or arbiter.
    pub role: TurnRole,
}

/// The operations on a file.
#[derive(Debug)]
pub struct FileDelta {
    /// How many.
    pub count: u64,
    /// The last event.
    pub seq: Seq,
    /// Its turn.
    pub turn: Option<TurnNumber>,
    /// Its time.
    pub at: Timestamp,
}

impl HistoryDelta {
    /// An empty delta for the session of this name, starting from this overview.
    #[must_use]
    pub fn new(name: &str, overview: Overview) -> Self {
        Self {
            name: name.to_owned(),
            overview,
            restart: false,
            texts: Vec::new(),
            turns: BTreeMap::new(),
            files: BTreeMap::new(),
            open_turns: Vec::new(),
            agents: BTreeSet::new(),
            usage: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// An empty delta for a session that the index must drop first.
    #[must_use]
    pub fn restart(name: &str) -> Self {
        Self { restart: true, ..Self::new(name, Overview::default()) }
    }

    /// Takes out what was added so far, and leaves an empty delta that continues it.
    #[must_use]
    pub fn split(&mut self) -> Self {
        let next = Self::new(&self.name, self.overview.clone());
        std::mem::replace(self, next)
    }

    /// Its approximate size in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The overview at its end.
    #[must_use]
    pub const fn overview(&self) -> &Overview {
        &self.overview
    }

    /// Sets the id of the session, if its own first event cannot be read.
    pub fn identify(&mut self, id: SessionId) {
        self.overview.id.get_or_insert(id);
    }

    /// Replaces the overview, after a rewind.
    pub fn set_overview(&mut self, overview: Overview) {
        let after = overview.seq.next();
        let (old, new) = (&self.overview.open.open_turns, &overview.open.open_turns);
        let lanes: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for lane in lanes {
            if old.get(lane) != new.get(lane) {
                self.open_turns.push((lane.clone(), after, new.get(lane).copied()));
            }
        }
        self.overview = overview;
    }

    /// Adds the next event. On [`OverviewUpdate::Rewound`] the overview must be set again before the delta
    /// is applied to an index.
    pub fn take_in(&mut self, event: &Event) -> OverviewUpdate {
        let turn = self.overview.open.turn_of(event);
        let traits = EventTraits::of(event, &self.overview.commands);
        let text = TextDelta::of(event, turn, &traits);
        self.bytes += text.as_ref().map_or(0, |text| text.words.len() + text.parts.len()) + 16;
        self.texts.extend(text);
        if event.kind == Kind::MESSAGE_ADDED {
            return self.overview.apply_with(event, &traits);
        }
        self.fact(event, turn);
        let lane = event.lane.as_ref().map(LaneId::as_str).unwrap_or_default();
        let before = self.overview.open.open_turns.get(lane).copied();
        let applied = self.overview.apply_with(event, &traits);
        let now = self.overview.open.open_turns.get(lane).copied();
        if now != before {
            self.open_turns.push((lane.to_owned(), event.seq.next(), now));
        }
        applied
    }

    fn fact(&mut self, event: &Event, turn: Option<TurnNumber>) {
        let fact = event.fact();
        if let Some((key, usage)) = fact.as_ref().ok().and_then(|fact| counted_usage(event, fact)) {
            self.bytes += 64;
            self.usage.entry(key).or_default().add(usage);
        }
        match fact {
            Ok(Fact::TurnStarted(fact)) => {
                let number = self.overview.open.number_of(fact.turn);
                if !fact.agent.is_empty() {
                    self.agents.insert(fact.agent.clone());
                }
                let started = TurnOpening { at: event.time(), agent: fact.agent, role: fact.role };
                self.turns
                    .insert(number, TurnDelta { started: Some(started), ..TurnDelta::default() });
            }
            Ok(Fact::TurnDecided(fact)) => {
                if let Some(turn) = fact.turn.or(turn) {
                    let decision = fact.selected.or(fact.decision);
                    self.turns.entry(turn).or_default().decided = Some((decision, fact.reason));
                }
            }
            Ok(Fact::TurnFinished(fact)) => {
                if let Some(turn) = fact.turn.or(turn) {
                    self.turns.entry(turn).or_default().finished =
                        Some((event.time(), fact.status));
                }
            }
            Ok(Fact::ToolCall(_)) => {
                if let Some(turn) = turn {
                    self.turns.entry(turn).or_default().tool_calls += 1;
                }
            }
            Ok(Fact::FileTouched(fact)) => {
                let paths = std::iter::once(fact.path).chain(fact.to);
                for path in paths {
                    self.bytes += path.len() + 64;
                    let entry = self.files.entry((path, fact.op));
                    let file = entry.or_insert(FileDelta {
                        count: 0,
                        seq: event.seq,
                        turn,
                        at: event.time(),
                    });
                    *file =
                        FileDelta { count: file.count + 1, seq: event.seq, turn, at: event.time() };
                }
            }
            Ok(Fact::SessionCreated(fact)) => self.agents.extend(fact.fields.agent),
            Ok(Fact::SessionUpdated(fact)) => self.agents.extend(fact.agent),
            _ => {}
        }
    }
}
