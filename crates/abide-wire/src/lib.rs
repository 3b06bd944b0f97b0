//! Messages in the forms of the model APIs: OpenAI's Chat Completions and Responses, and
//! Anthropic's Messages. Pure: no I/O.
//!
//! A message is recorded in the form it came in and exports to the same bytes. [`read`] parses a
//! recorded message of any form, [`export`] converts it to another form, and [`render`] turns a
//! whole context into an API request. [`stream`] parses answers as they arrive.
//!
//! ```
//! use abide_wire::{MessageForm, export, record};
//! use abide_model::{EventLimits, Payload};
//!
//! let line = r#"{"role":"tool","tool_call_id":"c1","content":"3 passed"}"#;
//! let data = Payload::new(&record(MessageForm::OpenAi, line)?, &EventLimits::default())?;
//! assert_eq!(export(MessageForm::OpenAi, &data)?[0].get(), line);
//! assert_eq!(
//!     export(MessageForm::Anthropic, &data)?[0].get(),
//!     r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"3 passed"}]}]}"#,
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod export;
mod read_message;
mod record;
mod render;
pub mod stream;
mod write;

pub use export::{export, export_called, export_finished};
pub use read_message::{
    CallResult, Image, MessagePart, ReadMessage, RequestedCall, read, read_call,
};
pub use record::{WireError, record};
pub use render::{RenderedContext, render};

pub use abide_model::{MessageForm, json};
