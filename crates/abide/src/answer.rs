//! A model's answer, recorded as it comes: each block is durable when it ends.
//!
//! A crash loses at most the block that was unfinished; the request then has no `api.finished`,
//! which marks it. Cancelled or cut off, what there was of that block is recorded as partial.

use std::io::Read;

use abide_model::{ApiCall, ApiResult, CallId, Kind, LaneId, Limits, NewEvent, Payload, TaskId};
use abide_model::{TurnNumber, Usage};
use abide_wire::MessageForm;
use abide_wire::stream::{AnswerParser, Block, Delta, StreamLimits, StreamedCall};
use serde_json::value::RawValue;

use crate::{Error, Session};

/// The most characters of an error that is recorded.
const ERROR: usize = 2000;
/// How much is read at once.
const CHUNK: usize = 16 << 10;
/// The most bytes of an answer: however they are escaped, a block of it fits into an event.
const ANSWER: usize = 10 << 20;

/// A request to a model, whose answer is to be recorded.
#[derive(Debug, Clone)]
pub struct AnswerRequest {
    /// In which form the answer comes.
    pub form: MessageForm,
    /// Which model is asked.
    pub model: Option<String>,
    /// In which lane; the main one has no name.
    pub lane: Option<LaneId>,
    /// In which turn.
    pub turn: Option<TurnNumber>,
    /// For which task.
    pub task: Option<TaskId>,
    /// The request, where it is to be kept. The context can be had from the journal at any time.
    pub request: Option<Box<RawValue>>,
}

impl AnswerRequest {
    /// An answer of the main lane.
    #[must_use]
    pub const fn new(form: MessageForm) -> Self {
        Self { form, model: None, lane: None, turn: None, task: None, request: None }
    }
}

/// What came of a request.
#[derive(Debug, Clone, Default)]
pub struct Answered {
    /// The text of it.
    pub text: String,
    /// The tools that the model asks for. One whose arguments are broken says so.
    pub calls: Vec<StreamedCall>,
    /// The model came to its end.
    pub complete: bool,
    /// Why it ended, in the provider's words.
    pub reason: Option<String>,
    /// What it used.
    pub usage: Option<Usage>,
    /// The error that the provider sent.
    pub error: Option<String>,
}

/// An answer as it comes. Dropped before it is finished, it counts as cancelled: what there is of
/// it is recorded.
#[derive(Debug)]
pub struct Answer<'a> {
    session: &'a Session,
    request: AnswerRequest,
    call: CallId,
    /// None once it is finished.
    parser: Option<AnswerParser>,
    answered: Answered,
}

impl Session {
    /// Records that a model is asked, and gets ready for its answer. A request of the same lane
    /// that was interrupted is ended first.
    pub fn answer(&self, request: AnswerRequest) -> Result<Answer<'_>, Error> {
        let mut events = self.interrupted(request.lane.as_ref())?;
        let call = CallId(format!("answer-{}", self.store().new_checkpoint_id()));
        let fact = ApiCall {
            call: Some(call.clone()),
            model: request.model.clone(),
            request: request.request.clone(),
        };
        events.push(placed(&request, NewEvent::try_from(fact)?));
        self.answering().insert(call.0.clone());
        if let Err(error) = self.append_all(events).and_then(|ticket| Ok(ticket.wait()?)) {
            self.answering().remove(&call.0);
            return Err(error);
        }
        let limits = StreamLimits { answer: ANSWER, ..StreamLimits::default() };
        let parser = Some(AnswerParser::with_limits(request.form, limits));
        Ok(Answer { session: self, request, call, parser, answered: Answered::default() })
    }

    /// What ends the requests of a lane that were never answered.
    fn interrupted(&self, lane: Option<&LaneId>) -> Result<Vec<NewEvent>, Error> {
        let state = self.state()?;
        let open = state.calls.iter().filter(|(_, call)| call.request);
        let mut events = Vec::new();
        let ours = self.answering();
        for (id, call) in open.filter(|(_, call)| call.lane.as_ref() == lane) {
            // Another thread may be listening to it.
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

/// An event in the place of a request.
fn placed(request: &AnswerRequest, event: NewEvent) -> NewEvent {
    let (turn, task, lane) = (request.turn, request.task.clone(), request.lane.clone());
    NewEvent { turn, task, lane, ..event }
}

impl Answer<'_> {
    /// The id under which the request is recorded.
    #[must_use]
    pub const fn call(&self) -> &CallId {
        &self.call
    }

    /// Takes the next bytes of the answer in, cut anywhere; shows what they bring. A block that
    /// ends with them is durable when this returns.
    pub fn feed(&mut self, bytes: &[u8], show: &mut dyn FnMut(&Delta<'_>)) -> Result<(), Error> {
        let Some(parser) = &mut self.parser else { return Ok(()) };
        let mut blocks = Vec::new();
        let answered = &mut self.answered;
        let fed = parser.feed(bytes, &mut |delta| {
            show(&delta);
            match delta {
                Delta::Text(text) => answered.text.push_str(text),
                Delta::Block(block) => {
                    answered.calls.extend(block.call.clone());
                    blocks.push(block);
                }
                _ => {}
            }
        });
        self.record(&blocks)?;
        Ok(fed?)
    }

    /// There is no answer: records why.
    pub fn fail(mut self, why: impl std::fmt::Display) -> Result<(), Error> {
        self.end(Some(why.to_string()))
    }

    /// Reads the whole answer, and finishes it however it ends.
    pub fn read(
        mut self,
        mut from: impl Read,
        show: &mut dyn FnMut(&Delta<'_>),
    ) -> Result<Answered, Error> {
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

    /// The answer has ended: records what was unfinished as partial, and what it used.
    pub fn finish(mut self) -> Result<Answered, Error> {
        self.end(None)?;
        Ok(std::mem::take(&mut self.answered))
    }

    fn end(&mut self, why: Option<String>) -> Result<(), Error> {
        let Some(parser) = self.parser.take() else { return Ok(()) };
        self.session.answering().remove(&self.call.0);
        let ended = parser.finish();
        self.record(&ended.partial)?;
        // A last event may have completed some.
        let whole = ended.partial.iter().filter(|block| !block.partial);
        self.answered.calls.extend(whole.filter_map(|block| block.call.clone()));
        let cut = || "cut off before the answer was complete".to_owned();
        let error = ended.error.clone().or(why).or_else(|| (!ended.complete).then(cut));
        let error = error.map(|error| error.chars().take(ERROR).collect::<String>());
        let fact = ApiResult {
            call: Some(self.call.clone()),
            model: ended.model.or_else(|| self.request.model.clone()),
            response: None,
            error: error.clone(),
            usage: ended.usage.clone(),
        };
        self.session.append(placed(&self.request, NewEvent::try_from(fact)?))?.wait()?;
        self.answered.complete = ended.complete && error.is_none();
        self.answered.reason = ended.reason;
        self.answered.usage = ended.usage;
        self.answered.error = error;
        Ok(())
    }

    /// Makes blocks durable.
    fn record(&self, blocks: &[Block]) -> Result<(), Error> {
        let mut events = Vec::with_capacity(blocks.len());
        let mut refused = None;
        for block in blocks {
            match self.marked(block) {
                Ok(data) => {
                    let event = NewEvent::new(Kind::MESSAGE_ADDED, data);
                    events.push(placed(&self.request, event));
                }
                // The others are recorded all the same.
                Err(error) => refused = Some(error),
            }
        }
        if !events.is_empty() {
            self.session.append_all(events)?.wait()?;
        }
        refused.map_or(Ok(()), Err)
    }

    /// The data of a block, with the answer that it is a part of.
    fn marked(&self, block: &Block) -> Result<Payload, Error> {
        let data = Payload::new(&block.data, &Limits::default())?;
        // An item that is no message of its own is the one block of one.
        let wrapped = self.request.form == MessageForm::Responses && data.field("type").is_none();
        let ours = Ours {
            answer: &self.call.0,
            partial: block.partial,
            form: wrapped.then_some("responses"),
        };
        let ours = serde_json::to_string(&ours).unwrap_or_default();
        let open = data.as_str().strip_suffix('}').unwrap_or_default();
        Ok(Payload::new(&format!("{open},\"abide\":{ours}}}"), &Limits::default())?)
    }
}

/// What abide says about a message, beside what the model said.
#[derive(serde::Serialize)]
struct Ours<'a> {
    answer: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    partial: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<&'a str>,
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        // Those who want to know call `finish`.
        let _ = self.end(Some("cancelled".to_owned()));
    }
}
