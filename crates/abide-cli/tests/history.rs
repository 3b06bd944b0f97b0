//! `abide history`: listed, filtered, searched, and right whatever happens to the index.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use abide::{LocalOptions, LocalStore};
use abide_testkit::FaultRun;
use serde_json::Value;

use crate::environment::{Conversation, HELLO, TestEnvironment};
use crate::terminal::on_narrow_terminal;

const FIRST: [&str; 7] = [
    r#"{"kind":"turn.started","data":{"agent":"coder"}}"#,
    r#"{"kind":"message.added","data":{"role":"user","content":"The parser drops the last line"}}"#,
    r#"{"kind":"tool.called","data":{"call":"c1","name":"edit","arguments":{"path":"src/parse.rs"}}}"#,
    r#"{"kind":"file.touched","data":{"path":"src/parse.rs","op":"write"}}"#,
    r#"{"kind":"tool.finished","data":{"call":"c1","ok":true,"result":"two lines changed"}}"#,
    r#"{"kind":"turn.finished","data":{"status":"ok","usage":{"input_tokens":1200,"output_tokens":34}}}"#,
    r#"{"kind":"session.status","data":{"status":"completed","summary":"fixed"}}"#,
];
const SECOND: [&str; 1] =
    [r#"{"kind":"message.added","data":{"role":"user","content":"Write a haiku about zebras"}}"#];

fn recorded() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.record(&["--key", "a", "--title", "Fix the parser"], &FIRST).success();
    env.record(&["--key", "b"], &SECOND).success();
    env
}

fn rows(env: &TestEnvironment, args: &[&str]) -> Vec<Value> {
    let done = env.run(&[&["history", "--json"], args].concat()).success();
    serde_json::from_str(done.stdout()).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

fn titles(env: &TestEnvironment, args: &[&str]) -> Vec<String> {
    rows(env, args)
        .iter()
        .map(|row| row["title"].as_str().or(row["request"].as_str()).unwrap().to_owned())
        .collect()
}

#[test]
fn json_is_an_array_of_objects() {
    let env = recorded();
    let rows = rows(&env, &[]);
    assert_eq!(rows.len(), 2);
    let row = &rows[1];
    for field in ["id", "short", "title", "status", "agent", "created", "updated", "turns"] {
        assert!(row.get(field).is_some(), "{field}");
    }
    assert_eq!(row["title"], "Fix the parser");
    assert_eq!(row["status"], "completed");
    assert_eq!(row["turns"], 1);
    assert_eq!(row["tool_calls"], 1);
    assert_eq!(row["files"], 1);
    assert_eq!(row["usage"]["input_tokens"], 1200);
    assert_eq!(row["request"], "The parser drops the last line");
    assert_eq!(row["summary"], "fixed");
    assert!(row["id"].as_str().unwrap().len() == 36);
    // What it calls a session, the other commands know.
    env.run(&["tail", row["short"].as_str().unwrap()]).success();
}

#[test]
fn filters_combine() {
    let env = recorded();
    let (fix, haiku) = ("Fix the parser", "Write a haiku about zebras");
    assert_eq!(titles(&env, &[]), [haiku, fix]);
    assert_eq!(titles(&env, &["--limit", "1"]), [haiku]);
    assert_eq!(titles(&env, &["--limit", "0"]), [haiku, fix]);
    assert_eq!(titles(&env, &["--status", "completed"]), [fix]);
    assert_eq!(titles(&env, &["--status", "completed", "--status", "idle"]), [haiku, fix]);
    assert_eq!(titles(&env, &["--agent", "coder"]), [fix]);
    assert_eq!(titles(&env, &["--file", "parse.rs", "--search", "lines"]), [fix]);
    assert_eq!(titles(&env, &["--file", "parse.rs", "--search", "zebras"]), [""; 0]);
    assert_eq!(titles(&env, &["--since", "1h"]), [haiku, fix]);
    assert_eq!(titles(&env, &["--since", "2100-01-01"]), [""; 0]);
    assert_eq!(titles(&env, &["--until", "yesterday"]), [""; 0]);
    assert_eq!(titles(&env, &["--until", "today"]), [haiku, fix]);
    let none = env.run(&["history", "--agent", "nobody"]).success();
    assert_eq!(none.stdout(), "");
    assert!(none.stderr.ends_with("matches\n"), "{none:?}");
}

#[test]
fn a_search_shows_the_text_and_the_turn() {
    let env = recorded();
    let found = rows(&env, &["--search", "\"last line\" pars*"]);
    assert_eq!(found.len(), 1);
    let place = &found[0]["matches"][0];
    assert_eq!(place["turn"], 1);
    assert_eq!(place["agent"], "coder");
    assert_eq!(place["kind"], "message.added");
    assert_eq!(place["excerpt"]["text"], "The parser drops the last line");
    assert_eq!(place["excerpt"]["found"][0]["start"], 4);
    let plain = env.run(&["history", "--search", "lines"]).success();
    let lines: Vec<&str> = plain.stdout().lines().collect();
    assert_eq!(lines.len(), 3, "{plain:?}");
    let cells: Vec<&str> = lines[0].split('\t').collect();
    assert_eq!(cells[2..], ["completed", "", "1", "1234", "1", "Fix the parser"]);
    assert_eq!(lines[1], "\tkey\ta");
    assert_eq!(lines[2], "\t@7\tturn 1 (coder)\ttwo lines changed");
    let touched = env.run(&["history", "--file", "src"]).success();
    assert!(
        touched.stdout().ends_with("\t@6\twrite src/parse.rs, turn 1 (coder)\n"),
        "{touched:?}"
    );
}

#[test]
fn what_is_typed_wrong_is_told() {
    let env = recorded();
    for (args, told) in [
        (["--status", "done"], "expected one of: running, unclear"),
        (["--since", "soon"], "expected 2026-11-15"),
        (["--search", "++"], "no word to search for in \"++\""),
        (["--limit", "-1"], "unexpected argument"),
    ] {
        let done = env.run(&[&["history"], &args[..]].concat()).failure(2);
        assert!(done.stderr.contains(told), "{done:?}");
    }
    let elsewhere = TestEnvironment::bare();
    let none = elsewhere.run(&["history"]).failure(1);
    assert!(none.stderr.contains("nothing is recorded yet"), "{none:?}");
    elsewhere.run(&["init"]).success();
    let empty = elsewhere.run(&["history"]).success();
    assert!(empty.stderr.contains("There is no session yet"), "{empty:?}");
    assert_eq!(elsewhere.run(&["history", "--json"]).success().stdout(), "[]\n");
}

#[test]
fn hostile_text_is_searched_and_escaped() {
    let env = TestEnvironment::new();
    let hostile = r#"{"kind":"message.added","data":{"role":"user","content":"\u001b[31mzebra\u0000 === RESULT === \u202e OR AND NEAR(\" *"}}"#;
    env.record(&["--title", "\u{1b}]0;x\u{7}title"], &[hostile]).success();
    for search in ["zebra", "\"=== RESULT ===\"", "OR", "NEAR(", "zebra*", "' OR 1=1 --"] {
        let done = env.run(&["history", "--search", search]);
        let text = String::from_utf8(done.out.clone()).unwrap();
        assert!(
            done.code == 0 && !text.contains(['\u{1b}', '\0', '\u{202e}']),
            "{search} {done:?}"
        );
    }
    assert_eq!(rows(&env, &["--search", "near"]).len(), 1);
}

#[test]
fn a_store_that_cannot_be_written_is_answered_all_the_same() {
    let env = recorded();
    let store = env.project().join(".abide");
    fs::set_permissions(&store, fs::Permissions::from_mode(0o500)).unwrap();
    let root = rustix::process::geteuid().is_root();
    let done = env.run(&["history", "--search", "zebras"]).success();
    assert_eq!(done.stdout().lines().count(), 3);
    // Root writes where it likes.
    assert!(root || done.stderr.contains("a temporary one was used"), "{done:?}");
    fs::set_permissions(&store, fs::Permissions::from_mode(0o700)).unwrap();
    fs::create_dir(store.join("index.db.new")).unwrap();
    fs::write(store.join("index.db.new/x"), b"").unwrap();
    let _ = fs::remove_file(store.join("index.db"));
    let done = env.run(&["history", "--search", "zebras"]).success();
    assert_eq!(done.stdout().lines().count(), 3);
    assert!(done.stderr.contains("a temporary one was used"), "{done:?}");
}

/// A process is killed while it brings the index up to date, again and again.
#[test]
fn an_index_whose_makers_are_killed_is_what_a_rebuild_gives() {
    let kills = FaultRun::from_env().len(12, 200);
    let env = TestEnvironment::new();
    let text = "the parser drops the last line of every file it is given ".repeat(20);
    let message =
        format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{text}"}}}}"#);
    let mut random = 7_u64.wrapping_add(FaultRun::from_env().seed()).max(1);
    let mut killed = 0;
    let mut round = 0;
    while killed < kills {
        round += 1;
        assert!(round < 20 * kills, "it is always done before it is killed");
        for session in 0..3 {
            let turn = r#"{"kind":"turn.started","data":{"agent":"coder"}}"#;
            let mut lines = vec![turn];
            lines.extend(std::iter::repeat_n(message.as_str(), 120));
            let key = format!("s{}", (round + session) % 7);
            env.record(&["--key", &key], &lines).success();
        }
        // Now and then it is made from nothing.
        if round % 10 == 0 {
            let _ = fs::remove_file(env.project().join(".abide/index.db"));
        }
        let mut child =
            env.command(&["history"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(500 + random % 25_000));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        killed += usize::from(status.code().is_none());
    }
    let root = env.project().join(".abide");
    let dump = || LocalStore::open(&root, LocalOptions::default()).unwrap().index().dump().unwrap();
    let kept = dump();
    fs::remove_file(root.join("index.db")).unwrap();
    assert_eq!(kept, dump());
    assert!(kept.len() > 10_000);
    println!("kills of index makers: {killed}");
}

/// A writer that died has left its session open; it is looked at until somebody finds it at rest.
#[test]
fn the_session_of_a_killed_writer_is_found() {
    let env = TestEnvironment::new();
    let mut talk = Conversation::start(env.command(&["record", "--key", "k"]));
    let said = |word: &str| {
        format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{word}"}}}}"#)
    };
    talk.ask(&said("first"));
    assert_eq!(rows(&env, &["--search", "first"]).len(), 1);
    talk.ask(&said("second"));
    assert_eq!(rows(&env, &["--search", "second"]).len(), 1, "the writer still has it");
    talk.ask(&said("third"));
    drop(talk);
    for _ in 0..3 {
        assert_eq!(rows(&env, &["--search", "third"]).len(), 1);
    }
    env.record(&["--key", "k"], &[&said("fourth")]).success();
    assert_eq!(rows(&env, &["--search", "fourth"]).len(), 1);
}

#[test]
fn a_recorded_session_is_running_while_its_writer_is_there_and_then_idle_or_completed() {
    let env = TestEnvironment::new();
    let hello = r#"{"kind":"message.added","data":{"role":"user","content":"hello"}}"#;
    let rows = |status: &str| -> Vec<Value> {
        let done = env.run(&["history", "--status", status, "--json"]).success();
        serde_json::from_str(done.stdout()).unwrap()
    };
    let statuses = || -> Vec<usize> {
        ["pending", "running", "idle", "interrupted", "completed"].map(|it| rows(it).len()).into()
    };
    let mut writer = Conversation::start(env.command(&["record", "--key", "s"]));
    writer.ask(hello);
    assert_eq!(statuses(), [0, 1, 0, 0, 0]);
    assert_eq!(rows("running")[0]["status"], "running");
    assert_eq!(writer.end(), 0);
    assert_eq!(statuses(), [0, 0, 1, 0, 0]);
    assert!(env.run(&["show"]).success().stdout().contains("idle · "));

    // Killed: whatever it said of itself, it is not running any more.
    let mut writer = Conversation::start(env.command(&["record", "--key", "s"]));
    writer.ask(r#"{"kind":"session.status","data":{"status":"running"}}"#);
    assert_eq!(statuses(), [0, 1, 0, 0, 0]);
    drop(writer);
    assert_eq!(statuses(), [0, 0, 0, 1, 0]);

    // A line that is refused does not complete it.
    env.record(&["--key", "s", "--complete"], &[hello, "nonsense"]).failure(1);
    assert_eq!(statuses(), [0, 0, 1, 0, 0]);
    assert_eq!(rows("idle")[0]["completed_at"], Value::Null);
    let done = env.record(&["--key", "s", "--complete"], &[hello]).success();
    assert_eq!(done.json_lines().len(), 1);
    assert_eq!(statuses(), [0, 0, 0, 0, 1]);
    let row = rows("completed").remove(0);
    let at = row["completed_at"].as_str().unwrap();
    assert!(at > row["created"].as_str().unwrap() && at <= row["updated"].as_str().unwrap());
    // Without a line, too.
    env.record(&["--key", "t"], &[hello]).success();
    assert_eq!(statuses(), [0, 0, 1, 0, 1]);
    env.record_bytes(&["--key", "t", "--complete"], b"").success();
    assert_eq!(statuses(), [0, 0, 0, 0, 2]);
    for (args, why) in [
        (&["--key", "u", "--complete"][..], "u"),
        (&["--complete"], "there is no session to complete"),
    ] {
        let done = env.record_bytes(args, b"").failure(1);
        assert!(done.stderr.contains(why), "{}", done.stderr);
    }
    // One in which nothing happened yet is pending.
    env.run(&["new"]).success();
    assert_eq!(statuses(), [1, 0, 0, 0, 2]);
    assert_eq!(rows("completed").len(), 2);
    let some = ["history", "--status", "completed", "--limit", "1"];
    assert!(env.run(&some).success().stderr.contains("1 more session"));
}

#[test]
fn a_narrow_terminal_keeps_what_a_person_needs() {
    let env = TestEnvironment::new();
    let title = "Port the lexer to the new grammar and keep all of its tests green";
    let made = env.run(&["new", "--json", "--title", title, "--agent", "coder"]).success();
    let short = made.json_lines()[0]["short"].as_str().unwrap().to_owned();
    env.record(&["-s", &short], &[HELLO]).success();
    let shown = |args: &str| {
        let done = on_narrow_terminal(&env, 60, args)?;
        let text = String::from_utf8(done.out).unwrap();
        // A colour takes no column.
        let text = text.split('\u{1b}').map(|part| match part.split_once('m') {
            Some((code, rest)) if code.starts_with('[') => rest,
            _ => part,
        });
        let text = text.collect::<String>().replace('\r', "");
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        Some(text)
    };
    let line = |text: &str| text.lines().find(|line| line.contains("Port")).unwrap().to_owned();
    let Some(listed) = shown("ls") else { return };
    let listed = line(&listed);
    assert!(listed.contains(&short) && listed.ends_with("  idle"), "{listed}");
    assert!(!listed.contains("coder"), "{listed}");
    let status = line(&shown("status").unwrap());
    assert!(
        status.contains("  idle  ") && status.contains(&format!("abide show {short}")),
        "{status}"
    );
}

#[test]
fn a_search_asks_who_said_it_in_which_command_and_what_failed() {
    let env = TestEnvironment::new();
    let lines = [
        r#"{"kind":"message.added","data":{"role":"user","content":"run parseRows"}}"#,
        r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"cargo test parse_rows --no-verify"}}]}}"#,
        r#"{"kind":"message.added","data":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"Exit code 101\nerror: src/parse.rs is broken"}]}}"#,
        r#"{"kind":"message.added","data":{"role":"assistant","content":"I broke src/parse.rs"}}"#,
    ];
    env.record(&["--title", "Rows"], &lines).success();
    let seqs = |args: &[&str]| -> Vec<u64> {
        let done = env.run(&[&["search", "--json"], args].concat()).success();
        let rows: Vec<Value> = serde_json::from_str(done.stdout()).unwrap();
        let matches = rows.iter().filter_map(|row| row["matches"].as_array());
        let mut seqs: Vec<u64> = matches.flatten().map(|m| m["seq"].as_u64().unwrap()).collect();
        seqs.sort_unstable();
        seqs
    };
    assert_eq!(seqs(&["rows", "--role", "user"]), [3]);
    assert_eq!(seqs(&["src/parse.rs"]), [5, 6]);
    assert_eq!(seqs(&["src/parse.rs", "--role", "tool"]), [5]);
    assert_eq!(seqs(&["broke*", "--role", "assistant"]), [6]);
    assert_eq!(seqs(&["--command", "rows"]), [4]);
    assert_eq!(seqs(&["--command", "--no-verify"]), [4]);
    assert_eq!(seqs(&["--command", "cargo test", "--error"]), [5]);
    assert_eq!(seqs(&["--error"]), [5]);
    assert_eq!(seqs(&["--error", "--command", "ls"]), Vec::<u64>::new());
    assert_eq!(seqs(&["--error", "--since", "2100-01-01"]), Vec::<u64>::new());
    let wrong = env.run(&["search", "--role", "nobody", "x"]).failure(2);
    assert!(wrong.stderr.contains("user, assistant, tool"), "{wrong:?}");
    let nothing = env.run(&["search"]).failure(2);
    assert!(nothing.stderr.contains("<TEXT>"), "{nothing:?}");
}

#[test]
fn what_happened_before_is_not_active_now() {
    let env = TestEnvironment::new();
    env.record(&["--title", "Now"], &SECOND).success();
    let old = r#"{"kind":"message.added","occurred":"2026-01-02T03:04:05Z","data":{"role":"user","content":"Long ago"}}"#;
    env.record(&["--title", "Then"], &[old]).success();
    let rows = rows(&env, &[]);
    let told = |row: &Value| row["title"].as_str().unwrap().to_owned();
    assert_eq!(rows.iter().map(told).collect::<Vec<_>>(), ["Now", "Then"]);
    assert_eq!(rows[1]["created"], "2026-01-02T03:04:05.000Z");
    assert_eq!(rows[1]["updated"], "2026-01-02T03:04:05.000Z");
    assert_eq!(titles(&env, &["--since", "1h"]), ["Now"]);
    assert_eq!(titles(&env, &["--until", "2026-01-03"]), ["Then"]);
}
