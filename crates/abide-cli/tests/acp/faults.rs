//! Agents that die, hang, flood, talk nonsense or do not listen.

use std::fs;

use abide_testkit::AcpClient;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::lab::{AcpLab, children};
use super::story::{Told, conversation, said, turn};
use crate::environment::run;

/// The most memory that a process ever had, in MiB.
fn peak(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn when_the_agent_dies_the_prompt_fails_and_the_next_one_works() {
    for death in ["die", "die 0", "kill", "tool-open never; think so; say half; kill"] {
        let lab = AcpLab::new();
        let mut client = lab.proxy(&[]);
        let session = lab.open(&mut client);
        turn(&mut client, &session, "say alpha");
        let answer = client.turn(&session, death);
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("agent"), "{death}: {answer}");
        // It is another agent, which is told what was said.
        assert!(said(&mut client, &session, "recall").contains("alpha"), "{death}");
        let answer = client.turn(&session, "die 3");
        assert!(answer.get("error").is_some(), "{answer}");
        turn(&mut client, &session, "say gamma");
        assert!(client.close().success());
        assert_eq!(lab.count("turn.started"), lab.count("turn.finished"), "{death}");

        let mut client = lab.proxy(&[]);
        client.initialize();
        let loaded = conversation(&lab.load(&mut client, &session));
        for text in ["alpha", "gamma"] {
            assert!(loaded.contains(&Told::Agent(text.into())), "{death}: {loaded:?}");
        }
        drop(client);
        lab.healthy();
    }
}

#[test]
fn an_agent_that_dies_between_prompts_is_not_missed() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    let session = lab.open(&mut client);
    turn(&mut client, &session, "say alpha");
    let [agent] = children(client.process(), "stub-agent")[..] else { panic!("no agent") };
    kill_process(Pid::from_raw(agent.cast_signed()).unwrap(), Signal::KILL).unwrap();
    while std::path::Path::new(&format!("/proc/{agent}/exe")).exists() {
        std::thread::yield_now();
    }
    // Whether the proxy has seen it by now or not: at most one prompt is lost, with an error.
    let answer = client.turn(&session, "say beta");
    if answer.get("error").is_some() {
        turn(&mut client, &session, "say beta");
    }
    assert!(said(&mut client, &session, "recall").contains("alpha"));
}

#[test]
fn an_agent_with_a_question_open_dies() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    client.answering(|_| None);
    let session = lab.open(&mut client);
    let id = client.prompt(&session, "ask");
    let line =
        client.until("a question", |message| message["method"] == "session/request_permission");
    let [agent] = children(client.process(), "stub-agent")[..] else { panic!("no agent") };
    kill_process(Pid::from_raw(agent.cast_signed()).unwrap(), Signal::KILL).unwrap();
    assert!(client.answer(id).get("error").is_some());
    // The answer to a question that nobody asks any more hurts nobody.
    let asked: Value = serde_json::from_str(&line).unwrap();
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "allow"}});
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": outcome}).to_string());
    turn(&mut client, &session, "say on");
}

#[test]
fn an_agent_that_hangs_is_cancelled() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    let session = lab.open(&mut client);
    for script in ["hang", "say half; tool-open x; hang"] {
        let id = client.prompt(&session, script);
        client.notify("session/cancel", json!({"sessionId": session}));
        let answer = client.answer(id);
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{script}: {answer}");
        turn(&mut client, &session, "say on");
    }
    assert!(client.close().success());
    assert_eq!(lab.count("turn.started"), lab.count("turn.finished"));
}

#[test]
fn cancelling_works_at_every_moment() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    client.answering(|_| None);
    let session = lab.open(&mut client);
    // With nothing to cancel.
    client.notify("session/cancel", json!({"sessionId": session}));
    client.notify("session/cancel", json!({"sessionId": "nobody"}));
    for script in
        ["wait", "ask", "read a", "sleep 600000", "chunks 100000 10; wait", "tool a; wait"]
    {
        for lines in [0, 1, 5] {
            let id = client.prompt(&session, script);
            let enough = match script {
                "wait" | "sleep 600000" => 0,
                "ask" | "read a" => lines.min(1),
                "tool a; wait" => lines.min(3),
                _ => lines,
            };
            for _ in 0..enough {
                client.next().unwrap();
            }
            client.notify("session/cancel", json!({"sessionId": session}));
            client.notify("session/cancel", json!({"sessionId": session}));
            let answer = client.answer(id);
            assert_eq!(answer["result"]["stopReason"], "cancelled", "{script}: {answer}");
        }
    }
    turn(&mut client, &session, "say on");
}

#[test]
fn a_long_line_passes_and_one_without_end_costs_no_memory() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    let session = lab.open(&mut client);
    let from = client.received.len();
    client.turn(&session, "flood 8");
    let said: usize = client
        .updates(&session, from)
        .iter()
        .map(|update| update["content"]["text"].as_str().unwrap().len())
        .sum();
    assert_eq!(said, 8 << 20);
    // What becomes of this prompt is the proxy's to say; that it says something is a must.
    client.turn(&session, "endless 600");
    let most = peak(client.process());
    assert!(most < 400, "{most} MiB");
    let longest = client.received.iter().map(String::len).max().unwrap();
    assert!(longest < 128 << 20, "{longest}");
    said_again(&mut client, &session);
}

fn said_again(client: &mut AcpClient, session: &str) {
    let answer = client.turn(session, "say on");
    if answer.get("error").is_some() {
        turn(client, session, "say on");
    }
}

#[test]
fn an_agent_that_streams_faster_than_the_client_reads_costs_no_memory() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    let session = lab.open(&mut client);
    let from = client.received.len();
    let answer = client.turn(&session, "chunks 20000 4000");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(client.updates(&session, from).len(), 20000);
    let most = peak(client.process());
    assert!(most < 400, "{most} MiB");
}

#[test]
fn nonsense_from_the_agent_does_not_reach_the_client_and_is_told() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    let session = lab.open(&mut client);
    let told = turn(&mut client, &session, "say alpha; garbage; say beta");
    assert_eq!(told.last(), Some(&Told::Agent("alphabeta".into())));
    for line in &client.received {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line:?}");
    }
    turn(&mut client, &session, "say on");
    client.kill();
    assert!(client.stderr().contains("this is no JSON"), "{}", client.stderr());
}

#[test]
fn nonsense_from_the_client_is_answered_and_the_conversation_goes_on() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    let session = lab.open(&mut client);
    for line in ["this is no JSON {", "{\"jsonrpc\":\"2.0\",\"id\":", "\u{0}"] {
        client.send(line);
        let answer = client.until("an error", |message| message.get("error").is_some());
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32700)));
    }
    for line in ["", "   ", "[]", "17", "null", "{}"] {
        client.send(line);
    }
    turn(&mut client, &session, "say on");
    // Prompts that are none.
    for params in [json!({}), json!({"sessionId": session}), json!({"sessionId": 7, "prompt": []})]
    {
        let answer = client.call("session/prompt", params.clone());
        assert!(
            answer.get("error").is_some() || answer["result"]["stopReason"].is_string(),
            "{params}: {answer}"
        );
    }
    let answer = client.call("session/new", json!({"cwd": 5}));
    assert!(answer.get("error").is_some() || answer["result"]["sessionId"].is_string());
    turn(&mut client, &session, "say still on");
}

/// What an agent is waited for, as short as can be.
const AT_ONCE: [&str; 3] = ["--cancel-grace=200ms", "--quiet=200ms", "--end-grace=200ms"];

#[test]
fn an_agent_that_does_not_listen_holds_nobody_up() {
    let lab = AcpLab::new();
    let mut client = lab.proxy_with(&AT_ONCE, &[]);
    let session = lab.open(&mut client);
    let other = lab.another(&mut client);
    turn(&mut client, &session, "deaf; say I stop listening");
    // More than a pipe holds.
    let long = "x".repeat(1 << 20);
    let ids: Vec<u64> = [&session, &other].iter().map(|id| client.prompt(id, &long)).collect();
    let listed = client.must("session/list", json!({"cwd": lab.cwd()}));
    assert!(listed["sessions"].as_array().is_some_and(|sessions| !sessions.is_empty()));
    for (id, session) in ids.iter().zip([&session, &other]) {
        client.notify("session/cancel", json!({"sessionId": session}));
        let answer = client.answer(*id);
        let ended = answer["result"]["stopReason"] == "cancelled" || answer.get("error").is_some();
        assert!(ended, "{answer}");
    }
    // It ends with its client, all the same.
    client.close();
}

#[test]
fn an_agent_that_answers_nothing_ends_with_its_client() {
    let lab = AcpLab::new();
    let mut client = lab.proxy_with(&AT_ONCE, &["--mute"]);
    client.request("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
    let process = client.process();
    client.close();
    assert!(children(process, "stub-agent").is_empty());
}

#[test]
fn when_the_client_goes_the_agent_goes() {
    let lab = AcpLab::new();
    let mut client = lab.proxy_with(&AT_ONCE, &[]);
    let session = lab.open(&mut client);
    client.prompt(&session, "say begun; hang");
    client.until("a chunk", |message| message["method"] == "session/update");
    let [agent] = children(client.process(), "stub-agent")[..] else { panic!("no agent") };
    client.close();
    let gone = fs::read_to_string(format!("/proc/{agent}/comm"))
        .map_or(true, |name| name.trim() != "stub-agent");
    assert!(gone, "the agent lives on");
    // The turn is closed: nobody waits for it.
    assert_eq!((lab.count("turn.started"), lab.count("turn.finished")), (1, 1));
    lab.healthy();
}

#[test]
fn an_agent_that_does_not_exist_is_named() {
    let lab = AcpLab::new();
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}});
    let done = run(
        lab.env.command(&["acp", "--", "/no/such/agent"]),
        format!("{initialize}\n").as_bytes(),
    );
    assert!(done.stdout().contains("\"error\"") || done.code != 0, "{done:?}");
    assert!(format!("{}{}", done.stdout(), done.stderr).contains("/no/such/agent"), "{done:?}");
    lab.env.run(&["acp"]).failure(2);
    lab.env.run(&["acp", "--checkpoint", "never", "--", "true"]).failure(2);
}
