//! Checkpoints, rewinds and undo, as a user has them.

use std::fs;
use std::process::Command;

use crate::environment::{Done, HELLO, TestEnvironment, run};

struct Lab {
    env: TestEnvironment,
    session: String,
}

impl Lab {
    fn new() -> Self {
        let env = TestEnvironment::new();
        let session = env.run(&["new", "--title", "work"]).success().stdout().trim().to_owned();
        Self { env, session }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.env.command(args);
        command.env("ABIDE_SESSION", &self.session);
        command
    }

    fn run(&self, args: &[&str]) -> Done {
        run(self.command(args), b"")
    }

    fn say(&self) {
        let line = format!("{HELLO}\n");
        run(self.command(&["record"]), line.as_bytes()).success();
    }

    fn git(&self, args: &[&str]) -> String {
        let mut command = self.env.isolate(Command::new("git"));
        command.args(["-c", "user.name=x", "-c", "user.email=x@example.org"]).args(args);
        run(command, b"").success().stdout().to_owned()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.env.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.env.project().join(path)).ok()
    }
}

#[test]
fn a_rewind_shows_its_plan_asks_and_is_undone() {
    let lab = Lab::new();
    let _filters = lab.env.filters();
    lab.write("src/main.rs", "fn main() {}\n");
    lab.write("notes.txt", "old\n");
    lab.say();
    let made = lab.run(&["checkpoint", "create", "-m", "tests pass"]).success();
    assert!(made.stdout().starts_with("Checkpoint 1 \"tests pass\": 2 files, 17 B; "));
    lab.write("src/main.rs", "fn main() { broken }\n");
    lab.write("new.txt", "made since\n");
    fs::remove_file(lab.env.project().join("notes.txt")).unwrap();
    lab.say();

    insta::assert_snapshot!(lab.run(&["checkpoint", "diff", "1"]).success().stdout(), @r"
    A  new.txt
    D  notes.txt
    M  src/main.rs
    ");
    insta::assert_snapshot!(lab.run(&["checkpoint", "diff", "tests pass", "--stat"]).success().stdout(), @r"
    A  new.txt     |     1 +
    D  notes.txt   |     1 -
    M  src/main.rs |     2 +-
    3 files changed, 2 lines came, 2 went
    ");
    let plan = lab.run(&["rewind", "--to", "1", "--dry-run"]).success();
    insta::assert_snapshot!(plan.stdout(), @r#"
    Back to checkpoint 1 "tests pass" (just now)
    Conversation: 4 events leave it, 1 of them messages; `abide show --all` still shows them
    Files in [TEMP]/project:
      delete  new.txt
      create  notes.txt
      change  src/main.rs
      1 to create, 1 to change, 1 to delete; everything else is kept
    "#);
    assert_eq!(lab.read("notes.txt"), None);
    let asked = lab.run(&["rewind", "--to", "1"]).failure(1);
    assert!(asked.stderr.contains("there is no terminal to ask on"), "{asked:?}");
    assert_eq!(lab.read("notes.txt"), None);

    let done = lab.run(&["rewind", "--to", "tests pass", "--yes"]).success();
    assert!(done.stdout().contains("Done: 1 created, 1 changed, 1 deleted; checkpoint 2 holds"));
    assert_eq!(lab.read("src/main.rs").unwrap(), "fn main() {}\n");
    assert_eq!(lab.read("notes.txt").unwrap(), "old\n");
    assert_eq!(lab.read("new.txt"), None);
    let shown = lab.run(&["show"]).success();
    assert_eq!(shown.stdout().matches("hello").count(), 1);
    assert_eq!(lab.run(&["show", "--all"]).success().stdout().matches("hello").count(), 2);

    lab.run(&["undo", "--yes"]).success();
    assert_eq!(lab.read("new.txt").unwrap(), "made since\n");
    assert_eq!(lab.read("notes.txt"), None);
    assert_eq!(lab.run(&["show"]).success().stdout().matches("hello").count(), 2);
    lab.run(&["doctor"]).success();
}

#[test]
fn only_the_paths_that_are_named_go_back() {
    let lab = Lab::new();
    lab.write("a/one", "1");
    lab.write("a/two", "1");
    lab.write("b", "1");
    lab.run(&["checkpoint", "create"]).success();
    for path in ["a/one", "a/two", "b"] {
        lab.write(path, "2");
    }
    lab.run(&["rewind", "--to", "1", "--yes", "--files", "a/one"]).success();
    let read = |path| lab.read(path).unwrap();
    assert_eq!((read("a/one"), read("a/two"), read("b")), ("1".into(), "2".into(), "2".into()));
    let outside = lab.run(&["rewind", "--to", "1", "--yes", "--files", "../../x"]).failure(1);
    assert!(outside.stderr.contains("is not within the workspace"), "{outside:?}");
    let json = lab.run(&["rewind", "--to", "1", "--dry-run", "--files", "--json"]).success();
    let plan = &json.json_lines()[0];
    assert_eq!(plan["files"].as_array().unwrap().len(), 2);
    assert_eq!((&plan["checkpoint"], &plan["events_left"]), (&1.into(), &0.into()));
}

#[test]
fn a_moved_head_is_told_and_left() {
    let lab = Lab::new();
    lab.git(&["init", "-q"]);
    lab.write("a", "1");
    lab.git(&["add", "a"]);
    lab.git(&["commit", "-q", "-m", "one"]);
    lab.run(&["checkpoint", "create"]).success();
    lab.write("a", "2");
    lab.git(&["commit", "-q", "-a", "-m", "two"]);
    let head = lab.git(&["rev-parse", "HEAD"]);
    let done = lab.run(&["rewind", "--to", "1", "--yes"]).success();
    assert!(done.stdout().contains("Git's HEAD has moved since then, from "), "{done:?}");
    assert_eq!(lab.read("a").unwrap(), "1");
    assert_eq!(lab.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(lab.git(&["status", "--porcelain"]), " M a\n");
}

#[test]
fn what_is_not_there_is_said() {
    let lab = Lab::new();
    let none = lab.run(&["undo"]).failure(1);
    assert_eq!(none.stderr, "Error: there is no rewind to undo\n");
    lab.run(&["checkpoint", "create", "--no-files"]).success();
    let nothing = lab.run(&["rewind", "--to", "1", "--yes"]).failure(1);
    assert!(nothing.stderr.contains("checkpoint 1 holds no files"), "{nothing:?}");
    assert!(lab.run(&["rewind", "--to", "9"]).failure(1).stderr.contains("has no checkpoint"));
    lab.run(&["rewind"]).failure(2);
    lab.run(&["rewind", "--to", "1", "--files", "--both"]).failure(2);
    let home = lab.run(&["checkpoint", "create", "--workspace", "/"]).failure(1);
    assert!(home.stderr.contains("/ is not taken as a workspace"), "{home:?}");
    lab.run(&["checkpoint", "create", "--trigger", "whim"]).failure(2);
    lab.run(&["checkpoint", "every", "0s"]).failure(2);
}

#[test]
fn checkpoints_are_made_at_intervals_until_the_session_ends() {
    let lab = Lab::new();
    lab.write("a", "1");
    let mut every = lab.command(&["checkpoint", "every", "1s", "--json"]);
    let every = every.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let count = || lab.run(&["checkpoint", "list"]).success().stdout().lines().count();
    while count() < 2 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    lab.write("a", "2");
    let ended = r#"{"kind":"session.status","data":{"status":"completed"}}"#.to_owned() + "\n";
    run(lab.command(&["record"]), ended.as_bytes()).success();
    let out = every.wait_with_output().unwrap();
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).unwrap();
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["trigger"], "shutdown");
    let summary = lab.run(&["checkpoint", "summary", "--json"]).success();
    let summary = &summary.json_lines()[0];
    assert_eq!(summary["total"].as_u64().unwrap(), text.lines().count() as u64);
    assert_eq!(summary["files"], serde_json::json!(["a"]));
}

#[test]
fn git_clean_and_the_removal_of_a_worktree_leave_the_history_whole() {
    let lab = Lab::new();
    lab.git(&["init", "-q"]);
    lab.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
    lab.write("a", "1");
    lab.git(&["add", "a"]);
    lab.say();
    lab.run(&["checkpoint", "create"]).success();
    let config = lab.env.project().join(".abide/config.toml");
    let settings = fs::read_to_string(&config).unwrap().replace("4194304", "8388608");
    fs::write(&config, &settings).unwrap();
    lab.run(&["new"]).success();
    let unseen = ["status", "--porcelain", "--untracked-files=all"];
    assert_eq!(lab.git(&unseen), "A  a\n");
    let before = lab.run(&["history", "--json"]).success();

    lab.git(&["clean", "-fdxq"]);
    assert!(!config.exists(), "git takes what it can");
    assert_eq!(lab.run(&["history", "--json"]).success().stdout(), before.stdout());
    assert_eq!(fs::read_to_string(&config).unwrap(), settings);
    assert_eq!(lab.git(&unseen), "A  a\n");
    lab.run(&["doctor"]).success();
    lab.write("a", "2");
    lab.run(&["rewind", "--to", "1", "--yes"]).success();
    assert_eq!(lab.read("a").unwrap(), "1");

    lab.git(&["worktree", "add", "-q", "../linked"]);
    let mut there = lab.command(&["record"]);
    there.current_dir(lab.env.path("linked"));
    run(there, format!("{HELLO}\n").as_bytes()).success();
    lab.git(&["worktree", "remove", "--force", "../linked"]);
    let messages = lab.run(&["show", "--all"]).success();
    assert_eq!(messages.stdout().matches("hello").count(), 2);
}
