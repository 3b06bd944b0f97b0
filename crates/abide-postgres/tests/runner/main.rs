//! The store on a real PostgreSQL server. Where there is none, the tests say that they were skipped.

mod contract;
mod faults;
mod lease;
mod notify;
mod roles;
mod support;
