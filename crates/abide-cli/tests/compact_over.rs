//! `--compact-over` and `[context]`: contexts that are compacted by themselves.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::environment::{ABIDE, Conversation, TestEnvironment};

/// An event of a conversation.
pub(crate) fn message(role: &str, text: &str) -> String {
    json!({"kind": "message.added", "data": {"role": role, "content": text}}).to_string()
}

fn turn_started() -> String {
    json!({"kind": "turn.started", "data": {"agent": "coder"}}).to_string()
}

fn turn_finished() -> String {
    json!({"kind": "turn.finished", "data": {"status": "done"}}).to_string()
}

/// A turn of about 120 tokens.
pub(crate) fn turn(number: usize) -> Vec<String> {
    let text = format!("Step {number}: {}", "look at the parser again. ".repeat(8));
    let answer = format!("Answer {number}: {}", "it drops the last line. ".repeat(8));
    vec![turn_started(), message("user", &text), message("assistant", &answer), turn_finished()]
}

fn turns(count: usize) -> Vec<String> {
    (0..count).flat_map(turn).collect()
}

fn recorded(env: &TestEnvironment, args: &[&str], lines: &[String]) -> crate::environment::Done {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    env.record(&[&["--key", "k"], args].concat(), &lines).success()
}

fn compactions(env: &TestEnvironment) -> Vec<Value> {
    env.run(&["compact", "--list", "--json"]).success().json_lines()
}

fn standing(env: &TestEnvironment) -> usize {
    compactions(env).iter().filter(|entry| entry["undone"] == false).count()
}

fn stats(env: &TestEnvironment) -> Value {
    env.run(&["context", "--stats", "--json"]).success().json_lines().remove(0)
}

fn set(env: &TestEnvironment, text: &str) {
    fs::write(env.store().join("config.toml"), format!("version = 1\n{text}")).unwrap();
}

/// The user's own settings.
fn set_own(env: &TestEnvironment, text: &str) {
    let dir = env.path("home/.config/abide");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("config.toml"), text).unwrap();
}

/// A summarizer that waits until it is let through.
struct Gate(PathBuf);

impl Gate {
    fn new(env: &TestEnvironment) -> Self {
        let gate = env.path("gate");
        assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
        let command = format!("cat {} > /dev/null; echo short", gate.display());
        set_own(env, &format!("[context]\nsummarizer_cmd = \"{command}\"\n"));
        Self(gate)
    }

    /// Waits until the summary is being made. It is made once this is dropped.
    fn reached(&self) -> File {
        OpenOptions::new().write(true).open(&self.0).unwrap()
    }
}

/// No compaction stands between the beginning and the end of a turn.
fn is_between_turns(events: &[Value]) {
    let mut is_open = false;
    for event in events {
        match event["kind"].as_str().unwrap() {
            "turn.started" => is_open = true,
            "turn.finished" => is_open = false,
            "context.compacted" => assert!(!is_open, "{event}"),
            _ => {}
        }
    }
}

#[test]
fn a_context_over_the_threshold_is_compacted_once_and_the_undo_is_respected() {
    let env = TestEnvironment::new();
    let under = recorded(&env, &["--compact-over", "3000"], &turns(20));
    assert!(!under.stderr.contains("ompact"), "{under:?}");
    assert_eq!(compactions(&env).len(), 0);
    let over = recorded(&env, &["--compact-over", "3k"], &turns(10));
    assert!(over.stderr.contains("Compacted "), "{over:?}");
    assert!(over.stderr.contains("`abide undo` undoes it"), "{over:?}");
    let made = compactions(&env);
    assert_eq!(made.len(), 1);
    assert!(made[0]["before_tokens"].as_u64().unwrap() > 3000, "{made:?}");
    assert!(made[0]["after_tokens"].as_u64().unwrap() < 3000, "{made:?}");
    assert_eq!(made[0]["by"], "extractive");
    let after = stats(&env);
    assert!(after["tokens"]["total"].as_u64().unwrap_or(0) <= 3000, "{after}");
    // The next process finds it compacted.
    recorded(&env, &["--compact-over", "3000"], &turn(31));
    assert_eq!(compactions(&env).len(), 1);
    // Somebody takes it back: that is not made undone at once.
    env.run(&["undo"]).success();
    assert_eq!(env.run(&["context"]).success().stdout().matches("Step ").count(), 31);
    recorded(&env, &["--compact-over", "3000"], &turn(32));
    assert_eq!((compactions(&env).len(), standing(&env)), (1, 0));
    // It is again once the context has grown over it anew.
    recorded(&env, &["--compact-over", "3000"], &turns(10));
    assert_eq!((compactions(&env).len(), standing(&env)), (2, 1));
    is_between_turns(&env.run(&["export"]).success().json_lines());
    env.run(&["doctor", "--all"]).success();
}

#[test]
fn an_answer_outside_of_a_turn_counts_and_an_open_call_does_not() {
    let env = TestEnvironment::new();
    let lines: Vec<String> = (40..80)
        .flat_map(|n| [message("user", "Look again."), message("assistant", &"Fine. ".repeat(n))])
        .collect();
    recorded(&env, &[], &lines);
    let call = json!({"kind": "message.added", "data": {"role": "assistant", "content": [
        {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}}]}});
    let result = json!({"kind": "message.added", "data": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "c1", "content": "a.txt"}]}});
    for (line, made) in [
        (message("user", "And now?"), 0),
        (call.to_string(), 0),
        (result.to_string(), 0),
        (message("assistant", "Done."), 1),
    ] {
        recorded(&env, &["--compact-over", "1500"], std::slice::from_ref(&line));
        assert_eq!(compactions(&env).len(), made, "{line}");
    }
}

#[test]
fn a_share_is_of_the_window_and_without_one_nothing_is_done() {
    let env = TestEnvironment::new();
    let unknown = recorded(&env, &["--compact-over", "50%"], &turns(30));
    let said = "no compaction: the size of the model's context window is unknown";
    assert_eq!(unknown.stderr.matches(said).count(), 1, "{unknown:?}");
    assert_eq!(compactions(&env).len(), 0);
    let model = r#"{"kind":"model.configured","data":{"model":"x-1","window":6000}}"#.to_owned();
    recorded(&env, &["--compact-over", "90%"], &[vec![model], turn(30)].concat());
    assert_eq!(compactions(&env).len(), 0, "it is under nine tenths of the window");
    recorded(&env, &["--compact-over", "50%"], &turn(31));
    assert_eq!(compactions(&env).len(), 1);
}

#[test]
fn settings_say_when_and_options_override_them() {
    let env = TestEnvironment::new();
    set_own(&env, "[context]\ncompact_over = \"3k\"\n");
    recorded(&env, &["--compact-over", "off"], &turns(30));
    assert_eq!(compactions(&env).len(), 0, "the option");
    set(&env, "[context]\ncompact_over = \"off\"\n");
    recorded(&env, &[], &turn(30));
    assert_eq!(compactions(&env).len(), 0, "the store before the user");
    set(&env, "[context]\ncompact_over = 3000\n");
    recorded(&env, &[], &turn(31));
    assert_eq!(compactions(&env).len(), 1, "the store");
    set(&env, "");
    recorded(&env, &[], &turns(30));
    assert_eq!(compactions(&env).len(), 2, "the user");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let env = TestEnvironment::new();
    for wrong in ["much", "0%", "101%", "0", ""] {
        let refused = env.record(&["--compact-over", wrong], &[]).failure(2);
        assert!(refused.stderr.contains("--compact-over"), "{refused:?}");
    }
    for command in ["run", "acp"] {
        let refused = env.run(&[command, "--compact-over", "much", "--", "true"]).failure(2);
        assert!(refused.stderr.contains("is not a number of tokens"), "{refused:?}");
    }
    set(&env, "[context]\ncompact_over = \"much\"\n");
    let refused = env.record(&["--new"], &[&turn_started()]).failure(1);
    assert!(refused.stderr.contains("is not a number of tokens"), "{refused:?}");
    set(&env, "");
    // What is recorded does not depend on a summarizer.
    set_own(&env, "[context]\ncompact_over = \"1k\"\nsummarizer = \"openai\"\n");
    let warned = recorded(&env, &[], &turns(12));
    assert!(warned.stderr.contains("an endpoint needs a model"), "{warned:?}");
    set_own(&env, "[context]\nsummarizer = \"openai\"\nsummarizer_cmd = \"cat\"\n");
    let refused = env.run(&["compact"]).failure(1);
    assert!(refused.stderr.contains("both a summarizer and a summarizer_cmd"), "{refused:?}");
}

#[test]
fn a_project_names_no_command_that_summarizes() {
    let env = TestEnvironment::new();
    recorded(&env, &[], &turns(30));
    let ran = env.path("ran");
    let command = format!("touch {}; echo short", ran.display());
    set(&env, &format!("[context]\ncompact_over = 1000\nsummarizer_cmd = \"{command}\"\n"));
    let refused = env.record(&["--key", "k"], &[&message("assistant", "Done.")]).failure(1);
    assert!(refused.stderr.contains("summarizer_cmd"), "{refused:?}");
    set(&env, "[context]\ncompact_over = 1000\n");
    recorded(&env, &[], &turn(30));
    assert_eq!(compactions(&env)[0]["by"], "extractive");
    assert!(!ran.exists());
    // The user does.
    set_own(&env, &format!("[context]\nsummarizer_cmd = \"{command}\"\n"));
    recorded(&env, &[], &turns(20));
    let made = compactions(&env);
    assert_eq!(made.last().unwrap()["summary"], "short", "{made:?}");
    assert!(ran.exists());
    // `abide compact` takes the same.
    recorded(&env, &["--compact-over", "off"], &turns(20));
    assert!(env.run(&["compact"]).success().stdout().contains("by command: touch"));
    assert!(
        env.run(&["compact", "--summarizer", "extractive", "--keep", "1", "--dry-run"])
            .success()
            .stdout()
            .contains("by extractive")
    );
}

#[test]
fn a_summarizer_that_fails_is_a_warning_and_the_recording_goes_on() {
    let env = TestEnvironment::new();
    set_own(&env, "[context]\nsummarizer_cmd = \"echo oh no >&2; exit 3\"\n");
    let warned = recorded(&env, &["--compact-over", "1000"], &turns(60));
    assert_eq!(warned.stderr.matches("Warning: no compaction: ").count(), 1, "{warned:?}");
    assert!(warned.stderr.contains("oh no"), "{warned:?}");
    assert_eq!(warned.json_lines().len(), 240);
    assert_eq!(compactions(&env).len(), 0);
}

#[test]
fn a_summary_that_takes_its_time_delays_no_answer_and_waits_for_the_end_of_the_turn() {
    let env = TestEnvironment::new();
    let gate = Gate::new(&env);
    let mut recording =
        Conversation::start(env.command(&["record", "--key", "k", "--compact-over", "1000"]));
    for line in turns(10) {
        recording.ask(&line);
    }
    let opened = gate.reached();
    let lines = turn(10);
    for line in &lines[..3] {
        assert!(recording.ask(line)["seq"].is_u64());
    }
    drop(opened);
    let end = recording.ask(&lines[3])["seq"].as_u64().unwrap();
    assert_eq!(recording.end(), 0);
    let made = compactions(&env);
    assert_eq!((made.len(), &made[0]["summary"]), (1, &"short".into()), "{made:?}");
    assert!(made[0]["seq"].as_u64().unwrap() > end, "{made:?}");
    is_between_turns(&env.run(&["export"]).success().json_lines());
}

#[test]
fn a_run_compacts_after_the_turns_of_its_agents() {
    let env = TestEnvironment::new();
    let project = env.project();
    fs::write(project.join("PLAN.md"), "- [ ] One\n- [ ] Two\n").unwrap();
    let messages: Vec<String> =
        turns(30).into_iter().filter(|line| line.contains("message")).collect();
    fs::write(project.join("lines"), messages.join("\n") + "\n").unwrap();
    let agent = format!("#!/bin/sh\ncat > /dev/null\n'{ABIDE}' record < lines > /dev/null\n");
    fs::write(project.join("agent"), agent).unwrap();
    fs::set_permissions(project.join("agent"), fs::Permissions::from_mode(0o755)).unwrap();
    let run =
        ["run", "--plan", "PLAN.md", "--max-tasks", "1", "--compact-over", "2000", "--", "./agent"];
    let done = env.run(&run).success();
    assert!(done.stderr.contains("Compacted "), "{done:?}");
    assert_eq!(compactions(&env).len(), 1);
    // It goes on with the options of the run before.
    let resumed = env.run(&["resume", "--json"]).success();
    let told = resumed.json_lines();
    let told: Vec<&Value> = told.iter().filter(|event| event["event"] == "compacted").collect();
    assert_eq!(told.len(), 1, "{resumed:?}");
    assert!(told[0]["before_tokens"].as_u64() > told[0]["after_tokens"].as_u64());
    is_between_turns(&env.run(&["export"]).success().json_lines());
    assert_eq!(compactions(&env).len(), 2);
}

#[test]
fn only_the_process_that_holds_a_session_compacts_it() {
    let env = TestEnvironment::new();
    recorded(&env, &[], &turns(30));
    let mut holder = Conversation::start(env.command(&["record", "--key", "k"]));
    holder.ask(&turn_started());
    // It is shared once its input pauses; until then the other waits for it.
    let through = recorded(&env, &["--compact-over", "1000"], &[turn_finished()]);
    assert!(through.stderr.contains("another process holds the session"), "{through:?}");
    assert_eq!(holder.end(), 0);
    assert_eq!(compactions(&env).len(), 0);
    // One that compacts does so for what others record through it.
    let gate = Gate::new(&env);
    let args = ["record", "--key", "k", "--compact-over", "1000"];
    let mut holder = Conversation::start(env.command(&args));
    holder.ask(&turn_started());
    recorded(&env, &[], &[turn_finished()]);
    drop(gate.reached());
    assert_eq!(holder.end(), 0);
    assert_eq!(compactions(&env).len(), 1);
}
