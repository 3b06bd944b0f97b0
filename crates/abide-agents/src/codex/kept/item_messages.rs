//! What the items of Codex say, where they are no messages themselves.

use abide_wire::json::{RawJsonFields, decode_string, encoded_string, list, write_string};
use serde_json::value::RawValue;

use crate::kept::record_fields::id_field;

/// Who speaks in an item that is no message; `None` if its sort is not known.
pub(super) fn item_role(sort: &str) -> Option<&'static str> {
    Some(match sort {
        "agent_message" => "user",
        "function_call_output"
        | "custom_tool_call_output"
        | "tool_search_output"
        | "mcp_tool_call_output"
        | "local_shell_call_output" => "tool",
        "reasoning"
        | "function_call"
        | "custom_tool_call"
        | "local_shell_call"
        | "web_search_call"
        | "tool_search_call"
        | "image_generation_call" => "assistant",
        _ => return None,
    })
}

/// The message of another agent.
pub(super) fn message_of_agent(payload: &RawJsonFields<'_>, said: &str) -> String {
    let mut data = "{\"role\":\"user\",".to_owned();
    if let Some(author) = id_field(payload, "author") {
        data.push_str("\"name\":");
        write_string(&mut data, &author);
        data.push(',');
    }
    data.push_str("\"content\":");
    write_string(&mut data, said);
    data.push('}');
    data
}

/// What is left of a conversation after a compaction: its summary, or else the last message that stays.
pub(super) fn compacted_text(payload: &RawJsonFields<'_>) -> Option<String> {
    let text = payload.decoded("message");
    if let Some(text) = text.as_ref().filter(|text| !text.is_empty()) {
        return Some(text.clone().into_owned());
    }
    let kept = payload.get("replacement_history").and_then(list);
    if text.is_none() && kept.is_none() {
        return None;
    }
    let messages = kept.unwrap_or_default().into_iter().rev();
    let texts = messages.filter_map(|item| {
        let item = RawJsonFields::of(item.get())?;
        let mut text = String::new();
        for part in list(item.get("content")?)? {
            let part = RawJsonFields::of(part.get())?;
            text.push_str(&part.decoded("text").unwrap_or_default());
        }
        Some(text).filter(|text| !text.is_empty())
    });
    Some(texts.into_iter().next().unwrap_or_default())
}

/// The data of the message that an item of this sort becomes, as the first versions wrote it: a record
/// of its own.
pub(super) fn early_item(sort: &str, item: &RawJsonFields<'_>) -> Option<String> {
    let mut data = String::new();
    match sort {
        "reasoning" => {
            let mut text = String::new();
            for part in item.get("summary").and_then(list).unwrap_or_default() {
                let part = RawJsonFields::of(part.get());
                text.push_str(&part.and_then(|part| part.decoded("text")).unwrap_or_default());
            }
            // What is encrypted says nothing.
            if text.is_empty() {
                return None;
            }
            data.push_str(r#"{"role":"assistant","content":[{"type":"thinking","thinking":"#);
            write_string(&mut data, &text);
        }
        "function_call" | "custom_tool_call" | "local_shell_call" => {
            data.push_str(r#"{"role":"assistant","content":[{"type":"tool_call","call":"#);
            write_string(&mut data, &item.decoded("call_id")?);
            data.push_str(",\"name\":");
            write_string(&mut data, &item.decoded("name").unwrap_or_else(|| sort.into()));
            data.push_str(",\"arguments\":");
            let names = ["arguments", "input", "action"];
            let arguments = names.iter().find_map(|name| item.get(name));
            data.push_str(&arguments.map_or_else(|| "null".to_owned(), json_of_arguments));
        }
        "function_call_output" | "custom_tool_call_output" => {
            data.push_str(r#"{"role":"tool","content":[{"type":"tool_result","call":"#);
            write_string(&mut data, &item.decoded("call_id")?);
            data.push_str(",\"content\":");
            data.push_str(item.get("output").map_or("null", RawValue::get));
        }
        _ => return None,
    }
    data.push_str("}]}");
    Some(data)
}

/// Arguments are mostly JSON in a string.
fn json_of_arguments(arguments: &RawValue) -> String {
    let text = encoded_string(arguments).map(decode_string);
    let json = text.and_then(|text| RawValue::from_string(text.into_owned()).ok());
    json.map_or_else(|| arguments.get().to_owned(), |json| json.get().to_owned())
}
