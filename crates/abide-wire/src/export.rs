//! Converts recorded events to messages of an API.

use abide_model::json::{RawJsonFields, encoded_string};
use abide_model::message::{
    CallPiece, MessagePiece, PieceContent, RecordedMessage, ResultPiece, Speaker,
};
use abide_model::{MessageForm, Payload};
use serde_json::value::RawValue;

use crate::record::{WireError, what};
use crate::write::abide::AbideWriter;
use crate::write::anthropic::AnthropicWriter;
use crate::write::openai::OpenAiWriter;
use crate::write::responses::ResponsesWriter;
use crate::write::{MessageWriter, SettledCall, calls_in_words};

/// Exports a recorded message as messages of this form: byte for byte if it was recorded in it,
/// otherwise converted. A call that was cut off was never made, and becomes a text that says so.
/// The result is empty if the message is blank, or holds only reasoning that the form cannot
/// express. An error says why the data is not a message in any form.
///
/// Ids and names are unchanged. A message with results may become several. For Anthropic, a
/// `system` message stays a message, although the API takes instructions separately.
pub fn export(form: MessageForm, data: &Payload) -> Result<Vec<Box<RawValue>>, WireError> {
    let Some(mut recorded) = RecordedMessage::of(data) else { return Err(no_message(data)) };
    let called = recorded.pieces.iter().any(|piece| piece.call().is_some());
    if recorded.marks.partial && called {
        calls_in_words(&mut recorded.pieces);
    } else if recorded.forms.has(form) {
        return Ok(boxed(vec![recorded.as_it_came().into_owned()]));
    }
    // Its content, if any, is in fields that no form has.
    if recorded.pieces.is_empty() && !recorded.shape.speaks {
        return Err(WireError::NoContent);
    }
    Ok(written(form, |out| convert(&recorded, out)))
}

/// Exports a `tool.called` event as messages of this form, for a call that no message contains.
pub fn export_called(form: MessageForm, data: &Payload) -> Result<Vec<Box<RawValue>>, WireError> {
    let call = CallPiece::begun(data).ok_or(WireError::NoCall)?;
    let piece = MessagePiece::new(PieceContent::Call(Box::new(call)));
    let calls: Vec<_> = called(&piece).into_iter().collect();
    Ok(written(form, |out| out.answer(std::slice::from_ref(&piece), &calls, &[])))
}

/// Exports a `tool.finished` event as messages of this form.
pub fn export_finished(form: MessageForm, data: &Payload) -> Result<Vec<Box<RawValue>>, WireError> {
    let result = ResultPiece::finished(data).ok_or(WireError::NoCall)?;
    let piece = MessagePiece::new(PieceContent::Result(Box::new(result)));
    Ok(written(form, |out| settled(&piece).iter().for_each(|result| out.result(result))))
}

/// Why this is not a message.
fn no_message(data: &Payload) -> WireError {
    let Some(fields) = RawJsonFields::of(data.as_str()) else {
        return WireError::NotAnObject { found: "something else" };
    };
    match fields.any("role") {
        Some(role) if encoded_string(role).is_none() => {
            WireError::NotAString { field: "role", found: what(role) }
        }
        _ => WireError::NoRole,
    }
}

fn written(form: MessageForm, write: impl FnOnce(&mut dyn MessageWriter)) -> Vec<Box<RawValue>> {
    boxed(match form {
        MessageForm::Abide => {
            let mut out = AbideWriter::default();
            write(&mut out);
            out.finish()
        }
        MessageForm::Anthropic => {
            let mut out = AnthropicWriter::default();
            write(&mut out);
            let (system, said) = out.finish();
            let system =
                system.map(|blocks| format!("{{\"role\":\"system\",\"content\":{blocks}}}"));
            system.into_iter().chain(said).collect()
        }
        MessageForm::OpenAi => {
            let mut out = OpenAiWriter::default();
            write(&mut out);
            out.finish()
        }
        MessageForm::Responses => {
            let mut out = ResponsesWriter::default();
            write(&mut out);
            let mut items = out.finish();
            items.extend(out.take_reasoning());
            items
        }
    })
}

fn convert(recorded: &RecordedMessage, out: &mut dyn MessageWriter) {
    if recorded.speaker() == Speaker::Instructions {
        out.instructions(recorded);
    }
    let results = || recorded.pieces.iter().filter_map(settled);
    if recorded.speaker() == Speaker::User {
        results().for_each(|result| out.result(&result));
        out.user(&recorded.pieces, None);
    }
    let calls: Vec<_> = recorded.pieces.iter().filter_map(called).collect();
    if recorded.speaker() == Speaker::Assistant {
        out.answer(&recorded.pieces, &calls, &[]);
    } else if !calls.is_empty() {
        let called = |piece: &&MessagePiece| piece.call().is_some();
        let calls_alone: Vec<_> = recorded.pieces.iter().filter(called).cloned().collect();
        out.answer(&calls_alone, &calls, &[]);
    }
    if recorded.speaker() != Speaker::User {
        results().for_each(|result| out.result(&result));
    }
}

/// A call with its original id and name.
fn called(piece: &MessagePiece) -> Option<SettledCall<'_>> {
    let call = piece.call()?;
    Some(SettledCall {
        id: call.id.as_str().into(),
        name: call.name.as_str().into(),
        same: true,
        answered_by: &call.answered_by,
        result: None,
    })
}

/// A result with its original id.
fn settled(piece: &MessagePiece) -> Option<SettledCall<'_>> {
    Some(SettledCall {
        id: piece.result()?.id.as_str().into(),
        name: "".into(),
        same: true,
        answered_by: CallPiece::FUNCTION_OUTPUT,
        result: Some(piece.clone()),
    })
}

/// Wraps messages as raw JSON values.
pub(crate) fn boxed(messages: Vec<String>) -> Vec<Box<RawValue>> {
    messages.into_iter().filter_map(|text| RawValue::from_string(text).ok()).collect()
}
