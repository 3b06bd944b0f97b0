//! A plan run to its end through the death of `abide`, of the agent, or of both, over and over:
//! every task's effect happens, no completed task runs again, and the order is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use abide_testkit::{FaultRun, FaultSize};
use serde_json::Value;

use crate::environment::{TestEnvironment, files};

/// Writes that it began, does its work, and writes that it ended. Two at the same time are noted.
const AGENT: &str = r#"#!/bin/sh
exec 9>>"$LAB/lock"
flock -n 9 || echo "$ABIDE_TASK" >> "$LAB/overlaps"
task=$(cat)
case $task in "Task $ABIDE_TASK: "*) ;; *) echo "told: $task" >> "$LAB/wrong" ;; esac
echo "$ABIDE_TASK" >> "$LAB/begun"
echo "working on $ABIDE_TASK"
case $ABIDE_TASK in *T5) mkdir "$LAB/failed-$ABIDE_TASK" 2>/dev/null && exit 3 ;; esac
sleep 0.03
mkdir -p work
echo "$ABIDE_TASK" > "work/$ABIDE_TASK.new" && mv "work/$ABIDE_TASK.new" "work/$ABIDE_TASK"
sleep 0.01
echo "done with $ABIDE_TASK"
"#;

/// Numbers that look random, and are the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

struct Lab {
    environment: TestEnvironment,
    tasks: usize,
}

impl Lab {
    fn new(tasks: usize) -> Self {
        let environment = TestEnvironment::new();
        let lab = Self { environment, tasks };
        fs::create_dir_all(lab.beside()).unwrap();
        let agent = lab.beside().join("agent");
        fs::write(&agent, AGENT).unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(lab.environment.project().join("plan.toml"), lab.plan()).unwrap();
        lab
    }

    /// What the agents write down that does not belong to their work.
    fn beside(&self) -> std::path::PathBuf {
        self.environment.path("beside")
    }

    /// Phases of ten tasks; a task waits for the one before it or for one of an earlier phase.
    fn plan(&self) -> String {
        let mut plan = String::from("title = \"many tasks\"\n");
        for n in 0..self.tasks {
            if n % 10 == 0 {
                let phase = n / 10;
                plan.push_str(&format!("[[task]]\nid = \"P{phase}\"\ntitle = \"Phase {phase}\"\n"));
            }
            let depends: Vec<String> =
                self.depends(n).into_iter().map(|on| format!("{:?}", id(on))).collect();
            plan.push_str(&format!(
                "[[task]]\nid = \"{}\"\nparent = \"P{}\"\ntitle = \"Step {n}\"\ndepends = [{}]\n",
                id(n),
                n / 10,
                depends.join(", ")
            ));
        }
        plan
    }

    fn depends(&self, n: usize) -> Vec<usize> {
        match n % 10 {
            0 if n == 0 => Vec::new(),
            0 => vec![n - 1],
            3 | 7 => vec![n - 2],
            _ => vec![n - 1],
        }
    }

    fn start(&self) -> Child {
        let agent = self.beside().join("agent");
        self.environment
            .command(&[
                "run",
                "--plan",
                "plan.toml",
                "--continue",
                "--retries",
                "1",
                "--plain",
                "--grace",
                "1s",
                "--",
            ])
            .arg(agent)
            .env("LAB", self.beside())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(
                fs::File::options()
                    .create(true)
                    .append(true)
                    .open(self.environment.path("said"))
                    .unwrap(),
            )
            .spawn()
            .unwrap()
    }

    fn said(&self) -> String {
        let said = fs::read_to_string(self.environment.path("said")).unwrap_or_default();
        said.chars().rev().take(2000).collect::<Vec<_>>().into_iter().rev().collect()
    }

    /// The tasks as they stand.
    fn standing(&self) -> Vec<(String, String, String)> {
        let listed = self.environment.run(&["tasks", "--json"]).success();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let lines = listed.json_lines();
        lines
            .iter()
            .map(|line| (text(&line["task"]), text(&line["title"]), text(&line["status"])))
            .collect()
    }

    /// The files of the work.
    fn work(&self) -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let dir = self.environment.project().join("work");
        let named = |(path, bytes): (std::path::PathBuf, Vec<u8>)| {
            (path.strip_prefix(&dir).unwrap().to_owned(), bytes)
        };
        files(&dir).into_iter().map(named).collect()
    }

    fn events(&self) -> Vec<Value> {
        self.environment.run(&["export"]).success().json_lines()
    }
}

fn id(n: usize) -> String {
    format!("P{}.T{}", n / 10, n % 10)
}

/// The processes that this one has started.
fn children(of: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    let mut all: Vec<u32> = list.split_whitespace().filter_map(|id| id.parse().ok()).collect();
    // Threads start processes too.
    if let Ok(threads) = fs::read_dir(format!("/proc/{of}/task")) {
        for thread in threads.flatten() {
            let list = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            all.extend(list.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

fn kill(pid: u32) -> bool {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).is_ok()
}

#[test]
fn a_plan_is_done_through_the_death_of_everybody() {
    let faults = FaultRun::from_env();
    let (tasks, kills) = (faults.len(20, 200), faults.len(12, 200));
    let calm = Lab::new(tasks);
    let mut child = calm.start();
    assert!(child.wait().unwrap().success(), "{}", calm.said());

    let lab = Lab::new(tasks);
    let mut random = Random(faults.seed());
    let mut deaths: BTreeMap<&str, usize> = BTreeMap::new();
    let mut running = lab.start();
    while deaths.values().sum::<usize>() < kills {
        std::thread::sleep(Duration::from_millis(random.below(130)));
        if let Some(status) = running.try_wait().unwrap() {
            assert!(status.success(), "{status}: {}", lab.said());
            break;
        }
        let agents = children(running.id());
        match random.below(3) {
            0 => {
                let killed = agents.iter().filter(|agent| kill(**agent)).count();
                *deaths.entry("agent").or_default() += usize::from(killed > 0);
                continue;
            }
            1 => {
                running.kill().unwrap();
                *deaths.entry("abide").or_default() += 1;
            }
            _ => {
                let _ = agents.iter().filter(|agent| kill(**agent)).count();
                running.kill().unwrap();
                *deaths.entry("both").or_default() += 1;
            }
        }
        running.wait().unwrap();
        running = lab.start();
    }
    let status = running.wait().unwrap();
    assert!(status.success(), "{status}: {}", lab.said());
    println!("kills in a run of {tasks} tasks: {deaths:?}");
    // A short one may be done before.
    assert!(
        faults.size() == FaultSize::Small || deaths.values().sum::<usize>() == kills,
        "{deaths:?}"
    );

    assert!(!lab.beside().join("overlaps").exists(), "two agents at the same time");
    assert!(!lab.beside().join("wrong").exists(), "an agent was told something else");
    assert_eq!(lab.work(), calm.work(), "every task's effect is there");
    assert_eq!(lab.work().len(), tasks);
    assert_eq!(lab.standing(), calm.standing());
    check_history(&lab);
    // Each agent that was begun is in the journal, and none was begun for what was done.
    let begun = fs::read_to_string(lab.beside().join("begun")).unwrap();
    assert!(begun.lines().count() >= tasks);
    lab.environment.run(&["doctor", "--all"]).success();
}

/// The statuses of each task, in the journal's order.
fn check_history(lab: &Lab) {
    let mut complete = BTreeSet::new();
    let mut failed = 0;
    for event in lab.events() {
        if event["kind"] != "task.status" {
            continue;
        }
        let task = event["data"]["task"].as_str().unwrap().to_owned();
        match event["data"]["status"].as_str().unwrap() {
            "implementing" | "retrying" => {
                assert!(!complete.contains(&task), "{task} ran again after it was complete");
                let n = (0..lab.tasks).find(|n| id(*n) == task).unwrap();
                for on in lab.depends(n) {
                    assert!(complete.contains(&id(on)), "{task} began before {}", id(on));
                }
            }
            "complete" => assert!(complete.insert(task.clone()), "{task} was completed twice"),
            "failed" => {
                assert!(task.ends_with("T5"), "{task}: a kill is no failure");
                failed += 1;
            }
            _ => {}
        }
    }
    assert!(failed <= lab.tasks.div_ceil(10), "{failed}");
    assert_eq!(complete.len(), lab.tasks + lab.tasks.div_ceil(10));
}
