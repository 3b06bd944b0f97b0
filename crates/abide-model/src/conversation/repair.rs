//! The events that close every open call with an unknown outcome.

use serde_json::json;

use super::reading::OUTCOME_UNKNOWN;
use super::{CallForm, Conversation, UnansweredCall};
use crate::{EventLimits, Kind, MessageForm, NewEvent, Payload};

impl Conversation {
    /// The events that make the conversation valid: for each open call a result, in the form and
    /// the lane of the call, that says that its outcome is unknown.
    #[must_use]
    pub fn repairs(&self) -> Vec<NewEvent> {
        self.open_calls().into_iter().filter_map(outcome_unknown).collect()
    }
}

fn outcome_unknown(open: UnansweredCall) -> Option<NewEvent> {
    let call = open.call.as_str();
    let (kind, data) = match open.form {
        CallForm::Message(MessageForm::Abide) => (
            Kind::MESSAGE_ADDED,
            json!({"role": "tool", "content": [
                {"type": "tool_result", "call": call, "ok": false, "content": OUTCOME_UNKNOWN},
            ]}),
        ),
        CallForm::Message(MessageForm::Anthropic) => (
            Kind::MESSAGE_ADDED,
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": call, "is_error": true, "content": OUTCOME_UNKNOWN},
            ]}),
        ),
        CallForm::Message(MessageForm::OpenAi) => (
            Kind::MESSAGE_ADDED,
            json!({"role": "tool", "tool_call_id": call, "content": OUTCOME_UNKNOWN}),
        ),
        CallForm::Message(MessageForm::Responses) => (
            Kind::MESSAGE_ADDED,
            json!({"role": "tool", "content": [
                {"type": "function_call_output", "call_id": call, "output": OUTCOME_UNKNOWN},
            ], "abide": {"form": "responses"}}),
        ),
        CallForm::Tool => (
            Kind::TOOL_FINISHED,
            json!({"call": call, "ok": false, "result": {"outcome": "unknown", "note": OUTCOME_UNKNOWN}}),
        ),
        CallForm::Api => (Kind::API_FINISHED, json!({"call": call, "error": OUTCOME_UNKNOWN})),
    };
    let data = Payload::new(&data.to_string(), &EventLimits::default()).ok()?;
    let (turn, task, lane) = (open.turn, open.task, open.lane);
    Some(NewEvent { turn, task, lane, ..NewEvent::new(kind, data) })
}
