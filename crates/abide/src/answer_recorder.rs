//! Records a model's answer while it streams in. Each block is durable once it is complete.
//!
//! A crash loses at most the incomplete block; the request then has no `api.finished` event. If the
//! answer is cancelled or cut off, the incomplete block is recorded as partial.

use std::io::Read;

use abide_model::{
    AcknowledgedEvent, ApiCall, ApiResult, CallId, EventLimits, Kind, LaneId, NewEvent, Payload,
    TaskId,
};
use abide_model::{TurnNumber, Usage};
use abide_wire::MessageForm;
use abide_wire::stream::{
    AnswerParser, StreamDelta, StreamError, StreamLimits, StreamedBlock, StreamedCall,
};
use serde_json::value::RawValue;

use crate::{Error, Session};

/// Maximum number of characters recorded of an error.
const ERROR: usize = 2000;
/// Bytes read at once.
const CHUNK: usize = 16 << 10;
/// Maximum size of an answer in bytes, so that any block fits into an event however it is escaped.
const ANSWER: usize = 10 << 20;

/// A model request whose answer is to be recorded.
#[derive(Debug, Clone)]
pub struct AnswerRequest {
    /// The API format of the answer.
    pub form: MessageForm,
    /// The model.
    pub model: Option<String>,
    /// The lane; `None` for the main lane.
    pub lane: Option<LaneId>,
    /// The turn.
    pub turn: Option<TurnNumber>,
    /// The task.
    pub task: Option<TaskId>,
    /// The request body, if it should be recorded. The context can always be rebuilt from the
    /// journal.
    pub request: Option<Box<RawValue>>,
}

impl AnswerRequest {
    /// A request in the main lane.
    #[must_use]
    pub const fn new(form: MessageForm) -> Self {
        Self { form, model: None, lane: None, turn: None, task: None, request: None }
    }
}

/// The outcome of a request.
#[derive(Debug, Clone, Default)]
pub struct RecordedAnswer {
    /// The text of the answer.
    pub text: String,
    /// The tool calls. Calls with invalid arguments are marked.
    pub calls: Vec<StreamedCall>,
    /// True if the model finished its answer.
    pub complete: bool,
    /// Why it ended, in the provider's words.
    pub reason: Option<String>,
    /// Token usage.
    pub usage: Option<Usage>,
    /// The error that the provider sent.
    pub error: Option<String>,
    /// The blocks that were recorded at its end: those that are incomplete.
    pub last: Vec<RecordedBlock>,
    /// The event that recorded its end.
    pub end: Option<AcknowledgedEvent>,
}

/// A block of an answer that is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedBlock {
    /// Its event.
    pub event: AcknowledgedEvent,
    /// True if it is incomplete.
    pub partial: bool,
}

/// An answer being recorded. If dropped before it is finished, it counts as cancelled: what arrived
/// so far is recorded.
#[derive(Debug)]
pub struct AnswerRecorder<'a> {
    session: &'a Session,
    request: AnswerRequest,
    call: CallId,
    /// `None` once finished.
    parser: Option<AnswerParser>,
    answered: RecordedAnswer,
}

impl Session {
    /// Records a request to a model and prepares to record its answer. An interrupted request in
    /// the same lane is closed first.
    pub fn answer(&self, request: AnswerRequest) -> Result<AnswerRecorder<'_>, Error> {
        let mut events = self.interrupted(request.lane.as_ref())?;
        let call = CallId(format!("answer-{}", self.store().new_checkpoint_id()));
        let fact = ApiCall {
            call: Some(call.clone()),
            model: request.model.clone(),
            request: request.request.clone(),
        };
        events.push(placed_answer_event(&request, NewEvent::try_from(fact)?));
        self.answering().insert(call.0.clone());
        if let Err(error) = self.append_all(events).and_then(|ticket| Ok(ticket.wait()?)) {
            self.answering().remove(&call.0);
            return Err(error);
        }
        let limits = StreamLimits { answer: ANSWER, ..StreamLimits::default() };
        let parser = Some(AnswerParser::with_limits(request.form, limits));
        Ok(AnswerRecorder {
            session: self,
            request,
            call,
            parser,
            answered: RecordedAnswer::default(),
        })
    }

    /// The events that close requests of a lane that never got an answer.
    fn interrupted(&self, lane: Option<&LaneId>) -> Result<Vec<NewEvent>, Error> {
        let state = self.state()?;
        let open = state.calls.iter().filter(|(_, call)| call.request);
        let mut events = Vec::new();
        let ours = self.answering();
        for (id, call) in open.filter(|(_, call)| call.lane.as_ref() == lane) {
            // Another thread may be reading its answer.
            if ours.contains(id) {
                continue;
            }
            let error = "interrupted before the answer was complete".to_owned();
            let fact = ApiResult {
                call: Some(CallId(id.to_owned())),
                model: None,
                response: None,
                error: Some(error),
                usage: None,
            };
            let event = NewEvent::try_from(fact)?;
            events.push(NewEvent { lane: call.lane.clone(), task: call.task.clone(), ..event });
        }
        Ok(events)
    }
}

/// The event with the request's lane, turn and task.
fn placed_answer_event(request: &AnswerRequest, event: NewEvent) -> NewEvent {
    let (turn, task, lane) = (request.turn, request.task.clone(), request.lane.clone());
    NewEvent { turn, task, lane, ..event }
}

impl AnswerRecorder<'_> {
    /// The id of the recorded request.
    #[must_use]
    pub const fn call(&self) -> &CallId {
        &self.call
    }

    /// Consumes the next bytes of the answer, split anywhere, and passes what they contain to
    /// `show`. Blocks completed by these bytes are durable when this returns.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        show: &mut dyn FnMut(&StreamDelta<'_>),
    ) -> Result<(), Error> {
        self.parse(show, |parser, tell| parser.feed(bytes, tell)).map(|_| ())
    }

    /// Consumes one event that the caller has split off the stream, as [`feed`](Self::feed) does.
    /// Returns the blocks that it completed: they are durable. A malformed event is left out, and the
    /// next may follow.
    pub fn feed_event(
        &mut self,
        name: &[u8],
        data: &[u8],
        show: &mut dyn FnMut(&StreamDelta<'_>),
    ) -> Result<Vec<RecordedBlock>, Error> {
        self.parse(show, |parser, tell| parser.feed_event(name, data, tell))
    }

    /// An event of the answer is lost: it is not complete, and its blocks are marked partial from here
    /// on, since a part of each may be missing.
    pub fn miss_event(&mut self) {
        if let Some(parser) = &mut self.parser {
            parser.miss_event();
        }
    }

    /// Whether an event begins another answer.
    #[must_use]
    pub fn is_next(&self, name: &[u8], data: &[u8]) -> bool {
        self.parser.as_ref().is_some_and(|parser| parser.is_next(name, data))
    }

    /// Parses a part of the answer and records the blocks that it completes.
    fn parse(
        &mut self,
        show: &mut dyn FnMut(&StreamDelta<'_>),
        feed: impl FnOnce(&mut AnswerParser, &mut dyn FnMut(StreamDelta<'_>)) -> Result<(), StreamError>,
    ) -> Result<Vec<RecordedBlock>, Error> {
        let Some(parser) = &mut self.parser else { return Ok(Vec::new()) };
        let mut blocks = Vec::new();
        let answered = &mut self.answered;
        let fed = feed(parser, &mut |delta| {
            show(&delta);
            match delta {
                StreamDelta::Text(text) => answered.text.push_str(text),
                StreamDelta::Block(block) => {
                    answered.calls.extend(block.call.clone());
                    blocks.push(block);
                }
                _ => {}
            }
        });
        let recorded = self.record(&blocks)?;
        fed?;
        Ok(recorded)
    }

    /// Records that there is no answer, and why.
    pub fn fail(mut self, why: impl std::fmt::Display) -> Result<(), Error> {
        self.end(Some(why.to_string()))
    }

    /// Reads the whole answer and finishes it, however it ends.
    pub fn read(
        mut self,
        mut from: impl Read,
        show: &mut dyn FnMut(&StreamDelta<'_>),
    ) -> Result<RecordedAnswer, Error> {
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = match from.read(&mut chunk) {
                Ok(0) => return self.finish(),
                Ok(read) => chunk.get(..read).unwrap_or_default(),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.end(Some(format!("cut off: {error}")))?;
                    return Err(Error::CutOff(error));
                }
            };
            if let Err(error) = self.feed(read, show) {
                self.end(Some(error.to_string()))?;
                return Err(error);
            }
        }
    }

    /// As [`finish`](Self::finish), for an answer of which something is missing: says why.
    pub fn cut_off(mut self, why: impl std::fmt::Display) -> Result<RecordedAnswer, Error> {
        self.end(Some(why.to_string()))?;
        Ok(std::mem::take(&mut self.answered))
    }

    /// Ends the answer: records the incomplete block as partial, and the usage.
    pub fn finish(mut self) -> Result<RecordedAnswer, Error> {
        self.end(None)?;
        Ok(std::mem::take(&mut self.answered))
    }

    fn end(&mut self, why: Option<String>) -> Result<(), Error> {
        let Some(parser) = self.parser.take() else { return Ok(()) };
        self.session.answering().remove(&self.call.0);
        let ended = parser.finish();
        self.answered.last = self.record(&ended.partial)?;
        // The end of the stream may have completed some blocks.
        let whole = ended.partial.iter().filter(|block| !block.partial);
        self.answered.calls.extend(whole.filter_map(|block| block.call.clone()));
        let cut = || "cut off before the answer was complete".to_owned();
        let error = ended.error.clone().or(why).or_else(|| (!ended.complete).then(cut));
        let error = error.map(|error| {
            self.session.redacted_text(&error).chars().take(ERROR).collect::<String>()
        });
        let fact = ApiResult {
            call: Some(self.call.clone()),
            model: ended.model.or_else(|| self.request.model.clone()),
            response: None,
            error: error.clone(),
            usage: ended.usage.clone(),
        };
        let end = self
            .session
            .append(placed_answer_event(&self.request, NewEvent::try_from(fact)?))?
            .wait()?;
        self.answered.end = end.last().copied();
        self.answered.complete = ended.complete && error.is_none();
        self.answered.reason = ended.reason;
        self.answered.usage = ended.usage;
        self.answered.error = error;
        Ok(())
    }

    /// Records blocks durably.
    fn record(&self, blocks: &[StreamedBlock]) -> Result<Vec<RecordedBlock>, Error> {
        let mut events = Vec::with_capacity(blocks.len());
        let mut partial = Vec::with_capacity(blocks.len());
        let mut refused = None;
        for block in blocks {
            match self.marked(block) {
                Ok(data) => {
                    let event = NewEvent::new(Kind::MESSAGE_ADDED, data);
                    events.push(placed_answer_event(&self.request, event));
                    partial.push(block.partial);
                }
                // The other blocks are recorded anyway.
                Err(error) => refused = Some(error),
            }
        }
        if events.is_empty() {
            return refused.map_or(Ok(Vec::new()), Err);
        }
        let recorded = self.session.append_all(events)?.wait()?;
        let recorded = recorded.into_iter().zip(partial);
        let recorded = recorded.map(|(event, partial)| RecordedBlock { event, partial });
        refused.map_or_else(|| Ok(recorded.collect()), Err)
    }

    /// The data of a block, with the id of its answer.
    fn marked(&self, block: &StreamedBlock) -> Result<Payload, Error> {
        let data = Payload::new(&block.data, &EventLimits::default())?;
        // An item that is not a message by itself becomes the only block of one.
        let wrapped = self.request.form == MessageForm::Responses && data.field("type").is_none();
        let ours = AnswerMark {
            answer: &self.call.0,
            partial: block.partial,
            form: wrapped.then_some("responses"),
        };
        let ours = serde_json::to_string(&ours).unwrap_or_default();
        let open = data.as_str().strip_suffix('}').unwrap_or_default();
        Ok(Payload::new(&format!("{open},\"abide\":{ours}}}"), &EventLimits::default())?)
    }
}

/// What abide adds to a message of the model.
#[derive(serde::Serialize)]
struct AnswerMark<'a> {
    answer: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    partial: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<&'a str>,
}

impl Drop for AnswerRecorder<'_> {
    fn drop(&mut self) {
        // Callers that need the result use `finish`.
        let _ = self.end(Some("cancelled".to_owned()));
    }
}
