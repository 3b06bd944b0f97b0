//! Reads the payloads of the hooks of Claude Code.

use abide_model::LaneId;

use crate::hooks::payload_fields::HookPayload;
use crate::kept::record_fields::{PATH, id_field, text_within};
use crate::{HookReport, HookStep, TurnEnding};

/// With what the prompts begin that a machine wrote: what goes on in the background, what other agents
/// and channels send, what a command of a person printed.
const BY_MACHINE: &[&str] = &[
    "<task-notification",
    "<system-reminder",
    "<teammate-message",
    "<cross-session-message",
    "<channel source=",
    "<local-command-",
];

/// What a payload reports. One with a field of Cursor's, which runs the hooks of Claude Code as well,
/// reports nothing.
pub(super) fn read(payload: &str) -> Option<HookReport> {
    let payload = HookPayload::of(payload)?;
    let fields = &payload.fields;
    if ["conversation_id", "cursor_version"].iter().any(|name| fields.any(name).is_some()) {
        return None;
    }
    let mut report = payload.report()?;
    report.lane = id_field(fields, "agent_id").map(LaneId);
    report.turn = id_field(fields, "prompt_id");
    let is_main = fields.get("agent_id").is_none();
    report.step = match payload.event.as_str() {
        "SessionStart" if is_main => HookStep::SessionStarted,
        "UserPromptSubmit" if is_main => prompted(&payload),
        "PostToolUse" => payload.finished_call("tool_response", true),
        "PostToolUseFailure" => payload.finished_call("error", false),
        // Tasks in the background may go on: they end in a turn of their own.
        "Stop" if is_main => payload.turn_finished(TurnEnding::Completed, "last_assistant_message"),
        "StopFailure" if is_main => {
            payload.turn_finished(TurnEnding::Failed, "last_assistant_message")
        }
        // What sums up a conversation is a subagent without a type.
        "SubagentStop" if report.lane.is_some() && id_field(fields, "agent_type").is_some() => {
            let file = text_within(fields, "agent_transcript_path", PATH).map(Into::into);
            HookStep::SubagentFinished { file }
        }
        "SessionEnd" if is_main => HookStep::SessionEnded,
        _ => HookStep::Other,
    };
    Some(report)
}

fn prompted(payload: &HookPayload<'_>) -> HookStep {
    let Some(text) = text_within(&payload.fields, "prompt", usize::MAX) else {
        return HookStep::Other;
    };
    let start = text.trim_start();
    let by_person = !BY_MACHINE.iter().any(|machine| start.starts_with(machine));
    HookStep::Prompted { text, by_person }
}
