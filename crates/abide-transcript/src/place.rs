//! Where in a session an event belongs: its turn and its task, said or implied.

use abide_model::{Event, Fact, Kind, LaneId, TaskId, TurnNumber};
use serde::{Deserialize, Serialize};

/// The most lanes whose open turn is kept in mind.
const LANES: usize = 64;

/// Follows the turns of each lane, as the fold of a session does, in bounded memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Places {
    /// The greatest number of a turn so far.
    #[serde(skip_serializing_if = "is_none")]
    last: TurnNumber,
    /// The turn that is open in each lane.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    open: Vec<(Option<LaneId>, TurnNumber)>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_none(turn: &TurnNumber) -> bool {
    turn.0 == 0
}

/// The turn and the task of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The turn it names, else the one open in its lane.
    pub turn: Option<TurnNumber>,
    /// The task it names, else the one its data is about.
    pub task: Option<TaskId>,
}

impl Places {
    /// As they are when so many turns have been.
    #[must_use]
    pub const fn after(last: TurnNumber) -> Self {
        Self { last, open: Vec::new() }
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The place of the next event.
    pub fn next(&mut self, event: &Event) -> Place {
        self.next_of(event, event.fact().ok().as_ref())
    }

    /// Passes over an event that a rewind took out of the lineage: its turn's number stays used.
    pub fn pass(&mut self, event: &Event) {
        if event.kind == Kind::TURN_STARTED
            && let Ok(Fact::TurnStarted(start)) = event.fact()
        {
            self.last = self.last.max(start.turn.or(event.turn).unwrap_or(self.last.next()));
        }
    }

    /// The place of the next event, whose data was read already.
    pub(crate) fn next_of(&mut self, event: &Event, fact: Option<&Fact>) -> Place {
        let named = match fact {
            Some(Fact::TurnStarted(start)) => Some(start.turn.unwrap_or(self.last.next())),
            Some(Fact::TurnDecided(decision)) => decision.turn,
            Some(Fact::TurnFinished(end)) => end.turn,
            _ => None,
        };
        let at = self.open.iter().position(|(lane, _)| *lane == event.lane);
        let open = at.and_then(|at| self.open.get(at)).map(|(_, turn)| *turn);
        let turn = named.or(event.turn).or(open);
        if let Some(turn) = turn.filter(|_| event.kind == Kind::TURN_STARTED) {
            self.last = self.last.max(turn);
            if let Some(at) = at {
                self.open.remove(at);
            }
            if self.open.len() == LANES {
                self.open.remove(0);
            }
            self.open.push((event.lane.clone(), turn));
        }
        if event.kind == Kind::TURN_FINISHED && turn.is_some() {
            self.open.retain(|(_, open)| Some(*open) != turn);
        }
        let about = match fact {
            Some(Fact::TaskCreated(task)) => Some(&task.task),
            Some(Fact::TaskChanged(change)) => Some(&change.task),
            Some(Fact::TaskStatus(change)) => Some(&change.task),
            Some(Fact::Artifact(artifact)) => artifact.task.as_ref(),
            _ => None,
        };
        Place { turn, task: about.or(event.task.as_ref()).cloned() }
    }
}

#[cfg(test)]
mod tests {
    use abide_model::{NewEvent, Seq, Timestamp};

    use super::*;

    #[test]
    fn an_event_without_a_turn_is_in_the_open_one_of_its_lane() {
        let mut places = Places::default();
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
