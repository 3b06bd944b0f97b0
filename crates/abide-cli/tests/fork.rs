//! `abide fork`: another way from a place in the past.

use std::fs;

use serde_json::Value;

use crate::environment::{TestEnvironment, run};

const STORY: [&str; 7] = [
    r#"{"kind":"turn.started","data":{"agent":"coder"}}"#,
    r#"{"kind":"message.added","data":{"role":"user","content":"Paint it blue"}}"#,
    r#"{"kind":"checkpoint.created","data":{"label":"primed"}}"#,
    r#"{"kind":"turn.finished","data":{"status":"ok"}}"#,
    r#"{"kind":"turn.started","data":{"agent":"coder"}}"#,
    r#"{"kind":"message.added","data":{"role":"user","content":"No, red"}}"#,
    r#"{"kind":"turn.finished","data":{"status":"ok"}}"#,
];
const GREEN: &str = r#"{"kind":"message.added","data":{"role":"user","content":"Or green"}}"#;

fn recorded() -> (TestEnvironment, String) {
    let env = TestEnvironment::new();
    env.keep_transcripts();
    env.record(&["--key", "parent", "--title", "The fence"], &STORY).success();
    let rows = env.run(&["history", "--json"]).success();
    let rows: Value = serde_json::from_str(rows.stdout()).unwrap();
    let short = rows[0]["short"].as_str().unwrap().to_owned();
    (env, short)
}

fn forked(env: &TestEnvironment, args: &[&str]) -> Value {
    env.run(&[&["fork", "--json"], args].concat()).success().json_lines().remove(0)
}

#[test]
fn every_way_to_name_a_place_is_understood() {
    let (env, short) = recorded();
    for (place, seq) in [("@4", 4), ("turn:1", 6), ("1", 5), ("primed", 5), ("turn:2", 9)] {
        let fork = forked(&env, &["-s", &short, place]);
        assert_eq!(fork["at"], seq, "{place}");
    }
    let unknown = env.run(&["fork", "-s", &short, "--at", "primed2"]).failure(1);
    assert!(
        unknown
            .stderr
            .contains("has no checkpoint \"primed2\"; the nearest checkpoints are 1 (primed)"),
        "{unknown:?}"
    );
    let unknown = env.run(&["fork", "-s", &short, "turn:7"]).failure(1);
    assert!(unknown.stderr.contains("the nearest turns are turn:2, turn:1"), "{unknown:?}");
    let unknown = env.run(&["fork", "-s", &short, "@77"]).failure(1);
    assert!(unknown.stderr.contains("its events are @1 to @10"), "{unknown:?}");
}

#[test]
fn a_fork_shows_its_past_and_goes_its_own_way() {
    let (env, short) = recorded();
    let done = env.run(&["fork", "turn:1", "-s", &short, "--title", "Green"]).success();
    let fork = done.stdout().trim().to_owned();
    assert!(done.stderr.contains(&format!("Forked from {short} at @6.")), "{done:?}");
    env.record(&["--session", &fork], &[GREEN]).success();
    let shown = env.run(&["show", &fork]).success();
    let shown = shown.stdout();
    assert!(shown.starts_with("Green\n"), "{shown}");
    assert!(shown.contains(&format!("Forked from {short} at @6\n")), "{shown}");
    assert!(shown.contains("Paint it blue") && shown.contains("Or green"), "{shown}");
    assert!(!shown.contains("No, red"), "{shown}");
    let parent = env.run(&["show", &short]).success();
    assert!(!parent.stdout().contains("Or green") && parent.stdout().contains("No, red"));
    // What is written as JSON holds the past too.
    let lines = env.run(&["export", &fork, "--format", "jsonl"]).success().json_lines();
    let seqs: Vec<u64> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=10).collect::<Vec<u64>>());
    // The transcript has the fork's own events, and says where they go on from.
    let dirs = fs::read_dir(env.project().join(".abide/sessions")).unwrap();
    let dir =
        dirs.map(|dir| dir.unwrap().path()).find(|dir| dir.to_string_lossy().ends_with(&fork));
    let transcript = fs::read_to_string(dir.unwrap().join("transcript.task")).unwrap();
    assert!(transcript.contains(" at @6\n") && transcript.contains("\nParent: "), "{transcript}");
    assert!(transcript.contains("Or green") && !transcript.contains("Paint it blue"));
    // What was said in the past is found under the parent, once.
    let rows = |args: &[&str]| -> Vec<Value> {
        let done = env.run(&[&["history", "--json"], args].concat()).success();
        serde_json::from_str(done.stdout()).unwrap()
    };
    let found = rows(&["--search", "blue"]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["short"], *short);
    let row = &rows(&["--search", "green"])[0];
    assert_eq!((&row["title"], &row["parent"]["seq"]), (&"Green".into(), &6.into()));
    let doctor = env.run(&["doctor"]).success();
    assert!(doctor.stdout().ends_with("no findings\n"), "{doctor:?}");
}

#[test]
fn a_fork_travels_behind_its_parent() {
    let (env, short) = recorded();
    let fork = forked(&env, &["-s", &short, "--at", "@6", "--key", "mine"]);
    let fork_short = fork["short"].as_str().unwrap();
    assert_eq!(forked(&env, &["-s", &short, "--key", "mine"])["session"], fork["session"]);
    let told = env.run(&["export", fork_short, "--format", "bundle", "-o", "f.abide"]).success();
    assert!(told.stderr.contains("It continues from event @6 of session"), "{told:?}");
    env.run(&["export", &short, "--format", "bundle", "-o", "p.abide"]).success();
    let there = |args: &[&str]| env.run(&[args, &["--store", "../there"]].concat());
    there(&["init"]);
    let refused = there(&["import", "f.abide"]).failure(1);
    let parent = fork["parent"].as_str().unwrap();
    assert!(refused.stderr.contains(&format!("import session {parent} first")), "{refused:?}");
    there(&["import", "p.abide"]).success();
    there(&["import", "f.abide"]).success();
    assert_eq!(
        there(&["export", fork_short, "--format", "jsonl"]).success().out,
        env.run(&["export", fork_short, "--format", "jsonl"]).success().out
    );
    assert!(there(&["doctor"]).success().stdout().ends_with("no findings\n"));
    // It goes on there and comes home.
    let more = run(
        env.command(&["record", "--session", fork_short, "--store", "../there"]),
        GREEN.as_bytes(),
    );
    more.success();
    there(&["export", fork_short, "--format", "bundle", "-o", "g.abide"]).success();
    let home = env.run(&["import", "g.abide"]).success();
    assert!(home.stdout().contains("from event 7 to 10"), "{home:?}");
    assert!(env.run(&["show", fork_short]).success().stdout().contains("Or green"));
}

#[test]
fn without_its_parent_a_fork_is_read_and_the_loss_is_told() {
    let (env, short) = recorded();
    let dir = env.session_dir();
    let fork = forked(&env, &["-s", &short, "@6"]);
    let fork = fork["short"].as_str().unwrap();
    env.record(&["--session", fork], &[GREEN]).success();
    fs::remove_dir_all(dir).unwrap();
    let shown = env.run(&["show", fork]).success();
    assert!(shown.stdout().contains("Or green"), "{shown:?}");
    assert!(
        shown.stderr.contains("which is not in this store (events 1 to 6 are lost)"),
        "{shown:?}"
    );
    let doctor = env.run(&["doctor"]).failure(1);
    assert!(doctor.stdout().contains("missing-parent"), "{doctor:?}");
    // With a snapshot of its own it can be written on; without one it cannot.
    env.record(&["--session", fork], &[GREEN]).success();
    fs::remove_dir_all(env.session_dir().join("state")).unwrap();
    let refused = env.record(&["--session", fork], &[GREEN]).failure(1);
    assert!(refused.stderr.contains("was forked from session"), "{refused:?}");
}

#[test]
fn a_repair_of_the_parent_leaves_nothing_to_be_said_of_its_forks() {
    let (env, short) = recorded();
    let fork = forked(&env, &["-s", &short, "@4"]);
    let fork = fork["short"].as_str().unwrap();
    env.record(&["--session", fork], &[GREEN]).success();
    let dirs = fs::read_dir(env.project().join(".abide/sessions")).unwrap();
    let dir =
        dirs.map(|dir| dir.unwrap().path()).find(|dir| dir.to_string_lossy().ends_with(&short));
    let segment = dir.unwrap().join("journal/00000001.jsonl");
    let text = fs::read_to_string(&segment).unwrap();
    fs::write(&segment, text.replace("Paint it blue", "Paint it blux")).unwrap();
    let found = env.run(&["doctor"]).failure(1);
    assert!(found.stdout().contains("fork-chain"), "{found:?}");
    for _ in 0..2 {
        let done = env.run(&["doctor", "--repair", "--yes"]).success();
        assert!(done.stdout().ends_with("no findings\n"), "{done:?}");
        assert!(env.run(&["doctor"]).success().stdout().ends_with("no findings\n"));
        env.run(&["undo", "--repair", "-s", &short, "-y"]).success();
        env.run(&["doctor"]).failure(1);
    }
    env.run(&["doctor", "--repair", "--yes"]).success();
    assert!(env.run(&["show", fork]).success().stdout().contains("Paint it blue"));
}
