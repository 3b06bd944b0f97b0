//! Parses the output of `opencode run --format json`: the parts of messages, each once it is complete.

use std::collections::HashSet;

use abide_model::{FileOp, Timestamp, Usage};
use abide_wire::json::{RawJsonFields, encoded_string, list, mend_surrogates};
use serde_json::value::RawValue;

use crate::limits::limit_of_error;
use crate::output::{
    EventOutputDecoder, ObservedFact, OutputObservation, ReachedLimit, message, note_observed,
    spent_micros, step, tell_observed,
};

/// The most parts that are remembered.
const PARTS: usize = 4096;
/// The longest id of a part that is remembered.
const PART_ID: usize = 256;
/// The most bytes kept of its last message.
const LAST: usize = 64 << 10;

/// The events of opencode.
#[derive(Debug, Default)]
pub(super) struct OpencodeOutput {
    session: Option<String>,
    /// The ids of parts that were reported. A part that changes once more is printed again.
    parts: HashSet<String>,
    /// The last message of this step.
    last: Option<String>,
    limited: Option<ReachedLimit>,
}

impl EventOutputDecoder for OpencodeOutput {
    fn event(
        &mut self,
        fields: &RawJsonFields<'_>,
        now: Timestamp,
        see: &mut dyn FnMut(OutputObservation),
    ) -> bool {
        let Some(sort) = fields.decoded("type") else { return false };
        let part = opencode_object(fields, "part");
        match (&*sort, part) {
            ("step_start", Some(_)) => {
                self.session(fields, see);
                self.last = None;
            }
            ("text", Some(part)) => {
                self.session(fields, see);
                if self.remember(&part) {
                    self.said(&part.decoded("text").unwrap_or_default(), see);
                }
            }
            ("reasoning", Some(part)) => {
                self.session(fields, see);
                if self.remember(&part) {
                    tell_opencode_thought(&part.decoded("text").unwrap_or_default(), see);
                }
            }
            ("tool_use", Some(part)) => {
                let Some(call) = OpencodeCall::of(&part) else { return false };
                self.session(fields, see);
                if self.remember(&part) {
                    call.tell(see);
                }
            }
            ("step_finish", Some(part)) => {
                self.session(fields, see);
                if self.remember(&part) {
                    self.step_finish(&part, see);
                }
            }
            ("error", _) => {
                self.session(fields, see);
                self.error(fields, now, see);
            }
            _ => return false,
        }
        true
    }

    fn flush(&mut self, _: &mut dyn FnMut(OutputObservation)) {}

    fn finish(&mut self, _: &mut dyn FnMut(OutputObservation)) {}
}

impl OpencodeOutput {
    /// Reports the session, which every line names.
    fn session(&mut self, fields: &RawJsonFields<'_>, see: &mut dyn FnMut(OutputObservation)) {
        let Some(id) = fields.decoded("sessionID") else { return };
        if self.session.as_deref() != Some(&*id) {
            self.session = Some(id.clone().into_owned());
            tell_observed(see, ObservedFact::Session { id: id.into_owned() });
        }
    }

    /// Remembers a part; `false` where it was reported already.
    fn remember(&mut self, part: &RawJsonFields<'_>) -> bool {
        let Some(id) = part.decoded("id").filter(|id| id.len() <= PART_ID) else { return true };
        if self.parts.len() >= PARTS && !self.parts.contains(&*id) {
            self.parts.clear();
        }
        self.parts.insert(id.into_owned())
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

    /// A step is one answer of the model. After the last one it says `stop`.
    fn step_finish(&mut self, part: &RawJsonFields<'_>, see: &mut dyn FnMut(OutputObservation)) {
        let usage = opencode_usage(part);
        if usage != Usage::default() {
            tell_observed(see, ObservedFact::Usage { model: None, usage });
        }
        if part.decoded("reason").as_deref() == Some("stop") {
            tell_observed(see, ObservedFact::Outcome { ok: true, text: self.last.take() });
        }
    }

    fn error(
        &mut self,
        fields: &RawJsonFields<'_>,
        now: Timestamp,
        see: &mut dyn FnMut(OutputObservation),
    ) {
        let error = opencode_object(fields, "error");
        let data = error.as_ref().and_then(|error| opencode_object(error, "data"));
        let message =
            |object: &RawJsonFields<'_>| object.decoded("message").map(|m| m.into_owned());
        let text = data
            .as_ref()
            .and_then(message)
            .or_else(|| error.as_ref().and_then(message))
            .or_else(|| error.as_ref()?.decoded("name").map(|name| name.into_owned()))
            .or_else(|| fields.decoded("error").map(|text| text.into_owned()))
            .or_else(|| message(fields))
            .unwrap_or_default();
        let status = data.as_ref().and_then(|data| data.get("statusCode"));
        self.limit(&text, status.is_some_and(|code| code.get() == "429"), now, see);
        note_observed(see, "error", text.as_str());
        tell_observed(see, ObservedFact::Outcome { ok: false, text: Some(text) });
    }

    fn limit(
        &mut self,
        text: &str,
        rate: bool,
        now: Timestamp,
        see: &mut dyn FnMut(OutputObservation),
    ) {
        let Some(limited) = limit_of_error(text, rate, now) else { return };
        if self.limited.as_ref() != Some(&limited) {
            self.limited = Some(limited.clone());
            tell_observed(see, ObservedFact::Limited(limited));
        }
    }
}

/// A call of a tool, which is printed when it has ended.
pub(super) struct OpencodeCall<'a> {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) failed: bool,
    state: RawJsonFields<'a>,
    metadata: RawJsonFields<'a>,
}

impl<'a> OpencodeCall<'a> {
    /// `None` where it has not ended.
    pub(super) fn of(part: &RawJsonFields<'a>) -> Option<Self> {
        let state = opencode_object(part, "state")?;
        let metadata = opencode_object(&state, "metadata").unwrap_or_default();
        let ended = match state.decoded("status").as_deref() {
            Some("completed") => true,
            Some("error") => false,
            _ => return None,
        };
        // A command that was killed has the exit code `null`.
        let exited_well = metadata.any("exit").is_none_or(|code| code.get() == "0");
        let id = part.decoded("callID").or_else(|| part.decoded("id"))?.into_owned();
        let name = part.decoded("tool").unwrap_or_default().into_owned();
        Some(Self { id, name, failed: !ended || !exited_well, state, metadata })
    }

    fn tell(self, see: &mut dyn FnMut(OutputObservation)) {
        let input = self.state.get("input");
        let result = self.result();
        let files = if self.failed { Vec::new() } else { self.files() };
        let Self { id: call, name, failed, .. } = self;
        let text = step::call_step(&name, input);
        let arguments = input.and_then(message::copied_message);
        tell_observed(see, ObservedFact::Called { call: call.clone(), name, arguments });
        tell_observed(see, ObservedFact::Step { text });
        tell_observed(see, ObservedFact::Finished { call, ok: !failed, result });
        for (path, op) in files {
            tell_observed(see, ObservedFact::Touched { path, op });
        }
    }

    /// Its output; with the exit code where it ran a command, with the files that were given to the
    /// model besides, or why it failed.
    pub(super) fn result(&self) -> Option<Box<RawValue>> {
        let (exit, error) = (self.metadata.get("exit"), self.state.get("error"));
        let output = self.state.get("output").or_else(|| self.metadata.get("output"));
        if exit.is_some() || (error.is_some() && output.is_some()) {
            let all = [("exit_code", exit), ("error", error), ("output", output)];
            return message::object_message(&all);
        }
        let said = error.or(output);
        let attached = self.state.get("attachments").and_then(list).unwrap_or_default();
        if attached.is_empty() {
            return said.and_then(message::copied_message);
        }
        opencode_content(said, &attached)
    }

    /// The files of a call to one of opencode's own tools.
    pub(super) fn files(&self) -> Vec<(String, FileOp)> {
        let op = match self.name.as_str() {
            "read" => FileOp::Read,
            "write" | "edit" | "multiedit" => FileOp::Write,
            "patch" | "apply_patch" => return self.patched(),
            _ => return Vec::new(),
        };
        let path = opencode_object(&self.state, "input").and_then(|input| {
            let path = input.decoded("filePath")?;
            Some((path.into_owned(), op))
        });
        path.into_iter().collect()
    }

    /// The files of a patch: a file that moves is deleted and written.
    fn patched(&self) -> Vec<(String, FileOp)> {
        let mut files = Vec::new();
        for file in self.metadata.get("files").and_then(list).unwrap_or_default() {
            let Some(file) = RawJsonFields::of(file.get()) else { continue };
            let Some(path) = file.decoded("filePath") else { continue };
            let moved = file.decoded("movePath");
            let is_gone = moved.is_some() || file.decoded("type").as_deref() == Some("delete");
            let op = if is_gone { FileOp::Delete } else { FileOp::Write };
            files.push((path.into_owned(), op));
            files.extend(moved.map(|path| (path.into_owned(), FileOp::Write)));
        }
        files
    }
}

pub(super) fn opencode_object<'a>(
    fields: &RawJsonFields<'a>,
    name: &str,
) -> Option<RawJsonFields<'a>> {
    RawJsonFields::of(fields.get(name)?.get())
}

fn tell_opencode_thought(text: &str, see: &mut dyn FnMut(OutputObservation)) {
    if let Some(data) = message::thought_message(text) {
        tell_observed(see, ObservedFact::Message { data });
    }
    if let Some(text) = step::short_step(text) {
        tell_observed(see, ObservedFact::Step { text });
    }
}

/// A result that has files, as blocks of content: a text, and a block for each file.
fn opencode_content(said: Option<&RawValue>, attached: &[&RawValue]) -> Option<Box<RawValue>> {
    let text = said.and_then(encoded_string);
    let mut blocks: Vec<String> =
        text.map(|text| format!("{{\"type\":\"text\",\"text\":{text}}}")).into_iter().collect();
    for file in attached {
        let file = RawJsonFields::of(file.get());
        blocks.extend(file.and_then(|file| opencode_file(&file)));
    }
    let content = format!("[{}]", blocks.join(","));
    RawValue::from_string(mend_surrogates(content)).ok()
}

/// The block of a file: with its bytes, or with its address.
pub(super) fn opencode_file(file: &RawJsonFields<'_>) -> Option<String> {
    let url = file.decoded("url")?;
    let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let mime = file.decoded("mime").unwrap_or_default();
    let mime = inline.map_or(&*mime, |(mime, _)| mime);
    // Half a file is none.
    if inline.is_some_and(|(_, data)| !data.is_ascii()) {
        let told = format!("a file of the type {mime} was too long to be recorded");
        return Some(message::text_block(&told));
    }
    Some(match inline {
        Some((mime, data)) => message::inline_file_block(mime, data),
        None => message::linked_file_block(mime, &url),
    })
}

/// The usage of a step. Its input tokens exclude cached ones and its output tokens those of
/// reasoning; ours include them.
pub(super) fn opencode_usage(part: &RawJsonFields<'_>) -> Usage {
    let tokens = opencode_object(part, "tokens").unwrap_or_default();
    let cache = opencode_object(&tokens, "cache").unwrap_or_default();
    let number = |fields: &RawJsonFields<'_>, name: &str| -> u64 {
        fields.get(name).and_then(|raw| raw.get().parse().ok()).unwrap_or(0)
    };
    let (read, written) = (number(&cache, "read"), number(&cache, "write"));
    let reasoning = number(&tokens, "reasoning");
    Usage {
        input_tokens: number(&tokens, "input").saturating_add(read).saturating_add(written),
        output_tokens: number(&tokens, "output").saturating_add(reasoning),
        cache_read_tokens: read,
        cache_write_tokens: written,
        reasoning_tokens: reasoning,
        cost_micros: spent_micros(part.get("cost")),
    }
}
