//! Parses answers of Chat Completions: chunks, each with a delta of the one choice.
//!
//! Text, reasoning and refusals come in runs. A run ends when another run or a call begins. A call
//! ends when the next one begins, if its arguments are whole by then, or else when the choice is
//! finished, so that calls with interleaved pieces stay whole.

mod chat_call_piece;
mod chat_calls;
mod chunk;

use super::answer_parser::{AnswerSink, parse};
use super::answer_usage;
use super::block::{StreamDelta, StreamedBlock};
use super::error::StreamError;
use super::field::quoted;
use super::sse_event_reader::SseEvent;
use chat_call_piece::ChatCallPiece;
use chat_calls::ChatCalls;
use chunk::{ChatChunk, ChatMessage, Choice, ChunkContent};

/// The state of an answer being parsed.
#[derive(Debug, Default)]
pub(super) struct ChatParser {
    run: Option<TextRun>,
    calls: ChatCalls,
}

/// The field that a run comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextRunKind {
    Content,
    ReasoningContent,
    Reasoning,
    Refusal,
}

#[derive(Debug)]
struct TextRun {
    kind: TextRunKind,
    text: String,
}

impl ChatParser {
    pub(super) fn take(
        &mut self,
        event: SseEvent<'_>,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        let chunk: ChatChunk<'_> = parse(event)?;
        sink.about.named(&chunk.id, &chunk.model);
        if let Some(usage) = chunk.usage {
            sink.about.used(usage);
        }
        let choice = chunk.choices.0.as_ref();
        let finished = choice.is_some_and(|choice| choice.finish_reason.some().is_some());
        if let Some(choice) = choice {
            self.choice(choice, sink)?;
        }
        if let Some(error) = chunk.failure(event) {
            sink.about.error = Some(error);
        } else if finished {
            sink.about.over = true;
            self.end(sink);
        }
        Ok(())
    }

    fn choice(
        &mut self,
        choice: &Choice<'_>,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        if let Some(reason) = choice.finish_reason.some() {
            sink.about.reason = Some(reason.to_owned());
        }
        // A provider that does not stream sends a whole message.
        if let Some(message) = choice.delta.as_ref().or(choice.message.as_deref()) {
            self.message(message, sink)?;
        }
        if let Some(error) = choice.error.filter(|error| answer_usage::is_error(error.get())) {
            sink.about.error = Some(answer_usage::error(error.get()));
        }
        Ok(())
    }

    fn message(
        &mut self,
        message: &ChatMessage<'_>,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        if let Some(thought) = message.reasoning_content.some() {
            self.go_on(TextRunKind::ReasoningContent, thought, sink)?;
        } else if let Some(thought) = message.reasoning.some() {
            self.go_on(TextRunKind::Reasoning, thought, sink)?;
        }
        match &message.content {
            ChunkContent::None => {}
            ChunkContent::Text(text) => self.go_on(TextRunKind::Content, text, sink)?,
            ChunkContent::Parts(parts) => {
                for (thought, text) in parts {
                    let kind =
                        if *thought { TextRunKind::ReasoningContent } else { TextRunKind::Content };
                    self.go_on(kind, text, sink)?;
                }
            }
        }
        if let Some(refusal) = message.refusal.some() {
            self.go_on(TextRunKind::Refusal, refusal, sink)?;
        }
        for piece in message.tool_calls.iter().flatten() {
            self.piece(piece, sink)?;
        }
        if let Some(function) = &message.function_call {
            self.piece(&ChatCallPiece::legacy(function), sink)?;
        }
        Ok(())
    }

    fn piece(
        &mut self,
        piece: &ChatCallPiece<'_>,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        if self.calls.begins(piece) {
            self.end_run(sink);
        }
        self.calls.take(piece, sink)
    }

    fn go_on(
        &mut self,
        kind: TextRunKind,
        text: &str,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        if text.is_empty() {
            return Ok(());
        }
        sink.budget.keep(text.len())?;
        match &mut self.run {
            Some(run) if run.kind == kind => run.text.push_str(text),
            _ => {
                sink.budget.block()?;
                self.end_run(sink);
                self.calls.end_whole(sink);
                sink.begins();
                self.run = Some(TextRun { kind, text: text.to_owned() });
            }
        }
        (sink.tell)(match kind {
            TextRunKind::Content => StreamDelta::Text(text),
            TextRunKind::ReasoningContent | TextRunKind::Reasoning => StreamDelta::Thinking(text),
            TextRunKind::Refusal => StreamDelta::Refusal(text),
        });
        Ok(())
    }

    fn end_run(&mut self, sink: &mut AnswerSink<'_>) {
        if let Some(run) = self.run.take() {
            sink.block(run.into_block());
        }
    }

    /// Finishes the choice and everything in it.
    pub(super) fn end(&mut self, sink: &mut AnswerSink<'_>) {
        self.end_run(sink);
        self.calls.end_all(sink);
    }

    pub(super) fn unfinished(self) -> Vec<StreamedBlock> {
        let run = self.run.map(TextRun::into_block).into_iter();
        run.chain(self.calls.into_blocks()).map(StreamedBlock::cut).collect()
    }
}

impl TextRun {
    fn into_block(self) -> StreamedBlock {
        let text = quoted(&self.text);
        let data = match self.kind {
            TextRunKind::Content => format!(r#"{{"role":"assistant","content":{text}}}"#),
            TextRunKind::ReasoningContent => {
                format!(r#"{{"role":"assistant","content":null,"reasoning_content":{text}}}"#)
            }
            TextRunKind::Reasoning => {
                format!(r#"{{"role":"assistant","content":null,"reasoning":{text}}}"#)
            }
            TextRunKind::Refusal => {
                format!(r#"{{"role":"assistant","content":null,"refusal":{text}}}"#)
            }
        };
        StreamedBlock { data, call: None, partial: false }
    }
}
