//! The end line of a chunk: its last event, the state a writer resumes from, and the checksum.

use abide_model::Seq;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::outline::Outline;
use crate::visible;

/// The prefix of a chunk's end line.
pub(crate) const END: &str = "@end ";
/// The second line of every transcript.
pub(crate) const FORMAT: &str = "Format: abide transcript 2";
/// The second line of a transcript of the first version, whose stamps follow their texts.
pub(crate) const FIRST_FORMAT: &str = "Format: abide transcript 1";

/// The placeholder for an outline that is not stored.
const NO_OUTLINE: &str = "-";
/// Bytes of chunks needed per byte of a stored outline.
const TEXT_PER_OUTLINE: usize = 4;

/// A chunk's checksum, chained to the one before: 20 characters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct ChunkSum(String);

impl ChunkSum {
    /// The checksum of a chunk that follows this one; `chunk` ends before its own checksum.
    fn of(&self, chunk: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.0.as_bytes());
        hasher.update(chunk);
        let hash = hasher.finalize();
        Self(URL_SAFE_NO_PAD.encode(hash.as_bytes().get(..15).unwrap_or_default()))
    }
}

/// A parsed end line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkEnd {
    pub(crate) last: Seq,
    /// `None` where it must be derived from the events since the last stored outline.
    pub(crate) outline: Option<Outline>,
    pub(crate) sum: ChunkSum,
}

/// The state of the checksum chain after the last chunk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ChunkChain {
    /// The checksum of the last chunk.
    pub(crate) sum: ChunkSum,
    /// Bytes of chunks since the last stored outline.
    pub(crate) since: usize,
}

impl ChunkChain {
    /// Ends a chunk. Stores its outline only if enough bytes came since the last one, so that the
    /// size of the transcript stays proportional to its events, however short the chunks are.
    pub(crate) fn close(&mut self, chunk: &mut String, last: Seq, outline: &Outline) {
        let mut shown = String::new();
        visible::write_visible(&mut shown, &serde_json::to_string(outline).unwrap_or_default());
        let since = self.since.saturating_add(chunk.len());
        let written = since >= shown.len().saturating_mul(TEXT_PER_OUTLINE);
        let outline = if written { shown.as_str() } else { NO_OUTLINE };
        chunk.push_str(&format!("{END}{last} {outline} "));
        self.sum = self.sum.of(chunk.as_bytes());
        chunk.push_str(&self.sum.0);
        chunk.push('\n');
        self.since = if written { 0 } else { self.since.saturating_add(chunk.len()) };
    }

    /// Advances past a chunk that was read.
    pub(crate) fn pass(&mut self, bytes: usize, end: &ChunkEnd) {
        self.sum = end.sum.clone();
        self.since = if end.outline.is_some() { 0 } else { self.since.saturating_add(bytes) };
    }
}

/// Parses the end line of a chunk, given whole with its line feed. `None` if the checksum does not
/// match.
pub(crate) fn check_chunk(chunk: &[u8], end_line: &str, before: &ChunkSum) -> Option<ChunkEnd> {
    let covered = chunk.len().checked_sub(21)?;
    let sum =
        ChunkSum(std::str::from_utf8(chunk.get(covered..)?).ok()?.strip_suffix('\n')?.to_owned());
    if before.of(chunk.get(..covered)?) != sum {
        return None;
    }
    let (last, rest) = end_line.strip_prefix(END)?.split_once(' ')?;
    let (outline, _) = rest.rsplit_once(' ')?;
    let outline = match outline {
        NO_OUTLINE => None,
        outline => Some(serde_json::from_str(&visible::read_visible(outline)).ok()?),
    };
    Some(ChunkEnd { last: Seq(last.parse().ok()?), outline, sum })
}

/// Whether an end line, not verified, has an outline.
pub(crate) fn has_outline(end_line: &[u8]) -> bool {
    let rest = end_line.get(END.len()..).unwrap_or_default();
    let outline = rest.splitn(2, |byte| *byte == b' ').nth(1);
    !outline.is_some_and(|outline| outline.starts_with(b"- "))
}

/// The checksum in an end line, not verified.
pub(crate) fn named_sum(end_line: &str) -> Option<ChunkSum> {
    let (_, sum) = end_line.strip_prefix(END)?.rsplit_once(' ')?;
    (sum.len() == 20).then(|| ChunkSum(sum.to_owned()))
}
