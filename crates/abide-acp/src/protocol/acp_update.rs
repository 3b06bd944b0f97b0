//! Session updates.

use serde_json::{Map, Value};

use super::block::{has_block, has_text};
use super::tool::AcpToolStatus;

/// The kind of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpdateKind {
    /// A piece of a message or a thought.
    Chunk,
    ToolCall,
    ToolCallUpdate,
    Plan,
    AvailableCommands,
    CurrentMode,
    ConfigOptions,
    SessionInfo,
    Usage,
    Notice,
    /// Compactions, subagents and their messages.
    Other,
}

/// An update that has every member its kind requires.
#[derive(Debug)]
pub(crate) struct AcpUpdate {
    kind: UpdateKind,
    members: Map<String, Value>,
}

/// An entry of a plan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PlanUpdateEntry<'a> {
    pub(crate) content: &'a str,
    pub(crate) priority: Priority,
    pub(crate) status: EntryStatus,
}

/// The priority of an entry of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    High,
    Medium,
    Low,
}

/// The status of an entry of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryStatus {
    Pending,
    InProgress,
    Completed,
}

impl AcpUpdate {
    /// Parses the `update` of a `session/update`; `None` if it is not an update of the protocol.
    pub(crate) fn read(json: &str) -> Option<Self> {
        let members: Map<String, Value> = serde_json::from_str(json).ok()?;
        let kind = update_kind(&members)?;
        Some(Self { kind, members })
    }

    pub(crate) fn kind(&self) -> UpdateKind {
        self.kind
    }

    /// All of its members.
    pub(crate) fn members(&self) -> &Map<String, Value> {
        &self.members
    }

    /// The string in a member; `None` if it is absent or not a string.
    pub(crate) fn text(&self, member: &str) -> Option<&str> {
        self.members.get(member)?.as_str()
    }

    /// The whole number in a member; `None` if it is absent or something else.
    pub(crate) fn number(&self, member: &str) -> Option<u64> {
        self.members.get(member)?.as_u64()
    }

    /// The status of the tool call, if the update has one.
    pub(crate) fn status(&self) -> Option<AcpToolStatus> {
        AcpToolStatus::read(self.text("status")?)
    }

    /// The entries of a plan; invalid ones are skipped.
    pub(crate) fn entries(&self) -> impl Iterator<Item = PlanUpdateEntry<'_>> {
        let entries = self.members.get("entries").and_then(Value::as_array);
        entries.into_iter().flatten().filter_map(PlanUpdateEntry::read)
    }
}

impl<'a> PlanUpdateEntry<'a> {
    fn read(entry: &'a Value) -> Option<Self> {
        let text = |member| entry.get(member).and_then(Value::as_str);
        let priority = match text("priority")? {
            "high" => Priority::High,
            "medium" => Priority::Medium,
            "low" => Priority::Low,
            _ => return None,
        };
        let status = match text("status")? {
            "pending" => EntryStatus::Pending,
            "in_progress" => EntryStatus::InProgress,
            "completed" => EntryStatus::Completed,
            _ => return None,
        };
        Some(Self { content: text("content")?, priority, status })
    }
}

/// The kind of update that these members make.
fn update_kind(members: &Map<String, Value>) -> Option<UpdateKind> {
    let there = |member| members.contains_key(member);
    let text = |member| has_text(members, member);
    let number = |member| members.get(member).is_some_and(Value::is_u64);
    let block = || members.get("content").and_then(Value::as_object).is_some_and(has_block);
    let (kind, whole) = match members.get("sessionUpdate")?.as_str()? {
        "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
            (UpdateKind::Chunk, block())
        }
        "tool_call" => (UpdateKind::ToolCall, text("toolCallId") && text("title")),
        "tool_call_update" => (UpdateKind::ToolCallUpdate, text("toolCallId")),
        "plan" => (UpdateKind::Plan, there("entries")),
        "available_commands_update" => (UpdateKind::AvailableCommands, there("availableCommands")),
        "current_mode_update" => (UpdateKind::CurrentMode, text("currentModeId")),
        "config_option_update" => (UpdateKind::ConfigOptions, there("configOptions")),
        "session_info_update" => (UpdateKind::SessionInfo, true),
        "usage_update" => (UpdateKind::Usage, number("used") && number("size")),
        "notice" => (UpdateKind::Notice, text("severity") && text("title")),
        "compaction_update" => (UpdateKind::Other, text("compactionId") && text("status")),
        "compaction_summary_chunk" => (UpdateKind::Other, text("compactionId") && block()),
        "subagent_update" => {
            (UpdateKind::Other, text("sessionId") && update_has_directories(members))
        }
        "session_message" => (UpdateKind::Other, text("messageId")),
        "session_message_chunk" => (UpdateKind::Other, text("messageId") && block()),
        _ => return None,
    };
    whole.then_some(kind)
}

/// A subagent's directories may be absent or null; otherwise they must be paths.
fn update_has_directories(members: &Map<String, Value>) -> bool {
    let open = |member| members.get(member).is_none_or(Value::is_null);
    let paths =
        |value: &Value| value.as_array().is_some_and(|paths| paths.iter().all(Value::is_string));
    (open("cwd") || has_text(members, "cwd"))
        && (open("additionalDirectories")
            || members.get("additionalDirectories").is_some_and(paths))
}
