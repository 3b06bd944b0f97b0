//! Programs that behave, and programs that do not.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::sample::{Sample, task};
use super::*;

/// Long enough that no program here needs it.
const PATIENCE: Duration = Duration::from_secs(60);

fn sample() -> Sample {
    Sample::default()
        .user("Fix it")
        .calls("c1", "bash", &json!({"command": "ls"}))
        .finished("c1", true, &json!("a.rs"))
        .assistant("Fixed.")
        .summary("It was broken.")
}

fn run(command: &SummaryCommand, sample: &Sample) -> Result<String, SummaryError> {
    command.summarize(&sample.request(1000))
}

fn sh(command: &str) -> Result<String, SummaryError> {
    run(&SummaryCommand::new(command).within(PATIENCE), &sample())
}

#[test]
fn the_program_gets_the_conversation_as_lines() {
    let sample = sample();
    let tasks = [task("T1", "Mend", abide_model::TaskStatus::Blocked)];
    let files = ["a.rs".to_owned()];
    let request = SummaryRequest { tasks: &tasks, files: &files, ..sample.request(1000) };
    let text = SummaryCommand::new("cat").within(PATIENCE).summarize(&request).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = json!([
        {"role": "abide", "most_tokens": 1000, "files": ["a.rs"],
         "tasks": [{"id": "T1", "title": "Mend", "status": "blocked"}]},
        {"role": "summary", "content": "It was broken."},
        {"role": "user", "content": "Fix it"},
        {"role": "assistant",
         "calls": [{"id": "c1", "name": "bash", "arguments": "{\"command\":\"ls\"}"}]},
        {"role": "tool", "call": "c1", "ok": true, "content": "a.rs"},
        {"role": "assistant", "content": "Fixed."},
    ]);
    assert_eq!(Value::from(lines), expected);
}

#[test]
fn what_it_writes_is_the_summary() {
    assert_eq!(sh("echo ' All is well. '; echo noise >&2").unwrap(), "All is well.");
    assert_eq!(sh("printf 'a\\033[2Jb\\nc'").unwrap(), "a\\u{1b}[2Jb\nc");
    let dir = tempfile::tempdir().unwrap();
    let there = SummaryCommand::new("pwd -P").within(PATIENCE).in_directory(dir.path());
    let here = dir.path().canonicalize().unwrap();
    assert_eq!(run(&there, &sample()).unwrap(), here.to_str().unwrap());
    let long = sh("head -c 9000 /dev/zero | tr '\\0' x").unwrap();
    assert!(long.len() <= 4000 && long.ends_with(" more bytes left out]"), "{long}");
}

#[test]
fn a_program_that_does_not_read_does_no_harm() {
    // More than a pipe holds.
    let long = Sample::default().user(&"x".repeat(1 << 20));
    for command in ["echo fine", "exec <&-; echo fine", "head -c 1 >/dev/null; echo fine"] {
        let command = SummaryCommand::new(command).within(PATIENCE);
        assert_eq!(run(&command, &long).unwrap(), "fine");
    }
    // It reads late, after it has filled its own pipe.
    let late = "head -c 300000 /dev/zero | tr '\\0' y; wc -c";
    let text = run(&SummaryCommand::new(late).within(PATIENCE), &long).unwrap();
    assert!(text.starts_with("yyy"), "{text}");
}

#[test]
fn failures_say_what_happened() {
    let error = sh("echo first; printf 'oh\\033[2J\\nno\\n' >&2; exit 3").unwrap_err();
    assert!(matches!(error, SummaryError::Failed { .. }));
    assert_eq!(
        error.to_string(),
        "the summary command failed with exit status: 3: oh\\u{1b}[2J no"
    );
    assert!(matches!(sh("kill -9 $$"), Err(SummaryError::Failed { .. })));
    let error = sh("no-such-program-here").unwrap_err();
    assert!(error.to_string().contains("no-such-program-here"), "{error}");
    let error = sh("echo nothing to say >&2").unwrap_err();
    assert_eq!(error.to_string(), "the summary is empty: nothing to say");
    assert!(matches!(sh("printf '\\377\\376'"), Err(SummaryError::NotText)));
    let error = sh("seq 1 100000 >&2; exit 1").unwrap_err().to_string();
    assert!(error.len() < 1500 && error.ends_with("99999 100000"), "{error}");
    let nowhere = SummaryCommand::new("true").in_directory("/no/such/place");
    assert!(matches!(run(&nowhere, &sample()), Err(SummaryError::Command { .. })));
}

/// Whether a process is there and no corpse.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !matches!(rest.trim().chars().next(), None | Some('Z' | 'X')))
}

/// The process whose id the command wrote to `file` is gone, or about to be: it was killed.
fn is_gone(file: &std::path::Path) {
    let pid = std::fs::read_to_string(file).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while is_alive(pid.trim()) {
        assert!(Instant::now() < deadline, "{pid} still runs");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_whole_group_is_killed_when_time_is_up() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {}; echo waiting >&2; wait", file.display());
    let command = SummaryCommand::new(script).within(Duration::from_secs(3));
    let error = run(&command, &sample()).unwrap_err();
    assert!(matches!(error, SummaryError::TimeOut { .. }), "{error}");
    assert_eq!(error.to_string(), "no summary came within 3 s: waiting");
    is_gone(&file);
    // Pipes closed, still running.
    let quiet = SummaryCommand::new("exec >&- 2>&-; sleep 1000").within(Duration::from_millis(300));
    assert!(matches!(run(&quiet, &sample()), Err(SummaryError::TimeOut { .. })));
}

#[test]
fn a_flood_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let script = format!("echo $$ > {}; exec yes", file.display());
    let command = SummaryCommand::new(script).within(PATIENCE).at_most_bytes(100_000);
    let error = run(&command, &sample()).unwrap_err();
    assert_eq!(error.to_string(), "the answer is longer than 100000 bytes");
    is_gone(&file);
}

#[test]
fn what_it_leaves_behind_does_not_hold_us() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {}; echo done", file.display());
    assert_eq!(sh(&script).unwrap(), "done");
    is_gone(&file);
    // It left the group and holds the pipes.
    let script = format!("setsid sleep 1000 & echo $! > {}; echo done", file.display());
    assert_eq!(sh(&script).unwrap(), "done");
    let pid = std::fs::read_to_string(&file).unwrap();
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, Signal::KILL);
}

#[test]
fn its_name_has_no_arguments() {
    let name = |command: &str| SummaryCommand::new(command).name();
    assert_eq!(name("/opt/my-summarizer --token secret"), "command: my-summarizer");
    for told_nothing in ["", "/", "KEY=secret prog", "KEY='se cret' prog", "'se cret'", "$(secret)"]
    {
        assert_eq!(name(told_nothing), "command");
    }
    let command = SummaryCommand::new("prog --token secret").in_directory("/secret");
    assert_eq!(format!("{command:?}"), "SummaryCommand { name: \"command: prog\", .. }");
}

#[test]
fn the_group_is_killed_when_this_process_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let mut command = Command::new("sh");
    command.arg("-c").arg("sleep 1000 & echo $!; wait").process_group(0).stdout(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut line = String::new();
    io::BufRead::read_line(&mut io::BufReader::new(running.stdout.take().unwrap()), &mut line)
        .unwrap();
    std::fs::write(&file, &line).unwrap();
    let mut guard = CommandKillGuard::of(summary_command_pid(&running).unwrap()).unwrap();
    assert!(is_alive(line.trim()));
    // What the end of this process does to a pipe.
    drop(guard.0.stdin.take());
    is_gone(&file);
    assert!(!running.wait().unwrap().success());
}
