//! Plans in JSON: the PRP form of `tasks.json`, and a plain one.
//!
//! What abide does not know is kept as it stands, with its place among the other fields: the
//! fields of an object are remembered in their order, and those that a task itself holds are
//! replaced by a [`MARKER`]. A field that was written in another way than we would write it keeps
//! its own spelling for as long as it says the same.

mod dialect;
mod layout;
mod object;
mod read;
mod write;

pub(crate) use dialect::{PLAIN, PRP};
pub(crate) use layout::{compact, depth, pretty};
pub(crate) use object::{fields, text};
pub(crate) use read::{beside, read};
pub(crate) use write::{parts, write};

/// Stands in a kept object for a field that the task itself holds. No such field is ever `true`.
const MARKER: &str = "true";
/// A field that is there and says nothing.
const NOTHING: &str = "null";

/// Is there a `backlog` at the top?
pub(crate) fn has_backlog(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    fields(text).is_some_and(|fields| fields.iter().any(|(name, _)| name == PRP.root))
}
