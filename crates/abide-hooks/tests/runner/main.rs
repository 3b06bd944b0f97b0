//! What hooks tell and how it is recorded, in one binary: real files, and processes that are ended.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    missing_docs
)]

mod files;
mod hooked_agent;
mod inbox;
mod mutated_payload;
mod mutations;
mod repeats;
mod transcript;
mod turns;
