//! Tests and builds that an agent runs, and lock files that change, are recorded without being asked.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

/// An agent that prints these events, and does this besides.
fn agent(environment: &TestEnvironment, name: &str, events: &[Value], more: &str) {
    let printed: Vec<String> = events.iter().map(Value::to_string).collect();
    fs::write(environment.project().join("events"), printed.join("\n") + "\n").unwrap();
    let path = environment.project().join(name);
    fs::write(&path, format!("#!/bin/sh\ncat > /dev/null\n{more}\ncat events\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn recorded(environment: &TestEnvironment, kind: &str) -> Vec<Value> {
    let events = environment.run(&["export"]).success().json_lines();
    events.into_iter().filter(|event| event["kind"] == kind).collect()
}

fn state(environment: &TestEnvironment, part: &str) -> Value {
    let report = environment.run(&["state", part, "--json"]).success().json_lines().remove(0);
    report[part]["list"].clone()
}

/// A command that Codex ran.
fn ran(id: &str, command: &str, exit: i32, output: &str) -> Value {
    let status = if exit == 0 { "completed" } else { "failed" };
    json!({"type": "item.completed", "item": {
        "id": id, "type": "command_execution", "command": format!("/bin/bash -lc '{command}'"),
        "aggregated_output": output, "exit_code": exit, "status": status,
    }})
}

const FAILED: &str = "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n\
    \nerror: test failed, to rerun pass `--lib`\n";
const PASSED: &str = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n";

#[test]
fn the_tests_and_builds_of_a_run_are_recorded_with_their_counts() {
    let environment = TestEnvironment::new();
    let built = "    Finished `dev` profile [unoptimized + debuginfo] target(s) in 0.31s\n";
    let events = [
        json!({"type": "thread.started", "thread_id": "th-1"}),
        ran("i1", "cargo test", 101, FAILED),
        ran("i2", "ls", 0, PASSED),
        ran("i3", "cd x && cargo test 2>&1 | tail -3", 0, FAILED),
        ran("i4", "npm test | tail -1", 0, "cut\n"),
        ran("i5", "cargo build", 0, built),
        ran("i6", "cargo test", 0, &format!("\u{1b}[32m{PASSED}\u{1b}[0m{PASSED}")),
        // The user declined it.
        ran("i7", "cargo test", -1, "rejected by user"),
        json!({"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}}),
    ];
    agent(&environment, "codex", &events, "");
    environment.run(&["run", "--", "./codex", "exec", "--json"]).success();

    let artifacts = recorded(&environment, "artifact.recorded");
    let told = |event: &Value| {
        let data = &event["data"];
        (data["name"].clone(), data["kind"].clone(), data["ok"].clone(), data["exit"].clone())
    };
    let expected = [
        ("cargo test", "test", false, json!(101)),
        // The exit code is that of `tail`.
        ("cargo test", "test", false, Value::Null),
        ("cargo build", "build", true, json!(0)),
        ("cargo test", "test", true, json!(0)),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(name, kind, ok, exit)| (json!(name), json!(kind), json!(ok), exit))
        .collect();
    assert_eq!(artifacts.iter().map(told).collect::<Vec<_>>(), expected);
    let counts = &artifacts[0]["data"]["counts"];
    assert_eq!(*counts, json!({"passed": 2, "failed": 1, "skipped": 0}));
    assert_eq!(artifacts[0]["data"]["command"], "/bin/bash -lc 'cargo test'");
    assert_eq!(artifacts[0]["data"]["output"], FAILED);
    assert_eq!(artifacts[0]["task"], "T1", "{}", artifacts[0]);
    assert!(artifacts[0]["turn"].is_number(), "{}", artifacts[0]);

    let list = state(&environment, "artifacts");
    assert_eq!((&list[0]["name"], &list[0]["ok"]), (&json!("cargo test"), &json!(true)));
    assert_eq!(list[0]["counts"], json!({"passed": 6, "failed": 0, "skipped": 2}));
    let text = environment.run(&["state", "artifacts"]).success().stdout().to_owned();
    assert!(text.starts_with("test cargo test: ok, 6 passed, 2 skipped, "), "{text}");
    let shown = environment.run(&["show"]).success().stdout().to_owned();
    assert!(shown.contains("test cargo test: failed, 2 passed, 1 failed"), "{shown}");
    environment.run(&["doctor", "--all"]).success();
}

#[test]
fn a_call_that_was_refused_or_says_nothing_is_no_test_result() {
    let environment = TestEnvironment::new();
    let call = |id: &str, command: &str| {
        let input = json!({"command": command});
        json!({"type": "assistant", "message": {"id": id, "role": "assistant",
            "content": [{"type": "tool_use", "id": id, "name": "Bash", "input": input}]}})
    };
    let result = |id: &str, failed: bool, text: &str| {
        json!({"type": "user", "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": failed}]}})
    };
    let events = [
        json!({"type": "system", "subtype": "init", "session_id": "s"}),
        call("c1", "pytest -q"),
        result("c1", true, "The user doesn't want to proceed with this tool use."),
        call("c2", "pytest -q"),
        result("c2", true, "Exit code 1\nF.\n1 failed, 1 passed in 0.02s"),
        call("c3", "npx tsc --noEmit"),
        result("c3", false, ""),
        json!({"type": "result", "subtype": "success", "is_error": false, "result": "done"}),
    ];
    agent(&environment, "claude", &events, "");
    let run = ["run", "--", "./claude", "-p", "x", "--output-format", "stream-json", "--verbose"];
    environment.run(&run).success();
    let artifacts = recorded(&environment, "artifact.recorded");
    let data: Vec<&Value> = artifacts.iter().map(|event| &event["data"]).collect();
    assert_eq!(data.len(), 2, "{data:?}");
    assert_eq!((&data[0]["name"], &data[0]["exit"]), (&json!("pytest"), &json!(1)));
    assert_eq!(data[0]["counts"], json!({"passed": 1, "failed": 1, "skipped": 0}));
    assert_eq!((&data[1]["name"], &data[1]["ok"]), (&json!("tsc"), &json!(true)));
}

#[test]
fn a_check_is_recorded_once_and_with_its_counts() {
    let environment = TestEnvironment::new();
    let events = [
        json!({"type": "thread.started", "thread_id": "th-1"}),
        json!({"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}}),
    ];
    agent(&environment, "codex", &events, "");
    let bin = environment.project().join("pytest");
    fs::write(&bin, "#!/bin/sh\necho '4 passed in 0.02s'\n").unwrap();
    fs::set_permissions(&bin, fs::Permissions::from_mode(0o755)).unwrap();
    let run = ["run", "--check", "./pytest -q", "--", "./codex", "exec", "--json"];
    environment.run(&run).success();
    let artifacts = recorded(&environment, "artifact.recorded");
    assert_eq!(artifacts.len(), 1, "{artifacts:?}");
    let data = &artifacts[0]["data"];
    assert_eq!(
        (&data["kind"], &data["ok"], &data["exit"]),
        (&json!("check"), &json!(true), &json!(0))
    );
    assert_eq!(data["counts"], json!({"passed": 4, "failed": 0, "skipped": 0}));
}

#[test]
fn what_a_client_records_stays_as_it_is() {
    let environment = TestEnvironment::new();
    let lines = [
        r#"{"kind":"tool.called","data":{"call":"c","name":"bash","arguments":{"command":"pytest"}}}"#,
        r#"{"kind":"tool.finished","data":{"call":"c","ok":true,"result":"4 passed in 0.02s"}}"#,
        r#"{"kind":"dependencies.resolved","data":{"manager":"npm","lockfile":"a\u001b]0;x","packages":{"\u001b[2Jp":"1"}}}"#,
        r#"{"kind":"artifact.recorded","data":{"name":"\u001b[2Jpytest","kind":"test","ok":true,"counts":{"passed":18446744073709551615,"else":1}}}"#,
    ];
    environment.record(&[], &lines).success();
    assert_eq!(recorded(&environment, "artifact.recorded").len(), 1);
    let text = environment.run(&["state", "artifacts"]).success().stdout().to_owned();
    assert!(text.starts_with("test \\u{1b}[2Jpytest: ok, 18446744073709551615 passed, "), "{text}");
    // A name from a lock file is escaped, too.
    let text = environment.run(&["state", "dependencies"]).success().stdout().to_owned();
    assert!(text.contains("\\u{1b}[2Jp 1") && !text.contains('\u{1b}'), "{text}");
}

const LOCK: &str = "version = 4\n\n[[package]]\nname = \"serde\"\nversion = \"1.0.0\"\n";

#[test]
fn a_lock_file_that_changed_between_checkpoints_is_resolved() {
    let environment = TestEnvironment::new();
    environment.run(&["new"]).success();
    let write = |path: &str, text: &str| {
        let path = environment.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let checkpoint = || environment.run(&["checkpoint", "create"]).success();
    write("Cargo.lock", LOCK);
    checkpoint();
    write("src/main.rs", "fn main() {}\n");
    checkpoint();
    assert_eq!(recorded(&environment, "dependencies.resolved"), [] as [Value; 0]);

    write("Cargo.lock", &format!("{LOCK}\n[[package]]\nname = \"syn\"\nversion = \"2.0.0\"\n"));
    write("web/go.sum", "not a go.sum at all\n");
    checkpoint();
    checkpoint();
    let resolved = recorded(&environment, "dependencies.resolved");
    assert_eq!(resolved.len(), 2, "{resolved:?}");
    let packages = json!({"serde": "1.0.0", "syn": "2.0.0"});
    assert_eq!(
        resolved[0]["data"],
        json!({"manager": "cargo", "lockfile": "Cargo.lock", "packages": packages})
    );
    let note = resolved[1]["data"]["note"].as_str().unwrap();
    assert!(note.starts_with("malformed: "), "{note}");
    assert_eq!(resolved[1]["data"]["lockfile"], "web/go.sum");
    let text = environment.run(&["state", "dependencies"]).success().stdout().to_owned();
    assert!(text.contains("  serde 1.0.0\n  syn 2.0.0\n"), "{text}");
    assert!(text.contains("  not read: malformed: "), "{text}");

    // A rewind to the checkpoint before takes back what was resolved since.
    environment.run(&["rewind", "--to", "2", "--yes"]).success();
    assert_eq!(state(&environment, "dependencies"), json!([]));
    assert_eq!(fs::read_to_string(environment.project().join("Cargo.lock")).unwrap(), LOCK);
    fs::remove_file(environment.project().join("Cargo.lock")).unwrap();
    checkpoint();
    let list = state(&environment, "dependencies");
    assert_eq!(list[0]["note"], "deleted, or not in the snapshot");
    environment.run(&["doctor", "--all"]).success();
}

/// A lock file of any size or content neither fails a checkpoint nor makes it large.
#[test]
fn a_lock_file_that_is_too_large_is_noted() {
    let environment = TestEnvironment::new();
    environment.run(&["new"]).success();
    let path = environment.project().join("yarn.lock");
    fs::write(&path, "").unwrap();
    environment.run(&["checkpoint", "create"]).success();
    let block = |number: usize| format!("package-{number}@^1.0.0:\n  version \"1.0.{number}\"\n\n");
    fs::write(&path, (0..12_000).map(block).collect::<String>()).unwrap();
    environment.run(&["checkpoint", "create"]).success();
    fs::write(&path, "x".repeat((8 << 20) + 1)).unwrap();
    environment.run(&["checkpoint", "create"]).success();
    let resolved = recorded(&environment, "dependencies.resolved");
    assert_eq!(resolved.len(), 2);
    assert_eq!(resolved[0]["data"]["packages"].as_object().unwrap().len(), 10_000);
    assert_eq!(resolved[0]["data"]["left_out"], 2_000);
    assert_eq!(resolved[1]["data"]["note"], "too large: 8388609 bytes");
    environment.run(&["doctor", "--all"]).success();
}
