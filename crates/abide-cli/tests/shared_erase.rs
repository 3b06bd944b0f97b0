//! `abide erase` and `abide cleanup` on a shared store.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::environment::{Done, TestEnvironment, files, run};
use crate::shared_commands::database;

const SECRET: &str = "hunter2-planted";
const SPOKEN: &str =
    r#"{"kind":"message.added","data":{"role":"user","content":"it is hunter2-planted"}}"#;

fn told(env: &TestEnvironment, url: &str, args: &[&str], input: &str) -> Done {
    let mut command = env.command(args);
    command.env("ABIDE_STORE", url);
    run(command, input.as_bytes())
}

/// The files that say which files of workspaces have not changed. Whatever they say, a file that is younger
/// than half a minute is read again.
fn stat_caches(dir: &Path) -> Vec<PathBuf> {
    let all = files(dir).into_iter().map(|(path, _)| path);
    all.filter(|path| path.extension().is_some_and(|ending| ending == "stat")).collect()
}

#[test]
fn a_secret_is_erased_from_a_shared_store() {
    let Some((_, url)) = database() else { return };
    let env = TestEnvironment::bare();
    let on = |args: &[&str]| told(&env, &url, args, "");
    on(&["store", "init"]).success();
    fs::create_dir(env.project().join("sub")).unwrap();
    fs::write(env.project().join("sub/plain.txt"), "nothing of note").unwrap();
    fs::write(env.project().join("secret.txt"), SECRET).unwrap();
    told(&env, &url, &["record"], &format!("{SPOKEN}\n")).success();
    on(&["checkpoint", "create"]).success();
    let remembered = stat_caches(&env.path("home/.cache"));
    assert_eq!(remembered.len(), 1);
    let matched = ["erase", "--match", SECRET, "--files"];
    let dry = on(&[&matched[..], &["--dry-run", "--json"]].concat()).success();
    let plan = &dry.json_lines()[0];
    let kinds: Vec<&Value> =
        plan["lines"].as_array().unwrap().iter().map(|line| &line["kind"]).collect();
    assert_eq!(kinds, ["message.added", "checkpoint.created"]);
    let done = on(&[&matched[..], &["--yes"]].concat()).success();
    assert!(done.stdout().contains("Erased 2 payloads and 5 objects of session "), "{done:?}");
    assert!(!done.stderr.contains("Warning"), "{done:?}");
    assert!(!on(&["show", "--all"]).success().stdout().contains(SECRET));
    let none = on(&[&matched[..], &["--yes"]].concat()).failure(1);
    assert!(none.stderr.contains("no event and no file contains this text"), "{none:?}");
    // What this machine remembers of the objects is of no use any more: they are stored anew.
    fs::remove_file(env.project().join("secret.txt")).unwrap();
    on(&["checkpoint", "create"]).success();
    assert_ne!(stat_caches(&env.path("home/.cache")), remembered);
    let file = on(&["checkpoint", "cat", "2", "sub/plain.txt"]).success();
    assert_eq!(file.stdout(), "nothing of note");
    on(&["doctor"]).success();
}

#[test]
fn a_cleanup_collects_the_objects_of_a_shared_store() {
    let Some((server, url)) = database() else { return };
    let env = TestEnvironment::bare();
    let on = |args: &[&str]| told(&env, &url, args, "");
    on(&["store", "init"]).success();
    told(&env, &url, &["record"], &format!("{SPOKEN}\n")).success();
    let nothing = on(&["cleanup", "--yes"]).success();
    assert_eq!(nothing.stdout(), "nothing to clean up\n");
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    server.sql(
        database,
        "INSERT INTO abide.object (hash, size, form, bytes, stored)
            VALUES (decode(repeat('ab', 32), 'hex'), 3, 0, 'abc', now() - interval '1 day')",
    );
    let dry = on(&["cleanup", "--dry-run", "--json"]).success();
    assert_eq!(dry.json_lines()[0]["objects"], 1);
    let done = on(&["cleanup", "--yes"]).success();
    assert!(done.stdout().starts_with("collect 1 object, 3 B\n"), "{done:?}");
    let again = on(&["cleanup", "--dry-run", "--json"]).success();
    assert_eq!(again.json_lines()[0]["objects"], 0);
}

#[test]
fn a_cleanup_removes_old_sessions_of_a_shared_store() {
    let Some((_, url)) = database() else { return };
    let env = TestEnvironment::bare();
    let on = |args: &[&str]| told(&env, &url, args, "");
    on(&["store", "init"]).success();
    for title in ["one", "two", "three"] {
        told(&env, &url, &["record", "--title", title], &format!("{SPOKEN}\n")).success();
    }
    let listed = || on(&["history", "--json"]).success().stdout().to_owned();
    let keep = ["cleanup", "--keep", "2"];
    let plan = on(&[&keep[..], &["--dry-run"]].concat()).success();
    assert!(plan.stdout().starts_with("remove session \"one\" "), "{plan:?}");
    assert!(plan.stdout().ends_with(" B: over max_count\n"), "{plan:?}");
    let dry = on(&[&keep[..], &["--dry-run", "--json"]].concat()).success();
    let dry = &dry.json_lines()[0];
    assert_eq!(
        (&dry["sessions"][0]["title"], &dry["sessions"][0]["reason"]),
        (&"one".into(), &"count".into())
    );
    assert_eq!((&dry["objects"], &dry["clock_jumped"]), (&0.into(), &false.into()));
    let asked = on(&keep).failure(1);
    assert!(asked.stderr.contains("no terminal to ask on"), "{asked:?}");
    let unsaid = on(&[&keep[..], &["--json"]].concat()).failure(2);
    assert!(unsaid.stdout().contains("usage"), "{unsaid:?}");
    assert!(listed().contains("\"one\""), "nothing was done yet");
    let done = on(&[&keep[..], &["--yes"]].concat()).success();
    assert!(done.stdout().contains("\nRemoved 1 session ("), "{done:?}");
    assert!(!listed().contains("\"one\"") && listed().contains("\"two\""));
    // The newest stay, as on files, unless their number is given.
    let none = on(&["cleanup", "--older-than", "1ms", "--yes"]).success();
    assert_eq!(none.stdout().matches("it is one of the newest (min_keep)").count(), 2, "{none:?}");
    let old = ["cleanup", "--older-than", "1ms", "--keep", "1", "--yes", "--json"];
    let report = &on(&old).success().json_lines()[0];
    assert_eq!(report["sessions"][0]["title"], "two", "{report}");
    assert_eq!(report["notes"], Value::Array(Vec::new()));
    assert!(listed().contains("\"three\""));
    on(&["doctor"]).success();
}

#[test]
fn a_cleanup_of_a_shared_store_is_of_one_project_unless_told() {
    let Some((_, url)) = database() else { return };
    let env = TestEnvironment::bare();
    let (here, there) = (env.project(), env.path("elsewhere"));
    fs::create_dir(&there).unwrap();
    let within = |dir: &std::path::Path, args: &[&str], input: &str| {
        let mut command = env.command_in(dir, args);
        command.env("ABIDE_STORE", &url);
        run(command, input.as_bytes())
    };
    within(&here, &["store", "init"], "").success();
    for dir in [&here, &there] {
        within(dir, &["record", "--title", "mine"], &format!("{SPOKEN}\n")).success();
    }
    let removed = |dir: &std::path::Path, args: &[&str]| {
        let args = [&["cleanup", "--keep", "0", "--yes", "--json"], args].concat();
        let report = within(dir, &args, "").success().json_lines()[0].clone();
        report["sessions"].as_array().unwrap().len()
    };
    assert_eq!(removed(&here, &[]), 1);
    assert_eq!(removed(&here, &[]), 0);
    // Where nothing was recorded, all projects would be meant.
    let nowhere = env.path("nowhere");
    fs::create_dir(&nowhere).unwrap();
    let refused = within(&nowhere, &["cleanup", "--keep", "0", "--yes"], "").failure(1);
    assert!(refused.stderr.contains("nothing was recorded in "), "{refused:?}");
    assert_eq!(removed(&nowhere, &["--all-projects"]), 1);
}
