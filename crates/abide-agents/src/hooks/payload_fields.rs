//! What the payloads of several agents have in common: the session, its file and directory, the calls
//! of tools. Names no agent.

use abide_wire::json::{RawJsonFields, decode_string, encoded_string, mend_surrogates};

use super::{HookReport, HookStep, TurnEnding};
use crate::kept::record_fields::{ID, PATH, id_field, text_within};

/// The fields of a payload, and the event that it is of.
pub(crate) struct HookPayload<'a> {
    pub fields: RawJsonFields<'a>,
    /// The agent's name of the event; empty if it has none.
    pub event: String,
}

impl<'a> HookPayload<'a> {
    /// Parses a payload; `None` if it is no object.
    pub(crate) fn of(payload: &'a str) -> Option<Self> {
        let fields = RawJsonFields::of(payload)?;
        let event = text_within(&fields, "hook_event_name", ID).unwrap_or_default();
        Some(Self { fields, event })
    }

    /// A report of this session in which nothing has happened yet; `None` if the payload names none.
    pub(crate) fn report(&self) -> Option<HookReport> {
        let fields = &self.fields;
        Some(HookReport {
            session: id_field(fields, "session_id")?,
            parent: None,
            file: text_within(fields, "transcript_path", PATH).map(Into::into),
            directory: text_within(fields, "cwd", PATH).map(Into::into),
            model: id_field(fields, "model"),
            lane: None,
            turn: None,
            step: HookStep::Other,
        })
    }

    /// The call that has ended, with its result in this field; nothing that counts if it has no id.
    pub(crate) fn finished_call(&self, result: &str, ok: bool) -> HookStep {
        let fields = &self.fields;
        let Some(call) = id_field(fields, "tool_use_id") else { return HookStep::Other };
        HookStep::CallFinished {
            call,
            tool: id_field(fields, "tool_name").unwrap_or_default(),
            arguments: json_text(fields, "tool_input").unwrap_or_else(|| "{}".to_owned()),
            result: text_or_json(fields, result),
            ok,
        }
    }

    /// The end of a turn, with the last message in this field.
    pub(crate) fn turn_finished(&self, ending: TurnEnding, message: &str) -> HookStep {
        HookStep::TurnFinished { ending, message: text_within(&self.fields, message, usize::MAX) }
    }
}

/// A field as JSON.
pub(crate) fn json_text(fields: &RawJsonFields<'_>, name: &str) -> Option<String> {
    Some(mend_surrogates(fields.get(name)?.get().to_owned()))
}

/// A field as a text, or else as JSON; empty if it is not there.
pub(crate) fn text_or_json(fields: &RawJsonFields<'_>, name: &str) -> String {
    let text = fields.get(name).and_then(encoded_string).map(decode_string);
    text.map_or_else(|| json_text(fields, name).unwrap_or_default(), |text| text.into_owned())
}
