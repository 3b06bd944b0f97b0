//! Sessions listed, resumed, closed, deleted and forked where the agent cannot.

use std::fs;

use abide_testkit::AcpClient;
use serde_json::{Value, json};

use super::lab::AcpLab;
use super::story::{Told, conversation, said, turn};
use crate::environment::HELLO;

/// Every session of a list, page by page.
fn listed(client: &mut AcpClient, cwd: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let mut params = json!({});
        if let Some(cwd) = cwd {
            params["cwd"] = json!(cwd);
        }
        if let Some(cursor) = &cursor {
            params["cursor"] = json!(cursor);
        }
        let page = client.must("session/list", params);
        let sessions = page["sessions"].as_array().unwrap();
        found.extend(
            sessions.iter().map(|session| session["sessionId"].as_str().unwrap().to_owned()),
        );
        match page.get("nextCursor").and_then(Value::as_str) {
            Some(next) => {
                assert!(!sessions.is_empty(), "an empty page that goes on");
                cursor = Some(next.to_owned());
            }
            None => return found,
        }
    }
}

#[test]
fn sessions_are_listed_newest_first_and_by_directory() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    client.initialize();
    let cwd = lab.cwd();
    assert_eq!(listed(&mut client, Some(&cwd)), Vec::<String>::new());
    let mut made = Vec::new();
    for number in 0..5 {
        let session = lab.another(&mut client);
        turn(&mut client, &session, &format!("title Number {number}; say x"));
        made.push(session);
    }
    made.reverse();
    assert_eq!(listed(&mut client, Some(&cwd)), made);
    let page = client.must("session/list", json!({"cwd": cwd}));
    assert_eq!(page["sessions"][0]["title"], "Number 4");
    assert_eq!(page["sessions"][0]["cwd"], json!(cwd));
    let elsewhere = lab.beside("home");
    assert_eq!(listed(&mut client, Some(&elsewhere)), Vec::<String>::new());
    let bad = client.call("session/list", json!({"cwd": cwd, "cursor": "no cursor"}));
    assert!(bad.get("error").is_some(), "{bad}");
    client.kill();

    let mut client = lab.proxy(&[]);
    client.initialize();
    assert_eq!(listed(&mut client, Some(&cwd)), made);
}

#[test]
fn a_session_is_resumed_without_a_replay() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    let session = lab.open(&mut client);
    turn(&mut client, &session, "say alpha");
    client.kill();

    let mut client = lab.proxy(&[]);
    client.initialize();
    let from = client.received.len();
    client.must("session/resume", lab.of(&session));
    assert_eq!(conversation(&client.updates(&session, from)), []);
    assert!(said(&mut client, &session, "recall").contains("alpha"));
}

#[test]
fn a_closed_session_can_be_resumed_and_a_deleted_one_is_gone() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    let session = lab.open(&mut client);
    let other = lab.another(&mut client);
    let told = turn(&mut client, &session, "say alpha");
    turn(&mut client, &other, "say other");

    let id = client.prompt(&session, "wait");
    client.must("session/close", json!({"sessionId": session}));
    assert_eq!(statuses(&lab), ["completed", "running"]);
    let answer = client.answer(id);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    let loaded = conversation(&lab.load(&mut client, &session));
    assert_eq!(loaded[..2], told);
    turn(&mut client, &session, "say again");
    assert_eq!(statuses(&lab), ["running", "running"]);
    client.must("session/close", json!({"sessionId": session}));
    // A fork of a closed session is not completed.
    let forked = client.must("session/fork", lab.of(&session));
    let fork = forked["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(statuses(&lab), ["completed", "idle", "running"]);
    turn(&mut client, &fork, "say of the fork");
    assert_eq!(statuses(&lab), ["completed", "running", "running"]);
    client.must("session/close", json!({"sessionId": fork}));
    client.must("session/delete", json!({"sessionId": fork}));

    client.must("session/delete", json!({"sessionId": session}));
    let left = listed(&mut client, Some(&lab.cwd()));
    assert_eq!(left, std::slice::from_ref(&other));
    assert!(client.call("session/load", lab.of(&session)).get("error").is_some());
    turn(&mut client, &other, "say still here");
    drop(client);
    // It was killed.
    assert_eq!(statuses(&lab), ["interrupted"]);
    lab.healthy();
}

/// The statuses of the sessions, in alphabetical order.
fn statuses(lab: &AcpLab) -> Vec<String> {
    let done = lab.env.run(&["history", "--json"]).success();
    let rows: Vec<serde_json::Value> = serde_json::from_str(done.stdout()).unwrap();
    let mut all: Vec<String> =
        rows.iter().map(|row| row["status"].as_str().unwrap().to_owned()).collect();
    all.sort();
    all
}

#[test]
fn old_sessions_are_removed_beside_a_new_one() {
    let lab = AcpLab::new();
    for title in ["one", "two", "three"] {
        lab.env.record(&["--title", title], &[HELLO]).success();
    }
    let config = lab.env.project().join(".abide/config.toml");
    let settings = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{settings}\n[retention]\nmax_count = 2\nmin_keep = 1\n")).unwrap();
    let mut client = lab.proxy(&[]);
    lab.open(&mut client);
    // It is done meanwhile.
    let is_done = |client: &mut AcpClient| listed(client, Some(&lab.cwd())).len() <= 2;
    assert!((0..10_000).any(|_| is_done(&mut client)));
    drop(client);
    lab.healthy();
}

#[test]
fn a_fork_has_what_was_said_and_goes_its_own_way() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    let session = lab.open(&mut client);
    let told = turn(&mut client, &session, "say alpha; tool one");
    let forked = client.must("session/fork", lab.of(&session));
    let fork = forked["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(fork, session);
    assert!(said(&mut client, &fork, "recall").contains("alpha"));
    turn(&mut client, &fork, "say of the fork");
    turn(&mut client, &session, "say of the first");
    client.kill();

    let mut client = lab.proxy(&[]);
    client.initialize();
    let of_fork = conversation(&lab.load(&mut client, &fork));
    assert_eq!(of_fork[..told.len()], told);
    assert!(of_fork.contains(&Told::Agent("of the fork".into())), "{of_fork:?}");
    assert!(!of_fork.contains(&Told::Agent("of the first".into())), "{of_fork:?}");
    let of_first = conversation(&lab.load(&mut client, &session));
    assert!(!of_first.contains(&Told::Agent("of the fork".into())), "{of_first:?}");
    assert!(of_first.contains(&Told::Agent("of the first".into())), "{of_first:?}");
}

#[test]
fn ids_that_an_agent_gives_twice_are_told_apart() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&["--count-ids"]);
    assert_eq!(lab.open(&mut client), "1");
    let first = turn(&mut client, "1", "say alpha; tool one; ask");
    client.kill();

    let mut client = lab.proxy(&["--count-ids"]);
    let second = lab.open(&mut client);
    assert_ne!(second, "1");
    let told = turn(&mut client, &second, "say beta; tool one; ask; custom");
    assert!(told.contains(&Told::Agent("beta".into())), "{told:?}");
    // Every line that names a session names it as the client knows it.
    for line in &client.received {
        let message: Value = serde_json::from_str(line).unwrap();
        let named = &message["params"]["sessionId"];
        assert!(named.is_null() || *named == second.as_str(), "{line}");
    }
    // Both at once, in one agent that calls the second one "1".
    let loaded = conversation(&lab.load(&mut client, "1"));
    assert_eq!(loaded, first);
    assert!(said(&mut client, "1", "recall").contains("alpha"));
    let recalled = said(&mut client, &second, "recall");
    assert!(recalled.contains("beta") && !recalled.contains("alpha"), "{recalled}");
    client.kill();

    let mut client = lab.proxy(&["--count-ids"]);
    client.initialize();
    let loaded = conversation(&lab.load(&mut client, &second));
    assert_eq!(loaded[..told.len()], told);
    drop(client);
    lab.healthy();
}

#[test]
fn the_second_client_of_a_session_is_told_who_holds_it() {
    let lab = AcpLab::new();
    let mut first = lab.proxy(&[]);
    let session = lab.open(&mut first);
    turn(&mut first, &session, "say alpha");
    let mut second = lab.proxy(&[]);
    second.initialize();
    for method in ["session/load", "session/resume"] {
        let refused = second.call(method, lab.of(&session));
        let message = refused["error"].to_string();
        assert!(message.contains(&first.process().to_string()), "{refused}");
    }
    // Neither is hindered.
    turn(&mut first, &session, "say beta");
    let other = lab.another(&mut second);
    turn(&mut second, &other, "say gamma");
    assert!(first.close().success());
    let loaded = conversation(&lab.load(&mut second, &session));
    assert_eq!(loaded.last(), Some(&Told::Agent("beta".into())));
}
