//! `abide record`: what is acknowledged is there, whatever happens then.

use std::io::{BufRead, Write};
use std::time::Duration;

use abide::{LocalOptions, LocalStore};
use serde_json::json;

use crate::environment::{Conversation, HELLO, TestEnvironment};
use crate::terminal::on_terminal;

#[test]
fn the_smallest_recording_makes_store_and_session() {
    let env = TestEnvironment::new();
    let done = env.record(&[], &[HELLO]).success();
    let _filters = env.filters();
    insta::assert_snapshot!(done.stdout(), @r#"{"session":"[SESSION]","seq":3}"#);
    assert_eq!(done.stderr, "");
    let exported = env.run(&["export"]).success();
    insta::assert_snapshot!(exported.stdout(), @r#"
    {"seq":1,"at":"[TIME]","kind":"session.created","data":{"session":"[SESSION]","workspace":"[TEMP]/project"}}
    {"seq":2,"at":"[TIME]","kind":"writer.opened","data":{"epoch":1,"by":"abide (process [N] on [HOST]) since [TIME]"}}
    {"seq":3,"at":"[TIME]","kind":"message.added","data":{"role":"user","content":"hello"}}
    {"seq":4,"at":"[TIME]","kind":"writer.closed","data":{}}
    "#);
}

#[test]
fn no_input_leaves_nothing() {
    let env = TestEnvironment::bare();
    env.record_bytes(&[], b"\n \r\n\n").success();
    assert!(!env.store().exists());
}

#[test]
fn an_answer_comes_before_more_is_sent() {
    let env = TestEnvironment::new();
    let mut talk = Conversation::start(env.command(&["record"]));
    assert_eq!(talk.ask(HELLO)["seq"], 3);
    // A complete line and the start of another: the first is answered at once.
    let input = talk.input.as_mut().unwrap();
    write!(input, "{HELLO}\n{{\"kind\":").unwrap();
    assert_eq!(talk.receive()["seq"], 4);
    assert_eq!(talk.ask(r#""x.rest","data":{}}"#)["seq"], 5);
    assert_eq!(talk.end(), 0);
}

#[test]
fn many_lines_are_answered_in_order() {
    let env = TestEnvironment::new();
    let lines: Vec<_> =
        (0..2000).map(|n| format!(r#"{{"kind":"x.n","data":{{"n":{n}}}}}"#)).collect();
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let answers = env.record(&[], &lines).success().json_lines();
    let seqs: Vec<_> = answers.iter().map(|a| a["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (3..2003).collect::<Vec<_>>());
    let exported = env.run(&["export"]).success().json_lines();
    assert_eq!(exported[2002 - 1]["data"]["n"], 1999);
}

#[test]
fn a_session_is_named_by_option_key_and_environment() {
    let env = TestEnvironment::new();
    let session = |done: crate::environment::Done| {
        done.success().json_lines()[0]["session"].as_str().unwrap().to_owned()
    };
    let first = session(env.record(&["--title", "one", "--agent", "a"], &[HELLO]));
    assert_ne!(session(env.record(&[], &[HELLO])), first);
    assert_eq!(session(env.record(&["-s", &first], &[HELLO])), first);
    let keyed = session(env.record(&["--key", "k"], &[HELLO]));
    assert_eq!(session(env.record(&["--key", "k"], &[HELLO])), keyed);
    let with_variable = |args: &[&str]| {
        let mut command = env.command(&[&["record"], args].concat());
        command.env("ABIDE_SESSION", &first);
        session(crate::environment::run(command, HELLO.as_bytes()))
    };
    assert_eq!(with_variable(&[]), first);
    assert_eq!(with_variable(&["--key", "k"]), keyed);
    assert_ne!(with_variable(&["--new"]), first);
    env.record(&["--new", "--key", "k"], &[HELLO]).failure(2);
    let created = &env.run(&["export", &first]).success().json_lines()[0]["data"];
    assert_eq!((&created["title"], &created["agent"]), (&json!("one"), &json!("a")));
}

#[test]
fn a_key_is_recorded_once() {
    let env = TestEnvironment::new();
    let line = r#"{"kind":"x.once","data":{},"key":"k1"}"#;
    let answers = env.record(&["--key", "s"], &[line, line]).success().json_lines();
    assert_eq!(answers[0]["repeated"], json!(null));
    assert_eq!((&answers[1]["seq"], &answers[1]["repeated"]), (&json!(3), &json!(true)));
    let again = env.record(&["--key", "s"], &[line]).success().json_lines();
    assert_eq!((&again[0]["seq"], &again[0]["repeated"]), (&json!(3), &json!(true)));
    let exported = env.run(&["export"]).success();
    assert_eq!(exported.stdout().matches("x.once").count(), 1);
}

#[test]
fn odd_facts_are_kept_and_marked_or_refused() {
    let env = TestEnvironment::new();
    let odd = r#"{"kind":"tool.finished","data":{"call":"nobody"}}"#;
    let kept = env.record(&["--key", "s"], &[odd]).success().json_lines();
    assert_eq!(kept[0]["anomaly"], "unknown_call");
    let done = env.record(&["--key", "s", "--strict"], &[odd, HELLO]).failure(1);
    let answers = done.json_lines();
    assert_eq!(answers[0]["error"]["code"], "odd");
    assert!(answers[1]["seq"].is_u64());
    assert_eq!(done.stderr, "1 of 2 lines was not recorded\n");
}

#[test]
fn unknown_names_are_kept_and_named_in_the_answer() {
    let env = TestEnvironment::new();
    let lines = [
        r#"{"kind":"mesage.added","data":{"role":"user","content":"a"}}"#,
        r#"{"kind":"message.added","data":{"role":"user","content":"b","contents":1,"zzz":2}}"#,
        r#"{"kind":"nothing.like.it","data":{}}"#,
        r#"{"kind":"x.mine","data":{"contents":1}}"#,
        r#"{"kind":"message.added","data":{"role":"tool","content":"c","tool_call_id":"1"}}"#,
    ];
    let answers = env.record(&[], &lines).success().json_lines();
    let unknown: Vec<_> = answers.iter().map(|answer| answer["unknown"].clone()).collect();
    assert_eq!(
        unknown,
        [
            json!({"kind":"mesage.added","did_you_mean":"message.added"}),
            json!({"fields":["contents","zzz"],"did_you_mean":{"contents":"content"}}),
            json!({"kind":"nothing.like.it"}),
            json!(null),
            json!(null),
        ]
    );
    let seqs: Vec<_> = answers.iter().map(|answer| answer["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [3, 4, 5, 6, 7]);
    let kept = env.run(&["export"]).success();
    assert!(kept.stdout().contains(r#""data":{"role":"user","content":"b","contents":1,"zzz":2}"#));
    // What an API has in a message is its own.
    let line = r#"{"role":"user","content":"hi","my_own":1}"#;
    let answer = env.record(&["--format", "openai"], &[line]).success().json_lines();
    assert_eq!(answer[0]["unknown"], json!(null));
    let malformed = r#"{"kind":"message.added","data":{"role":5,"content":"x"}}"#;
    let told = env.record(&["--key", "m"], &[lines[0], malformed, HELLO]).success();
    assert_eq!(
        told.stderr,
        "1 of 3 events was recorded but does not fit its kind, and has no effect; 1 is of an unknown \
         kind (see \"malformed\" and \"unknown\" in the replies)\n"
    );
}

#[test]
fn what_is_malformed_is_told_by_its_field() {
    let env = TestEnvironment::new();
    let line = r#"{"kind":"message.added","data":{"role":5,"content":"x"}}"#;
    let kept = env.record(&["--key", "s"], &[line]).success().json_lines();
    assert_eq!(kept[0]["anomaly"], "malformed");
    assert_eq!(kept[0]["malformed"], "data.role: expected a string, not 5");
    let refused = env.record(&["--key", "s", "--strict"], &[line]).failure(1).json_lines();
    let error = json!({"code":"odd","message":"data.role: expected a string, not 5","line":1});
    assert_eq!(refused[0]["error"], error);
    for (line, told) in [
        (r#"{"kind":5,"data":{}}"#, "invalid event: `kind`: expected a string, not 5"),
        (r#"{"kind":"x.y"}"#, "invalid event: `data`: missing"),
        (
            r#"{"kind":"x.y","data":{},"taks":"a"}"#,
            "invalid event: `taks`: no such field, did you mean `task`?",
        ),
        (
            r#"{"kind":"x.y","data":{},"truns":1}"#,
            "invalid event: `truns`: no such field, did you mean `turn`?",
        ),
        ("[]", "invalid event: an event is a JSON object"),
        ("{", "invalid JSON: EOF while parsing an object at column 1"),
        (
            r#"{"kind":"x.y","data":{},"turn":"1"}"#,
            r#"invalid event: `turn`: expected a whole number, not "1""#,
        ),
    ] {
        let refused = env.record(&["--key", "s"], &[line]).failure(1).json_lines();
        assert_eq!(refused[0]["error"]["message"], told);
    }
}

#[test]
fn a_bare_message_gets_the_hint_how_it_is_recorded() {
    let env = TestEnvironment::new();
    let message = r#"{"role":"user","content":"hi"}"#;
    let refused = env.record(&[], &[message]).failure(1).json_lines();
    let error = &refused[0]["error"];
    assert_eq!(error["code"], "not_an_event");
    assert_eq!(error["message"], "this is a message, not an event");
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("`--format openai`"), "{hint}");
    let wrapped = &hint[hint.find("{\"kind\"").unwrap()..];
    let answers = env.record(&[], &[wrapped]).success().json_lines();
    assert_eq!(answers[0]["unknown"], json!(null));
    env.record(&["--format", "openai"], &[message]).success();
}

#[test]
fn on_a_terminal_it_says_what_it_waits_for() {
    let env = TestEnvironment::new();
    let Some(done) = on_terminal(&env, "record") else { return };
    let text = String::from_utf8(done.out).unwrap();
    assert!(text.contains("Waiting for events, one line of JSON each, for example:"), "{text}");
    assert!(text.contains(r#"{"kind":"message.added","data":{"role":"user","content":"hello"}}"#));
    assert!(text.contains("Ctrl-D ends."));
    let piped = env.record(&[], &[HELLO]).success();
    assert_eq!(piped.stderr, "");
}

#[test]
fn buffered_events_are_there_too() {
    let env = TestEnvironment::new();
    env.record(&["--durability", "buffered"], &[HELLO]).success();
    assert!(env.run(&["export"]).success().stdout().contains("hello"));
}

/// The first is this process, which shares what it holds with nobody.
#[test]
fn a_second_writer_is_refused_by_an_error_that_names_the_first() {
    let env = TestEnvironment::new();
    let session = env.record(&[], &[HELLO]).success().json_lines()[0]["session"].clone();
    let session = session.as_str().unwrap();
    let store = LocalStore::open(&env.store(), LocalOptions::default()).unwrap();
    let first = store.writer(session.parse().unwrap(), Duration::ZERO).unwrap();
    let refused = env.record(&["-s", session, "--wait", "0"], &[HELLO]).failure(1);
    let _filters = env.filters();
    let program = LocalOptions::default().env.holder.program;
    insta::assert_snapshot!(refused.stderr.replace(&program, "abide"), @r"
    Error: session [SESSION] is held by abide (process [N] on [HOST]) since [TIME]
    Hint: wait until it has ended, wait longer with `--wait 30s`, or end that process
    ");
    let named = format!("(process {} on", std::process::id());
    assert!(refused.stderr.contains(&named), "{}", refused.stderr);
    assert_eq!(refused.stdout(), "");
    // One that waits gets its turn.
    let mut second = Conversation::start(env.command(&["record", "-s", session, "--wait", "20s"]));
    second.send(HELLO);
    drop(first);
    assert!(second.receive()["seq"].is_u64());
    assert_eq!(second.end(), 0);
}

#[test]
fn kill_9_loses_nothing_that_was_acknowledged() {
    let env = TestEnvironment::new();
    let mut talk = Conversation::start(env.command(&["record", "--key", "s"]));
    let mut input = talk.input.take().unwrap();
    let feeder = std::thread::spawn(move || {
        for n in 0.. {
            let line = format!(
                "{{\"kind\":\"x.n\",\"data\":{{\"n\":{n},\"pad\":\"{}\"}}}}\n",
                "p".repeat(n % 3000)
            );
            if input.write_all(line.as_bytes()).is_err() {
                break;
            }
        }
    });
    let mut answers = Vec::new();
    for _ in 0..500 {
        answers.push(talk.receive()["seq"].as_u64().unwrap());
    }
    talk.child.kill().unwrap();
    talk.child.wait().unwrap();
    feeder.join().unwrap();
    // What was said before the end counts too.
    let mut rest = String::new();
    while talk.output.read_line(&mut rest).unwrap() > 0 && rest.ends_with('\n') {
        let answer: serde_json::Value = serde_json::from_str(&rest).unwrap();
        answers.push(answer["seq"].as_u64().unwrap());
        rest.clear();
    }
    let exported = env.run(&["export"]).success().json_lines();
    for (n, seq) in answers.iter().enumerate() {
        let event = &exported[usize::try_from(*seq).unwrap() - 1];
        assert_eq!((&event["seq"], &event["data"]["n"]), (&json!(seq), &json!(n)));
    }
    env.run(&["doctor"]).success();
    let more = env.record(&["--key", "s"], &[HELLO]).success();
    assert!(more.json_lines()[0]["seq"].as_u64() > answers.last().copied());
    let report = env.run(&["doctor"]).success();
    assert!(report.stdout().ends_with("no findings\n"), "{report:?}");
}
