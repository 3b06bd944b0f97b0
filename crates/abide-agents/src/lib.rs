//! What agents print, read as they print it, and all else that is known of each. Pure: no I/O, no
//! clock.
//!
//! Feed an [`AgentReader`] the output of Claude Code, Codex, Gemini CLI, opencode or any other
//! command, split anywhere, and it reports its observations ([`ObservedFact`]). Output it does not
//! understand is skipped, never an error: agents mix plain lines and new event types into their
//! output. Memory is bounded, whatever the input.
//!
//! Each agent has a folder, with its profile in `mod.rs`, and a line in the table of `profiles.rs`.
//! Nothing outside of these folders names an agent, here or in any other crate, but for what `tests/rooms.rs` lists.
//!
//! ```
//! use abide_agents::{AgentKind, AgentReader, ObservedFact};
//! use abide_model::Timestamp;
//!
//! let command = ["codex", "exec", "--json", "-"].map(str::to_owned);
//! let kind = AgentKind::detect(&command);
//! assert_eq!(kind.as_str(), "codex");
//!
//! let mut reader = AgentReader::new(kind);
//! let mut session = None;
//! let line = b"{\"type\":\"thread.started\",\"thread_id\":\"0199\"}\n";
//! reader.feed(line, Timestamp::from_millis(0), &mut |seen| {
//!     if let ObservedFact::Session { id } = seen.what {
//!         session = Some(id);
//!     }
//! });
//! let again = kind.resume(&command, session.as_deref().unwrap_or_default());
//! assert_eq!(again.unwrap().join(" "), "codex exec --json resume 0199 -");
//! ```

mod aider;
mod claude;
mod codex;
mod command;
mod gemini;
mod opencode;

mod agent_kind;
mod hooks;
mod invocation;
mod kept;
mod limits;
mod output;
mod profile;
mod profiles;

pub use agent_kind::{AgentKind, UnknownAgent};
pub use hooks::plugin::{
    AgentPlugin, HookApproval, HookTrust, PluginFile, PluginMark, PluginParts, PluginPlace,
    PluginRemoval, PluginSign, PluginSite,
};
pub use hooks::{AgentHooks, HookReport, HookStep, TurnEnding};
pub use invocation::{PromptInput, PromptSlot};
pub use kept::{
    KeptContent, KeptDirectory, KeptFile, KeptForm, KeptSessions, KeptWorkspace, OpaqueReader,
    ReadRecord, RecordMessage, RecordReader, RecordText, RewindPlace, SessionDetails,
};
pub use limits::limit_in;
pub use output::{AgentReader, ObservedFact, OutputObservation, PriorSession, ReachedLimit};

#[cfg(test)]
mod tests;
