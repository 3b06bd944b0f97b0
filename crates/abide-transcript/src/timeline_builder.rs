//! Builds a session's timeline: events in, entries out, in journal order.
//!
//! A call is one entry together with its result, whether messages tell of them, in whatever form, or
//! `tool.called` and `tool.finished`, or both: they are joined by the id of the call. So a call waits
//! for its result, and later entries wait behind it. The wait is bounded: at the end of the call's
//! turn, at the next prompt if nothing says that it ran, or when too much is waiting, the call is
//! emitted without an outcome.

use std::collections::{BTreeMap, VecDeque};

use abide_model::message::{CallPieceArguments, PieceContent, ResultPiece};
use abide_model::{
    Event, Fact, Kind, LaneId, Lineage, OUTCOME_UNKNOWN, RecordedMessage, SessionStatus,
    TaskStatus, TurnNumber, split_machine_text,
};

use crate::acp_update::{AcpCallUpdate, sort_acp_details};
use crate::block_reader::{
    UnreadBlock, output_of_pieces, read_image, read_unread, unwrapped_output,
};
use crate::note::event_note;
use crate::place_tracker::{EventPlace, PlaceTracker};
use crate::short::short_start;
use crate::target::call_target_of_text;
use crate::timeline_entry::{
    CallOutcome, CallOutput, EntryBody, EntryPart, NoteWeight, TimelineCall, TimelineEntry,
};

/// Limits on the entries and bytes that wait for an outcome.
const WAITING: usize = 256;
const WAITING_BYTES: usize = 8 << 20;
/// How many calls and turn starts are remembered.
const REMEMBERED: usize = 4096;
/// Longer ids are not remembered, and longer paths not compared.
const LONGEST: usize = 1024;
/// The most characters of a name or target that are remembered.
const NAME: usize = 200;
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
    /// The calls, and their keys in order.
    known: BTreeMap<CallKey, KnownCall>,
    known_in_order: VecDeque<CallKey>,
    /// The latest call of each id: a lane may have its id.
    titled: BTreeMap<String, CallKey>,
    /// What the latest calls were about.
    targets: VecDeque<String>,
    /// The model in use.
    model: Option<String>,
    /// The workspace of the session.
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
    /// Something else than a further part of this answer follows.
    Answer(String),
}

/// What a call is known by. Lanes do not share ids, and what a rewind took back has its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CallKey {
    id: String,
    lane: String,
    rewound: bool,
}

/// What is known of a call.
#[derive(Debug, Default)]
struct KnownCall {
    name: String,
    target: String,
    turn: Option<TurnNumber>,
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
        let path = workspace.filter(|path| path.starts_with('/') && path.len() <= LONGEST);
        self.workspace = path.map(str::to_owned).or_else(|| self.workspace.take());
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
        let rewound = self.is_rewound(event);
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
        let rewound = self.is_rewound(event);
        let at = self.waiting_call(&update.call, event.lane.as_ref(), rewound)?;
        if let Some(EntryBody::Call(call)) =
            self.waiting.get_mut(at).map(|waiting| &mut waiting.item.what)
        {
            update.add_to(call);
            let (id, target) = (call.call.clone(), call_target_of_text(&call.arguments));
            self.know_target(&CallKey::of(&id, event.lane.as_ref(), rewound), &target);
        }
        exit
    }

    fn is_rewound(&self, event: &Event) -> bool {
        self.lineage.as_ref().is_some_and(|lineage| !lineage.contains(event.seq))
    }

    fn fact(&mut self, frame: &mut EventFrame<'_>, fact: Option<Fact>) {
        let event = frame.event;
        let what = match fact {
            Some(Fact::ToolCall(fact)) => {
                let arguments = fact.arguments.as_deref().map(|raw| raw.get().to_owned());
                let arguments = arguments.unwrap_or_default();
                let mut call = TimelineCall::new(fact.call.0, fact.name, arguments);
                call.observed = fact.observed;
                sort_acp_details(&mut call);
                return self.call(frame, call, CallSource::Event);
            }
            Some(Fact::ToolResult(result)) => {
                let pieces = event.data.as_ref().and_then(ResultPiece::finished);
                let pieces = pieces.map(|result| result.pieces).unwrap_or_default();
                let mut output = output_of_pieces(&pieces);
                let mut ok = Some(result.ok);
                if let Some((inner, succeeded)) = unwrapped_output(&output.text) {
                    output = inner;
                    ok = Some(result.ok && succeeded);
                }
                output.exit = self.acp_update(event);
                return self.result(frame, &result.call.0, ok, output, CallSource::Event);
            }
            Some(Fact::TurnStarted(start)) => {
                let number = frame.place.turn.unwrap_or_default();
                if self.turns.len() >= REMEMBERED {
                    self.turns.pop_front();
                }
                self.turns.push_back((number, event.time().as_millis()));
                EntryBody::TurnStarted { number, agent: start.agent, role: start.role }
            }
            Some(Fact::TurnFinished(end)) => {
                let turn = frame.place.turn;
                self.release(|item| item.place.turn == turn);
                let began = self.turns.iter().rev().find(|(number, _)| Some(*number) == turn);
                EntryBody::TurnFinished {
                    number: turn,
                    status: end.status,
                    millis: began.map(|(_, began)| (event.time().as_millis() - began).max(0)),
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
                        let call = asked.call.as_ref();
                        minor = call.is_some_and(|call| self.titled.contains_key(&call.0));
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
                PieceContent::Text(text) if message.role == "user" => {
                    let text = text.decoded();
                    let (machine, words) = split_machine_text(&text);
                    if !machine.is_empty() {
                        parts.push(EntryPart::Context(machine.trim().to_owned()));
                    }
                    if words.trim().is_empty() {
                        continue;
                    }
                    EntryPart::Text(words.trim_start_matches('\n').to_owned())
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
                    let call = TimelineCall::new(call.id.clone(), call.name.clone(), arguments);
                    self.call(frame, call, CallSource::Message);
                    continue;
                }
                PieceContent::Result(result) => {
                    let output = output_of_pieces(&result.pieces);
                    self.result(frame, &result.id, result.ok, output, CallSource::Message);
                    continue;
                }
                PieceContent::Other(unread) => {
                    let raw = piece.raw.as_ref().map_or("", |raw| raw.get());
                    match read_unread(unread, raw) {
                        UnreadBlock::Part(part) => part,
                        UnreadBlock::Call { call, ended, output } => {
                            self.texts(frame, message, std::mem::take(&mut parts));
                            let id = call.call.clone();
                            self.call(frame, *call, CallSource::Message);
                            if ended.is_some() {
                                self.result(frame, &id, ended, output, CallSource::Message);
                            }
                            continue;
                        }
                        UnreadBlock::Result { call, ok, output } => {
                            self.result(frame, &call, Some(ok), output, CallSource::Message);
                            continue;
                        }
                    }
                }
            };
            parts.push(part);
        }
        if message.pieces.is_empty() && self.lacks_content(frame) {
            return self.fact(frame, None);
        }
        self.texts(frame, message, parts);
    }

    /// Is it a message with none of the fields that hold what was said? Then a mistyped one may.
    fn lacks_content(&self, frame: &EventFrame<'_>) -> bool {
        let known = ["content", "tool_calls", "parts", "output", "summary", "refusal", "reasoning"];
        frame.event.data.as_ref().is_some_and(|data| !data.has_any_field(&known))
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
        let answers = message.pieces.iter().any(|piece| piece.result().is_some());
        if message.role == "user" && !answers {
            self.release_requests(frame);
        }
        let answer = message.marks.answer.as_ref().filter(|answer| answer.len() <= LONGEST);
        let until = match answer {
            Some(answer) => ReleaseCondition::Answer(answer.clone()),
            None => ReleaseCondition::Now,
        };
        // A text that is recorded in parts is one message.
        if let Some(last) = self.waiting.back_mut()
            && answer.is_some()
            && last.until == until
            && last.item.lane == frame.event.lane
            && let EntryBody::Message { role, parts: before } = &mut last.item.what
            && *role == message.role
        {
            last.item.events.push(frame.event.seq);
            let bytes = std::mem::take(&mut frame.bytes);
            last.bytes += bytes;
            self.bytes += bytes;
            for part in parts {
                match (before.last_mut(), part) {
                    (Some(EntryPart::Text(text)), EntryPart::Text(more)) => text.push_str(&more),
                    (_, part) => before.push(part),
                }
            }
            return;
        }
        let body = EntryBody::Message { role: message.role.clone(), parts };
        self.entry(frame, body, until);
    }

    /// Releases the calls of a lane that were requested and did not run before its next prompt: they
    /// will not run.
    fn release_requests(&mut self, frame: &EventFrame<'_>) {
        let known = &self.known;
        let lane = frame.event.lane.as_ref();
        let over = |item: &TimelineEntry| {
            let EntryBody::Call(call) = &item.what else { return false };
            let key = CallKey::of(&call.call, lane, item.rewound);
            item.lane.as_ref() == lane && known.get(&key).is_none_or(|known| !known.called)
        };
        for waiting in self.waiting.iter_mut().filter(|waiting| over(&waiting.item)) {
            waiting.until = ReleaseCondition::Now;
        }
    }

    /// Adds a call, unless it is there already from the other source.
    fn call(&mut self, frame: &mut EventFrame<'_>, mut call: TimelineCall, source: CallSource) {
        call.workspace = self.workspace.clone().unwrap_or_default();
        let lane = frame.event.lane.as_ref();
        let key = CallKey::of(&call.call, lane, frame.rewound);
        let turn = frame.place.turn;
        let told = self.known.get_mut(&key).is_some_and(|known| {
            // An id that is used again in a later turn is another call.
            if known.has_ended() && known.turn != turn {
                return false;
            }
            let seen = match source {
                CallSource::Message => &mut known.requested,
                CallSource::Event => &mut known.called,
            };
            // So is one that the same source tells of twice.
            !std::mem::replace(seen, true)
        });
        if told {
            let start = frame.event.time();
            let at = self.waiting_call(&call.call, lane, frame.rewound);
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
        let known = KnownCall {
            name: short_start(&call.name, NAME),
            turn,
            requested: source == CallSource::Message,
            called: source == CallSource::Event,
            ..KnownCall::default()
        };
        self.remember(key.clone(), known);
        self.know_target(&key, &target);
        self.entry(frame, EntryBody::Call(call), ReleaseCondition::Result);
    }

    fn know_target(&mut self, key: &CallKey, target: &str) {
        if target.is_empty() {
            return;
        }
        if let Some(known) = self.known.get_mut(key) {
            known.target = short_start(target, NAME);
        }
        if target.len() <= LONGEST {
            self.targets.push_back(target.to_owned());
            if self.targets.len() > TARGETS {
                self.targets.pop_front();
            }
        }
    }

    /// Adds a result to its call.
    fn result(
        &mut self,
        frame: &mut EventFrame<'_>,
        id: &str,
        ok: Option<bool>,
        output: CallOutput,
        source: CallSource,
    ) {
        let event = frame.event;
        let lane = event.lane.as_ref();
        let key = CallKey::of(id, lane, frame.rewound);
        let told = self.known.get_mut(&key).is_some_and(|known| {
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
        let unknown = ok != Some(true) && output.text == OUTCOME_UNKNOWN;
        let ended = |millis| match unknown {
            true => CallOutcome::Unknown,
            false => CallOutcome::Ended { ok: ok.unwrap_or(true), output, millis },
        };
        if let Some(at) = self.waiting_call(id, lane, frame.rewound) {
            if let Some(waiting) = self.waiting.get_mut(at) {
                waiting.until = ReleaseCondition::Now;
                waiting.ended = true;
                waiting.item.events.push(event.seq);
                let millis = (event.time().as_millis() - waiting.item.at.as_millis()).max(0);
                let bytes = std::mem::take(&mut frame.bytes);
                waiting.bytes += bytes;
                self.bytes += bytes;
                if let EntryBody::Call(call) = &mut waiting.item.what {
                    call.outcome = ended(Some(millis));
                }
            }
            return;
        }
        let known = self.known.get(&key);
        let name = known.map(|known| known.name.clone()).unwrap_or_default();
        let call = TimelineCall {
            title: known.map(|known| known.target.clone()).unwrap_or_default(),
            outcome: ended(None),
            ..TimelineCall::new(id.to_owned(), name, String::new())
        };
        self.entry(frame, EntryBody::LateResult(call), ReleaseCondition::Now);
    }

    fn entry(&mut self, frame: &mut EventFrame<'_>, what: EntryBody, until: ReleaseCondition) {
        let event = frame.event;
        // What follows ends a text that is recorded in parts.
        if let Some(last) = self.waiting.back_mut()
            && matches!(last.until, ReleaseCondition::Answer(_))
        {
            last.until = ReleaseCondition::Now;
        }
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
            at: event.time(),
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
        let known = self.titled.get(lane.as_str()).and_then(|key| self.known.get(key));
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
    fn waiting_call(&self, id: &str, lane: Option<&LaneId>, rewound: bool) -> Option<usize> {
        self.waiting.iter().rposition(|waiting| {
            matches!(&waiting.item.what, EntryBody::Call(call)
                if call.call == id && !waiting.ended)
                && waiting.item.lane.as_ref() == lane
                && waiting.item.rewound == rewound
        })
    }

    fn remember(&mut self, key: CallKey, call: KnownCall) {
        if key.id.len() > LONGEST || key.lane.len() > LONGEST {
            return;
        }
        self.titled.insert(key.id.clone(), key.clone());
        if self.known.insert(key.clone(), call).is_some() {
            return;
        }
        self.known_in_order.push_back(key);
        if self.known_in_order.len() > REMEMBERED
            && let Some(oldest) = self.known_in_order.pop_front()
        {
            self.known.remove(&oldest);
            if self.titled.get(&oldest.id) == Some(&oldest) {
                self.titled.remove(&oldest.id);
            }
        }
    }
}

impl CallKey {
    fn of(id: &str, lane: Option<&LaneId>, rewound: bool) -> Self {
        let lane = lane.map(LaneId::as_str).unwrap_or_default().to_owned();
        Self { lane, id: id.to_owned(), rewound }
    }
}

impl KnownCall {
    const fn has_ended(&self) -> bool {
        self.answered || self.finished
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
