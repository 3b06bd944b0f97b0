//! A request as it came.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Read, Write};

use serde_json::Value;

/// Longer heads are refused.
const MOST_HEAD: u64 = 64 << 10;
/// Longer bodies are refused.
const MOST_BODY: u64 = 64 << 20;

/// Which API is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// OpenAI's Chat Completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
    /// Gemini's `generateContent` and `streamGenerateContent`.
    Gemini,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct StubRequest {
    /// The how many-th that was understood, from 0.
    pub number: usize,
    /// Which API it is for.
    pub api: Api,
    /// The path it asks.
    pub path: String,
    /// Its headers, the names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Value,
}

/// What could not be understood, as a status and a word about it.
pub(super) type Refusal = (u16, &'static str);

impl StubRequest {
    /// The value of a header, whose name is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether the answer is to be streamed.
    #[must_use]
    pub fn is_streamed(&self) -> bool {
        if self.api == Api::Gemini {
            return self.path.contains(":streamGenerateContent");
        }
        self.body.get("stream").and_then(Value::as_bool).unwrap_or(false)
    }

    /// The model that is asked.
    #[must_use]
    pub fn model(&self) -> &str {
        if self.api == Api::Gemini {
            let name = self.path.rsplit('/').next().and_then(|name| name.split(':').next());
            return name.unwrap_or("stub");
        }
        self.body.get("model").and_then(Value::as_str).unwrap_or("stub")
    }

    /// The ids of the calls in its messages, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        let mut found = Vec::new();
        for message in self.messages() {
            match self.api {
                Api::Chat => {
                    for call in list(message, "tool_calls") {
                        found.extend(text(call, "id"));
                    }
                }
                Api::Responses if is(message, "type", "function_call") => {
                    found.extend(text(message, "call_id"));
                }
                Api::Responses => {}
                Api::Messages => {
                    for block in list(message, "content") {
                        if is(block, "type", "tool_use") {
                            found.extend(text(block, "id"));
                        }
                    }
                }
                Api::Gemini => {
                    let parts = list(message, "parts").iter();
                    let calls = parts.filter_map(|part| part.get("functionCall"));
                    found.extend(calls.filter_map(|call| text(call, "id")));
                }
            }
        }
        found
    }

    /// The ids of the calls that have a result in its messages.
    #[must_use]
    pub fn results(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for message in self.messages() {
            match self.api {
                Api::Chat if is(message, "role", "tool") => {
                    found.extend(text(message, "tool_call_id"));
                }
                Api::Responses if is(message, "type", "function_call_output") => {
                    found.extend(text(message, "call_id"));
                }
                Api::Chat | Api::Responses => {}
                Api::Messages => {
                    for block in list(message, "content") {
                        if is(block, "type", "tool_result") {
                            found.extend(text(block, "tool_use_id"));
                        }
                    }
                }
                Api::Gemini => {
                    let parts = list(message, "parts").iter();
                    let results = parts.filter_map(|part| part.get("functionResponse"));
                    found.extend(results.filter_map(|result| text(result, "id")));
                }
            }
        }
        found
    }

    /// What the user said last; results of tools are not meant.
    #[must_use]
    pub fn last_said(&self) -> Option<String> {
        self.said().pop()
    }

    /// What the user said, in order; results of tools are not meant.
    #[must_use]
    pub fn said(&self) -> Vec<String> {
        if let Some(text) = self.body.get("input").and_then(Value::as_str) {
            return vec![text.to_owned()];
        }
        let said = |message: &Value| {
            if !is(message, "role", "user") {
                return None;
            }
            match message.get("content").or(message.get("parts")) {
                Some(Value::String(text)) => Some(text.clone()),
                Some(Value::Array(blocks)) => {
                    let texts: Vec<String> =
                        blocks.iter().filter_map(|block| text(block, "text")).collect();
                    (!texts.is_empty()).then(|| texts.concat())
                }
                _ => None,
            }
        };
        self.messages().iter().filter_map(said).collect()
    }

    /// Its messages, or items.
    #[must_use]
    pub fn messages(&self) -> &[Value] {
        let name = match self.api {
            Api::Responses => "input",
            Api::Gemini => "contents",
            Api::Chat | Api::Messages => "messages",
        };
        list(&self.body, name)
    }

    /// Reads a request; the inner error is what to answer instead.
    pub(super) fn read<R: BufRead, W: Write>(
        from: &mut R,
        to: &mut W,
    ) -> io::Result<Result<Self, Refusal>> {
        let mut head = from.take(MOST_HEAD);
        let mut line = String::new();
        head.read_line(&mut line)?;
        let mut words = line.split_whitespace();
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let (method, path) = (method.to_owned(), path.to_owned());
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            if head.read_line(&mut line)? == 0 {
                return Ok(Err((431, "the head is too long, or cut")));
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else {
                return Ok(Err((400, "a header without a colon")));
            };
            headers.push((name.trim().to_lowercase(), value.trim().to_owned()));
        }
        let header = |wanted: &str| {
            headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
        };
        let bare = path.split('?').next().unwrap_or("");
        let api = if bare.ends_with("/chat/completions") {
            Api::Chat
        } else if bare.ends_with("/responses") {
            Api::Responses
        } else if bare.ends_with("/messages") {
            Api::Messages
        } else if bare.ends_with(":generateContent") || bare.ends_with(":streamGenerateContent") {
            Api::Gemini
        } else {
            return Ok(Err((404, "there is nothing here")));
        };
        if method != "POST" {
            return Ok(Err((405, "only POST is understood")));
        }
        let Some(length) = header("content-length").and_then(|value| value.parse::<u64>().ok())
        else {
            return Ok(Err((411, "a body with its content-length is needed")));
        };
        if length > MOST_BODY {
            return Ok(Err((413, "the body is too long")));
        }
        if header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            to.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut bytes = Vec::new();
        from.take(length).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Ok(body) = serde_json::from_slice::<Value>(&bytes) else {
            return Ok(Err((400, "the body is not JSON")));
        };
        Ok(Ok(Self { number: 0, api, path, headers, body }))
    }
}

fn is(value: &Value, name: &str, wanted: &str) -> bool {
    value.get(name).and_then(Value::as_str) == Some(wanted)
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
