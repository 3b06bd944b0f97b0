//! Messages in the forms of the APIs: `record --format` and `export --format`.

use std::process::Command;

use serde_json::json;

use crate::environment::{ABIDE, HELLO, TestEnvironment, run};

const SAMPLES: [(&str, &str); 3] = [
    ("openai", include_str!("../../abide-wire/tests/samples/openai.jsonl")),
    ("responses", include_str!("../../abide-wire/tests/samples/responses.jsonl")),
    ("anthropic", include_str!("../../abide-wire/tests/samples/anthropic.jsonl")),
];

#[test]
fn what_goes_in_comes_out_equal() {
    for (format, samples) in SAMPLES {
        let env = TestEnvironment::new();
        let answers = env.record_bytes(&["--format", format], samples.as_bytes()).success();
        assert_eq!(answers.json_lines().len(), samples.lines().count());
        let exported = env.run(&["export", "--format", format]).success();
        assert_eq!(exported.stdout(), samples, "{format}");
        // Said in the other forms, it is said in theirs.
        for (other, _) in SAMPLES {
            let exported = env.run(&["export", "--format", other]).success();
            let again = TestEnvironment::new();
            again.record_bytes(&["--format", other], exported.out.as_slice()).success();
            let twice = again.run(&["export", "--format", other]).success();
            assert_eq!(twice.stdout(), exported.stdout());
        }
    }
}

#[test]
fn messages_and_events_are_mixed() {
    let env = TestEnvironment::new();
    let lines = [
        r#"{"role":"user","content":"do"}"#,
        r#"{"kind":"message.added","data":{"role":"user","content":"else"},"lane":"sub"}"#,
        r#"{"kind":"x.own","data":{}}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"t","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"t","arguments":"{}"}}]}"#,
        r#"{"kind":"tool.called","data":{"call":"a","name":"t"}}"#,
        r#"{"kind":"tool.finished","data":{"call":"a","result":"ran"}}"#,
        r#"{"kind":"tool.finished","data":{"call":"b","result":"ran too"}}"#,
        r#"{"role":"tool","tool_call_id":"b","content":"said"}"#,
    ];
    env.record(&["--format", "openai"], &lines).success();
    let exported = env.run(&["export", "--format", "openai"]).success();
    let result = json!({"role": "tool", "tool_call_id": "a", "content": "ran"});
    let expected: Vec<serde_json::Value> = [0, 3]
        .map(|at: usize| serde_json::from_str(lines[at]).unwrap())
        .into_iter()
        .chain([result, serde_json::from_str(lines[7]).unwrap()])
        .collect();
    assert_eq!(exported.json_lines(), expected);
    let lane = env.run(&["export", "--format", "openai", "--lane", "sub"]).success();
    assert_eq!(lane.stdout(), "{\"role\":\"user\",\"content\":\"else\"}\n");
    let none = env.run(&["export", "--format", "openai", "--lane", "no\u{1b}ne"]).failure(1);
    let error = "Error: the session has no lane \"no\\u{1b}ne\"\n";
    assert!(none.stderr.ends_with(error), "{none:?}");
    env.run(&["export", "--lane", "sub"]).failure(2);
}

#[test]
fn what_a_rewind_took_back_is_left_out_and_what_was_summed_up_is_not() {
    let env = TestEnvironment::new();
    let said = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
    let compacted = r#"{"kind":"context.compacted","data":{"first":3,"last":3,"summary":"s"}}"#;
    let lines = [&said("one"), compacted, &said("two"), &said("three")];
    env.record(&["--format", "anthropic", "--key", "k"], &lines).success();
    env.run(&["rewind", "--to", "@5", "--conversation", "--yes"]).success();
    env.record(&["--format", "anthropic", "--key", "k"], &[&said("four")]).success();
    let exported = env.run(&["export", "--format", "anthropic"]).success();
    let expected = [said("one"), said("two"), said("four")].map(|line| line + "\n").concat();
    assert_eq!(exported.stdout(), expected);
}

#[test]
fn what_is_no_message_is_named_by_an_export_and_the_rest_is_written() {
    let env = TestEnvironment::new();
    let lines = [
        r#"{"role":"user","content":"one"}"#,
        r#"{"kind":"message.added","data":{"content":"nobody says this"}}"#,
        r#"{"kind":"message.added","data":{"role":"model","parts":[{"text":"elsewhere"}]}}"#,
        r#"{"role":"user","content":"two"}"#,
    ];
    env.record(&["--format", "anthropic", "--key", "k"], &lines).success();
    let exported = env.run(&["export", "--format", "anthropic"]).failure(1);
    assert_eq!(exported.stdout(), format!("{}\n{}\n", lines[0], lines[3]));
    for line in [
        "Warning: @4 is not exported: the message has no `role`\n",
        "Warning: @5 is not exported: the message has neither `content` nor calls\n",
        "Error: 2 events were not exported; all others were\n",
        "Hint: `abide export --format jsonl` has every event as it was recorded\n",
    ] {
        assert!(exported.stderr.contains(line), "{line}: {exported:?}");
    }
    let file = env.run(&["export", "--format", "anthropic", "-o", "out.jsonl"]).failure(1);
    assert!(file.stderr.contains("2 events were not exported"), "{file:?}");
    assert_eq!(std::fs::read(env.project().join("out.jsonl")).unwrap(), exported.out);
    // What has no place in the form is said to be left out.
    let thought =
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"}]}"#;
    env.record(&["--format", "anthropic", "--key", "t"], &[thought]).success();
    let exported = env.run(&["export", "--format", "openai"]).success();
    assert_eq!(exported.stdout(), "");
    assert!(exported.stderr.contains("Note: 1 message holds nothing, or thoughts"), "{exported:?}");
}

#[test]
fn a_line_that_is_no_message_is_refused_and_the_next_is_recorded() {
    for (format, line, code) in [
        ("openai", &b"hello"[..], "not_json"),
        ("openai", b"[1]", "not_an_object"),
        ("openai", b"{\"content\":\"x\"}", "no_role"),
        ("openai", b"{\"role\":7,\"content\":\"x\"}", "not_a_string"),
        ("openai", b"{\"role\":\"assistant\"}", "no_content"),
        ("openai", b"{\"role\":\"user\",\"content\":\"\xff\"}", "not_utf8"),
        ("openai", b"{\"role\":\"user\",\"content\":\"x\",\"abide\":{}}", "reserved"),
        ("openai", b"{\"kind\":\"X\",\"data\":{}}", "bad_kind"),
        ("anthropic", b"{\"role\":\"user\",\"content\":null}", "bad_content"),
        ("responses", b"{\"content\":\"x\"}", "no_type"),
        ("responses", b"{\"type\":\"message\",\"content\":\"x\"}", "no_role"),
        ("responses", b"{\"type\":\"input_text\",\"text\":\"x\"}", "not_an_item"),
        ("events", b"{\"role\":\"user\",\"content\":\"x\"}", "not_an_event"),
    ] {
        let env = TestEnvironment::new();
        let input = [line, HELLO.as_bytes()].join(&b'\n');
        let answers = env.record_bytes(&["--format", format], &input).failure(1).json_lines();
        assert_eq!(answers[0]["error"]["code"], code, "{format}: {answers:?}");
        assert_eq!(answers[0]["error"]["line"], 1);
        assert_eq!(answers[1]["seq"], 3);
    }
    let deep = format!(r#"{{"role":"user","content":{}{}}}"#, "[".repeat(9999), "]".repeat(9999));
    let env = TestEnvironment::new();
    let done = env.record(&["--format", "openai"], &[&deep, HELLO]).failure(1);
    assert_eq!(done.json_lines()[0]["error"]["code"], "too_deep");
    assert_eq!(done.json_lines()[1]["seq"], 3);
}

#[test]
fn a_line_of_20_mb_is_recorded_and_one_over_the_limit_is_refused() {
    let line = |bytes: usize| {
        let mut line = br#"{"role":"user","content":""#.to_vec();
        line.resize(bytes, b'a');
        line.extend_from_slice(b"\"}");
        line
    };
    let input = [&line(100_000_000)[..], &line(20_000_000)[..]].join(&b'\n');
    let env = TestEnvironment::new();
    let mut command = env.isolate(Command::new(ABIDE));
    command.args(["record", "--format", "openai"]);
    let answers = run(command, &input).failure(1).json_lines();
    assert_eq!(answers[0]["error"]["code"], "too_large");
    assert_eq!(answers[1]["seq"], 3);
    let exported = env.run(&["export", "--format", "openai"]).success();
    assert_eq!(exported.out.strip_suffix(b"\n").unwrap(), line(20_000_000));
}
