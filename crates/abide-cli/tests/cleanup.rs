//! `abide cleanup` and `abide status --disk`.

use std::fs;
use std::path::Path;

use crate::environment::{HELLO, TestEnvironment, files};

/// A session of 2025.
const GOLDEN: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../abide-local/tests/golden/v1/session.abide");

fn made(env: &TestEnvironment, titles: &[&str]) {
    for title in titles {
        env.record(&["--title", title], &[HELLO]).success();
    }
}

fn sessions(env: &TestEnvironment) -> usize {
    let entries = fs::read_dir(env.project().join(".abide/sessions")).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().file_name() != ".git").count()
}

fn configure(env: &TestEnvironment, retention: &str) {
    let path = env.project().join(".abide/config.toml");
    let config = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{config}\n[retention]\n{retention}\n")).unwrap();
}

#[test]
fn a_cleanup_shows_its_plan_asks_and_says_what_it_removed() {
    let env = TestEnvironment::new();
    made(&env, &["one", "two", "three"]);
    env.run(&["history"]).success();
    let none = env.run(&["cleanup"]).success();
    assert!(none.stdout().contains("nothing to clean up"), "{none:?}");
    assert!(none.stderr.contains("No limit is set"), "{none:?}");
    let before = files(&env.project().join(".abide/sessions"));
    let plan = env.run(&["cleanup", "--keep", "2", "--dry-run"]).success();
    assert!(
        plan.stdout().contains("remove session") && plan.stdout().contains("\"one\""),
        "{plan:?}"
    );
    assert!(plan.stdout().contains("over max_count"), "{plan:?}");
    let asked = env.run(&["cleanup", "--keep", "2"]).failure(1);
    assert!(asked.stderr.contains("no terminal to ask on"), "{asked:?}");
    assert_eq!(files(&env.project().join(".abide/sessions")), before);

    let done = env.run(&["cleanup", "--keep", "2", "--yes"]).success();
    assert!(done.stdout().contains("Removed 1 session"), "{done:?}");
    assert_eq!(sessions(&env), 2);
    assert_eq!(files(&env.project().join(".abide/removed")), []);
    let history = env.run(&["history", "--json"]).success();
    assert!(!history.stdout().contains("\"one\""), "{history:?}");
    assert!(history.stdout().contains("\"two\""), "{history:?}");
    env.run(&["doctor"]).success();
}

#[test]
fn large_payloads_of_a_removed_session_are_collected_and_shared_ones_stay() {
    let env = TestEnvironment::new();
    let event = |text: &str| {
        format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{text}"}}}}"#)
    };
    let (shared, own) = (event(&"shared ".repeat(20_000)), event(&"own ".repeat(40_000)));
    env.record(&[], &[&own, &shared]).success();
    env.record(&[], &[&shared]).success();
    // Old enough to be collected.
    for (path, _) in files(&env.project().join(".abide/objects")) {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
    let done = env.run(&["cleanup", "--keep", "1", "--yes", "--json"]).success();
    let report = &done.json_lines()[0];
    assert_eq!(report["sessions"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(report["objects"], 1, "{report}");
    let clean = env.run(&["doctor"]).success();
    assert!(clean.stdout().contains("no findings"), "{clean:?}");
}

#[test]
fn a_damaged_session_stays_and_nothing_is_collected() {
    let env = TestEnvironment::new();
    made(&env, &["one", "two"]);
    let mut journals = files(&env.project().join(".abide/sessions"));
    journals.retain(|(path, bytes)| {
        path.to_string_lossy().ends_with(".jsonl")
            && memchr::memmem::find(bytes, b"\"title\":\"one\"").is_some()
    });
    let (path, bytes) = &journals[0];
    let mut bytes = bytes.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
    let done = env.run(&["cleanup", "--keep", "1", "--yes"]).success();
    assert_eq!(sessions(&env), 2, "{done:?}");
    assert!(done.stdout().contains("in use or damaged"), "{done:?}");
    assert!(done.stderr.contains("cannot be read completely"), "{done:?}");
}

#[test]
fn recording_cleans_up_once_a_day_and_keeps_what_it_is_about() {
    let env = TestEnvironment::new();
    made(&env, &["one", "two", "three"]);
    configure(&env, "max_count = 2\nmin_keep = 0");
    let done = env.record(&["--title", "four"], &[HELLO]).success();
    assert!(done.stderr.contains("Removed 2 sessions"), "{done:?}");
    assert!(done.stderr.contains("Removed \"one\" "), "{done:?}");
    assert!(done.stderr.contains(": over max_count"), "{done:?}");
    assert_eq!(sessions(&env), 2);
    // Not again before tomorrow.
    made(&env, &["five", "six"]);
    assert_eq!(sessions(&env), 4);
    fs::remove_file(env.project().join(".abide/cleaned")).unwrap();
    let history = env.run(&["history", "--json"]).success();
    let history: Vec<serde_json::Value> = serde_json::from_str(history.stdout()).unwrap();
    let oldest = history.iter().map(|line| line["id"].as_str().unwrap()).min().unwrap();
    env.record(&["--session", oldest], &[HELLO]).success();
    assert_eq!(sessions(&env), 2);
    assert!(env.run(&["history", "--json"]).stdout().contains(oldest));
}

#[test]
fn a_clock_that_jumped_removes_nothing_without_a_word() {
    let env = TestEnvironment::new();
    made(&env, &["one"]);
    // A session that has been at rest for long.
    env.run(&["import", GOLDEN]).success();
    configure(&env, "max_age = \"1h\"\nmin_keep = 0");
    fs::write(env.project().join(".abide/cleaned"), "cleaned 2020-01-01T00:00:00.000Z\n").unwrap();
    let warned = env.record(&["--title", "three"], &[HELLO]).success();
    assert!(warned.stderr.contains("it may have jumped"), "{warned:?}");
    assert_eq!(sessions(&env), 3);
    // Said once a day, and still in doubt.
    let quiet = env.record(&["--title", "four"], &[HELLO]).success();
    assert!(!quiet.stderr.contains("jumped"), "{quiet:?}");
    assert_eq!(sessions(&env), 4);
    let asked = env.run(&["cleanup"]).failure(1);
    assert!(asked.stderr.contains("2020-01-01"), "{asked:?}");
    assert_eq!(sessions(&env), 4);
    let refused = env.run(&["cleanup", "--yes"]).failure(1);
    assert!(refused.stderr.contains("Error: the clock says 20"), "{refused:?}");
    assert!(refused.stderr.contains("2020-01-01T00:00:00.000Z"), "{refused:?}");
    assert!(refused.stderr.contains("--trust-clock"), "{refused:?}");
    // Where nothing would go, the time is in doubt all the same.
    env.run(&["cleanup", "--older-than", "9999w", "--yes"]).failure(1);
    env.run(&["cleanup", "--trust-clock"]).failure(1);
    assert_eq!(sessions(&env), 4);
    env.run(&["cleanup", "--yes", "--trust-clock"]).success();
    assert_eq!(sessions(&env), 3, "all but the old one are there");
    env.run(&["cleanup", "--yes"]).success();
}

#[test]
fn what_is_not_shown_is_not_asked_for() {
    let env = TestEnvironment::new();
    made(&env, &["one", "two"]);
    for args in [&["cleanup", "--keep", "1", "--json"][..], &["erase", "@3", "--json"]] {
        let before = files(&env.project().join(".abide/sessions"));
        let refused = env.run(args).failure(2);
        assert!(refused.stderr.contains("`--json` shows no plan"), "{refused:?}");
        assert_eq!(files(&env.project().join(".abide/sessions")), before);
        let plan = env.run(&[args, &["--dry-run"]].concat()).success();
        assert_eq!(plan.json_lines().len(), 1);
        assert_eq!(files(&env.project().join(".abide/sessions")), before);
        env.run(&[args, &["--yes"]].concat()).success();
        assert_ne!(files(&env.project().join(".abide/sessions")), before);
    }
}

#[test]
fn nonsense_in_the_settings_is_refused() {
    let env = TestEnvironment::new();
    made(&env, &["one"]);
    configure(&env, "max_age = \"soon\"");
    let refused = env.run(&["history"]).failure(1);
    assert!(refused.stderr.contains("invalid duration `soon`"), "{refused:?}");
    let usage = env.run(&["cleanup", "--older-than", "30"]).failure(2);
    assert!(usage.stderr.contains("examples: 30d"), "{usage:?}");
}

#[test]
fn status_tells_where_the_space_went() {
    let env = TestEnvironment::new();
    env.keep_transcripts();
    made(&env, &["small"]);
    let long = format!(r#"{{"kind":"x.long","data":{{"text":"{}"}}}}"#, "x".repeat(60_000));
    env.record(&["--title", "large"], &[&long, &long]).success();
    env.run(&["history"]).success();
    let line = env.run(&["status"]).success();
    assert!(line.stdout().contains(": 2 sessions\n"), "{line:?}");
    assert!(!line.stdout().contains("journals"), "{line:?}");
    let disk = env.run(&["status", "--disk"]).success();
    let text = disk.stdout();
    assert!(text.contains(": 2 sessions, "), "{text}");
    for word in ["journals", "transcripts", "index", "the largest sessions"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(text.find("large").unwrap() < text.find("small").unwrap(), "{text}");
    let report = env.run(&["status", "--disk", "--json"]).success();
    let report = &report.json_lines()[0];
    let store = env.project().join(".abide");
    let all: u64 = files(&store).iter().map(|(_, bytes)| bytes.len() as u64).sum();
    assert_eq!(report["bytes"], all, "{report}");
    assert_eq!(report["disk"]["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn a_pipe_leaves_compressed_segments_and_no_transcript() {
    let env = TestEnvironment::new();
    let line = |n: usize| {
        let text = format!("message {n}: {}", "words of all kinds, ".repeat(n % 50));
        format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{text}"}}}}"#)
    };
    let lines: Vec<String> = (0..12_000).map(line).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    env.record(&["--key", "pipe"], &lines).success();
    let names = |dir: &Path| -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let dir = env.session_dir();
    let segments = names(&dir.join("journal"));
    assert!(
        segments.len() > 1 && segments.iter().filter(|name| name.ends_with(".jsonl")).count() <= 1
    );
    assert!(!names(&dir).contains(&"transcript.task".to_owned()));
    env.run(&["doctor"]).success();
    let before = env.run(&["export"]).success().stdout().lines().count();
    assert_eq!(before, 12_003);
    // What is left plain goes when nobody has written for a day.
    for name in &segments {
        let file = fs::File::options().write(true).open(dir.join("journal").join(name)).unwrap();
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 86_400);
        file.set_modified(old).unwrap();
    }
    let plan = env.run(&["cleanup", "--dry-run", "--json"]).success().json_lines().remove(0);
    let unsealed = plan["unsealed_segments"].as_u64().unwrap();
    let done = env.run(&["cleanup", "--yes", "--json"]).success().json_lines().remove(0);
    assert_eq!(done["sealed_segments"], unsealed, "{done}");
    assert!(names(&dir.join("journal")).iter().all(|name| name.ends_with(".zst")));
    env.record(&["--key", "pipe"], &lines[..1]).success();
    assert_eq!(env.run(&["export"]).success().stdout().lines().count(), before + 3);
    env.run(&["doctor"]).success();
}
