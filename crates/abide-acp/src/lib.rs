//! Durable sessions for every editor and agent that speaks the Agent Client Protocol (ACP).
//!
//! A proxy sits between a client and an agent. It forwards messages byte for byte, and records what
//! matters in a store before it forwards it. It answers from the store what the agent cannot do
//! itself: loading, listing, resuming, deleting, closing and forking sessions.
//!
//! The feature `sdk`, off by default, adds `Proxy`: the same proxy as a component of the SDK
//! `agent-client-protocol`, for use in a chain of proxies.

mod abilities;
mod agent;
mod catalog;
#[cfg(feature = "sdk")]
mod chain;
#[cfg(feature = "sdk")]
mod component;
mod deadlines;
mod error;
mod live;
mod message;
mod options;
mod pending;
mod port;
mod protocol;
mod record;
#[cfg(test)]
mod recorded_session;
mod recorder;
mod replay;
mod splice;
mod stdio;
mod switch;
mod worker;

pub use catalog::{Catalog, CatalogError, SessionPage, session_key};
#[cfg(feature = "sdk")]
pub use component::Proxy;
pub use error::ProxyError;
pub use options::{CheckpointSchedule, ProxyOptions, StoreConnector, StoreOptions};
pub use protocol::SessionInfo;
pub use record::{RecordDurability, RecordedEvents, Translator, subagent_lane, title_of_prompt};
pub use replay::{ReplayCheck, ReplayCheckReport, ReplayedUpdate, Replayer};
pub use stdio::run_stdio;
