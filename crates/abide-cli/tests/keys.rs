//! A session by the name that its client has for it.

use std::fs;
use std::path::{Path, PathBuf};

use abide_testkit::AcpClient;
use serde_json::{Value, json};

use crate::acp::stub_agent;
use crate::environment::{HELLO, TestEnvironment, run};

const KEY: &str = "My-Agent/Ticket 42";

/// Records with a key in a directory; gives the session.
#[track_caller]
fn keyed(env: &TestEnvironment, dir: &Path, key: &str) -> String {
    let done = env.record_in(dir, &["--key", key], HELLO).success();
    done.json_lines()[0]["session"].as_str().unwrap().to_owned()
}

fn project(env: &TestEnvironment, name: &str) -> PathBuf {
    let dir = env.path(name);
    fs::create_dir_all(&dir).unwrap();
    env.git(&dir, &["init", "-q"]);
    dir
}

/// The session that a command means which is given this name.
#[track_caller]
fn meant(env: &TestEnvironment, dir: &Path, args: &[&str]) -> String {
    let exported = env.run_in(dir, &[&["export"], args].concat()).success().json_lines();
    exported[0]["data"]["session"].as_str().unwrap().to_owned()
}

#[test]
fn a_key_names_its_session_in_every_command() {
    for env in [TestEnvironment::new(), TestEnvironment::bare()] {
        let here = env.project();
        let session = keyed(&env, &here, KEY);
        let other = keyed(&env, &here, "other");
        assert_eq!(meant(&env, &here, &[KEY]), session);
        assert_eq!(meant(&env, &here, &["--session", "other"]), other);
        // As before, by its id and by a beginning of it.
        for named in [session.as_str(), &session[..23]] {
            assert_eq!(meant(&env, &here, &[named]), session, "{named}");
        }
        for args in [
            &["show", KEY][..],
            &["context", KEY],
            &["tail", KEY],
            &["tasks", "add", "Mend it", "--session", KEY],
            &["tasks", "--session", KEY],
            &["checkpoint", "create", "--session", KEY],
            &["checkpoint", "list", KEY],
            &["fork", "-s", KEY],
            &["doctor", KEY],
            &["status", KEY],
            &["store", "path", KEY],
            &["rewind", "1", "-s", KEY, "--dry-run"],
            &["resume", KEY, "--", "true"],
        ] {
            let done = env.run(args);
            assert_eq!(done.code, 0, "{args:?}: {done:?}");
        }
        let recorded = env.record(&["--session", KEY], &[HELLO]).success();
        assert_eq!(recorded.json_lines()[0]["session"], session.as_str());
        // Named by the environment, too: what a task's process records is the task's.
        let mut command = env.command(&["record"]);
        command.env("ABIDE_SESSION", KEY).env("ABIDE_TASK", "T1");
        let recorded = run(command, format!("{HELLO}\n").as_bytes()).success();
        assert_eq!(recorded.json_lines()[0]["session"], session.as_str());
        let last = env.run(&["show", KEY, "--json"]).success().json_lines();
        assert!(last.iter().any(|event| event["task"] == "T1"), "{last:?}");
        // Upper case counts, and so does every character.
        for unknown in ["my-agent/ticket 42", "My-Agent/Ticket 4", "", "nobody"] {
            let done = env.run(&["show", unknown]).failure(1);
            assert!(done.stderr.contains("there is no session"), "{done:?}");
            assert!(done.stderr.contains("the newest sessions in"), "{done:?}");
        }
    }
}

#[test]
fn history_prints_keys() {
    let env = TestEnvironment::new();
    keyed(&env, &env.project(), "a\u{1b}[31mb\tc");
    env.record(&["--new"], &[HELLO]).success();
    let rows = env.run(&["history", "--json"]).success();
    let rows: Value = serde_json::from_str(rows.stdout()).unwrap();
    let keys: Vec<&Value> = rows.as_array().unwrap().iter().map(|row| &row["key"]).collect();
    assert!(keys.contains(&&json!("a\u{1b}[31mb\tc")), "{keys:?}");
    assert!(
        rows.as_array().unwrap().iter().all(|row| row.as_object().unwrap().contains_key("key"))
    );
    let plain = env.run(&["history"]).success();
    let lines: Vec<&str> =
        plain.stdout().lines().filter(|line| line.starts_with("\tkey\t")).collect();
    assert_eq!(lines.len(), 1, "{plain:?}");
    assert!(!lines[0].contains('\u{1b}'), "{lines:?}");
}

#[test]
fn a_key_of_this_project_comes_first_and_one_of_several_must_be_told_apart() {
    let env = TestEnvironment::bare();
    let [one, two, three] = ["one", "two", "three"].map(|name| project(&env, name));
    let [first, second] = [keyed(&env, &one, "build"), keyed(&env, &two, "build")];
    let only = keyed(&env, &one, "only");
    keyed(&env, &three, "else");
    assert_eq!(meant(&env, &one, &["build"]), first);
    assert_eq!(meant(&env, &two, &["build"]), second);
    // Another project's is meant only if all are: nothing is written to it by mistake.
    env.run_in(&two, &["show", "only"]).failure(1);
    env.record_in(&two, &["--session", "only"], HELLO).failure(1);
    for args in [["show", "-A", "build"], ["export", "-A", "build"]] {
        let done = env.run_in(&one, &args).failure(1);
        assert!(done.stderr.contains(r#"key "build" is ambiguous: "#), "{done:?}");
        assert!(done.stderr.contains("(one)") && done.stderr.contains("(two)"), "{done:?}");
        assert!(done.stderr.contains("a key is unique only within a project"), "{done:?}");
    }
    assert_eq!(meant(&env, &two, &["-A", "only"]), only);
    // A short key is not taken for the beginning of some id: one of these begins with it.
    let digits = "0123456789abcdefghjkmnpqrstvwxyz".split("").filter(|digit| !digit.is_empty());
    for digit in digits {
        let session = keyed(&env, &one, digit);
        assert_eq!(meant(&env, &one, &[digit]), session, "{digit}");
    }
}

#[test]
fn a_session_of_acp_is_named_by_the_id_of_its_client() {
    let env = TestEnvironment::new();
    let mut command = env.command(&["acp", "--"]);
    command.arg(stub_agent());
    let mut client = AcpClient::start(command);
    client.initialize();
    let made = client.must("session/new", json!({"cwd": env.project(), "mcpServers": []}));
    let id = made["sessionId"].as_str().unwrap().to_owned();
    client.turn(&id, "say a");
    assert!(client.close().success());
    let row = env.run(&["history", "--json"]).success();
    let rows: Value = serde_json::from_str(row.stdout()).unwrap();
    assert_eq!(rows[0]["key"], format!("acp:{id}"));
    let session = rows[0]["id"].as_str().unwrap();
    assert_eq!(meant(&env, &env.project(), &[&id]), session);
    assert_eq!(meant(&env, &env.project(), &[&format!("acp:{id}")]), session);
}
