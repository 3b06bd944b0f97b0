//! Eight recorders of one session, all killed over and over: the first to come holds the session and
//! writes for the others, until it is killed itself.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use abide_testkit::{FaultRun, Random};
use serde_json::{Value, json};

use crate::environment::TestEnvironment;

const CLIENTS: usize = 8;

fn client_line(client: usize, n: usize) -> String {
    // Now and then one whose payload goes to an object.
    let text = if n % 30 == 7 { "large ".repeat(20_000 + n) } else { format!("text {n}") };
    let data = json!({"client": client, "n": n, "text": text});
    json!({"kind": "x.client", "data": data, "key": format!("c{client}-{n}")}).to_string() + "\n"
}

/// What a client was told about its lines, in all of its lives.
#[derive(Default)]
struct ClientAnswers {
    lives: usize,
    acknowledged: BTreeSet<usize>,
    /// Those whose outcome was unknown when their holder died: sent again in the next life, and so behind
    /// lines that came after them.
    refused: BTreeSet<usize>,
}

impl ClientAnswers {
    /// The first line that was not acknowledged.
    fn next(&self) -> usize {
        (0..).find(|n| !self.acknowledged.contains(n)).unwrap()
    }
}

/// Waits for so many answers, but not long: whoever waits for a holder has none.
fn wait_for(answered: &AtomicUsize, count: usize) {
    let until = Instant::now() + Duration::from_millis(500);
    while answered.load(Ordering::Relaxed) < count && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Records from the first line on that was not acknowledged, until it is killed. A client whose holder
/// is killed goes on by itself, or ends with a word about it.
fn client_life(
    environment: &TestEnvironment,
    session: &str,
    client: usize,
    told: &mut ClientAnswers,
    life: Duration,
) {
    let next = told.next();
    let mut child = environment
        .command(&["record", "-s", session])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let mut stderr = child.stderr.take().unwrap();
    let answered = &AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A few at a time, so that all of them take part; until the pipe breaks.
            let mut n = next;
            while stdin.write_all(client_line(client, n).as_bytes()).is_ok() {
                n += 1;
                if n == next + 4 {
                    // A holder listens to others once its input pauses.
                    wait_for(answered, 4);
                    std::thread::sleep(Duration::from_millis(40));
                } else if n.is_multiple_of(8) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let complaint = scope.spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let reading = scope.spawn(move || {
            for (n, answer) in (next..).zip(stdout.lines().map_while(Result::ok)) {
                match serde_json::from_str::<Value>(&answer) {
                    Ok(answer) if answer.get("seq").is_some() => {
                        told.acknowledged.insert(n);
                    }
                    Ok(answer) => {
                        assert_eq!(answer["error"]["code"], "stopped", "{answer}");
                        told.refused.insert(n);
                    }
                    // The last answer may be cut short.
                    Err(_) => break,
                }
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
        wait_for(answered, 1);
        std::thread::sleep(life);
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let complaint = complaint.join().unwrap();
        if let Some(status) = ended {
            assert!(!status.success(), "its input had not ended");
            assert!(complaint.contains("Error"), "{status} without a word: {complaint}");
        }
        reading.join().unwrap();
    });
}

#[test]
fn clients_and_holders_that_are_killed_lose_nothing_that_was_acknowledged() {
    let environment = TestEnvironment::new();
    let session = environment.run(&["new"]).success().stdout().trim().to_owned();
    let config = environment.store().join("config.toml");
    // Small segments: rotation and sealing happen all the time.
    std::fs::write(&config, "version = 1\n[journal]\nsegment_bytes = 20000\n").unwrap();
    let lives = FaultRun::from_env().len(96, 1_040) / CLIENTS;
    let was_refused = AtomicBool::new(false);
    let told: Vec<ClientAnswers> = std::thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|client| {
            let (environment, session, was_refused) = (&environment, &session, &was_refused);
            scope.spawn(move || {
                let mut random = Random::new(FaultRun::from_env().seed() + client as u64);
                let mut told = ClientAnswers::default();
                // On a machine with much to do, until it has happened.
                let mut left = lives * 5;
                while left > lives * 4 || left > 0 && !was_refused.load(Ordering::Relaxed) {
                    let life = Duration::from_millis(60 + random.below(180));
                    client_life(environment, session, client, &mut told, life);
                    was_refused.fetch_or(!told.refused.is_empty(), Ordering::Relaxed);
                    told.lives += 1;
                    left -= 1;
                }
                told
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let exported = environment.run(&["export", &session]).success();
    assert!(!exported.stderr.contains("damage"), "{}", exported.stderr);
    let mut found: [Vec<usize>; CLIENTS] = Default::default();
    let mut holders = 0;
    for event in exported.json_lines() {
        match event["kind"].as_str().unwrap() {
            "writer.opened" => holders += 1,
            "x.client" => {
                let [client, n] =
                    ["client", "n"].map(|name| event["data"][name].as_u64().unwrap() as usize);
                let sent: Value = serde_json::from_str(&client_line(client, n)).unwrap();
                assert_eq!(event["data"], sent["data"]);
                found[client].push(n);
            }
            _ => {}
        }
    }
    for (client, (found, told)) in found.iter().zip(&told).enumerate() {
        let there: BTreeSet<usize> = found.iter().copied().collect();
        assert_eq!(there.len(), found.len(), "client {client}: each once, {found:?}");
        let lost: Vec<_> = told.acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "client {client}: {lost:?} were acknowledged and are gone");
        let in_one_go = found.iter().filter(|n| !told.refused.contains(n));
        assert!(in_one_go.is_sorted(), "client {client}: in order, {found:?}");
    }
    environment.run(&["doctor", "--all"]).success();
    let total: usize = told.iter().map(|told| told.acknowledged.len()).sum();
    let refused: usize = told.iter().map(|told| told.refused.len()).sum();
    let kills: usize = told.iter().map(|told| told.lives).sum();
    println!(
        "kills of clients and holders: {kills}\nholders: {holders}\nacknowledged before: {total}\nsent again: {refused}"
    );
    // Some held the session, one after the other, and most recorded through one of them.
    assert!(holders > 1 && holders < kills, "{holders} holders");
    assert!(total > lives, "{total} were acknowledged");
    assert!(refused > 0, "no holder was killed while it wrote for others");
}
