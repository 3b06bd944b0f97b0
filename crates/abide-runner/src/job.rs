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

/// The last bytes of an output.
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
        Some(line.chars().take(300).collect())
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
    /// What the person at its terminal types.
    typed: TypedInput,
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
    /// Its outputs, as far as they are text. Secrets are replaced before anything is cut off.
    out: RedactedOutput,
    err: RedactedOutput,
    redactor: Option<Redactor>,
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
            typed: TypedInput::default(),
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
            let bytes = self.output(stream).push(bytes).into_owned();
            return self.check_printed(&bytes);
        }
        match stream {
            Stream::Out => {
                let bytes = self.typed.without_echo(bytes);
                // What is no text is read as events, and redacted as they are recorded.
                if self.kind.prints_text() {
                    let bytes = self.out.push(bytes).into_owned();
                    self.printed_out(&bytes, now, tell);
                } else {
                    let bytes = bytes.to_vec();
                    self.printed_out(&bytes, now, tell);
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

    fn check_printed(&mut self, bytes: &[u8]) {
        if let Some(check) = &mut self.checking {
            check.printed(bytes);
        }
    }

    fn printed_out(&mut self, bytes: &[u8], now: Timestamp, tell: &mut dyn FnMut(&RunEvent)) {
        self.out_tail.push(bytes);
        self.text_since.get_or_insert_with(Instant::now);
        let mut seen = Vec::new();
        self.reader.feed(bytes, now, &mut |one| seen.push(one));
        self.take(seen, tell);
    }

    fn printed_err(&mut self, bytes: &[u8]) {
        self.err_tail.push(bytes);
        let room = ERRORS.saturating_sub(self.errors_recorded + self.errors.len());
        let kept = bytes.get(..bytes.len().min(room)).unwrap_or_default();
        self.errors.extend_from_slice(kept);
        self.errors_left += (bytes.len() - kept.len()) as u64;
        self.since.get_or_insert_with(Instant::now);
    }

    /// Handles what was held back of its outputs, which have ended or are not waited for.
    fn end_outputs(&mut self, now: Timestamp, tell: &mut dyn FnMut(&RunEvent)) {
        let (out, err) = (self.out.finish(), self.err.finish());
        if self.checking.is_some() {
            self.check_printed(&out);
            return self.check_printed(&err);
        }
        if !out.is_empty() {
            self.printed_out(&out, now, tell);
        }
        if !err.is_empty() {
            self.printed_err(&err);
        }
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
            let held = self.out.finish();
            if !held.is_empty() {
                self.printed_out(&held, now, tell);
            }
            let mut seen = Vec::new();
            self.reader.entered(&mut |one| seen.push(one));
            self.take(seen, tell);
            match Message::user(line).try_into() {
                Ok(event) => self.push(event, None),
                Err(_) => self.refused += 1,
            }
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
                UsageRecord { model, usage }.try_into()?
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
        [recorded, text.map(|since| since + TEXT)].into_iter().flatten().min()
    }

    /// The events to record now, if it is time.
    pub(crate) fn record(&mut self, tell: &mut dyn FnMut(&RunEvent)) -> Vec<NewEvent> {
        if self.kind.prints_text() && self.text_since.is_some_and(|s| s.elapsed() >= TEXT) {
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
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_the_end_of_what_was_printed() {
        let mut tail = JobOutputTail::default();
        tail.push(&vec![b'x'; 3 * TAIL]);
        tail.push(b"\nlast words\n\n");
        assert_eq!(tail.text().len(), TAIL);
        assert_eq!(tail.last_line().unwrap(), "last words");
        assert_eq!(JobOutputTail::default().last_line(), None);
    }
}
