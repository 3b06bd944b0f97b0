//! What is to be erased: the plan, and where a text was found.

use std::collections::{BTreeSet, HashSet};

use abide_model::{Kind, ObjectHash, Seq, SessionId, Timestamp};
use serde::Serialize;

use crate::named_snapshots::{NamedBy, NamedSnapshots};

/// An event whose payload is to be erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EraseLine {
    /// Its seq.
    pub seq: Seq,
    /// Its time.
    pub at: Timestamp,
    /// Its kind.
    pub kind: Kind,
    /// The bytes of its line.
    pub bytes: u64,
    /// The objects that it names.
    pub objects: Vec<ObjectHash>,
    /// The workspace snapshot of a checkpoint, which is erased with it.
    pub snapshot: Option<ObjectHash>,
    /// Its payload is already erased.
    pub erased: bool,
}

/// The payloads of a session that are to be erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErasePlan {
    /// The session.
    pub session: SessionId,
    /// The events.
    pub lines: Vec<EraseLine>,
    /// Rewinds that stay as events while their files are erased: those that were named, and those
    /// to or from a snapshot that is erased with its checkpoint.
    pub rewinds: Vec<Seq>,
    /// Sessions that share these events, whose state and transcript are also rebuilt.
    pub forks: Vec<SessionId>,
}

/// Where a text occurs in a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextMatches {
    /// Events whose payload contains it.
    pub payloads: Vec<Seq>,
    /// Events whose payload contains it but determines how the session is read, so that it cannot
    /// be erased.
    pub structural: Vec<Seq>,
    /// Events that have it in their task, lane or key, which cannot be erased.
    pub heads: Vec<Seq>,
}

/// A checkpoint or a rewind whose files contain a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileMatch {
    /// The session.
    pub session: SessionId,
    /// The event.
    pub seq: Seq,
    /// The number of the checkpoint; `None` for a rewind.
    pub checkpoint: Option<u64>,
    /// The first few paths.
    pub paths: Vec<String>,
}

/// Where a text occurs in objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileMatches {
    /// Checkpoints and rewinds whose files contain it.
    pub held: Vec<FileMatch>,
    /// How many objects contain it that nothing names any more.
    pub unnamed: u64,
    /// What could not be searched.
    pub notes: Vec<String>,
}

/// A range of a session's events: its own, or those it shares with an ancestor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventPart {
    /// The session whose journal has them.
    pub session: SessionId,
    /// The first of them.
    pub first: Seq,
    /// No later event belongs to it.
    pub last: Seq,
}

impl EventPart {
    /// Whether an event belongs to it.
    #[must_use]
    pub fn contains(&self, seq: Seq) -> bool {
        (self.first..=self.last).contains(&seq)
    }
}

/// The rewinds to or from a snapshot that is erased with these checkpoints and that no other
/// checkpoint keeps.
#[must_use]
pub fn rewinds_to_erase(lines: &[EraseLine], snapshots: &NamedSnapshots) -> BTreeSet<Seq> {
    let going: BTreeSet<Seq> = lines.iter().map(|line| line.seq).collect();
    let is_kept = |snapshot: &ObjectHash| {
        snapshots.staying().any(|named| {
            named.by != NamedBy::Rewind
                && !going.contains(&named.seq)
                && named.snapshots.contains(snapshot)
        })
    };
    let gone: HashSet<ObjectHash> =
        lines.iter().filter_map(|line| line.snapshot).filter(|it| !is_kept(it)).collect();
    let rewinds = snapshots.staying().filter(|named| named.by == NamedBy::Rewind);
    let rewinds = rewinds.filter(|named| named.snapshots.iter().any(|it| gone.contains(it)));
    rewinds.map(|named| named.seq).collect()
}

/// Whether a text occurs in JSON, however its strings are escaped.
#[must_use]
pub fn erase_text_occurs(json: &str, text: &str) -> bool {
    fn in_value(value: &serde_json::Value, text: &str) -> bool {
        match value {
            serde_json::Value::String(string) => string.contains(text),
            serde_json::Value::Array(values) => values.iter().any(|value| in_value(value, text)),
            serde_json::Value::Object(fields) => {
                fields.iter().any(|(name, value)| name.contains(text) || in_value(value, text))
            }
            _ => false,
        }
    }
    json.contains(text)
        || json.contains('\\')
            && serde_json::from_str(json).is_ok_and(|value| in_value(&value, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_however_it_is_written() {
        assert!(erase_text_occurs(r#"{"a":"the secret"}"#, "secret"));
        assert!(erase_text_occurs(r#"{"a":["\u0073ecret"]}"#, "secret"));
        assert!(erase_text_occurs(r#"{"a":{"x\"y":1}}"#, "x\"y"));
        assert!(!erase_text_occurs(r#"{"a":"\n secre t"}"#, "secret"));
    }
}
