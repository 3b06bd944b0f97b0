//! Writers killed with SIGKILL, over and over: nothing acknowledged is lost, nothing stands twice, and
//! what they compact is compacted wholly or not at all.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::time::Duration;

use abide_testkit::{FaultRun, Random};
use serde_json::{Value, json};

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

/// From when on a life is measured: a machine may be too busy for a short one to record anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LifeStart {
    Process,
    FirstAnswer,
}

/// Records from `next` on until it is killed; gives the first line that was not acknowledged.
fn one_life(
    environment: &TestEnvironment,
    session: &str,
    next: usize,
    start: LifeStart,
    life: Duration,
) -> usize {
    let mut child = environment
        .command(&["record", "-s", session])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let (answered, first_answer) = channel();
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
                    let _ = answered.send(());
                }
            }
            acknowledged
        });
        if start == LifeStart::FirstAnswer {
            first_answer.recv().unwrap();
        }
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
                        let life_start = match (life + writer) % 2 {
                            0 => LifeStart::FirstAnswer,
                            _ => LifeStart::Process,
                        };
                        let millis = Duration::from_millis(millis);
                        next = one_life(environment, &session, next, life_start, millis);
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

/// The threshold of recorders that compact, in tokens.
const OVER: u64 = 1_500;
/// The lines of a turn.
const TURN: usize = 4;

/// A line of a conversation in turns of about 100 tokens.
fn turn_line(n: usize) -> String {
    let (kind, data) = match n % TURN {
        0 => ("turn.started", json!({"agent": "coder"})),
        1 => ("message.added", json!({"role": "user", "content": said(n)})),
        2 => ("message.added", json!({"role": "assistant", "content": said(n)})),
        _ => ("turn.finished", json!({"status": "done"})),
    };
    json!({"kind": kind, "data": data, "key": format!("k{n}")}).to_string() + "\n"
}

fn said(n: usize) -> String {
    format!("Message {n}: {}", "look at the parser again. ".repeat(7))
}

/// Records turns from `next` on, each answered before the next is sent, until it is killed; gives
/// the first line that was not acknowledged.
fn one_life_in_turns(
    environment: &TestEnvironment,
    session: &str,
    next: usize,
    life: Duration,
) -> usize {
    let over = OVER.to_string();
    let mut child = environment
        .command(&["record", "-s", session, "--compact-over", &over])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    std::thread::scope(|scope| {
        let recording = scope.spawn(move || {
            let mut n = next;
            loop {
                let end = (n / TURN + 1) * TURN;
                let lines: String = (n..end).map(turn_line).collect();
                if stdin.write_all(lines.as_bytes()).is_err() {
                    return n;
                }
                while n < end {
                    let Some(Ok(answer)) = answers.next() else { return n };
                    // The last answer may be cut short.
                    let Ok(answer) = serde_json::from_str::<Value>(&answer) else { return n };
                    assert!(answer.get("seq").is_some(), "{answer}");
                    n += 1;
                }
            }
        });
        std::thread::sleep(life);
        child.kill().unwrap();
        child.wait().unwrap();
        recording.join().unwrap()
    })
}

/// What is recorded is whole, and the context is that before a compaction or that after it. Returns
/// how often it was compacted.
fn check_compactions(environment: &TestEnvironment, session: &str, acknowledged: usize) -> usize {
    let exported = environment.run(&["export", session]).success();
    assert!(!exported.stderr.contains("damage"), "{}", exported.stderr);
    let (mut found, mut is_open, mut count) = (0, false, 0);
    let (mut texts, mut standing) = (Vec::new(), None);
    for event in exported.json_lines() {
        let (kind, data) = (event["kind"].as_str().unwrap(), &event["data"]);
        let sent: Value = serde_json::from_str(&turn_line(found)).unwrap();
        if kind == "context.compacted" {
            assert!(!is_open, "in the middle of a turn: {event}");
            assert!(data["before_tokens"].as_u64().unwrap() > OVER, "it was not over: {event}");
            // Not below the threshold: what was recorded while the summary was made is not in it.
            let (before, after) = (&data["before_tokens"], &data["after_tokens"]);
            assert!(after.as_u64().unwrap() < before.as_u64().unwrap(), "{event}");
            standing = Some((data["last"].as_u64().unwrap(), data["summary"].clone()));
            count += 1;
        } else if kind == sent["kind"] && *data == sent["data"] {
            is_open = kind != "turn.finished" && (is_open || kind == "turn.started");
            if kind == "message.added" {
                texts.push((event["seq"].as_u64().unwrap(), data["content"].clone()));
            }
            found += 1;
        } else {
            assert!(!kind.starts_with("turn.") && kind != "message.added", "{found}: {event}");
        }
    }
    assert!(found >= acknowledged, "{acknowledged} were acknowledged, {found} are there");
    let context = environment.run(&["context", session, "--format", "openai"]).success();
    let context = context.json_lines().remove(0);
    let mut messages = context["messages"].as_array().unwrap().iter();
    if let Some((last, summary)) = standing {
        texts.retain(|(seq, _)| *seq > last);
        let first = messages.next().unwrap().to_string();
        let summary = summary.to_string();
        assert!(first.contains(summary.trim_matches('"')), "{first}\n{summary}");
    }
    let texts: Vec<Value> = texts.into_iter().map(|(_, text)| text).collect();
    assert_eq!(messages.map(|message| message["content"].clone()).collect::<Vec<_>>(), texts);
    count
}

#[test]
fn a_compaction_at_the_threshold_is_whole_or_not_there() {
    const RECORDERS: usize = 4;
    let environment = TestEnvironment::new();
    environment.run(&["new"]).success();
    let lives = FaultRun::from_env().len(48, 400) / RECORDERS;
    let made: usize = std::thread::scope(|scope| {
        let recorders = (0..RECORDERS).map(|recorder| {
            let environment = &environment;
            scope.spawn(move || {
                let session = environment.run(&["new"]).success().stdout().trim().to_owned();
                let mut random = Random::new(FaultRun::from_env().seed() + recorder as u64);
                // Close to the threshold, where the kills are to fall.
                let begun: String = (0..14 * TURN).map(turn_line).collect();
                environment.record_bytes(&["-s", &session], begun.as_bytes()).success();
                let (mut next, mut made) = (14 * TURN, 0);
                for _ in 0..lives {
                    let life = Duration::from_millis(random.below(120));
                    next = one_life_in_turns(environment, &session, next, life);
                    let now = check_compactions(environment, &session, next);
                    assert!(now >= made, "{made} compactions were there, now {now} are");
                    made = now;
                }
                // What is due after the last kill is compacted once, and not again.
                let over = OVER.to_string();
                let record = |from: usize, to: usize| {
                    let lines: String = (from..to).map(turn_line).collect();
                    let args = ["-s", &session, "--compact-over", &over];
                    environment.record_bytes(&args, lines.as_bytes()).success();
                    check_compactions(environment, &session, to)
                };
                let end = (next / TURN + 20) * TURN;
                let made = record(next, end);
                let note = b"{\"kind\":\"x.note\",\"data\":{}}\n";
                environment
                    .record_bytes(&["-s", &session, "--compact-over", &over], note)
                    .success();
                assert_eq!(check_compactions(environment, &session, end), made, "it was compacted");
                made
            })
        });
        let recorders: Vec<_> = recorders.collect();
        recorders.into_iter().map(|recorder| recorder.join().unwrap()).sum()
    });
    environment.run(&["doctor", "--all"]).success();
    println!("kills of recorders that compact: {}\ncompactions: {made}", lives * RECORDERS);
    assert!(made > 0);
}
