//! The header: the first line of a segment. It names the journal and where the segment continues
//! it.

use std::path::Path;

use abide_model::{Seq, SessionId};
use serde::{Deserialize, Serialize};

use crate::{JournalError, Segment, Sum};

/// The journal format version of new journals, and the newest that is read. A journal keeps the version
/// it was started with. Version 2 allows filling.
pub const JOURNAL_VERSION: u64 = 2;

const SUM_FIELD: &str = ",\"sum\":\"";

/// The header of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The version of the journal.
    pub version: u64,
    /// The session.
    pub session: SessionId,
    /// The segment number, from 1.
    pub segment: u64,
    /// The first event of the segment.
    pub first: Seq,
    /// The sum of the last line of the previous segment.
    pub prev: Sum,
}

#[derive(Serialize, Deserialize)]
struct SegmentHeaderWire<'a> {
    abide: &'a str,
    version: u64,
    session: SessionId,
    segment: u64,
    first: Seq,
    prev: &'a str,
    /// Reserved for a later version: the key that encrypts the segment.
    key: Option<&'a str>,
}

/// Turns a JSON object into a line that ends with the sum of everything before it.
pub(crate) fn header_with_sum(mut object: String) -> Vec<u8> {
    object.pop();
    let sum = Sum::from_hash(&blake3::hash(object.as_bytes()));
    object.push_str(SUM_FIELD);
    object.push_str(&sum.to_string());
    object.push_str("\"}\n");
    object.into_bytes()
}

/// Does the sum at the end of such a line (without its line break) match the rest?
pub(crate) fn header_has_right_sum(line: &[u8]) -> bool {
    let tail = SUM_FIELD.len() + Sum::WIDTH + 2;
    let parts = line.len().checked_sub(tail).and_then(|at| line.split_at_checked(at));
    parts.is_some_and(|(body, sum)| {
        let expected = format!("{SUM_FIELD}{}\"}}", Sum::from_hash(&blake3::hash(body)));
        sum == expected.as_bytes()
    })
}

impl SegmentHeader {
    /// The longest header in bytes.
    pub(crate) const MAX: usize = 512;

    /// Do these bytes start a header?
    #[must_use]
    pub fn is_header(line: &[u8]) -> bool {
        line.starts_with(b"{\"abide\":\"journal\"")
    }

    /// The header as a line, including its line break.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let wire = SegmentHeaderWire {
            abide: "journal",
            version: self.version,
            session: self.session,
            segment: self.segment,
            first: self.first,
            prev: std::str::from_utf8(self.prev.as_ascii()).unwrap_or_default(),
            key: None,
        };
        header_with_sum(serde_json::to_string(&wire).unwrap_or_default())
    }

    /// [`SegmentHeader::read`] for a line of this segment. A header of another segment (a misplaced
    /// sector) counts as damaged: it says nothing about this one.
    pub(crate) fn read_in(line: &[u8], segment: &Segment) -> Result<Option<Self>, JournalError> {
        let header = Self::read(line, segment.path())?;
        Ok(header.filter(|header| header.segment == segment.number()))
    }

    /// Reads a header. `Ok(None)` if it is damaged, an error if its version is newer. The sum has
    /// the same place and covers the same bytes in every version.
    pub fn read(line: &[u8], path: &Path) -> Result<Option<Self>, JournalError> {
        #[derive(Deserialize)]
        struct HeaderVersionField {
            version: u64,
        }
        if !header_has_right_sum(line) {
            return Ok(None);
        }
        let Ok(HeaderVersionField { version }) = serde_json::from_slice(line) else {
            return Ok(None);
        };
        if version > JOURNAL_VERSION {
            return Err(JournalError::NewerVersion {
                path: path.to_owned(),
                found: version,
                known: JOURNAL_VERSION,
            });
        }
        let Ok(wire) = serde_json::from_slice::<SegmentHeaderWire<'_>>(line) else {
            return Ok(None);
        };
        Ok(Sum::from_ascii(wire.prev.as_bytes()).map(|prev| Self {
            version,
            session: wire.session,
            segment: wire.segment,
            first: wire.first,
            prev,
        }))
    }
}

#[cfg(test)]
mod tests {
    use abide_model::Timestamp;

    use super::*;

    #[test]
    fn a_header_comes_back_and_damage_is_noticed() {
        let session = SessionId::new(Timestamp::from_millis(1), [3; 10]);
        let header = SegmentHeader {
            version: JOURNAL_VERSION,
            session,
            segment: 2,
            first: Seq(9),
            prev: Sum::genesis(session),
        };
        let old = SegmentHeader { version: 1, ..header.clone() };
        let line = old.write();
        let line = line.strip_suffix(b"\n").unwrap();
        assert_eq!(SegmentHeader::read(line, Path::new("x")).unwrap(), Some(old));
        let bytes = header.write();
        let line = bytes.strip_suffix(b"\n").unwrap();
        assert!(SegmentHeader::is_header(line) && line.len() < SegmentHeader::MAX);
        assert_eq!(SegmentHeader::read(line, Path::new("x")).unwrap(), Some(header));
        for at in 0..line.len() {
            let mut flipped = line.to_vec();
            flipped[at] ^= 1;
            assert!(!matches!(SegmentHeader::read(&flipped, Path::new("x")), Ok(Some(_))), "{at}");
        }
        let newer =
            String::from_utf8(line.to_vec()).unwrap().replace("\"version\":2", "\"version\":3");
        let body = newer.split(SUM_FIELD).next().unwrap();
        let newer =
            format!("{body}{SUM_FIELD}{}\"}}", Sum::from_hash(&blake3::hash(body.as_bytes())));
        let refused = SegmentHeader::read(newer.as_bytes(), Path::new("x"));
        assert!(matches!(refused, Err(JournalError::NewerVersion { found: 3, .. })));
    }
}
