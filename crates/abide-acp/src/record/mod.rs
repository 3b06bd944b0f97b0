//! Translates messages between client and agent into events of a session.
//!
//! A [`Translator`] is pure: it is given the messages of one session and returns the events that
//! record them. The caller writes the events, before or after it forwards the message. No message
//! makes it fail, and its memory is bounded.

mod bounded_map;
mod chunk_block;
mod file;
mod held_updates;
mod lane;
mod name;
mod permission;
mod plan_tasks;
mod prompt;
mod record_batch;
mod redacted_text;
mod replaced_text;
mod request;
mod settings;
mod streamed_text;
mod terminal;
#[cfg(test)]
mod tests;
mod tracked_calls;
mod translator;
mod update;

use abide::NewEvent;

pub use lane::subagent_lane;
pub use translator::Translator;

pub(crate) use name::recorded_name;
pub(crate) use record_batch::{CONFIGURED, UPDATE};
pub(crate) use settings::setting_values;
pub(crate) use update::{UpdateHead, UpdateParams, parse_update_object};

/// When events must be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum RecordDurability {
    /// Not before the message is forwarded. They are handed to the operating system before that, so
    /// that only a power cut loses them.
    #[default]
    Behind,
    /// Before the message is forwarded.
    Before,
}

/// The events that record a message; often none.
#[derive(Debug, Default)]
pub struct RecordedEvents {
    /// In order.
    pub events: Vec<NewEvent>,
    /// When they must be durable.
    pub weight: RecordDurability,
}
