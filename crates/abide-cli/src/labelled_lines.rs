//! The checkpoints with a label that other sessions of a directory have, as lines.

use abide::SessionId;
use abide_transcript::escape;

use crate::scoped_store::LabelledCheckpoint;
use crate::typed_time::time_ago;

/// How many are listed.
const LISTED: usize = 5;

/// A heading and a line for each; none if there are none.
pub(crate) fn labelled_lines(found: &[LabelledCheckpoint]) -> Vec<String> {
    if found.is_empty() {
        return Vec::new();
    }
    let now = jiff::Timestamp::now();
    let mut lines = vec!["Saved by name in other sessions here:".to_owned()];
    for LabelledCheckpoint { session, entry } in found.iter().take(LISTED) {
        let label = entry.checkpoint.label.as_deref().unwrap_or_default();
        lines.push(format!(
            "      {}  \"{}\"  (session {})",
            time_ago(entry.at, now),
            escape::text(label),
            session.short(SessionId::SHORT)
        ));
    }
    if found.len() > LISTED {
        lines.push(format!("      … of {}", found.len()));
    }
    lines
}
