//! `abide usage`: tokens by day, project, model, agent and session; what counts once; `--check`.

use serde_json::Value;

use crate::environment::{HELLO, TestEnvironment, run};

fn used(id: &str, model: &str, time: &str, output: u64) -> String {
    format!(
        r#"{{"kind":"usage.recorded","occurred":"{time}","data":{{"id":"{id}","model":"{model}","input_tokens":1,"output_tokens":{output},"cache_read_tokens":10}}}}"#
    )
}

/// Two sessions that share the usage of one answer.
fn spent() -> TestEnvironment {
    let env = TestEnvironment::new();
    let late = "2026-01-02T23:30:00Z";
    let first = [used("a", "big", "2026-01-02T08:00:00Z", 1000), used("b", "small", late, 20)];
    let lines: Vec<&str> = first.iter().map(String::as_str).collect();
    env.record(&["--key", "a", "--title", "Fix the parser", "--agent", "coder"], &lines).success();
    let second = [used("b", "small", late, 20), used("c", "big", "2026-01-05T08:00:00Z", 300)];
    let lines: Vec<&str> = second.iter().map(String::as_str).collect();
    env.record(&["--key", "b", "--title", "A copy"], &lines).success();
    env
}

fn report(env: &TestEnvironment, args: &[&str]) -> Value {
    let done = env.run(&[&["usage", "--json"], args].concat()).success();
    serde_json::from_str(done.stdout()).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

/// Key, output tokens and sessions of each row.
fn rows(env: &TestEnvironment, args: &[&str]) -> Vec<(String, u64, u64)> {
    let report = report(env, args);
    let row = |row: &Value| {
        let number = |name: &str| row[name].as_u64().unwrap();
        (row["key"].as_str().unwrap().to_owned(), number("output_tokens"), number("sessions"))
    };
    report["rows"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn what_two_sessions_share_counts_once() {
    let env = spent();
    let all = report(&env, &[]);
    assert_eq!(all["schema"], 1);
    assert_eq!(all["total"]["output_tokens"], 1320);
    assert_eq!(all["total"]["input_tokens"], 3);
    assert_eq!(all["total"]["cache_read_tokens"], 30);
    let row = |key: &str, output, sessions| (key.to_owned(), output, sessions);
    assert_eq!(rows(&env, &[]), [row("2026-01-02", 1020, 1), row("2026-01-05", 300, 1)]);
    assert_eq!(rows(&env, &["--by", "model"]), [row("big", 1300, 2), row("small", 20, 1)]);
    assert_eq!(rows(&env, &["--by", "agent"]), [row("coder", 1020, 1), row("", 300, 1)]);
    let sessions = report(&env, &["--by", "session"]);
    let names: Vec<&str> =
        sessions["rows"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Fix the parser", "A copy"]);
    assert_eq!(rows(&env, &["--by", "project"]).len(), 1);
    let since = ["--since", "2026-01-03"];
    assert_eq!(rows(&env, &since), [row("2026-01-05", 300, 1)]);
    assert_eq!(rows(&env, &["--until", "2026-01-02"]), [row("2026-01-02", 1020, 1)]);
    // Days are those of the user.
    let mut command = env.command(&["usage"]);
    command.env("TZ", "Europe/Berlin");
    let local = run(command, b"").success();
    assert_eq!(
        local.stdout(),
        "2026-01-02\t1\t1000\t10\t0\t0\t1\n2026-01-03\t1\t20\t10\t0\t0\t1\n2026-01-05\t1\t300\t10\t0\t0\t1\n"
    );
}

#[test]
fn a_check_counts_the_events_anew() {
    let env = spent();
    let done = env.run(&["usage", "--check"]).success();
    assert!(done.stderr.contains("The index says what the events say"), "{done:?}");
    assert_eq!(report(&env, &["--check"])["differences"], Value::Array(Vec::new()));
    // Forks share what was spent before.
    env.run(&["fork", "-s", "A copy"]).success();
    let more = used("d", "big", "2026-01-06T08:00:00Z", 7);
    env.record(&["--key", "b"], &[&more, HELLO]).success();
    let checked = report(&env, &["--check"]);
    assert_eq!(checked["total"]["output_tokens"], 1327);
    assert_eq!(checked["differences"], Value::Array(Vec::new()));
}

#[test]
fn without_usage_it_says_so() {
    let env = TestEnvironment::new();
    env.record(&[], &[HELLO]).success();
    let done = env.run(&["usage"]).success();
    assert_eq!(done.stdout(), "");
    assert!(done.stderr.contains("No usage is recorded"), "{done:?}");
    assert_eq!(report(&env, &["--by", "day"])["rows"], Value::Array(Vec::new()));
    env.run(&["usage", "--by", "colour"]).failure(2);
}
