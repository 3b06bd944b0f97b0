//! Runs as a person sees them: on a real terminal, which tmux holds, and without one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::environment::{ABIDE, Done, TestEnvironment};

const PLAN: &str = "# Parser\n\n## Reading\n- [ ] Write the lexer\n- [ ] Write the parser\n\n## Printing\n- [ ] Write the printer\n";

/// Says what it does, and goes on when the file `go` is there.
const AGENT: &str = "#!/bin/sh\ncat > /dev/null\necho \"looking at $ABIDE_TASK\"\n\
    until [ -e go ] || [ -e \"go-$ABIDE_TASK\" ]; do sleep 0.05; done\necho \"$ABIDE_TASK\" >> done\n";

/// A terminal, with a project.
pub(crate) struct Terminal {
    pub(crate) environment: TestEnvironment,
    socket: String,
}

impl Terminal {
    /// None where there is no tmux.
    pub(crate) fn new(columns: u32, rows: u32) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("skipped: there is no tmux to hold a terminal");
            return None;
        }
        let terminal = Self::without();
        let (columns, rows) = (columns.to_string(), rows.to_string());
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows, "sh"]);
        Some(terminal)
    }

    fn without() -> Self {
        let environment = TestEnvironment::new();
        let project = environment.project();
        fs::write(project.join("PLAN.md"), PLAN).unwrap();
        fs::write(project.join("agent"), AGENT).unwrap();
        fs::set_permissions(project.join("agent"), fs::Permissions::from_mode(0o755)).unwrap();
        let socket = environment.path("tmux").to_string_lossy().into_owned();
        Self { environment, socket }
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut command = self.environment.isolate(Command::new("tmux"));
        command.args(["-S", &self.socket]).args(args).env("TERM", "xterm").env("PS1", "$ ");
        let done = command.current_dir(self.environment.project()).output().unwrap();
        assert!(done.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    pub(crate) fn type_line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.tmux(&["send-keys", "Enter"]);
    }

    /// The screen, once it shows this.
    pub(crate) fn until(&self, wanted: &str) -> String {
        let began = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if screen.contains(wanted) {
                return screen;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "no {wanted:?} on:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until this was written to the terminal twice from now on: once it may have been under way.
    fn until_drawn_anew(&self, wanted: &str) {
        let times = || {
            let written = fs::read(self.environment.path("written")).unwrap_or_default();
            String::from_utf8_lossy(&written).matches(wanted).count()
        };
        let (before, began) = (times(), Instant::now());
        while times() < before + 2 {
            assert!(began.elapsed() < Duration::from_secs(60), "{wanted:?} is not drawn anew");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn go(&self, file: &str) {
        fs::write(self.environment.project().join(file), "").unwrap();
    }

    fn start(&self) {
        self.type_line(&format!(
            "'{ABIDE}' run --plan PLAN.md --grace 1s -- ./agent; echo ended $?"
        ));
    }

    fn status(&self, task: &str) -> String {
        let listed = self.environment.run(&["tasks", "--json"]).success();
        let lines = listed.json_lines();
        let line = lines.iter().find(|line| line["task"] == task).unwrap();
        line["status"].as_str().unwrap().to_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-S", &self.socket, "kill-server"]).output();
    }
}

fn sessions(listed: &Done) -> Vec<Value> {
    serde_json::from_str(listed.stdout()).unwrap()
}

/// How many lines of the screen hold this.
fn count(screen: &str, wanted: &str) -> usize {
    screen.lines().filter(|line| line.contains(wanted)).count()
}

#[test]
fn the_tree_is_drawn_once_whatever_the_window() {
    let Some(terminal) = Terminal::new(90, 24) else { return };
    let written = terminal.environment.path("written");
    terminal.tmux(&["pipe-pane", &format!("cat > '{}'", written.display())]);
    terminal.start();
    let screen = terminal.until("looking at P1.M1");
    assert!(screen.contains("[~] P1.M1 Write the lexer"), "{screen}");
    assert!(screen.contains("[ ] P1 Reading  0/2"), "{screen}");
    assert!(screen.contains("[ ] P2 Printing  0/1"), "{screen}");
    assert!(screen.contains("0 of 3 done"), "{screen}");
    terminal.go("go-P1.M1");
    terminal.until("looking at P1.M2");
    let screen = terminal.until("1 of 3 done");
    assert!(screen.contains("[x] P1.M1 Write the lexer"), "{screen}");
    assert!(screen.contains("left"), "{screen}");
    assert_eq!(count(&screen, "P1 Reading"), 1, "{screen}");
    // A window that is narrower than its lines, then a wide one.
    terminal.tmux(&["resize-window", "-x", "34", "-y", "12"]);
    terminal.until_drawn_anew("[~] P1.M2");
    terminal.until("[~] P1.M2 Write the parser");
    terminal.tmux(&["resize-window", "-x", "100", "-y", "30"]);
    terminal.until_drawn_anew("[~] P1.M2");
    terminal.until("looking at P1.M2");
    terminal.go("go");
    let screen = terminal.until("ended 0");
    assert!(screen.contains("Ended: 3 of 3 tasks done"), "{screen}");
    assert!(!screen.contains("[~]"), "the tree is gone: {screen}");
}

#[test]
fn ctrl_c_once_lets_the_step_end() {
    let Some(terminal) = Terminal::new(90, 24) else { return };
    terminal.start();
    terminal.until("looking at P1.M1");
    terminal.tmux(&["send-keys", "C-c"]);
    let screen = terminal.until("Stopping after the work in progress");
    assert_eq!(count(&screen, "P1 Reading"), 1, "{screen}");
    terminal.go("go");
    let screen = terminal.until("ended 4");
    assert!(screen.contains("Continue with: abide resume"), "{screen}");
    assert_eq!(terminal.status("P1.M1"), "complete");
    assert_eq!(terminal.status("P1.M2"), "planned");
    terminal.type_line(&format!("clear; '{ABIDE}' resume; echo resumed $?"));
    terminal.until("resumed 0");
    assert_eq!(terminal.status("P2.M1"), "complete");
}

#[test]
fn ctrl_c_twice_stops_the_agent() {
    let Some(terminal) = Terminal::new(90, 24) else { return };
    terminal.start();
    terminal.until("looking at P1.M1");
    terminal.tmux(&["send-keys", "C-c"]);
    terminal.until("Stopping after the work in progress");
    terminal.tmux(&["send-keys", "C-c"]);
    let screen = terminal.until("ended 4");
    assert!(screen.contains("P1.M1 interrupted"), "{screen}");
    assert_eq!(terminal.status("P1.M1"), "planned");
    assert!(!terminal.environment.project().join("done").exists());
}

#[test]
fn a_terminal_that_is_closed_ends_the_run_in_order() {
    let Some(terminal) = Terminal::new(90, 24) else { return };
    terminal.start();
    terminal.until("looking at P1.M1");
    terminal.tmux(&["kill-server"]);
    let began = Instant::now();
    loop {
        let listed = terminal.environment.run(&["history", "--json"]).success();
        if sessions(&listed)[0]["status"] == "interrupted" {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{}", listed.stdout());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(terminal.status("P1.M1"), "planned");
}

#[test]
fn an_agent_that_talks_has_a_terminal_of_its_own() {
    let Some(terminal) = Terminal::new(90, 24) else { return };
    terminal.type_line(&format!("PS1='ag''ent> ' '{ABIDE}' run -- sh; echo ended $?"));
    terminal.until("\nagent>");
    terminal.type_line("tty > /dev/null && stty size && echo a terminal");
    let screen = terminal.until("\na terminal");
    assert!(screen.contains("24 90"), "{screen}");
    terminal.tmux(&["resize-window", "-x", "70", "-y", "20"]);
    terminal
        .type_line("until [ \"$(stty size)\" = '20 70' ]; do sleep 0.05; done; stty size; exit 0");
    terminal.until("\n20 70");
    terminal.until("ended 0");
    let shown = terminal.environment.run(&["export"]).success();
    assert!(shown.stdout().contains("a terminal"), "{}", shown.stdout());
    // A talk is not done: it has ended, and can go on.
    let screen = terminal.until("Read it with: abide show");
    assert!(screen.replace('\n', "").contains(": endedRead it with"), "{screen}");
    assert!(!screen.contains("tasks done"), "{screen}");
    terminal.type_line(&format!("clear; PS1='ag''ent> ' '{ABIDE}' resume; echo resumed $?"));
    let screen = terminal.until("resumed ");
    assert!(!screen.contains("Everything is done"), "{screen}");
}

#[test]
fn without_a_terminal_there_are_plain_lines_or_json() {
    let lab = Terminal::without();
    lab.go("go");
    let done = lab.environment.run(&["run", "--plan", "PLAN.md", "--", "./agent"]).success();
    assert!(done.stderr.contains("P1.M1 begins: Write the lexer"), "{}", done.stderr);
    assert!(done.stderr.contains("P1.M1 complete after"), "{}", done.stderr);
    assert!(!done.stderr.contains('\u{1b}'), "{}", done.stderr);
    assert_eq!(done.stdout().lines().next(), Some("looking at P1.M1"));
    let lab = Terminal::without();
    lab.go("go");
    let done =
        lab.environment.run(&["run", "--plan", "PLAN.md", "--json", "--", "./agent"]).success();
    let lines = done.json_lines();
    assert_eq!(lines.first().unwrap()["event"], "started");
    assert_eq!(lines.last().unwrap()["event"], "stopped");
    assert_eq!(lines.last().unwrap()["tasks"]["complete"], 3);
}

#[test]
fn what_is_typed_wrong_is_said() {
    let lab = Terminal::without();
    let run = |args: &[&str]| lab.environment.run(args);
    assert!(run(&["run"]).failure(2).stderr.contains("AGENT"));
    assert!(run(&["run", "--plan", "none.md", "--", "true"]).failure(1).stderr.contains("none.md"));
    assert!(run(&["run", "--dry-run"]).failure(2).stderr.contains("--plan"));
    let done = run(&["run", "--plan", "PLAN.md", "--scope", "P9", "--", "true"]).failure(1);
    assert!(done.stderr.contains("there is no task P9"), "{}", done.stderr);
    let done = run(&["run", "--", "no-such-agent"]).failure(1);
    assert!(done.stderr.contains("cannot start \"no-such-agent\""), "{}", done.stderr);
    let done = run(&["run", "--plan", "PLAN.md", "--", "false"]).failure(1);
    assert!(done.stderr.contains("--retry-failed"), "{}", done.stderr);
    let done = run(&["run", "--plan", "PLAN.md", "--", "true"]).failure(1);
    assert!(done.stderr.contains("--continue"), "{}", done.stderr);
    let line = "{\"kind\":\"x.y\",\"data\":{}}";
    let recorded = lab.environment.record(&["--new"], &[line]).success().json_lines();
    // The latest that has an agent to go on with is meant, unless another one is named.
    let done = run(&["resume"]).failure(1);
    assert!(done.stderr.contains(", the latest here that `abide run` started"), "{}", done.stderr);
    let done = run(&["resume", recorded[0]["session"].as_str().unwrap()]).failure(1);
    assert!(done.stderr.contains("not started by `abide run`"), "{}", done.stderr);
}

#[test]
fn a_run_goes_on_from_an_earlier_place_in_a_fork() {
    let lab = Terminal::without();
    lab.go("go");
    lab.environment.run(&["run", "--plan", "PLAN.md", "--", "./agent"]).success();
    let done = fs::read_to_string(lab.environment.project().join("done")).unwrap();
    assert_eq!(done, "P1.M1\nP1.M2\nP2.M1\n");
    // Checkpoint 2 is that of the first task's end.
    let resumed = lab.environment.run(&["resume", "--at", "2", "--files", "--yes"]).success();
    assert!(resumed.stderr.contains("continues from @"), "{}", resumed.stderr);
    let done = fs::read_to_string(lab.environment.project().join("done")).unwrap();
    assert_eq!(done, "P1.M1\nP1.M2\nP2.M1\n", "the files went back, and the rest was done again");
    assert_eq!(sessions(&lab.environment.run(&["history", "--json"]).success()).len(), 2);
    let again = lab.environment.run(&["resume"]).success();
    assert!(again.stderr.contains("Everything is done"), "{}", again.stderr);
}
