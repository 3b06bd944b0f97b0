//! Named agents and the defaults of a run, from the user's configuration and a project's file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::environment::{ABIDE, Done, TestEnvironment, run};
use crate::lab::copy;

/// A project with a plan and two agents, which write down that they ran.
fn lab() -> TestEnvironment {
    let environment = TestEnvironment::new();
    let project = environment.project();
    fs::write(project.join("PLAN.md"), "- [ ] One\n- [ ] Two\n").unwrap();
    for name in ["mine", "theirs"] {
        agent(&project, name);
    }
    environment
}

/// Makes an agent in a directory, which writes down there that it ran.
fn agent(dir: &Path, name: &str) {
    let script = format!("#!/bin/sh\ncat > /dev/null\necho \"{name} $*\" >> ran\n");
    fs::write(dir.join(name), script).unwrap();
    fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
}

/// Writes the user's configuration.
fn own(environment: &TestEnvironment, text: &str) {
    let dir = environment.path("home/.config/abide");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("config.toml"), text).unwrap();
}

/// Writes the project's file.
fn project(environment: &TestEnvironment, text: &str) {
    fs::write(environment.project().join("abide.toml"), text).unwrap();
}

fn ran(environment: &TestEnvironment) -> String {
    fs::read_to_string(environment.project().join("ran")).unwrap_or_default()
}

fn sessions(environment: &TestEnvironment) -> Vec<Value> {
    let rows = environment.run(&["history", "--json"]).success();
    serde_json::from_str(rows.stdout()).unwrap()
}

/// The options of the last run, as recorded.
fn recorded(environment: &TestEnvironment) -> Value {
    let events = environment.run(&["export"]).success().json_lines();
    let mut starts = events.into_iter().filter(|event| event["kind"] == "run.started");
    starts.next_back().unwrap()["data"].clone()
}

/// Runs abide on a terminal, with this answer to its question; `None` where there is no way to have one.
fn answered(environment: &TestEnvironment, args: &str, answer: &str) -> Option<Done> {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: there is no `script` to make a terminal with");
        return None;
    }
    let mut command = environment.isolate(Command::new("script"));
    command.args(["-qec", &format!("'{ABIDE}' {args}"), "/dev/null"]);
    Some(run(command, answer.as_bytes()))
}

#[test]
fn an_agent_of_the_users_own_configuration_runs_as_it_is() {
    let environment = lab();
    own(
        &environment,
        "[agents.quick]\ncommand = [\"./mine\", \"{id}\"]\ncheck = \"echo checked >> ran\"\nattempts = 2\nmax_duration = \"2h\"\n",
    );
    let run = ["run", "--plan", "PLAN.md", "--agent", "quick"];
    environment.run(&run).success();
    assert_eq!(ran(&environment), "mine P1\nchecked\nmine P2\nchecked\n");
    let start = recorded(&environment);
    assert_eq!(start["command"], serde_json::json!(["./mine", "{id}"]));
    assert_eq!(start["options"]["check"], "echo checked >> ran");
    assert_eq!(start["options"]["retries"], 1);
    // An agent is given once: by its name or by its command.
    environment.run(&["run", "--agent", "quick", "--", "./mine"]).failure(2);
    // Another agent goes on with a session, by its name.
    environment.run(&["tasks", "add", "Three"]).success();
    own(&environment, "[agents.slow]\ncommand = [\"./mine\", \"slow\"]\n");
    environment.run(&["resume", "--agent", "slow"]).success();
    assert!(ran(&environment).ends_with("mine slow\nchecked\n"), "{}", ran(&environment));
}

#[test]
fn what_a_projects_file_says_is_not_run_unasked() {
    let environment = lab();
    let agent = "[agents.theirs]\ncommand = [\"./theirs\"]\n";
    project(&environment, agent);
    let run = ["run", "--agent", "theirs"];
    let refused = environment.run(&run).failure(1);
    assert!(refused.stderr.contains("abide.toml says about runs:"), "{}", refused.stderr);
    let place = format!("It would run in {}", environment.project().display());
    assert!(refused.stderr.contains(&place), "{}", refused.stderr);
    assert!(refused.stderr.contains("command = [\"./theirs\"]"), "{}", refused.stderr);
    assert!(refused.stderr.contains("`--yes` accepts what is shown"), "{}", refused.stderr);
    assert_eq!(ran(&environment), "");
    assert_eq!(sessions(&environment).len(), 0, "nothing was made");
    // Neither is what only changes how the user's own command is run.
    project(&environment, &format!("{agent}[run]\ncheck = \"touch planted\"\n"));
    let refused = environment.run(&["run", "--", "./mine"]).failure(1);
    assert!(refused.stderr.contains("check = \"touch planted\""), "{}", refused.stderr);
    assert!(!environment.project().join("planted").exists());
    environment.run(&["run", "--no-project-config", "--", "./mine"]).success();
    assert_eq!(ran(&environment), "mine \n");
    assert!(!environment.project().join("planted").exists());
    // A project does not choose among the user's agents either.
    own(&environment, "[agents.all-allowed]\ncommand = [\"./mine\"]\n");
    project(&environment, "[run]\nagent = \"all-allowed\"\n");
    environment.run(&["run"]).failure(1);
    let resumed = environment.run(&["resume", "--agent", "theirs"]).failure(1);
    assert!(resumed.stderr.contains("there is no agent `theirs`"), "{}", resumed.stderr);
    project(&environment, agent);
    environment.run(&["resume", "--agent", "theirs"]).failure(1);
    assert_eq!(ran(&environment), "mine \n");
}

#[test]
fn what_was_accepted_is_remembered_until_it_changes() {
    let environment = lab();
    let agent = "[agents.theirs]\ncommand = [\"./theirs\", \"1\"]\n";
    project(&environment, agent);
    let run = ["run", "--agent", "theirs"];
    environment.run(&[&run[..], &["--yes"]].concat()).success();
    environment.run(&run).success();
    // Another agent beside it changes nothing.
    project(&environment, &format!("# more\n{agent}\n[agents.other]\ncommand = [\"./mine\"]\n"));
    environment.run(&run).success();
    assert_eq!(ran(&environment), "theirs 1\n".repeat(3));
    project(&environment, &agent.replace('1', "2"));
    environment.run(&run).failure(1);
    project(&environment, &format!("{agent}check = \"true\"\n"));
    environment.run(&run).failure(1);
    // The same file elsewhere is another one.
    let elsewhere = environment.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("abide.toml"), agent).unwrap();
    crate::run_config::agent(&elsewhere, "theirs");
    let refused = environment.run_in(&elsewhere, &run).failure(1);
    assert!(refused.stderr.contains("You have not yet accepted"), "{}", refused.stderr);
    assert!(!elsewhere.join("ran").exists());
    environment.run_in(&elsewhere, &[&run[..], &["--yes"]].concat()).success();
    assert!(elsewhere.join("ran").exists(), "only the answer was missing");
    assert_eq!(ran(&environment), "theirs 1\n".repeat(3));
}

#[test]
fn what_was_accepted_holds_only_for_the_directory_that_it_runs_in() {
    let environment = lab();
    project(&environment, "[agents.theirs]\ncommand = [\"./theirs\"]\n");
    let run = ["run", "--agent", "theirs"];
    environment.run(&[&run[..], &["--yes"]].concat()).success();
    environment.run(&run).success();
    // Below the same file, the same command is another program.
    let below = environment.project().join("below");
    fs::create_dir(&below).unwrap();
    agent(&below, "theirs");
    let refused = environment.run_in(&below, &run).failure(1);
    let place = format!("It would run in {}", below.display());
    assert!(refused.stderr.contains(&place), "{}", refused.stderr);
    // So it is where a session goes on in another directory than the user's.
    let fails = ["run", "--no-project-config", "--", "sh", "-c", "exit 3"];
    environment.run_in(&below, &fails).failure(1);
    let id = sessions(&environment)[0]["id"].as_str().unwrap().to_owned();
    let resume = ["resume", &id, "--retry-failed", "--agent", "theirs"];
    let refused = environment.run(&resume).failure(1);
    assert!(refused.stderr.contains(&place), "{}", refused.stderr);
    assert!(!below.join("ran").exists());
    environment.run(&[&resume[..], &["--yes"]].concat()).success();
    assert_eq!(fs::read_to_string(below.join("ran")).unwrap(), "theirs \n");
    environment.run_in(&below, &run).success();
    assert_eq!(ran(&environment), "theirs \n".repeat(2));
}

#[test]
fn what_a_name_stands_for_is_accepted_with_the_name() {
    let environment = lab();
    own(&environment, "[agents.all-allowed]\ncommand = [\"./mine\"]\n");
    project(&environment, "[run]\nagent = \"all-allowed\"\n");
    let refused = environment.run(&["run"]).failure(1);
    assert!(refused.stderr.contains("It chooses this agent of "), "{}", refused.stderr);
    assert!(refused.stderr.contains("command = [\"./mine\"]"), "{}", refused.stderr);
    environment.run(&["run", "--yes"]).success();
    environment.run(&["run"]).success();
    assert_eq!(ran(&environment), "mine \n".repeat(2));
    own(&environment, "[agents.all-allowed]\ncommand = [\"./mine\", \"--dangerous\"]\n");
    let refused = environment.run(&["run"]).failure(1);
    assert!(refused.stderr.contains("[\"./mine\", \"--dangerous\"]"), "{}", refused.stderr);
    assert_eq!(ran(&environment), "mine \n".repeat(2));
    // Whoever names the agent is not asked what the project would choose.
    environment.run(&["run", "--agent", "all-allowed"]).success();
    assert_eq!(ran(&environment), format!("{}mine --dangerous\n", "mine \n".repeat(2)));
}

#[test]
fn on_a_terminal_the_user_is_asked() {
    let environment = lab();
    project(&environment, "[agents.theirs]\ncommand = [\"./theirs\"]\n");
    let run = "run --plain --plan PLAN.md --continue --agent theirs";
    let Some(done) = answered(&environment, run, "n\n") else { return };
    assert_eq!(done.code, 4, "{done:?}");
    assert!(done.stdout().contains("Use it? [y/N]"), "{}", done.stdout());
    assert_eq!(ran(&environment), "");
    answered(&environment, run, "y\n").unwrap().success();
    assert_eq!(ran(&environment), "theirs \ntheirs \n");
    let again = answered(&environment, &run.replace("--plan PLAN.md --continue ", ""), "").unwrap();
    assert!(!again.success().stdout().contains("Use it?"));
}

#[test]
fn options_go_before_the_agent_and_the_agent_before_the_defaults() {
    let environment = lab();
    own(
        &environment,
        "[run]\nagent = \"a\"\ncheck = \"exit 9\"\nattempts = 5\njobs = 2\ncontinue_on_error = true\ncheckpoint_every = \"7m\"\n\
         [agents.a]\ncommand = [\"./mine\"]\nattempts = 4\ncheck = \"true\"\n[agents.b]\ncommand = [\"./mine\", \"b\"]\n",
    );
    let options = |more: &[&str]| {
        let run = ["run", "--plan", "PLAN.md", "--continue"];
        environment.run(&[&run[..], more].concat());
        recorded(&environment)["options"].clone()
    };
    let told = options(&[]);
    assert_eq!(
        (&told["check"], &told["retries"], &told["jobs"]),
        (&"true".into(), &3.into(), &2.into())
    );
    assert_eq!(
        (&told["continue_on_error"], &told["checkpoint_every"]),
        (&true.into(), &420.into())
    );
    let told = options(&["--agent", "b"]);
    assert_eq!((&told["check"], &told["retries"]), (&"exit 9".into(), &4.into()));
    let told = options(&[
        "--agent",
        "b",
        "--check",
        "true",
        "--attempts",
        "1",
        "--jobs",
        "1",
        "--continue-on-error=false",
        "--checkpoint-every",
        "9m",
    ]);
    assert_eq!(
        (&told["check"], &told["retries"], &told["jobs"]),
        (&"true".into(), &0.into(), &1.into())
    );
    assert_eq!(
        (&told["continue_on_error"], &told["checkpoint_every"]),
        (&false.into(), &540.into())
    );
    let told = options(&["--check", "", "--retries", "6", "--", "./mine"]);
    assert_eq!((&told["check"], &told["retries"]), (&Value::Null, &6.into()));
    // What a project says goes before what the user says, once it is accepted; the user's agents stay.
    project(&environment, "[run]\njobs = 3\n[agents.a]\ncommand = [\"./theirs\"]\n");
    let told = options(&["--yes"]);
    assert_eq!((&told["jobs"], &told["checkpoint_every"]), (&3.into(), &420.into()));
    assert_eq!(recorded(&environment)["command"], serde_json::json!(["./mine"]));
}

#[test]
fn a_mistake_is_named_with_its_file_and_line() {
    let environment = lab();
    let config = environment.path("home/.config/abide/config.toml");
    own(&environment, "[agents.claude]\ncommand = [\"./mine\"]\n");
    let said = environment.run(&["run", "--agent", "cluade"]).failure(1).stderr;
    assert!(said.contains("there is no agent `cluade`; did you mean `claude`?"), "{said}");
    assert!(said.contains(&format!("{} defines claude", config.display())), "{said}");
    for (text, what) in [
        (
            "[agents.x]\ncomand = [\"a\"]\n",
            "line 2: unknown key `comand` in [agents.x]; did you mean `command`?",
        ),
        ("[run]\nattempts = \"3\"\n", "line 2: `attempts` in [run] must be a whole number"),
        (
            "[run]\nagent = \"b\"\n[agents.x]\ncommand = \"a b\"\n",
            "line 4: `command` in [agents.x] must be a list",
        ),
        (
            "[agents.x]\ncommand = [\"a\"]\nadapter = \"codx\"\n[run]\nagent = \"x\"\n",
            "line 1 has an unknown adapter `codx`; did you mean `codex`?",
        ),
        ("[run", "is invalid in line 1"),
    ] {
        own(&environment, text);
        let said = environment.run(&["run"]).failure(1).stderr;
        assert!(said.contains(what) && said.contains(&config.display().to_string()), "{said}");
    }
    // A mistake there stops no recording.
    own(&environment, "[run]\nattempts = \"3\"\n");
    environment.record(&[], &[crate::environment::HELLO]).success();
    own(&environment, "");
    project(&environment, "store = \"/elsewhere\"\n");
    let said = environment.run(&["run", "--", "./mine"]).failure(1).stderr;
    assert!(
        said.contains("project/abide.toml is invalid in line 1: unknown key `store`"),
        "{said}"
    );
    assert!(said.contains("`--no-project-config`"), "{said}");
    let said = environment.run(&["run", "--no-project-config"]).failure(2).stderr;
    assert!(said.contains("no agent: give its command (abide run AGENT ARGS…)"), "{said}");
    // A pipe is not waited for.
    fs::remove_file(environment.project().join("abide.toml")).unwrap();
    let made =
        Command::new("mkfifo").arg(environment.project().join("abide.toml")).status().unwrap();
    assert!(made.success());
    environment.run(&["run", "--", "./mine"]).failure(1);
    assert_eq!(ran(&environment), "");
}

/// Somebody else's home, with a copy of the project.
fn clone_of(environment: &TestEnvironment) -> TestEnvironment {
    let clone = TestEnvironment::new();
    fs::remove_dir_all(clone.project()).unwrap();
    copy(&environment.project(), &clone.project());
    clone
}

#[test]
fn somebody_elses_run_does_not_switch_checkpoints_off() {
    let environment = lab();
    let fails = ["--", "sh", "-c", "exit 3"];
    environment.run(&[&["run", "--checkpoint", "off"], &fails[..]].concat()).failure(1);
    let id = sessions(&environment)[0]["id"].as_str().unwrap().to_owned();
    let count = |environment: &TestEnvironment| {
        let events = environment.run(&["export", &id]).success().json_lines();
        events.iter().filter(|event| event["kind"] == "checkpoint.created").count()
    };
    let resume = ["resume", &id, "--retry-failed", "--yes"];
    let [plain, configured, given] = [(); 3].map(|()| clone_of(&environment));
    plain.run(&resume).failure(1);
    assert!(count(&plain) > 0);
    // The user's own configuration and options do.
    own(&configured, "[run]\ncheckpoint = \"off\"\n");
    configured.run(&resume).failure(1);
    assert_eq!(count(&configured), 0);
    given.run(&[&resume[..], &["--checkpoint", "off"]].concat()).failure(1);
    assert_eq!(count(&given), 0);
}

#[test]
fn limits_of_the_users_configuration_hold_when_a_run_goes_on() {
    let environment = lab();
    let fails = r#"command = ["sh", "-c", "exit 3"]"#;
    let limits = |args: &[&str]| {
        environment.run(args).failure(1);
        let events = environment.run(&["export"]).success().json_lines();
        let end = events.into_iter().rfind(|event| event["kind"] == "run.finished").unwrap();
        let limits = end["data"]["summary"]["limits"].as_array().unwrap().clone();
        let limit = |limit: &Value| {
            (limit["resource"].as_str().unwrap().to_owned(), limit["limit"].as_u64().unwrap())
        };
        limits.iter().map(limit).collect::<Vec<_>>()
    };
    let hours = |hours: u64| vec![("duration_ms".to_owned(), hours * 3_600_000)];
    let resume = ["resume", "--retry-failed"];
    let run = ["run", "--plan", "PLAN.md", "--continue", "--retry-failed"];
    own(&environment, "[run]\nmax_duration = \"2h\"\n");
    assert_eq!(limits(&[&run[..], &["--", "sh", "-c", "exit 3"]].concat()), hours(2));
    assert_eq!(limits(&resume), hours(2));
    // As it is configured now, and an option goes before.
    own(&environment, "[run]\nmax_duration = \"4h\"\n");
    assert_eq!(limits(&resume), hours(4));
    assert_eq!(limits(&["resume", "--retry-failed", "--max-duration", "5h"]), hours(5));
    // The limit of the agent that it was begun with.
    let agent = format!("[agents.a]\n{fails}\nmax_duration = \"3h\"\n");
    own(&environment, &format!("[run]\nmax_duration = \"4h\"\n{agent}"));
    assert_eq!(limits(&[&run[..], &["--agent", "a"]].concat()), hours(3));
    assert_eq!(limits(&resume), hours(3));
    assert_eq!(limits(&["resume", "--retry-failed", "--", "sh", "-c", "exit 4"]), hours(4));
    // A limit that is given as an option counts for one run.
    own(&environment, "");
    let once = ["--max-tokens", "1M", "--", "sh", "-c", "exit 3"];
    assert_eq!(limits(&[&run[..], &once].concat()), [("tokens".to_owned(), 1_000_000)]);
    assert!(limits(&resume).is_empty());
}

#[test]
fn a_run_goes_on_without_the_projects_file() {
    let environment = lab();
    own(&environment, "[agents.mine]\ncommand = [\"./mine\"]\n");
    environment.run(&["run", "--", "sh", "-c", "exit 3"]).failure(1);
    project(&environment, "[agents.theirs\n");
    let resume = ["resume", "--retry-failed", "--agent", "mine"];
    let refused = environment.run(&resume).failure(1);
    assert!(refused.stderr.contains("`--no-project-config` ignores"), "{}", refused.stderr);
    assert_eq!(ran(&environment), "");
    environment.run(&[&resume[..], &["--no-project-config"]].concat()).success();
    assert_eq!(ran(&environment), "mine \n");
}

#[test]
fn a_run_without_checkpoints_makes_none_and_goes_on_without() {
    let environment = lab();
    let count = || {
        let events = environment.run(&["export"]).success().json_lines();
        events.iter().filter(|event| event["kind"] == "checkpoint.created").count()
    };
    let fails = ["--", "sh", "-c", "exit 3"];
    let run = ["run", "--plan", "PLAN.md", "--checkpoint", "off"];
    let done = environment.run(&[&run[..], &fails].concat()).failure(1);
    assert!(done.stderr.contains("; no checkpoints"), "{}", done.stderr);
    assert_eq!(count(), 0);
    assert_eq!(recorded(&environment)["options"]["checkpoint"], "off");
    environment.run(&["resume", "--retry-failed"]).failure(1);
    assert_eq!(count(), 0, "as the run that it goes on with");
    environment.run(&["resume", "--retry-failed", "--checkpoint", "on", "--", "true"]).success();
    assert!(count() > 0);
    let both = ["run", "--checkpoint", "off", "--checkpoint-every", "5m", "--", "true"];
    let said = environment.run(&both).failure(2).stderr;
    assert!(said.contains("--checkpoint-every has no meaning with --checkpoint off"), "{said}");
    let wrong = environment.run(&["run", "--checkpoint", "never", "--", "true"]).failure(2);
    assert!(wrong.stderr.contains("on, off"), "{}", wrong.stderr);
    own(&environment, "[run]\ncheckpoint = \"off\"\n");
    let json = environment.run(&["run", "--json", "--", "true"]).success().json_lines();
    assert_eq!(json[0]["checkpoint_every_s"], Value::Null);
    assert!(json.iter().all(|line| line["event"] != "checkpoint"));
    let json = environment.run(&["run", "--json", "--checkpoint-every", "5m", "--", "true"]);
    assert_eq!(json.success().json_lines()[0]["checkpoint_every_s"], 300);
}
