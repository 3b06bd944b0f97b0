//! The contract of every store, on PostgreSQL.

use std::sync::Arc;

use abide_model::Store;
use abide_postgres::{PostgresOptions, ServerUrl};
use abide_testkit::contract::{PARTS, Subject};

use crate::support::{database, store};

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
