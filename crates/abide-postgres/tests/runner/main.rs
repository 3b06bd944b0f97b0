//! The store on a real PostgreSQL server. Where there is none, the tests say that they were skipped.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

mod backup;
mod bundle;
mod cleaning;
mod closing;
mod collection;
mod contract;
mod erasing;
mod erasure;
mod faults;
mod history;
mod lease;
mod notify;
mod password;
mod repairing;
mod roles;
mod starting;
mod support;
mod tls;
