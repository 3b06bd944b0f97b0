//! Renders a session as text for a terminal, plain or coloured.
//!
//! Recorded text is escaped: the only control sequences are our own.

use std::fmt;
use std::fmt::Write;

use abide_model::{SessionId, SessionStatus, Timestamp, TurnRole};

use crate::markdown::markdown_done_to;
use crate::note::usage_note;
use crate::rendering::{TimelineRenderer, clip_rendering};
use crate::session_overview::SessionOverview;
use crate::short;
use crate::timeline_builder::timeline_task_status;
use crate::timeline_entry::{
    CallOutcome, EntryBody, EntryPart, NoteWeight, TimelineCall, TimelineEntry,
};
use crate::{escape, visible};

/// Limits on the lines and bytes shown of a tool's output.
const OUTPUT_LINES: usize = 24;
const OUTPUT: usize = 8 << 10;

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

/// Renders text.
pub struct TextRenderer {
    style: TextStyle,
    width: usize,
    clock: TimeFormatter,
    /// The last line was blank.
    after_blank: bool,
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
        Self { style, width, clock, after_blank: true }
    }

    /// A renderer without colours, 80 columns wide, with times in UTC.
    #[must_use]
    pub fn plain() -> Self {
        Self::new(TextStyle::Plain, 80, Box::new(short::short_day_and_time))
    }

    fn paint(&self, look: TextEmphasis, text: &str) -> String {
        self.style.paint(look, text)
    }

    /// The time of day.
    fn time(&self, at: Timestamp) -> String {
        let full = (self.clock)(at);
        full.rsplit(' ').next().unwrap_or_default().to_owned()
    }

    /// Writes a heading line with its time, lane and task.
    fn heading(&self, out: &mut String, item: &TimelineEntry, left: &str, look: TextEmphasis) {
        let mut right = self.time(item.at);
        if let Some(lane) = &item.lane {
            let _ = write!(right, "  lane {}", escape::text(&short::short_start(&lane.0, 40)));
        }
        if let Some(task) = &item.place.task {
            let _ = write!(right, "  task {}", escape::text(&short::short_start(&task.0, 40)));
        }
        let rewound = if item.rewound { "  (taken back by a rewind)" } else { "" };
        let (left, right) = (self.paint(look, left), self.paint(TextEmphasis::Faint, &right));
        let _ = writeln!(out, "{left}  {right}{}", self.paint(TextEmphasis::Bad, rewound));
    }

    fn call(&self, out: &mut String, call: &TimelineCall, item: Option<&TimelineEntry>) {
        let (sign, took) = match &call.outcome {
            CallOutcome::Unknown => {
                (self.paint(TextEmphasis::Faint, "?"), "  outcome unknown".to_owned())
            }
            CallOutcome::Ended { ok, millis, .. } => {
                let sign = if *ok {
                    self.paint(TextEmphasis::Good, "✓")
                } else {
                    self.paint(TextEmphasis::Bad, "✗ failed")
                };
                (
                    sign,
                    millis
                        .filter(|millis| *millis >= short::WORTH_TELLING)
                        .map(|millis| format!("  {}", short::duration(millis)))
                        .unwrap_or_default(),
                )
            }
        };
        let name =
            self.paint(TextEmphasis::Strong, &escape::text(&short::short_start(&call.name, 80)));
        let target =
            escape::text(&short::short_start(&call.target, self.width.max(60) - 20)).into_owned();
        let mut notes = took;
        if call.observed {
            notes.push_str("  observed");
        }
        if let Some(item) = item {
            if let Some(lane) = &item.lane {
                let _ = write!(notes, "  lane {}", escape::text(&short::short_start(&lane.0, 40)));
            }
            if item.rewound {
                notes.push_str("  (taken back by a rewind)");
            }
        }
        let space = if target.is_empty() { "" } else { " " };
        let _ = writeln!(
            out,
            "  {sign} {name}{space}{target}{}",
            self.paint(TextEmphasis::Faint, &notes)
        );
        if let Some(arguments) = &call.arguments {
            self.output(out, arguments);
        }
        self.outcome(out, &call.outcome);
    }

    fn outcome(&self, out: &mut String, outcome: &CallOutcome) {
        if let CallOutcome::Ended { text, .. } = outcome
            && !text.is_empty()
        {
            self.output(out, text);
        }
    }

    /// Writes the start of a tool's arguments or output.
    fn output(&self, out: &mut String, text: &str) {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let (shown, _) = clip_rendering(text, OUTPUT);
        let lines: Vec<_> = shown.split('\n').take(OUTPUT_LINES).collect();
        for line in &lines {
            let mut visible = String::new();
            visible::write_visible(&mut visible, line);
            let line = format!("    {}", self.paint(TextEmphasis::Faint, &visible));
            let _ = writeln!(out, "{}", line.trim_end());
        }
        let all = text.split('\n').count();
        let more = if all > lines.len() {
            format!("… {}", short::short_count((all - lines.len()) as u64, "more line"))
        } else if shown.len() < text.len() {
            format!("… {}", short::short_count((text.len() - shown.len()) as u64, "more byte"))
        } else {
            return;
        };
        let _ = writeln!(out, "    {}", self.paint(TextEmphasis::Faint, &more));
    }

    fn paragraph(&self, out: &mut String, indent: &str, text: &str, look: Option<TextEmphasis>) {
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            let mut visible = String::new();
            visible::write_visible(&mut visible, line);
            let visible = look.map_or(visible.clone(), |look| self.paint(look, &visible));
            let _ = writeln!(out, "{}", format!("{indent}{visible}").trim_end());
        }
    }

    /// Writes one line, or a label with a text of several lines under it.
    fn line(
        &self,
        out: &mut String,
        item: &TimelineEntry,
        what: &str,
        text: &str,
        look: TextEmphasis,
    ) {
        let rewound = if item.rewound { "  (taken back by a rewind)" } else { "" };
        let single = short::short_start(text, self.width.max(60) - 10);
        let long = text.trim_end().contains('\n');
        let shown = if long { String::new() } else { escape::text(&single).into_owned() };
        let what = escape::text(what);
        let _ = writeln!(
            out,
            "{}",
            self.paint(
                look,
                format!("  {what}{}{shown}{rewound}", if shown.is_empty() { "" } else { ": " })
                    .trim_end()
            )
        );
        if long {
            self.output(out, text);
        }
    }
}

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
        let mut facts = vec![self.paint(look, summary.status.as_str())];
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
        let _ = writeln!(out, "{}", self.paint(TextEmphasis::Faint, &summary.counts().join(" · ")));
        if let Some((label, from)) = summary.fields.iter().find(|(name, _)| *name == "Forked") {
            let _ =
                writeln!(out, "{}", self.paint(TextEmphasis::Faint, &format!("{label} {from}")));
        }
        if let Some(reason) = &summary.reason {
            self.paragraph(&mut out, "", &short::short_start(reason, 400), None);
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
        let mut out = String::new();
        let mut blank_behind = false;
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
                blank_behind = true;
            }
            EntryBody::Message { role, parts } => {
                let look = if role == "user" { TextEmphasis::Person } else { TextEmphasis::Agent };
                let role =
                    escape::text(&short::short_capital(&short::short_start(role, 60))).into_owned();
                self.heading(&mut out, item, &role, look);
                for part in parts {
                    match part {
                        EntryPart::Text(text) => self.paragraph(&mut out, "  ", text, None),
                        EntryPart::Thinking(text) => {
                            let text = format!("(thinking) {text}");
                            self.paragraph(&mut out, "  ", &text, Some(TextEmphasis::Faint));
                        }
                        EntryPart::Asked(call) => self.call(&mut out, call, None),
                        EntryPart::Result { call, outcome } => {
                            let call = escape::text(&short::short_start(call, 80)).into_owned();
                            let _ = writeln!(
                                out,
                                "  {}",
                                self.paint(TextEmphasis::Faint, &format!("result of {call}"))
                            );
                            self.outcome(&mut out, outcome);
                        }
                        EntryPart::Other(json) => self.output(&mut out, json),
                    }
                }
                blank_behind = true;
            }
            EntryBody::Call(call) => self.call(&mut out, call, Some(item)),
            EntryBody::LateResult { call, outcome } => {
                let well = if matches!(outcome, CallOutcome::Ended { ok: true, .. }) {
                    "ok"
                } else {
                    "failed"
                };
                self.line(&mut out, item, &format!("Result of {call}"), well, TextEmphasis::Faint);
                self.outcome(&mut out, outcome);
            }
            EntryBody::Status { status, reason, summary } => {
                let look = match status {
                    SessionStatus::Completed => TextEmphasis::Good,
                    SessionStatus::Failed | SessionStatus::Interrupted => TextEmphasis::Bad,
                    _ => TextEmphasis::Strong,
                };
                self.heading(&mut out, item, &format!("Session {}", status.as_str()), look);
                for text in reason.iter().chain(summary) {
                    self.paragraph(&mut out, "  ", text, None);
                }
                blank_behind = true;
            }
            EntryBody::Task { task, change, text } => {
                let text = text.as_deref().unwrap_or_default();
                self.line(
                    &mut out,
                    item,
                    &format!("Task {} {change}", task.0),
                    text,
                    TextEmphasis::Strong,
                );
            }
            EntryBody::File { op, path, to } => {
                let to = to.as_ref().map(|to| format!(" to {to}")).unwrap_or_default();
                self.line(
                    &mut out,
                    item,
                    &format!("File {}", markdown_done_to(*op)),
                    &format!("{path}{to}"),
                    TextEmphasis::Faint,
                );
            }
            EntryBody::Note { label, text, weight } => {
                let look = if *weight == NoteWeight::Minor {
                    TextEmphasis::Faint
                } else {
                    TextEmphasis::Strong
                };
                self.line(&mut out, item, label, text, look);
            }
        }
        // Headings get a blank line before them; other lines do not.
        let apart = matches!(
            item.what,
            EntryBody::TurnStarted { .. } | EntryBody::Message { .. } | EntryBody::Status { .. }
        );
        if apart && !self.after_blank {
            out.insert(0, '\n');
        }
        if blank_behind {
            out.push('\n');
        }
        self.after_blank = blank_behind;
        out
    }

    fn end(&mut self) -> String {
        String::new()
    }
}
