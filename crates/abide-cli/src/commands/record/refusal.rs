//! What was not recorded of the input, and why.

use abide::{AppendError, Kind, Payload, event::Anomaly, event::schema::data_mismatch};
use serde::Serialize;

use crate::error::on_one_line;

/// How messages name the input.
pub(super) const STDIN: &str = "standard input";

/// The code for a line whose writer stopped before it was durable.
pub(super) const STOPPED: &str = "stopped";

/// Which field of malformed data does not match its kind, and why.
pub(super) fn malformed_field(kind: &Kind, data: &Payload) -> String {
    data_mismatch(kind, data).unwrap_or_else(|| "data: does not match its kind".to_owned())
}

/// Why a line was not recorded.
#[derive(Debug, Serialize)]
pub(super) struct RecordLineRefusal {
    pub(super) code: &'static str,
    pub(super) message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
    pub(super) line: u64,
}

impl RecordLineRefusal {
    pub(super) fn of(error: &abide::Error, line: u64) -> Self {
        let (code, message) = match error {
            abide::Error::Append(AppendError::Input { source, .. }) => {
                (source.code(), on_one_line(&**source))
            }
            abide::Error::Append(AppendError::Odd { anomaly, .. }) => {
                ("odd", format!("it does not fit what came before it: {anomaly}"))
            }
            abide::Error::Input(error) => (error.code(), on_one_line(error)),
            // The session could not be reopened after its writer stopped, or the writer stopped
            // now.
            error => (STOPPED, on_one_line(error)),
        };
        Self { code, message, hint: None, line }
    }

    /// The same for an event with this data: what is malformed is told by its field.
    pub(super) fn of_event(error: &abide::Error, line: u64, kind: &Kind, data: &Payload) -> Self {
        let refusal = Self::of(error, line);
        match error {
            abide::Error::Append(AppendError::Odd { anomaly: Anomaly::Malformed, .. }) => {
                Self { message: malformed_field(kind, data), ..refusal }
            }
            _ => refusal,
        }
    }

    pub(super) fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct RefusalJson<'a> {
            error: &'a RecordLineRefusal,
        }
        serde_json::to_string(&RefusalJson { error: self }).unwrap_or_default()
    }
}
