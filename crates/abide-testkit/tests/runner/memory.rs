//! The contract, run on the in-memory store.

use std::sync::Arc;

use abide_model::Store;
use abide_testkit::MemoryStore;
use abide_testkit::contract::{PARTS, Subject};

struct Memory(MemoryStore);

impl Subject for Memory {
    fn open_for(&self, projects: &[&str]) -> Arc<dyn Store> {
        Arc::new(self.0.for_projects(projects.iter().map(ToString::to_string).collect()))
    }
}

#[test]
fn the_contract_holds_in_memory() {
    for (name, part) in PARTS {
        println!("{name}");
        part(&Memory(MemoryStore::default()));
    }
}
