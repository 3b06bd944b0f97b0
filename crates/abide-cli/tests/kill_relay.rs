//! Eight recorders of one session, all killed over and over: the first to come holds the session and
//! writes for the others, until it is killed itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::time::Duration;

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

/// Records from `next` on until it is killed; gives the first line that was not acknowledged. A
/// client whose holder is killed goes on by itself, or ends with a word about it.
fn client_life(
    environment: &TestEnvironment,
    session: &str,
    client: usize,
    next: usize,
    life: Duration,
) -> usize {
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
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A few at a time, so that all of them take part; until the pipe breaks.
            let mut n = next;
            while stdin.write_all(client_line(client, n).as_bytes()).is_ok() {
                n += 1;
                if n.is_multiple_of(8) {
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
            let mut acknowledged = next;
            for answer in stdout.lines().map_while(Result::ok) {
                // The last answer may be cut short. Those to lines that were not recorded are errors.
                match serde_json::from_str::<Value>(&answer) {
                    Ok(answer) if answer.get("seq").is_some() => acknowledged += 1,
                    _ => break,
                }
            }
            acknowledged
        });
        std::thread::sleep(life);
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let complaint = complaint.join().unwrap();
        if let Some(status) = ended {
            assert!(!status.success(), "its input had not ended");
            assert!(complaint.contains("Error"), "{status} without a word: {complaint}");
        }
        reading.join().unwrap()
    })
}

#[test]
fn clients_and_holders_that_are_killed_lose_nothing_that_was_acknowledged() {
    let environment = TestEnvironment::new();
    let session = environment.run(&["new"]).success().stdout().trim().to_owned();
    let config = environment.store().join("config.toml");
    // Small segments: rotation and sealing happen all the time.
    std::fs::write(&config, "version = 1\n[journal]\nsegment_bytes = 20000\n").unwrap();
    let lives = FaultRun::from_env().len(96, 1_040) / CLIENTS;
    let acknowledged: Vec<usize> = std::thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|client| {
            let (environment, session) = (&environment, &session);
            scope.spawn(move || {
                let mut random = Random::new(FaultRun::from_env().seed() + client as u64);
                let mut next = 0;
                for _ in 0..lives {
                    let millis = Duration::from_millis(30 + random.below(150));
                    next = client_life(environment, session, client, next, millis);
                }
                next
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let exported = environment.run(&["export", &session]).success();
    assert!(!exported.stderr.contains("damage"), "{}", exported.stderr);
    let (mut found, mut holders) = ([0; CLIENTS], 0);
    for event in exported.json_lines() {
        match event["kind"].as_str().unwrap() {
            "writer.opened" => holders += 1,
            "x.client" => {
                let client = event["data"]["client"].as_u64().unwrap() as usize;
                let sent: Value =
                    serde_json::from_str(&client_line(client, found[client])).unwrap();
                assert_eq!(event["data"], sent["data"], "in order, each once");
                found[client] += 1;
            }
            _ => {}
        }
    }
    for (client, (found, acknowledged)) in found.iter().zip(&acknowledged).enumerate() {
        assert!(
            found >= acknowledged,
            "client {client}: {acknowledged} acknowledged, {found} there"
        );
    }
    environment.run(&["doctor", "--all"]).success();
    let total: usize = acknowledged.iter().sum();
    println!(
        "kills of clients and holders: {}\nholders: {holders}\nacknowledged before: {total}",
        lives * CLIENTS
    );
    // Some held the session, one after the other, and most recorded through one of them.
    assert!(holders > 1 && holders < lives * CLIENTS, "{holders} holders");
    assert!(total > lives, "{total} were acknowledged");
}
