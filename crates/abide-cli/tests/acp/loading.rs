//! Conversations that are loaded again, after whoever died.

use super::lab::AcpLab;
use super::story::{Told, conversation, said, turn};

const SCRIPTS: [&str; 3] =
    ["think hm; say alpha; tool one; say beta", "say gamma; tool two", "a text, echoed: delta"];

/// Has a conversation and kills the proxy; its id, and what was told.
fn killed(lab: &AcpLab, agent: &[&str]) -> (String, Vec<Told>) {
    let mut client = lab.proxy(agent);
    let session = lab.open(&mut client);
    let told: Vec<Told> =
        SCRIPTS.iter().flat_map(|script| turn(&mut client, &session, script)).collect();
    client.kill();
    (session, told)
}

#[test]
fn an_agent_that_cannot_load_is_told_what_was_said() {
    let lab = AcpLab::new();
    let (session, told) = killed(&lab, &[]);
    let mut client = lab.proxy(&[]);
    let able = client.initialize();
    assert_eq!(able["agentCapabilities"]["loadSession"], true);
    assert_eq!(conversation(&lab.load(&mut client, &session)), told);
    // The client goes on under the same id, and the agent knows what was said.
    let recalled = said(&mut client, &session, "recall");
    for text in ["alpha", "beta", "gamma", "delta"] {
        assert!(recalled.contains(text), "{text}: {recalled}");
    }
    // It is told once.
    let again = said(&mut client, &session, "recall");
    let prompt = again.split("SESSION\n").next().unwrap();
    assert!(!prompt.contains("gamma"), "{prompt}");
    assert_eq!(
        client.updates(&session, 0).len(),
        client.received.iter().filter(|line| line.contains("session/update")).count()
    );
    client.kill();

    // What abide told the agent was not said by the user.
    let mut client = lab.proxy(&[]);
    client.initialize();
    let replayed = conversation(&lab.load(&mut client, &session));
    let users: Vec<&Told> = replayed.iter().filter(|told| matches!(told, Told::User(_))).collect();
    let wanted: Vec<Told> = SCRIPTS
        .iter()
        .chain(&["recall", "recall"])
        .map(|text| Told::User((*text).to_owned()))
        .collect();
    assert_eq!(users, wanted.iter().collect::<Vec<_>>());
    drop(client);
    lab.healthy();
}

#[test]
fn an_agent_that_can_load_is_asked_and_nothing_comes_twice() {
    let lab = AcpLab::new();
    let state = lab.beside("state.json");
    let agent = ["--load", "--state", &state];
    let (session, told) = killed(&lab, &agent);
    for _ in 0..2 {
        let mut client = lab.proxy(&agent);
        client.initialize();
        assert_eq!(conversation(&lab.load(&mut client, &session)), told);
        client.kill();
    }
    let mut client = lab.proxy(&agent);
    client.initialize();
    lab.load(&mut client, &session);
    // It knew everything by itself.
    let recalled = said(&mut client, &session, "recall");
    let (prompt, known) = recalled.split_once("SESSION\n").unwrap();
    assert!(!prompt.contains("alpha"), "{prompt}");
    assert!(known.contains("alpha") && known.contains("delta"), "{known}");
}

#[test]
fn what_an_agent_has_forgotten_the_client_gets_all_the_same() {
    for forgotten in ["1", "2", "4", "100"] {
        let lab = AcpLab::new();
        let state = lab.beside("state.json");
        let (session, told) = killed(&lab, &["--load", "--state", &state]);
        let mut client = lab.proxy(&["--load", "--state", &state, "--forget", forgotten]);
        client.initialize();
        let loaded = conversation(&lab.load(&mut client, &session));
        assert_eq!(loaded, told, "{forgotten} forgotten");
        // And the agent knows it again, by itself or from the prompt.
        let recalled = said(&mut client, &session, "recall");
        for text in ["alpha", "gamma", "delta"] {
            assert!(recalled.contains(text), "{forgotten} forgotten: {recalled}");
        }
    }
}

#[test]
fn an_agent_that_has_lost_the_session_is_told_what_was_said() {
    let lab = AcpLab::new();
    let state = lab.beside("state.json");
    let agent = ["--load", "--state", &state];
    let (session, told) = killed(&lab, &agent);
    std::fs::remove_file(&state).unwrap();
    let mut client = lab.proxy(&agent);
    client.initialize();
    assert_eq!(conversation(&lab.load(&mut client, &session)), told);
    assert!(said(&mut client, &session, "recall").contains("gamma"));
}

#[test]
fn a_session_that_was_recorded_otherwise_can_be_loaded() {
    let lab = AcpLab::new();
    let session = lab.env.run(&["new", "--title", "By hand"]).success().stdout().trim().to_owned();
    let hello = r#"{"kind":"message.added","data":{"role":"user","content":"hello by hand"}}"#;
    lab.env.record(&["-s", &session], &[hello]).success();
    let mut client = lab.proxy(&[]);
    client.initialize();
    let loaded = conversation(&lab.load(&mut client, &session));
    assert_eq!(loaded, [Told::User("hello by hand".into())]);
    assert!(said(&mut client, &session, "recall").contains("hello by hand"));
}

#[test]
fn a_session_that_nobody_knows_is_refused_by_name() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    client.initialize();
    let answer = client.call("session/load", lab.of("no-such-session"));
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("no-such-session"), "{answer}");
    let session = lab.another(&mut client);
    turn(&mut client, &session, "say it goes on");
}
