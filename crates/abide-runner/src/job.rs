//! One agent at work on one task: its output becomes events.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use abide::{
    CallId, Error, Kind, LaneId, Message, NewEvent, Payload, Seq, Timestamp, ToolCall, ToolResult,
    event::{
        AgentObservation, EventLimits, FileTouch, LimitObservation, LogRecord, ModelConfiguration,
        ResourceSample, TurnNumber, Usage, UsageRecord,
    },
    event::{ArtifactCommand, CommandOutcome, OutcomeReport},
    secrets::{Redactor, unscanned_mark},
    tasks::TaskId,
};
use abide_agents::{
    AgentKind, AgentReader, ObservedFact, OutputObservation, PriorSession, ReachedLimit,
};

use crate::child::AgentChild;
use crate::leftover_work::UnresolvedCall;
use crate::plain_lines::{LinePiece, PlainLines};
use crate::redacted_output::RedactedOutput;
use crate::run_event::{RunEvent, Stream};
use crate::run_options::ResumeMode;
use crate::task_check::TaskCheck;
use crate::typed_input::{TypedEcho, TypedInput};

/// The longest time that events wait to be recorded.
const LINGER: Duration = Duration::from_millis(100);
/// The most bytes of events that wait to be recorded.
const PENDING: usize = 1 << 20;
/// After this time printed plain text becomes a message, or the part of one.
const TEXT: Duration = Duration::from_secs(1);
/// The most bytes of stderr that are recorded.
const ERRORS: usize = 256 << 10;
/// The most open calls remembered.
const CALLS: usize = 1000;
/// The most characters of a subagent's name.
const LANE: usize = 100;
/// How much of the end of the output is kept to explain a failure.
const TAIL: usize = 4 << 10;
/// The longest object that is kept to explain a failure.
const OBJECT: usize = 64 << 10;
/// The most characters of a last line.
const LAST: usize = 300;

/// The last bytes of an output, which has marks in place of secrets.
#[derive(Debug, Default)]
pub(crate) struct JobOutputTail(Vec<u8>);

impl JobOutputTail {
    fn push(&mut self, bytes: &[u8]) {
        let keep = bytes.get(bytes.len().saturating_sub(TAIL)..).unwrap_or_default();
        self.0.extend_from_slice(keep);
        let over = self.0.len().saturating_sub(TAIL);
        self.0.drain(..over);
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// The last line that is not blank.
    pub(crate) fn last_line(&self) -> Option<String> {
        let text = self.text();
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(line.chars().take(LAST).collect())
    }
}

/// The last line of an output, if it is an object, as it was printed. Redacted when it is asked for.
#[derive(Debug, Default)]
struct LastObject {
    bytes: Vec<u8>,
    /// It is too long to be kept.
    too_long: bool,
}

impl LastObject {
    fn push(&mut self, bytes: &[u8]) {
        self.too_long |= self.bytes.len() + bytes.len() > OBJECT;
        if !self.too_long {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.too_long = false;
    }

    const fn is_empty(&self) -> bool {
        self.bytes.is_empty() && !self.too_long
    }

    /// The line as it is recorded. `None` if it is too long, or not complete.
    fn line(&self, redactor: Option<&Redactor>) -> Option<String> {
        if self.too_long || self.bytes.is_empty() {
            return None;
        }
        let line = std::str::from_utf8(self.bytes.trim_ascii()).ok()?;
        let line = match redactor {
            Some(redactor) => redactor.redact_json(line).ok()?.into_text(),
            None => line.into(),
        };
        Some(line.chars().take(LAST).collect())
    }
}

/// One agent at work on one task, or on the conversation.
pub(crate) struct Job {
    pub(crate) number: u64,
    /// `None` in a conversation.
    pub(crate) task: Option<TaskId>,
    pub(crate) title: String,
    pub(crate) lane: Option<LaneId>,
    pub(crate) slot: usize,
    pub(crate) turn: TurnNumber,
    pub(crate) way: Option<ResumeMode>,
    pub(crate) attempt: u64,
    /// The event with the task's result before this attempt.
    pub(crate) result_before: Option<Seq>,
    /// The task's check.
    pub(crate) check: Option<String>,
    /// The check that runs, once the agent said that it is done.
    pub(crate) checking: Option<TaskCheck>,
    /// The end of the turn is recorded.
    pub(crate) turn_ended: bool,
    pub(crate) child: AgentChild,
    pub(crate) started: Instant,
    /// Up to when its time is in the account of its task.
    counted: Instant,
    pub(crate) exit: Option<std::io::Result<ExitStatus>>,
    pub(crate) exited: Option<Instant>,
    /// When it was asked to exit.
    pub(crate) asked: Option<Instant>,
    /// It got SIGTERM.
    pub(crate) signalled: bool,
    /// When it was killed.
    pub(crate) killed: Option<Instant>,
    /// The agent's last report on its task: success and text.
    pub(crate) outcome: Option<(bool, Option<String>)>,
    /// The last limit that it hit, and when.
    pub(crate) limited: Option<(ReachedLimit, Instant)>,
    /// Open calls; the first ones if there are many.
    pub(crate) calls: BTreeMap<String, UnresolvedCall>,
    /// Open calls that test or build.
    builds: BTreeMap<String, ArtifactCommand>,
    /// How many messages it has said.
    pub(crate) said: u64,
    pub(crate) out_tail: JobOutputTail,
    pub(crate) err_tail: JobOutputTail,
    pub(crate) usage: Usage,
    /// The agent's own id of its session.
    pub(crate) agent_session: Option<String>,
    pub(crate) peak_rss: u64,
    open: [bool; 2],
    kind: AgentKind,
    reader: AgentReader,
    /// The lines of an agent that prints events.
    lines: PlainLines,
    /// The last plain line that was read has not ended.
    in_plain_line: bool,
    last_object: LastObject,
    /// What the person at its terminal types.
    typed: TypedInput,
    /// The lines that were entered.
    entered: RedactedOutput,
    /// What is no whole line of them.
    entered_text: Vec<u8>,
    /// Events to be recorded.
    pending: Vec<NewEvent>,
    pending_bytes: usize,
    since: Option<Instant>,
    /// When plain text was last made a message.
    text_since: Option<Instant>,
    errors: Vec<u8>,
    errors_recorded: usize,
    errors_left: u64,
    model: Option<String>,
    /// How many events could not be recorded.
    refused: u64,
    /// Its outputs, or the plain lines of an agent that prints events. Secrets are replaced before
    /// anything is cut off.
    out: RedactedOutput,
    err: RedactedOutput,
    /// Where its check printed last.
    last_stream: Stream,
    redactor: Option<Redactor>,
}

const fn other_stream(stream: Stream) -> Stream {
    match stream {
        Stream::Out => Stream::Err,
        Stream::Err => Stream::Out,
    }
}

/// What a job is started with.
pub(crate) struct JobStart {
    pub(crate) number: u64,
    pub(crate) task: Option<TaskId>,
    pub(crate) title: String,
    pub(crate) lane: Option<LaneId>,
    pub(crate) slot: usize,
    pub(crate) turn: TurnNumber,
    pub(crate) way: Option<ResumeMode>,
    pub(crate) attempt: u64,
    pub(crate) result_before: Option<Seq>,
    pub(crate) check: Option<String>,
}

impl Job {
    pub(crate) fn new(
        begin: JobStart,
        kind: AgentKind,
        before: PriorSession,
        child: AgentChild,
        redactor: Option<&Redactor>,
    ) -> Self {
        let open = [true, !child.terminal];
        Self {
            number: begin.number,
            task: begin.task,
            title: begin.title,
            lane: begin.lane,
            slot: begin.slot,
            turn: begin.turn,
            way: begin.way,
            attempt: begin.attempt,
            result_before: begin.result_before,
            check: begin.check,
            checking: None,
            turn_ended: false,
            child,
            started: Instant::now(),
            counted: Instant::now(),
            exit: None,
            exited: None,
            asked: None,
            signalled: false,
            killed: None,
            outcome: None,
            limited: None,
            calls: BTreeMap::new(),
            builds: BTreeMap::new(),
            said: 0,
            out_tail: JobOutputTail::default(),
            err_tail: JobOutputTail::default(),
            usage: Usage::default(),
            agent_session: None,
            peak_rss: 0,
            open,
            kind,
            reader: AgentReader::with(kind, before),
            lines: PlainLines::default(),
            in_plain_line: false,
            last_object: LastObject::default(),
            typed: TypedInput::new(redactor),
            entered: RedactedOutput::new(redactor),
            entered_text: Vec::new(),
            pending: Vec::new(),
            pending_bytes: 0,
            since: None,
            text_since: None,
            errors: Vec::new(),
            errors_recorded: 0,
            errors_left: 0,
            model: None,
            refused: 0,
            out: RedactedOutput::new(redactor),
            err: RedactedOutput::new(redactor),
            last_stream: Stream::Out,
            redactor: redactor.cloned(),
        }
    }

    /// Whether its agent has reported how its work ended.
    pub(crate) const fn reported_outcome(&self) -> bool {
        self.checking.is_none() && self.outcome.is_some()
    }

    /// A text of the agent as it is recorded, to be cut only then.
    pub(crate) fn redacted<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.redactor.as_ref().map(|redactor| redactor.redact_text(text)) {
            None => text.into(),
            Some(Ok(redacted)) => redacted.into_text(),
            Some(Err(overrun)) => unscanned_mark(overrun.bytes).into(),
        }
    }

    /// The last line of its stdout that is not blank, as it is recorded. Not an earlier one, if the last
    /// is an object that cannot be.
    pub(crate) fn last_line(&self) -> Option<String> {
        if self.last_object.is_empty() {
            return self.out_tail.last_line();
        }
        self.last_object.line(self.redactor.as_ref())
    }

    /// The time since this was last asked.
    pub(crate) fn since_counted(&mut self) -> Duration {
        std::mem::replace(&mut self.counted, Instant::now()).elapsed()
    }

    /// Goes on with the task's check in the agent's place.
    pub(crate) fn begin_check(&mut self, number: u64, check: TaskCheck, child: AgentChild) {
        self.number = number;
        self.checking = Some(check);
        self.open = [true, true];
        self.child = child;
        (self.exit, self.exited, self.asked, self.killed) = (None, None, None, None);
        self.signalled = false;
    }

    /// The mark of this job in the environment of all processes it starts.
    pub(crate) fn mark(session: abide::SessionId, turn: TurnNumber) -> String {
        format!("{session}/{turn}.")
    }

    /// Handles output of the agent.
    pub(crate) fn printed(
        &mut self,
        stream: Stream,
        bytes: &[u8],
        now: Timestamp,
        tell: &mut dyn FnMut(&RunEvent),
    ) {
        if self.checking.is_some() {
            return self.check_printed(stream, bytes);
        }
        match stream {
            Stream::Out => {
                let bytes = self.typed.without_echo(bytes);
                if self.kind.prints_text() {
                    let bytes = self.out.push(bytes).into_owned();
                    self.printed_out(&bytes, now, tell);
                } else {
                    self.printed_lines(bytes, now, tell);
                }
            }
            Stream::Err => {
                let bytes = self.err.push(bytes).into_owned();
                self.printed_err(&bytes);
            }
        }
    }

    const fn output(&mut self, stream: Stream) -> &mut RedactedOutput {
        match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        }
    }

    /// Handles output of the check. What the other stream holds back was printed before it.
    fn check_printed(&mut self, stream: Stream, bytes: &[u8]) {
        self.last_stream = stream;
        let mut text = self.output(other_stream(stream)).settle();
        text.extend_from_slice(&self.output(stream).push(bytes));
        self.keep_of_check(&text);
    }

    fn keep_of_check(&mut self, text: &[u8]) {
        if let Some(check) = &mut self.checking {
            check.printed(text);
        }
    }

    /// Handles lines that are objects, or plain. Events are made of the objects as they are, and redacted
    /// when they are recorded.
    fn printed_lines(&mut self, bytes: &[u8], now: Timestamp, tell: &mut dyn FnMut(&RunEvent)) {
        for piece in self.lines.pieces(bytes) {
            match piece {
                LinePiece::Plain(bytes) => {
                    let bytes = self.out.push(bytes).into_owned();
                    self.printed_out(&bytes, now, tell);
                }
                LinePiece::Object(bytes) => {
                    self.end_plain_lines(now, tell);
                    self.last_object.clear();
                    self.last_object.push(bytes);
                    self.read(bytes, now, tell);
                }
                LinePiece::ObjectRest(bytes) => {
                    self.last_object.push(bytes);
                    self.read(bytes, now, tell);
                }
            }
        }
    }

    /// Handles what is held back of the plain lines before an object, which begins a line of its own.
    fn end_plain_lines(&mut self, now: Timestamp, tell: &mut dyn FnMut(&RunEvent)) {
        let held = self.out.finish();
        self.printed_out(&held, now, tell);
        // The mark of a private key without its end stands for the line break, too.
        if self.in_plain_line {
            self.printed_out(b"\n", now, tell);
        }
    }

    /// Handles text of its stdout, which has marks in place of secrets.
    fn printed_out(&mut self, bytes: &[u8], now: Timestamp, tell: &mut dyn FnMut(&RunEvent)) {
        let Some(last) = bytes.last() else { return };
        self.in_plain_line = *last != b'\n';
        if !bytes.trim_ascii().is_empty() {
            self.last_object.clear();
        }
        self.out_tail.push(bytes);
        self.text_since.get_or_insert_with(Instant::now);
        self.read(bytes, now, tell);
    }

    /// Makes events of what was printed.
    fn read(&mut self, bytes: &[u8], now: Timestamp, tell: &mut dyn FnMut(&RunEvent)) {
        let mut seen = Vec::new();
        self.reader.feed(bytes, now, &mut |one| seen.push(one));
        self.take(seen, tell);
    }

    fn printed_err(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.err_tail.push(bytes);
        let room = ERRORS.saturating_sub(self.errors_recorded + self.errors.len());
        let kept = bytes.get(..bytes.len().min(room)).unwrap_or_default();
        self.errors.extend_from_slice(kept);
        self.errors_left += (bytes.len() - kept.len()) as u64;
        self.since.get_or_insert_with(Instant::now);
    }

    /// Handles what was held back of its outputs, which have ended or are not waited for.
    fn end_outputs(&mut self, now: Timestamp, tell: &mut dyn FnMut(&RunEvent)) {
        if self.checking.is_some() {
            // What was printed last comes last.
            for stream in [other_stream(self.last_stream), self.last_stream] {
                let held = self.output(stream).finish();
                self.keep_of_check(&held);
            }
            return;
        }
        let (out, err) = (self.out.finish(), self.err.finish());
        let entered = self.entered.finish();
        self.entered_text.extend(entered);
        self.push_entered();
        self.printed_out(&out, now, tell);
        self.printed_err(&err);
    }

    /// Passes on the lines that its outputs have held back for long enough. Returns whether there was
    /// one of its stdout. Of a check nothing is recorded before it has ended.
    fn settle_outputs(&mut self, now: Timestamp, tell: &mut dyn FnMut(&RunEvent)) -> bool {
        let is_due = |output: &RedactedOutput| {
            output.held_since().is_some_and(|since| since.elapsed() >= TEXT)
        };
        if self.checking.is_some() {
            return false;
        }
        if is_due(&self.err) {
            let bytes = self.err.settle();
            self.printed_err(&bytes);
        }
        let bytes = if is_due(&self.out) { self.out.settle() } else { Vec::new() };
        self.printed_out(&bytes, now, tell);
        !bytes.is_empty()
    }

    /// Handles what the person at its terminal typed: a line that is entered is a message, and ends
    /// the one of the agent's before it.
    pub(crate) fn typed(
        &mut self,
        bytes: &[u8],
        echo: TypedEcho,
        now: Timestamp,
        tell: &mut dyn FnMut(&RunEvent),
    ) {
        if self.checking.is_some() {
            return;
        }
        for line in self.typed.typed(bytes, echo) {
            let held = self.out.end_line();
            self.printed_out(&held, now, tell);
            let mut seen = Vec::new();
            self.reader.entered(&mut |one| seen.push(one));
            self.take(seen, tell);
            self.enter(line);
        }
    }

    /// Takes a line that was entered. A private key that has begun in it waits for its end, and what
    /// follows it with it.
    fn enter(&mut self, mut line: String) {
        line.push('\n');
        let text = self.entered.push(line.as_bytes()).into_owned();
        self.entered_text.extend(text);
        let text = self.entered.settle();
        self.entered_text.extend(text);
        if self.entered_text.ends_with(b"\n") {
            self.push_entered();
        }
    }

    /// Makes a message of what was entered.
    fn push_entered(&mut self) {
        let text = std::mem::take(&mut self.entered_text);
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        if text.is_empty() {
            return;
        }
        match Message::user(text).try_into() {
            Ok(event) => self.push(event, None),
            Err(_) => self.refused += 1,
        }
    }

    /// Notes that a stream was closed.
    pub(crate) fn closed(&mut self, stream: Stream) {
        let open = match stream {
            Stream::Out => self.open.first_mut(),
            Stream::Err => self.open.last_mut(),
        };
        if let Some(open) = open {
            *open = false;
        }
    }

    /// Whether its output is complete. Processes it left behind may hold it open; they are waited
    /// for only briefly.
    pub(crate) fn is_over(&self, patience: Duration) -> bool {
        let Some(exited) = self.exited else { return false };
        self.open == [false, false] || exited.elapsed() >= patience
    }

    fn take(&mut self, seen: Vec<OutputObservation>, tell: &mut dyn FnMut(&RunEvent)) {
        for OutputObservation { subagent, what } in seen {
            match &what {
                ObservedFact::Called { call, name, .. } => {
                    // It continued after all.
                    self.limited = None;
                    if self.calls.len() < CALLS {
                        let unknown = UnresolvedCall {
                            call: CallId(call.clone()),
                            name: name.clone(),
                            lane: self.lane_of(subagent.as_deref()),
                        };
                        self.calls.insert(call.clone(), unknown);
                    }
                }
                ObservedFact::Finished { call, .. } => drop(self.calls.remove(call)),
                _ => {}
            }
            let artifacts = self.artifacts_of(&what);
            match self.event(what, tell) {
                Ok(Some(event)) => {
                    self.push(event, subagent.as_deref());
                    for artifact in artifacts {
                        self.push(artifact, subagent.as_deref());
                    }
                }
                Ok(None) => {}
                Err(_) => self.refused += 1,
            }
        }
    }

    /// The records of the tests and builds that ended with a call.
    fn artifacts_of(&mut self, seen: &ObservedFact) -> Vec<NewEvent> {
        match seen {
            ObservedFact::Called { call, name, arguments } => {
                self.builds.remove(call);
                let arguments = arguments.as_deref();
                let command = arguments.and_then(|all| ArtifactCommand::of_tool(name, all));
                if let Some(command) = command.filter(|_| self.builds.len() < CALLS) {
                    self.builds.insert(call.clone(), command);
                }
                Vec::new()
            }
            ObservedFact::Finished { call, ok, result } => {
                let Some(command) = self.builds.remove(call) else { return Vec::new() };
                let result =
                    ToolResult { call: CallId(call.clone()), ok: *ok, result: result.clone() };
                let mut outcome = CommandOutcome::of_result(&result);
                if *ok && !self.kind.reports_exit() {
                    outcome.report = OutcomeReport::Unknown;
                }
                // An artifact has only the end of it.
                outcome.output = self.redacted(&outcome.output).into_owned();
                let artifacts = command.artifacts(&outcome).into_iter();
                artifacts.filter_map(|artifact| artifact.try_into().ok()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The event that records an observation.
    fn event(
        &mut self,
        seen: ObservedFact,
        tell: &mut dyn FnMut(&RunEvent),
    ) -> Result<Option<NewEvent>, Error> {
        let task = || self.task.clone();
        Ok(Some(match seen {
            ObservedFact::Session { id } => {
                self.agent_session = Some(id.clone());
                let agent = Some(self.kind.to_string());
                AgentObservation { session: Some(id), agent, model: None }.try_into()?
            }
            ObservedFact::Model { name } => {
                if self.model.as_ref() == Some(&name) {
                    return Ok(None);
                }
                self.model = Some(name.clone());
                ModelConfiguration { model: name, ..ModelConfiguration::default() }.try_into()?
            }
            ObservedFact::Message { data } => {
                self.said += 1;
                tell(&RunEvent::Message { task: task(), data: data.get().to_owned() });
                NewEvent::new(
                    Kind::MESSAGE_ADDED,
                    Payload::new(data.get(), &EventLimits::default())?,
                )
            }
            ObservedFact::Called { call, name, arguments } => {
                ToolCall { call: CallId(call), name, arguments, observed: true }.try_into()?
            }
            ObservedFact::Finished { call, ok, result } => {
                ToolResult { call: CallId(call), ok, result }.try_into()?
            }
            ObservedFact::Touched { path, op } => {
                FileTouch { path, op, to: None, before: None, after: None }.try_into()?
            }
            ObservedFact::Usage { model, usage } => {
                self.usage.add(&usage);
                tell(&RunEvent::Usage { task: task(), usage: usage.clone() });
                UsageRecord { id: None, model, usage }.try_into()?
            }
            ObservedFact::Limited(limited) => {
                let observation = LimitObservation {
                    name: limited.name.clone(),
                    resets: limited.resets,
                    ..LimitObservation::default()
                };
                self.limited = Some((limited, Instant::now()));
                observation.try_into()?
            }
            ObservedFact::Note { level, text } => {
                LogRecord { level: level.to_owned(), text }.try_into()?
            }
            ObservedFact::Step { text } => {
                tell(&RunEvent::Step { task: task(), text });
                return Ok(None);
            }
            ObservedFact::Outcome { ok, text } => {
                self.outcome = Some((ok, text));
                return Ok(None);
            }
        }))
    }

    /// An event in the lane and turn of this job.
    pub(crate) fn placed(&self, event: NewEvent, subagent: Option<&str>) -> NewEvent {
        let lane = self.lane_of(subagent);
        NewEvent { turn: Some(self.turn), task: self.task.clone(), lane, ..event }
    }

    /// The lane of this job, or of a subagent. The name comes from the agent's output and may be
    /// anything.
    fn lane_of(&self, subagent: Option<&str>) -> Option<LaneId> {
        let name = subagent.map(|name| self.redacted(name).chars().take(LANE).collect::<String>());
        match (&self.lane, name.filter(|name| !name.is_empty())) {
            (None, Some(name)) => Some(LaneId(name)),
            (Some(lane), Some(name)) => Some(LaneId(format!("{lane}/{name}"))),
            (lane, None) => lane.clone(),
        }
    }

    fn push(&mut self, event: NewEvent, subagent: Option<&str>) {
        let event = self.placed(event, subagent);
        if event.check(&EventLimits::default()).is_err() {
            self.refused += 1;
            return;
        }
        self.pending_bytes += event.data.as_str().len();
        self.pending.push(event);
        self.since.get_or_insert_with(Instant::now);
    }

    /// Records a sample of its resource use.
    pub(crate) fn sampled(&mut self, sample: ResourceSample) {
        if let Ok(event) = NewEvent::try_from(sample) {
            self.push(event, None);
        }
    }

    /// When its events must be recorded at the latest.
    pub(crate) fn due(&self) -> Option<Instant> {
        let recorded = self.since.map(|since| since + LINGER);
        let text = self.kind.prints_text().then_some(self.text_since).flatten();
        let held = [&self.out, &self.err].map(RedactedOutput::held_since);
        let held = held.into_iter().flatten().filter(|_| self.checking.is_none()).min();
        let texts = [text, held].map(|since| since.map(|since| since + TEXT));
        texts.into_iter().chain([recorded]).flatten().min()
    }

    /// The events to record now, if it is time.
    pub(crate) fn record(
        &mut self,
        now: Timestamp,
        tell: &mut dyn FnMut(&RunEvent),
    ) -> Vec<NewEvent> {
        // What was held back has waited long enough.
        let settled = self.settle_outputs(now, tell);
        let is_due = settled || self.text_since.is_some_and(|since| since.elapsed() >= TEXT);
        if self.kind.prints_text() && is_due {
            self.text_since = None;
            let mut seen = Vec::new();
            self.reader.flush(&mut |one| seen.push(one));
            self.take(seen, tell);
        }
        let due = self.since.is_some_and(|since| since.elapsed() >= LINGER);
        if due || self.pending_bytes >= PENDING { self.drain() } else { Vec::new() }
    }

    /// The remaining events, at the end.
    pub(crate) fn finish(
        &mut self,
        now: Timestamp,
        tell: &mut dyn FnMut(&RunEvent),
    ) -> Vec<NewEvent> {
        self.end_outputs(now, tell);
        if self.checking.is_some() {
            return self.drain();
        }
        let mut seen = Vec::new();
        self.reader.finish(&mut |one| seen.push(one));
        self.take(seen, tell);
        let mut events = self.drain();
        let mut note = |text: String| {
            let note = LogRecord { level: "info".to_owned(), text };
            events.extend(NewEvent::try_from(note).ok().map(|note| self.placed(note, None)));
        };
        if self.errors_left > 0 {
            note(format!("{} more bytes of stderr were not recorded", self.errors_left));
        }
        if self.refused > 0 {
            note(format!("{} events could not be recorded", self.refused));
        }
        events
    }

    fn drain(&mut self) -> Vec<NewEvent> {
        if !self.errors.is_empty() {
            let errors = std::mem::take(&mut self.errors);
            self.errors_recorded += errors.len();
            let text = String::from_utf8_lossy(&errors).into_owned();
            let log = LogRecord { level: "stderr".to_owned(), text };
            if let Ok(event) = NewEvent::try_from(log) {
                self.push(event, None);
            }
        }
        self.since = None;
        self.pending_bytes = 0;
        std::mem::take(&mut self.pending)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::job_ending::{JobEnding, result};
    use crate::redacted_output::tests::{key_lines, redactor, token};
    use crate::task_check::WasAsked;

    /// An agent of this kind at work, with a redactor.
    pub(crate) fn job(kind: &str) -> Job {
        let begin = JobStart {
            number: 0,
            task: None,
            title: String::new(),
            lane: None,
            slot: 1,
            turn: TurnNumber::default(),
            way: None,
            attempt: 1,
            result_before: None,
            check: None,
        };
        let (kind, before) = (kind.parse().unwrap(), PriorSession::default());
        Job::new(begin, kind, before, AgentChild::ended(), Some(&redactor()))
    }

    /// Has it print this.
    pub(crate) fn print(job: &mut Job, bytes: &[u8]) {
        job.printed(Stream::Out, bytes, Timestamp::from_millis(0), &mut |_| {});
    }

    fn type_line(job: &mut Job, line: &str) {
        let keys = format!("{line}\r");
        job.typed(keys.as_bytes(), TypedEcho::Agent, Timestamp::from_millis(0), &mut |_| {});
    }

    fn data(events: &[NewEvent]) -> Vec<&str> {
        events.iter().map(|event| event.data.as_str()).collect()
    }

    fn finish(job: &mut Job) -> Vec<NewEvent> {
        job.finish(Timestamp::from_millis(0), &mut |_| {})
    }

    fn record(job: &mut Job) -> Vec<NewEvent> {
        job.record(Timestamp::from_millis(0), &mut |_| {})
    }

    #[test]
    fn a_tail_is_the_end_of_what_was_printed() {
        let mut tail = JobOutputTail::default();
        tail.push(&vec![b'x'; 3 * TAIL]);
        tail.push(b"\nlast words\n\n");
        assert_eq!(tail.text().len(), TAIL);
        assert_eq!(tail.last_line().unwrap(), "last words");
        assert_eq!(JobOutputTail::default().last_line(), None);
    }

    #[test]
    fn the_last_line_of_an_agent_that_prints_events_has_no_part_of_a_secret() {
        // The line is cut within the token.
        let pad = "z".repeat(LAST - 30);
        let secret = format!("{pad}\\n{}", token());
        for line in [
            format!("{{\"type\":\"x\",\"a\":\"{secret}\"}}\n"),
            format!("{} {}\n", "z".repeat(LAST - 9), token()),
            format!("{{\"type\":\"x\",\"a\":\"{secret}"),
        ] {
            for chunk in [1, 7, 10_000] {
                let mut job = job("codex");
                line.as_bytes().chunks(chunk).for_each(|bytes| print(&mut job, bytes));
                finish(&mut job);
                assert!(job.last_line().is_none_or(|line| !line.contains("R7k")), "{line}");
                job.exit = Some(Ok(ExitStatus::from_raw(1 << 8)));
                let ending = JobEnding::of(&job, job.kind, Timestamp::from_millis(0));
                let told = format!("{ending:?} {:?} {}", result(&job), job.out_tail.text());
                assert!(!told.contains("R7k"), "{told}");
            }
        }
        let mut job = job("codex");
        print(&mut job, b"plain\n{\"type\":\"x\"}\n");
        assert_eq!(job.last_line().unwrap(), "{\"type\":\"x\"}");
        print(&mut job, b"more\n");
        finish(&mut job);
        assert_eq!(job.last_line().unwrap(), "more");
        // An older line would say something else.
        for line in ["{no object\n".to_owned(), format!("{{\"a\":\"{}\"}}\n", "z".repeat(OBJECT))] {
            print(&mut job, line.as_bytes());
            assert_eq!(job.last_line(), None);
        }
        print(&mut job, b"last\n");
        finish(&mut job);
        assert_eq!(job.last_line().unwrap(), "last");
    }

    #[test]
    fn the_outputs_of_a_check_stay_in_order() {
        let now = Timestamp::from_millis(0);
        let banner = "Testing https://localhost:3000\n";
        let (out, err) = (Stream::Out, Stream::Err);
        let url = format!("see https://example.com/{}\n", token());
        for printed in [
            &[(out, banner), (err, "not ok\n"), (err, "1 failed\n")][..],
            &[(err, banner), (out, "not ok\n"), (out, &url)],
            &[(out, banner), (err, banner), (out, &url), (err, "1 failed\n"), (out, banner)],
        ] {
            let mut job = job("codex");
            job.checking = Some(TaskCheck::new("make test".to_owned()));
            for (stream, text) in printed {
                job.printed(*stream, text.as_bytes(), now, &mut |_| {});
            }
            assert!(finish(&mut job).is_empty());
            let failed = ExitStatus::from_raw(1 << 8);
            let all: String = printed.iter().map(|(_, text)| *text).collect();
            let wanted = job.redacted(&all).into_owned();
            assert!(!wanted.contains("R7k"));
            let check = job.checking.as_mut().unwrap();
            assert_eq!(check.artifact(&"T1".into(), Some(&failed)).output.unwrap(), wanted);
            let reason = format!("{:?}", check.ending(Some(&failed), WasAsked::No));
            assert!(reason.contains(wanted.lines().next_back().unwrap()), "{reason}");
        }
    }

    #[test]
    fn the_header_of_a_private_key_that_is_only_named_withholds_nothing() {
        let mut job = job("text");
        let header = key_lines().remove(0);
        let lines = [format!("why does it say {header} ?"), "yes".to_owned(), "no".to_owned()];
        for (at, line) in lines.iter().enumerate() {
            type_line(&mut job, line);
            assert_eq!(job.pending.len(), at + 1);
        }
        let told = data(&job.pending);
        assert!(told.iter().zip(&lines).all(|(data, line)| data.contains(line)), "{told:?}");
    }

    #[test]
    fn a_private_key_in_plain_lines_between_events_becomes_one_mark() {
        let key = key_lines().join("\n");
        let begun = key_lines()[..3].join("\n");
        let event = r#"{"type":"error","message":"alive"}"#;
        for printed in [&key, &begun] {
            let text = format!("{event}\nold node\n{printed}\n{event}\n warning\n{event}\n");
            for chunk in [1, 7, 10_000] {
                let mut job = job("codex");
                text.as_bytes().chunks(chunk).for_each(|bytes| print(&mut job, bytes));
                let events = finish(&mut job);
                let told = data(&events);
                let all = told.join("\n");
                assert_eq!(all.matches("‹redacted:private-key:").count(), 1, "{all}");
                assert!(!all.contains("NotAKey"), "{all}");
                let place = |text: &str| told.iter().position(|data| data.contains(text)).unwrap();
                assert!(place("alive") < place("old node") && place("old node") < place("‹"));
                assert!(place("‹") < place("warning"), "{all}");
                assert_eq!(all.matches("alive").count(), 3, "{all}");
            }
        }
    }

    #[test]
    fn a_private_key_that_is_typed_becomes_one_message() {
        let mut job = job("text");
        type_line(&mut job, "see https://example.com/");
        type_line(&mut job, "this one:");
        let lines = key_lines();
        let (end, begun) = lines.split_last().unwrap();
        begun.iter().for_each(|line| type_line(&mut job, line));
        assert_eq!(job.pending.len(), 2);
        type_line(&mut job, end);
        type_line(&mut job, "yes");
        begun.iter().for_each(|line| type_line(&mut job, line));
        let events = finish(&mut job);
        let told = data(&events);
        assert_eq!(told.len(), 5, "{told:?}");
        assert!(told[0].contains("https://example.com/") && told[1].contains("this one:"));
        assert!(told[2].contains("‹redacted:private-key:") && told[3].contains("yes"));
        assert!(told[4].contains("‹redacted:private-key:"), "{told:?}");
        assert!(!told.join("").contains("NotAKey"), "{told:?}");
    }

    #[test]
    fn what_is_held_back_is_recorded_after_a_second() {
        let mut jobs = ["text", "codex"].map(job);
        let text = "clone https://example.com/a.git\n";
        for job in &mut jobs {
            print(job, text.as_bytes());
            job.printed(Stream::Err, text.as_bytes(), Timestamp::from_millis(0), &mut |_| {});
            assert!(job.due().is_some_and(|due| due <= Instant::now() + TEXT));
        }
        std::thread::sleep(TEXT);
        let mut events = jobs.each_mut().map(record);
        std::thread::sleep(LINGER);
        for (job, events) in jobs.iter_mut().zip(&mut events) {
            events.extend(record(job));
            assert_eq!(data(events).join("").matches("example.com").count(), 2, "{events:?}");
            assert_eq!(job.due(), None);
        }
        // A private key is not waited for again and again.
        let begun = format!("{}\n", key_lines()[..2].join("\n"));
        for job in &mut jobs {
            print(job, begun.as_bytes());
            assert!(job.due().is_some());
        }
        std::thread::sleep(TEXT);
        for job in &mut jobs {
            assert!(record(job).is_empty());
            assert_eq!(job.due(), None);
            assert!(data(&finish(job)).join("").contains("‹redacted:private-key:"));
        }
    }
}
