//! What any agent prints, as it is printed: lines, events, text. Names no agent.

mod clip;
mod line_splitter;
pub(crate) mod message;
mod observed;
mod output_reader;
mod plain;
mod spent;
pub(crate) mod step;

pub use observed::{ObservedFact, OutputObservation, ReachedLimit};
pub use output_reader::{AgentReader, PriorSession};

pub(crate) use observed::{note_observed, tell_observed};
pub(crate) use output_reader::{EventOutputDecoder, OutputReader};
pub(crate) use plain::EscapeStripper;
pub(crate) use spent::{spent_includes, spent_micros, spent_since};
