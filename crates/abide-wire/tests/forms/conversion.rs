//! Between every two forms texts, calls and results survive.

use abide_wire::{MessageForm, MessagePart, export, read};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{FORMS, recorded};

/// A message without a form.
#[derive(Debug, Clone)]
enum Plain {
    Says(bool, String),
    Answer(String, Vec<(String, String, Value)>),
    Results(Vec<(String, String)>),
    Shows(String),
}

fn word() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| format!("x{text}"))
}

fn plain() -> impl Strategy<Value = Plain> {
    let call = ("[a-z]{3}", "[a-z_]{1,9}", word())
        .prop_map(|(id, name, text)| (id, name, json!({"a": text, "n": 1})));
    prop_oneof![
        (any::<bool>(), word()).prop_map(|(user, text)| Plain::Says(user, text)),
        (word(), vec(call, 1..4)).prop_map(|(text, calls)| Plain::Answer(text, calls)),
        vec(("[a-z]{3}", word()), 1..4).prop_map(Plain::Results),
        word().prop_map(Plain::Shows),
    ]
}

/// The message as one writes it in a form.
fn in_form(form: MessageForm, plain: &Plain) -> Vec<Value> {
    let role = |user| if user { "user" } else { "assistant" };
    let url = "data:image/png;base64,aaaa";
    let source = json!({"type": "base64", "media_type": "image/png", "data": "aaaa"});
    match (form, plain) {
        (_, Plain::Says(user, text)) => vec![json!({"role": role(*user), "content": text})],
        (MessageForm::Abide, Plain::Answer(text, calls)) => {
            let mut blocks = vec![json!({"type": "text", "text": text})];
            blocks.extend(calls.iter().map(|(id, name, arguments)| {
                json!({"type": "tool_call", "call": id, "name": name, "arguments": arguments})
            }));
            vec![json!({"role": "assistant", "content": blocks})]
        }
        (MessageForm::Anthropic, Plain::Answer(text, calls)) => {
            let mut blocks = vec![json!({"type": "text", "text": text})];
            blocks.extend(calls.iter().map(|(id, name, input)| {
                json!({"type": "tool_use", "id": id, "name": name, "input": input})
            }));
            vec![json!({"role": "assistant", "content": blocks})]
        }
        (MessageForm::OpenAi, Plain::Answer(text, calls)) => {
            let call = |(id, name, arguments): &(String, String, Value)| {
                let function = json!({"name": name, "arguments": arguments.to_string()});
                json!({"id": id, "type": "function", "function": function})
            };
            let calls: Vec<_> = calls.iter().map(call).collect();
            vec![json!({"role": "assistant", "content": text, "tool_calls": calls})]
        }
        (MessageForm::Responses, Plain::Answer(text, calls)) => {
            let part = json!({"type": "output_text", "text": text});
            let mut items =
                vec![json!({"type": "message", "role": "assistant", "content": [part]})];
            items.extend(calls.iter().map(|(id, name, arguments)| {
                let arguments = arguments.to_string();
                json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments})
            }));
            items
        }
        (MessageForm::Abide, Plain::Results(results)) => {
            let block = |(id, text): &(String, String)| json!({"type": "tool_result", "call": id, "content": text});
            vec![json!({"role": "tool", "content": results.iter().map(block).collect::<Vec<_>>()})]
        }
        (MessageForm::Anthropic, Plain::Results(results)) => {
            let block = |(id, text): &(String, String)| json!({"type": "tool_result", "tool_use_id": id, "content": text});
            vec![json!({"role": "user", "content": results.iter().map(block).collect::<Vec<_>>()})]
        }
        (MessageForm::OpenAi, Plain::Results(results)) => results
            .iter()
            .map(|(id, text)| json!({"role": "tool", "tool_call_id": id, "content": text}))
            .collect(),
        (MessageForm::Responses, Plain::Results(results)) => results
            .iter()
            .map(
                |(id, text)| json!({"type": "function_call_output", "call_id": id, "output": text}),
            )
            .collect(),
        (form, Plain::Shows(text)) => {
            let (said, image) = match form {
                MessageForm::OpenAi => (
                    json!({"type": "text", "text": text}),
                    json!({"type": "image_url", "image_url": {"url": url}}),
                ),
                MessageForm::Responses => (
                    json!({"type": "input_text", "text": text}),
                    json!({"type": "input_image", "image_url": url}),
                ),
                _ => (
                    json!({"type": "text", "text": text}),
                    json!({"type": "image", "source": source}),
                ),
            };
            vec![json!({"role": "user", "content": [said, image]})]
        }
    }
}

/// What messages of a form say, as lines that do not depend on it.
fn says(form: MessageForm, messages: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for message in messages {
        let said = read(&recorded(form, message)).unwrap();
        lines.extend(said.parts.iter().map(|part| say(&said.role, part)));
    }
    lines
}

fn say(role: &str, part: &MessagePart) -> String {
    match part {
        MessagePart::Text(text) => format!("{role}: {text}"),
        MessagePart::Call(call) => {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
            format!("call {} {} {arguments}", call.id, call.name)
        }
        MessagePart::Result(result) => {
            let parts: Vec<_> = result.parts.iter().map(|part| say("", part)).collect();
            format!("result {} {}", result.id, parts.concat())
        }
        MessagePart::Image(_) => format!("{role}: image"),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn texts_calls_and_results_survive(plain in vec(plain(), 1..5)) {
        for from in FORMS {
            let messages: Vec<String> =
                plain.iter().flat_map(|one| in_form(from, one)).map(|one| one.to_string()).collect();
            let before = says(from, &messages);
            for to in FORMS {
                let out: Vec<String> = messages
                    .iter()
                    .flat_map(|message| export(to, &recorded(from, message)).unwrap())
                    .map(|raw| raw.get().to_owned())
                    .collect();
                prop_assert_eq!(&says(to, &out), &before, "{:?} to {:?}: {:?}", from, to, out);
            }
        }
    }
}
