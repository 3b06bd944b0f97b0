//! The tests of imports, in one binary.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    missing_docs
)]

mod agent_home;
mod recovery;
mod sources;
