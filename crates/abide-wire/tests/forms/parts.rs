//! An answer that an agent's own file holds in parts: one message of the API, block by block.

use abide_model::{Context, ContextBuilder, Event, Kind, NewEvent, Seq, SessionState, Timestamp};
use abide_wire::{MessageForm, render};
use serde_json::{Value, json};

use crate::{api, payload, rendering};

/// The fields of the API's own message around a block, which are no business of another request.
fn part(seq: u64, block: Value) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "MODEL",
        "content": [block], "stop_reason": "STOP", "stop_sequence": null,
        "usage": {"input_tokens": 1, "service_tier": "TIER"},
        "abide": {
            "form": "anthropic", "answer": "msg_1",
            "source": {"file": "FILE", "at": seq, "bytes": 1, "record": {"uuid": "UUID", "message": null}},
        },
    })
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content, "abide": {
        "form": "anthropic",
        "source": {"file": "FILE", "at": 1, "bytes": 1, "record": {"uuid": "UUID"}},
    }})
}

fn call(id: &str) -> Value {
    part(3, json!({"type": "tool_use", "id": id, "name": "bash", "input": {"command": id}}))
}

fn result(id: &str) -> Value {
    user(json!([{"type": "tool_result", "tool_use_id": id, "content": format!("out of {id}")}]))
}

fn context(messages: &[Value]) -> Context {
    let mut state = SessionState::default();
    let event = |(seq, message): (u64, &Value)| -> Event {
        let new = NewEvent::new(Kind::MESSAGE_ADDED, payload(&message.to_string()));
        new.into_event(Seq(seq), Timestamp::from_millis(0))
    };
    let events: Vec<Event> = (1..).zip(messages).map(event).collect();
    for event in &events {
        assert_eq!(state.apply(event), None);
    }
    let core = &state.core;
    let mut builder = ContextBuilder::new(None, &core.main, &core.lineage, core.seq);
    events.into_iter().for_each(|event| builder.event(event));
    builder.finish().build()
}

/// The roles of the messages in order, with the ids of their calls and results.
fn outline(request: &Value) -> Vec<String> {
    let blocks = |message: &Value| -> String {
        let each = message["content"].as_array().into_iter().flatten();
        each.filter_map(|block| block["id"].as_str().or(block["tool_use_id"].as_str()))
            .map(|id| format!(" {id}"))
            .collect()
    };
    let messages = request["messages"].as_array().unwrap().iter();
    messages.map(|one| format!("{}{}", one["role"].as_str().unwrap(), blocks(one))).collect()
}

#[test]
fn the_parts_of_an_answer_are_one_turn_wherever_the_results_come() {
    let thought = part(1, json!({"type": "thinking", "thinking": "Hm.", "signature": "sig"}));
    let text = part(2, json!({"type": "text", "text": "I look."}));
    let said = part(9, json!({"type": "text", "text": "Done."}));
    let end =
        Value::from_iter(said.as_object().unwrap().clone().into_iter().map(|(name, value)| {
            let marks = json!({"form": "anthropic", "answer": "msg_2"});
            (name.clone(), if name == "abide" { marks } else { value })
        }));
    let orders = [
        vec![call("c1"), call("c2"), result("c1"), result("c2")],
        vec![call("c1"), call("c2"), result("c2"), result("c1")],
        vec![call("c1"), result("c1"), call("c2"), result("c2")],
        // A text after a call, and between a result and the next call.
        vec![call("c1"), result("c1"), text.clone(), call("c2"), result("c2")],
    ];
    for order in orders {
        let before = [user(json!("Look.")), thought.clone(), text.clone()];
        let messages = [&before[..], &order[..], std::slice::from_ref(&end)].concat();
        let context = context(&messages);
        let anthropic = rendering::json_of(&render(MessageForm::Anthropic, &context));
        let openai = rendering::json_of(&render(MessageForm::OpenAi, &context));
        let responses = rendering::json_of(&render(MessageForm::Responses, &context));
        api::anthropic(&anthropic).unwrap();
        api::openai(&openai).unwrap();
        api::responses(&responses).unwrap();
        assert_eq!(outline(&anthropic), ["user", "assistant c1 c2", "user c1 c2", "assistant"]);
        let calls: Vec<_> = openai["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["tool_calls"].as_array().map_or(0, Vec::len))
            .collect();
        assert_eq!(calls, [0, 2, 0, 0, 0], "{openai}");
        let kinds: Vec<_> = responses["input"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|item| item["call_id"].as_str().zip(item["type"].as_str()))
            .collect();
        assert_eq!(
            kinds,
            [
                ("c1", "function_call"),
                ("c2", "function_call"),
                ("c1", "function_call_output"),
                ("c2", "function_call_output"),
            ]
        );
        for request in [anthropic, openai, responses] {
            let text = request.to_string();
            for unsaid in ["msg_1", "MODEL", "STOP", "TIER", "FILE", "UUID", "stop_reason", "abide"]
            {
                assert!(!text.contains(unsaid), "{unsaid}: {text}");
            }
        }
    }
}
