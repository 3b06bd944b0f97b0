//! Whatever a context is made of, the API takes what is rendered of it.

use std::sync::Arc;

use abide_model::{
    CallId, Context, ContextEntry, OUTCOME_UNKNOWN, Payload, RecordedMessage, RecordedResult, Seq,
};
use abide_wire::{MessageForm, MessagePart, ReadMessage, RenderedContext, read, render};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::generated::{any_message, text};
use crate::{FORMS, api, payload, recorded, samples};

pub fn json_of(rendered: &RenderedContext) -> Value {
    serde_json::from_str(&rendered.to_json()).unwrap()
}

fn check(form: MessageForm, request: &Value) -> Result<(), String> {
    match form {
        MessageForm::Abide => Ok(()),
        MessageForm::Anthropic => api::anthropic(request),
        MessageForm::OpenAi => api::openai(request),
        MessageForm::Responses => api::responses(request),
    }
}

pub fn context(entries: Vec<ContextEntry>) -> Context {
    Context { entries, ..Context::default() }
}

pub fn message(data: Payload) -> ContextEntry {
    let message = Arc::new(RecordedMessage::of(&data).unwrap());
    ContextEntry::Message { seq: Seq(1), message }
}

/// The results in a message.
pub fn in_message(data: &Payload) -> RecordedResult {
    RecordedResult::Message(Arc::new(RecordedMessage::of(data).unwrap()))
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Result(u8),
    Executed,
    Unknown,
    /// What a context never has: no result, one too many, one of nobody.
    Forgotten,
    Twice,
    Stray,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => (0u8..4).prop_map(Fate::Result),
        1 => Just(Fate::Executed),
        2 => Just(Fate::Unknown),
        1 => Just(Fate::Forgotten),
        1 => Just(Fate::Twice),
        1 => Just(Fate::Stray),
    ]
}

fn result(form: u8, call: &str, text: &str) -> Payload {
    let (form, value) = match form {
        0 => (
            MessageForm::Abide,
            json!({"role": "tool", "content": [{"type": "tool_result", "call": call, "ok": true, "content": text}]}),
        ),
        1 => (
            MessageForm::Anthropic,
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": text}]}),
        ),
        2 => (MessageForm::OpenAi, json!({"role": "tool", "tool_call_id": call, "content": text})),
        _ => (
            MessageForm::Responses,
            json!({"type": "function_call_output", "call_id": call, "output": text}),
        ),
    };
    recorded(form, &value.to_string())
}

/// A message of which a part may be all that was recorded, as a part of an answer or by itself.
fn marked(data: &Payload, answer: Option<u8>, partial: bool) -> Payload {
    let mut value: Value = serde_json::from_str(data.as_str()).unwrap();
    let marks = value.as_object_mut().unwrap().entry("abide").or_insert(json!({}));
    if let Some(answer) = answer {
        marks["answer"] = json!(format!("a{answer}"));
    }
    if partial {
        marks["partial"] = json!(true);
    }
    payload(&value.to_string())
}

#[derive(Debug, Clone)]
enum Step {
    Message(MessageForm, Value, Vec<Fate>, Option<u8>, bool),
    /// A call that no message holds: its id, with what, and what becomes of it.
    Call(String, Option<Value>, Fate),
    Summary(String),
}

/// Boxed: a tree of values that holds the next one inline fills a thread's stack.
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        9 => (any_message().boxed(), vec(fate(), 6), proptest::option::of(0u8..2), 0u8..8).prop_map(
            |((form, value), fates, answer, partial)| {
                Step::Message(form, value, fates, answer, partial == 0)
            },
        ),
        3 => (text(), arguments(), fate())
            .prop_map(|(id, arguments, fate)| Step::Call(id, arguments, fate)),
        1 => text().prop_map(Step::Summary),
    ]
}

/// With what a tool was used: whatever its caller wrote.
fn arguments() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        Just(None),
        Just(Some(json!(null))),
        Just(Some(json!(["a", 1]))),
        text().prop_map(|text| Some(json!(text))),
        text().prop_map(|text| Some(json!({"a": text}))),
        text().prop_map(|text| Some(json!(json!({"a": text}).to_string()))),
    ]
}

fn entries(steps: &[Step]) -> Vec<ContextEntry> {
    let mut entries = Vec::new();
    for step in steps {
        let (form, value, fates, answer, partial) = match step {
            Step::Summary(text) => {
                entries.push(ContextEntry::Summary { seq: Seq(1), text: text.clone() });
                continue;
            }
            Step::Call(id, arguments, fate) => {
                entries.push(bare(id, arguments.as_ref()));
                entries.extend(outcomes(id, *fate, 0));
                continue;
            }
            Step::Message(form, value, fates, answer, partial) => {
                (*form, value, fates, *answer, *partial)
            }
        };
        let data = marked(&recorded(form, &value.to_string()), answer, partial);
        let calls: Vec<String> = read(&data)
            .unwrap()
            .parts
            .into_iter()
            .filter_map(|part| match part {
                MessagePart::Call(call) => Some(call.id),
                _ => None,
            })
            .collect();
        entries.push(message(data));
        if partial {
            continue;
        }
        for (number, (id, fate)) in calls.iter().zip(fates.iter().cycle()).enumerate() {
            entries.extend(outcomes(id, *fate, number));
        }
    }
    entries
}

/// A call that no message holds.
fn bare(id: &str, arguments: Option<&Value>) -> ContextEntry {
    let mut data = json!({"call": id, "name": "a tool"});
    if let Some(arguments) = arguments {
        data["arguments"] = arguments.clone();
    }
    let data = payload(&data.to_string());
    ContextEntry::Call { seq: Seq(1), call: CallId(id.to_owned()), data }
}

/// What becomes of a call.
fn outcomes(id: &str, fate: Fate, number: usize) -> Vec<ContextEntry> {
    let call = CallId(id.to_owned());
    let of = |form| ContextEntry::Result {
        seq: Seq(number as u64),
        call: call.clone(),
        result: in_message(&result(form, id, "gave")),
    };
    match fate {
        Fate::Result(form) => vec![of(form)],
        Fate::Executed => vec![ContextEntry::Result {
            seq: Seq(1),
            call: call.clone(),
            result: RecordedResult::Executed(payload(
                &json!({"call": id, "result": {"x": 1}}).to_string(),
            )),
        }],
        Fate::Unknown => vec![ContextEntry::Unknown { call, begun: None }],
        Fate::Forgotten => vec![],
        Fate::Twice => vec![of(1), of(2)],
        Fate::Stray => {
            vec![ContextEntry::Unknown { call: CallId("nobody".to_owned()), begun: None }]
        }
    }
}

/// What must be seen of a context: texts, and names of calls with what becomes of them.
fn visible(entries: &[ContextEntry]) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in entries {
        match entry {
            ContextEntry::Message { message, .. } => {
                let said = ReadMessage::from(&**message);
                texts.extend(said.parts.into_iter().filter_map(|part| match part {
                    MessagePart::Text(text) | MessagePart::Refusal(text) => Some(text),
                    _ => None,
                }));
            }
            ContextEntry::Summary { text, .. } => texts.push(text.clone()),
            _ => {}
        }
    }
    texts.retain(|text| !text.trim().is_empty());
    texts
}

fn strings(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::String(text) => out.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|one| strings(one, out)),
        Value::Object(fields) => fields.values().for_each(|one| strings(one, out)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn an_api_takes_whatever_is_rendered(steps in vec(step(), 0..14)) {
        let entries = entries(&steps);
        let texts = visible(&entries);
        let calls = entries.iter().filter_map(|entry| match entry {
            ContextEntry::Message { message, .. } => {
                let partial = message.data().as_str().contains(r#""partial":true"#);
                let said = ReadMessage::from(&**message);
                let calls = said.parts.iter().filter(|part| matches!(part, MessagePart::Call(_))).count();
                (!partial).then_some(calls)
            }
            ContextEntry::Call { .. } => Some(1),
            _ => None,
        }).sum::<usize>();
        let context = context(entries);
        for form in FORMS {
            let request = json_of(&render(form, &context));
            if let Err(error) = check(form, &request) {
                let recorded: Vec<_> = context.entries.iter().map(|entry| format!("{entry:?}")).collect();
                return Err(TestCaseError::fail(format!("{form:?}: {error}\n{request:#}\n{}", recorded.join("\n"))));
            }
            let last = context.entries.iter().rev().find_map(|entry| match entry {
                ContextEntry::Message { message, .. } => Some(message.data().as_str()),
                ContextEntry::Summary { .. } | ContextEntry::Call { .. } => Some(""),
                _ => None,
            });
            if form == MessageForm::Anthropic && last.is_some_and(|last| last.contains(r#""partial":true"#)) {
                prop_assert_eq!(api::anthropic_asks(&request), Ok(()));
            }
            let mut said = Vec::new();
            strings(&request, &mut said);
            for text in &texts {
                prop_assert!(said.iter().any(|one| one.contains(text.as_str())), "{:?}: {:?}", form, text);
            }
            let ids = match form {
                MessageForm::OpenAi => "\"tool_call_id\":",
                MessageForm::Anthropic => "\"type\":\"tool_result\"",
                MessageForm::Responses => "_output\"",
                MessageForm::Abide => continue,
            };
            let results = request.to_string().matches(ids).count();
            prop_assert_eq!(results, calls, "{:?}", form);
        }
    }
}

#[test]
fn the_samples_are_taken_by_every_api() {
    for from in FORMS {
        let entries: Vec<ContextEntry> =
            // A number that is JSON and that few can hold.
            samples(from).iter().map(|line| line.replace("1e400", "1"))
                .map(|line| message(recorded(from, &line))).collect();
        for form in [MessageForm::Anthropic, MessageForm::OpenAi, MessageForm::Responses] {
            let request = json_of(&render(form, &context(entries.clone())));
            let mended = request
                .to_string()
                .replace("something_new", "brand_new")
                .replace("item_reference", "brand_new");
            let mended: Value = serde_json::from_str(&mended).unwrap();
            if from != MessageForm::Responses || form != from {
                check(form, &mended).unwrap_or_else(|error| panic!("{from:?} {form:?}: {error}"));
            }
        }
    }
}

#[test]
fn what_was_recorded_in_the_form_goes_out_as_it_came() {
    for (form, lines) in [
        (MessageForm::OpenAi, vec![0, 1, 2, 3, 7, 8]),
        (MessageForm::Responses, vec![0, 1, 2, 3, 4]),
    ] {
        let lines: Vec<_> = lines.into_iter().map(|at| samples(form)[at]).collect();
        let entries = lines.iter().map(|line| message(recorded(form, line))).collect();
        let out = render(form, &context(entries));
        let out: Vec<_> = out.messages.iter().map(|raw| raw.get()).collect();
        assert_eq!(out, lines);
    }
}

/// A streamed answer is recorded block by block, and tools may end before it does.
#[test]
fn the_parts_of_an_answer_are_one_message() {
    let part = |block: Value| {
        let data = json!({"role": "assistant", "content": [block], "abide": {"answer": "m1"}});
        message(payload(&data.to_string()))
    };
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "t", "input": {}});
    let gave = |id: &str| ContextEntry::Result {
        seq: Seq(3),
        call: CallId(id.to_owned()),
        result: in_message(&result(1, id, &format!("gave {id}"))),
    };
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let entries = vec![
        message(payload(r#"{"role":"system","content":"be brief"}"#)),
        message(payload(r#"{"role":"user","content":"do"}"#)),
        part(thought.clone()),
        part(json!({"type": "text", "text": "well"})),
        part(call("a")),
        gave("a"),
        part(call("b")),
        ContextEntry::Unknown { call: CallId("b".to_owned()), begun: None },
        message(payload(r#"{"role":"user","content":"and"}"#)),
    ];
    let context = context(entries);
    assert_eq!(
        json_of(&render(MessageForm::Anthropic, &context)),
        json!({"system": [{"type": "text", "text": "be brief"}], "messages": [
            {"role": "user", "content": [{"type": "text", "text": "do"}]},
            {"role": "assistant", "content": [thought, {"type": "text", "text": "well"}, call("a"), call("b")]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "gave a"},
                {"type": "tool_result", "tool_use_id": "b", "is_error": true,
                    "content": [{"type": "text", "text": OUTCOME_UNKNOWN}]},
                {"type": "text", "text": "and"},
            ]},
        ]})
    );
    let function =
        |id| json!({"id": id, "type": "function", "function": {"name": "t", "arguments": "{}"}});
    assert_eq!(
        json_of(&render(MessageForm::OpenAi, &context)),
        json!({"messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "do"},
            {"role": "assistant", "content": [{"type": "text", "text": "well"}], "tool_calls": [function("a"), function("b")]},
            {"role": "tool", "tool_call_id": "a", "content": "gave a"},
            {"role": "tool", "tool_call_id": "b", "content": OUTCOME_UNKNOWN},
            {"role": "user", "content": "and"},
        ]})
    );
}

/// The first example of the README: a tool is used, and no message says so.
#[test]
fn a_call_that_no_message_holds_is_an_answer_of_its_own() {
    let context = context(vec![
        message(payload(r#"{"role":"user","content":"hello"}"#)),
        message(payload(r#"{"role":"assistant","content":"I look."}"#)),
        bare("c1", Some(&json!({"command": "cargo test"}))),
        ContextEntry::Result {
            seq: Seq(4),
            call: CallId("c1".to_owned()),
            result: RecordedResult::Executed(payload(
                r#"{"call":"c1","ok":false,"result":"3 failed"}"#,
            )),
        },
        bare("c1", Some(&json!("ls"))),
        ContextEntry::Unknown { call: CallId("c1".to_owned()), begun: Some(Seq(5)) },
    ]);
    let use_of = |id: &str, input: Value| json!({"type": "tool_use", "id": id, "name": "a_tool", "input": input});
    let failed = |id: &str, text: &str| json!({"type": "tool_result", "tool_use_id": id, "is_error": true, "content": [{"type": "text", "text": text}]});
    assert_eq!(
        json_of(&render(MessageForm::Anthropic, &context))["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "hello"}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "I look."},
                use_of("c1", json!({"command": "cargo test"})),
            ]},
            {"role": "user", "content": [failed("c1", "3 failed")]},
            {"role": "assistant", "content": [use_of("c1_2", json!({"raw": "ls"}))]},
            {"role": "user", "content": [failed("c1_2", OUTCOME_UNKNOWN)]},
        ])
    );
    let calls = |id: &str, arguments: &str| {
        let function = json!({"name": "a_tool", "arguments": arguments});
        let call = json!({"id": id, "type": "function", "function": function});
        json!({"role": "assistant", "content": null, "tool_calls": [call]})
    };
    let gave = |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    let said = json!({"role": "user", "content": "hello"});
    let answer = json!({"role": "assistant", "content": "I look."});
    assert_eq!(
        json_of(&render(MessageForm::OpenAi, &context))["messages"],
        json!([
            said,
            answer,
            calls("c1", r#"{"command":"cargo test"}"#),
            gave("c1", "3 failed"),
            calls("c1_2", "ls"),
            gave("c1_2", OUTCOME_UNKNOWN),
        ])
    );
    let call = |id: &str, arguments: &str| json!({"type": "function_call", "call_id": id, "name": "a_tool", "arguments": arguments});
    let output = |id: &str, text: &str| json!({"type": "function_call_output", "call_id": id, "output": text});
    assert_eq!(
        json_of(&render(MessageForm::Responses, &context))["input"],
        json!([
            said,
            answer,
            call("c1", r#"{"command":"cargo test"}"#),
            output("c1", "3 failed"),
            call("c1_2", "ls"),
            output("c1_2", OUTCOME_UNKNOWN),
        ])
    );
}

#[test]
fn an_id_that_stands_twice_is_told_apart_with_its_result() {
    let calls = json!([
        {"id": "x:1", "type": "function", "function": {"name": "a.b", "arguments": "{}"}},
        {"id": "x:1", "type": "function", "function": {"name": "c", "arguments": ""}},
    ]);
    let data = json!({"role": "assistant", "content": null, "tool_calls": calls});
    let gave = |text: &str| ContextEntry::Result {
        seq: Seq(text.len() as u64),
        call: CallId("x:1".to_owned()),
        result: in_message(&result(2, "x:1", text)),
    };
    let context = context(vec![message(payload(&data.to_string())), gave("one"), gave("second")]);
    assert_eq!(
        json_of(&render(MessageForm::Anthropic, &context)),
        json!({"messages": [
            {"role": "user", "content": [{"type": "text", "text": "(the conversation goes on)"}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "x_1", "name": "a_b", "input": {}},
                {"type": "tool_use", "id": "x_1_2", "name": "c", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "x_1", "content": [{"type": "text", "text": "one"}]},
                {"type": "tool_result", "tool_use_id": "x_1_2", "content": [{"type": "text", "text": "second"}]},
            ]},
        ]})
    );
}

/// A message may hold thousands of results, and is there with each of them.
#[test]
fn each_of_many_results_in_one_message_is_found() {
    let ids: Vec<_> = (0..1500).map(|n| format!("c{}", n / 2)).collect();
    let call = |id: &String| json!({"type": "tool_use", "id": id, "name": "t", "input": {}});
    let gave = |(n, id): (usize, &String)| json!({"type": "tool_result", "tool_use_id": id, "content": format!("gave {n}")});
    let calls: Vec<_> = ids.iter().map(call).collect();
    let results: Vec<_> = ids.iter().enumerate().map(gave).collect();
    let result = in_message(&payload(&json!({"role": "user", "content": results}).to_string()));
    let mut entries =
        vec![message(payload(&json!({"role": "assistant", "content": calls}).to_string()))];
    entries.extend(ids.iter().map(|id| ContextEntry::Result {
        seq: Seq(2),
        call: CallId(id.clone()),
        result: result.clone(),
    }));
    let request = json_of(&render(MessageForm::OpenAi, &context(entries)));
    let said: Vec<_> = request["messages"].as_array().unwrap()[1..].iter().collect();
    assert_eq!(said.len(), ids.len());
    for (n, one) in said.iter().enumerate() {
        assert_eq!(one["content"], format!("gave {n}"));
    }
}

#[test]
fn what_was_cut_off_and_what_was_summed_up_is_told_in_words() {
    let cut = r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"rm","input":{"raw":"{\"pa"}}],"abide":{"answer":"m","partial":true}}"#;
    let context = context(vec![
        ContextEntry::Summary { seq: Seq(9), text: "They met.".to_owned() },
        message(payload(cut)),
    ]);
    assert_eq!(
        json_of(&render(MessageForm::OpenAi, &context)),
        json!({"messages": [
            {"role": "user", "content": "Summary of the conversation so far:\n\nThey met."},
            {"role": "assistant", "content": "[cut off before it was made: a call of rm with {\"raw\":\"{\\\"pa\"}]"},
        ]})
    );
}

#[test]
fn half_of_a_surrogate_pair_is_replaced() {
    let data = r#"{"role":"user","content":"a\ud83d"}"#;
    for form in FORMS {
        let out = render(form, &context(vec![message(payload(data))]));
        assert!(json_of(&out).to_string().contains("a\u{fffd}"), "{}", out.to_json());
    }
}

#[test]
fn the_checkers_refuse_what_the_apis_refuse() {
    let call = json!({"type": "tool_use", "id": "c", "name": "t", "input": {}});
    let gave = json!({"type": "tool_result", "tool_use_id": "c"});
    let (user, text) = (
        json!({"role": "user", "content": [{"type": "text", "text": "x"}]}),
        json!({"type": "text", "text": "x"}),
    );
    let anthropic = |messages: Value| api::anthropic(&json!({"messages": messages}));
    let model = json!({"role": "assistant", "content": [call]});
    let good = json!([user, model, {"role": "user", "content": [gave, text]}]);
    anthropic(good).unwrap();
    for bad in [
        json!([user, user]),
        json!([model, {"role": "user", "content": [gave]}]),
        json!([user, model]),
        json!([user, model, {"role": "user", "content": [text, gave]}]),
        json!([user, model, {"role": "user", "content": [gave, gave]}]),
        json!([user, model, {"role": "user", "content": [gave]}, model, {"role": "user", "content": [gave]}]),
        json!([{"role": "user", "content": [{"type": "text", "text": " "}]}]),
        json!([{"role": "user", "content": []}]),
        json!([user, {"role": "assistant", "content": [text, {"type": "redacted_thinking", "data": "x"}]}]),
        json!([user, {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s"}, text]}]),
        json!([user, {"role": "assistant", "content": [{"type": "web_search_tool_result", "tool_use_id": "s"}, text]}]),
        json!([user, model, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "is_error": true}]}]),
        json!([{"role": "user", "content": vec![json!({"type": "text", "text": "x", "cache_control": {}}); 5]}]),
    ] {
        anthropic(bad.clone()).expect_err(&bad.to_string());
    }
    assert!(api::anthropic_asks(&json!({"messages": [user, model]})).is_err());
    let openai = |messages: Value| api::openai(&json!({"messages": messages}));
    let function =
        json!({"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}});
    let model = json!({"role": "assistant", "content": null, "tool_calls": [function]});
    let gave = json!({"role": "tool", "tool_call_id": "c", "content": ""});
    let user = json!({"role": "user", "content": "x"});
    openai(json!([model, gave, user])).unwrap();
    for bad in [
        json!([model, user, gave]),
        json!([model]),
        json!([gave]),
        json!([model, gave, gave]),
        json!([model, gave, model, gave]),
        json!([{"role": "assistant", "content": null}]),
        json!([{"role": "assistant", "content": "x", "tool_calls": []}]),
    ] {
        openai(bad.clone()).expect_err(&bad.to_string());
    }
    let responses = |items: Value| api::responses(&json!({"input": items}));
    let call = json!({"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"});
    let gave = json!({"type": "function_call_output", "call_id": "c", "output": "x"});
    let thought = json!({"type": "reasoning", "summary": []});
    let mut given = call.clone();
    given["id"] = json!("fc_1");
    responses(json!([user, thought, given, gave])).unwrap();
    responses(json!([user, call, gave])).unwrap();
    for bad in [
        json!([call]),
        json!([gave]),
        json!([call, user, gave]),
        json!([call, gave, call, gave]),
        json!([thought, user]),
        json!([thought]),
        json!([thought, call, gave]),
        json!([given, gave]),
        json!([thought, given, gave, given]),
        json!([call, {"type": "custom_tool_call_output", "call_id": "c", "output": "x"}]),
    ] {
        responses(bad.clone()).expect_err(&bad.to_string());
    }
}
