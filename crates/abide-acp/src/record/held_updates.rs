//! Updates whose texts come bit by bit: what may be the beginning of a secret is held back until more comes,
//! or nothing more.
//!
//! A tool's output grows from update to update, and so do the texts of a compaction and of a subagent. An
//! update is recorded at once without the end of such a text; what was held back and is not said again is
//! recorded with the end.

use std::collections::{HashMap, HashSet};

use abide::LaneId;
use abide::secrets::Redactor;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::bounded_map::BoundedMap;
use super::record_batch::{RecordBatch, UPDATE};
use super::redacted_text::TextProbe;
use super::replaced_text::ReplacedText;
use super::streamed_text::AppendedText;
use super::update::UpdateData;
use crate::protocol::AcpUpdate;

/// The most calls and messages whose texts are remembered.
const SUBJECTS: usize = 64;
/// The most texts of each.
const TEXTS: usize = 256;
/// The most bytes of what is held back of each, with what stands beside it. What is more is recorded at once.
const REST: usize = 1 << 20;
/// Members that the protocol gives a meaning: no text goes on in them.
const NAMES: &[&str] = &[
    "sessionUpdate",
    "toolCallId",
    "compactionId",
    "messageId",
    "sessionId",
    "terminalId",
    "terminal_id",
    "type",
    "kind",
    "status",
    "path",
    "uri",
    "mimeType",
];
/// Members of a call that are there as a whole when it begins.
const BEGINNING: &[&str] = &["title", "name", "rawInput", "locations"];
/// Members that say what an update is about.
const HEAD: &[&str] = &["sessionUpdate", "toolCallId", "compactionId", "messageId"];

/// Where in its course an update comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpdateStage {
    First,
    Later,
    /// Nothing follows.
    Last,
}

/// An update as it is recorded; nothing where that is as it came.
#[derive(Debug, Default)]
pub(super) struct PassedUpdate {
    /// While more may come.
    pub(super) shown: Option<Box<RawValue>>,
    /// If nothing more comes.
    pub(super) whole: Option<Box<RawValue>>,
}

/// What is remembered of a call or a message.
#[derive(Debug, Default)]
struct HeldUpdate {
    lane: Option<LaneId>,
    head: Map<String, Value>,
    /// Texts that take the place of each other, by their place in the update.
    replaced: HashMap<String, ReplacedText>,
    /// Texts that come in pieces, by their place.
    appended: HashMap<String, AppendedText>,
    /// The members with texts that were not recorded whole, as they were recorded; without what comes in
    /// pieces.
    members: Map<String, Value>,
}

/// The calls and messages of a session whose texts may go on.
#[derive(Debug)]
pub(super) struct HeldUpdates {
    probe: Option<TextProbe>,
    subjects: BoundedMap<HeldUpdate>,
}

/// A string in an update.
struct UpdateText<'u> {
    place: String,
    key: String,
    text: &'u str,
}

/// What was held back of the text at a place, oldest first.
type LeftText = (String, Vec<String>);

/// Whether the text at this place comes in pieces. Agents send a terminal's output so, in `_meta`.
fn is_in_pieces(place: &str) -> bool {
    place == CHUNK || place.ends_with("/terminal_output/data")
}

/// The place of a chunk's text.
const CHUNK: &str = "/content/text";

impl HeldUpdates {
    pub(super) fn new() -> Self {
        Self { probe: None, subjects: BoundedMap::new(SUBJECTS) }
    }

    /// Holds back what may be a secret that this redactor finds.
    pub(super) fn redact_with(&mut self, redactor: Option<Redactor>) {
        self.probe = redactor.map(TextProbe::new);
    }

    /// Takes an update about a call or a message. What was held back and does not go on in it is recorded
    /// before it.
    pub(super) fn pass(
        &mut self,
        subject: &str,
        lane: Option<&LaneId>,
        update: &AcpUpdate,
        stage: UpdateStage,
        batch: &mut RecordBatch,
    ) -> PassedUpdate {
        let Some(probe) = &self.probe else { return PassedUpdate::default() };
        let mut held = self.subjects.remove(subject).unwrap_or_default();
        if held.head.is_empty() {
            held.lane = lane.cloned();
            held.head = head_of(update.members());
        }
        let passed = held.pass(probe, update.members(), stage, batch);
        if stage == UpdateStage::Last {
            held.record_rest(batch);
        } else if let Some((_, mut oldest)) = self.subjects.insert(subject, held) {
            oldest.record_rest(batch);
        }
        passed
    }

    /// Records what was held back of a call or a message: nothing more comes.
    pub(super) fn end(&mut self, subject: &str, batch: &mut RecordBatch) {
        if let Some(mut held) = self.subjects.remove(subject) {
            held.record_rest(batch);
        }
    }

    /// Records what was held back of the other messages of a lane: one follows the other.
    pub(super) fn end_other_messages(
        &mut self,
        subject: &str,
        lane: Option<&LaneId>,
        batch: &mut RecordBatch,
    ) {
        self.end_where(
            |name, held| {
                name != subject
                    && held.lane.as_ref() == lane
                    && !held.head.contains_key("toolCallId")
            },
            batch,
        );
    }

    /// Records all that was held back.
    pub(super) fn end_all(&mut self, batch: &mut RecordBatch) {
        self.end_where(|_, _| true, batch);
    }

    fn end_where(&mut self, is_over: impl Fn(&str, &HeldUpdate) -> bool, batch: &mut RecordBatch) {
        let mut subjects = Vec::new();
        self.subjects.each(|subject, held| {
            if is_over(subject, held) {
                subjects.push(subject.to_owned());
            }
        });
        for subject in subjects {
            self.end(&subject, batch);
        }
    }
}

impl HeldUpdate {
    fn pass(
        &mut self,
        probe: &TextProbe,
        members: &Map<String, Value>,
        stage: UpdateStage,
        batch: &mut RecordBatch,
    ) -> PassedUpdate {
        let texts = update_texts(members);
        let mut left = self.left_behind(members, &texts);
        let (mut shown, mut whole) = (Vec::new(), Vec::new());
        for UpdateText { place, key, text } in &texts {
            if stage == UpdateStage::First && BEGINNING.contains(&member_at(place)) {
                continue;
            }
            let forms = if is_in_pieces(place) {
                let known = self.appended.entry(place.clone());
                known.or_insert_with(|| AppendedText::new(key)).take(probe, text)
            } else {
                self.replaced.entry(place.clone()).or_default().take(probe, key, text)
            };
            left.push((place.clone(), forms.left));
            if forms.shown != *text {
                shown.push((place.clone(), forms.shown));
            }
            if forms.whole != *text {
                whole.push((place.clone(), forms.whole));
            }
        }
        self.forget_some();
        let is_too_much = self.size(&texts) > REST || self.replaced.len() > TEXTS;
        if stage == UpdateStage::Last || is_too_much {
            // The last text at each place is whole in the update itself.
            for UpdateText { place, .. } in &texts {
                if let Some(text) = self.replaced.get_mut(place) {
                    left.push((place.clone(), text.release_earlier()));
                }
                if let Some(text) = self.appended.get_mut(place) {
                    text.release();
                }
            }
            shown.clone_from(&whole);
        }
        self.record(left, batch);
        if is_too_much {
            self.record_rest(batch);
            self.replaced.clear();
        }
        self.remember(members, &texts, &shown);
        PassedUpdate { shown: with_texts(members, shown), whole: with_texts(members, whole) }
    }

    /// Takes what was held back of texts that the next update leaves out: of those that come in pieces, and
    /// of those in a member that it names.
    fn left_behind(
        &mut self,
        members: &Map<String, Value>,
        next: &[UpdateText<'_>],
    ) -> Vec<LeftText> {
        let named: HashSet<String> = members.keys().map(|name| step_of(name)).collect();
        let next: HashSet<&str> = next.iter().map(|text| &*text.place).collect();
        let mut left = Vec::new();
        for (place, text) in &mut self.replaced {
            if text.is_held() && named.contains(member_at(place)) && !next.contains(&**place) {
                left.push((place.clone(), text.release()));
            }
        }
        for (place, text) in &mut self.appended {
            if text.is_held() && !next.contains(&**place) {
                left.push((place.clone(), text.release()));
            }
        }
        left
    }

    /// Forgets texts of which nothing waits if there are too many.
    fn forget_some(&mut self) {
        if self.replaced.len() > TEXTS {
            self.replaced.retain(|_, text| text.is_held());
        }
        if self.appended.len() > TEXTS {
            self.appended.retain(|_, text| text.is_held());
        }
    }

    fn is_held(&self, place: &str) -> bool {
        self.replaced.get(place).is_some_and(ReplacedText::is_held)
            || self.appended.get(place).is_some_and(AppendedText::is_held)
    }

    /// The bytes of what was held back, and of what stands beside it in this update.
    fn size(&self, texts: &[UpdateText<'_>]) -> usize {
        let held = self.held_members(texts);
        let members: usize = texts
            .iter()
            .filter(|text| held.contains(member_at(&text.place)) && !self.is_held(&text.place))
            .map(|text| text.text.len())
            .sum();
        let replaced: usize = self.replaced.values().map(ReplacedText::size).sum();
        let appended: usize = self.appended.values().map(AppendedText::size).sum();
        members + replaced + appended
    }

    /// The members of an update with texts that are not recorded whole.
    fn held_members<'t>(&self, texts: &'t [UpdateText<'_>]) -> HashSet<&'t str> {
        let held = texts.iter().filter(|text| self.is_held(&text.place));
        held.map(|text| member_at(&text.place)).collect()
    }

    /// Remembers the members of which something was held back, as they are recorded.
    fn remember(
        &mut self,
        members: &Map<String, Value>,
        texts: &[UpdateText<'_>],
        shown: &[(String, String)],
    ) {
        let held = self.held_members(texts);
        self.members.retain(|name, _| !members.contains_key(name));
        if held.is_empty() {
            return;
        }
        let mut kept = some_members(members, &held);
        for (place, text) in shown {
            put_text(&mut kept, place, text);
        }
        for text in texts.iter().filter(|text| is_in_pieces(&text.place)) {
            put_text(&mut kept, &text.place, "");
        }
        if let Value::Object(kept) = kept {
            self.members.extend(kept);
        }
    }

    /// Records texts that were held back: each in its member, as that was recorded.
    fn record(&self, left: Vec<LeftText>, batch: &mut RecordBatch) {
        let mut last = Vec::new();
        for (place, mut texts) in left {
            let Some(end) = texts.pop() else { continue };
            for text in texts {
                self.record_texts(&[(place.clone(), text)], batch);
            }
            last.push((place, end));
        }
        self.record_texts(&last, batch);
    }

    fn record_texts(&self, texts: &[(String, String)], batch: &mut RecordBatch) {
        let names = texts.iter().map(|(place, _)| member_at(place)).collect();
        let mut members = some_members(&self.members, &names);
        for (place, text) in texts {
            put_text(&mut members, place, text);
        }
        if let Value::Object(members) = members {
            record_members(&self.head, members, self.lane.as_ref(), batch);
        }
    }

    /// Records all that was held back.
    fn record_rest(&mut self, batch: &mut RecordBatch) {
        let replaced = self.replaced.iter_mut().map(|(place, text)| (place, text.release()));
        let appended = self.appended.iter_mut().map(|(place, text)| (place, text.release()));
        let left = replaced.chain(appended).map(|(place, texts)| (place.clone(), texts)).collect();
        self.record(left, batch);
        self.members.clear();
    }
}

/// The members with these names, as they are in places.
fn some_members(members: &Map<String, Value>, names: &HashSet<&str>) -> Value {
    let named = members.iter().filter(|(name, _)| names.contains(&*step_of(name)));
    Value::Object(named.map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn put_text(members: &mut Value, place: &str, new: &str) {
    if let Some(text) = members.pointer_mut(place) {
        *text = Value::from(new);
    }
}

/// A member's name in a place.
fn step_of(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Records an update of these members.
fn record_members(
    head: &Map<String, Value>,
    members: Map<String, Value>,
    lane: Option<&LaneId>,
    batch: &mut RecordBatch,
) {
    if members.is_empty() {
        return;
    }
    let mut update = head.clone();
    update.extend(members);
    if let Ok(update) = to_raw_value(&update) {
        batch.add(UPDATE, lane, &UpdateData { acp: &update });
    }
}

/// The members of a later update about the same.
fn head_of(members: &Map<String, Value>) -> Map<String, Value> {
    let later = |(name, value): (&String, &Value)| {
        let begins = name == "sessionUpdate" && value == "tool_call";
        (name.clone(), if begins { Value::from("tool_call_update") } else { value.clone() })
    };
    members.iter().filter(|(name, _)| HEAD.contains(&name.as_str())).map(later).collect()
}

/// The update with other texts at these places; nothing if there are none.
fn with_texts(members: &Map<String, Value>, texts: Vec<(String, String)>) -> Option<Box<RawValue>> {
    if texts.is_empty() {
        return None;
    }
    let mut update = Value::Object(members.clone());
    for (place, new) in texts {
        put_text(&mut update, &place, &new);
    }
    to_raw_value(&update).ok()
}

/// The member of the update in which a place is.
fn member_at(place: &str) -> &str {
    let inner = place.strip_prefix('/').unwrap_or(place);
    inner.split('/').next().unwrap_or(inner)
}

/// The strings of an update that may go on, in order.
fn update_texts(members: &Map<String, Value>) -> Vec<UpdateText<'_>> {
    let mut found = Vec::new();
    object_texts(members, "", &mut found);
    found
}

fn object_texts<'u>(members: &'u Map<String, Value>, place: &str, found: &mut Vec<UpdateText<'u>>) {
    let is_media = members.contains_key("mimeType");
    for (key, value) in members {
        let is_data = is_media && matches!(key.as_str(), "data" | "blob");
        if !is_data && !NAMES.contains(&key.as_str()) {
            value_texts(value, key, format!("{place}/{}", step_of(key)), found);
        }
    }
}

fn value_texts<'u>(value: &'u Value, key: &str, place: String, found: &mut Vec<UpdateText<'u>>) {
    match value {
        Value::String(text) => found.push(UpdateText { place, key: key.to_owned(), text }),
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                value_texts(item, "", format!("{place}/{number}"), found);
            }
        }
        Value::Object(members) => object_texts(members, &place, found),
        _ => {}
    }
}
