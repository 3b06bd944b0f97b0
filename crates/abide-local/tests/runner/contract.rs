//! The contract, run on real files and on the simulated disk.

use std::path::PathBuf;
use std::sync::Arc;

use abide_local::{LocalStore, Options, Upkeep};
use abide_model::Store;
use abide_testkit::SimDisk;
use abide_testkit::contract::{PARTS, Subject};

struct Files(tempfile::TempDir);

impl Subject for Files {
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(LocalStore::init(&self.0.path().join(".abide"), Options::default()).unwrap())
    }
}

struct Simulated(SimDisk);

impl Subject for Simulated {
    fn open(&self) -> Arc<dyn Store> {
        let storage = Arc::new(self.0.clone());
        let options = Options { storage, upkeep: Upkeep::ByHand, ..Options::default() };
        Arc::new(LocalStore::init(&PathBuf::from("/sim/.abide"), options).unwrap())
    }
}

#[test]
fn the_contract_holds_on_files() {
    for (name, part) in PARTS {
        println!("{name}");
        part(&Files(tempfile::tempdir().unwrap()));
    }
}

#[test]
fn the_contract_holds_on_the_simulated_disk() {
    for (name, part) in PARTS {
        println!("{name}");
        part(&Simulated(SimDisk::new(&PathBuf::from("/sim"))));
    }
}
