//! `abide record --format …-stream`: reads a provider's server-sent events and answers each block of
//! the model's answer with one line once it is durable.
//!
//! A thread reads stdin, so that a request to end, which another one waits for, can end the answer
//! that is being read: what is incomplete of it is recorded as partial.

use std::fs::File;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use abide::{
    AcknowledgedEvent, MessageForm, SessionId,
    message::{AnswerRecorder, AnswerRequest, RecordedAnswer, RecordedBlock},
    stream::{AnswerParser, StreamError, begins_answer, ends_answer, is_silent, opens_answer},
};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::acknowledgement::acknowledgement_line;
use super::refusal::{RecordLineRefusal, STDIN, STOPPED};
use super::server_event::{EventInput, EventReader, ServerEvent};
use super::target::RecordingTarget;
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status};
use crate::error::{CommandError, at, on_one_line};
use crate::line_reader::LineReader;

/// The most events that are read ahead.
const AHEAD: usize = 16;

/// What the other threads report.
enum StreamInput {
    Read(EventInput),
    Failed(std::io::Error),
    /// The input is at its end.
    End,
    /// It was asked to end.
    Stop,
}

/// Why nothing more is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputEnd {
    /// The input is at its end.
    Exhausted,
    /// It was asked to end.
    Stopped,
}

/// Records streamed answers.
pub(super) struct StreamRecorder<'a> {
    target: RecordingTarget,
    form: MessageForm,
    surroundings: &'a CommandContext,
    input: Receiver<StreamInput>,
    /// An event that begins the next answer: read first.
    returned: Option<ServerEvent>,
    ended: Option<InputEnd>,
    out: CommandOutput,
    refused: u64,
    /// How many were refused when the last answer ended.
    refused_before: u64,
    cut_off: u64,
}

impl<'a> StreamRecorder<'a> {
    pub(super) fn new(
        target: RecordingTarget,
        form: MessageForm,
        lines: LineReader<File>,
        surroundings: &'a CommandContext,
    ) -> Result<Self, CommandError> {
        let (sender, input) = sync_channel(AHEAD);
        heed(sender.clone())?;
        std::thread::spawn(move || read(lines, &sender));
        let out = CommandOutput::stdout();
        Ok(Self {
            target,
            form,
            surroundings,
            input,
            returned: None,
            ended: None,
            out,
            refused: 0,
            refused_before: 0,
            cut_off: 0,
        })
    }

    /// Records every answer of the input.
    pub(super) fn record(mut self) -> Result<(), CommandError> {
        while let Some(event) = self.next()? {
            if self.is_beginning(&event)? {
                self.answer(event)?;
            }
        }
        self.finish()
    }

    /// The next event; `None` at the end, and from then on. What cannot be one is refused.
    fn next(&mut self) -> Result<Option<ServerEvent>, CommandError> {
        if let Some(event) = self.returned.take() {
            return Ok(Some(event));
        }
        while self.ended.is_none() {
            match self.input.recv() {
                Ok(StreamInput::Read(EventInput::Event(event))) => return Ok(Some(event)),
                Ok(StreamInput::Read(EventInput::Refused { code, message, line })) => {
                    self.refuse(RecordLineRefusal { code, message, hint: None, line })?;
                }
                Ok(StreamInput::Failed(error)) => {
                    self.ended = Some(InputEnd::Exhausted);
                    return Err(at("read", STDIN)(error));
                }
                Ok(StreamInput::Stop) => self.ended = Some(InputEnd::Stopped),
                Ok(StreamInput::End) | Err(_) => self.ended = Some(InputEnd::Exhausted),
            }
        }
        Ok(None)
    }

    /// Whether an answer begins with this event. A bad one is refused, and begins none.
    fn is_beginning(&mut self, event: &ServerEvent) -> Result<bool, CommandError> {
        let (name, data) = (&event.name, &event.data);
        if is_silent(name, data) {
            return Ok(false);
        }
        match AnswerParser::new(self.form).feed_event(name, data, &mut |_| {}) {
            Ok(()) if begins_answer(self.form, name, data) => return Ok(true),
            Ok(()) => {
                let message = "not an event of an answer in this format".to_owned();
                let (code, line) = ("malformed", event.line);
                self.refuse(RecordLineRefusal { code, message, hint: None, line })?;
            }
            Err(_) if event.is_cut => self.cut_off += 1,
            Err(error) => self.refuse(refusal(&error, event.line))?,
        }
        Ok(false)
    }

    /// Records an answer from its first event on.
    fn answer(&mut self, first: ServerEvent) -> Result<(), CommandError> {
        let mut open = self.target.take(self.surroundings)?;
        let (id, line) = (open.id, first.line);
        let request = AnswerRequest {
            lane: self.surroundings.lane_in(id),
            task: self.surroundings.task_in(id),
            ..AnswerRequest::new(self.form)
        };
        let read = match open.shared_session().and_then(|session| session.answer(request)) {
            Ok(answer) => self.read_answer(id, answer, first),
            Err(error) => Err(StreamFailure::Store(RecordLineRefusal::of(&error, line))),
        };
        match read {
            Ok(()) => {
                if let Some(held) = &open.held {
                    held.recorded(false);
                }
            }
            Err(StreamFailure::Command(error)) => return Err(error),
            Err(StreamFailure::Store(refusal)) => {
                if refusal.code == STOPPED {
                    open.held = None;
                }
                self.refuse(refusal)?;
            }
        }
        self.refused_before = self.refused;
        self.target.open = Some(open);
        Ok(())
    }

    /// Passes over what is left of an answer that could not be recorded, so that it is not taken for
    /// another one.
    fn skip_answer(&mut self) -> Result<(), CommandError> {
        while let Some(event) = self.next()? {
            if ends_answer(self.form, &event.name, &event.data) {
                break;
            }
            if begins_answer(self.form, &event.name, &event.data)
                && opens_answer(self.form, &event.name, &event.data)
            {
                self.returned = Some(event);
                break;
            }
        }
        Ok(())
    }

    /// Whether the beginning of an answer is missing that begins with this event.
    fn is_beginning_missing(&self, first: &ServerEvent) -> bool {
        let may_open_unsaid =
            matches!(self.form, MessageForm::OpenAi) && self.refused == self.refused_before;
        !may_open_unsaid && !opens_answer(self.form, &first.name, &first.data)
    }

    fn read_answer(
        &mut self,
        session: SessionId,
        mut answer: AnswerRecorder<'_>,
        first: ServerEvent,
    ) -> Result<(), StreamFailure> {
        let refused_before = self.refused;
        let mut is_missing_some = self.is_beginning_missing(&first);
        if is_missing_some {
            answer.miss_event();
        }
        // An answer that is too long is not read further, but its end is waited for.
        let mut too_long: Option<StreamError> = None;
        let mut event = first;
        let mut line;
        loop {
            line = event.line;
            // A ping says nothing, whatever its data are.
            let is_said = event.data == b"[DONE]" || !is_silent(&event.name, &event.data);
            if too_long.is_none() && is_said {
                match answer.feed_event(&event.name, &event.data, &mut |_| {}) {
                    Ok(blocks) => self.acknowledge(session, &blocks)?,
                    Err(abide::Error::Stream(StreamError::Malformed { .. })) if event.is_cut => {}
                    Err(abide::Error::Stream(error)) => {
                        self.refuse(refusal(&error, line))?;
                        let is_malformed = matches!(error, StreamError::Malformed { .. });
                        too_long = Some(error).filter(|_| !is_malformed);
                    }
                    Err(error) => {
                        if !ends_answer(self.form, &event.name, &event.data) {
                            self.skip_answer()?;
                        }
                        return Err(StreamFailure::Store(RecordLineRefusal::of(&error, line)));
                    }
                }
            }
            if ends_answer(self.form, &event.name, &event.data) {
                break;
            }
            let refused = self.refused;
            let next = self.next()?;
            if self.refused > refused {
                answer.miss_event();
                is_missing_some = true;
            }
            match next {
                Some(next) if answer.is_next(&next.name, &next.data) => {
                    self.returned = Some(next);
                    break;
                }
                Some(next) => event = next,
                None => break,
            }
        }
        let refused = self.refused - refused_before;
        let ended = match too_long {
            Some(error) => answer.cut_off(error),
            None if refused > 0 || is_missing_some => {
                answer.cut_off("events of the answer could not be read")
            }
            None => answer.finish(),
        };
        let ended =
            ended.map_err(|error| StreamFailure::Store(RecordLineRefusal::of(&error, line)))?;
        self.acknowledge_end(session, &ended)?;
        Ok(())
    }

    /// Prints that blocks are durable.
    fn acknowledge(
        &mut self,
        session: SessionId,
        blocks: &[RecordedBlock],
    ) -> Result<(), CommandError> {
        for block in blocks {
            let partial = if block.partial { ",\"partial\":true" } else { "" };
            self.print(session, &block.event, partial)?;
        }
        if blocks.is_empty() { Ok(()) } else { self.out.flush() }
    }

    /// Prints that an answer has ended.
    fn acknowledge_end(
        &mut self,
        session: SessionId,
        ended: &RecordedAnswer,
    ) -> Result<(), CommandError> {
        self.acknowledge(session, &ended.last)?;
        self.cut_off += u64::from(!ended.complete);
        if let Some(event) = &ended.end {
            let complete = format!(",\"complete\":{}", ended.complete);
            self.print(session, event, &complete)?;
        }
        self.out.flush()
    }

    fn print(
        &mut self,
        session: SessionId,
        event: &AcknowledgedEvent,
        more: &str,
    ) -> Result<(), CommandError> {
        let line = acknowledgement_line(session, event);
        let line = line.strip_suffix('}').unwrap_or(&line);
        self.out.verbatim_json(&format!("{line}{more}}}"))
    }

    fn refuse(&mut self, refusal: RecordLineRefusal) -> Result<(), CommandError> {
        self.refused += 1;
        self.out.verbatim_json(&refusal.to_json())?;
        self.out.flush()
    }

    fn finish(mut self) -> Result<(), CommandError> {
        self.out.flush()?;
        let is_whole = self.refused == 0
            && self.cut_off == 0
            && !matches!(self.ended, Some(InputEnd::Stopped));
        let is_left = self.target.complete && !is_whole;
        self.target.close(is_whole, self.surroundings)?;
        if self.cut_off > 0 {
            let answers = if self.cut_off == 1 { "answer was" } else { "answers were" };
            status(format_args!("{} {answers} not complete", self.cut_off));
        }
        if is_left {
            status("the session was not completed");
        }
        if self.refused > 0 {
            let events = if self.refused == 1 { "event was" } else { "events were" };
            status(format_args!("{} {events} not recorded", self.refused));
        }
        match self.ended {
            Some(InputEnd::Stopped) => Err(CommandError::Interrupted),
            _ if self.refused > 0 || is_left => Err(CommandError::Reported),
            _ => Ok(()),
        }
    }
}

/// Why an answer is not read further.
enum StreamFailure {
    /// The store refused it.
    Store(RecordLineRefusal),
    /// The command cannot go on.
    Command(CommandError),
}

impl From<CommandError> for StreamFailure {
    fn from(error: CommandError) -> Self {
        Self::Command(error)
    }
}

fn refusal(error: &StreamError, line: u64) -> RecordLineRefusal {
    let (code, message) = match error {
        StreamError::Malformed { reason, excerpt, .. } => {
            ("malformed", format!("{reason}, at `{excerpt}`"))
        }
        error => ("too_large", on_one_line(error)),
    };
    RecordLineRefusal { code, message, hint: None, line }
}

/// Reads events until the end of the input.
fn read(lines: LineReader<File>, sender: &SyncSender<StreamInput>) {
    let mut events = EventReader::new(lines);
    loop {
        let input = match events.next() {
            Ok(Some(input)) => StreamInput::Read(input),
            Ok(None) => StreamInput::End,
            Err(error) => StreamInput::Failed(error),
        };
        let more = matches!(input, StreamInput::Read(_));
        if sender.send(input).is_err() || !more {
            return;
        }
    }
}

/// Passes requests to end on. A second one ends the process.
fn heed(sender: SyncSender<StreamInput>) -> Result<(), CommandError> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| CommandError::failed(format!("cannot watch for signals: {error}")))?;
    std::thread::spawn(move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 {
                std::process::exit(4);
            }
            let sender = sender.clone();
            // The queue may be full.
            std::thread::spawn(move || sender.send(StreamInput::Stop));
        }
    });
    Ok(())
}
