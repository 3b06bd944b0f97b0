//! The parser of a streamed answer, whatever its form.

use super::anthropic::Anthropic;
use super::block::{Block, Delta, Ended};
use super::bounds::{Budget, StreamLimits};
use super::chat::Chat;
use super::error::StreamError;
use super::event::{Event, EventReader};
use super::responses::Responses;
use super::tally::About;
use crate::MessageForm;

/// Reads an answer as it comes.
#[derive(Debug)]
pub struct AnswerParser {
    events: EventReader,
    answer: Answer,
    failed: Option<StreamError>,
}

/// What was read of an answer.
#[derive(Debug)]
struct Answer {
    form: Form,
    about: About,
    budget: Budget,
}

#[derive(Debug)]
enum Form {
    Chat(Chat),
    Responses(Responses),
    Anthropic(Anthropic),
}

/// Where an event of a form puts what it brings.
pub(super) struct Sink<'a> {
    pub(super) about: &'a mut About,
    pub(super) budget: &'a mut Budget,
    pub(super) tell: &'a mut dyn FnMut(Delta<'_>),
}

impl Sink<'_> {
    /// Gives a block that is complete.
    pub(super) fn block(&mut self, block: Block) {
        (self.tell)(Delta::Block(block));
    }
}

impl AnswerParser {
    /// A parser of answers in a form. Our own form is not streamed by anyone: answers are read as
    /// Chat Completions then.
    #[must_use]
    pub fn new(form: MessageForm) -> Self {
        Self::with_limits(form, StreamLimits::default())
    }

    /// The same, with other limits.
    #[must_use]
    pub fn with_limits(form: MessageForm, limits: StreamLimits) -> Self {
        let form = match form {
            MessageForm::OpenAi | MessageForm::Abide => Form::Chat(Chat::default()),
            MessageForm::Responses => Form::Responses(Responses::default()),
            MessageForm::Anthropic => Form::Anthropic(Anthropic::default()),
        };
        Self {
            events: EventReader::new(limits.event),
            answer: Answer { form, about: About::default(), budget: Budget::new(limits) },
            failed: None,
        }
    }

    /// Takes the next bytes as they came, cut anywhere; tells what they bring.
    ///
    /// # Errors
    ///
    /// When the stream is malformed or goes over a limit. It cannot be read on then: every further
    /// call gives the same error, and [`Self::finish`] what there was.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        tell: &mut dyn FnMut(Delta<'_>),
    ) -> Result<(), StreamError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let Self { events, answer, failed } = self;
        let fed = events.feed(bytes, |event| answer.take(event, tell));
        fed.inspect_err(|error| *failed = Some(error.clone()))
    }

    /// The stream has ended, or was cut off or cancelled: gives what was unfinished, marked
    /// partial.
    #[must_use]
    pub fn finish(self) -> Ended {
        let Self { events, mut answer, failed } = self;
        let mut partial = Vec::new();
        let mut sound = failed.is_none();
        if sound {
            let mut tell = |delta: Delta<'_>| {
                if let Delta::Block(block) = delta {
                    partial.push(block);
                }
            };
            let last = events.finish(|event| answer.take(event, &mut tell));
            // An event that was cut off is no fault of the stream.
            sound = matches!(last, Ok(()) | Err(StreamError::Malformed { .. }));
        }
        partial.extend(answer.form.unfinished());
        let About { id, model, reason, error, usage, over } = answer.about;
        let complete = over && sound && error.is_none();
        Ended { partial, complete, usage, model, id, reason, error }
    }
}

impl Answer {
    fn take(
        &mut self,
        event: Event<'_>,
        tell: &mut dyn FnMut(Delta<'_>),
    ) -> Result<(), StreamError> {
        let mut sink = Sink { about: &mut self.about, budget: &mut self.budget, tell };
        if event.data == b"[DONE]" {
            sink.about.over = true;
            if let Form::Chat(chat) = &mut self.form {
                chat.end(&mut sink);
            }
            return Ok(());
        }
        match &mut self.form {
            Form::Chat(chat) => chat.take(event, &mut sink),
            Form::Responses(responses) => responses.take(event, &mut sink),
            Form::Anthropic(anthropic) => anthropic.take(event, &mut sink),
        }
    }
}

impl Form {
    fn unfinished(self) -> Vec<Block> {
        match self {
            Self::Chat(chat) => chat.unfinished(),
            Self::Responses(responses) => responses.unfinished(),
            Self::Anthropic(anthropic) => anthropic.unfinished(),
        }
    }
}

/// Reads the data of an event. Whether they are UTF-8 is asked once, not for each string in them.
pub(super) fn parse<'a, T: serde::Deserialize<'a>>(event: Event<'a>) -> Result<T, StreamError> {
    let data = std::str::from_utf8(event.data)
        .map_err(|error| StreamError::not_text(error, event.data, event.at))?;
    serde_json::from_str(data).map_err(|error| StreamError::malformed(&error, event.data, event.at))
}
