//! Answers in one piece, and errors, in the form of each API.

use serde_json::{Value, json};

use super::answer::{StubAnswer, StubCall, StubLimits, StubUsage};
use super::request::{Api, StubRequest};

/// The answer as one JSON.
pub(super) fn body(request: &StubRequest, answer: &StubAnswer) -> Value {
    match request.api {
        Api::Chat => json!({
            "id": id("chatcmpl", request), "object": "chat.completion", "created": 1_700_000_000,
            "model": request.model(),
            "choices": [{
                "index": 0,
                "message": chat_message(answer),
                "finish_reason": chat_finish(answer),
            }],
            "usage": chat_usage(answer.usage),
        }),
        Api::Responses => response(request, answer, "completed"),
        Api::Messages => {
            let mut content = Vec::new();
            if !answer.text.is_empty() {
                content.push(json!({"type": "text", "text": answer.text}));
            }
            content.extend(answer.calls.iter().map(|call| {
                json!({"type": "tool_use", "id": call.id, "name": call.name,
                       "input": call.arguments})
            }));
            json!({
                "id": id("msg", request), "type": "message", "role": "assistant",
                "model": request.model(), "content": content,
                "stop_reason": messages_stop(answer), "stop_sequence": null,
                "usage": messages_usage(answer.usage, answer.usage.output),
            })
        }
        Api::Gemini => gemini(&gemini_parts(answer), Some(answer.usage)),
    }
}

/// One answer of Gemini, or a piece of one; the last tells what was used.
pub(super) fn gemini(parts: &[Value], usage: Option<StubUsage>) -> Value {
    let content = json!({"role": "model", "parts": parts});
    let Some(usage) = usage else {
        return json!({"candidates": [{"index": 0, "content": content}]});
    };
    json!({
        "candidates": [{"index": 0, "content": content, "finishReason": "STOP"}],
        "usageMetadata": {
            "promptTokenCount": usage.input, "cachedContentTokenCount": usage.cached,
            "candidatesTokenCount": usage.output,
            "totalTokenCount": usage.input + usage.output,
        },
    })
}

fn gemini_parts(answer: &StubAnswer) -> Vec<Value> {
    let said = (!answer.text.is_empty()).then(|| json!({"text": answer.text}));
    said.into_iter().chain(gemini_calls(answer)).collect()
}

pub(super) fn gemini_calls(answer: &StubAnswer) -> Vec<Value> {
    let call = |call: &StubCall| json!({"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}});
    answer.calls.iter().map(call).collect()
}

/// An error, in the form of the API.
pub(super) fn error(api: Api, code: u16, message: &str) -> Value {
    let kind = match code {
        429 => "rate_limit_error",
        500.. => "api_error",
        401 => "authentication_error",
        _ => "invalid_request_error",
    };
    match api {
        Api::Messages => {
            json!({"type": "error", "error": {"type": kind, "message": message}})
        }
        Api::Gemini => {
            let status = if code == 429 { "RESOURCE_EXHAUSTED" } else { "INTERNAL" };
            json!({"error": {"code": code, "message": message, "status": status}})
        }
        Api::Chat | Api::Responses => {
            json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
        }
    }
}

/// The headers that tell of limits, in the names of the API.
pub(super) fn limit_headers(api: Api, limits: StubLimits) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    let counted = [
        ("requests", limits.requests, limits.requests_left),
        ("tokens", limits.tokens, limits.tokens_left),
    ];
    for (what, most, left) in counted {
        let named = |word: &str| match api {
            Api::Messages => format!("anthropic-ratelimit-{what}-{word}"),
            Api::Chat | Api::Responses | Api::Gemini => format!("x-ratelimit-{word}-{what}"),
        };
        let reset = if api == Api::Messages { "2030-01-01T00:00:00Z" } else { "1m30s" };
        headers.push((named("limit"), most.to_string()));
        headers.push((named("remaining"), left.to_string()));
        headers.push((named("reset"), reset.to_owned()));
    }
    headers
}

pub(super) fn id(kind: &str, request: &StubRequest) -> String {
    format!("{kind}_stub{}", request.number)
}

/// `null` where nothing is said, as the API has it beside calls.
fn chat_message(answer: &StubAnswer) -> Value {
    let text = (!answer.text.is_empty() || answer.calls.is_empty()).then_some(&answer.text);
    let mut message = json!({"role": "assistant", "content": text, "refusal": null});
    if !answer.calls.is_empty() {
        let calls = answer.calls.iter().map(|call| {
            json!({"id": call.id, "type": "function",
                   "function": {"name": call.name, "arguments": call.arguments.to_string()}})
        });
        message["tool_calls"] = calls.collect();
    }
    message
}

pub(super) fn chat_finish(answer: &StubAnswer) -> &'static str {
    if answer.calls.is_empty() { "stop" } else { "tool_calls" }
}

pub(super) fn chat_usage(usage: StubUsage) -> Value {
    json!({"prompt_tokens": usage.input, "completion_tokens": usage.output,
           "total_tokens": usage.input + usage.output,
           "prompt_tokens_details": {"cached_tokens": usage.cached}})
}

/// The response object, whole when it is `completed`.
pub(super) fn response(request: &StubRequest, answer: &StubAnswer, status: &str) -> Value {
    let whole = status == "completed";
    let usage = whole.then(|| {
        let usage = answer.usage;
        json!({"input_tokens": usage.input, "output_tokens": usage.output,
               "total_tokens": usage.input + usage.output,
               "input_tokens_details": {"cached_tokens": usage.cached},
               "output_tokens_details": {"reasoning_tokens": 0}})
    });
    let output = if whole { response_items(request, answer) } else { Vec::new() };
    json!({"id": id("resp", request), "object": "response", "created_at": 1_700_000_000,
           "status": status, "error": null, "incomplete_details": null,
           "model": request.model(), "output": output, "usage": usage})
}

/// The items of a response.
pub(super) fn response_items(request: &StubRequest, answer: &StubAnswer) -> Vec<Value> {
    let mut items = Vec::new();
    if !answer.text.is_empty() {
        items.push(json!({
            "id": id("msg", request), "type": "message", "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": answer.text, "annotations": []}],
        }));
    }
    items.extend(answer.calls.iter().map(|call| {
        json!({"id": format!("fc_{}", call.id), "type": "function_call", "status": "completed",
               "call_id": call.id, "name": call.name, "arguments": call.arguments.to_string()})
    }));
    items
}

pub(super) fn messages_stop(answer: &StubAnswer) -> &'static str {
    if answer.calls.is_empty() { "end_turn" } else { "tool_use" }
}

pub(super) fn messages_usage(usage: StubUsage, output: u64) -> Value {
    json!({"input_tokens": usage.input.saturating_sub(usage.cached),
           "cache_creation_input_tokens": 0, "cache_read_input_tokens": usage.cached,
           "output_tokens": output})
}
