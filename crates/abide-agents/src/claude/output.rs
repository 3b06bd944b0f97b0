//! Parses the output of Claude Code with `--output-format stream-json`.

use std::collections::HashMap;

use abide_model::{FileOp, Timestamp, Usage};
use abide_wire::json::{RawJsonFields, decode_string, encoded_string, list};
use serde_json::value::RawValue;

use crate::limits::limit_of_error;
use crate::output::{
    EventOutputDecoder, ObservedFact, OutputObservation, ReachedLimit, message, note_observed,
    spent_micros, spent_since, step, tell_observed,
};

/// The most calls, models and messages that are remembered, each.
const MOST: usize = 4096;

/// The events of Claude Code.
#[derive(Debug, Default)]
pub(super) struct ClaudeOutput {
    /// The prompt, until Claude Code prints it.
    prompt: Option<String>,
    session: Option<String>,
    model: Option<String>,
    /// Files of open calls.
    files: HashMap<String, (String, FileOp)>,
    /// The usage of each message. A message is printed in pieces that all repeat it.
    messages: HashMap<String, (Option<String>, Usage)>,
    /// The usage reported for each model: results count from the start of the process.
    told: HashMap<String, Usage>,
    /// When the limit resets, as last reported.
    resets: Option<Timestamp>,
    limited: Option<ReachedLimit>,
}

impl EventOutputDecoder for ClaudeOutput {
    fn event(
        &mut self,
        fields: &RawJsonFields<'_>,
        now: Timestamp,
        see: &mut dyn FnMut(OutputObservation),
    ) -> bool {
        let Some(sort) = fields.decoded("type") else { return false };
        match &*sort {
            "system" => self.system(fields, see),
            "assistant" => self.assistant(fields, now, see),
            "user" => self.user(fields, see),
            "result" => self.result(fields, now, see),
            "rate_limit_event" => self.rate_limit(fields, see),
            // Parts of messages that are repeated whole later, and keep-alives.
            "stream_event" | "keep_alive" | "tool_progress" | "tool_use_summary" => {}
            _ => return false,
        }
        true
    }

    fn flush(&mut self, _: &mut dyn FnMut(OutputObservation)) {}

    fn finish(&mut self, see: &mut dyn FnMut(OutputObservation)) {
        // Without a result, the usage of the messages is all there is.
        let mut sums: HashMap<Option<String>, Usage> = HashMap::new();
        for (model, usage) in std::mem::take(&mut self.messages).into_values() {
            sums.entry(model).or_default().add(&usage);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by(|left, right| left.0.cmp(&right.0));
        for (model, usage) in sums {
            tell_observed(see, ObservedFact::Usage { model, usage });
        }
        // Open calls may have changed their files.
        let mut files: Vec<_> = std::mem::take(&mut self.files).into_iter().collect();
        files.sort_by(|left, right| left.0.cmp(&right.0));
        for (_, (path, op)) in files {
            if op != FileOp::Read {
                tell_observed(see, ObservedFact::Touched { path, op });
            }
        }
    }
}

impl ClaudeOutput {
    /// Starts with a prompt that is recorded already.
    pub(super) fn told(prompt: Option<String>) -> Self {
        Self { prompt, ..Self::default() }
    }

    fn system(&mut self, fields: &RawJsonFields<'_>, see: &mut dyn FnMut(OutputObservation)) {
        match fields.decoded("subtype").as_deref() {
            Some("init") => {
                self.session(fields, see);
                let name = fields.decoded("model").map(|name| name.into_owned());
                if let Some(name) = name.filter(|name| self.model.as_ref() != Some(name)) {
                    self.model = Some(name.clone());
                    tell_observed(see, ObservedFact::Model { name });
                }
            }
            Some("api_retry") => {
                let part = |name: &str| fields.get(name).map_or("?", RawValue::get);
                let error = fields.decoded("error").unwrap_or_default();
                let text = format!(
                    "the model's server failed ({error}, status {}); attempt {} of {}",
                    part("error_status"),
                    part("attempt"),
                    part("max_retries"),
                );
                note_observed(see, "warning", text);
            }
            Some("compact_boundary") => {
                note_observed(see, "info", "the agent compacted its context")
            }
            _ => {}
        }
    }

    /// Reports the session id. Some versions assign a new one on resuming: the last one counts.
    fn session(&mut self, fields: &RawJsonFields<'_>, see: &mut dyn FnMut(OutputObservation)) {
        let Some(id) = fields.decoded("session_id").map(|id| id.into_owned()) else { return };
        if self.session.as_ref() != Some(&id) {
            self.session = Some(id.clone());
            tell_observed(see, ObservedFact::Session { id });
        }
    }

    fn assistant(
        &mut self,
        fields: &RawJsonFields<'_>,
        now: Timestamp,
        see: &mut dyn FnMut(OutputObservation),
    ) {
        let subagent = claude_subagent(fields);
        let Some(raw) = fields.get("message") else { return };
        let Some(inner) = RawJsonFields::of(raw.get()) else { return };
        let mut tell =
            |what: ObservedFact| see(OutputObservation { subagent: subagent.clone(), what });
        if let Some(data) = message::copied_message(raw).filter(|_| inner.get("content").is_some())
        {
            tell(ObservedFact::Message { data });
        }
        for block in inner.get("content").and_then(list).unwrap_or_default() {
            let Some(block) = RawJsonFields::of(block.get()) else { continue };
            match block.decoded("type").as_deref() {
                Some("text") => {
                    let text = block.decoded("text").unwrap_or_default();
                    if let Some(text) = step::short_step(&text) {
                        tell(ObservedFact::Step { text });
                    }
                }
                Some("tool_use" | "server_tool_use") => {
                    let Some(call) = block.decoded("id").map(|id| id.into_owned()) else {
                        continue;
                    };
                    let name = block.decoded("name").unwrap_or_default().into_owned();
                    let input = block.get("input");
                    if let Some(file) =
                        claude_tool_file(&name, input).filter(|_| self.files.len() < MOST)
                    {
                        self.files.insert(call.clone(), file);
                    }
                    let text = step::call_step(&name, input);
                    tell(ObservedFact::Called {
                        call,
                        name,
                        arguments: input.and_then(message::copied_message),
                    });
                    tell(ObservedFact::Step { text });
                }
                // The server ran this tool: its result is in the same message.
                Some(sort) if sort.ends_with("_tool_result") => {
                    let Some(call) = block.decoded("tool_use_id").map(|id| id.into_owned()) else {
                        continue;
                    };
                    let content = block.get("content");
                    let ok = !content.is_some_and(is_claude_error);
                    let result = content.and_then(message::copied_message);
                    tell(ObservedFact::Finished { call, ok, result });
                }
                _ => {}
            }
        }
        self.count(&inner);
        // The agent itself made this message in place of an answer.
        if fields.get("error").is_some() {
            let text = claude_content_text(inner.get("content"));
            let rate = fields.decoded("error").as_deref() == Some("rate_limit");
            self.limit(&text, rate, now, see);
        }
    }

    fn count(&mut self, inner: &RawJsonFields<'_>) {
        let Some(id) = inner.decoded("id") else { return };
        let Some(usage) = inner.get("usage").and_then(|usage| RawJsonFields::of(usage.get()))
        else {
            return;
        };
        if self.messages.len() >= MOST && !self.messages.contains_key(&*id) {
            return;
        }
        let model = inner.decoded("model").filter(|model| model != "<synthetic>");
        self.messages
            .insert(id.into_owned(), (model.map(|name| name.into_owned()), claude_usage(&usage)));
    }

    fn user(&mut self, fields: &RawJsonFields<'_>, see: &mut dyn FnMut(OutputObservation)) {
        let subagent = claude_subagent(fields);
        let Some(raw) = fields.get("message") else { return };
        let Some(inner) = RawJsonFields::of(raw.get()) else { return };
        let mut tell =
            |what: ObservedFact| see(OutputObservation { subagent: subagent.clone(), what });
        // On resuming, earlier messages are printed again and are recorded already.
        if fields.flag("isReplay") == Some(true) {
            return;
        }
        let said = claude_content_text(inner.get("content"));
        let is_prompt = |known: &mut String| subagent.is_none() && known.trim() == said.trim();
        if self.prompt.take_if(is_prompt).is_some() {
            return;
        }
        if let Some(data) = message::copied_message(raw).filter(|_| inner.get("content").is_some())
        {
            tell(ObservedFact::Message { data });
        }
        for block in inner.get("content").and_then(list).unwrap_or_default() {
            let Some(block) = RawJsonFields::of(block.get()) else { continue };
            if block.decoded("type").as_deref() != Some("tool_result") {
                continue;
            }
            let Some(call) = block.decoded("tool_use_id").map(|id| id.into_owned()) else {
                continue;
            };
            let ok = block.flag("is_error") != Some(true);
            let file = self.files.remove(&call);
            let result = block.get("content").and_then(message::copied_message);
            tell(ObservedFact::Finished { call, ok, result });
            if let Some((path, op)) = file.filter(|_| ok) {
                tell(ObservedFact::Touched { path, op });
            }
        }
    }

    fn result(
        &mut self,
        fields: &RawJsonFields<'_>,
        now: Timestamp,
        see: &mut dyn FnMut(OutputObservation),
    ) {
        self.session(fields, see);
        let success = fields.decoded("subtype").as_deref() == Some("success");
        let ok = success && fields.flag("is_error") != Some(true);
        let text = fields.decoded("result").map(|text| text.into_owned()).or_else(|| {
            let errors = fields.get("errors").and_then(list).unwrap_or_default();
            let errors: Vec<_> = errors
                .into_iter()
                .filter_map(|raw| Some(decode_string(encoded_string(raw)?)))
                .collect();
            (!errors.is_empty()).then(|| errors.join("\n"))
        });
        let text = text.or_else(|| {
            let subtype = fields.decoded("subtype").filter(|_| !ok)?;
            Some(subtype.replace('_', " "))
        });
        self.usage(fields, see);
        if let Some(text) = text.as_ref().filter(|_| !ok) {
            let rate = fields.get("api_error_status").is_some_and(|code| code.get() == "429");
            self.limit(text, rate, now, see);
        }
        tell_observed(see, ObservedFact::Outcome { ok, text });
    }

    /// Reports the usage in a result, which includes that of its messages.
    fn usage(&mut self, fields: &RawJsonFields<'_>, see: &mut dyn FnMut(OutputObservation)) {
        let models = fields.get("modelUsage").and_then(|raw| RawJsonFields::of(raw.get()));
        let mut all: Vec<(String, Usage)> = Vec::new();
        for name in models.iter().flat_map(RawJsonFields::names) {
            let one = models.as_ref().and_then(|models| models.get(name));
            let Some(one) = one.and_then(|raw| RawJsonFields::of(raw.get())) else { continue };
            all.push((name.to_owned(), claude_usage_by_model(&one)));
        }
        if all.is_empty() {
            let Some(usage) = fields.get("usage").and_then(|raw| RawJsonFields::of(raw.get()))
            else {
                return;
            };
            let cost_micros = spent_micros(fields.get("total_cost_usd"));
            let usage = Usage { cost_micros, ..claude_usage(&usage) };
            self.messages.clear();
            if usage != Usage::default() {
                tell_observed(see, ObservedFact::Usage { model: self.model.clone(), usage });
            }
            return;
        }
        self.messages.clear();
        for (name, usage) in all {
            let before = self.told.get(&name).cloned().unwrap_or_default();
            let since = spent_since(&usage, &before);
            if self.told.len() < MOST || self.told.contains_key(&name) {
                self.told.insert(name.clone(), usage);
            }
            if since != Usage::default() {
                tell_observed(see, ObservedFact::Usage { model: Some(name), usage: since });
            }
        }
    }

    fn rate_limit(&mut self, fields: &RawJsonFields<'_>, see: &mut dyn FnMut(OutputObservation)) {
        let Some(info) = fields.get("rate_limit_info").and_then(|raw| RawJsonFields::of(raw.get()))
        else {
            return;
        };
        let seconds = info.get("resetsAt").and_then(|raw| raw.get().parse::<f64>().ok());
        self.resets = seconds.map(|seconds| Timestamp::from_millis((seconds * 1e3) as i64));
        let name = info.decoded("rateLimitType").unwrap_or_else(|| "usage".into()).into_owned();
        match info.decoded("status").as_deref() {
            Some("rejected") => {
                let text = format!("the limit {name} is reached");
                self.tell_limit(ReachedLimit { name, resets: self.resets, text }, see);
            }
            Some("allowed_warning") => {
                note_observed(see, "warning", format!("the limit {name} is nearly reached"));
            }
            _ => {}
        }
    }

    fn limit(
        &mut self,
        text: &str,
        rate: bool,
        now: Timestamp,
        see: &mut dyn FnMut(OutputObservation),
    ) {
        let Some(mut limited) = limit_of_error(text, rate, now) else { return };
        let ahead = self.resets.filter(|resets| *resets > now);
        limited.resets = limited.resets.or(ahead);
        self.tell_limit(limited, see);
    }

    /// Reports a limit, unless it adds nothing to the last one.
    fn tell_limit(&mut self, limited: ReachedLimit, see: &mut dyn FnMut(OutputObservation)) {
        let known = self
            .limited
            .as_ref()
            .is_some_and(|before| limited.resets.is_none() || before.resets == limited.resets);
        if !known {
            self.limited = Some(limited.clone());
            tell_observed(see, ObservedFact::Limited(limited));
        }
    }
}

fn claude_subagent(fields: &RawJsonFields<'_>) -> Option<String> {
    fields.decoded("parent_tool_use_id").map(|id| id.into_owned())
}

/// The file of a call to one of Claude Code's own tools.
pub(super) fn claude_tool_file(name: &str, input: Option<&RawValue>) -> Option<(String, FileOp)> {
    let op = match name {
        "Read" | "NotebookRead" => FileOp::Read,
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => FileOp::Write,
        _ => return None,
    };
    let input = RawJsonFields::of(input?.get())?;
    let path = input.decoded("file_path").or_else(|| input.decoded("notebook_path"))?;
    Some((path.into_owned(), op))
}

/// Whether the result of a tool that the server ran is an error.
fn is_claude_error(content: &RawValue) -> bool {
    let sort = RawJsonFields::of(content.get());
    sort.is_some_and(|content| content.decoded("type").is_some_and(|name| name.ends_with("_error")))
}

pub(super) fn claude_content_text(content: Option<&RawValue>) -> String {
    let Some(content) = content else { return String::new() };
    if let Some(text) = encoded_string(content) {
        return decode_string(text).into_owned();
    }
    let mut all = String::new();
    for block in list(content).unwrap_or_default() {
        let text = RawJsonFields::of(block.get());
        all.push_str(&text.and_then(|block| block.decoded("text")).unwrap_or_default());
    }
    all
}

fn claude_number(fields: &RawJsonFields<'_>, name: &str) -> u64 {
    fields.get(name).and_then(|raw| raw.get().parse().ok()).unwrap_or(0)
}

/// Converts Anthropic's usage: its input tokens exclude cached ones, ours include them.
pub(super) fn claude_usage(usage: &RawJsonFields<'_>) -> Usage {
    let cache_read_tokens = claude_number(usage, "cache_read_input_tokens");
    let cache_write_tokens = claude_number(usage, "cache_creation_input_tokens");
    let details = usage.get("output_tokens_details").and_then(|raw| RawJsonFields::of(raw.get()));
    Usage {
        input_tokens: claude_number(usage, "input_tokens")
            .saturating_add(cache_read_tokens)
            .saturating_add(cache_write_tokens),
        output_tokens: claude_number(usage, "output_tokens"),
        cache_read_tokens,
        cache_write_tokens,
        reasoning_tokens: details.map_or(0, |details| claude_number(&details, "thinking_tokens")),
        ..Usage::default()
    }
}

fn claude_usage_by_model(usage: &RawJsonFields<'_>) -> Usage {
    let cache_read_tokens = claude_number(usage, "cacheReadInputTokens");
    let cache_write_tokens = claude_number(usage, "cacheCreationInputTokens");
    Usage {
        input_tokens: claude_number(usage, "inputTokens")
            .saturating_add(cache_read_tokens)
            .saturating_add(cache_write_tokens),
        output_tokens: claude_number(usage, "outputTokens"),
        cache_read_tokens,
        cache_write_tokens,
        cost_micros: spent_micros(usage.get("costUSD")),
        ..Usage::default()
    }
}
