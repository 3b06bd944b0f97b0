//! Parses answers of Chat Completions: chunks, each with a delta of the one choice.
//!
//! Text, reasoning and refusals come in runs. A run ends when another run or a call begins. A call
//! ends when the next one begins, if its arguments are whole by then, or else when the choice is
//! finished, so that calls with interleaved pieces stay whole.

mod calls;
mod chunk;
mod piece;

use super::answer::{Sink, parse};
use super::block::{Block, Delta};
use super::error::StreamError;
use super::event::Event;
use super::field::quoted;
use super::tally;
use calls::Calls;
use chunk::{Choice, Chunk, Content, Message};
use piece::Piece;

/// The state of an answer being parsed.
#[derive(Debug, Default)]
pub(super) struct Chat {
    run: Option<Run>,
    calls: Calls,
}

/// The field that a run comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Content,
    ReasoningContent,
    Reasoning,
    Refusal,
}

#[derive(Debug)]
struct Run {
    kind: Kind,
    text: String,
}

impl Chat {
    pub(super) fn take(
        &mut self,
        event: Event<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), StreamError> {
        let chunk: Chunk<'_> = parse(event)?;
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

    fn choice(&mut self, choice: &Choice<'_>, sink: &mut Sink<'_>) -> Result<(), StreamError> {
        if let Some(reason) = choice.finish_reason.some() {
            sink.about.reason = Some(reason.to_owned());
        }
        // A provider that does not stream sends a whole message.
        if let Some(message) = choice.delta.as_ref().or(choice.message.as_deref()) {
            self.message(message, sink)?;
        }
        if let Some(error) = choice.error.filter(|error| tally::is_error(error.get())) {
            sink.about.error = Some(tally::error(error.get()));
        }
        Ok(())
    }

    fn message(&mut self, message: &Message<'_>, sink: &mut Sink<'_>) -> Result<(), StreamError> {
        if let Some(thought) = message.reasoning_content.some() {
            self.go_on(Kind::ReasoningContent, thought, sink)?;
        } else if let Some(thought) = message.reasoning.some() {
            self.go_on(Kind::Reasoning, thought, sink)?;
        }
        match &message.content {
            Content::None => {}
            Content::Text(text) => self.go_on(Kind::Content, text, sink)?,
            Content::Parts(parts) => {
                for (thought, text) in parts {
                    let kind = if *thought { Kind::ReasoningContent } else { Kind::Content };
                    self.go_on(kind, text, sink)?;
                }
            }
        }
        if let Some(refusal) = message.refusal.some() {
            self.go_on(Kind::Refusal, refusal, sink)?;
        }
        for piece in message.tool_calls.iter().flatten() {
            self.piece(piece, sink)?;
        }
        if let Some(function) = &message.function_call {
            self.piece(&Piece::legacy(function), sink)?;
        }
        Ok(())
    }

    fn piece(&mut self, piece: &Piece<'_>, sink: &mut Sink<'_>) -> Result<(), StreamError> {
        if self.calls.begins(piece) {
            self.end_run(sink);
        }
        self.calls.take(piece, sink)
    }

    fn go_on(&mut self, kind: Kind, text: &str, sink: &mut Sink<'_>) -> Result<(), StreamError> {
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
                self.run = Some(Run { kind, text: text.to_owned() });
            }
        }
        (sink.tell)(match kind {
            Kind::Content => Delta::Text(text),
            Kind::ReasoningContent | Kind::Reasoning => Delta::Thinking(text),
            Kind::Refusal => Delta::Refusal(text),
        });
        Ok(())
    }

    fn end_run(&mut self, sink: &mut Sink<'_>) {
        if let Some(run) = self.run.take() {
            sink.block(run.into_block());
        }
    }

    /// Finishes the choice and everything in it.
    pub(super) fn end(&mut self, sink: &mut Sink<'_>) {
        self.end_run(sink);
        self.calls.end_all(sink);
    }

    pub(super) fn unfinished(self) -> Vec<Block> {
        let run = self.run.map(Run::into_block).into_iter();
        run.chain(self.calls.into_blocks()).map(Block::cut).collect()
    }
}

impl Run {
    fn into_block(self) -> Block {
        let text = quoted(&self.text);
        let data = match self.kind {
            Kind::Content => format!(r#"{{"role":"assistant","content":{text}}}"#),
            Kind::ReasoningContent => {
                format!(r#"{{"role":"assistant","content":null,"reasoning_content":{text}}}"#)
            }
            Kind::Reasoning => {
                format!(r#"{{"role":"assistant","content":null,"reasoning":{text}}}"#)
            }
            Kind::Refusal => format!(r#"{{"role":"assistant","content":null,"refusal":{text}}}"#),
        };
        Block { data, call: None, partial: false }
    }
}
