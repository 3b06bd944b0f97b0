//! The context as text.

use abide::{
    Payload,
    context::{ContextEntry, RecordedResult, SessionContext},
    event::OUTCOME_UNKNOWN,
    message::{MessagePart, ReadMessage, read_call},
};
use abide_transcript::escape;

use crate::command_output::CommandOutput;
use crate::error::CommandError;

/// Writes the context as text.
pub(super) fn tell_context_text(
    context: &SessionContext,
    out: &mut CommandOutput,
) -> Result<(), CommandError> {
    for entry in &context.context.entries {
        match entry {
            ContextEntry::Message { seq, message } => {
                let said = ReadMessage::from(&**message);
                out.line(format_args!("── {} @{seq}", escape::text(&said.role)))?;
                print_parts_text(&said.parts, out)?;
            }
            ContextEntry::Call { seq, data, .. } => {
                out.line(format_args!("── call @{seq}"))?;
                let call: Vec<MessagePart> =
                    read_call(data).map(MessagePart::Call).into_iter().collect();
                print_parts_text(&call, out)?;
            }
            ContextEntry::Result { seq, call, result } => {
                out.line(format_args!("── result of {} @{seq}", escape::text(&call.0)))?;
                match result {
                    RecordedResult::Executed(data) => print_executed_result_text(data, out)?,
                    RecordedResult::Message(message) => {
                        said_result(&ReadMessage::from(&**message), &call.0, out)?;
                    }
                }
            }
            ContextEntry::Unknown { call, .. } => {
                out.line(format_args!("── result of {}", escape::text(&call.0)))?;
                out.line(OUTCOME_UNKNOWN)?;
            }
            ContextEntry::Summary { seq, text } => {
                out.line(format_args!("── summary @{seq}"))?;
                out.line(escape::lines(text))?;
            }
        }
        out.line("")?;
    }
    Ok(())
}

/// Prints the result of one call in a message.
fn said_result(
    said: &ReadMessage,
    call: &str,
    out: &mut CommandOutput,
) -> Result<(), CommandError> {
    for part in &said.parts {
        if let MessagePart::Result(result) = part
            && result.id == call
        {
            print_parts_text(&result.parts, out)?;
        }
    }
    Ok(())
}

fn print_executed_result_text(data: &Payload, out: &mut CommandOutput) -> Result<(), CommandError> {
    let Some(result) = data.field("result") else { return out.line("(nothing)") };
    match serde_json::from_str::<String>(result) {
        Ok(text) => out.line(escape::lines(&text)),
        Err(_) => out.line(escape::json(result)),
    }
}

fn print_parts_text(parts: &[MessagePart], out: &mut CommandOutput) -> Result<(), CommandError> {
    for part in parts {
        match part {
            MessagePart::Text(text) => out.line(escape::lines(text))?,
            MessagePart::Thinking { text, .. } => {
                out.line(format_args!("(thinking) {}", escape::lines(text)))?;
            }
            MessagePart::Refusal(text) => {
                out.line(format_args!("(refusal) {}", escape::lines(text)))?
            }
            MessagePart::Image(_) => out.line("(an image)")?,
            MessagePart::Call(call) => out.line(format_args!(
                "→ {} {} [{}]",
                escape::text(&call.name),
                escape::text(&call.arguments),
                escape::text(&call.id)
            ))?,
            // It has an entry of its own.
            MessagePart::Result(_) => {}
            MessagePart::Other(raw) => out.line(escape::json(raw.get()))?,
        }
    }
    Ok(())
}
