//! What some events of one session bring to an index. Pure: the follower makes it, on another
//! thread if it likes; the index takes it in.

use std::collections::{BTreeMap, BTreeSet};

use super::{Applied, Overview, TEXT_BYTES, folded_words, searchable};
use crate::{Event, Fact, FileOp, Kind, LaneId, Seq, SessionId, Timestamp, TurnNumber, TurnRole};

/// What a stretch of a session's events brings, and the overview at its end.
#[derive(Debug)]
pub struct Delta {
    /// What the session goes by in the index.
    pub name: String,
    /// The overview at its end.
    pub overview: Overview,
    /// The index shall forget all that it has of the session.
    pub restart: bool,
    /// What was said.
    pub texts: Vec<TextDelta>,
    /// What happened to turns.
    pub turns: BTreeMap<TurnNumber, TurnDelta>,
    /// What happened to files.
    pub files: BTreeMap<(String, FileOp), FileDelta>,
    /// From which event on which turn was open in which lane.
    pub open_turns: Vec<(String, Seq, Option<TurnNumber>)>,
    /// The agents that came up.
    pub agents: BTreeSet<String>,
    bytes: usize,
}

/// What an event says.
#[derive(Debug)]
pub struct TextDelta {
    /// The event.
    pub seq: Seq,
    /// Its turn.
    pub turn: Option<TurnNumber>,
    /// Its words, folded, with one space between them.
    pub words: String,
}

/// What happened to a turn.
#[derive(Debug, Default)]
pub struct TurnDelta {
    /// It started, anew where it was there already.
    pub started: Option<TurnBegun>,
    /// What was decided in it, and why.
    pub decided: Option<(Option<String>, Option<String>)>,
    /// When it ended, and how.
    pub finished: Option<(Timestamp, String)>,
    /// How many tool calls came in it.
    pub tool_calls: u64,
}

/// How a turn started.
#[derive(Debug)]
pub struct TurnBegun {
    /// When.
    pub at: Timestamp,
    /// Which agent.
    pub agent: String,
    /// Agent or arbiter.
    pub role: TurnRole,
}

/// What happened to a file.
#[derive(Debug)]
pub struct FileDelta {
    /// How often.
    pub count: u64,
    /// The last time: the event …
    pub seq: Seq,
    /// … its turn …
    pub turn: Option<TurnNumber>,
    /// … and when.
    pub at: Timestamp,
}

impl Delta {
    /// Nothing yet, of the session that goes by this name, from where this overview stands.
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
            bytes: 0,
        }
    }

    /// Nothing yet, of a session of which the index shall forget all that it has.
    #[must_use]
    pub fn restart(name: &str) -> Self {
        Self { restart: true, ..Self::new(name, Overview::default()) }
    }

    /// An empty one that goes on where this one ends; this one is what was taken in so far.
    #[must_use]
    pub fn split(&mut self) -> Self {
        let next = Self::new(&self.name, self.overview.clone());
        std::mem::replace(self, next)
    }

    /// How large it is, in bytes, about.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The overview at its end.
    #[must_use]
    pub const fn overview(&self) -> &Overview {
        &self.overview
    }

    /// Names the session, where its own first event cannot be read.
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

    /// Takes the next event in. [`Applied::Rewound`]: the overview must be set anew before this
    /// is put into an index.
    pub fn take_in(&mut self, event: &Event) -> Applied {
        let turn = self.overview.open.turn_of(event);
        if let Some(text) = searchable(event) {
            let folded = folded_words(&text, TEXT_BYTES);
            self.bytes += folded.len();
            if !folded.is_empty() {
                self.texts.push(TextDelta { seq: event.seq, turn, words: folded });
            }
        }
        self.bytes += 16;
        if event.kind == Kind::MESSAGE_ADDED {
            return self.overview.apply(event);
        }
        self.fact(event, turn);
        let lane = event.lane.as_ref().map(LaneId::as_str).unwrap_or_default();
        let before = self.overview.open.open_turns.get(lane).copied();
        let applied = self.overview.apply(event);
        let now = self.overview.open.open_turns.get(lane).copied();
        if now != before {
            self.open_turns.push((lane.to_owned(), event.seq.next(), now));
        }
        applied
    }

    fn fact(&mut self, event: &Event, turn: Option<TurnNumber>) {
        match event.fact() {
            Ok(Fact::TurnStarted(fact)) => {
                let number = self.overview.open.number_of(fact.turn);
                if !fact.agent.is_empty() {
                    self.agents.insert(fact.agent.clone());
                }
                let started = TurnBegun { at: event.at, agent: fact.agent, role: fact.role };
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
                    self.turns.entry(turn).or_default().finished = Some((event.at, fact.status));
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
                    let file =
                        entry.or_insert(FileDelta { count: 0, seq: event.seq, turn, at: event.at });
                    *file = FileDelta { count: file.count + 1, seq: event.seq, turn, at: event.at };
                }
            }
            Ok(Fact::SessionCreated(fact)) => self.agents.extend(fact.fields.agent),
            Ok(Fact::SessionUpdated(fact)) => self.agents.extend(fact.agent),
            _ => {}
        }
    }
}
