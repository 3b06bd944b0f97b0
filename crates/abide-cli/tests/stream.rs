//! Streams of providers, as they come: each block is durable when it is acknowledged, and what is cut
//! off is marked.

use std::io::Write;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::environment::{Conversation, HELLO, TestEnvironment, run};

const ANTHROPIC: [&str; 12] = [
    r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"a-model","content":[],"usage":{"input_tokens":20,"output_tokens":1}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"ping"}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Größer "}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"als 😀"}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"call_a","name":"read","input":{}}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"a b\"}"}}"#,
    r#"{"type":"content_block_stop","index":1}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":40}}"#,
    r#"{"type":"message_stop"}"#,
];

const RESPONSES: [&str; 8] = [
    r#"{"type":"response.created","response":{"id":"resp_1","status":"in_progress","model":"a-model","output":[]}}"#,
    r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}"#,
    r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"Größer als 😀"}"#,
    r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Größer als 😀","annotations":[]}]}}"#,
    r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"call_a","name":"read"}}"#,
    r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":1,"delta":"{\"path\":\"a b\"}"}"#,
    r#"{"type":"response.output_item.done","output_index":1,"item":{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"path\":\"a b\"}","call_id":"call_a","name":"read"}}"#,
    r#"{"type":"response.completed","response":{"id":"resp_1","status":"completed","model":"a-model","output":[],"usage":{"input_tokens":120,"output_tokens":40}}}"#,
];

fn chat(id: &str, delta: &str, reason: &str) -> String {
    format!(
        r#"{{"id":"{id}","object":"chat.completion.chunk","model":"a-model","choices":[{{"index":0,"delta":{delta},"finish_reason":{reason}}}],"usage":null}}"#
    )
}

fn chat_events(id: &str) -> Vec<String> {
    vec![
        chat(id, r#"{"role":"assistant","content":""}"#, "null"),
        chat(id, r#"{"content":"Größer "}"#, "null"),
        chat(id, r#"{"content":"als 😀"}"#, "null"),
        chat(
            id,
            r#"{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"read","arguments":""}}]}"#,
            "null",
        ),
        chat(
            id,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":\"a b\"}"}}]}"#,
            "null",
        ),
        chat(id, "{}", "\"tool_calls\""),
        format!(
            r#"{{"id":"{id}","choices":[],"usage":{{"prompt_tokens":120,"completion_tokens":40}}}}"#
        ),
    ]
}

/// A stream of these events, with these line ends.
fn stream(events: &[impl AsRef<str>], end: &str) -> String {
    events.iter().fold(String::new(), |all, data| format!("{all}data: {}{end}{end}", data.as_ref()))
}

/// A stream of Anthropic's has the type of an event as its name, too.
fn anthropic(end: &str) -> String {
    ANTHROPIC.iter().fold(String::new(), |all, data| {
        let name = data.split('"').nth(3).unwrap();
        format!("{all}event: {name}{end}data: {data}{end}{end}")
    })
}

/// The same answer in each form: a text and a call.
fn answers() -> [(&'static str, String); 3] {
    let chat = format!(": keep-alive\n\n{}data: [DONE]\n\n", stream(&chat_events("c-1"), "\n"));
    [
        ("openai-stream", chat),
        ("responses-stream", stream(&RESPONSES, "\r\n")),
        ("anthropic-stream", format!("\u{feff}{}", anthropic("\r\n"))),
    ]
}

/// What is recorded of a kind: the data of each event, with its seq.
fn recorded(env: &TestEnvironment, kind: &str) -> Vec<(u64, Value)> {
    let shown = env.run(&["show", "--json"]).success().json_lines();
    let of_kind = shown.into_iter().filter(|event| event["kind"] == kind);
    of_kind.map(|event| (event["seq"].as_u64().unwrap(), event["data"].clone())).collect()
}

fn texts(env: &TestEnvironment) -> String {
    let messages = recorded(env, "message.added").into_iter();
    messages.map(|(_, data)| data["content"].to_string()).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_answer_is_recorded_block_by_block_however_it_is_split() {
    for (format, stream) in answers() {
        let mut all = Vec::new();
        for size in [1, 7, 64, 4096, usize::MAX] {
            let env = TestEnvironment::new();
            let command = env.command(&["record", "--new", "--format", format]);
            let mut record = Conversation::start(command);
            let mut input = record.input.take().unwrap();
            for chunk in stream.as_bytes().chunks(size.min(stream.len())) {
                input.write_all(chunk).unwrap();
                input.flush().unwrap();
            }
            drop(input);
            let [text, call, end] = [record.receive(), record.receive(), record.receive()];
            assert_eq!(record.end(), 0);
            assert_eq!(end["complete"], true, "{format} {size}");
            let messages = recorded(&env, "message.added");
            let seqs: Vec<u64> = messages.iter().map(|(seq, _)| *seq).collect();
            assert_eq!(json!([text["seq"], call["seq"]]), json!(seqs), "{format} {size}");
            assert!(text.get("partial").is_none() && call.get("partial").is_none());
            let ended = recorded(&env, "api.finished");
            assert_eq!(json!(ended[0].0), end["seq"]);
            assert_eq!(ended[0].1["usage"]["output_tokens"], 40, "{format}");
            let context = env.run(&["context", "--format", "openai"]).success();
            assert!(context.stdout().contains("Größer als 😀"), "{context:?}");
            assert!(context.stdout().contains("call_a"), "{context:?}");
            all.push(context.stdout().to_owned());
        }
        assert!(all.iter().all(|one| *one == all[0]), "{format}: {all:?}");
    }
}

#[test]
fn answers_after_each_other_are_told_apart() {
    for (format, one) in answers() {
        let env = TestEnvironment::new();
        let next = one.replace("\u{feff}", "").replace("c-1", "c-2").replace("call_a", "call_b");
        let both = format!("{one}{next}");
        let done = env.record_bytes(&["--new", "--format", format], both.as_bytes()).success();
        let lines = done.json_lines();
        assert_eq!(lines.len(), 6, "{format}: {lines:?}");
        assert_eq!((&lines[2]["complete"], &lines[5]["complete"]), (&json!(true), &json!(true)));
        assert_eq!(recorded(&env, "api.called").len(), 2);
        assert_eq!(recorded(&env, "api.finished").len(), 2);
    }
    // Without the mark at the end, the id tells; without ids, what is said after the end.
    let chats = [stream(&chat_events("c-1"), "\n"), stream(&chat_events("c-2"), "\n")].concat();
    for chats in [chats.clone(), chats.replace(r#""id":"c-1","#, "").replace(r#""id":"c-2","#, "")]
    {
        let env = TestEnvironment::new();
        env.record_bytes(&["--new", "--format", "openai-stream"], chats.as_bytes()).success();
        let ends = recorded(&env, "api.finished");
        assert_eq!(ends.len(), 2, "{chats}");
        assert!(ends.iter().all(|(_, end)| end.get("error").is_none()), "{ends:?}");
    }
    // One that is cut off ends where the next begins.
    let env = TestEnvironment::new();
    let cut = format!("{}{}", stream(&ANTHROPIC[..5], "\n"), stream(&ANTHROPIC, "\n"));
    let done =
        env.record_bytes(&["--new", "--format", "anthropic-stream"], cut.as_bytes()).success();
    let lines = done.json_lines();
    assert_eq!((&lines[0]["partial"], &lines[1]["complete"]), (&json!(true), &json!(false)));
    assert_eq!(lines[4]["complete"], true);
}

#[test]
fn what_is_cut_off_is_marked() {
    for (format, stream) in answers() {
        // In the middle of the text, and in the middle of a line.
        let at = stream.find("Größer").unwrap() + "Größer a".len() + 60;
        let at = (at..).find(|at| stream.is_char_boundary(*at)).unwrap();
        let env = TestEnvironment::new();
        let cut = &stream.as_bytes()[..at];
        let done = env.record_bytes(&["--new", "--format", format], cut).success();
        assert!(done.stderr.contains("1 answer was not complete"), "{done:?}");
        let lines = done.json_lines();
        assert_eq!(lines.len(), 2, "{format}: {lines:?}");
        assert_eq!((&lines[0]["partial"], &lines[1]["complete"]), (&json!(true), &json!(false)));
        let (_, data) = &recorded(&env, "message.added")[0];
        assert_eq!(data["abide"]["partial"], true, "{data}");
        assert!(texts(&env).contains("Größer"), "{}", texts(&env));
        let (_, end) = &recorded(&env, "api.finished")[0];
        assert!(end["error"].as_str().unwrap().contains("cut off"), "{end}");
        // Anywhere: what came is there, and it is no error.
        for at in (0..stream.len()).step_by(61) {
            let env = TestEnvironment::new();
            let cut = &stream.as_bytes()[..at];
            let lines = env.record_bytes(&["--new", "--format", format], cut).success();
            let lines = lines.json_lines();
            let blocks = lines.iter().filter(|line| line.get("complete").is_none());
            assert_eq!(blocks.count(), recorded_messages(&env), "{format} {at}");
        }
    }
}

/// The number of messages recorded; none without a session.
fn recorded_messages(env: &TestEnvironment) -> usize {
    let history = env.run(&["history", "--json"]).success();
    if history.stdout().trim() == "[]" { 0 } else { recorded(env, "message.added").len() }
}

/// The answers up to the middle of their call, after the text.
fn cut_in_the_call() -> [(&'static str, String); 3] {
    answers().map(|(format, stream)| {
        let at = stream.find("path").unwrap();
        let at = at + stream[at..].find("\n").unwrap();
        (format, format!("{}\n\n", &stream[..at]))
    })
}

#[test]
fn what_was_acknowledged_before_a_kill_is_there_and_the_rest_is_no_answer() {
    for ((format, cut), (_, whole)) in cut_in_the_call().into_iter().zip(answers()) {
        let env = TestEnvironment::new();
        let args = ["record", "--key", "k", "--format", format];
        let mut record = Conversation::start(env.command(&args));
        record.send(&cut);
        let acknowledged = record.receive();
        record.child.kill().unwrap();
        record.child.wait().unwrap();
        let messages = recorded(&env, "message.added");
        assert_eq!(messages.len(), 1, "{format}");
        assert_eq!(json!(messages[0].0), acknowledged["seq"]);
        assert!(texts(&env).contains("Größer als 😀"));
        assert_eq!(recorded(&env, "api.finished").len(), 0);
        // The next answer ends it.
        env.record_bytes(&args[1..], whole.as_bytes()).success();
        let ends = recorded(&env, "api.finished");
        assert_eq!(ends.len(), 2, "{format}");
        assert!(ends[0].1["error"].as_str().unwrap().contains("interrupted"), "{ends:?}");
        assert!(ends[1].1.get("error").is_none(), "{ends:?}");
    }
}

#[test]
fn asked_to_end_it_records_what_it_has_as_partial() {
    for signal in [Signal::TERM, Signal::INT] {
        for (format, cut) in cut_in_the_call() {
            let env = TestEnvironment::new();
            let mut record =
                Conversation::start(env.command(&["record", "--new", "--format", format]));
            // The answer to the bad line tells that all before it was read.
            record.send(&format!("{cut}no event\n"));
            assert!(record.receive()["seq"].is_u64());
            assert_eq!(record.receive()["error"]["code"], "not_an_event");
            kill_process(Pid::from_child(&record.child), signal).unwrap();
            let [partial, end] = [record.receive(), record.receive()];
            assert_eq!((&partial["partial"], &end["complete"]), (&json!(true), &json!(false)));
            assert_eq!(record.child.wait().unwrap().code(), Some(4));
            let messages = recorded(&env, "message.added");
            assert_eq!(messages[1].1["abide"]["partial"], true, "{messages:?}");
            assert_eq!(recorded(&env, "api.finished").len(), 1);
        }
    }
    // What the model had finished is complete, though the mark at the end has not come.
    let env = TestEnvironment::new();
    let args = ["record", "--new", "--format", "openai-stream"];
    let mut record = Conversation::start(env.command(&args));
    record.send(&stream(&chat_events("c-1"), "\n"));
    assert!(record.receive()["seq"].is_u64() && record.receive()["seq"].is_u64());
    kill_process(Pid::from_child(&record.child), Signal::TERM).unwrap();
    assert_eq!(record.receive()["complete"], true);
    assert_eq!(record.child.wait().unwrap().code(), Some(4));
}

#[test]
fn a_bad_event_is_refused_with_its_line_and_the_rest_goes_on() {
    let mut events: Vec<&str> = ANTHROPIC.to_vec();
    events.insert(4, r#"{"type":"content_block_delta","index":0,"delta":"#);
    events.insert(0, "no JSON");
    let input = format!("HTTP/2 200\n\n{}{}", stream(&events, "\n"), anthropic("\n"));
    let env = TestEnvironment::new();
    let done = env.record_bytes(&["--new", "--format", "anthropic-stream"], input.as_bytes());
    let done = done.failure(1);
    assert!(done.stderr.contains("3 events were not recorded"), "{done:?}");
    let lines = done.json_lines();
    let refused: Vec<_> = lines.iter().filter(|line| line.get("error").is_some()).collect();
    let told: Vec<(&Value, &Value)> =
        refused.iter().map(|line| (&line["error"]["code"], &line["error"]["line"])).collect();
    assert_eq!(
        told,
        [
            (&json!("not_an_event"), &json!(1)),
            (&json!("malformed"), &json!(3)),
            (&json!("malformed"), &json!(13)),
        ]
    );
    assert_eq!(lines.len(), 9, "{lines:?}");
    // The answer that misses an event is not complete; the next one is.
    assert_eq!((&lines[5]["complete"], &lines[8]["complete"]), (&json!(false), &json!(true)));
    let ends = recorded(&env, "api.finished");
    assert!(ends[0].1["error"].as_str().unwrap().contains("could not be read"), "{ends:?}");
    assert!(ends[1].1.get("error").is_none(), "{ends:?}");
    assert!(texts(&env).contains("Größer als 😀"));
}

/// The rest of an answer could be read as one that is whole, or a call with other arguments.
#[test]
fn an_answer_that_misses_an_event_is_not_complete_and_what_follows_in_it_is_partial() {
    let chat = chat_events("c-1");
    let chat: Vec<&str> = chat.iter().map(String::as_str).collect();
    // An event that is lost, and how many blocks are whole before it.
    for (format, events, lost, whole) in [
        ("anthropic-stream", &ANTHROPIC[..], 0, 0),
        ("anthropic-stream", &ANTHROPIC[..], 8, 1),
        ("responses-stream", &RESPONSES[..], 0, 0),
        ("responses-stream", &RESPONSES[..], 5, 1),
        ("openai-stream", &chat[..], 0, 0),
        ("openai-stream", &chat[..], 4, 1),
    ] {
        let mut events = events.to_vec();
        events[lost] = "{";
        let env = TestEnvironment::new();
        let input = format!("{}data: [DONE]\n\n", stream(&events, "\n"));
        let args = ["--new", "--complete", "--format", format];
        let done = env.record_bytes(&args, input.as_bytes()).failure(1);
        assert!(done.stderr.contains("the session was not completed"), "{done:?}");
        let lines = done.json_lines();
        let blocks: Vec<bool> = lines
            .iter()
            .filter(|line| line.get("error").is_none() && line.get("complete").is_none())
            .map(|line| line["partial"] == true)
            .collect();
        assert_eq!(blocks.iter().filter(|partial| !**partial).count(), whole, "{format} {lines:?}");
        assert!(blocks.contains(&true), "{format} {lines:?}");
        assert_eq!(lines.last().unwrap()["complete"], false, "{format} {lines:?}");
        let rows: Value =
            serde_json::from_str(env.run(&["history", "--json"]).success().stdout()).unwrap();
        assert_ne!(rows[0]["status"], "completed", "{rows}");
    }
    // A ping may hold anything.
    let mut input = anthropic("\n");
    let at = input.find("event: content_block_stop").unwrap();
    input.insert_str(at, "event: ping\ndata: keep alive\n\n");
    let env = TestEnvironment::new();
    let args = ["--new", "--complete", "--format", "anthropic-stream"];
    let done = env.record_bytes(&args, input.as_bytes()).success();
    assert_eq!(done.json_lines().last().unwrap()["complete"], true);
    let rows: Value =
        serde_json::from_str(env.run(&["history", "--json"]).success().stdout()).unwrap();
    assert_eq!(rows[0]["status"], "completed", "{rows}");
}

#[test]
fn an_input_without_an_answer_makes_no_session() {
    let env = TestEnvironment::new();
    for input in ["data: [DONE]\n\n", "", ": x\n\n", "event: ping\ndata: {}\n\n", "dat"] {
        env.record_bytes(&["--new", "--format", "openai-stream"], input.as_bytes()).success();
    }
    // A stream of another form is refused, not ignored.
    for (format, input) in [
        ("openai-stream", stream(&ANTHROPIC[..1], "\n")),
        ("responses-stream", stream(&chat_events("c-1")[..1], "\n")),
        ("anthropic-stream", stream(&RESPONSES[..1], "\n")),
        ("openai-stream", "data: x\n\n".to_owned()),
        ("openai-stream", "{}\n".to_owned()),
    ] {
        let done = env.record_bytes(&["--new", "--format", format], input.as_bytes()).failure(1);
        assert_eq!(done.json_lines()[0]["error"]["line"], 1, "{done:?}");
    }
    let rows = env.run(&["history", "--json"]).success();
    assert_eq!(rows.stdout().trim(), "[]");
    for option in ["--strict", "--durability=buffered"] {
        let done = env.record(&["--new", option, "--format", "openai-stream"], &[]).failure(2);
        assert!(done.stderr.contains("stream"), "{done:?}");
    }
}

#[test]
fn what_is_too_large_is_refused_and_the_next_answer_is_recorded() {
    let delta = |text: &str| {
        format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
        )
    };
    // An event that is too long, on a line and over several; then an answer that is.
    let line = delta(&"x".repeat(17 << 20));
    let half = "x".repeat(9 << 20);
    let lines = format!("{half}\ndata: {half}");
    let half = delta(&"y".repeat(6 << 20));
    for events in [vec![line], vec![lines], vec![half.clone(), half]] {
        let mut all: Vec<&str> = ANTHROPIC[..4].to_vec();
        all.extend(events.iter().map(String::as_str));
        all.extend(&ANTHROPIC[4..]);
        all.extend(ANTHROPIC);
        let env = TestEnvironment::new();
        let input = stream(&all, "\n");
        let done = env.record_bytes(&["--new", "--format", "anthropic-stream"], input.as_bytes());
        let answers = done.failure(1).json_lines();
        let refused: Vec<_> = answers.iter().filter(|line| line.get("error").is_some()).collect();
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert_eq!(refused[0]["error"]["code"], "too_large");
        assert!(refused[0]["error"]["line"].as_u64().unwrap() >= 9, "{refused:?}");
        let ends: Vec<_> = answers.iter().filter_map(|line| line.get("complete")).collect();
        assert_eq!(ends, [&json!(false), &json!(true)]);
        assert_eq!(recorded(&env, "api.finished").len(), 2);
    }
}

#[test]
fn a_stream_and_other_commands_write_to_a_session_at_the_same_time() {
    let env = TestEnvironment::new();
    let args = ["record", "--key", "k", "--checkpoint-every", "1h", "--format", "anthropic-stream"];
    let mut streaming = Conversation::start(env.command(&args));
    streaming.send(&stream(&ANTHROPIC[..6], "\n"));
    let first = streaming.receive();
    // Through the holder: an event, and a stream in a lane of its own.
    let event = env.record(&["--key", "k"], &[HELLO]).success();
    assert_eq!(event.json_lines()[0]["session"], first["session"]);
    let mut other = env.command(&["record", "--format", "anthropic-stream"]);
    other.env("ABIDE_SESSION", first["session"].as_str().unwrap()).env("ABIDE_LANE", "other");
    let other = run(other, anthropic("\n").replace("call_a", "call_b").as_bytes()).success();
    assert_eq!(other.json_lines()[2]["complete"], true);
    // Files that have not changed since the first checkpoint would make no second one.
    std::fs::write(env.project().join("made meanwhile"), "").unwrap();
    streaming.send(&stream(&ANTHROPIC[6..], "\n"));
    let [_, end] = [streaming.receive(), streaming.receive()];
    assert_eq!(end["complete"], true, "{end}");
    assert_eq!(streaming.end(), 0);
    assert_eq!(recorded(&env, "api.finished").len(), 2);
    assert_eq!(recorded(&env, "checkpoint.created").len(), 2);
}

#[test]
fn data_of_several_lines_and_an_error_of_the_provider_are_understood() {
    let env = TestEnvironment::new();
    let several = ANTHROPIC[0].replacen(',', ",\ndata: ", 1);
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let input = format!(
        "data: {several}\n\n{}event: error\ndata: {error}\n\n",
        stream(&ANTHROPIC[1..4], "\n")
    );
    let done = env.record_bytes(&["--new", "--format", "anthropic-stream"], input.as_bytes());
    let lines = done.success().json_lines();
    assert_eq!((&lines[0]["partial"], &lines[1]["complete"]), (&json!(true), &json!(false)));
    let (_, end) = &recorded(&env, "api.finished")[0];
    assert_eq!(end["model"], "a-model");
    assert!(end["error"].as_str().unwrap().contains("Overloaded"), "{end}");
}

#[test]
fn a_stream_goes_to_the_task_and_the_lane_of_its_process() {
    let env = TestEnvironment::new();
    let session = env.record(&["--new"], &[HELLO]).success();
    let session = session.json_lines()[0]["session"].as_str().unwrap().to_owned();
    let mut command = env.command(&["record", "--format", "anthropic-stream"]);
    command.env("ABIDE_SESSION", &session).env("ABIDE_TASK", "T1").env("ABIDE_LANE", "job-1");
    let done = run(command, stream(&ANTHROPIC, "\n").as_bytes()).success();
    assert_eq!(done.json_lines()[0]["session"], session.as_str());
    let shown = env.run(&["show", "--json"]).success().json_lines();
    for kind in ["api.called", "api.finished"] {
        let event = shown.iter().find(|event| event["kind"] == kind).unwrap();
        assert_eq!((&event["task"], &event["lane"]), (&json!("T1"), &json!("job-1")));
    }
}
