//! One binary for the tests of the local store.
//!
//! The runs on the simulated disk have the sizes of `FaultRun`, and check their counts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

mod bundle;
mod checkpoints;
mod contract;
mod damage;
mod deletion;
mod erase;
mod faults;
mod fence;
mod filling;
mod fork;
mod golden;
mod index;
mod liveness;
mod many;
mod meanwhile;
mod power;
mod projects;
mod relay;
mod repair;
mod retention;
mod review;
mod run;
mod sealing;
mod transcript;

/// The directories of the sessions of a store.
fn session_dirs(root: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(root.join("sessions")).unwrap();
    entries.map(|entry| entry.unwrap().path()).filter(|path| !path.ends_with(".git")).collect()
}

/// The store with the setting that keeps transcripts.
fn with_transcripts(store: abide_local::LocalStore) -> abide_local::LocalStore {
    let mut config = store.config().clone();
    config.transcript = abide_local::TranscriptPolicy::Live;
    store.with_config(config)
}
