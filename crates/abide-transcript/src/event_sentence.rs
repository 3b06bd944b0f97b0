//! Events as sentences, one each: what `abide tail` prints.

use std::collections::{BTreeMap, VecDeque};

use abide_model::message::PieceContent;
use abide_model::{Event, Fact, Kind, RecordedMessage};

use crate::block_reader::{UnreadBlock, output_of_pieces, read_unread};
use crate::markdown::markdown_done_to;
use crate::note::event_note;
use crate::short::{short_capital, short_start, short_thousands};
use crate::target::call_target_of_text;
use crate::timeline_builder::timeline_task_status;

/// The most characters of a text in a sentence.
const TEXT: usize = 500;
/// How many calls are remembered, and the longest id.
const CALLS: usize = 1024;
const LONGEST: usize = 1024;

/// Says what happened, an event at a time. It remembers the tools of calls, so that their results
/// name them.
#[derive(Debug, Default)]
pub struct EventSentences {
    tools: BTreeMap<String, String>,
    order: VecDeque<String>,
}

impl EventSentences {
    /// The sentence of the next event, on one line, as recorded: not escaped.
    pub fn of(&mut self, event: &Event) -> String {
        let message = match &event.data {
            Some(data) if event.kind == Kind::MESSAGE_ADDED => RecordedMessage::of(data),
            _ => None,
        };
        let text = match message {
            Some(message) => self.message(&message),
            None => self.fact(event),
        };
        let lane = event.lane.as_ref().map(|lane| format!("[{}] ", short_start(lane.as_str(), 24)));
        format!("{}{}", lane.unwrap_or_default(), short_start(&text, TEXT))
    }

    fn message(&mut self, message: &RecordedMessage) -> String {
        let speaker = short_capital(&short_start(&message.role, 40));
        let mut words = Vec::new();
        for piece in &message.pieces {
            match &piece.sort {
                PieceContent::Text(text) | PieceContent::Refusal(text) => {
                    words.push(format!("{speaker}: {}", short_start(&text.decoded(), TEXT)));
                }
                PieceContent::Thinking { text, .. } if text.is_blank() => {}
                PieceContent::Thinking { text, .. } => {
                    words.push(format!("{speaker} thinks: {}", short_start(&text.decoded(), TEXT)));
                }
                PieceContent::Image(_) => words.push(format!("{speaker} shows an image")),
                PieceContent::Call(call) => {
                    self.remember(&call.id, &call.name);
                    words.push(format!(
                        "Calls {}{}",
                        call.name,
                        behind_tool(&call.arguments.text())
                    ));
                }
                PieceContent::Result(result) => {
                    let output = output_of_pieces(&result.pieces);
                    words.push(self.result(&result.id, result.ok, &output.text));
                }
                PieceContent::Other(unread) => {
                    let raw = piece.raw.as_ref().map_or("", |raw| raw.get());
                    match read_unread(unread, raw) {
                        UnreadBlock::Call { call, .. } => {
                            self.remember(&call.call, &call.name);
                            words.push(format!(
                                "Calls {}{}",
                                call.name,
                                behind_tool(&call.arguments)
                            ));
                        }
                        UnreadBlock::Result { call, ok, output } => {
                            words.push(self.result(&call, Some(ok), &output.text));
                        }
                        UnreadBlock::Part(_) => words.push(format!("{speaker} attaches a block")),
                    }
                }
            }
        }
        if words.is_empty() { format!("{speaker}:") } else { words.join("; ") }
    }

    fn fact(&mut self, event: &Event) -> String {
        let fact = event.fact().ok();
        match fact {
            Some(Fact::ToolCall(call)) => {
                self.remember(&call.call.0, &call.name);
                let arguments = call.arguments.as_deref().map_or("", |raw| raw.get());
                format!("{} runs{}", call.name, behind_tool(arguments))
            }
            Some(Fact::ToolResult(result)) => {
                let pieces =
                    event.data.as_ref().and_then(abide_model::message::ResultPiece::finished);
                let text = pieces.map(|result| output_of_pieces(&result.pieces).text);
                self.result(&result.call.0, Some(result.ok), &text.unwrap_or_default())
            }
            Some(Fact::TurnStarted(start)) => {
                let number = start.turn.map(|turn| format!(" {turn}")).unwrap_or_default();
                format!("Turn{number} starts: {}", start.agent)
            }
            Some(Fact::TurnFinished(end)) => {
                let number = end.turn.map(|turn| format!(" {turn}")).unwrap_or_default();
                format!("Turn{number} ends: {}", end.status)
            }
            Some(Fact::TurnDecided(decision)) => {
                let choice = decision.selected.or(decision.decision).unwrap_or_default();
                let reason = decision.reason.map(|why| format!(", {why}")).unwrap_or_default();
                format!("Decided: {choice}{reason}")
            }
            Some(Fact::SessionStatus(change)) => {
                let why = change.summary.or(change.reason).map(|why| format!(": {why}"));
                format!("Session {}{}", change.status.as_str(), why.unwrap_or_default())
            }
            // What is of interest in a source comes as messages and other events.
            Some(Fact::SourceRecord(_)) => String::new(),
            Some(Fact::SourceProgress(read)) => {
                format!("Read {} of {} to {}", read.file, read.agent, short_thousands(read.end))
            }
            Some(Fact::TaskCreated(task)) => format!("Task {} created: {}", task.task, task.title),
            Some(Fact::TaskChanged(change)) => format!("Task {} changed", change.task),
            Some(Fact::TaskStatus(change)) => {
                let why = change.reason.map(|why| format!(": {why}")).unwrap_or_default();
                format!("Task {} {}{why}", change.task, timeline_task_status(change.status))
            }
            Some(Fact::FileTouched(touch)) => {
                format!("File {}: {}", markdown_done_to(touch.op), touch.path)
            }
            fact => {
                let (label, text, _) = event_note(event, fact);
                let between = if text.is_empty() { "" } else { ": " };
                format!("{label}{between}{text}")
            }
        }
    }

    fn result(&self, id: &str, ok: Option<bool>, output: &str) -> String {
        let tool = self.tools.get(id).map_or(id, String::as_str);
        let verb = match ok {
            Some(true) => "succeeded",
            Some(false) => "failed",
            None => "returned",
        };
        let output = short_start(output, TEXT);
        let between = if output.is_empty() { "" } else { ": " };
        format!("{tool} {verb}{between}{output}")
    }

    fn remember(&mut self, id: &str, tool: &str) {
        if id.len() > LONGEST || self.tools.insert(id.to_owned(), short_start(tool, 60)).is_some() {
            return;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > CALLS
            && let Some(oldest) = self.order.pop_front()
        {
            self.tools.remove(&oldest);
        }
    }
}

/// `: cargo test`, or nothing for a call without a target.
fn behind_tool(arguments: &str) -> String {
    match call_target_of_text(arguments) {
        target if target.is_empty() => target,
        target => format!(": {target}"),
    }
}

#[cfg(test)]
mod tests {
    use abide_model::{NewEvent, Seq, Timestamp};

    use super::*;

    #[test]
    fn every_event_is_a_sentence() {
        let mut sentences = EventSentences::default();
        let mut of = |json: &str| {
            let event = NewEvent::parse(json).unwrap();
            sentences.of(&event.into_event(Seq(1), Timestamp::from_millis(0)))
        };
        for (event, sentence) in [
            (
                r#"{"kind":"message.added","data":{"role":"user","content":"one\ntwo"}}"#,
                "User: one two",
            ),
            (
                r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"thinking","thinking":"Hm."},{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"Bash","input":{"command":"ls"}}]}}"#,
                "Assistant thinks: Hm.; Assistant: I look.; Calls Bash: ls",
            ),
            (
                r#"{"kind":"tool.called","data":{"call":"c1","name":"Bash","arguments":{"command":"ls"}}}"#,
                "Bash runs: ls",
            ),
            (
                r#"{"kind":"tool.finished","data":{"call":"c1","ok":false,"result":"no\nway"}}"#,
                "Bash failed: no way",
            ),
            (
                r#"{"kind":"message.added","data":{"role":"tool","tool_call_id":"c1","content":"yes"}}"#,
                "Bash returned: yes",
            ),
            (r#"{"kind":"source.recorded","data":{"file":"a.jsonl","at":0,"bytes":9}}"#, ""),
            (
                r#"{"kind":"source.read","data":{"agent":"an","file":"a.jsonl","end":1200}}"#,
                "Read a.jsonl of an to 1,200",
            ),
            (r#"{"kind":"turn.started","data":{"agent":"coder"}}"#, "Turn starts: coder"),
            (r#"{"kind":"x.own","lane":"l","data":{"a":{"b":1}}}"#, "[l] x.own: a: b: 1"),
            (
                r#"{"kind":"permission.asked","data":{"call":"c1","title":"Edit main.rs"}}"#,
                "Permission asked: Edit main.rs",
            ),
        ] {
            assert_eq!(of(event), sentence);
        }
    }
}
