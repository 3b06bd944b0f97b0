//! Messages of every form as nobody wrote them, and whether they come back.

use abide_wire::{MessageForm, export};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{payload, recorded};

pub fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-zA-Z]{1,12}",
        1 => Just(String::new()),
        1 => Just(" \n\u{a0}".to_owned()),
        2 => any::<String>(),
        1 => Just("{\"a\":[1,2]}".to_owned()),
    ]
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[ab]", 1 => "[a-z0-9_]{1,50}", 1 => text()]
}

fn arguments() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => text().prop_map(|text| json!({"a": text, "b": [1, null]})),
        1 => Just(json!({})),
    ]
}

fn anything() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!(7)),
        Just(json!([])),
        Just(json!({"type": 7})),
        Just(json!({"text": "x"})),
        text().prop_map(|text| json!({"type": "brand_new", "text": text})),
        text().prop_map(Value::String),
    ]
}

fn image() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}})
        ),
        Just(
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/tiff", "data": "aaaa"}})
        ),
        Just(
            json!({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}})
        ),
        text().prop_map(|url| json!({"type": "image", "source": {"type": "url", "url": url}})),
    ]
}

fn said() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => text().prop_map(|text| json!({"type": "text", "text": text})),
        1 => text().prop_map(|text| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}})),
        1 => image(),
        1 => anything(),
        1 => Just(json!({"type": "text", "text": "kept", "cache_control": {"type": "ephemeral"}})),
    ]
}

fn inner() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        2 => text().prop_map(Value::String),
        2 => vec(said(), 0..3).prop_map(Value::Array),
    ]
}

pub fn anthropic() -> impl Strategy<Value = Value> {
    let block = prop_oneof![
        4 => said(),
        2 => (text(), text()).prop_map(|(text, signature)|
            json!({"type": "thinking", "thinking": text, "signature": signature})),
        1 => text().prop_map(|text| json!({"type": "thinking", "thinking": text})),
        1 => Just(json!({"type": "redacted_thinking", "data": "zz"})),
        3 => (id(), text(), arguments()).prop_map(|(id, name, input)|
            json!({"type": "tool_use", "id": id, "name": name, "input": input})),
        1 => (id(), anything()).prop_map(|(id, input)|
            json!({"type": "tool_use", "id": id, "name": "n", "input": input})),
        2 => (id(), inner(), any::<bool>()).prop_map(|(id, content, error)|
            json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": error})),
        1 => Just(json!({"type": "document", "source": {}})),
        1 => "[ab]".prop_map(|id|
            json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}})),
        1 => "[ab]".prop_map(|id|
            json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []})),
    ];
    let content = prop_oneof![
        1 => text().prop_map(Value::String),
        3 => vec(block, 0..5).prop_map(Value::Array),
    ];
    (prop_oneof![Just("user"), Just("assistant"), Just("system"), Just("odd")], content)
        .prop_map(|(role, content)| json!({"role": role, "content": content}))
}

pub fn openai() -> impl Strategy<Value = Value> {
    let part = prop_oneof![
        4 => text().prop_map(|text| json!({"type": "text", "text": text})),
        1 => Just(json!({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}})),
        1 => text().prop_map(|url| json!({"type": "image_url", "image_url": {"url": url}})),
        1 => text().prop_map(|text| json!({"type": "refusal", "refusal": text})),
        1 => Just(json!({"type": "input_audio", "input_audio": {}})),
        1 => anything(),
    ];
    let content = prop_oneof![
        3 => text().prop_map(Value::String),
        1 => Just(Value::Null),
        2 => vec(part, 0..4).prop_map(Value::Array),
    ];
    let call = prop_oneof![
        3 => (id(), text(), arguments()).prop_map(|(id, name, arguments)| json!({
            "id": id, "type": "function",
            "function": {"name": name, "arguments": arguments.to_string()}})),
        1 => (id(), text()).prop_map(|(id, arguments)| json!({
            "id": id, "type": "function", "function": {"name": "n", "arguments": arguments}})),
        1 => (id(), anything()).prop_map(|(id, function)| json!({"id": id, "function": function})),
        1 => (id(), text()).prop_map(|(id, input)|
            json!({"id": id, "type": "custom", "custom": {"name": "c", "input": input}})),
        1 => anything(),
    ];
    let role = prop_oneof![
        Just("user"),
        Just("assistant"),
        Just("assistant"),
        Just("system"),
        Just("developer"),
        Just("tool"),
        Just("function"),
        Just("odd"),
    ];
    let more = prop_oneof![
        4 => Just(json!({})),
        1 => text().prop_map(|text| json!({"refusal": text})),
        1 => text().prop_map(|text| json!({"reasoning_content": text})),
        1 => text().prop_map(|text| json!({"function_call": {"name": text, "arguments": "{}"}})),
        1 => Just(json!({"name": "ann", "refusal": null, "tool_calls": null})),
        1 => Just(json!({"more": 1})),
        1 => text().prop_map(|text| json!({"reasoning": text})),
        1 => Just(json!({"audio": {"id": "audio_1"}})),
    ];
    let calls = prop_oneof![3 => Just(None), 3 => vec(call, 0..4).prop_map(Some)];
    (role, content, calls, more, id()).prop_map(|(role, content, calls, more, id)| {
        let mut message = json!({"role": role, "content": content});
        let fields = message.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        if let Some(calls) = calls {
            fields.insert("tool_calls".into(), Value::Array(calls));
        }
        if role == "tool" {
            fields.insert("tool_call_id".into(), Value::String(id));
        }
        message
    })
}

pub fn responses() -> impl Strategy<Value = Value> {
    let part = prop_oneof![
        3 => text().prop_map(|text| json!({"type": "input_text", "text": text})),
        3 => text().prop_map(|text| json!({"type": "output_text", "text": text, "annotations": []})),
        1 => Just(json!({"type": "input_image", "image_url": "https://example.com/a.png"})),
        1 => text().prop_map(|url| json!({"type": "input_image", "image_url": url})),
        1 => text().prop_map(|text| json!({"type": "refusal", "refusal": text})),
        1 => anything(),
    ];
    let content = prop_oneof![
        1 => text().prop_map(Value::String),
        2 => vec(part.boxed(), 0..4).prop_map(Value::Array),
    ];
    let role = prop_oneof![
        Just("user"),
        Just("assistant"),
        Just("system"),
        Just("developer"),
        Just("tool"),
        Just("odd"),
    ];
    let output = prop_oneof![
        2 => text().prop_map(Value::String),
        1 => vec(text().prop_map(|text| json!({"type": "input_text", "text": text})), 0..3)
            .prop_map(Value::Array),
        1 => anything(),
    ];
    prop_oneof![
        4 => (role, content, any::<bool>()).prop_map(|(role, content, typed)| match typed {
            true if role == "assistant" =>
                json!({"type": "message", "id": "msg_1", "role": role, "content": content}),
            true => json!({"type": "message", "role": role, "content": content}),
            false => json!({"role": role, "content": content}),
        }),
        3 => (id(), text(), text()).prop_map(|(id, name, arguments)|
            json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": name, "arguments": arguments})),
        1 => (id(), text()).prop_map(|(id, input)|
            json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": id, "name": "p", "input": input})),
        1 => id().prop_map(|id| json!({"type": "computer_call", "call_id": id, "action": {}})),
        2 => (id(), output.clone()).prop_map(|(id, output)|
            json!({"type": "function_call_output", "call_id": id, "output": output})),
        1 => (id(), output).prop_map(|(id, output)|
            json!({"type": "computer_call_output", "call_id": id, "output": output})),
        1 => text().prop_map(|text| json!({"type": "reasoning", "id": "rs_1",
            "summary": [{"type": "summary_text", "text": text}], "encrypted_content": "zz"})),
        1 => Just(json!({"type": "web_search_call", "id": "ws"})),
    ]
}

pub fn abide() -> impl Strategy<Value = Value> {
    let block = prop_oneof![
        4 => said(),
        2 => (id(), text(), arguments()).prop_map(|(id, name, arguments)|
            json!({"type": "tool_call", "call": id, "name": name, "arguments": arguments})),
        1 => (id(), anything()).prop_map(|(id, arguments)|
            json!({"type": "tool_call", "call": id, "name": "n", "arguments": arguments})),
        2 => (id(), inner(), any::<bool>()).prop_map(|(id, content, ok)|
            json!({"type": "tool_result", "call": id, "content": content, "ok": ok})),
    ];
    let role = prop_oneof![Just("user"), Just("assistant"), Just("tool"), Just("odd")];
    (role, vec(block, 0..5)).prop_map(|(role, blocks)| json!({"role": role, "content": blocks}))
}

/// A message of any form.
pub fn any_message() -> impl Strategy<Value = (MessageForm, Value)> {
    prop_oneof![
        anthropic().prop_map(|message| (MessageForm::Anthropic, message)),
        openai().prop_map(|message| (MessageForm::OpenAi, message)),
        responses().prop_map(|message| (MessageForm::Responses, message)),
        abide().prop_map(|message| (MessageForm::Abide, message)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn every_message_comes_back(( form, message) in any_message()) {
        let line = message.to_string();
        let out = export(form, &recorded(form, &line)).unwrap();
        prop_assert_eq!(out.len(), 1);
        prop_assert_eq!(out[0].get(), line);
    }

    /// A message is taken for one of another form than it was recorded in only where it is one of
    /// both: it comes back in that form as well.
    #[test]
    fn every_message_has_words_in_every_form((form, message) in any_message()) {
        let data = recorded(form, &message.to_string());
        prop_assert!(abide_wire::read(&data).is_some());
        for other in crate::FORMS {
            for out in export(other, &data).unwrap() {
                let again = abide_wire::record(other, out.get());
                prop_assert!(again.is_ok(), "{:?}: {} from {}", again, out.get(), message);
                let again = payload(&again.unwrap());
                let again = export(other, &again).unwrap();
                prop_assert_eq!(again[0].get(), out.get());
            }
        }
    }
}
