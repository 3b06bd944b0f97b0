//! Renders a session as text for a terminal, plain or coloured.
//!
//! Recorded text is escaped: the only control sequences are our own.

use std::fmt;
use std::fmt::Write;

use abide_model::{SessionId, SessionStatus, Timestamp, TurnRole};

use crate::call_view::{CallDiff, CallSign, CallView, CallViewBlock, DiffSign, TodoState};
use crate::columns::{cut_columns, expand_tabs, wrap_columns};
use crate::markdown::markdown_done_to;
use crate::note::usage_note;
use crate::prose_parser::parse_prose;
use crate::rendering::{TimelineRenderer, call_facts, image_words, late_result_name};
use crate::session_overview::SessionOverview;
use crate::short;
use crate::terminal_prose::{TerminalLayout, write_terminal_code, write_terminal_prose};
use crate::timeline_builder::timeline_task_status;
use crate::timeline_entry::{CallField, EntryBody, EntryPart, TimelineEntry};
use crate::{escape, visible};

/// Of a longer output the first and the last lines are shown.
const FIRST_LINES: usize = 12;
const LAST_LINES: usize = 6;
/// The most bytes of a line that are shown.
const LINE: usize = 4 << 10;
/// The most lines of a change or of code that are shown.
const CODE_LINES: usize = 60;

/// Whether to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextStyle {
    /// No colours.
    Plain,
    /// The terminal's colours.
    Coloured,
}

/// How a piece of text is emphasized.
#[derive(Debug, Clone, Copy)]
enum TextEmphasis {
    Strong,
    Faint,
    Good,
    Bad,
    Person,
    Agent,
    Turn,
}

impl TextStyle {
    fn paint(self, look: TextEmphasis, text: &str) -> String {
        let code = match look {
            TextEmphasis::Strong => "1",
            TextEmphasis::Faint => "2",
            TextEmphasis::Good => "32",
            TextEmphasis::Bad => "31",
            TextEmphasis::Person => "1;32",
            TextEmphasis::Agent => "1;34",
            TextEmphasis::Turn => "1;36",
        };
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured if text.is_empty() => String::new(),
            Self::Coloured => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}

/// Formats a time as a date and a time of day, separated by a space.
pub type TimeFormatter = Box<dyn Fn(Timestamp) -> String>;

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextDetail {
    /// The conversation.
    Normal,
    /// Machinery, all thinking and whole outputs too.
    Verbose,
}

/// Renders text.
pub struct TextRenderer {
    style: TextStyle,
    width: usize,
    clock: TimeFormatter,
    detail: TextDetail,
    /// The last line was blank.
    after_blank: bool,
    /// Who spoke last, and in which lane.
    speaker: Option<(String, Option<String>)>,
    /// The lane of the last entry.
    lane: Option<String>,
}

impl fmt::Debug for TextRenderer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Text").field("style", &self.style).finish_non_exhaustive()
    }
}

impl TextRenderer {
    /// A renderer for a terminal of this width. `clock` formats times.
    #[must_use]
    pub fn new(style: TextStyle, width: usize, clock: TimeFormatter) -> Self {
        let detail = TextDetail::Normal;
        Self { style, width, clock, detail, after_blank: true, speaker: None, lane: None }
    }

    /// A renderer without colours, 80 columns wide, with times in UTC.
    #[must_use]
    pub fn plain() -> Self {
        Self::new(TextStyle::Plain, 80, Box::new(short::short_day_and_time))
    }

    /// Shows this much.
    #[must_use]
    pub const fn with_detail(mut self, detail: TextDetail) -> Self {
        self.detail = detail;
        self
    }

    /// Renders an entry that was asked for: in full, even if it is machinery.
    pub fn item_in_full(&mut self, item: &TimelineEntry) -> String {
        let detail = std::mem::replace(&mut self.detail, TextDetail::Verbose);
        let text = self.item(item);
        self.detail = detail;
        text
    }

    fn paint(&self, look: TextEmphasis, text: &str) -> String {
        self.style.paint(look, text)
    }

    fn is_verbose(&self) -> bool {
        self.detail == TextDetail::Verbose
    }

    /// The time of day.
    fn time(&self, at: Timestamp) -> String {
        let full = (self.clock)(at);
        full.rsplit(' ').next().unwrap_or_default().to_owned()
    }

    /// The columns left of the text of an entry.
    fn inner_width(&self, item: Option<&TimelineEntry>, indent: usize) -> usize {
        let gutter = if item.is_some_and(|item| item.lane.is_some()) { LANE.len() } else { 0 };
        self.width.saturating_sub(indent + gutter).max(20)
    }

    /// Writes a heading line with its time, number and task.
    fn heading(&self, out: &mut String, item: &TimelineEntry, left: &str, look: TextEmphasis) {
        let mut right = format!("{}  @{}", self.time(item.at), item.seq);
        if let Some(task) = &item.place.task {
            let _ = write!(right, "  task {}", escape::text(&short::short_start(&task.0, 40)));
        }
        let rewound = if item.rewound { "  (taken back by a rewind)" } else { "" };
        let (left, right) = (self.paint(look, left), self.paint(TextEmphasis::Faint, &right));
        let _ = writeln!(out, "{left}  {right}{}", self.paint(TextEmphasis::Bad, rewound));
    }

    fn call(&self, out: &mut String, view: &CallView, item: &TimelineEntry) {
        let (sign, plain) = match view.sign {
            CallSign::Unknown => (self.paint(TextEmphasis::Faint, "?"), "?"),
            CallSign::Good => (self.paint(TextEmphasis::Good, "✓"), "✓"),
            CallSign::Bad => (self.paint(TextEmphasis::Bad, "✗"), "✗"),
        };
        let mut facts = call_facts(view).join(", ");
        if item.rewound {
            facts.push_str(" (taken back by a rewind)");
        }
        let facts = escape::text(&facts).into_owned();
        let name = escape::text(&view.name).into_owned();
        let taken = 4 + plain.len() + name.chars().count() + facts.chars().count();
        let room = self.inner_width(Some(item), taken + 4).max(24);
        let target = escape::text(&short::short_start(&view.target, 400)).into_owned();
        let target = cut_columns(&target, room).into_owned();
        let name = self.paint(TextEmphasis::Strong, &name);
        let mut line = format!("  {sign} {name}");
        for (word, look) in [(target, None), (facts, Some(TextEmphasis::Faint))] {
            if !word.is_empty() {
                let space = if look.is_some() { "  " } else { " " };
                let word = look.map_or(word.clone(), |look| self.paint(look, &word));
                let _ = write!(line, "{space}{word}");
            }
        }
        let _ = writeln!(out, "{line}");
        for block in &view.blocks {
            self.block(out, block, item);
        }
    }

    fn block(&self, out: &mut String, block: &CallViewBlock, item: &TimelineEntry) {
        match block {
            CallViewBlock::Code { language, text } => self.code(out, language, text, item),
            CallViewBlock::Diff(diff) => self.diff(out, diff, item),
            CallViewBlock::Fields(fields) => self.fields(out, fields, item),
            CallViewBlock::Details(fields) if self.is_verbose() => self.fields(out, fields, item),
            CallViewBlock::Details(_) => {}
            CallViewBlock::Todo(items) => {
                for todo in items {
                    let look = match todo.state {
                        TodoState::Open => None,
                        TodoState::Active => Some(TextEmphasis::Strong),
                        TodoState::Done | TodoState::Dropped => Some(TextEmphasis::Faint),
                    };
                    let text = format!("{} {}", todo.state.mark(), todo.text);
                    self.wrapped(out, "    ", "        ", &text, look, item);
                }
            }
            CallViewBlock::Output(text) => self.output(out, text, item),
            CallViewBlock::Aside(text) if self.is_verbose() => self.output(out, text, item),
            CallViewBlock::Aside(_) => {}
            CallViewBlock::Prose(text) => self.prose(out, "    ", text, item),
            CallViewBlock::Image(image) => {
                let words = format!("[{}]", image_words(image));
                self.wrapped(out, "    ", "    ", &words, Some(TextEmphasis::Faint), item);
            }
        }
    }

    /// Writes what a tool printed: all of it, or its first and last lines.
    fn output(&self, out: &mut String, text: &str, item: &TimelineEntry) {
        let text = text.trim_end_matches('\n');
        let lines: Vec<_> = text.split('\n').collect();
        let faint = Some(TextEmphasis::Faint);
        if self.is_verbose() || lines.len() <= FIRST_LINES + LAST_LINES + 2 {
            for line in lines {
                self.wrapped(out, "    ", "    ", line, faint, item);
            }
            return;
        }
        for line in lines.iter().take(FIRST_LINES) {
            self.wrapped(out, "    ", "    ", line, faint, item);
        }
        let left_out = lines.len() - FIRST_LINES - LAST_LINES;
        let size = short::short_bytes(u64::try_from(text.len()).unwrap_or(u64::MAX));
        let more = format!("… {left_out} lines of {} ({size}) …", lines.len());
        let _ = writeln!(out, "    {}", self.paint(TextEmphasis::Strong, &more));
        for line in lines.iter().skip(lines.len() - LAST_LINES) {
            self.wrapped(out, "    ", "    ", line, faint, item);
        }
    }

    fn code(&self, out: &mut String, language: &str, text: &str, item: &TimelineEntry) {
        let text = text.trim_end_matches('\n');
        let shown = if self.is_verbose() { usize::MAX } else { CODE_LINES };
        let end =
            text.match_indices('\n').nth(shown.saturating_sub(1)).map_or(text.len(), |at| at.0);
        let start = text.get(..end).unwrap_or(text);
        write_terminal_code(out, language, start, self.layout("    ", item));
        let rest = text.get(end..).unwrap_or_default();
        self.more_lines(out, "    ", rest.matches('\n').count());
    }

    /// Says how many lines are not shown, if there are any.
    fn more_lines(&self, out: &mut String, indent: &str, count: usize) {
        if count > 0 {
            let more = short::short_count(u64::try_from(count).unwrap_or(u64::MAX), "more line");
            let more = self.paint(TextEmphasis::Strong, &format!("… {more}"));
            let _ = writeln!(out, "{indent}{more}");
        }
    }

    fn diff(&self, out: &mut String, diff: &CallDiff, item: &TimelineEntry) {
        let shown = if self.is_verbose() { usize::MAX } else { CODE_LINES };
        for line in diff.lines.iter().take(shown) {
            let look = match line.sign {
                DiffSign::Same => Some(TextEmphasis::Faint),
                DiffSign::Added => Some(TextEmphasis::Good),
                DiffSign::Removed => Some(TextEmphasis::Bad),
                DiffSign::Gap => Some(TextEmphasis::Faint),
            };
            let text = format!("{} {}", line.sign.mark(), line.text);
            self.wrapped(out, "    ", "      ", &text, look, item);
        }
        self.more_lines(out, "    ", diff.lines.len().saturating_sub(shown));
    }

    fn fields(&self, out: &mut String, fields: &[CallField], item: &TimelineEntry) {
        for CallField { name, value } in fields {
            let value = value.trim_end_matches('\n');
            if name.is_empty() {
                self.output(out, value, item);
            } else if value.contains('\n') {
                let faint = Some(TextEmphasis::Faint);
                self.wrapped(out, "    ", "      ", &format!("{name}:"), faint, item);
                let shown = if self.is_verbose() { usize::MAX } else { FIRST_LINES };
                for line in value.split('\n').take(shown) {
                    self.wrapped(out, "      ", "      ", line, faint, item);
                }
                self.more_lines(out, "      ", value.split('\n').count().saturating_sub(shown));
            } else {
                let line = format!("{name}: {value}");
                self.wrapped(out, "    ", "      ", &line, Some(TextEmphasis::Faint), item);
            }
        }
    }

    /// Writes Markdown.
    fn prose(&self, out: &mut String, indent: &str, text: &str, item: &TimelineEntry) {
        write_terminal_prose(out, &parse_prose(text), self.layout(indent, item));
    }

    fn layout<'a>(&self, indent: &'a str, item: &TimelineEntry) -> TerminalLayout<'a> {
        TerminalLayout { width: self.inner_width(Some(item), 0), indent, style: self.style }
    }

    /// Writes a line of recorded text, wrapped, its further lines with the second indent.
    fn wrapped(
        &self,
        out: &mut String,
        first: &str,
        rest: &str,
        line: &str,
        look: Option<TextEmphasis>,
        item: &TimelineEntry,
    ) {
        let most = if self.is_verbose() { usize::MAX } else { LINE };
        let (line, more) = crate::rendering::clip_rendering(line, most);
        let mut visible = String::new();
        visible::write_visible(&mut visible, line);
        if more > 0 {
            let _ = write!(visible, " … {}", short::short_count(more as u64, "more byte"));
        }
        let visible = expand_tabs(&visible);
        let mut indent = first;
        for part in wrap_columns(&visible, self.inner_width(Some(item), rest.len())) {
            let part = look.map_or_else(|| part.to_owned(), |look| self.paint(look, part));
            let _ = writeln!(out, "{}", format!("{indent}{part}").trim_end());
            indent = rest;
        }
    }

    /// Writes a note: a label and its text, on one line if it fits.
    fn line(
        &self,
        out: &mut String,
        item: &TimelineEntry,
        what: &str,
        text: &str,
        look: TextEmphasis,
    ) {
        let rewound = if item.rewound { "  (taken back by a rewind)" } else { "" };
        let text = text.trim_end();
        let (first, more) = match text.split_once('\n') {
            Some(_) if what.is_empty() => (text, ""),
            Some(_) => ("", text),
            None => (text, ""),
        };
        let between = if first.is_empty() || what.is_empty() { "" } else { ": " };
        let line = format!("{what}{between}{first}{rewound}");
        self.wrapped(out, "  ", "    ", &line, Some(look), item);
        if !more.is_empty() {
            self.output(out, more, item);
        }
    }

    fn message(&mut self, out: &mut String, item: &TimelineEntry, role: &str, parts: &[EntryPart]) {
        let speaker = (role.to_owned(), item.lane.as_ref().map(|lane| lane.0.clone()));
        let goes_on = self.speaker.as_ref() == Some(&speaker) && role != "user" && !item.rewound;
        if !goes_on {
            let look = if role == "user" { TextEmphasis::Person } else { TextEmphasis::Agent };
            let name =
                escape::text(&short::short_capital(&short::short_start(role, 60))).into_owned();
            self.heading(out, item, &name, look);
        }
        self.speaker = Some(speaker);
        let folded = matches!(role, "system" | "developer") && !self.is_verbose();
        for part in parts {
            match part {
                EntryPart::Text(text) if folded => self.folded(out, "", text, item),
                EntryPart::Text(text) => self.prose(out, "  ", text, item),
                EntryPart::Thinking(text) if self.is_verbose() => {
                    let _ = writeln!(out, "  {}", self.paint(TextEmphasis::Faint, "(thinking)"));
                    self.prose(out, "  ", text, item);
                }
                EntryPart::Thinking(text) => self.folded(out, "(thinking) ", text, item),
                EntryPart::Context(text) if self.is_verbose() => {
                    self.prose(out, "  ", text, item);
                }
                EntryPart::Context(text) => self.folded(out, "(context) ", text, item),
                EntryPart::Image(image) => {
                    let words = format!("[{}]", image_words(image));
                    self.wrapped(out, "  ", "  ", &words, Some(TextEmphasis::Faint), item);
                }
                EntryPart::Attachment(name) => {
                    let words = format!("[{name}]");
                    self.wrapped(out, "  ", "  ", &words, Some(TextEmphasis::Faint), item);
                }
                EntryPart::Fields(fields) => self.fields(out, fields, item),
            }
        }
    }

    /// Writes the start of a long text on one line, with its size.
    fn folded(&self, out: &mut String, label: &str, text: &str, item: &TimelineEntry) {
        let width = self.inner_width(Some(item), 14).min(100);
        let start = escape::text(&short::short_start(text, width)).into_owned();
        let line = cut_columns(&format!("{label}{start}"), width).into_owned();
        let long = line.ends_with('…');
        let size = short::short_bytes(u64::try_from(text.len()).unwrap_or(u64::MAX));
        let size = if long { format!(" ({size})") } else { String::new() };
        let _ = writeln!(out, "  {}", self.paint(TextEmphasis::Faint, &format!("{line}{size}")));
    }
}

/// The gutter before the lines of a lane.
const LANE: &str = "│ ";

impl TimelineRenderer for TextRenderer {
    fn begin(&mut self, summary: &SessionOverview) -> String {
        let mut out = String::new();
        let title = short::short_start(&summary.heading(), 200);
        let _ = writeln!(out, "{}", self.paint(TextEmphasis::Strong, &escape::text(&title)));
        let look = match summary.status {
            SessionStatus::Completed => TextEmphasis::Good,
            SessionStatus::Failed | SessionStatus::Interrupted => TextEmphasis::Bad,
            _ => TextEmphasis::Strong,
        };
        let state = summary.state.unwrap_or(summary.status.as_str());
        let mut facts = vec![self.paint(look, state)];
        if let Some(id) = summary.id {
            facts.push(id.short(SessionId::SHORT));
        }
        let agent = summary.fields.iter().filter(|(name, _)| matches!(*name, "Agent" | "Model"));
        facts.extend(
            agent.map(|(_, value)| escape::text(&short::short_start(value, 60)).into_owned()),
        );
        facts.push((self.clock)(summary.created));
        facts.push(short::short_duration_between(summary.created, summary.last));
        let _ = writeln!(out, "{}", facts.join(" · "));
        for line in wrap_columns(&summary.counts().join(" · "), self.width.max(20)) {
            let _ = writeln!(out, "{}", self.paint(TextEmphasis::Faint, line));
        }
        if let Some((label, from)) = summary.fields.iter().find(|(name, _)| *name == "Forked") {
            let _ =
                writeln!(out, "{}", self.paint(TextEmphasis::Faint, &format!("{label} {from}")));
        }
        if let Some(reason) = &summary.reason {
            let reason = escape::text(&short::short_start(reason, 400)).into_owned();
            for line in wrap_columns(&reason, self.width.max(20)) {
                let _ = writeln!(out, "{line}");
            }
        }
        for task in summary.tasks.iter().take(100) {
            let indent = "  ".repeat(task.depth.min(8) + 1);
            let look =
                if task.status.is_done() { TextEmphasis::Good } else { TextEmphasis::Strong };
            let (id, title) =
                (short::short_start(&task.task.0, 60), short::short_start(&task.title, 200));
            let status = self.paint(look, timeline_task_status(task.status));
            let _ =
                writeln!(out, "{indent}{} {}  {status}", escape::text(&id), escape::text(&title));
        }
        if summary.tasks.len() > 100 {
            let _ = writeln!(
                out,
                "  … {}",
                short::short_count((summary.tasks.len() - 100) as u64, "more task")
            );
        }
        out.push('\n');
        out
    }

    fn item(&mut self, item: &TimelineEntry) -> String {
        if item.is_minor() && !self.is_verbose() {
            return String::new();
        }
        let mut out = String::new();
        let mut blank_behind = false;
        let lane = item.lane.as_ref().map(|lane| lane.0.clone());
        let entered = lane != self.lane;
        if entered {
            self.speaker = None;
        }
        match &item.what {
            EntryBody::TurnStarted { number, agent, role } => {
                let arbiter = if *role == TurnRole::Arbiter && agent != "arbiter" {
                    " (arbiter)"
                } else {
                    ""
                };
                let agent = escape::text(&short::short_start(agent, 80)).into_owned();
                self.heading(
                    &mut out,
                    item,
                    &format!("━━ Turn {number}: {agent}{arbiter}"),
                    TextEmphasis::Turn,
                );
                self.speaker = None;
            }
            EntryBody::Decided { choice, reason } => {
                let reason = reason.as_ref().map(|why| format!(", {why}")).unwrap_or_default();
                self.line(
                    &mut out,
                    item,
                    "Decided",
                    &format!("{choice}{reason}"),
                    TextEmphasis::Strong,
                );
            }
            EntryBody::TurnFinished { status, millis, usage: used, .. } => {
                let mut words =
                    vec![if status.is_empty() { "finished".to_owned() } else { status.clone() }];
                words.extend(millis.map(short::duration));
                words.extend(used.as_ref().map(usage_note));
                self.line(&mut out, item, "Turn", &words.join(", "), TextEmphasis::Faint);
                self.speaker = None;
                blank_behind = true;
            }
            EntryBody::Message { role, parts } => {
                self.message(&mut out, item, role, parts);
                blank_behind = true;
            }
            EntryBody::Call(call) => self.call(&mut out, &CallView::of(call), item),
            EntryBody::LateResult(call) => {
                let mut view = CallView::of(call);
                view.name = late_result_name(call);
                self.call(&mut out, &view, item);
            }
            EntryBody::Status { status, reason, summary } => {
                let look = match status {
                    SessionStatus::Completed => TextEmphasis::Good,
                    SessionStatus::Failed | SessionStatus::Interrupted => TextEmphasis::Bad,
                    _ => TextEmphasis::Strong,
                };
                self.heading(&mut out, item, &format!("Session {}", status.as_str()), look);
                for text in reason.iter().chain(summary) {
                    self.prose(&mut out, "  ", text, item);
                }
                self.speaker = None;
                blank_behind = true;
            }
            EntryBody::Task { task, change, text, .. } => {
                let text = text.as_deref().unwrap_or_default();
                self.line(
                    &mut out,
                    item,
                    &format!("Task {} {change}", task.0),
                    text,
                    TextEmphasis::Strong,
                );
            }
            EntryBody::File { op, path, to, .. } => {
                let to = to.as_ref().map(|to| format!(" to {to}")).unwrap_or_default();
                self.line(
                    &mut out,
                    item,
                    &format!("File {}", markdown_done_to(*op)),
                    &format!("{path}{to}"),
                    TextEmphasis::Faint,
                );
            }
            EntryBody::Note { label, text, .. } => {
                let look = if item.is_minor() { TextEmphasis::Faint } else { TextEmphasis::Strong };
                self.line(&mut out, item, label, text, look);
            }
        }
        if item.lane.is_some() {
            let mut inside = String::with_capacity(out.len() + out.len() / 8);
            if entered {
                let title = item.lane_title.as_deref().unwrap_or_default();
                let title = escape::text(&short::short_start(title, 80)).into_owned();
                let _ =
                    writeln!(inside, "{}", self.paint(TextEmphasis::Agent, &format!("┌ {title}")));
            }
            for line in out.lines() {
                let _ = writeln!(inside, "{}", format!("{LANE}{line}").trim_end());
            }
            out = inside;
        }
        // Headings get a blank line before them; other lines do not.
        let apart = match &item.what {
            EntryBody::TurnStarted { .. }
            | EntryBody::Message { .. }
            | EntryBody::Status { .. } => true,
            _ => entered,
        };
        let left = entered && self.lane.is_some();
        if left || (apart && !self.after_blank) {
            let gutter = if item.lane.is_some() && !entered { "│\n" } else { "\n" };
            out.insert_str(0, gutter);
        }
        if blank_behind {
            out.push_str(if item.lane.is_some() { "│\n" } else { "\n" });
        }
        self.after_blank = blank_behind;
        self.lane = lane;
        out
    }

    fn end(&mut self) -> String {
        String::new()
    }
}
