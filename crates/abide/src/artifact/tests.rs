//! Commands as agents write them, outputs as programs print them, and what becomes of both.

use abide_model::{ArtifactCounts, CallId, ToolResult};
use serde_json::value::RawValue;

use super::*;

fn raw(json: &serde_json::Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(json).unwrap()
}

/// The kind and name of what a command runs, and how much its exit code says.
fn recognized(command: &str) -> String {
    match ArtifactCommand::of_command(command) {
        None => "-".to_owned(),
        Some(found) => {
            let runs = found.runs.iter().map(|run| {
                format!("{} {}: {:?}", run.tool.kind.as_str(), run.tool.name, run.shell.exit)
            });
            runs.collect::<Vec<_>>().join("; ")
        }
    }
}

/// The record of a command that printed this, as an agent reports it of its shell.
fn ended(command: &str, report: OutcomeReport, output: &str) -> Option<Artifact> {
    let outcome = CommandOutcome { report, exit: None, output: output.to_owned(), is_cut: false };
    let command = ArtifactCommand::of_command(command).unwrap();
    let mut artifacts = ArtifactCommand { is_shell: true, ..command }.artifacts(&outcome);
    assert!(artifacts.len() < 2, "{artifacts:?}");
    artifacts.pop()
}

/// What the output alone tells: the command's exit code is hidden.
fn told(command: &str, output: &str) -> String {
    match ended(&format!("{command} | cat"), OutcomeReport::Unknown, output) {
        None => "-".to_owned(),
        Some(artifact) => {
            let how = if artifact.ok { "ok" } else { "failed" };
            let counts = artifact.counts.unwrap_or_default();
            let ArtifactCounts { passed, failed, skipped, errors, warnings } = counts;
            let counts = [passed, failed, skipped, errors, warnings];
            let counts = counts.map(|n| n.map_or("?".to_owned(), |n| n.to_string()));
            format!("{how} {}", counts.join(" "))
        }
    }
}

#[test]
fn commands_are_recognized_through_what_stands_around_them() {
    for (command, expected) in [
        ("cargo test", "test cargo test: Own"),
        ("cargo +nightly --locked test -p x -- name", "test cargo test: Own"),
        ("/usr/bin/cargo t", "test cargo test: Own"),
        ("cargo nextest run", "test cargo nextest: Own"),
        ("cargo test --no-run", "build cargo test --no-run: Own"),
        ("RUST_BACKTRACE=1 CI= cargo test", "test cargo test: Own"),
        ("env -u A B=c cargo clippy --all -- -D warnings", "build cargo clippy: Own"),
        ("timeout -k 5 600 cargo build", "build cargo build: Own"),
        ("time nice -n 10 cargo check", "build cargo check: Own"),
        ("cd x && cargo test 2>&1 | tail -20", "test cargo test: Hidden"),
        ("cd x && cargo test", "test cargo test: OwnIfRun"),
        ("export A=b && cargo test", "test cargo test: Own"),
        ("cd x; cargo test", "test cargo test: Own"),
        ("(cd x; cargo test)", "test cargo test: Own"),
        ("cargo test; echo done", "test cargo test: Hidden"),
        ("cargo test;", "test cargo test: Own"),
        ("cargo test && echo done", "test cargo test: Shared"),
        ("cargo test || true", "test cargo test: Hidden"),
        ("! cargo test", "test cargo test: Hidden"),
        ("if cargo test; then echo yes; fi", "test cargo test: Hidden"),
        ("cargo test > log.txt 2>&1 &", "test cargo test: Hidden"),
        ("yes | cargo test", "test cargo test: Own"),
        ("set -o pipefail; cargo test | tee log", "test cargo test: Shared"),
        ("set -e\nmake gen\ncargo test\necho ok", "test cargo test: Shared"),
        ("cargo build && cargo test", "test cargo test: OwnIfRun"),
        ("cargo test && npm test", "test cargo test: Shared; test npm test: OwnIfRun"),
        ("cargo test -p a && cargo test -p b", "test cargo test: OwnIfRun"),
        ("cargo fmt --check", "-"),
        ("cargo test --help", "-"),
        ("cargo test -- --list", "-"),
        ("cargo run -- test", "-"),
        ("echo cargo test", "-"),
        ("grep -rn 'cargo test' .", "-"),
        ("git commit -m \"x; cargo test\"", "-"),
        ("echo $(cargo test)", "-"),
        ("ls # cargo test", "-"),
        ("cat <<EOF\ncargo test\nEOF", "-"),
        ("echo 'open", "-"),
        ("/bin/bash -lc 'cargo test 2>&1 | tail'", "test cargo test: Hidden"),
        ("bash -lc 'cargo test'", "test cargo test: Own"),
        ("cd x && bash -c 'cargo test'", "test cargo test: OwnIfRun"),
        ("timeout 300 bash -c 'cargo test' | tail", "test cargo test: Hidden"),
        ("bash -c 'cargo test'; echo $?", "test cargo test: Hidden"),
        ("command -v cargo && cargo test", "test cargo test: OwnIfRun"),
        ("command -v pytest", "-"),
        ("cd \"$(git rev-parse --show-toplevel)\" && make clean test", "test make test: OwnIfRun"),
        ("git commit -m \"$(cat <<'EOF'\nRun \"fmt && cargo test\" in CI\nEOF\n)\"", "-"),
        ("git commit -m \"$(echo \"x; cargo test\")\"", "-"),
        ("A=(cargo test)", "-"),
        ("f() { cargo test; }", "-"),
        ("timeout --kill-after 5 60 cargo nextest --profile ci run", "test cargo nextest: Own"),
        ("bash run.sh cargo test", "-"),
        ("bash -eo pipefail -c 'cargo test | tail'", "test cargo test: Shared"),
        ("pytest -q tests/", "test pytest: Own"),
        ("python -m pytest", "test pytest: Own"),
        ("python3.12 -X dev -m unittest", "test unittest: Own"),
        ("python test.py", "-"),
        ("uv run --with x pytest", "test pytest: Own"),
        ("poetry run python -m pytest -x", "test pytest: Own"),
        ("coverage run -m pytest", "test pytest: Own"),
        (". .venv/bin/activate && pytest", "test pytest: OwnIfRun"),
        ("pytest -V", "-"),
        ("npx jest --ci", "test jest: Own"),
        ("npx --yes vitest run", "test vitest: Own"),
        ("pnpm exec jest", "test jest: Own"),
        ("./node_modules/.bin/mocha", "test mocha: Own"),
        ("yarn jest --ci", "test jest: Own"),
        ("pnpm vitest run", "test vitest: Own"),
        ("npx vitest list", "-"),
        ("node --test", "test node --test: Own"),
        ("npm test", "test npm test: Own"),
        ("npm --prefix web run test -- --ci", "test npm test: Own"),
        ("yarn test:unit", "test yarn test:unit: Own"),
        ("pnpm --filter web build", "build pnpm build: Own"),
        ("npm install", "-"),
        ("npx tsc --noEmit", "build tsc: Own"),
        ("npx tsc -v", "-"),
        ("npx tsc --init", "-"),
        ("go test ./...", "test go test: Own"),
        ("go test -c", "build go test -c: Own"),
        ("go -C x vet ./...", "build go vet: Own"),
        ("go run .", "-"),
        ("make -j 8 test", "test make test: Own"),
        ("make -C x", "build make: Own"),
        ("make -n test", "-"),
        ("make deploy", "-"),
        ("just", "-"),
        ("", "-"),
    ] {
        assert_eq!(recognized(command), expected, "{command}");
    }
    assert_eq!(recognized(&format!("cargo test {}", "x".repeat(COMMAND))), "-");
    assert_eq!(recognized(&"make;".repeat(300)), "-");
    let long = ArtifactCommand::of_command(&format!("npm run test:{}", "x".repeat(1000))).unwrap();
    assert_eq!(long.runs[0].tool.name.len(), 100);
}

#[test]
fn the_arguments_of_a_call_hold_the_command_in_several_forms() {
    let found = |arguments: serde_json::Value| {
        let call = ToolCall::new("c", "shell").with_arguments(raw(&arguments));
        ArtifactCommand::of_call(&call).map(|found| found.runs[0].tool.name.clone())
    };
    let test = Some("cargo test".to_owned());
    assert_eq!(found(serde_json::json!({"command": "cargo test"})), test);
    assert_eq!(found(serde_json::json!({"command": ["bash", "-lc", "cargo test"]})), test);
    assert_eq!(found(serde_json::json!({"command": ["cargo", "test"]})), test);
    assert_eq!(found(serde_json::json!({"cmd": "cargo test", "workdir": "/x"})), test);
    let background = serde_json::json!({"command": "cargo test", "run_in_background": true});
    assert_eq!(found(background), None);
    assert_eq!(found(serde_json::json!({"command": ["cargo", 1]})), None);
    assert_eq!(found(serde_json::json!({"command": "create", "path": "cargo test"})), None);
    assert_eq!(found(serde_json::json!("cargo test")), None);
}

#[test]
fn only_of_a_shell_does_a_call_that_succeeds_say_that_the_command_did() {
    let artifacts = |name: &str, text: &str| {
        let arguments = raw(&serde_json::json!({"command": "pytest"}));
        let call = ToolCall::new("c", name).with_arguments(arguments);
        let result = Some(raw(&serde_json::json!(text)));
        let result = ToolResult { call: CallId("c".to_owned()), ok: true, result };
        let command = ArtifactCommand::of_call(&call).unwrap();
        command.artifacts(&CommandOutcome::of_result(&result)).len()
    };
    assert_eq!((artifacts("Bash", "x"), artifacts("remember_command", "x")), (1, 0));
    assert_eq!(artifacts("mcp.run", "2 passed in 0.1s"), 1);
}

#[test]
fn words_without_end_are_no_command() {
    assert!(ArtifactCommand::of_command(&"npm ".repeat(4_000)).is_none());
    assert!(ArtifactCommand::of_command("npm yarn test").is_none());
    let mut words = vec!["cargo".to_owned(), "test".to_owned()];
    words.resize(1_000_000, String::new());
    assert!(ArtifactCommand::of_words(&words).is_none());
}

#[test]
fn a_result_of_any_depth_is_read_to_a_bounded_one() {
    let deep = format!("{}\"3 passed in 0.1s\"{}", "[".repeat(100_000), "]".repeat(100_000));
    let result = Some(RawValue::from_string(deep).unwrap());
    let result = ToolResult { call: CallId("c".to_owned()), ok: true, result };
    assert_eq!(CommandOutcome::of_result(&result).output, "");
}

#[test]
fn escape_sequences_and_overwritten_lines_are_no_part_of_a_line() {
    let plain = |text: &str| outcome::plain_text(text).into_owned();
    assert_eq!(plain("\x1b[1;32mok\x1b[0m\x1b[K."), "ok.");
    assert_eq!(plain("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\."), "link.");
    assert_eq!(plain("\x1b]0;title\x07text"), "text");
    assert_eq!(plain("a\x1b[12\nb\x1b"), "a\nb");
    let built =
        "   Compiling x\r\x1b[K    Building [=> ] 3/9: x\r\x1b[K    Finished `dev` profile in 1s\n";
    assert_eq!(told("cargo build", built), "ok ? ? ? 0 0");
}

#[test]
fn the_result_of_a_call_tells_how_it_ended() {
    let read = |ok: bool, result: serde_json::Value| {
        let result = ToolResult { call: CallId("c".to_owned()), ok, result: Some(raw(&result)) };
        let outcome = CommandOutcome::of_result(&result);
        (outcome.exit, outcome.output)
    };
    // Codex says -1 of a command that the user declined.
    let declined = serde_json::json!({"exit_code": -1, "output": "rejected"});
    assert_eq!(read(false, declined), (None, "rejected".to_owned()));
    let printed = serde_json::json!("Exit code 3\nis what it printed");
    assert_eq!(read(true, printed).0, None);
    let told = |exit: Option<i32>, text: &str| (exit, text.to_owned());
    assert_eq!(read(true, serde_json::json!("all\nwell")), told(None, "all\nwell"));
    assert_eq!(read(false, serde_json::json!("Exit code 101\nbad")), told(Some(101), "bad"));
    let object = serde_json::json!({"exit_code": 3, "output": "bad"});
    assert_eq!(read(false, object), told(Some(3), "bad"));
    let blocks = serde_json::json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    assert_eq!(read(true, blocks), told(None, "a\nb"));
    let nested = serde_json::json!([{"type": "content", "content": {"type": "text", "text": "a"}}]);
    assert_eq!(read(true, nested), told(None, "a"));
    let halves = serde_json::json!({"stdout": "a", "stderr": "b", "exitCode": 0});
    assert_eq!(read(true, halves), told(Some(0), "a\nb"));
}

#[test]
fn an_artifact_needs_an_outcome_that_is_known() {
    use OutcomeReport::{Failure, Success, Unknown};
    let ok = |command: &str, report, output: &str| {
        ended(command, report, output).map(|artifact| artifact.ok)
    };
    let passed = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
    let failed = "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured\n";
    // The agent's report and the output, where the exit code is the command's own.
    assert_eq!(ok("cargo test", Success, ""), Some(true));
    assert_eq!(ok("cargo test", Success, passed), Some(true));
    assert_eq!(ok("cargo test", Failure, passed), Some(false), "something else failed");
    assert_eq!(ok("cargo test", Success, failed), Some(false), "the report is of the call alone");
    assert_eq!(ok("cargo test", Unknown, ""), None);
    assert_eq!(ok("cargo test", Failure, "The user refused."), None, "it may not have run");
    // Where it is not, the output alone.
    assert_eq!(ok("cargo test | tail", Success, failed), Some(false));
    assert_eq!(ok("cargo test | tail", Success, "cut"), None);
    assert_eq!(ok("cargo test || true", Success, passed), Some(true));
    assert_eq!(ok("cd x && cargo test", Failure, "cd: x: not there"), None);
    assert_eq!(ok("cargo test && ./deploy", Failure, passed), Some(true));
    // A failure of the last command is its own once it ran.
    assert_eq!(ok("cd x && cargo test", Failure, passed), Some(false));
    assert_eq!(ok("cd x && cargo test", Success, passed), Some(true));
    let exit = |command: &str, code: i32, output: &str| {
        let output = output.to_owned();
        let outcome = CommandOutcome { report: Failure, exit: Some(code), output, is_cut: false };
        let found = ArtifactCommand::of_command(command).unwrap().artifacts(&outcome);
        found.first().map(|artifact| (artifact.ok, artifact.exit))
    };
    assert_eq!(exit("cargo test", 101, failed), Some((false, Some(101))));
    assert_eq!(exit("cargo test; ls", 101, failed), Some((false, None)));
    assert_eq!(exit("cd x && pytest", 1, "5 passed in 0.1s"), Some((false, Some(1))));
    assert_eq!(exit("cd x && pytest", 1, "cd: x"), None);
    // A test that passes may print what looks like a failure.
    assert_eq!(exit("cargo test", 0, failed), Some((true, Some(0))));
}

#[test]
fn a_part_of_the_output_is_not_taken_for_the_whole() {
    let passed = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n";
    let failed = "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured\n";
    let told = |command: &str, output: &str| {
        let outcome = CommandOutcome {
            report: OutcomeReport::Unknown,
            exit: None,
            output: output.to_owned(),
            is_cut: false,
        };
        let found = ArtifactCommand::of_command(command).unwrap().artifacts(&outcome).pop()?;
        Some((found.ok, found.counts.unwrap_or_default().to_string()))
    };
    let some = |ok: bool, counts: &str| Some((ok, counts.to_owned()));
    assert_eq!(told("cargo test | tee log", passed), some(true, "3 passed, 1 skipped"));
    assert_eq!(told("cargo test | tail -3", passed), some(true, ""));
    assert_eq!(told("cargo test | tail -3", failed), some(false, "1 failed"));
    assert_eq!(told("cargo test | grep result | head -2", passed), None);
    assert_eq!(told("cargo test | grep result", failed), some(false, "1 failed"));
    // These sum up themselves.
    assert_eq!(told("pytest | tail -1", "5 passed in 0.1s\n"), some(true, "5 passed"));
    // Built and not run to the end.
    let built = "    Finished `test` profile [unoptimized] target(s) in 0.3s\n     Running x\n";
    assert_eq!(told("cargo test | head -3", built), None);
    let cut = format!("running 900 tests\n\n... [120 lines truncated] ...\n\n{passed}");
    let result = Some(raw(&serde_json::json!(cut)));
    let result = ToolResult { call: CallId("c".to_owned()), ok: true, result };
    let outcome = CommandOutcome::of_result(&result);
    let artifact = ArtifactCommand::of_command("cargo test").unwrap().artifacts(&outcome).remove(0);
    assert_eq!((artifact.ok, artifact.counts), (true, None));
}

#[test]
fn each_of_several_tests_has_its_own_counts() {
    let cargo = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
    let jest = "Tests:       1 failed, 4 passed, 5 total\n";
    let output = format!("{cargo}{jest}npm error code 1\n");
    let outcome =
        CommandOutcome { report: OutcomeReport::Failure, exit: Some(1), output, is_cut: false };
    let found = ArtifactCommand::of_command("cargo test && npm test").unwrap().artifacts(&outcome);
    let found: Vec<_> = found
        .iter()
        .map(|one| (one.name.as_str(), one.ok, one.counts.as_ref().unwrap().to_string()))
        .collect();
    let expected = [
        ("cargo test", true, "3 passed".to_owned()),
        ("npm test", false, "4 passed, 1 failed".to_owned()),
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_end_of_the_output_is_kept() {
    let line = "é\x1b[32mok\x1b[0m\n";
    let output = line.repeat(OUTPUT);
    let artifact = ended("cargo test", OutcomeReport::Success, &output).unwrap();
    let kept = artifact.output.unwrap();
    assert!(kept.len() <= OUTPUT && kept.ends_with("éok\n"), "{}", kept.len());
    assert_eq!(kept.len() as u64 + artifact.left_out, 5 * OUTPUT as u64);
    assert_eq!((artifact.name.as_str(), artifact.kind.as_str()), ("cargo test", "test"));
    assert_eq!(artifact.command.as_deref(), Some("cargo test"));
}

#[test]
fn cargo_counts_tests_of_all_binaries_and_errors_of_builds() {
    let passed = "\
   Compiling x v0.1.0 (/x)
    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.31s
     Running unittests src/lib.rs (target/debug/deps/x-8d7f)

running 2 tests
test tests::a ... ok
test tests::b ... ignored

test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/it.rs (target/debug/deps/it-1a2b)

running 2 tests
error: this is what a test printed
test c ... ok
test d ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.12s

   Doc-tests x

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
    assert_eq!(told("cargo test", passed), "ok 3 0 1 ? ?");
    let failed = "\
test tests::b ... FAILED

failures:

---- tests::b stdout ----

thread 'tests::b' panicked at src/lib.rs:9:9:
assertion `left == right` failed

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

error: test failed, to rerun pass `--lib`
";
    assert_eq!(told("cargo test", failed), "failed 1 1 0 ? ?");
    assert_eq!(
        told("cargo test", "error: test failed, to rerun pass `--lib`\n"),
        "failed ? ? ? ? ?"
    );
    let broken = "\
warning: unused variable: `a`
 --> src/lib.rs:1:9

error[E0308]: mismatched types
 --> src/lib.rs:2:18

error: cannot find macro `foo` in this scope

For more information about this error, try `rustc --explain E0308`.
warning: `x` (lib) generated 1 warning
error: could not compile `x` (lib) due to 2 previous errors; 1 warning emitted
";
    assert_eq!(told("cargo test", broken), "failed ? ? ? 2 1");
    assert_eq!(told("cargo clippy", broken), "failed ? ? ? 2 1");
    let cut = "error: could not compile `x` (lib) due to 7 previous errors; 1 warning emitted\n";
    assert_eq!(told("cargo build", cut), "failed ? ? ? 7 0");
    let built = "warning: `x` (lib) generated 3 warnings (1 duplicate)\n    Finished `dev` profile [unoptimized + debuginfo] target(s) in 0.31s\n";
    assert_eq!(told("cargo build", built), "ok ? ? ? 0 2");
    assert_eq!(
        told("cargo build", "error: could not find `Cargo.toml` in `/x`\n"),
        "failed ? ? ? 1 0"
    );
    let twice = "\
warning: `x` (lib) generated 2 warnings
warning: `x` (lib test) generated 3 warnings (2 duplicates)
warning: build failed, waiting for other jobs to finish...
error: could not compile `x` (lib) due to 2 previous errors
error: could not compile `x` (lib test) due to 2 previous errors
";
    assert_eq!(told("cargo build", twice), "failed ? ? ? 2 3");
    // What nextest shows of a test is indented, and is none of its own sums.
    let shown = "    running 1 test\n    test result: FAILED. 0 passed; 1 failed; 0 ignored\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\n     Summary [   0.1s] 3/4 tests run: 1 passed, 1 failed, 1 timed out, 1 skipped\n";
    assert_eq!(told("cargo nextest run", shown), "failed 1 2 1 ? ?");
    let nextest = "     Summary [   0.123s] 10 tests run: 9 passed (1 slow), 1 failed, 2 skipped\nerror: test run failed\n";
    assert_eq!(told("cargo nextest run", nextest), "failed 9 1 2 ? ?");
    assert_eq!(told("cargo test", "    Compiling x v0.1.0\n"), "-");
}

#[test]
fn pytest_and_unittest_end_with_a_summary() {
    let failed = "tests/test_a.py .F.s\n\n=== FAILURES ===\nE  assert 1 == 2\n========= 1 failed, 2 passed, 1 skipped, 1 xfailed, 3 warnings in 0.12s =========\n";
    assert_eq!(told("pytest", failed), "failed 2 1 2 ? 3");
    assert_eq!(told("pytest -q", "....\n4 passed in 0.02s\n"), "ok 4 0 0 ? ?");
    let long = "=== 1200 passed, 7 deselected in 75.10s (0:01:15) ===\n";
    assert_eq!(told("pytest", long), "ok 1200 0 0 ? ?");
    let error = "ERROR tests/test_a.py - NameError\n!!! Interrupted: 1 error during collection !!!\n=== 1 error in 0.05s ===\n";
    assert_eq!(told("pytest", error), "failed 0 0 0 1 ?");
    assert_eq!(told("pytest", "=== no tests ran in 0.01s ===\n"), "-");
    let subtests = "=== 5 passed, 2 subtests passed in 0.10s ===\n";
    assert_eq!(told("pytest", subtests), "ok 5 0 0 ? ?");
    let coloured = "\x1b[31m=== \x1b[31m\x1b[1m1 failed\x1b[0m, \x1b[32m2 passed\x1b[0m\x1b[31m in 0.12s\x1b[0m\x1b[31m ===\x1b[0m\n";
    assert_eq!(told("pytest", coloured), "failed 2 1 0 ? ?");
    assert_eq!(told("pytest", "5 requests handled in 3s\n"), "-");
    let unittest = "..s\n-------\nRan 3 tests in 0.001s\n\nOK (skipped=1)\n";
    assert_eq!(told("python -m unittest", unittest), "ok 2 0 1 ? ?");
    let unittest = "Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=2)\n";
    assert_eq!(told("python -m unittest", unittest), "failed 2 1 ? 2 ?");
}

#[test]
fn the_runners_of_javascript_have_a_summary_each() {
    let jest = "PASS src/a.test.js\nFAIL src/b.test.js\n  ● adds\n\nTest Suites: 1 failed, 1 passed, 2 total\nTests:       1 failed, 2 skipped, 5 passed, 8 total\nSnapshots:   0 total\nTime:        1.2 s\n";
    assert_eq!(told("npx jest", jest), "failed 5 1 2 ? ?");
    let jest = "Test Suites: 2 passed, 2 total\nTests:       8 passed, 8 total\n";
    assert_eq!(told("npm test", jest), "ok 8 0 ? ? ?");
    let broken = "Test Suites: 1 failed, 1 passed, 2 total\nTests:       5 passed, 5 total\n";
    assert_eq!(told("npx jest", broken), "failed 5 0 ? 1 ?");
    let vitest = " Test Files  1 failed | 2 passed (3)\n      Tests  1 failed | 5 passed | 1 skipped (7)\n   Start at  10:00:00\n";
    assert_eq!(told("npx vitest run", vitest), "failed 5 1 1 ? ?");
    let vitest = " \x1b[2mTest Files\x1b[22m  \x1b[1m\x1b[32m2 passed\x1b[39m\x1b[22m (2)\n\x1b[2m      Tests \x1b[22m \x1b[1m\x1b[32m6 passed\x1b[39m\x1b[22m (6)\n";
    assert_eq!(told("npx vitest run", vitest), "ok 6 0 ? ? ?");
    let unhandled = " Test Files  1 passed (1)\n      Tests  1 passed (1)\n     Errors  1 error\n";
    assert_eq!(told("npx vitest run", unhandled), "failed 1 0 ? 1 ?");
    let bun = " 5 pass\n 1 fail\n 10 expect() calls\n";
    assert_eq!(told("bun test", bun), "failed 5 1 ? ? ?");
    let mocha = "  ✔ adds\n\n  12 passing (30ms)\n  2 pending\n  1 failing\n";
    assert_eq!(told("npx mocha", mocha), "failed 12 1 2 ? ?");
    let node = "# tests 3\n# suites 0\n# pass 3\n# fail 0\n# cancelled 0\n# skipped 0\n# todo 0\n# duration_ms 40.1\n";
    assert_eq!(told("node --test", node), "ok 3 0 0 ? ?");
    let node = "ℹ tests 3\nℹ pass 2\nℹ fail 1\nℹ cancelled 0\nℹ skipped 0\nℹ todo 0\n";
    assert_eq!(told("npm test", node), "failed 2 1 0 ? ?");
    let tsc = "src/a.ts(3,5): error TS2304: Cannot find name 'x'.\nsrc/a.ts(4,5): error TS2304: Cannot find name 'y'.\n";
    assert_eq!(told("npx tsc", tsc), "failed ? ? ? 2 ?");
    assert_eq!(told("npm test", "boom\nnpm error code 1\nnpm error path /x\n"), "failed ? ? ? ? ?");
    assert_eq!(
        told("make test", "boom\nmake: *** [Makefile:3: test] Error 1\n"),
        "failed ? ? ? ? ?"
    );
    assert_eq!(told("npm test", "error: what a script printed\n"), "-");
}

#[test]
fn go_names_tests_and_packages() {
    let verbose = "=== RUN   TestA\n=== RUN   TestA/part\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/part (0.00s)\n=== RUN   TestB\n--- SKIP: TestB (0.00s)\nPASS\nok  \texample.com/x\t0.003s\n";
    assert_eq!(told("go test -v", verbose), "ok 1 0 1 ? ?");
    let packages = "ok  \texample.com/x\t(cached)\n?   \texample.com/y\t[no test files]\n";
    assert_eq!(told("go test ./...", packages), "ok ? ? ? ? ?");
    let failed = "--- FAIL: TestA (0.00s)\n    a_test.go:5: no\nFAIL\nFAIL\texample.com/x\t0.003s\nok  \texample.com/y\t0.002s\nFAIL\n";
    assert_eq!(told("go test ./...", failed), "failed ? 1 ? ? ?");
    let broken = "# example.com/x [example.com/x.test]\n./a.go:3:5: undefined: y\nFAIL\texample.com/x [build failed]\nFAIL\n";
    assert_eq!(told("go test ./...", broken), "failed ? ? ? 1 ?");
    let build = "# example.com/x\n./a.go:3:5: undefined: y\n./a.go:4:5: undefined: z\n";
    assert_eq!(told("go build ./...", build), "failed ? ? ? 2 ?");
    assert_eq!(told("go build ./...", ""), "-");
}
