//! A check decides whether a task is done.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::Value;

use crate::environment::{ABIDE, TestEnvironment};

const PLAN: &str = "- [ ] One\n- [ ] Two\n";

/// A project with a plan and an agent, which writes down what it is told.
fn lab(plan: &str, agent: &str) -> TestEnvironment {
    let environment = TestEnvironment::new();
    let project = environment.project();
    fs::write(project.join("PLAN.md"), plan).unwrap();
    let agent = format!(
        "#!/bin/sh\nabide='{ABIDE}'\necho \"$ABIDE_TASK\" >> begun\ncat > \"told-$(wc -l < begun | tr -d ' ')\"\n{agent}\n"
    );
    fs::write(project.join("agent"), agent).unwrap();
    fs::set_permissions(project.join("agent"), fs::Permissions::from_mode(0o755)).unwrap();
    environment
}

fn file(environment: &TestEnvironment, name: &str) -> String {
    fs::read_to_string(environment.project().join(name)).unwrap_or_default()
}

fn statuses(environment: &TestEnvironment) -> Vec<String> {
    let tasks = environment.run(&["tasks", "--json"]).success().json_lines();
    tasks.iter().map(|task| task["status"].as_str().unwrap().to_owned()).collect()
}

fn checks(environment: &TestEnvironment) -> Vec<Value> {
    let events = environment.run(&["export"]).success().json_lines();
    let checks = events.into_iter().filter(|event| event["kind"] == "artifact.recorded");
    checks.map(|event| event["data"].clone()).collect()
}

#[test]
fn a_task_is_done_when_its_check_passes_and_the_agent_is_told_why_not() {
    let environment = lab(PLAN, "echo done");
    // One passes at the third attempt, Two at the first.
    let check = "echo \"checked $ABIDE_TASK\"; [ $ABIDE_TASK = P2 ] || { [ $(wc -l < begun) -ge 3 ] || { echo 'missing: x' >&2; exit 7; }; }";
    let run = ["run", "--plan", "PLAN.md", "--check", check, "--", "./agent"];
    let done = environment.run(&run).success();
    assert!(done.stderr.contains("P1: checking with"), "{}", done.stderr);
    assert!(done.stderr.contains("P1: the check ended with exit code 7"), "{}", done.stderr);
    assert_eq!(file(&environment, "begun"), "P1\nP1\nP1\nP2\n");
    let (first, second) = (file(&environment, "told-1"), file(&environment, "told-2"));
    assert!(first.contains("It is done when this command succeeds: echo"), "{first}");
    assert!(!first.contains("failed"), "{first}");
    assert!(second.contains("failed: the check failed: exit code 7: "), "{second}");
    assert!(second.contains("The check printed:\n\n"), "{second}");
    assert!(second.contains("missing: x") && second.contains("checked P1"), "{second}");
    let checks = checks(&environment);
    let seen: Vec<_> = checks.iter().map(|check| (&check["task"], &check["exit"])).collect();
    let (one, two, seven, zero) = ("P1".into(), "P2".into(), 7.into(), 0.into());
    assert_eq!(seen, [(&one, &seven), (&one, &seven), (&one, &zero), (&two, &zero)]);
    assert_eq!((&checks[0]["kind"], &checks[0]["command"]), (&"check".into(), &check.into()));
    assert_eq!((&checks[0]["ok"], &checks[2]["ok"]), (&false.into(), &true.into()));
    assert!(checks[0]["output"].as_str().unwrap().contains("missing: x"));
    assert_eq!(statuses(&environment), ["complete", "complete"]);
    environment.run(&["doctor", "--all"]).success();
}

#[test]
fn a_task_whose_check_never_passes_fails_with_its_reason() {
    let environment = lab(PLAN, "echo done");
    let run = |more: &[&str]| {
        let check = ["run", "--plan", "PLAN.md", "--continue", "--check", "echo no; exit 3"];
        environment.run(&[&check[..], more, &["--", "./agent"]].concat())
    };
    let done = run(&[]).failure(1);
    assert!(done.stderr.contains("P1 failed"), "{}", done.stderr);
    assert!(done.stderr.contains("the check failed: exit code 3: no"), "{}", done.stderr);
    assert_eq!(file(&environment, "begun"), "P1\nP1\nP1\n");
    assert_eq!(statuses(&environment), ["failed", "planned"]);
    // Once more of each.
    run(&["--attempts", "1", "--retry-failed", "--continue-on-error"]).failure(1);
    assert_eq!(file(&environment, "begun"), "P1\nP1\nP1\nP1\nP2\n");
    run(&["--attempts", "1", "--retries", "1"]).failure(2);
}

#[test]
fn a_check_of_a_plan_is_run_once_it_is_accepted() {
    let plan = "- [ ] One\n  check: touch one\n- [ ] Two\n- [ ] Three\n  check: test -e three\n";
    let environment = lab(plan, "echo done");
    let run = ["run", "--plan", "PLAN.md", "--continue", "--", "./agent"];
    let refused = environment.run(&run).failure(1);
    assert!(refused.stderr.contains("P1  touch one"), "{}", refused.stderr);
    assert!(refused.stderr.contains("P3  test -e three"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--yes"), "{}", refused.stderr);
    assert_eq!(file(&environment, "begun"), "", "nothing was started");
    let shown = environment.run(&["tasks"]).success();
    assert!(shown.stdout().contains("P1 One (ready, check: touch one)"), "{}", shown.stdout());
    let lines = environment.run(&["tasks", "--json"]).success().json_lines();
    assert_eq!(lines[2]["check"], "test -e three");
    let yes = ["run", "--plan", "PLAN.md", "--continue", "--yes", "--", "./agent"];
    environment.run(&yes).failure(1);
    assert!(environment.project().join("one").exists());
    assert_eq!(statuses(&environment), ["complete", "complete", "failed"]);
    // What was accepted is not asked about again, what is new is.
    fs::write(environment.project().join("three"), "").unwrap();
    let again = ["resume", "--retry-failed"];
    environment.run(&again).success();
    assert_eq!(statuses(&environment), ["complete"; 3]);
    environment.run(&["tasks", "add", "Four", "--check", "touch four"]).success();
    environment.run(&["resume"]).failure(1);
    assert!(!environment.project().join("four").exists());
    environment.run(&["resume", "--yes"]).success();
    assert!(environment.project().join("four").exists());
    let document = environment.run(&["tasks", "export", "--format", "toml"]).success();
    assert!(document.stdout().contains("check = \"touch one\""), "{}", document.stdout());
}

#[test]
fn a_check_that_an_agent_adds_is_not_run() {
    let agent = "[ $ABIDE_TASK != P1 ] || \"$abide\" tasks set P2 --check 'touch planted' > /dev/null || exit 9";
    let environment = lab(PLAN, agent);
    let done = environment.run(&["run", "--plan", "PLAN.md", "--", "./agent"]).failure(1);
    assert!(done.stderr.contains("its check was not accepted: touch planted"), "{}", done.stderr);
    assert_eq!(statuses(&environment), ["complete", "blocked"]);
    assert!(!environment.project().join("planted").exists());
}

#[test]
fn an_agent_that_completes_its_task_itself_is_checked_all_the_same() {
    let agent =
        "\"$abide\" tasks set \"$ABIDE_TASK\" complete --result '\"mine\"' > /dev/null || exit 9";
    let environment = lab("- [ ] One\n- [ ] Two\n  depends: One\n", agent);
    let check = "[ $ABIDE_TASK != P1 ] || [ $(wc -l < begun) -ge 2 ]";
    let run = ["run", "--plan", "PLAN.md", "--jobs", "2", "--check", check, "--", "./agent"];
    environment.run(&run).success();
    assert_eq!(file(&environment, "begun"), "P1\nP1\nP2\n");
    assert_eq!(statuses(&environment), ["complete", "complete"]);
    environment.run(&["doctor", "--all"]).success();
}

/// The check kills the run that it belongs to, the first time.
const KILLS: &str = "echo c >> checked; [ -e killed ] || { touch killed; kill -9 $PPID; }";

#[test]
fn a_run_that_dies_in_a_check_goes_on_with_the_check() {
    let agents =
        ["echo done", "\"$abide\" tasks set \"$ABIDE_TASK\" complete > /dev/null || exit 9"];
    for agent in agents {
        let environment = lab(PLAN, agent);
        let run = ["run", "--plan", "PLAN.md", "--check", KILLS, "--", "./agent"];
        let status = environment.command(&run).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), None, "it was killed");
        assert_eq!(file(&environment, "begun"), "P1\n");
        let done = environment.run(&["resume", "--grace", "1s"]).success();
        assert_eq!(file(&environment, "begun"), "P1\nP2\n", "{agent}: {}", done.stderr);
        assert_eq!(file(&environment, "checked"), "c\nc\nc\n");
        assert_eq!(statuses(&environment), ["complete", "complete"]);
        let passed: Vec<_> = checks(&environment).iter().map(|c| c["ok"].clone()).collect();
        assert_eq!(passed, [Value::Bool(true), Value::Bool(true)]);
        environment.run(&["doctor", "--all"]).success();
    }
}

#[test]
fn the_last_task_is_checked_after_a_kill_though_its_agent_completed_it() {
    let environment =
        lab("- [ ] One\n", "\"$abide\" tasks set \"$ABIDE_TASK\" complete > /dev/null || exit 9");
    let check = format!("{KILLS}; [ -e well ]");
    let run = ["run", "--plan", "PLAN.md", "--check", &check, "--attempts", "1", "--", "./agent"];
    environment.command(&run).stderr(Stdio::null()).status().unwrap();
    assert_eq!(statuses(&environment), ["complete"], "as its agent says");
    environment.run(&["resume", "--grace", "1s"]).failure(1);
    assert_eq!(statuses(&environment), ["failed"]);
    fs::write(environment.project().join("well"), "").unwrap();
    environment.run(&["resume", "--retry-failed"]).success();
    assert_eq!(file(&environment, "begun"), "P1\nP1\n");
}

#[test]
fn attempts_are_counted_over_a_kill() {
    // The second attempt's agent kills the run; a fifth attempt would pass.
    let agent = "[ $(wc -l < begun) -ne 2 ] || { kill -9 $PPID; sleep 60; }";
    let environment = lab(PLAN, agent);
    let check = "echo c >> checked; [ $(wc -l < begun) -ge 5 ]";
    let run = ["run", "--plan", "PLAN.md", "--check", check, "--attempts", "2", "--", "./agent"];
    let status = environment.command(&run).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), None, "it was killed");
    let done = environment.run(&["resume", "--grace", "1s"]).failure(1);
    assert!(done.stderr.contains("P1 failed"), "{}", done.stderr);
    // One failed, one was killed, one failed.
    assert_eq!(file(&environment, "begun"), "P1\nP1\nP1\n");
    assert_eq!(file(&environment, "checked"), "c\nc\n");
    assert_eq!(statuses(&environment), ["failed", "planned"]);
}

#[test]
fn a_check_is_stopped_with_the_run_and_its_task_can_go_on() {
    let environment = lab(PLAN, "echo done");
    // It asks the run to stop, twice, once it has started something that leaves its group.
    let check = "[ -e quick ] || { setsid sh -c 'echo $$ > left; exec sleep 600' & until [ -s left ]; do sleep 0.01; done; kill -TERM $PPID; sleep 1; kill -TERM $PPID; sleep 600; }";
    let run = ["run", "--plan", "PLAN.md", "--check", check, "--grace", "1s", "--", "./agent"];
    let done = environment.run(&run).failure(4);
    assert!(done.stderr.contains("its check was stopped"), "{}", done.stderr);
    assert_eq!(statuses(&environment), ["planned", "planned"]);
    let left = file(&environment, "left");
    let left = fs::read(format!("/proc/{}/cmdline", left.trim())).unwrap_or_default();
    assert!(left.is_empty(), "what the check started is still there");
    fs::write(environment.project().join("quick"), "").unwrap();
    environment.run(&["resume"]).success();
    assert_eq!(file(&environment, "begun"), "P1\nP2\n");
}

#[test]
fn a_command_without_a_plan_has_a_check_too() {
    let environment = lab(PLAN, "");
    let check = "[ $(wc -l < begun) -ge 2 ]";
    environment.run(&["run", "--check", check, "--", "./agent"]).success();
    assert_eq!(file(&environment, "begun"), "T1\nT1\n");
}
