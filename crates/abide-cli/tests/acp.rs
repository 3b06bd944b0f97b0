//! `abide acp`, with both ends in hand: a client that keeps every line, and an agent that does what
//! the prompt says.

mod artifacts;
mod checkpoints;
mod command;
mod compaction;
mod faults;
mod kill;
mod lab;
mod loading;
mod order;
mod redaction;
mod sessions;
mod store;
mod story;
mod wire;

pub(crate) use lab::stub_agent;
