//! Resolves positions in a session's history.
//!
//! `@41` is the position right after event 41. `3`, or a label or id, is the position right after
//! the event of that checkpoint. `turn:3` is the end of turn 3, or its last event if it has not
//! ended. `decision` is the position right after the last decision of an arbiter. Live events are
//! searched first, then those that rewinds took back.

use std::fmt;

use abide_model::{
    CheckpointState, Event, EventRange, Fact, Kind, LaneId, Lineage, Seq, SessionId, SessionState,
    name_distance,
};

use crate::{Error, SessionView};

/// Number of alternatives listed in an error.
const NAMED: usize = 6;

/// A position in a session's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedPosition {
    /// The last event before it.
    pub seq: Seq,
    /// The checkpoint recorded by that event, with its number.
    pub checkpoint: Option<(u64, CheckpointState)>,
    /// True if that event is live: no rewind took it back.
    pub live: bool,
}

/// There is no such position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("session {} has no {wanted}; {known}", session.short(SessionId::SHORT))]
pub struct PositionError {
    /// The session.
    pub session: SessionId,
    /// What was requested, in words.
    pub wanted: String,
    /// What exists instead, in words.
    pub known: String,
}

/// A parsed position.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PositionQuery {
    Event(Seq),
    Turn(u64),
    /// The last decision, or a checkpoint with that label where nothing was decided.
    Decision,
    Checkpoint(String),
}

/// The name of the last decision, as a position.
const DECISION: &str = "decision";

impl PositionQuery {
    fn parse(text: &str) -> Option<Self> {
        if let Some(seq) = text.strip_prefix('@') {
            return seq.parse().ok().map(|seq| Self::Event(Seq(seq)));
        }
        if let Some(turn) = text.strip_prefix("turn:") {
            return turn.parse().ok().map(Self::Turn);
        }
        if text == DECISION {
            return Some(Self::Decision);
        }
        (!text.is_empty()).then(|| Self::Checkpoint(text.to_owned()))
    }
}

impl fmt::Display for PositionQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(seq) => write!(f, "event @{seq}"),
            Self::Turn(turn) => write!(f, "turn {turn}"),
            Self::Decision => f.write_str(DECISION),
            Self::Checkpoint(name) => write!(f, "checkpoint {name:?}"),
        }
    }
}

impl SessionView {
    /// Resolves a position in the session's history: `@41` is right after an event, `turn:3` at the
    /// end of a turn, `decision` right after the last decision of an arbiter, and a checkpoint is
    /// named by its number, label or id. If several checkpoints
    /// share a label, the newest one is meant. Live events take precedence over those that a rewind
    /// took back.
    pub fn resolve(&self, text: &str) -> Result<ResolvedPosition, Error> {
        let state = self.state()?;
        let unknown = |wanted: String, known: String| {
            Error::from(PositionError { session: self.id(), wanted, known })
        };
        let Some(wanted) = PositionQuery::parse(text) else {
            let known = "a position is an event (@41), a turn (turn:3), `decision` or a checkpoint (number, label or id)";
            return Err(unknown(format!("position {text:?}"), known.to_owned()));
        };
        if let Some(found) = self.live_position(&wanted, &state)? {
            return Ok(found);
        }
        let everything = PositionIndex::read(self)?;
        let found = match &wanted {
            PositionQuery::Event(_) => None,
            PositionQuery::Turn(turn) => {
                everything.turn(*turn).map(|turn| (turn.last.unwrap_or(turn.reach), None))
            }
            PositionQuery::Decision if everything.decided.is_some() => {
                everything.decided.map(|seq| (seq, None))
            }
            PositionQuery::Decision => everything.named(DECISION),
            PositionQuery::Checkpoint(name) => everything.named(name),
        };
        match found {
            Some((seq, checkpoint)) => {
                Ok(ResolvedPosition { seq, checkpoint, live: state.core.lineage.contains(seq) })
            }
            None => Err(unknown(wanted.to_string(), everything.nearest(&wanted))),
        }
    }

    /// Searches the state, which holds everything that is live.
    fn live_position(
        &self,
        wanted: &PositionQuery,
        state: &SessionState,
    ) -> Result<Option<ResolvedPosition>, Error> {
        match wanted {
            PositionQuery::Event(seq) => self.position_at_event(*seq, state),
            PositionQuery::Turn(number) => match state.turns.get(&number.to_string()) {
                Some(turn) => {
                    let reach = match turn.last {
                        Some(last) => last,
                        None => self.reach(turn.first, &state.core.lineage)?,
                    };
                    Ok(Some(ResolvedPosition { seq: reach, checkpoint: None, live: true }))
                }
                None => Ok(None),
            },
            PositionQuery::Decision => {
                let decided = state.core.turns.decided;
                let here = |seq| ResolvedPosition { seq, checkpoint: None, live: true };
                Ok(decided.map(here))
            }
            PositionQuery::Checkpoint(name) => {
                let checkpoints = state.checkpoints.iter().filter_map(|(number, state)| {
                    number.parse().ok().map(|number| (number, state))
                });
                let found =
                    pick_position(checkpoints, name).map(|(number, state)| ResolvedPosition {
                        seq: state.seq,
                        checkpoint: Some((number, state.clone())),
                        live: true,
                    });
                Ok(found)
            }
        }
    }

    /// The position right after an event, if the event can be read.
    fn position_at_event(
        &self,
        seq: Seq,
        state: &SessionState,
    ) -> Result<Option<ResolvedPosition>, Error> {
        if seq == Seq::ZERO || seq > state.core.seq {
            return Ok(None);
        }
        let page = self.page(EventRange { first: seq, last: seq, ..EventRange::ALL })?;
        let Some(event) = page.events.into_iter().next() else { return Ok(None) };
        let live = state.core.lineage.contains(seq);
        let mut checkpoint = None;
        if event.kind == Kind::CHECKPOINT_CREATED {
            let known = state.checkpoints.iter().find(|(_, state)| state.seq == seq);
            checkpoint = match known {
                Some((number, state)) => number.parse().ok().map(|number| (number, state.clone())),
                None => PositionIndex::read(self)?.checkpoint_at(seq),
            };
        }
        Ok(Some(ResolvedPosition { seq, checkpoint, live }))
    }

    /// The last event of a turn that started at `first` and has not ended.
    fn reach(&self, first: Seq, lineage: &Lineage) -> Result<Seq, Error> {
        let mut reach = first;
        let mut lane: Option<Option<LaneId>> = None;
        for event in self.events(EventRange::from(first)) {
            let event = event?;
            let of_turn = lane.get_or_insert_with(|| event.lane.clone());
            if event.seq > first && position_ends_attempt(&event, of_turn.as_ref()) {
                break;
            }
            if event.lane == *of_turn && lineage.contains(event.seq) {
                reach = event.seq;
            }
        }
        Ok(reach)
    }
}

/// Returns true if this event ends an open turn of the lane.
fn position_ends_attempt(event: &Event, lane: Option<&LaneId>) -> bool {
    event.kind == Kind::SESSION_REWOUND
        || (event.kind == Kind::TURN_STARTED && event.lane.as_ref() == lane)
}

/// The checkpoint with this name: by number, else by id, else the newest with this label.
fn pick_position<'a>(
    checkpoints: impl Iterator<Item = (u64, &'a CheckpointState)>,
    name: &str,
) -> Option<(u64, &'a CheckpointState)> {
    let wanted = name.parse::<u64>().ok();
    let rank = |number: u64, state: &CheckpointState| {
        if wanted == Some(number) {
            Some(2)
        } else if state.id.as_deref() == Some(name) {
            Some(1)
        } else {
            (state.label.as_deref() == Some(name)).then_some(0)
        }
    };
    let fits = checkpoints.filter_map(|(number, state)| {
        rank(number, state).map(|rank| (rank, state.seq, number, state))
    });
    fits.max_by_key(|(rank, seq, _, _)| (*rank, *seq)).map(|(_, _, number, state)| (number, state))
}

/// A turn, live or rewound.
#[derive(Debug)]
struct TurnSpan {
    number: u64,
    lane: Option<LaneId>,
    /// The event that ended it.
    last: Option<Seq>,
    /// Its last event so far.
    reach: Seq,
    /// True if nothing more belongs to it.
    over: bool,
}

/// Every turn and checkpoint in the journal, including rewound ones.
#[derive(Debug, Default)]
struct PositionIndex {
    turns: Vec<TurnSpan>,
    checkpoints: Vec<(u64, CheckpointState)>,
    /// The greatest checkpoint number, including erased ones.
    last_checkpoint: u64,
    /// The last decision.
    decided: Option<Seq>,
    last: Seq,
}

impl PositionIndex {
    fn read(view: &SessionView) -> Result<Self, Error> {
        let mut all = Self::default();
        for event in view.events(EventRange::ALL) {
            all.take(&event?);
        }
        Ok(all)
    }

    fn take(&mut self, event: &Event) {
        self.last = event.seq;
        for turn in self.turns.iter_mut().filter(|turn| !turn.over) {
            turn.over = position_ends_attempt(event, turn.lane.as_ref());
            if !turn.over && event.lane == turn.lane {
                turn.reach = event.seq;
            }
        }
        if event.kind == Kind::MESSAGE_ADDED {
            return;
        }
        match event.fact() {
            Ok(Fact::TurnStarted(fact)) => {
                let last = self.turns.iter().map(|turn| turn.number).max().unwrap_or(0);
                let number = fact.turn.map_or(last.saturating_add(1), |turn| turn.0);
                self.turns.push(TurnSpan {
                    number,
                    lane: event.lane.clone(),
                    last: None,
                    reach: event.seq,
                    over: false,
                });
            }
            Ok(Fact::TurnFinished(fact)) => {
                let ended = self.turns.iter_mut().rev().find(|turn| {
                    fact.turn.map_or(turn.lane == event.lane, |number| number.0 == turn.number)
                });
                if let Some(turn) = ended {
                    turn.last = Some(event.seq);
                    turn.over = true;
                }
            }
            Ok(Fact::TurnDecided(_)) => self.decided = Some(event.seq),
            Ok(Fact::Checkpoint(fact)) => {
                let number = fact.number.unwrap_or(self.last_checkpoint.saturating_add(1));
                self.last_checkpoint = self.last_checkpoint.max(number);
                self.checkpoints.push((number, CheckpointState::new(event, *fact)));
            }
            Ok(Fact::Erased) if event.kind == Kind::CHECKPOINT_CREATED => {
                self.last_checkpoint = self.last_checkpoint.saturating_add(1);
            }
            Ok(Fact::Thinning(fact)) => {
                let thinned = fact.checkpoints.into_iter();
                self.last_checkpoint = thinned.fold(self.last_checkpoint, u64::max);
            }
            _ => {}
        }
    }

    fn turn(&self, number: u64) -> Option<&TurnSpan> {
        self.turns.iter().rev().find(|turn| turn.number == number)
    }

    /// The event of the checkpoint with this name, and the checkpoint with its number.
    fn named(&self, name: &str) -> Option<(Seq, Option<(u64, CheckpointState)>)> {
        let found =
            pick_position(self.checkpoints.iter().map(|(number, state)| (*number, state)), name);
        found.map(|(number, state)| (state.seq, Some((number, state.clone()))))
    }

    fn checkpoint_at(self, seq: Seq) -> Option<(u64, CheckpointState)> {
        self.checkpoints.into_iter().find(|(_, state)| state.seq == seq)
    }

    /// What exists, nearest first.
    fn nearest(&self, wanted: &PositionQuery) -> String {
        match wanted {
            PositionQuery::Event(_) => format!("its events are @1 to @{}", self.last),
            PositionQuery::Turn(turn) => {
                let mut known: Vec<u64> = self.turns.iter().map(|turn| turn.number).collect();
                known.sort_unstable_by_key(|number| number.abs_diff(*turn));
                let known = known.into_iter().take(NAMED).map(|number| format!("turn:{number}"));
                list_known_positions("turns", known.collect())
            }
            PositionQuery::Decision => "no arbiter has decided anything in it".to_owned(),
            PositionQuery::Checkpoint(name) => {
                let number = name.parse::<u64>().ok();
                let mut known: Vec<&(u64, CheckpointState)> = self.checkpoints.iter().collect();
                known.sort_by_key(|(known, state)| match number {
                    Some(number) => known.abs_diff(number),
                    None => name_distance(state.label.as_deref().unwrap_or_default(), name) as u64,
                });
                let known = known.into_iter().take(NAMED).map(|(number, state)| {
                    let label = state.label.as_deref();
                    label.map_or_else(|| number.to_string(), |label| format!("{number} ({label})"))
                });
                list_known_positions("checkpoints", known.collect())
            }
        }
    }
}

fn list_known_positions(what: &str, known: Vec<String>) -> String {
    if known.is_empty() {
        format!("it has no {what}")
    } else {
        format!("the nearest {what} are {}", known.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use abide_model::{Checkpoint, NewEvent, NewSession, SessionRef};

    use super::*;
    use crate::Store;

    fn recorded(lines: &[&str]) -> (tempfile::TempDir, SessionView) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_init(dir.path()).unwrap();
        let session = store.create(NewSession::titled("a")).unwrap();
        for line in lines {
            session.append(NewEvent::parse(line).unwrap()).unwrap().wait().unwrap();
        }
        let id = session.id();
        session.close().unwrap();
        (dir, store.view(&SessionRef::Id(id)).unwrap())
    }

    const STORY: &[&str] = &[
        r#"{"kind":"turn.started","data":{"agent":"a"}}"#, // 3
        r#"{"kind":"checkpoint.created","data":{"label":"green"}}"#, // 4
        r#"{"kind":"turn.finished","data":{"status":"done"}}"#, // 5
        r#"{"kind":"turn.started","data":{"agent":"a"}}"#, // 6
        r#"{"kind":"message.added","data":{"role":"user","content":"x"}}"#, // 7
        r#"{"kind":"checkpoint.created","data":{"label":"green","id":"cp-9"}}"#, // 8
        r#"{"kind":"session.rewound","data":{"to":5}}"#,   // 9
        r#"{"kind":"turn.started","data":{"agent":"a"}}"#, // 10
        r#"{"kind":"message.added","data":{"role":"user","content":"y"}}"#, // 11
    ];

    #[test]
    fn what_is_live_comes_first_and_what_was_taken_back_is_still_found() {
        let (_dir, view) = recorded(STORY);
        let at = |text: &str| {
            let found = view.resolve(text).unwrap();
            (found.seq.0, found.checkpoint.map(|(number, _)| number), found.live)
        };
        assert_eq!(at("@7"), (7, None, false));
        assert_eq!(at("@4"), (4, Some(1), true));
        assert_eq!(at("@8"), (8, Some(2), false));
        assert_eq!(at("1"), (4, Some(1), true));
        assert_eq!(at("2"), (8, Some(2), false));
        assert_eq!(at("green"), (4, Some(1), true));
        assert_eq!(at("cp-9"), (8, Some(2), false));
        assert_eq!(at("turn:1"), (5, None, true));
        assert_eq!(at("turn:2"), (8, None, false));
        // An open turn reaches as far as the session does: the writer's end is a part of it.
        assert_eq!(at("turn:3"), (12, None, true));
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        let (_dir, view) = recorded(STORY);
        let told = |text: &str| {
            let error = view.resolve(text).unwrap_err().to_string();
            error.split_once(" has ").unwrap().1.to_owned()
        };
        assert_eq!(told("@99"), "no event @99; its events are @1 to @12");
        assert_eq!(told("@0"), "no event @0; its events are @1 to @12");
        assert_eq!(told("turn:9"), "no turn 9; the nearest turns are turn:3, turn:2, turn:1");
        assert_eq!(
            told("7"),
            "no checkpoint \"7\"; the nearest checkpoints are 2 (green), 1 (green)"
        );
        assert!(told("turn:x").starts_with("no position \"turn:x\"; a position is an event (@41)"));
    }

    #[test]
    fn a_decision_is_a_place_and_a_label_only_where_there_is_none() {
        let (_dir, view) = recorded(STORY);
        let error = view.resolve("decision").unwrap_err().to_string();
        assert!(error.ends_with("no decision; no arbiter has decided anything in it"), "{error}");
        let label = r#"{"kind":"checkpoint.created","data":{"label":"decision"}}"#;
        let (_dir, view) = recorded(&[label]);
        assert_eq!(view.resolve("decision").unwrap().checkpoint.unwrap().0, 1);
        let decided = r#"{"kind":"turn.decided","data":{"selected":"coder"}}"#;
        let (_dir, view) = recorded(&[label, decided, label, decided, label]);
        let found = view.resolve("decision").unwrap();
        assert_eq!((found.seq.0, found.checkpoint, found.live), (6, None, true));
        // What is live comes first, and what was taken back is still found.
        let back = r#"{"kind":"session.rewound","data":{"to":4}}"#;
        let (_dir, view) = recorded(&[label, decided, label, decided, back]);
        assert_eq!(view.resolve("decision").unwrap().seq.0, 4);
        let back = r#"{"kind":"session.rewound","data":{"to":3}}"#;
        let (_dir, view) = recorded(&[label, decided, label, decided, back]);
        let found = view.resolve("decision").unwrap();
        assert_eq!((found.seq.0, found.live), (6, false));
    }

    #[test]
    fn a_number_is_a_number_before_it_is_a_label() {
        let one = Checkpoint { label: Some("2".to_owned()), ..Checkpoint::default() };
        let event = NewEvent::parse(r#"{"kind":"x.y","data":{}}"#).unwrap();
        let event = event.into_event(Seq(5), abide_model::Timestamp::from_millis(0));
        let one = CheckpointState::new(&event, one);
        let two = CheckpointState { label: None, ..one.clone() };
        let both = || [(1, &one), (2, &two)].into_iter();
        assert_eq!(pick_position(both(), "2").map(|(number, _)| number), Some(2));
        assert_eq!(pick_position(both().take(1), "2").map(|(number, _)| number), Some(1));
    }
}
