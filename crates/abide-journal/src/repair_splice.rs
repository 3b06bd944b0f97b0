//! A splice: the line a repair writes where the chain of a journal is broken for good. In the file
//! it is called `seam`.
//!
//! ```text
//! {"abide":"seam","version":1,"repair":"ID","after":49,"next":53,"prev":"LINK","sum":"SUM"}
//! ```
//!
//! It records that the events between `after` and `next` are lost (none if `next` follows `after`)
//! and what the line of `next` is chained to. Readers continue behind it without reporting damage;
//! later damage is still reported.

use std::path::Path;

use abide_model::Seq;
use serde::{Deserialize, Serialize};

use crate::segment_header::{header_has_right_sum, header_with_sum};
use crate::{JournalError, Link, Sum};

const START: &[u8] = b"{\"abide\":\"seam\"";
/// The version written, and the newest read.
const VERSION: u64 = 1;

/// A splice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairSplice {
    /// The repair that wrote it.
    pub repair: String,
    /// The last event before it.
    pub after: Seq,
    /// The next event after it.
    pub next: Seq,
    /// What the line of `next` is chained to.
    pub prev: SpliceTarget,
}

/// What a line is chained to: the full sum if it is known, else the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpliceTarget {
    /// The sum of the previous line.
    Sum(Sum),
    /// The link to the previous line.
    Link(Link),
}

impl SpliceTarget {
    /// The link.
    #[must_use]
    pub fn link(&self) -> Link {
        match self {
            Self::Sum(sum) => sum.link(),
            Self::Link(link) => *link,
        }
    }

    /// The sum; or, if only the link is known, a sum that has this link. The next line needs no
    /// more.
    #[must_use]
    pub fn sum(&self) -> Sum {
        match self {
            Self::Sum(sum) => *sum,
            Self::Link(link) => link.padded(),
        }
    }

    fn text(&self) -> &str {
        let bytes: &[u8] = match self {
            Self::Sum(sum) => sum.as_ascii(),
            Self::Link(link) => &link.0,
        };
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    fn read(text: &str) -> Option<Self> {
        if text.len() == Link::WIDTH {
            return text.as_bytes().try_into().ok().map(|link| Self::Link(Link(link)));
        }
        Sum::from_ascii(text.as_bytes()).map(Self::Sum)
    }
}

#[derive(Serialize, Deserialize)]
struct SpliceWire<'a> {
    abide: &'a str,
    version: u64,
    repair: &'a str,
    after: Seq,
    next: Seq,
    prev: &'a str,
}

impl RepairSplice {
    /// The lost events, first and last.
    #[must_use]
    pub fn lost(&self) -> Option<(Seq, Seq)> {
        (self.next > self.after.next()).then(|| (self.after.next(), self.next.back(1)))
    }

    /// Do these bytes start a splice?
    #[must_use]
    pub fn is_splice(line: &[u8]) -> bool {
        line.starts_with(START)
    }

    /// The splice as a line, including its line break.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let wire = SpliceWire {
            abide: "seam",
            version: VERSION,
            repair: &self.repair,
            after: self.after,
            next: self.next,
            prev: self.prev.text(),
        };
        header_with_sum(serde_json::to_string(&wire).unwrap_or_default())
    }

    /// Reads a splice. `Ok(None)` if it is damaged, an error if its version is newer.
    pub fn read(line: &[u8], path: &Path) -> Result<Option<Self>, JournalError> {
        #[derive(Deserialize)]
        struct SpliceVersionField {
            version: u64,
        }
        if !header_has_right_sum(line) {
            return Ok(None);
        }
        match serde_json::from_slice(line) {
            Ok(SpliceVersionField { version }) if version > VERSION => {
                Err(JournalError::NewerVersion {
                    path: path.to_owned(),
                    found: version,
                    known: VERSION,
                })
            }
            _ => Ok(Self::parse(line)),
        }
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let wire: SpliceWire<'_> = serde_json::from_slice(line).ok()?;
        (wire.version == VERSION && wire.next > wire.after).then_some(())?;
        let prev = SpliceTarget::read(wire.prev)?;
        Some(Self { repair: wire.repair.to_owned(), after: wire.after, next: wire.next, prev })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[u8]) -> Option<RepairSplice> {
        RepairSplice::read(line, Path::new("x")).unwrap()
    }

    #[test]
    fn one_of_a_newer_version_is_told() {
        let newer = r#"{"abide":"seam","version":2,"other":1"#;
        let sum = Sum::from_hash(&blake3::hash(newer.as_bytes()));
        let line = format!("{newer},\"sum\":\"{sum}\"}}");
        let error = RepairSplice::read(line.as_bytes(), Path::new("x")).unwrap_err();
        assert!(matches!(error, JournalError::NewerVersion { found: 2, .. }), "{error:?}");
    }

    #[test]
    fn a_splice_is_read_back_and_an_altered_one_is_none() {
        let link = Link(*b"abcdefghijkl");
        let sum = Sum::from_hash(&blake3::hash(b"x"));
        for prev in [SpliceTarget::Link(link), SpliceTarget::Sum(sum)] {
            let splice =
                RepairSplice { repair: "r1".to_owned(), after: Seq(49), next: Seq(53), prev };
            let line = splice.write();
            let (bytes, end) = line.split_at(line.len() - 1);
            assert_eq!(end, b"\n");
            assert!(RepairSplice::is_splice(bytes));
            assert_eq!(read(bytes).as_ref(), Some(&splice));
            assert_eq!(splice.lost(), Some((Seq(50), Seq(52))));
            for at in 0..bytes.len() {
                let mut altered = bytes.to_vec();
                altered[at] ^= 1;
                assert_eq!(read(&altered), None, "byte {at}");
            }
            for length in 0..bytes.len() {
                assert_eq!(read(&bytes[..length]), None);
            }
        }
        let whole = RepairSplice {
            repair: String::new(),
            after: Seq(4),
            next: Seq(5),
            prev: SpliceTarget::Link(link),
        };
        assert_eq!(whole.lost(), None);
    }
}
