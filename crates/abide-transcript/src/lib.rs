//! Renders a session for people to read.
//!
//! A session's events become either a transcript, which reads well and parses back into the same
//! events ([`TranscriptWriter`], [`parse`]), or a rendering for people alone: text, Markdown or
//! HTML. Everything here is pure: events in, text out, in memory that does not grow with the
//! session. Recorded text is never trusted: it is shown, and never interpreted by a terminal, a
//! browser or a Markdown viewer.

mod acp_update;
mod block_reader;
mod call_view;
mod chunk;
mod columns;
pub mod escape;
mod escape_dialect;
mod event_sentence;
mod highlight;
mod highlight_rules;
mod html;
mod html_prose;
mod markdown;
mod note;
mod outline;
mod place_tracker;
mod prose;
mod prose_parser;
mod rendering;
mod resume;
mod safe_markdown;
mod session_overview;
mod short;
mod target;
mod terminal_prose;
#[cfg(test)]
mod tests;
mod text_renderer;
mod tidy;
mod timeline_builder;
mod timeline_entry;
mod transcript_entry;
mod transcript_parser;
mod transcript_writer;
mod visible;

pub use abide_model::{DurationError, format_duration, parse_duration, parse_duration_or_seconds};
pub use event_sentence::EventSentences;
pub use html::{HtmlRenderer, TextFilter};
pub use markdown::MarkdownRenderer;
pub use place_tracker::{EventPlace, PlaceTracker};
pub use rendering::TimelineRenderer;
pub use resume::ResumePoint;
pub use session_overview::{FileChange, SessionOverview, TaskSummary, TurnSummary};
pub use text_renderer::{TextDetail, TextRenderer, TextStyle, TimeFormatter};
pub use timeline_builder::TimelineBuilder;
pub use timeline_entry::{
    CallChange, CallField, CallOutcome, CallOutput, EntryBody, EntryPart, NoteWeight, TimelineCall,
    TimelineEntry, TimelineImage,
};
pub use transcript_parser::{ParseError, ParseReason, TranscriptChunks, parse};
pub use transcript_writer::TranscriptWriter;
