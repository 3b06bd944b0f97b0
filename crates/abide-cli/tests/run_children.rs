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
    assert!(done.stderr.contains("of an earlier run"), "{}", done.stderr);
    let tasks = environment.run(&["tasks", "--json"]).success().json_lines();
    assert!(tasks.iter().all(|task| task["status"] == "complete"), "{tasks:?}");
}
