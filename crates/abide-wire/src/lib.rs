//! The forms in which the APIs of models take and give messages: OpenAI's Chat Completions and
//! Responses, and Anthropic's Messages. Pure: no I/O.
//!
//! A message is recorded as it came, so that what went in comes out equal. [`read`] says what such
//! a message holds, whatever its form. [`export`] gives it in any form, and [`render`] makes a whole
//! context into what an API takes. A [`stream`] is an answer as it comes.
//!
//! ```
//! use abide_wire::{MessageForm, export, record};
//! use abide_model::{Limits, Payload};
//!
//! let line = r#"{"role":"tool","tool_call_id":"c1","content":"3 passed"}"#;
//! let data = Payload::new(&record(MessageForm::OpenAi, line)?, &Limits::default())?;
//! assert_eq!(export(MessageForm::OpenAi, &data)?[0].get(), line);
//! assert_eq!(
//!     export(MessageForm::Anthropic, &data)?[0].get(),
//!     r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"3 passed"}]}]}"#,
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod export;
mod forms;
pub mod json;
mod message;
mod piece;
mod record;
mod render;
pub mod stream;
mod write;

pub use export::{export, export_called, export_finished};
pub use message::{Call, CallResult, Image, Part, Said, read, read_call};
pub use record::{WireError, record};
pub use render::{Rendered, render};

pub use abide_model::MessageForm;
