//! The contract of every store, on PostgreSQL.

use std::sync::Arc;

use abide_model::Store;
use abide_postgres::{Options, ServerUrl};
use abide_testkit::contract::{PARTS, Subject};

use crate::support::{database, store};

struct Database(ServerUrl);

impl Subject for Database {
    fn open(&self) -> Arc<dyn Store> {
        store(&self.0, Options::default())
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
