//! Reads the calls and results of a message, in any of the four forms in which it may be recorded.
//!
//! Agents record messages verbatim. A call is a `tool_call` block (ours), a `tool_use` block
//! (Anthropic), an entry of `tool_calls` (OpenAI) or an item with a `call_id` (OpenAI's Responses,
//! as the only block of a message). Its result is a `tool_result` block that names it by `call` or
//! `tool_use_id`, a message with `tool_call_id`, or an item `…_output` with its `call_id`. In
//! OpenAI's old form, `function_call` and a message of the role `function`, the name of the
//! function identifies the call. A message that was cut off holds no calls: they were never made.
//! Tools that an API runs itself (`server_tool_use`, `web_search_call` …) are answered by the API
//! and are not calls here. Reading is lenient: anything else is ignored.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Marks;
use crate::Payload;

/// What a model is told about a call whose outcome is unknown. A result with this text belongs to a
/// call of which nothing else is recorded.
pub const OUTCOME_UNKNOWN: &str = "The outcome of this call is unknown: the session was interrupted before a result was \
     recorded. The call may or may not have taken effect. Look before you do it again.";

/// The form in which a message was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MessageForm {
    /// Our own: `tool_call` and `tool_result` blocks.
    Abide,
    /// Anthropic's: `tool_use` blocks, results in a user message.
    Anthropic,
    /// OpenAI's Chat Completions: `tool_calls`, and a message of the role `tool` for each result.
    OpenAi,
    /// OpenAI's Responses: `function_call` and `function_call_output` items, each as the only block
    /// of a message.
    Responses,
}

/// The role of a message, as far as the order of a conversation depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum SpeakerRole {
    User,
    Instruction,
    Assistant,
    Tool,
    #[default]
    Other,
}

/// A call in a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) form: MessageForm,
}

/// A result in a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadResult {
    /// The call; empty if not given.
    pub(super) id: String,
    /// It says that the outcome is unknown.
    pub(super) unknown: bool,
}

impl ReadResult {
    fn new(id: String, content: Option<&RawValue>) -> Self {
        let says = |raw: &RawValue| {
            raw.get().len() < 2 * OUTCOME_UNKNOWN.len()
                && text(Some(raw)).is_some_and(|text| text == OUTCOME_UNKNOWN)
        };
        Self { id, unknown: content.is_some_and(says) }
    }
}

/// The parts of a message that a conversation needs.
#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct MessageReading {
    pub(super) role: SpeakerRole,
    pub(super) calls: Vec<ReadCall>,
    pub(super) results: Vec<ReadResult>,
    /// Ids of the tools that the API ran itself.
    pub(super) served: Vec<String>,
    /// It holds something besides results.
    pub(super) rest: bool,
}

#[derive(Deserialize)]
struct WireMessage<'a> {
    #[serde(borrow)]
    role: &'a RawValue,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_call_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    function_call: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    abide: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireBlock<'a> {
    #[serde(borrow)]
    r#type: &'a RawValue,
    #[serde(borrow, default)]
    call: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_use_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_call_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    call_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireCall<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow, default)]
    function: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireFunction<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
}

impl MessageReading {
    /// Reads a message; `None` if its content is unknown.
    pub(super) fn of(data: &Payload) -> Option<Self> {
        let wire: WireMessage<'_> = serde_json::from_str(data.as_str()).ok()?;
        let wire_role = text(Some(wire.role))?;
        let role = match wire_role.as_str() {
            "user" => SpeakerRole::User,
            "system" | "developer" => SpeakerRole::Instruction,
            "assistant" | "model" => SpeakerRole::Assistant,
            "tool" | "function" => SpeakerRole::Tool,
            _ => SpeakerRole::Other,
        };
        let speaks = [
            wire.content,
            wire.tool_calls,
            wire.function_call,
            wire.refusal,
            wire.reasoning_content,
        ];
        // Without content a message is unknown, unless it consists of calls.
        if speaks.iter().all(Option::is_none) && !has_content(data) {
            return None;
        }
        let mut reading = Self { role, ..Self::default() };
        let blocks = wire.content.and_then(list);
        let no_blocks = blocks.as_ref().is_none_or(Vec::is_empty);
        if let Some(id) = text(wire.tool_call_id).filter(|_| role == SpeakerRole::Tool) {
            reading.results.push(ReadResult::new(id, wire.content));
        } else {
            blocks.into_iter().flatten().for_each(|block| reading.block(block));
            reading.rest |= no_blocks;
        }
        for call in wire.tool_calls.and_then(list).into_iter().flatten() {
            reading.tool_call(call);
        }
        if let Some(name) = wire.function_call.and_then(function_name) {
            let (id, form) = (name.clone(), MessageForm::OpenAi);
            reading.calls.push(ReadCall { id, name, form });
        }
        if role == SpeakerRole::Tool && reading.results.is_empty() {
            // A result without a call id, unless the name of a function identifies it.
            let id = text(wire.name).filter(|_| wire_role == "function").unwrap_or_default();
            reading.results.push(ReadResult::new(id, wire.content));
            reading.rest = false;
        }
        let partial = wire.abide.is_some_and(|marks| Marks::read(marks.get()).partial);
        if partial {
            reading.rest |= !reading.calls.is_empty();
            reading.calls.clear();
            reading.served.clear();
        }
        reading.rest |= !reading.calls.is_empty();
        Some(reading)
    }

    fn block(&mut self, raw: &RawValue) {
        let block: Option<WireBlock<'_>> = serde_json::from_str(raw.get()).ok();
        let read = block.and_then(|block| {
            let named = |form, id| {
                let name = text(block.name).unwrap_or_default();
                Some(Ok(ReadCall { id: text(id)?, name, form }))
            };
            let sort = text(Some(block.r#type))?;
            match sort.as_str() {
                "tool_call" => named(MessageForm::Abide, block.call.or(block.id)),
                "tool_use" => named(MessageForm::Anthropic, block.id),
                "tool_result" => {
                    let id = block.call.or(block.tool_use_id).or(block.tool_call_id);
                    text(id).map(|id| Err(ReadResult::new(id, block.content)))
                }
                item if item.ends_with("_tool_use")
                    || (item.ends_with("_call") && block.call_id.is_none()) =>
                {
                    self.served.extend(text(block.id));
                    None
                }
                item if item.ends_with("_call") => {
                    let name = text(block.name).unwrap_or_else(|| item.to_owned());
                    Some(Ok(ReadCall {
                        id: text(block.call_id)?,
                        name,
                        form: MessageForm::Responses,
                    }))
                }
                item if item.ends_with("_output") => {
                    Some(Err(ReadResult::new(text(block.call_id)?, block.output)))
                }
                _ => None,
            }
        });
        match read {
            Some(Ok(call)) => self.calls.push(call),
            Some(Err(result)) => self.results.push(result),
            None => self.rest = true,
        }
    }

    fn tool_call(&mut self, raw: &RawValue) {
        let Ok(call) = serde_json::from_str::<WireCall<'_>>(raw.get()) else { return };
        let name = call.function.and_then(function_name);
        if let Some(id) = text(Some(call.id)) {
            let name = name.unwrap_or_default();
            self.calls.push(ReadCall { id, name, form: MessageForm::OpenAi });
        }
    }
}

fn function_name(raw: &RawValue) -> Option<String> {
    let function: WireFunction<'_> = serde_json::from_str(raw.get()).ok()?;
    text(function.name)
}

fn text(raw: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(raw?.get()).ok()
}

fn list(raw: &RawValue) -> Option<Vec<&RawValue>> {
    // Most contents are text, and a serde_json error would quote it all.
    raw.get().starts_with('[').then(|| serde_json::from_str(raw.get()).ok()).flatten()
}

/// Does it have a content, even if `null`?
fn has_content(data: &Payload) -> bool {
    data.field("content").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventLimits;

    fn read(text: &str) -> Option<MessageReading> {
        MessageReading::of(&Payload::new(text, &EventLimits::default()).unwrap())
    }

    #[test]
    fn calls_and_results_are_read_in_all_four_forms() {
        let calls = [
            (
                r#"{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_call","call":"c","name":"bash","arguments":{}}]}"#,
                MessageForm::Abide,
            ),
            (
                r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"bash","input":{}}]}"#,
                MessageForm::Anthropic,
            ),
            (
                r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":"{}"}}]}"#,
                MessageForm::OpenAi,
            ),
            (
                r#"{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"bash"}}]}"#,
                MessageForm::OpenAi,
            ),
            (
                r#"{"role":"assistant","content":[{"type":"function_call","id":"fc_1","call_id":"c","name":"bash","arguments":"{}"}],"abide":{"form":"responses"}}"#,
                MessageForm::Responses,
            ),
            (
                r#"{"role":"assistant","content":[{"type":"custom_tool_call","call_id":"c","name":"bash","input":"x"}],"abide":{"form":"responses","answer":"a1"}}"#,
                MessageForm::Responses,
            ),
        ];
        for (text, form) in calls {
            let reading = read(text).unwrap();
            let call = ReadCall { id: "c".into(), name: "bash".into(), form };
            assert_eq!(reading.calls, [call], "{text}");
            assert!(reading.rest && reading.results.is_empty());
        }
        let results = [
            r#"{"role":"tool","content":[{"type":"tool_result","call":"c","content":"x"}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}"#,
            r#"{"role":"tool","tool_call_id":"c","content":"x"}"#,
            r#"{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"x"}]}"#,
            r#"{"role":"tool","content":[{"type":"function_call_output","call_id":"c","output":"x"}],"abide":{"form":"responses"}}"#,
            r#"{"role":"tool","content":[{"type":"computer_call_output","call_id":"c","output":{}}],"abide":{"form":"responses"}}"#,
            r#"{"role":"function","name":"c","content":"x"}"#,
        ];
        for text in results {
            let reading = read(text).unwrap();
            let result = ReadResult { id: "c".into(), unknown: false };
            assert_eq!(reading.results, [result], "{text}");
            assert!(!reading.rest && reading.calls.is_empty());
        }
        let mixed = read(
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"},{"type":"text","text":"and"}]}"#,
        );
        assert!(mixed.unwrap().rest);
    }

    #[test]
    fn a_message_that_was_cut_off_holds_no_calls() {
        for (calls, partial) in [(1, "false"), (0, "true"), (1, "\"true\"")] {
            for content in [
                r#""content":[{"type":"tool_use","id":"c","name":"n","input":{}}]"#,
                r#""content":null,"tool_calls":[{"id":"c","function":{"name":"n"}}]"#,
                r#""content":[{"type":"function_call","call_id":"c","name":"n"}]"#,
                r#""function_call":{"name":"n","arguments":"{}"}"#,
            ] {
                let text =
                    format!(r#"{{"role":"assistant",{content},"abide":{{"partial":{partial}}}}}"#);
                let reading = read(&text).unwrap();
                assert_eq!((reading.calls.len(), reading.rest), (calls, true), "{text}");
            }
        }
    }

    #[test]
    fn an_item_that_joins_nothing_is_neither_call_nor_result() {
        for (text, rest) in [
            (r#"{"role":"assistant","content":[{"type":"web_search_call","id":"ws_1"}]}"#, true),
            (r#"{"role":"assistant","content":[{"type":"reasoning","summary":[]}]}"#, true),
            (r#"{"role":"assistant","reasoning_content":"hm"}"#, true),
            (r#"{"role":"assistant","refusal":"no"}"#, true),
        ] {
            let reading = read(text).unwrap();
            assert!(reading.calls.is_empty() && reading.results.is_empty(), "{text}");
            assert_eq!(reading.rest, rest, "{text}");
        }
        let unknown = format!(
            r#"{{"role":"tool","content":[{{"type":"function_call_output","call_id":"c","output":"{OUTCOME_UNKNOWN}"}}]}}"#
        );
        assert!(read(&unknown).unwrap().results[0].unknown);
    }

    #[test]
    fn what_cannot_be_told_is_unknown_and_what_is_odd_is_no_call() {
        assert_eq!(read(r#"{"content":"x"}"#), None);
        assert_eq!(read(r#"{"role":7,"content":"x"}"#), None);
        assert_eq!(read(r#"{"role":"user"}"#), None);
        for odd in [
            r#"{"role":"user","content":null}"#,
            r#"{"role":"user","content":[{"type":"tool_use","id":7},5,{"type":"tool_result"}]}"#,
            r#"{"role":"user","content":[{"type":"tool_call","name":"n","type":"x"}]}"#,
            r#"{"role":"user","content":"x","tool_calls":"none"}"#,
            r#"{"role":"user","content":[]}"#,
        ] {
            let reading = read(odd).unwrap();
            assert!(reading.calls.is_empty() && reading.results.is_empty(), "{odd}");
            assert!(reading.rest, "{odd}");
        }
        let nameless = read(r#"{"role":"tool","content":"done"}"#).unwrap();
        assert_eq!((nameless.results.len(), nameless.rest), (1, false));
    }
}
