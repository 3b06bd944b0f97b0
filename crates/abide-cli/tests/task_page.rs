//! All that is known of one task, and the documents that are stored with it.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::environment::{ABIDE, TestEnvironment};

/// A project with a plan, run by an agent that fails once and writes down what it is told.
fn lab(plan: &str) -> TestEnvironment {
    let environment = TestEnvironment::new();
    fs::write(environment.project().join("PLAN.md"), plan).unwrap();
    environment
}

const AGENT: &str = "echo x >> begun; cat > \"told-$ABIDE_TASK-$(wc -l < begun | tr -d ' ')\"";

fn told(environment: &TestEnvironment, name: &str) -> String {
    fs::read_to_string(environment.project().join(name)).unwrap()
}

fn shown(environment: &TestEnvironment, task: &str) -> Value {
    environment.run(&["tasks", "show", task, "--json"]).success().json_lines().remove(0)
}

#[test]
fn a_task_is_shown_with_all_that_is_known_of_it() {
    let plan = "- [ ] One\n  priority: 3\n\n  At length.\n- [ ] Two\n  depends: One\n";
    let environment = lab(plan);
    let check = "[ $(wc -l < begun) -ge 2 ] || { echo 'missing: x'; exit 7; }";
    let run = ["run", "--plan", "PLAN.md", "--check", check, "--", "sh", "-c", AGENT];
    environment.run(&run).success();
    let one = shown(&environment, "P1");
    assert_eq!(
        (&one["status"], &one["attempts"], &one["failures"]),
        (&"complete".into(), &2.into(), &1.into())
    );
    assert_eq!(one["details_text"], "At length.");
    let tries = one["tries"].as_array().unwrap();
    let ends: Vec<_> = tries.iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(ends, ["failed", "complete"]);
    assert!(tries[0]["reason"].as_str().unwrap().contains("exit code 7: missing: x"), "{one}");
    assert!(tries.iter().all(|one| one["duration_ms"].is_u64()), "{one}");
    let worked: u64 = tries.iter().map(|one| one["duration_ms"].as_u64().unwrap()).sum();
    assert_eq!(one["worked_ms"], worked);
    assert_eq!(
        (&one["started_at"], &one["ended_at"]),
        (&tries[0]["started_at"], &tries[1]["ended_at"])
    );
    assert!(one["created_at"].as_str().unwrap() <= one["started_at"].as_str().unwrap());
    let checks: Vec<_> =
        one["checks"].as_array().unwrap().iter().map(|c| (&c["ok"], &c["exit"])).collect();
    assert_eq!(checks, [(&false.into(), &7.into()), (&true.into(), &0.into())]);
    assert_eq!(one["checks"][0]["command"], check);
    // The list has the same.
    let listed = environment.run(&["tasks", "--json"]).success().json_lines();
    assert_eq!(listed[0], one);
    assert_eq!(listed[1], shown(&environment, "P2"));
    let page = environment.run(&["tasks", "show", "P1"]).success();
    for line in [
        "P1 One\n",
        "  status        complete",
        "  priority      3\n",
        "  needed by     P2\n",
        "Details\n  At length.\n",
        "failed  the check failed: exit code 7: missing: x\n",
        "exit code 7  [ $(wc",
    ] {
        assert!(page.stdout().contains(line), "{line}: {}", page.stdout());
    }
    let two = environment.run(&["tasks", "show", "P2"]).success();
    assert!(two.stdout().contains("  depends on    P1 (complete)\n"), "{}", two.stdout());
    let unknown = environment.run(&["tasks", "show", "P9"]).failure(1);
    assert!(unknown.stderr.contains("P9"), "{}", unknown.stderr);
}

#[test]
fn the_time_in_which_nobody_ran_is_not_worked() {
    let environment = lab("- [ ] One\n");
    let agent = "[ -e killed ] || { touch killed; kill -9 $PPID; }";
    let run = ["run", "--plan", "PLAN.md", "--", "sh", "-c", agent];
    let status = environment.command(&run).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), None, "it was killed");
    environment.run(&["resume", "--grace", "1s"]).success();
    let events = environment.run(&["export"]).success().json_lines();
    let opened = events.iter().rposition(|event| event["kind"] == "writer.opened").unwrap();
    assert_ne!(events[opened - 1]["kind"], "writer.closed");
    assert!(events[opened - 1]["at"].as_str().unwrap() < events[opened]["at"].as_str().unwrap());
    let one = shown(&environment, "P1");
    let tries = one["tries"].as_array().unwrap();
    let ends: Vec<_> = tries.iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(ends, ["planned", "complete"]);
    assert_eq!(tries[0]["ended_at"], events[opened - 1]["at"], "its last sign of life");
    let worked: u64 = tries.iter().map(|one| one["duration_ms"].as_u64().unwrap()).sum();
    assert_eq!(one["worked_ms"], worked);
}

#[test]
fn a_try_whose_check_failed_is_not_shown_as_complete() {
    let environment = lab("- [ ] One\n");
    let agent = format!(
        "echo x >> begun; '{ABIDE}' tasks set \"$ABIDE_TASK\" complete > /dev/null || exit 9"
    );
    let check = "[ $(wc -l < begun) -ge 2 ] || { echo 'missing: x'; exit 7; }";
    let run = ["run", "--plan", "PLAN.md", "--check", check, "--", "sh", "-c", &agent];
    environment.run(&run).success();
    let one = shown(&environment, "P1");
    let tries = one["tries"].as_array().unwrap();
    let ends: Vec<_> = tries.iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(ends, ["failed", "complete"], "{one}");
    assert!(tries[0]["reason"].as_str().unwrap().contains("exit code 7: missing: x"), "{one}");
    let page = environment.run(&["tasks", "show", "P1"]).success();
    assert!(page.stdout().contains("failed  the check failed: exit code 7"), "{}", page.stdout());
}

#[test]
fn what_was_rewound_is_not_shown() {
    let environment = lab("- [ ] One\n");
    environment.run(&["run", "--plan", "PLAN.md", "--", "true"]).success();
    assert_eq!(shown(&environment, "P1")["tries"].as_array().unwrap().len(), 1);
    environment.run(&["rewind", "--to", "1", "--conversation", "--yes"]).success();
    let one = shown(&environment, "P1");
    assert_eq!((&one["status"], &one["tries"]), (&"planned".into(), &Value::Array(Vec::new())));
    assert_eq!((&one["started_at"], &one["worked_ms"]), (&Value::Null, &0.into()));
}

#[test]
fn a_document_is_stored_told_and_exported() {
    let environment = lab("- [ ] One\n- [ ] Two\n");
    let project = environment.project();
    fs::write(project.join("design.md"), "# Design\n\nAll of it.\n").unwrap();
    environment.run(&["tasks", "import", "PLAN.md"]).success();
    environment.run(&["tasks", "set", "P1", "--document", "https://example.org/spec"]).success();
    environment.run(&["tasks", "document", "P1", "design.md"]).success();
    // What is stored stays, whatever becomes of the file.
    fs::remove_file(project.join("design.md")).unwrap();
    let one = shown(&environment, "P1");
    assert_eq!(one["document_names"], serde_json::json!(["https://example.org/spec", "design.md"]));
    assert_eq!(one["document_texts"], serde_json::json!({"design.md": "# Design\n\nAll of it.\n"}));
    let printed = environment.run(&["tasks", "document", "P1"]).success();
    assert_eq!(printed.stdout(), "# Design\n\nAll of it.\n");
    let page = environment.run(&["tasks", "show", "P1"]).success();
    assert!(page.stdout().contains("design.md (stored, 21 bytes)"), "{}", page.stdout());
    environment.run(&["run", "--plan", "PLAN.md", "--", "sh", "-c", AGENT]).success();
    let prompt = told(&environment, "told-P1-1");
    assert!(prompt.contains("- https://example.org/spec\n- design.md\n"), "{prompt}");
    assert!(prompt.contains("\nDocument design.md:\n\n# Design\n\nAll of it.\n"), "{prompt}");
    assert!(!told(&environment, "told-P2-2").contains("Document"));
    // Each form that has a place for it brings it back.
    for (form, file) in [("json", "out.json"), ("toml", "out.toml"), ("prp", "prp.json")] {
        environment.run(&["tasks", "export", "--format", form, "-o", file]).success();
        let text = fs::read_to_string(project.join(file)).unwrap();
        assert!(text.contains("document_texts"), "{text}");
        let session =
            environment.run(&["tasks", "import", file]).success().stdout().trim().to_owned();
        let show = ["tasks", "document", "P1", "--session", &session, "--json"];
        let texts = environment.run(&show).success().json_lines().remove(0);
        assert_eq!(texts, serde_json::json!({"design.md": "# Design\n\nAll of it.\n"}), "{form}");
        environment.run(&["doctor", "--all"]).success();
    }
}

#[test]
fn a_stored_text_outlives_an_edit_of_the_plan() {
    let environment = lab("- [ ] One\n  document: design.md\n");
    let project = environment.project();
    fs::write(project.join("design.md"), "one\n").unwrap();
    environment.run(&["tasks", "import", "PLAN.md"]).success();
    environment.run(&["tasks", "document", "P1", "design.md"]).success();
    fs::write(project.join("PLAN.md"), "- [ ] One\n  document: design.md\n- [ ] Two\n").unwrap();
    let dry = environment.run(&["tasks", "import", "PLAN.md", "--dry-run"]).success();
    assert!(dry.stdout().contains("kept     planned     P1 One"), "{}", dry.stdout());
    environment.run(&["tasks", "import", "PLAN.md"]).success();
    assert_eq!(shown(&environment, "P1")["document_texts"]["design.md"], "one\n");
    // Another text replaces it.
    fs::write(project.join("design.md"), "two\n").unwrap();
    environment.run(&["tasks", "document", "P1", "design.md"]).success();
    assert_eq!(environment.run(&["tasks", "document", "P1"]).success().stdout(), "two\n");
}

#[test]
fn a_stored_document_stays_though_the_plan_does_not_name_it() {
    let plan = "- [ ] One\n- [ ] Two\n";
    let environment = lab(plan);
    let project = environment.project();
    fs::write(project.join("design.md"), "one\n").unwrap();
    environment.run(&["tasks", "import", "PLAN.md"]).success();
    environment.run(&["tasks", "document", "P1", "design.md"]).success();
    let run = ["run", "--plan", "PLAN.md", "--", "sh", "-c", AGENT];
    environment.run(&run).success();
    for (edits, more) in [(1, "- [ ] Three\n"), (2, "- [ ] Three\n- [ ] Four\n")] {
        fs::write(project.join("PLAN.md"), format!("{plan}{more}")).unwrap();
        environment.run(&run).success();
        let begun = fs::read_to_string(project.join("begun")).unwrap();
        assert_eq!(begun.lines().count(), 2 + edits, "only what is new was done");
        let one = shown(&environment, "P1");
        assert_eq!(one["status"], "complete", "{one}");
        assert_eq!(one["document_names"], serde_json::json!(["design.md"]));
        assert_eq!(one["document_texts"], serde_json::json!({"design.md": "one\n"}));
    }
    // It is put aside by hand.
    environment.run(&["tasks", "set", "P1", "--document", "other.md"]).success();
    assert_eq!(shown(&environment, "P1")["document_texts"], Value::Null);
}

#[test]
fn a_long_document_fits_into_an_argument() {
    let environment = lab("- [ ] One\n");
    let project = environment.project();
    // Three bytes each.
    fs::write(project.join("long.md"), "€".repeat(100_000)).unwrap();
    environment.run(&["tasks", "import", "PLAN.md"]).success();
    environment.run(&["tasks", "document", "P1", "long.md"]).success();
    let agent = ["sh", "-c", "printf %s \"$0\" > told", "{task}"];
    environment.run(&[&["run", "--plan", "PLAN.md", "--"], &agent[..]].concat()).success();
    let told = told(&environment, "told");
    assert!(told.contains(&"€".repeat(20_000)) && !told.contains(&"€".repeat(20_001)));
    assert!(told.contains("240000 bytes of the documents are left out"));
}

#[test]
fn what_is_no_document_is_refused() {
    let environment = lab("- [ ] One\n");
    let project = environment.project();
    environment.run(&["tasks", "import", "PLAN.md"]).success();
    let refused = |file: &str, why: &str| {
        let done = environment.run(&["tasks", "document", "P1", file]).failure(1);
        assert!(done.stderr.contains(why), "{}", done.stderr);
    };
    refused("none.md", "none.md");
    fs::write(project.join("bytes"), b"ab\xff\xfe").unwrap();
    refused("bytes", "bytes cannot be stored: it is not UTF-8 (at byte 2)");
    fs::write(project.join("zero"), b"abc\0").unwrap();
    refused("zero", "zero cannot be stored: it is not text (byte 3 is zero)");
    // Bytes are counted, not letters.
    fs::write(project.join("wide"), "é".repeat((1 << 19) + 1)).unwrap();
    refused("wide", "longer than 1048576 bytes");
    fs::write(project.join("long"), vec![b'x'; (1 << 20) + 1]).unwrap();
    refused("long", "longer than 1048576 bytes");
    refused(".", "not a regular file");
    fs::write(project.join("a.md"), "a").unwrap();
    let unknown = environment.run(&["tasks", "document", "P9", "a.md"]).failure(1);
    assert!(unknown.stderr.contains("P9"), "{}", unknown.stderr);
    environment.run(&["tasks", "document", "P9"]).failure(1);
    let none = environment.run(&["tasks", "document", "P1"]).success();
    assert!(none.stderr.contains("No document is stored"), "{}", none.stderr);
    let stray = r#"{"tasks":[{"title":"A","documents":["a"],"document_texts":{"b":"x"}}]}"#;
    fs::write(project.join("stray.json"), stray).unwrap();
    let stray = environment.run(&["tasks", "import", "stray.json"]).failure(1);
    let why = "$.tasks[0].document_texts: it must be limited to the names in `documents`";
    assert!(stray.stderr.contains(why), "{}", stray.stderr);
    let zero = r#"{"tasks":[{"title":"A","documents":["a"],"document_texts":{"a":"x\u0000"}}]}"#;
    fs::write(project.join("zero.json"), zero).unwrap();
    let zero = environment.run(&["tasks", "import", "zero.json"]).failure(1);
    let why = "$.tasks[0].document_texts: it must be text without zero bytes";
    assert!(zero.stderr.contains(why), "{}", zero.stderr);
}

#[test]
fn prose_is_no_plan() {
    let environment = lab("# Idea\n\nMake it faster. And nicer.\n");
    for more in [&["--dry-run"][..], &["--", "touch", "begun"]] {
        let run = [&["run", "--plan", "PLAN.md"], more].concat();
        let done = environment.run(&run).failure(1);
        assert!(done.stderr.contains("no task was found in "), "{}", done.stderr);
        assert!(done.stderr.contains("Hint: write each task as a checkbox"), "{}", done.stderr);
    }
    assert!(!environment.project().join("begun").exists());
    assert_eq!(environment.run(&["history", "--json"]).success().stdout().trim(), "[]");
    for (name, text) in [
        ("a.toml", "title = \"t\"\n"),
        ("a.json", "{\"tasks\":[]}"),
        ("b.json", "{\"backlog\":[]}"),
    ] {
        fs::write(environment.project().join(name), text).unwrap();
        let done = environment.run(&["run", "--plan", name, "--", "true"]).failure(1);
        assert!(done.stderr.contains("Hint: write each task as "), "{}", done.stderr);
    }
}

#[test]
fn the_known_fields_of_a_backlog_have_types() {
    let environment = TestEnvironment::new();
    let phase = |more: &str| {
        format!(
            r#"{{"backlog":[{{"type":"Phase","id":"P1","title":"A","status":"Planned",{more}}}]}}"#
        )
    };
    let subtask = |more: &str| {
        phase(&format!(
            r#""milestones":[{{"type":"Milestone","id":"P1.M1","title":"B","status":"Planned","tasks":[{{"type":"Task","id":"P1.M1.T1","title":"C","status":"Planned","subtasks":[{{"type":"Subtask","id":"P1.M1.T1.S1","title":"D","status":"Planned",{more}}}]}}]}}]"#
        ))
    };
    let place = "$.backlog[0].milestones[0].tasks[0].subtasks[0]";
    for (text, why) in [
        (phase(r#""description":["a"]"#), "$.backlog[0].description: it must be text".to_owned()),
        (phase(r#""milestones":{}"#), "$.backlog[0].milestones: it must be a list".to_owned()),
        (
            subtask(r#""story_points":"2""#),
            format!("{place}.story_points: it must be a number, zero or more"),
        ),
        (
            subtask(r#""story_points":-1"#),
            format!("{place}.story_points: it must be a number, zero or more"),
        ),
        (subtask(r#""context_scope":7"#), format!("{place}.context_scope: it must be text")),
        (
            subtask(r#""dependencies":"P1""#),
            format!("{place}.dependencies: it must be a list of task ids"),
        ),
    ] {
        fs::write(environment.project().join("tasks.json"), &text).unwrap();
        let done = environment.run(&["tasks", "import", "tasks.json"]).failure(1);
        assert!(done.stderr.contains(&why), "{why}: {}", done.stderr);
    }
    for fine in [
        r#""story_points":2"#,
        r#""story_points":0.5,"context_scope":null"#,
        r#""story_points":null"#,
    ] {
        fs::write(environment.project().join("tasks.json"), subtask(fine)).unwrap();
        environment.run(&["tasks", "import", "tasks.json", "--dry-run"]).success();
    }
}
