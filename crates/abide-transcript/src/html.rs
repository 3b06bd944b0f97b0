//! Renders a session as one HTML page with no scripts and no external resources.
//!
//! All recorded text goes through [`html_escaped`]; markup is ours alone. In case that ever fails, the
//! page's content security policy forbids scripts and requests.

use std::fmt::Write;

use abide_model::{SessionId, Timestamp, TurnRole};

use crate::markdown::markdown_done_to;
use crate::note::usage_note;
use crate::rendering::{TimelineRenderer, clip_rendering};
use crate::session_overview::SessionOverview;
use crate::short;
use crate::timeline_builder::timeline_task_status;
use crate::timeline_entry::{
    CallOutcome, EntryBody, EntryPart, NoteWeight, TimelineCall, TimelineEntry,
};
use crate::visible;

/// The most bytes shown of a text.
const TEXT: usize = 256 << 10;
/// The output of a failed call starts expanded if it has at most this many lines.
const SHORT_LINES: usize = 12;

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
const STYLE: &str = include_str!("html.css");

/// Renders an HTML page.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct HtmlRenderer;

impl HtmlRenderer {
    /// Creates a renderer.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl TimelineRenderer for HtmlRenderer {
    fn begin(&mut self, summary: &SessionOverview) -> String {
        let mut out = String::new();
        let title = html_line(&summary.heading());
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n"
        );
        let id =
            summary.id.map(|id| format!(" {}", id.short(SessionId::SHORT))).unwrap_or_default();
        let status = summary.status.as_str();
        let _ = writeln!(out, "<p class=\"eyebrow\">Session{id}</p>\n<h1>{title}</h1>");
        let _ = writeln!(
            out,
            "<p><span class=\"badge {status}\">{status}</span> <span class=\"soft\">{}</span></p>",
            html_escaped(&summary.counts().join(" · "))
        );
        let mut rows: Vec<(&str, String)> = Vec::new();
        rows.extend(
            summary.reason.iter().map(|reason| ("Reason", short::short_start(reason, 400))),
        );
        rows.extend(summary.fields.iter().cloned());
        rows.push(("Created", format!("{} UTC", short::short_day_and_time(summary.created))));
        rows.push(("Duration", short::short_duration_between(summary.created, summary.last)));
        rows.extend(summary.id.map(|id| ("Id", id.to_string())));
        out.push_str("<dl>\n");
        for (name, value) in rows {
            let _ = writeln!(out, "<dt>{name}</dt><dd>{}</dd>", html_line(&value));
        }
        out.push_str("</dl>\n");
        if let Some(text) = &summary.summary {
            html_prose(&mut out, text);
        }
        out.push_str("</header>\n");
        html_turns(&mut out, summary);
        html_tasks(&mut out, summary);
        html_files(&mut out, summary);
        out.push_str("<main>\n<h2>What happened</h2>\n");
        out
    }

    fn item(&mut self, item: &TimelineEntry) -> String {
        let mut out = String::new();
        let rewound = if item.rewound { " rewound" } else { "" };
        let around = html_around(item);
        match &item.what {
            EntryBody::TurnStarted { number, agent, role } => {
                let arbiter = if *role == TurnRole::Arbiter && agent != "arbiter" {
                    " <span class=\"soft\">arbiter</span>"
                } else {
                    ""
                };
                let _ = writeln!(
                    out,
                    "<h2 class=\"turn{rewound}\" id=\"turn-{number}\"><span class=\"number\">Turn {number}</span> {}{arbiter}{around}{}</h2>",
                    html_line(agent),
                    html_time(item.at)
                );
            }
            EntryBody::Decided { choice, reason } => {
                let reason =
                    reason.as_deref().map(|why| format!(" because: {}", html_full_line(why)));
                let reason = reason.unwrap_or_default();
                let _ = writeln!(
                    out,
                    "<p class=\"note{rewound}\"><b>Decided: {}</b>{reason}</p>",
                    html_full_line(choice)
                );
            }
            EntryBody::TurnFinished { number, status, millis, usage: used } => {
                let turn = number.map(|number| format!("Turn {number} ")).unwrap_or_default();
                let mut words = vec![if status.is_empty() {
                    "finished".to_owned()
                } else {
                    html_full_line(status)
                }];
                words.extend(millis.map(short::duration));
                words.extend(used.as_ref().map(usage_note));
                let _ = writeln!(out, "<p class=\"note{rewound}\">{turn}{}</p>", words.join(" · "));
            }
            EntryBody::Message { role, parts } => {
                let user = if role == "user" { " user" } else { "" };
                let role = html_line(&short::short_capital(role));
                let _ = writeln!(
                    out,
                    "<article class=\"message{user}{rewound}\" id=\"event-{}\"><header><b>{role}</b>{around}{}</header>",
                    item.seq,
                    html_time(item.at)
                );
                for part in parts {
                    html_message_part(&mut out, part);
                }
                out.push_str("</article>\n");
            }
            EntryBody::Call(what) => html_call(&mut out, what, rewound, &around),
            EntryBody::LateResult { call, outcome } => {
                let (class, sign) = html_outcome_class(outcome);
                let head = format!(
                    "<span class=\"sign\">{sign}</span> result of <code>{}</code>{around}",
                    html_line(call)
                );
                html_folded(
                    &mut out,
                    &format!("call {class}{rewound}"),
                    &head,
                    &[html_result(outcome)],
                    false,
                );
            }
            EntryBody::Status { status, reason, summary } => {
                let status = status.as_str();
                let _ = writeln!(
                    out,
                    "<section class=\"status{rewound}\"><header><span class=\"badge {status}\">{status}</span> {}</header>",
                    html_time(item.at)
                );
                for text in reason.iter().chain(summary) {
                    html_prose(&mut out, text);
                }
                out.push_str("</section>\n");
            }
            EntryBody::Task { task, change, text } => {
                let text = text.as_deref().unwrap_or_default();
                let _ = writeln!(
                    out,
                    "<p class=\"note{rewound}\"><b>Task {} {change}</b> {}{around}</p>",
                    html_line(&task.0),
                    html_full_line(text)
                );
            }
            EntryBody::File { op, path, to } => {
                let to = to
                    .as_ref()
                    .map(|to| format!(" to <code>{}</code>", html_full_line(to)))
                    .unwrap_or_default();
                let _ = writeln!(
                    out,
                    "<p class=\"note{rewound}\">File <code>{}</code>{to} {}{around}</p>",
                    html_full_line(path),
                    markdown_done_to(*op)
                );
            }
            EntryBody::Note { label, text, weight } => {
                let minor = if *weight == NoteWeight::Minor { " minor" } else { "" };
                let head = format!("<b>{}</b>", html_line(label));
                if text.len() > 300 || text.trim_end().contains('\n') {
                    html_folded(
                        &mut out,
                        &format!("note{minor}{rewound}"),
                        &format!("{head}{around}"),
                        &[text],
                        false,
                    );
                } else {
                    let _ = writeln!(
                        out,
                        "<p class=\"note{minor}{rewound}\">{head} {}{around}</p>",
                        html_full_line(text)
                    );
                }
            }
        }
        out
    }

    fn end(&mut self) -> String {
        "</main>\n<footer>Times are in UTC. Recorded by abide.</footer>\n</body>\n</html>\n"
            .to_owned()
    }
}

fn html_turns(out: &mut String, summary: &SessionOverview) {
    if summary.turns.is_empty() {
        return;
    }
    out.push_str("<nav>\n<h2>Turns</h2>\n<table>\n<tr><th>#</th><th>Agent</th><th>Began</th><th>Status</th></tr>\n");
    for turn in &summary.turns {
        let number = turn.number;
        let status = match turn.status.as_deref() {
            None => "going on".to_owned(),
            Some("") => "finished".to_owned(),
            Some(status) => html_line(status),
        };
        let _ = writeln!(
            out,
            "<tr><td><a href=\"#turn-{number}\">{number}</a></td><td><a href=\"#turn-{number}\">{}</a></td><td>{}</td><td>{status}</td></tr>",
            html_line(&turn.agent),
            html_time(turn.started)
        );
    }
    out.push_str("</table>\n</nav>\n");
}

fn html_tasks(out: &mut String, summary: &SessionOverview) {
    if summary.tasks.is_empty() {
        return;
    }
    out.push_str("<section>\n<h2>Tasks</h2>\n<ul class=\"list\">\n");
    for task in &summary.tasks {
        let status = timeline_task_status(task.status);
        let class = match status {
            "complete" => "completed",
            "failed" | "blocked" => "failed",
            _ => "",
        };
        let _ = writeln!(
            out,
            "<li style=\"padding-left:{}em\"><code>{}</code> {} <span class=\"badge {class}\">{status}</span></li>",
            task.depth.min(12) * 2,
            html_line(&task.task.0),
            html_line(&task.title)
        );
    }
    out.push_str("</ul>\n</section>\n");
}

fn html_files(out: &mut String, summary: &SessionOverview) {
    if summary.files.is_empty() {
        return;
    }
    out.push_str("<section>\n<h2>Files modified</h2>\n<ul class=\"list\">\n");
    for (op, path) in &summary.files {
        let _ = writeln!(
            out,
            "<li><code>{}</code> <span class=\"soft\">{}</span></li>",
            html_line(path),
            markdown_done_to(*op)
        );
    }
    out.push_str("</ul>\n</section>\n");
}

fn html_message_part(out: &mut String, part: &EntryPart) {
    match part {
        EntryPart::Text(text) => html_prose(out, text),
        EntryPart::Thinking(text) => {
            let (text, more) = clip_rendering(text, TEXT);
            let _ = writeln!(
                out,
                "<p class=\"thinking\">{}{}</p>",
                html_escaped(text),
                html_left_out(more)
            );
        }
        EntryPart::Asked(what) => html_call(out, what, "", ""),
        EntryPart::Result { call, outcome } => {
            let (class, sign) = html_outcome_class(outcome);
            let head = format!(
                "<span class=\"sign\">{sign}</span> result of <code>{}</code>",
                html_line(call)
            );
            html_folded(out, &format!("call {class}"), &head, &[html_result(outcome)], false);
        }
        EntryPart::Other(json) => {
            html_folded(out, "note", "another sort of content", &[json], false)
        }
    }
}

fn html_call(out: &mut String, call: &TimelineCall, rewound: &str, around: &str) {
    let (class, sign) = html_outcome_class(&call.outcome);
    let mut head = format!("<span class=\"sign\">{sign}</span> <b>{}</b>", html_line(&call.name));
    if !call.target.is_empty() {
        let _ =
            write!(head, " <code>{}</code>", html_escaped(&short::short_start(&call.target, 300)));
    }
    let took = match &call.outcome {
        CallOutcome::Ended { millis: Some(millis), .. } if *millis >= short::WORTH_TELLING => {
            short::duration(*millis)
        }
        CallOutcome::Ended { .. } => String::new(),
        CallOutcome::Unknown => "outcome unknown".to_owned(),
    };
    let observed = if call.observed { " observed" } else { "" };
    let _ = write!(head, "<span class=\"took\">{took}{observed}</span>{around}");
    let given = html_result(&call.outcome);
    let failed = matches!(call.outcome, CallOutcome::Ended { ok: false, .. });
    let open = failed && given.lines().nth(SHORT_LINES).is_none();
    let texts = [call.arguments.as_deref().unwrap_or_default(), given];
    html_folded(out, &format!("call {class}{rewound}"), &head, &texts, open);
}

const fn html_outcome_class(outcome: &CallOutcome) -> (&'static str, &'static str) {
    match outcome {
        CallOutcome::Unknown => ("unknown", "?"),
        CallOutcome::Ended { ok: true, .. } => ("ok", "✓"),
        CallOutcome::Ended { ok: false, .. } => ("bad", "✗"),
    }
}

fn html_result(outcome: &CallOutcome) -> &str {
    match outcome {
        CallOutcome::Ended { text, .. } => text,
        CallOutcome::Unknown => "",
    }
}

/// A line that expands to texts, or a plain line if there are none. `head` is already markup.
fn html_folded(out: &mut String, class: &str, head: &str, texts: &[&str], open: bool) {
    let mut texts = texts.iter().filter(|text| !text.is_empty()).peekable();
    if texts.peek().is_none() {
        let _ = writeln!(out, "<p class=\"{class}\">{head}</p>");
        return;
    }
    let open = if open { " open" } else { "" };
    let _ = write!(out, "<details class=\"{class}\"{open}><summary>{head}</summary>");
    for text in texts {
        let (shown, more) = clip_rendering(text, TEXT);
        let _ = write!(
            out,
            "<pre>{}{}</pre>",
            html_escaped(shown.trim_end_matches('\n')),
            html_left_out(more)
        );
    }
    out.push_str("</details>\n");
}

fn html_left_out(bytes: usize) -> String {
    match bytes {
        0 => String::new(),
        bytes => format!("\n… {}", short::short_count(bytes as u64, "more byte")),
    }
}

/// Formats a message: code blocks and paragraphs, with inline code and bold text.
fn html_prose(out: &mut String, text: &str) {
    let (text, more) = clip_rendering(text, TEXT);
    out.push_str("<div class=\"prose\">");
    let mut fence: Option<&str> = None;
    let mut gathered: Vec<&str> = Vec::new();
    for line in text.split('\n') {
        let marks = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| marks.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => {
                html_paragraph(out, &gathered);
                gathered.clear();
                fence = Some(mark);
            }
            (Some(open), Some(mark)) if open == mark => {
                html_block(out, &gathered);
                gathered.clear();
                fence = None;
            }
            (None, _) if marks.is_empty() || is_html_heading(marks) => {
                html_paragraph(out, &gathered);
                gathered.clear();
                let heading = marks.trim_start_matches('#');
                if !heading.trim().is_empty() {
                    let _ = write!(out, "<p class=\"head\">{}</p>", html_escaped(heading.trim()));
                }
            }
            _ => gathered.push(line),
        }
    }
    if fence.is_some() {
        html_block(out, &gathered)
    } else {
        html_paragraph(out, &gathered)
    }
    let _ = writeln!(out, "{}</div>", html_left_out(more));
}

fn is_html_heading(line: &str) -> bool {
    let text = line.trim_start_matches('#');
    text.starts_with(' ') && (1..=6).contains(&(line.len() - text.len()))
}

fn html_block(out: &mut String, lines: &[&str]) {
    let _ = write!(out, "<pre><code>{}</code></pre>", html_escaped(&lines.join("\n")));
}

fn html_paragraph(out: &mut String, lines: &[&str]) {
    if lines.is_empty() {
        return;
    }
    out.push_str("<p>");
    for (at, line) in lines.iter().enumerate() {
        if at > 0 {
            out.push('\n');
        }
        // Text between backticks is code; an unmatched last backtick is literal.
        let parts: Vec<_> = line.split('`').collect();
        let last = parts.len() - 1;
        for (at, part) in parts.iter().enumerate() {
            if at % 2 == 1 && at < last {
                let _ = write!(out, "<code>{}</code>", html_escaped(part));
            } else {
                if at % 2 == 1 {
                    out.push('`');
                }
                html_strong(out, part);
            }
        }
    }
    out.push_str("</p>");
}

fn html_strong(out: &mut String, text: &str) {
    let parts: Vec<_> = text.split("**").collect();
    let last = parts.len() - 1;
    for (at, part) in parts.iter().enumerate() {
        if at % 2 == 1 && at < last {
            let _ = write!(out, "<strong>{}</strong>", html_escaped(part));
        } else {
            if at % 2 == 1 {
                out.push_str("**");
            }
            out.push_str(&html_escaped(part));
        }
    }
}

/// The lane and task of an entry.
fn html_around(item: &TimelineEntry) -> String {
    let mut out = String::new();
    if let Some(lane) = &item.lane {
        let _ = write!(out, " <span class=\"soft\">lane {}</span>", html_line(&lane.0));
    }
    if let Some(task) = &item.place.task
        && !matches!(item.what, EntryBody::Task { .. })
    {
        let _ = write!(out, " <span class=\"soft\">task {}</span>", html_line(&task.0));
    }
    out
}

fn html_time(at: Timestamp) -> String {
    let full = at.to_string();
    format!(" <time datetime=\"{full}\" title=\"{full}\">{}</time>", short::short_clock(at))
}

/// Escapes the start of a recorded text, on one line.
fn html_line(text: &str) -> String {
    html_escaped(&short::short_start(text, 200))
}

/// Escapes a whole recorded text, on one line.
fn html_full_line(text: &str) -> String {
    html_escaped(&short::short_start(text, 4000))
}

/// Escapes recorded text for an element or a double-quoted attribute.
pub(crate) fn html_escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        let mut shown = String::new();
        visible::write_visible(&mut shown, line);
        for c in shown.chars() {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&quot;"),
                '\'' => out.push_str("&#39;"),
                c => out.push(c),
            }
        }
    }
    out
}
