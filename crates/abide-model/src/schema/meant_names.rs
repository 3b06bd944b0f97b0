//! What is meant by names that other programs give to the same things.
//!
//! A name that is written nearly right is found by its letters; these are right names elsewhere.

use super::KindDescription;

/// Kinds by other names.
const KINDS: &[(&str, &str)] = &[
    ("assistant", "message.added"),
    ("message", "message.added"),
    ("tool.call", "tool.called"),
    ("tool.completed", "tool.finished"),
    ("tool.output", "tool.finished"),
    ("tool.result", "tool.finished"),
    ("tool.use", "tool.called"),
    ("tool_call", "tool.called"),
    ("tool_result", "tool.finished"),
    ("tool_use", "tool.called"),
    ("turn.completed", "turn.finished"),
    ("turn.ended", "turn.finished"),
    ("usage", "usage.recorded"),
    ("user", "message.added"),
];

/// Fields by other names. Which of several is meant depends on the kind.
const FIELDS: &[(&str, &[&str])] = &[
    ("args", &["arguments"]),
    ("call_id", &["call"]),
    ("command", &["arguments"]),
    ("description", &["title", "summary", "text"]),
    ("error", &["result", "reason"]),
    ("file", &["path"]),
    ("id", &["call", "task", "number"]),
    ("input", &["arguments"]),
    ("message", &["content", "text", "reason"]),
    ("name", &["title", "label"]),
    ("output", &["result"]),
    ("parameters", &["arguments"]),
    ("params", &["arguments"]),
    ("state", &["status"]),
    ("success", &["ok"]),
    ("text", &["content", "summary"]),
    ("tool", &["name"]),
    ("tool_call_id", &["call"]),
    ("tool_use_id", &["call"]),
];

/// The kind that is called so elsewhere.
pub(super) fn meant_kind(name: &str) -> Option<&'static str> {
    KINDS.iter().find(|(other, _)| *other == name).map(|(_, meant)| *meant)
}

/// The field of this kind that is called so elsewhere.
pub(super) fn meant_field(kind: &KindDescription, name: &str) -> Option<&'static str> {
    let (_, meant) = FIELDS.iter().find(|(other, _)| *other == name)?;
    meant.iter().copied().find(|field| kind.read_fields().any(|known| known.name == *field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn every_name_leads_to_one_that_is_known() {
        for (other, meant) in KINDS {
            assert!(Kind::VOCABULARY.contains(meant), "{meant}");
            assert!(!Kind::VOCABULARY.contains(other), "{other} is a kind");
        }
        let known = |field: &str| {
            let mut kinds = Kind::VOCABULARY.iter().filter_map(|kind| KindDescription::of(kind));
            kinds.any(|kind| kind.has_field(field))
        };
        for (other, meant) in FIELDS {
            assert!(meant.iter().all(|field| known(field)), "{other}: {meant:?}");
        }
    }

    #[test]
    fn a_field_is_meant_only_where_its_kind_has_it() {
        let of = |kind: &str, name: &str| meant_field(KindDescription::of(kind).unwrap(), name);
        assert_eq!(of("tool.called", "input"), Some("arguments"));
        assert_eq!(of("tool.called", "id"), Some("call"));
        assert_eq!(of("tool.finished", "output"), Some("result"));
        assert_eq!(of("task.created", "id"), Some("task"));
        assert_eq!(of("message.added", "input"), None);
    }
}
