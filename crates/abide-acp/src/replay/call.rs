//! Tool calls of other forms, as updates.

use abide::{Call, OUTCOME_UNKNOWN, Part};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::message::{block_of, text_block};
use crate::protocol::is_block;

/// A `tool_call` or a `tool_call_update` of our own.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Update<'a> {
    session_update: &'a str,
    tool_call_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Vec<Given<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_input: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Given<'a> {
    r#type: &'a str,
    content: &'a RawValue,
}

/// A call, as it begins.
pub(super) fn began(call: &Call) -> String {
    let told = |raw_input| {
        let title = if call.name.is_empty() { "tool" } else { &call.name };
        write(&Update {
            session_update: "tool_call",
            tool_call_id: &call.id,
            title: Some(title),
            name: Some(&call.name).filter(|name| !name.is_empty()).map(String::as_str),
            status: "pending",
            content: None,
            raw_input,
        })
    };
    // Arguments that are no JSON are told as the text that they are.
    let input: Option<Box<RawValue>> =
        serde_json::from_str(&call.arguments).or_else(|_| to_raw_value(&call.arguments)).ok();
    // What nests too deep for a reader is not told.
    let read = input.filter(|input| serde_json::from_str::<serde_json::Value>(input.get()).is_ok());
    told(read.as_deref())
}

/// What a call gave. Of one that was not told of yet, the call itself.
pub(super) fn ended(id: &str, ok: bool, blocks: &[Box<RawValue>], known: bool) -> String {
    let given = |block| Given { r#type: "content", content: block };
    let content: Vec<_> = blocks.iter().map(|block| given(&**block)).collect();
    write(&Update {
        session_update: if known { "tool_call_update" } else { "tool_call" },
        tool_call_id: id,
        title: if known { None } else { Some("tool") },
        name: None,
        status: if ok { "completed" } else { "failed" },
        content: (!content.is_empty()).then_some(content),
        raw_input: None,
    })
}

fn write(update: &Update<'_>) -> String {
    serde_json::to_string(update).unwrap_or_default()
}

/// The parts of a result, as blocks.
pub(super) fn blocks_of(parts: &[Part]) -> Vec<Box<RawValue>> {
    parts.iter().filter_map(block_of).collect()
}

/// The data of a `tool.finished`, as far as it is needed.
#[derive(Deserialize)]
pub(super) struct Finished<'a> {
    pub(super) call: String,
    pub(super) ok: Option<bool>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
}

impl Finished<'_> {
    /// Does nobody know how it ended?
    pub(super) fn is_unknown(&self) -> bool {
        self.result.is_some_and(|result| result.get().contains(OUTCOME_UNKNOWN))
    }

    /// What it gave, as blocks: a text, blocks, or JSON that is shown as it is.
    pub(super) fn blocks(&self) -> Vec<Box<RawValue>> {
        #[derive(Deserialize)]
        struct Wrapped<'a> {
            #[serde(borrow)]
            content: Vec<&'a RawValue>,
        }
        let Some(result) = self.result else { return Vec::new() };
        let json = result.get();
        if let Ok(text) = serde_json::from_str::<String>(json) {
            return text_block(&text).into_iter().collect();
        }
        let blocks = serde_json::from_str::<Vec<&RawValue>>(json)
            .or_else(|_| serde_json::from_str::<Wrapped<'_>>(json).map(|wrapped| wrapped.content));
        match blocks {
            Ok(blocks) if blocks.iter().all(|block| is_block(block.get())) => {
                blocks.into_iter().map(ToOwned::to_owned).collect()
            }
            _ => text_block(json).into_iter().collect(),
        }
    }
}
