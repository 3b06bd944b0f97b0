//! Ids of calls and lanes that fit into events.

use abide::event::{EventLimits, ObjectHash};

/// A peer's id as a name in an event: unchanged, or its hash if it is empty or too long.
pub(crate) fn recorded_name(id: &str) -> String {
    if id.is_empty() || id.len() > EventLimits::default().name_bytes {
        return ObjectHash::of(id.as_bytes()).to_string();
    }
    id.to_owned()
}

/// The start of a text, at most `most` characters.
pub(super) fn start_of_name(text: &str, most: usize) -> &str {
    match text.char_indices().nth(most) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}
