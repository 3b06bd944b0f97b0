//! Runs that write back into their plan's document, killed with SIGKILL at every system call that
//! concerns it: the document is whole, what somebody else saved in it stays, and the next run brings
//! it up to date.
//!
//! strace kills at the chosen call; without it this is skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use abide_testkit::FaultRun;

use crate::environment::{ABIDE, Done, TestEnvironment, run};
use crate::fault::{self, Call, Fault, skipped};
use crate::lab::copy;

const PLAN: &str = "# Plan\n\n- [ ] One\n  Words.\n- [ ] Two\n- [ ] Three\n";

/// Lets the editor beside it save the document, and waits until it has.
const LETS_EDIT: &str = "cat > /dev/null; touch \"edit-$ABIDE_TASK\"\n\
    while [ -e \"edit-$ABIDE_TASK\" ]; do sleep 0.01; done";

struct Lab {
    environment: TestEnvironment,
    agent: &'static str,
    /// Where the session that the first run works in writes a text until it is complete.
    temporary: PathBuf,
}

impl Lab {
    fn new(agent: &'static str) -> Self {
        let environment = TestEnvironment::new();
        fs::write(environment.project().join("PLAN.md"), PLAN).unwrap();
        let import = environment.run(&["tasks", "import", "PLAN.md", "--json"]).success();
        let id = import.json_lines()[0]["session"].as_str().unwrap().replace('-', "");
        let temporary = format!(".abide-tmp-{}-{}", &id[..16], &id[16..]);
        let temporary = environment.project().join(temporary);
        let lab = Self { environment, agent, temporary };
        copy(&lab.environment.project(), &lab.environment.path("kept/project"));
        copy(&lab.environment.path("home"), &lab.environment.path("kept/home"));
        lab
    }

    /// Puts project, store and notes back as they were.
    fn reset(&self) {
        for name in ["project", "home"] {
            fs::remove_dir_all(self.environment.path(name)).unwrap();
            copy(&self.environment.path("kept").join(name), &self.environment.path(name));
        }
    }

    /// The run, by way of another program that is given its name and arguments.
    fn by(&self, way: &[String]) -> Command {
        let mut command = self.environment.isolate(Command::new("timeout"));
        command.arg("120").args(way).arg(ABIDE);
        command.args(["run", "--plan", "PLAN.md", "--continue", "--write-back", "--plain"]);
        command.args(["--checkpoint", "off", "--", "sh", "-c", self.agent]);
        command
    }

    /// The run, with an editor beside it that saves the document with a note when a task lets it.
    fn beside_an_editor(&self, way: &[String]) -> Done {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Acquire) {
                    ["P1", "P2", "P3"].iter().for_each(|task| self.edit(task));
                    std::thread::yield_now();
                }
            });
            let done = run(self.by(way), b"");
            ended.store(true, Ordering::Release);
            done
        })
    }

    /// Adds a note to the document if a task asks for it, as an editor saves.
    fn edit(&self, task: &str) {
        let project = self.environment.project();
        let asked = project.join(format!("edit-{task}"));
        if !asked.exists() {
            return;
        }
        fs::write(project.join("new"), format!("{}\nNote of {task}.\n", self.plan())).unwrap();
        fs::rename(project.join("new"), project.join("PLAN.md")).unwrap();
        fs::remove_file(asked).unwrap();
    }

    /// Only calls about the document, about what will replace it, or about their directory.
    fn narrowed(&self, mut way: Vec<String>) -> Vec<String> {
        let project = self.environment.project();
        for path in [project.join("PLAN.md"), self.temporary.clone(), project] {
            way.extend(["-P".to_owned(), path.to_str().unwrap().to_owned()]);
        }
        way
    }

    fn log(&self) -> PathBuf {
        self.environment.path("strace")
    }

    /// The calls of a run without a fault.
    fn calls(&self) -> Vec<Call> {
        self.reset();
        self.beside_an_editor(&self.narrowed(fault::trace(&self.log()))).success();
        let calls = fault::calls(&fs::read_to_string(self.log()).unwrap());
        // Every step is among them.
        for name in ["openat", "fchmod", "write", "fsync", "renameat2", "unlink"] {
            assert!(calls.iter().any(|call| call.name == name), "no {name}: {calls:?}");
        }
        calls
    }

    fn strike(&self, fault: &Fault) -> bool {
        self.reset();
        let done = self.beside_an_editor(&self.narrowed(fault.way(&self.log())));
        assert_ne!(done.code, 124, "it hangs: {done:?}");
        fault.struck(&done, &fs::read_to_string(self.log()).unwrap_or_default())
    }

    fn plan(&self) -> String {
        fs::read_to_string(self.environment.project().join("PLAN.md")).unwrap()
    }

    /// How many sessions there are.
    fn sessions(&self) -> usize {
        let rows = self.environment.run(&["history", "--json"]).success();
        serde_json::from_str::<Vec<serde_json::Value>>(rows.stdout()).unwrap().len()
    }

    /// Kills a run at each call, and checks what is left.
    fn each(&self, check: &dyn Fn(&Self)) -> usize {
        let calls = self.calls();
        check(self);
        let mut kills = 0;
        for at in FaultRun::from_env().places(calls.len() as u64, 5, 1) {
            let fault = Fault::Kill(calls[usize::try_from(at).unwrap()].clone());
            kills += usize::from(self.strike(&fault));
            is_whole(&self.plan());
            self.beside_an_editor(&[]).success();
            check(self);
        }
        kills
    }

    /// The document and the session agree, and nothing else is left.
    fn agrees(&self) {
        let text = self.plan();
        for title in ["One", "Two", "Three"] {
            assert!(text.contains(&format!("- [x] {title}\n")), "{text}");
        }
        assert!(!text.contains("status:"), "{text}");
        let tasks = self.environment.run(&["tasks", "--json"]).success();
        assert!(tasks.json_lines().iter().all(|task| task["status"] == "complete"), "{tasks:?}");
        self.environment.run(&["doctor"]).success();
        let is_left = |path: &Path| path.to_string_lossy().contains(".abide-tmp-");
        let left = fs::read_dir(self.environment.project()).unwrap();
        let left = left.map(|entry| entry.unwrap().path()).filter(|path| is_left(path));
        assert_eq!(left.count(), 0);
    }
}

/// Checks that a document says what it did, whatever its statuses and notes are.
fn is_whole(text: &str) {
    let statuses = text.lines().filter(|line| !line.trim_start().starts_with("status: "));
    let plain: String = statuses.map(|line| line.replace("[x]", "[ ]") + "\n").collect();
    let (plan, notes) = plain.split_at_checked(PLAN.len()).unwrap_or((&plain, ""));
    assert_eq!(plan, PLAN, "{text}");
    let is_note =
        |line: &str| line.is_empty() || line.starts_with("Note of ") && line.ends_with('.');
    assert!(notes.lines().all(is_note) && text.ends_with('\n'), "{text}");
}

#[test]
fn a_run_that_is_killed_anywhere_leaves_a_whole_document() {
    if skipped() {
        return;
    }
    let lab = Lab::new("cat > /dev/null");
    let kills = lab.each(&|lab| {
        lab.agrees();
        assert_eq!(lab.plan(), PLAN.replace("[ ]", "[x]"));
        // What it wrote itself was never taken for an edit.
        assert_eq!(lab.sessions(), 1);
    });
    println!("kills of write-backs: {kills}");
    assert!(kills >= 3, "{kills}");
}

#[test]
fn what_somebody_saved_meanwhile_outlives_a_kill() {
    if skipped() {
        return;
    }
    let lab = Lab::new(LETS_EDIT);
    let kills = lab.each(&|lab| {
        lab.agrees();
        is_whole(&lab.plan());
        for task in ["P1", "P2", "P3"] {
            assert!(lab.plan().contains(&format!("\nNote of {task}.\n")), "{}", lab.plan());
        }
    });
    println!("kills of write-backs with an editor beside: {kills}");
    assert!(kills >= 3, "{kills}");
}
