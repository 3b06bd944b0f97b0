//! A check decides whether a task is done.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::Value;

use crate::environment::{ABIDE, TestEnvironment};
use crate::lab::copy;
use crate::terminal::on_terminal;

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
    let environment = lab("- [ ] One\n- [ ] Two\n  depends: One\n", SETS);
    let check = "[ $ABIDE_TASK != P1 ] || [ $(wc -l < begun) -ge 2 ]";
    let run = ["run", "--plan", "PLAN.md", "--jobs", "2", "--check", check, "--", "./agent"];
    environment.run(&run).success();
    assert_eq!(file(&environment, "begun"), "P1\nP1\nP2\n");
    assert_eq!(statuses(&environment), ["complete", "complete"]);
    environment.run(&["doctor", "--all"]).success();
}

/// The check kills the run that it belongs to, the first time.
const KILLS: &str = "echo c >> checked; [ -e killed ] || { touch killed; kill -9 $PPID; }";

/// An agent that says itself that its task is complete, with a result.
const SETS: &str =
    "\"$abide\" tasks set \"$ABIDE_TASK\" complete --result '\"mine\"' > /dev/null || exit 9";

/// Runs a plan until the check kills the run.
fn killed_in_check(environment: &TestEnvironment, more: &[&str]) {
    let run = [&["run", "--plan", "PLAN.md"][..], more, &["--", "./agent"]].concat();
    let status = environment.command(&run).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), None, "it was killed");
    assert_eq!(file(environment, "begun"), "P1\n");
}

/// The results that tasks were given.
fn results(environment: &TestEnvironment) -> Vec<Value> {
    let events = environment.run(&["export"]).success().json_lines();
    let set = events.into_iter().filter(|event| event["kind"] == "task.status");
    set.map(|event| event["data"]["result"].clone()).filter(|result| !result.is_null()).collect()
}

#[test]
fn a_run_that_dies_in_a_check_goes_on_with_the_check() {
    for (agent, plan) in [("echo done", PLAN), (SETS, PLAN), (SETS, "- [ ] One\n")] {
        let environment = lab(plan, agent);
        killed_in_check(&environment, &["--check", KILLS]);
        let done = environment.run(&["resume", "--grace", "1s"]).success();
        let tasks = plan.lines().count();
        let begun = ["P1\n", "P2\n"][..tasks].concat();
        assert_eq!(file(&environment, "begun"), begun, "{agent}: {}", done.stderr);
        assert_eq!(file(&environment, "checked"), "c\n".repeat(tasks + 1));
        assert_eq!(statuses(&environment), vec!["complete"; tasks]);
        let passed: Vec<_> = checks(&environment).iter().map(|c| c["ok"].clone()).collect();
        assert_eq!(passed, vec![Value::Bool(true); tasks]);
        if agent == SETS {
            assert_eq!(results(&environment), vec![Value::from("mine"); tasks]);
        }
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
fn a_check_of_a_plan_is_still_accepted_after_a_kill() {
    // The check of a task of its own, and one that it has from the task it is a part of.
    let own = format!("- [ ] One\n  check: {KILLS}\n");
    let above = format!("- [ ] All\n  check: {KILLS}\n  - [ ] One\n");
    for plan in [own, above] {
        let environment = lab(&plan, SETS);
        let run = ["run", "--plan", "PLAN.md", "--yes", "--", "./agent"];
        let status = environment.command(&run).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), None, "it was killed");
        let done = environment.run(&["resume", "--grace", "1s"]).success();
        assert_eq!(file(&environment, "begun").lines().count(), 1, "{}", done.stderr);
        assert_eq!(file(&environment, "checked"), "c\nc\n", "{}", done.stderr);
        assert!(statuses(&environment).iter().all(|status| status == "complete"));
    }
}

#[test]
fn a_task_that_was_only_half_opened_again_is_checked() {
    for half in [&["obsolete"][..], &["obsolete", "planned"]] {
        let environment = lab("- [ ] One\n", SETS);
        killed_in_check(&environment, &["--check", KILLS]);
        // As much as reached the disk of a write that opens the task again.
        for &status in half {
            let reason = ["--reason", "its check has not passed"];
            environment.run(&[&["tasks", "set", "P1", status], &reason[..]].concat()).success();
        }
        environment.run(&["resume", "--grace", "1s"]).success();
        assert_eq!(file(&environment, "begun"), "P1\n");
        assert_eq!(file(&environment, "checked"), "c\nc\n");
        assert_eq!(statuses(&environment), ["complete"]);
    }
}

#[test]
fn a_recorded_check_of_somebody_else_is_not_run_unasked() {
    let environment = lab(PLAN, "echo done");
    let check = "echo c >> checked; exit 1";
    let run = ["run", "--check", check, "--attempts", "1", "--", "./agent"];
    environment.run(&run).failure(1);
    let history = environment.run(&["history", "--json"]).success();
    let rows: Value = serde_json::from_str(history.stdout()).unwrap();
    let id = rows[0]["id"].as_str().unwrap();
    let cloned = || {
        let clone = TestEnvironment::new();
        fs::remove_dir_all(clone.project()).unwrap();
        copy(&environment.project(), &clone.project());
        clone
    };
    let clones = [cloned(), cloned(), cloned()];
    let resume = |clone: &TestEnvironment, more: &[&str]| {
        let resume = ["resume", id, "--retry-failed"];
        clone.run(&[&resume[..], more, &["--", "./agent"]].concat())
    };
    let done = resume(&clones[0], &[]).success();
    assert!(done.stderr.contains("check      echo c >> checked; exit 1"), "{}", done.stderr);
    assert!(done.stderr.contains("the recorded check is left out"), "{}", done.stderr);
    assert_eq!(file(&environment, "checked"), "c\n", "it was not run");
    let done = resume(&clones[1], &["--check", "touch own"]).success();
    assert!(!done.stderr.contains("left out"), "{}", done.stderr);
    assert_eq!(file(&environment, "checked"), "c\n", "it was not run");
    assert!(environment.project().join("own").exists());
    resume(&clones[2], &["--yes"]).failure(1);
    assert_eq!(file(&environment, "checked"), "c\nc\n");
}

#[test]
fn an_interactive_run_whose_check_fails_has_failed() {
    let environment = lab(PLAN, "");
    fs::write(environment.project().join("agent"), "#!/bin/sh\necho a >> begun\n").unwrap();
    let Some(done) = on_terminal(&environment, "run --check \"echo no; exit 3\" -- ./agent") else {
        return;
    };
    let shown = String::from_utf8_lossy(&done.out).into_owned();
    assert!(shown.contains("The task failed: the check failed: exit code 3: no"), "{shown}");
    assert!(!shown.contains("cannot be started"), "{shown}");
    assert_eq!(file(&environment, "begun"), "a\n");
    assert_eq!(statuses(&environment), ["failed"]);
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
