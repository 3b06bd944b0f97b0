//! Going back as a newcomer does: save, saves, diff, rewind, undo, redo, fork.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use crate::environment::{ABIDE, Conversation, Done, HELLO, TestEnvironment, run};

struct BackLab {
    env: TestEnvironment,
    session: String,
}

impl BackLab {
    fn new() -> Self {
        let env = TestEnvironment::new();
        let session = env.run(&["new"]).success().stdout().trim().to_owned();
        Self { env, session }
    }

    fn run(&self, args: &[&str]) -> Done {
        self.env.run(args)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.env.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.env.project().join(path)).ok()
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.env.project().join(path)).unwrap();
    }

    fn ask(&self, text: &str) {
        let line = serde_json::json!({
            "kind": "message.added", "data": {"role": "user", "content": text},
        });
        self.env.record(&["-s", &self.session], &[&line.to_string()]).success();
    }

    fn git(&self, args: &[&str]) -> String {
        let mut command = self.env.isolate(Command::new("git"));
        command.args(["-c", "user.name=x", "-c", "user.email=x@example.org"]);
        command.args(["-c", "init.defaultBranch=main"]).args(args);
        run(command, b"").success().stdout().to_owned()
    }

    /// A command on a terminal; `None` where there is no way to have one.
    fn on_terminal(&self, args: &str) -> Option<TerminalTalk> {
        if Command::new("script").arg("--version").output().is_err() {
            eprintln!("skipped: there is no `script` to make a terminal with");
            return None;
        }
        let mut command = self.env.isolate(Command::new("script"));
        command.args(["-qec", &format!("exec '{ABIDE}' {args}"), "/dev/null"]);
        command.env("ABIDE_PAGER", "cat").stdin(Stdio::piped()).stdout(Stdio::piped());
        Some(TerminalTalk { child: command.spawn().unwrap(), shown: String::new() })
    }
}

/// A command that asks.
struct TerminalTalk {
    child: Child,
    shown: String,
}

impl TerminalTalk {
    /// Waits for a question, and answers it. Returns what was shown before it.
    fn answer(&mut self, question: &str, answer: &str) -> String {
        let (mut shown, mut byte) = (Vec::new(), [0]);
        let out = self.child.stdout.as_mut().unwrap();
        while !String::from_utf8_lossy(&shown).ends_with(question) {
            assert!(out.read(&mut byte).unwrap() > 0, "{}", String::from_utf8_lossy(&shown));
            shown.extend(byte);
        }
        self.child.stdin.as_mut().unwrap().write_all(answer.as_bytes()).unwrap();
        let shown = String::from_utf8(shown).unwrap();
        self.shown.push_str(&shown);
        shown
    }

    fn end(mut self) -> (i32, String) {
        let mut rest = String::new();
        self.child.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code().unwrap(), self.shown + &rest)
    }
}

#[test]
fn a_save_makes_the_store_and_the_session_that_it_needs() {
    let env = TestEnvironment::bare();
    fs::write(env.project().join("a"), "1").unwrap();
    let made = env.run(&["save", "-m", "at first"]).success();
    assert!(made.stdout().starts_with("Checkpoint 1 \"at first\": 1 file, 1 B; "), "{made:?}");
    assert!(made.stderr.contains(" (new)"), "{made:?}");
    fs::write(env.project().join("a"), "2").unwrap();
    let again = env.run(&["save"]).success();
    assert!(again.stdout().starts_with("Checkpoint 2: "), "{again:?}");
    assert_eq!(env.run(&["saves"]).success().stdout().lines().count(), 2);
    env.run(&["rewind", "at first", "-y"]).success();
    assert_eq!(fs::read_to_string(env.project().join("a")).unwrap(), "1");
    // What cannot be a workspace gets no session.
    env.run(&["save", "--workspace", "/"]).failure(1);
    let rows = env.run(&["history", "--json"]).success();
    let rows: serde_json::Value = serde_json::from_str(rows.stdout()).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 1);
}

#[test]
fn files_that_did_not_change_are_saved_only_under_a_name() {
    let lab = BackLab::new();
    lab.write("a", "1");
    lab.run(&["save"]).success();
    let same = lab.run(&["save"]).success();
    assert_eq!(same.stdout(), "No file has changed since checkpoint 1\n");
    let json = lab.run(&["save", "--json"]).success().json_lines();
    assert_eq!((&json[0]["unchanged"], &json[0]["number"]), (&true.into(), &1.into()));
    assert!(
        lab.run(&["save", "-m", "here"]).success().stdout().starts_with("Checkpoint 2 \"here\"")
    );
    lab.write("a", "2");
    assert!(lab.run(&["save"]).success().stdout().starts_with("Checkpoint 3: "));
}

#[test]
fn a_large_file_that_git_does_not_track_is_mentioned_once() {
    let lab = BackLab::new();
    lab.git(&["init", "-q"]);
    let large = "x".repeat(10_000_001);
    lab.write("tracked.bin", &large);
    lab.git(&["add", "."]);
    lab.write("data/large.bin", &large);
    lab.write("small.bin", "x");
    let first = lab.run(&["save"]).success();
    assert!(
        first.stderr.contains("Note: data/large.bin (10.0 MB) is in the checkpoint"),
        "{first:?}"
    );
    assert!(!first.stderr.contains("tracked.bin"), "{first:?}");
    lab.write("small.bin", "y");
    let second = lab.run(&["save"]).success();
    assert!(!second.stderr.contains("large.bin"), "{second:?}");
    lab.write("more.bin", &large);
    let third = lab.run(&["save"]).success();
    assert!(third.stderr.contains("Note: more.bin "), "{third:?}");
}

#[test]
fn a_diff_starts_at_the_last_checkpoint_and_takes_paths() {
    let lab = BackLab::new();
    lab.write("src/a", "1\n");
    lab.write("b", "1\n");
    lab.run(&["save"]).success();
    lab.write("b", "2\n");
    lab.run(&["save"]).success();
    lab.write("src/a", "2\n");
    lab.write("new", "2\n");
    assert_eq!(lab.run(&["diff"]).success().stdout(), "A  new\nM  src/a\n");
    assert_eq!(lab.run(&["diff", "1"]).success().stdout(), "M  b\nA  new\nM  src/a\n");
    assert_eq!(lab.run(&["diff", "1", "2"]).success().stdout(), "M  b\n");
    assert_eq!(lab.run(&["diff", "1", "--", "src", "b"]).success().stdout(), "M  b\nM  src/a\n");
    let patch = lab.run(&["diff", "-p", "--", "src/a"]).success();
    assert!(patch.stdout().ends_with("-1\n+2\n"), "{patch:?}");
    lab.run(&["diff", "--", "../outside"]).failure(1);
    let none = BackLab::new();
    let none = none.run(&["diff"]).failure(1);
    assert!(none.stderr.contains("`abide save` makes one"), "{none:?}");
}

#[test]
fn a_place_and_paths_are_typed_without_options() {
    let lab = BackLab::new();
    lab.write("a", "1");
    lab.write("b", "1");
    lab.run(&["save"]).success();
    lab.write("a", "2");
    lab.write("b", "2");
    lab.run(&["rewind", "1", "a", "-y"]).success();
    assert_eq!((lab.read("a").unwrap(), lab.read("b").unwrap()), ("1".into(), "2".into()));
    lab.write("a", "2");
    lab.run(&["rewind", "--to", "1", "b", "-y"]).success();
    assert_eq!((lab.read("a").unwrap(), lab.read("b").unwrap()), ("2".into(), "1".into()));
    let file = lab.run(&["rewind", "a"]).failure(1);
    assert!(
        file.stderr.contains("Hint: the place comes first: `abide rewind latest a`"),
        "{file:?}"
    );
    lab.run(&["rewind", "1", "a", "--conversation"]).failure(2);
    lab.run(&["save", "-m", "here"]).success();
    let fork = lab.run(&["fork", "here"]).success();
    assert!(fork.stderr.contains("Forked from "), "{fork:?}");
    lab.run(&["fork", "here", "--at", "1"]).failure(2);
}

#[test]
fn without_a_place_the_last_ones_are_named() {
    let lab = BackLab::new();
    lab.write("a", "1");
    lab.run(&["save", "-m", "at first"]).success();
    lab.ask("Mend the parser.\nIt is broken.");
    lab.write("a", "2");
    lab.run(&["save"]).success();
    let missing = lab.run(&["rewind"]).failure(2);
    for part in
        ["WHERE is missing", "2  just now  after \"Mend the parser.\"", "1  just now  \"at first\""]
    {
        assert!(missing.stderr.contains(part), "{missing:?}");
    }
    let saves = lab.run(&["saves", "--json"]).success().json_lines();
    assert_eq!(saves[1]["follows"], "Mend the parser.");
    assert_eq!(saves[0]["follows"], serde_json::Value::Null);
    let plan = lab.run(&["rewind", "2", "--dry-run"]).success();
    let heading = "Back to checkpoint 2 after \"Mend the parser.\" (just now)\n";
    assert!(plan.stdout().starts_with(heading), "{plan:?}");

    lab.write("b", "new");
    let Some(mut talk) = lab.on_terminal("rewind") else { return };
    let offered = talk.answer("cancel)? ", "1\n");
    assert!(
        offered.contains("   2  just now  +1 ~0 -0  after \"Mend the parser.\"\r\n"),
        "{offered}"
    );
    assert!(offered.contains("   1  just now  +1 ~1 -0  \"at first\"\r\n"), "{offered}");
    talk.answer("[c]hoose: ", "y\n");
    let (code, shown) = talk.end();
    assert_eq!(code, 0, "{shown}");
    assert_eq!((lab.read("a").unwrap(), lab.read("b")), ("1".into(), None));
    let Some(mut talk) = lab.on_terminal("rewind") else { return };
    talk.answer("cancel)? ", "\n");
    assert_eq!(talk.end().0, 4);
}

#[test]
fn the_question_shows_the_diff_and_lets_files_be_chosen() {
    let lab = BackLab::new();
    for file in ["a", "b", "c"] {
        lab.write(file, "1\n");
    }
    lab.run(&["save"]).success();
    lab.ask("Change them.");
    for file in ["a", "b", "c"] {
        lab.write(file, "2\n");
    }
    let Some(mut talk) = lab.on_terminal("rewind 1") else { return };
    let plan = talk.answer("Go back? [y]es [n]o [d]iff [c]hoose: ", "d\n");
    assert!(plan.contains("Conversation: "), "{plan}");
    let diff = talk.answer("[c]hoose: ", "x\n");
    assert!(diff.contains("-2") && diff.contains("+1"), "{diff}");
    assert!(talk.answer("[c]hoose: ", "c\n").contains("Answer with one of these letters"));
    let list = talk.answer("none)? ", "4\n");
    assert!(list.contains("   2  change  b\r\n"), "{list}");
    talk.answer("none)? ", "1 3\n");
    let plan = talk.answer("[c]hoose: ", "y\n");
    assert!(!plan.contains("Conversation: "), "{plan}");
    assert!(plan.contains("  0 to create, 2 to change, 0 to delete"), "{plan}");
    let (code, shown) = talk.end();
    assert_eq!(code, 0, "{shown}");
    let read = |file| lab.read(file).unwrap();
    assert_eq!((read("a"), read("b"), read("c")), ("1\n".into(), "2\n".into(), "1\n".into()));
    assert!(lab.run(&["show"]).success().stdout().contains("Change them."));
    // The undo is one of files alone, too.
    lab.run(&["undo", "-y"]).success();
    assert_eq!((read("a"), read("b"), read("c")), ("2\n".into(), "2\n".into(), "2\n".into()));
}

#[test]
fn a_preview_is_grouped_counted_and_cut_to_a_screen() {
    let lab = BackLab::new();
    lab.write("old name", "a line that is long enough to be known again\n");
    lab.write("gone", "1\n2\n");
    lab.write("edited", "1\n2\n");
    lab.write("empty", "");
    lab.run(&["save"]).success();
    fs::rename(lab.env.project().join("old name"), lab.env.project().join("new name")).unwrap();
    lab.remove("gone");
    lab.write("edited", "1\n2\n3\n");
    lab.write("binary", "\0\u{1}");
    let _filters = lab.env.filters();
    let plan = lab.run(&["rewind", "1", "--files", "--dry-run"]).success();
    insta::assert_snapshot!(plan.stdout(), @r"
    Back to checkpoint 1 (just now)
    Files in [TEMP]/project:
      create  gone                 +2
      change  edited               -1
      delete  binary               binary
      rename  new name → old name
      1 to create, 1 to change, 1 to delete, 1 to rename; everything else is kept
    ");
    for number in 0..30 {
        lab.write(&format!("many/{number:02}"), "x\n");
    }
    let plan = lab.run(&["rewind", "1", "--files", "--dry-run"]).success();
    assert_eq!(plan.stdout().lines().count(), 2 + 20 + 2, "{plan:?}");
    assert!(plan.stdout().contains("  … and 14 more; `--json` lists all\n"), "{plan:?}");
    assert!(plan.stdout().contains("  create  gone "), "{plan:?}");
    let json = lab.run(&["rewind", "1", "--files", "--dry-run", "--json"]).success().json_lines();
    assert!(json[0]["files"].as_array().unwrap().len() > 34, "{json:?}");
}

#[test]
fn git_is_told_by_branches_and_what_was_staged_is_named() {
    let lab = BackLab::new();
    lab.git(&["init", "-q"]);
    lab.write("a", "1\n");
    lab.write("it's", "1\n");
    lab.git(&["add", "a"]);
    lab.git(&["commit", "-q", "-m", "one"]);
    lab.write("a", "2\n");
    lab.git(&["add", "a", "it's"]);
    lab.run(&["save"]).success();
    lab.git(&["reset", "-q"]);
    lab.git(&["switch", "-q", "-c", "other"]);
    lab.write("a", "3\n");
    let plan = lab.run(&["rewind", "1", "--files", "--dry-run"]).success();
    assert!(
        plan.stdout().contains("Git's HEAD has moved since then, main → other; it stays"),
        "{plan:?}"
    );
    let project = lab.env.project().display().to_string();
    let staged = format!(
        "Git's index stays as it is. Staged then: a, it's; `git -C {project} add -- a 'it'\\''s'` stages them again\n"
    );
    assert!(plan.stdout().contains(&staged), "{staged}{plan:?}");
    let json = lab.run(&["rewind", "1", "--files", "--dry-run", "--json"]).success().json_lines();
    assert_eq!(json[0]["head"]["branch_now"], "other");
    assert_eq!(json[0]["unstaged"], serde_json::json!(["a", "it's"]));
    lab.run(&["rewind", "1", "--files", "-y"]).success();
    lab.git(&["-C", &project, "add", "--", "a", "it's"]);
    assert_eq!(lab.git(&["status", "--porcelain"]), "M  a\nA  \"it's\"\n".replace('"', ""));
    let plan = lab.run(&["rewind", "1", "a", "--dry-run"]).success();
    assert!(!plan.stdout().contains("Staged then"), "{plan:?}");
    // A commit has no branch's name.
    lab.git(&["commit", "-q", "-m", "two"]);
    lab.git(&["switch", "-q", "--detach"]);
    let head = lab.git(&["rev-parse", "HEAD"]);
    let plan = lab.run(&["rewind", "1", "--files", "--dry-run"]).success();
    assert!(plan.stdout().contains(&format!("main → {}; it stays", &head[..10])), "{plan:?}");
}

#[test]
fn undo_goes_further_back_and_redo_forward() {
    let lab = BackLab::new();
    lab.write("a", "1");
    lab.run(&["save", "-m", "one"]).success();
    lab.ask("Two.");
    lab.write("a", "2");
    lab.run(&["save", "-m", "two"]).success();
    lab.ask("Three.");
    lab.write("a", "3");
    lab.run(&["rewind", "two", "-y"]).success();
    let done = lab.run(&["rewind", "one", "-y"]).success();
    assert!(done.stdout().contains("`abide undo` returns to it"), "{done:?}");
    assert_eq!(lab.read("a").unwrap(), "1");
    let read = || lab.read("a").unwrap();
    let said = |text: &str| lab.run(&["show"]).success().stdout().contains(text);
    let undone = lab.run(&["undo", "-y"]).success();
    assert!(undone.stdout().contains("`abide redo` returns to it"), "{undone:?}");
    assert_eq!((read().as_str(), said("Two."), said("Three.")), ("2", true, false));
    lab.run(&["undo", "-y"]).success();
    assert_eq!((read().as_str(), said("Three.")), ("3", true));
    let nothing = lab.run(&["undo", "-y"]).failure(1);
    let told = "Error: there is nothing to undo\nHint: to take back what an agent did, ";
    assert!(nothing.stderr.contains(told), "{nothing:?}");
    // A message ends nothing.
    lab.ask("By the way.");
    lab.run(&["redo", "-y"]).success();
    assert_eq!((read().as_str(), said("By the way.")), ("2", false));
    lab.run(&["redo", "-y"]).success();
    assert_eq!((read().as_str(), said("Two.")), ("1", false));
    let nothing = lab.run(&["redo"]).failure(1);
    assert!(nothing.stderr.contains("there is nothing to redo"), "{nothing:?}");
    lab.run(&["undo", "-y"]).success();
    lab.run(&["undo", "-y"]).success();
    assert_eq!((read().as_str(), said("By the way.")), ("3", true), "as it was before the redo");
    // A new rewind does.
    lab.run(&["rewind", "two", "-y"]).success();
    lab.run(&["redo", "-y"]).failure(1);
    lab.run(&["doctor"]).success();
}

#[test]
fn a_compaction_is_undone_and_done_again() {
    let lab = BackLab::new();
    lab.write("a", "1");
    lab.run(&["save", "-m", "one"]).success();
    for number in 0..4 {
        lab.ask(&format!("Message {number}: {}", "look again. ".repeat(30)));
    }
    let messages = || {
        let context = lab.run(&["context"]).success();
        context.json_lines()[0]["messages"].as_array().unwrap().len()
    };
    lab.run(&["compact", "--keep", "1", "--summarizer-cmd", "echo short"]).success();
    let compacted = messages();
    assert!(compacted < 4);
    lab.write("a", "2");
    lab.run(&["rewind", "one", "--files", "-y"]).success();
    lab.run(&["undo", "-y"]).success();
    assert_eq!((lab.read("a").unwrap(), messages()), ("2".into(), compacted));
    lab.run(&["undo"]).success();
    assert_eq!(messages(), 4);
    let redone = lab.run(&["redo"]).success();
    assert!(redone.stdout().starts_with("Redid the compaction @"), "{redone:?}");
    assert_eq!((lab.read("a").unwrap(), messages()), ("2".into(), compacted));
    lab.run(&["redo", "-y"]).success();
    assert_eq!(lab.read("a").unwrap(), "1");
    lab.run(&["undo", "-y"]).success();
    lab.run(&["undo"]).success();
    assert_eq!(messages(), 4);
    lab.run(&["doctor"]).success();
}

#[test]
fn a_held_session_goes_back_with_its_files() {
    let lab = BackLab::new();
    lab.write("a", "1");
    lab.run(&["save"]).success();
    let mut record = Conversation::start(lab.env.command(&["record", "-s", &lab.session]));
    record.ask(HELLO);
    lab.write("a", "2");
    lab.run(&["save", "-m", "two"]).success();
    lab.write("a", "3");
    assert_eq!(lab.run(&["diff"]).success().stdout(), "M  a\n");
    lab.run(&["rewind", "two", "a", "-y"]).success();
    assert_eq!(lab.read("a").unwrap(), "2");
    lab.run(&["rewind", "1", "--files", "-y"]).success();
    assert_eq!(lab.read("a").unwrap(), "1");
    for text in ["2", "3"] {
        lab.run(&["undo", "-y"]).success();
        assert_eq!(lab.read("a").unwrap(), text);
    }
    lab.run(&["redo", "-y"]).success();
    assert_eq!(lab.read("a").unwrap(), "2");
    let refused = lab.run(&["rewind", "1", "-y"]).failure(1);
    assert!(refused.stderr.contains("`--files` rewinds the files alone"), "{refused:?}");
    assert_eq!(record.end(), 0);
}

#[test]
fn on_a_terminal_only_the_files_of_a_held_session_go_back() {
    let lab = BackLab::new();
    lab.write("a", "1");
    lab.run(&["save"]).success();
    let mut record = Conversation::start(lab.env.command(&["record", "-s", &lab.session]));
    record.ask(HELLO);
    lab.write("a", "2");
    let Some(mut talk) = lab.on_terminal("rewind") else { return };
    let offered = talk.answer("cancel)? ", "1\n");
    assert!(
        offered.contains(
            "Another process runs this session: until it ends, only files can be rewound"
        ),
        "{offered}"
    );
    let plan = talk.answer("[d]iff: ", "y\n");
    assert!(!plan.contains("Conversation: "), "{plan}");
    assert_eq!((talk.end().0, lab.read("a").unwrap()), (0, "1".into()));
    // Who asks for both is told why not, before anything is chosen.
    let Some(talk) = lab.on_terminal("rewind 1 --both") else { return };
    let (code, shown) = talk.end();
    assert!(code == 1 && shown.contains("`--files` rewinds the files alone"), "{shown}");
    assert_eq!(record.end(), 0);
}

#[test]
fn a_label_is_found_in_every_session_that_works_here() {
    let lab = BackLab::new();
    lab.write("a", "1");
    lab.run(&["save", "-m", "first"]).success();
    let other = lab.run(&["new"]).success().stdout().trim().to_owned();
    let say = |text: &str| {
        let line = serde_json::json!({
            "kind": "message.added", "data": {"role": "user", "content": text},
        });
        lab.env.record(&["-s", &other], &[&line.to_string()]).success();
    };
    say("Break it.");
    lab.write("a", "2");
    lab.run(&["save", "-m", "second"]).success();
    lab.write("a", "3");
    assert_eq!(lab.run(&["diff", "first"]).success().stdout(), "M  a\n");
    let back = lab.run(&["rewind", "first", "-y"]).success();
    assert!(back.stderr.contains(", the latest here with this checkpoint"), "{back:?}");
    assert_eq!(lab.read("a").unwrap(), "1");
    lab.run(&["undo", "-y"]).success();
    assert_eq!(lab.read("a").unwrap(), "3");
    lab.run(&["redo", "-y"]).success();
    // The other session goes on: it is the latest now, and nothing is undone behind its back.
    say("It is whole again.");
    let in_session = |verb: &str| lab.run(&[verb, "-y", "-s", &lab.session]).success();
    for (verb, text) in [("undo", "3"), ("redo", "1")] {
        let refused = lab.run(&[verb, "-y"]).failure(1);
        let told = format!(
            "there is nothing to {verb} in the latest session\nHint: the last rewind here was "
        );
        assert!(refused.stderr.contains(&told), "{refused:?}");
        assert!(refused.stderr.contains(&format!("`abide {verb} -s ")), "{refused:?}");
        in_session(verb);
        assert_eq!(lab.read("a").unwrap(), text);
        say("And broken.");
    }
    lab.run(&["rewind", "second", "-y"]).success();
    assert_eq!(lab.read("a").unwrap(), "2");
    lab.run(&["undo", "-y"]).success();
    assert_eq!(lab.read("a").unwrap(), "1");
    lab.run(&["undo", "-y"]).failure(1);
    in_session("undo");
    assert_eq!(lab.read("a").unwrap(), "3");
    let nothing = lab.run(&["rewind", "third", "-y"]).failure(1);
    assert!(nothing.stderr.contains(" has no checkpoint \"third\""), "{nothing:?}");
    let fork = lab.run(&["fork", "first", "--json"]).success().json_lines();
    assert_eq!(fork[0]["parent"], lab.session.as_str());
    // A session that was named is the only one.
    lab.run(&["rewind", "first", "-y", "-s", &other]).failure(1);
}

#[test]
fn an_undo_names_the_session_of_the_last_rewind() {
    let lab = BackLab::new();
    lab.write("a", "1");
    lab.run(&["save", "-m", "first"]).success();
    let other = lab.run(&["new"]).success().stdout().trim().to_owned();
    lab.write("a", "2");
    lab.run(&["save", "-m", "second", "-s", &other]).success();
    lab.write("a", "3");
    lab.run(&["rewind", "second", "-y", "-s", &other]).success();
    lab.write("a", "4");
    lab.run(&["rewind", "first", "-y"]).success();
    // The other one goes on, and has an older rewind.
    lab.env.record(&["-s", &other], &[HELLO]).success();
    for args in [&["undo", "-y"][..], &["undo", "--dry-run"]] {
        let refused = lab.run(args).failure(1);
        let told = "the last rewind here is not of the latest session";
        assert!(refused.stderr.contains(told), "{refused:?}");
        assert_eq!(lab.read("a").unwrap(), "1");
    }
    // One rule: what is erased is of the latest session, too.
    let erased = lab.run(&["erase", "@1", "--dry-run"]);
    let shown = lab.run(&["show"]).success();
    assert_eq!(erased.stderr.lines().next(), shown.stderr.lines().next());
    lab.run(&["undo", "-y", "-s", &lab.session]).success();
    assert_eq!(lab.read("a").unwrap(), "4");
    lab.run(&["undo", "-y", "-s", &other]).success();
    assert_eq!(lab.read("a").unwrap(), "3");
}

#[test]
fn a_session_without_checkpoints_hides_none() {
    let lab = BackLab::new();
    lab.write("a", "1");
    lab.run(&["save", "-m", "first"]).success();
    lab.write("a", "2");
    // What was recorded aside is the latest session, and has no checkpoint.
    lab.env.record(&["--new"], &[HELLO]).success();
    assert_eq!(lab.run(&["saves"]).success().stdout().lines().count(), 1);
    let diff = lab.run(&["diff"]).success();
    assert_eq!(diff.stdout(), "M  a\n");
    assert!(diff.stderr.contains("Since checkpoint 1 \"first\" (just now)"), "{diff:?}");
    lab.run(&["rewind", "1", "-y"]).success();
    assert_eq!(lab.read("a").unwrap(), "1");
    assert!(lab.run(&["diff", "first"]).success().stderr.contains("No file differs"));
    // A session is not a place.
    let short = lab.run(&["ls", "--json"]).success();
    let rows: serde_json::Value = serde_json::from_str(short.stdout()).unwrap();
    let short = rows[0]["short"].as_str().unwrap();
    let typed = lab.run(&["rewind", short]).failure(1);
    assert!(typed.stderr.contains(&format!("`abide rewind -s {short} WHERE`")), "{typed:?}");
    for name in ["1", "latest", "@4", "turn:2"] {
        let refused = lab.run(&["save", "-m", name]).failure(2);
        assert!(refused.stderr.contains("cannot be the name of a checkpoint"), "{refused:?}");
        assert!(refused.stderr.contains("see `abide save --help`"), "{refused:?}");
    }
}

#[test]
fn the_choice_leaves_out_what_was_made_before_rewinds_and_has_names_of_other_sessions() {
    let lab = BackLab::new();
    let other = lab.run(&["new"]).success().stdout().trim().to_owned();
    lab.write("a", "7");
    lab.run(&["save", "-m", "It works", "-s", &other]).success();
    lab.write("a", "0");
    lab.run(&["save", "-s", &lab.session]).success();
    for text in ["1", "2", "3"] {
        lab.write("a", text);
        lab.run(&["rewind", "1", "--files", "-y"]).success();
    }
    lab.run(&["save", "-m", "here"]).success();
    let saves = lab.run(&["saves"]).success();
    assert!(saves.stderr.contains("Saved by name in other sessions here:\n"), "{saves:?}");
    let named = lab.run(&["saves", "-s", &lab.session]).success();
    assert!(!named.stderr.contains("other sessions"), "{named:?}");
    let Some(mut talk) = lab.on_terminal("rewind") else { return };
    let offered = talk.answer("cancel)? ", "9\n");
    assert!(offered.contains("before the last rewind\r\n"), "{offered}");
    assert_eq!(offered.matches("  just now").count(), 4, "{offered}");
    assert!(offered.contains("… of 5; `abide saves` lists them all"), "{offered}");
    assert!(offered.contains("just now  \"It works\"  (session "), "{offered}");
    let again = talk.answer("cancel)? ", "\"It works\"\n");
    assert!(again.contains("has no checkpoint \"9\""), "{again}");
    talk.answer("Go back? ", "y\n");
    let (code, shown) = talk.end();
    assert_eq!((code, lab.read("a").unwrap()), (0, "7".into()), "{shown}");
    // A session that was named is the only one.
    let args = format!("rewind -s {}", lab.session);
    let Some(mut talk) = lab.on_terminal(&args) else { return };
    let offered = talk.answer("cancel)? ", "It works\n");
    assert!(!offered.contains("other sessions"), "{offered}");
    let again = talk.answer("cancel)? ", "q\n");
    assert!(again.contains("has no checkpoint \"It works\""), "{again}");
    assert_eq!(talk.end().0, 4);
}

#[test]
fn what_a_rewind_took_back_is_not_what_a_diff_starts_from() {
    let lab = BackLab::new();
    lab.write("a", "1");
    lab.write("b", "1");
    lab.run(&["save"]).success();
    lab.write("a", "2");
    lab.write("b", "2");
    lab.run(&["rewind", "latest", "a", "-y"]).success();
    assert_eq!(lab.run(&["diff"]).success().stdout(), "M  b\n");
    lab.run(&["rewind", "latest", "b", "-y"]).success();
    assert_eq!((lab.read("a").unwrap(), lab.read("b").unwrap()), ("1".into(), "1".into()));
    assert!(lab.run(&["diff"]).success().stderr.contains("No file differs"));
}

#[test]
fn what_may_change_the_files_again_is_told() {
    let lab = BackLab::new();
    lab.write("a", "1");
    lab.run(&["save", "-m", "first"]).success();
    let other = lab.run(&["new"]).success().stdout().trim().to_owned();
    let mut record = Conversation::start(lab.env.command(&["record", "-s", &other]));
    record.ask(HELLO);
    lab.write("a", "2");
    let back = lab.run(&["rewind", "first", "--files", "-y"]).success();
    assert!(
        back.stderr.contains(" runs in this directory, and may change files again"),
        "{back:?}"
    );
    assert_eq!(record.end(), 0);
    let undone = lab.run(&["undo", "-y", "-s", &lab.session]).success();
    assert!(!undone.stderr.contains("Warning"), "{undone:?}");
}

#[test]
fn a_turn_without_a_checkpoint_of_its_own_is_not_that_of_a_later_save() {
    let lab = BackLab::new();
    let turn = |kind: &str| {
        let line = serde_json::json!({"kind": kind, "data": {"agent": "a", "status": "done"}});
        lab.env.record(&["-s", &lab.session], &[&line.to_string()]).success();
    };
    lab.write("a", "1");
    turn("turn.started");
    turn("turn.finished");
    lab.run(&["save", "--trigger", "turn"]).success();
    turn("turn.started");
    turn("turn.finished");
    let same = lab.run(&["save", "--trigger", "turn"]).success();
    assert!(same.stdout().starts_with("No file has changed"), "{same:?}");
    lab.write("a", "2");
    lab.run(&["save"]).success();
    lab.write("a", "3");
    lab.run(&["rewind", "turn:2", "--files", "-y"]).success();
    assert_eq!(lab.read("a").unwrap(), "1");
    // Where nothing makes them by itself, a save right behind a turn holds what it left.
    let lab = BackLab::new();
    lab.write("a", "1");
    lab.run(&["save"]).success();
    for kind in ["turn.started", "turn.finished"] {
        let line = serde_json::json!({"kind": kind, "data": {"agent": "a", "status": "done"}});
        lab.env.record(&["-s", &lab.session], &[&line.to_string()]).success();
    }
    lab.write("a", "2");
    lab.run(&["save"]).success();
    lab.write("a", "3");
    lab.run(&["rewind", "turn:1", "--files", "-y"]).success();
    assert_eq!(lab.read("a").unwrap(), "2");
}

#[test]
fn an_interval_needs_a_unit() {
    let lab = BackLab::new();
    for args in [
        &["checkpoint", "every", "5"][..],
        &["record", "--checkpoint-every", "5"],
        &["run", "--checkpoint-every", "5", "--", "true"],
    ] {
        let refused = lab.run(args).failure(2);
        assert!(refused.stderr.contains("a time needs a unit, such as `5m`"), "{refused:?}");
    }
}
