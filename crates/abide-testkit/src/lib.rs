//! What tries to break abide: a simulated disk that loses what was not synced and fails on
//! demand, a contract that every store must keep, an in-memory store to run it on, and a stubbed
//! model that answers by a script and misbehaves on demand.
//!
//! Everything is seeded: the same seed gives the same run.

pub mod contract;
mod history;
mod memory;
mod random;
mod sim;
pub mod stub_model;

pub use history::plain_history;
pub use memory::MemoryStore;
pub use random::Random;
pub use sim::{Fault, FaultKind, Lasting, Moment, SimDisk};
