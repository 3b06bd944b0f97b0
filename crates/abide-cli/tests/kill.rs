//! Writers killed with SIGKILL, over and over: nothing acknowledged is lost, nothing stands twice.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use abide_testkit::FaultRun;
use serde_json::Value;

use crate::environment::{StoreLayout, TestEnvironment};

const WRITERS: usize = 8;

fn cycles() -> usize {
    FaultRun::from_env().len(64, 1_040)
}

fn line(n: usize) -> String {
    // Now and then one whose payload goes to an object.
    let text = if n % 40 == 7 { "large ".repeat(20_000 + n) } else { format!("text {n}") };
    format!("{{\"kind\":\"x.kill\",\"data\":{{\"n\":{n},\"text\":\"{text}\"}},\"key\":\"k{n}\"}}\n")
}

/// Records from `next` on until it is killed; gives the first line that was not acknowledged.
fn one_life(environment: &TestEnvironment, session: &str, next: usize, life: Duration) -> usize {
    let mut child = environment
        .command(&["record", "-s", session])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Until the pipe breaks.
            let mut n = next;
            while stdin.write_all(line(n).as_bytes()).is_ok() {
                n += 1;
            }
        });
        let reading = scope.spawn(move || {
            let mut acknowledged = next;
            for answer in stdout.lines().map_while(Result::ok) {
                // The last answer may be cut short.
                if let Ok(answer) = serde_json::from_str::<Value>(&answer) {
                    assert!(answer.get("seq").is_some(), "{answer}");
                    acknowledged += 1;
                }
            }
            acknowledged
        });
        std::thread::sleep(life);
        child.kill().unwrap();
        child.wait().unwrap();
        reading.join().unwrap()
    })
}

#[test]
fn writers_that_are_killed_lose_nothing_that_was_acknowledged() {
    writers_are_killed(StoreLayout::Project, cycles());
}

#[test]
fn in_the_persons_store_they_lose_nothing_either() {
    writers_are_killed(StoreLayout::Person, cycles() / 4);
}

fn writers_are_killed(layout: StoreLayout, cycles: usize) {
    let environment = TestEnvironment::with(layout);
    environment.run(&["new"]).success();
    let config = environment.store().join("config.toml");
    // Small segments: rotation and sealing happen all the time.
    std::fs::write(&config, "version = 1\n[journal]\nsegment_bytes = 20000\n").unwrap();
    let lives = cycles / WRITERS;
    let acknowledged: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let environment = &environment;
                scope.spawn(move || {
                    let session = environment.run(&["new"]).success().stdout().trim().to_owned();
                    let mut next = 0;
                    for life in 0..lives {
                        let millis = ((life * 7 + writer * 13) as u64)
                            .wrapping_add(FaultRun::from_env().seed())
                            % 60;
                        next = one_life(environment, &session, next, Duration::from_millis(millis));
                    }
                    let exported = environment.run(&["export", &session]).success();
                    assert!(!exported.stderr.contains("damage"), "{}", exported.stderr);
                    let mut found = 0;
                    for event in exported.json_lines() {
                        if event["kind"] == "x.kill" {
                            assert_eq!(event["data"]["n"], found, "in order, each once");
                            let sent: Value = serde_json::from_str(&line(found)).unwrap();
                            assert_eq!(event["data"], sent["data"]);
                            found += 1;
                        }
                    }
                    assert!(found >= next, "{next} were acknowledged, {found} are there");
                    next
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    let checked = environment.run(&["doctor", "--all"]).success();
    println!("kills of writers: {}\nacknowledged before: {acknowledged}", lives * WRITERS);
    assert!(acknowledged > lives, "{}", checked.stdout());
}
