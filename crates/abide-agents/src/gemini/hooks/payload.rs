//! Reads the payloads of the hooks of Gemini CLI. They name no turn, and no call.

use crate::hooks::payload_fields::HookPayload;
use crate::kept::record_fields::text_within;
use crate::{HookReport, HookStep, TurnEnding};

/// What a payload reports.
pub(super) fn read(payload: &str) -> Option<HookReport> {
    let payload = HookPayload::of(payload)?;
    let mut report = payload.report()?;
    report.step = match payload.event.as_str() {
        "SessionStart" => HookStep::SessionStarted,
        // It comes without a prompt as well, where the agent goes on after a call.
        "BeforeAgent" => match text_within(&payload.fields, "prompt", usize::MAX) {
            Some(text) => HookStep::Prompted { text, by_person: true },
            None => HookStep::Other,
        },
        "AfterAgent" => payload.turn_finished(TurnEnding::Completed, "prompt_response"),
        "SessionEnd" => HookStep::SessionEnded,
        _ => HookStep::Other,
    };
    Some(report)
}
