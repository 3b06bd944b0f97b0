//! One agent at work on one task: what it prints becomes events.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use abide::{
    AgentObservation, CallId, Error, FileTouch, Kind, LaneId, LimitObservation, Limits, LogRecord,
    ModelConfiguration, NewEvent, Payload, ResourceSample, TaskId, Timestamp, ToolCall, ToolResult,
    TurnNumber, Usage, UsageRecord,
};
use abide_agents::{AgentKind, AgentReader, Before, Limited, Observed, Seen};

use crate::child::Child;
use crate::event::{RunEvent, Stream};
use crate::leftover::UnknownCall;
use crate::options::Way;

/// Events wait at most so long before they are recorded.
const LINGER: Duration = Duration::from_millis(100);
/// And at most so many bytes of them.
const PENDING: usize = 1 << 20;
/// What is printed as plain text becomes a message after this time.
const TEXT: Duration = Duration::from_secs(1);
/// The most bytes of stderr that are recorded.
const ERRORS: usize = 256 << 10;
/// So many calls without a result are known by name.
const CALLS: usize = 1000;
/// The most characters of a subagent's name.
const LANE: usize = 100;
/// So much of the end of what was printed is looked at when the agent failed.
const TAIL: usize = 4 << 10;

/// The last bytes of what was printed.
#[derive(Debug, Default)]
pub(crate) struct Tail(Vec<u8>);

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        let keep = bytes.get(bytes.len().saturating_sub(TAIL)..).unwrap_or_default();
        self.0.extend_from_slice(keep);
        let over = self.0.len().saturating_sub(TAIL);
        self.0.drain(..over);
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// Its last line that says something.
    pub(crate) fn last_line(&self) -> Option<String> {
        let text = self.text();
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(line.chars().take(300).collect())
    }
}

/// One agent at work on one task.
pub(crate) struct Job {
    pub(crate) number: u64,
    pub(crate) task: TaskId,
    pub(crate) title: String,
    pub(crate) lane: Option<LaneId>,
    pub(crate) slot: usize,
    pub(crate) turn: TurnNumber,
    pub(crate) way: Option<Way>,
    pub(crate) attempt: u64,
    pub(crate) child: Child,
    pub(crate) started: Instant,
    pub(crate) exit: Option<std::io::Result<ExitStatus>>,
    pub(crate) exited: Option<Instant>,
    /// It was asked to end.
    pub(crate) asked: Option<Instant>,
    /// It was killed.
    pub(crate) killed: Option<Instant>,
    /// The agent's last word on its task.
    pub(crate) outcome: Option<(bool, Option<String>)>,
    /// The last limit that it met, and when.
    pub(crate) limited: Option<(Limited, Instant)>,
    /// Calls that have no result yet; the first of them, where there are many.
    pub(crate) calls: BTreeMap<String, UnknownCall>,
    /// How many messages it said.
    pub(crate) said: u64,
    pub(crate) out_tail: Tail,
    pub(crate) err_tail: Tail,
    pub(crate) usage: Usage,
    /// The agent's own name for the session that it works in.
    pub(crate) agent_session: Option<String>,
    pub(crate) peak_rss: u64,
    open: [bool; 2],
    kind: AgentKind,
    reader: AgentReader,
    /// What is to be recorded.
    pending: Vec<NewEvent>,
    pending_bytes: usize,
    since: Option<Instant>,
    /// When plain text was last made a message.
    text_since: Option<Instant>,
    errors: Vec<u8>,
    errors_recorded: usize,
    errors_left: u64,
    model: Option<String>,
    /// How many events could not be recorded as they were.
    refused: u64,
}

/// What a job begins with.
pub(crate) struct Begin {
    pub(crate) number: u64,
    pub(crate) task: TaskId,
    pub(crate) title: String,
    pub(crate) lane: Option<LaneId>,
    pub(crate) slot: usize,
    pub(crate) turn: TurnNumber,
    pub(crate) way: Option<Way>,
    pub(crate) attempt: u64,
}

impl Job {
    pub(crate) fn new(begin: Begin, kind: AgentKind, before: Before, child: Child) -> Self {
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
            child,
            started: Instant::now(),
            exit: None,
            exited: None,
            asked: None,
            killed: None,
            outcome: None,
            limited: None,
            calls: BTreeMap::new(),
            said: 0,
            out_tail: Tail::default(),
            err_tail: Tail::default(),
            usage: Usage::default(),
            agent_session: None,
            peak_rss: 0,
            open,
            kind,
            reader: AgentReader::with(kind, before),
            pending: Vec::new(),
            pending_bytes: 0,
            since: None,
            text_since: None,
            errors: Vec::new(),
            errors_recorded: 0,
            errors_left: 0,
            model: None,
            refused: 0,
        }
    }

    /// The name of this job's work in the environment of all that it starts.
    pub(crate) fn mark(session: abide::SessionId, turn: TurnNumber) -> String {
        format!("{session}/{turn}.")
    }

    /// Takes in what the agent printed.
    pub(crate) fn printed(
        &mut self,
        stream: Stream,
        bytes: &[u8],
        now: Timestamp,
        tell: &mut dyn FnMut(&RunEvent),
    ) {
        match stream {
            Stream::Out => {
                self.out_tail.push(bytes);
                self.text_since.get_or_insert_with(Instant::now);
                let mut seen = Vec::new();
                self.reader.feed(bytes, now, &mut |one| seen.push(one));
                self.take(seen, tell);
            }
            Stream::Err => {
                self.err_tail.push(bytes);
                let room = ERRORS.saturating_sub(self.errors_recorded + self.errors.len());
                let kept = bytes.get(..bytes.len().min(room)).unwrap_or_default();
                self.errors.extend_from_slice(kept);
                self.errors_left += (bytes.len() - kept.len()) as u64;
                self.since.get_or_insert_with(Instant::now);
            }
        }
    }

    /// It prints no more there.
    pub(crate) fn closed(&mut self, stream: Stream) {
        let open = match stream {
            Stream::Out => self.open.first_mut(),
            Stream::Err => self.open.last_mut(),
        };
        if let Some(open) = open {
            *open = false;
        }
    }

    /// Has it said all that it will say? What it left behind may hold its output open: that is not
    /// waited for long.
    pub(crate) fn is_over(&self, patience: Duration) -> bool {
        let Some(exited) = self.exited else { return false };
        self.open == [false, false] || exited.elapsed() >= patience
    }

    fn take(&mut self, seen: Vec<Seen>, tell: &mut dyn FnMut(&RunEvent)) {
        for Seen { subagent, what } in seen {
            match &what {
                Observed::Called { call, name, .. } => {
                    // It went on after all.
                    self.limited = None;
                    if self.calls.len() < CALLS {
                        let unknown = UnknownCall {
                            call: CallId(call.clone()),
                            name: name.clone(),
                            lane: self.lane_of(subagent.as_deref()),
                        };
                        self.calls.insert(call.clone(), unknown);
                    }
                }
                Observed::Finished { call, .. } => drop(self.calls.remove(call)),
                _ => {}
            }
            match self.event(what, tell) {
                Ok(Some(event)) => self.push(event, subagent.as_deref()),
                Ok(None) => {}
                Err(_) => self.refused += 1,
            }
        }
    }

    /// The event by which something that was seen is recorded.
    fn event(
        &mut self,
        seen: Observed,
        tell: &mut dyn FnMut(&RunEvent),
    ) -> Result<Option<NewEvent>, Error> {
        let task = || self.task.clone();
        Ok(Some(match seen {
            Observed::Session { id } => {
                self.agent_session = Some(id.clone());
                let agent = Some(self.kind.to_string());
                AgentObservation { session: Some(id), agent, model: None }.try_into()?
            }
            Observed::Model { name } => {
                if self.model.as_ref() == Some(&name) {
                    return Ok(None);
                }
                self.model = Some(name.clone());
                ModelConfiguration { model: name, ..ModelConfiguration::default() }.try_into()?
            }
            Observed::Message { data } => {
                self.said += 1;
                tell(&RunEvent::Message { task: task(), data: data.get().to_owned() });
                NewEvent::new(Kind::MESSAGE_ADDED, Payload::new(data.get(), &Limits::default())?)
            }
            Observed::Called { call, name, arguments } => {
                ToolCall { call: CallId(call), name, arguments, observed: true }.try_into()?
            }
            Observed::Finished { call, ok, result } => {
                ToolResult { call: CallId(call), ok, result }.try_into()?
            }
            Observed::Touched { path, op } => {
                FileTouch { path, op, to: None, before: None, after: None }.try_into()?
            }
            Observed::Usage { model, usage } => {
                self.usage.add(&usage);
                tell(&RunEvent::Usage { task: task(), usage: usage.clone() });
                UsageRecord { model, usage }.try_into()?
            }
            Observed::Limited(limited) => {
                let observation = LimitObservation {
                    name: limited.name.clone(),
                    resets: limited.resets,
                    ..LimitObservation::default()
                };
                self.limited = Some((limited, Instant::now()));
                observation.try_into()?
            }
            Observed::Note { level, text } => {
                LogRecord { level: level.to_owned(), text }.try_into()?
            }
            Observed::Step { text } => {
                tell(&RunEvent::Step { task: task(), text });
                return Ok(None);
            }
            Observed::Outcome { ok, text } => {
                self.outcome = Some((ok, text));
                return Ok(None);
            }
        }))
    }

    /// An event in the place of this job.
    pub(crate) fn placed(&self, event: NewEvent, subagent: Option<&str>) -> NewEvent {
        let lane = self.lane_of(subagent);
        NewEvent { turn: Some(self.turn), task: Some(self.task.clone()), lane, ..event }
    }

    /// The lane of this job, or of a subagent of its agent's. What an agent prints as a name may be
    /// anything.
    fn lane_of(&self, subagent: Option<&str>) -> Option<LaneId> {
        let name = subagent.map(|name| name.chars().take(LANE).collect::<String>());
        match (&self.lane, name.filter(|name| !name.is_empty())) {
            (None, Some(name)) => Some(LaneId(name)),
            (Some(lane), Some(name)) => Some(LaneId(format!("{lane}/{name}"))),
            (lane, None) => lane.clone(),
        }
    }

    fn push(&mut self, event: NewEvent, subagent: Option<&str>) {
        let event = self.placed(event, subagent);
        if event.check(&Limits::default()).is_err() {
            self.refused += 1;
            return;
        }
        self.pending_bytes += event.data.as_str().len();
        self.pending.push(event);
        self.since.get_or_insert_with(Instant::now);
    }

    /// Notes what its processes use.
    pub(crate) fn sampled(&mut self, sample: ResourceSample) {
        self.peak_rss = self.peak_rss.max(sample.rss_bytes);
        if let Ok(event) = NewEvent::try_from(sample) {
            self.push(event, None);
        }
    }

    /// When something is to be recorded at the latest.
    pub(crate) fn due(&self) -> Option<Instant> {
        let recorded = self.since.map(|since| since + LINGER);
        let text = self.kind.prints_text().then_some(self.text_since).flatten();
        [recorded, text.map(|since| since + TEXT)].into_iter().flatten().min()
    }

    /// What is to be recorded now, if it is time.
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

    /// What is left to be recorded, at the end.
    pub(crate) fn finish(&mut self, tell: &mut dyn FnMut(&RunEvent)) -> Vec<NewEvent> {
        let mut seen = Vec::new();
        self.reader.finish(&mut |one| seen.push(one));
        self.take(seen, tell);
        let mut events = self.drain();
        let mut note = |text: String| {
            let note = LogRecord { level: "info".to_owned(), text };
            events.extend(NewEvent::try_from(note).ok().map(|note| self.placed(note, None)));
        };
        if self.errors_left > 0 {
            note(format!("{} bytes more of stderr were not recorded", self.errors_left));
        }
        if self.refused > 0 {
            note(format!("{} things that it printed could not be recorded", self.refused));
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
        let mut tail = Tail::default();
        tail.push(&vec![b'x'; 3 * TAIL]);
        tail.push(b"\nlast words\n\n");
        assert_eq!(tail.text().len(), TAIL);
        assert_eq!(tail.last_line().unwrap(), "last words");
        assert_eq!(Tail::default().last_line(), None);
    }
}
