//! The server of one's own: what is committed outlives its death.

use std::fs;
use std::process::{Command, Stdio};

use abide_testkit::{Fsync, PostgresSettings, PrivatePostgres};

fn database(url: &str) -> &str {
    url.rsplit_once('/').unwrap().1
}

#[test]
fn what_was_committed_is_there_after_a_kill() {
    let settings = PostgresSettings { fsync: Fsync::On, ..PostgresSettings::default() };
    let server = match PrivatePostgres::start(settings) {
        Ok(server) => server,
        Err(error) => return println!("skipped: {error}"),
    };
    let url = server.create_database();
    let name = database(&url);
    server.sql(name, "create table told (word text); insert into told values ('one')");
    for word in ["two", "three"] {
        server.kill();
        assert!(server.try_sql(name, "select 1").is_err());
        server.restart();
        server.sql(name, &format!("insert into told values ('{word}')"));
    }
    assert_eq!(server.sql(name, "select word from told order by word"), "one\nthree\ntwo");
    assert_eq!(server.sql(name, "show fsync"), "on");
    assert!(server.log().contains("automatic recovery in progress"));
    let error = server.try_sql(name, "insert into missing values (1)").unwrap_err();
    assert!(error.contains("missing"), "{error}");
}

#[test]
fn a_server_leaves_nothing_behind() {
    let server = match PrivatePostgres::start(PostgresSettings::default()) {
        Ok(server) => server,
        Err(error) => return println!("skipped: {error}"),
    };
    let data = server.sql("postgres", "show data_directory");
    assert!(fs::exists(&data).unwrap());
    drop(server);
    assert!(!fs::exists(&data).unwrap());
}

#[test]
fn a_server_ends_with_the_process_that_started_it() {
    if let Err(error) = PrivatePostgres::start(PostgresSettings::default()) {
        return println!("skipped: {error}");
    }
    // The pipe is the server's as well as the shell's: it ends when both are gone.
    let mut runner = Command::new(env!("CARGO_BIN_EXE_private-postgres"))
        .args([
            "sh",
            "-c",
            "psql -X -A -t -c 'show data_directory' \"$ABIDE_TEST_POSTGRES\"; read _",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = std::io::BufReader::new(runner.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    let data = line.trim_end();
    assert!(fs::exists(data).unwrap(), "{data}");
    runner.kill().unwrap();
    runner.wait().unwrap();
    // Nothing tells when the guard is done: it is no child of ours.
    while fs::exists(data).unwrap() {
        std::thread::yield_now();
    }
}

#[test]
fn the_shared_server_gives_a_database_to_each() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let (one, other) = (server.create_database(), server.create_database());
    assert_ne!(one, other);
    server.sql(database(&one), "create table mine (it int)");
    assert!(server.try_sql(database(&other), "select * from mine").is_err());
}
