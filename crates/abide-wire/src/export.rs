//! From the data of a `message.added` to messages on the wire.

use abide_model::{MessageForm, Payload};
use serde_json::value::RawValue;

use crate::json::{Fields, Text};
use crate::piece::{
    FUNCTION_OUTPUT, Piece, Recorded, Sort, Speaker, begun, calls_in_words, finished,
};
use crate::record::{SPEAKS, WireError, what};
use crate::write::abide::Abide;
use crate::write::anthropic::Anthropic;
use crate::write::openai::OpenAi;
use crate::write::responses::Responses;
use crate::write::{Settled, Writing, outcome};

/// The messages of this form that a recorded message is: the one that was recorded, byte for byte,
/// where it is of this form; else what can be said of it there. A call that was cut off was never
/// made, and is told of in words. None where all of it is blank, or thoughts that the form has no
/// place for. An error says why it is no message: what it holds is not in any form.
///
/// Ids and names stay as they are. A message with results may become several. For Anthropic a
/// message of the role `system` stays one, though the API takes instructions apart.
pub fn export(form: MessageForm, data: &Payload) -> Result<Vec<Box<RawValue>>, WireError> {
    let Some(mut recorded) = Recorded::of(data) else { return Err(no_message(data)) };
    let called = recorded.pieces.iter().any(|piece| matches!(piece.sort, Sort::Call(_)));
    if recorded.marks.partial && called {
        calls_in_words(&mut recorded.pieces);
    } else if recorded.forms.has(form) {
        return Ok(boxed(vec![recorded.as_it_came().into_owned()]));
    }
    // What it says, if anything, stands in fields that no form has.
    let speaks = |name: &&str| recorded.fields.any(name).is_some();
    if recorded.pieces.is_empty() && !SPEAKS.iter().chain(&["content", "reasoning"]).any(speaks) {
        return Err(WireError::NoContent);
    }
    Ok(written(form, |out| convert(&recorded, out)))
}

/// The messages of this form that tell what a `tool.called` tells: for a call that no message holds.
pub fn export_called(form: MessageForm, data: &Payload) -> Result<Vec<Box<RawValue>>, WireError> {
    let piece = Piece::new(Sort::Call(begun(data).ok_or(WireError::NoCall)?));
    let calls: Vec<_> = called(&piece).into_iter().collect();
    Ok(written(form, |out| out.answer(std::slice::from_ref(&piece), &calls, &[])))
}

/// The messages of this form that tell what a `tool.finished` tells.
pub fn export_finished(form: MessageForm, data: &Payload) -> Result<Vec<Box<RawValue>>, WireError> {
    let outcome = finished(data).ok_or(WireError::NoCall)?;
    let piece = Piece::new(Sort::Result(outcome));
    Ok(written(form, |out| out.result(&settled(&piece))))
}

/// Why this is no message.
fn no_message(data: &Payload) -> WireError {
    let Some(fields) = Fields::of(data.as_str()) else {
        return WireError::NotAnObject { found: "something else" };
    };
    match fields.any("role") {
        Some(role) if Text::of(role).is_none() => {
            WireError::NotAString { field: "role", found: what(role) }
        }
        _ => WireError::NoRole,
    }
}

fn written(form: MessageForm, write: impl FnOnce(&mut dyn Writing)) -> Vec<Box<RawValue>> {
    boxed(match form {
        MessageForm::Abide => {
            let mut out = Abide::default();
            write(&mut out);
            out.finish()
        }
        MessageForm::Anthropic => {
            let mut out = Anthropic::default();
            write(&mut out);
            let (system, said) = out.finish();
            let system =
                system.map(|blocks| format!("{{\"role\":\"system\",\"content\":{blocks}}}"));
            system.into_iter().chain(said).collect()
        }
        MessageForm::OpenAi => {
            let mut out = OpenAi::default();
            write(&mut out);
            out.finish()
        }
        MessageForm::Responses => {
            let mut out = Responses::default();
            write(&mut out);
            let mut items = out.finish();
            items.extend(out.take_reasoning());
            items
        }
    })
}

fn convert(recorded: &Recorded<'_>, out: &mut dyn Writing) {
    if recorded.speaker() == Speaker::Instructions {
        out.instructions(recorded);
    }
    let results = || {
        let results = recorded.pieces.iter().filter(|piece| matches!(piece.sort, Sort::Result(_)));
        results.map(settled)
    };
    if recorded.speaker() == Speaker::User {
        results().for_each(|result| out.result(&result));
        out.user(&recorded.pieces, None);
    }
    let calls: Vec<_> = recorded.pieces.iter().filter_map(called).collect();
    if recorded.speaker() == Speaker::Assistant {
        out.answer(&recorded.pieces, &calls, &[]);
    } else if !calls.is_empty() {
        let calls_alone: Vec<_> = recorded
            .pieces
            .iter()
            .filter(|piece| matches!(piece.sort, Sort::Call(_)))
            .cloned()
            .collect();
        out.answer(&calls_alone, &calls, &[]);
    }
    if recorded.speaker() != Speaker::User {
        results().for_each(|result| out.result(&result));
    }
}

/// A call by its own names.
fn called<'a>(piece: &Piece<'a>) -> Option<Settled<'a>> {
    let Sort::Call(call) = &piece.sort else { return None };
    Some(Settled {
        id: call.id.clone(),
        name: call.name.clone(),
        same: true,
        answered_by: call.answered_by.clone(),
        result: None,
    })
}

/// A result by its own name.
fn settled<'a>(piece: &Piece<'a>) -> Settled<'a> {
    let id = outcome(piece).map(|outcome| outcome.id.clone()).unwrap_or_default();
    Settled {
        id,
        name: "".into(),
        same: true,
        answered_by: FUNCTION_OUTPUT.into(),
        result: Some(piece.clone()),
    }
}

/// As values that are known to be JSON.
pub(crate) fn boxed(messages: Vec<String>) -> Vec<Box<RawValue>> {
    messages.into_iter().filter_map(|text| RawValue::from_string(text).ok()).collect()
}
