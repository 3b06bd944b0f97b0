//! Checkpoints, rewinds and undo, as a user has them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::environment::{ABIDE, Conversation, Done, HELLO, TestEnvironment, run};

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
    3 files changed, 2 lines added, 2 removed
    ");
    let plan = lab.run(&["rewind", "--to", "1", "--dry-run"]).success();
    insta::assert_snapshot!(plan.stdout(), @r#"
    Back to checkpoint 1 "tests pass" (just now)
    Conversation: 4 events taken back, 1 message among them; `abide show --all` still shows them
    Files in [TEMP]/project:
      create  notes.txt    +1
      change  src/main.rs  +1 -1
      delete  new.txt      -1
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
    for all in [&["--files"][..], &["--files", "."], &["--files", "b", "./"]] {
        let args = [&["rewind", "--to", "1", "--dry-run", "--json"], all].concat();
        let json = lab.run(&args).success();
        let plan = &json.json_lines()[0];
        assert_eq!(plan["files"].as_array().unwrap().len(), 2, "{all:?}");
        assert_eq!((&plan["checkpoint"], &plan["events_left"]), (&1.into(), &0.into()));
    }
    for more in ["--yes", "--dry-run"] {
        let nowhere = lab.run(&["rewind", "--to", "1", more, "--files", "a/nne"]).failure(1);
        let why =
            "Error: a/nne is left unchanged: it is neither in the snapshot nor in the workspace";
        assert!(nowhere.stderr.contains(why), "{nowhere:?}");
    }
    assert_eq!((read("a/two"), read("b")), ("2".into(), "2".into()));
    lab.run(&["rewind", "--to", "1", "--yes", "--files", "a/nne", "."]).success();
    assert_eq!((read("a/two"), read("b")), ("1".into(), "1".into()));
}

#[test]
fn files_of_another_place_are_said_to_be() {
    let lab = Lab::new();
    lab.write("a", "1");
    lab.run(&["checkpoint", "create", "-m", "early"]).success();
    lab.write("a", "2");
    lab.say();
    let plan = |to: &str| lab.run(&["rewind", "--to", to, "--dry-run"]).success();
    let shown = lab.run(&["show", "--json"]).success();
    let event = |kind: &str| {
        let lines = shown.json_lines();
        let found = lines.iter().find(|event| event["kind"] == kind);
        found.unwrap_or_else(|| panic!("{shown:?}"))["seq"].as_u64().unwrap()
    };
    let (checkpoint, message) = (event("checkpoint.created"), event("message.added"));
    let later = plan(&format!("@{message}"));
    let line = format!(
        "Files are those of checkpoint 1 \"early\" (just now), {} events before that place",
        message - checkpoint
    );
    assert!(later.stdout().starts_with(&format!("Back to event @{message}\n")), "{later:?}");
    assert!(later.stdout().contains(&line), "{later:?}");
    let sooner = plan(&format!("@{}", checkpoint - 1));
    let line = "Files are those of checkpoint 1 \"early\" (just now), 1 event after that place";
    assert!(sooner.stdout().contains(line), "{sooner:?}");
    let there = plan("1");
    assert!(there.stdout().starts_with("Back to checkpoint 1 \"early\" (just now)\n"), "{there:?}");
    assert!(!there.stdout().contains("Files are those"), "{there:?}");
}

/// A command on a terminal, up to the question; `None` where there is no way to have one.
fn asked(lab: &Lab, args: &str) -> Option<(Child, String)> {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: there is no `script` to make a terminal with");
        return None;
    }
    let mut command = lab.env.isolate(Command::new("script"));
    // Not below a shell, which would answer Ctrl-C itself.
    command.args(["-qec", &format!("exec '{ABIDE}' {args}"), "/dev/null"]);
    command.env("ABIDE_SESSION", &lab.session);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut shown, mut byte) = (Vec::new(), [0]);
    let out = child.stdout.as_mut().unwrap();
    let is_asked = |shown: &[u8]| {
        shown.ends_with(b": ") && String::from_utf8_lossy(shown).contains("Go back? ")
    };
    while !is_asked(&shown) && out.read(&mut byte).unwrap() > 0 {
        shown.extend(byte);
    }
    Some((child, String::from_utf8(shown).unwrap()))
}

#[test]
fn the_question_is_answered_with_yes_or_nothing_is_done() {
    for (answer, code, text) in
        [(&b"\x03"[..], 4, "2"), (b"n\n", 4, "2"), (b"\x04", 4, "2"), (b"y\n", 0, "1")]
    {
        let lab = Lab::new();
        lab.write("a", "1");
        lab.run(&["checkpoint", "create"]).success();
        lab.write("a", "2");
        let Some((mut child, shown)) = asked(&lab, "rewind --to 1") else { return };
        assert!(shown.contains("change  a  +1 -1\r\n"), "{shown}");
        let mut input = child.stdin.take().unwrap();
        input.write_all(answer).unwrap();
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(code), "{answer:?} {done:?}");
        assert_eq!(lab.read("a").unwrap(), text);
        let said = String::from_utf8(done.stdout).unwrap();
        assert_eq!(said.contains("Nothing was done"), code == 4, "{said}");
        let checkpoints = lab.run(&["checkpoint", "list", "--all", "--json"]).success();
        assert_eq!(checkpoints.stdout().matches("\"trigger\"").count(), 2 - usize::from(code == 4));
        drop(input);
    }
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
    assert!(done.stdout().contains("Git's HEAD has moved since then, on "), "{done:?}");
    assert_eq!(lab.read("a").unwrap(), "1");
    assert_eq!(lab.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(lab.git(&["status", "--porcelain"]), " M a\n");
}

#[test]
fn what_is_not_there_is_said() {
    let lab = Lab::new();
    let none = lab.run(&["undo"]).failure(1);
    assert!(none.stderr.starts_with("Error: there is nothing to undo\nHint: "), "{none:?}");
    lab.run(&["checkpoint", "create", "--no-files"]).success();
    let nothing = lab.run(&["rewind", "--to", "1", "--yes"]).failure(1);
    assert!(nothing.stderr.contains("checkpoint 1 holds no files"), "{nothing:?}");
    assert!(lab.run(&["rewind", "--to", "9"]).failure(1).stderr.contains("has no checkpoint"));
    lab.run(&["rewind"]).failure(2);
    lab.run(&["rewind", "--to", "1", "--files", "--both"]).failure(2);
    let home = lab.run(&["checkpoint", "create", "--workspace", "/"]).failure(1);
    assert!(home.stderr.contains("/ cannot be a workspace"), "{home:?}");
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
    let until = |checkpoints: usize| {
        while count() < checkpoints {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    until(1);
    lab.write("b", "1");
    until(2);
    lab.write("a", "2");
    let ended = r#"{"kind":"session.status","data":{"status":"completed"}}"#.to_owned() + "\n";
    run(lab.command(&["record"]), ended.as_bytes()).success();
    let out = every.wait_with_output().unwrap();
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [started, made @ .., stopped] = lines.as_slice() else { panic!("{text}") };
    assert_eq!((&started["event"], &started["interval_ms"]), (&"started".into(), &1000.into()));
    assert!(
        made.iter().all(
            |one| one["changes"] != serde_json::json!({"added": 0, "changed": 0, "removed": 0})
        )
    );
    assert_eq!((&stopped["event"], &stopped["total"]), (&"stopped".into(), &made.len().into()));
    assert_eq!(stopped["files"], serde_json::json!(["a", "b"]));
    let summary = lab.run(&["checkpoint", "summary", "--json"]).success();
    let summary = &summary.json_lines()[0];
    assert_eq!(summary["total"].as_u64().unwrap(), made.len() as u64);
    assert_eq!(summary["files"], serde_json::json!(["a", "b"]));
}

#[test]
fn a_session_that_is_held_gets_its_checkpoints_through_its_holder() {
    let lab = Lab::new();
    lab.write("a", "1");
    let mut record = Conversation::start(lab.command(&["record"]));
    record.ask(HELLO);
    let mut every = lab.command(&["checkpoint", "every", "1h", "--json"]);
    let mut every = every.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(every.stdout.take().unwrap()).lines().skip(1);
    let made: serde_json::Value = serde_json::from_str(&out.next().unwrap().unwrap()).unwrap();
    assert_eq!((&made["number"], &made["trigger"]), (&1.into(), &"interval".into()));
    record.ask(r#"{"kind":"session.status","data":{"status":"failed"}}"#);
    assert!(every.wait().unwrap().success());
    assert_eq!(record.end(), 0);
}

#[test]
fn checkpoints_end_with_the_process_that_they_accompany() {
    let lab = Lab::new();
    lab.write("a", "1");
    let mut agent = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = agent.id().to_string();
    let every = lab.command(&["checkpoint", "every", "1h", "--json", "--pid", &pid]);
    let mut every = { every }.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(every.stdout.take().unwrap()).lines();
    assert!(out.next().unwrap().unwrap().contains("\"event\":\"started\""));
    assert!(out.next().unwrap().unwrap().contains("\"trigger\":\"interval\""));
    assert_eq!(every.try_wait().unwrap(), None);
    lab.write("a", "2");
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(out.next().unwrap().unwrap().contains("\"trigger\":\"shutdown\""));
    assert!(every.wait().unwrap().success());
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

/// What is below a directory and does not belong to this user.
fn of_others(dir: &Path, user: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let seen = path.symlink_metadata().unwrap();
        if seen.uid() != user {
            found.push(path.clone());
        }
        if seen.is_dir() {
            found.extend(of_others(&path, user));
        }
    }
    found
}

#[test]
fn what_root_leaves_in_the_project_of_another_is_theirs() {
    if fs::metadata("/proc/self").map_or(1, |process| process.uid()) != 0 {
        return println!("skipped: only root gives files away");
    }
    let env = TestEnvironment::bare();
    let project = env.project();
    let user = 1234;
    fs::create_dir(project.join("src")).unwrap();
    fs::write(project.join("src/code"), "one").unwrap();
    for path in ["", "src", "src/code"] {
        chown(project.join(path), Some(user), Some(user)).unwrap();
    }
    let store = project.join(".abide");
    let store = ["--store", store.to_str().unwrap()];
    let abide = |args: &[&str]| env.command(&[args, &store].concat());
    run(abide(&["init"]), b"").success();
    run(abide(&["record", "--key", "s"]), format!("{HELLO}\n").as_bytes()).success();
    run(abide(&["checkpoint", "create"]), b"").success();
    fs::write(project.join("src/code"), "two").unwrap();
    fs::remove_file(project.join("src/code")).unwrap();
    run(abide(&["rewind", "--to", "1", "--files", "--yes"]), b"").success();
    assert_eq!(fs::read(project.join("src/code")).unwrap(), b"one");
    run(abide(&["history", "--search", "hello"]), b"").success();
    run(abide(&["record", "--key", "t"]), format!("{HELLO}\n").as_bytes()).success();
    run(abide(&["history"]), b"").success();
    run(abide(&["doctor"]), b"").success();
    assert_eq!(of_others(&project, user), Vec::<PathBuf>::new());
}

#[test]
fn a_deep_tree_is_taken_and_put_back_with_few_files_open() {
    let lab = Lab::new();
    let deep = ["d"; 400].join("/");
    lab.write(&format!("{deep}/file"), "at the bottom");
    let few = |args: &[&str]| {
        let mut command = lab.env.isolate(Command::new("sh"));
        command.env("ABIDE_SESSION", &lab.session);
        command.args(["-c", r#"ulimit -n 200 && exec "$0" "$@""#, ABIDE]).args(args);
        run(command, b"").success()
    };
    few(&["checkpoint", "create"]);
    fs::remove_dir_all(lab.env.project().join("d")).unwrap();
    few(&["rewind", "--to", "1", "--files", "--yes"]);
    assert_eq!(lab.read(&format!("{deep}/file")).as_deref(), Some("at the bottom"));
}
