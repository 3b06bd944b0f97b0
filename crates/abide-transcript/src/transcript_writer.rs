//! Writes a transcript: events in, chunks of text out, each to be appended to the file.
//!
//! A chunk is a run of consecutive events: first what people read, then the stamps of the events,
//! from which programs read them back. It ends when a turn begins or ends, when the session's
//! status changes, when the writer closes the session, or when it is large, so that all facts of a
//! heading are known before it is written. Chunk boundaries depend on the events alone, never on
//! when output is requested.

use std::fmt::Write;

use abide_model::{
    Event, Fact, Kind, KnownBlock, MessageBlock, MessageContent, Seq, SessionId, Timestamp,
    ToolResult, TurnNumber, TurnRole,
};

use crate::chunk::{ChunkChain, ChunkSum, FORMAT};
use crate::outline::{
    CallOutline, Outline, OutlineChange, OutlineHeadingRole, OutlineSection, TurnOutline,
};
use crate::place_tracker::PlaceTracker;
use crate::resume::ResumePoint;
use crate::short;
use crate::transcript_entry::TranscriptEntry;

/// A chunk ends once it has this many events or bytes.
const EVENTS: usize = 1000;
const BYTES: usize = 1 << 20;

/// Writes the text of a transcript.
///
/// ```
/// use abide_model::{NewEvent, Seq, Timestamp};
/// use abide_transcript::{TranscriptWriter, parse};
///
/// let hello = r#"{"kind":"message.added","data":{"role":"user","content":"hello"}}"#;
/// let event = NewEvent::parse(hello)?.into_event(Seq(1), Timestamp::from_millis(0));
/// let mut writer = TranscriptWriter::new();
/// writer.push(&event);
/// let text = writer.finish();
/// assert!(text.contains("=== REQUEST ===\nUser:\n    hello\n"));
/// assert_eq!(parse(text.as_bytes())?, [event]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct TranscriptWriter {
    last: Seq,
    chain: ChunkChain,
    outline: Outline,
    /// The events of the current chunk.
    pending: Vec<PendingChunkEvent>,
    pending_bytes: usize,
    log: Vec<String>,
    /// Finished chunks.
    ready: String,
}

/// An event of the current chunk.
#[derive(Debug)]
struct PendingChunkEvent {
    turn: Option<TurnNumber>,
    role: OutlineHeadingRole,
    /// The heading lines this event provides.
    facts: Vec<String>,
    /// Its texts, with their labels.
    text: String,
    stamp: String,
    at: Timestamp,
    /// The start of the user's message, if it is one.
    request: Option<String>,
}

impl TranscriptWriter {
    /// Starts a new transcript.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the transcript of a session that had `turn` turns before its first event, as a fork
    /// does. Its turn numbers continue from there, and the first chunk stores an outline that says
    /// so.
    #[must_use]
    pub fn after(turn: TurnNumber) -> Self {
        if turn == TurnNumber(0) {
            return Self::default();
        }
        let outline = Outline { places: PlaceTracker::after(turn), ..Outline::default() };
        let chain = ChunkChain { since: usize::MAX, ..ChunkChain::default() };
        Self { chain, outline, ..Self::default() }
    }

    /// Continues a transcript at its end.
    #[must_use]
    pub fn resume(point: ResumePoint) -> Self {
        Self { last: point.last, chain: point.chain, outline: point.outline, ..Self::default() }
    }

    /// The outline after these events, which form one chunk.
    pub(crate) fn outline_after(outline: Outline, events: &[Event]) -> Outline {
        let mut writer = Self { outline, ..Self::default() };
        events.iter().for_each(|event| writer.push(event));
        writer.end_chunk();
        writer.outline
    }

    /// The last event pushed.
    #[must_use]
    pub const fn last(&self) -> Seq {
        self.last
    }

    /// Adds the next event. Ignores one that is already in the transcript.
    pub fn push(&mut self, event: &Event) {
        if event.seq <= self.last {
            return;
        }
        let fact = event.fact().ok();
        let fact = fact.as_ref();
        if matches!(fact, Some(Fact::TurnStarted(_))) {
            self.end_chunk();
        }
        self.last = event.seq;
        let OutlineChange { place, role, finished } = self.outline.apply(event, fact);
        let entry = TranscriptEntry::of(event);
        let mut text = String::new();
        for part in &entry.texts {
            let _ = writeln!(
                text,
                "{}:",
                written_text_label(event, fact, &part.pointer, finished.as_ref())
            );
            text.push_str(&part.lines);
        }
        if !entry.texts.is_empty() {
            text.push('\n');
        }
        if let (Some(call), Some(Fact::ToolResult(result))) = (finished, fact) {
            self.log.push(log_line(&call, &outcome(&call, result, event.at)));
        }
        self.pending_bytes += text.len() + entry.stamp.len();
        let facts = written_heading_facts(event, fact, &self.outline);
        let request = written_by_user(fact);
        self.pending.push(PendingChunkEvent {
            turn: place.turn,
            role,
            facts,
            text,
            stamp: entry.stamp,
            at: event.at,
            request,
        });
        let ends = [Kind::TURN_FINISHED, Kind::SESSION_STATUS, Kind::WRITER_CLOSED];
        if ends.contains(&event.kind) || self.pending.len() >= EVENTS || self.pending_bytes >= BYTES
        {
            self.end_chunk();
        }
    }

    /// Drains the finished chunks, to be appended to the file.
    pub fn take_ready(&mut self) -> Option<String> {
        (!self.ready.is_empty()).then(|| std::mem::take(&mut self.ready))
    }

    /// Ends the current chunk and returns everything not drained yet.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.end_chunk();
        self.ready
    }

    fn end_chunk(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut out = String::with_capacity(self.pending_bytes + 512);
        if self.chain.sum == ChunkSum::default() {
            self.task_heading(&mut out);
        } else {
            out.push('\n');
        }
        // The first request is shown at the top even if it was made inside a turn.
        let request = self.pending.iter().find_map(|pending| pending.request.clone());
        let mut turn: Option<TurnNumber> = None;
        let mut seen: Vec<TurnNumber> = Vec::new();
        let mut stamps = String::new();
        for pending in std::mem::take(&mut self.pending) {
            let section = next_written_section(self.outline.section, pending.role);
            if section != self.outline.section || pending.role == OutlineHeadingRole::Result {
                if section == OutlineSection::Result {
                    self.write_log(&mut out);
                }
                if (self.outline.section, section)
                    == (OutlineSection::Task, OutlineSection::Execution)
                    && let Some(request) = &request
                {
                    write_section_heading(&mut out, OutlineSection::Request);
                    let _ = writeln!(out, "User: {request}");
                }
                self.outline.section = section;
                self.outline.in_turn = false;
                turn = None;
                write_section_heading(&mut out, section);
                if section == OutlineSection::Result {
                    self.result_heading(&mut out, &pending);
                }
            }
            let again = pending.turn.is_some_and(|turn| seen.contains(&turn));
            let silent = pending.text.is_empty();
            let enters = pending.turn.is_some() && pending.turn != turn && !(again && silent);
            if enters || pending.turn.is_none() && self.outline.in_turn && !silent {
                seen.extend(pending.turn);
                turn = pending.turn;
                self.outline.in_turn = turn.is_some();
                self.turn_heading(&mut out, turn, again);
            }
            out.push_str(&pending.text);
            stamps.push_str(&pending.stamp);
            stamps.push('\n');
        }
        self.write_log(&mut out);
        separate_written(&mut out);
        out.push_str(&stamps);
        self.outline.end_chunk();
        self.chain.close(&mut out, self.last, &self.outline);
        self.pending_bytes = 0;
        self.ready.push_str(&out);
    }

    fn task_heading(&self, out: &mut String) {
        let facts = self.pending.first().map_or(&[][..], |first| &first.facts);
        let mut facts = facts.iter();
        let _ = match facts.next() {
            Some(short) => writeln!(out, "=== TASK {short} ==="),
            None => writeln!(out, "=== TASK ==="),
        };
        let _ = writeln!(out, "{FORMAT}");
        for fact in facts {
            let _ = writeln!(out, "{fact}");
        }
        out.push('\n');
    }

    fn result_heading(&self, out: &mut String, pending: &PendingChunkEvent) {
        for fact in &pending.facts {
            let _ = writeln!(out, "{fact}");
        }
        if let Some(created) = self.outline.created {
            let _ =
                writeln!(out, "Duration: {}", short::short_duration_between(created, pending.at));
        }
        let files = &self.outline.files;
        if !files.is_empty() || self.outline.other_files {
            let mut files: Vec<_> =
                files.iter().map(|file| short::short_visible_start(file, 200)).collect();
            if self.outline.other_files {
                files.push("and others".to_owned());
            }
            let _ = writeln!(out, "Files Modified: {}", files.join(", "));
        }
    }

    fn turn_heading(&self, out: &mut String, number: Option<TurnNumber>, again: bool) {
        separate_written(out);
        let Some(number) = number else {
            let _ = writeln!(out, "--- Outside of turns ---");
            return;
        };
        let turn = self.outline.turns.iter().find(|turn| turn.number == number);
        let agent =
            turn.map_or_else(|| "unknown".to_owned(), |turn| short::short_name(&turn.agent));
        if again {
            let _ = writeln!(out, "--- Turn {number}: {agent} (continued) ---");
            return;
        }
        let _ = writeln!(out, "--- Turn {number}: {agent} ---");
        if let Some(turn) = turn {
            written_turn_facts(out, turn);
        }
        let _ = writeln!(out, "[Content]");
    }

    fn write_log(&mut self, out: &mut String) {
        let open = self.outline.calls.iter().filter(|call| !call.shown);
        self.log.extend(open.map(|call| log_line(call, "no result yet")));
        self.outline.calls.iter_mut().for_each(|call| call.shown = true);
        if self.log.is_empty() {
            return;
        }
        separate_written(out);
        let _ = writeln!(out, "[Tool Log]");
        for line in self.log.drain(..) {
            let _ = writeln!(out, "{line}");
        }
        out.push('\n');
    }
}

const fn next_written_section(section: OutlineSection, role: OutlineHeadingRole) -> OutlineSection {
    match (section, role) {
        (_, OutlineHeadingRole::Result) => OutlineSection::Result,
        (OutlineSection::Task, OutlineHeadingRole::Request) => OutlineSection::Request,
        (_, OutlineHeadingRole::Work) | (OutlineSection::Result, OutlineHeadingRole::Request) => {
            OutlineSection::Execution
        }
        (section, _) => section,
    }
}

fn write_section_heading(out: &mut String, section: OutlineSection) {
    separate_written(out);
    let _ = match section {
        OutlineSection::Task => writeln!(out, "=== TASK ==="),
        OutlineSection::Request => writeln!(out, "=== REQUEST ==="),
        OutlineSection::Execution => writeln!(out, "=== EXECUTION ==="),
        OutlineSection::Result => writeln!(out, "=== RESULT ==="),
    };
}

/// Adds a blank line unless there is one.
fn separate_written(out: &mut String) {
    if !(out.is_empty() || out == "\n" || out.ends_with("\n\n")) {
        out.push('\n');
    }
}

fn written_turn_facts(out: &mut String, turn: &TurnOutline) {
    if let Some(lane) = &turn.lane {
        let _ = writeln!(out, "Lane: {}", short::short_name(lane));
    }
    for (name, value) in &turn.decided {
        let _ = writeln!(out, "{name}: {}", short::short_visible_start(value, 200));
    }
    match &turn.ended {
        Some((status, at, usage)) => {
            let status = if status.is_empty() { "finished" } else { status };
            if turn.role == TurnRole::Agent || turn.decided.is_empty() {
                let _ = writeln!(out, "Status: {}", short::short_visible_start(status, 200));
            }
            let _ = writeln!(out, "Duration: {}", short::short_duration_between(turn.started, *at));
            if let Some(usage) = usage {
                let (sent, got) = (usage.input_tokens, usage.output_tokens);
                let (sent, got) = (short::short_thousands(sent), short::short_thousands(got));
                let _ = writeln!(out, "Tokens: {sent} in, {got} out");
            }
        }
        None => {
            let _ = writeln!(out, "Status: going on");
        }
    }
    if turn.role == TurnRole::Agent {
        let _ = writeln!(out, "Tool Calls: {}", turn.calls);
    }
}

/// How a call ended: its size, exit code and duration, as far as they are known.
fn outcome(call: &CallOutline, result: &ToolResult, at: Timestamp) -> String {
    let mut outcome = if result.ok { "ok" } else { "failed" }.to_owned();
    if let Some(result) = &result.result {
        let told = TranscriptResultFacts::of(result.get());
        let _ = write!(outcome, ", {} bytes", short::short_thousands(told.bytes));
        if let Some(code) = told.exit_code {
            let _ = write!(outcome, ", exit code {code}");
        }
    }
    let _ = write!(outcome, ", {}", short::short_duration_between(call.at, at));
    outcome
}

/// What a recorded result says of itself.
struct TranscriptResultFacts {
    /// The bytes of its text, or of its JSON if it is not a text.
    bytes: u64,
    exit_code: Option<i64>,
}

impl TranscriptResultFacts {
    fn of(json: &str) -> Self {
        #[derive(serde::Deserialize)]
        struct ExitCode {
            #[serde(alias = "exitCode", alias = "exit_status")]
            exit_code: Option<i64>,
        }
        let text = serde_json::from_str::<String>(json).ok();
        let bytes = text.map_or(json.len(), |text| text.len());
        let exit_code = serde_json::from_str::<ExitCode>(json).ok().and_then(|it| it.exit_code);
        Self { bytes: bytes as u64, exit_code }
    }
}

fn log_line(call: &CallOutline, outcome: &str) -> String {
    let mut line = format!("{} {}", short::short_clock(call.at), short::short_name(&call.name));
    if !call.target.is_empty() {
        line.push(' ');
        line.push_str(&short::short_visible_start(&call.target, 120));
    }
    line.push_str(" -> ");
    line.push_str(outcome);
    line
}

/// The heading lines of an event that creates a session or changes its status.
fn written_heading_facts(event: &Event, fact: Option<&Fact>, outline: &Outline) -> Vec<String> {
    let mut facts = Vec::new();
    match fact {
        Some(Fact::SessionCreated(created)) => {
            facts.push(created.session.short(SessionId::SHORT));
            facts.push(format!("Id: {}", created.session));
            facts.push(format!("Created: {}", outline.created.unwrap_or(event.at)));
            let fields = &created.fields;
            let named = [
                ("Title", &fields.title),
                ("Agent", &fields.agent),
                ("Model", &fields.model),
                ("Project", &fields.project),
                ("Workspace", &fields.workspace),
                ("Key", &fields.key),
            ];
            for (name, value) in named {
                if let Some(value) = value {
                    facts.push(format!("{name}: {}", short::short_visible_start(value, 200)));
                }
            }
            if let Some(parent) = &fields.parent {
                facts.push(format!("Parent: {} at @{}", parent.session, parent.seq));
            }
        }
        Some(Fact::SessionStatus(change)) => {
            facts.push(format!("Status: {}", change.status.as_str()));
            if let Some(reason) = &change.reason {
                facts.push(format!("Reason: {}", short::short_visible_start(reason, 200)));
            }
        }
        _ => {}
    }
    facts
}

/// The label above a text, without its colon.
fn written_text_label(
    event: &Event,
    fact: Option<&Fact>,
    pointer: &str,
    called: Option<&CallOutline>,
) -> String {
    let what = match fact {
        Some(Fact::Message(message)) => {
            let role = short::short_capital(&short::short_name(&message.role));
            match pointer.rsplit('/').next().unwrap_or_default() {
                "content" | "text" => role,
                "thinking" => format!("{role}, thinking"),
                _ => format!("{role}, {}", written_pointer_path(pointer)),
            }
        }
        Some(Fact::ToolCall(call)) => {
            format!("{} {}", short::short_name(&call.name), written_pointer_path(pointer))
        }
        Some(Fact::ToolResult(_)) => {
            let name =
                called.map_or_else(|| "Call".to_owned(), |call| short::short_name(&call.name));
            format!("{name} {}", written_pointer_path(pointer))
        }
        Some(Fact::SessionStatus(_)) => short::short_capital(&written_pointer_path(pointer)),
        _ => format!("{} {}", event.kind, written_pointer_path(pointer)),
    };
    match &event.lane {
        Some(lane) => format!("{what} (lane {})", short::short_name(&lane.0)),
        None => what,
    }
}

fn written_pointer_path(pointer: &str) -> String {
    let path = pointer.trim_start_matches('/').replace('/', ".");
    if path.is_empty() { "text".to_owned() } else { short::short_name(&path) }
}

/// The start of a user's message, on one line.
fn written_by_user(fact: Option<&Fact>) -> Option<String> {
    let Some(Fact::Message(message)) = fact else { return None };
    if message.role != "user" {
        return None;
    }
    let text = match &message.content {
        MessageContent::Text(text) => text.as_str(),
        MessageContent::Blocks(blocks) => blocks.iter().find_map(|block| match block {
            MessageBlock::Known(KnownBlock::Text { text }) => Some(text.as_str()),
            _ => None,
        })?,
        MessageContent::Other(_) => return None,
    };
    let line = text.trim().lines().next().filter(|line| !line.is_empty())?;
    Some(short::short_visible_start(line, 500))
}
