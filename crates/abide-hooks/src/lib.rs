//! Puts abide into the hooks of agents, and records what they tell while they work.
//!
//! A hook lands its report in the [`HookInbox`] of the store, which is durable at once, and leaves the rest to a
//! process that nobody waits for. [`HookRecorder`] drains the reports into the session: turns, what the
//! agent's own file holds by now, and checkpoints of the files.

mod asking_process;
mod error;
mod hook_inbox;
mod hook_recorder;
mod hook_trace;
mod last_heard;
mod live_state;
mod plugin;
mod step_recording;

pub use abide_agents::HookStep;
pub use asking_process::is_below;
pub use error::HooksError;
pub use hook_inbox::{HookInbox, LandedHook, LandedReport, SessionInbox, read_landed};
pub use hook_recorder::{HookRecorder, OwnReport};
pub use hook_trace::HookTrace;
pub use last_heard::last_heard;
pub use plugin::{
    AgentCondition, PluginError, PluginHost, PluginPlan, PluginState, PluginStep, TrustState,
};
