//! A recorded session as the updates that show it to a client.
//!
//! A [`Replay`] turns events into updates, and a [`Check`] compares them with an agent's own
//! replay. Both are pure, and no recorded event makes them fail.

mod call;
mod check;
mod message;
#[cfg(test)]
mod property;
mod replayer;
#[cfg(test)]
mod tests;

pub use check::{Check, Checked};
pub use replayer::Replay;

/// An update to send to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// The JSON of the `update` of a `session/update`.
    pub update: String,
}
