//! A store that fails: the conversation goes on, and the user is told once.

use std::fs;
use std::path::Path;
use std::process::Command;

use abide_testkit::{AcpClient, PasswordThief};
use serde_json::Value;

use super::lab::{AcpLab, stub_agent};
use super::story::turn;
use crate::environment::{ABIDE, run};

/// How often the user was told: by lines that no agent sent, or on stderr.
fn told(client: &AcpClient, sent: usize) -> (usize, usize) {
    let stderr = client.stderr();
    (
        client.received.len() - sent,
        stderr.lines().filter(|line| line.contains("not recorded")).count(),
    )
}

#[test]
fn a_store_that_cannot_be_made_stops_nobody() {
    let lab = AcpLab::bare();
    fs::write(lab.env.project().join(".abide"), "").unwrap();
    let mut direct = lab.direct(&["--count-ids"]);
    let mut client = lab.proxy(&["--count-ids"]);
    for client in [&mut direct, &mut client] {
        let session = lab.open(client);
        for script in ["say alpha; tool one", "ask; say beta", "plan a|b; say gamma"] {
            turn(client, &session, script);
        }
    }
    let (lines, on_stderr) = told(&client, direct.received.len());
    assert!(lines <= 1 && on_stderr <= 1 && lines + on_stderr >= 1, "{lines} {on_stderr}");
    // All that the agent sent came, in its order.
    let mut rest = client.received[1..].iter();
    for line in &direct.received[1..] {
        assert!(rest.any(|received| received == line), "{line} is missing: {:?}", client.received);
    }
    assert!(client.close().success());
}

#[test]
fn a_store_that_only_the_project_names_is_not_used_and_stops_nobody() {
    let lab = AcpLab::bare();
    let thief = PasswordThief::start();
    let url = format!("postgres://me@127.0.0.1:{}/db?sslmode=disable", thief.port());
    fs::write(lab.env.project().join(".abide"), format!("{url}\n")).unwrap();
    let mut client = lab.proxy(&["--count-ids"]);
    let session = lab.open(&mut client);
    turn(&mut client, &session, "say alpha");
    let seen = format!("{}{}", client.stderr(), client.received.join("\n"));
    assert!(seen.contains("which you have not accepted for this directory"), "{seen}");
    assert!(client.close().success());
    assert_eq!(thief.connections(), 0);
}

/// A store made by the proxy is as one made by a command: who knows only its path sees the sessions
/// of the project that it runs in.
#[test]
fn the_persons_store_that_is_made_here_holds_many_projects() {
    let lab = AcpLab::bare();
    let mut client = lab.proxy(&["--count-ids"]);
    let session = lab.open(&mut client);
    turn(&mut client, &session, "say alpha");
    assert!(client.close().success());
    let other = lab.env.path("other");
    let home = lab.env.path("another-home");
    for dir in [&other, &home] {
        fs::create_dir(dir).unwrap();
    }
    let by_path = |dir: &Path, args: &[&str]| {
        let mut command = lab.env.command_in(dir, &["--store"]);
        command.arg(lab.env.store()).args(args).env("HOME", &home);
        run(command, b"").success()
    };
    by_path(&other, &["new"]);
    for dir in [&other, &lab.env.project()] {
        let history = by_path(dir, &["history", "--json"]);
        let rows: Value = serde_json::from_str(history.stdout()).unwrap();
        assert_eq!(rows.as_array().unwrap().len(), 1, "in {}", dir.display());
    }
}

#[test]
fn commands_write_to_a_session_that_the_proxy_holds() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&["--count-ids"]);
    let session = lab.open(&mut client);
    turn(&mut client, &session, "say alpha");
    lab.env.run(&["checkpoint", "create", "-m", "by hand"]).success();
    lab.env.run(&["tasks", "add", "Look into it"]).success();
    let refused = lab.env.run(&["rewind", "--to", "by hand", "--yes"]).failure(1);
    assert!(refused.stderr.contains("has it in memory"), "{refused:?}");
    turn(&mut client, &session, "say beta");
    assert!(client.close().success());
    let events = lab.events();
    let count = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
    assert_eq!((count("task.created"), count("writer.opened"), count("turn.finished")), (1, 1, 2));
    assert!(events.iter().any(|event| event["data"]["label"] == "by hand"));
    lab.healthy();
}

#[test]
fn a_store_that_is_full_stops_nobody_and_what_it_has_is_whole() {
    let lab = AcpLab::new();
    // No file may have more than 32 KiB; beyond that a write fails, as on a full disk.
    let shell = "trap '' XFSZ; ulimit -f 64; exec \"$@\"";
    let mut command = lab.env.isolate(Command::new("/bin/sh"));
    command.args(["-c", shell, "sh", ABIDE, "acp", "--checkpoint", "off", "--"]);
    command.arg(stub_agent());
    let mut client = AcpClient::start(command);
    let session = lab.open(&mut client);
    let mut agent_lines = client.received.len();
    for number in 0..60 {
        // A text that does not compress to nothing.
        let text: String =
            (0..200).map(|at| format!("{:x} ", (at + number * 977) * 7_919)).collect();
        let script = format!("say {number} {text}; tool t{number}");
        turn(&mut client, &session, &script);
        agent_lines += 5;
    }
    let (lines, on_stderr) = told(&client, agent_lines);
    assert!(
        lines <= 1 && on_stderr <= 1 && lines + on_stderr >= 1,
        "{lines} {on_stderr} {}",
        client.stderr()
    );
    assert!(client.close().success());

    let events = lab.events();
    assert!(events.iter().any(|event| event["kind"] == "tool.finished"), "nothing was recorded");
    let turns = events.iter().filter(|event| event["kind"] == "turn.finished").count();
    assert!(turns < 60, "the limit was never reached: {turns}");
    lab.healthy();
    // With room again it goes on.
    let mut client = lab.proxy(&[]);
    client.initialize();
    lab.load(&mut client, &session);
    turn(&mut client, &session, "say again");
    assert!(lab.events().iter().any(|event| event["data"].to_string().contains("say again")));
}
