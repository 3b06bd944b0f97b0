//! Contexts to summarize, for tests.

use abide_model::{
    Context, ContextEntry, Payload, RecordedMessage, RecordedResult, Seq, TaskStatus,
};
use serde_json::{Value, json};

use super::{OpenTask, SummaryRequest};

/// A context that grows.
#[derive(Default)]
pub(super) struct Sample(pub(super) Context);

impl Sample {
    fn seq(&self) -> Seq {
        Seq(self.0.entries.len() as u64 + 1)
    }

    /// A message as it was recorded.
    pub(super) fn message(mut self, data: &Value) -> Self {
        let message = RecordedMessage::of(&Payload::of(data).unwrap()).unwrap().into();
        let entry = ContextEntry::Message { seq: self.seq(), message };
        self.0.entries.push(entry);
        self
    }

    pub(super) fn says(self, role: &str, text: &str) -> Self {
        self.message(&json!({"role": role, "content": text}))
    }

    pub(super) fn user(self, text: &str) -> Self {
        self.says("user", text)
    }

    pub(super) fn assistant(self, text: &str) -> Self {
        self.says("assistant", text)
    }

    pub(super) fn calls(self, id: &str, name: &str, arguments: &Value) -> Self {
        self.message(&json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": id, "name": name, "input": arguments}]}))
    }

    /// A result in a message.
    pub(super) fn result(self, id: &str, is_error: bool, text: &str) -> Self {
        let data = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id,
            "is_error": is_error, "content": text}]});
        self.result_in(id, &data)
    }

    /// A result in a message as it was recorded.
    pub(super) fn result_in(mut self, id: &str, data: &Value) -> Self {
        let message = RecordedMessage::of(&Payload::of(data).unwrap()).unwrap();
        let result = RecordedResult::Message(message.into());
        let entry = ContextEntry::Result { seq: self.seq(), call: id.into(), result };
        self.0.entries.push(entry);
        self
    }

    /// A result in a `tool.finished`.
    pub(super) fn finished(mut self, id: &str, ok: bool, result: &Value) -> Self {
        let data = Payload::of(&json!({"call": id, "ok": ok, "result": result})).unwrap();
        let result = RecordedResult::Executed(data);
        let entry = ContextEntry::Result { seq: self.seq(), call: id.into(), result };
        self.0.entries.push(entry);
        self
    }

    pub(super) fn unknown(mut self, id: &str) -> Self {
        self.0.entries.push(ContextEntry::Unknown { call: id.into(), begun: None });
        self
    }

    pub(super) fn summary(mut self, text: &str) -> Self {
        let entry = ContextEntry::Summary { seq: self.seq(), text: text.to_owned() };
        self.0.entries.insert(0, entry);
        self
    }

    pub(super) fn request(&self, most_tokens: u64) -> SummaryRequest<'_> {
        SummaryRequest { context: &self.0, most_tokens, tasks: &[], files: &[] }
    }
}

pub(super) fn task(id: &str, title: &str, status: TaskStatus) -> OpenTask {
    OpenTask { id: id.into(), title: title.to_owned(), status }
}
