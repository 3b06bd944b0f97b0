//! Parses streamed answers of models, in chunks of any size.
//!
//! Feed an [`AnswerParser`] the bytes of a streamed answer as they arrive, split anywhere. It
//! reports each piece ([`StreamDelta`]) and each complete block ([`StreamedBlock`]), in the API's own form, so
//! that the block can be recorded at once. When the stream ends or is cut off,
//! [`AnswerParser::finish`] returns what was unfinished.
//!
//! A stream may hold several answers. For a caller that splits the stream into events itself,
//! [`begins_answer`], [`AnswerParser::is_next`] and [`ends_answer`] tell where one begins and ends.
//!
//! The output does not depend on where the bytes were split. Memory is bounded by
//! [`StreamLimits`]. Unknown events and fields are ignored.
//!
//! ```
//! use abide_wire::MessageForm;
//! use abide_wire::stream::{AnswerParser, StreamDelta};
//!
//! let mut parser = AnswerParser::new(MessageForm::OpenAi);
//! let mut said = String::new();
//! for bytes in [
//!     &b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel"[..],
//!     &b"lo\"}}]}\n\n"[..],
//! ] {
//!     parser.feed(bytes, &mut |delta| {
//!         if let StreamDelta::Text(text) = delta {
//!             said.push_str(text);
//!         }
//!     })?;
//! }
//! assert_eq!(said, "Hello");
//! let ended = parser.finish();
//! assert!(!ended.complete);
//! assert_eq!(ended.partial[0].data, r#"{"role":"assistant","content":"Hello"}"#);
//! # Ok::<(), abide_wire::stream::StreamError>(())
//! ```

mod answer_parser;
mod answer_usage;
mod anthropic;
mod arguments;
mod block;
mod chat;
mod error;
mod field;
mod growing_object;
mod limits;
mod responses;
mod sequence;
mod sse_event_reader;
mod stream_budget;

#[cfg(test)]
mod tests;

pub use answer_parser::AnswerParser;
pub use block::{StreamDelta, StreamEnd, StreamedBlock, StreamedCall};
pub use error::StreamError;
pub use limits::limits;
pub use sequence::{begins_answer, ends_answer, is_silent, opens_answer};
pub use stream_budget::StreamLimits;
