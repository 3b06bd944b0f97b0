//! A session that is begun on one machine, killed there, and goes on on another one: the same
//! conversation, the same files, the tasks continue.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::environment::{Conversation, Done, HELLO, TestEnvironment, run};
use crate::shared_commands::database;

const ANSWER: &str =
    r#"{"kind":"message.added","data":{"role":"assistant","content":"I begin with the parser."}}"#;

/// A machine: a home of its own, a clone of its own, the same server.
struct Machine<'a> {
    env: TestEnvironment,
    url: &'a str,
}

impl<'a> Machine<'a> {
    fn new(url: &'a str, remote: &str) -> Self {
        let machine = Self { env: TestEnvironment::bare(), url };
        machine.git(&["clone", "--quiet", remote, "."]);
        machine
    }

    fn git(&self, args: &[&str]) -> String {
        git(&self.env, args)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.env.command(args);
        command.env("ABIDE_STORE", self.url);
        command
    }

    fn run(&self, args: &[&str]) -> Done {
        run(self.command(args), b"")
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.env.project().join(path), text).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.env.project().join(path)).ok()
    }

    fn files(&self) -> [Option<String>; 4] {
        ["README", "parser.rs", "notes.txt", "old.txt"].map(|path| self.read(path))
    }
}

fn git(env: &TestEnvironment, args: &[&str]) -> String {
    let mut command = env.isolate(Command::new("git"));
    command.args(["-c", "user.name=x", "-c", "user.email=x@example.org"]).args(args);
    run(command, b"").success().stdout().to_owned()
}

/// A repository that both clone.
fn remote() -> (TestEnvironment, String) {
    let env = TestEnvironment::bare();
    git(&env, &["init", "--quiet"]);
    fs::write(env.project().join("README"), "A parser.\n").unwrap();
    fs::write(env.project().join("old.txt"), "to be removed\n").unwrap();
    git(&env, &["add", "."]);
    git(&env, &["commit", "--quiet", "-m", "first"]);
    let bare = env.path("remote.git").display().to_string();
    git(&env, &["clone", "--quiet", "--bare", ".", &bare]);
    (env, bare)
}

#[test]
fn a_session_begun_on_one_machine_goes_on_on_another() {
    let Some((_, url)) = database() else { return };
    let (_remote, bare) = remote();
    let first = Machine::new(&url, &bare);
    first.run(&["store", "init"]).success();
    let session = first.run(&["new", "--title", "The parser"]).success().stdout().trim().to_owned();
    for (title, id) in [("Write it", "T1"), ("Test it", "T2")] {
        first.run(&["tasks", "add", title, "--id", id, "--session", &session]).success();
    }
    first.run(&["tasks", "set", "T1", "implementing", "--session", &session]).success();
    first.run(&["tasks", "set", "T1", "complete", "--session", &session]).success();
    // What was changed and never committed, what git does not know, what is gone.
    first.write("README", "A parser, half done.\n");
    first.write("parser.rs", "fn parse() {}\n");
    first.write("notes.txt", "remember the tests\n");
    fs::remove_file(first.env.project().join("old.txt")).unwrap();
    first.run(&["checkpoint", "create", "-m", "half-way", "--session", &session]).success();
    let mut writer = Conversation::start(first.command(&["record", "--session", &session]));
    writer.ask(HELLO);
    writer.ask(ANSWER);
    writer.child.kill().unwrap();
    writer.child.wait().unwrap();
    let first_files = first.files();

    let second = Machine::new(&url, &bare);
    let rows: Value =
        serde_json::from_str(second.run(&["history", "--json"]).success().stdout()).unwrap();
    assert_eq!(rows[0]["id"].as_str().or(rows[0]["session"].as_str()), Some(&*session), "{rows}");
    for args in [
        &["context", &session][..],
        &["show", &session, "--json"][..],
        &["tasks", "--json", "--session", &session][..],
    ] {
        let (there, here) = (first.run(args).success(), second.run(args).success());
        assert!(!here.out.is_empty() && there.out == here.out, "{args:?}: {there:?} {here:?}");
    }

    // Without a yes nothing is done, and what would be is shown.
    let agent = "cat > told; echo \"$ABIDE_TASK\" >> worked; echo done";
    let resume = ["resume", &session, "--", "sh", "-c", agent];
    let before = second.files();
    let asked = second.run(&resume).failure(1);
    assert!(asked.stderr.contains("there is no terminal to ask on"), "{asked:?}");
    let plan = format!(
        "Files in {}:\n  create  notes.txt  +1\n  create  parser.rs  +1\n  change  README     +1 -1\n  delete  old.txt    -1\n",
        second.env.project().display()
    );
    assert!(asked.stdout().contains(&plan), "{asked:?}");
    assert_eq!(second.files(), before);
    assert_eq!(first.files(), first_files);

    let done = second.run(&[&resume[..2], &["--yes"], &resume[2..]].concat()).success();
    assert_eq!(second.files(), first_files, "the same files: {done:?}");
    assert_eq!(second.read("worked").as_deref(), Some("T2\n"), "T1 is not done again: {done:?}");
    assert_eq!(first.read("worked"), None, "the other clone is left alone");
    let tasks = second.run(&["tasks", "--json", "--session", &session]).success();
    let tasks = tasks.json_lines();
    assert_eq!(tasks.len(), 2);
    assert!(tasks.iter().all(|task| task["status"] == "complete"), "{tasks:?}");

    // What is done here now belongs to the session; going on here asks no more.
    second.write("parser.rs", "fn parse() { all() }\n");
    second.run(&["tasks", "add", "Ship it", "--id", "T3", "--session", &session]).success();
    second.run(&resume).success();
    assert_eq!(second.read("parser.rs").as_deref(), Some("fn parse() { all() }\n"));
    assert_eq!(second.read("worked").as_deref(), Some("T2\nT3\n"));
}
