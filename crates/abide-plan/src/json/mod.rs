//! Task lists in JSON: the PRP form of `tasks.json`, and a plain one.
//!
//! Fields that abide does not know are kept verbatim and in place: the fields of an object are
//! remembered in order, and those that a task itself holds are replaced by a [`MARKER`]. A field
//! that is spelled differently from how we would write it keeps its spelling as long as its meaning
//! is unchanged.

mod dialect;
mod json_layout;
mod json_reader;
mod json_writer;
mod object;
mod status;

pub(crate) use dialect::{PLAIN, PRP};
pub(crate) use json_layout::{compact_json, json_depth, pretty_json};
pub(crate) use json_reader::{json_fields_beside, read_json};
pub(crate) use json_writer::{json_parts_by_parent, write_json};
pub(crate) use object::{json_object_fields, json_text};
pub(crate) use status::json_status_edits;

/// Stands in a kept object for a field that the task itself holds. Such a field is never `true`.
const MARKER: &str = "true";
/// The value of an empty field.
const NOTHING: &str = "null";

/// Does it have a top-level `backlog`?
pub(crate) fn has_backlog(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    json_object_fields(text).is_some_and(|fields| fields.iter().any(|(name, _)| name == PRP.root))
}
