//! The end of a chunk: how far it goes, what the writer must know to go on, and the sum.

use abide_model::Seq;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::outline::Outline;
use crate::visible;

/// What a chunk's last line starts with.
pub(crate) const END: &str = "@end ";
/// The second line of every transcript.
pub(crate) const FORMAT: &str = "Format: abide transcript 1";

/// The sum over a chunk, chained to the one before: 20 characters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct ChunkSum(String);

impl ChunkSum {
    /// Of a chunk's bytes up to the sum itself, behind a chunk with this sum.
    fn of(&self, chunk: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.0.as_bytes());
        hasher.update(chunk);
        let hash = hasher.finalize();
        Self(URL_SAFE_NO_PAD.encode(hash.as_bytes().get(..15).unwrap_or_default()))
    }
}

/// What the last line of a chunk says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkEnd {
    pub(crate) last: Seq,
    pub(crate) outline: Outline,
    pub(crate) sum: ChunkSum,
}

/// Ends a chunk and gives its sum.
pub(crate) fn close(
    chunk: &mut String,
    last: Seq,
    outline: &Outline,
    before: &ChunkSum,
) -> ChunkSum {
    let outline = serde_json::to_string(outline).unwrap_or_default();
    chunk.push_str(&format!("{END}{last} "));
    visible::write(chunk, &outline);
    chunk.push(' ');
    let sum = before.of(chunk.as_bytes());
    chunk.push_str(&sum.0);
    chunk.push('\n');
    sum
}

/// Reads the last line of a chunk that is given whole, its line feed included; `None` when the
/// sum is not that of the chunk.
pub(crate) fn check(chunk: &[u8], end_line: &str, before: &ChunkSum) -> Option<ChunkEnd> {
    let covered = chunk.len().checked_sub(21)?;
    let sum =
        ChunkSum(std::str::from_utf8(chunk.get(covered..)?).ok()?.strip_suffix('\n')?.to_owned());
    if before.of(chunk.get(..covered)?) != sum {
        return None;
    }
    let (last, rest) = end_line.strip_prefix(END)?.split_once(' ')?;
    let (outline, _) = rest.rsplit_once(' ')?;
    Some(ChunkEnd {
        last: Seq(last.parse().ok()?),
        outline: serde_json::from_str(&visible::read(outline)).ok()?,
        sum,
    })
}

/// The sum that an end line names, not checked.
pub(crate) fn named_sum(end_line: &str) -> Option<ChunkSum> {
    let (_, sum) = end_line.strip_prefix(END)?.rsplit_once(' ')?;
    (sum.len() == 20).then(|| ChunkSum(sum.to_owned()))
}
