//! The contract of every store, on PostgreSQL.

use std::sync::Arc;

use abide_model::Store;
use abide_postgres::{PostgresOptions, ServerUrl};
use abide_testkit::contract::{PARTS, Subject};

use crate::support::{database, new_session, say, store};

struct Database(ServerUrl);

impl Subject for Database {
    fn open_for(&self, projects: &[&str]) -> Arc<dyn Store> {
        let projects = projects.iter().map(ToString::to_string).collect();
        store(&self.0, PostgresOptions { projects, ..PostgresOptions::default() })
    }
}

#[test]
fn the_contract_holds_on_postgres() {
    for (name, part) in PARTS {
        let Some(url) = database() else { return };
        println!("{name}");
        part(&Database(url));
    }
}

/// Not even one that has used up the polls that its runtime grants it at a time.
#[test]
fn no_task_of_a_runtime_blocks_on_the_store_for_ever() {
    let Some(url) = database() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let working = runtime.spawn(async move {
        while tokio::task::coop::has_budget_remaining() {
            tokio::task::coop::consume_budget().await;
        }
        let store = store(&url, PostgresOptions::default());
        let (id, writer) = new_session(&*store);
        let reader = store.read(id).unwrap();
        for _ in 0..200 {
            let seq = say(&*writer, "more").unwrap();
            assert_eq!(reader.acknowledged().unwrap().0, seq);
        }
        writer.close().unwrap();
    });
    runtime.block_on(working).unwrap();
}
