//! `abide demo`: all of it, for real.

use std::fs;

use crate::environment::TestEnvironment;

#[test]
fn the_demo_is_killed_and_comes_to_its_end() {
    let env = TestEnvironment::new();
    let done = env.run(&["demo", "--keep"]).success();
    let text = done.stdout();
    assert!(text.contains("got signal 9 in the middle of a call"), "{text}");
    assert!(text.contains(" events; 0 of them are missing in the journal"), "{text}");
    assert!(text.contains("outcome unknown  of c5 (write_file"), "{text}");
    assert!(text.contains("5 of 5 tasks complete"), "{text}");
    assert!(text.contains("every sum and link checked, 0 findings"), "{text}");
    let dir = text.lines().find_map(|line| line.strip_prefix("  cd ")).unwrap();
    assert!(fs::read_to_string(format!("{dir}/count.sh")).unwrap().contains("wc -w"));
    let exported = env.run(&["export", "--store", dir]).success().json_lines();
    let data =
        |event: &serde_json::Value, name: &str| event["data"][name].as_str().map(str::to_owned);
    // No step that was finished is made twice.
    let calls: Vec<_> = exported
        .iter()
        .filter(|event| event["kind"] == "tool.called")
        .filter_map(|event| data(event, "call"))
        .collect();
    let mut once = calls.clone();
    once.dedup();
    assert_eq!(calls, once);
    for (kind, count) in [("task.created", 5), ("writer.opened", 3), ("writer.closed", 2)] {
        let found = exported.iter().filter(|event| event["kind"] == kind).count();
        assert_eq!(found, count, "{kind}");
    }
    env.run(&["doctor", "--store", dir]).success();
}

#[test]
fn without_keep_nothing_is_left() {
    let env = TestEnvironment::new();
    let done = env.run(&["demo", "--pace", "150"]).success();
    assert!(done.stdout().lines().count() <= 20, "{}", done.stdout());
    assert_eq!(fs::read_dir(env.path("home")).unwrap().count(), 0);
}
