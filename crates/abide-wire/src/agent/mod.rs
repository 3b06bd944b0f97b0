//! What agents print, read as they print it. Pure: no I/O, no clock.
//!
//! An [`AgentReader`] takes the output of Claude Code, Codex, Gemini CLI or of any other command,
//! cut anywhere, and tells what it [`Observed`]. What is not understood is passed over, never an
//! end: agents mix plain lines and new sorts of events into what they print. Memory is bounded
//! whatever comes.
//!
//! ```
//! use abide_model::Timestamp;
//! use abide_wire::agent::{AgentKind, AgentReader, Observed};
//!
//! let command = ["codex", "exec", "--json", "-"].map(str::to_owned);
//! let kind = AgentKind::detect(&command);
//! assert_eq!(kind, AgentKind::Codex);
//!
//! let mut reader = AgentReader::new(kind);
//! let mut session = None;
//! let line = b"{\"type\":\"thread.started\",\"thread_id\":\"0199\"}\n";
//! reader.feed(line, Timestamp::from_millis(0), &mut |seen| {
//!     if let Observed::Session { id } = seen.what {
//!         session = Some(id);
//!     }
//! });
//! let again = kind.resume(&command, session.as_deref().unwrap_or_default());
//! assert_eq!(again.unwrap().join(" "), "codex exec --json resume 0199 -");
//! ```

mod claude;
mod clip;
mod codex;
mod command;
mod gemini;
mod kind;
mod limit;
mod lines;
mod message;
mod observed;
mod plain;
mod reader;
mod spent;
mod step;
mod text;
mod when;

pub use kind::{AgentKind, UnknownAgent};
pub use limit::limit_in;
pub use observed::{Limited, Observed, Seen};
pub use reader::{AgentReader, Before};

#[cfg(test)]
mod tests;
