//! `abide run --write-back`: the statuses of tasks are written into the plan's document, and nothing
//! else of it changes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::environment::{Done, TestEnvironment};

const PLAN: &str = "# Plan\n\nWords; `- [ ] not a task`.\n\n## Phase\n\n* [ ] One  \n  Details.\n\n  ```\n  - [ ] One\n  ```\n1. [ ] Two\n   - [x] Done before\n   - [ ] Inner\n- [ ] Three";

struct Lab {
    environment: TestEnvironment,
}

impl Lab {
    fn new(name: &str, plan: &str) -> Self {
        let lab = Self { environment: TestEnvironment::new() };
        fs::write(lab.path(name), plan).unwrap();
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.environment.project().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs the plan with an agent that is a script.
    fn run(&self, name: &str, more: &[&str], agent: &str) -> Done {
        let run = ["run", "--plan", name, "--continue", "--write-back"];
        self.environment.run(&[&run, more, &["--", "sh", "-c", agent]].concat())
    }

    /// Where the latest session writes a text until it is complete.
    fn temporary(&self) -> String {
        let rows = self.environment.run(&["history", "--json"]).success();
        let rows: Vec<Value> = serde_json::from_str(rows.stdout()).unwrap();
        let id = rows[0]["session"].as_str().or(rows[0]["id"].as_str()).unwrap().replace('-', "");
        format!(".abide-tmp-{}-{}", &id[..16], &id[16..])
    }

    fn sessions(&self) -> usize {
        let rows = self.environment.run(&["history", "--json"]).success();
        serde_json::from_str::<Vec<Value>>(rows.stdout()).unwrap().len()
    }

    /// What the agents left of their attempts to write.
    fn leftovers(&self) -> usize {
        let names = fs::read_dir(self.environment.project()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".abide-tmp-")).count()
    }
}

/// An agent that waits until the document says that its task is worked on.
const SEES_ITSELF: &str =
    "cat > /dev/null; until grep -q 'status: implementing' PLAN.md; do sleep 0.01; done";

#[test]
fn only_statuses_change() {
    let lab = Lab::new("PLAN.md", PLAN);
    fs::set_permissions(lab.path("PLAN.md"), fs::Permissions::from_mode(0o640)).unwrap();
    lab.run("PLAN.md", &[], SEES_ITSELF).success();
    let wanted = PLAN
        .replace("* [ ] One", "* [x] One")
        .replace("1. [ ] Two", "1. [x] Two")
        .replace("- [ ] Inner", "- [x] Inner")
        .replace("- [ ] Three", "- [x] Three");
    assert_eq!(lab.read("PLAN.md"), wanted);
    let mode = fs::metadata(lab.path("PLAN.md")).unwrap().permissions().mode();
    assert_eq!((mode & 0o777, lab.leftovers()), (0o640, 0));
}

#[test]
fn its_own_text_is_known() {
    let lab = Lab::new("real.md", "- [ ] One\n- [ ] Two\n");
    symlink("real.md", lab.path("PLAN.md")).unwrap();
    let agent = "cat > /dev/null; echo \"$ABIDE_TASK\" >> ran";
    lab.run("PLAN.md", &["--max-tasks", "1"], agent).success();
    assert_eq!(lab.read("real.md"), "- [x] One\n- [ ] Two\n");
    // Without it the document stays as it is.
    let plain = ["run", "--plan", "PLAN.md", "--continue", "--max-tasks", "1", "--", "true"];
    lab.environment.run(&plain).success();
    assert_eq!(lab.read("real.md"), "- [x] One\n- [ ] Two\n");
    lab.run("PLAN.md", &[], agent).success();
    assert_eq!(lab.read("real.md"), "- [x] One\n- [x] Two\n");
    assert_eq!((lab.sessions(), lab.read("ran").as_str()), (1, "P1\n"));
    assert!(fs::symlink_metadata(lab.path("PLAN.md")).unwrap().is_symlink());
    // An edit by a person is one, also back to the first text.
    fs::write(lab.path("real.md"), "- [ ] One\n- [ ] Two\n- [ ] Three\n").unwrap();
    lab.run("PLAN.md", &[], agent).success();
    assert_eq!((lab.sessions(), lab.read("ran").as_str()), (2, "P1\nP3\n"));
    assert_eq!(lab.read("real.md"), "- [x] One\n- [x] Two\n- [x] Three\n");
}

#[test]
fn an_edit_meanwhile_is_kept_and_read_by_the_next_run() {
    let lab = Lab::new("PLAN.md", "- [ ] One\n- [ ] Two\n");
    // While the first task is run, somebody checks a box, adds a task and leaves a note.
    let agent = "cat > /dev/null; echo \"$ABIDE_TASK\" >> ran\n\
        [ -f edited ] || { touch edited; printf 'A note.\\n\\n- [ ] One\\n- [x] Two\\n- [ ] Three\\n' > new; mv new PLAN.md; }";
    lab.run("PLAN.md", &["--max-tasks", "1"], agent).success();
    assert_eq!(lab.read("PLAN.md"), "A note.\n\n- [x] One\n- [x] Two\n- [ ] Three\n");
    let next = lab.run("PLAN.md", &[], agent).success();
    assert!(next.stderr.contains("The plan was edited since session"), "{}", next.stderr);
    assert_eq!(lab.read("ran"), "P1\nP3\n");
    assert_eq!(lab.read("PLAN.md"), "A note.\n\n- [x] One\n- [x] Two\n- [x] Three\n");
}

#[test]
fn a_task_that_was_edited_while_it_ran_is_done_again() {
    let lab = Lab::new("PLAN.md", "- [ ] One\n- [ ] Two\n");
    let agent = "cat > /dev/null; echo \"$ABIDE_TASK\" >> ran\n\
        [ -f edited ] || { touch edited; printf '%s\\n' '- [ ] One' '  Also that.' '- [ ] Two' > new; mv new PLAN.md; }";
    lab.run("PLAN.md", &["--max-tasks", "1"], agent).success();
    assert_eq!(lab.read("PLAN.md"), "- [ ] One\n  Also that.\n- [ ] Two\n");
    lab.run("PLAN.md", &[], agent).success();
    assert_eq!(lab.read("ran"), "P1\nP1\nP2\n");
    assert_eq!(lab.read("PLAN.md"), "- [x] One\n  Also that.\n- [x] Two\n");
}

#[test]
fn whoever_saves_all_the_time_loses_nothing() {
    let tasks: String = (0..12).map(|n| format!("- [ ] Task {n}\n")).collect();
    let lab = Lab::new("PLAN.md", &tasks);
    let (ended, path) = (AtomicBool::new(false), lab.path("PLAN.md"));
    let saved = std::thread::scope(|scope| {
        // An editor: reads the text, adds a line, saves it under a temporary name and renames it.
        let editor = scope.spawn(|| {
            let mut lines = 0;
            // Only so often: the text grows with each.
            while lines < 400 && !ended.load(Ordering::Acquire) {
                let text = fs::read_to_string(&path).unwrap();
                fs::write(path.with_extension("new"), format!("{text}\nLine {lines}.\n")).unwrap();
                fs::rename(path.with_extension("new"), &path).unwrap();
                lines += 1;
                std::thread::yield_now();
            }
            lines
        });
        lab.run("PLAN.md", &["--plain", "--checkpoint", "off"], "true").success();
        ended.store(true, Ordering::Release);
        editor.join().unwrap()
    });
    lab.run("PLAN.md", &["--plain", "--checkpoint", "off"], "true").success();
    let text = lab.read("PLAN.md");
    for n in 0..saved {
        assert!(text.contains(&format!("\nLine {n}.\n")), "line {n} of {saved} is lost:\n{text}");
    }
    assert_eq!(text.matches("- [x] Task ").count(), 12, "{text}");
    assert_eq!(lab.leftovers(), 0);
}

#[test]
fn an_edit_that_was_swapped_out_when_it_was_killed_is_put_back() {
    let lab = Lab::new("PLAN.md", "- [ ] One\n");
    lab.run("PLAN.md", &[], "true").success();
    assert_eq!(lab.read("PLAN.md"), "- [x] One\n");
    fs::write(lab.path(&lab.temporary()), "- [ ] One\n- [ ] Theirs\n").unwrap();
    lab.run("PLAN.md", &[], "true").success();
    assert_eq!(lab.read("PLAN.md"), "- [x] One\n- [ ] Theirs\n");
    // What is left of an attempt is not an edit.
    lab.run("PLAN.md", &[], "true").success();
    assert_eq!(lab.read("PLAN.md"), "- [x] One\n- [x] Theirs\n");
    assert_eq!(lab.leftovers(), 0);
}

#[test]
fn a_failure_is_written_and_taken_away() {
    let lab = Lab::new("PLAN.md", "- [ ] One\n  depends: Two\n- [ ] Two\n");
    lab.run("PLAN.md", &[], "cat > /dev/null; exit 3").failure(1);
    assert_eq!(lab.read("PLAN.md"), "- [ ] One\n  depends: Two\n- [ ] Two\n  status: failed\n");
    // A run that continues does as the one before.
    let agent = ["--retry-failed", "--", "true"];
    lab.environment.run(&[&["resume"], &agent[..]].concat()).success();
    assert_eq!(lab.read("PLAN.md"), "- [x] One\n  depends: Two\n- [x] Two\n");
    assert_eq!(lab.sessions(), 1);
}

#[test]
fn a_resume_brings_the_document_up_to_date() {
    let lab = Lab::new("PLAN.md", "- [ ] One\n- [ ] Two\n");
    lab.run("PLAN.md", &[], "true").success();
    // As if it had been killed before the last write.
    fs::write(lab.path("PLAN.md"), "- [x] One\n- [ ] Two\n").unwrap();
    let resumed = lab.environment.run(&["resume"]).success();
    assert!(resumed.stderr.contains("Everything is done"), "{}", resumed.stderr);
    assert_eq!(lab.read("PLAN.md"), "- [x] One\n- [x] Two\n");
    // A part of a new text that was left by a kill is not an edit.
    fs::write(lab.path(&lab.temporary()), "- [x] One\n- [").unwrap();
    lab.environment.run(&["resume"]).success();
    assert_eq!((lab.read("PLAN.md").as_str(), lab.leftovers()), ("- [x] One\n- [x] Two\n", 0));
    fs::write(lab.path("PLAN.md"), "- [x] One\n- [ ] Two\n").unwrap();
    lab.environment.run(&["resume", "--write-back=false"]).success();
    assert_eq!(lab.read("PLAN.md"), "- [x] One\n- [ ] Two\n");
}

#[test]
fn other_forms_are_written_too() {
    let toml = "# The plan\n[[task]]\ntitle = \"One\" # first\n\n[[task]]\ntitle = \"Two\"\nstatus = 'planned'\n";
    let json = "{ \"tasks\": [\n  { \"title\": \"One\" },\n  { \"title\": \"Two\", \"status\": \"todo\", \"owner\": \"me\" }\n] }\n";
    for (name, plan, wanted) in [
        (
            "plan.toml",
            toml,
            toml.replace("# first\n", "# first\nstatus = \"complete\"\n")
                .replace("'planned'", "\"complete\""),
        ),
        (
            "plan.json",
            json,
            json.replace("\"One\" }", "\"One\", \"status\": \"complete\" }")
                .replace("todo", "complete"),
        ),
    ] {
        let lab = Lab::new(name, plan);
        lab.run(name, &[], "true").success();
        assert_eq!(lab.read(name), wanted);
        lab.run(name, &[], "true").success();
        assert_eq!((lab.read(name), lab.sessions()), (wanted, 1));
    }
}

#[test]
fn a_document_that_cannot_be_written_is_told_and_stops_nothing() {
    let lab = Lab::new("PLAN.md", "- [ ] One\n- [ ] Two\n");
    let done = lab.run("PLAN.md", &["--max-tasks", "1"], "rm PLAN.md").success();
    assert!(
        done.stderr.contains("the plan's file is not up to date: cannot find"),
        "{}",
        done.stderr
    );
    fs::write(lab.path("PLAN.md"), "- [ ] One\n- [ ] Two\n").unwrap();
    fs::set_permissions(lab.path("PLAN.md"), fs::Permissions::from_mode(0o444)).unwrap();
    let done = lab.run("PLAN.md", &["--max-tasks", "1"], "true").success();
    assert!(
        done.stderr.contains("the plan's file is not up to date: cannot write"),
        "{}",
        done.stderr
    );
    assert_eq!(lab.read("PLAN.md"), "- [ ] One\n- [ ] Two\n");
    let none = lab.environment.run(&["run", "--write-back", "--", "true"]).failure(2);
    assert!(none.stderr.contains("--write-back needs --plan"), "{}", none.stderr);
}
