//! `abide record`: reads JSON lines and answers each with one line once its event is durable.
//!
//! Lines that are already available are staged together and share a sync. No answer ever waits for
//! more input, so a program may send one line and wait for its answer.

mod acknowledgement;
mod format_arg;
mod input_notice;
mod misfit_tally;
mod refusal;
mod server_event;
mod staged_line;
mod stream_recorder;
mod target;

use std::time::{Duration, Instant};

use abide::{
    Durability, Kind, MessageForm, NewEvent, Payload, Ticket,
    context::AutoCompaction,
    event::schema::UnknownNames,
    event::{AnomalyPolicy, EventLimits, InputError},
};
use abide_wire::WireError;
use serde::Deserialize;
use serde_json::value::RawValue;

use self::format_arg::FormatArg;
use self::input_notice::{bare_message_hint, tell_waiting};
use self::misfit_tally::MisfitTally;
use self::refusal::{RecordLineRefusal, STDIN, STOPPED};
use self::staged_line::StagedLine;
use self::stream_recorder::StreamRecorder;
use self::target::{RecordingSession, RecordingTarget};
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status};
use crate::duration::checkpoint_interval;
use crate::error::{CommandError, at, on_one_line};
use crate::line_reader::{InputLine, LineReader};
use crate::new_session_args::NewSessionArgs;
use crate::noun_count::noun_count;
use crate::shared_recording::{RecordingJobs, SharedRecording};

/// The most lines staged before they are answered.
const BATCH_LINES: usize = 256;
/// The most bytes staged before they are answered, not counting the last line.
const BATCH_BYTES: usize = 1 << 20;
/// A recording is shared with other commands once its input pauses for this time, or once it has
/// lasted for [`LONG`]: a short one need not make a socket.
const QUIET: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(1);

/// Record events: JSON lines on stdin, one reply per line on stdout
///
/// Each line is {"kind":…,"data":{…}}, with the optional fields "key" (an event with the same key
/// is recorded only once), "occurred", "turn", "task" and "lane". Its reply comes when the event is
/// on stable storage: {"session":…,"seq":…}, or {"error":{"code":…,"message":…,"line":…}} if it was
/// not recorded. The other lines are recorded even so, and the exit code is then 1. `abide schema`
/// prints the kinds and their fields. Unknown kinds and fields are kept, and the reply lists them
/// in "unknown", with "did_you_mean" if a known name is near. Kinds that begin with x. are your own.
///
/// An event that does not fit those before it is recorded, and its reply has an "anomaly". With the
/// anomaly "malformed", its data do not fit its kind: the field "malformed" says why, and the event
/// has no effect. A line on stderr at the end counts these and the events of unknown kinds; the exit
/// code stays 0. --strict refuses events with an anomaly.
///
/// With --format, a line can also be a message in the format of an API, which is stored unchanged as a
/// message (`message.added`); a line with a field "kind" is still an event.
///
/// With a format that ends in -stream, the input is what a provider sends while a model answers:
/// server-sent events (`data: {…}`) of one or more answers. Each block of an answer (a text, a
/// thought, a call) is recorded when it ends, and its reply is printed then; a reply with
/// "complete" ends an answer. A block that is cut off by the end of the input or by SIGTERM is
/// recorded and marked "partial". A bad event is refused with an error reply and the rest is
/// recorded, but the answer is not complete.
///
/// The session is that of -s, --key or $ABIDE_SESSION, else a new one. The store is created if
/// there is none. If another process of yours holds the session, events are recorded through it;
/// other commands can use the session in the same way during a long recording. In the session of
/// $ABIDE_SESSION, an event without "task" or "lane" gets that of $ABIDE_TASK or $ABIDE_LANE.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  echo '{\"kind\":\"message.added\",\"data\":{\"role\":\"user\",\"content\":\"hello\"}}' | abide record
  my-agent --events | abide record --key my-agent/ticket-42 --title \"Fix the parser\"
  abide record --format openai --title \"Yesterday\" < messages.jsonl
  curl -sN https://…/v1/messages … | abide record --key ticket-42 --format anthropic-stream")]
pub(crate) struct RecordArgs {
    /// The session, by its id, name, key or ACP client's id; see `abide help sessions`
    #[arg(short, long, value_name = "SESSION", group = "target")]
    session: Option<String>,
    /// The session with this key of yours, created if there is none
    #[arg(long, value_name = "NAME", group = "target")]
    key: Option<String>,
    /// Create a new session, whatever $ABIDE_SESSION says
    #[arg(long, group = "target")]
    new: bool,
    #[command(flatten)]
    about: NewSessionArgs,
    /// Complete the session at the end of the input, if every line was recorded and no streamed answer
    /// was cut off
    #[arg(long)]
    complete: bool,
    /// Refuse malformed events and those that do not fit earlier ones, such as a result for a call
    /// that is not open (never made, or already ended)
    #[arg(long)]
    strict: bool,
    /// When an event counts as recorded
    #[arg(long, value_enum, default_value_t = DurabilityArg::Synced)]
    durability: DurabilityArg,
    /// Format of the input
    #[arg(long, value_enum, default_value_t = FormatArg::Events)]
    format: FormatArg,
    /// Make a checkpoint of the files at the start, at this interval, and at the end
    #[arg(long, value_name = "INTERVAL", value_parser = checkpoint_interval)]
    checkpoint_every: Option<Duration>,
    /// Compact the context automatically when it exceeds this share of the model's window (80%) or
    /// this many tokens (120k) at the end of a turn; `off` for never [default: compact_over in the
    /// settings, else off]
    #[arg(long, value_name = "SHARE|TOKENS")]
    compact_over: Option<AutoCompaction>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DurabilityArg {
    /// On stable storage: survives a power cut
    Synced,
    /// Given to the operating system: survives a crash of abide, but not a power cut
    Buffered,
}

impl RecordArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let limits = EventLimits::default();
        let streamed = self.format.streamed();
        if streamed.is_some() {
            self.check_streamed()?;
        }
        let named = match (&self.session, &self.key, self.new) {
            (None, None, false) => surroundings.session.as_ref(),
            (named, _, _) => named.as_ref(),
        };
        let jobs = RecordingJobs {
            checkpoint_every: self.checkpoint_every,
            compaction: surroundings.compaction(self.compact_over),
        };
        let open = named.map(|named| RecordingSession::existing(named, jobs.clone(), surroundings));
        let open = open.transpose()?;
        // A key in $ABIDE_SESSION names the session of $ABIDE_TASK as its id would.
        let known = match (&self.session, &open) {
            (None, Some(open)) => surroundings.in_session(open.id),
            _ => surroundings.clone(),
        };
        let surroundings = &known;
        let (new, complete) = (self.about.into_session(self.key, surroundings), self.complete);
        tell_waiting(self.format);
        let most = if streamed.is_some() { server_event::MOST } else { limits.event_bytes };
        let input = LineReader::stdin(most).map_err(at("read", STDIN));
        if let Some(form) = streamed {
            let target = RecordingTarget { open, new, jobs, complete };
            return StreamRecorder::new(target, form, input?, surroundings)?.record();
        }
        let mut recorder = Recorder {
            target: RecordingTarget { open, new, jobs, complete },
            durability: match self.durability {
                DurabilityArg::Synced => Durability::Synced,
                DurabilityArg::Buffered => Durability::Buffered,
            },
            odd: if self.strict { AnomalyPolicy::Refuse } else { AnomalyPolicy::Keep },
            form: self.format.form(),
            limits,
            taken: Vec::new(),
            bytes: 0,
            has_turn_end: false,
            lines: 0,
            refused: 0,
            misfits: MisfitTally::default(),
            out: CommandOutput::stdout(),
        };
        recorder.record(&mut input?, surroundings)?;
        recorder.finish(surroundings)
    }

    /// Refuses options that mean nothing for a stream.
    fn check_streamed(&self) -> Result<(), CommandError> {
        let told = match (self.strict, self.durability) {
            (true, _) => "--strict cannot be used with a stream",
            (false, DurabilityArg::Buffered) => "a stream is always recorded synced",
            (false, DurabilityArg::Synced) => return Ok(()),
        };
        Err(CommandError::Usage(told.to_owned()))
    }
}

/// A line of the batch, staged or refused.
enum InputLineOutcome {
    Waiting { ticket: Ticket, event: StagedLine },
    Refused(RecordLineRefusal),
}

/// Why a line is invalid: it is not an event, or not a message.
enum BadRecordLine {
    Event(InputError),
    Message(WireError),
}

impl From<InputError> for BadRecordLine {
    fn from(error: InputError) -> Self {
        Self::Event(error)
    }
}

impl From<WireError> for BadRecordLine {
    fn from(error: WireError) -> Self {
        Self::Message(error)
    }
}

/// Is this an event rather than a message?
fn line_has_kind(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct KindProbe<'a> {
        #[serde(borrow)]
        kind: Option<&'a RawValue>,
    }
    // serde would read the first element of a list as the kind.
    line.trim_ascii_start().starts_with(b"{")
        && serde_json::from_slice::<KindProbe<'_>>(line).is_ok_and(|line| line.kind.is_some())
}

struct Recorder {
    target: RecordingTarget,
    durability: Durability,
    odd: AnomalyPolicy,
    /// The format of lines that are messages.
    form: Option<MessageForm>,
    limits: EventLimits,
    /// The batch: lines not answered yet, and their bytes.
    taken: Vec<InputLineOutcome>,
    bytes: usize,
    /// The last event of the batch ends a turn.
    has_turn_end: bool,
    lines: u64,
    refused: u64,
    misfits: MisfitTally,
    out: CommandOutput,
}

impl Recorder {
    fn record(
        &mut self,
        input: &mut LineReader<std::fs::File>,
        surroundings: &CommandContext,
    ) -> Result<(), CommandError> {
        let begun = Instant::now();
        loop {
            let number = input.number() + 1;
            if !input.is_ready()
                && let Some(held) = self.target.open.as_mut().and_then(|open| open.held.as_mut())
            {
                held.report_checkpoints();
                if !held.is_shared() && (begun.elapsed() > LONG || input.is_quiet(QUIET)) {
                    held.share();
                }
            }
            let read = match input.next() {
                Ok(read) => read,
                Err(error) => {
                    self.answer()?;
                    return Err(at("read", STDIN)(error));
                }
            };
            let stopped = match read {
                None => return self.answer(),
                Some(InputLine::Whole(line)) if line.trim_ascii().is_empty() => false,
                Some(InputLine::Whole(line)) => {
                    self.bytes += line.len();
                    self.take(line, number, surroundings)?
                }
                Some(InputLine::TooLong) => {
                    let limit = self.limits.event_bytes;
                    self.refuse(&InputError::TooLarge { limit }.into(), None, number);
                    false
                }
            };
            let full = self.taken.len() >= BATCH_LINES || self.bytes >= BATCH_BYTES;
            // Between two turns a compaction has its place.
            let full = full || self.has_turn_end && self.is_compaction_waiting();
            if stopped || full || !input.is_ready() {
                self.answer()?;
            }
        }
    }

    /// Stages a line. Returns whether the writer has stopped.
    fn take(
        &mut self,
        line: &[u8],
        number: u64,
        surroundings: &CommandContext,
    ) -> Result<bool, CommandError> {
        let (mut event, unknown) = match self.event(line) {
            Ok(read) => read,
            Err(error) => {
                let is_event = matches!(error, BadRecordLine::Event(InputError::NotAnEvent { .. }));
                let hint = if is_event { bare_message_hint(line) } else { None };
                self.refuse(&error, hint, number);
                return Ok(false);
            }
        };
        let open = self.target.open(surroundings)?;
        surroundings.place(&mut event, open.id);
        self.has_turn_end = event.kind == Kind::TURN_FINISHED;
        let staged = StagedLine::of(&event, unknown, number);
        let appended = open
            .session()
            .and_then(|session| session.append_with(vec![event], self.durability, self.odd));
        match appended {
            Ok(ticket) => {
                self.taken.push(InputLineOutcome::Waiting { ticket, event: staged });
                Ok(false)
            }
            Err(error) => {
                let refusal = staged.refusal(&error);
                let stopped = refusal.code == STOPPED;
                self.taken.push(InputLineOutcome::Refused(refusal));
                Ok(stopped)
            }
        }
    }

    /// The event of a line: the line itself, or the event that records the message.
    fn event(&self, line: &[u8]) -> Result<(NewEvent, Option<Box<UnknownNames>>), BadRecordLine> {
        let Some(form) = self.form.filter(|_| !line_has_kind(line)) else {
            return Ok(NewEvent::parse_naming(line, &self.limits)?);
        };
        let text = std::str::from_utf8(line)
            .map_err(|error| InputError::NotUtf8 { at: error.valid_up_to() })?;
        let data = Payload::new(&abide_wire::record(form, text)?, &self.limits)?;
        // A message is recorded as its API has it.
        Ok((NewEvent::new(Kind::MESSAGE_ADDED, data), None))
    }

    fn refuse(&mut self, error: &BadRecordLine, hint: Option<String>, line: u64) {
        let (code, message) = match error {
            BadRecordLine::Event(error) => (error.code(), on_one_line(error)),
            BadRecordLine::Message(error) => (error.code(), on_one_line(error)),
        };
        let bare = "this is a message, not an event".to_owned();
        let message = if hint.is_some() { bare } else { message };
        let refusal = RecordLineRefusal { code, message, hint, line };
        self.taken.push(InputLineOutcome::Refused(refusal));
    }

    /// Waits for everything staged and answers each line.
    fn answer(&mut self) -> Result<(), CommandError> {
        self.bytes = 0;
        let mut stopped = false;
        for taken in std::mem::take(&mut self.taken) {
            self.lines += 1;
            let waited = match taken {
                InputLineOutcome::Waiting { ticket, event: staged } => match ticket.wait() {
                    Ok(acknowledged) => Ok((staged, acknowledged)),
                    Err(error) => Err(staged.refusal(&error.into())),
                },
                InputLineOutcome::Refused(refusal) => Err(refusal),
            };
            match waited {
                Ok((staged, acknowledged)) => {
                    for event in &acknowledged {
                        self.misfits.add(event, staged.kind_familiarity());
                        let open = self.target.open.as_ref();
                        let line = open.map(|open| staged.answer(open.id, event));
                        self.out.verbatim_json(&line.unwrap_or_default())?;
                    }
                }
                Err(refusal) => {
                    stopped |= refusal.code == STOPPED;
                    self.refused += 1;
                    self.out.verbatim_json(&refusal.to_json())?;
                }
            }
        }
        self.out.flush()?;
        let Some(open) = &mut self.target.open else { return Ok(()) };
        if stopped {
            open.held = None;
        } else if let Some(held) = &open.held {
            held.recorded(std::mem::take(&mut self.has_turn_end));
        }
        Ok(())
    }

    /// Whether a compaction waits for the end of a turn.
    fn is_compaction_waiting(&self) -> bool {
        let held = self.target.open.as_ref().and_then(|open| open.held.as_ref());
        held.is_some_and(SharedRecording::is_compaction_waiting)
    }

    fn finish(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        self.target.close(self.refused == 0, surroundings)?;
        if let Some(line) = self.misfits.line() {
            status(line);
        }
        if self.refused == 0 {
            return Ok(());
        }
        let (lines, were) =
            (noun_count(self.lines, "line"), if self.refused == 1 { "was" } else { "were" });
        status(format_args!("{} of {lines} {were} not recorded", self.refused));
        Err(CommandError::Reported)
    }
}
