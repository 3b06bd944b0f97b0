//! Sessions go from one store to another: `export --format bundle`, `import`.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::environment::{Conversation, HELLO, TestEnvironment, files, run};

/// A second machine: a store of its own, in `../there`.
const THERE: [&str; 2] = ["--store", "../there"];

fn there(env: &TestEnvironment, args: &[&str]) -> crate::environment::Done {
    env.run(&[args, &THERE].concat())
}

/// A session with a key, an object and hostile text, exported to `s.abide`.
fn exported(env: &TestEnvironment) {
    let large = format!(r#"{{"kind":"x.large","data":{{"text":"{}"}}}}"#, "large ".repeat(20_000));
    let odd = r#"{"kind":"x.odd","data":{"t":"=== RESULT ===\u001b[2J","n":1e999,"n":2}}"#;
    env.record(&["--key", "k", "--title", "\u{1b}[31mred"], &[HELLO, &large, odd]).success();
    let quiet = env.run(&["export", "--format", "bundle", "-o", "s.abide"]).success();
    assert_eq!(quiet.stdout(), "");
}

#[test]
fn a_session_goes_there_and_comes_back() {
    let env = TestEnvironment::new();
    exported(&env);
    let _filters = env.filters();
    let bundle = fs::read(env.project().join("s.abide")).unwrap();
    let first = bundle.split(|byte| *byte == b'\n').next().unwrap();
    let first: Value = serde_json::from_slice(first).unwrap();
    assert_eq!((&first["abide"], &first["events"]), (&"bundle".into(), &6.into()));
    assert_eq!(first["title"], "\u{1b}[31mred");
    // The same through a pipe.
    assert_eq!(env.run(&["export", "--format", "bundle"]).success().out, bundle);

    for args in [&["import", "s.abide"][..], &["import", "--dry-run", "s.abide"]] {
        let missing = there(&env, args).failure(1);
        assert!(missing.stderr.starts_with("Error: there is no store in "), "{missing:?}");
    }
    assert!(!env.path("there").exists());
    there(&env, &["init"]).success();
    let dry = there(&env, &["import", "--dry-run", "s.abide"]).success();
    assert!(dry.stdout().starts_with("Would import session "), "{dry:?}");
    assert_eq!(there(&env, &["history", "--json"]).success().stdout(), "[]\n");
    let done = there(&env, &["import", "s.abide"]).success();
    let short = done.stdout().split(' ').nth(2).unwrap().to_owned();
    insta::assert_snapshot!(
        done.stdout().replace(&short, "[SHORT]"),
        @"Imported session [SHORT] ([SESSION]): 6 events, 1 object"
    );
    assert_eq!(done.stderr, "");
    let same = there(&env, &["import", "s.abide", "--json"]).success().json_lines().remove(0);
    assert_eq!((&same["outcome"], &same["short"]), (&"already_here".into(), &short.into()));
    assert_eq!(
        there(&env, &["export"]).success().out,
        env.run(&["export"]).success().out,
        "every event is there, byte for byte"
    );
    let doctor = there(&env, &["doctor"]).success();
    assert!(doctor.stdout().ends_with("no findings\n"), "{doctor:?}");

    // It goes on there, under the same key, and comes home.
    let more = run(env.command(&["record", "--key", "k", "--store", "../there"]), HELLO.as_bytes());
    assert_eq!(more.success().json_lines()[0]["seq"], 8);
    there(&env, &["export", "--format", "bundle", "-o", "back.abide"]).success();
    let back = env.run(&["import", "--json", "-"]);
    let back = back.failure(1).json_lines();
    assert_eq!((back.len(), &back[0]["error"]["code"]), (1, &"invalid".into()));
    let back = run(
        env.command(&["import", "--json", "-"]),
        &fs::read(env.project().join("back.abide")).unwrap(),
    );
    let back = back.success().json_lines().remove(0);
    assert_eq!((&back["outcome"], &back["from"]), (&"forwarded".into(), &6.into()));
    assert_eq!(there(&env, &["export"]).out, env.run(&["export"]).out);
    let behind = env.run(&["import", "s.abide"]).success();
    assert!(behind.stdout().starts_with("Already here, and longer: session "), "{behind:?}");
    let doctor = env.run(&["doctor"]).success();
    assert!(doctor.stdout().ends_with("no findings\n"), "{doctor:?}");
    // No trace is left of an import.
    assert_eq!(fs::read_dir(env.path("there/imports")).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_imported_says_why() {
    let env = TestEnvironment::new();
    exported(&env);
    let good = fs::read(env.project().join("s.abide")).unwrap();
    let _filters = env.filters();
    let refused = |name: &str, bytes: &[u8]| {
        fs::write(env.project().join(name), bytes).unwrap();
        let done = there(&env, &["import", name]).failure(1);
        assert_eq!(done.stdout(), "");
        done.stderr
    };
    insta::assert_snapshot!(refused("empty", b""), @"
    Error: cannot import empty
    Caused by: it is empty, not a bundle
    Hint: `abide export --format bundle -o FILE` makes a bundle
    ");
    insta::assert_snapshot!(refused("text", b"hello\nthere\n"), @"
    Error: cannot import text
    Caused by: it is not a bundle: its first line is not a bundle header
    Hint: `abide export --format bundle -o FILE` makes a bundle
    ");
    let newer = String::from_utf8_lossy(&good).replacen("\"version\":1", "\"version\":2", 1);
    insta::assert_snapshot!(refused("newer", newer.as_bytes()), @"
    Error: cannot import newer
    Caused by: bundle version 2 is newer than 1, the newest this program reads
    Hint: update abide; nothing was changed
    ");
    there(&env, &["init"]).success();
    let short = refused("short", &good[..good.len() - 9]);
    assert!(short.contains("Caused by: it is truncated at byte "), "{short}");
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 8;
    let flipped = refused("flipped", &flipped);
    assert!(flipped.contains("Hint: nothing was changed; copy the file again"), "{flipped}");
    insta::assert_snapshot!(refused("longer", &[&good[..], b"x"].concat()).replace(char::is_numeric, "#"), @"
    Error: cannot import longer
    Caused by: it is inconsistent at unpacked byte ######
    Caused by: there is data after the end record
    Hint: nothing was changed; copy the file again, or export it again
    ");
    fs::create_dir(env.project().join("dir")).unwrap();
    let dir = there(&env, &["import", "dir"]).failure(1);
    assert!(dir.stderr.starts_with("Error: there are no sessions of agents in "), "{dir:?}");
    insta::assert_snapshot!(there(&env, &["import", "none"]).failure(1).stderr, @"
    Error: cannot open none
    Caused by: No such file or directory (os error 2)
    ");
    let doctor = there(&env, &["doctor"]).success();
    assert!(doctor.stdout().starts_with("0 sessions, 0 events"), "{doctor:?}");
    assert!(doctor.stdout().ends_with("no findings\n"), "{doctor:?}");
    // Of several, the good ones are taken in.
    let many = there(&env, &["import", "text", "s.abide", "none", "--json"]).failure(1);
    let lines = many.json_lines();
    let (taken, failed): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line["session"].is_string());
    assert_eq!((taken.len(), failed.len()), (1, 3));
    assert!(failed.iter().all(|line| line["error"]["code"].is_string()), "{failed:?}");
    assert!(many.stderr.ends_with("Error: 2 of 3 bundles were not imported\n"), "{many:?}");
}

#[test]
fn what_is_here_already_is_never_harmed() {
    let env = TestEnvironment::new();
    exported(&env);
    there(&env, &["init"]).success();
    there(&env, &["import", "s.abide"]).success();
    env.record(&["--key", "k"], &[HELLO]).success();
    env.run(&["export", "--format", "bundle", "-o", "more.abide"]).success();
    let _filters = env.filters();
    // Somebody writes to it.
    let mut talk =
        Conversation::start(env.command(&["record", "--key", "k", "--store", "../there"]));
    talk.ask(HELLO);
    let held = there(&env, &["import", "more.abide", "--wait", "0"]).failure(1);
    assert!(held.stderr.contains(" is held by "), "{held:?}");
    assert_eq!(talk.end(), 0);
    // Now it has gone another way.
    let before = files(&env.path("there"));
    for args in [&["import", "more.abide"][..], &["import", "more.abide", "--dry-run"]] {
        let diverged = there(&env, args).failure(1);
        insta::allow_duplicates! {
            insta::assert_snapshot!(diverged.stderr, @"
            Error: cannot import more.abide
            Caused by: session [SESSION] has diverged: event 7 differs from the bundle
            Hint: nothing was changed; `--store DIR` imports it into another store
            ");
        }
    }
    let same = |left: &[(std::path::PathBuf, Vec<u8>)], right: &[(std::path::PathBuf, Vec<u8>)]| {
        // The lock says who held it last.
        let rest = |files: &[(std::path::PathBuf, Vec<u8>)]| -> Vec<_> {
            files.iter().filter(|(path, _)| !path.ends_with("lock")).cloned().collect()
        };
        rest(left) == rest(right)
    };
    assert!(same(&files(&env.path("there")), &before), "a refused import changed something");
    // A key leads to one session.
    let elsewhere = TestEnvironment::new();
    elsewhere.record(&["--key", "k"], &[HELLO]).success();
    let bundle = env.project().join("more.abide");
    let taken = elsewhere.run(&["import", bundle.to_str().unwrap()]).failure(1);
    assert!(
        taken.stderr.contains("already has the key \"k\" of the bundled session\nHint: "),
        "{taken:?}"
    );
}

#[test]
fn a_damaged_session_makes_no_bundle() {
    let env = TestEnvironment::new();
    env.record(&["--key", "k"], &[HELLO, HELLO]).success();
    let segment = env.session_dir().join("journal/00000001.jsonl");
    let text = fs::read_to_string(&segment).unwrap();
    fs::write(&segment, text.replacen("hello", "hullo", 1)).unwrap();
    let refused = env.run(&["export", "--format", "bundle", "-o", "out"]).failure(1);
    assert!(refused.stderr.contains("is damaged, and a bundle holds whole sessions only: "));
    assert!(
        refused.stderr.contains("Hint: `abide export --format jsonl` writes everything readable")
    );
    assert!(!env.project().join("out").exists());
    // Nothing half-made is left about.
    assert_eq!(fs::read_dir(env.project()).unwrap().count(), 1);
}

#[test]
fn a_bundle_in_a_broken_pipe_is_3() {
    let env = TestEnvironment::new();
    // Text that does not compress to less than a pipe holds.
    let mut random = 7_u64;
    let noise: String = (0..400_000)
        .map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'a' + u8::try_from(random >> 59).unwrap() % 26)
        })
        .collect();
    env.record(&[], &[&format!(r#"{{"kind":"x.noise","data":{{"t":"{noise}"}}}}"#)]).success();
    let mut command: Command = env.command(&["export", "--format", "bundle"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(3));
}
