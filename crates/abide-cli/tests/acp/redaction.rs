//! Secrets in a conversation of an editor: recorded as marks, and the replay of an agent that has them
//! is recognised.

use super::lab::AcpLab;
use crate::redaction::{assert_nowhere, configure, inner, token, written};

#[test]
fn a_conversation_has_marks_and_is_recognised_again() {
    let lab = AcpLab::new();
    configure(&lab.env, "");
    let state = lab.beside("agent-state");
    let agent = ["--load", "--state", &state];
    let mut client = lab.proxy(&agent);
    let session = lab.open(&mut client);
    client.turn(&session, &format!("say it is {} so", token()));
    client.turn(&session, &format!("{} echoed", token()));
    client.close();
    let mut client = lab.proxy(&agent);
    client.initialize();
    let shown = lab.load(&mut client, &session);
    // The agent replays what it has, secrets and all: that is what is recorded.
    assert!(format!("{shown:?}").contains(&token()), "{shown:?}");
    client.turn(&session, "say more");
    client.close();
    lab.env.run(&["history"]).success();
    let lines = written(&lab.env).into_iter();
    let lines = lines.filter(|(path, _)| path.extension().is_some_and(|end| end == "jsonl"));
    let all: String =
        lines.map(|(_, bytes)| String::from_utf8_lossy(&bytes).into_owned()).collect();
    assert!(all.contains("it is ‹redacted:github") && all.contains("› echoed"), "{all}");
    assert!(!all.contains("what the agent replayed is not"), "{all}");
    assert_nowhere(&lab.env, &inner());
    lab.healthy();
}
