//! Renders a session as GitHub-flavoured Markdown.
//!
//! Messages are mostly Markdown and stay readable as such, but nothing in them is active: no raw
//! HTML, no images, no links except to plain addresses, and no headings that could be mistaken for
//! ours. All other recorded text is shown as code.

use std::fmt::Write;

use abide_model::{FileOp, SessionId, TurnRole};

use crate::item::{CallOutcome, EntryBody, EntryPart, NoteWeight, TimelineCall, TimelineEntry};
use crate::note::usage;
use crate::rendering::{TimelineRenderer, clip};
use crate::said::said;
use crate::short;
use crate::story::task_status;
use crate::summary::SessionOverview;
use crate::visible;

/// The most bytes shown of a tool's output.
const OUTPUT: usize = 64 << 10;

/// Renders Markdown.
#[derive(Debug, Default)]
pub struct MarkdownRenderer {
    lane: Option<String>,
}

impl MarkdownRenderer {
    /// Creates a renderer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl TimelineRenderer for MarkdownRenderer {
    fn begin(&mut self, summary: &SessionOverview) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(out, "# {}\n", inline(&summary.heading()));
        let mut rows = Vec::new();
        if let Some(id) = summary.id {
            rows.push(("Session", format!("{id} ({})", id.short(SessionId::SHORT))));
        }
        rows.push(("Status", summary.status.as_str().to_owned()));
        rows.extend(summary.reason.iter().map(|reason| ("Reason", short::start(reason, 400))));
        rows.extend(summary.fields.iter().cloned());
        rows.push(("Created", format!("{} UTC", short::day_and_time(summary.created))));
        rows.push(("Duration", short::between(summary.created, summary.last)));
        rows.push(("Extent", summary.counts().join(", ")));
        let _ = writeln!(out, "| | |\n| --- | --- |");
        for (name, value) in rows {
            let _ = writeln!(out, "| {name} | {} |", inline(&value));
        }
        if let Some(text) = &summary.summary {
            let _ = writeln!(out, "\n{}", said(text));
        }
        if !summary.tasks.is_empty() {
            let _ = writeln!(out, "\n## Tasks\n");
            for task in &summary.tasks {
                let done = if task.status.is_done() { 'x' } else { ' ' };
                let indent = "  ".repeat(task.depth.min(8));
                let (id, title) = (inline(&task.task.0), inline(&task.title));
                let status = task_status(task.status);
                let _ = writeln!(out, "{indent}- [{done}] {id} {title} ({status})");
            }
        }
        if !summary.files.is_empty() {
            let _ = writeln!(out, "\n## Files modified\n");
            for (op, path) in &summary.files {
                let _ = writeln!(out, "- {} {}", code(path), done_to(*op));
            }
        }
        let _ = writeln!(out, "\n## What happened");
        out
    }

    fn item(&mut self, item: &TimelineEntry) -> String {
        let mut out = String::new();
        let rewound = if item.rewound { " (taken back by a rewind)" } else { "" };
        let lane = item.lane.as_ref().map(|lane| lane.0.clone());
        if lane != self.lane {
            let _ = match &lane {
                Some(lane) => writeln!(out, "\n*Lane {}*", inline(lane)),
                None => writeln!(out, "\n*Main lane*"),
            };
            self.lane = lane;
        }
        match &item.what {
            EntryBody::TurnStarted { number, agent, role } => {
                let arbiter = if *role == TurnRole::Arbiter && agent != "arbiter" {
                    " (arbiter)"
                } else {
                    ""
                };
                let _ = writeln!(out, "\n### Turn {number}: {}{arbiter}{rewound}", inline(agent));
            }
            EntryBody::Decided { choice, reason } => {
                let why =
                    reason.as_ref().map(|why| format!(": {}", inline(why))).unwrap_or_default();
                let _ = writeln!(out, "\n**Decided** {}{why}{rewound}", inline(choice));
            }
            EntryBody::TurnFinished { number, status, millis, usage: used } => {
                let turn = number.map(|number| format!("Turn {number} ")).unwrap_or_default();
                let mut words =
                    vec![if status.is_empty() { "finished".to_owned() } else { inline(status) }];
                words.extend(millis.map(short::duration));
                words.extend(used.as_ref().map(usage));
                let _ = writeln!(out, "\n*{turn}{}{rewound}*", words.join(", "));
            }
            EntryBody::Message { role, parts } => {
                let _ = writeln!(out, "\n**{}**{rewound}", inline(&short::capital(role)));
                for part in parts {
                    message_part(&mut out, part);
                }
            }
            EntryBody::Call(call) => {
                let _ = writeln!(out, "\n{}{rewound}", call_line(call));
                call_body(&mut out, call);
            }
            EntryBody::LateResult { call, outcome } => {
                let _ = writeln!(out, "\n{} result of {}{rewound}", sign(outcome), code(call));
                output(&mut out, outcome);
            }
            EntryBody::Status { status, reason, summary } => {
                let why =
                    reason.as_ref().map(|why| format!(": {}", inline(why))).unwrap_or_default();
                let _ = writeln!(out, "\n**Session {}**{why}{rewound}", status.as_str());
                if let Some(summary) = summary {
                    let _ = writeln!(out, "\n{}", said(summary));
                }
            }
            EntryBody::Task { task, change, text } => {
                let text = text.as_ref().filter(|text| !text.is_empty());
                let text = text.map(|text| format!(": {}", inline(text))).unwrap_or_default();
                let _ = writeln!(out, "\nTask {} {change}{text}{rewound}", code(&task.0));
            }
            EntryBody::File { op, path, to } => {
                let to = to.as_ref().map(|to| format!(" to {}", code(to))).unwrap_or_default();
                let _ = writeln!(out, "\nFile {} {}{to}{rewound}", code(path), done_to(*op));
            }
            EntryBody::Note { weight: NoteWeight::Minor, .. } => {}
            EntryBody::Note { label, text, .. } => {
                let label = inline(label);
                if text.len() > 200 || text.contains('\n') {
                    let _ = writeln!(out, "\n{label}{rewound}");
                    fenced(&mut out, text);
                } else {
                    let _ = writeln!(out, "\n{label}: {}{rewound}", inline(text));
                }
            }
        }
        out
    }

    fn end(&mut self) -> String {
        String::new()
    }
}

fn message_part(out: &mut String, part: &EntryPart) {
    match part {
        EntryPart::Text(text) => {
            let _ = writeln!(out, "\n{}", said(text));
        }
        EntryPart::Thinking(text) => {
            let _ = writeln!(out, "\n*Thinking*");
            fenced(out, text);
        }
        EntryPart::Asked(call) => {
            let _ = writeln!(out, "\n{}", call_line(call));
            call_body(out, call);
        }
        EntryPart::Result { call, outcome } => {
            let _ = writeln!(out, "\n{} result of {}", sign(outcome), code(call));
            output(out, outcome);
        }
        EntryPart::Other(json) => fenced(out, json),
    }
}

fn call_line(call: &TimelineCall) -> String {
    let target = short::start(&call.target, 200);
    let target = if target.is_empty() { String::new() } else { format!(" {}", code(&target)) };
    let took = match &call.outcome {
        CallOutcome::Ended { millis: Some(millis), .. } if *millis >= short::WORTH_TELLING => {
            format!(" ({})", short::duration(*millis))
        }
        CallOutcome::Ended { .. } => String::new(),
        CallOutcome::Unknown => " (outcome unknown)".to_owned(),
    };
    let observed = if call.observed { ", observed" } else { "" };
    format!("{} **{}**{target}{took}{observed}", sign(&call.outcome), inline(&call.name))
}

fn call_body(out: &mut String, call: &TimelineCall) {
    if let Some(arguments) = &call.arguments {
        fenced(out, arguments);
    }
    output(out, &call.outcome);
}

fn output(out: &mut String, outcome: &CallOutcome) {
    if let CallOutcome::Ended { text, .. } = outcome
        && !text.is_empty()
    {
        fenced(out, text);
    }
}

const fn sign(outcome: &CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Unknown => "◌",
        CallOutcome::Ended { ok: true, .. } => "✓",
        CallOutcome::Ended { ok: false, .. } => "✗",
    }
}

pub(crate) const fn done_to(op: FileOp) -> &'static str {
    match op {
        FileOp::Read => "read",
        FileOp::Write => "written",
        FileOp::Delete => "deleted",
        FileOp::Rename => "renamed",
    }
}

/// Writes a code block that nothing in the text can close.
fn fenced(out: &mut String, text: &str) {
    let (text, left_out) = clip(text, OUTPUT);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    let _ = writeln!(out, "\n{fence}text");
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        visible::write(out, line);
        out.push('\n');
    }
    let _ = writeln!(out, "{fence}");
    if left_out > 0 {
        let _ = writeln!(out, "\n*{} not shown*", short::count(left_out as u64, "byte"));
    }
}

/// A code span on one line.
fn code(text: &str) -> String {
    let text = short::visible_start(text, 400);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let ticks = "`".repeat(longest + 1);
    let space = if longest > 0 || text.is_empty() { " " } else { "" };
    format!("{ticks}{space}{text}{space}{ticks}")
}

/// Text on one line, with all Markdown escaped.
fn inline(text: &str) -> String {
    let mut out = String::new();
    for c in short::visible_start(text, 400).chars() {
        if "\\`*_{}[]<>#+!|~&".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_code_ends_it() {
        let mut out = String::new();
        fenced(&mut out, "a\n````\nb\u{1b}\n");
        assert_eq!(out, "\n`````text\na\n````\nb\\u{1b}\n`````\n");
        assert_eq!(code("a`b"), "`` a`b ``");
    }
}
