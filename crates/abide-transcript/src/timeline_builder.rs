//! Builds a session's timeline: events in, entries out, in journal order.
//!
//! A call is one entry together with its result, whether messages tell of them, in whatever form, or
//! `tool.called` and `tool.finished`, or both: they are joined by the id of the call. So a call waits
//! for its result, and later entries wait behind it. The wait is bounded: at the end of the call's
//! turn, at the next prompt, or when too much is waiting, the call is emitted without an outcome.

use std::collections::{BTreeMap, VecDeque};

use abide_model::message::{CallPieceArguments, PieceContent, ResultPiece};
use abide_model::{
    Event, Fact, Kind, LaneId, Lineage, OUTCOME_UNKNOWN, RecordedMessage, SessionStatus,
    TaskStatus, TurnNumber,
};

use crate::acp_update::{AcpCallUpdate, sort_acp_details};
use crate::block_reader::{UnreadBlock, output_of_pieces, read_image, read_unread};
use crate::note::event_note;
use crate::place_tracker::{EventPlace, PlaceTracker};
use crate::target::call_target_of_text;
use crate::timeline_entry::{
    CallOutcome, CallOutput, EntryBody, EntryPart, NoteWeight, TimelineCall, TimelineEntry,
};

/// Limits on the entries and bytes that wait for an outcome.
const WAITING: usize = 256;
const WAITING_BYTES: usize = 8 << 20;
/// How many calls and turn starts are remembered.
const REMEMBERED: usize = 4096;
/// How many targets of calls are compared with files that were touched.
const TARGETS: usize = 64;

/// Builds timeline entries from events.
#[derive(Debug, Default)]
pub struct TimelineBuilder {
    lineage: Option<Lineage>,
    places: PlaceTracker,
    waiting: VecDeque<WaitingEntry>,
    bytes: usize,
    /// The start time of each turn.
    turns: VecDeque<(TurnNumber, i64)>,
    /// The calls by id, and their ids in order.
    known: BTreeMap<String, KnownCall>,
    known_in_order: VecDeque<String>,
    /// What the latest calls were about.
    targets: VecDeque<String>,
    /// The model in use.
    model: Option<String>,
    /// The workspace, as it starts a path in JSON.
    workspace: Option<String>,
    /// The tasks are those that a run without a task list makes for its turns.
    unplanned: bool,
}

#[derive(Debug)]
struct WaitingEntry {
    item: TimelineEntry,
    bytes: usize,
    until: ReleaseCondition,
    /// The result of the call is there.
    ended: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum ReleaseCondition {
    /// It can be emitted.
    Now,
    /// The call has its result.
    Result,
}

/// What is known of a call.
#[derive(Debug, Default)]
struct KnownCall {
    name: String,
    target: String,
    /// A message requested it.
    requested: bool,
    /// An event says that it was called.
    called: bool,
    /// A message has its result.
    answered: bool,
    /// An event says that it finished.
    finished: bool,
}

/// What tells of a call or a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallSource {
    Message,
    Event,
}

/// The event that is being added.
struct EventFrame<'a> {
    event: &'a Event,
    place: EventPlace,
    rewound: bool,
    bytes: usize,
}

impl TimelineBuilder {
    /// Starts at the beginning of a session.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses these places, for a timeline that starts mid-session.
    #[must_use]
    pub fn at(mut self, places: PlaceTracker) -> Self {
        self.places = places;
        self
    }

    /// Shows paths in this directory relative to it, where a call names them. A timeline that starts
    /// with the session knows its workspace.
    #[must_use]
    pub fn in_workspace(mut self, workspace: Option<&str>) -> Self {
        self.enter_workspace(workspace);
        self
    }

    fn enter_workspace(&mut self, workspace: Option<&str>) {
        let path = workspace.map(|path| path.trim_end_matches('/')).filter(|path| path.len() > 1);
        // Without the quote at its end.
        let start = path.and_then(|path| serde_json::to_string(path).ok()).map(|mut path| {
            path.pop();
            path + "/"
        });
        self.workspace = start.or_else(|| self.workspace.take());
    }

    /// Makes paths in the workspace relative where they start a value.
    fn relative(&self, json: &mut String) {
        if let Some(start) = self.workspace.as_ref().filter(|start| json.contains(*start)) {
            *json = json.replace(start, "\"");
        }
    }

    /// Marks entries outside this lineage as rewound.
    #[must_use]
    pub fn with_lineage(mut self, lineage: Lineage) -> Self {
        self.lineage = Some(lineage);
        self
    }

    /// Adds the next event.
    pub fn push(&mut self, event: &Event) {
        let message = match &event.data {
            Some(data) if event.kind == Kind::MESSAGE_ADDED => RecordedMessage::of(data),
            _ => None,
        };
        let fact = if message.is_some() { None } else { event.fact().ok() };
        let place = self.places.next_of(event, fact.as_ref());
        let rewound = self.lineage.as_ref().is_some_and(|lineage| !lineage.contains(event.seq));
        let bytes = event.data.as_ref().map_or(0, |data| data.as_str().len());
        let mut frame = EventFrame { event, place, rewound, bytes };
        match message {
            Some(message) => self.message(&mut frame, &message),
            None => self.fact(&mut frame, fact),
        }
    }

    /// Adds what ACP tells of a call that is waiting. Returns the exit code.
    fn acp_update(&mut self, event: &Event) -> Option<i64> {
        let update = AcpCallUpdate::of(event.data.as_ref()?.as_str())?;
        let exit = update.exit;
        let at = self.waiting_call(&update.call)?;
        let mut item = self.waiting.remove(at)?;
        if let EntryBody::Call(call) = &mut item.item.what {
            update.add_to(call);
            self.relative(&mut call.arguments);
            for change in &mut call.changes {
                let mut path = format!("\"{}", change.path);
                self.relative(&mut path);
                path.get(1..).unwrap_or_default().clone_into(&mut change.path);
            }
            let target = call_target_of_text(&call.arguments);
            self.know_target(&call.call, target);
        }
        self.waiting.insert(at, item);
        exit
    }

    fn fact(&mut self, frame: &mut EventFrame<'_>, fact: Option<Fact>) {
        let event = frame.event;
        let what = match fact {
            Some(Fact::ToolCall(fact)) => {
                let arguments = fact.arguments.as_deref().map(|raw| raw.get().to_owned());
                let mut call = TimelineCall {
                    call: fact.call.0,
                    name: fact.name,
                    title: String::new(),
                    arguments: arguments.unwrap_or_default(),
                    changes: Vec::new(),
                    observed: fact.observed,
                    outcome: CallOutcome::Unknown,
                };
                sort_acp_details(&mut call);
                return self.call(frame, call, CallSource::Event);
            }
            Some(Fact::ToolResult(result)) => {
                let pieces = event.data.as_ref().and_then(ResultPiece::finished);
                let pieces = pieces.map(|result| result.pieces).unwrap_or_default();
                let mut output = output_of_pieces(&pieces);
                output.exit = self.acp_update(event);
                return self.result(frame, &result.call.0, result.ok, output, CallSource::Event);
            }
            Some(Fact::TurnStarted(start)) => {
                let number = frame.place.turn.unwrap_or_default();
                if self.turns.len() >= REMEMBERED {
                    self.turns.pop_front();
                }
                self.turns.push_back((number, event.at.as_millis()));
                EntryBody::TurnStarted { number, agent: start.agent, role: start.role }
            }
            Some(Fact::TurnFinished(end)) => {
                let turn = frame.place.turn;
                self.release(|item| item.place.turn == turn);
                let began = self.turns.iter().rev().find(|(number, _)| Some(*number) == turn);
                EntryBody::TurnFinished {
                    number: turn,
                    status: end.status,
                    millis: began.map(|(_, began)| event.at.as_millis() - began),
                    usage: end.usage,
                }
            }
            Some(Fact::TurnDecided(decision)) => EntryBody::Decided {
                choice: decision.selected.or(decision.decision).unwrap_or_default(),
                reason: decision.reason,
            },
            Some(Fact::SessionStatus(change)) if change.status != SessionStatus::Running => {
                EntryBody::Status {
                    status: change.status,
                    reason: change.reason,
                    summary: change.summary,
                }
            }
            Some(Fact::TaskCreated(task)) => EntryBody::Task {
                task: task.task,
                change: "created".to_owned(),
                text: Some(task.title),
                weight: self.task_weight(),
            },
            Some(Fact::TaskChanged(change)) => EntryBody::Task {
                task: change.task,
                change: "changed".to_owned(),
                text: change.title,
                weight: self.task_weight(),
            },
            Some(Fact::TaskStatus(change)) => EntryBody::Task {
                task: change.task,
                change: timeline_task_status(change.status).to_owned(),
                text: change.reason,
                weight: self.task_weight(),
            },
            Some(Fact::FileTouched(touch)) => {
                let told = self.targets.iter().any(|target| names_same_file(target, &touch.path));
                let minor = told || touch.op == abide_model::FileOp::Read;
                let weight = if minor { NoteWeight::Minor } else { NoteWeight::Normal };
                EntryBody::File { op: touch.op, path: touch.path, to: touch.to, weight }
            }
            fact => {
                let mut minor = false;
                match &fact {
                    Some(Fact::SessionCreated(created)) => {
                        self.enter_workspace(created.fields.workspace.as_deref());
                    }
                    Some(Fact::RunStarted(run)) => self.unplanned = !run.planned,
                    // What was allowed is told by the call that ran.
                    Some(Fact::PermissionAsked(asked)) => {
                        minor = asked
                            .call
                            .as_ref()
                            .is_some_and(|call| self.known.contains_key(&call.0));
                    }
                    Some(Fact::PermissionAnswered(answered)) => {
                        minor = answered.word().starts_with("allow");
                    }
                    Some(Fact::Foreign) if event.kind.as_str() == "acp.update" => {
                        self.acp_update(event);
                    }
                    Some(Fact::Model(model)) => {
                        // The overview names the first.
                        minor = self.model.is_none() || self.model.as_ref() == Some(&model.model);
                        self.model = Some(model.model.clone());
                    }
                    _ => {}
                }
                let (label, text, weight) = event_note(event, fact);
                let weight = if minor { NoteWeight::Minor } else { weight };
                EntryBody::Note { label, text, weight }
            }
        };
        self.entry(frame, what, ReleaseCondition::Now);
    }

    /// Adds a message: its texts as an entry, each of its calls as one, its results to their calls.
    fn message(&mut self, frame: &mut EventFrame<'_>, message: &RecordedMessage) {
        let mut parts = Vec::new();
        for piece in &message.pieces {
            let part = match &piece.sort {
                PieceContent::Text(text) | PieceContent::Refusal(text) if text.is_blank() => {
                    continue;
                }
                PieceContent::Text(text) | PieceContent::Refusal(text) => {
                    EntryPart::Text(text.decoded().into_owned())
                }
                PieceContent::Thinking { text, .. } if text.is_blank() => continue,
                PieceContent::Thinking { text, .. } => {
                    EntryPart::Thinking(text.decoded().into_owned())
                }
                PieceContent::Image(image) => EntryPart::Image(read_image(image)),
                PieceContent::Call(call) => {
                    self.texts(frame, message, std::mem::take(&mut parts));
                    let arguments = match &call.arguments {
                        CallPieceArguments::None => String::new(),
                        some => some.text().into_owned(),
                    };
                    let call = TimelineCall {
                        call: call.id.clone(),
                        name: call.name.clone(),
                        title: String::new(),
                        arguments,
                        changes: Vec::new(),
                        observed: false,
                        outcome: CallOutcome::Unknown,
                    };
                    self.call(frame, call, CallSource::Message);
                    continue;
                }
                PieceContent::Result(result) => {
                    let output = output_of_pieces(&result.pieces);
                    let ok = result.ok.unwrap_or(true);
                    self.result(frame, &result.id, ok, output, CallSource::Message);
                    continue;
                }
                PieceContent::Other(unread) => {
                    let raw = piece.raw.as_ref().map_or("", |raw| raw.get());
                    match read_unread(unread, raw) {
                        UnreadBlock::Part(part) => part,
                        UnreadBlock::Call { call, ended } => {
                            self.texts(frame, message, std::mem::take(&mut parts));
                            let id = call.call.clone();
                            self.call(frame, call, CallSource::Message);
                            if let Some(ok) = ended {
                                let nothing = CallOutput::default();
                                self.result(frame, &id, ok, nothing, CallSource::Message);
                            }
                            continue;
                        }
                        UnreadBlock::Result { call, ok, output } => {
                            self.result(frame, &call, ok, output, CallSource::Message);
                            continue;
                        }
                    }
                }
            };
            parts.push(part);
        }
        self.texts(frame, message, parts);
    }

    /// Adds an entry for parts of a message, if there are any.
    fn texts(
        &mut self,
        frame: &mut EventFrame<'_>,
        message: &RecordedMessage,
        parts: Vec<EntryPart>,
    ) {
        if parts.is_empty() {
            return;
        }
        if message.role == "user" {
            // What was requested before a prompt and did not run by then will not run.
            let lane = &frame.event.lane;
            let known = &self.known;
            let over = |item: &TimelineEntry| {
                let EntryBody::Call(call) = &item.what else { return false };
                item.lane == *lane && known.get(&call.call).is_none_or(|known| !known.called)
            };
            for waiting in self.waiting.iter_mut().filter(|waiting| over(&waiting.item)) {
                waiting.until = ReleaseCondition::Now;
            }
        }
        let body = EntryBody::Message { role: message.role.clone(), parts };
        self.entry(frame, body, ReleaseCondition::Now);
    }

    /// Adds a call, unless it is there already from the other source.
    fn call(&mut self, frame: &mut EventFrame<'_>, mut call: TimelineCall, source: CallSource) {
        self.relative(&mut call.arguments);
        let told = self.known.get_mut(&call.call).is_some_and(|known| {
            let seen = match source {
                CallSource::Message => &mut known.requested,
                CallSource::Event => &mut known.called,
            };
            // Told twice by the same source it is another call of the same id.
            !std::mem::replace(seen, true)
        });
        if told {
            let start = frame.event.at;
            let at = self.waiting_call(&call.call);
            if let Some(waiting) = at.and_then(|at| self.waiting.get_mut(at))
                && let EntryBody::Call(waiting_call) = &mut waiting.item.what
            {
                waiting.item.events.push(frame.event.seq);
                waiting_call.observed |= call.observed;
                if source == CallSource::Event {
                    waiting.item.at = start;
                }
                if waiting_call.arguments.is_empty() {
                    waiting_call.arguments = call.arguments;
                }
            }
            return;
        }
        let target = call_target_of_text(&call.arguments);
        self.remember(
            &call.call,
            KnownCall {
                name: call.name.clone(),
                requested: source == CallSource::Message,
                called: source == CallSource::Event,
                ..KnownCall::default()
            },
        );
        self.know_target(&call.call, target);
        self.entry(frame, EntryBody::Call(call), ReleaseCondition::Result);
    }

    fn know_target(&mut self, id: &str, target: String) {
        if target.is_empty() {
            return;
        }
        if let Some(known) = self.known.get_mut(id) {
            known.target.clone_from(&target);
        }
        self.targets.push_back(target);
        if self.targets.len() > TARGETS {
            self.targets.pop_front();
        }
    }

    /// Adds a result to its call.
    fn result(
        &mut self,
        frame: &mut EventFrame<'_>,
        id: &str,
        ok: bool,
        output: CallOutput,
        source: CallSource,
    ) {
        let told = self.known.get_mut(id).is_some_and(|known| {
            let other = match source {
                CallSource::Message => known.finished && !known.answered,
                CallSource::Event => known.answered && !known.finished,
            };
            match source {
                CallSource::Message => known.answered = true,
                CallSource::Event => known.finished = true,
            }
            other
        });
        if told {
            return;
        }
        let event = frame.event;
        let unknown = !ok && output.text == OUTCOME_UNKNOWN;
        let ended = |millis| match unknown {
            true => CallOutcome::Unknown,
            false => CallOutcome::Ended { ok, output, millis },
        };
        if let Some(at) = self.waiting_call(id) {
            if let Some(waiting) = self.waiting.get_mut(at) {
                waiting.until = ReleaseCondition::Now;
                waiting.ended = true;
                waiting.item.events.push(event.seq);
                let millis = event.at.as_millis() - waiting.item.at.as_millis();
                let bytes = std::mem::take(&mut frame.bytes);
                waiting.bytes += bytes;
                self.bytes += bytes;
                if let EntryBody::Call(call) = &mut waiting.item.what {
                    call.outcome = ended(Some(millis));
                }
            }
            return;
        }
        let known = self.known.get(id);
        let call = TimelineCall {
            call: id.to_owned(),
            name: known.map(|known| known.name.clone()).unwrap_or_default(),
            title: known.map(|known| known.target.clone()).unwrap_or_default(),
            arguments: String::new(),
            changes: Vec::new(),
            observed: false,
            outcome: ended(None),
        };
        self.entry(frame, EntryBody::LateResult(call), ReleaseCondition::Now);
    }

    fn entry(&mut self, frame: &mut EventFrame<'_>, what: EntryBody, until: ReleaseCondition) {
        let event = frame.event;
        // The bytes of an event count once, however many entries it makes.
        let bytes = std::mem::take(&mut frame.bytes);
        self.bytes += bytes;
        let lane_title = event.lane.as_ref().map(|lane| self.lane_title(lane));
        let mut place = frame.place.clone();
        if self.unplanned {
            place.task = None;
        }
        let item = TimelineEntry {
            seq: event.seq,
            events: Vec::new(),
            at: event.at,
            place,
            lane: event.lane.clone(),
            lane_title,
            rewound: frame.rewound,
            what,
        };
        self.waiting.push_back(WaitingEntry { item, bytes, until, ended: false });
    }

    /// The name of a lane: what the call was about that it belongs to, or its id.
    fn lane_title(&self, lane: &LaneId) -> String {
        let known = self.known.get(lane.as_str());
        let title = known.map(|known| match known.target.as_str() {
            "" => known.name.clone(),
            target => target.to_owned(),
        });
        title.unwrap_or_else(|| lane.as_str().to_owned())
    }

    const fn task_weight(&self) -> NoteWeight {
        if self.unplanned { NoteWeight::Minor } else { NoteWeight::Normal }
    }

    /// Skips an event that a rewind removed from the lineage.
    pub fn pass(&mut self, event: &Event) {
        self.places.pass(event);
    }

    /// Returns the next entry that is ready.
    pub fn next_item(&mut self) -> Option<TimelineEntry> {
        let full = self.waiting.len() > WAITING || self.bytes > WAITING_BYTES;
        if self.waiting.front()?.until != ReleaseCondition::Now && !full {
            return None;
        }
        let waiting = self.waiting.pop_front()?;
        self.bytes = self.bytes.saturating_sub(waiting.bytes);
        Some(waiting.item)
    }

    /// Ends the input: every waiting entry becomes ready.
    pub fn finish(&mut self) {
        self.release(|_| true);
    }

    fn release(&mut self, which: impl Fn(&TimelineEntry) -> bool) {
        for waiting in &mut self.waiting {
            if which(&waiting.item) {
                waiting.until = ReleaseCondition::Now;
            }
        }
    }

    /// The waiting entry of a call without a result.
    fn waiting_call(&self, id: &str) -> Option<usize> {
        self.waiting.iter().rposition(|waiting| {
            matches!(&waiting.item.what, EntryBody::Call(call)
                if call.call == id && !waiting.ended)
        })
    }

    fn remember(&mut self, id: &str, call: KnownCall) {
        if self.known.insert(id.to_owned(), call).is_some() {
            return;
        }
        self.known_in_order.push_back(id.to_owned());
        if self.known_in_order.len() > REMEMBERED
            && let Some(oldest) = self.known_in_order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// Whether a path and what a call named are the same file, relative or absolute.
fn names_same_file(one: &str, other: &str) -> bool {
    let (long, short) = if one.len() > other.len() { (one, other) } else { (other, one) };
    let rest = long.strip_suffix(short);
    !short.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
}

pub(crate) const fn timeline_task_status(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Planned => "planned",
        TaskStatus::Researching => "researching",
        TaskStatus::Implementing => "implementing",
        TaskStatus::Retrying => "retrying",
        TaskStatus::Complete => "complete",
        TaskStatus::Failed => "failed",
        TaskStatus::Blocked => "blocked",
        TaskStatus::Obsolete => "obsolete",
    }
}
