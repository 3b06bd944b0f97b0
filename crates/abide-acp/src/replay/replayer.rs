//! Turns events into updates.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use abide::{
    Event, Kind, Payload, ToolCall,
    message::{MessagePart, RequestedCall, read_message},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::message_chunk::{PlainMessage, ReplayChunkKind, message_block, message_chunk};
use super::{ReplayedUpdate, call};
use crate::protocol::{AcpUpdate, UpdateKind};
use crate::record::{CONFIGURED, UPDATE, recorded_name, setting_values};

/// Turns live events into updates, in order.
#[derive(Debug, Default)]
pub struct Replayer {
    /// Calls that were sent, and whether their end was.
    calls: HashMap<String, bool>,
    mode: Option<String>,
    options: BTreeMap<String, String>,
    /// The last update of each kind that replaces all earlier ones.
    commands: Option<String>,
    usage: Option<String>,
}

type UpdateSink<'a> = &'a mut dyn FnMut(ReplayedUpdate);

impl Replayer {
    /// Sends the updates for an event.
    pub fn event(&mut self, event: &Event, send: &mut dyn FnMut(ReplayedUpdate)) {
        let Some(data) = &event.data else { return };
        let main = event.lane.is_none();
        if event.kind == Kind::MESSAGE_ADDED {
            self.message(data, main, send);
        } else if event.kind == Kind::TOOL_CALLED {
            if let Ok(called) = data.decode::<ToolCall>() {
                let arguments = called.arguments.map_or("{}".into(), |json| json.get().to_owned());
                let call = RequestedCall { id: called.call.0, name: called.name, arguments };
                self.call(&call, send);
            }
        } else if event.kind == Kind::TOOL_FINISHED {
            self.finished(data, send);
        } else if event.kind.as_str() == UPDATE {
            if let Some(update) = data.field("acp") {
                self.update(update, main, send);
            }
        } else if event.kind.as_str() == CONFIGURED {
            self.configured(data);
        }
    }

    /// Sends the final updates, after the last event.
    pub fn finish(&mut self, send: &mut dyn FnMut(ReplayedUpdate)) {
        for update in [self.usage.take(), self.commands.take()].into_iter().flatten() {
            send(ReplayedUpdate { update });
        }
    }

    /// The session's last mode.
    #[must_use]
    pub fn mode(&self) -> Option<&str> {
        self.mode.as_deref()
    }

    /// The last values of options: the id and the JSON of each value.
    pub fn options(&self) -> impl Iterator<Item = (&str, &str)> {
        self.options.iter().map(|(id, value)| (id.as_str(), value.as_str()))
    }

    fn message(&mut self, data: &Payload, main: bool, send: UpdateSink<'_>) {
        // A call recorded from this protocol.
        let update = data.field("acp").filter(|acp| acp.contains("toolCallId"));
        if let Some(update) = update
            && self.update(update, main, send)
        {
            return;
        }
        if let Some(plain) = PlainMessage::of(data) {
            if main {
                plain.updates().for_each(|update| send(ReplayedUpdate { update }));
                if plain.is_of_user() {
                    self.forget_ended();
                }
            }
            return;
        }
        let Some(said) = read_message(data) else { return };
        let speaker = ReplayChunkKind::of_role(&said.role);
        for part in &said.parts {
            match part {
                MessagePart::Call(call) => self.call(call, send),
                MessagePart::Result(result) => {
                    let blocks = call::call_result_blocks(&result.parts);
                    self.result(&result.id, result.ok.unwrap_or(true), &blocks, send);
                }
                part => {
                    let Some(speaker) = speaker.filter(|_| main) else { continue };
                    let thought = matches!(part, MessagePart::Thinking { .. });
                    let sort = if thought { ReplayChunkKind::Thought } else { speaker };
                    if let Some(block) = message_block(part) {
                        send(ReplayedUpdate { update: message_chunk(sort, &block, None) });
                        if sort == ReplayChunkKind::User {
                            self.forget_ended();
                        }
                    }
                }
            }
        }
    }

    /// Forgets ended calls when the user speaks: their ids may be used again.
    fn forget_ended(&mut self) {
        self.calls.retain(|_, ended| !*ended);
    }

    fn call(&mut self, call: &RequestedCall, send: UpdateSink<'_>) {
        if call.id.is_empty() || self.calls.contains_key(&recorded_name(&call.id)) {
            return;
        }
        self.calls.insert(recorded_name(&call.id), false);
        send(ReplayedUpdate { update: call::replay_call_start(call) });
    }

    fn result(&mut self, id: &str, ok: bool, blocks: &[Box<RawValue>], send: UpdateSink<'_>) {
        if id.is_empty() {
            return;
        }
        let known = self.calls.insert(recorded_name(id), true);
        if known != Some(true) {
            send(ReplayedUpdate { update: call::replay_call_end(id, ok, blocks, known.is_some()) });
        }
    }

    fn finished(&mut self, data: &Payload, send: UpdateSink<'_>) {
        if let Some(update) = data.field("acp")
            && self.update(update, true, send)
        {
            return;
        }
        let Ok(finished) = data.decode::<call::RecordedCallEnd<'_>>() else { return };
        // A call with an unknown outcome gets no end.
        if !finished.is_unknown() {
            let ok = finished.ok.unwrap_or(true);
            self.result(&finished.call, ok, &finished.blocks(), send);
        }
    }

    /// Sends an update verbatim. Returns whether it is one; anything else is not sent.
    fn update(&mut self, json: &str, main: bool, send: UpdateSink<'_>) -> bool {
        let Some(update) = AcpUpdate::read(json) else { return false };
        let json = ReplayedUpdate { update: json.to_owned() };
        let text = |member| update.text(member).unwrap_or_default();
        match update.kind() {
            UpdateKind::ToolCall | UpdateKind::ToolCallUpdate => {
                let ended = update.status().is_some_and(|status| status.ok().is_some());
                let known = self.calls.entry(recorded_name(text("toolCallId"))).or_default();
                // A `tool_call` with the same id is another call.
                let goes_on = update.kind() == UpdateKind::ToolCallUpdate;
                *known = ended || (goes_on && *known);
                send(json);
            }
            // A subagent's modes and options are not the session's.
            _ if !main => {}
            UpdateKind::Notice => {}
            UpdateKind::AvailableCommands => self.commands = Some(json.update),
            UpdateKind::Usage => self.usage = Some(json.update),
            UpdateKind::CurrentMode => {
                self.mode = Some(text("currentModeId").to_owned());
                send(json);
            }
            UpdateKind::ConfigOptions => {
                self.set(&json.update);
                send(json);
            }
            _ => send(json),
        }
        true
    }

    fn configured(&mut self, data: &Payload) {
        #[derive(Deserialize)]
        struct RecordedSettings<'a> {
            #[serde(borrow)]
            mode: Option<Cow<'a, str>>,
            #[serde(borrow)]
            values: Option<&'a RawValue>,
        }
        let Ok(configured) = data.decode::<RecordedSettings<'_>>() else { return };
        if let Some(mode) = configured.mode {
            self.mode = Some(mode.into_owned());
        }
        for (id, value) in configured.values.map(setting_values).unwrap_or_default() {
            self.options.insert(id, value.get().to_owned());
        }
    }

    fn set(&mut self, update: &str) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ConfigOptionsUpdate<'a> {
            #[serde(borrow)]
            config_options: &'a RawValue,
        }
        let Ok(options) = serde_json::from_str::<ConfigOptionsUpdate<'_>>(update) else { return };
        for (id, value) in setting_values(options.config_options) {
            self.options.insert(id, value.get().to_owned());
        }
    }
}
