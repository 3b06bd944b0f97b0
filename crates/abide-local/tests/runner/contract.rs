//! The contract, run on real files and on the simulated disk.

use std::path::PathBuf;
use std::sync::Arc;

use abide_local::{LocalOptions, LocalStore, Upkeep};
use abide_model::Store;
use abide_testkit::SimDisk;
use abide_testkit::contract::{PARTS, Subject};

struct Files(tempfile::TempDir);

impl Subject for Files {
    fn open_for(&self, projects: &[&str]) -> Arc<dyn Store> {
        let options = LocalOptions { projects: owned(projects), ..LocalOptions::default() };
        Arc::new(LocalStore::init(&self.0.path().join(".abide"), options).unwrap())
    }
}

fn owned(projects: &[&str]) -> Vec<String> {
    projects.iter().map(ToString::to_string).collect()
}

struct Simulated(SimDisk);

impl Subject for Simulated {
    fn open_for(&self, projects: &[&str]) -> Arc<dyn Store> {
        let (storage, projects) = (Arc::new(self.0.clone()), owned(projects));
        let options =
            LocalOptions { storage, upkeep: Upkeep::ByHand, projects, ..LocalOptions::default() };
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
