//! `abide state`: what the events add up to, part by part.

use serde_json::{Value, json};

use crate::environment::{Conversation, Done, TestEnvironment, run};
use crate::shared_commands::database;

/// A session in which everything happens once.
const STORY: &str = r#"{"kind":"task.created","data":{"task":"a","title":"Parse"}}
{"kind":"task.created","data":{"task":"b","title":"Print","depends":["a"],"dependency_types":{"a":"needs-result"}}}
{"kind":"task.status","data":{"task":"a","status":"implementing"}}
{"kind":"tool.called","data":{"call":"c1","name":"bash"}}
{"kind":"tool.finished","data":{"call":"c1","ok":false}}
{"kind":"tool.called","data":{"call":"c2","name":"bash"},"task":"a"}
{"kind":"file.touched","data":{"path":"src/lib.rs","op":"write"}}
{"kind":"file.touched","data":{"path":"README.md","op":"read"}}
{"kind":"api.finished","data":{"model":"m-1","usage":{"input_tokens":100,"output_tokens":20,"cost_micros":12345}}}
{"kind":"limit.observed","data":{"name":"requests","limit":50,"remaining":49}}
{"kind":"artifact.recorded","data":{"name":"unit","kind":"test","ok":false}}
{"kind":"artifact.recorded","data":{"name":"unit","kind":"test","ok":true}}
{"kind":"artifact.recorded","data":{"name":"binary","kind":"build"}}
{"kind":"dependencies.resolved","data":{"manager":"cargo","lockfile":"Cargo.lock","packages":{"serde":"1.0.0"}}}
{"kind":"git.observed","data":{"branch":"main","head":"0123456789abcdef","modified":["src/lib.rs"]}}
{"kind":"resources.sampled","data":{"processes":2,"rss_bytes":4096,"cpu_ms":5}}
{"kind":"log.recorded","data":{"level":"error","text":"out of \u001b[31mpaper"}}
"#;

struct StateLab {
    env: TestEnvironment,
    session: String,
}

impl StateLab {
    fn new() -> Self {
        let env = TestEnvironment::new();
        let session = env.run(&["new", "--title", "work"]).success().stdout().trim().to_owned();
        let lab = Self { env, session };
        lab.env.record_bytes(&["--session", &lab.session], STORY.as_bytes()).success();
        lab
    }

    fn state(&self, args: &[&str]) -> Done {
        self.env.run(&[&["state"], args].concat())
    }

    fn json(&self, args: &[&str]) -> Value {
        self.state(&[args, &["--json"]].concat()).success().json_lines().remove(0)
    }

    fn text(&self, args: &[&str]) -> String {
        self.state(args).success().stdout().to_owned()
    }
}

#[test]
fn every_part_is_told_in_brief() {
    let lab = StateLab::new();
    let text = lab.text(&[]);
    let without_id = text.split_once('\n').unwrap().1;
    insta::assert_snapshot!(without_id, @"
    Tasks         0 of 2 done, 1 active
    Calls         2 tool calls, 1 failed, 1 without a result
    Files         2 files: 1 write, 1 read
    Usage         100 tokens in, 20 out, $0.0123 (m-1)
    Artifacts     test unit: ok, just now; 1 more
    Dependencies  1 package in Cargo.lock
    Git           main at 0123456789ab: 1 modified
    Resources     2 processes, 4.0 kB of memory, 4.0 kB at most
    Health        pending, 1 logged errors
    ");
}

#[test]
fn a_part_is_listed_for_people_and_whole_for_programs() {
    let lab = StateLab::new();
    insta::assert_snapshot!(lab.text(&["tasks"]), @"
    [~] a Parse (implementing)
    [ ] b Print (planned, after a)
    0 of 2 done, 1 active
    ");
    let tasks = lab.json(&["tasks"]);
    assert_eq!(tasks["session"].as_str().map(|id| id.starts_with(&lab.session[..8])), Some(true));
    assert!(tasks["seq"].as_u64().unwrap() >= 17 && tasks["calls"].is_null(), "{tasks}");
    assert_eq!(tasks["tasks"]["active"], "a");
    assert_eq!(tasks["tasks"]["list"][1]["dependency_types"], json!({"a": "needs-result"}));
    assert_eq!(tasks["tasks"]["list"][1]["waits_for"], json!(["a"]));

    let calls = &lab.json(&["calls"])["calls"];
    assert_eq!(calls["tools"], json!({"bash": {"calls": 2, "finished": 1, "failed": 1}}));
    assert_eq!((&calls["open"][0]["call"], &calls["open"][0]["task"]), (&json!("c2"), &json!("a")));
    assert_eq!(calls["counts"]["tools"], 2);

    let files = &lab.json(&["files"])["files"];
    assert_eq!(files["counts"], json!({"read": 1, "write": 1}));
    assert_eq!(files["list"][0]["path"], "README.md", "the newest first: {files}");

    let usage = &lab.json(&["usage"])["usage"];
    assert_eq!(usage["models"]["m-1"]["input_tokens"], 100);
    assert_eq!(usage["limits"]["requests"]["remaining"], 49);

    let artifacts = &lab.json(&["artifacts"])["artifacts"];
    let names: Vec<_> =
        artifacts["list"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["unit", "binary"], "the newest test result first");
    assert_eq!(artifacts["list"][0]["ok"], true);

    let dependencies = &lab.json(&["dependencies"])["dependencies"];
    assert_eq!(dependencies["list"][0]["packages"], json!({"serde": "1.0.0"}));
    let git = &lab.json(&["git"])["git"];
    assert_eq!((&git["branch"], &git["modified"]), (&json!("main"), &json!(["src/lib.rs"])));
    assert_eq!(lab.json(&["resources"])["resources"]["peak_rss_bytes"], 4096);
    let health = &lab.json(&["health"])["health"];
    assert_eq!((&health["anomalies"], &health["rewinds"]), (&json!(0), &json!(0)));
    assert_eq!(health["last_error"]["text"], "out of \u{1b}[31mpaper");
    // What was recorded does not reach a terminal as it is.
    for part in [
        "tasks",
        "calls",
        "files",
        "usage",
        "artifacts",
        "dependencies",
        "git",
        "resources",
        "health",
    ] {
        let text = lab.text(&[part]);
        assert!(!text.is_empty() && !text.contains('\x1b'), "{part}: {text:?}");
        assert!(lab.json(&[])[part].is_object(), "{part}");
    }
}

#[test]
fn what_was_rewound_is_not_in_it() {
    let lab = StateLab::new();
    let last = lab.json(&["health"])["seq"].as_u64().unwrap();
    let touched = r#"{"kind":"file.touched","data":{"path":"gone.rs","op":"write"}}"#;
    let called = r#"{"kind":"tool.called","data":{"call":"c9","name":"gone"}}"#;
    lab.env.record(&["--session", &lab.session], &[touched, called]).success();
    assert_eq!(lab.json(&["calls"])["calls"]["tools"]["gone"]["calls"], 1);
    assert_eq!(lab.json(&["files"])["files"]["list"][0]["path"], "gone.rs");
    let back = format!("@{last}");
    lab.env
        .run(&["rewind", "-s", &lab.session, "--to", &back, "--conversation", "--yes"])
        .success();
    let report = lab.json(&[]);
    assert_eq!(report["health"]["rewinds"], 1);
    assert_eq!(report["files"]["list"][0]["path"], "README.md");
    assert!(report["calls"]["tools"]["gone"].is_null(), "{report}");
}

#[test]
fn it_is_read_while_another_process_writes() {
    let lab = StateLab::new();
    let mut writer = Conversation::start(lab.env.command(&["record", "--session", &lab.session]));
    for n in 0..3 {
        writer.ask(&format!(r#"{{"kind":"file.touched","data":{{"path":"f{n}","op":"write"}}}}"#));
        let files = &lab.json(&["files"])["files"];
        assert_eq!(files["list"][0]["path"], format!("f{n}"));
        assert_eq!(lab.json(&["health"])["health"]["writing"], true);
    }
    assert_eq!(writer.end(), 0);
}

#[test]
fn it_is_read_from_a_shared_store() {
    let Some((_, url)) = database() else { return };
    let env = TestEnvironment::bare();
    let abide = |args: &[&str], input: &str| {
        let mut command = env.command(args);
        command.env("ABIDE_STORE", &url);
        run(command, input.as_bytes()).success()
    };
    abide(&["store", "init"], "");
    abide(&["record"], STORY);
    let report = abide(&["state", "--json"], "").json_lines().remove(0);
    assert_eq!(report["tasks"]["active"], "a");
    assert_eq!(report["artifacts"]["list"][0]["name"], "unit");
    assert_eq!(report["calls"]["open"][0]["call"], "c2");
}

#[test]
fn the_session_and_the_part_come_in_any_order_and_wrong_words_are_named() {
    let lab = StateLab::new();
    let expected = lab.text(&["tasks"]);
    for args in [
        &[lab.session.as_str(), "tasks"][..],
        &["tasks", &lab.session],
        &["--session", &lab.session, "tasks"],
    ] {
        assert_eq!(lab.text(args), expected, "{args:?}");
    }
    let usage = |args: &[&str]| lab.state(args).failure(2).stderr;
    insta::assert_snapshot!(usage(&[&lab.session, "taks"]), @r#"
    Error: there is no part "taks" (parts: tasks, calls, files, usage, artifacts, dependencies, git, resources, health)
    Hint: see `abide state --help`
    "#);
    insta::assert_snapshot!(usage(&["tasks", "calls"]), @"
    Error: one part at a time: tasks and calls are named
    Hint: see `abide state --help`
    ");
    assert!(usage(&[&lab.session, "--session", &lab.session]).contains("named twice"));
    let unknown = lab.state(&["taks"]).failure(1).stderr;
    assert!(unknown.contains("if a part was meant, it is one of tasks, calls"), "{unknown}");
}

#[test]
fn an_empty_session_has_a_state() {
    let env = TestEnvironment::new();
    env.run(&["new"]).success();
    let text = env.run(&["state"]).success().stdout().to_owned();
    assert!(
        text.contains("Tasks         none\n") && text.contains("Git           not observed\n"),
        "{text}"
    );
    let report = env.run(&["state", "--json"]).success().json_lines().remove(0);
    assert_eq!(report["artifacts"], json!({"list": []}));
    assert_eq!(report["git"], json!({"seq": null, "at": null}));
}
