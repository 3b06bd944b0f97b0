//! What an agent does through `abide` itself, inside a run.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::environment::{ABIDE, TestEnvironment};

fn lab(agent: &str) -> TestEnvironment {
    let environment = TestEnvironment::new();
    let project = environment.project();
    fs::write(project.join("PLAN.md"), "- [ ] One\n- [ ] Two\n").unwrap();
    fs::write(
        project.join("agent"),
        format!("#!/bin/sh\ncat > /dev/null\nabide='{ABIDE}'\n{agent}\n"),
    )
    .unwrap();
    fs::set_permissions(project.join("agent"), fs::Permissions::from_mode(0o755)).unwrap();
    environment
}

#[test]
fn an_agent_records_into_the_session_of_its_run() {
    let environment = lab(
        "echo '{\"kind\":\"x.note\",\"data\":{\"n\":1}}' | \"$abide\" record >> answers || exit 9\n\"$abide\" checkpoint create --label \"in $ABIDE_TASK\" > /dev/null || exit 8",
    );
    environment.run(&["run", "--plan", "PLAN.md", "--", "./agent"]).success();
    let events = environment.run(&["export"]).success().json_lines();
    let notes: Vec<_> = events.iter().filter(|event| event["kind"] == "x.note").collect();
    assert_eq!(notes.len(), 2);
    assert_eq!((&notes[0]["task"], &notes[1]["task"]), (&"P1".into(), &"P2".into()));
    let labels: Vec<_> =
        events.iter().filter_map(|event| event["data"]["label"].as_str()).collect();
    assert_eq!(labels, ["in P1", "in P2"]);
    environment.run(&["doctor", "--all"]).success();
}

#[test]
fn an_agent_adds_tasks_that_are_run_and_ends_its_own() {
    // The first adds a third, and says itself that it is done before it fails.
    let environment = lab(
        "echo \"$ABIDE_TASK\" >> order\nif [ \"$ABIDE_TASK\" = P1 ]; then \"$abide\" tasks add Three --id P3 --depends P2 > /dev/null || exit 9; \"$abide\" tasks set P1 complete > /dev/null || exit 8; exit 1; fi",
    );
    let done =
        environment.run(&["run", "--plan", "PLAN.md", "--retries", "2", "--", "./agent"]).success();
    assert!(done.stderr.contains("P1 stays as it is"), "{}", done.stderr);
    let order = fs::read_to_string(environment.project().join("order")).unwrap();
    assert_eq!(order, "P1\nP2\nP3\n");
}

#[test]
fn what_an_agent_left_behind_does_not_keep_the_session() {
    // It records without end, and outlives the run that started it.
    let environment = lab(
        "[ ! -e up ] || exit 0\nsetsid sh -c 'while :; do echo \"{\\\"kind\\\":\\\"x.note\\\",\\\"data\\\":{}}\" | \"$0\" record > /dev/null 2>&1; done' \"$abide\" &\ntouch up\nsleep 60",
    );
    let mut run = environment
        .command(&["run", "--plan", "PLAN.md", "--", "./agent"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !environment.project().join("up").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    let done = environment.run(&["resume", "--grace", "1s"]).success();
    assert!(done.stderr.contains("from an earlier run"), "{}", done.stderr);
    let tasks = environment.run(&["tasks", "--json"]).success().json_lines();
    assert!(tasks.iter().all(|task| task["status"] == "complete"), "{tasks:?}");
}

#[test]
fn what_an_agent_says_of_its_task_stands() {
    // One is blocked and one has a result of its own, whatever the exit code is.
    let environment = lab(
        "echo \"$ABIDE_TASK\" >> order\ncase $ABIDE_TASK in\nP1) \"$abide\" tasks set P1 blocked --reason 'no key' > /dev/null || exit 9; exit 3;;\nP2) \"$abide\" tasks set P2 complete --result '{\"commit\":\"abc\"}' > /dev/null || exit 9;;\nP3) \"$abide\" tasks set P3 implementing --result '{\"commit\":\"def\"}' > /dev/null || exit 9;;\nP4) \"$abide\" tasks set P4 obsolete > /dev/null || exit 9;;\nesac\necho ok",
    );
    let plan = "- [ ] One\n- [ ] Two\n- [ ] Three\n- [ ] Four\n- [ ] Five\n  depends: One\n";
    fs::write(environment.project().join("PLAN.md"), plan).unwrap();
    let done = environment.run(&["run", "--plan", "PLAN.md", "--", "./agent"]).failure(1);
    assert!(done.stderr.contains("P1 blocked"), "{}", done.stderr);
    assert!(done.stderr.contains("its agent set it to blocked; exit code 3"), "{}", done.stderr);
    let tasks = environment.run(&["tasks", "--json"]).success().json_lines();
    let status: Vec<_> = tasks.iter().map(|task| task["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["blocked", "complete", "complete", "obsolete", "planned"]);
    let result = |task: &str| {
        let events = environment.run(&["export"]).success().json_lines();
        let of = |event: &&serde_json::Value| {
            event["data"]["task"] == task && !event["data"]["result"].is_null()
        };
        events.iter().rfind(of).unwrap()["data"]["result"].clone()
    };
    assert_eq!(result("P2"), serde_json::json!({"commit": "abc"}));
    assert_eq!(result("P3"), serde_json::json!({"commit": "def"}));
    let order = fs::read_to_string(environment.project().join("order")).unwrap();
    assert_eq!(order, "P1\nP2\nP3\nP4\n");
    // What is blocked is not begun again.
    environment.run(&["resume"]).failure(1);
    assert_eq!(fs::read_to_string(environment.project().join("order")).unwrap(), order);
    environment.run(&["doctor", "--all"]).success();
}

#[test]
fn an_agent_that_says_failed_and_exits_well_has_failed() {
    let environment = lab(
        "echo \"$ABIDE_TASK\" >> order\n\"$abide\" tasks set \"$ABIDE_TASK\" failed --reason 'no way' > /dev/null || exit 9",
    );
    let done = environment.run(&["run", "--plan", "PLAN.md", "--", "./agent"]).failure(1);
    assert!(done.stderr.contains("P1 failed"), "{}", done.stderr);
    assert!(done.stderr.contains("no way"), "{}", done.stderr);
    let order = || fs::read_to_string(environment.project().join("order")).unwrap();
    assert_eq!(order(), "P1\n");
    // It is tried again as often as any that fails.
    let again = ["run", "--plan", "PLAN.md", "--continue", "--retries", "2", "--", "./agent"];
    environment.run(&again).failure(1);
    assert_eq!(order(), "P1\nP1\nP1\n");
    let go_on = ["resume", "--retries", "0", "--continue-on-error"];
    environment.run(&go_on).failure(1);
    assert_eq!(order(), "P1\nP1\nP1\nP2\n");
}

#[test]
fn an_agent_that_plans_its_own_task_again_does_not_run_for_ever() {
    let environment = lab("\"$abide\" tasks set \"$ABIDE_TASK\" planned > /dev/null || exit 9");
    let done = environment.run(&["run", "--plan", "PLAN.md", "--", "./agent"]).failure(1);
    assert!(done.stderr.contains("set it to planned, 21 times in a row"), "{}", done.stderr);
}
