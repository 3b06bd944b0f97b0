//! One binary for the tests of the local store.
//!
//! The runs on the simulated disk have two sizes: a small one for every build, and with
//! `ABIDE_FAULTS=full` the one that `scripts/faults` runs, whose counts are checked.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

mod bundle;
mod contract;
mod damage;
mod erase;
mod faults;
mod fence;
mod golden;
mod index;
mod power;
mod retention;
mod review;
mod run;
mod size;
mod transcript;
