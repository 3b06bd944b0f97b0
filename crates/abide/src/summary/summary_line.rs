//! A context as lines of JSON, the input of a summarizer.

use std::borrow::Cow;
use std::collections::HashMap;

use abide_model::{
    Context, ContextEntry, Payload, RecordedMessage, RecordedResult, Seq, ToolResult,
};
use abide_wire::{MessagePart, ReadMessage, RequestedCall, read_call};
use serde::Serialize;

use super::{OpenTask, SummaryRequest};

/// One line of a summarizer's input.
///
/// The first line has the role `abide` and describes the task. Then comes the conversation: an
/// earlier summary (`summary`), messages (`system`, `user`, `assistant`), and tool results
/// (`tool`). The model's reasoning is left out. An image becomes `[image]`, and other long parts
/// that are not text are replaced by their size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SummaryLine {
    /// `abide`, `summary`, `tool`, or the role of the speaker.
    pub role: String,
    /// The text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The tool calls of the assistant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<LineCall>,
    /// The call that this is the result of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Whether the call succeeded; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    /// Maximum number of tokens in the summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_tokens: Option<u64>,
    /// The open tasks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<LineTask>,
    /// Files that were touched, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// A tool call in a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LineCall {
    /// Links it to its result.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments: the model's JSON, as a string.
    pub arguments: String,
}

/// A task in a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LineTask {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: abide_model::TaskStatus,
}

impl From<RequestedCall> for LineCall {
    fn from(call: RequestedCall) -> Self {
        Self { id: call.id, name: call.name, arguments: call.arguments }
    }
}

impl From<&OpenTask> for LineTask {
    fn from(task: &OpenTask) -> Self {
        let id = task.id.as_str().to_owned();
        Self { id, title: task.title.clone(), status: task.status }
    }
}

/// Longer parts that are not text are replaced by their size.
const MOST_OTHER: usize = 2 << 10;

/// Stands for an unknown result.
pub(super) const UNKNOWN: &str = "[nobody knows how this call ended]";

impl SummaryLine {
    /// The whole input of a summarizer.
    pub(super) fn all(request: &SummaryRequest<'_>) -> Vec<Self> {
        let wanted = Self {
            role: "abide".to_owned(),
            most_tokens: Some(request.most_tokens),
            tasks: request.tasks.iter().map(LineTask::from).collect(),
            files: request.files.to_vec(),
            ..Self::default()
        };
        let mut all = vec![wanted];
        all.extend(Self::conversation(request.context));
        all
    }

    /// The conversation. Messages that cannot be read are left out.
    pub(super) fn conversation(context: &Context) -> Vec<Self> {
        let mut results = SummarizedResults::default();
        context.entries.iter().filter_map(|entry| Self::of(entry, &mut results)).collect()
    }

    fn of(entry: &ContextEntry, results: &mut SummarizedResults) -> Option<Self> {
        match entry {
            ContextEntry::Summary { text, .. } => Some(Self {
                role: "summary".to_owned(),
                content: Some(text.clone()),
                ..Self::default()
            }),
            ContextEntry::Message { message, .. } => {
                let mut said = ReadMessage::from(&**message);
                if said.marks.partial {
                    said.parts.iter_mut().for_each(tell_summary_line_cut);
                }
                let content = summary_line_text(&said.parts);
                let calls = said.parts.into_iter().filter_map(|part| match part {
                    MessagePart::Call(call) => Some(call.into()),
                    _ => None,
                });
                let calls: Vec<LineCall> = calls.collect();
                (content.is_some() || !calls.is_empty()).then(|| Self {
                    role: said.role,
                    content,
                    calls,
                    ..Self::default()
                })
            }
            ContextEntry::Call { data, .. } => Some(Self {
                role: "assistant".to_owned(),
                calls: vec![read_call(data)?.into()],
                ..Self::default()
            }),
            ContextEntry::Result { seq, call, result } => {
                let (ok, content) = match result {
                    RecordedResult::Executed(data) => summary_executed_result(data),
                    RecordedResult::Message(message) => results.said(*seq, call.as_str(), message),
                };
                Some(Self::result(call.as_str(), ok, content))
            }
            ContextEntry::Unknown { call, .. } => {
                Some(Self::result(call.as_str(), None, Some(UNKNOWN.to_owned())))
            }
        }
    }

    fn result(call: &str, ok: Option<bool>, content: Option<String>) -> Self {
        let content = Some(content.unwrap_or_default());
        Self {
            role: "tool".to_owned(),
            content,
            call: Some(call.to_owned()),
            ok,
            ..Self::default()
        }
    }
}

/// The content of a `tool.finished` event.
fn summary_executed_result(data: &Payload) -> (Option<bool>, Option<String>) {
    let Ok(result) = data.decode::<ToolResult>() else { return (None, None) };
    let text = result.result.map(|raw| match serde_json::from_str::<String>(raw.get()) {
        Ok(text) => text,
        Err(_) => raw.get().to_owned(),
    });
    (Some(result.ok), text)
}

/// The results in a message; decoded once, since there may be many.
#[derive(Default)]
struct SummarizedResults {
    of: Option<Seq>,
    by_call: HashMap<String, LineOutcome>,
}

/// Whether a call succeeded, and its result.
type LineOutcome = (Option<bool>, Option<String>);

impl SummarizedResults {
    /// The result of `call` according to the message that contains it.
    fn said(&mut self, seq: Seq, call: &str, message: &RecordedMessage) -> LineOutcome {
        if self.of != Some(seq) {
            self.of = Some(seq);
            self.by_call.clear();
            for part in ReadMessage::from(message).parts {
                if let MessagePart::Result(result) = part {
                    let told = || (result.ok, summary_line_text(&result.parts));
                    self.by_call.entry(result.id).or_insert_with(told);
                }
            }
        }
        self.by_call.get(call).cloned().unwrap_or_default()
    }
}

/// A call that was cut off was never run, so it is shown as text.
fn tell_summary_line_cut(part: &mut MessagePart) {
    if let MessagePart::Call(RequestedCall { name, arguments, .. }) = part {
        *part = MessagePart::Text(format!("[a call of {name} that was cut off: {arguments}]"));
    }
}

/// The text of the parts; `None` if there is none.
fn summary_line_text(parts: &[MessagePart]) -> Option<String> {
    let texts = parts.iter().filter_map(|part| match part {
        MessagePart::Text(text) | MessagePart::Refusal(text) => Some(Cow::Borrowed(text.as_str())),
        MessagePart::Image(_) => Some("[image]".into()),
        // A base64 file, for example, is of no use in a summary.
        MessagePart::Other(raw) if raw.get().len() > MOST_OTHER => {
            Some(format!("[{} bytes of JSON]", raw.get().len()).into())
        }
        MessagePart::Other(raw) => Some(raw.get().into()),
        MessagePart::Thinking { .. } | MessagePart::Call(_) | MessagePart::Result(_) => None,
    });
    let texts: Vec<Cow<'_, str>> = texts.filter(|text| !text.is_empty()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::sample::Sample;
    use super::*;

    #[test]
    fn what_is_no_text_is_told_in_short() {
        let data = json!({"type": "base64", "media_type": "image/png", "data": "AAAA"});
        let sample = Sample::default().message(&json!({"role": "user", "content": [
            {"type": "text", "text": "See"},
            {"type": "image", "source": data},
            {"type": "made_up", "a": 1},
            {"type": "made_up", "a": "x".repeat(5000)},
        ]}));
        let lines = SummaryLine::conversation(&sample.0);
        let content = lines.first().and_then(|line| line.content.as_deref()).unwrap();
        let told: Vec<&str> = content.lines().collect();
        assert_eq!(told[..2], ["See", "[image]"]);
        let small: serde_json::Value = serde_json::from_str(told[2]).unwrap();
        assert_eq!(small, json!({"type": "made_up", "a": 1}));
        assert_eq!(told[3], "[5025 bytes of JSON]");
    }

    #[test]
    fn a_call_that_was_cut_off_is_text() {
        let call = json!({"type": "tool_use", "id": "c", "name": "rm", "input": {"raw": "{x"}});
        let message = |partial: bool| json!({"role": "assistant", "content": [call], "abide": {"partial": partial}});
        let sample = Sample::default().message(&message(true)).message(&message(false));
        let lines = SummaryLine::conversation(&sample.0);
        assert_eq!(lines[0].calls, []);
        let told = "[a call of rm that was cut off: {\"raw\":\"{x\"}]";
        assert_eq!(lines[0].content.as_deref(), Some(told));
        assert_eq!((lines[1].calls.len(), &lines[1].content), (1, &None));
    }

    #[test]
    fn each_result_of_a_message_is_told() {
        let result = |id: &str, text: &str| json!({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": id == "b"});
        let data = json!({"role": "user", "content": [result("a", "1"), result("b", "2")]});
        let other = json!({"role": "user", "content": [result("a", "3")]});
        let mut sample = Sample::default();
        for (seq, call, data) in
            [(1, "b", &data), (1, "a", &data), (1, "c", &data), (2, "a", &other)]
        {
            let message = RecordedMessage::of(&Payload::of(data).unwrap()).unwrap();
            let result = RecordedResult::Message(message.into());
            let entry = ContextEntry::Result { seq: Seq(seq), call: call.into(), result };
            sample.0.entries.push(entry);
        }
        let lines = SummaryLine::conversation(&sample.0);
        let told: Vec<_> =
            lines.iter().map(|line| (line.content.as_deref().unwrap(), line.ok)).collect();
        assert_eq!(told[..2], [("2", Some(false)), ("1", Some(true))]);
        assert_eq!(told[2..], [("", None), ("3", Some(true))]);
    }

    #[test]
    fn thoughts_are_left_out() {
        let thought = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
        let sample = Sample::default().message(&json!({"role": "assistant", "content": [thought]}));
        assert!(SummaryLine::conversation(&sample.0).is_empty());
    }
}
