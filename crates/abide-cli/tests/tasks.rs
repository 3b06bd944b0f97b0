//! Tasks, as a user has them: seen, added, set, joined, and wrong things typed.

use std::process::Command;

use crate::environment::{ABIDE, Done, TestEnvironment, run};

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

    /// Two phases, the second after the first.
    fn planned() -> Self {
        let lab = Self::new();
        for args in [
            &["First phase"][..],
            &["Lexer", "--parent", "P1", "--details", "Read tokens.", "--document", "lexer.md"],
            &["Grammar", "--parent", "P1", "--depends", "P1.M1"],
            &["Second phase", "--depends", "P1"],
            &["Docs", "--parent", "P2", "--id", "P2.docs"],
            &["Release", "--parent", "P2", "--priority", "5"],
        ] {
            lab.run(&[&["tasks", "add"], args].concat()).success();
        }
        lab
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.env.command(args);
        command.env("ABIDE_SESSION", &self.session);
        command
    }

    fn run(&self, args: &[&str]) -> Done {
        run(self.command(args), b"")
    }

    fn tasks(&self, args: &[&str]) -> Done {
        self.run(&[&["tasks"], args].concat())
    }

    fn tree(&self) -> String {
        self.tasks(&[]).success().stdout().to_owned()
    }
}

#[test]
fn tasks_are_added_done_and_seen() {
    let lab = Lab::planned();
    insta::assert_snapshot!(lab.tree(), @"
    [ ] P1 First phase (0/2)
      [ ] P1.M1 Lexer (ready)
      [ ] P1.M2 Grammar (after P1.M1)
    [ ] P2 Second phase (0/2, after P1)
      [ ] P2.M1 Release (priority 5)
      [ ] P2.docs Docs
    0 of 4 done, 1 ready
    ");
    let done = lab.tasks(&["set", "P1.M1", "implementing"]).success();
    insta::assert_snapshot!(format!("{}{}", done.stdout(), done.stderr), @"
    P1.M1 implementing
    1 event recorded; writes saved: 0
    ");
    lab.tasks(&["set", "P1.M1", "retrying", "--reason", "it failed"]).success();
    lab.tasks(&["set", "P1.M1", "complete", "--result", "all good"]).success();
    let done = lab.tasks(&["set", "P1.M2", "complete", "--result", r#"{"n":1}"#]).success();
    insta::assert_snapshot!(format!("{}{}", done.stdout(), done.stderr), @"
    P1.M2 complete
    P1 complete: all of its parts are done
    2 events recorded; writes saved: 1
    ");
    insta::assert_snapshot!(lab.tree(), @"
    [x] P1 First phase (2/2)
      [x] P1.M1 Lexer
      [x] P1.M2 Grammar
    [ ] P2 Second phase (0/2)
      [ ] P2.M1 Release (ready, priority 5)
      [ ] P2.docs Docs (ready)
    2 of 4 done, 2 ready
    ");
    let done = lab.tasks(&["set", "P2.docs=failed", "P2.M1=obsolete"]).success();
    insta::assert_snapshot!(format!("{}{}", done.stdout(), done.stderr), @"
    P2.docs failed
    P2.M1 obsolete
    2 events recorded; writes saved: 1
    ");
    insta::assert_snapshot!(lab.tree(), @"
    [x] P1 First phase (2/2)
      [x] P1.M1 Lexer
      [x] P1.M2 Grammar
    [ ] P2 Second phase (1/2)
      [-] P2.M1 Release (priority 5)
      [!] P2.docs Docs (failed)
    3 of 4 done, 1 of them obsolete, 1 failed
    ");
    insta::assert_snapshot!(lab.tasks(&["--scope", "P2"]).success().stdout(), @"
    [ ] P2 Second phase (1/2)
      [-] P2.M1 Release (priority 5)
      [!] P2.docs Docs (failed)
    1 of 2 done, 1 of them obsolete, 1 failed
    ");
    insta::assert_snapshot!(lab.tasks(&["--status", "failed", "--tree"]).success().stdout(), @"
    [ ] P2 Second phase (1/2)
      [!] P2.docs Docs (failed)
    3 of 4 done, 1 of them obsolete, 1 failed
    ");
    // What is done again when it gets another part.
    let done = lab.tasks(&["add", "Printer", "--parent", "P1", "--json"]).success();
    insta::assert_snapshot!(done.stdout(), @r#"{"schema":1,"items":2,"writes_saved":1,"tasks":[{"task":"P1.M3","status":"planned"},{"task":"P1","status":"planned","reason":"a part of it is to be done"}]}"#);
    assert_eq!(
        lab.tasks(&["--ready", "--table"]).success().stdout(),
        "P1.M3\tplanned\tready\t0\t0\tPrinter\n"
    );
    lab.tasks(&["set", "P1.M3", "--title", "Pretty printer", "--priority", "-2"]).success();
    insta::assert_snapshot!(lab.tasks(&["--scope", "P1"]).success().stdout(), @"
    [ ] P1 First phase (2/3)
      [x] P1.M1 Lexer
      [x] P1.M2 Grammar
      [ ] P1.M3 Pretty printer (ready, priority -2)
    2 of 3 done, 1 ready
    ");
    // The journal has what was said, and nothing in it is odd.
    let events = lab.run(&["show", "--json"]).success().stdout().to_owned();
    assert!(events.contains(r#""result":"all good""#) && events.contains(r#""result":{"n":1}"#));
    assert!(events.contains("Read tokens.") && events.contains("lexer.md"));
    lab.run(&["doctor"]).success();
}

#[test]
fn tasks_are_told_to_programs() {
    let lab = Lab::planned();
    let lines = lab.tasks(&["--json"]).success().json_lines();
    assert_eq!(lines.len(), 6);
    let task = |id: &str| lines.iter().find(|line| line["task"] == id).unwrap().clone();
    let lexer = task("P1.M1");
    assert_eq!(lexer["ready"], true);
    assert_eq!((&lexer["leaf"], &lexer["depth"]), (&true.into(), &1.into()));
    assert_eq!(lexer["details"], lexer["created"]);
    assert_eq!(lexer["documents"], lexer["created"]);
    assert_eq!(task("P2")["waits_for"], serde_json::json!(["P1"]));
    assert_eq!(task("P2.M1")["waits_for"], serde_json::json!([]), "its parent's are in its line");
    assert_eq!(task("P1")["progress"]["all"], 2);
    let ready = lab.tasks(&["--json", "--ready"]).success().json_lines();
    assert_eq!(ready.len(), 1);
    let table = lab.tasks(&["--table"]).success();
    insta::assert_snapshot!(table.stdout().replace('\t', " | "), @"
    P1 | planned |  | 0 | 0 | First phase
    P1.M1 | planned | ready | 0 | 0 | Lexer
    P1.M2 | planned | waiting | 0 | 0 | Grammar
    P2 | planned | waiting | 0 | 0 | Second phase
    P2.M1 | planned | waiting | 5 | 0 | Release
    P2.docs | planned | waiting | 0 | 0 | Docs
    ");
    let none = Lab::new();
    let empty = none.tasks(&[]).success();
    assert_eq!(empty.stdout(), "");
    insta::assert_snapshot!(empty.stderr, @"There are no tasks yet; `abide tasks add TITLE` makes one");
    assert_eq!(none.tasks(&["--json"]).success().stdout(), "");
}

#[test]
fn dependencies_come_and_go() {
    let lab = Lab::planned();
    let done = lab.tasks(&["depend", "P2.docs", "--on", "P2.M1", "--on", "P1.M1"]).success();
    insta::assert_snapshot!(format!("{}{}", done.stdout(), done.stderr), @"
    P2.docs changed
    1 event recorded; writes saved: 0
    ");
    lab.tasks(&["depend", "P2.docs", "--off", "P1.M1"]).success();
    let lines = lab.tasks(&["--json"]).success().json_lines();
    let docs = lines.iter().find(|line| line["task"] == "P2.docs").unwrap();
    assert_eq!(docs["depends"], serde_json::json!(["P2.M1"]));
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_written() {
    let lab = Lab::planned();
    lab.tasks(&["set", "P1.M1", "complete"]).success();
    let before = lab.run(&["show", "--json"]).success().stdout().lines().count();
    let failed = |args: &[&str]| lab.tasks(args).failure(1).stderr;
    insta::assert_snapshot!(failed(&["set", "P9", "complete"]), @"
    Error: there is no task P9
    Hint: `abide tasks` lists the tasks
    ");
    insta::assert_snapshot!(failed(&["set", "P1.M1", "planned"]), @"
    Error: task P1.M1 is complete and cannot become planned
    Hint: a complete task can only become obsolete; `abide tasks add` makes a new task
    ");
    insta::assert_snapshot!(failed(&["set", "P2", "complete"]), @"
    Error: task P2 cannot be complete: 2 of its parts are not done, P2.M1 among them
    Hint: it becomes complete by itself when its parts are complete or obsolete
    ");
    insta::assert_snapshot!(failed(&["set", "P1.M2=complete", "P2=complete"]), @"
    Error: task P2 cannot be complete: 2 of its parts are not done, P2.M1 among them
    Hint: it becomes complete by itself when its parts are complete or obsolete
    ");
    insta::assert_snapshot!(failed(&["depend", "P1.M2", "--on", "P2.docs"]), @"
    Error: tasks would wait for each other: P1.M2 → P2.docs → P2 → P1 → P1.M2
    Hint: `abide tasks depend ID --off ID` removes a dependency
    ");
    insta::assert_snapshot!(failed(&["depend", "P1", "--on", "P1.M1"]), @"
    Error: tasks would wait for each other: P1 → P1.M1 → P1
    Hint: `abide tasks depend ID --off ID` removes a dependency
    ");
    insta::assert_snapshot!(failed(&["depend", "P1", "--on", "nothing"]), @"
    Error: task P1 cannot depend on nothing, which does not exist
    Hint: `abide tasks` lists the tasks
    ");
    insta::assert_snapshot!(failed(&["depend", "P1", "--off", "P2"]), @"Error: task P1 does not depend on P2");
    insta::assert_snapshot!(failed(&["depend", "nothing", "--on", "P2"]), @"
    Error: there is no task nothing
    Hint: `abide tasks` lists the tasks
    ");
    insta::assert_snapshot!(failed(&["add", "Twice", "--id", "P1"]), @"
    Error: task P1 already exists
    Hint: omit `--id` to get the next free one; `abide tasks set` changes an existing task
    ");
    insta::assert_snapshot!(failed(&["add", "Lost", "--parent", "P7"]), @"
    Error: there is no task P7
    Hint: `abide tasks` lists the tasks
    ");
    insta::assert_snapshot!(failed(&["add", "Unnamed", "--id", ""]), @"Error: `task` must have 1 to 512 bytes");
    insta::assert_snapshot!(failed(&["--scope", "P7"]), @"
    Error: there is no task P7
    Hint: `abide tasks` lists the tasks
    ");
    let usage = |args: &[&str]| lab.tasks(args).failure(2).stderr;
    insta::assert_snapshot!(usage(&["set", "P1.M2", "done"]), @r#"
    Error: invalid status "done" (one of: planned, researching, implementing, retrying, complete, failed, blocked, obsolete)
    Hint: see `abide tasks set --help`
    "#);
    insta::assert_snapshot!(usage(&["set", "P1.M2"]), @"
    Error: nothing to change: give a status, --title, --priority, --details, --document or --check
    Hint: see `abide tasks set --help`
    ");
    insta::assert_snapshot!(usage(&["set", "P1.M2=complete", "P2.docs"]), @r#"
    Error: expected ID=STATUS, not "P2.docs"
    Hint: see `abide tasks set --help`
    "#);
    insta::assert_snapshot!(usage(&["--status", "done"]), @r#"
    error: invalid value 'done' for '--status <STATUS>': invalid status "done" (one of: planned, researching, implementing, retrying, complete, failed, blocked, obsolete)

    For more information, try '--help'.
    "#);
    usage(&["set"]);
    usage(&["add", " "]);
    usage(&["depend", "P1"]);
    usage(&["--tree", "--json"]);
    // The writer's own coming and going is all there is.
    let after = lab.run(&["show", "--json"]).success().stdout().to_owned();
    let added = after.lines().skip(before).filter(|line| line.contains("\"task."));
    assert_eq!(added.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_dependency_has_a_type() {
    let lab = Lab::new();
    for args in [
        &["Schema"][..],
        &["Notes"],
        &["Import", "--needs-result", "P1", "--soft", "P2"],
        &["Report", "--depends", "P1"],
    ] {
        lab.run(&[&["tasks", "add"], args].concat()).success();
    }
    insta::assert_snapshot!(lab.tree(), @"
    [ ] P1 Schema (ready)
    [ ] P2 Notes (ready)
    [ ] P3 Import (after P1, preferably after P2)
    [ ] P4 Report (after P1)
    0 of 4 done, 2 ready
    ");
    // Obsolete lets go what it blocks, and not what needs its result.
    lab.tasks(&["set", "P1", "obsolete"]).success();
    insta::assert_snapshot!(lab.tree(), @"
    [-] P1 Schema
    [ ] P2 Notes (ready)
    [ ] P3 Import (after P1, preferably after P2)
    [ ] P4 Report (ready)
    1 of 4 done, 1 of them obsolete, 2 ready
    ");
    let row = &lab.tasks(&["--json", "--scope", "P3"]).success().json_lines()[0];
    assert_eq!(row["dependency_types"].to_string(), r#"{"P1":"needs-result","P2":"soft"}"#);
    assert_eq!(row["waits_for"].to_string(), r#"["P1"]"#);
    // What is soft waits for nothing, also in a circle.
    lab.tasks(&["depend", "P3", "--soft", "P1"]).success();
    lab.tasks(&["depend", "P2", "--soft", "P3"]).success();
    insta::assert_snapshot!(lab.tree(), @"
    [-] P1 Schema
    [ ] P2 Notes (ready, preferably after P3)
    [ ] P3 Import (ready, preferably after P2)
    [ ] P4 Report (ready)
    1 of 4 done, 1 of them obsolete, 3 ready
    ");
    let toml = lab.tasks(&["export", "--format", "toml"]).success().stdout().to_owned();
    assert!(toml.contains("dependency_types = { P1 = \"soft\", P2 = \"soft\" }\n"), "{toml}");
    let words = lab.tasks(&["export", "--format", "markdown"]).success().stdout().to_owned();
    assert!(words.contains("depends (soft): Schema\n"), "{words}");
    // A dependency that is there gets another type.
    let circle = lab.tasks(&["depend", "P2", "--on", "P3"]).success();
    assert_eq!(circle.code, 0);
    let refused = lab.tasks(&["depend", "P3", "--needs-result", "P2"]).failure(1).stderr;
    assert!(
        refused.starts_with("Error: tasks would wait for each other: P3 → P2 → P3"),
        "{refused}"
    );
    lab.tasks(&["depend", "P3", "--off", "P1"]).success();
    assert!(
        lab.tasks(&["depend", "P3", "--soft", "P9"]).failure(1).stderr.contains("does not exist")
    );
}

#[test]
fn recorded_text_is_harmless_and_fits_the_terminal() {
    let lab = Lab::new();
    let long = "A title that is much longer than the terminal is wide, and goes on and on and on";
    lab.tasks(&["add", "evil \x1b[2J title", "--id", "a\x1b]0;x\x07b"]).success();
    lab.tasks(&["add", long]).success();
    lab.tasks(&["set", "P1", "implementing"]).success();
    for form in [&[][..], &["--table"], &["--json"]] {
        let out = lab.tasks(form).success();
        assert!(!out.stdout().contains('\x1b') && !out.stdout().contains('\x07'), "{out:?}");
    }
    for form in ["", "--table"] {
        let line = format!("stty cols 60; {ABIDE} tasks {form}");
        let mut command = lab.env.isolate(Command::new("script"));
        command.args(["-qec", &line, "/dev/null"]);
        command.env("ABIDE_SESSION", &lab.session).env("NO_COLOR", "1");
        let shown = run(command, b"").success();
        let wide = shown.stdout().lines().map(|line| line.trim_end().chars().count()).max();
        assert!(wide.is_some_and(|wide| (50..=60).contains(&wide)), "{wide:?}: {shown:?}");
        assert!(shown.stdout().contains('…'));
        assert!(!shown.stdout().contains('\x1b'), "{shown:?}");
    }
}
