//! A session for human eyes.
//!
//! Two things are made of a session's events: the transcript, which reads well and from which the
//! same events are read back ([`TranscriptWriter`], [`parse`]), and renderings for people alone.
//! All of it is pure: events in, text out, in memory that does not grow with the session. Nothing
//! recorded is trusted: whatever it says, it is shown and never acts.

mod chunk;
mod dialect;
mod entry;
pub mod escape;
mod outline;
mod parser;
mod place;
mod resume;
mod short;
mod target;
#[cfg(test)]
mod tests;
mod visible;
mod writer;

pub use parser::{Chunks, ParseError, ParseReason, parse};
pub use place::{Place, Places};
pub use resume::ResumePoint;
pub use writer::TranscriptWriter;
