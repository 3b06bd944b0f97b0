//! What any agent prints, as it is printed: lines, events, text. Names no agent.

mod clip;
mod lines;
pub(crate) mod message;
mod observed;
mod plain;
mod reader;
mod spent;
pub(crate) mod step;

pub use observed::{Limited, Observed, Seen};
pub use reader::{AgentReader, Before};

pub(crate) use observed::{note, tell};
pub(crate) use plain::Plain;
pub(crate) use reader::{Events, OutputReader};
pub(crate) use spent::{includes, since};
