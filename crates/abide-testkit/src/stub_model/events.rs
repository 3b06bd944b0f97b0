//! Answers as server-sent events, in the form of each API.

use serde_json::{Value, json};

use super::answer::StubAnswer;
use super::request::{Api, StubRequest};
use super::whole;

/// The answer as events, each with its empty line.
pub(super) fn events(request: &StubRequest, answer: &StubAnswer) -> Vec<String> {
    match request.api {
        Api::Chat => chat(request, answer),
        Api::Responses => responses(request, answer),
        Api::Messages => messages(request, answer),
        Api::Gemini => gemini(answer),
    }
}

/// An event of which there can be any number, for a flood.
pub(super) fn endless(request: &StubRequest) -> String {
    let text = "flood ".repeat(64);
    match request.api {
        Api::Chat => unnamed(&chunk(request, &json!({"content": text}), None)),
        Api::Responses => named(&json!({"type": "response.output_text.delta", "output_index": 0,
            "content_index": 0, "item_id": "msg_flood", "delta": text, "sequence_number": 0})),
        Api::Messages => named(&json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": text}})),
        Api::Gemini => unnamed(&whole::gemini(&[json!({"text": text})], None)),
    }
}

/// An event that is not JSON.
pub(super) fn malformed() -> String {
    "data: {\"choices\": [{\"delta\": \u{1}oops\n\n".to_owned()
}

fn unnamed(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// An event named as its data is.
fn named(data: &Value) -> String {
    let name = data.get("type").and_then(Value::as_str).unwrap_or("message");
    format!("event: {name}\ndata: {data}\n\n")
}

fn chunk(request: &StubRequest, delta: &Value, finish: Option<&str>) -> Value {
    json!({"id": whole::id("chatcmpl", request), "object": "chat.completion.chunk",
           "created": 1_700_000_000, "model": request.model(),
           "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn chat(request: &StubRequest, answer: &StubAnswer) -> Vec<String> {
    let part = |delta: Value| unnamed(&chunk(request, &delta, None));
    let mut all = vec![part(json!({"role": "assistant", "content": "", "refusal": null}))];
    all.extend(answer.pieces(&answer.text).into_iter().map(|text| part(json!({"content": text}))));
    for (at, call) in answer.calls.iter().enumerate() {
        all.push(part(json!({"tool_calls": [{"index": at, "id": call.id, "type": "function",
            "function": {"name": call.name, "arguments": ""}}]})));
        for piece in answer.pieces(&call.arguments.to_string()) {
            all.push(part(
                json!({"tool_calls": [{"index": at, "function": {"arguments": piece}}]}),
            ));
        }
    }
    all.push(unnamed(&chunk(request, &json!({}), Some(whole::chat_finish(answer)))));
    let wanted = request.body.pointer("/stream_options/include_usage");
    if wanted.and_then(Value::as_bool) == Some(true) {
        let mut last = chunk(request, &json!({}), None);
        last["choices"] = json!([]);
        last["usage"] = whole::chat_usage(answer.usage);
        all.push(unnamed(&last));
    }
    all.push("data: [DONE]\n\n".to_owned());
    all
}

fn responses(request: &StubRequest, answer: &StubAnswer) -> Vec<String> {
    let mut all: Vec<Value> = ["response.created", "response.in_progress"]
        .iter()
        .map(|kind| json!({"type": kind, "response": whole::response(request, answer, "in_progress")}))
        .collect();
    for (at, item) in whole::response_items(request, answer).into_iter().enumerate() {
        let id = &item["id"];
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        if item["type"] == "message" {
            begun["content"] = json!([]);
            all.push(json!({"type": "response.output_item.added", "output_index": at,
                "item": begun}));
            let part = &item["content"][0];
            let empty = json!({"type": "output_text", "text": "", "annotations": []});
            all.push(json!({"type": "response.content_part.added", "item_id": id,
                "output_index": at, "content_index": 0, "part": empty}));
            for piece in answer.pieces(&answer.text) {
                all.push(json!({"type": "response.output_text.delta", "item_id": id,
                    "output_index": at, "content_index": 0, "delta": piece}));
            }
            all.push(json!({"type": "response.output_text.done", "item_id": id,
                "output_index": at, "content_index": 0, "text": answer.text}));
            all.push(json!({"type": "response.content_part.done", "item_id": id,
                "output_index": at, "content_index": 0, "part": part}));
        } else {
            begun["arguments"] = json!("");
            all.push(json!({"type": "response.output_item.added", "output_index": at,
                "item": begun}));
            let arguments = item["arguments"].as_str().unwrap_or("");
            for piece in answer.pieces(arguments) {
                all.push(json!({"type": "response.function_call_arguments.delta", "item_id": id,
                    "output_index": at, "delta": piece}));
            }
            all.push(json!({"type": "response.function_call_arguments.done", "item_id": id,
                "output_index": at, "arguments": arguments}));
        }
        all.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    }
    let last = whole::response(request, answer, "completed");
    all.push(json!({"type": "response.completed", "response": last}));
    let numbered = all.into_iter().enumerate().map(|(number, mut event)| {
        event["sequence_number"] = json!(number);
        named(&event)
    });
    numbered.collect()
}

/// Pieces of an answer; what was used comes with the last.
fn gemini(answer: &StubAnswer) -> Vec<String> {
    let mut all: Vec<Vec<Value>> = Vec::new();
    all.extend(answer.pieces(&answer.text).into_iter().map(|text| vec![json!({"text": text})]));
    all.push(whole::gemini_calls(answer));
    let last = all.len() - 1;
    let usage = |at: usize| (at == last).then_some(answer.usage);
    all.iter().enumerate().map(|(at, parts)| unnamed(&whole::gemini(parts, usage(at)))).collect()
}

fn messages(request: &StubRequest, answer: &StubAnswer) -> Vec<String> {
    let mut start = whole::body(
        request,
        &StubAnswer { text: String::new(), calls: Vec::new(), ..answer.clone() },
    );
    start["stop_reason"] = Value::Null;
    start["usage"] = whole::messages_usage(answer.usage, 1);
    let mut all = vec![json!({"type": "message_start", "message": start})];
    let mut at = 0;
    if !answer.text.is_empty() {
        all.push(json!({"type": "content_block_start", "index": at,
            "content_block": {"type": "text", "text": ""}}));
        all.push(json!({"type": "ping"}));
        for piece in answer.pieces(&answer.text) {
            all.push(json!({"type": "content_block_delta", "index": at,
                "delta": {"type": "text_delta", "text": piece}}));
        }
        all.push(json!({"type": "content_block_stop", "index": at}));
        at += 1;
    }
    for call in &answer.calls {
        all.push(json!({"type": "content_block_start", "index": at,
            "content_block": {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}}));
        for piece in answer.pieces(&call.arguments.to_string()) {
            all.push(json!({"type": "content_block_delta", "index": at,
                "delta": {"type": "input_json_delta", "partial_json": piece}}));
        }
        all.push(json!({"type": "content_block_stop", "index": at}));
        at += 1;
    }
    all.push(json!({"type": "message_delta",
        "delta": {"stop_reason": whole::messages_stop(answer), "stop_sequence": null},
        "usage": {"output_tokens": answer.usage.output}}));
    all.push(json!({"type": "message_stop"}));
    all.iter().map(named).collect()
}
