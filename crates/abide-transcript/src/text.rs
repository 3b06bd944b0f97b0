//! Renders a session as text for a terminal, plain or coloured.
//!
//! Recorded text is escaped: the only control sequences are our own.

use std::fmt;
use std::fmt::Write;

use abide_model::{SessionId, SessionStatus, Timestamp, TurnRole};

use crate::item::{Call, Item, Outcome, Part, Weight, What};
use crate::markdown::done_to;
use crate::note::usage;
use crate::rendering::{Rendering, clip};
use crate::short;
use crate::story::task_status;
use crate::summary::Summary;
use crate::{escape, visible};

/// Limits on the lines and bytes shown of a tool's output.
const OUTPUT_LINES: usize = 24;
const OUTPUT: usize = 8 << 10;

/// Whether to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// No colours.
    Plain,
    /// The terminal's colours.
    Coloured,
}

/// How a piece of text is emphasized.
#[derive(Debug, Clone, Copy)]
enum Look {
    Strong,
    Faint,
    Good,
    Bad,
    Person,
    Agent,
    Turn,
}

impl Style {
    fn paint(self, look: Look, text: &str) -> String {
        let code = match look {
            Look::Strong => "1",
            Look::Faint => "2",
            Look::Good => "32",
            Look::Bad => "31",
            Look::Person => "1;32",
            Look::Agent => "1;34",
            Look::Turn => "1;36",
        };
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured if text.is_empty() => String::new(),
            Self::Coloured => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}

/// Formats a time as a date and a time of day, separated by a space.
pub type Clock = Box<dyn Fn(Timestamp) -> String>;

/// Renders text.
pub struct Text {
    style: Style,
    width: usize,
    clock: Clock,
    /// The last line was blank.
    after_blank: bool,
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Text").field("style", &self.style).finish_non_exhaustive()
    }
}

impl Text {
    /// A renderer for a terminal of this width. `clock` formats times.
    #[must_use]
    pub fn new(style: Style, width: usize, clock: Clock) -> Self {
        Self { style, width, clock, after_blank: true }
    }

    /// A renderer without colours, 80 columns wide, with times in UTC.
    #[must_use]
    pub fn plain() -> Self {
        Self::new(Style::Plain, 80, Box::new(short::day_and_time))
    }

    fn paint(&self, look: Look, text: &str) -> String {
        self.style.paint(look, text)
    }

    /// The time of day.
    fn time(&self, at: Timestamp) -> String {
        let full = (self.clock)(at);
        full.rsplit(' ').next().unwrap_or_default().to_owned()
    }

    /// Writes a heading line with its time, lane and task.
    fn heading(&self, out: &mut String, item: &Item, left: &str, look: Look) {
        let mut right = self.time(item.at);
        if let Some(lane) = &item.lane {
            let _ = write!(right, "  lane {}", escape::text(&short::start(&lane.0, 40)));
        }
        if let Some(task) = &item.place.task {
            let _ = write!(right, "  task {}", escape::text(&short::start(&task.0, 40)));
        }
        let rewound = if item.rewound { "  (taken back by a rewind)" } else { "" };
        let (left, right) = (self.paint(look, left), self.paint(Look::Faint, &right));
        let _ = writeln!(out, "{left}  {right}{}", self.paint(Look::Bad, rewound));
    }

    fn call(&self, out: &mut String, call: &Call, item: Option<&Item>) {
        let (sign, took) = match &call.outcome {
            Outcome::Unknown => (self.paint(Look::Faint, "?"), "  outcome unknown".to_owned()),
            Outcome::Ended { ok, millis, .. } => {
                let sign = if *ok {
                    self.paint(Look::Good, "✓")
                } else {
                    self.paint(Look::Bad, "✗ failed")
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
        let name = self.paint(Look::Strong, &escape::text(&short::start(&call.name, 80)));
        let target =
            escape::text(&short::start(&call.target, self.width.max(60) - 20)).into_owned();
        let mut notes = took;
        if call.observed {
            notes.push_str("  observed");
        }
        if let Some(item) = item {
            if let Some(lane) = &item.lane {
                let _ = write!(notes, "  lane {}", escape::text(&short::start(&lane.0, 40)));
            }
            if item.rewound {
                notes.push_str("  (taken back by a rewind)");
            }
        }
        let space = if target.is_empty() { "" } else { " " };
        let _ = writeln!(out, "  {sign} {name}{space}{target}{}", self.paint(Look::Faint, &notes));
        if let Some(arguments) = &call.arguments {
            self.output(out, arguments);
        }
        self.outcome(out, &call.outcome);
    }

    fn outcome(&self, out: &mut String, outcome: &Outcome) {
        if let Outcome::Ended { text, .. } = outcome
            && !text.is_empty()
        {
            self.output(out, text);
        }
    }

    /// Writes the start of a tool's arguments or output.
    fn output(&self, out: &mut String, text: &str) {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let (shown, _) = clip(text, OUTPUT);
        let lines: Vec<_> = shown.split('\n').take(OUTPUT_LINES).collect();
        for line in &lines {
            let mut visible = String::new();
            visible::write(&mut visible, line);
            let line = format!("    {}", self.paint(Look::Faint, &visible));
            let _ = writeln!(out, "{}", line.trim_end());
        }
        let all = text.split('\n').count();
        let more = if all > lines.len() {
            format!("… {}", short::count((all - lines.len()) as u64, "more line"))
        } else if shown.len() < text.len() {
            format!("… {}", short::count((text.len() - shown.len()) as u64, "more byte"))
        } else {
            return;
        };
        let _ = writeln!(out, "    {}", self.paint(Look::Faint, &more));
    }

    fn paragraph(&self, out: &mut String, indent: &str, text: &str, look: Option<Look>) {
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            let mut visible = String::new();
            visible::write(&mut visible, line);
            let visible = look.map_or(visible.clone(), |look| self.paint(look, &visible));
            let _ = writeln!(out, "{}", format!("{indent}{visible}").trim_end());
        }
    }

    /// Writes one line, or a label with a text of several lines under it.
    fn line(&self, out: &mut String, item: &Item, what: &str, text: &str, look: Look) {
        let rewound = if item.rewound { "  (taken back by a rewind)" } else { "" };
        let single = short::start(text, self.width.max(60) - 10);
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

impl Rendering for Text {
    fn begin(&mut self, summary: &Summary) -> String {
        let mut out = String::new();
        let title = short::start(&summary.heading(), 200);
        let _ = writeln!(out, "{}", self.paint(Look::Strong, &escape::text(&title)));
        let look = match summary.status {
            SessionStatus::Completed => Look::Good,
            SessionStatus::Failed | SessionStatus::Interrupted => Look::Bad,
            _ => Look::Strong,
        };
        let mut facts = vec![self.paint(look, summary.status.as_str())];
        if let Some(id) = summary.id {
            facts.push(id.short(SessionId::SHORT));
        }
        let agent = summary.fields.iter().filter(|(name, _)| matches!(*name, "Agent" | "Model"));
        facts.extend(agent.map(|(_, value)| escape::text(&short::start(value, 60)).into_owned()));
        facts.push((self.clock)(summary.created));
        facts.push(short::between(summary.created, summary.last));
        let _ = writeln!(out, "{}", facts.join(" · "));
        let _ = writeln!(out, "{}", self.paint(Look::Faint, &summary.counts().join(" · ")));
        if let Some((label, from)) = summary.fields.iter().find(|(name, _)| *name == "Forked") {
            let _ = writeln!(out, "{}", self.paint(Look::Faint, &format!("{label} {from}")));
        }
        if let Some(reason) = &summary.reason {
            self.paragraph(&mut out, "", &short::start(reason, 400), None);
        }
        for task in summary.tasks.iter().take(100) {
            let indent = "  ".repeat(task.depth.min(8) + 1);
            let look = if task.status.is_done() { Look::Good } else { Look::Strong };
            let (id, title) = (short::start(&task.task.0, 60), short::start(&task.title, 200));
            let status = self.paint(look, task_status(task.status));
            let _ =
                writeln!(out, "{indent}{} {}  {status}", escape::text(&id), escape::text(&title));
        }
        if summary.tasks.len() > 100 {
            let _ = writeln!(
                out,
                "  … {}",
                short::count((summary.tasks.len() - 100) as u64, "more task")
            );
        }
        out.push('\n');
        out
    }

    fn item(&mut self, item: &Item) -> String {
        let mut out = String::new();
        let mut blank_behind = false;
        match &item.what {
            What::TurnStarted { number, agent, role } => {
                let arbiter = if *role == TurnRole::Arbiter && agent != "arbiter" {
                    " (arbiter)"
                } else {
                    ""
                };
                let agent = escape::text(&short::start(agent, 80)).into_owned();
                self.heading(
                    &mut out,
                    item,
                    &format!("━━ Turn {number}: {agent}{arbiter}"),
                    Look::Turn,
                );
            }
            What::Decided { choice, reason } => {
                let reason = reason.as_ref().map(|why| format!(", {why}")).unwrap_or_default();
                self.line(&mut out, item, "Decided", &format!("{choice}{reason}"), Look::Strong);
            }
            What::TurnFinished { status, millis, usage: used, .. } => {
                let mut words =
                    vec![if status.is_empty() { "finished".to_owned() } else { status.clone() }];
                words.extend(millis.map(short::duration));
                words.extend(used.as_ref().map(usage));
                self.line(&mut out, item, "Turn", &words.join(", "), Look::Faint);
                blank_behind = true;
            }
            What::Message { role, parts } => {
                let look = if role == "user" { Look::Person } else { Look::Agent };
                let role = escape::text(&short::capital(&short::start(role, 60))).into_owned();
                self.heading(&mut out, item, &role, look);
                for part in parts {
                    match part {
                        Part::Text(text) => self.paragraph(&mut out, "  ", text, None),
                        Part::Thinking(text) => {
                            let text = format!("(thinking) {text}");
                            self.paragraph(&mut out, "  ", &text, Some(Look::Faint));
                        }
                        Part::Asked(call) => self.call(&mut out, call, None),
                        Part::Result { call, outcome } => {
                            let call = escape::text(&short::start(call, 80)).into_owned();
                            let _ = writeln!(
                                out,
                                "  {}",
                                self.paint(Look::Faint, &format!("result of {call}"))
                            );
                            self.outcome(&mut out, outcome);
                        }
                        Part::Other(json) => self.output(&mut out, json),
                    }
                }
                blank_behind = true;
            }
            What::Call(call) => self.call(&mut out, call, Some(item)),
            What::LateResult { call, outcome } => {
                let well = if matches!(outcome, Outcome::Ended { ok: true, .. }) {
                    "ok"
                } else {
                    "failed"
                };
                self.line(&mut out, item, &format!("Result of {call}"), well, Look::Faint);
                self.outcome(&mut out, outcome);
            }
            What::Status { status, reason, summary } => {
                let look = match status {
                    SessionStatus::Completed => Look::Good,
                    SessionStatus::Failed | SessionStatus::Interrupted => Look::Bad,
                    _ => Look::Strong,
                };
                self.heading(&mut out, item, &format!("Session {}", status.as_str()), look);
                for text in reason.iter().chain(summary) {
                    self.paragraph(&mut out, "  ", text, None);
                }
                blank_behind = true;
            }
            What::Task { task, change, text } => {
                let text = text.as_deref().unwrap_or_default();
                self.line(&mut out, item, &format!("Task {} {change}", task.0), text, Look::Strong);
            }
            What::File { op, path, to } => {
                let to = to.as_ref().map(|to| format!(" to {to}")).unwrap_or_default();
                self.line(
                    &mut out,
                    item,
                    &format!("File {}", done_to(*op)),
                    &format!("{path}{to}"),
                    Look::Faint,
                );
            }
            What::Note { label, text, weight } => {
                let look = if *weight == Weight::Minor { Look::Faint } else { Look::Strong };
                self.line(&mut out, item, label, text, look);
            }
        }
        // Headings get a blank line before them; other lines do not.
        let apart = matches!(
            item.what,
            What::TurnStarted { .. } | What::Message { .. } | What::Status { .. }
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
