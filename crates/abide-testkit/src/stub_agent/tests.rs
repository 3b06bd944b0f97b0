//! What a script says, and what a session keeps.

use std::time::Duration;

use super::StubOptions;
use super::session::StubSession;
use super::step::{Step, steps};
use serde_json::json;

#[test]
fn a_script_is_a_step_a_line_or_between_semicolons() {
    let found = steps("say hello there; tool a\nchunks 3 10\nraw {\"a\":\"b; c\"}");
    let wanted = [
        Step::Say("hello there".into()),
        Step::Tool("a".into()),
        Step::Chunks { count: 3, size: 10 },
        Step::Raw("{\"a\":\"b; c\"}".into()),
    ];
    assert_eq!(found, wanted);
    assert_eq!(steps("sleep 20"), [Step::Sleep(Duration::from_millis(20))]);
    assert_eq!(steps("die"), [Step::Die(1)]);
    assert_eq!(steps("die 7"), [Step::Die(7)]);
    assert_eq!(steps("plan a|>b| =c"), [Step::Plan(vec!["a".into(), ">b".into(), "=c".into()])]);
    assert_eq!(
        steps("edit a.txt one two"),
        [Step::Edit { path: "a.txt".into(), text: "one two".into() }]
    );
}

#[test]
fn what_is_no_script_is_echoed_as_a_whole() {
    for text in ["", "Hello; say hi", "say", "chunks 3", "hang on", "sleep long", "ask me"] {
        assert_eq!(steps(text), [Step::Echo(text.into())], "{text}");
    }
}

#[test]
fn chunks_of_one_message_are_put_together() {
    let chunk = |sort: &str, text: &str| json!({"sessionUpdate": sort, "content": {"type": "text", "text": text}});
    let mut session = StubSession::default();
    session.keep(&chunk("user_message_chunk", "one"));
    session.keep(&chunk("user_message_chunk", "two"));
    session.keep(&chunk("agent_message_chunk", "a"));
    session.keep(&chunk("agent_message_chunk", "b"));
    session.keep(&chunk("agent_thought_chunk", "c"));
    assert_eq!(
        session.updates,
        [
            chunk("user_message_chunk", "one"),
            chunk("user_message_chunk", "two"),
            chunk("agent_message_chunk", "ab"),
            chunk("agent_thought_chunk", "c"),
        ]
    );
}

#[test]
fn a_command_line_is_read_or_refused() {
    let parse = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        StubOptions::parse(&words)
    };
    let options = parse("--load --forget 2 --state a --count-ids").unwrap();
    assert!(options.load && options.count_ids && !options.list);
    assert_eq!((options.forget, options.state), (2, Some("a".into())));
    for line in ["--nonsense", "--forget", "--forget many", "--state", "load"] {
        assert!(parse(line).is_err(), "{line}");
    }
}
