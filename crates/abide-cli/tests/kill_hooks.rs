//! Hooks of many sessions at once, some of them killed with SIGKILL: what a hook told that ended by itself
//! is recorded once.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use abide_testkit::{FaultRun, Random};
use serde_json::{Value, json};

use crate::environment::TestEnvironment;

const SESSIONS: usize = 8;
/// Hooks of the same session run at once too, as those of parallel calls do.
const AT_ONCE: usize = 2;

/// What a hook tells: the event that it must become, by a text in it.
fn told(env: &TestEnvironment, session: &str, n: usize) -> (String, &'static str, String) {
    let (event, fields, kind, mark) = match n % 10 {
        0 => {
            let text = format!("prompt {n}.");
            let fields = json!({"prompt_id": format!("t{n}"), "prompt": text});
            ("UserPromptSubmit", fields, "message.added", text)
        }
        5 => {
            let text = format!("end {n}.");
            let fields = json!({"prompt_id": format!("t{n}"), "last_assistant_message": text});
            ("Stop", fields, "message.added", text)
        }
        _ => {
            let fields = json!({
                "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": "x",
                "tool_use_id": format!("call-{n}."),
            });
            ("PostToolUse", fields, "tool.called", format!("call-{n}."))
        }
    };
    (env.payload(session, event, &fields), kind, mark)
}

#[test]
fn of_many_hooks_each_that_ended_by_itself_is_recorded_once() {
    let fault_run = FaultRun::from_env();
    let each = fault_run.len(160, 1_000).div_ceil(SESSIONS * AT_ONCE);
    let env = TestEnvironment::bare();
    std::fs::write(env.project().join("a.txt"), "a").unwrap();
    let killed = AtomicU64::new(0);
    // By session and number: it ended by itself.
    let mut ended: BTreeMap<(usize, usize), bool> = BTreeMap::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..SESSIONS * AT_ONCE)
            .map(|worker| {
                let (env, killed) = (&env, &killed);
                scope.spawn(move || {
                    let session = worker % SESSIONS;
                    let mut random = Random::new(fault_run.seed().wrapping_add(worker as u64));
                    let hook = |turn: usize| {
                        let n = turn * AT_ONCE + worker / SESSIONS;
                        let (payload, ..) = told(env, &format!("session-{session}"), n);
                        let mut child = env
                            .command(&["hook", "claude"])
                            .stdin(Stdio::piped())
                            .stdout(Stdio::piped())
                            .stderr(Stdio::piped())
                            .spawn()
                            .unwrap();
                        child.stdin.take().unwrap().write_all(payload.as_bytes()).unwrap();
                        if random.once_in(3) {
                            let most = if random.once_in(2) { 40 } else { 250 };
                            std::thread::sleep(Duration::from_millis(random.below(most)));
                            child.kill().unwrap();
                        }
                        let done = child.wait_with_output().unwrap();
                        assert!(done.stdout.is_empty() && done.stderr.is_empty(), "{done:?}");
                        let by_itself = done.status.code();
                        assert!(by_itself.is_none_or(|code| code == 0), "{done:?}");
                        killed.fetch_add(u64::from(by_itself.is_none()), Ordering::Relaxed);
                        ((session, n), by_itself.is_some())
                    };
                    (0..each).map(hook).collect::<Vec<_>>()
                })
            })
            .collect();
        for worker in workers {
            ended.extend(worker.join().unwrap());
        }
    });
    env.settle();
    let mut events: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
    for session in 0..SESSIONS {
        let exported = env.run(&["export", &format!("claude/session-{session}")]).success();
        events.insert(session, exported.json_lines());
    }
    for ((session, n), by_itself) in &ended {
        let (_, kind, mark) = told(&env, "", *n);
        let is_it = |event: &&Value| {
            event["kind"] == kind && event["data"].to_string().contains(&format!("\"{mark}\""))
        };
        let count = events[session].iter().filter(is_it).count();
        assert!(count <= 1, "session {session}: {mark} stands {count} times");
        assert!(count == 1 || !by_itself, "session {session}: {mark} is lost");
    }
    env.run(&["doctor", "--all"]).success();
    let killed = killed.load(Ordering::Relaxed);
    println!("hooks: {}\nkills of hooks: {killed}", ended.len());
    assert!(killed > 0);
}
