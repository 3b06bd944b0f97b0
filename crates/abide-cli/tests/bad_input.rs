//! Input of every bad sort: an error that says what is wrong, or kept verbatim; nothing else is
//! touched by it.

use std::fs;
use std::process::Command;

use crate::environment::{ABIDE, HELLO, TestEnvironment, files, run};

/// Records a bad line between two good ones, and gives the code of its refusal.
fn refused(line: &[u8]) -> String {
    let env = TestEnvironment::new();
    let input = [HELLO.as_bytes(), line, HELLO.as_bytes()].join(&b'\n');
    let done = env.record_bytes(&[], &input).failure(1);
    let answers = done.json_lines();
    assert_eq!(answers.len(), 3);
    assert_eq!((answers[0]["seq"].as_u64(), answers[2]["seq"].as_u64()), (Some(3), Some(4)));
    assert_eq!(answers[1]["error"]["line"], 2);
    assert!(!answers[1]["error"]["message"].as_str().unwrap().is_empty());
    let doctor = env.run(&["doctor"]).success();
    assert!(doctor.stdout().starts_with("1 session, 5 events,"), "{doctor:?}");
    answers[1]["error"]["code"].as_str().unwrap().to_owned()
}

/// Records data and gives it back as exported.
fn kept(data: &str) -> String {
    let env = TestEnvironment::new();
    env.record(&[], &[&format!("{{\"kind\":\"x.kept\",\"data\":{data}}}")]).success();
    let exported = env.run(&["export"]).success();
    let line = exported.stdout().lines().find(|line| line.contains("x.kept")).unwrap();
    let data = line.split_once("\"data\":").unwrap().1;
    data.strip_suffix('}').unwrap().to_owned()
}

#[test]
fn what_is_no_event_is_refused_with_its_line() {
    assert_eq!(refused(b"{\"kind\":\"x.y\",\"data\":{\"a\":"), "not_json");
    assert_eq!(refused(b"hello"), "not_json");
    assert_eq!(refused(b"[]"), "not_an_event");
    assert_eq!(refused(b"{\"kind\":\"x.y\"}"), "not_an_event");
    assert_eq!(refused(b"{\"kind\":\"x.y\",\"data\":{\"a\":\"\xff\xfe\"}}"), "not_utf8");
    assert_eq!(refused(b"{\"kind\":\"x.y\",\"data\":{\"a\":\"\0\"}}"), "not_json");
    assert_eq!(refused(b"\0\0\0"), "not_json");
    assert_eq!(refused(b"{\"kind\":\"x.y\",\"data\":[1]}"), "not_an_object");
    assert_eq!(refused(b"{\"kind\":\"X Y\",\"data\":{}}"), "bad_kind");
    assert_eq!(refused(b"{\"kind\":\"writer.opened\",\"data\":{}}"), "reserved");
    assert_eq!(refused(b"{\"kind\":\"x.y\",\"data\":{},\"occurred\":\"soon\"}"), "bad_time");
    let long = format!("{{\"kind\":\"x.y\",\"data\":{{}},\"key\":\"{}\"}}", "k".repeat(513));
    assert_eq!(refused(long.as_bytes()), "bad_name");
}

#[test]
fn nesting_of_any_depth_is_refused_not_followed() {
    let deep = format!(
        "{{\"kind\":\"x.y\",\"data\":{{\"a\":{}{}}}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert_eq!(refused(deep.as_bytes()), "too_deep");
}

#[test]
fn a_line_of_100_mb_is_passed_over_in_bounded_memory() {
    let mut line = br#"{"kind":"x.y","data":{"a":""#.to_vec();
    line.resize(100_000_000, b'a');
    line.extend_from_slice(b"\"}}\n");
    line.extend_from_slice(HELLO.as_bytes());
    let env = TestEnvironment::new();
    // Room for the program and the longest line that is allowed, and not for this one.
    let mut command = env.isolate(Command::new("sh"));
    command.args(["-c", "ulimit -v 180000; exec \"$0\" record", ABIDE]);
    let answers = run(command, &line).failure(1).json_lines();
    assert_eq!(
        (&answers[0]["error"]["code"], &answers[0]["error"]["line"]),
        (&"too_large".into(), &1.into())
    );
    assert_eq!(answers[1]["seq"], 3);
}

#[test]
fn a_last_line_without_its_line_break_counts() {
    let env = TestEnvironment::new();
    let done = env.record_bytes(&[], HELLO.as_bytes()).success();
    assert_eq!(done.json_lines()[0]["seq"], 3);
    let cut = &HELLO.as_bytes()[..HELLO.len() - 5];
    let done = env.record_bytes(&[], cut).failure(1);
    assert_eq!(done.json_lines()[0]["error"]["code"], "not_json");
}

#[test]
fn data_comes_back_byte_for_byte() {
    for data in [
        r#"{"a":1,"a":2,"b":{"c":3,"c":4}}"#,
        r#"{"n":18446744073709551617,"m":-1e400,"f":1.10}"#,
        r#"{"lone":"\ud800","low":"\udc00x"}"#,
        r#"{ "spaced" : [ 1 , 2 ] }"#,
        "{\"text\":\"Grüße \u{202e}\u{7f}\u{9b}\"}",
        r#"{"nul":"\u0000","esc":"\u001b[2J"}"#,
    ] {
        assert_eq!(kept(data), data);
    }
    // Large enough to be kept as an object.
    let large = format!("{{\"text\":\"{}\",\"n\":1e2}}", "ü\\n\\ud83d".repeat(20_000));
    assert_eq!(kept(&large), large);
}

#[test]
fn foreign_files_are_named_and_left_alone() {
    let env = TestEnvironment::new();
    env.record(&[], &[HELLO]).success();
    let session = env.session_dir();
    let among_sessions = env.project().join(".abide/sessions/notes.txt");
    let in_journal = session.join("journal/00000001.jsonl.bak");
    fs::write(&among_sessions, "mine").unwrap();
    fs::write(&in_journal, "mine too").unwrap();
    let before = files(&env.project());
    let done = env.run(&["doctor"]).success();
    assert_eq!(done.stdout().matches("warning[foreign-file]").count(), 2, "{done:?}");
    assert!(done.stdout().ends_with("; 2 warnings\n"), "{done:?}");
    assert_eq!(files(&env.project()), before);
    env.record(&["-s", "latest"], &[HELLO]).failure(1);
    env.record(&[], &[HELLO]).success();
    assert!(among_sessions.exists() && in_journal.exists());
}
