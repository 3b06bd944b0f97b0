//! A recorded session as the updates that show it to a client.
//!
//! A [`Replay`] makes updates of events, and a [`Check`] compares them with what an agent replays
//! itself. Both are pure, and nothing that is recorded makes them fail.

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

/// An update to be sent to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// The JSON of the `update` of a `session/update`.
    pub update: String,
}
