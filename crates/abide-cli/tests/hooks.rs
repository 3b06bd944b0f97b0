//! `abide hook` as agents run it: whatever it is told, it prints nothing, ends with 0 and records what can
//! be recorded.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use abide_testkit::{FaultRun, Random};
use serde_json::{Value, json};

use crate::environment::{ABIDE, Conversation, Done, TestEnvironment, run};
use crate::mutated_payload::{SAMPLES, mutated};

pub(crate) const ID: &str = "11111111-2222-4333-8444-555555555555";

/// A longer wait is a failure.
const LIMIT: Duration = Duration::from_secs(300);

impl TestEnvironment {
    /// Runs a hook of an agent, which tells nobody anything.
    #[track_caller]
    fn hook(&self, agent: &str, payload: impl AsRef<[u8]>) {
        silent(run(self.command(&["hook", agent]), payload.as_ref()));
    }

    /// A payload of a session in the project.
    pub(crate) fn payload(&self, session: &str, event: &str, fields: &Value) -> String {
        let mut all = json!({
            "session_id": session,
            "transcript_path": self.path("home/.claude/projects/-p").join(format!("{session}.jsonl")),
            "cwd": self.project(),
            "hook_event_name": event,
        });
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        all.to_string()
    }

    fn prompted(&self, turn: &str, text: &str) -> String {
        self.payload(ID, "UserPromptSubmit", &json!({"prompt_id": turn, "prompt": text}))
    }

    fn stopped(&self, turn: &str) -> String {
        let fields =
            json!({"prompt_id": turn, "last_assistant_message": format!("{turn} is done")});
        self.payload(ID, "Stop", &fields)
    }

    /// The reports that wait in the inboxes.
    pub(crate) fn waiting_reports(&self) -> Vec<PathBuf> {
        let mut files = files_below(&self.store().join("hooks"));
        files.retain(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.ends_with(".json") && name.starts_with(|first: char| first.is_ascii_digit())
        });
        files
    }

    /// Lets commands of a person sweep until no report waits.
    pub(crate) fn settle(&self) {
        let start = Instant::now();
        loop {
            // The first report is there before the store is.
            let listed = self.run(&["ls", "-A"]);
            let waiting = self.waiting_reports();
            if listed.code == 0 && waiting.is_empty() {
                return;
            }
            assert!(start.elapsed() < LIMIT, "{waiting:?} {listed:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn exported(&self, session: &str) -> Vec<Value> {
        self.run(&["export", session]).success().json_lines()
    }

    /// Does a file of the store hold this text, anywhere?
    fn store_holds(&self, text: &str) -> Option<PathBuf> {
        let mut files = files_below(&self.store()).into_iter();
        files.find(|path| {
            let bytes = fs::read(path).unwrap_or_default();
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        })
    }
}

#[track_caller]
pub(crate) fn silent(done: Done) {
    assert_eq!((done.code, done.stdout(), done.stderr.as_str()), (0, "", ""));
}

/// All files below a directory; those that go meanwhile may be missing.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|sort| sort.is_dir()) {
            found.extend(files_below(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["kind"] == kind).collect()
}

#[test]
fn a_turn_is_recorded_with_the_files_before_and_after_it() {
    let env = TestEnvironment::bare();
    let a = env.project().join("a.txt");
    for turn in ["t1", "t2"] {
        fs::write(&a, format!("the person's of {turn}")).unwrap();
        env.hook("claude", env.prompted(turn, &format!("do {turn}")));
        env.settle();
        fs::write(&a, format!("the agent's of {turn}")).unwrap();
        env.hook("claude", env.stopped(turn));
        env.settle();
    }
    // Nothing has changed since.
    env.hook("claude", env.prompted("t3", "look"));
    env.hook("claude", env.stopped("t3"));
    env.settle();
    let events = env.exported(&format!("claude/{ID}"));
    let triggers: Vec<_> = of_kind(&events, "checkpoint.created")
        .iter()
        .map(|event| event["data"]["trigger"].as_str().unwrap())
        .collect();
    assert_eq!(triggers, ["prompt", "turn", "prompt", "turn"]);
    let ended = of_kind(&events, "turn.finished");
    assert_eq!(ended.len(), 3);
    assert!(ended.iter().all(|event| event["data"]["status"] == "completed"), "{ended:?}");
    let files = ["person's of t1", "agent's of t1", "person's of t2", "agent's of t2"];
    for (number, text) in (1..).zip(files) {
        env.run(&["rewind", "--to", &format!("{number}"), "--files", "--yes"]).success();
        assert_eq!(fs::read_to_string(&a).unwrap(), format!("the {text}"));
    }
}

#[test]
fn no_files_are_captured_of_the_home_and_of_the_root() {
    let env = TestEnvironment::bare();
    for (session, dir) in [("in-home", env.path("home")), ("in-root", PathBuf::from("/"))] {
        for turn in ["t1", "t2"] {
            for (event, fields) in [
                ("UserPromptSubmit", json!({"prompt_id": turn, "prompt": turn, "cwd": dir})),
                ("Stop", json!({"prompt_id": turn, "last_assistant_message": "x", "cwd": dir})),
            ] {
                env.hook("claude", env.payload(session, event, &fields));
                env.settle();
            }
        }
        let events = env.exported(&format!("claude/{session}"));
        assert_eq!(of_kind(&events, "checkpoint.created").len(), 0);
        assert_eq!(of_kind(&events, "log.recorded").len(), 1, "said once: {events:?}");
        assert_eq!(of_kind(&events, "turn.finished").len(), 2);
    }
}

#[test]
fn secrets_that_hooks_tell_are_nowhere_in_the_store() {
    let env = TestEnvironment::bare();
    env.hook("claude", env.payload(ID, "SessionStart", &json!({"source": "startup"})));
    env.settle();
    // Held, so that the reports stay in the inbox.
    let key = format!("claude/{ID}");
    let mut holder = Conversation::start(env.command(&["record", "-s", &key]));
    holder.ask(crate::environment::HELLO);
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    env.hook("claude", env.prompted("t1", &format!("the token is {secret}")));
    let call = json!({
        "prompt_id": "t1", "tool_name": "Bash", "tool_use_id": "c1",
        "tool_input": {"command": format!("echo {secret}")}, "tool_response": secret,
    });
    env.hook("claude", env.payload(ID, "PostToolUse", &call));
    assert_eq!(env.waiting_reports().len(), 2);
    assert_eq!(env.store_holds(&secret), None, "while it waits");
    assert!(env.store_holds("the token is").is_some());
    drop(holder.input.take());
    holder.child.wait().unwrap();
    env.settle();
    assert_eq!(env.store_holds(&secret), None);
    let events = env.exported(&key);
    let text = format!("{events:?}");
    assert!(text.contains("the token is ‹redacted:"), "{text}");
    assert_eq!(of_kind(&events, "tool.called").len(), 1);
}

#[test]
fn nonsense_is_taken_in_silence() {
    let env = TestEnvironment::bare();
    let long = format!("{{\"session_id\":\"s\",\"x\":\"{}\"}}", "x".repeat(20 << 20));
    let binary: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let no_session = br#"{"hook_event_name":"Stop"}"#;
    let inputs: [&[u8]; 7] = [b"", b"\n", b"{", b"null", no_session, &binary, long.as_bytes()];
    for agent in ["claude", "codex", "gemini", "opencode"] {
        for input in inputs {
            env.hook(agent, input);
        }
    }
    let odd: [&[&str]; 7] = [
        &["hook"],
        &["hook", "nobody"],
        &["hook", "aider"],
        &["hook", "--json", "claude"],
        &["hook", "claude", "--session"],
        &["hook", "claude", "--report"],
        &["hook", "", "--store", "/nowhere"],
    ];
    for args in odd {
        silent(run(env.command(args), no_session));
    }
    assert!(!env.store().exists(), "what names no session makes nothing");
    // A process that records what never landed.
    let escaping = ["hook", "claude", "--session", "../..", "--report", "../../x"];
    run(env.command(&escaping), no_session).success();
    assert_eq!(env.waiting_reports(), Vec::<PathBuf>::new());
    assert!(env.run(&["ls", "-A"]).success().stdout().is_empty());
}

#[test]
fn all_that_an_agent_says_is_listened_to() {
    let env = TestEnvironment::bare();
    let text = vec![b' '; 20 << 20];
    for variables in [vec![], vec![("ABIDE", "off")], vec![("ABIDE_STORE", "/nowhere")]] {
        let mut command = env.command(&["hook", "claude"]);
        command.envs(variables.clone());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let said = std::io::Write::write_all(&mut stdin, &text);
        drop(stdin);
        assert!(child.wait().unwrap().success());
        assert!(said.is_ok(), "{variables:?}: {said:?}");
    }
}

#[test]
fn an_agent_that_never_ends_its_payload_is_not_waited_for() {
    let env = TestEnvironment::bare();
    let mut command = env.command(&["hook", "claude"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let open = child.stdin.take();
    let done = child.wait_with_output().unwrap();
    assert_eq!((done.status.code(), done.stdout, done.stderr), (Some(0), vec![], vec![]));
    drop(open);
}

#[test]
fn a_store_that_is_missing_or_cannot_be_written_disturbs_nobody() {
    let env = TestEnvironment::bare();
    let nowhere = env.path("nowhere");
    let mut command = env.command(&["hook", "claude"]);
    command.env("ABIDE_STORE", &nowhere);
    silent(run(command, env.prompted("t1", "one").as_bytes()));
    assert!(!nowhere.exists(), "it is not made");
    // A file in the place of a directory cannot be written, whoever one is.
    for blocked in [".local/share/abide/store/hooks", ".local/share/abide/store", ".local"] {
        let env = TestEnvironment::bare();
        let path = env.path("home").join(blocked);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        env.hook("claude", env.prompted("t1", "one"));
        env.hook("claude", env.payload(ID, "PostToolUse", &json!({"tool_use_id": "c1"})));
        assert_eq!(fs::read(&path).unwrap(), b"", "{blocked}");
    }
}

#[test]
fn nothing_is_recorded_while_it_is_switched_off_or_paused() {
    let env = TestEnvironment::bare();
    for word in ["off", "0"] {
        let mut command = env.command(&["hook", "claude"]);
        command.env("ABIDE", word);
        silent(run(command, env.prompted("t1", "one").as_bytes()));
    }
    let inboxes = abide_hooks::HookInbox::of_store(&env.store());
    inboxes.pause(None).unwrap();
    env.hook("claude", env.prompted("t1", "one"));
    assert_eq!(env.waiting_reports(), Vec::<PathBuf>::new());
    assert!(inboxes.sessions().is_empty());
    assert!(inboxes.resume().unwrap());
    env.hook("claude", env.prompted("t2", "two"));
    env.settle();
    let events = env.exported(&format!("claude/{ID}"));
    let said = of_kind(&events, "message.added");
    assert_eq!(said.len(), 1);
    assert_eq!(said[0]["data"]["content"], "two");
}

#[test]
fn below_a_run_the_run_records() {
    let env = TestEnvironment::bare();
    let project = env.project();
    fs::write(project.join("PLAN.md"), "- [ ] One\n").unwrap();
    fs::write(project.join("payload"), env.prompted("t1", "one")).unwrap();
    let script = format!(
        "#!/bin/sh\ncat > /dev/null\n'{ABIDE}' hook claude < payload > told 2>&1\necho $? >> told\n"
    );
    fs::write(project.join("agent"), script).unwrap();
    fs::set_permissions(project.join("agent"), fs::Permissions::from_mode(0o755)).unwrap();
    env.run(&["run", "--plan", "PLAN.md", "--", "./agent"]).success();
    assert_eq!(fs::read_to_string(project.join("told")).unwrap(), "0\n");
    assert!(!env.store().join("hooks/claude").exists());
    let listed = env.run(&["ls", "-A", "--json"]).success();
    let listed: Value = serde_json::from_str(listed.stdout()).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1, "that of the run: {listed}");
}

#[test]
fn changed_payloads_are_taken_in_silence_and_recorded() {
    let fault_run = FaultRun::from_env();
    let each = fault_run.count(40, 400);
    std::thread::scope(|scope| {
        for (agent, sample) in SAMPLES {
            scope.spawn(move || {
                let env = TestEnvironment::bare();
                // No directory of this machine is meant.
                let sample = sample.replace("/home/me", "/nonexistent/me");
                let mut random = Random::new(fault_run.seed() ^ 0x0068_6f6f_6b73);
                for _ in 0..each {
                    env.hook(agent, mutated(&sample, &mut random));
                }
                env.settle();
                let listed = env.run(&["ls", "-A", "--json"]).success();
                let listed: Value = serde_json::from_str(listed.stdout()).unwrap();
                assert!(!listed.as_array().unwrap().is_empty(), "{agent}");
                env.run(&["doctor", "--all"]).success();
            });
        }
    });
}
