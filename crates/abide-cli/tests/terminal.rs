//! What was recorded cannot drive the terminal that shows it.

use std::process::Command;

use crate::environment::{ABIDE, Done, TestEnvironment, run};

/// Runs abide on a terminal; `None` where there is no way to have one.
pub(crate) fn on_terminal(env: &TestEnvironment, args: &str) -> Option<Done> {
    in_script(env, &format!("'{ABIDE}' {args}"), b"")
}

/// The same for a person who types this.
pub(crate) fn typed_on_terminal(env: &TestEnvironment, args: &str, typed: &str) -> Option<Done> {
    in_script(env, &format!("'{ABIDE}' {args}"), typed.as_bytes())
}

/// The same on a terminal with so many columns.
pub(crate) fn on_narrow_terminal(env: &TestEnvironment, columns: u16, args: &str) -> Option<Done> {
    in_script(env, &format!("stty cols {columns} && '{ABIDE}' {args}"), b"")
}

fn in_script(env: &TestEnvironment, line: &str, input: &[u8]) -> Option<Done> {
    let mut command = env.isolate(Command::new("script"));
    command.args(["-qec", line, "/dev/null"]);
    let available = Command::new("script").arg("--version").output();
    if available.is_err() {
        eprintln!("skipped: there is no `script` to make a terminal with");
        return None;
    }
    Some(run(command, input))
}

const HOSTILE: &str = "{\"kind\":\"message.added\",\"data\":{\"role\":\"\\u001b]0;owned\\u0007\",\"content\":\"\u{9b}2J\u{7f}\u{202e}x\\u001b[31m\"}}";

#[test]
fn control_characters_reach_no_terminal() {
    let env = TestEnvironment::new();
    env.record(&["--title", "\u{1b}[2Jtitle"], &[HOSTILE]).success();
    for args in [
        "tail",
        "tail --json",
        "export",
        "export --format json",
        "export --format transcript",
        "export --format markdown",
        "export --format html",
        "show --json",
        "show --task $'\\e[2J'",
        "doctor",
        "tail $'\\e[2J'",
    ] {
        let Some(done) = on_terminal(&env, args) else {
            return;
        };
        let text = String::from_utf8(done.out).unwrap();
        assert!(!text.is_empty(), "{args}");
        let raw =
            text.chars().find(|c| c.is_control() && !matches!(c, '\r' | '\n') || *c == '\u{202e}');
        assert_eq!(raw, None, "{args}: {text:?}");
    }
    // Elsewhere the data is what it was.
    let exported = env.run(&["export"]).success();
    assert!(exported.stdout().contains("\u{9b}2J\u{7f}\u{202e}x\\u001b[31m"));
}

#[test]
fn a_terminal_gets_readable_lines() {
    let env = TestEnvironment::new();
    env.record(&["--title", "Fix it"], &[HOSTILE]).success();
    let Some(done) = on_terminal(&env, "tail -n 2") else {
        return;
    };
    let text = String::from_utf8(done.out).unwrap();
    assert!(text.contains("     @3  \\u{1b}]0;owned\\u{7}: \\u{9b}2J"), "{text}");
    assert!(text.contains("     @4  Writer closed\r\n"), "{text}");
}
