//! An agent goes on with a session that something else recorded: it is told the conversation, and
//! the session is not completed by it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::environment::{Done, TestEnvironment, run};

const TALK: [&str; 8] = [
    r#"{"kind":"message.added","data":{"role":"user","content":"Mend the parser."}}"#,
    r#"{"kind":"message.added","data":{"role":"assistant","content":"I read it first."}}"#,
    r#"{"kind":"tool.called","data":{"call":"c1","name":"read","arguments":{"path":"a.rs"}}}"#,
    r#"{"kind":"tool.finished","data":{"call":"c1","ok":true,"result":"fn main() {}"}}"#,
    r#"{"kind":"turn.started","data":{"agent":"arbiter","role":"arbiter"}}"#,
    r#"{"kind":"turn.decided","data":{"selected":"coder","reason":"It is a bug."}}"#,
    r#"{"kind":"turn.finished","data":{"status":"done"}}"#,
    r#"{"kind":"tool.called","data":{"call":"c2","name":"deploy","arguments":{}}}"#,
];

struct RecordedLab {
    env: TestEnvironment,
    session: String,
}

impl RecordedLab {
    /// A session that a program recorded, with agents that write down what they are given.
    fn new(more: &[&str]) -> Self {
        let env = TestEnvironment::new();
        let done = env.record(&["--new"], &[&TALK[..], more].concat()).success();
        let session = done.json_lines()[0]["session"].as_str().unwrap().to_owned();
        let lab = Self { env, session };
        for name in ["claude", "codex", "gemini", "agent"] {
            lab.agent(name, "");
        }
        lab
    }

    /// A stub of an agent. `more` is what it prints and does.
    fn agent(&self, name: &str, more: &str) {
        let path = self.env.project().join(name);
        let script = format!(
            "#!/bin/sh\nfor argument; do printf '%s\\n--\\n' \"$argument\"; done > arguments\n\
             cat > stdin\nenv > environment\n{more}\n"
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn resume(&self, args: &[&str]) -> Done {
        self.env.run(&[&["resume", &self.session][..], args].concat())
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.env.project().join(name)).unwrap()
    }

    fn arguments(&self) -> Vec<String> {
        self.file("arguments").split("\n--\n").map(str::to_owned).collect()
    }

    fn events(&self, kind: &str) -> Vec<Value> {
        let shown = self.env.run(&["show", &self.session, "--json"]).success();
        shown.json_lines().into_iter().filter(|event| event["kind"] == kind).collect()
    }

    fn status(&self) -> Value {
        let rows = self.env.run(&["history", "--json"]).success();
        let rows: Value = serde_json::from_str(rows.stdout()).unwrap();
        let row = rows.as_array().unwrap().iter().find(|row| row["id"] == self.session).unwrap();
        row["status"].clone()
    }
}

/// What an agent must know of the session.
#[track_caller]
fn is_told(text: &str) {
    for part in [
        "## User\nMend the parser.\n",
        "## Assistant (you)\nI read it first.\n[call] read {\"path\":\"a.rs\"}\n  read gave: fn main() {}\n",
        "Calls whose outcome is unknown (look before you repeat them):\n- deploy (c2)\n",
        "The last decision: coder (It is a bug.)\n",
        "This is the end of the earlier conversation.\n",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn any_other_command_is_told_the_conversation_on_stdin_and_completes_nothing() {
    let lab = RecordedLab::new(&[]);
    let before = lab.status();
    let done = lab.resume(&["--", "./agent", "one"]).success();
    assert!(done.stderr.contains("the outcome of the call of deploy is unknown"), "{done:?}");
    assert!(done.stderr.contains("The last decision: coder (It is a bug.)"), "{done:?}");
    is_told(&lab.file("stdin"));
    assert!(lab.file("stdin").ends_with("then go on with what is open.\n"));
    assert_eq!(lab.arguments()[0], "one");
    assert!(!lab.file("environment").contains("ABIDE_TASK"));
    assert!(lab.file("environment").contains(&format!("ABIDE_SESSION={}\n", lab.session)));
    assert_eq!(lab.status(), before);
    assert_ne!(before, "completed");
    let runs = lab.events("run.finished");
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["data"]["summary"]["finish"], "ended");
    assert_eq!(runs[0]["data"]["status"], "pending");
    assert_eq!(lab.events("task.created").len(), 0);
    // It can be gone on with again, without a command: that of the last run is known now.
    fs::remove_file(lab.env.project().join("stdin")).unwrap();
    lab.resume(&[]).success();
    assert!(lab.file("stdin").contains("Mend the parser."));
    assert_eq!(lab.status(), before);
}

#[test]
fn an_agent_that_fails_or_is_not_there_leaves_the_session_as_it_was() {
    let lab =
        RecordedLab::new(&[r#"{"kind":"session.status","data":{"status":"idle","reason":"x"}}"#]);
    lab.agent("agent", "echo broken >&2; exit 3");
    let done = lab.resume(&["--", "./agent"]).failure(1);
    assert!(done.stderr.contains("exit code 3: broken"), "{done:?}");
    assert_eq!(lab.status(), "idle");
    assert_eq!(lab.events("run.finished")[0]["data"]["status"], "failed");
    let done = lab.resume(&["--", "./no-such-agent"]).failure(1);
    assert!(done.stderr.contains("cannot start \"./no-such-agent\""), "{done:?}");
    assert_eq!(lab.status(), "idle");
    lab.agent("agent", "kill -9 $$");
    let done = lab.resume(&["--", "./agent"]).failure(4);
    assert!(done.stderr.contains("killed by signal 9"), "{done:?}");
    assert_eq!(lab.status(), "idle");
    let last = lab.events("session.status").pop().unwrap();
    assert_eq!(last["data"]["reason"], "x");
}

#[test]
fn placeholders_are_filled() {
    for place in ["{task}", "{prompt}"] {
        let lab = RecordedLab::new(&[]);
        lab.resume(&["--", "./agent", "-m", place, "{id}"]).success();
        let arguments = lab.arguments();
        assert_eq!(arguments[0], "-m");
        is_told(&arguments[1]);
        assert_eq!(arguments[2], lab.session);
        assert_eq!(lab.file("stdin"), "");
    }
}

#[test]
fn known_agents_are_told_by_their_prompt_argument() {
    for (command, place) in
        [(&["./claude", "-p"][..], 0), (&["./codex", "exec"], 2), (&["./gemini", "--yolo"], 0)]
    {
        let lab = RecordedLab::new(&[]);
        lab.resume(&[&["--"], command].concat()).success();
        is_told(&lab.arguments()[place]);
        assert_eq!(lab.file("stdin"), "", "{command:?}");
        assert_eq!(lab.events("message.added").len(), 2, "what was told is not recorded again");
    }
    // A prompt of the user's own comes after it, and is a part of the conversation.
    for (command, place) in [
        (&["./claude", "-p", "Now the tests."][..], 1),
        (&["./codex", "exec", "Now the tests."], 1),
        (&["./gemini", "-p", "Now the tests."], 1),
    ] {
        let lab = RecordedLab::new(&[]);
        lab.resume(&[&["--"], command].concat()).success();
        let told = &lab.arguments()[place];
        is_told(told);
        assert!(told.ends_with("earlier conversation.\n\nNow the tests.\n"), "{told}");
        let said = lab.events("message.added").pop().unwrap();
        assert_eq!(said["data"]["content"], "Now the tests.");
    }
    // `-` is stdin.
    let lab = RecordedLab::new(&[]);
    lab.resume(&["--", "./codex", "exec", "-"]).success();
    is_told(&lab.file("stdin"));
}

#[test]
fn a_prompt_on_stdin_comes_after_what_a_known_agent_is_told() {
    let resumed = |command: &[&str]| {
        let lab = RecordedLab::new(&[]);
        let args = [&["resume", &lab.session, "--"][..], command].concat();
        run(lab.env.command(&args), b"Now the tests.\n").success();
        let said = lab.events("message.added");
        assert_eq!(said.len(), 3, "{command:?}");
        (said[2]["data"]["content"].as_str().unwrap().to_owned(), lab)
    };
    for command in [&["./codex", "exec", "-"][..], &["./codex", "exec"], &["./claude", "-p"]] {
        let (said, lab) = resumed(command);
        assert_eq!(said, "Now the tests.\n");
        let told = lab.file("stdin");
        is_told(&told);
        assert!(told.ends_with("earlier conversation.\n\nNow the tests.\n\n"), "{told}");
    }
    // Beside a prompt it stays what it is.
    let (said, lab) = resumed(&["./claude", "-p", "Mend these."]);
    assert_eq!(said, "Mend these.\nNow the tests.\n");
    is_told(&lab.arguments()[1]);
    assert!(lab.arguments()[1].ends_with("\n\nMend these.\n"), "{:?}", lab.arguments());
    assert_eq!(lab.file("stdin"), "Now the tests.\n");
}

const CODEX: &str = r#"echo '{"type":"thread.started","thread_id":"th-1"}'
echo '{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"finished"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":2}}'"#;

#[test]
fn an_agent_goes_on_in_its_own_session_and_is_told_what_it_does_not_know() {
    let lab = RecordedLab::new(&[]);
    lab.agent("codex", CODEX);
    let command = ["--", "./codex", "exec", "--json"];
    lab.resume(&command).success();
    assert_eq!(lab.arguments()[..3], ["exec", "--json", "--"]);
    let seen = lab.events("agent.observed").pop().unwrap();
    assert_eq!(seen["data"]["session"], "th-1");
    let said = lab.events("message.added").pop().unwrap();
    assert_eq!(said["data"]["content"], "finished");
    // Somebody else says something.
    let line = r#"{"kind":"message.added","data":{"role":"user","content":"And the docs?"}}"#;
    lab.env.record(&["--session", &lab.session], &[line]).success();
    let done = lab.resume(&[]).success();
    assert!(done.stderr.contains("inside the agent's own session"), "{done:?}");
    let arguments = lab.arguments();
    assert_eq!(arguments[..4], ["exec", "--json", "resume", "th-1"]);
    let told = lab.file("stdin");
    assert!(told.contains("And the docs?") && !told.contains("Mend the parser."), "{told}");
    // One that has lost its session is told all of it.
    let lost =
        format!("[ \"$3\" != resume ] || {{ echo 'no such session' >&2; exit 1; }}\n{CODEX}");
    lab.agent("codex", &lost);
    let done = lab.resume(&["--", "./codex", "exec", "--json"]).success();
    assert!(done.stderr.contains("with a prompt that says what was done before"), "{done:?}");
    assert!(lab.file("arguments").contains("Mend the parser."));
    // Another agent knows nothing of it.
    lab.resume(&["--", "./claude", "-p"]).success();
    assert!(lab.arguments()[0].contains("Mend the parser."));
    assert!(lab.arguments()[0].contains("finished"));
}

#[test]
fn an_own_session_that_a_program_recorded_is_gone_on_with() {
    let seen = r#"{"kind":"agent.observed","data":{"agent":"claude","session":"own-1"}}"#;
    let lab = RecordedLab::new(&[seen]);
    lab.resume(&["--", "./claude", "-p"]).success();
    let arguments = lab.arguments();
    assert_eq!(arguments[1..4], ["--resume", "own-1", "-p"]);
    assert!(arguments[0].contains("- deploy (c2)"), "{arguments:?}");
    assert!(!arguments[0].contains("Mend the parser."), "{arguments:?}");
    // Asked to, it begins anew.
    lab.resume(&["--way", "outside", "--", "./claude", "-p"]).success();
    assert!(lab.arguments()[0].contains("Mend the parser."));
    lab.resume(&["--way", "restart", "--", "./claude", "-p"]).success();
    assert_eq!(lab.arguments()[0], "-p");
}

#[test]
fn tasks_that_a_program_recorded_are_told_with_the_conversation() {
    let lab = RecordedLab::new(&[
        r#"{"kind":"task.created","data":{"task":"A","title":"Find the line"}}"#,
        r#"{"kind":"task.created","data":{"task":"B","title":"Mend it"}}"#,
    ]);
    lab.agent("agent", "cat stdin >> all; echo $ABIDE_TASK >> order");
    lab.resume(&["--max-tasks", "1", "--", "./agent"]).success();
    let told = lab.file("stdin");
    is_told(&told);
    assert!(told.contains("Tasks that are open:\n- Find the line\n- Mend it\n"), "{told}");
    assert!(told.ends_with("\nTask A: Find the line\n"), "{told}");
    // The next run tells it, too, and what is recorded is the task alone.
    lab.resume(&[]).success();
    assert_eq!(lab.file("order"), "A\nB\n");
    assert!(lab.file("stdin").contains("Mend the parser."));
    let said = lab.events("message.added");
    assert_eq!(said[2]["data"]["content"], "Task A: Find the line\n");
    assert_eq!(lab.status(), "completed", "its task list is done");
}

#[test]
fn another_command_does_not_complete_the_session_of_a_command() {
    let env = TestEnvironment::new();
    env.run(&["run", "--", "sh", "-c", "echo half way; exit 3"]).failure(1);
    let rows: Value =
        serde_json::from_str(env.run(&["history", "--json"]).success().stdout()).unwrap();
    let session = rows[0]["id"].as_str().unwrap().to_owned();
    let lab = RecordedLab { env, session };
    lab.agent("agent", "");
    lab.resume(&["--", "./agent"]).success();
    assert!(lab.file("stdin").contains("half way"));
    assert_eq!(lab.status(), "failed");
    // Nor does the next one, which is of the same command.
    lab.resume(&[]).success();
    assert_eq!(lab.status(), "failed");
    // Its own command is run again.
    lab.resume(&["--retry-failed", "--", "sh", "-c", "echo half way; exit 3"]).failure(1);
    assert_eq!(lab.events("run.finished").len(), 4);
}

#[test]
fn a_conversation_has_no_check_and_sets_no_task() {
    let env = TestEnvironment::new();
    let check = "echo >> checked; false";
    env.run(&["run", "--check", check, "--attempts", "1", "--", "sh", "-c", "echo x"]).failure(1);
    let rows: Value =
        serde_json::from_str(env.run(&["history", "--json"]).success().stdout()).unwrap();
    let session = rows[0]["id"].as_str().unwrap().to_owned();
    let lab = RecordedLab { env, session };
    lab.agent("agent", "");
    assert_eq!(lab.file("checked"), "\n");
    let set = lab.events("task.status");
    lab.resume(&["--attempts", "3", "--", "./agent"]).success();
    assert_eq!(lab.file("checked"), "\n");
    assert_eq!(lab.events("task.status"), set);
    assert_eq!(lab.status(), "failed");
}

#[test]
fn a_session_in_which_nothing_was_said_has_nothing_to_tell() {
    let env = TestEnvironment::new();
    let session = env.run(&["new", "--json"]).success();
    let session = session.json_lines()[0]["session"].as_str().unwrap().to_owned();
    let lab = RecordedLab { env, session };
    lab.agent("agent", "");
    let done = lab.resume(&["--", "./agent", "{prompt}"]).success();
    assert!(done.stderr.contains("nothing to tell"), "{done:?}");
    assert_eq!(lab.file("stdin"), "");
    assert_eq!(lab.arguments()[0], "");
    assert_eq!(lab.status(), "idle");
}

#[test]
fn the_files_of_a_turn_are_those_that_a_rewind_takes() {
    let lab = RecordedLab::new(&[]);
    let write = |text: &str| fs::write(lab.env.project().join("a.txt"), text).unwrap();
    let turn = |kind: &str| {
        let line = format!(r#"{{"kind":"turn.{kind}","data":{{"agent":"a","status":"done"}}}}"#);
        lab.env.record(&["--session", &lab.session], &[&line]).success();
    };
    let checkpoint = || {
        lab.env.run(&["checkpoint", "create", "--session", &lab.session]).success();
    };
    write("before\n");
    checkpoint();
    turn("started");
    write("after\n");
    turn("finished");
    // The checkpoint of the turn comes right after it.
    checkpoint();
    turn("started");
    write("later\n");
    turn("finished");
    checkpoint();
    let planned = lab.env.run(&["rewind", "turn:2", "-s", &lab.session, "--dry-run"]).success();
    assert!(planned.stdout().contains("checkpoint 2"), "{planned:?}");
    let done = lab.resume(&["--at", "turn:2", "--files", "--yes", "--", "./agent"]).success();
    assert!(done.stdout().contains("checkpoint 2"), "{done:?}");
    assert_eq!(lab.file("a.txt"), "after\n");
    // Without files to go back to, nothing is done, and no fork is made.
    let bare = RecordedLab::new(&[]);
    let done = bare.resume(&["--at", "turn:1", "--files", "--yes", "--", "./agent"]).failure(1);
    assert!(done.stderr.contains("checkpoint"), "{done:?}");
    let rows = bare.env.run(&["history", "--json"]).success();
    assert_eq!(serde_json::from_str::<Value>(rows.stdout()).unwrap().as_array().unwrap().len(), 1);
}

#[test]
fn a_decision_is_a_place() {
    let lab = RecordedLab::new(&[
        r#"{"kind":"message.added","data":{"role":"user","content":"Something else."}}"#,
        r#"{"kind":"turn.started","data":{"agent":"arbiter","role":"arbiter"}}"#,
        r#"{"kind":"turn.decided","data":{"decision":"ask","reason":"It is unclear."}}"#,
        r#"{"kind":"message.added","data":{"role":"user","content":"After it."}}"#,
    ]);
    let done = lab.resume(&["--at", "decision", "--", "./agent"]).success();
    assert!(done.stderr.contains("The last decision: ask (It is unclear.)"), "{done:?}");
    let told = lab.file("stdin");
    assert!(told.contains("The last decision: ask (It is unclear.)\n"), "{told}");
    assert!(told.contains("Something else.") && !told.contains("After it."), "{told}");
    let context = lab.env.run(&["context", &lab.session, "--at", "decision"]).success();
    assert!(!context.stdout().contains("After it."), "{context:?}");
    let forked = lab.env.run(&["fork", "decision", "-s", &lab.session, "--json"]).success();
    let at = forked.json_lines()[0]["at"].as_u64().unwrap();
    let events = lab.env.run(&["show", &lab.session, "--json", "--all"]).success().json_lines();
    let decided = events.iter().rfind(|event| event["kind"] == "turn.decided").unwrap();
    assert_eq!(decided["seq"], at);
    let rewound = ["rewind", "decision", "-s", &lab.session, "--conversation", "--yes"];
    lab.env.run(&rewound).success();
    assert!(
        lab.events("message.added").iter().all(|event| event["data"]["content"] != "After it.")
    );
    let other = TestEnvironment::new();
    other.record(&["--new"], &TALK[..1]).success();
    let done = other.run(&["fork", "--at", "decision"]).failure(1);
    assert!(done.stderr.contains("no arbiter has decided anything in it"), "{done:?}");
}
