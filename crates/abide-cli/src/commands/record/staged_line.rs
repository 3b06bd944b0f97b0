//! An event that is staged, and what the answer says about it.

use abide::{
    AcknowledgedEvent, Kind, NewEvent, Payload, SessionId, event::Anomaly,
    event::schema::UnknownNames,
};
use serde::Serialize;

use super::acknowledgement::acknowledgement_line;
use super::misfit_tally::KindFamiliarity;
use super::refusal::{RecordLineRefusal, malformed_field};

/// What the answer to a staged event may say about it.
pub(super) struct StagedLine {
    line: u64,
    kind: Kind,
    /// Shared with the event.
    data: Payload,
    unknown: Option<Box<UnknownNames>>,
}

impl StagedLine {
    pub(super) fn of(event: &NewEvent, unknown: Option<Box<UnknownNames>>, line: u64) -> Self {
        Self { line, kind: event.kind.clone(), data: event.data.clone(), unknown }
    }

    /// Why the event was not recorded.
    pub(super) fn refusal(&self, error: &abide::Error) -> RecordLineRefusal {
        RecordLineRefusal::of_event(error, self.line, &self.kind, &self.data)
    }

    /// Whether abide knows its kind.
    pub(super) fn kind_familiarity(&self) -> KindFamiliarity {
        match self.unknown.as_ref().and_then(|unknown| unknown.kind.as_ref()) {
            Some(_) => KindFamiliarity::Unknown,
            None => KindFamiliarity::Known,
        }
    }

    /// The answer once the event is durable.
    pub(super) fn answer(&self, session: SessionId, event: &AcknowledgedEvent) -> String {
        let mut line = acknowledgement_line(session, event);
        if event.anomaly == Some(Anomaly::Malformed) {
            add_field(&mut line, "malformed", &malformed_field(&self.kind, &self.data));
        }
        if let Some(unknown) = &self.unknown {
            add_field(&mut line, "unknown", &unknown_json(unknown));
        }
        line
    }
}

/// Adds a field to the answer.
fn add_field(line: &mut String, name: &str, value: &impl Serialize) {
    if let Ok(value) = serde_json::to_string(value) {
        line.pop();
        line.push_str(&format!(",\"{name}\":{value}}}"));
    }
}

/// What of an event this version does not know, as the answer says it.
fn unknown_json(unknown: &UnknownNames) -> serde_json::Value {
    let mut told = serde_json::Map::new();
    if let Some(kind) = &unknown.kind {
        told.insert("kind".to_owned(), kind.as_str().into());
        if let Some((_, meant)) = unknown.meant.first() {
            told.insert("did_you_mean".to_owned(), (*meant).into());
        }
    }
    if !unknown.fields.is_empty() {
        told.insert("fields".to_owned(), unknown.fields.clone().into());
        let meant = unknown.meant.iter().map(|(name, meant)| (name.clone(), (*meant).into()));
        let meant: serde_json::Map<_, _> = meant.collect();
        if !meant.is_empty() {
            told.insert("did_you_mean".to_owned(), meant.into());
        }
    }
    told.into()
}
