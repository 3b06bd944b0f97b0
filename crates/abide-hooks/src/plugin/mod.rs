//! Plugins of abide in agents: put in, looked at, taken out. What a plugin consists of is known by
//! `abide-agents`; nothing here names an agent.
//!
//! Everything can be repeated. What is killed in the middle is finished by the same command, or undone by
//! the other: a [record](plugin_record) is written before the first change and removed after the last.
//! Nothing is ever restored from a copy: what others write meanwhile stays.

mod agent_condition;
mod agent_program;
mod agent_version;
mod json_member;
mod plugin_checks;
mod plugin_error;
mod plugin_host;
mod plugin_lock;
mod plugin_plan;
mod plugin_record;
mod settings_file;
mod settings_place;
mod toml_table;
mod trust_dialog;

pub use self::agent_condition::{AgentCondition, PluginState, TrustState};
pub use self::plugin_error::PluginError;
pub use self::plugin_host::PluginHost;
pub use self::plugin_plan::{PluginPlan, PluginStep};
