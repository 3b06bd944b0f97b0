//! The tables are made once, and those of a newer program are left alone.

use std::sync::Barrier;

use abide_model::StoreError;
use abide_postgres::{PostgresOptions, PostgresStore, SCHEMA_VERSION};
use abide_testkit::PrivatePostgres;

use crate::support::{database, store};

#[test]
fn many_that_start_at_once_make_the_tables_once() {
    for _ in 0..3 {
        let Some(url) = database() else { return };
        let together = Barrier::new(8);
        let made: Vec<i32> = std::thread::scope(|scope| {
            let start = || {
                together.wait();
                PostgresStore::init(&url, PostgresOptions::default())
                    .map(|(_, migrated)| migrated.from)
            };
            let all: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            all.into_iter().map(|one| one.join().unwrap().unwrap()).collect()
        });
        assert_eq!(made.iter().filter(|from| **from == 0).count(), 1, "{made:?}");
    }
}

#[test]
fn the_tables_of_a_newer_program_are_left_alone() {
    let Some(url) = database() else { return };
    drop(store(&url, PostgresOptions::default()));
    let shown = url.to_string();
    let (_, database) = shown.rsplit_once('/').unwrap();
    let newer = SCHEMA_VERSION + 1;
    let sql = format!("INSERT INTO abide.migration (version, name) VALUES ({newer}, 'to come')");
    PrivatePostgres::shared().unwrap().sql(database, &sql);
    let is_newer = |error: StoreError| matches!(error, StoreError::NewerVersion { .. });
    assert!(PostgresStore::init(&url, PostgresOptions::default()).is_err_and(is_newer));
    assert!(PostgresStore::open(&url, PostgresOptions::default()).is_err_and(is_newer));
}
