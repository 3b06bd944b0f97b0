//! What passes between client and agent, as events of a session.
//!
//! A [`Translator`] is pure: it is told what passes in one session, and gives the events that
//! record it. Whoever drives it writes them, before or behind the message that they record.
//! Nothing that passes makes it fail, and what it remembers is bounded.

mod batch;
mod block;
mod call;
mod file;
mod lane;
mod name;
mod permission;
mod plan;
mod prompt;
mod remembered;
mod request;
mod settings;
mod terminal;
#[cfg(test)]
mod tests;
mod translator;
mod update;

use abide::NewEvent;

pub use lane::subagent;
pub use prompt::title_of_prompt;
pub use translator::Translator;

pub(crate) use batch::{CONFIGURED, UPDATE};
pub(crate) use name::name;
pub(crate) use settings::values;
pub(crate) use update::{Head, Params, object};

/// When events must be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Weight {
    /// They need not be: handed to the system they are before the message is passed on, so that
    /// only a power cut takes them along.
    #[default]
    Behind,
    /// Before the message is passed on.
    Before,
}

/// The events that a message calls for; often none.
#[derive(Debug, Default)]
pub struct Recorded {
    /// In order.
    pub events: Vec<NewEvent>,
    /// When they must be durable.
    pub weight: Weight,
}
