//! Compares an agent's replay with the record.
//!
//! Messages and tool calls are compared. Consecutive chunks of one speaker make one message,
//! whatever else comes between them, and white space does not count: agents split and join their
//! texts freely. Of what has ended, only hashes are kept. Where secrets are recorded as marks, they are marks on both
//! sides.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use abide::event::ObjectHash;
use abide::secrets::{Redactor, unscanned_mark};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::ReplayedUpdate;
use crate::record::{UpdateHead, UpdateParams, parse_update_object, recorded_name};

/// The largest table used to find the best match.
const TABLE: usize = 1 << 20;

/// Compares an agent's replay with the record.
#[derive(Debug, Default)]
pub struct ReplayCheck {
    recorded: CheckSide,
    replayed: CheckSide,
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayCheckReport {
    /// Messages and calls that both have.
    pub same: usize,
    /// Recorded ones missing in the replay before the last common one.
    pub lacking: usize,
    /// Replayed ones that are not recorded.
    pub foreign: usize,
    /// If the replay lacks the end of the record: how many recorded updates come before that end.
    pub tail: Option<usize>,
}

/// A message or a call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CheckItem {
    key: [u8; 16],
    /// The update that it begins with.
    first: usize,
    /// The bytes of a message; 0 for a call.
    length: usize,
    /// Hashes of a message's first 1, 2, 4, 8 … bytes, speaker included.
    starts: Vec<[u8; 8]>,
}

/// One of the two sides.
#[derive(Debug, Default)]
struct CheckSide {
    updates: usize,
    items: Vec<CheckItem>,
    calls: HashSet<[u8; 16]>,
    /// The update that ends each ended call.
    ends: HashMap<[u8; 16], usize>,
    open: Option<OpenText>,
    /// Thoughts, which agents need not keep: the update that each begins with, and its hash.
    thoughts: Vec<(usize, [u8; 16])>,
    thought: Option<OpenText>,
    /// Another update has come since the last chunk of a message.
    is_apart: bool,
    redactor: Option<Redactor>,
}

/// A message that may continue.
#[derive(Debug, Clone)]
struct OpenText {
    first: usize,
    /// The speaker; nothing for a thought.
    speaker: &'static str,
    text: String,
    /// The id of its last message, in JSON.
    message: Option<String>,
}

impl OpenText {
    fn new(first: usize, speaker: &'static str) -> Self {
        Self { first, speaker, text: String::new(), message: None }
    }

    /// Adds the text of a chunk. No secret goes from one message to the next.
    fn add(&mut self, text: &str, message: Option<&RawValue>, is_apart: bool) {
        let message = message.map(RawValue::get);
        if !self.text.is_empty() && (is_apart || self.message.as_deref() != message) {
            self.text.push('\n');
        }
        self.message = message.map(ToOwned::to_owned);
        self.text.push_str(text);
    }

    /// The speaker, then the text as it is recorded, without white space.
    fn compared(&self, redactor: Option<&Redactor>) -> String {
        let redacted = redactor.map(|redactor| match redactor.redact_text(&self.text) {
            Ok(redacted) => redacted.into_text(),
            Err(overrun) => unscanned_mark(overrun.bytes).into(),
        });
        let text = redacted.as_deref().unwrap_or(&self.text);
        std::iter::once(self.speaker).chain(text.split_whitespace()).collect()
    }
}

impl ReplayCheck {
    /// A comparison with what this redactor has left of secrets.
    #[must_use]
    pub fn redacted_by(redactor: Option<Redactor>) -> Self {
        let side = || CheckSide { redactor: redactor.clone(), ..CheckSide::default() };
        Self { recorded: side(), replayed: side() }
    }

    /// Adds the next recorded update.
    pub fn recorded(&mut self, update: &ReplayedUpdate) {
        self.recorded.update(&update.update);
    }

    /// Adds the next update that the agent replays: the params of its `session/update`.
    pub fn replayed(&mut self, params: &RawValue) {
        if let Some(params) = parse_update_object::<UpdateParams<'_>>(params) {
            self.replayed.update(params.update.get());
        }
    }

    /// The result so far.
    #[must_use]
    pub fn finish(&self) -> ReplayCheckReport {
        let (recorded, replayed) = (self.recorded.all(), self.replayed.all());
        let start = equal_check_start(&recorded, &replayed);
        // The agent lacks only the end. Its last, partial message may equal a later one, but is not
        // that.
        if let (Some(tail), Some([end])) = (recorded.get(start), replayed.get(start..))
            && end.begins(tail)
        {
            let last = start.checked_sub(1).and_then(|at| recorded.get(at));
            let thought = last.and_then(|last| self.lacking_thought(last));
            let tail = thought.map_or(tail.first, |at| at.min(tail.first));
            return ReplayCheckReport {
                same: start,
                tail: Some(tail),
                ..ReplayCheckReport::default()
            };
        }
        let matches = check_matches(start, &recorded, &replayed);
        let same = matches.len();
        let last = matches.last();
        let next = last.map_or(0, |(recorded, _)| recorded + 1);
        let mut foreign = replayed.len() - same;
        let tail = recorded.get(next);
        let lacking_end = last.and_then(|(at, _)| self.lacking_end(recorded.get(*at)?));
        // The agent's last message may be the beginning of the next recorded one.
        let rest = replayed.get(last.map_or(0, |(_, replayed)| replayed + 1)..);
        if let (Some(tail), Some([.., end])) = (tail, rest)
            && end.begins(tail)
        {
            foreign -= 1;
        }
        let thought = last.and_then(|(at, _)| self.lacking_thought(recorded.get(*at)?));
        let tail = tail.map(|item| item.first).into_iter().chain(lacking_end).chain(thought).min();
        ReplayCheckReport { same, lacking: next - same, foreign, tail }
    }

    /// The first recorded thought after the last common item that the agent lacks.
    fn lacking_thought(&self, last: &CheckItem) -> Option<usize> {
        let had: HashSet<[u8; 16]> =
            self.replayed.thoughts().into_iter().map(|(_, key)| key).collect();
        let mut thoughts = self.recorded.thoughts().into_iter();
        let lacking = thoughts.find(|(at, key)| *at > last.first && !had.contains(key));
        lacking.map(|(at, _)| at)
    }

    /// The first recorded end of a call after the last common item, if the agent has the call but
    /// not its end.
    fn lacking_end(&self, last: &CheckItem) -> Option<usize> {
        let ends = self.recorded.ends.iter();
        let lacking = ends.filter(|(call, at)| {
            **at > last.first
                && self.replayed.calls.contains(*call)
                && !self.replayed.ends.contains_key(*call)
        });
        lacking.map(|(_, at)| *at).min()
    }
}

impl CheckItem {
    fn message(open: &OpenText, redactor: Option<&Redactor>) -> Option<Self> {
        let compared = open.compared(redactor);
        let bytes = compared.as_bytes();
        // The speaker alone has no text.
        if bytes.len() <= 1 {
            return None;
        }
        let powers = (0..usize::BITS).map(|bit| 1_usize << bit);
        let starts = powers.map_while(|length| bytes.get(..length).map(short_check_hash)).collect();
        Some(Self { key: check_key(bytes), first: open.first, length: bytes.len(), starts })
    }

    /// Whether this is the beginning of that message, judging by the hashes.
    fn begins(&self, whole: &Self) -> bool {
        let starts = whole.starts.get(..self.starts.len());
        self.length > 0 && self.length < whole.length && starts == Some(&self.starts)
    }
}

fn check_key(bytes: &[u8]) -> [u8; 16] {
    let mut key = [0; 16];
    key.iter_mut().zip(ObjectHash::of(bytes).0).for_each(|(to, from)| *to = from);
    key
}

fn short_check_hash(bytes: &[u8]) -> [u8; 8] {
    let mut short = [0; 8];
    short.iter_mut().zip(ObjectHash::of(bytes).0).for_each(|(to, from)| *to = from);
    short
}

impl CheckSide {
    fn update(&mut self, json: &str) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ReplayedCall<'a> {
            #[serde(borrow)]
            tool_call_id: Cow<'a, str>,
            #[serde(borrow, default)]
            status: Option<Cow<'a, str>>,
        }
        #[derive(Deserialize)]
        struct ChunkText<'a> {
            #[serde(borrow)]
            text: Cow<'a, str>,
        }
        let at = self.updates;
        self.updates += 1;
        let Ok(head) = serde_json::from_str::<UpdateHead<'_>>(json) else { return };
        if head.session_update == "agent_thought_chunk" {
            let content = head.content.and_then(|raw| serde_json::from_str(raw.get()).ok());
            if let Some(ChunkText { text }) = content {
                let thought = self.thought.get_or_insert_with(|| OpenText::new(at, ""));
                thought.add(&text, head.message_id, false);
            }
            self.is_apart = true;
            return;
        }
        if let Some(open) = self.thought.take() {
            self.thoughts.push(self.thought_key(&open));
        }
        let speaker = match &*head.session_update {
            "agent_message_chunk" => "a",
            "user_message_chunk" => "u",
            "tool_call" | "tool_call_update" => {
                let Ok(call) = serde_json::from_str::<ReplayedCall<'_>>(json) else { return };
                let key = check_key(format!("c{}", recorded_name(&call.tool_call_id)).as_bytes());
                if self.calls.insert(key) {
                    self.close();
                    self.items.push(CheckItem { key, first: at, length: 0, starts: Vec::new() });
                }
                if matches!(call.status.as_deref(), Some("completed" | "failed")) {
                    self.ends.entry(key).or_insert(at);
                }
                self.is_apart = true;
                return;
            }
            // These come at any moment, also within a message.
            "usage_update" | "available_commands_update" | "session_info_update" => return,
            _ => {
                self.is_apart = true;
                return;
            }
        };
        let content = head.content.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let Some(ChunkText { text }) = content else { return };
        if self.open.as_ref().is_none_or(|open| open.speaker != speaker) {
            self.close();
        }
        let is_apart = std::mem::take(&mut self.is_apart);
        let open = self.open.get_or_insert_with(|| OpenText::new(at, speaker));
        open.add(&text, head.message_id, is_apart);
    }

    /// Where a thought begins, and its hash.
    fn thought_key(&self, open: &OpenText) -> (usize, [u8; 16]) {
        (open.first, check_key(open.compared(self.redactor.as_ref()).as_bytes()))
    }

    fn thoughts(&self) -> Vec<(usize, [u8; 16])> {
        let open = self.thought.as_ref().map(|open| self.thought_key(open));
        self.thoughts.iter().copied().chain(open).collect()
    }

    fn close(&mut self) {
        let open = self.open.take();
        self.items.extend(open.and_then(|open| CheckItem::message(&open, self.redactor.as_ref())));
    }

    fn all(&self) -> Vec<CheckItem> {
        let redactor = self.redactor.as_ref();
        let open = self.open.as_ref().and_then(|open| CheckItem::message(open, redactor));
        self.items.iter().cloned().chain(open).collect()
    }
}

/// The number of equal items at the start.
fn equal_check_start(recorded: &[CheckItem], replayed: &[CheckItem]) -> usize {
    let equal = |(a, b): &(&CheckItem, &CheckItem)| a.key == b.key;
    recorded.iter().zip(replayed).take_while(equal).count()
}

/// Pairs of equal items in order, with `start` equal items at the beginning; among equally good
/// matches, the one that ends earlier.
fn check_matches(
    start: usize,
    recorded: &[CheckItem],
    replayed: &[CheckItem],
) -> Vec<(usize, usize)> {
    let (a, b) =
        (recorded.get(start..).unwrap_or_default(), replayed.get(start..).unwrap_or_default());
    let rest = if a.len().saturating_mul(b.len()) <= TABLE {
        longest_check_match(a, b)
    } else {
        next_check_matches(a, b)
    };
    let rest = rest.into_iter().map(|(a, b)| (start + a, start + b));
    (0..start).map(|at| (at, at)).chain(rest).collect()
}

/// The longest common subsequence.
fn longest_check_match(a: &[CheckItem], b: &[CheckItem]) -> Vec<(usize, usize)> {
    let width = b.len() + 1;
    // For each pair of positions, the length of the common rest.
    let mut common = vec![0_u32; (a.len() + 1) * width];
    let at = |common: &[u32], i: usize, j: usize| common.get(i * width + j).copied().unwrap_or(0);
    for (i, x) in a.iter().enumerate().rev() {
        for (j, y) in b.iter().enumerate().rev() {
            let best = if x.key == y.key {
                at(&common, i + 1, j + 1) + 1
            } else {
                at(&common, i + 1, j).max(at(&common, i, j + 1))
            };
            if let Some(cell) = common.get_mut(i * width + j) {
                *cell = best;
            }
        }
    }
    let mut found = Vec::new();
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        if x.key == y.key {
            found.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if at(&common, i, j + 1) >= at(&common, i + 1, j) {
            j += 1;
        } else {
            i += 1;
        }
    }
    found
}

/// Matches each of `b` with the next equal one of `a`: for inputs too long for the table.
fn next_check_matches(a: &[CheckItem], b: &[CheckItem]) -> Vec<(usize, usize)> {
    let mut places: HashMap<[u8; 16], Vec<usize>> = HashMap::new();
    for (i, item) in a.iter().enumerate() {
        places.entry(item.key).or_default().push(i);
    }
    let mut found = Vec::new();
    let mut from = 0;
    for (j, item) in b.iter().enumerate() {
        let Some(places) = places.get(&item.key) else { continue };
        let behind = places.partition_point(|place| *place < from);
        if let Some(place) = places.get(behind) {
            found.push((*place, j));
            from = place + 1;
        }
    }
    found
}
