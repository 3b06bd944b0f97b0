//! Messages that hooks of an agent told before the agent wrote them to its file.

use abide::{LaneId, Seq};
use abide_model::message::{MessagePiece, PieceContent, Speaker};
use abide_model::{Event, Kind, RecordedMessage};
use serde::{Deserialize, Serialize};

/// A name that is in every such message, to find them without parsing the others.
const MARK: &str = "\"provisional\"";

/// How much of a prompt must stand in the message that an agent makes of it, in characters.
const START: usize = 120;

/// A message that a hook told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProvisionalMessage {
    /// Its event.
    pub(crate) seq: Seq,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lane: Option<LaneId>,
    /// The model says it.
    by_model: bool,
    /// The hash of its text.
    text: String,
    /// How its text begins.
    #[serde(default)]
    start: String,
    /// The call that it makes or answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<String>,
}

impl ProvisionalMessage {
    /// The provisional message that an event records, if it is one.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let data = event.data.as_ref().filter(|_| event.kind == Kind::MESSAGE_ADDED)?;
        memchr::memmem::find(data.as_str().as_bytes(), MARK.as_bytes())?;
        let message = RecordedMessage::of(data).filter(|message| message.marks.provisional)?;
        Some(Self {
            seq: event.seq,
            lane: event.lane.clone(),
            by_model: message.speaker() == Speaker::Assistant,
            text: text_hash(&message),
            start: text_of(&message).chars().take(START).collect(),
            call: calls_of(&message).next(),
        })
    }

    /// Is it of the same lane and by the same speaker as this message of a file, and no call?
    pub(crate) fn is_beside(&self, message: &RecordedMessage, lane: Option<&LaneId>) -> bool {
        self.lane.as_ref() == lane
            && self.by_model == (message.speaker() == Speaker::Assistant)
            && self.call.is_none()
    }

    /// Does this message of a file say the same? Agents add to what a person writes: the name of a command,
    /// the files that it mentions.
    pub(crate) fn is_told_by(&self, message: &RecordedMessage, lane: Option<&LaneId>) -> bool {
        if let Some(call) = &self.call {
            let is_lane = self.lane.as_ref() == lane;
            let by_model = message.speaker() == Speaker::Assistant;
            return is_lane
                && self.by_model == by_model
                && calls_of(message).any(|other| other == *call);
        }
        if !self.is_beside(message, lane) || calls_of(message).next().is_some() {
            return false;
        }
        text_hash(message) == self.text
            || (!self.by_model && !self.start.is_empty() && text_of(message).contains(&self.start))
    }
}

/// The calls that a message makes or answers.
fn calls_of(message: &RecordedMessage) -> impl Iterator<Item = String> {
    message.pieces.iter().filter_map(|piece| {
        let id = piece.call().map(|call| call.id.as_str());
        let id = id.or_else(|| piece.result().map(|result| result.id.as_str()))?;
        Some(id.to_owned())
    })
}

/// The hash of the texts of a message, whatever the white space around them.
fn text_hash(message: &RecordedMessage) -> String {
    blake3::hash(text_of(message).as_bytes()).to_hex().as_str().to_owned()
}

/// The texts of a message without the white space around them.
fn text_of(message: &RecordedMessage) -> String {
    let text = |piece: &MessagePiece| match &piece.sort {
        PieceContent::Text(text) => Some(text.decoded().trim().to_owned()),
        _ => None,
    };
    let texts: Vec<String> =
        message.pieces.iter().filter_map(text).filter(|text| !text.is_empty()).collect();
    texts.join("\n")
}
