//! The stub, asked over plain sockets.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::*;

const PATHS: [&str; 3] = ["/v1/chat/completions", "/v1/responses", "/v1/messages"];

/// What was answered: the head, and the body with its chunks joined.
struct Got {
    head: String,
    body: Vec<u8>,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The data of its events, the end mark left out.
    fn events(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.body).unwrap();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

fn open(server: &StubModel, path: &str, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nX-Some: Thing\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    stream
}

fn ask(server: &StubModel, path: &str, body: &Value) -> Got {
    let mut all = Vec::new();
    open(server, path, body).read_to_end(&mut all).unwrap();
    split(&all)
}

fn split(all: &[u8]) -> Got {
    let end = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(all[..end].to_vec()).unwrap();
    let mut rest = &all[end + 4..];
    if !head.contains("chunked") {
        return Got { head, body: rest.to_vec() };
    }
    let mut body = Vec::new();
    while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
        let length =
            usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if length == 0 {
            break;
        }
        body.extend_from_slice(&rest[line + 2..line + 2 + length]);
        rest = &rest[line + 4 + length..];
    }
    Got { head, body }
}

fn messages(path: &str, said: &str) -> Value {
    let name = if path.ends_with("responses") { "input" } else { "messages" };
    json!({"model": "m", name: [{"role": "user", "content": said}]})
}

fn streamed(mut body: Value) -> Value {
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    body
}

fn both() -> StubAnswer {
    StubAnswer {
        text: "Grüße, 世界! I'll look.".to_owned(),
        piece: 3,
        ..StubAnswer::calls(vec![
            StubCall::new("c1", "read", json!({"path": "a.rs"})),
            StubCall::new("c2", "bash", json!({"command": "ls"})),
        ])
    }
}

#[test]
fn whole_answers_have_the_form_of_their_api() {
    let server = StubModel::in_turn(vec![both()]).unwrap();
    let chat = ask(&server, PATHS[0], &messages(PATHS[0], "hi")).json();
    assert_eq!(chat["choices"][0]["message"]["content"], both().text);
    let call = &chat["choices"][0]["message"]["tool_calls"][1];
    assert_eq!(call["id"], "c2");
    assert_eq!(call["function"]["arguments"], r#"{"command":"ls"}"#);
    assert_eq!(chat["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(chat["usage"]["prompt_tokens"], 12);
    let response = ask(&server, PATHS[1], &messages(PATHS[1], "hi")).json();
    assert_eq!(response["output"][0]["content"][0]["text"], both().text);
    assert_eq!(response["output"][2]["call_id"], "c2");
    assert_eq!(response["usage"]["output_tokens"], 7);
    let message = ask(&server, PATHS[2], &messages(PATHS[2], "hi")).json();
    assert_eq!(message["content"][0]["text"], both().text);
    assert_eq!(message["content"][1]["input"], json!({"path": "a.rs"}));
    assert_eq!(message["stop_reason"], "tool_use");
    assert_eq!(message["usage"]["input_tokens"], 8);
    assert_eq!(message["usage"]["cache_read_input_tokens"], 4);
}

#[test]
fn streamed_answers_say_the_same_in_pieces() {
    for torn in [None, Some(1), Some(7)] {
        let server = StubModel::in_turn(vec![StubAnswer { torn, ..both() }]).unwrap();
        let ask =
            |at: usize| ask(&server, PATHS[at], &streamed(messages(PATHS[at], "hi"))).events();
        let join = |events: &[Value], pointer: &str| -> String {
            events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect()
        };

        let chat = ask(0);
        assert_eq!(join(&chat, "/choices/0/delta/content"), both().text);
        let second: Vec<Value> = chat
            .iter()
            .filter(|event| event.pointer("/choices/0/delta/tool_calls/0/index") == Some(&json!(1)))
            .cloned()
            .collect();
        assert!(second.len() > 3, "the arguments come in pieces");
        let arguments = join(&second, "/choices/0/delta/tool_calls/0/function/arguments");
        assert_eq!(arguments, r#"{"command":"ls"}"#);
        assert_eq!(chat.last().unwrap()["usage"]["completion_tokens"], 7);

        let responses = ask(1);
        let of = |kind: &str| -> Vec<Value> {
            responses.iter().filter(|event| event["type"] == kind).cloned().collect()
        };
        assert_eq!(join(&of("response.output_text.delta"), "/delta"), both().text);
        assert_eq!(of("response.output_item.done").len(), 3);
        assert_eq!(responses.last().unwrap()["response"]["output"][1]["call_id"], "c1");
        for (number, event) in responses.iter().enumerate() {
            assert_eq!(event["sequence_number"], number);
        }

        let anthropic = ask(2);
        assert_eq!(join(&anthropic, "/delta/text"), both().text);
        assert_eq!(join(&anthropic, "/delta/partial_json"), r#"{"path":"a.rs"}{"command":"ls"}"#);
        assert_eq!(anthropic.first().unwrap()["message"]["content"], json!([]));
        assert_eq!(anthropic.last().unwrap()["type"], "message_stop");
    }
}

#[test]
fn refusals_have_their_status_headers_and_form() {
    let server = StubModel::in_turn(vec![StubAnswer::too_many("7")]).unwrap();
    for path in PATHS {
        let got = ask(&server, path, &streamed(messages(path, "hi")));
        assert!(got.head.starts_with("HTTP/1.1 429 "), "{}", got.head);
        assert!(got.head.contains("\r\nretry-after: 7\r\n"), "{}", got.head);
        assert_eq!(got.json()["error"]["message"], "Rate limit reached");
        assert_eq!(got.json()["error"]["type"], "rate_limit_error");
    }
    let limits =
        Some(StubLimits { requests: 50, requests_left: 49, tokens: 1000, tokens_left: 980 });
    let server = StubModel::in_turn(vec![StubAnswer { limits, ..both() }]).unwrap();
    let head = |at: usize| ask(&server, PATHS[at], &messages(PATHS[at], "hi")).head;
    assert!(head(1).contains("x-ratelimit-remaining-tokens: 980"), "{}", head(1));
    assert!(head(2).contains("anthropic-ratelimit-tokens-remaining: 980"), "{}", head(2));
}

#[test]
fn what_is_no_request_is_refused_and_not_counted() {
    let server = StubModel::in_turn(vec![both()]).unwrap();
    let said = |text: &str| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        all.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(said("POST /elsewhere HTTP/1.1\r\ncontent-length: 0\r\n\r\n"), "404");
    assert_eq!(said("GET /v1/messages HTTP/1.1\r\n\r\n"), "405");
    assert_eq!(said("POST /v1/messages HTTP/1.1\r\n\r\n"), "411");
    assert_eq!(said("POST /v1/messages HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n"), "413");
    assert_eq!(said("POST /v1/messages HTTP/1.1\r\ncontent-length: 2\r\n\r\n{]"), "400");
    assert_eq!(server.count(), 0);
    ask(&server, PATHS[0], &messages(PATHS[0], "kept"));
    let kept = &server.requests()[0];
    assert_eq!((kept.number, kept.api, kept.path.as_str()), (0, Api::Chat, PATHS[0]));
    assert_eq!(kept.header("x-some"), Some("Thing"));
    assert_eq!(kept.last_said().as_deref(), Some("kept"));
}

#[test]
fn answers_break_off_and_are_malformed_on_demand() {
    let cut = both().but(Failure::CloseAfter(10));
    let server = StubModel::in_turn(vec![cut, both().but(Failure::Malformed)]).unwrap();
    let got = ask(&server, PATHS[0], &messages(PATHS[0], "hi"));
    assert_eq!(got.body.len(), 10, "the head said more");
    assert!(!got.head.contains("content-length: 10\r\n"), "{}", got.head);
    let got = ask(&server, PATHS[0], &messages(PATHS[0], "hi"));
    assert!(serde_json::from_slice::<Value>(&got.body).is_err());
    let got = ask(&server, PATHS[2], &streamed(messages(PATHS[2], "hi")));
    let text = String::from_utf8(got.body).unwrap();
    let broken = |line: &&str| {
        line.strip_prefix("data: ").is_some_and(|data| serde_json::from_str::<Value>(data).is_err())
    };
    assert_eq!(text.lines().filter(broken).count(), 1);
    assert!(text.contains("message_stop"), "it goes on after it");

    let cut = both().but(Failure::CloseAfter(33));
    let server = StubModel::in_turn(vec![cut]).unwrap();
    let mut all = Vec::new();
    open(&server, PATHS[0], &streamed(messages(PATHS[0], "hi"))).read_to_end(&mut all).unwrap();
    assert!(!all.ends_with(b"0\r\n\r\n"), "no end");
    assert_eq!(split(&all).body.len(), 33);
}

#[test]
fn floods_and_hangs_end_with_the_server() {
    for failure in [Failure::Flood, Failure::Hang, Failure::HangAfter(5)] {
        let server = StubModel::in_turn(vec![both().but(failure.clone())]).unwrap();
        let mut whole = open(&server, PATHS[0], &messages(PATHS[0], "hi"));
        let mut stream = open(&server, PATHS[2], &streamed(messages(PATHS[2], "hi")));
        if failure == Failure::Flood {
            // Far more than any buffer between us holds.
            let mut some = vec![0; 8 << 20];
            whole.read_exact(&mut some).unwrap();
            stream.read_exact(&mut some).unwrap();
        }
        drop(server);
        // What is left may end orderly or not: it ends.
        let _ = io::copy(&mut whole, &mut io::sink());
        let _ = io::copy(&mut stream, &mut io::sink());
    }
}

fn named(id: &Value, name: &Value) -> String {
    format!("{} {}", id.as_str().unwrap(), name.as_str().unwrap())
}

/// The messages of a request after the answer of the server and the results to its calls.
fn go_on(path: &str, body: &mut Value, answer: &Value) -> Vec<String> {
    let mut names = Vec::new();
    match path {
        "/v1/chat/completions" => {
            let message = answer["choices"][0]["message"].clone();
            let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
            let all = body["messages"].as_array_mut().unwrap();
            all.push(message);
            for call in calls {
                names.push(named(&call["id"], &call["function"]["name"]));
                all.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "done"}));
            }
        }
        "/v1/responses" => {
            let all = body["input"].as_array_mut().unwrap();
            for item in answer["output"].as_array().unwrap() {
                all.push(item.clone());
                if item["type"] == "function_call" {
                    names.push(named(&item["call_id"], &item["name"]));
                    all.push(json!({"type": "function_call_output", "call_id": item["call_id"],
                        "output": "done"}));
                }
            }
        }
        _ => {
            let content = answer["content"].clone();
            let uses =
                content.as_array().unwrap().iter().filter(|block| block["type"] == "tool_use");
            let results: Vec<Value> = uses
                .map(|block| {
                    names.push(named(&block["id"], &block["name"]));
                    json!({"type": "tool_result", "tool_use_id": block["id"], "content": "done"})
                })
                .collect();
            let all = body["messages"].as_array_mut().unwrap();
            all.push(json!({"role": "assistant", "content": content}));
            if !results.is_empty() {
                all.push(json!({"role": "user", "content": results}));
            }
        }
    }
    names
}

#[test]
fn a_conversation_goes_on_from_what_the_messages_hold() {
    let conversation = Conversation::of([("read", json!({"path": "a"}))], "All done.")
        .then_at_once([("bash", json!({})), ("edit", json!({"path": "b"}))]);
    let server = StubModel::conversing(conversation).unwrap();
    for path in PATHS {
        let mut body = messages(path, "Fix it");
        let first = ask(&server, path, &body).json();
        // Asked anew, as by an agent that was killed: the same calls again.
        let again = ask(&server, path, &body).json();
        let same = go_on(path, &mut body.clone(), &again);
        assert_eq!(same, ["call_0_0 read"]);
        assert_eq!(go_on(path, &mut body, &first), same);
        let second = ask(&server, path, &body).json();
        assert_eq!(go_on(path, &mut body, &second), ["call_1_0 bash", "call_1_1 edit"]);
        let last = ask(&server, path, &body).json();
        assert!(last.to_string().contains("All done."), "{last}");
        assert!(go_on(path, &mut body, &last).is_empty());

        // The first step is gone, as after a compaction.
        let name = if path.ends_with("responses") { "input" } else { "messages" };
        let mut short = body.clone();
        let kept = short[name].as_array().unwrap().iter();
        let kept = kept.filter(|message| !message.to_string().contains("call_0_0"));
        let kept: Vec<Value> = kept.cloned().collect();
        assert!(kept.len() < body[name].as_array().unwrap().len());
        short[name] = kept.into();
        assert!(ask(&server, path, &short).json().to_string().contains("All done."));
    }
}

#[test]
fn a_call_without_a_result_is_refused() {
    let server = StubModel::conversing(Conversation::of([("read", json!({}))], "Done.")).unwrap();
    let mut body = messages(PATHS[0], "Fix it");
    let first = ask(&server, PATHS[0], &body).json();
    go_on(PATHS[0], &mut body, &first);
    body["messages"].as_array_mut().unwrap().pop();
    let got = ask(&server, PATHS[0], &body);
    assert!(got.head.starts_with("HTTP/1.1 400 "), "{}", got.head);
    assert_eq!(got.json()["error"]["message"], "No tool output found for call call_0_0");
}

const GEMINI: [&str; 2] =
    ["/v1beta/models/g-1:generateContent", "/v1beta/models/g-1:streamGenerateContent?alt=sse"];

#[test]
fn gemini_is_answered_in_its_form_whole_and_in_pieces() {
    let server = StubModel::in_turn(vec![both()]).unwrap();
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
    let whole = ask(&server, GEMINI[0], &body).json();
    let parts = whole.pointer("/candidates/0/content/parts").unwrap();
    assert_eq!(parts[0]["text"], both().text);
    assert_eq!(
        parts[2]["functionCall"],
        json!({"id": "c2", "name": "bash", "args": {"command": "ls"}})
    );
    assert_eq!(whole["usageMetadata"]["promptTokenCount"], 12);

    let pieces = ask(&server, GEMINI[1], &body).events();
    let said: String = pieces
        .iter()
        .filter_map(|piece| piece.pointer("/candidates/0/content/parts/0/text")?.as_str())
        .collect();
    assert_eq!(said, both().text);
    let (last, before) = pieces.split_last().unwrap();
    assert_eq!(last.pointer("/candidates/0/content/parts").unwrap()[0]["functionCall"]["id"], "c1");
    assert_eq!(last["usageMetadata"]["candidatesTokenCount"], 7);
    assert!(before.iter().all(|piece| piece.get("usageMetadata").is_none()));
    let asked = &server.requests()[1];
    assert_eq!((asked.api, asked.model()), (Api::Gemini, "g-1"));
    assert_eq!(asked.last_said().as_deref(), Some("hi"));

    let server = StubModel::in_turn(vec![StubAnswer::too_many("7")]).unwrap();
    let refused = ask(&server, GEMINI[1], &body);
    assert!(refused.head.starts_with("HTTP/1.1 429 "), "{}", refused.head);
    assert_eq!(refused.json()["error"]["status"], "RESOURCE_EXHAUSTED");
}

fn tasks(until: &std::path::Path) -> Tasks {
    let step = |name: &str| vec![Step { name: name.to_owned(), arguments: json!({}) }];
    let task = |when: &str, wait| StubTask {
        when: when.to_owned(),
        steps: vec![step("a"), step("b")],
        last: format!("{when} is done."),
        wait,
    };
    let wait = Wait { step: 1, until: until.to_owned() };
    Tasks { tasks: vec![task("one", None), task("two", Some(wait))] }
}

#[test]
fn the_task_that_was_last_spoken_of_is_done() {
    let tasks = tasks(std::path::Path::new("/nonexistent"));
    let server = StubModel::answering(move |request| tasks.answer(request)).unwrap();
    let said = |text: &str| json!({"role": "user", "parts": [{"text": text}]});
    let call =
        |id: &str| json!({"role": "model", "parts": [{"functionCall": {"id": id, "name": "a"}}]});
    let result = |id: &str| json!({"role": "user", "parts": [{"functionResponse": {"id": id, "name": "a"}}]});
    let next = |contents: Vec<Value>| {
        let got = ask(&server, GEMINI[0], &json!({"contents": contents}));
        let parts = got.json().pointer("/candidates/0/content/parts").cloned();
        let parts = parts.unwrap_or_else(|| panic!("{}", got.head));
        let call = parts.pointer("/1/functionCall/id").and_then(Value::as_str);
        call.map_or_else(|| parts[0]["text"].as_str().unwrap().to_owned(), str::to_owned)
    };
    assert_eq!(next(vec![said("hello")]), "There is no task in this.");
    assert_eq!(next(vec![said("do one")]), "call_0_0_0");
    assert_eq!(next(vec![said("do two, after one")]), "call_1_0_0");
    let begun = vec![said("do one"), call("call_0_0_0"), result("call_0_0_0")];
    assert_eq!(next(begun.clone()), "call_0_1_0");
    assert_eq!(next([begun.clone(), vec![said("go on")]].concat()), "call_0_1_0");
    assert_eq!(next([begun.clone(), vec![said("do two")]].concat()), "call_1_0_0");
    let ended = vec![call("call_0_1_0"), result("call_0_1_0")];
    assert_eq!(next([begun.clone(), ended].concat()), "one is done.");
    let open = json!({"contents": [begun[0], begun[1]]});
    assert!(ask(&server, GEMINI[0], &open).head.starts_with("HTTP/1.1 400 "));
}

#[test]
fn an_answer_waits_for_its_file_and_not_for_the_end_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let gate = dir.path().join("go");
    let held = StubAnswer { until: Some(gate.clone()), ..StubAnswer::text("late") };
    let server = StubModel::in_turn(vec![held]).unwrap();
    let mut stream = open(&server, PATHS[0], &messages(PATHS[0], "hi"));
    while server.count() == 0 {
        thread::yield_now();
    }
    std::fs::write(&gate, "").unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(split(&all).json()["choices"][0]["message"]["content"], "late");

    std::fs::remove_file(&gate).unwrap();
    let mut stream = open(&server, PATHS[0], &messages(PATHS[0], "hi"));
    while server.count() == 1 {
        thread::yield_now();
    }
    drop(server);
    all.clear();
    let _ = stream.read_to_end(&mut all);
    assert!(all.is_empty(), "nothing was answered");
}
