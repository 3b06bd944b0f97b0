//! Limits of a run: it warns, it stops, and it says what was used.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::environment::TestEnvironment;

/// What Codex reports at the end of a turn.
const REPORT: &str = r#"echo '{"type":"thread.started","thread_id":"'$ABIDE_TASK'"}'
echo '{"type":"turn.completed","usage":{"input_tokens":700,"output_tokens":150}}'"#;
const CODEX: [&str; 5] = ["--", "./codex", "exec", "--json", "-"];

/// A project with a plan and an agent that is named `codex`.
fn lab(agent: &str) -> TestEnvironment {
    let environment = TestEnvironment::new();
    let project = environment.project();
    fs::write(project.join("PLAN.md"), "- [ ] One\n- [ ] Two\n- [ ] Three\n").unwrap();
    let agent = format!("#!/bin/sh\ncat > /dev/null\necho \"$ABIDE_TASK\" >> begun\n{agent}\n");
    fs::write(project.join("codex"), agent).unwrap();
    fs::set_permissions(project.join("codex"), fs::Permissions::from_mode(0o755)).unwrap();
    environment
}

fn statuses(environment: &TestEnvironment) -> Vec<String> {
    let tasks = environment.run(&["tasks", "--json"]).success().json_lines();
    tasks.iter().map(|task| task["status"].as_str().unwrap().to_owned()).collect()
}

/// The summary of the last run, as it is recorded.
fn summary(environment: &TestEnvironment) -> Value {
    let events = environment.run(&["export"]).success().json_lines();
    let end = events.into_iter().rfind(|event| event["kind"] == "run.finished").unwrap();
    end["data"]["summary"].clone()
}

#[test]
fn a_run_warns_near_its_token_limit_and_stops_at_it() {
    // The second reports what goes beyond the limit, and would work on.
    let environment = lab(&format!("{REPORT}\n[ $ABIDE_TASK = P1 ] || [ -e well ] || sleep 600"));
    let limited = ["run", "--plan", "PLAN.md", "--max-tokens", "1k", "--grace", "1s"];
    let done = environment.run(&[&limited[..], &CODEX].concat()).failure(4);
    let said = &done.stderr;
    assert!(said.contains("the run is near the token limit: 850 of 1000 tokens"), "{said}");
    assert!(said.contains("the run has reached the token limit: 1700 of 1000 tokens"), "{said}");
    assert!(said.contains("Stopped (it reached the token limit): 1 of 3"), "{said}");
    assert!(said.contains("P1  codex: ") && said.contains("P2  codex: "), "{said}");
    assert!(said.contains("700 tokens in, 150 out"), "{said}");
    assert!(said.contains("Limits: 1700 of 1000 tokens"), "{said}");
    assert_eq!(statuses(&environment), ["complete", "planned", "planned"]);
    let summary = summary(&environment);
    assert_eq!(summary["finish"], "limit_reached");
    let used = summary["used"].as_array().unwrap();
    let tasks: Vec<_> = used.iter().map(|used| used["task"].as_str().unwrap()).collect();
    assert_eq!(tasks, ["P1", "P2"]);
    assert_eq!(used[1]["usage"]["input_tokens"], 700);
    assert_eq!((&used[1]["agent"], &used[1]["attempts"]), (&"codex".into(), &1.into()));
    // The limit counts for one run: what is left goes on, within a limit of its own.
    fs::write(environment.project().join("well"), "").unwrap();
    let done = environment.run(&["resume", "--max-tokens", "10k"]).success();
    assert!(done.stderr.contains(" of 10000 tokens"), "{}", done.stderr);
    assert_eq!(statuses(&environment), ["complete"; 3]);
}

#[test]
fn the_figures_of_limits_are_told_as_json() {
    let environment = lab(REPORT);
    let limited = ["run", "--plan", "PLAN.md", "--json", "--max-tokens", "2k", "--max-cost", "9"];
    let done = environment.run(&[&limited[..], &CODEX].concat()).success();
    let events = done.json_lines();
    let told: Vec<_> = events.iter().filter(|event| event["event"] == "limit").collect();
    let figures = |event: &Value| (event["used"].as_u64(), event["limit"].as_u64());
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!((&told[0]["resource"], &told[0]["level"]), (&"tokens".into(), &"near".into()));
    assert_eq!(figures(told[0]), (Some(1700), Some(2000)));
    assert_eq!(told[1]["level"], "reached");
    assert_eq!(figures(told[1]), (Some(2550), Some(2000)));
    let stopped = events.iter().find(|event| event["event"] == "stopped").unwrap();
    assert_eq!(stopped["used"].as_array().unwrap().len(), 3);
    assert_eq!(stopped["usage"]["output_tokens"], 450);
    let limits = stopped["limits"].as_array().unwrap();
    let resources: Vec<_> = limits.iter().map(|limit| limit["resource"].as_str()).collect();
    assert_eq!(resources, [Some("cost_micros"), Some("tokens")]);
    assert_eq!(figures(&limits[0]), (Some(0), Some(9_000_000)));
}

#[test]
fn a_run_stops_at_its_memory_limit() {
    let environment =
        lab("[ -e well ] || { x=$(head -c 80000000 /dev/zero | tr '\\0' x); sleep 600; }");
    let limited = ["run", "--plan", "PLAN.md", "--max-memory", "50MB", "--grace", "1s"];
    let done = environment.run(&[&limited[..], &["--", "./codex"]].concat()).failure(4);
    assert!(done.stderr.contains("it reached the memory limit"), "{}", done.stderr);
    assert_eq!(statuses(&environment), ["planned"; 3]);
    let summary = summary(&environment);
    assert!(summary["used"][0]["peak_rss_bytes"].as_u64() >= Some(50_000_000), "{summary}");
    assert!(summary["limits"][0]["used"].as_u64() >= Some(50_000_000), "{summary}");
    fs::write(environment.project().join("well"), "").unwrap();
    environment.run(&["resume"]).success();
    assert_eq!(statuses(&environment), ["complete"; 3]);
}

#[test]
fn a_run_stops_at_its_cost_limit() {
    // Claude reports the cost at its end; the next task is not begun.
    let environment = lab(
        "echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"ok\",\"session_id\":\"s\",\"total_cost_usd\":0.6,\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}'",
    );
    let limited = ["run", "--plan", "PLAN.md", "--max-cost", "1.00", "--adapter", "claude"];
    let done = environment.run(&[&limited[..], &["--", "./codex"]].concat()).failure(4);
    assert!(done.stderr.contains("the cost limit: $1.20 of $1.00"), "{}", done.stderr);
    assert_eq!(statuses(&environment), ["complete", "complete", "planned"]);
}

#[test]
fn a_run_that_is_done_at_its_limit_is_complete() {
    let environment = lab(REPORT);
    let limited = ["run", "--plan", "PLAN.md", "--max-tokens", "2550"];
    let done = environment.run(&[&limited[..], &CODEX].concat()).success();
    assert!(done.stderr.contains("Ended: 3 of 3 tasks done"), "{}", done.stderr);
    assert!(done.stderr.contains("Limits: 2550 of 2550 tokens"), "{}", done.stderr);
}

#[test]
fn a_check_is_left_for_the_next_run_at_a_limit() {
    let environment = lab(REPORT);
    let limited = ["run", "--plan", "PLAN.md", "--max-tokens", "850", "--check", "echo >> checked"];
    environment.run(&[&limited[..], &CODEX].concat()).failure(4);
    assert_eq!(statuses(&environment), ["planned"; 3]);
    assert!(!environment.project().join("checked").exists());
    environment.run(&["resume"]).success();
    let begun = fs::read_to_string(environment.project().join("begun")).unwrap();
    assert_eq!(begun, "P1\nP2\nP3\n");
    assert_eq!(statuses(&environment), ["complete"; 3]);
}

#[test]
fn a_conversation_has_limits() {
    let environment = lab("echo working; sleep 600");
    let said = r#"{"kind":"message.added","data":{"role":"user","content":"Go"}}"#;
    environment.record(&["--key", "talk"], &[said]).success();
    let limited = ["resume", "talk", "--max-duration", "1s", "--grace", "1s", "--yes"];
    let done = environment.run(&[&limited[..], &["--", "./codex"]].concat()).failure(4);
    assert!(done.stderr.contains("Stopped (its time is up)"), "{}", done.stderr);
    let summary = summary(&environment);
    assert_eq!(
        (&summary["finish"], &summary["used"][0]["task"]),
        (&"time_up".into(), &Value::Null)
    );
    assert_eq!(summary["limits"][0]["resource"], "duration_ms");
}

#[test]
fn limits_that_are_none_are_refused() {
    let environment = lab("true");
    for (option, value, why) in [
        ("--max-cost", "0", "invalid amount `0`"),
        ("--max-cost", "-1", "invalid amount `-1`"),
        ("--max-cost", "much", "invalid amount `much` (examples: 5, 2.50)"),
        ("--max-tokens", "0", "invalid number `0`"),
        ("--max-tokens", "-5", "invalid number `-5`"),
        ("--max-tokens", "1.5k", "invalid number `1.5k` (examples: 200000, 200k, 2M)"),
        ("--max-memory", "2", "invalid size `2`"),
        ("--max-memory", "0GB", "invalid size `0GB`"),
        ("--max-memory", "-1", "invalid size `-1`"),
        ("--max-duration", "0", "at least 1ms"),
        ("--max-duration", "-1", "invalid duration `-1`"),
        ("--max-duration", "soon", "invalid duration `soon`"),
    ] {
        for command in ["run", "resume"] {
            let done = environment.run(&[command, option, value, "--", "./codex"]).failure(2);
            assert!(done.stderr.contains(why), "{}", done.stderr);
        }
    }
    assert!(!environment.project().join("begun").exists());
}
