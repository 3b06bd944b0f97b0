//! The command that comes next: after a crash, a failure, an end. What `status` names is run, and
//! does what it is named for. And a program that is not there leaves nothing behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::environment::{ABIDE, Done, HELLO, TestEnvironment, run};

const PLAN: &str = "- [ ] One\n- [ ] Two\n";

/// Says that it has begun, and goes on when the file `go` is there.
const AGENT: &str = "#!/bin/sh\ncat > /dev/null\ntouch begun\n\
    until [ -e go ]; do sleep 0.05; done\necho \"$ABIDE_TASK\" >> done\n";

struct PlannedLab {
    env: TestEnvironment,
}

impl PlannedLab {
    fn new(agent: &str) -> Self {
        let env = TestEnvironment::new();
        fs::write(env.project().join("PLAN.md"), PLAN).unwrap();
        let lab = Self { env };
        lab.agent(agent);
        lab
    }

    fn agent(&self, script: &str) {
        let path = self.env.project().join("agent");
        fs::write(&path, script).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn start(&self) -> Child {
        let mut run = self.env.command(&["run", "--plan", "PLAN.md", "--grace", "1s", "./agent"]);
        run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = run.spawn().unwrap();
        let since = Instant::now();
        while !self.env.project().join("begun").exists() {
            assert!(since.elapsed() < Duration::from_secs(60), "the agent does not begin");
            std::thread::sleep(Duration::from_millis(10));
        }
        child
    }

    /// The only session, as `status --json` has it.
    fn row(&self) -> Value {
        only_row(&self.env)
    }

    /// Runs the command that the text of `status` names for the only session.
    fn run_next(&self) -> Done {
        let listed = self.env.run(&["status"]).success();
        let line = listed.stdout().lines().find_map(|line| line.split_once("next: abide "));
        let (_, command) = line.unwrap_or_else(|| panic!("no next step: {listed:?}"));
        let command = command.split("   ").next().unwrap();
        self.env.run(&command.split(' ').collect::<Vec<_>>())
    }
}

fn only_row(env: &TestEnvironment) -> Value {
    let report = env.run(&["status", "--json"]).success().json_lines().remove(0);
    let rows = report["listed"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{report}");
    rows[0].clone()
}

#[test]
fn a_run_that_crashed_is_gone_on_with_by_the_command_that_status_names() {
    let lab = PlannedLab::new(AGENT);
    let mut child = lab.start();
    let row = lab.row();
    let short = row["short"].as_str().unwrap().to_owned();
    assert_eq!((&row["state"], &row["resume"]), (&"running".into(), &Value::Null), "{row}");
    assert_eq!(row["next"], format!("abide tail -f {short}"));
    child.kill().unwrap();
    child.wait().unwrap();
    let row = lab.row();
    let resume = format!("abide resume {short}");
    assert_eq!((&row["state"], &row["next"]), (&"crashed".into(), &resume.clone().into()), "{row}");
    assert_eq!(row["resume"], resume);
    let listed = lab.env.run(&["status"]).success();
    assert!(listed.stdout().contains(&format!("\n    next: {resume}   look: ")), "{listed:?}");
    assert!(!listed.stdout().contains("abide record"), "{listed:?}");
    // Another command closes the session: the run has not ended for that.
    lab.env.record(&["-s", &short], &[HELLO]).success();
    let row = lab.row();
    assert_eq!((&row["state"], &row["next"]), (&"stopped".into(), &resume.into()), "{row}");
    fs::write(lab.env.project().join("go"), "").unwrap();
    let done = lab.run_next().success();
    assert!(done.stderr.contains("Ended: 2 of 2 tasks done"), "{done:?}");
    let said = format!("Session \"PLAN\" ({short}): ended\nRead it with: abide show {short}\n");
    assert!(done.stderr.contains(&said), "{done:?}");
    let back = format!("Take its files back with: abide rewind -s {short}\n");
    assert!(done.stderr.ends_with(&back), "{done:?}");
    let row = lab.row();
    let show = format!("abide show {short}");
    assert_eq!((&row["state"], &row["next"]), (&"ended".into(), &show.into()), "{row}");
}

#[test]
fn a_run_that_was_taken_back_is_not_resumed() {
    let lab = PlannedLab::new("#!/bin/sh\necho changed >> file\n");
    lab.env.run(&["run", "./agent"]).success();
    assert_eq!(lab.row()["state"], "ended");
    lab.env.run(&["rewind", "1", "-y"]).success();
    let row = lab.row();
    let show = format!("abide show {}", row["short"].as_str().unwrap());
    assert_eq!((&row["state"], &row["next"]), (&"idle".into(), &show.into()), "{row}");
    let alone = lab.env.run(&[]).success();
    assert!(!alone.stdout().contains("abide resume"), "{alone:?}");
    lab.env.run(&["undo", "-y"]).success();
    assert_eq!(lab.row()["state"], "ended");
}

#[test]
fn tasks_that_failed_are_tried_again_by_the_command_that_status_names() {
    let lab = PlannedLab::new("#!/bin/sh\necho broken >&2\nexit 3\n");
    let done = lab.env.run(&["run", "--plan", "PLAN.md", "./agent"]).failure(1);
    let row = lab.row();
    let next = format!("abide resume {} --retry-failed", row["short"].as_str().unwrap());
    assert_eq!((&row["state"], &row["next"]), (&"failed".into(), &next.clone().into()), "{row}");
    assert!(done.stderr.contains(&format!("Retry the failed tasks with: {next}\n")), "{done:?}");
    lab.agent("#!/bin/sh\ntouch good\n");
    lab.run_next().success();
    assert_eq!(lab.row()["state"], "ended");
}

#[test]
fn a_command_that_failed_says_how_it_ended() {
    let env = TestEnvironment::new();
    for (script, how) in [
        ("exit 3", "exit code 3"),
        ("kill -SEGV $$", "killed by signal 11"),
        // Whoever killed a command that would begin anew did not mean that.
        ("echo begun >> begun; kill -9 $$", "the agent was killed by signal 9"),
        ("echo nonsense >&2; exit 1", "exit code 1: nonsense"),
    ] {
        let done = env.run(&["run", "--title", how, "sh", "-c", script]).failure(1);
        assert!(done.stderr.contains(&format!("\nFailed ({how}) after ")), "{done:?}");
        assert!(!done.stderr.contains("tasks done"), "{done:?}");
        let listed = env.run(&["status"]).success();
        let told = format!("    {how}\n    next: abide show ");
        assert!(listed.stdout().contains(&told), "{listed:?}");
        let named = env.run(&["status", how]).success();
        assert!(named.stdout().starts_with("Failed  recorded as failed\n"), "{named:?}");
        assert!(named.stdout().contains(&told), "{named:?}");
    }
    let begun = std::fs::read_to_string(env.project().join("begun")).unwrap();
    assert_eq!(begun, "begun\n");
}

#[test]
fn a_session_that_was_only_recorded_is_never_done() {
    let env = TestEnvironment::new();
    env.run(&["new", "--title", "talk"]).success();
    let state = || only_row(&env)["state"].clone();
    assert_eq!(state(), "new");
    env.record(&["-s", "talk"], &[HELLO]).success();
    assert_eq!(state(), "idle");
    env.record_bytes(&["-s", "talk", "--complete"], b"").success();
    assert_eq!(state(), "ended");
    let rows = env.run(&["ls", "--json"]).success();
    let rows: Value = serde_json::from_str(rows.stdout()).unwrap();
    assert_eq!((&rows[0]["state"], &rows[0]["status"]), (&"ended".into(), &"completed".into()));
    let shown = env.run(&["show", "talk"]).success();
    assert!(shown.stdout().contains("\nended · "), "{shown:?}");
    for command in [&["status"][..], &["status", "talk"]] {
        let text = env.run(command).success().stdout().to_lowercase();
        assert!(!text.contains("done"), "{text}");
    }
}

#[test]
fn a_program_that_is_not_there_leaves_nothing_behind() {
    let env = TestEnvironment::bare();
    fs::write(env.project().join("PLAN.md"), PLAN).unwrap();
    fs::write(env.project().join("IDEA.md"), "Mend the parser.\n").unwrap();
    fs::write(env.project().join("text"), "no program").unwrap();
    for args in [
        &["run", "nosuch"][..],
        &["run", "--", "nosuch", "--flag"],
        &["run", "./nosuch"],
        &["run", "./text"],
        &["run", "--plan", "PLAN.md", "nosuch", "{task}"],
        &["run", "fix the parser"],
        &["plan", "IDEA.md", "--", "nosuch"],
    ] {
        let done = env.run(args).failure(1);
        assert!(done.stderr.starts_with("Error: cannot start \""), "{args:?}: {done:?}");
        assert!(done.stderr.contains("\nHint: "), "{done:?}");
        assert!(!env.path("home/.local").exists(), "{args:?} has made something");
    }
    let done = env.run(&["run", "cladue", "-p", "x"]).failure(1);
    assert!(done.stderr.ends_with("Hint: did you mean `claude`?\n"), "{done:?}");
    // Where there is a store already, no session is made.
    env.run(&["init"]).success();
    env.run(&["run", "nosuch"]).failure(1);
    assert_eq!(env.run(&["ls", "--json"]).success().stdout(), "[]\n");
}

/// An agent's own options stand behind its name, those of abide before it.
#[test]
fn an_agent_needs_no_dashes_before_it() {
    let env = TestEnvironment::new();
    let print = "printf '%s\\n' \"$@\"";
    let script = ["sh", "-c", print, "sh", "--json", "-n", "--", "--title", "x"];
    let args = ["--json", "-n", "--", "--title", "x", ""].join("\n");
    for before in [&["run"][..], &["run", "--title", "given"], &["run", "--"]] {
        let done = env.run(&[before, &script].concat()).success();
        assert_eq!(done.stdout(), args, "{before:?}");
    }
    let rows = env.run(&["ls", "--json"]).success();
    let rows: Value = serde_json::from_str(rows.stdout()).unwrap();
    assert_eq!(rows[1]["name"], "given");
    let wrong = env.run(&["run", "--nosuch", "sh"]).failure(2);
    assert!(wrong.stderr.contains("unexpected argument '--nosuch'"), "{wrong:?}");
}

#[test]
fn a_search_names_the_event_that_show_takes() {
    let env = TestEnvironment::new();
    let said = r#"{"kind":"message.added","data":{"role":"user","content":"The connection was reset again"}}"#;
    env.record(&["--title", "Net"], &[HELLO, said]).success();
    let found = env.run(&["search", "connection", "reset"]).success();
    let place = found.stdout().lines().find_map(|line| line.strip_prefix("\t@")).unwrap();
    let event = format!("@{}", place.split('\t').next().unwrap());
    let shown = env.run(&["show", "Net", &event]).success();
    assert!(shown.stdout().contains("The connection was reset again"), "{shown:?}");
    // Filters are those of the list; the option of old finds the same.
    assert_eq!(env.run(&["search", "reset", "--agent", "nobody"]).success().stdout(), "");
    let old = env.run(&["history", "--search", "connection reset"]).success();
    assert_eq!(old.stdout(), found.stdout());
    let none = env.run(&["search"]).failure(2);
    assert!(none.stderr.contains("<TEXT>"), "{none:?}");
    let empty = env.run(&["search", "++"]).failure(2);
    assert!(empty.stderr.contains("no word to search for"), "{empty:?}");
}

/// How many files a command opens.
fn opened(env: &TestEnvironment, args: &[&str]) -> usize {
    let log = env.path("opened");
    let mut command = env.isolate(Command::new("strace"));
    command.args(["-f", "-qq", "-e", "trace=openat,open", "-o"]).arg(&log).arg(ABIDE).args(args);
    run(command, b"").success();
    fs::read_to_string(log).unwrap().lines().filter(|line| line.contains("open")).count()
}

/// The files of a session are opened only where that says more than the index.
#[test]
fn a_status_costs_the_same_however_many_sessions_there_are() {
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("skipped: there is no `strace` to count calls with");
        return;
    }
    let env = TestEnvironment::new();
    let failed = r#"{"kind":"session.status","data":{"status":"failed","reason":"no luck"}}"#;
    let record = |count: usize| {
        for _ in 0..count {
            env.record(&["--new"], &[HELLO]).success();
            env.record(&["--new"], &[HELLO, failed]).success();
        }
        // What changed is read once.
        env.run(&["status"]).success();
        opened(&env, &["status"])
    };
    let few = record(15);
    let many = record(45);
    assert_eq!(few, many);
    let listed = env.run(&["status"]).success();
    assert!(listed.stdout().contains(": 120 sessions\n"), "{listed:?}");
    assert!(listed.stdout().ends_with("\n100 more; `abide ls` lists them\n"), "{listed:?}");
    assert_eq!(listed.stdout().matches("    no luck\n").count(), 10, "{listed:?}");
}
