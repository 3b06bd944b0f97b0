//! Five people's jobs, each with commands that a newcomer would guess, and with what the commands
//! themselves say comes next.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::environment::{ABIDE, TestEnvironment, run};

/// Waits until a file is there.
fn wait_for(path: &Path) {
    let since = Instant::now();
    while !path.exists() {
        assert!(since.elapsed() < Duration::from_secs(60), "{} never comes", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn program(env: &TestEnvironment, name: &str, script: &str) {
    let path = env.project().join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// An agent that is at work, with stdin and stdout of its own.
fn at_work(env: &TestEnvironment, args: &[&str]) -> Child {
    let mut command = env.command(args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The first word behind a text in the output of a command.
fn word_after<'a>(text: &'a str, before: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {text}"));
    rest.split([' ', '\n', '`', '\t']).next().unwrap()
}

#[test]
fn yesterdays_session_is_found_and_read() {
    let env = TestEnvironment::bare();
    program(&env, "agent", "cat >/dev/null; echo 'The retry limit is read twice.'");
    env.run(&["run", "./agent"]).success();
    env.run(&["run", "sh", "-c", "echo something else"]).success();
    let found = env.run(&["search", "retry limit"]).success();
    let short = found.stdout().split('\t').next().unwrap();
    let seq = word_after(found.stdout(), "\t@");
    let read = env.run(&["show", short]).success();
    assert!(read.stdout().contains("The retry limit is read twice."), "{}", read.stdout());
    let there = env.run(&["show", short, &format!("@{seq}")]).success();
    assert!(there.stdout().contains("retry limit"), "{}", there.stdout());
    assert_eq!(env.run(&["ls"]).success().stdout().lines().count(), 2);
}

#[test]
fn a_file_that_the_agent_broke_comes_back_while_it_runs() {
    let env = TestEnvironment::bare();
    let file = env.project().join("parser.rs");
    fs::write(&file, "fn parse() {}\n").unwrap();
    program(
        &env,
        "agent",
        "until [ -e saved ]; do sleep 0.05; done; echo oops > parser.rs; touch broken\n\
         until [ -e go ]; do sleep 0.05; done",
    );
    let mut agent = at_work(&env, &["run", "--grace", "1s", "./agent"]);
    let since = Instant::now();
    while !env.run(&["status"]).stdout().contains("Running") {
        assert!(since.elapsed() < Duration::from_secs(60), "it does not run");
    }
    env.run(&["save", "-m", "before"]).success();
    fs::write(env.project().join("saved"), "").unwrap();
    wait_for(&env.project().join("broken"));
    let diff = env.run(&["diff"]).success();
    assert!(diff.stdout().contains("parser.rs"), "{}", diff.stdout());
    env.run(&["rewind", "before", "parser.rs", "-y"]).success();
    assert_eq!(fs::read_to_string(&file).unwrap(), "fn parse() {}\n");
    fs::write(env.project().join("go"), "").unwrap();
    assert!(agent.wait().unwrap().success(), "the agent was not disturbed");
}

#[test]
fn after_a_crash_the_command_that_is_named_goes_on() {
    let env = TestEnvironment::bare();
    program(
        &env,
        "agent",
        "cat >/dev/null; touch begun; until [ -e go ]; do sleep 0.05; done; echo done > result",
    );
    let mut agent = at_work(&env, &["run", "--grace", "1s", "./agent"]);
    wait_for(&env.project().join("begun"));
    agent.kill().unwrap();
    agent.wait().unwrap();
    fs::write(env.project().join("go"), "").unwrap();
    // `abide` by itself is what people type when they know nothing.
    let overview = env.run(&[]).success();
    let short = word_after(overview.stdout(), "abide resume ").to_owned();
    env.run(&["resume", &short]).success();
    wait_for(&env.project().join("result"));
    assert!(!env.run(&["status"]).success().stdout().contains("Crashed"));
}

#[test]
fn a_colleague_is_sent_a_page() {
    let env = TestEnvironment::bare();
    env.run(&["run", "sh", "-c", "echo The parser drops the last line"]).success();
    let shared = env.run(&["share"]).success();
    let page = shared.stdout().trim();
    let file = env.project().join(page);
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{page:?}: {error}"));
    assert!(text.to_lowercase().starts_with("<!doctype html>"), "{text}");
    assert!(text.contains("The parser drops the last line"), "{text}");
}

#[test]
fn a_program_in_python_records_and_is_told_of_its_mistakes() {
    let env = TestEnvironment::bare();
    let script = r#"
import json, subprocess, sys
abide = subprocess.Popen([sys.argv[1], "record", "--key", "py/1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def record(kind, **data):
    abide.stdin.write(json.dumps({"kind": kind, "data": data}) + "\n")
    abide.stdin.flush()
    return json.loads(abide.stdout.readline())
assert record("message.added", role="user", content="What is in the file?")["seq"] == 3
record("tool.called", call="c1", name="read", arguments={"path": "a.txt"})
record("tool.finished", call="c1", ok=True, result="hello")
told = record("message.added", role="assistant", contents="It says hello.")
assert told["unknown"]["did_you_mean"] == {"contents": "content"}, told
told = record("mesage.added", role="assistant", content="It says hello.")
assert told["unknown"]["did_you_mean"] == "message.added", told
abide.stdin.close()
sys.exit(abide.wait())
"#;
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: there is no python3");
        return;
    }
    let mut python = env.isolate(Command::new("python3"));
    python.args(["-c", script, ABIDE]).current_dir(env.project());
    run(python, b"").success();
    let shown = env.run(&["show", "py/1"]).success();
    assert!(shown.stdout().contains("What is in the file?"), "{}", shown.stdout());
    assert!(shown.stdout().contains("a.txt"), "{}", shown.stdout());
}
