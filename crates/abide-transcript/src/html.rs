//! Renders a session as one HTML page with no scripts and no external resources.
//!
//! All recorded text goes through [`html_escaped`]; markup is ours alone. In case that ever fails, the
//! page's content security policy forbids scripts and requests.

use std::fmt;
use std::fmt::Write;

use abide_model::{SessionId, Timestamp, TurnRole};

use crate::call_view::{CallDiff, CallSign, CallView, CallViewBlock, DiffSign, TodoState};
use crate::highlight::language_of_path;
use crate::html_prose::{write_html_code, write_html_prose};
use crate::markdown::markdown_done_to;
use crate::note::usage_note;
use crate::prose_parser::parse_prose;
use crate::rendering::{
    TimelineRenderer, call_facts, clip_rendering, image_words, late_result_name,
};
use crate::session_overview::{FileChange, SessionOverview};
use crate::short;
use crate::timeline_builder::timeline_task_status;
use crate::timeline_entry::{
    CallField, EntryBody, EntryPart, TimelineCall, TimelineEntry, TimelineImage,
};
use crate::visible;

/// The most bytes shown of a text.
const TEXT: usize = 256 << 10;
/// A change, and the output of a failed call, start expanded if they have at most this many lines.
const SHORT_LINES: usize = 40;
/// The most prompts in the outline.
const PROMPTS: usize = 2000;
/// The most bytes of images in a page, in base64.
const IMAGES: usize = 32 << 20;

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
const STYLE: &str = include_str!("html.css");

/// Changes a recorded text before it is shown.
pub type TextFilter = Box<dyn Fn(&mut String)>;

/// Renders an HTML page.
#[derive(Default)]
#[non_exhaustive]
pub struct HtmlRenderer {
    filter: Option<TextFilter>,
    /// The prompts of a person so far: event and text.
    prompts: Vec<(u64, String)>,
    /// The lane whose section is open.
    lane: Option<String>,
    /// Who spoke last.
    speaker: Option<String>,
    /// The event whose anchor was written last.
    anchored: u64,
    /// The bytes of images so far.
    images: usize,
}

impl fmt::Debug for HtmlRenderer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Html").field("prompts", &self.prompts.len()).finish_non_exhaustive()
    }
}

impl HtmlRenderer {
    /// Creates a renderer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies a filter to every text of an entry.
    #[must_use]
    pub fn with_filter(mut self, filter: TextFilter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// What a call shows, filtered.
    fn view(&self, call: &TimelineCall) -> CallView {
        let mut view = CallView::of(call);
        if let Some(filter) = &self.filter {
            view.map_texts(filter);
        }
        view
    }

    /// The attribute that an event is linked by. Of the entries of one event the first has it.
    fn anchor(&mut self, item: &TimelineEntry) -> String {
        if std::mem::replace(&mut self.anchored, item.seq.0) == item.seq.0 {
            return String::new();
        }
        format!(" id=\"e{}\"", item.seq)
    }

    /// Closes and opens the section of a lane.
    fn enter_lane(&mut self, out: &mut String, item: &TimelineEntry) {
        let lane = item.lane.as_ref().map(|lane| lane.0.clone());
        if lane == self.lane {
            return;
        }
        if self.lane.is_some() {
            out.push_str("</section>\n");
        }
        if lane.is_some() {
            let title = item.lane_title.as_deref().unwrap_or_default();
            let _ = writeln!(out, "<section class=\"lane\"><h3>{}</h3>", html_line(title));
        }
        self.lane = lane;
        self.speaker = None;
    }

    fn message(&mut self, out: &mut String, item: &TimelineEntry, role: &str, parts: &[EntryPart]) {
        let anchor = self.anchor(item);
        let goes_on = self.speaker.as_deref() == Some(role) && role != "user";
        self.speaker = Some(role.to_owned());
        if role == "user" && item.lane.is_none() && self.prompts.len() < PROMPTS {
            let text = parts.iter().find_map(|part| match part {
                EntryPart::Text(text) => Some(short::short_start(text, 80)),
                _ => None,
            });
            self.prompts.extend(text.map(|text| (item.seq.0, text)));
        }
        let class = match role {
            "user" => " user",
            "system" | "developer" => " system",
            _ => "",
        };
        let rewound = if item.rewound { " rewound" } else { "" };
        let _ = write!(out, "<article class=\"message{class}{rewound}\"{anchor}>");
        if !goes_on {
            let name = html_line(&short::short_capital(role));
            let _ =
                write!(out, "<header><b>{name}</b>{}{}</header>", html_task(item), html_at(item));
        }
        let folded = class == " system";
        if folded {
            let text = parts.iter().find_map(|part| match part {
                EntryPart::Text(text) => Some(short::short_start(text, 100)),
                _ => None,
            });
            let text = text.unwrap_or_else(|| "Instructions".to_owned());
            let _ = write!(out, "<details><summary>{}</summary>", html_line(&text));
        }
        for part in parts {
            self.part(out, part);
        }
        out.push_str(if folded { "</details></article>\n" } else { "</article>\n" });
    }

    fn part(&mut self, out: &mut String, part: &EntryPart) {
        match part {
            EntryPart::Text(text) => html_text(out, text),
            EntryPart::Thinking(text) => {
                let start = html_line(&short::short_start(text, 100));
                let _ = write!(out, "<details class=\"thinking\"><summary>{start}</summary>");
                html_text(out, text);
                out.push_str("</details>\n");
            }
            EntryPart::Context(text) => {
                let start = html_line(&short::short_start(text, 100));
                let _ = write!(out, "<details class=\"context\"><summary>{start}</summary>");
                html_pre(out, text);
                out.push_str("</details>\n");
            }
            EntryPart::Image(image) => self.image(out, image),
            EntryPart::Attachment(name) => {
                let _ = writeln!(out, "<p class=\"note\">{}</p>", html_full_line(name));
            }
            EntryPart::Fields(fields) => html_fields(out, fields),
        }
    }

    /// Shows an image of a type that every browser shows and that cannot act; names any other.
    fn image(&mut self, out: &mut String, image: &TimelineImage) {
        let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
        let base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        let shown = known.contains(&image.media_type.as_str())
            && !image.base64.is_empty()
            && self.images + image.base64.len() <= IMAGES
            && image.base64.bytes().all(base64);
        let words = html_line(&image_words(image));
        if shown {
            self.images += image.base64.len();
            let (media_type, base64) = (&image.media_type, &image.base64);
            let _ =
                writeln!(out, "<img alt=\"{words}\" src=\"data:{media_type};base64,{base64}\">");
        } else {
            let _ = writeln!(out, "<p class=\"note\">{words}</p>");
        }
    }

    fn call(&mut self, out: &mut String, view: &CallView, item: &TimelineEntry) {
        let (class, sign) = match view.sign {
            CallSign::Unknown => ("unknown", "?"),
            CallSign::Good => ("ok", "✓"),
            CallSign::Bad => ("bad", "✗"),
        };
        let anchor = self.anchor(item);
        let rewound = if item.rewound { " rewound" } else { "" };
        let mut head =
            format!("<span class=\"sign\">{sign}</span> <b>{}</b>", html_line(&view.name));
        if !view.target.is_empty() {
            let target = html_escaped(&short::short_start(&view.target, 300));
            let _ = write!(head, " <code>{target}</code>");
        }
        let facts = call_facts(view);
        if !facts.is_empty() {
            let _ = write!(head, " <small>{}</small>", html_escaped(&facts.join(" · ")));
        }
        if view.blocks.is_empty() {
            let _ = writeln!(out, "<p class=\"call {class}{rewound}\"{anchor}>{head}</p>");
            return;
        }
        let short = |text: &str| text.lines().nth(SHORT_LINES).is_none();
        let open = view.blocks.iter().all(|block| match block {
            CallViewBlock::Diff(diff) => diff.lines.len() <= SHORT_LINES,
            CallViewBlock::Todo(_) | CallViewBlock::Image(_) => true,
            CallViewBlock::Prose(text) => short(text),
            CallViewBlock::Output(text) => view.sign == CallSign::Bad && short(text),
            CallViewBlock::Details(_) => true,
            CallViewBlock::Code { .. } | CallViewBlock::Fields(_) | CallViewBlock::Aside(_) => {
                false
            }
        });
        let open = if open { " open" } else { "" };
        let _ = write!(
            out,
            "<details class=\"call {class}{rewound}\"{anchor}{open}><summary>{head}</summary>"
        );
        for block in &view.blocks {
            self.block(out, block);
        }
        out.push_str("</details>\n");
    }

    fn block(&mut self, out: &mut String, block: &CallViewBlock) {
        match block {
            CallViewBlock::Code { language, text } => {
                let (text, more) = clip_rendering(text.trim_end_matches('\n'), TEXT);
                out.push_str("<pre>");
                write_html_code(out, language, text);
                let _ = write!(out, "{}</pre>", html_left_out(more));
            }
            CallViewBlock::Diff(diff) => html_diff(out, diff),
            CallViewBlock::Fields(fields) | CallViewBlock::Details(fields) => {
                html_fields(out, fields)
            }
            CallViewBlock::Todo(items) => {
                out.push_str("<ul class=\"todo\">");
                for item in items {
                    let class = match item.state {
                        TodoState::Open => "open",
                        TodoState::Active => "active",
                        TodoState::Done => "done",
                        TodoState::Dropped => "dropped",
                    };
                    let text = html_full_line(&item.text);
                    let _ = write!(out, "<li class=\"{class}\">{text}</li>");
                }
                out.push_str("</ul>\n");
            }
            CallViewBlock::Output(text) | CallViewBlock::Aside(text) => html_pre(out, text),
            CallViewBlock::Prose(text) => html_text(out, text),
            CallViewBlock::Image(image) => self.image(out, image),
        }
    }

    fn note(&mut self, out: &mut String, item: &TimelineEntry, head: &str, text: &str) {
        let rewound = if item.rewound { " rewound" } else { "" };
        let anchor = self.anchor(item);
        if text.len() > 300 || text.trim_end().contains('\n') {
            let _ =
                write!(out, "<details class=\"note{rewound}\"{anchor}><summary>{head}</summary>");
            html_pre(out, text);
            out.push_str("</details>\n");
        } else {
            let space = if text.is_empty() { "" } else { " " };
            let text = html_full_line(text);
            let _ = writeln!(out, "<p class=\"note{rewound}\"{anchor}>{head}{space}{text}</p>");
        }
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
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <input type=\"checkbox\" id=\"no-tools\"><input type=\"checkbox\" id=\"no-thinking\">\n\
             <header>\n"
        );
        let status = summary.status.as_str();
        let _ = writeln!(
            out,
            "<h1>{title}</h1>\n<p class=\"figures\"><span class=\"badge {status}\">{status}</span> {}</p>",
            html_escaped(&summary.figures().join(" · "))
        );
        if let Some(reason) = &summary.reason {
            let _ = writeln!(out, "<p>{}</p>", html_full_line(reason));
        }
        if let Some(text) = &summary.summary {
            html_text(&mut out, text);
        }
        let mut rows: Vec<(&str, String)> = summary.fields.clone();
        rows.push(("Created", format!("{} UTC", short::short_day_and_time(summary.created))));
        rows.extend(
            summary.id.map(|id| ("Session", format!("{} ({id})", id.short(SessionId::SHORT)))),
        );
        out.push_str("<dl>\n");
        for (name, value) in rows {
            let _ = writeln!(out, "<dt>{name}</dt><dd>{}</dd>", html_line(&value));
        }
        out.push_str(
            "</dl>\n<p class=\"switches\"><label for=\"no-tools\"></label><label for=\"no-thinking\"></label></p>\n</header>\n<main>\n",
        );
        html_tasks(&mut out, summary);
        html_files(&mut out, summary);
        out
    }

    fn item(&mut self, item: &TimelineEntry) -> String {
        let mut out = String::new();
        if item.is_minor() {
            return out;
        }
        let mut filtered = None;
        if let Some(filter) = &self.filter {
            filtered.insert(item.clone()).map_texts(filter);
        }
        let item = filtered.as_ref().unwrap_or(item);
        self.enter_lane(&mut out, item);
        let rewound = if item.rewound { " rewound" } else { "" };
        match &item.what {
            EntryBody::TurnStarted { number, agent, role } => {
                self.speaker = None;
                let arbiter = if *role == TurnRole::Arbiter && agent != "arbiter" {
                    " <small>arbiter</small>"
                } else {
                    ""
                };
                let anchor = self.anchor(item);
                let agent = html_line(agent);
                let _ = writeln!(
                    out,
                    "<h2 class=\"turn{rewound}\"{anchor}><small>Turn {number}</small> {agent}{arbiter}{}{}</h2>",
                    html_task(item),
                    html_at(item)
                );
            }
            EntryBody::Decided { choice, reason } => {
                let reason = reason.as_deref().map(|why| format!("because: {why}"));
                let head = format!("<b>Decided: {}</b>", html_full_line(choice));
                self.note(&mut out, item, &head, &reason.unwrap_or_default());
            }
            EntryBody::TurnFinished { number, status, millis, usage: used } => {
                self.speaker = None;
                let turn = number.map(|number| format!("Turn {number} ")).unwrap_or_default();
                let mut words =
                    vec![if status.is_empty() { "finished".to_owned() } else { status.clone() }];
                words.extend(millis.map(short::duration));
                words.extend(used.as_ref().map(usage_note));
                let head = html_full_line(&format!("{turn}{}", words.join(" · ")));
                self.note(&mut out, item, &head, "");
            }
            EntryBody::Message { role, parts } => self.message(&mut out, item, role, parts),
            EntryBody::Call(call) => {
                let view = self.view(call);
                self.call(&mut out, &view, item);
            }
            EntryBody::LateResult(call) => {
                let mut view = self.view(call);
                view.name = late_result_name(call);
                self.call(&mut out, &view, item);
            }
            EntryBody::Status { status, reason, summary } => {
                self.speaker = None;
                let anchor = self.anchor(item);
                let status = status.as_str();
                let _ = writeln!(
                    out,
                    "<section class=\"status{rewound}\"{anchor}><header><span class=\"badge {status}\">{status}</span>{}</header>",
                    html_at(item)
                );
                for text in reason.iter().chain(summary) {
                    html_text(&mut out, text);
                }
                out.push_str("</section>\n");
            }
            EntryBody::Task { task, change, text, .. } => {
                let head = format!("<b>Task {} {change}</b>", html_line(&task.0));
                self.note(&mut out, item, &head, text.as_deref().unwrap_or_default());
            }
            EntryBody::File { op, path, to, .. } => {
                let to = to
                    .as_ref()
                    .map(|to| format!(" to <code>{}</code>", html_full_line(to)))
                    .unwrap_or_default();
                let path = html_full_line(path);
                let head = format!("<code>{path}</code>{to} {}", markdown_done_to(*op));
                self.note(&mut out, item, &head, "");
            }
            EntryBody::Note { label, text, .. } => {
                let head = format!("<b>{}</b>", html_line(label));
                self.note(&mut out, item, &head, text);
            }
        }
        out
    }

    fn end(&mut self) -> String {
        let mut out = String::new();
        if self.lane.take().is_some() {
            out.push_str("</section>\n");
        }
        out.push_str("</main>\n");
        if self.prompts.len() > 1 {
            out.push_str("<nav><b>Prompts</b><ol>\n");
            for (seq, text) in &self.prompts {
                let _ = writeln!(out, "<li><a href=\"#e{seq}\">{}</a></li>", html_line(text));
            }
            out.push_str("</ol></nav>\n");
        }
        out.push_str("<footer>Times are in UTC. Recorded by abide.</footer>\n</body>\n</html>\n");
        out
    }
}

fn html_tasks(out: &mut String, summary: &SessionOverview) {
    if summary.tasks.is_empty() {
        return;
    }
    out.push_str("<details class=\"listing\" open><summary>Tasks</summary>\n<ul>\n");
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
    out.push_str("</ul>\n</details>\n");
}

/// The files that the session changed: with their diffs where checkpoints have them.
fn html_files(out: &mut String, summary: &SessionOverview) {
    if !summary.changes.is_empty() {
        out.push_str("<section class=\"listing\"><h2>Files changed</h2>\n");
        for FileChange { path, added, removed, diff } in &summary.changes {
            let head = format!(
                "<code>{}</code> <small><ins>+{added}</ins> <del>−{removed}</del></small>",
                html_full_line(path)
            );
            if diff.is_empty() {
                let _ = writeln!(out, "<p>{head}</p>");
                continue;
            }
            let _ = write!(out, "<details class=\"change\"><summary>{head}</summary>");
            for part in CallDiff::of_patch(diff) {
                html_diff(out, &part);
            }
            out.push_str("</details>\n");
        }
        out.push_str("</section>\n");
    } else if !summary.files.is_empty() {
        out.push_str("<details class=\"listing\"><summary>Files changed</summary>\n<ul>\n");
        for (op, path) in &summary.files {
            let _ = writeln!(
                out,
                "<li><code>{}</code> <small>{}</small></li>",
                html_line(path),
                markdown_done_to(*op)
            );
        }
        out.push_str("</ul>\n</details>\n");
    }
}

/// A change, line by line, its code highlighted.
fn html_diff(out: &mut String, diff: &CallDiff) {
    let language = language_of_path(&diff.path);
    out.push_str("<pre class=\"diff\">");
    let mut shown = 0;
    for (at, line) in diff.lines.iter().enumerate() {
        shown += line.text.len() + 1;
        if shown > TEXT {
            let more = u64::try_from(diff.lines.len() - at).unwrap_or(u64::MAX);
            let _ = write!(
                out,
                "<span class=\"gap\">… {}</span>",
                short::short_count(more, "more line")
            );
            break;
        }
        let tag = match line.sign {
            DiffSign::Same => {
                out.push_str("  ");
                write_html_code(out, language, &line.text);
                out.push('\n');
                continue;
            }
            DiffSign::Gap => {
                let text = html_full_line(&line.text);
                let _ = write!(out, "<span class=\"gap\">… {text}\n</span>");
                continue;
            }
            DiffSign::Added => "ins",
            DiffSign::Removed => "del",
        };
        let _ = write!(out, "<{tag}>{} ", line.sign.mark());
        write_html_code(out, language, &line.text);
        let _ = write!(out, "\n</{tag}>");
    }
    out.push_str("</pre>\n");
}

fn html_fields(out: &mut String, fields: &[CallField]) {
    out.push_str("<dl class=\"fields\">");
    for CallField { name, value } in fields {
        let _ = write!(out, "<dt>{}</dt><dd>", html_line(name));
        if value.contains('\n') || value.len() > 300 {
            html_pre(out, value);
        } else {
            out.push_str(&html_escaped(value));
        }
        out.push_str("</dd>");
    }
    out.push_str("</dl>\n");
}

fn html_pre(out: &mut String, text: &str) {
    let (shown, more) = clip_rendering(text, TEXT);
    let shown = html_escaped(shown.trim_end_matches('\n'));
    let _ = write!(out, "<pre>{shown}{}</pre>", html_left_out(more));
}

/// A recorded text as Markdown.
fn html_text(out: &mut String, text: &str) {
    let (shown, more) = clip_rendering(text, TEXT);
    out.push_str("<div class=\"prose\">");
    write_html_prose(out, &parse_prose(shown));
    let _ = writeln!(out, "{}</div>", html_left_out(more));
}

fn html_left_out(bytes: usize) -> String {
    match bytes {
        0 => String::new(),
        bytes => format!("\n… {}", short::short_count(bytes as u64, "more byte")),
    }
}

fn html_task(item: &TimelineEntry) -> String {
    item.place
        .task
        .as_ref()
        .map(|task| format!(" <small>task {}</small>", html_line(&task.0)))
        .unwrap_or_default()
}

/// The time of an entry, which links to it.
fn html_at(item: &TimelineEntry) -> String {
    let full: String = Timestamp::to_string(&item.at);
    format!(
        " <a class=\"at\" href=\"#e{0}\" title=\"{full} @{0}\">{1}</a>",
        item.seq,
        short::short_clock(item.at)
    )
}

/// Escapes the start of a recorded text, on one line.
pub(crate) fn html_line(text: &str) -> String {
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
