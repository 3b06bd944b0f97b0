//! A message of a chat: what is said in it, the calls, and their results.

use std::borrow::Cow;

use abide_model::{FileOp, Timestamp, Usage};
use abide_wire::json::{RawJsonFields, encoded_string, list, mend_surrogates, write_string};
use serde_json::value::RawValue;

use super::super::output::gemini_tool_file;
use crate::output::message::{
    blocks_message, call_block, inline_file_block, linked_file_block, text_block, thought_block,
};

/// A message as it is written, read so far as all uses need it.
pub(super) struct ChatRecord<'a> {
    pub(super) id: Cow<'a, str>,
    /// `user`, `gemini`, `info`, `error`, `warning`.
    pub(super) sort: Cow<'a, str>,
    fields: RawJsonFields<'a>,
    content: Vec<ChatPart<'a>>,
}

/// A part of a message's content or of a result.
enum ChatPart<'a> {
    Text(Cow<'a, str>),
    Thought(Cow<'a, str>),
    Call(RawJsonFields<'a>),
    Response(RawJsonFields<'a>),
    /// A file, as a block.
    File(String),
    Other(&'a RawValue),
}

/// The result of a call.
pub(super) struct ChatResult {
    pub(super) call: String,
    /// The tool.
    pub(super) name: String,
    pub(super) ok: bool,
    pub(super) result: Option<Box<RawValue>>,
    /// What the call did to a file.
    pub(super) file: Option<(String, FileOp)>,
}

impl<'a> ChatRecord<'a> {
    /// `None` if it has no id.
    pub(super) fn of(fields: RawJsonFields<'a>) -> Option<Self> {
        let id = fields.decoded("id")?;
        let sort = fields.decoded("type").unwrap_or_default();
        let content = fields.get("content").map(parts).unwrap_or_default();
        Some(Self { id, sort, fields, content })
    }

    pub(super) fn written(&self) -> Option<Timestamp> {
        self.fields.decoded("timestamp")?.parse().ok()
    }

    pub(super) fn model(&self) -> Option<String> {
        self.fields.decoded("model").map(Cow::into_owned)
    }

    /// The texts in it, together.
    pub(super) fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|part| match part {
            ChatPart::Text(text) => Some(&**text),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The data of a `message.added` event; `None` if nobody speaks, as where a message only holds the
    /// results of calls.
    pub(super) fn data(&self) -> Option<String> {
        match &*self.sort {
            "user" => blocks_message("user", &self.user_blocks()),
            "gemini" => blocks_message("assistant", &self.model_blocks()),
            _ => None,
        }
    }

    fn user_blocks(&self) -> Vec<String> {
        // Files beside a result belong to it.
        let is_result = self.content.iter().any(|part| matches!(part, ChatPart::Response(_)));
        let said = |part: &ChatPart<'_>| !is_result || matches!(part, ChatPart::Text(_));
        self.content.iter().filter(|part| said(part)).filter_map(ChatPart::block).collect()
    }

    fn model_blocks(&self) -> Vec<String> {
        let mut blocks = Vec::new();
        for thought in self.objects("thoughts") {
            let text = |name: &str| thought.decoded(name).unwrap_or_default();
            let (subject, description) = (text("subject"), text("description"));
            match (subject.is_empty(), description.is_empty()) {
                (false, false) => {
                    blocks.push(thought_block(&format!("**{subject}**\n\n{description}")))
                }
                (true, true) => {}
                _ => blocks.push(thought_block(&format!("{subject}{description}"))),
            }
        }
        // Thoughts are in the content as well where the history was written anew.
        let thought = !blocks.is_empty();
        let said = |part: &&ChatPart<'_>| !(thought && matches!(part, ChatPart::Thought(_)));
        blocks.extend(self.content.iter().filter(said).filter_map(ChatPart::block));
        let calls: Vec<_> = self.objects("toolCalls").collect();
        let others = self.content.iter().filter_map(|part| match part {
            ChatPart::Call(call) => Some(call),
            _ => None,
        });
        let is_new = |call: &&RawJsonFields<'_>| {
            let id = call.decoded("id");
            id.is_some() && calls.iter().all(|known| known.decoded("id") != id)
        };
        for call in calls.iter().chain(others.filter(is_new)) {
            let Some(id) = call.decoded("id") else { continue };
            let name = call.decoded("name").unwrap_or_default();
            blocks.push(call_block(&id, &name, call.get("args")));
        }
        blocks
    }

    /// The results of calls that it holds, in order.
    pub(super) fn results(&self) -> Vec<ChatResult> {
        if self.sort == "user" {
            return self.responses();
        }
        let mut results = Vec::new();
        for call in self.objects("toolCalls") {
            let Some(id) = call.decoded("id") else { continue };
            let ok = match call.decoded("status").as_deref() {
                Some("success") => true,
                Some("error" | "cancelled") => false,
                _ => continue,
            };
            let result = call.get("result").and_then(|raw| result_of(raw, &id));
            let shown = || call.get("resultDisplay").filter(|raw| encoded_string(raw).is_some());
            let result = result.or_else(|| shown().map(|raw| raw.get().to_owned()));
            let name = call.decoded("name").unwrap_or_default();
            let file = gemini_tool_file(&name, call.get("args")).filter(|_| ok);
            let (call, name) = (id.into_owned(), name.into_owned());
            results.push(ChatResult { call, name, ok, result: raw(result), file });
        }
        results
    }

    /// The results that are sent to the model as a message.
    fn responses(&self) -> Vec<ChatResult> {
        let mut results = Vec::new();
        for part in &self.content {
            let ChatPart::Response(response) = part else { continue };
            let Some(id) = response.decoded("id") else { continue };
            let body = response.get("response").and_then(|raw| RawJsonFields::of(raw.get()));
            let ok = body.is_none_or(|body| body.any("error").is_none());
            let result = result_of_parts(&self.content, &id);
            let name = response.decoded("name").unwrap_or_default().into_owned();
            let (call, result) = (id.into_owned(), raw(result));
            results.push(ChatResult { call, name, ok, result, file: None });
        }
        results
    }

    /// Its tokens. Output tokens do not include those of thoughts; ours do.
    pub(super) fn usage(&self) -> Usage {
        let tokens = self.fields.get("tokens").and_then(|raw| RawJsonFields::of(raw.get()));
        let number = |name: &str| -> u64 {
            let raw = tokens.as_ref().and_then(|tokens| tokens.get(name));
            raw.and_then(|raw| raw.get().parse().ok()).unwrap_or(0)
        };
        Usage {
            input_tokens: number("input").saturating_add(number("tool")),
            output_tokens: number("output").saturating_add(number("thoughts")),
            cache_read_tokens: number("cached"),
            reasoning_tokens: number("thoughts"),
            ..Usage::default()
        }
    }

    /// The objects in a list.
    fn objects(&self, name: &str) -> impl Iterator<Item = RawJsonFields<'a>> + use<'a> {
        let all = self.fields.get(name).and_then(list).unwrap_or_default();
        all.into_iter().filter_map(|raw| RawJsonFields::of(raw.get()))
    }
}

impl<'a> ChatPart<'a> {
    fn of(raw: &'a RawValue) -> Self {
        if encoded_string(raw).is_some() {
            return Self::Text(abide_wire::json::decode_string(raw.get()));
        }
        let Some(fields) = RawJsonFields::of(raw.get()) else { return Self::Other(raw) };
        let object = |name: &str| RawJsonFields::of(fields.get(name)?.get());
        if let Some(text) = fields.decoded("text") {
            return if fields.flag("thought") == Some(true) {
                Self::Thought(text)
            } else {
                Self::Text(text)
            };
        }
        if let Some(call) = object("functionCall") {
            return Self::Call(call);
        }
        if let Some(response) = object("functionResponse") {
            return Self::Response(response);
        }
        let inline = object("inlineData").and_then(|file| {
            let mime = file.decoded("mimeType").unwrap_or_default();
            Some(inline_file_block(&mime, &file.decoded("data")?))
        });
        let linked = object("fileData").and_then(|file| {
            let mime = file.decoded("mimeType").unwrap_or_default();
            Some(linked_file_block(&mime, &file.decoded("fileUri")?))
        });
        inline.or(linked).map_or(Self::Other(raw), Self::File)
    }

    /// What is said in it, as a block. Calls and results are no part of what is said.
    fn block(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text_block(text)).filter(|_| !text.trim().is_empty()),
            Self::Thought(text) => Some(thought_block(text)).filter(|_| !text.trim().is_empty()),
            Self::File(block) => Some(block.clone()),
            Self::Other(raw) => Some(raw.get().to_owned()),
            Self::Call(_) | Self::Response(_) => None,
        }
    }
}

/// The parts of a content: a text, a part, or a list of both.
fn parts(raw: &RawValue) -> Vec<ChatPart<'_>> {
    match list(raw) {
        Some(parts) => parts.into_iter().map(ChatPart::of).collect(),
        None => vec![ChatPart::of(raw)],
    }
}

/// The result of this call, as JSON.
fn result_of(raw: &RawValue, call: &str) -> Option<String> {
    result_of_parts(&parts(raw), call)
}

/// The result of this call among the parts of all results of an answer: its own response with the files
/// behind it, or all, where no part names the call.
fn result_of_parts(parts: &[ChatPart<'_>], call: &str) -> Option<String> {
    let is_own = |part: &ChatPart<'_>| match part {
        ChatPart::Response(response) => response.decoded("id").as_deref() == Some(call),
        _ => false,
    };
    let named = parts.iter().any(is_own);
    let mut own = !named;
    let (mut said, mut blocks) = (None, Vec::new());
    for part in parts {
        if named && matches!(part, ChatPart::Response(_)) {
            own = is_own(part);
        }
        if !own {
            continue;
        }
        let json = match part {
            ChatPart::Response(response) => response_json(response),
            ChatPart::Text(text) => encoded(text),
            part => {
                blocks.extend(part.block());
                continue;
            }
        };
        let text = if json.starts_with('"') { json.clone() } else { encoded(&json) };
        blocks.push(format!("{{\"type\":\"text\",\"text\":{text}}}"));
        said = said.or(Some(json));
    }
    match said {
        Some(json) if blocks.len() == 1 => Some(json),
        _ if blocks.is_empty() => None,
        _ => Some(format!("[{}]", blocks.join(","))),
    }
}

fn encoded(text: &str) -> String {
    let mut json = String::new();
    write_string(&mut json, text);
    json
}

/// What a response says: its only text, or all of it.
fn response_json(response: &RawJsonFields<'_>) -> String {
    let Some(raw) = response.get("response") else { return "null".to_owned() };
    let only = RawJsonFields::of(raw.get()).and_then(|body| {
        let mut names = body.names();
        let name = names.next().filter(|name| ["output", "error"].contains(name))?;
        if names.next().is_some() {
            return None;
        }
        body.encoded(name).map(str::to_owned)
    });
    only.unwrap_or_else(|| raw.get().to_owned())
}

fn raw(json: Option<String>) -> Option<Box<RawValue>> {
    RawValue::from_string(mend_surrogates(json?)).ok()
}
