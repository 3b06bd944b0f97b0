//! Parses the output of `codex exec --json`: a thread, its turns and their items.

use std::collections::HashSet;

use abide_model::{FileOp, Timestamp, Usage};
use abide_wire::json::{RawJsonFields, list, write_string};
use serde_json::value::RawValue;

use crate::limits::limit_in;
use crate::output::{
    EventOutputDecoder, ObservedFact, OutputObservation, ReachedLimit, message, note_observed,
    spent_includes, spent_since, step, tell_observed,
};

/// The most open calls that are remembered.
const BEGUN: usize = 4096;
/// The most bytes kept of its last message.
const LAST: usize = 64 << 10;

/// The events of Codex.
#[derive(Debug, Default)]
pub(super) struct CodexOutput {
    /// The prefix of call ids.
    prefix: String,
    /// Calls that were reported as begun and have not ended.
    begun: HashSet<String>,
    /// Its last message.
    last: Option<String>,
    /// Its to-do list, as last reported.
    todo: String,
    /// How many states of its to-do lists were reported.
    todo_states: u64,
    /// The usage of the thread, as last reported.
    told: Usage,
    /// The limit last reported.
    limited: Option<ReachedLimit>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CodexItemStage {
    Started,
    Updated,
    Completed,
}

impl EventOutputDecoder for CodexOutput {
    fn event(
        &mut self,
        fields: &RawJsonFields<'_>,
        now: Timestamp,
        see: &mut dyn FnMut(OutputObservation),
    ) -> bool {
        let Some(sort) = fields.decoded("type") else { return false };
        match &*sort {
            "thread.started" => {
                if let Some(id) = fields.decoded("thread_id") {
                    tell_observed(see, ObservedFact::Session { id: id.into_owned() });
                }
            }
            "turn.started" => self.last = None,
            "turn.completed" => {
                if let Some(usage) = fields.get("usage") {
                    self.usage(codex_usage(usage), see);
                }
                tell_observed(see, ObservedFact::Outcome { ok: true, text: self.last.take() });
            }
            "turn.failed" => {
                let text = fields.get("error").and_then(|error| codex_error_text(error.get()));
                self.limit(text.as_deref(), now, see);
                tell_observed(see, ObservedFact::Outcome { ok: false, text });
            }
            "error" => {
                let text = fields.decoded("message").unwrap_or_default();
                // Codex retries by itself.
                if text.starts_with("Reconnecting") {
                    note_observed(see, "warning", text);
                } else {
                    self.limit(Some(&text), now, see);
                    note_observed(see, "error", text);
                }
            }
            "item.started" => return self.item(fields, CodexItemStage::Started, see),
            "item.updated" => return self.item(fields, CodexItemStage::Updated, see),
            "item.completed" => return self.item(fields, CodexItemStage::Completed, see),
            _ => return false,
        }
        true
    }

    fn flush(&mut self, _: &mut dyn FnMut(OutputObservation)) {}

    fn finish(&mut self, _: &mut dyn FnMut(OutputObservation)) {}
}

impl CodexOutput {
    /// Resumes a thread whose usage so far is `told`.
    pub(super) fn resuming(told: Usage, prefix: String) -> Self {
        Self { told, prefix, ..Self::default() }
    }

    /// Reports usage. Codex counts from the start of the thread, over all its processes.
    fn usage(&mut self, all: Usage, see: &mut dyn FnMut(OutputObservation)) {
        // A version that counts per turn reports less than before at some point.
        let usage = if spent_includes(&all, &self.told) {
            spent_since(&all, &self.told)
        } else {
            all.clone()
        };
        self.told = all;
        if usage != Usage::default() {
            tell_observed(see, ObservedFact::Usage { model: None, usage });
        }
    }

    fn limit(
        &mut self,
        text: Option<&str>,
        now: Timestamp,
        see: &mut dyn FnMut(OutputObservation),
    ) {
        let Some(limited) = text.and_then(|text| limit_in(text, now)) else { return };
        if self.limited.as_ref() != Some(&limited) {
            self.limited = Some(limited.clone());
            tell_observed(see, ObservedFact::Limited(limited));
        }
    }

    fn item(
        &mut self,
        fields: &RawJsonFields<'_>,
        stage: CodexItemStage,
        see: &mut dyn FnMut(OutputObservation),
    ) -> bool {
        let Some(item) = fields.get("item").and_then(|item| RawJsonFields::of(item.get())) else {
            return false;
        };
        let sort = item.decoded("type").or_else(|| item.decoded("item_type"));
        let id = format!("{}{}", self.prefix, item.decoded("id").unwrap_or_default());
        let failed = matches!(item.decoded("status").as_deref(), Some("failed" | "declined"));
        match sort.as_deref() {
            Some("agent_message" | "assistant_message") => {
                if stage == CodexItemStage::Completed {
                    self.said(&item.decoded("text").unwrap_or_default(), see);
                }
            }
            Some("reasoning") => {
                let text = item.decoded("text").unwrap_or_default();
                if stage == CodexItemStage::Completed {
                    if let Some(data) = message::thought_message(&text) {
                        tell_observed(see, ObservedFact::Message { data });
                    }
                    if let Some(text) = step::short_step(&text) {
                        let text = text.trim_matches('*').to_owned();
                        tell_observed(see, ObservedFact::Step { text });
                    }
                }
            }
            Some("command_execution") => {
                let arguments = message::object_message(&[("command", item.get("command"))]);
                let output = [
                    ("exit_code", item.get("exit_code")),
                    ("output", item.get("aggregated_output")),
                ];
                let code = item.get("exit_code").is_none_or(|code| code.get() == "0");
                let call = CodexCall { id, name: "shell".to_owned(), arguments };
                self.call(call, stage, !failed && code, || message::object_message(&output), see);
            }
            Some("mcp_tool_call") => {
                let part = |name: &str| item.decoded(name).unwrap_or_default();
                let name = format!("{}.{}", part("server"), part("tool"));
                let arguments = item.get("arguments").and_then(message::copied_message);
                let result =
                    || item.get("result").or(item.get("error")).and_then(message::copied_message);
                self.call(CodexCall { id, name, arguments }, stage, !failed, result, see);
            }
            Some("web_search") => {
                let arguments = message::object_message(&[
                    ("query", item.get("query")),
                    ("action", item.get("action")),
                ]);
                let call = CodexCall { id, name: "web_search".to_owned(), arguments };
                // A search may begin before it is known what is searched for.
                let is_known = item.decoded("query").is_some_and(|query| !query.is_empty());
                if is_known || stage == CodexItemStage::Completed {
                    self.call(call, stage, !failed, || None, see);
                }
            }
            Some("file_change") => {
                let arguments = message::object_message(&[("changes", item.get("changes"))]);
                let status = || item.get("status").filter(|_| failed);
                let result = || status().and_then(message::copied_message);
                let call = CodexCall { id, name: "file_change".to_owned(), arguments };
                self.call(call, stage, !failed, result, see);
                if stage == CodexItemStage::Completed && !failed {
                    tell_codex_changes(&item, see);
                }
            }
            Some("todo_list") => self.todo(&id, &item, see),
            Some("error") => {
                note_observed(see, "warning", item.decoded("message").unwrap_or_default());
            }
            _ => return false,
        }
        true
    }

    fn said(&mut self, text: &str, see: &mut dyn FnMut(OutputObservation)) {
        self.last = Some(step::head_of_step(text, LAST).to_owned());
        if let Some(data) = message::assistant_message(text) {
            tell_observed(see, ObservedFact::Message { data });
        }
        if let Some(text) = step::short_step(text) {
            tell_observed(see, ObservedFact::Step { text });
        }
    }

    fn call(
        &mut self,
        call: CodexCall,
        stage: CodexItemStage,
        ok: bool,
        result: impl FnOnce() -> Option<Box<RawValue>>,
        see: &mut dyn FnMut(OutputObservation),
    ) {
        let CodexCall { id, name, arguments } = call;
        // A call may be reported only when it ends.
        if !self.begun.contains(&id) {
            let text =
                step::call_step(&name, arguments.as_deref()).replacen("/bin/bash -lc ", "", 1);
            tell_observed(see, ObservedFact::Called { call: id.clone(), name, arguments });
            tell_observed(see, ObservedFact::Step { text });
            if stage != CodexItemStage::Completed && self.begun.len() < BEGUN {
                self.begun.insert(id.clone());
            }
        }
        if stage == CodexItemStage::Completed {
            self.begun.remove(&id);
            tell_observed(see, ObservedFact::Finished { call: id, ok, result: result() });
        }
    }

    /// Reports a to-do list as a call, once for each state: the item itself stays open for the whole
    /// turn.
    fn todo(
        &mut self,
        item: &str,
        fields: &RawJsonFields<'_>,
        see: &mut dyn FnMut(OutputObservation),
    ) {
        let Some(todos) = codex_todos(fields).filter(|todos| *todos != self.todo) else { return };
        let arguments = RawValue::from_string(format!("{{\"todos\":{todos}}}")).ok();
        self.todo = todos;
        self.todo_states += 1;
        let id = format!("{item}.{}", self.todo_states);
        let call = CodexCall { id, name: "todo_list".to_owned(), arguments };
        self.call(call, CodexItemStage::Completed, true, || None, see);
    }
}

/// A tool call.
struct CodexCall {
    id: String,
    name: String,
    arguments: Option<Box<RawValue>>,
}

/// The entries of a to-do list as JSON; `None` where it has none.
fn codex_todos(list_item: &RawJsonFields<'_>) -> Option<String> {
    let mut out = "[".to_owned();
    for entry in list_item.get("items").and_then(list).unwrap_or_default() {
        let Some(entry) = RawJsonFields::of(entry.get()) else { continue };
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str("{\"content\":");
        write_string(&mut out, &entry.decoded("text").unwrap_or_default());
        let is_done = entry.flag("completed") == Some(true);
        let status = if is_done { "completed" } else { "pending" };
        out.push_str(&format!(",\"status\":\"{status}\"}}"));
    }
    out.push(']');
    (out.len() > 2).then_some(out)
}

fn tell_codex_changes(item: &RawJsonFields<'_>, see: &mut dyn FnMut(OutputObservation)) {
    for change in item.get("changes").and_then(list).unwrap_or_default() {
        let Some(change) = RawJsonFields::of(change.get()) else { continue };
        let Some(path) = change.decoded("path") else { continue };
        let op = match change.decoded("kind").as_deref() {
            Some("delete") => FileOp::Delete,
            _ => FileOp::Write,
        };
        if let Some(text) = step::short_step(&format!("edit: {path}")) {
            tell_observed(see, ObservedFact::Step { text });
        }
        tell_observed(see, ObservedFact::Touched { path: path.into_owned(), op });
    }
}

/// The message of an error.
fn codex_error_text(error: &str) -> Option<String> {
    Some(RawJsonFields::of(error)?.decoded("message")?.into_owned())
}

/// The usage of a turn. Input tokens include cached ones.
pub(super) fn codex_usage(usage: &RawValue) -> Usage {
    let Some(fields) = RawJsonFields::of(usage.get()) else { return Usage::default() };
    let number = |name: &str| fields.get(name).and_then(|raw| raw.get().parse().ok()).unwrap_or(0);
    Usage {
        input_tokens: number("input_tokens"),
        output_tokens: number("output_tokens"),
        cache_read_tokens: number("cached_input_tokens"),
        cache_write_tokens: number("cache_write_input_tokens"),
        reasoning_tokens: number("reasoning_output_tokens"),
        ..Usage::default()
    }
}
