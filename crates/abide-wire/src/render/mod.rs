//! Renders a context as a request that the API accepts, whatever was recorded.

mod ids;
mod results;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use abide_model::json::mend_surrogates;
use abide_model::message::{CallPiece, MessagePiece, PieceContent, RecordedMessage, Speaker};
use abide_model::{Context, ContextEntry, MessageForm};
use serde_json::value::RawValue;

use self::ids::UsedIds;
use self::results::{ResultLookup, ResultSource};
use crate::export::boxed;
use crate::write::abide::AbideWriter;
use crate::write::anthropic::AnthropicWriter;
use crate::write::openai::OpenAiWriter;
use crate::write::responses::ResponsesWriter;
use crate::write::{AnswerSpan, MessageWriter, SettledCall, calls_in_words};

/// A context, rendered for an API.
#[derive(Debug, Clone)]
pub struct RenderedContext {
    form: MessageForm,
    /// The instructions as a list of text blocks, if the API takes them separately (Anthropic).
    pub system: Option<Box<RawValue>>,
    /// The messages in order; items for Responses.
    pub messages: Vec<Box<RawValue>>,
}

impl RenderedContext {
    /// The request fields: `{"messages":[…]}` for OpenAI, `{"system":…,"messages":[…]}` for
    /// Anthropic, `{"input":[…]}` for Responses.
    #[must_use]
    pub fn to_json(&self) -> String {
        let length = self.messages.iter().map(|message| message.get().len() + 1).sum::<usize>();
        let system = self.system.as_ref().map(|system| system.get());
        let mut out = String::with_capacity(length + system.map_or(0, str::len) + 32);
        out.push('{');
        if let Some(system) = system {
            out.push_str("\"system\":");
            out.push_str(system);
            out.push(',');
        }
        out.push_str(match self.form {
            MessageForm::Responses => "\"input\":[",
            _ => "\"messages\":[",
        });
        for (index, message) in self.messages.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(message.get());
        }
        out.push_str("]}");
        out
    }
}

/// Inserted as the user's message where the API requires one.
const GOES_ON: &str = "(the conversation goes on)";
/// Introduces the summary of compacted messages.
const SUMMARY: &str = "Summary of the conversation so far:";

/// Renders a context for an API.
///
/// The API accepts the result, whatever the forms of the recorded messages. Each call is followed
/// by exactly one result; a missing one is replaced by a result that says the outcome is unknown.
/// Every id is used once. The parts of one answer are joined into one message, and a call that no
/// message contains gets a message of its own. What was recorded in this form is copied unchanged
/// as far as it is valid.
///
/// For Anthropic, an answer that was cut off is followed by a short user message, so that the model
/// can continue, and arguments that are not a JSON object become the field `raw` of one. Blank
/// texts are dropped.
#[must_use]
pub fn render(form: MessageForm, context: &Context) -> RenderedContext {
    let mut system = None;
    let messages = match form {
        MessageForm::Abide => walk(context, 512, AbideWriter::default()).out.finish(),
        MessageForm::OpenAi => walk(context, 40, OpenAiWriter::default()).out.finish(),
        MessageForm::Responses => walk(context, 64, ResponsesWriter::default()).out.finish(),
        MessageForm::Anthropic => {
            let walked = walk(context, 256, AnthropicWriter::default());
            let (instructions, mut messages) = walked.out.finish();
            system =
                instructions.and_then(|text| RawValue::from_string(mend_surrogates(text)).ok());
            let goes_on = || {
                let mut user = AnthropicWriter::default();
                user.user(&[MessagePiece::text(GOES_ON)], None);
                user.finish().1
            };
            if messages.first().is_some_and(|first| is_model(first)) {
                messages.splice(0..0, goes_on());
            }
            // The model must continue an answer that was cut off, but newer models do not accept a
            // trailing assistant message. After a complete answer it is the user's turn: nothing is
            // added.
            if walked.interrupted && messages.last().is_some_and(|last| is_model(last)) {
                messages.extend(goes_on());
            }
            messages
        }
    };
    let messages = boxed(messages.into_iter().map(mend_surrogates).collect());
    RenderedContext { form, system, messages }
}

fn is_model(message: &str) -> bool {
    message.starts_with("{\"role\":\"assistant\"")
}

fn walk<W: MessageWriter>(context: &Context, longest_id: usize, out: W) -> RenderWalk<'_, W> {
    let answer = OpenAnswer::default();
    let mut walk = RenderWalk { out, ids: UsedIds::new(longest_id), answer, interrupted: false };
    for entry in &context.entries {
        walk.entry(entry);
    }
    walk.close();
    walk
}

/// An answer of the model, with the results of its calls.
#[derive(Default)]
struct OpenAnswer<'a> {
    /// Its id, if known.
    id: Option<String>,
    pieces: Vec<MessagePiece>,
    /// The recorded result of each call, in order.
    results: Vec<Option<ResultSource<'a>>>,
    /// The calls that wait for a result, by id.
    waiting: HashMap<String, VecDeque<usize>>,
    /// The messages it consists of.
    spans: Vec<AnswerSpan<'a>>,
}

struct RenderWalk<'a, W> {
    out: W,
    ids: UsedIds,
    answer: OpenAnswer<'a>,
    /// The last message is an answer that was cut off.
    interrupted: bool,
}

impl<'a, W: MessageWriter> RenderWalk<'a, W> {
    fn entry(&mut self, entry: &'a ContextEntry) {
        match entry {
            ContextEntry::Message { message, .. } => self.message(message),
            ContextEntry::Call { data, .. } => {
                self.close();
                self.interrupted = false;
                // The call becomes an answer of its own.
                if let Some(call) = CallPiece::begun(data) {
                    self.answer.call(&call.id);
                    let call = PieceContent::Call(Box::new(call));
                    self.answer.pieces.push(MessagePiece::new(call));
                }
            }
            ContextEntry::Result { seq, call, result } => {
                self.answer.settle(call.as_str(), Some((*seq, result)));
            }
            ContextEntry::Unknown { call, .. } => self.answer.settle(call.as_str(), None),
            ContextEntry::Summary { text, .. } => {
                self.close();
                self.interrupted = false;
                self.out.user(&[MessagePiece::text(format!("{SUMMARY}\n\n{text}"))], None);
            }
        }
    }

    fn message(&mut self, message: &'a RecordedMessage) {
        let recorded = match message.marks.partial {
            true => Cow::Owned(cut_off(message)),
            false => Cow::Borrowed(message),
        };
        let calls = recorded.pieces.iter().any(|piece| piece.call().is_some());
        let speaker = recorded.speaker();
        let answer = recorded.marks.answer.as_deref();
        let goes_on = speaker == Speaker::Assistant
            && answer.is_some()
            && answer == self.answer.id.as_deref();
        self.interrupted = recorded.marks.partial || (goes_on && self.interrupted);
        if !goes_on {
            self.close();
        }
        match speaker {
            Speaker::Assistant => {}
            Speaker::Instructions => self.out.instructions(&recorded),
            Speaker::User => {
                let whole = Some(&*recorded).filter(|_| !calls);
                self.out.user(&recorded.pieces, whole);
            }
        }
        if speaker != Speaker::Assistant && !calls {
            return;
        }
        let before = self.answer.pieces.len();
        for piece in &recorded.pieces {
            match &piece.sort {
                // In other roles, only calls are certain to be the model's.
                PieceContent::Call(call) => self.answer.call(&call.id),
                PieceContent::Result(_) => continue,
                _ if speaker == Speaker::Assistant => {}
                _ => continue,
            }
            self.answer.pieces.push(piece.clone());
        }
        self.answer.id.clone_from(&recorded.marks.answer);
        let pieces = self.answer.pieces.len() - before;
        self.answer.spans.push(AnswerSpan { recorded, pieces });
    }

    /// Writes the answer; nothing more belongs to it.
    fn close(&mut self) {
        let answer = std::mem::take(&mut self.answer);
        if answer.pieces.is_empty() {
            return;
        }
        let mut calls = Vec::with_capacity(answer.results.len());
        let mut results = ResultLookup::default();
        let called = answer.pieces.iter().filter_map(MessagePiece::call);
        for (call, given) in called.zip(answer.results) {
            let (id, name) = (self.ids.fit(&call.id), ids::name(&call.name));
            let same = id == call.id && name == call.name;
            let result = Some(results.piece(call, given));
            calls.push(SettledCall { id, name, same, answered_by: &call.answered_by, result });
        }
        self.out.answer(&answer.pieces, &calls, &answer.spans);
    }
}

impl<'a> OpenAnswer<'a> {
    /// Adds a call, which waits for its result.
    fn call(&mut self, id: &str) {
        self.waiting.entry(id.to_owned()).or_default().push_back(self.results.len());
        self.results.push(None);
    }

    /// Adds the result of a call. Drops a result that no call waits for.
    fn settle(&mut self, id: &str, given: Option<ResultSource<'a>>) {
        let first = self.waiting.get_mut(id).and_then(VecDeque::pop_front);
        if let Some(place) = first.and_then(|first| self.results.get_mut(first)) {
            *place = given;
        }
    }
}

/// Reduces a message that was cut off to its text. Calls in it were never made, and become a text
/// that says so.
fn cut_off(message: &RecordedMessage) -> RecordedMessage {
    let mut cut = message.clone();
    calls_in_words(&mut cut.pieces);
    let said = |piece: &MessagePiece| {
        matches!(piece.sort, PieceContent::Text(_) | PieceContent::Refusal(_))
    };
    cut.pieces.retain(said);
    cut
}
