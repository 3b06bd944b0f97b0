//! `tail`, `export` and `doctor`, on sessions whole, torn and damaged.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use crate::environment::{Conversation, HELLO, TestEnvironment, files};

fn numbered(count: u64) -> Vec<String> {
    (0..count).map(|n| format!(r#"{{"kind":"x.n","data":{{"n":{n}}}}}"#)).collect()
}

fn record_numbered(env: &TestEnvironment, count: u64) {
    let lines = numbered(count);
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    env.record(&["--key", "s"], &lines).success();
}

#[test]
fn tail_gives_the_last_events() {
    let env = TestEnvironment::new();
    record_numbered(&env, 50);
    let seqs = |args: &[&str]| -> Vec<u64> {
        let lines = env.run(args).success().json_lines();
        lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(seqs(&["tail"]), (34..=53).collect::<Vec<_>>());
    assert_eq!(seqs(&["tail", "-n", "3"]), [51, 52, 53]);
    assert_eq!(seqs(&["tail", "-n", "1000", "--json"]).len(), 53);
    assert!(seqs(&["tail", "-n", "0"]).is_empty());
    let status = env.run(&["tail"]).success().stderr;
    assert!(status.starts_with("Session ") && status.ends_with(" (the latest)\n"), "{status}");
}

#[test]
fn a_session_is_found_by_id_short_id_and_prefix() {
    let env = TestEnvironment::new();
    let made = env.run(&["new", "--json"]).success().json_lines().remove(0);
    env.run(&["new"]).success();
    let (id, short) = (made["session"].as_str().unwrap(), made["short"].as_str().unwrap());
    for name in [id, short, &short[..5], &short.to_uppercase()] {
        let done = env.run(&["tail", name]).success();
        assert_eq!(done.json_lines()[0]["data"]["session"], id);
        assert_eq!(done.stderr, "", "a session that was named is not named again");
        env.run(&["tail", "-s", name]).success();
    }
    env.run(&["tail", short, "-s", short]).failure(2);
    // Both ids start with the same time.
    let many = env.run(&["tail", &id[..8]]).failure(1);
    assert!(many.stderr.contains("is ambiguous"), "{many:?}");
    assert!(many.stderr.contains("Hint: give more characters"), "{many:?}");
}

#[test]
fn tail_f_follows_another_process() {
    let env = TestEnvironment::new();
    let mut talk = Conversation::start(env.command(&["record", "--key", "s"]));
    talk.ask(HELLO);
    let mut tail = env
        .command(&["tail", "-f", "-n", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (sender, events) = mpsc::channel();
    let lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let _ = sender.send(serde_json::from_str::<Value>(&line).unwrap());
        }
    });
    let next = || events.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(next()["seq"], 3);
    for n in 4..8 {
        let answer = talk.ask(r#"{"kind":"x.more","data":{}}"#);
        assert_eq!(answer["seq"], n);
        assert_eq!((next()["seq"].as_u64(), n), (Some(n), n));
    }
    assert_eq!(talk.end(), 0);
    let more = env.record(&["--key", "s"], &[r#"{"kind":"x.other","data":{}}"#]).success();
    let last = more.json_lines()[0]["seq"].as_u64().unwrap();
    while next()["seq"].as_u64().unwrap() < last {}
    tail.kill().unwrap();
    tail.wait().unwrap();
}

#[test]
fn export_writes_lines_a_document_and_a_file() {
    let env = TestEnvironment::new();
    record_numbered(&env, 3);
    let lines = env.run(&["export"]).success();
    let document = env.run(&["export", "--format", "json"]).success();
    let document: Value = serde_json::from_slice(&document.out).unwrap();
    assert_eq!(document["events"].as_array().unwrap(), &lines.json_lines());
    assert_eq!(document["session"]["key"], "s");
    assert_eq!(document["session"]["id"], lines.json_lines()[0]["data"]["session"]);
    fs::write(env.project().join("out.jsonl"), "before").unwrap();
    let quiet = env.run(&["export", "-o", "out.jsonl"]).success();
    assert_eq!(quiet.stdout(), "");
    assert_eq!(fs::read(env.project().join("out.jsonl")).unwrap(), lines.out);
    let nowhere = env.run(&["export", "-o", "no/such/dir/x"]).failure(1);
    assert!(nowhere.stderr.contains("no/such/dir"), "{nowhere:?}");
    // Nothing half-made is left about.
    assert_eq!(fs::read_dir(env.project()).unwrap().count(), 2);
}

#[test]
fn export_writes_into_what_is_no_file_and_does_not_replace_it() {
    let env = TestEnvironment::new();
    record_numbered(&env, 3);
    for format in ["jsonl", "bundle"] {
        let export = |to: &str| env.run(&["export", "--format", format, "-o", to]).success();
        let whole = env.run(&["export", "--format", format]).success().out;
        assert_eq!(export("/dev/stdout").out, whole);
        assert_eq!(export("/dev/null").out, b"");
        assert!(!fs::metadata("/dev/null").unwrap().is_file());

        let pipe = env.project().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        export("pipe");
        assert_eq!(reader.join().unwrap(), whole);
        assert!(!fs::metadata(&pipe).unwrap().is_file());
        fs::remove_file(pipe).unwrap();

        // A link stays, and so does what stdout is appended to.
        let (file, link) = (env.project().join("file"), env.project().join("link"));
        fs::write(&file, "before").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        export("link");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), whole);
        let appended = fs::File::options().append(true).open(&file).unwrap();
        let mut command = env.command(&["export", "--format", format, "-o", "/dev/stdout"]);
        assert!(command.stdout(appended).status().unwrap().success());
        assert_eq!(fs::read(&file).unwrap(), whole.repeat(2));
        fs::remove_file(link).unwrap();
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn a_session_made_and_not_written_is_exported() {
    let env = TestEnvironment::new();
    env.run(&["new"]).success();
    let document = env.run(&["export", "--format", "json"]).success();
    let document: Value = serde_json::from_slice(&document.out).unwrap();
    assert_eq!(document["events"].as_array().unwrap().len(), 1);
}

#[test]
fn a_torn_tail_is_a_note() {
    let env = TestEnvironment::new();
    record_numbered(&env, 5);
    let segment = env.session_dir().join("journal/00000001.jsonl");
    let mut bytes = fs::read(&segment).unwrap();
    bytes.extend_from_slice(br#"{"seq":9,"at":"2026-"#);
    fs::write(&segment, &bytes).unwrap();
    let exported = env.run(&["export"]).success();
    assert_eq!(exported.json_lines().len(), 8);
    assert!(exported.stderr.contains("\nNote: "), "{exported:?}");
    let doctor = env.run(&["doctor"]).success();
    assert!(doctor.stdout().starts_with("warning[torn-tail]: "), "{doctor:?}");
    // The next writer cuts it off and says so.
    let done = env.record(&["--key", "s"], &[HELLO]).success();
    assert!(done.stderr.starts_with("Warning: "), "{done:?}");
    let doctor = env.run(&["doctor"]).success();
    assert!(doctor.stdout().ends_with("no findings\n"), "{doctor:?}");
}

#[test]
fn damage_costs_only_itself_and_is_told() {
    let env = TestEnvironment::new();
    record_numbered(&env, 20);
    let segment = env.session_dir().join("journal/00000001.jsonl");
    let text = fs::read_to_string(&segment).unwrap();
    assert!(text.contains(r#"{"n":7}"#));
    fs::write(&segment, text.replace(r#"{"n":7}"#, r#"{"n":8}"#)).unwrap();
    // Which session is the latest is read from the index, which this brings up to date.
    env.run(&["ls"]).success();
    let before = files(&env.project());
    let exported = env.run(&["export"]).failure(1);
    assert_eq!(exported.json_lines().len(), 22);
    assert!(
        exported.stderr.contains("Warning: ") && exported.stderr.contains("event 10"),
        "{exported:?}"
    );
    let to_file = env.run(&["export", "-o", "../out"]).failure(1);
    assert!(to_file.stderr.contains("everything readable was exported"), "{to_file:?}");
    assert_eq!(fs::read(env.path("out")).unwrap(), exported.out);
    let doctor = env.run(&["doctor"]).failure(1);
    assert!(doctor.stdout().contains("error[journal-damage]: "), "{doctor:?}");
    assert!(doctor.stdout().ends_with("; 1 error\n"), "{doctor:?}");
    let json = env.run(&["doctor", "--json"]).failure(1).json_lines().remove(0);
    assert_eq!(json["findings"][0]["rule"], "journal-damage");
    assert_eq!((&json["sessions"], &json["events"]), (&1.into(), &22.into()));
    assert_eq!(files(&env.project()), before, "checking wrote something");
}

#[test]
fn a_session_without_its_header_is_found_by_doctor() {
    let env = TestEnvironment::new();
    record_numbered(&env, 2);
    let segment = env.session_dir().join("journal/00000001.jsonl");
    fs::write(&segment, "").unwrap();
    env.record(&["--new"], &[HELLO]).success();
    let doctor = env.run(&["doctor"]).failure(1);
    assert!(doctor.stdout().contains("critical[session-unreadable]: "), "{doctor:?}");
}

#[test]
fn doctor_checks_what_is_named_or_all() {
    let env = TestEnvironment::new();
    let first = env.run(&["new"]).success();
    record_numbered(&env, 5);
    let one = env.run(&["doctor", first.stdout().trim()]).success();
    insta::assert_snapshot!(one.stdout(), @"1 session, 1 event, 0.1 MB checked; no findings");
    let _filters = env.filters();
    for args in [&["doctor"][..], &["doctor", "--all"]] {
        let all = env.run(args).success();
        insta::allow_duplicates! {
            insta::assert_snapshot!(all.stdout(), @"2 sessions, 9 events, 0.1 MB checked; no findings");
            insta::assert_snapshot!(all.stderr, @"Store [TEMP]/project/.abide");
        }
    }
    env.run(&["doctor", "--all", first.stdout().trim()]).failure(2);
}
