//! The state behind a transcript's headings: the current section, the open turns and calls.
//!
//! Its size is bounded whatever the session's length. It is stored at the end of a chunk, so that a
//! resumed writer produces the same bytes as one that never stopped.

use abide_model::{Event, Fact, Kind, SessionStatus, Timestamp, TurnNumber, TurnRole, Usage};
use serde::{Deserialize, Serialize};

use crate::place_tracker::{EventPlace, PlaceTracker};
use crate::short;
use crate::target::call_target;

/// Limits on the turns, calls and files that are remembered.
const TURNS: usize = 32;
const CALLS: usize = 32;
const FILES: usize = 40;
/// The longest path or target that is remembered, in bytes.
const NAME: usize = 120;

/// A section of a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutlineSection {
    #[default]
    Task,
    Request,
    Execution,
    Result,
}

impl OutlineSection {
    const fn is_task(&self) -> bool {
        matches!(self, Self::Task)
    }
}

/// A turn so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TurnOutline {
    pub(crate) number: TurnNumber,
    pub(crate) agent: String,
    pub(crate) role: TurnRole,
    pub(crate) started: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lane: Option<String>,
    pub(crate) calls: u64,
    /// The arbiter's choice or decision, with its reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) decided: Vec<(String, String)>,
    /// Status, time and usage at its end. An ended turn is forgotten at the end of its chunk.
    #[serde(skip)]
    pub(crate) ended: Option<(String, Timestamp, Option<Usage>)>,
}

/// A call so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallOutline {
    pub(crate) call: String,
    pub(crate) name: String,
    pub(crate) target: String,
    pub(crate) at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turn: Option<TurnNumber>,
    /// An earlier chunk showed it without an outcome.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) shown: bool,
}

/// All state that headings depend on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Outline {
    #[serde(skip_serializing_if = "OutlineSection::is_task")]
    pub(crate) section: OutlineSection,
    /// The last heading was a turn's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) in_turn: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created: Option<Timestamp>,
    #[serde(skip_serializing_if = "PlaceTracker::is_default")]
    pub(crate) places: PlaceTracker,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) turns: Vec<TurnOutline>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<CallOutline>,
    /// The first files written, deleted or renamed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) files: Vec<String>,
    /// More files were changed than are listed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) other_files: bool,
}

/// The effect of an event on the outline.
#[derive(Debug)]
pub(crate) struct OutlineChange {
    pub(crate) place: EventPlace,
    pub(crate) role: OutlineHeadingRole,
    /// The call it finished.
    pub(crate) finished: Option<CallOutline>,
}

/// Which section an event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutlineHeadingRole {
    /// A request of the user.
    Request,
    /// Work on the request.
    Work,
    /// The end of the work.
    Result,
    /// Bookkeeping: starts no section.
    Housekeeping,
}

impl Outline {
    /// Applies an event.
    pub(crate) fn apply(&mut self, event: &Event, fact: Option<&Fact>) -> OutlineChange {
        let mut finished = None;
        let place = self.places.next_of(event, fact);
        let created = *self.created.get_or_insert(event.at);
        self.created = Some(created.min(event.at));
        match fact {
            Some(Fact::TurnStarted(start)) => {
                if let Some(number) = place.turn {
                    self.turns.retain(|turn| turn.number != number);
                    keep_in_outline(
                        &mut self.turns,
                        TURNS,
                        TurnOutline {
                            number,
                            agent: short::short_start(&start.agent, NAME),
                            role: start.role,
                            started: event.at,
                            lane: event.lane.as_ref().map(|lane| short::short_start(&lane.0, NAME)),
                            ..TurnOutline::default()
                        },
                    );
                }
            }
            Some(Fact::TurnDecided(decision)) => {
                if let Some(turn) = self.turn(place.turn) {
                    let fields = [
                        ("Selected", &decision.selected),
                        ("Decision", &decision.decision),
                        ("Reason", &decision.reason),
                    ];
                    turn.decided = fields
                        .into_iter()
                        .filter_map(|(name, value)| Some((name, value.as_ref()?)))
                        .map(|(name, value)| (name.to_owned(), short::short_start(value, 200)))
                        .collect();
                }
            }
            Some(Fact::TurnFinished(end)) => {
                if let Some(turn) = self.turn(place.turn) {
                    turn.ended =
                        Some((short::short_start(&end.status, NAME), event.at, end.usage.clone()));
                }
            }
            Some(Fact::ToolCall(call)) => {
                if let Some(turn) = self.turn(place.turn) {
                    turn.calls += 1;
                }
                keep_in_outline(
                    &mut self.calls,
                    CALLS,
                    CallOutline {
                        call: short::short_start(&call.call.0, NAME),
                        name: short::short_start(&call.name, NAME),
                        target: short::short_start(
                            &call_target(call.arguments.as_deref()).text,
                            NAME,
                        ),
                        at: event.at,
                        turn: place.turn,
                        shown: false,
                    },
                );
            }
            Some(Fact::ToolResult(result)) => {
                let id = short::short_start(&result.call.0, NAME);
                let at = self.calls.iter().position(|call| call.call == id);
                finished = at.map(|at| self.calls.remove(at));
            }
            Some(Fact::FileTouched(touch)) if touch.op != abide_model::FileOp::Read => {
                self.modified(touch.to.as_ref().unwrap_or(&touch.path));
            }
            _ => {}
        }
        let role = outline_role(event, fact, &place);
        OutlineChange { place, role, finished }
    }

    /// Ends the chunk: forgets ended turns.
    pub(crate) fn end_chunk(&mut self) {
        self.turns.retain(|turn| turn.ended.is_none());
        self.calls.iter_mut().for_each(|call| call.shown = true);
    }

    fn turn(&mut self, number: Option<TurnNumber>) -> Option<&mut TurnOutline> {
        let number = number?;
        self.turns.iter_mut().find(|turn| turn.number == number && turn.ended.is_none())
    }

    fn modified(&mut self, path: &str) {
        if self.files.iter().any(|file| file == path) {
            return;
        }
        if self.files.len() < FILES && path.len() <= NAME {
            self.files.push(path.to_owned());
        } else {
            self.other_files = true;
        }
    }
}

/// Appends one, dropping the oldest if the list is full.
fn keep_in_outline<T>(list: &mut Vec<T>, most: usize, one: T) {
    if list.len() >= most {
        list.remove(0);
    }
    list.push(one);
}

fn outline_role(event: &Event, fact: Option<&Fact>, place: &EventPlace) -> OutlineHeadingRole {
    match fact {
        Some(Fact::SessionStatus(change))
            if matches!(change.status, SessionStatus::Completed | SessionStatus::Failed) =>
        {
            OutlineHeadingRole::Result
        }
        _ if place.turn.is_some() => OutlineHeadingRole::Work,
        Some(Fact::Message(message)) if message.role == "user" && event.lane.is_none() => {
            OutlineHeadingRole::Request
        }
        Some(Fact::Message(message)) if message.role == "system" => {
            OutlineHeadingRole::Housekeeping
        }
        _ => {
            const AROUND: [Kind; 10] = [
                Kind::SESSION_CREATED,
                Kind::SESSION_UPDATED,
                Kind::SESSION_STATUS,
                Kind::WRITER_OPENED,
                Kind::WRITER_CLOSED,
                Kind::MODEL_CONFIGURED,
                Kind::GIT_OBSERVED,
                Kind::DEPENDENCIES_RESOLVED,
                Kind::RECOVERY_PERFORMED,
                Kind::CHECKPOINT_CREATED,
            ];
            if AROUND.contains(&event.kind) {
                OutlineHeadingRole::Housekeeping
            } else {
                OutlineHeadingRole::Work
            }
        }
    }
}
