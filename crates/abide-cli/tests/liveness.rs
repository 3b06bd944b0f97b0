//! `abide status` beside writers that live, that were stopped, that were killed and that closed:
//! real processes, and one that lives is never called crashed.

use std::fs;
use std::process::{Command, Stdio};

use abide_testkit::FaultRun;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::environment::{Conversation, HELLO, TestEnvironment, files, run};
use crate::terminal::on_terminal;

const TURN: &str = r#"{"kind":"turn.started","data":{"agent":"coder"}}"#;
const TASK: &str = r#"{"kind":"task.created","data":{"task":"t1","title":"Write the tests"}}"#;
const AT_IT: &str = r#"{"kind":"task.status","data":{"task":"t1","status":"implementing"}}"#;
const BASH: &str = r#"{"kind":"tool.called","data":{"call":"c1","name":"bash"}}"#;
const EDIT: &str = r#"{"kind":"tool.called","data":{"call":"c2","name":"edit"}}"#;
const READ: &str = r#"{"kind":"tool.called","data":{"call":"c3","name":"read"}}"#;
const READ_DONE: &str = r#"{"kind":"tool.finished","data":{"call":"c3","ok":true}}"#;

/// A new session with a writer that has recorded these.
fn writer(env: &TestEnvironment, lines: &[&str]) -> (Conversation, String) {
    let session =
        env.run(&["new", "--title", "Port the lexer"]).success().stdout().trim().to_owned();
    (again(env, &session, lines), session)
}

fn again(env: &TestEnvironment, session: &str, lines: &[&str]) -> Conversation {
    let mut conversation = Conversation::start(env.command(&["record", "-s", session]));
    for line in lines {
        assert!(conversation.ask(line).get("seq").is_some());
    }
    conversation
}

fn kill(mut conversation: Conversation) {
    conversation.child.kill().unwrap();
    conversation.child.wait().unwrap();
}

fn one(env: &TestEnvironment, session: &str) -> Value {
    env.run(&["status", session, "--json"]).success().json_lines().remove(0)
}

/// Changes what the lock's file of the only session says.
fn forge(env: &TestEnvironment, change: impl FnOnce(&mut Value)) {
    let path = env.session_dir().join("lock");
    let mut holder: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut holder);
    fs::write(&path, holder.to_string()).unwrap();
}

#[test]
fn a_writer_that_lives_is_alive_also_when_it_was_stopped() {
    let env = TestEnvironment::new();
    let (conversation, session) = writer(&env, &[TURN, BASH]);
    let seen = one(&env, &session);
    assert_eq!(seen["liveness"], "alive", "{seen}");
    assert_eq!(seen["evidence"]["lock"], "held");
    assert_eq!(seen["evidence"]["process"], "lives");
    assert_eq!(seen["evidence"]["holder"]["process"], conversation.child.id());
    assert_eq!(seen["resume"], Value::Null, "nobody else can go on with it");
    assert_eq!(seen["open_calls"][0]["name"], "bash");
    let listed = env.run(&["status"]).success();
    assert!(listed.stdout().contains("\nRunning\n"), "{listed:?}");
    assert!(!listed.stdout().contains("Crashed"), "{listed:?}");

    let pid = Pid::from_raw(i32::try_from(conversation.child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    // It is stopped a moment after it was told to.
    let stopped = loop {
        let seen = one(&env, &session);
        assert_ne!(seen["liveness"], "crashed", "{seen}");
        if seen["evidence"]["process"] == "stopped" {
            break seen;
        }
    };
    assert_eq!(stopped["liveness"], "alive", "it gave a sign of life a moment ago");
    forge(&env, |holder| {
        holder["since"] = "2026-01-01T00:00:00.000Z".into();
        holder["beat"] = "2026-01-01T00:01:00.000Z".into();
    });
    let seen = one(&env, &session);
    assert_eq!(
        (seen["liveness"].as_str(), seen["reason"].as_str()),
        (Some("stale"), Some("stopped"))
    );
    let listed = env.run(&["status"]).success();
    assert!(listed.stdout().contains("\nUnclear\n"), "{listed:?}");
    assert!(listed.stdout().contains("    its process"), "{listed:?}");
    assert_eq!(seen["state"], "unclear");
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!(conversation.end(), 0);
    assert_eq!(one(&env, &session)["liveness"], "idle");
}

#[test]
fn one_killed_in_the_middle_of_a_call_has_crashed_and_the_call_is_listed() {
    let env = TestEnvironment::new();
    let (conversation, session) = writer(&env, &[TURN, TASK, AT_IT, BASH, EDIT, READ, READ_DONE]);
    let process = conversation.child.id();
    kill(conversation);
    let before = files(&env.session_dir());
    let seen = one(&env, &session);
    assert_eq!(seen["liveness"], "crashed", "{seen}");
    assert_eq!(seen["why"], format!("its process {process} is gone"));
    let calls: Vec<_> =
        seen["open_calls"].as_array().unwrap().iter().map(|call| &call["name"]).collect();
    assert_eq!(calls, ["bash", "edit"]);
    assert_eq!(seen["open_turns"][0]["agent"], "coder");
    assert_eq!(seen["active_tasks"][0]["title"], "Write the tests");
    let listed = env.run(&["status"]).success();
    let text = listed.stdout();
    for part in [
        "\nCrashed\n",
        "Port the lexer",
        "in turn 1 by coder, task: Write the tests",
        "2 calls whose outcome is unknown: bash, edit",
        &format!("its process {process} is gone"),
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(files(&env.session_dir()), before, "nothing is written");
    // A person reads it, or has an agent go on; a program goes on recording.
    let short = seen["short"].as_str().unwrap();
    let next = format!("next: abide show {short}   continue: abide resume {short} -- AGENT\n");
    assert!(text.contains(&next), "{text}");
    assert!(!text.contains("abide record"), "{text}");
    let resume = seen["resume"].as_str().unwrap();
    let args: Vec<_> = resume.split(' ').skip(1).collect();
    assert_eq!(args[0], "record");
    env.record(&args[1..], &[HELLO]).success();
    let seen = one(&env, &session);
    assert_eq!(seen["liveness"], "idle", "{seen}");
    assert_eq!(seen["open_calls"].as_array().unwrap().len(), 2, "still nobody knows");
}

#[test]
fn one_that_closed_is_idle_and_one_that_is_over_is_counted() {
    let env = TestEnvironment::new();
    env.record(&["--title", "rests"], &[HELLO]).success();
    let over = r#"{"kind":"session.status","data":{"status":"completed"}}"#;
    env.record(&["--title", "is over"], &[HELLO, over]).success();
    // Killed after it had said that it was done: there is nothing to go on with.
    let (conversation, session) =
        writer(&env, &[HELLO, r#"{"kind":"session.status","data":{"status":"failed"}}"#]);
    kill(conversation);
    assert_eq!(one(&env, &session)["reason"], "over");
    let listed = env.run(&["status"]).success();
    let text = listed.stdout();
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap();
    assert!(line("rests").contains("  idle    abide show "), "{text}");
    assert!(line("is over").contains("  ended   abide show "), "{text}");
    assert!(text.contains("\nFailed\n  Port the lexer"), "{text}");
    assert!(!text.contains("Running") && !text.contains("Crashed"), "{text}");
    let report = &env.run(&["status", "--json"]).success().json_lines()[0];
    assert_eq!(report["sessions"], 3);
    assert_eq!(report["counts"]["idle"], 1, "{report}");
    assert_eq!(report["counts"]["completed"], 1, "{report}");
    assert_eq!(report["counts"]["failed"], 1, "{report}");
    assert_eq!(report["listed"][0]["liveness"], "idle");
    let states = report["listed"].as_array().unwrap().iter().map(|row| row["state"].clone());
    assert_eq!(states.collect::<Vec<_>>(), ["failed", "ended", "idle"]);
}

#[test]
fn a_number_that_another_process_has_now_does_not_count_for_the_writer() {
    let env = TestEnvironment::new();
    let (conversation, session) = writer(&env, &[BASH]);
    kill(conversation);
    // This very process has that number, and began at another time.
    let me = std::process::id();
    forge(&env, |holder| holder["process"] = me.into());
    let seen = one(&env, &session);
    assert_eq!(
        (&seen["liveness"], &seen["reason"]),
        (&"crashed".into(), &"process_replaced".into())
    );
    // Where it is not known when the writer began, it may be this one.
    forge(&env, |holder| drop(holder.as_object_mut().unwrap().remove("started")));
    let seen = one(&env, &session);
    assert_eq!((&seen["liveness"], &seen["reason"]), (&"stale".into(), &"let_go".into()), "{seen}");
}

#[test]
fn a_restart_of_the_machine_and_another_machine_are_told_apart() {
    let env = TestEnvironment::new();
    let (conversation, session) = writer(&env, &[BASH]);
    kill(conversation);
    let me = std::process::id();
    forge(&env, |holder| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        assert!(boot.is_empty() || holder["boot"] == boot.trim(), "{holder}");
        holder["process"] = me.into();
        holder["boot"] = "00000000-0000-0000-0000-000000000000".into();
    });
    let seen = one(&env, &session);
    assert_eq!(seen["liveness"], "crashed", "{seen}");
    assert_eq!(seen["why"], "the machine has been restarted since");
    // On another machine, whose locks are not seen here: heard of a moment ago, and long ago.
    forge(&env, |holder| holder["host"] = "elsewhere\u{1b}[2J".into());
    forge(&env, |holder| holder["beat"] = "2999-01-01T00:00:00.000Z".into());
    assert_eq!(one(&env, &session)["liveness"], "alive");
    forge(&env, |holder| {
        holder["since"] = "2026-01-01T00:00:00.000Z".into();
        holder["beat"] = "2026-01-01T00:01:00.000Z".into();
    });
    let seen = one(&env, &session);
    assert_eq!((&seen["liveness"], &seen["reason"]), (&"stale".into(), &"silent".into()));
    let text = env.run(&["status", &session]).success();
    assert!(
        text.stdout().contains("elsewhere\\u{1b}[2J was last heard of at 2026-01-01"),
        "{text:?}"
    );
    // Nobody is named.
    let path = env.session_dir().join("lock");
    fs::write(&path, "").unwrap();
    assert_eq!(one(&env, &session)["reason"], "nobody");
    fs::remove_file(&path).unwrap();
    let seen = one(&env, &session);
    assert_eq!(
        (&seen["liveness"], &seen["evidence"]["lock"]),
        (&"stale".into(), &"unknown".into())
    );
    assert!(!path.exists(), "it is not made for the question");
}

fn kills() -> usize {
    FaultRun::from_env().len(50, 400)
}

#[test]
fn of_many_that_are_killed_none_is_called_crashed_while_it_lives() {
    let env = TestEnvironment::new();
    let session = env.run(&["new"]).success().stdout().trim().to_owned();
    let (mut alive, mut crashed) = (0, 0);
    for round in 0..kills() {
        let mut conversation = again(&env, &session, &[]);
        // Some are asked about while they open the session behind a crash.
        let early = one(&env, &session);
        if early["evidence"]["holder"]["process"] == conversation.child.id() {
            assert_ne!(early["liveness"], "crashed", "round {round}: {early}");
        }
        assert!(conversation.ask(BASH).get("seq").is_some());
        let seen = one(&env, &session);
        assert_eq!(seen["liveness"], "alive", "round {round}: {seen}");
        alive += 1;
        if round % 5 == 4 {
            assert_eq!(conversation.end(), 0);
            assert_eq!(one(&env, &session)["liveness"], "idle", "round {round}");
        } else {
            kill(conversation);
            assert_eq!(one(&env, &session)["liveness"], "crashed", "round {round}");
            crashed += 1;
        }
    }
    assert_eq!((alive, crashed), (kills(), kills() - kills() / 5));
}

/// Hooks open and close a session all the time: whatever moment is asked about, nobody crashed.
#[test]
fn one_that_is_opened_and_closed_all_the_time_is_never_called_crashed() {
    let env = TestEnvironment::new();
    let session = env.run(&["new"]).success().stdout().trim().to_owned();
    std::thread::scope(|scope| {
        let hooks = scope.spawn(|| {
            for _ in 0..40 {
                env.record(&["-s", &session], &[HELLO]).success();
            }
        });
        let mut asked = 0;
        while !hooks.is_finished() {
            let seen = one(&env, &session);
            assert_ne!(seen["liveness"], "crashed", "{seen}");
            asked += 1;
        }
        assert!(asked > 0);
        hooks.join().unwrap();
    });
    assert_eq!(one(&env, &session)["liveness"], "idle");
}

#[test]
fn what_was_started_for_a_crashed_session_and_goes_on_is_named() {
    let env = TestEnvironment::new();
    let (conversation, session) = writer(&env, &[BASH]);
    let mut agent = Command::new("sleep")
        .arg("60")
        .env("ABIDE_SESSION", &session)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(one(&env, &session)["orphans"], Value::Array(Vec::new()), "its writer lives");
    kill(conversation);
    // The asking process has the variable as well, and is not its own orphan.
    let mut asking = env.command(&["status", &session, "--json"]);
    asking.env("ABIDE_SESSION", &session);
    let seen = run(asking, b"").success().json_lines().remove(0);
    let listed = env.run(&["status"]).success();
    agent.kill().unwrap();
    agent.wait().unwrap();
    let orphans = seen["orphans"].as_array().unwrap();
    assert_eq!(orphans.len(), 1, "{seen}");
    assert_eq!(orphans[0]["process"], agent.id());
    assert!(listed.stdout().contains("still running for it: sleep ("), "{listed:?}");
}

#[test]
fn a_store_that_cannot_be_written_is_answered() {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        // Root may write anywhere; a mount would be needed.
        read_only_mount();
        return;
    }
    let env = TestEnvironment::new();
    let (conversation, session) = writer(&env, &[BASH]);
    kill(conversation);
    let store = env.project().join(".abide");
    let set = |mode: u32| {
        for path in [store.clone(), store.join("sessions"), env.session_dir()] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    fs::set_permissions(env.session_dir().join("lock"), fs::Permissions::from_mode(0o400)).unwrap();
    set(0o500);
    let (alone, listed) = (one(&env, &session), env.run(&["status"]));
    set(0o700);
    assert_eq!(alone["liveness"], "crashed", "{alone}");
    assert!(listed.success().stdout().contains("\nCrashed\n"));
}

/// The same on a file system that is mounted read-only, within name spaces of its own.
fn read_only_mount() {
    let env = TestEnvironment::new();
    let (conversation, session) = writer(&env, &[BASH]);
    kill(conversation);
    let script = r#"mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 77
if touch "$1/x" 2>/dev/null; then exit 77; fi
"$2" --store "$1" status "$3" --json && "$2" --store "$1" status"#;
    let mut command = env.isolate(Command::new("unshare"));
    command.args(["--mount", "sh", "-c", script, "sh"]);
    command.arg(env.project().join(".abide")).arg(crate::environment::ABIDE).arg(&session);
    if Command::new("unshare").arg("--version").output().is_err() {
        eprintln!("skipped: there is no `unshare` to mount with");
        return;
    }
    let done = run(command, b"");
    if done.code != 0 && (done.code == 77 || done.stderr.contains("unshare")) {
        eprintln!("skipped: nothing can be mounted here: {}", done.stderr);
        return;
    }
    let done = done.success();
    let first = done.stdout().lines().next().unwrap();
    let seen: Value = serde_json::from_str(first).unwrap();
    assert_eq!(seen["liveness"], "crashed", "{seen}");
    assert_eq!(seen["evidence"]["lock"], "free", "{seen}");
    assert!(done.stdout().contains("\nCrashed\n"), "{done:?}");
    assert!(done.stdout().contains("next: abide --store /"), "{done:?}");
}

#[test]
fn nonsense_is_refused_and_what_was_recorded_drives_no_terminal() {
    let env = TestEnvironment::bare();
    env.run(&["status"]).failure(1);
    let hostile = r#"{"kind":"tool.called","data":{"call":"c","name":"\u001b[2Jbash"}}"#;
    let turn = r#"{"kind":"turn.started","data":{"agent":"\u001b]0;x\u0007"},"lane":"b"}"#;
    let session = env.run(&["new", "--title", "\u{1b}[2Jtitle", "--agent", "\u{9b}a"]);
    let session = session.success().stdout().trim().to_owned();
    kill(again(&env, &session, &[turn, hostile]));
    let refused = env.run(&["status", "nosuch"]).failure(1);
    assert!(refused.stderr.contains("there is no session nosuch"), "{refused:?}");
    assert!(refused.stderr.contains("the newest sessions in"), "{refused:?}");
    env.run(&["status", &session, "--disk"]).failure(2);
    env.run(&["status", "--disk", "--all"]).failure(2);
    let plain = env.run(&["status"]).success();
    assert!(!plain.stdout().contains('\u{1b}'), "{plain:?}");
    for args in ["status", &format!("status {session}"), "status --json"] {
        let Some(done) = on_terminal(&env, args) else { return };
        let text = String::from_utf8(done.out).unwrap();
        assert!(text.contains("title") && text.contains("bash"), "{text}");
        for raw in ["\u{1b}[2J", "\u{1b}]0", "\u{9b}", "\u{7}"] {
            assert!(!text.contains(raw), "{args}: {text:?}");
        }
    }
}

#[test]
fn of_many_sessions_the_newest_are_listed_and_the_rest_counted() {
    let env = TestEnvironment::new();
    for n in 0..14 {
        env.record(&["--title", &format!("number {n}")], &[HELLO]).success();
    }
    let listed = env.run(&["status"]).success();
    let text = listed.stdout();
    assert!(text.contains("number 13") && text.contains("number 4") && !text.contains("number 3"));
    assert!(text.contains(": 14 sessions\n"), "{text}");
    assert!(text.ends_with("\n4 more; `abide ls` lists them\n"), "{text}");
    let all = env.run(&["status", "--all"]).success();
    assert_eq!(all.stdout().matches("number ").count(), 14, "{all:?}");
}
