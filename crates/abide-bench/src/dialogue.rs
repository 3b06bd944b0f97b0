//! What an agent and a model say to each other, as Chat Completions has it: questions, calls of
//! tools, their results and answers in turn, each with 1 KiB of text.

use abide::{
    Durability, Kind, NewEvent, Payload, Session,
    context::{CompactRequest, Summarizer, SummaryError, SummaryRequest},
    event::AnomalyPolicy,
};
use serde_json::{Value, json};

use crate::Outcome;
use crate::text::Text;

/// How many messages are taken in at once.
const BATCH: usize = 1000;

/// What the model is told first, which stays in the context for good.
pub(crate) fn instructions() -> Outcome<NewEvent> {
    event(&json!({ "role": "system", "content": "You are a coding agent. Be careful." }))
}

/// The message of this number.
pub(crate) fn message(text: &Text, index: usize) -> Outcome<NewEvent> {
    let piece = text.piece(index);
    let call = |index: usize| format!("call_{}", index / 4);
    event(&match index % 4 {
        0 => json!({ "role": "user", "content": piece }),
        1 => {
            let arguments = json!({ "path": "src/lib.rs", "text": piece }).to_string();
            let function = json!({ "name": "edit", "arguments": arguments });
            let call = json!({ "id": call(index), "type": "function", "function": function });
            json!({ "role": "assistant", "content": null, "tool_calls": [call] })
        }
        2 => json!({ "role": "tool", "tool_call_id": call(index), "content": piece }),
        _ => json!({ "role": "assistant", "content": piece }),
    })
}

fn event(message: &Value) -> Outcome<NewEvent> {
    Ok(NewEvent::new(Kind::MESSAGE_ADDED, Payload::of(message)?))
}

/// Appends messages, in large batches.
pub(crate) fn say(session: &Session, text: &Text, first: usize, count: usize) -> Outcome {
    let (mut next, last) = (first, first + count);
    while next < last {
        let end = last.min(next + BATCH);
        let durability = if end == last { Durability::Synced } else { Durability::Buffered };
        let events = (next..end).map(|index| message(text, index)).collect::<Outcome<Vec<_>>>()?;
        session.append_with(events, durability, AnomalyPolicy::Keep)?.wait()?;
        next = end;
    }
    Ok(())
}

/// A summary that costs nothing.
#[derive(Debug)]
pub(crate) struct Fixed;

impl Summarizer for Fixed {
    fn name(&self) -> String {
        "fixed".to_owned()
    }

    fn summarize(&self, _: &SummaryRequest<'_>) -> Result<String, SummaryError> {
        Ok("The parser drops the last line; its tests now say so. The cause is not found.".into())
    }
}

/// How many messages a compaction keeps.
pub(crate) const KEEP: usize = 4;

/// A summary in the place of all but the last few messages.
pub(crate) fn compact(session: &Session) -> Outcome {
    compact_to(session, KEEP)
}

/// A summary in the place of all but so many messages.
pub(crate) fn compact_to(session: &Session, keep: usize) -> Outcome {
    session.compact(&CompactRequest { keep, ..CompactRequest::default() }, &Fixed)?;
    Ok(())
}

/// Appends messages as a long session gets them: compacted after each thousand, and at the end.
pub(crate) fn say_compacted(session: &Session, text: &Text, count: usize) -> Outcome {
    session.append(instructions()?)?.wait()?;
    let mut next = 0;
    while next < count {
        let end = count.min(next + BATCH);
        say(session, text, next, end - next)?;
        compact(session)?;
        next = end;
    }
    Ok(())
}

/// An event of the size of a compaction that the context does not show.
pub(crate) fn note() -> Outcome<NewEvent> {
    let data = Payload::of(&json!({ "text": "x".repeat(300) }))?;
    Ok(NewEvent::new(Kind::new("bench.note").ok_or("not a kind")?, data))
}
