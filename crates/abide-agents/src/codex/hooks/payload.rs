//! Reads the payloads of the hooks of Codex.

use super::super::kept::thread_of_rollout;
use crate::hooks::payload_fields::HookPayload;
use crate::kept::record_fields::{PATH, id_field, text_within};
use crate::{HookReport, HookStep, TurnEnding};

/// With what the prompts begin that a machine wrote: what a subagent has done, and what asks for the
/// title of a thread.
const BY_MACHINE: &[&str] =
    &["<subagent_notification", "Generate a concise, single-line task title"];

/// What a payload reports.
pub(super) fn read(payload: &str) -> Option<HookReport> {
    let payload = HookPayload::of(payload)?;
    let fields = &payload.fields;
    let mut report = payload.report()?;
    report.turn = id_field(fields, "turn_id");
    let is_main = fields.get("agent_id").is_none();
    let mut own = report.file.clone();
    report.step = match payload.event.as_str() {
        "PostToolUse" => payload.finished_call("tool_response", true),
        "SubagentStop" => {
            // The other path is that of the thread that it works for.
            own = text_within(fields, "agent_transcript_path", PATH).map(Into::into);
            HookStep::SubagentFinished { file: own.clone() }
        }
        _ if !is_main => HookStep::Other,
        "SessionStart" => HookStep::SessionStarted,
        "UserPromptSubmit" => prompted(&payload),
        "Stop" => payload.turn_finished(TurnEnding::Completed, "last_assistant_message"),
        "StopFailure" => payload.turn_finished(TurnEnding::Failed, "last_assistant_message"),
        "Interrupt" => payload.turn_finished(TurnEnding::Interrupted, "last_assistant_message"),
        "SessionEnd" => HookStep::SessionEnded,
        _ => HookStep::Other,
    };
    report.file = own;
    // A subagent is a thread of its own, with a rollout of its own.
    if let Some(agent) = id_field(fields, "agent_id") {
        report.parent = Some(std::mem::replace(&mut report.session, agent));
    } else if let Some(thread) = report.file.as_deref().and_then(thread_of_rollout) {
        // Threads may share what Codex calls a session.
        report.session = thread;
    }
    Some(report)
}

fn prompted(payload: &HookPayload<'_>) -> HookStep {
    let Some(text) = text_within(&payload.fields, "prompt", usize::MAX) else {
        return HookStep::Other;
    };
    let by_person = !BY_MACHINE.iter().any(|machine| text.trim_start().starts_with(machine));
    HookStep::Prompted { text, by_person }
}
