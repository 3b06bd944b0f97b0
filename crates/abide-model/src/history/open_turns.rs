//! Which turn an event belongs to: the fold's rule, for code that does not keep the whole state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Event, Fact, LaneId, TurnNumber};

/// The open turn of each lane.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenTurns {
    /// The highest turn number; never reverts.
    pub last_turn: TurnNumber,
    /// The open turn of each lane; the main lane is "".
    pub open_turns: BTreeMap<String, TurnNumber>,
}

impl OpenTurns {
    /// The turn of the next event: the one it names, or else the open turn of its lane.
    #[must_use]
    pub fn turn_of(&self, event: &Event) -> Option<TurnNumber> {
        event.turn.or_else(|| self.open_turns.get(turn_lane(event)).copied())
    }

    /// The number of a turn that starts now.
    #[must_use]
    pub fn number_of(&self, turn: Option<TurnNumber>) -> TurnNumber {
        turn.unwrap_or(self.last_turn.next())
    }

    /// Applies the next live event. A turn starts in its lane, and ends only there.
    pub fn apply(&mut self, event: &Event, fact: &Fact) {
        let lane = turn_lane(event);
        match fact {
            Fact::TurnStarted(start) => {
                let number = self.number_of(start.turn);
                self.last_turn = self.last_turn.max(number);
                self.open_turns.insert(lane.to_owned(), number);
            }
            Fact::TurnFinished(end)
                if end.turn.is_none() || end.turn.as_ref() == self.open_turns.get(lane) =>
            {
                self.open_turns.remove(lane);
            }
            _ => {}
        }
    }

    /// Applies an event that was rewound: the number of its turn stays used.
    pub fn apply_dead(&mut self, fact: &Fact) {
        if let Fact::TurnStarted(start) = fact {
            self.last_turn = self.last_turn.max(self.number_of(start.turn));
        }
    }
}

pub(crate) fn turn_lane(event: &Event) -> &str {
    event.lane.as_ref().map(LaneId::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::{NewEvent, Seq, SessionState, Timestamp};

    proptest! {
        #[test]
        fn they_are_those_of_the_state(events in prop::collection::vec(
            (select(vec!["turn.started", "turn.finished", "turn.decided", "x.a"]),
             select(vec!["", r#""lane":"a","#, r#""lane":"b","#]),
             select(vec!["", r#""turn":1,"#, r#""turn":4,"#]),
             select(vec!["{}", r#"{"turn":1}"#, r#"{"turn":2}"#, r#"{"turn":3}"#, r#"{"turn":"x"}"#]),
             prop::bool::weighted(0.8)),
            0..24,
        )) {
            let mut turns = OpenTurns::default();
            let mut state = SessionState::default();
            for (seq, (kind, lane, turn, data, live)) in (1..).zip(events) {
                let line = format!(r#"{{"kind":"{kind}",{lane}{turn}"data":{data}}}"#);
                let event = NewEvent::parse(&line).unwrap();
                let event = event.into_event(Seq(seq), Timestamp::from_millis(0));
                let fact = event.fact().ok();
                if live {
                    state.apply(&event);
                    fact.iter().for_each(|fact| turns.apply(&event, fact));
                } else {
                    state.apply_dead(&event);
                    fact.iter().for_each(|fact| turns.apply_dead(fact));
                }
                prop_assert_eq!(turns.last_turn, state.core.turns.last);
                for lane in ["", "a", "b"] {
                    let open = state.lane(lane).and_then(|lane| lane.turn);
                    prop_assert_eq!(turns.open_turns.get(lane).copied(), open);
                }
            }
        }
    }
}
