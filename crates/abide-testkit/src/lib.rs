//! What tries to break abide: a simulated disk that loses what was not synced and fails on
//! demand, a contract that every store must keep, an in-memory store to run it on, a stubbed model
//! that answers by a script and misbehaves on demand, and a stubbed agent that does so too, with a
//! client that talks to it, a PostgreSQL server of one's own, one that is after passwords, and a bad
//! network.
//!
//! Everything is seeded: the same seed gives the same run.

mod acp_client;
pub mod contract;
mod cut_proxy;
mod fault_run;
mod history;
mod memory;
mod password_thief;
mod postgres;
mod random;
mod sim;
pub mod stub_agent;
pub mod stub_model;

pub use abide_model::block_on;
pub use acp_client::{AcpClient, Answering};
pub use cut_proxy::{CutProxy, Direction};
pub use fault_run::{FaultRun, FaultSize};
pub use history::{plain_history, plain_usage};
pub use memory::MemoryStore;
pub use password_thief::PasswordThief;
pub use postgres::{
    Fsync, NotAvailable, PostgresServer, PostgresSettings, PrivatePostgres, ServerTls,
};
pub use random::Random;
pub use sim::{Fault, FaultKind, Lasting, Moment, SimDisk};
