//! `abide copy`: sessions from store to store, and back.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::environment::{ABIDE, Done, HELLO, TestEnvironment, files, run};
use crate::erase::{SECRET, holding};
use crate::shared_commands::database;

const AGAIN: &str = r#"{"kind":"message.added","data":{"role":"user","content":"again"}}"#;
const OTHERWISE: &str = r#"{"kind":"message.added","data":{"role":"user","content":"otherwise"}}"#;

/// A project with a session that has a checkpoint with files.
fn recorded() -> (TestEnvironment, String) {
    let env = TestEnvironment::new();
    let session = env.run(&["new", "--title", "to copy"]).success().stdout().trim().to_owned();
    env.record(&["--session", &session], &[HELLO]).success();
    fs::create_dir(env.project().join("src")).unwrap();
    fs::write(env.project().join("src/main.rs"), "fn main() {}\n").unwrap();
    fs::write(env.project().join("large"), noise(200_000)).unwrap();
    env.run(&["checkpoint", "create", "--session", &session]).success();
    env.record(&["--session", &session], &[AGAIN]).success();
    (env, session)
}

/// Bytes that cannot be compressed, other ones for each length.
fn noise(length: usize) -> Vec<u8> {
    let mut state = length as u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(&mut next).take(length).collect()
}

fn place(env: &TestEnvironment) -> String {
    env.project().display().to_string()
}

fn copied(done: &Done) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let lines = done.json_lines();
    // What failed in all is told behind the sessions.
    let sessions = lines.iter().filter(|line| line["error"].get("code").is_none());
    sessions.map(|line| (text(&line["session"]), text(&line["outcome"]))).collect()
}

/// Everything that can be read of a session is the same on both sides.
#[track_caller]
fn assert_same(session: &str, sides: [(&TestEnvironment, &str); 2]) {
    for args in [
        &["show", session, "--json"][..],
        &["show", session, "--all"][..],
        &["context", session][..],
        &["checkpoint", "list", "--json", "--session", session][..],
    ] {
        let [one, other] = sides.map(|(env, store)| {
            let done = env.run(&[args, &["--store", store]].concat());
            done.success().out
        });
        assert!(!one.is_empty(), "{args:?}");
        assert!(one == other, "{args:?} differs");
    }
}

/// The files of the checkpoint come back on the far side, where the session's workspace is moved to.
fn assert_restores(far: &TestEnvironment, session: &str, from: &TestEnvironment) {
    fs::rename(from.project(), from.path("gone")).unwrap();
    let moved = serde_json::json!({"kind": "session.updated", "data": {"workspace": place(far)}});
    far.record(&["--session", session], &[&moved.to_string()]).success();
    far.run(&["rewind", "-s", session, "--to", "1", "--files", "--yes"]).success();
    assert_eq!(fs::read(far.project().join("large")).unwrap(), noise(200_000));
    assert_eq!(fs::read(far.project().join("src/main.rs")).unwrap(), b"fn main() {}\n");
    fs::rename(from.path("gone"), from.project()).unwrap();
}

#[test]
fn a_copy_is_the_same_goes_forward_and_never_back() {
    let (near, session) = recorded();
    let far = TestEnvironment::bare();
    let to = place(&far);
    let dry = near.run(&["copy", "--to", &to, "--all", "--dry-run", "--json"]).success();
    assert_eq!(copied(&dry), [(session.clone(), "copied".to_owned())]);
    assert_eq!(files(&far.project()), [], "nothing is made");
    let done = near.run(&["copy", "--to", &to, "--all", "--json"]).success();
    assert_eq!(copied(&done), [(session.clone(), "copied".to_owned())]);
    assert!(done.json_lines()[0]["files"]["objects"].as_u64().unwrap() >= 4, "{done:?}");
    assert_same(&session, [(&near, "."), (&far, ".")]);
    far.run(&["doctor"]).success();

    let outcome = |env: &TestEnvironment, from: &str, to: &str| {
        let done = env.run(&["copy", "--from", from, "--to", to, &session, "--json"]).success();
        assert_eq!(done.json_lines()[0]["files"]["objects"], 0, "only what is missing");
        copied(&done).remove(0).1
    };
    assert_eq!(outcome(&near, ".", &to), "same");
    near.record(&["--session", &session], &[AGAIN]).success();
    assert_eq!(outcome(&far, &to, &place(&near)), "behind");
    assert_eq!(outcome(&far, &place(&near), "."), "forwarded");
    assert_eq!(outcome(&far, &place(&near), "."), "same");
    assert_same(&session, [(&near, "."), (&far, ".")]);
    far.run(&["doctor"]).success();
    assert_restores(&far, &session, &near);

    let both = near.run(&["copy", "--from", ".", "--to", ".", "--all"]).failure(1);
    assert!(both.stderr.contains("is both source and destination"), "{both:?}");
    near.run(&["copy", "--all"]).failure(2);
    near.run(&["copy", "--to", &to]).failure(2);
}

#[test]
fn by_way_of_a_server_it_is_still_the_same() {
    let Some((_, url)) = database() else { return };
    let (near, session) = recorded();
    near.run(&["--store", &url, "store", "init"]).success();
    let dry = near.run(&["copy", "--to", &url, "--all", "--dry-run"]).success();
    assert!(dry.stdout().contains("would be copied"), "{dry:?}");
    assert!(
        near.run(&["copy", "--from", &url, "--to", ".", &session])
            .failure(1)
            .stderr
            .contains("there is no session")
    );
    let there = near.run(&["copy", "--to", &url, "--all", "--json"]).success();
    assert_eq!(copied(&there), [(session.clone(), "copied".to_owned())]);
    assert_same(&session, [(&near, "."), (&near, &url)]);
    let listed = near.run(&["history", "--json", "--store", &url]).success();
    assert!(listed.stdout().contains(&session), "it is of the project it comes from: {listed:?}");

    let far = TestEnvironment::new();
    let back = far.run(&["copy", "--from", &url, "--to", ".", &session, "--json"]).success();
    assert_eq!(copied(&back), [(session.clone(), "copied".to_owned())]);
    assert_same(&session, [(&near, "."), (&far, ".")]);
    far.run(&["doctor"]).success();
    // Both ways, forward only.
    far.record(&["--session", &session], &[AGAIN]).success();
    let on = far.run(&["copy", "--to", &url, &session, "--json"]).success();
    assert_eq!(copied(&on), [(session.clone(), "forwarded".to_owned())]);
    let on = near.run(&["copy", "--from", &url, &session, "--json"]).success();
    assert_eq!(copied(&on), [(session.clone(), "forwarded".to_owned())]);
    assert_same(&session, [(&near, "."), (&far, ".")]);
    near.run(&["doctor"]).success();
    assert_restores(&far, &session, &near);
}

/// A session with the secret in a message, copied and then erased here: a copy says that it still
/// stands there, and erases it there where it is told to.
fn assert_erased_there(to: &str, shown: &dyn Fn(&str) -> String) {
    let (near, session) = recorded();
    let secret =
        format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{SECRET}"}}}}"#);
    near.record(&["--session", &session], &[&secret]).success();
    near.run(&["copy", "--to", to, &session]).success();
    near.run(&["erase", &session, "--match", SECRET, "--yes"]).success();
    for dry in [&["--dry-run"][..], &[], &[]] {
        let args = [&["copy", "--to", to, &session, "--json"], dry].concat();
        let told = near.run(&args).failure(1);
        assert_eq!(told.json_lines()[0]["unerased"].as_array().unwrap().len(), 1, "{told:?}");
        assert!(told.stderr.contains("is erased here but not in the destination"), "{told:?}");
        assert!(told.stderr.contains("Hint: `--erase` erases it there"), "{told:?}");
    }
    assert!(shown(&session).contains(SECRET));
    let done = near.run(&["copy", "--to", to, &session, "--erase"]).success();
    assert!(done.stdout().contains("already there"), "{done:?}");
    assert!(done.stdout().contains("1 payload erased there"), "{done:?}");
    assert!(!shown(&session).contains(SECRET));
    let same = near.run(&["copy", "--to", to, &session, "--json"]).success();
    assert_eq!(same.json_lines()[0]["unerased"], serde_json::json!([]));
}

#[test]
fn what_is_erased_here_is_told_and_erased_there() {
    let far = TestEnvironment::new();
    let shown = |session: &str| {
        far.run(&["doctor"]).success();
        far.run(&["show", session, "--json"]).success().stdout().to_owned()
    };
    assert_erased_there(&place(&far), &shown);
    assert_eq!(holding(&far, SECRET), [""; 0]);
    let Some((_, url)) = database() else { return };
    let far = TestEnvironment::new();
    far.run(&["--store", &url, "store", "init"]).success();
    let shown = |session: &str| {
        far.run(&["doctor", "--store", &url]).success();
        let found = far.run(&["history", "--search", "hunter2", "--json", "--store", &url]);
        let events = far.run(&["show", session, "--json", "--store", &url]).success();
        format!("{}{}", found.success().stdout(), events.stdout())
    };
    assert_erased_there(&url, &shown);
}

/// A session with the secret in a message and in a file of a checkpoint, copied, erased and removed
/// there: neither a copy nor a bundle brings it back, until that is asked for.
#[test]
fn what_is_erased_there_stays_erased_there() {
    let far = TestEnvironment::new();
    let to = &place(&far);
    let near = TestEnvironment::new();
    let secret =
        format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{SECRET}"}}}}"#);
    let session = near.record(&["--new"], &[&secret]).success().json_lines()[0]["session"]
        .as_str()
        .unwrap()
        .to_owned();
    fs::write(near.project().join("notes"), SECRET).unwrap();
    near.run(&["checkpoint", "create", "--session", &session]).success();
    near.run(&["copy", "--to", to, &session]).success();
    near.run(&["export", &session, "--format", "bundle", "-o", "older.abide"]).success();
    // Erased there by another copy of it, which is erased in turn.
    let other = TestEnvironment::new();
    other.run(&["copy", "--from", to, "--to", ".", &session]).success();
    other.run(&["erase", &session, "--match", SECRET, "--files", "--yes"]).success();
    other.run(&["copy", "--to", to, &session, "--erase"]).success();
    assert_eq!(holding(&far, SECRET), [""; 0]);
    let shown = || far.run(&["show", &session, "--json"]).success();
    far.run(&["cleanup", "--keep", "0", "--yes"]).success();
    let copied = near.run(&["copy", "--to", to, &session, "--json"]).success();
    assert_eq!(copied.json_lines()[0]["kept_erased"].as_array().unwrap().len(), 2, "{copied:?}");
    assert!(copied.stderr.contains("was erased in the destination before"), "{copied:?}");
    assert!(!shown().stdout().contains(SECRET));
    assert_eq!(holding(&far, SECRET), [""; 0]);
    // Nor does a copy of a fork.
    let fork = near.run(&["fork", "-s", &session]).success().stdout().trim().to_owned();
    near.run(&["copy", "--to", to, &fork]).success();
    assert_eq!(holding(&far, SECRET), [""; 0]);
    far.run(&["cleanup", "--keep", "0", "--yes"]).success();
    let bundle = near.project().join("older.abide");
    let bundle = bundle.to_str().unwrap();
    let dry = far.run(&["import", bundle, "--dry-run"]).success();
    assert!(
        dry.stderr.contains("would stay erased; to bring it back, import it with `--forget`"),
        "{dry:?}"
    );
    let told = far.run(&["import", bundle, "--json"]).success();
    assert_eq!(told.json_lines()[0]["kept_erased"].as_array().unwrap().len(), 2, "{told:?}");
    assert!(!shown().stdout().contains(SECRET));
    far.run(&["cleanup", "--keep", "0", "--yes"]).success();
    let back = far.run(&["import", bundle, "--forget"]).success();
    assert!(back.stderr.contains("was erased here and is back"), "{back:?}");
    assert!(shown().stdout().contains(SECRET));
    far.run(&["doctor"]).success();
}

#[test]
fn what_has_gone_another_way_is_named_and_the_others_are_copied() {
    let (near, session) = recorded();
    let far = TestEnvironment::new();
    let to = place(&far);
    near.run(&["copy", "--to", &to, "--all"]).success();
    near.record(&["--session", &session], &[AGAIN]).success();
    far.record(&["--session", &session], &[OTHERWISE]).success();
    let before = far.run(&["show", &session, "--json"]).success().out;
    let other = near.run(&["new"]).success().stdout().trim().to_owned();
    let done = near.run(&["copy", "--to", &to, "--all", "--json"]).failure(1);
    let expected = [(session.clone(), "diverged".to_owned()), (other, "copied".to_owned())];
    assert_eq!(copied(&done), expected);
    assert!(done.stderr.contains("1 of 2 sessions was not copied"), "{done:?}");
    assert_eq!(far.run(&["show", &session, "--json"]).success().out, before);
    let told = near.run(&["copy", "--to", &to, "--all"]).failure(1);
    assert!(told.stderr.contains("was not copied\nCaused by: "), "{told:?}");
    far.run(&["doctor"]).success();
}

#[test]
fn what_a_fork_goes_on_from_comes_before_it() {
    let (near, session) = recorded();
    let fork = |of: &str| {
        let made = near.run(&["fork", "-s", of, "--json"]).success().json_lines();
        made[0]["session"].as_str().unwrap().to_owned()
    };
    let child = fork(&session);
    near.record(&["--session", &child], &[OTHERWISE]).success();
    let grandchild = fork(&child);
    let whole = |id: &str| {
        let shown = near.run(&["show", id, "--json"]).success();
        let made = shown.json_lines().into_iter().rfind(|it| it["kind"] == "session.created");
        made.unwrap()["data"]["session"].as_str().unwrap().to_owned()
    };
    let order = [&session, &child, &grandchild].map(|id| (whole(id), "copied".to_owned()));
    for (args, dry) in [(&["--dry-run"][..], true), (&[][..], false)] {
        let far = TestEnvironment::new();
        let to = place(&far);
        let args = [&["copy", "--json", "--to", &to, &grandchild, &session][..], args].concat();
        assert_eq!(copied(&near.run(&args).success()), order);
        if !dry {
            assert_same(&grandchild, [(&near, "."), (&far, ".")]);
            far.run(&["doctor"]).success();
        }
    }
    let Some((_, url)) = database() else { return };
    near.run(&["--store", &url, "store", "init"]).success();
    let done = near.run(&["copy", "--json", "--to", &url, &grandchild]).success();
    assert_eq!(copied(&done), order);
    let far = TestEnvironment::new();
    let done = far.run(&["copy", "--json", "--from", &url, "--to", ".", &grandchild]).success();
    assert_eq!(copied(&done), order);
    assert_same(&grandchild, [(&near, "."), (&far, ".")]);
}

#[test]
fn a_copy_that_was_killed_is_completed_by_the_next_one() {
    let (near, session) = recorded();
    for n in 0..40 {
        fs::write(near.project().join(format!("file{n}")), noise(300_000 + n)).unwrap();
    }
    near.run(&["checkpoint", "create", "--session", &session]).success();
    let far = TestEnvironment::new();
    // The system ends it by a signal once a file of the store has six mebibytes.
    let mut command = near.isolate(Command::new("sh"));
    let copy = "ulimit -f 12288 && exec \"$0\" copy --to \"$1\" --all";
    command.args(["-c", copy, ABIDE, &place(&far)]);
    let killed = run(command, b"");
    assert_eq!(killed.code, -1, "it was killed: {killed:?}");
    let nothing = far.run(&["show", &session]);
    assert_eq!(nothing.code, 1, "a session is there whole or not at all: {nothing:?}");
    let done = near.run(&["copy", "--to", &place(&far), "--all", "--json"]).success();
    assert_eq!(copied(&done), [(session.clone(), "copied".to_owned())]);
    assert_same(&session, [(&near, "."), (&far, ".")]);
    far.run(&["doctor"]).success();
    assert_restores(&far, &session, &near);
}
