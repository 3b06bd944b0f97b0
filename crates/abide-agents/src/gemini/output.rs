//! Parses the output of Gemini CLI with `--output-format stream-json`.

use std::collections::HashMap;

use abide_model::{FileOp, Timestamp, Usage};
use abide_wire::json::RawJsonFields;
use serde_json::value::RawValue;

use crate::limits::limit_in;
use crate::output::message::{self, MOST};
use crate::output::{
    EventOutputDecoder, ObservedFact, OutputObservation, ReachedLimit, note_observed, step,
    tell_observed,
};

/// The most open calls that are remembered.
const CALLS: usize = 4096;
/// The most bytes kept of one message, with room for the mark of a cut.
const SAYING: usize = MOST - 64;
/// The most bytes kept of its last message.
const LAST: usize = 64 << 10;

/// The events of Gemini CLI.
#[derive(Debug, Default)]
pub(super) struct GeminiOutput {
    /// The prompt, until Gemini prints it.
    prompt: Option<String>,
    /// The message being streamed.
    saying: String,
    /// Bytes of it that were left out.
    left_out: u64,
    /// Its last message.
    last: Option<String>,
    /// Files of open calls.
    files: HashMap<String, (String, FileOp)>,
    limited: Option<ReachedLimit>,
}

impl EventOutputDecoder for GeminiOutput {
    fn event(
        &mut self,
        fields: &RawJsonFields<'_>,
        now: Timestamp,
        see: &mut dyn FnMut(OutputObservation),
    ) -> bool {
        let Some(sort) = fields.decoded("type") else { return false };
        match &*sort {
            "message" => self.message(fields, see),
            "init" => {
                self.flush(see);
                if let Some(id) = fields.decoded("session_id") {
                    tell_observed(see, ObservedFact::Session { id: id.into_owned() });
                }
                if let Some(name) = fields.decoded("model") {
                    tell_observed(see, ObservedFact::Model { name: name.into_owned() });
                }
            }
            "tool_use" => self.tool_use(fields, see),
            "tool_result" => self.tool_result(fields, see),
            "error" => {
                self.flush(see);
                let text = fields.decoded("message").unwrap_or_default();
                if fields.decoded("severity").as_deref() == Some("warning") {
                    note_observed(see, "warning", text);
                } else {
                    self.limit(&text, now, see);
                    note_observed(see, "error", text);
                }
            }
            "result" => self.result(fields, now, see),
            _ => return false,
        }
        true
    }

    fn flush(&mut self, see: &mut dyn FnMut(OutputObservation)) {
        let mut text = std::mem::take(&mut self.saying);
        if self.left_out > 0 {
            text.push_str(&format!("… [{} bytes left out]", self.left_out));
            self.left_out = 0;
        }
        if text.is_empty() {
            return;
        }
        if let Some(data) = message::assistant_message(&text) {
            tell_observed(see, ObservedFact::Message { data });
        }
        if let Some(line) = step::short_step(&text) {
            tell_observed(see, ObservedFact::Step { text: line });
        }
        self.last = Some(step::head_of_step(&text, LAST).to_owned());
    }

    fn finish(&mut self, see: &mut dyn FnMut(OutputObservation)) {
        self.flush(see);
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

impl GeminiOutput {
    /// Starts with a prompt that is recorded already.
    pub(super) fn told(prompt: Option<String>) -> Self {
        Self { prompt, ..Self::default() }
    }

    fn message(&mut self, fields: &RawJsonFields<'_>, see: &mut dyn FnMut(OutputObservation)) {
        let role = fields.decoded("role").unwrap_or_else(|| "assistant".into());
        let text = fields.decoded("content").unwrap_or_default();
        if role == "assistant" && fields.flag("delta") == Some(true) {
            let room = SAYING.saturating_sub(self.saying.len());
            // After a gap, nothing more is appended.
            let kept = if self.left_out > 0 { "" } else { step::head_of_step(&text, room) };
            self.saying.push_str(kept);
            if self.left_out == 0 && kept.len() < text.len() {
                // A word may have come in several pieces.
                let end = step::start_of_last_word(self.saying.as_bytes());
                self.left_out = (self.saying.len() - end) as u64;
                self.saying.truncate(end);
            }
            self.left_out += (text.len() - kept.len()) as u64;
            return;
        }
        self.flush(see);
        if role == "user" && self.prompt.take_if(|known| known.trim() == text.trim()).is_some() {
            return;
        }
        if let Some(data) = message::role_message(&role, &text) {
            tell_observed(see, ObservedFact::Message { data });
        }
        if role == "assistant" {
            self.last = Some(step::head_of_step(&text, LAST).to_owned());
        }
    }

    fn tool_use(&mut self, fields: &RawJsonFields<'_>, see: &mut dyn FnMut(OutputObservation)) {
        self.flush(see);
        let Some(call) = fields.decoded("tool_id").map(|id| id.into_owned()) else { return };
        let name = fields.decoded("tool_name").unwrap_or_default().into_owned();
        let parameters = fields.get("parameters");
        if let Some(file) = gemini_tool_file(&name, parameters).filter(|_| self.files.len() < CALLS)
        {
            self.files.insert(call.clone(), file);
        }
        let text = step::call_step(&name, parameters);
        let arguments = parameters.and_then(message::copied_message);
        tell_observed(see, ObservedFact::Called { call, name, arguments });
        tell_observed(see, ObservedFact::Step { text });
    }

    fn tool_result(&mut self, fields: &RawJsonFields<'_>, see: &mut dyn FnMut(OutputObservation)) {
        self.flush(see);
        let Some(call) = fields.decoded("tool_id").map(|id| id.into_owned()) else { return };
        let ok = fields.decoded("status").as_deref() == Some("success");
        let file = self.files.remove(&call);
        let error = fields.get("error").filter(|_| !ok);
        let result = error.or(fields.get("output")).and_then(message::copied_message);
        tell_observed(see, ObservedFact::Finished { call, ok, result });
        if let Some((path, op)) = file.filter(|_| ok) {
            tell_observed(see, ObservedFact::Touched { path, op });
        }
    }

    fn result(
        &mut self,
        fields: &RawJsonFields<'_>,
        now: Timestamp,
        see: &mut dyn FnMut(OutputObservation),
    ) {
        self.flush(see);
        if let Some(stats) = fields.get("stats").and_then(|raw| RawJsonFields::of(raw.get())) {
            tell_gemini_usage(&stats, see);
        }
        let ok = fields.decoded("status").as_deref() == Some("success");
        let error = fields.get("error").and_then(|raw| RawJsonFields::of(raw.get()));
        let error = error.and_then(|error| error.decoded("message").map(|text| text.into_owned()));
        if let Some(text) = &error {
            self.limit(text, now, see);
        }
        let text = error.or_else(|| self.last.take());
        tell_observed(see, ObservedFact::Outcome { ok, text });
    }

    fn limit(&mut self, text: &str, now: Timestamp, see: &mut dyn FnMut(OutputObservation)) {
        let Some(limited) = limit_in(text, now) else { return };
        if self.limited.as_ref() != Some(&limited) {
            self.limited = Some(limited.clone());
            tell_observed(see, ObservedFact::Limited(limited));
        }
    }
}

/// The file of a call to one of Gemini's own tools.
pub(super) fn gemini_tool_file(
    name: &str,
    parameters: Option<&RawValue>,
) -> Option<(String, FileOp)> {
    let op = match name {
        "read_file" => FileOp::Read,
        "write_file" | "replace" | "edit" => FileOp::Write,
        _ => return None,
    };
    let parameters = RawJsonFields::of(parameters?.get())?;
    let path = parameters.decoded("file_path").or_else(|| parameters.decoded("absolute_path"))?;
    Some((path.into_owned(), op))
}

/// Reports the usage of each model, or the total if there is no breakdown.
fn tell_gemini_usage(stats: &RawJsonFields<'_>, see: &mut dyn FnMut(OutputObservation)) {
    let models = stats.get("models").and_then(|raw| RawJsonFields::of(raw.get()));
    let mut any = false;
    for name in models.iter().flat_map(RawJsonFields::names) {
        let one = models.as_ref().and_then(|models| models.get(name));
        let Some(one) = one.and_then(|raw| RawJsonFields::of(raw.get())) else { continue };
        any = true;
        tell_observed(
            see,
            ObservedFact::Usage { model: Some(name.to_owned()), usage: gemini_usage(&one) },
        );
    }
    if !any && gemini_usage(stats) != Usage::default() {
        tell_observed(see, ObservedFact::Usage { model: None, usage: gemini_usage(stats) });
    }
}

/// Tokens that are neither input nor output are reasoning.
fn gemini_usage(stats: &RawJsonFields<'_>) -> Usage {
    let number =
        |name: &str| stats.get(name).and_then(|raw| raw.get().parse::<u64>().ok()).unwrap_or(0);
    let (input, said) = (number("input_tokens"), number("output_tokens"));
    let thought = number("total_tokens").saturating_sub(input).saturating_sub(said);
    Usage {
        input_tokens: input,
        output_tokens: said.saturating_add(thought),
        cache_read_tokens: number("cached"),
        reasoning_tokens: thought,
        ..Usage::default()
    }
}
