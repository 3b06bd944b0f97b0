//! A backup by PostgreSQL's own tools, and back.

use std::process::Command;
use std::time::Duration;

use abide_model::{HistoryQuery, Store};
use abide_postgres::{PostgresOptions, ServerUrl};
use abide_testkit::PrivatePostgres;

use crate::support::{new_session, say, store};

/// A program of PostgreSQL's: in the path, or where Debian has it.
fn program(name: &str) -> Command {
    let dirs = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> = dirs.map(|dir| dir.path().join("bin").join(name)).collect();
    found.retain(|path| path.is_file());
    found.sort();
    Command::new(found.pop().unwrap_or_else(|| name.into()))
}

#[test]
fn what_was_dumped_and_restored_is_whole_and_goes_on() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let (from, to) = (server.create_database(), server.create_database());
    if program("pg_dump").arg("--version").output().is_err() {
        return println!("skipped: there is no pg_dump");
    }
    let one = store(&ServerUrl::parse(&from).unwrap(), PostgresOptions::default());
    let (id, writer) = new_session(&*one);
    for number in 0..100 {
        say(&*writer, &format!("sentence {number} of the backup")).unwrap();
    }
    // In the middle of the work.
    let dump = program("pg_dump").args(["-Fc", "-n", "abide", &from]).output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    say(&*writer, "behind the backup").unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &dump.stdout).unwrap();
    let restored = program("pg_restore").args(["-d", &to]).arg(file.path()).output().unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let two = store(
        &ServerUrl::parse(&to).unwrap(),
        PostgresOptions { take_over: true, ..PostgresOptions::default() },
    );
    assert_eq!(two.verify(id).unwrap().0, 102);
    let query = HistoryQuery {
        search: abide_model::Search::parse("sentence").ok(),
        ..HistoryQuery::default()
    };
    assert_eq!(two.history(&query).unwrap().entries.len(), 1);
    let again = two.write(id, Duration::ZERO).unwrap();
    assert_eq!(say(&*again, "on").unwrap(), 104);
}
