//! Tool calls recorded in other forms, as updates.

use abide::{
    event::OUTCOME_UNKNOWN,
    message::{MessagePart, RequestedCall},
};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::message_chunk::{message_block, message_text_block};
use crate::protocol::is_block;

/// A `tool_call` or `tool_call_update` made here.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallUpdate<'a> {
    session_update: &'a str,
    tool_call_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Vec<CallContent<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_input: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct CallContent<'a> {
    r#type: &'a str,
    content: &'a RawValue,
}

/// The start of a call.
pub(super) fn replay_call_start(call: &RequestedCall) -> String {
    let told = |raw_input| {
        let title = if call.name.is_empty() { "tool" } else { &call.name };
        write_call_update(&CallUpdate {
            session_update: "tool_call",
            tool_call_id: &call.id,
            title: Some(title),
            name: Some(&call.name).filter(|name| !name.is_empty()).map(String::as_str),
            status: "pending",
            content: None,
            raw_input,
        })
    };
    // Arguments that are not JSON are sent as a string.
    let input: Option<Box<RawValue>> =
        serde_json::from_str(&call.arguments).or_else(|_| to_raw_value(&call.arguments)).ok();
    // Arguments nested too deep for a parser are left out.
    let read = input.filter(|input| serde_json::from_str::<serde_json::Value>(input.get()).is_ok());
    told(read.as_deref())
}

/// The end of a call with its result; if the client does not know the call yet, as a whole
/// `tool_call`.
pub(super) fn replay_call_end(id: &str, ok: bool, blocks: &[Box<RawValue>], known: bool) -> String {
    let given = |block| CallContent { r#type: "content", content: block };
    let content: Vec<_> = blocks.iter().map(|block| given(&**block)).collect();
    write_call_update(&CallUpdate {
        session_update: if known { "tool_call_update" } else { "tool_call" },
        tool_call_id: id,
        title: if known { None } else { Some("tool") },
        name: None,
        status: if ok { "completed" } else { "failed" },
        content: (!content.is_empty()).then_some(content),
        raw_input: None,
    })
}

fn write_call_update(update: &CallUpdate<'_>) -> String {
    serde_json::to_string(update).unwrap_or_default()
}

/// The parts of a result, as blocks.
pub(super) fn call_result_blocks(parts: &[MessagePart]) -> Vec<Box<RawValue>> {
    parts.iter().filter_map(message_block).collect()
}

/// The data of a `tool.finished` that is used.
#[derive(Deserialize)]
pub(super) struct RecordedCallEnd<'a> {
    pub(super) call: String,
    pub(super) ok: Option<bool>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
}

impl RecordedCallEnd<'_> {
    /// Whether the outcome is unknown.
    pub(super) fn is_unknown(&self) -> bool {
        self.result.is_some_and(|result| result.get().contains(OUTCOME_UNKNOWN))
    }

    /// The result as blocks: from a string, from blocks, or from any JSON verbatim.
    pub(super) fn blocks(&self) -> Vec<Box<RawValue>> {
        #[derive(Deserialize)]
        struct WrappedContent<'a> {
            #[serde(borrow)]
            content: Vec<&'a RawValue>,
        }
        let Some(result) = self.result else { return Vec::new() };
        let json = result.get();
        if let Ok(text) = serde_json::from_str::<String>(json) {
            return message_text_block(&text).into_iter().collect();
        }
        let blocks = serde_json::from_str::<Vec<&RawValue>>(json).or_else(|_| {
            serde_json::from_str::<WrappedContent<'_>>(json).map(|wrapped| wrapped.content)
        });
        match blocks {
            Ok(blocks) if blocks.iter().all(|block| is_block(block.get())) => {
                blocks.into_iter().map(ToOwned::to_owned).collect()
            }
            _ => message_text_block(json).into_iter().collect(),
        }
    }
}
