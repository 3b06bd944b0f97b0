//! What a tool call shows, the same in every renderer: shell commands, edits, reads, searches, to-do
//! lists, the web, other agents; any other tool as names and values.
//!
//! A tool is recognized by its arguments first and by its name second, since agents give the same
//! tool different names. Nothing here is escaped.

mod arguments;
mod diff;
mod edit;
mod shell;
mod todo;

use abide_model::message::COMMAND_ARGUMENTS;
use std::borrow::Cow;

use self::arguments::CallArguments;
pub(crate) use self::diff::{CallDiff, DiffSign};
pub(crate) use self::todo::{TodoItem, TodoState};
use crate::short::{short_count, short_start};
use crate::tidy::{tidy_fields, tidy_text};
use crate::timeline_entry::{CallField, CallOutcome, CallOutput, TimelineCall, TimelineImage};

/// What a call shows.
#[derive(Debug, Default)]
pub(crate) struct CallView {
    /// The tool's name.
    pub(crate) name: String,
    /// Its command, path, pattern or address, on one line; empty if it has none.
    pub(crate) target: String,
    /// What else there is to know, in a few words each: `exit 1`, `212 lines`, `+3 −1`.
    pub(crate) facts: Vec<String>,
    /// How it ended.
    pub(crate) sign: CallSign,
    /// Its duration in milliseconds, if it is known.
    pub(crate) millis: Option<i64>,
    /// What stands under it.
    pub(crate) blocks: Vec<CallViewBlock>,
}

/// How a call ended, at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum CallSign {
    /// No result is recorded.
    #[default]
    Unknown,
    /// It succeeded.
    Good,
    /// It failed.
    Bad,
}

/// A block under a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CallViewBlock {
    /// Code, by its language.
    Code { language: String, text: String },
    /// A change of a file.
    Diff(CallDiff),
    /// Names and values.
    Fields(Vec<CallField>),
    /// Arguments that only somebody who looks closer wants.
    Details(Vec<CallField>),
    /// A to-do list.
    Todo(Vec<TodoItem>),
    /// What the tool printed.
    Output(String),
    /// What the tool returned and only somebody who looks closer wants: the content of a file that
    /// was read, a page of the web.
    Aside(String),
    /// Markdown: what another agent was told, and what it answered.
    Prose(String),
    /// An image.
    Image(TimelineImage),
}

/// The kinds of tools that are shown in their own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolFamily {
    Shell,
    Edit,
    Patch,
    Write,
    Read,
    Search,
    Todo,
    Web,
    Agent,
    /// The agent reported changes of files.
    Changes,
    Other,
}

const FILES: [&str; 9] = [
    "file_path",
    "filePath",
    "path",
    "absolute_path",
    "target_file",
    "filename",
    "file",
    "notebook_path",
    "relative_path",
];
const DIRECTORIES: [&str; 3] = ["dir_path", "directory", "target_directory"];
const CONTENTS: [&str; 6] =
    ["content", "contents", "file_text", "new_source", "code_edit", "insert_text"];
const QUERIES: [&str; 5] = ["pattern", "query", "regex", "glob_pattern", "glob"];

impl ToolFamily {
    fn of(name: &str, arguments: &CallArguments) -> Self {
        // The name of a tool behind that of its server, without case and punctuation.
        let last = name.rsplit("__").next().unwrap_or_default();
        let last = last.rsplit(['.', '/', ':']).next().unwrap_or_default();
        let plain: String =
            last.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        let named = |names: &[&str]| names.contains(&plain.as_str());
        let has_path = arguments.path().is_some();
        if todo::todo_items(arguments).is_some() {
            return Self::Todo;
        }
        if has_path && edit::has_edit(arguments) {
            return Self::Edit;
        }
        if edit::patch_text(arguments).is_some() {
            return Self::Patch;
        }
        // Anthropic's editor tool has the operation as its command.
        if has_path {
            match arguments.text("command").as_deref() {
                Some("view") => return Self::Read,
                Some("create" | "insert") => return Self::Write,
                _ => {}
            }
        }
        if arguments.any(&COMMAND_ARGUMENTS).is_some()
            || named(&[
                "bash",
                "shell",
                "execcommand",
                "execute",
                "terminal",
                "runshellcommand",
                "localshellcall",
                "shellcall",
            ])
        {
            return Self::Shell;
        }
        if has_path && arguments.any(&CONTENTS).is_some() {
            return Self::Write;
        }
        if arguments.text("url").is_some() || named(&["webfetch", "websearch", "fetch"]) {
            return Self::Web;
        }
        if arguments.any(&QUERIES).is_some()
            || named(&[
                "grep",
                "glob",
                "ls",
                "list",
                "listdirectory",
                "listfiles",
                "search",
                "find",
            ])
        {
            return Self::Search;
        }
        if has_path && named(&["read", "readfile", "view", "viewimage", "openfile"]) {
            return Self::Read;
        }
        if arguments.text("prompt").is_some() && named(&["task", "agent", "subagent", "delegate"]) {
            return Self::Agent;
        }
        Self::Other
    }
}

impl ToolFamily {
    /// Whether a call of this sort says nothing without its target.
    const fn needs_target(self) -> bool {
        matches!(self, Self::Shell | Self::Read | Self::Search | Self::Web)
    }

    /// The arguments that are shown already, or that say nothing to a reader.
    fn shown_arguments(self) -> Vec<&'static str> {
        const PATCHES: [&str; 8] = [
            "edits",
            "replace_all",
            "replaceAll",
            "patch",
            "patchText",
            "patch_text",
            "diff",
            "input",
        ];
        const LINES: [&str; 8] = [
            "offset",
            "limit",
            "start_line",
            "startLine",
            "end_line",
            "endLine",
            "line",
            "num_lines",
        ];
        // Anthropic's editor tool has the operation as its command.
        let on_files = [FILES.as_slice(), &["command"]].concat();
        match self {
            Self::Shell => [
                COMMAND_ARGUMENTS.as_slice(),
                &["description", "cwd", "workdir", "timeout", "title"],
            ]
            .concat(),
            Self::Edit | Self::Patch | Self::Changes => {
                [on_files.as_slice(), &edit::OLD, &edit::NEW, &PATCHES].concat()
            }
            Self::Write => [on_files.as_slice(), &CONTENTS].concat(),
            Self::Read => [on_files.as_slice(), &LINES].concat(),
            Self::Search => {
                [QUERIES.as_slice(), &DIRECTORIES, &["path", "file_path", "description"]].concat()
            }
            Self::Todo => vec!["todos", "plan", "entries", "explanation"],
            Self::Web => vec!["url", "query", "search_term"],
            Self::Agent => {
                vec![
                    "description",
                    "title",
                    "name",
                    "prompt",
                    "subagent_type",
                    "agent_type",
                    "agent",
                ]
            }
            Self::Other => Vec::new(),
        }
    }
}

impl CallView {
    /// The view of a call.
    pub(crate) fn of(call: &TimelineCall) -> Self {
        let arguments = CallArguments::of(&call.arguments, &call.workspace);
        let family = match call.changes.is_empty() {
            true => ToolFamily::of(&call.name, &arguments),
            false => ToolFamily::Changes,
        };
        let nothing = CallOutput::default();
        let (output, ok, millis) = match &call.outcome {
            CallOutcome::Unknown => (&nothing, None, None),
            CallOutcome::Ended { ok, output, millis } => (output, Some(*ok), *millis),
        };
        let mut view = Self {
            name: short_start(&call.name, 80),
            millis,
            sign: match ok {
                None => CallSign::Unknown,
                Some(true) => CallSign::Good,
                Some(false) => CallSign::Bad,
            },
            ..Self::default()
        };
        view.fill(family, call, &arguments, output);
        // A tool that only has the name of one that is known.
        if view.target.is_empty() && call.title.is_empty() && family.needs_target() {
            view.facts.clear();
            view.blocks.clear();
            view.other(&arguments, &output.text);
        }
        let rest = tidy_fields(arguments.json(), &family.shown_arguments());
        if !rest.is_empty() && family != ToolFamily::Other && arguments.json().starts_with('{') {
            view.blocks.push(CallViewBlock::Details(rest));
        }
        if view.target.is_empty() && call.title != call.name {
            view.target = short_start(&call.title, 400);
        }
        view.blocks.extend(output.images.iter().cloned().map(CallViewBlock::Image));
        if call.observed && view.sign == CallSign::Unknown {
            view.facts.push("observed".to_owned());
        }
        view
    }

    fn fill(
        &mut self,
        family: ToolFamily,
        call: &TimelineCall,
        arguments: &CallArguments,
        output: &CallOutput,
    ) {
        let view = self;
        match family {
            ToolFamily::Shell => shell::shell_view(view, arguments, &call.title, output),
            ToolFamily::Changes => {
                edit::changes_view(view, arguments, &call.changes, &output.text);
            }
            ToolFamily::Edit => edit::edit_view(view, arguments, &output.text),
            ToolFamily::Patch => edit::patch_view(view, arguments, &output.text),
            ToolFamily::Write => edit::write_view(view, arguments, &output.text),
            ToolFamily::Todo => todo::todo_view(view, arguments, &output.text),
            ToolFamily::Read => view.read(arguments, &output.text),
            ToolFamily::Search => view.search(arguments, &output.text),
            ToolFamily::Web => view.web(arguments, &output.text),
            ToolFamily::Agent => view.agent(arguments, &output.text),
            ToolFamily::Other => view.other(arguments, &output.text),
        }
    }

    /// Changes every text of it.
    pub(crate) fn map_texts(&mut self, change: &dyn Fn(&mut String)) {
        change(&mut self.target);
        self.facts.iter_mut().for_each(change);
        for block in &mut self.blocks {
            match block {
                CallViewBlock::Code { text, .. }
                | CallViewBlock::Output(text)
                | CallViewBlock::Aside(text)
                | CallViewBlock::Prose(text) => change(text),
                CallViewBlock::Diff(diff) => {
                    change(&mut diff.path);
                    diff.lines.iter_mut().for_each(|line| change(&mut line.text));
                }
                CallViewBlock::Fields(fields) | CallViewBlock::Details(fields) => {
                    fields.iter_mut().for_each(|field| change(&mut field.value));
                }
                CallViewBlock::Todo(items) => {
                    items.iter_mut().for_each(|item| change(&mut item.text))
                }
                CallViewBlock::Image(image) => change(&mut image.address),
            }
        }
    }

    fn failed(&self) -> bool {
        self.sign == CallSign::Bad
    }

    /// Shows the output of a call whose success says nothing.
    fn output_if_failed(&mut self, output: &str) {
        if self.failed() {
            self.output(output);
        }
    }

    fn output(&mut self, output: &str) {
        let text = readable_output(output);
        if !text.trim().is_empty() {
            self.blocks.push(CallViewBlock::Output(text));
        }
    }

    /// Shows how much a tool returned, and the content as an aside.
    fn aside(&mut self, output: &str) {
        if self.failed() {
            return self.output(output);
        }
        let text = readable_output(output);
        if !text.trim().is_empty() {
            self.facts.push(short_count(count_lines(&text), "line"));
            self.blocks.push(CallViewBlock::Aside(text));
        }
    }

    fn read(&mut self, arguments: &CallArguments, output: &str) {
        self.target = arguments.path().unwrap_or_default();
        let number = |names: &[&str]| {
            names.iter().find_map(|name| arguments.text(name)?.parse::<u64>().ok())
        };
        let from = number(&["offset", "start_line", "startLine", "line"]);
        let to = number(&["end_line", "endLine"]);
        let count = number(&["limit", "num_lines"]);
        let last = |count: u64| from.unwrap_or(1).saturating_add(count.saturating_sub(1));
        match (from, to.or_else(|| count.map(last))) {
            (None, None) => {}
            (from, Some(to)) => self.facts.push(format!("lines {}–{to}", from.unwrap_or(1))),
            (Some(from), None) => self.facts.push(format!("from line {from}")),
        }
        self.aside(output);
    }

    fn search(&mut self, arguments: &CallArguments, output: &str) {
        let query = arguments.any(&QUERIES);
        let path = arguments.path();
        self.target = match (query, path) {
            (Some(query), Some(path)) => format!("{query} in {path}"),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => String::new(),
        };
        if !self.failed() && !output.trim().is_empty() {
            self.facts.push(short_count(count_lines(output.trim_end()), "line"));
        }
        self.output(output);
    }

    fn web(&mut self, arguments: &CallArguments, output: &str) {
        self.target = arguments.any(&["url", "query", "search_term", "prompt"]).unwrap_or_default();
        self.aside(output);
    }

    fn agent(&mut self, arguments: &CallArguments, output: &str) {
        let kind = arguments.any(&["subagent_type", "agent_type", "agent"]);
        self.target = arguments.any(&["description", "title", "name"]).unwrap_or_default();
        self.facts.extend(kind);
        if let Some(prompt) = arguments.text("prompt") {
            self.blocks.push(CallViewBlock::Aside(prompt));
        }
        let text = readable_output(output);
        if !text.trim().is_empty() {
            self.blocks.push(CallViewBlock::Prose(text));
        }
    }

    fn other(&mut self, arguments: &CallArguments, output: &str) {
        let field = arguments.target();
        self.target = field.as_deref().and_then(|name| arguments.text(name)).unwrap_or_default();
        if self.target.contains('\n') {
            self.target.clear();
        }
        let told: &[&str] = match &field {
            Some(name) if !self.target.is_empty() => &[name.as_str()],
            _ => &[],
        };
        let fields = tidy_fields(arguments.json(), told);
        match fields.as_slice() {
            // A short text that is all there is says what the call is about.
            [CallField { name, value }]
                if name.is_empty() && self.target.is_empty() && !value.contains('\n') =>
            {
                self.target.clone_from(value);
            }
            [] => {}
            _ => self.blocks.push(CallViewBlock::Fields(fields)),
        }
        self.output(output);
    }
}

/// What a terminal would show of a text in the end: without colours and other control sequences, and
/// of a line that was written over the last state.
fn printed_text(text: &str) -> Cow<'_, str> {
    if !text.contains(['\u{1b}', '\r']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        let line = line.strip_suffix('\r').unwrap_or(line);
        let mut rest = line.rsplit('\r').find(|state| !state.is_empty()).unwrap_or_default();
        // Where titles that do not end would each be looked through to the end of the line.
        let mut titles = true;
        while let Some((before, sequence)) = rest.split_once('\u{1b}') {
            out.push_str(before);
            rest = match sequence.strip_prefix(']').filter(|_| titles) {
                None => behind_sequence(sequence),
                Some(title) => match title.split_once('\u{7}') {
                    Some((_, behind)) => behind,
                    None => {
                        titles = false;
                        sequence
                    }
                },
            };
        }
        out.push_str(rest);
    }
    Cow::Owned(out)
}

/// What follows a control sequence, given without the escape that starts it. Of what is not one that
/// is known, the escape alone is left out.
fn behind_sequence(sequence: &str) -> &str {
    let Some(inner) = sequence.strip_prefix('[') else { return sequence };
    let end = inner.find(|c: char| !matches!(c, '0'..='?' | ' '..='/')).unwrap_or(inner.len());
    let mut behind = inner.get(end..).unwrap_or_default().chars();
    behind.next();
    behind.as_str()
}

/// An output for reading: JSON as names and values, and no tags that mark an error for a model.
fn readable_output(output: &str) -> String {
    let output = printed_text(output);
    let text = output.trim_matches('\n');
    for (open, close) in [("<tool_use_error>", "</tool_use_error>"), ("<error>", "</error>")] {
        let inner = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
        if let Some(inner) = inner {
            return inner.trim().to_owned();
        }
    }
    let json = text.trim_start();
    if json.starts_with(['{', '['])
        && serde_json::from_str::<&serde_json::value::RawValue>(json).is_ok()
    {
        return tidy_text(json);
    }
    text.trim_end().to_owned()
}

fn count_lines(text: &str) -> u64 {
    u64::try_from(text.lines().count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
