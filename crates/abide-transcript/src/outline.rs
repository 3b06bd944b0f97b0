//! What a transcript's headings are made of: which section, which turns and calls are open.
//!
//! It is small whatever the session's length, and stands at the end of each chunk, so that a
//! writer goes on from there and writes the same bytes as one that never stopped.

use abide_model::{Event, Fact, Kind, SessionStatus, Timestamp, TurnNumber, TurnRole, Usage};
use serde::{Deserialize, Serialize};

use crate::place::{Place, Places};
use crate::short;
use crate::target::target;

/// The most turns, calls and files that are kept in mind.
const TURNS: usize = 32;
const CALLS: usize = 32;
const FILES: usize = 40;
/// The longest path and target that are.
const NAME: usize = 120;

/// The part of a transcript that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Section {
    #[default]
    Task,
    Request,
    Execution,
    Result,
}

impl Section {
    const fn is_task(&self) -> bool {
        matches!(self, Self::Task)
    }
}

/// A turn, as far as it went.
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
    /// Selected or decided, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) decided: Vec<(String, String)>,
    /// It is over: status, time, usage. Such a turn does not outlast its chunk.
    #[serde(skip)]
    pub(crate) ended: Option<(String, Timestamp, Option<Usage>)>,
}

/// A call, as far as it went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallOutline {
    pub(crate) call: String,
    pub(crate) name: String,
    pub(crate) target: String,
    pub(crate) at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turn: Option<TurnNumber>,
    /// It was shown without an outcome in an earlier chunk.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) shown: bool,
}

/// Everything the headings need.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Outline {
    #[serde(skip_serializing_if = "Section::is_task")]
    pub(crate) section: Section,
    /// The last heading is that of a turn.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) in_turn: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created: Option<Timestamp>,
    #[serde(skip_serializing_if = "Places::is_default")]
    pub(crate) places: Places,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) turns: Vec<TurnOutline>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<CallOutline>,
    /// Files written, deleted or renamed; the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) files: Vec<String>,
    /// There were others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) other_files: bool,
}

/// What taking an event in gave.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) place: Place,
    pub(crate) role: Role,
    /// The call that it ended, and whether well.
    pub(crate) finished: Option<(CallOutline, bool)>,
}

/// What an event does to the headings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Something the user asks for.
    Request,
    /// Work on it.
    Work,
    /// The end of the work.
    Result,
    /// What goes on around it.
    Housekeeping,
}

impl Outline {
    /// Takes an event in.
    pub(crate) fn apply(&mut self, event: &Event, fact: Option<&Fact>) -> Applied {
        let mut finished = None;
        let place = self.places.next_of(event, fact);
        let created = *self.created.get_or_insert(event.at);
        self.created = Some(created.min(event.at));
        match fact {
            Some(Fact::TurnStarted(start)) => {
                if let Some(number) = place.turn {
                    self.turns.retain(|turn| turn.number != number);
                    keep(
                        &mut self.turns,
                        TURNS,
                        TurnOutline {
                            number,
                            agent: short::start(&start.agent, NAME),
                            role: start.role,
                            started: event.at,
                            lane: event.lane.as_ref().map(|lane| short::start(&lane.0, NAME)),
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
                        .map(|(name, value)| (name.to_owned(), short::start(value, 200)))
                        .collect();
                }
            }
            Some(Fact::TurnFinished(end)) => {
                if let Some(turn) = self.turn(place.turn) {
                    turn.ended =
                        Some((short::start(&end.status, NAME), event.at, end.usage.clone()));
                }
            }
            Some(Fact::ToolCall(call)) => {
                if let Some(turn) = self.turn(place.turn) {
                    turn.calls += 1;
                }
                keep(
                    &mut self.calls,
                    CALLS,
                    CallOutline {
                        call: short::start(&call.call.0, NAME),
                        name: short::start(&call.name, NAME),
                        target: short::start(&target(call.arguments.as_deref()).text, NAME),
                        at: event.at,
                        turn: place.turn,
                        shown: false,
                    },
                );
            }
            Some(Fact::ToolResult(result)) => {
                let id = short::start(&result.call.0, NAME);
                let at = self.calls.iter().position(|call| call.call == id);
                finished = at.map(|at| (self.calls.remove(at), result.ok));
            }
            Some(Fact::FileTouched(touch)) if touch.op != abide_model::FileOp::Read => {
                self.modified(touch.to.as_ref().unwrap_or(&touch.path));
            }
            _ => {}
        }
        let role = role(event, fact, &place);
        Applied { place, role, finished }
    }

    /// What is over is forgotten when its chunk is.
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

/// Adds one, and drops the oldest where there are too many.
fn keep<T>(list: &mut Vec<T>, most: usize, one: T) {
    if list.len() >= most {
        list.remove(0);
    }
    list.push(one);
}

fn role(event: &Event, fact: Option<&Fact>, place: &Place) -> Role {
    match fact {
        Some(Fact::SessionStatus(change))
            if matches!(change.status, SessionStatus::Completed | SessionStatus::Failed) =>
        {
            Role::Result
        }
        _ if place.turn.is_some() => Role::Work,
        Some(Fact::Message(message)) if message.role == "user" && event.lane.is_none() => {
            Role::Request
        }
        Some(Fact::Message(message)) if message.role == "system" => Role::Housekeeping,
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
            if AROUND.contains(&event.kind) { Role::Housekeeping } else { Role::Work }
        }
    }
}
