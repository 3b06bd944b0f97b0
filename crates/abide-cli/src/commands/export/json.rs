//! Exports the recorded events of a session as JSON.

use abide::{EventRange, SessionFields, SessionId, SessionView, Timestamp, event::ReadFinding};
use serde::Serialize;

use crate::error::CommandError;
use crate::export_target::ExportTarget;

/// The session in an exported document.
#[derive(Serialize)]
struct ExportedSession {
    id: SessionId,
    created: Timestamp,
    status: &'static str,
    #[serde(flatten)]
    fields: SessionFields,
}

/// One event per line.
pub(super) fn export_json_lines(
    view: &SessionView,
    to: &mut ExportTarget,
) -> Result<Vec<ReadFinding>, CommandError> {
    let mut events = view.events(EventRange::ALL);
    for event in &mut events {
        to.json(&event?.to_json())?;
    }
    Ok(events.notes().to_vec())
}

/// One JSON document.
pub(super) fn export_json_document(
    view: &SessionView,
    to: &mut ExportTarget,
) -> Result<Vec<ReadFinding>, CommandError> {
    let core = view.state()?.core;
    let about = ExportedSession {
        id: view.id(),
        created: core.created,
        status: core.status.as_str(),
        fields: core.fields,
    };
    let about = serde_json::to_string(&about).unwrap_or_default();
    to.json(&format!("{{\"session\":{about},\"events\":["))?;
    let mut events = view.events(EventRange::ALL);
    let mut next = events.next().transpose()?;
    while let Some(event) = next {
        next = events.next().transpose()?;
        let mut line = event.to_json();
        if next.is_some() {
            line.push(',');
        }
        to.json(&line)?;
    }
    to.json("]}")?;
    Ok(events.notes().to_vec())
}
