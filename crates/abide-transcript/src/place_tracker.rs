//! Assigns an event its turn and task, explicit or implied.

use std::collections::{BTreeMap, VecDeque};

use abide_model::{Event, Fact, LaneId, OpenTurns, Seq, TaskId, TurnNumber};
use serde::{Deserialize, Serialize};

/// The most lanes whose open turn is remembered.
const LANES: usize = 1024;
/// The most changes that a rewind can undo.
const CHANGES: usize = 64;

/// Tracks the open turn of each lane in bounded memory, by the same rule as the session's state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlaceTracker {
    #[serde(flatten)]
    turns: OpenTurns,
    /// The turns that were open before the first of `changes`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    before: BTreeMap<String, TurnNumber>,
    /// The latest changes of a lane's open turn, each with its event.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    changes: VecDeque<(Seq, String, Option<TurnNumber>)>,
}

/// The turn and task of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventPlace {
    /// The turn it names, or the one open in its lane.
    pub turn: Option<TurnNumber>,
    /// The task its data is about, or the one it names.
    pub task: Option<TaskId>,
}

impl PlaceTracker {
    /// The state after `last_turn` turns, with none open.
    #[must_use]
    pub fn after(last_turn: TurnNumber) -> Self {
        Self { turns: OpenTurns { last_turn, ..OpenTurns::default() }, ..Self::default() }
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Applies the next event and returns its place.
    pub fn next(&mut self, event: &Event) -> EventPlace {
        self.next_of(event, event.fact().ok().as_ref())
    }

    /// Skips an event that a rewind removed from the lineage. Its turn's number stays used.
    pub fn pass(&mut self, event: &Event) {
        if let Ok(fact) = event.fact() {
            self.turns.apply_dead(&fact);
        }
    }

    /// [`Self::next`], with the event's data already parsed.
    pub(crate) fn next_of(&mut self, event: &Event, fact: Option<&Fact>) -> EventPlace {
        let named = match fact {
            Some(Fact::TurnStarted(start)) => Some(self.turns.number_of(start.turn)),
            Some(Fact::TurnDecided(decision)) => decision.turn,
            Some(Fact::TurnFinished(end)) => end.turn,
            _ => None,
        };
        let turn = named.or_else(|| self.turns.turn_of(event));
        match fact {
            Some(Fact::Rewind(rewind)) if rewind.to < event.seq && rewind.to > Seq::ZERO => {
                self.go_back(rewind.to, event.seq);
            }
            Some(fact @ (Fact::TurnStarted(_) | Fact::TurnFinished(_))) => {
                let lane = event.lane.as_ref().map(LaneId::as_str).unwrap_or_default();
                let before = self.turns.open_turns.get(lane).copied();
                self.turns.apply(event, fact);
                let open = self.turns.open_turns.get(lane).copied();
                if open != before {
                    self.changed(event.seq, lane.to_owned(), open);
                    self.forget_lanes(event.seq);
                }
            }
            _ => {}
        }
        let about = match fact {
            Some(Fact::TaskCreated(task)) => Some(&task.task),
            Some(Fact::TaskChanged(change)) => Some(&change.task),
            Some(Fact::TaskStatus(change)) => Some(&change.task),
            Some(Fact::Artifact(artifact)) => artifact.task.as_ref(),
            _ => None,
        };
        EventPlace { turn, task: about.or(event.task.as_ref()).cloned() }
    }

    /// Reopens the turns that were open after event `to`, whether that event is live or not.
    fn go_back(&mut self, to: Seq, now: Seq) {
        let mut open = self.before.clone();
        for (_, lane, turn) in self.changes.iter().take_while(|(seq, ..)| *seq <= to) {
            set_place_of_lane(&mut open, lane, *turn);
        }
        let now_open = std::mem::replace(&mut self.turns.open_turns, open.clone());
        for lane in now_open.keys().filter(|lane| !open.contains_key(*lane)) {
            self.changed(now, lane.clone(), None);
        }
        for (lane, turn) in open {
            if now_open.get(&lane) != Some(&turn) {
                self.changed(now, lane, Some(turn));
            }
        }
    }

    fn changed(&mut self, seq: Seq, lane: String, turn: Option<TurnNumber>) {
        self.changes.push_back((seq, lane, turn));
        if self.changes.len() > CHANGES
            && let Some((_, lane, turn)) = self.changes.pop_front()
        {
            set_place_of_lane(&mut self.before, &lane, turn);
        }
    }

    /// If there are too many lanes, forgets the one with the oldest turn.
    fn forget_lanes(&mut self, now: Seq) {
        if self.turns.open_turns.len() <= LANES {
            return;
        }
        let oldest = self.turns.open_turns.iter().min_by_key(|(_, turn)| **turn);
        if let Some(lane) = oldest.map(|(lane, _)| lane.clone()) {
            self.turns.open_turns.remove(&lane);
            self.changed(now, lane, None);
        }
    }
}

fn set_place_of_lane(
    open: &mut BTreeMap<String, TurnNumber>,
    lane: &str,
    turn: Option<TurnNumber>,
) {
    match turn {
        Some(turn) => open.insert(lane.to_owned(), turn),
        None => open.remove(lane),
    };
}

#[cfg(test)]
mod tests {
    use abide_model::{NewEvent, SessionState, Timestamp};
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    #[test]
    fn a_turn_ends_only_in_its_own_lane() {
        let mut places = PlaceTracker::default();
        let mut turn = |json: &str| {
            let event = NewEvent::parse(json).unwrap();
            places.next(&event.into_event(Seq(1), Timestamp::from_millis(0))).turn
        };
        turn(r#"{"kind":"turn.started","data":{}}"#);
        turn(r#"{"kind":"turn.started","lane":"b","data":{}}"#);
        turn(r#"{"kind":"turn.finished","data":{"turn":2}}"#);
        assert_eq!(turn(r#"{"kind":"x.a","lane":"b","data":{}}"#), Some(TurnNumber(2)));
        assert_eq!(turn(r#"{"kind":"x.a","data":{}}"#), Some(TurnNumber(1)));
    }

    proptest! {
        #[test]
        fn they_are_those_of_the_state(events in prop::collection::vec(
            (select(vec!["turn.started", "turn.finished", "x.a", "session.rewound"]),
             select(vec!["", r#""lane":"a","#, r#""lane":"b","#]),
             select(vec!["", r#""turn":1,"#, r#""turn":4,"#]),
             select(vec!["{}", r#"{"turn":1}"#, r#"{"turn":2}"#, r#"{"turn":3}"#]),
             0..24_u64),
            0..24,
        )) {
            let mut places = PlaceTracker::default();
            let mut states = vec![SessionState::default()];
            for (seq, (kind, lane, turn, data, to)) in (1_u64..).zip(events) {
                let rewind = format!(r#"{{"to":{to}}}"#);
                let data = if kind == "session.rewound" { &rewind } else { data };
                let line = format!(r#"{{"kind":"{kind}",{lane}{turn}"data":{data}}}"#);
                let event = NewEvent::parse(&line).unwrap();
                let event = event.into_event(Seq(seq), Timestamp::from_millis(0));
                let before = states.last().unwrap().clone();
                let name = event.lane.as_ref().map(LaneId::as_str).unwrap_or_default();
                let open = before.lane(name).and_then(|lane| lane.turn);
                let place = places.next(&event);
                if !kind.starts_with("turn.") {
                    prop_assert_eq!(place.turn, event.turn.or(open));
                }
                let mut state = match usize::try_from(to).ok().filter(|to| *to > 0 && kind == "session.rewound").and_then(|to| states.get(to)) {
                    Some(base) => SessionState::rewound(base.clone(), before),
                    None => before,
                };
                state.apply(&event);
                states.push(state);
            }
        }
    }

    #[test]
    fn an_event_without_a_turn_is_in_the_open_one_of_its_lane() {
        let mut places = PlaceTracker::default();
        let mut place = |json: &str| {
            let event = NewEvent::parse(json).unwrap();
            let place = places.next(&event.into_event(Seq(1), Timestamp::from_millis(0)));
            (place.turn.map(|turn| turn.0), place.task.map(|task| task.0))
        };
        assert_eq!(place(r#"{"kind":"x.a","data":{}}"#), (None, None));
        assert_eq!(place(r#"{"kind":"turn.started","data":{}}"#), (Some(1), None));
        assert_eq!(
            place(r#"{"kind":"turn.started","lane":"b","data":{"turn":7}}"#),
            (Some(7), None)
        );
        assert_eq!(place(r#"{"kind":"x.a","data":{}}"#), (Some(1), None));
        assert_eq!(place(r#"{"kind":"x.a","lane":"b","data":{}}"#), (Some(7), None));
        assert_eq!(place(r#"{"kind":"x.a","turn":3,"data":{}}"#), (Some(3), None));
        assert_eq!(place(r#"{"kind":"turn.finished","data":{}}"#), (Some(1), None));
        assert_eq!(place(r#"{"kind":"turn.started","data":{}}"#), (Some(8), None));
        let status = r#"{"kind":"task.status","task":"a","data":{"task":"b","status":"complete"}}"#;
        assert_eq!(place(status), (Some(8), Some("b".to_owned())));
    }
}
