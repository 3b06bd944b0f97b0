//! A session for tests: a translator, what it recorded, and the state that this comes to.

use abide::{Event, Seq, SessionState, Timestamp, event::Anomaly};
use agent_client_protocol_schema::v1::SessionUpdate;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{RecordDurability, RecordedEvents, Replayer, Translator};

/// JSON as it is passed to a translator.
pub(crate) fn raw(json: &str) -> Box<RawValue> {
    serde_json::from_str(json).unwrap()
}

/// A session as it is recorded.
pub(crate) struct RecordedSession {
    pub(crate) translator: Translator,
    pub(crate) events: Vec<Event>,
    pub(crate) state: SessionState,
    pub(crate) odd: Vec<Anomaly>,
}

impl RecordedSession {
    pub(crate) fn new() -> Self {
        Self::with(Translator::new("agent"))
    }

    pub(crate) fn with(translator: Translator) -> Self {
        let (events, state, odd) = (Vec::new(), SessionState::default(), Vec::new());
        Self { translator, events, state, odd }
    }

    /// Writes what was recorded; gives it as lines of kind and data, and when it must be durable.
    pub(crate) fn write(&mut self, recorded: RecordedEvents) -> (Vec<String>, RecordDurability) {
        let mut lines = Vec::new();
        for event in recorded.events {
            event.check(&abide::event::EventLimits::default()).unwrap();
            let seq = Seq(self.events.len() as u64 + 1);
            let event = event.into_event(seq, Timestamp::from_millis(0));
            let lane = event.lane.as_ref().map(|lane| format!("[{lane}] ")).unwrap_or_default();
            let data = event.data.as_ref().unwrap().as_str();
            lines.push(format!("{lane}{} {data}", event.kind));
            self.odd.extend(self.state.apply(&event));
            self.events.push(event);
        }
        (lines, recorded.weight)
    }

    /// An update of the agent's.
    pub(crate) fn update(&mut self, update: &str) -> (Vec<String>, RecordDurability) {
        let params = raw(&format!(r#"{{"sessionId":"s","update":{update}}}"#));
        let recorded = self.translator.update(&params);
        self.write(recorded)
    }

    pub(crate) fn prompt(&mut self, text: &str) -> (Vec<String>, RecordDurability) {
        let text = serde_json::to_string(text).unwrap();
        let params = format!(r#"{{"sessionId":"s","prompt":[{{"type":"text","text":{text}}}]}}"#);
        let recorded = self.translator.prompt(&raw(&params));
        self.write(recorded)
    }

    pub(crate) fn prompted(&mut self, result: &str) -> (Vec<String>, RecordDurability) {
        let recorded = self.translator.prompted(Ok(&raw(result)));
        self.write(recorded)
    }

    pub(crate) fn asked(
        &mut self,
        id: u64,
        method: &str,
        params: &str,
    ) -> (Vec<String>, RecordDurability) {
        let id = raw(&id.to_string());
        let recorded = self.translator.asked(&id, method, Some(&raw(params)));
        self.write(recorded)
    }

    pub(crate) fn answered(&mut self, id: u64, result: &str) -> (Vec<String>, RecordDurability) {
        let recorded = self.translator.answered(&raw(&id.to_string()), Ok(&raw(result)));
        self.write(recorded)
    }

    pub(crate) fn refused(&mut self, id: u64, error: &str) -> (Vec<String>, RecordDurability) {
        let recorded = self.translator.answered(&raw(&id.to_string()), Err(&raw(error)));
        self.write(recorded)
    }

    /// What is replayed of it. All of it is of the protocol.
    pub(crate) fn replay(&self) -> (Replayer, Vec<String>) {
        replay(&self.events)
    }
}

/// What is replayed of these events. All of it is of the protocol.
pub(crate) fn replay(events: &[Event]) -> (Replayer, Vec<String>) {
    let mut replay = Replayer::default();
    let mut updates = Vec::new();
    let mut send = |replayed: crate::ReplayedUpdate| updates.push(replayed.update);
    for event in events {
        replay.event(event, &mut send);
    }
    replay.finish(&mut send);
    for update in &updates {
        let read = serde_json::from_str::<SessionUpdate>(update);
        assert!(read.is_ok(), "{update}: {read:?}");
    }
    (replay, updates)
}

/// A chunk of a text.
pub(crate) fn chunk(sort: &str, text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!(r#"{{"sessionUpdate":"{sort}","content":{{"type":"text","text":{text}}}}}"#)
}

/// Is it the same JSON?
pub(crate) fn same(a: &str, b: &str) -> bool {
    serde_json::from_str::<Value>(a).unwrap() == serde_json::from_str::<Value>(b).unwrap()
}
