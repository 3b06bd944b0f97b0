//! Messages, calls and results as short plain text.

use std::collections::HashMap;

use abide_model::{ContextEntry, Payload, RecordedMessage, RecordedResult, ToolResult};
use abide_wire::{CallResult, MessagePart, ReadMessage, RequestedCall, read_call};
use serde_json::Value;

/// The most characters of a call's arguments.
const ARGUMENTS: usize = 400;
/// The most characters of a result.
const RESULT: usize = 600;
/// The most characters of a thought.
const THOUGHT: usize = 400;
/// The most characters of an attached document.
const DOCUMENT: usize = 2_000;
/// The most characters of anything else.
const OTHER: usize = 200;

/// How the agent itself is named.
const MODEL: &str = "Assistant (you)";

/// Writes a conversation as text.
pub(super) struct PrimerWriter {
    text: String,
    /// The most characters of a message.
    most: usize,
    /// The tool name of each call so far, by call id.
    names: HashMap<String, String>,
    /// The last speaker.
    role: String,
}

impl PrimerWriter {
    /// A writer that cuts messages to `most` characters.
    pub(super) fn new(most: usize) -> Self {
        Self { text: String::new(), most, names: HashMap::new(), role: String::new() }
    }

    /// The text.
    pub(super) fn finish(mut self) -> String {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text
    }

    /// Adds an entry.
    pub(super) fn entry(&mut self, entry: &ContextEntry) {
        match entry {
            ContextEntry::Message { message, .. } => self.message(message),
            ContextEntry::Call { data, .. } => {
                if let Some(call) = read_call(data) {
                    self.heading(MODEL);
                    let call = self.call(&call);
                    self.line(&call);
                }
            }
            ContextEntry::Result { call, result, .. } => {
                let (ok, result) = match result {
                    RecordedResult::Executed(data) => executed_result(data),
                    RecordedResult::Message(message) => given(message, &call.0),
                };
                let name = self.names.get(&call.0).map_or("the call", String::as_str);
                let how = if ok { "gave" } else { "failed" };
                let result = cut(result.trim(), RESULT);
                let line = if result.is_empty() {
                    format!("  {name} {how}{}", if ok { " nothing" } else { "" })
                } else {
                    format!("  {name} {how}: {}", result.replace('\n', "\n    "))
                };
                self.line(&line);
            }
            ContextEntry::Unknown { call, .. } => {
                let name = self.names.get(&call.0).map_or("the call", String::as_str);
                let line = format!(
                    "  {name}: outcome unknown, for the session was interrupted; look before you repeat it"
                );
                self.line(&line);
            }
            ContextEntry::Summary { text, .. } => {
                self.heading("Summary of what came before");
                let text = cut(text.trim(), self.most);
                self.line(&text);
            }
        }
    }

    fn message(&mut self, message: &RecordedMessage) {
        let said = ReadMessage::from(message);
        let parts: Vec<String> = said.parts.iter().filter_map(|part| self.part(part)).collect();
        if parts.is_empty() {
            return;
        }
        let role = match said.role.as_str() {
            "user" => "User",
            "assistant" => MODEL,
            "system" | "developer" => "Instructions",
            other => other,
        };
        self.heading(role);
        for part in parts {
            self.line(&part);
        }
        if said.marks.partial {
            self.line("[interrupted here]");
        }
    }

    fn part(&mut self, part: &MessagePart) -> Option<String> {
        let text = match part {
            MessagePart::Text(text) | MessagePart::Refusal(text) => cut(text.trim(), self.most),
            MessagePart::Thinking { text, .. } if text.trim().is_empty() => return None,
            MessagePart::Thinking { text, .. } => {
                format!("[thought] {}", cut(text.trim(), THOUGHT))
            }
            MessagePart::Image(_) => "[an image]".to_owned(),
            MessagePart::Call(call) => self.call(call),
            // Written as an entry of its own.
            MessagePart::Result(_) => return None,
            MessagePart::Other(raw) => {
                serde_json::from_str(raw.get()).map_or_else(|_| String::new(), |raw| plain(&raw))
            }
        };
        (!text.is_empty()).then_some(text)
    }

    fn call(&mut self, call: &RequestedCall) -> String {
        let name = one_line(&call.name, OTHER);
        self.names.insert(call.id.clone(), name.clone());
        let arguments = one_line(&call.arguments, ARGUMENTS);
        match arguments.as_str() {
            "" | "{}" | "null" => format!("[call] {name}"),
            _ => format!("[call] {name} {arguments}"),
        }
    }

    /// Writes a heading when the speaker changes.
    fn heading(&mut self, role: &str) {
        if self.role != role {
            if !self.text.is_empty() {
                self.text.push('\n');
            }
            self.line(&format!("## {role}"));
            role.clone_into(&mut self.role);
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// Whether an executed call succeeded, and its result.
fn executed_result(data: &Payload) -> (bool, String) {
    let Ok(fact) = data.decode::<ToolResult>() else { return (true, String::new()) };
    let result = fact.result.and_then(|raw| serde_json::from_str(raw.get()).ok());
    (fact.ok, result.map_or_else(String::new, |result: Value| plain(&result)))
}

/// The same, from a message that holds results.
fn given(message: &RecordedMessage, call: &str) -> (bool, String) {
    let said = ReadMessage::from(message);
    let result = said.parts.into_iter().find_map(|part| match part {
        MessagePart::Result(result) if result.id == call => Some(result),
        _ => None,
    });
    let Some(CallResult { ok, parts, .. }) = result else { return (true, String::new()) };
    let texts = parts.into_iter().map(|part| match part {
        MessagePart::Text(text) | MessagePart::Refusal(text) => text,
        MessagePart::Image(_) => "[an image]".to_owned(),
        MessagePart::Other(raw) => {
            serde_json::from_str(raw.get()).map_or_else(|_| String::new(), |raw| plain(&raw))
        }
        MessagePart::Thinking { .. } | MessagePart::Call(_) | MessagePart::Result(_) => {
            String::new()
        }
    });
    (ok.unwrap_or(true), texts.collect::<Vec<_>>().join("\n"))
}

/// A content block of the protocol as short text.
fn plain(value: &Value) -> String {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            let texts = values.iter().map(plain).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Object(_) => match (text("type"), value.get("content"), value.get("resource")) {
            (Some("content"), Some(content), _) => plain(content),
            (Some("text"), ..) => text("text").unwrap_or_default().to_owned(),
            (Some("diff"), ..) => format!("[changed {}]", text("path").unwrap_or("a file")),
            (Some("terminal"), ..) => "[a terminal]".to_owned(),
            (Some(sort @ ("image" | "audio")), ..) => format!("[{sort}]"),
            (Some("resource_link"), ..) => format!("[{}]", text("uri").unwrap_or("a link")),
            (Some("resource"), _, Some(resource)) => {
                let field = |name: &str| resource.get(name).and_then(Value::as_str);
                let uri = field("uri").unwrap_or("a document");
                match field("text") {
                    Some(text) => format!("[{uri}]\n{}", cut(text.trim(), DOCUMENT)),
                    None => format!("[{uri}]"),
                }
            }
            (Some(_), ..) => one_line(&value.to_string(), OTHER),
            (None, ..) => one_line(&value.to_string(), RESULT),
        },
        other => other.to_string(),
    }
}

/// A text on one line, cut to `most` characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    // Text far beyond the cut is never scanned.
    let near: String = text.chars().take(most.saturating_mul(4)).collect();
    let line = near.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(most).collect();
    if short.len() < line.len() || near.len() < text.len() { format!("{short}…") } else { short }
}

/// A text cut to `most` characters: its beginning, its end, and how much is left out.
fn cut(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let head = most * 2 / 3;
    let tail = most - head;
    let beginning: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{beginning} […{} characters left out…] {end}", count - head - tail)
}
