//! Help, completions, exit codes.

use std::io::Read;
use std::process::Stdio;

use crate::environment::{HELLO, TestEnvironment};

const COMMANDS: [&str; 16] = [
    "init",
    "new",
    "record",
    "history",
    "show",
    "tail",
    "plan",
    "acp",
    "export",
    "import",
    "status",
    "doctor",
    "cleanup",
    "erase",
    "demo",
    "completions",
];

#[test]
fn every_command_explains_itself_with_an_example() {
    let env = TestEnvironment::new();
    let all = env.run(&["--help"]).success();
    for command in COMMANDS {
        assert!(all.stdout().contains(&format!("\n  {command} ")), "{command}");
        let help = env.run(&[command, "--help"]).success();
        assert!(
            help.stdout().contains("Examples:\n  abide ")
                || help.stdout().contains("| abide record"),
            "{command}"
        );
        assert_eq!(help.stderr, "");
    }
    assert!(!all.stdout().contains("demo-agent"));
}

#[test]
fn wrong_usage_is_2() {
    let env = TestEnvironment::new();
    for args in [
        &["no-such-command"][..],
        &[],
        &["tail", "-n", "x"],
        &["show", "--turn", "x"],
        &["export", "--format", "x"],
        &["record", "--wait", "long"],
        &["acp", "--checkpoint", "x", "--", "true"],
        &["acp", "--timeout", "0", "--", "true"],
    ] {
        let done = env.run(args).failure(2);
        assert_eq!(done.stdout(), "");
        assert!(!done.stderr.is_empty());
    }
}

#[test]
fn completions_name_the_commands() {
    let env = TestEnvironment::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = env.run(&["completions", shell]).success();
        assert!(COMMANDS.iter().all(|command| script.stdout().contains(command)), "{shell}");
    }
}

#[test]
fn a_broken_pipe_is_3_and_says_nothing() {
    let env = TestEnvironment::new();
    let pad = format!(
        r#"{{"kind":"message.added","data":{{"role":"user","content":"{}"}}}}"#,
        "p".repeat(50_000)
    );
    env.record(&[], &[pad.as_str(); 40]).success();
    for args in [
        &["export"][..],
        &["export", "--format", "json"],
        &["export", "--format", "transcript"],
        &["export", "--format", "html"],
        &["show"],
        &["show", "--json"],
        &["tail", "-n", "100"],
    ] {
        let mut child =
            env.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut few = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut few).unwrap();
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(3));
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(!said.contains("rror"), "{said}");
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let env = TestEnvironment::new();
    env.record(&[], &[HELLO]).success();
    let Ok(full) = std::fs::File::create("/dev/full") else {
        eprintln!("skipped: there is no /dev/full");
        return;
    };
    let done = env.command(&["export"]).stdout(full).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(said.contains("Error: cannot write the output\nCaused by: No space left"), "{said}");
}
