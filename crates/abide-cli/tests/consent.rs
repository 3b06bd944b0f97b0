//! What a user did not begin on this machine is shown and asked about, never done by itself.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::environment::{Done, TestEnvironment, run};
use crate::lab::copy;

/// An agent that fails, so that there is something to go on with, and counts its runs.
const AGENT: [&str; 3] = ["sh", "-c", "echo ran >> \"$PWD/ran\"; exit 3"];

/// The latest session, by its id.
fn session(env: &TestEnvironment) -> String {
    let rows: Value =
        serde_json::from_str(env.run(&["history", "--json"]).success().stdout()).unwrap();
    rows[0]["id"].as_str().unwrap().to_owned()
}

fn sessions(env: &TestEnvironment) -> usize {
    let rows: Value =
        serde_json::from_str(env.run(&["history", "--json"]).success().stdout()).unwrap();
    rows.as_array().unwrap().len()
}

/// Begins a run, which fails.
fn begin(env: &TestEnvironment) -> String {
    env.run(&[&["run", "--"], &AGENT[..]].concat()).failure(1);
    session(env)
}

/// How often an agent ran in a directory.
fn runs(dir: &Path) -> usize {
    fs::read_to_string(dir.join("ran")).unwrap_or_default().lines().count()
}

/// Another user's home, with a copy of the project of the first.
fn clone_of(env: &TestEnvironment) -> TestEnvironment {
    let clone = TestEnvironment::new();
    fs::remove_dir_all(clone.project()).unwrap();
    copy(&env.project(), &clone.project());
    clone
}

fn refused(done: Done) {
    let done = done.failure(1);
    assert!(done.stderr.contains("there is no terminal to ask on"), "{done:?}");
    assert!(done.stderr.contains("--yes"), "{done:?}");
}

const AGAIN: [&str; 2] = ["resume", "--retry-failed"];

#[test]
fn a_run_begun_here_goes_on_without_a_question() {
    let env = TestEnvironment::new();
    let id = begin(&env);
    env.run(&AGAIN).failure(1);
    env.run(&["resume", &id, "--retry-failed"]).failure(1);
    assert_eq!(runs(&env.project()), 3);
    // So does a fork of it, and a fork that is made on the way.
    let fork = env.run(&["fork", "turn:1", "-s", &id]).success().stdout().trim().to_owned();
    let done = env.run(&["resume", &fork, "--retry-failed"]).failure(1);
    assert!(!done.stderr.contains("you did not start"), "{done:?}");
    let done = env.run(&["resume", &id, "--at", "turn:1", "--retry-failed"]).failure(1);
    assert!(!done.stderr.contains("you did not start"), "{done:?}");
    assert_eq!(runs(&env.project()), 5);
}

#[test]
fn the_command_of_a_cloned_store_is_shown_and_not_run() {
    let env = TestEnvironment::new();
    let id = begin(&env);
    let clone = clone_of(&env);
    // It is never the latest: not in another directory, and not in its own for somebody else.
    let done = clone.run(&AGAIN).failure(1);
    assert!(done.stderr.contains("no session has its workspace in"), "{done:?}");
    let mut somebody = env.command(&AGAIN);
    somebody.env("HOME", clone.path("home"));
    let done = run(somebody, b"").failure(1);
    assert!(done.stderr.contains("has a run that you started on this machine"), "{done:?}");
    assert!(done.stderr.contains("shows the command of the newest one and asks"), "{done:?}");
    // Named, it is shown.
    let done = clone.run(&["resume", &id, "--retry-failed"]);
    for part in [
        "you did not start the run of session",
        r#"command    sh -c 'echo ran >> "$PWD/ran"; exit 3'"#,
        &format!("directory  {}", env.project().display()),
        "by abide (process ",
        &format!("store      {}", clone.project().join(".abide").display()),
    ] {
        assert!(done.stderr.contains(part), "{part}: {done:?}");
    }
    refused(done);
    refused(clone.run(&["resume", &id, "--at", "turn:1", "--retry-failed"]));
    assert_eq!(sessions(&clone), 1, "no fork was made");
    // What the clone has is a copy.
    assert_eq!((runs(&env.project()), runs(&clone.project())), (1, 1), "nothing ran");
    // A yes is noted: from there on the run is the user's own.
    clone.run(&["resume", &id, "--retry-failed", "--yes"]).failure(1);
    assert_eq!(runs(&env.project()), 2);
    clone.run(&["resume", &id, "--retry-failed"]).failure(1);
    assert_eq!(runs(&env.project()), 3);
}

#[test]
fn a_command_that_is_given_is_an_answer_and_its_directory_is_said() {
    let env = TestEnvironment::new();
    let id = begin(&env);
    let clone = clone_of(&env);
    let mine = ["resume", &id, "--retry-failed", "--", "sh", "-c", "echo mine >> ran"];
    let done = clone.run(&mine).success();
    let directory = format!("directory  {}", env.project().display());
    assert!(done.stderr.contains(&directory), "{done:?}");
    assert_eq!(fs::read_to_string(env.project().join("ran")).unwrap(), "ran\nmine\n");
}

#[test]
fn an_imported_session_is_passed_over_and_its_command_not_run() {
    let (theirs, mine) = (TestEnvironment::new(), TestEnvironment::new());
    let own = begin(&mine);
    // Somebody else's, who says that it works in this very directory.
    let mut begun = theirs.command(&[&["run", "--"], &AGENT[..]].concat());
    begun.current_dir(mine.project()).env("ABIDE_STORE", theirs.project());
    run(begun, b"").failure(1);
    let id = session(&theirs);
    theirs.run(&["export", "--format", "bundle", "-o", "../bundle"]).success();
    mine.run(&["import", theirs.path("bundle").to_str().unwrap()]).success();
    assert_eq!(session(&mine), id, "it is the newest");
    let done = mine.run(&AGAIN).failure(1);
    assert!(done.stderr.contains("is skipped: its run was not started here"), "{done:?}");
    assert_eq!(runs(&mine.project()), 3, "both begun, and {own} again: {done:?}");
    refused(mine.run(&["resume", &id, "--retry-failed"]));
    assert_eq!(runs(&mine.project()), 3);
    // Nor that of a session that was copied from another store.
    let other = theirs.path("copied");
    fs::create_dir(&other).unwrap();
    let mut init = theirs.command(&["init"]);
    init.current_dir(&other);
    run(init, b"").success();
    let copied = theirs.run(&["copy", &id, "--to", "../copied"]).success();
    refused(theirs.run(&["resume", &id, "--retry-failed", "--store", "../copied"]));
    assert_eq!(runs(&mine.project()), 3, "{copied:?}");
}

#[test]
fn without_a_state_directory_a_run_works_and_its_resumption_asks() {
    for spoil in [None, Some(".local"), Some(".local/state/abide")] {
        let env = TestEnvironment::new();
        if let Some(path) = spoil {
            let path = env.path("home").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "a file").unwrap();
        }
        let without = |args: &[&str]| {
            let mut command = env.command(args);
            if spoil.is_none() {
                command.env("HOME", "/nonexistent");
            }
            run(command, b"")
        };
        let done = without(&[&["run", "--"], &AGENT[..]].concat()).failure(1);
        assert!(!done.stderr.contains("will ask"), "{done:?}");
        assert_eq!(runs(&env.project()), 1);
        let id = session(&env);
        without(&AGAIN).failure(1);
        refused(without(&["resume", &id, "--retry-failed"]));
        assert_eq!(runs(&env.project()), 1, "{spoil:?}");
        without(&["resume", &id, "--retry-failed", "--yes"]).failure(1);
        assert_eq!(runs(&env.project()), 2, "{spoil:?}");
    }
}

/// A store whose journal says that a rewind was begun and not finished: it would put `planted` into
/// the directory of the first project.
fn half_way(env: &TestEnvironment) -> String {
    let write = |name: &str, text: &str| fs::write(env.project().join(name), text).unwrap();
    write("planted", "evil\n");
    let checkpoint = |env: &TestEnvironment| -> Value {
        let made = env.run(&["checkpoint", "create", "--json"]).success();
        serde_json::from_str(made.stdout()).unwrap()
    };
    env.run(&["new"]).success();
    let then = checkpoint(env);
    fs::remove_file(env.project().join("planted")).unwrap();
    let now = checkpoint(env);
    let rewind = serde_json::json!({
        "to": now["seq"], "files": true, "snapshot": then["snapshot"], "safety": now["snapshot"],
        "workspace": env.project(),
    });
    let id = session(env);
    let event = serde_json::json!({"kind": "session.rewound", "data": rewind}).to_string();
    env.record(&["-s", &id], &[&event]).success();
    // The note that a store once had of its own.
    let note = env.project().join(format!(".abide/cache/{id}.rewind"));
    fs::write(note, rewind.to_string()).unwrap();
    id
}

#[test]
fn a_half_finished_rewind_of_a_cloned_store_is_offered_and_not_finished() {
    let env = TestEnvironment::new();
    let id = half_way(&env);
    let clone = clone_of(&env);
    let planted = env.project().join("planted");
    let done = clone.run(&["checkpoint", "create", &id]).success();
    for part in ["has no note of starting it", "abide rewind --finish", "abide undo"] {
        assert!(done.stderr.contains(part), "{part}: {done:?}");
    }
    clone.run(&["doctor", "--repair", "--yes"]);
    clone.run(&["run", "--", "true"]).success();
    assert!(!planted.exists());
    // Asked for, it is shown, and done after a yes.
    let done = clone.run(&["rewind", "--finish"]);
    let shown = format!("Files in {}:\n  create  planted\n", env.project().display());
    // Another session is the latest by now.
    assert!(done.stderr.contains("There is no rewind to finish"), "{done:?}");
    let done = clone.run(&["rewind", "-s", &id, "--finish"]);
    assert!(done.stdout().contains(&shown) && !planted.exists(), "{done:?}");
    refused(done);
    clone.run(&["rewind", "-s", &id, "--finish", "--dry-run"]).success();
    assert!(!planted.exists());
    clone.run(&["rewind", "-s", &id, "--finish", "--yes"]).success();
    assert_eq!(fs::read_to_string(&planted).unwrap(), "evil\n");
    let done = clone.run(&["rewind", "-s", &id, "--finish", "--json"]).success();
    assert!(done.stderr.contains("There is no rewind to finish"), "{done:?}");
}

#[test]
fn finishing_goes_with_no_place_to_go_to() {
    let env = TestEnvironment::new();
    env.run(&["new"]).success();
    let done = env.run(&["rewind", "--finish", "--to", "1"]).failure(2);
    assert!(done.stderr.contains("--finish"), "{done:?}");
    assert!(env.run(&["rewind"]).failure(2).stderr.contains("WHERE is missing"));
}

#[test]
fn links_that_were_planted_in_a_store_lead_no_note_out_of_it() {
    let env = TestEnvironment::new();
    env.run(&["new"]).success();
    let write = |text: &str| fs::write(env.project().join("a"), text).unwrap();
    write("then\n");
    env.run(&["checkpoint", "create"]).success();
    let id = session(&env);
    let precious: Vec<PathBuf> = ["rewind.new", "files.new", "rewind", "files"]
        .iter()
        .map(|end| {
            let outside = env.path(&format!("precious.{end}"));
            fs::write(&outside, "mine").unwrap();
            symlink(&outside, env.project().join(format!(".abide/cache/{id}.{end}"))).unwrap();
            outside
        })
        .collect();
    write("now\n");
    env.run(&["rewind", "--to", "1", "--yes"]).success();
    assert_eq!(fs::read_to_string(env.project().join("a")).unwrap(), "then\n");
    for outside in precious {
        assert_eq!(fs::read_to_string(&outside).unwrap(), "mine", "{}", outside.display());
    }
    // Where the directory itself leads out, nothing is written.
    let cache = env.project().join(".abide/cache");
    fs::remove_dir_all(&cache).unwrap();
    let outside = env.path("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, &cache).unwrap();
    env.run(&["checkpoint", "create"]).failure(1);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}
