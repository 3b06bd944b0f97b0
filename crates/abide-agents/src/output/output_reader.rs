//! The parser of an agent's output.

use abide_model::{Timestamp, Usage};
use abide_wire::json::RawJsonFields;

use super::line_splitter::{LineSplitter, OutputLine, OutputLineKind};
use super::observed::{ObservedFact, OutputObservation, note_observed, tell_observed};
use super::plain::EscapeStripper;
use super::step;
use crate::agent_kind::AgentKind;
use crate::limits::limit_in;
use crate::profile::Output;

/// The most bytes of plain lines that are reported.
const PLAIN: u64 = 1 << 20;

/// Parses the output of an agent as it is printed.
#[derive(Debug)]
pub struct AgentReader {
    /// When output last came.
    now: Timestamp,
    reader: Box<dyn OutputReader>,
}

/// What happened before this output, where the agent's own figures depend on it.
#[derive(Debug, Clone, Default)]
pub struct PriorSession {
    /// What was told of the usage of the agent's own session, when it goes on in one: some tell
    /// all that their session used, over every process that worked in it.
    pub used: Usage,
    /// What is put before the ids of calls and messages that are unique in one process alone:
    /// something that no other process of the session has.
    pub calls: String,
    /// What the agent was told, where that is recorded already: some print it again.
    pub prompt: Option<String>,
}

/// Reads an output, of whatever form.
pub(crate) trait OutputReader: std::fmt::Debug + Send + Sync {
    /// Takes what came, cut anywhere.
    fn feed(&mut self, bytes: &[u8], now: Timestamp, see: &mut dyn FnMut(OutputObservation));

    /// Tells what waits for more.
    fn flush(&mut self, see: &mut dyn FnMut(OutputObservation));

    /// Somebody has written to the agent. Events say by themselves where a message ends.
    fn entered(&mut self, _: &mut dyn FnMut(OutputObservation)) {}

    /// The output ended.
    fn finish(&mut self, now: Timestamp, see: &mut dyn FnMut(OutputObservation));

    /// How many lines were JSON and of no sort that is known.
    fn passed_over(&self) -> u64 {
        0
    }
}

/// Cuts an output into lines that are events.
#[derive(Debug)]
struct EventOutput {
    lines: LineSplitter,
    events: EventLineReader,
}

/// Reads lines that are events, mixed with plain lines.
#[derive(Debug)]
struct EventLineReader {
    events: Box<dyn EventOutputDecoder>,
    /// Bytes of plain lines that were reported.
    plain: u64,
    /// Bytes of plain lines that were not.
    plain_left_out: u64,
    passed_over: u64,
}

/// The events of one agent.
pub(crate) trait EventOutputDecoder: std::fmt::Debug + Send + Sync {
    /// Reads an event; `false` when it is of a sort that is not known.
    fn event(
        &mut self,
        fields: &RawJsonFields<'_>,
        now: Timestamp,
        see: &mut dyn FnMut(OutputObservation),
    ) -> bool;

    /// Reports text that waits for more.
    fn flush(&mut self, see: &mut dyn FnMut(OutputObservation));

    /// Ends the output.
    fn finish(&mut self, see: &mut dyn FnMut(OutputObservation));
}

impl AgentReader {
    /// Creates a reader for this kind of agent.
    #[must_use]
    pub fn new(kind: AgentKind) -> Self {
        Self::with(kind, PriorSession::default())
    }

    /// Creates a reader that knows what happened before.
    #[must_use]
    pub fn with(kind: AgentKind, before: PriorSession) -> Self {
        let reader = match kind.profile().output {
            Output::Events(events) => Box::new(EventOutput::new(events(before))),
            Output::Text(reader) => reader(before),
        };
        Self { now: Timestamp::from_millis(0), reader }
    }

    /// Parses the next output, split anywhere, and reports what it says.
    pub fn feed(&mut self, bytes: &[u8], now: Timestamp, see: &mut dyn FnMut(OutputObservation)) {
        self.now = now;
        self.reader.feed(bytes, now, see);
    }

    /// Reports text that waits for more now: as a message, or as the part of one.
    pub fn flush(&mut self, see: &mut dyn FnMut(OutputObservation)) {
        self.reader.flush(see);
    }

    /// Somebody has written to the agent: what it printed before is a message of its own.
    pub fn entered(&mut self, see: &mut dyn FnMut(OutputObservation)) {
        self.reader.entered(see);
    }

    /// Ends the output and reports the rest.
    pub fn finish(&mut self, see: &mut dyn FnMut(OutputObservation)) {
        self.reader.finish(self.now, see);
    }

    /// The number of JSON lines of unknown type.
    #[must_use]
    pub fn passed_over(&self) -> u64 {
        self.reader.passed_over()
    }
}

impl EventOutput {
    fn new(events: Box<dyn EventOutputDecoder>) -> Self {
        let events = EventLineReader { events, plain: 0, plain_left_out: 0, passed_over: 0 };
        Self { lines: LineSplitter::default(), events }
    }
}

impl OutputReader for EventOutput {
    fn feed(&mut self, bytes: &[u8], now: Timestamp, see: &mut dyn FnMut(OutputObservation)) {
        let Self { lines, events } = self;
        lines.feed(bytes, &mut |line| events.line(line, now, see));
    }

    fn flush(&mut self, see: &mut dyn FnMut(OutputObservation)) {
        self.events.events.flush(see);
    }

    fn finish(&mut self, now: Timestamp, see: &mut dyn FnMut(OutputObservation)) {
        let Self { lines, events } = self;
        lines.finish(&mut |line| events.line(line, now, see));
        events.finish(see);
    }

    fn passed_over(&self) -> u64 {
        self.events.passed_over
    }
}

impl EventLineReader {
    fn line(
        &mut self,
        line: OutputLine<'_>,
        now: Timestamp,
        see: &mut dyn FnMut(OutputObservation),
    ) {
        let text = String::from_utf8_lossy(line.bytes);
        if line.sort == OutputLineKind::TooLong {
            let head = head_of_object(&text);
            let text = format!("a line of {} bytes was too long to be read: {head}", line.length);
            return note_observed(see, "warning", text);
        }
        let fields =
            (line.sort == OutputLineKind::Object).then(|| RawJsonFields::of(&text)).flatten();
        match fields {
            Some(fields) => {
                if !self.events.event(&fields, now, see) {
                    self.passed_over += 1;
                }
            }
            None => self.plain(&text, line.length, now, see),
        }
    }

    /// Handles a line that is not an event, such as a warning of the agent's runtime or a torn
    /// line.
    fn plain(
        &mut self,
        text: &str,
        length: u64,
        now: Timestamp,
        see: &mut dyn FnMut(OutputObservation),
    ) {
        let plain = EscapeStripper::of(step::head_of_words(text, super::line_splitter::PLAIN));
        let plain = plain.trim();
        if plain.is_empty() {
            return;
        }
        if let Some(limited) = limit_in(plain, now) {
            tell_observed(see, ObservedFact::Limited(limited));
        }
        let bytes = plain.len() as u64;
        if self.plain.saturating_add(bytes) > PLAIN {
            self.plain_left_out = self.plain_left_out.saturating_add(length);
            return;
        }
        self.plain += bytes;
        let cut = if length > super::line_splitter::PLAIN as u64 {
            format!("{plain}… [{length} bytes in all]")
        } else {
            plain.to_owned()
        };
        note_observed(see, "info", cut);
    }

    fn finish(&mut self, see: &mut dyn FnMut(OutputObservation)) {
        self.events.finish(see);
        if self.plain_left_out > 0 {
            let text = format!("{} bytes of plain lines were left out", self.plain_left_out);
            note_observed(see, "warning", text);
            self.plain_left_out = 0;
        }
    }
}

/// What is shown of an object that is too long to be read: no string in it is cut in two.
fn head_of_object(text: &str) -> String {
    let shown = step::short_step(text).unwrap_or_default();
    let whole = shown.rfind('"').and_then(|at| shown.get(..at)).unwrap_or(&shown);
    format!("{whole}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_an_object_has_no_part_of_a_string() {
        let text = format!("{{\"type\":\"a\",\"b\":\"{}", "secret".repeat(100));
        assert_eq!(head_of_object(&text), "{\"type\":\"a\",\"b\":…");
        assert_eq!(head_of_object("{\"type\":[["), "{\"type…");
    }
}
