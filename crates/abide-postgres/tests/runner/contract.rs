//! The contract of every store, on PostgreSQL.

use std::sync::Arc;

use abide_model::Store;
use abide_postgres::{Options, ServerUrl};
use abide_testkit::contract::{PARTS, Subject};

use crate::support::{database, store};

struct Database(ServerUrl);

impl Subject for Database {
    fn open_for(&self, projects: &[&str]) -> Arc<dyn Store> {
        let projects = projects.iter().map(ToString::to_string).collect();
        store(&self.0, Options { projects, ..Options::default() })
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
