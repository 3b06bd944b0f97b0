//! Content blocks.

use serde_json::{Map, Value};

/// Whether this JSON is a content block.
pub(crate) fn is_block(json: &str) -> bool {
    serde_json::from_str(json).is_ok_and(|members| has_block(&members))
}

/// Whether these members make a content block.
pub(super) fn has_block(block: &Map<String, Value>) -> bool {
    let text = |member| has_text(block, member);
    match block.get("type").and_then(Value::as_str) {
        Some("text") => text("text"),
        Some("image" | "audio") => text("data") && text("mimeType"),
        Some("resource_link") => text("name") && text("uri"),
        Some("resource") => {
            block.get("resource").and_then(Value::as_object).is_some_and(|resource| {
                has_text(resource, "uri")
                    && (has_text(resource, "text") || has_text(resource, "blob"))
            })
        }
        _ => false,
    }
}

/// Whether the member exists and is a string.
pub(super) fn has_text(members: &Map<String, Value>, member: &str) -> bool {
    members.get(member).is_some_and(Value::is_string)
}
