//! A context as the messages of an API's request: whatever was recorded, the API takes it.

mod ids;

use abide_model::{Context, Entry, MessageForm, OUTCOME_UNKNOWN, Payload, Seq};
use serde_json::value::RawValue;

use self::ids::Ids;
use crate::export::boxed;
use crate::json::mend_surrogates;
use crate::piece::{Call, Outcome, Piece, Recorded, Sort, Speaker, finished};
use crate::write::abide::Abide;
use crate::write::anthropic::Anthropic;
use crate::write::openai::OpenAi;
use crate::write::responses::Responses;
use crate::write::{Settled, Writing};

/// A context, rendered for an API.
#[derive(Debug, Clone)]
pub struct Rendered {
    form: MessageForm,
    /// The instructions, where the API takes them apart: a list of text blocks, for Anthropic.
    pub system: Option<Box<RawValue>>,
    /// The messages, for Responses the items, in order.
    pub messages: Vec<Box<RawValue>>,
}

impl Rendered {
    /// As the fields of a request: `{"messages":[…]}` for OpenAI, `{"system":…,"messages":[…]}` for
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

/// What the user says where a conversation would begin without the user.
const GOES_ON: &str = "(the conversation goes on)";
/// What a summary is introduced by.
const SUMMARY: &str = "Summary of the conversation so far:";

/// Renders a context for an API.
///
/// Whatever the forms of its messages, the API takes them: each call is followed by its one result,
/// and where there is none by one that says so; ids are each used once; the parts of one answer are
/// one message. What was recorded in this form goes out as it came, as far as that is valid.
/// Blank texts are left out. Arguments that are no JSON object are, for Anthropic, the text `raw`
/// of one.
#[must_use]
pub fn render(form: MessageForm, context: &Context) -> Rendered {
    let mut system = None;
    let messages = match form {
        MessageForm::Abide => walk(context, 512, Abide::default()).finish(),
        MessageForm::OpenAi => walk(context, 40, OpenAi::default()).finish(),
        MessageForm::Responses => walk(context, 64, Responses::default()).finish(),
        MessageForm::Anthropic => {
            let mut out = walk(context, 256, Anthropic::default());
            if !out.system.is_empty() {
                let text = mend_surrogates(out.system.take());
                system = RawValue::from_string(text).ok();
            }
            let mut messages = out.finish();
            if messages.first().is_some_and(|first| first.starts_with("{\"role\":\"assistant\"")) {
                let mut first = Anthropic::default();
                first.user(&[Piece::text(GOES_ON)], None);
                messages.splice(0..0, first.finish());
            }
            messages
        }
    };
    let messages = boxed(messages.into_iter().map(mend_surrogates).collect());
    Rendered { form, system, messages }
}

fn walk<W: Writing>(context: &Context, longest_id: usize, out: W) -> W {
    let mut walk = Walk { out, ids: Ids::new(longest_id), answer: Answer::default() };
    for entry in &context.entries {
        walk.entry(entry);
    }
    walk.close();
    walk.out
}

/// An answer of the model, with what its calls gave.
#[derive(Default)]
struct Answer<'a> {
    /// Which one it is, where that is known.
    id: Option<String>,
    pieces: Vec<Piece<'a>>,
    /// What is recorded of each call, in order.
    results: Vec<Option<Given<'a>>>,
    /// The message, where it is all of one.
    whole: Option<Recorded<'a>>,
    messages: usize,
}

/// Where the result of a call is from.
enum Given<'a> {
    Message { seq: Seq, data: &'a Payload },
    Executed(&'a Payload),
    Unknown,
}

struct Walk<'a, W> {
    out: W,
    ids: Ids,
    answer: Answer<'a>,
}

impl<'a, W: Writing> Walk<'a, W> {
    fn entry(&mut self, entry: &'a Entry) {
        match entry {
            Entry::Message { data, .. } => {
                if let Some(recorded) = Recorded::of(data) {
                    self.message(recorded);
                }
            }
            Entry::Result { seq, call, data, executed } => {
                let given = match executed {
                    true => Given::Executed(data),
                    false => Given::Message { seq: *seq, data },
                };
                self.answer.settle(call.as_str(), given);
            }
            Entry::Unknown { call, .. } => self.answer.settle(call.as_str(), Given::Unknown),
            Entry::Summary { text, .. } => {
                self.close();
                self.out.user(&[Piece::text(format!("{SUMMARY}\n\n{text}"))], None);
            }
        }
    }

    fn message(&mut self, mut recorded: Recorded<'a>) {
        if recorded.marks.partial {
            cut_off(&mut recorded.pieces);
        }
        let calls = recorded.pieces.iter().any(|piece| matches!(piece.sort, Sort::Call(_)));
        let speaker = recorded.speaker();
        let answer = recorded.marks.answer.as_deref();
        let goes_on = speaker == Speaker::Assistant
            && answer.is_some()
            && answer == self.answer.id.as_deref();
        if !goes_on {
            self.close();
        }
        match speaker {
            Speaker::Assistant => {}
            Speaker::Instructions => self.out.instructions(&recorded),
            Speaker::User => {
                let whole = Some(&recorded).filter(|_| !calls);
                self.out.user(&recorded.pieces, whole);
            }
        }
        if speaker != Speaker::Assistant && !calls {
            return;
        }
        let taken = std::mem::take(&mut recorded.pieces);
        for piece in &taken {
            // Only a call is the model's for sure.
            let kept = match piece.sort {
                Sort::Call(_) => true,
                Sort::Result(_) => false,
                _ => speaker == Speaker::Assistant,
            };
            if kept {
                self.answer.results.extend(matches!(piece.sort, Sort::Call(_)).then_some(None));
                self.answer.pieces.push(piece.clone());
            }
        }
        self.answer.messages += 1;
        self.answer.id = recorded.marks.answer.as_deref().map(str::to_owned);
        recorded.pieces = taken;
        self.answer.whole = Some(recorded).filter(|_| speaker == Speaker::Assistant);
    }

    /// Writes the answer, now that nothing more belongs to it.
    fn close(&mut self) {
        let answer = std::mem::take(&mut self.answer);
        if answer.pieces.is_empty() {
            return;
        }
        let mut calls = Vec::with_capacity(answer.results.len());
        let mut used: Vec<(Seq, &str)> = Vec::new();
        let called = answer.pieces.iter().filter_map(|piece| match &piece.sort {
            Sort::Call(call) => Some(call),
            _ => None,
        });
        for (call, given) in called.zip(&answer.results) {
            let (id, name) = (self.ids.fit(&call.id), ids::name(&call.name));
            let same = id == call.id && name == call.name;
            let result = Some(given_piece(call, given.as_ref(), &mut used));
            calls.push(Settled { id, name, same, answered_by: call.answered_by.clone(), result });
        }
        let whole = answer.whole.as_ref().filter(|_| answer.messages == 1);
        self.out.answer(&answer.pieces, &calls, whole);
    }
}

impl<'a> Answer<'a> {
    /// Takes in what a call gave. What no call waits for is left out.
    fn settle(&mut self, id: &str, given: Given<'a>) {
        let calls = self.pieces.iter().filter_map(|piece| match &piece.sort {
            Sort::Call(call) => Some(call),
            _ => None,
        });
        let waiting = calls.zip(&mut self.results);
        let mut waiting = waiting.filter(|(call, result)| result.is_none() && call.id == id);
        if let Some((_, place)) = waiting.next() {
            *place = Some(given);
        }
    }
}

/// What a call gave, as a piece.
fn given_piece<'a, 'c>(
    call: &'c Call<'a>,
    given: Option<&Given<'a>>,
    used: &mut Vec<(Seq, &'c str)>,
) -> Piece<'a> {
    let found = match given {
        Some(Given::Message { seq, data }) => {
            // One message may hold two results of calls with one id.
            let before = used.iter().filter(|one| **one == (*seq, &*call.id)).count();
            used.push((*seq, &call.id));
            result_in(data, &call.id, before)
        }
        Some(Given::Executed(data)) => {
            finished(data).map(|outcome| Piece::new(Sort::Result(outcome)))
        }
        Some(Given::Unknown) | None => None,
    };
    found.unwrap_or_else(|| {
        let pieces = vec![Piece::text(OUTCOME_UNKNOWN)];
        Piece::new(Sort::Result(Outcome { id: call.id.clone(), ok: Some(false), pieces }))
    })
}

fn result_in<'a>(data: &'a Payload, id: &str, before: usize) -> Option<Piece<'a>> {
    let pieces = Recorded::of(data)?.pieces;
    let of_call = |piece: &Piece<'_>| matches!(&piece.sort, Sort::Result(one) if one.id == id);
    let mut results = pieces.into_iter().filter(of_call);
    let first = results.next();
    results.nth(before.wrapping_sub(1)).filter(|_| before > 0).or(first)
}

/// Calls that were cut off were never made: they are shown as text.
fn cut_off(pieces: &mut [Piece<'_>]) {
    for piece in pieces {
        if let Sort::Call(call) = &piece.sort {
            let arguments = call.arguments.text();
            let text =
                format!("[cut off before it was made: a call of {} with {arguments}]", call.name);
            *piece = Piece::text(text);
        }
    }
}
