//! `abide plan`: an agent breaks a text into tasks, which are checked, shown and imported.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use crate::environment::{ABIDE, TestEnvironment, run};

const IDEA: &str = "# Idea\n\nMake it faster. And nicer.\n";
const ANSWER: &str = r#"{"title":"Faster","tasks":[
 {"id":"measure","title":"Measure it","details":"With a {clock}.","check":"true"},
 {"id":"work","title":"Work","tasks":[
  {"title":"Make it faster","depends":["measure"]},
  {"title":"Make it nicer"}]}]}"#;

/// A project with a text, and an agent that prints the next of these answers each time it is started.
struct Lab {
    environment: TestEnvironment,
}

impl Lab {
    fn new(answers: &[&str]) -> Self {
        let lab = Self { environment: TestEnvironment::new() };
        lab.write("IDEA.md", IDEA);
        lab.answers(answers);
        let script = "#!/bin/sh\ncat > told\necho >> starts\n\
             n=$(wc -l < starts)\n[ -f \"fail-$n\" ] && { echo broken >&2; exit 3; }\n\
             [ -f \"answer-$n\" ] && cat \"answer-$n\"\nexit 0\n";
        lab.write("planner", script);
        let path = lab.environment.project().join("planner");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        lab
    }

    /// Its answers from now on.
    fn answers(&self, answers: &[&str]) {
        let _ = fs::remove_file(self.environment.project().join("starts"));
        for (at, answer) in answers.iter().enumerate() {
            self.write(&format!("answer-{}", at + 1), answer);
        }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.environment.project().join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.environment.project().join(name)).unwrap_or_default()
    }

    /// How often the agent was started.
    fn starts(&self) -> usize {
        self.read("starts").lines().count()
    }

    fn plan(&self, args: &[&str]) -> crate::environment::Done {
        self.environment.run(&[&["plan", "IDEA.md"], args, &["--", "./planner"]].concat())
    }

    /// The sessions that have a plan.
    fn imported(&self) -> usize {
        let rows = self.environment.run(&["history", "--label", "plan", "--json"]).success();
        serde_json::from_str::<Vec<Value>>(rows.stdout()).unwrap().len()
    }

    /// Runs the plan with an agent that writes down its tasks.
    fn work(&self, args: &[&str]) -> String {
        let agent = "cat > /dev/null; echo \"$ABIDE_TASK\" >> ran";
        let run =
            [&["run", "--plan", "IDEA.md", "--yes"], args, &["--", "sh", "-c", agent]].concat();
        self.environment.run(&run).success();
        self.read("ran")
    }
}

#[test]
fn a_text_becomes_tasks_that_are_run() {
    let lab = Lab::new(&[&format!("Here {{you}} are:\n```json\n{ANSWER}\n```\nGood luck!\n")]);
    let done = lab.plan(&["--yes"]).success();
    insta::assert_snapshot!(done.stdout(), @r"
    [ ] measure Measure it (check: true)
    [ ] work Work
      [ ] work.M1 Make it faster (after measure)
      [ ] work.M2 Make it nicer
    ");
    assert!(done.stderr.contains("abide run --plan IDEA.md -- AGENT"), "{}", done.stderr);
    // The agent is told the text and the schema.
    let told = lab.read("told");
    assert!(told.contains(IDEA) && told.contains("\"additionalProperties\": false"), "{told}");
    assert_eq!(lab.imported(), 1);
    assert_eq!(lab.work(&[]), "measure\nwork.M1\nwork.M2\n");
    let shown = lab.environment.run(&["tasks"]).success();
    assert!(shown.stdout().ends_with("3 of 3 done\n"), "{}", shown.stdout());
    // The text is the plan's document: the same text goes on with its session.
    let again = lab.environment.run(&["run", "--plan", "IDEA.md", "--", "true"]).failure(1);
    assert!(again.stderr.contains("already uses this plan"), "{}", again.stderr);
    assert!(again.stderr.contains("`--continue` continues it"), "{}", again.stderr);
}

#[test]
fn without_a_terminal_the_tasks_are_shown_and_imported_later() {
    let lab = Lab::new(&[ANSWER]);
    let done = lab.plan(&[]).success();
    assert!(done.stdout().contains("[ ] measure Measure it"), "{}", done.stdout());
    let (_, hint) =
        done.stderr.split_once("To import these tasks: abide plan IDEA.md --from ").unwrap();
    let session = hint.split_whitespace().next().unwrap().to_owned();
    assert_eq!(lab.imported(), 0);
    let refused = lab.environment.run(&["run", "--plan", "IDEA.md", "--", "true"]).failure(1);
    assert!(refused.stderr.contains("`abide plan FILE -- AGENT`"), "{}", refused.stderr);
    let later = ["plan", "IDEA.md", "--from", &session, "--yes"];
    lab.environment.run(&later).success();
    assert_eq!((lab.imported(), lab.starts()), (1, 1), "the agent was started once");
    // Again it is the same plan.
    lab.environment.run(&later).success();
    assert_eq!(lab.imported(), 1);
    // The answer is about that text only.
    lab.write("IDEA.md", "Something else.\n");
    let other = lab.environment.run(&later).failure(1);
    assert!(other.stderr.contains("is a plan of another text"), "{}", other.stderr);
    let stale = lab.environment.run(&["run", "--plan", "IDEA.md", "--", "true"]).failure(1);
    assert!(stale.stderr.contains("was edited since it was planned"), "{}", stale.stderr);
    let named = lab.environment.run(&["new"]).success().stdout().trim().to_owned();
    let empty = lab.environment.run(&["plan", "IDEA.md", "--from", &named]).failure(1);
    assert!(empty.stderr.contains("has no answer of an agent"), "{}", empty.stderr);
}

#[test]
fn a_bad_answer_is_told_to_the_agent() {
    let bad = r#"{"tasks":[{"title":"A","tasks":[{"title":"B","owner":"me"}]}]}"#;
    let lab = Lab::new(&[bad, ANSWER]);
    let done = lab.plan(&["--yes"]).success();
    let wrong = "$.tasks[0].tasks[0].owner: unknown field";
    assert!(done.stderr.contains(wrong), "{}", done.stderr);
    assert!(lab.read("told").contains(&format!("Your last answer cannot be used: {wrong}")));
    assert_eq!((lab.imported(), lab.starts()), (1, 2));
    // As often as it may.
    let lab = Lab::new(&[bad, bad, ANSWER]);
    let done = lab.plan(&["--yes"]).failure(1);
    assert!(done.stderr.contains("gave no usable answer"), "{}", done.stderr);
    assert!(done.stderr.contains(&format!("Caused by: {wrong}")), "{}", done.stderr);
    assert_eq!((lab.imported(), lab.starts()), (0, 2));
    let lab = Lab::new(&[bad, bad, ANSWER]);
    lab.plan(&["--yes", "--attempts", "3"]).success();
    assert_eq!((lab.imported(), lab.starts()), (1, 3));
    lab.plan(&["--attempts", "0"]).failure(2);
}

#[test]
fn nothing_is_imported_from_an_agent_that_has_no_plan() {
    let much = format!("{}\n", "x".repeat(99)).repeat(20_000);
    for (answer, wanted) in [
        ("", "holds no complete JSON object with `tasks`"),
        ("I would rather not.", "holds no complete JSON object with `tasks`"),
        (r#"{"tasks":[]}"#, "$.tasks: it must be a list with at least one task"),
        (r#"{"tasks":[{"id":"a","title":"A"},{"id":"a","title":"B"}]}"#, "is already used by"),
        (
            r#"{"tasks":[{"id":"a","title":"A","depends":["b"]},{"id":"b","title":"B","depends":["a"]}]}"#,
            "these tasks wait for each other",
        ),
        (r#"{"tasks":[{"title":"A","status":"complete"}]}"#, "$.tasks[0].status: unknown field"),
        (r#"{"tasks":[{"title":7}]}"#, "$.tasks[0].title: it must be text"),
        (&much, "larger than 1048576 bytes"),
    ] {
        let lab = Lab::new(&[answer]);
        let done = lab.plan(&["--yes", "--attempts", "1"]).failure(1);
        assert!(done.stderr.contains(wanted), "{wanted}: {}", done.stderr);
        assert_eq!((done.stdout(), lab.imported()), ("", 0));
    }
    // An agent that fails is not asked again.
    let lab = Lab::new(&[ANSWER]);
    lab.write("fail-1", "");
    let done = lab.plan(&["--yes"]).failure(1);
    assert!(done.stderr.contains("the agent failed, and nothing was imported"), "{}", done.stderr);
    assert_eq!((done.stdout(), lab.imported(), lab.starts()), ("", 0, 1));
    let none = lab.environment.run(&["plan", "IDEA.md", "--", "./no-such-agent"]).failure(1);
    assert!(none.stderr.contains("cannot start"), "{}", none.stderr);
}

#[test]
fn what_was_done_stays_done_when_a_text_is_planned_again() {
    let lab = Lab::new(&[ANSWER]);
    lab.plan(&["--yes"]).success();
    lab.work(&["--max-tasks", "1"]);
    lab.write("IDEA.md", &format!("{IDEA}And smaller.\n"));
    lab.answers(&[
        &ANSWER.replace("Make it nicer\"}", "Make it nicer\"},{\"title\":\"Make it smaller\"}")
    ]);
    let shown = lab.plan(&["--json"]).success().json_lines().remove(0);
    assert_eq!((&shown["outcome"], &shown["imported"]), (&"delta".into(), &false.into()));
    assert_eq!(shown["tasks"][0]["status"], "complete");
    assert_eq!(shown["tasks"].as_array().unwrap().len(), 5);
    assert_eq!(lab.imported(), 1);
    lab.answers(&[
        &ANSWER.replace("Make it nicer\"}", "Make it nicer\"},{\"title\":\"Make it smaller\"}")
    ]);
    let done = lab.plan(&["--json", "--yes"]).success().json_lines().remove(0);
    assert_eq!((&done["outcome"], &done["imported"]), (&"delta".into(), &true.into()));
    assert!(done["session"].is_string() && done["planned_in"].is_string(), "{done}");
    assert_eq!(lab.work(&[]), "measure\nwork.M1\nwork.M2\nwork.M3\n");
}

#[test]
fn on_a_terminal_the_user_is_asked() {
    let lab = Lab::new(&[ANSWER, ANSWER]);
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: there is no `script` to make a terminal with");
        return;
    }
    let asked = |answer: &str| {
        let mut command = lab.environment.isolate(Command::new("script"));
        command.args(["-qec", &format!("'{ABIDE}' plan IDEA.md -- ./planner"), "/dev/null"]);
        run(command, answer.as_bytes())
    };
    let refused = asked("n\n").failure(4);
    assert!(refused.stdout().contains("Import these tasks? [y/N]"), "{}", refused.stdout());
    assert!(refused.stdout().contains("--from"), "{}", refused.stdout());
    assert_eq!(lab.imported(), 0);
    asked("y\n").success();
    assert_eq!(lab.imported(), 1);
}

#[test]
fn only_a_text_is_planned_and_an_agent_is_needed() {
    let lab = Lab::new(&[ANSWER]);
    let none = lab.environment.run(&["plan", "IDEA.md"]).failure(2);
    assert!(none.stderr.contains("no agent: give its command after `--`"), "{}", none.stderr);
    for (name, text, wanted) in [
        ("PLAN.md", "- [ ] One\n", "PLAN.md is a plan already"),
        ("plan.json", "{\"tasks\":[]}", "plan.json is a plan already"),
        ("empty.md", " \n", "empty.md is empty"),
        ("idea.txt", "An idea.\n", "cannot tell the format"),
    ] {
        lab.write(name, text);
        let done = lab.environment.run(&["plan", name, "--", "./planner"]).failure(1);
        assert!(done.stderr.contains(wanted), "{wanted}: {}", done.stderr);
    }
    let missing = lab.environment.run(&["plan", "missing.md", "--", "./planner"]).failure(1);
    assert!(missing.stderr.contains("cannot read missing.md"), "{}", missing.stderr);
    assert_eq!((lab.starts(), lab.imported()), (0, 0));
    // An agent of the configuration, by its name.
    let dir = lab.environment.path("home/.config/abide");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("config.toml"), "[agents.planner]\ncommand = [\"./planner\"]\n").unwrap();
    lab.environment.run(&["plan", "IDEA.md", "--agent", "planner", "--yes"]).success();
    assert_eq!((lab.starts(), lab.imported()), (1, 1));
}
