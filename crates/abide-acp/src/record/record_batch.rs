//! Collects the events that record one message.

use abide::{
    Kind, LaneId, NewEvent, Payload,
    event::{InputError, LogRecord},
};
use serde::Serialize;

use super::{RecordDurability, RecordedEvents};

/// The kind of an update that is recorded verbatim.
pub(crate) const UPDATE: &str = "acp.update";
/// The kind of a request from the agent to the client.
pub(super) const REQUEST: &str = "acp.request";
/// The kind of the client's response.
pub(super) const RESPONSE: &str = "acp.response";
/// The kind of a setting that the client made and the agent accepted.
pub(crate) const CONFIGURED: &str = "acp.configured";

/// Events in order. Data that cannot be an event is replaced by a log record that says so.
#[derive(Debug, Default)]
pub(super) struct RecordBatch {
    recorded: RecordedEvents,
}

impl RecordBatch {
    /// Marks the events as durable before the message is forwarded.
    pub(super) fn before(&mut self) {
        self.recorded.weight = RecordDurability::Before;
    }

    /// Adds an event; if it is invalid, a log record instead.
    pub(super) fn add(&mut self, kind: &str, lane: Option<&LaneId>, data: &impl Serialize) -> bool {
        self.payload(kind, lane, Payload::of(data))
    }

    /// Adds an event with this data.
    pub(super) fn payload(
        &mut self,
        kind: &str,
        lane: Option<&LaneId>,
        data: Result<Payload, InputError>,
    ) -> bool {
        match data {
            Ok(data) => {
                let Some(kind) = Kind::new(kind) else { return false };
                let event = NewEvent::new(kind, data);
                self.recorded.events.push(NewEvent { lane: lane.cloned(), ..event });
                true
            }
            Err(error) => {
                self.left_out(kind, lane, &error);
                false
            }
        }
    }

    /// Adds a typed fact.
    pub(super) fn fact<F>(&mut self, kind: &Kind, lane: Option<&LaneId>, fact: F)
    where
        NewEvent: TryFrom<F, Error = InputError>,
    {
        match NewEvent::try_from(fact) {
            Ok(event) => {
                self.recorded.events.push(NewEvent { lane: lane.cloned(), ..event });
            }
            Err(error) => self.left_out(kind.as_str(), lane, &error),
        }
    }

    fn left_out(&mut self, kind: &str, lane: Option<&LaneId>, error: &InputError) {
        let text = format!("not recorded as it came ({kind}): {error}");
        let note = NewEvent::try_from(LogRecord { level: "warn".to_owned(), text });
        if let Ok(note) = note {
            self.recorded.events.push(NewEvent { lane: lane.cloned(), ..note });
        }
    }

    pub(super) fn finish(self) -> RecordedEvents {
        self.recorded
    }
}
