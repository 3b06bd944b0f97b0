//! Plan documents, as a user has them: imported, edited, exported, and wrong ones.

use std::fs;

use serde_json::Value;

use crate::environment::{Done, TestEnvironment, run};

const PLAN: &str = "\
# Parser

## Reading
- [ ] Lines
  Every line, the last one too.
- [ ] Ends
  depends: Lines

## Writing
- [ ] Out
";

const BACKLOG: &str = r#"{
  "backlog": [
    {
      "type": "Phase",
      "id": "P1",
      "title": "Reading",
      "status": "Planned",
      "description": "",
      "milestones": [],
      "owner": "ann"
    }
  ],
  "version": 1.0
}"#;

struct Lab {
    env: TestEnvironment,
}

impl Lab {
    fn new() -> Self {
        Self { env: TestEnvironment::bare() }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.env.project().join(name), text).unwrap();
    }

    fn tasks(&self, args: &[&str]) -> Done {
        self.env.run(&[&["tasks"], args].concat())
    }

    fn import(&self, args: &[&str]) -> Value {
        let args = [&["import", "--json"], args].concat();
        self.tasks(&args).success().json_lines().remove(0)
    }

    fn sessions(&self) -> usize {
        let rows = self.env.run(&["history", "--json"]).success();
        let rows: Value = serde_json::from_str(rows.stdout()).unwrap();
        rows.as_array().unwrap().len()
    }
}

fn both(done: &Done) -> String {
    format!("{}{}", done.stdout(), done.stderr)
}

#[test]
fn a_plan_is_imported_once() {
    let lab = Lab::new();
    lab.write("plan.md", PLAN);
    // Before there is a store, nothing makes one.
    let dry = lab.tasks(&["import", "plan.md", "--dry-run"]).success();
    insta::assert_snapshot!(both(&dry), @"
    new      planned     P1 Reading
    new      planned     P1.M1 Lines
    new      planned     P1.M2 Ends
    new      planned     P2 Writing
    new      planned     P2.M1 Out
    Would begin a session: 5 new, 0 changed, 0 obsolete, 0 kept
    ");
    assert!(!lab.env.store().exists());
    let first = lab.import(&["plan.md"]);
    assert_eq!(first["outcome"], "new");
    assert_eq!(first["added"].as_array().unwrap().len(), 5);
    let again = lab.import(&["plan.md"]);
    assert_eq!((&again["outcome"], &again["session"]), (&"same".into(), &first["session"]));
    assert_eq!(lab.sessions(), 1);
    insta::assert_snapshot!(lab.tasks(&[]).success().stdout(), @"
    [ ] P1 Reading (0/2)
      [ ] P1.M1 Lines (ready)
      [ ] P1.M2 Ends (after P1.M1)
    [ ] P2 Writing (0/1)
      [ ] P2.M1 Out (ready)
    0 of 3 done, 2 ready
    ");
    let exported = lab.tasks(&["export"]).success();
    insta::assert_snapshot!(exported.stdout(), @"
    # Parser

    ## Reading

    - [ ] Lines
      Every line, the last one too.
    - [ ] Ends
      depends: Lines

    ## Writing

    - [ ] Out
    ");
}

#[test]
fn an_edit_in_the_middle_is_one_task() {
    let lab = Lab::new();
    lab.write("plan.md", PLAN);
    let first = lab.import(&["plan.md"]);
    let id = first["short"].as_str().unwrap();
    for task in ["P1.M1", "P1.M2", "P2.M1"] {
        lab.tasks(&["set", "-s", id, task, "implementing"]).success();
        lab.tasks(&["set", "-s", id, task, "complete", "--result", r#"{"ok":1}"#]).success();
    }
    lab.write(
        "plan.md",
        &PLAN.replace("- [ ] Ends", "- [ ] Tabs\n- [ ] Ends").replace("- [ ] Out\n", ""),
    );
    let dry = lab.tasks(&["import", "plan.md", "--dry-run"]).success();
    insta::with_settings!({filters => vec![(id, "PARENT")]}, {
        insta::assert_snapshot!(both(&dry), @"
        kept     planned     P1 Reading
        kept     complete    P1.M1 Lines
        new      planned     P1.M3 Tabs
        kept     complete    P1.M2 Ends
        obsolete obsolete    P2 Writing
        obsolete obsolete    P2.M1 Out
        Would begin a session that continues from PARENT: 1 new, 0 changed, 2 obsolete, 3 kept
        ");
    });
    assert_eq!(lab.sessions(), 1);
    let second = lab.import(&["plan.md"]);
    assert_eq!((&second["outcome"], &second["parent"]), (&"delta".into(), &first["session"]));
    insta::assert_snapshot!(lab.tasks(&["--ready"]).success().stdout(), @"
    [ ] P1 Reading (2/3)
      [ ] P1.M3 Tabs (ready)
    3 of 4 done, 1 of them obsolete, 1 ready
    ");
    let json = lab.tasks(&["export", "--format", "json"]).success();
    insta::assert_snapshot!(json.stdout(), @r#"
    {
      "title": "Parser",
      "tasks": [
        {
          "id": "P1",
          "title": "Reading",
          "status": "planned",
          "tasks": [
            {
              "id": "P1.M1",
              "title": "Lines",
              "status": "complete",
              "details": "Every line, the last one too.",
              "result": {
                "ok": 1
              }
            },
            {
              "id": "P1.M3",
              "title": "Tabs",
              "status": "planned"
            },
            {
              "id": "P1.M2",
              "title": "Ends",
              "status": "complete",
              "depends": [
                "P1.M1"
              ],
              "result": {
                "ok": 1
              }
            }
          ]
        }
      ]
    }
    "#);
}

#[test]
fn a_backlog_comes_back_as_it_was() {
    let lab = Lab::new();
    lab.write("tasks.json", BACKLOG);
    lab.import(&["tasks.json"]);
    assert_eq!(lab.tasks(&["export"]).success().stdout(), BACKLOG);
    lab.tasks(&["export", "-o", "out.json"]).success();
    assert_eq!(fs::read_to_string(lab.env.project().join("out.json")).unwrap(), BACKLOG);
    lab.tasks(&["set", "P1", "failed"]).success();
    let now = BACKLOG.replace("\"Planned\"", "\"Failed\"");
    assert_eq!(lab.tasks(&["export"]).success().stdout(), now);
}

#[test]
fn a_plan_goes_into_a_session_that_is_named() {
    let lab = Lab::new();
    let id = lab.env.run(&["new", "--title", "mine"]).success().stdout().trim().to_owned();
    lab.tasks(&["add", "-s", &id, "My own"]).success();
    let plan = br#"{"tasks":[{"id":"a","title":"A","depends":["b"],"status":"done"},{"id":"b","title":"B"}]}"#;
    let into = ["tasks", "import", "-", "--format", "json", "-s", &id];
    let dry = run(lab.env.command(&[&into[..], &["--dry-run"]].concat()), plan).success();
    assert!(dry.stderr.contains("2 new, 0 changed, 0 obsolete, 0 kept"), "{dry:?}");
    assert!(!lab.tasks(&["-s", &id]).success().stdout().contains(" B"));
    run(lab.env.command(&into), plan).success();
    let edited = br#"{"tasks":[{"id":"a","title":"A","details":"late"},{"id":"b","title":"B","details":"more"},{"title":"C","tasks":[{"title":"D"}]}]}"#;
    let done = run(lab.env.command(&into), edited).success();
    assert!(done.stderr.contains("2 new, 1 changed, 0 obsolete, 1 kept"), "{done:?}");
    let exported = lab.tasks(&["export", &id, "--format", "toml"]).success();
    insta::assert_snapshot!(exported.stdout(), @r#"
    title = "mine"

    [[task]]
    id = "P1"
    title = "My own"

    [[task]]
    id = "a"
    title = "A"
    depends = ["b"]
    status = "done"

    [[task]]
    id = "b"
    title = "B"
    details = "more"

    [[task]]
    id = "P3"
    title = "C"

    [[task]]
    id = "P3.M1"
    title = "D"
    parent = "P3"
    "#);
    let part = lab.tasks(&["export", &id, "--format", "markdown", "--scope", "b"]).success();
    insta::assert_snapshot!(part.stdout(), @"
    # mine

    - [ ] B {#b}
      more
    ");
    let unknown = lab.tasks(&["export", &id, "--scope", "zzz"]).failure(1);
    insta::assert_snapshot!(unknown.stderr, @"
    Error: there is no task zzz
    Hint: `abide tasks` lists the tasks
    ");
}

#[test]
fn what_is_wrong_is_said() {
    let lab = Lab::new();
    lab.write("plan.json", r#"{"backlog":[{"id":"P1","title":"a","status":"Planned","milestones":[{"id":"x","status":"Planned"}]}]}"#);
    let wrong = lab.tasks(&["import", "plan.json"]).failure(1);
    insta::assert_snapshot!(wrong.stderr, @"
    Error: cannot import plan.json
    Caused by: $.backlog[0].milestones[0].title: it is missing
    ");
    assert!(!lab.env.store().exists());
    lab.write("plan.txt", PLAN);
    insta::assert_snapshot!(lab.tasks(&["import", "plan.txt"]).failure(1).stderr, @r#"
    Error: cannot import plan.txt
    Caused by: cannot tell the format of "plan.txt" (expected .md, .json or .toml)
    Hint: give it with `--format prp`, `markdown`, `toml` or `json`
    "#);
    insta::assert_snapshot!(lab.tasks(&["import", "nowhere.md"]).failure(1).stderr, @"
    Error: cannot open nowhere.md
    Caused by: No such file or directory (os error 2)
    ");
    insta::assert_snapshot!(lab.tasks(&["import", "-"]).failure(2).stderr, @"
    Error: a plan from stdin needs --format
    Hint: see `abide tasks import --help`
    ");
    fs::write(lab.env.project().join("bad.md"), b"- [ ] a\xff\n").unwrap();
    insta::assert_snapshot!(lab.tasks(&["import", "bad.md"]).failure(1).stderr, @"
    Error: cannot import bad.md
    Caused by: the task list is not UTF-8 (first bad byte at 7)
    ");
    insta::assert_snapshot!(
        lab.tasks(&["import", "plan.txt", "--format", "yaml"]).failure(2).stderr.lines().next().unwrap(),
        @r#"error: invalid value 'yaml' for '--format <FORM>': unknown format "yaml" (expected prp, markdown, toml or json)"#
    );
}
