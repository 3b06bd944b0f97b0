//! Reads what the plugin in opencode tells, `plugin.js`.
//!
//! A payload is an object: `event` and `session`; `parent`, the session that started a subagent, which
//! is a session of its own; `directory`; `model`; `turn`, the id of the message that the prompt is.
//!
//! | event | beside these |
//! | --- | --- |
//! | `session` | |
//! | `prompt` | `prompt` |
//! | `call` | `call`, `tool`, `arguments`, `result`, `ok` |
//! | `idle` | `message`, the last text of the agent |
//! | `error` | `message`; `interrupted` if a person stopped it |
//! | `end` | |

use abide_wire::json::RawJsonFields;

use crate::hooks::payload_fields::{json_text, text_or_json};
use crate::kept::record_fields::{PATH, id_field, text_within};
use crate::{HookReport, HookStep, TurnEnding};

/// What a payload reports.
pub(super) fn read(payload: &str) -> Option<HookReport> {
    let fields = RawJsonFields::of(payload)?;
    let parent = id_field(&fields, "parent");
    let event = id_field(&fields, "event").unwrap_or_default();
    let ended = |ending| {
        let message = text_within(&fields, "message", usize::MAX);
        HookStep::TurnFinished { ending, message }
    };
    let step = match event.as_str() {
        "session" => HookStep::SessionStarted,
        "prompt" => match text_within(&fields, "prompt", usize::MAX) {
            Some(text) => HookStep::Prompted { text, by_person: parent.is_none() },
            None => HookStep::Other,
        },
        "call" => finished_call(&fields),
        "idle" => ended(TurnEnding::Completed),
        "error" if fields.flag("interrupted") == Some(true) => ended(TurnEnding::Interrupted),
        "error" => ended(TurnEnding::Failed),
        "end" => HookStep::SessionEnded,
        _ => HookStep::Other,
    };
    Some(HookReport {
        session: id_field(&fields, "session")?,
        parent,
        file: None,
        directory: text_within(&fields, "directory", PATH).map(Into::into),
        model: id_field(&fields, "model"),
        lane: None,
        turn: id_field(&fields, "turn"),
        step,
    })
}

fn finished_call(fields: &RawJsonFields<'_>) -> HookStep {
    let Some(call) = id_field(fields, "call") else { return HookStep::Other };
    HookStep::CallFinished {
        call,
        tool: id_field(fields, "tool").unwrap_or_default(),
        arguments: json_text(fields, "arguments").unwrap_or_else(|| "{}".to_owned()),
        result: text_or_json(fields, "result"),
        ok: fields.flag("ok") != Some(false),
    }
}
