//! What the reader of a chat remembers from one record to the next.

use std::collections::VecDeque;

use abide_model::Usage;
use serde_json::{Value, json};

use crate::kept::short_hash::{SHORT_HASH_DIGITS, parse_short_hash, short_hash, short_hash_text};

/// The most records that are remembered. A rewind names one of them; a repetition nearly always the last.
const LINKS: usize = 256;
/// The most calls that are remembered, whose results come twice: with the call, and as a message.
const CALLS: usize = 128;
/// The most messages whose bytes and usage are remembered. Only the last one is written again.
const RECENT: usize = 8;
/// The longest id of a session that is remembered.
const SESSION_BYTES: usize = 256;

/// What is remembered of a chat: bounded, so that an old record may be forgotten.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct ChatMemory {
    /// The agent's id of the session.
    pub(super) session: Option<String>,
    /// The records of the conversation, in order, without those that were rewound.
    links: VecDeque<ChatLink>,
    /// How many messages before these were forgotten.
    pub(super) forgotten: usize,
    /// Calls whose results were reported.
    calls: VecDeque<u64>,
    recent: VecDeque<RecentMessage>,
    /// The chat was begun again, and none of its messages came since.
    pub(super) begun_again: bool,
}

/// A record of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChatLink {
    id: u64,
    /// A message was made of it.
    shown: bool,
}

/// A message that may be written once more.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct RecentMessage {
    id: u64,
    /// The hash of the message that was made of it.
    data: u64,
    /// The usage that was reported of it.
    usage: Usage,
}

impl ChatMemory {
    /// Reads a memory; what is not understood is forgotten.
    pub(super) fn parse(text: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(text) else { return Self::default() };
        let text_of = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut memory = Self::default();
        memory.set_session(text_of("session"));
        for link in chunks(text_of("links"), SHORT_HASH_DIGITS + 1) {
            let (id, shown) = link.split_at_checked(SHORT_HASH_DIGITS).unwrap_or_default();
            if let Some(id) = parse_short_hash(id) {
                memory.links.push_back(ChatLink { id, shown: shown == "m" });
            }
        }
        let calls = chunks(text_of("calls"), SHORT_HASH_DIGITS);
        memory.calls = calls.filter_map(parse_short_hash).collect();
        let forgotten = value.get("forgotten").and_then(Value::as_u64).unwrap_or(0);
        memory.forgotten = u32::try_from(forgotten).unwrap_or(0) as usize;
        memory.begun_again = value.get("begun_again").and_then(Value::as_bool).unwrap_or(false);
        let recent = value.get("recent").and_then(Value::as_array).into_iter().flatten();
        memory.recent = recent.filter_map(RecentMessage::parse).collect();
        memory
    }

    /// Its text form, a JSON object.
    pub(super) fn to_json(&self) -> String {
        let links = self.links.iter().map(|link| {
            let mark = if link.shown { "m" } else { "-" };
            format!("{}{mark}", short_hash_text(link.id))
        });
        let calls = self.calls.iter().map(|call| short_hash_text(*call));
        json!({
            "session": self.session,
            "links": links.collect::<String>(),
            "forgotten": self.forgotten,
            "calls": calls.collect::<String>(),
            "recent": self.recent.iter().map(RecentMessage::to_value).collect::<Vec<_>>(),
            "begun_again": self.begun_again,
        })
        .to_string()
    }

    pub(super) fn set_session(&mut self, id: &str) {
        if !id.is_empty() && id.len() <= SESSION_BYTES {
            self.session = Some(id.to_owned());
        }
    }

    /// Is a record with this id in the conversation?
    pub(super) fn knows(&self, id: &str) -> bool {
        self.place(id).is_some()
    }

    fn place(&self, id: &str) -> Option<usize> {
        let id = short_hash(id);
        self.links.iter().position(|link| link.id == id)
    }

    /// Adds a record to the end of the conversation, or marks one that is in it. Was a message made of
    /// it before?
    pub(super) fn add(&mut self, id: &str, shown: bool) -> bool {
        let id = short_hash(id);
        if let Some(link) = self.links.iter_mut().find(|link| link.id == id) {
            let before = link.shown;
            link.shown |= shown;
            return before;
        }
        self.links.push_back(ChatLink { id, shown });
        if self.links.len() > LINKS {
            let first = self.links.pop_front();
            let gone = usize::from(first.is_some_and(|link| link.shown));
            self.forgotten = self.forgotten.saturating_add(gone);
        }
        false
    }

    /// Drops this record and all behind it; all if it is not known.
    pub(super) fn drop_from(&mut self, id: &str) {
        let place = self.place(id).unwrap_or(0);
        self.links.truncate(place);
    }

    /// Drops all behind the first `count` messages.
    pub(super) fn keep_messages(&mut self, count: usize) {
        if count < self.forgotten {
            self.forgotten = 0;
            self.links.clear();
            return;
        }
        let mut shown = self.forgotten;
        let end = self.links.iter().position(|link| {
            let over = link.shown && shown == count;
            shown += usize::from(link.shown);
            over
        });
        self.links.truncate(end.unwrap_or(self.links.len()));
    }

    /// The number of messages of the conversation.
    pub(super) fn messages(&self) -> usize {
        self.forgotten + self.links.iter().filter(|link| link.shown).count()
    }

    /// With how many of these messages the conversation begins. Those that were forgotten are taken
    /// for the same.
    pub(super) fn common(&self, ids: &[&str]) -> usize {
        if ids.len() < self.forgotten {
            return 0;
        }
        let shown = self.links.iter().filter(|link| link.shown);
        let behind = ids.iter().skip(self.forgotten).map(|id| short_hash(id));
        self.forgotten + shown.zip(behind).take_while(|(link, id)| link.id == *id).count()
    }

    /// Remembers that the result of a call was reported. Is it new?
    pub(super) fn report_call(&mut self, call: &str) -> bool {
        let call = short_hash(call);
        if self.calls.contains(&call) {
            return false;
        }
        self.calls.push_back(call);
        if self.calls.len() > CALLS {
            self.calls.pop_front();
        }
        true
    }

    /// Remembers the message that was made of a record. Is it another than before?
    pub(super) fn report_message(&mut self, id: &str, data: &str) -> bool {
        let data = short_hash(data);
        self.with_recent(id, |recent| std::mem::replace(&mut recent.data, data) != data)
    }

    /// Remembers the usage of a message, and gives what it was before.
    pub(super) fn report_usage(&mut self, id: &str, usage: &Usage) -> Usage {
        self.with_recent(id, |recent| std::mem::replace(&mut recent.usage, usage.clone()))
    }

    fn with_recent<T>(&mut self, id: &str, change: impl FnOnce(&mut RecentMessage) -> T) -> T {
        let id = short_hash(id);
        let place = self.recent.iter().position(|recent| recent.id == id);
        let found = place.and_then(|place| self.recent.remove(place));
        let mut recent = found.unwrap_or(RecentMessage { id, ..RecentMessage::default() });
        let changed = change(&mut recent);
        self.recent.push_front(recent);
        self.recent.truncate(RECENT);
        changed
    }
}

impl RecentMessage {
    fn parse(value: &Value) -> Option<Self> {
        let hash = |name: &str| parse_short_hash(value.get(name)?.as_str()?);
        let number = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
        let usage = Usage {
            input_tokens: number("input"),
            output_tokens: number("output"),
            cache_read_tokens: number("cached"),
            reasoning_tokens: number("thoughts"),
            ..Usage::default()
        };
        Some(Self { id: hash("id")?, data: hash("data")?, usage })
    }

    fn to_value(&self) -> Value {
        json!({
            "id": short_hash_text(self.id),
            "data": short_hash_text(self.data),
            "input": self.usage.input_tokens,
            "output": self.usage.output_tokens,
            "cached": self.usage.cache_read_tokens,
            "thoughts": self.usage.reasoning_tokens,
        })
    }
}

/// The pieces of this length that a text consists of. A text that is not ASCII has none.
fn chunks(text: &str, length: usize) -> impl Iterator<Item = &str> {
    let text = if text.is_ascii() { text } else { "" };
    (0..text.len()).step_by(length).filter_map(move |at| text.get(at..at + length))
}
