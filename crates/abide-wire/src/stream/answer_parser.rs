//! The parser of a streamed answer of any form.

use abide_model::json::mend_surrogates;
use serde_json::value::RawValue;

use super::answer_usage::AnswerInfo;
use super::anthropic::AnthropicParser;
use super::arguments;
use super::block::{StreamDelta, StreamEnd, StreamedBlock};
use super::chat::ChatParser;
use super::error::StreamError;
use super::responses::ResponsesParser;
use super::sse_event_reader::{SseEvent, SseEventReader};
use super::stream_budget::{StreamBudget, StreamLimits};
use crate::MessageForm;

/// Parses an answer as it arrives.
#[derive(Debug)]
pub struct AnswerParser {
    events: SseEventReader,
    answer: AnswerState,
    failed: Option<StreamError>,
}

/// The state of an answer being parsed.
#[derive(Debug)]
struct AnswerState {
    form: FormParser,
    about: AnswerInfo,
    budget: StreamBudget,
    held: Vec<HeldBlock>,
    /// An event is missing: a part of any block that ends from now on may be too.
    is_missing_some: bool,
}

/// A finished block of which it is not known yet whether it was cut off, or a block after such a
/// one.
#[derive(Debug)]
struct HeldBlock {
    block: StreamedBlock,
    may_be_cut: bool,
}

#[derive(Debug)]
pub(super) enum FormParser {
    Chat(ChatParser),
    Responses(ResponsesParser),
    Anthropic(AnthropicParser),
}

/// Receives what an event brings.
pub(super) struct AnswerSink<'a> {
    pub(super) about: &'a mut AnswerInfo,
    pub(super) budget: &'a mut StreamBudget,
    pub(super) tell: &'a mut dyn FnMut(StreamDelta<'_>),
    held: &'a mut Vec<HeldBlock>,
    is_missing_some: bool,
}

impl AnswerSink<'_> {
    /// Emits a complete block.
    pub(super) fn block(&mut self, block: StreamedBlock) {
        self.give(block, false);
    }

    /// Emits a block. One that may be cut off is held back until something begins after it, or
    /// until the provider says why the model stopped.
    pub(super) fn give(&mut self, block: StreamedBlock, may_be_cut: bool) {
        let block = if self.is_missing_some { block.cut() } else { block };
        if may_be_cut || !self.held.is_empty() {
            self.held.push(HeldBlock { block, may_be_cut });
        } else {
            (self.tell)(StreamDelta::Block(block));
        }
    }

    /// Something new begins, so the held blocks were not cut off: emits them.
    pub(super) fn begins(&mut self) {
        self.release(false);
    }

    /// Whether the model was stopped mid-answer.
    pub(super) fn is_cut(&self) -> bool {
        self.about.reason.as_deref().is_some_and(arguments::cuts)
    }

    fn release(&mut self, cut: bool) {
        for held in self.held.drain(..) {
            (self.tell)(StreamDelta::Block(held.known(cut)));
        }
    }
}

impl HeldBlock {
    fn known(self, cut: bool) -> StreamedBlock {
        if cut && self.may_be_cut { self.block.cut() } else { self.block }
    }
}

impl AnswerParser {
    /// Creates a parser for answers in this form. No provider streams abide's own form; it is
    /// parsed as Chat Completions.
    #[must_use]
    pub fn new(form: MessageForm) -> Self {
        Self::with_limits(form, StreamLimits::default())
    }

    /// [`Self::new`] with other limits.
    #[must_use]
    pub fn with_limits(form: MessageForm, limits: StreamLimits) -> Self {
        let form = match form {
            MessageForm::OpenAi | MessageForm::Abide => FormParser::Chat(ChatParser::default()),
            MessageForm::Responses => FormParser::Responses(ResponsesParser::default()),
            MessageForm::Anthropic => FormParser::Anthropic(AnthropicParser::default()),
        };
        Self {
            events: SseEventReader::new(limits.event),
            answer: AnswerState {
                form,
                about: AnswerInfo::default(),
                budget: StreamBudget::new(limits),
                held: Vec::new(),
                is_missing_some: false,
            },
            failed: None,
        }
    }

    /// Parses the next bytes, split anywhere, and reports what they bring.
    ///
    /// # Errors
    ///
    /// If the stream is malformed or exceeds a limit. It cannot be parsed further: every later call
    /// returns the same error, and [`Self::finish`] returns what came before.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        tell: &mut dyn FnMut(StreamDelta<'_>),
    ) -> Result<(), StreamError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let Self { events, answer, failed } = self;
        let fed = events.feed(bytes, |event| answer.take(event, tell));
        fed.inspect_err(|error| *failed = Some(error.clone()))
    }

    /// Parses one event that the caller has split off the stream. A malformed event is left out as by
    /// [`Self::miss_event`], and the next may follow.
    ///
    /// # Errors
    ///
    /// If the event is malformed, or the answer exceeds a limit. After the latter every later call
    /// returns the same error.
    pub fn feed_event(
        &mut self,
        name: &[u8],
        data: &[u8],
        tell: &mut dyn FnMut(StreamDelta<'_>),
    ) -> Result<(), StreamError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if data.is_empty() {
            return Ok(());
        }
        let taken = self.answer.take(SseEvent { at: 0, name, data }, tell);
        taken.inspect_err(|error| {
            if matches!(error, StreamError::Malformed { .. }) {
                self.miss_event();
            } else {
                self.failed = Some(error.clone());
            }
        })
    }

    /// An event of the answer is lost. The answer is not complete, and its blocks are marked partial
    /// from here on: a part of each may be missing, and a call without it would be another call.
    pub const fn miss_event(&mut self) {
        self.answer.is_missing_some = true;
    }

    /// The parser of its form.
    pub(super) const fn form(&self) -> &FormParser {
        &self.answer.form
    }

    /// The provider's id of the answer, as far as it is known.
    pub(super) fn id(&self) -> Option<&str> {
        self.answer.about.id.as_deref()
    }

    /// Whether the provider has said why the model stopped, or that it failed.
    pub(super) const fn has_stopped(&self) -> bool {
        self.answer.about.over || self.answer.about.error.is_some()
    }

    /// Ends the stream, whether it is complete, cut off or cancelled, and returns what was
    /// unfinished, marked partial.
    #[must_use]
    pub fn finish(self) -> StreamEnd {
        let Self { events, mut answer, failed } = self;
        let mut partial = Vec::new();
        let mut sound = failed.is_none();
        if sound {
            let mut tell = |delta: StreamDelta<'_>| {
                if let StreamDelta::Block(block) = delta {
                    partial.push(block);
                }
            };
            let last = events.finish(|event| answer.take(event, &mut tell));
            // A truncated last event is not an error.
            sound = matches!(last, Ok(()) | Err(StreamError::Malformed { .. }));
        }
        partial.extend(answer.held.into_iter().map(|held| held.known(true)));
        partial.extend(answer.form.unfinished());
        let AnswerInfo { id, model, reason, error, usage, over } = answer.about;
        let complete = over && sound && error.is_none() && !answer.is_missing_some;
        StreamEnd { partial, complete, usage, model, id, reason, error }
    }
}

impl AnswerState {
    fn take(
        &mut self,
        event: SseEvent<'_>,
        tell: &mut dyn FnMut(StreamDelta<'_>),
    ) -> Result<(), StreamError> {
        let (about, budget) = (&mut self.about, &mut self.budget);
        let is_missing_some = self.is_missing_some;
        let mut sink = AnswerSink { about, budget, tell, held: &mut self.held, is_missing_some };
        let mended = mended(event.data);
        let event = SseEvent { data: mended.as_deref().unwrap_or(event.data), ..event };
        if event.data == b"[DONE]" {
            sink.about.over = true;
            if let FormParser::Chat(chat) = &mut self.form {
                chat.end(&mut sink);
            }
        } else {
            match &mut self.form {
                FormParser::Chat(chat) => chat.take(event, &mut sink)?,
                FormParser::Responses(responses) => responses.take(event, &mut sink)?,
                FormParser::Anthropic(anthropic) => anthropic.take(event, &mut sink)?,
            }
        }
        if sink.about.over {
            let cut = sink.is_cut();
            sink.release(cut);
        }
        Ok(())
    }
}

impl FormParser {
    fn unfinished(self) -> Vec<StreamedBlock> {
        match self {
            Self::Chat(chat) => chat.unfinished(),
            Self::Responses(responses) => responses.unfinished(),
            Self::Anthropic(anthropic) => anthropic.unfinished(),
        }
    }
}

/// Replaces unpaired surrogates, which no string can hold, by U+FFFD, which is as long. `None` if
/// there are none.
fn mended(data: &[u8]) -> Option<Vec<u8>> {
    let half = |at: usize| matches!(data.get(at + 1..at + 3), Some([b'u', b'd' | b'D']));
    if !memchr::memchr_iter(b'\\', data).any(half) {
        return None;
    }
    let text = String::from_utf8(data.to_vec()).ok()?;
    Some(mend_surrogates(text).into_bytes())
}

/// Parses a part of an event's data.
pub(super) fn parse_part<'a, T: serde::Deserialize<'a>>(
    part: &'a RawValue,
    event: SseEvent<'_>,
) -> Result<T, StreamError> {
    let json = part.get();
    serde_json::from_str(json).map_err(|error| {
        let before = json.as_ptr().addr().saturating_sub(event.data.as_ptr().addr());
        StreamError::malformed(&error, json.as_bytes(), event.at + before as u64)
    })
}

/// Parses an event's data. UTF-8 is checked once for all of it, not for each string.
pub(super) fn parse<'a, T: serde::Deserialize<'a>>(event: SseEvent<'a>) -> Result<T, StreamError> {
    let data = std::str::from_utf8(event.data)
        .map_err(|error| StreamError::not_text(error, event.data, event.at))?;
    serde_json::from_str(data).map_err(|error| StreamError::malformed(&error, event.data, event.at))
}
