//! Names that fit: ids of calls and lanes, as events hold them.

use abide::{Limits, ObjectHash};

/// An id of the peer's as a name in an event: as it is, or, where it is empty or too long, its hash.
pub(crate) fn name(id: &str) -> String {
    if id.is_empty() || id.len() > Limits::default().name_bytes {
        return ObjectHash::of(id.as_bytes()).to_string();
    }
    id.to_owned()
}

/// The start of a text, of at most so many characters.
pub(super) fn start(text: &str, most: usize) -> &str {
    match text.char_indices().nth(most) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}
