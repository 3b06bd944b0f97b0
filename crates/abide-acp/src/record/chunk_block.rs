//! Blocks: the chunks of a message, with at most one open block in each lane.
//!
//! Text is collected with its escapes and never decoded, so a character split over two chunks is
//! joined again. Where a long message is cut in two events, the end of the first moves to the second if
//! it may be the beginning of a secret. Texts with annotations are blocks of their own, unless a secret goes
//! from one to the next.

use std::borrow::Cow;

use abide::{
    Kind, LaneId, Payload,
    event::EventLimits,
    secrets::{Redactor, unscanned_mark},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::record_batch::RecordBatch;
use super::redacted_text::redacted_string;
use crate::member_splice::spliced_with_member;

/// The most bytes of a message collected before it is recorded.
const BLOCK: usize = 256 << 10;
/// No token without a space is longer.
const LONGEST_TOKEN: usize = 64 << 10;
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

impl BlockPiece {
    /// The inside of the JSON string that is its text, if it has one.
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Verbatim(block) => {
                let chunk: AcpChunk<'_> = serde_json::from_str(block.get()).ok()?;
                let text = chunk.text.filter(|_| chunk.r#type == "text")?;
                text.get().strip_prefix('"')?.strip_suffix('"')
            }
        }
    }

    /// The same with another text.
    fn with_text(self, text: String) -> Self {
        let Self::Verbatim(block) = self else { return Self::Text(text) };
        let with = spliced_with_member(block.get(), "text", &format!("\"{text}\""));
        match with.and_then(|with| RawValue::from_string(with).ok()) {
            Some(block) => Self::Verbatim(block),
            None => Self::Text(text),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Verbatim(block) => block.get().len(),
        }
    }
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
                let oldest = self.open.remove(0);
                self.record(oldest, MessageEnd::Whole, batch);
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
        self.record(full, MessageEnd::Whole, batch);
        self.open.extend(rest);
    }

    fn record(&self, mut block: ChunkBlock, end: MessageEnd, batch: &mut RecordBatch) {
        if let Some(redactor) = &self.redactor {
            block.join_across(redactor);
        }
        block.record(end, batch);
    }

    /// Records the open block of a lane.
    pub(super) fn end(&mut self, lane: Option<&LaneId>, end: MessageEnd, batch: &mut RecordBatch) {
        if let Some(at) = self.open.iter().position(|open| open.lane.as_ref() == lane) {
            let block = self.open.remove(at);
            self.record(block, end, batch);
        }
    }

    /// Records all open blocks.
    pub(super) fn end_all(&mut self, end: MessageEnd, batch: &mut RecordBatch) {
        for open in std::mem::take(&mut self.open) {
            self.record(open, end, batch);
        }
    }
}

impl ChunkBlock {
    /// Takes the end that may be the beginning of a secret: it begins the block that follows.
    fn cut_off_end(&mut self, redactor: &Redactor) -> Option<Self> {
        // No secret goes on after an image.
        self.pieces.last().and_then(BlockPiece::text)?;
        let all = self.all_text();
        if all.is_empty() {
            return None;
        }
        let border = redactor.json_string_border(&all);
        if border == 0 && all.len() < BLOCK {
            // All of it may be the beginning of a secret.
            return Some(self.split_off(0));
        }
        if border > 0 && border < all.len() && all.is_char_boundary(border) {
            return Some(self.split_off(border));
        }
        // It has no border, or it was given up: nothing is known of it. A token goes on after it at most up
        // to a space.
        let last = all.len().saturating_sub(LONGEST_TOKEN);
        let space = all.rfind(' ').map(|at| at + 1).filter(|at| *at > last && *at < all.len());
        let rest = space.map(|at| self.split_off(at));
        let left_out = self.all_text().len();
        self.put_text(unscanned_mark(left_out as u64));
        rest
    }

    /// Its texts, joined.
    fn all_text(&self) -> String {
        self.pieces.iter().filter_map(BlockPiece::text).collect()
    }

    /// Takes what stands after this place in its texts.
    fn split_off(&mut self, border: usize) -> Self {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut from = 0;
        for piece in std::mem::take(&mut self.pieces) {
            let length = piece.text().map_or(0, str::len);
            let inside = border.checked_sub(from).filter(|inside| *inside > 0);
            from += length;
            match inside {
                None => after.push(piece),
                Some(inside) if inside >= length => before.push(piece),
                Some(inside) => {
                    let text = piece.text().unwrap_or_default();
                    let (left, right) = text.split_at_checked(inside).unwrap_or((text, ""));
                    let (left, right) = (left.to_owned(), right.to_owned());
                    before.push(piece.with_text(left));
                    after.push(BlockPiece::Text(right));
                }
            }
        }
        self.pieces = before;
        self.bytes = self.pieces.iter().map(BlockPiece::bytes).sum();
        Self {
            lane: self.lane.clone(),
            sort: self.sort,
            message: self.message.clone(),
            bytes: after.iter().map(BlockPiece::bytes).sum(),
            pieces: after,
        }
    }

    /// Joins its texts if a secret goes from one to another: each would have only a part of it.
    fn join_across(&mut self, redactor: &Redactor) {
        let texts: Vec<&str> = self.pieces.iter().filter_map(BlockPiece::text).collect();
        if texts.len() < 2 {
            return;
        }
        let all = texts.concat();
        let apart: Option<String> =
            texts.iter().map(|text| redacted_string(redactor, text)).collect();
        if apart.is_none() || apart != redacted_string(redactor, &all) {
            self.put_text(all);
        }
    }

    /// Puts this in the place of its first text. Of the others only what is no text stays.
    fn put_text(&mut self, text: String) {
        let mut text = Some(text);
        for piece in std::mem::take(&mut self.pieces) {
            if piece.text().is_none() {
                self.pieces.push(piece);
                continue;
            }
            match (piece, text.take()) {
                (piece, Some(text)) => self.pieces.push(piece.with_text(text)),
                (BlockPiece::Text(_), None) => {}
                (noted, None) => self.pieces.push(noted.with_text(String::new())),
            }
        }
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
