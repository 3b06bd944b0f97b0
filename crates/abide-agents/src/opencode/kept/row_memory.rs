//! What the reader of rows remembers from one row to the next.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use crate::kept::short_hash::{parse_short_hash, short_hash, short_hash_text};

/// The most parts that are remembered. Their ids grow, and those that change are among the last, but for
/// outputs that the agent strikes out later.
const PARTS: usize = 64;
/// The most messages that are remembered.
const MESSAGES: usize = 32;
/// The most files of one message that are remembered.
const FILES: usize = 32;
/// The longest id that is remembered.
const ID_BYTES: usize = 64;

/// What is remembered of a session's rows: bounded, so that an old row may be forgotten.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct RowMemory {
    /// Parts that were read, by their ids.
    parts: BTreeMap<String, PartMark>,
    /// Parts up to this id were read and forgotten.
    forgotten: String,
    /// The messages of the conversation, in order.
    messages: VecDeque<String>,
    /// Messages whose error was reported.
    errors: VecDeque<u64>,
    /// The message whose calls wrote to files, and these files.
    writer: u64,
    files: VecDeque<u64>,
}

/// What was reported of a part.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartMark {
    /// The hash of the message that was made of it; 0 if none was.
    pub(super) data: u64,
    /// Its call has ended.
    pub(super) finished: bool,
}

impl RowMemory {
    /// Reads a memory; what is not understood is forgotten.
    pub(super) fn parse(text: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(text) else { return Self::default() };
        let text_of = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let texts = |name: &str| {
            let all = value.get(name).and_then(Value::as_array).into_iter().flatten();
            all.filter_map(Value::as_str)
        };
        let mut memory = Self { forgotten: text_of("forgotten").to_owned(), ..Self::default() };
        let parts = value.get("parts").and_then(Value::as_object).into_iter().flatten();
        for (id, mark) in parts {
            let mark = mark.as_str().unwrap_or_default();
            let (data, finished) = match mark.strip_suffix('!') {
                Some(data) => (data, true),
                None => (mark, false),
            };
            let data = parse_short_hash(data).unwrap_or(0);
            memory.parts.insert(id.clone(), PartMark { data, finished });
        }
        memory.messages = texts("messages").map(str::to_owned).collect();
        memory.errors = texts("errors").filter_map(parse_short_hash).collect();
        memory.writer = parse_short_hash(text_of("writer")).unwrap_or(0);
        memory.files = texts("files").filter_map(parse_short_hash).collect();
        memory
    }

    /// Its text form, a JSON object.
    pub(super) fn to_json(&self) -> String {
        let hashes = |all: &VecDeque<u64>| -> Vec<String> {
            all.iter().map(|hash| short_hash_text(*hash)).collect()
        };
        let parts = self.parts.iter().map(|(id, mark)| {
            let end = if mark.finished { "!" } else { "" };
            (id.clone(), Value::from(format!("{}{end}", short_hash_text(mark.data))))
        });
        json!({
            "parts": parts.collect::<serde_json::Map<_, _>>(),
            "forgotten": self.forgotten,
            "messages": self.messages,
            "errors": hashes(&self.errors),
            "writer": short_hash_text(self.writer),
            "files": hashes(&self.files),
        })
        .to_string()
    }

    /// What was reported of a part; `None` if it was never read. Of a part that was forgotten, all was.
    pub(super) fn part(&self, id: &str) -> Option<PartMark> {
        let forgotten = || PartMark { data: u64::MAX, finished: true };
        let known = self.parts.get(id).copied();
        known.or_else(|| (id <= self.forgotten.as_str()).then(forgotten))
    }

    pub(super) fn set_part(&mut self, id: &str, mark: PartMark) {
        // A part that was forgotten would be so again at once.
        if id.len() > ID_BYTES || id <= self.forgotten.as_str() {
            return;
        }
        self.parts.insert(id.to_owned(), mark);
        if self.parts.len() > PARTS {
            self.forgotten = self.parts.pop_first().map(|(id, _)| id).unwrap_or_default();
        }
    }

    pub(super) fn knows_message(&self, id: &str) -> bool {
        self.messages.iter().any(|known| known == id)
            || self.messages.front().is_some_and(|first| id < first.as_str())
    }

    /// Adds a message that stands behind `after`. Gives the first of the messages that stood there before,
    /// which the agent has deleted.
    pub(super) fn add_message(&mut self, id: &str, after: Option<&str>) -> Option<String> {
        let is_new = self.messages.back().is_none_or(|last| id > last.as_str());
        if !is_new || id.len() > ID_BYTES {
            return None;
        }
        let place = match after {
            Some(after) => self.messages.iter().position(|known| known == after).map(|at| at + 1),
            None => Some(0),
        };
        let gone = place.and_then(|place| self.messages.get(place).cloned());
        if let Some(place) = place {
            self.messages.truncate(place);
        }
        self.messages.push_back(id.to_owned());
        if self.messages.len() > MESSAGES {
            self.messages.pop_front();
        }
        gone
    }

    /// Remembers that the error of a message was reported. Is it new?
    pub(super) fn report_error(&mut self, message: &str) -> bool {
        add_hash(&mut self.errors, short_hash(message), MESSAGES)
    }

    /// Remembers that a file was written in a message. Is it new?
    pub(super) fn report_file(&mut self, message: &str, path: &str) -> bool {
        let message = short_hash(message);
        if self.writer != message {
            self.writer = message;
            self.files.clear();
        }
        add_hash(&mut self.files, short_hash(path), FILES)
    }
}

fn add_hash(all: &mut VecDeque<u64>, hash: u64, most: usize) -> bool {
    if all.contains(&hash) {
        return false;
    }
    all.push_back(hash);
    if all.len() > most {
        all.pop_front();
    }
    true
}
