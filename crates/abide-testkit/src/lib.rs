//! What tries to break abide: a simulated disk that loses what was not synced and fails on
//! demand, a contract that every store must keep, and an in-memory store to run it on.
//!
//! Everything is seeded: the same seed gives the same run.

pub mod contract;
mod history;
mod memory;
mod random;
mod sim;

pub use history::plain_history;
pub use memory::MemoryStore;
pub use random::Random;
pub use sim::{Fault, FaultKind, Lasting, Moment, SimDisk};
