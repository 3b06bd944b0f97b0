//! `abide import` of the sessions that agents keep, as a person types it: found, imported, searched,
//! given back, gone on with; and killed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use abide_testkit::{FaultRun, Random};
use serde_json::Value;

use crate::environment::{TestEnvironment, run};

const ID: &str = "11111111-2222-4333-8444-555555555555";

/// A session file with so many prompts, each with an answer.
fn session_text(id: &str, directory: &Path, prompts: usize) -> String {
    let directory = directory.display();
    let mut text = String::new();
    let mut parent = "null".to_owned();
    for number in 0..prompts {
        let head = format!(
            r#""isSidechain":false,"userType":"external","cwd":"{directory}","sessionId":"{id}","version":"2.1","gitBranch":"main""#
        );
        text.push_str(&format!(
            "{{\"parentUuid\":{parent},{head},\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"prompt {number} of the walrus\"}},\"uuid\":\"u{number}\",\"timestamp\":\"2026-01-02T03:04:05.000Z\"}}\n"
        ));
        text.push_str(&format!(
            "{{\"parentUuid\":\"u{number}\",{head},\"message\":{{\"id\":\"m{number}\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m-1\",\"content\":[{{\"type\":\"text\",\"text\":\"answer {number}\"}}],\"usage\":{{\"input_tokens\":1,\"output_tokens\":2}}}},\"type\":\"assistant\",\"uuid\":\"a{number}\",\"timestamp\":\"2026-01-02T03:04:06.000Z\"}}\n"
        ));
        parent = format!("\"a{number}\"");
    }
    text
}

fn session_file(env: &TestEnvironment, id: &str) -> PathBuf {
    env.path("home/.claude/projects/-p").join(format!("{id}.jsonl"))
}

/// Writes a session of the agent, in the project.
fn write_session(env: &TestEnvironment, id: &str, prompts: usize) -> String {
    let path = session_file(env, id);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = session_text(id, &env.project(), prompts);
    fs::write(path, &text).unwrap();
    text
}

#[test]
fn what_agents_keep_is_found_imported_searched_and_given_back() {
    let env = TestEnvironment::bare();
    let none = env.run(&["import"]).success();
    assert_eq!(none.stdout(), "No sessions of agents were found\n");
    let text = write_session(&env, ID, 2);
    let planned = env.run(&["import", "--dry-run"]).success();
    assert!(
        planned.stdout().starts_with("claude     1 session: 1 new, would read "),
        "{planned:?}"
    );
    assert!(env.run(&["ls", "-A"]).success().stdout().is_empty(), "nothing was imported");
    let imported = env.run(&["import"]).success();
    assert!(imported.stdout().contains("1 session: 1 new, read "), "{imported:?}");
    assert!(imported.stdout().contains(", 4 records"), "{imported:?}");
    assert_eq!(env.run(&["import"]).success().stdout(), "claude     1 session: 1 unchanged\n");
    let listed = env.run(&["ls", "--json"]).success();
    let listed: Value = serde_json::from_str(listed.stdout()).unwrap();
    assert_eq!(listed[0]["name"], "prompt 0 of the walrus", "{listed}");
    assert_eq!(listed[0]["state"], "idle");
    let found = env.run(&["search", "walrus", "--json"]).success();
    assert!(found.stdout().contains("prompt 1"), "{found:?}");
    let key = format!("claude/{ID}");
    let shown = env.run(&["show", &key]).success();
    assert!(shown.stdout().contains("answer 1"), "{shown:?}");
    let context = env.run(&["context", "-s", &key, "--format", "anthropic"]).success();
    assert!(!context.stdout().contains("parentUuid"), "{context:?}");
    assert!(context.stdout().contains("answer 0"), "{context:?}");
    let back = env.run(&["export", &key, "--format", "source"]).success();
    assert_eq!(back.stdout(), text);
    let other = env.record(&["--title", "x"], &[crate::environment::HELLO]).success();
    let other = other.json_lines()[0]["session"].as_str().unwrap().to_owned();
    let refused = env.run(&["export", &other, "--format", "source"]).failure(1);
    assert!(refused.stderr.contains("was not imported"), "{refused:?}");
}

#[test]
fn secrets_in_what_is_imported_become_marks() {
    let env = TestEnvironment::bare();
    let text = write_session(&env, ID, 1);
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let text = text.replace("answer 0", &format!("the token is {secret}"));
    fs::write(session_file(&env, ID), &text).unwrap();
    env.run(&["import"]).success();
    let key = format!("claude/{ID}");
    let back = env.run(&["export", &key, "--format", "source"]).success();
    assert!(!back.stdout().contains(&secret), "{back:?}");
    assert!(back.stdout().contains("‹redacted:"), "{back:?}");
    let marked = back.stdout().split("the token is ").nth(1).unwrap();
    let rest = text.split(&secret).nth(1).unwrap();
    assert!(marked.ends_with(rest), "everything else is as it was");
}

#[test]
fn only_what_is_asked_for_is_imported() {
    let env = TestEnvironment::bare();
    write_session(&env, ID, 1);
    let elsewhere = "99999999-2222-4333-8444-555555555555";
    let path = session_file(&env, elsewhere);
    fs::write(&path, session_text(elsewhere, Path::new("/elsewhere"), 1)).unwrap();
    let count = |args: &[&str]| {
        let report = env.run(&[&["import", "--dry-run", "--json"], args].concat()).success();
        let report = report.json_lines().remove(0);
        report["agents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["sessions"].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(count(&[]), 2);
    assert_eq!(count(&["--project"]), 1);
    assert_eq!(count(&["--since", "1d"]), 2);
    assert_eq!(count(&["codex"]), 0);
    assert_eq!(count(&["claude"]), 2);
    assert_eq!(count(&[path.to_str().unwrap()]), 1);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(40 * 86_400);
    fs::OpenOptions::new().append(true).open(&path).unwrap().set_modified(old).unwrap();
    assert_eq!(count(&["--since", "30d"]), 1);
    let mixed = env.run(&["import", "claude", "x.abide"]).failure(2);
    assert!(mixed.stderr.contains("two commands"), "{mixed:?}");
    env.run(&["import", "nothing.abide"]).failure(1);
}

#[test]
fn an_imported_session_goes_on_in_its_agent() {
    let env = TestEnvironment::bare();
    write_session(&env, ID, 1);
    env.run(&["import"]).success();
    let key = format!("claude/{ID}");
    // The agent adds to its file what its session would have: one prompt more.
    let file = session_file(&env, ID);
    let line = session_text(ID, &env.project(), 2).lines().nth(2).unwrap().to_owned();
    let programs = env.path("programs");
    fs::create_dir_all(&programs).unwrap();
    let script = format!(
        "#!/bin/sh\necho \"$@\" > args\npwd > directory\ncat >> '{}' <<'END'\n{line}\nEND\n",
        file.display()
    );
    fs::write(programs.join("claude"), script).unwrap();
    fs::set_permissions(programs.join("claude"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let resume = |args: &[&str]| {
        let mut command = env.command(&[&["resume", &key], args].concat());
        command.env("PATH", &path);
        run(command, b"")
    };
    let asked = resume(&[]).failure(1);
    assert!(asked.stderr.contains("no terminal to ask on"), "{asked:?}");
    let done = resume(&["--yes"]).success();
    assert!(done.stderr.contains(&format!("command    claude --resume {ID}")), "{done:?}");
    assert!(done.stderr.contains("Imported 1 new record of claude"), "{done:?}");
    let args = fs::read_to_string(env.project().join("args")).unwrap();
    assert_eq!(args, format!("--resume {ID}\n"));
    let shown = env.run(&["show", &key]).success();
    assert!(shown.stdout().contains("prompt 1 of the walrus"), "{shown:?}");
    fs::remove_file(&file).unwrap();
    let gone = resume(&["--yes"]).failure(1);
    assert!(gone.stderr.contains("does not have its session"), "{gone:?}");
    assert!(gone.stderr.contains("--with claude"), "{gone:?}");
}

#[test]
fn an_import_that_is_killed_anywhere_is_finished_by_the_next() {
    let faults = FaultRun::from_env();
    let kills = faults.len(5, 100);
    let mut random = Random::new(faults.seed());
    let mut killed = 0_u64;
    for _ in 0..kills {
        let env = TestEnvironment::bare();
        let ids: Vec<String> =
            (0..6).map(|number| format!("{number}1111111-2222-4333-8444-555555555555")).collect();
        let texts: Vec<String> = ids.iter().map(|id| write_session(&env, id, 60)).collect();
        for _ in 0..2 {
            let mut child = env
                .command(&["import"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(std::time::Duration::from_micros(random.below(60_000)));
            let _ = child.kill();
            killed += u64::from(!child.wait().unwrap().success());
        }
        env.run(&["import"]).success();
        for (id, text) in ids.iter().zip(&texts) {
            let key = format!("claude/{id}");
            let back = env.run(&["export", &key, "--format", "source"]).success();
            assert_eq!(back.stdout(), text, "{id}");
            let events = env.run(&["export", &key, "--format", "jsonl"]).success();
            let kinds = |kind: &str| {
                let of = |event: &&Value| event["kind"] == kind;
                events.json_lines().iter().filter(of).count()
            };
            assert_eq!(kinds("message.added"), 120, "{id}");
            assert_eq!(kinds("usage.recorded"), 60, "{id}");
            assert_eq!(kinds("git.observed"), 1, "{id}");
        }
    }
    assert!(killed > 0, "every import had ended before it was killed");
    faults.report("imports that were killed", killed, 100);
}
