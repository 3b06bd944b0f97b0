//! Blocks: the chunks of a message, with at most one open block in each lane.
//!
//! Text is collected with its escapes and never decoded, so a character split over two chunks is
//! joined again. Where a long message is cut in two events, the end of the first moves to the second if
//! it may be the beginning of a secret.

use std::borrow::Cow;

use abide::{Kind, LaneId, Payload, event::EventLimits, secrets::Redactor};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::record_batch::RecordBatch;

/// The most bytes of a message collected before it is recorded.
const BLOCK: usize = 256 << 10;
/// The most lanes with an open block.
const LANES: usize = 64;

/// Who a chunk is from, and whether it is a thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkKind {
    User,
    Agent,
    Thought,
}

impl ChunkKind {
    /// The kind for this name of an update.
    pub(super) fn of(update: &str) -> Option<Self> {
        match update {
            "agent_message_chunk" => Some(Self::Agent),
            "agent_thought_chunk" => Some(Self::Thought),
            "user_message_chunk" => Some(Self::User),
            _ => None,
        }
    }
}

/// The content of a chunk. Borrowed throughout, since chunks are frequent.
#[derive(Deserialize)]
struct AcpChunk<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

#[derive(Debug)]
enum BlockPiece {
    /// The inside of a JSON string.
    Text(String),
    /// A content block that is not plain text.
    Verbatim(Box<RawValue>),
}

#[derive(Debug)]
struct ChunkBlock {
    lane: Option<LaneId>,
    sort: ChunkKind,
    /// JSON.
    message: Option<Box<str>>,
    pieces: Vec<BlockPiece>,
    bytes: usize,
}

/// Whether the message is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageEnd {
    Whole,
    Partial,
}

/// The open blocks, oldest first.
#[derive(Debug, Default)]
pub(super) struct ChunkBlocks {
    open: Vec<ChunkBlock>,
    redactor: Option<Redactor>,
}

impl ChunkBlocks {
    /// Cuts no secret in two that this redactor finds.
    pub(super) fn redact_with(&mut self, redactor: Option<Redactor>) {
        self.redactor = redactor;
    }

    /// Adds a chunk, and records the blocks that it ends. Returns whether it was a chunk.
    pub(super) fn chunk(
        &mut self,
        sort: ChunkKind,
        lane: Option<&LaneId>,
        message: Option<&RawValue>,
        content: &RawValue,
        batch: &mut RecordBatch,
    ) -> bool {
        let message = message.map(RawValue::get).filter(|id| id.starts_with('"'));
        let Ok(chunk) = serde_json::from_str::<AcpChunk<'_>>(content.get()) else { return false };
        let plain =
            chunk.annotations.is_none() && chunk.meta.is_none() || sort == ChunkKind::Thought;
        let text = chunk.text.map(RawValue::get).filter(|_| chunk.r#type == "text" && plain);
        let text = text.and_then(|json| json.strip_prefix('"')?.strip_suffix('"'));
        let more = text.map_or(content.get().len(), str::len);
        let mut at = self.open.iter().position(|open| open.lane.as_ref() == lane);
        if let Some(open) = at.and_then(|at| self.open.get(at)) {
            let same = open.sort == sort && open.message.as_deref() == message;
            if !same {
                self.end(lane, MessageEnd::Whole, batch);
            } else if open.bytes.saturating_add(more) > BLOCK {
                self.cut(lane, batch);
            }
            at = self.open.iter().position(|open| open.lane.as_ref() == lane);
        }
        if at.is_none() {
            if self.open.len() >= LANES {
                self.open.remove(0).record(MessageEnd::Whole, batch);
            }
            self.open.push(ChunkBlock {
                lane: lane.cloned(),
                sort,
                message: message.map(Into::into),
                pieces: Vec::new(),
                bytes: 0,
            });
        }
        let last = self.open.len().saturating_sub(1);
        let Some(open) = self.open.get_mut(at.unwrap_or(last)) else { return false };
        open.bytes = open.bytes.saturating_add(more);
        match (text, open.pieces.last_mut()) {
            (Some(text), Some(BlockPiece::Text(so_far))) => so_far.push_str(text),
            (Some(text), _) => open.pieces.push(BlockPiece::Text(text.to_owned())),
            (None, _) => open.pieces.push(BlockPiece::Verbatim(content.to_owned())),
        }
        if open.bytes >= BLOCK {
            self.cut(lane, batch);
        }
        true
    }

    /// Records the open block of a lane, which goes on, up to where no secret is cut.
    fn cut(&mut self, lane: Option<&LaneId>, batch: &mut RecordBatch) {
        let Some(at) = self.open.iter().position(|open| open.lane.as_ref() == lane) else { return };
        let mut full = self.open.remove(at);
        let rest = self.redactor.as_ref().and_then(|redactor| full.cut_off_end(redactor));
        full.record(MessageEnd::Whole, batch);
        self.open.extend(rest);
    }

    /// Records the open block of a lane.
    pub(super) fn end(&mut self, lane: Option<&LaneId>, end: MessageEnd, batch: &mut RecordBatch) {
        if let Some(at) = self.open.iter().position(|open| open.lane.as_ref() == lane) {
            self.open.remove(at).record(end, batch);
        }
    }

    /// Records all open blocks.
    pub(super) fn end_all(&mut self, end: MessageEnd, batch: &mut RecordBatch) {
        for open in self.open.drain(..) {
            open.record(end, batch);
        }
    }
}

impl ChunkBlock {
    /// Takes the end that may be the beginning of a secret: it begins the block that follows.
    fn cut_off_end(&mut self, redactor: &Redactor) -> Option<Self> {
        let Some(BlockPiece::Text(text)) = self.pieces.last_mut() else { return None };
        let border = redactor.json_string_border(text);
        // A text without a border is no secret either.
        if border == 0 || border >= text.len() || !text.is_char_boundary(border) {
            return None;
        }
        let rest = text.split_off(border);
        self.bytes = self.bytes.saturating_sub(rest.len());
        Some(Self {
            lane: self.lane.clone(),
            sort: self.sort,
            message: self.message.clone(),
            bytes: rest.len(),
            pieces: vec![BlockPiece::Text(rest)],
        })
    }

    fn record(self, end: MessageEnd, batch: &mut RecordBatch) {
        let silent =
            |piece: &BlockPiece| matches!(piece, BlockPiece::Text(text) if text.is_empty());
        if self.pieces.iter().all(silent) {
            return;
        }
        let (role, key) = match self.sort {
            ChunkKind::User => ("user", "text"),
            ChunkKind::Agent => ("assistant", "text"),
            ChunkKind::Thought => ("assistant", "thinking"),
        };
        let mut data = String::with_capacity(self.bytes + 128);
        data.push_str(&format!(r#"{{"role":"{role}","content":["#));
        let mut other_thought = false;
        for (number, piece) in self.pieces.iter().enumerate() {
            if number > 0 {
                data.push(',');
            }
            match piece {
                BlockPiece::Text(text) => {
                    data.push_str(&format!(r#"{{"type":"{key}","{key}":""#));
                    data.push_str(text);
                    data.push_str("\"}");
                }
                BlockPiece::Verbatim(block) => {
                    other_thought |= self.sort == ChunkKind::Thought;
                    data.push_str(block.get());
                }
            }
        }
        data.push(']');
        // A thought that is not text needs a mark: its block looks like any other.
        let thought = other_thought.then_some(r#""sessionUpdate":"agent_thought_chunk""#);
        let message = self.message.map(|id| format!(r#""messageId":{id}"#));
        let marks: Vec<_> = [message.as_deref(), thought].into_iter().flatten().collect();
        if !marks.is_empty() {
            data.push_str(&format!(r#","acp":{{{}}}"#, marks.join(",")));
        }
        if end == MessageEnd::Partial {
            data.push_str(r#","abide":{"partial":true}"#);
        }
        data.push('}');
        let data = Payload::new(&data, &EventLimits::default());
        batch.payload(Kind::MESSAGE_ADDED.as_str(), self.lane.as_ref(), data);
    }
}
