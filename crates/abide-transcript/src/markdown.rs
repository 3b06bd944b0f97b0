//! Renders a session as GitHub-flavoured Markdown.
//!
//! Messages are mostly Markdown and stay readable as such, but nothing in them is active: no raw
//! HTML, no images, no links except to plain addresses, and no headings that could be mistaken for
//! ours. All other recorded text is shown as code.

use std::fmt::Write;

use abide_model::{FileOp, SessionId, TurnRole};

use crate::call_view::{CallSign, CallView, CallViewBlock, TodoState};
use crate::note::usage_note;
use crate::rendering::{
    TimelineRenderer, call_facts, clip_rendering, diff_text, image_words, late_result_name,
};
use crate::safe_markdown::safe_markdown;
use crate::session_overview::SessionOverview;
use crate::short;
use crate::timeline_builder::timeline_task_status;
use crate::timeline_entry::{CallField, EntryBody, EntryPart, TimelineEntry};
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
        let _ = writeln!(out, "# {}\n", markdown_inline(&summary.heading()));
        let mut rows = Vec::new();
        if let Some(id) = summary.id {
            rows.push(("Session", format!("{id} ({})", id.short(SessionId::SHORT))));
        }
        rows.push(("Status", summary.status.as_str().to_owned()));
        rows.extend(
            summary.reason.iter().map(|reason| ("Reason", short::short_start(reason, 400))),
        );
        rows.extend(summary.fields.iter().cloned());
        rows.push(("Created", format!("{} UTC", short::short_day_and_time(summary.created))));
        rows.push(("Duration", short::short_duration_between(summary.created, summary.last)));
        rows.push(("Extent", summary.counts().join(", ")));
        let _ = writeln!(out, "| | |\n| --- | --- |");
        for (name, value) in rows {
            let _ = writeln!(out, "| {name} | {} |", markdown_inline(&value));
        }
        if let Some(text) = &summary.summary {
            let _ = writeln!(out, "\n{}", safe_markdown(text));
        }
        if !summary.tasks.is_empty() {
            let _ = writeln!(out, "\n## Tasks\n");
            for task in &summary.tasks {
                let done = if task.status.is_done() { 'x' } else { ' ' };
                let indent = "  ".repeat(task.depth.min(8));
                let (id, title) = (markdown_inline(&task.task.0), markdown_inline(&task.title));
                let status = timeline_task_status(task.status);
                let _ = writeln!(out, "{indent}- [{done}] {id} {title} ({status})");
            }
        }
        if !summary.files.is_empty() {
            let _ = writeln!(out, "\n## Files modified\n");
            for (op, path) in &summary.files {
                let _ = writeln!(out, "- {} {}", markdown_code(path), markdown_done_to(*op));
            }
        }
        let _ = writeln!(out, "\n## What happened");
        out
    }

    fn item(&mut self, item: &TimelineEntry) -> String {
        let mut out = String::new();
        let rewound = if item.rewound { " (taken back by a rewind)" } else { "" };
        if item.is_minor() {
            return out;
        }
        let lane = item.lane.as_ref().map(|lane| lane.0.clone());
        if lane != self.lane {
            let _ = match &item.lane_title {
                Some(lane) => writeln!(out, "\n*Lane {}*", markdown_inline(lane)),
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
                let _ = writeln!(
                    out,
                    "\n### Turn {number}: {}{arbiter}{rewound}",
                    markdown_inline(agent)
                );
            }
            EntryBody::Decided { choice, reason } => {
                let why = reason
                    .as_ref()
                    .map(|why| format!(": {}", markdown_inline(why)))
                    .unwrap_or_default();
                let _ = writeln!(out, "\n**Decided** {}{why}{rewound}", markdown_inline(choice));
            }
            EntryBody::TurnFinished { number, status, millis, usage: used } => {
                let turn = number.map(|number| format!("Turn {number} ")).unwrap_or_default();
                let mut words = vec![if status.is_empty() {
                    "finished".to_owned()
                } else {
                    markdown_inline(status)
                }];
                words.extend(millis.map(short::duration));
                words.extend(used.as_ref().map(usage_note));
                let _ = writeln!(out, "\n*{turn}{}{rewound}*", words.join(", "));
            }
            EntryBody::Message { role, parts } => {
                let _ = writeln!(
                    out,
                    "\n**{}**{rewound}",
                    markdown_inline(&short::short_capital(role))
                );
                for part in parts {
                    markdown_message_part(&mut out, part);
                }
            }
            EntryBody::Call(call) => {
                let view = CallView::of(call);
                let _ = writeln!(out, "\n{}{rewound}", markdown_call_line(&view));
                markdown_call_blocks(&mut out, &view.blocks);
            }
            EntryBody::LateResult(call) => {
                let mut view = CallView::of(call);
                view.name = late_result_name(call);
                let _ = writeln!(out, "\n{}{rewound}", markdown_call_line(&view));
                markdown_call_blocks(&mut out, &view.blocks);
            }
            EntryBody::Status { status, reason, summary } => {
                let why = reason
                    .as_ref()
                    .map(|why| format!(": {}", markdown_inline(why)))
                    .unwrap_or_default();
                let _ = writeln!(out, "\n**Session {}**{why}{rewound}", status.as_str());
                if let Some(summary) = summary {
                    let _ = writeln!(out, "\n{}", safe_markdown(summary));
                }
            }
            EntryBody::Task { task, change, text, .. } => {
                let text = text.as_ref().filter(|text| !text.is_empty());
                let text =
                    text.map(|text| format!(": {}", markdown_inline(text))).unwrap_or_default();
                let _ = writeln!(out, "\nTask {} {change}{text}{rewound}", markdown_code(&task.0));
            }
            EntryBody::File { op, path, to, .. } => {
                let to =
                    to.as_ref().map(|to| format!(" to {}", markdown_code(to))).unwrap_or_default();
                let _ = writeln!(
                    out,
                    "\nFile {} {}{to}{rewound}",
                    markdown_code(path),
                    markdown_done_to(*op)
                );
            }
            EntryBody::Note { label, text, .. } => {
                let label = markdown_inline(label);
                if text.len() > 200 || text.contains('\n') {
                    let _ = writeln!(out, "\n{label}{rewound}");
                    markdown_fenced(&mut out, "text", text);
                } else {
                    let _ = writeln!(out, "\n{label}: {}{rewound}", markdown_inline(text));
                }
            }
        }
        out
    }

    fn end(&mut self) -> String {
        String::new()
    }
}

fn markdown_message_part(out: &mut String, part: &EntryPart) {
    match part {
        EntryPart::Text(text) => {
            let _ = writeln!(out, "\n{}", safe_markdown(text));
        }
        EntryPart::Thinking(text) => {
            let _ = writeln!(out, "\n*Thinking*");
            markdown_fenced(out, "text", text);
        }
        EntryPart::Context(text) => {
            let _ = writeln!(out, "\n*Context*");
            markdown_fenced(out, "text", text);
        }
        EntryPart::Image(image) => {
            let _ = writeln!(out, "\n*{}*", markdown_inline(&image_words(image)));
        }
        EntryPart::Attachment(name) => {
            let _ = writeln!(out, "\n*{}*", markdown_inline(name));
        }
        EntryPart::Fields(fields) => markdown_fields(out, fields),
    }
}

fn markdown_call_line(view: &CallView) -> String {
    let target = short::short_start(&view.target, 200);
    let target =
        if target.is_empty() { String::new() } else { format!(" {}", markdown_code(&target)) };
    let facts = call_facts(view);
    let facts = match facts.is_empty() {
        true => String::new(),
        false => format!(" ({})", markdown_inline(&facts.join(", "))),
    };
    let sign = match view.sign {
        CallSign::Unknown => "◌",
        CallSign::Good => "✓",
        CallSign::Bad => "✗",
    };
    format!("{sign} **{}**{target}{facts}", markdown_inline(&view.name))
}

fn markdown_call_blocks(out: &mut String, blocks: &[CallViewBlock]) {
    for block in blocks {
        match block {
            CallViewBlock::Code { language, text } => markdown_fenced(out, language, text),
            CallViewBlock::Diff(diff) => markdown_fenced(out, "diff", &diff_text(diff)),
            CallViewBlock::Fields(fields) => markdown_fields(out, fields),
            CallViewBlock::Todo(items) => {
                out.push('\n');
                for item in items {
                    let mark = if item.state == TodoState::Done { 'x' } else { ' ' };
                    let text = markdown_inline(&item.text);
                    let text = match item.state {
                        TodoState::Active => format!("**{text}**"),
                        TodoState::Dropped => format!("~~{text}~~"),
                        TodoState::Open | TodoState::Done => text,
                    };
                    let _ = writeln!(out, "- [{mark}] {text}");
                }
            }
            CallViewBlock::Output(text) => markdown_fenced(out, "text", text),
            CallViewBlock::Aside(_) | CallViewBlock::Details(_) => {}
            CallViewBlock::Prose(text) => {
                let _ = writeln!(out, "\n{}", safe_markdown(text));
            }
            CallViewBlock::Image(image) => {
                let _ = writeln!(out, "\n*{}*", markdown_inline(&image_words(image)));
            }
        }
    }
}

fn markdown_fields(out: &mut String, fields: &[CallField]) {
    out.push('\n');
    for CallField { name, value } in fields {
        let name =
            if name.is_empty() { String::new() } else { format!("{}: ", markdown_inline(name)) };
        if value.contains('\n') || value.len() > 200 {
            let _ = writeln!(out, "- {}", name.trim_end());
            markdown_fenced(out, "text", value);
        } else {
            let _ = writeln!(out, "- {name}{}", markdown_code(value));
        }
    }
}

pub(crate) const fn markdown_done_to(op: FileOp) -> &'static str {
    match op {
        FileOp::Read => "read",
        FileOp::Write => "written",
        FileOp::Delete => "deleted",
        FileOp::Rename => "renamed",
    }
}

/// Writes a code block that nothing in the text can close.
fn markdown_fenced(out: &mut String, language: &str, text: &str) {
    let (text, left_out) = clip_rendering(text, OUTPUT);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    let plain = language.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let language = if plain && !language.is_empty() { language } else { "text" };
    let _ = writeln!(out, "\n{fence}{language}");
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        visible::write_visible(out, line);
        out.push('\n');
    }
    let _ = writeln!(out, "{fence}");
    if left_out > 0 {
        let _ = writeln!(out, "\n*{} not shown*", short::short_count(left_out as u64, "byte"));
    }
}

/// A code span on one line.
fn markdown_code(text: &str) -> String {
    let text = short::short_visible_start(text, 400);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let ticks = "`".repeat(longest + 1);
    let space = if longest > 0 || text.is_empty() { " " } else { "" };
    format!("{ticks}{space}{text}{space}{ticks}")
}

/// Text on one line, with all Markdown escaped.
fn markdown_inline(text: &str) -> String {
    let mut out = String::new();
    for c in short::short_visible_start(text, 400).chars() {
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
        markdown_fenced(&mut out, "", "a\n````\nb\u{1b}\n");
        assert_eq!(out, "\n`````text\na\n````\nb\\u{1b}\n`````\n");
        assert_eq!(markdown_code("a`b"), "`` a`b ``");
    }
}
