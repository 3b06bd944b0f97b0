//! The line that answers a recorded event.

use abide::{AcknowledgedEvent, SessionId};

/// The answer to an event that is durable.
pub(super) fn acknowledgement_line(session: SessionId, event: &AcknowledgedEvent) -> String {
    let mut line = format!("{{\"session\":\"{session}\",\"seq\":{}", event.seq);
    if let Some(anomaly) = event.anomaly {
        line.push_str(&format!(",\"anomaly\":\"{anomaly}\""));
    }
    if event.repeated {
        line.push_str(",\"repeated\":true");
    }
    line.push('}');
    line
}
