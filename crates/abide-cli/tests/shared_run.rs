//! A run in a shared store, whose agent writes through the process that holds the session.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use abide_testkit::PrivatePostgres;
use serde_json::Value;

use crate::environment::{ABIDE, Done, TestEnvironment, run};

/// A project whose sessions are in a store on a server.
struct Shared {
    environment: TestEnvironment,
    url: String,
}

impl Shared {
    /// `None` where there is no server, which is said.
    fn new(agent: &str) -> Option<Self> {
        let url = PrivatePostgres::shared()?.create_database();
        let environment = TestEnvironment::bare();
        let project = environment.project();
        fs::write(project.join("PLAN.md"), "- [ ] One\n- [ ] Two\n").unwrap();
        let agent = format!("#!/bin/sh\ncat > /dev/null\nabide='{ABIDE}'\n{agent}\n");
        fs::write(project.join("agent"), agent).unwrap();
        fs::set_permissions(project.join("agent"), fs::Permissions::from_mode(0o755)).unwrap();
        abide::SharedStore::init(&url, None).unwrap();
        Some(Self { environment, url })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.environment.command(args);
        command.env("ABIDE_STORE", &self.url);
        command
    }

    fn run(&self, args: &[&str]) -> Done {
        run(self.command(args), b"")
    }

    /// The events of the only session, whose places have no gap.
    fn events(&self) -> Vec<Value> {
        let events = self.run(&["export"]).success().json_lines();
        for (event, seq) in events.iter().zip(1..) {
            assert_eq!(event["seq"], seq);
        }
        events
    }
}

fn notes(events: &[Value]) -> Vec<(&str, &Value)> {
    let notes = events.iter().filter(|event| event["kind"] == "x.note");
    notes.map(|event| (event["task"].as_str().unwrap(), &event["data"]["n"])).collect()
}

const NOTE: &str = r#"note() { echo "{\"kind\":\"x.note\",\"data\":{\"n\":$1}}" | "$abide" record > /dev/null || exit 9; }"#;

#[test]
fn an_agent_records_into_the_session_of_its_run() {
    let agent = format!(
        "{NOTE}\nnote 1\nnote 2\n\"$abide\" tasks set \"$ABIDE_TASK\" complete > /dev/null || exit 8\nnote 3"
    );
    let Some(shared) = Shared::new(&agent) else { return };
    let done = shared.run(&["run", "--plan", "PLAN.md", "--", "./agent"]).success();
    assert!(!done.stderr.contains("cannot record"), "{}", done.stderr);
    let events = shared.events();
    let expected = ["P1", "P2"].map(|task| [1, 2, 3].map(|n| (task, n)));
    let expected: Vec<_> = expected.into_iter().flatten().collect();
    let notes = notes(&events);
    let told: Vec<_> = notes.iter().map(|(task, n)| (*task, n.as_i64().unwrap())).collect();
    assert_eq!(told, expected);
    let opened = events.iter().filter(|event| event["kind"] == "writer.opened").count();
    assert_eq!(opened, 2, "for the plan and for the run, and by nobody else");
}

#[test]
fn a_run_that_was_killed_is_resumed_and_its_agent_records_again() {
    let agent = format!("{NOTE}\nnote 1\n[ -e up ] || {{ touch up; sleep 600; }}\nnote 2");
    let Some(shared) = Shared::new(&agent) else { return };
    let mut killed = shared
        .command(&["run", "--plan", "PLAN.md", "--", "./agent"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !shared.environment.project().join("up").exists() {
        assert!(killed.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    shared.run(&["resume", "--grace", "1s"]).success();
    let events = shared.events();
    let told: Vec<_> =
        notes(&events).iter().map(|(task, n)| (*task, n.as_i64().unwrap())).collect();
    assert_eq!(told, [("P1", 1), ("P1", 1), ("P1", 2), ("P2", 1), ("P2", 2)]);
    let tasks = shared.run(&["tasks", "--json"]).success().json_lines();
    assert!(tasks.iter().all(|task| task["status"] == "complete"), "{tasks:?}");
}
