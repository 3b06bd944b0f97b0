//! The stubbed agent as a program, with the test client at its other end.

use std::process::Command;

use abide_testkit::AcpClient;
use serde_json::{Value, json};

fn agent(arguments: &[&str]) -> AcpClient {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stub-agent"));
    command.args(arguments);
    AcpClient::start(command)
}

fn open(client: &mut AcpClient, cwd: &str) -> String {
    client.initialize();
    let made = client.must("session/new", json!({"cwd": cwd, "mcpServers": []}));
    made["sessionId"].as_str().unwrap().to_owned()
}

/// What the agent said since a line, put together.
fn said(client: &AcpClient, session: &str, from: usize) -> String {
    let updates = client.updates(session, from);
    let chunks = updates.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    chunks.map(|update| update["content"]["text"].as_str().unwrap()).collect()
}

fn sorts(updates: &[Value]) -> Vec<&str> {
    updates.iter().map(|update| update["sessionUpdate"].as_str().unwrap()).collect()
}

#[test]
fn it_does_what_the_prompt_says() {
    let dir = tempfile::tempdir().unwrap();
    let mut client = agent(&[]);
    let session = open(&mut client, dir.path().to_str().unwrap());
    let from = client.received.len();
    let script = "think hm; say hi; tool build; tool-open left; plan a|>b|=c; mode code; title T\n\
                  usage; edit f.txt some text";
    let answer = client.turn(&session, script);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(answer["result"]["usage"]["totalTokens"], 1234);
    let updates = client.updates(&session, from);
    assert_eq!(
        sorts(&updates),
        [
            "agent_thought_chunk",
            "agent_message_chunk",
            "tool_call",
            "tool_call_update",
            "tool_call_update",
            "tool_call",
            "plan",
            "current_mode_update",
            "session_info_update",
            "usage_update",
            "agent_message_chunk",
        ]
    );
    assert_eq!(updates[4]["status"], "completed");
    assert_eq!(updates[4]["content"][1]["type"], "diff");
    let statuses: Vec<&Value> =
        updates[6]["entries"].as_array().unwrap().iter().map(|entry| &entry["status"]).collect();
    assert_eq!(statuses, ["pending", "in_progress", "completed"]);
    assert_eq!(std::fs::read_to_string(dir.path().join("f.txt")).unwrap(), "some text");

    let from = client.received.len();
    client.turn(&session, "Grüße an alle, die dies lesen; wirklich.");
    assert_eq!(said(&client, &session, from), "Grüße an alle, die dies lesen; wirklich.");
    assert!(client.updates(&session, from).len() > 2);

    let from = client.received.len();
    client.turn(&session, "chunks 3 100");
    assert_eq!(client.updates(&session, from).len(), 3);
    assert_eq!(said(&client, &session, from).len(), 300);
    assert!(client.close().success());
}

#[test]
fn it_asks_the_client_and_says_what_was_answered() {
    let mut client = agent(&[]);
    client.answering(|request| {
        Some(Ok(match request["method"].as_str().unwrap() {
            "session/request_permission" => {
                json!({"outcome": {"outcome": "selected", "optionId": "allow"}})
            }
            "fs/read_text_file" => json!({"content": request["params"]["path"]}),
            "fs/write_text_file" => json!({}),
            "terminal/create" => json!({"terminalId": "t1"}),
            "terminal/wait_for_exit" => json!({"exitCode": 0}),
            "terminal/output" => json!({"output": "out\n", "truncated": false}),
            "terminal/release" => json!({}),
            "_x/ask" => return Some(Err(json!({"code": -32601, "message": "no"}))),
            other => panic!("{other}"),
        }))
    });
    let session = open(&mut client, "/somewhere");
    let from = client.received.len();
    client.turn(&session, "ask; read a.txt; write b.txt some text; terminal echo out; custom");
    let said = said(&client, &session, from);
    let answers: Vec<Value> = said
        .split("answered: ")
        .skip(1)
        .map(|answer| serde_json::from_str(answer).unwrap())
        .collect();
    let wanted = [
        json!({"outcome": {"outcome": "selected", "optionId": "allow"}}),
        json!({"content": "/somewhere/a.txt"}),
        json!({}),
        json!({"output": "out\n", "truncated": false}),
        json!({"code": -32601, "message": "no"}),
    ];
    assert_eq!(answers, wanted);
    assert!(client.received.iter().any(|line| line.contains(r#""method":"_x/y""#)));
    assert!(client.received.iter().any(|line| line.contains("x_custom")));
}

#[test]
fn it_is_cancelled_at_every_moment_but_when_it_hangs() {
    let mut client = agent(&[]);
    client.answering(|_| None);
    let session = open(&mut client, "/");
    for script in ["wait", "sleep 600000", "ask", "read a", "say x; wait; say y"] {
        let id = client.prompt(&session, script);
        if script == "ask" || script == "read a" {
            client.until("a request", |message| message.get("method").is_some());
        }
        client.notify("session/cancel", json!({"sessionId": session}));
        assert_eq!(client.answer(id)["result"]["stopReason"], "cancelled", "{script}");
    }
    client.prompt(&session, "hang");
    client.notify("session/cancel", json!({"sessionId": session}));
    let answer = client.turn(&session, "say still here");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
}

#[test]
fn it_misbehaves_on_demand() {
    let mut client = agent(&[]);
    let session = open(&mut client, "/");
    let from = client.received.len();
    client.turn(&session, "garbage\nraw {\"id\" : 1e400, \"s\":\"$ID; \\u00e9\"}\nflood 2");
    assert_eq!(client.received[from], "this is no JSON {");
    assert_eq!(client.received[from + 1], r#"{"this":"is JSON, but no message"}"#);
    assert_eq!(client.received[from + 2], "");
    let raw = format!("{{\"id\" : 1e400, \"s\":\"{session}; \\u00e9\"}}");
    assert_eq!(client.received[from + 3], raw);
    assert!(client.received[from + 4].len() > 2 << 20);

    client.turn(&session, "deaf");
    client.prompt(&session, "say nobody hears this");
    client.prompt(&session, "die");
    client.kill();
    assert!(!client.received.iter().any(|line| line.contains("nobody hears")));

    for (script, code) in [("die", Some(1)), ("die 7", Some(7)), ("kill", None)] {
        let mut client = agent(&[]);
        let session = open(&mut client, "/");
        client.prompt(&session, script);
        while client.next().is_some() {}
        assert_eq!(client.close().code(), code, "{script}");
    }
    let mut client = agent(&["--mute"]);
    client.request("initialize", json!({}));
    assert!(client.close().success());
}

#[test]
fn it_knows_its_sessions_again_less_what_it_forgets() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state.json");
    let state = state.to_str().unwrap();
    let able = ["--load", "--resume", "--list", "--close", "--delete", "--fork", "--state", state];
    let mut client = agent(&able);
    let session = open(&mut client, "/one");
    client.turn(&session, "say first; tool t");
    client.turn(&session, "say second");
    drop(client);

    let mut client = agent(&able);
    let capabilities = client.initialize()["agentCapabilities"].clone();
    assert_eq!(capabilities["loadSession"], true);
    for name in ["resume", "list", "close", "delete", "fork"] {
        assert_eq!(capabilities["sessionCapabilities"][name], json!({}), "{name}");
    }
    assert!(client.turn(&session, "say no").get("error").is_some(), "it is not open yet");
    let from = client.received.len();
    let of = json!({"sessionId": session, "cwd": "/one", "mcpServers": []});
    client.must("session/load", of.clone());
    let whole = client.updates(&session, from);
    assert_eq!(
        sorts(&whole),
        [
            "user_message_chunk",
            "agent_message_chunk",
            "tool_call",
            "tool_call_update",
            "tool_call_update",
            "user_message_chunk",
            "agent_message_chunk",
        ]
    );
    let from = client.received.len();
    client.turn(&session, "recall");
    assert!(said(&client, &session, from).contains("agent_message_chunk: first\n"));
    let list = |client: &mut AcpClient, cwd: &str| {
        let listed = client.must("session/list", json!({"cwd": cwd}));
        listed["sessions"].as_array().unwrap().len()
    };
    let fork = client.must("session/fork", of.clone())["sessionId"].as_str().unwrap().to_owned();
    assert_eq!((list(&mut client, "/one"), list(&mut client, "/two")), (2, 0));
    client.must("session/delete", json!({"sessionId": fork}));
    assert_eq!(list(&mut client, "/one"), 1);
    client.must("session/close", json!({"sessionId": session}));
    client.must("session/resume", of.clone());
    drop(client);

    let mut client = agent(&["--load", "--state", state, "--forget", "3"]);
    client.initialize();
    let from = client.received.len();
    client.must("session/load", of.clone());
    assert_eq!(client.updates(&session, from), whole[..6]);
    assert!(client.call("session/list", json!({})).get("error").is_some());
    drop(client);

    let mut client = agent(&["--count-ids"]);
    assert_eq!(open(&mut client, "/"), "1");
    assert!(client.call("session/load", of).get("error").is_some());
}

#[test]
fn it_logs_every_line_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut client = agent(&["--log", log.to_str().unwrap()]);
    client.initialize();
    client.send("  {\"jsonrpc\" :\"2.0\",\"method\":\"_odd\", \"n\": 1.0e3,\"n\":\"\\u00e9\"}  ");
    client.send("no JSON");
    client.send("");
    let big =
        r#"{"jsonrpc":"2.0","id":900719925474099312345,"method":"_x/any","params":{"n":1e400}}"#;
    client.send(big);
    while !client.next().unwrap().contains("\"id\":900719925474099312345,") {}
    let sent = client.sent.join("\n") + "\n";
    client.close();
    assert_eq!(std::fs::read_to_string(log).unwrap(), sent);
}

#[test]
fn what_it_does_not_know_it_says() {
    for arguments in [&["--nonsense"][..], &["--forget", "many"], &["--log"]] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_stub-agent")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{arguments:?}");
    }
}
