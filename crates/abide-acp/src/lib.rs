//! Durable sessions for every editor and agent that speaks the Agent Client Protocol (ACP).
//!
//! A proxy sits between a client and an agent. It forwards messages byte for byte, and records what
//! matters in a store before it forwards it. It answers from the store what the agent cannot do
//! itself: loading, listing, resuming, deleting, closing and forking sessions.
//!
//! The feature `sdk`, off by default, adds `Proxy`: the same proxy as a component of the SDK
//! `agent-client-protocol`, for use in a chain of proxies.

mod abilities;
mod acp_recorder;
mod agent_process;
mod catalog;
#[cfg(feature = "sdk")]
mod chain;
mod deadlines;
mod error;
mod line_worker;
mod live_session;
mod member_splice;
mod options;
mod pending_request;
mod port;
mod protocol;
#[cfg(feature = "sdk")]
mod proxy_component;
mod record;
#[cfg(test)]
mod recorded_session;
mod replay;
mod rpc_message;
mod stdio;
mod switch;

pub use catalog::{Catalog, CatalogError, SessionPage, session_key};
pub use error::ProxyError;
pub use options::{CheckpointSchedule, ProxyOptions, StoreConnector, StoreOptions};
pub use protocol::SessionInfo;
#[cfg(feature = "sdk")]
pub use proxy_component::Proxy;
pub use record::{RecordDurability, RecordedEvents, Translator, subagent_lane};
pub use replay::{ReplayCheck, ReplayCheckReport, ReplayedUpdate, Replayer};
pub use stdio::run_stdio;
