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
mod html;
mod item;
mod markdown;
mod note;
mod outline;
mod parser;
mod place;
mod readable;
mod rendering;
mod resume;
mod said;
mod short;
mod story;
mod summary;
mod target;
#[cfg(test)]
mod tests;
mod text;
mod visible;
mod writer;

pub use html::Html;
pub use item::{Call, Item, Outcome, Part, Weight, What};
pub use markdown::Markdown;
pub use parser::{Chunks, ParseError, ParseReason, parse};
pub use place::{Place, Places};
pub use rendering::Rendering;
pub use resume::ResumePoint;
pub use story::Story;
pub use summary::{Summary, TaskSummary, TurnSummary};
pub use text::{Clock, Style, Text};
pub use writer::TranscriptWriter;
