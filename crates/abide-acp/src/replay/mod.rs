//! A recorded session as the updates that show it to a client.
//!
//! A [`Replayer`] turns events into updates, and a [`ReplayCheck`] compares them with an agent's own
//! replay. Both are pure, and no recorded event makes them fail.

mod call;
mod message_chunk;
#[cfg(test)]
mod property;
mod replay_check;
mod replayer;
#[cfg(test)]
mod tests;

pub use replay_check::{ReplayCheck, ReplayCheckReport};
pub use replayer::Replayer;

/// An update to send to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedUpdate {
    /// The JSON of the `update` of a `session/update`.
    pub update: String,
}
