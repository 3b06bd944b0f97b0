//! The forms in which the APIs of models take and give messages: OpenAI's Chat Completions and
//! Responses, and Anthropic's Messages. Pure: no I/O.
//!
//! A message is recorded as it came, so that what went in comes out equal. [`read`] says what such
//! a message holds, whatever its form. A [`stream`] is an answer as it comes.

mod message;
pub mod stream;

pub use message::{Call, CallResult, Image, Part, Said, read};

pub use abide_model::MessageForm;
