//! `abide erase` and `abide cleanup` on a shared store.

use std::fs;

use serde_json::Value;

use crate::environment::{Done, TestEnvironment, run};
use crate::shared_commands::database;

const SECRET: &str = "hunter2-planted";
const SPOKEN: &str =
    r#"{"kind":"message.added","data":{"role":"user","content":"it is hunter2-planted"}}"#;

fn told(env: &TestEnvironment, url: &str, args: &[&str], input: &str) -> Done {
    let mut command = env.command(args);
    command.env("ABIDE_STORE", url);
    run(command, input.as_bytes())
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
    let refused = on(&["cleanup", "--older-than", "30d", "--yes"]).failure(1);
    assert!(
        refused.stderr.starts_with(
            "Error: a shared store does not delete sessions by age or number\nHint: without"
        ),
        "{refused:?}"
    );
}
