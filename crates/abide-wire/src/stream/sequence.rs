//! Answers that come one after the other in one stream: which event belongs to which.

use serde_json::value::RawValue;

use super::AnswerParser;
use super::answer_parser::FormParser;
use super::field::{FieldText, OrderedFields, object};
use crate::MessageForm;

object! {
    /// The part of an event's data that tells.
    struct EventProbe<'a> {
        kind = "type": FieldText<'a>,
        id = "id": FieldText<'a>,
        object = "object": FieldText<'a>,
        choices = "choices": Option<&'a RawValue>,
        error = "error": Option<&'a RawValue>,
    }
}

impl<'a> EventProbe<'a> {
    fn of(data: &'a [u8]) -> Self {
        serde_json::from_slice(data).unwrap_or_default()
    }

    /// The type of the event, which may be only in its name.
    fn kind<'b>(&'b self, name: &'b [u8]) -> &'b str {
        self.kind.some().unwrap_or_else(|| std::str::from_utf8(name).unwrap_or_default())
    }

    /// The choices of a chunk of Chat Completions.
    fn choices(&self) -> Vec<&'a RawValue> {
        let choices = self.choices.map_or("[]", RawValue::get);
        serde_json::from_str(choices).unwrap_or_default()
    }
}

/// Whether an event says nothing by itself: a ping, or the mark at the end of a stream.
#[must_use]
pub fn is_silent(name: &[u8], data: &[u8]) -> bool {
    data.is_empty()
        || data == b"[DONE]"
        || name == b"ping"
        || EventProbe::of(data).kind.some() == Some("ping")
}

/// Whether an event outside of an answer begins one of this form. Its first event may be lost, so any
/// that is known does.
#[must_use]
pub fn begins_answer(form: MessageForm, name: &[u8], data: &[u8]) -> bool {
    let said = EventProbe::of(data);
    let kind = said.kind(name);
    match form {
        MessageForm::Anthropic => {
            matches!(
                kind,
                "message_start"
                    | "message_delta"
                    | "message_stop"
                    | "content_block_start"
                    | "content_block_delta"
                    | "content_block_stop"
                    | "error"
            )
        }
        MessageForm::Responses => kind.starts_with("response.") || kind == "error",
        MessageForm::OpenAi | MessageForm::Abide => {
            said.choices.is_some()
                || said.error.is_some()
                || name == b"error"
                || said.object.some() == Some("error")
        }
    }
}

/// Whether an event is the first of an answer of this form, or the error that comes instead. A chunk
/// of Chat Completions is if it names the role, which some providers never do.
#[must_use]
pub fn opens_answer(form: MessageForm, name: &[u8], data: &[u8]) -> bool {
    let said = EventProbe::of(data);
    let kind = said.kind(name);
    match form {
        MessageForm::Anthropic => matches!(kind, "message_start" | "error"),
        MessageForm::Responses => matches!(kind, "response.created" | "error"),
        MessageForm::OpenAi | MessageForm::Abide => {
            said.choices.is_none() || said.choices().first().is_some_and(|one| names_role(one))
        }
    }
}

/// Whether an event is the last of an answer of this form. Chat Completions may tell the usage after
/// the reason why the model stopped: there only the mark at the end of the stream tells.
#[must_use]
pub fn ends_answer(form: MessageForm, name: &[u8], data: &[u8]) -> bool {
    if data == b"[DONE]" {
        return true;
    }
    match form {
        MessageForm::Anthropic => {
            matches!(EventProbe::of(data).kind(name), "message_stop" | "error")
        }
        // `response.failed` may follow an `error`.
        MessageForm::Responses => matches!(
            EventProbe::of(data).kind(name),
            "response.completed"
                | "response.incomplete"
                | "response.done"
                | "response.failed"
                | "response.cancelled"
        ),
        MessageForm::OpenAi | MessageForm::Abide => false,
    }
}

impl AnswerParser {
    /// Whether an event begins another answer than the one of the events so far.
    #[must_use]
    pub fn is_next(&self, name: &[u8], data: &[u8]) -> bool {
        let said = EventProbe::of(data);
        match self.form() {
            FormParser::Anthropic(_) => said.kind(name) == "message_start",
            FormParser::Responses(_) => said.kind(name) == "response.created",
            FormParser::Chat(_) => {
                let choices = said.choices();
                let Some(first) = choices.first() else { return false };
                match (self.id(), said.id.some()) {
                    (Some(ours), Some(its)) if ours == its => false,
                    // Some providers give every chunk an id of its own. A message begins with its role.
                    (Some(_), Some(_)) => self.has_stopped() || names_role(first),
                    _ => self.has_stopped(),
                }
            }
        }
    }
}

/// Whether a choice of Chat Completions says whose message it is.
fn names_role(choice: &RawValue) -> bool {
    let choice = OrderedFields::read(choice.get());
    let delta = OrderedFields::read(choice.get("delta").unwrap_or_default());
    delta.text("role").is_some()
}
