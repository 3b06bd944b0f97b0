//! What any agent prints, as it is printed: lines, events, text. Names no agent.

mod clip;
mod lines;
pub(crate) mod message;
mod observed;
mod plain;
mod reader;
mod spent;
pub(crate) mod step;

pub use observed::{ObservedFact, OutputObservation, ReachedLimit};
pub use reader::{AgentReader, PriorSession};

pub(crate) use observed::{note_observed, tell_observed};
pub(crate) use plain::EscapeStripper;
pub(crate) use reader::{EventDecoder, OutputReader};
pub(crate) use spent::{spent_includes, spent_since};
