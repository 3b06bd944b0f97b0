//! Assembles the calls of an answer from their pieces.
//!
//! A piece identifies its call by an index, by an id, by both, or by neither.

use super::super::answer_parser::AnswerSink;
use super::super::arguments::{self, ArgumentBuffer};
use super::super::block::{StreamDelta, StreamedBlock};
use super::super::error::StreamError;
use super::super::field::quoted;
use super::chat_call_piece::{ChatCallKind, ChatCallPiece};

/// The most unknown fields kept per call.
const MOST_REST: usize = 64;

/// The calls of an answer.
#[derive(Debug, Default)]
pub(super) struct ChatCalls {
    /// Every call so far. Ended calls are kept without their arguments, so that late pieces can be
    /// recognized.
    all: Vec<ChatCall>,
    open: usize,
}

#[derive(Debug)]
struct ChatCall {
    index: Option<i64>,
    id: String,
    /// The provider sent no id; this one is made up.
    unnamed: bool,
    sort: ChatCallKind,
    name: String,
    arguments: ArgumentBuffer,
    /// Its unknown fields, as JSON.
    rest: Vec<(String, String)>,
    told: bool,
    ended: bool,
}

impl ChatCalls {
    /// Whether a piece begins a call.
    pub(super) fn begins(&self, piece: &ChatCallPiece<'_>) -> bool {
        self.place(piece).is_none()
    }

    /// Adds a piece.
    pub(super) fn take(
        &mut self,
        piece: &ChatCallPiece<'_>,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        let place = match self.place(piece) {
            Some(place) => place,
            None => self.start(piece, sink)?,
        };
        let Some(call) = self.all.get_mut(place) else { return Ok(()) };
        // An ended call has complete arguments, so nothing late belongs to it.
        if call.ended {
            return Ok(());
        }
        if let (true, false, Some(id)) = (call.unnamed, call.told, piece.id.some()) {
            id.clone_into(&mut call.id);
            call.unnamed = false;
        }
        if let (true, Some(name)) = (call.name.is_empty(), piece.name()) {
            sink.budget.keep(name.len())?;
            name.clone_into(&mut call.name);
            if call.sort == ChatCallKind::Legacy {
                // Its result refers to it only by name.
                name.clone_into(&mut call.id);
            }
        }
        call.keep(piece, sink)?;
        let text = piece.arguments();
        sink.budget.keep(text.len())?;
        call.arguments.push(&text);
        let known = !call.name.is_empty() || !text.is_empty();
        if known && !call.told {
            call.told = true;
            (sink.tell)(StreamDelta::CallStarted { id: &call.id, name: &call.name });
        }
        if !text.is_empty() {
            (sink.tell)(StreamDelta::CallArguments { id: &call.id, text: &text });
        }
        Ok(())
    }

    /// The call that a piece belongs to; `None` if it begins one.
    fn place(&self, piece: &ChatCallPiece<'_>) -> Option<usize> {
        let latest = |wanted: &dyn Fn(&ChatCall) -> bool| self.all.iter().rposition(wanted);
        let id = piece.id.some();
        let place = match (piece.index, id) {
            _ if piece.sort == ChatCallKind::Legacy => {
                latest(&|call| call.sort == ChatCallKind::Legacy)?
            }
            (Some(index), _) => latest(&|call| call.index == Some(index))?,
            (None, Some(id)) => latest(&|call| call.id == id && !call.unnamed)?,
            (None, None) => self.all.len().checked_sub(1)?,
        };
        let call = self.all.get(place)?;
        let other = match id {
            // A different id means a different call, whatever the index.
            Some(id) => call.id != id && !call.unnamed,
            // A name without an id begins a call if the previous one is complete.
            None => {
                piece.name().is_some_and(|name| call.ended || call.is_whole() || name != call.name)
                    && !call.name.is_empty()
            }
        };
        (!other).then_some(place)
    }

    fn start(
        &mut self,
        piece: &ChatCallPiece<'_>,
        sink: &mut AnswerSink<'_>,
    ) -> Result<usize, StreamError> {
        self.end_whole(sink);
        sink.begins();
        sink.budget.block()?;
        sink.budget.call(self.open)?;
        let place = self.all.len();
        let id = piece.id.some().map(str::to_owned);
        let unnamed = id.is_none();
        let id = id.unwrap_or_else(|| match &sink.about.id {
            Some(answer) => format!("{answer}_call_{place}"),
            None => format!("call_{place}"),
        });
        sink.budget.keep(id.len())?;
        self.open += 1;
        self.all.push(ChatCall {
            index: piece.index,
            id,
            unnamed,
            sort: piece.sort,
            name: String::new(),
            arguments: ArgumentBuffer::default(),
            rest: Vec::new(),
            told: false,
            ended: false,
        });
        Ok(place)
    }

    /// Ends the calls whose arguments are complete.
    pub(super) fn end_whole(&mut self, sink: &mut AnswerSink<'_>) {
        self.end(ChatCall::is_whole, sink);
    }

    /// Ends all calls.
    pub(super) fn end_all(&mut self, sink: &mut AnswerSink<'_>) {
        self.end(|_| true, sink);
    }

    fn end(&mut self, which: impl Fn(&ChatCall) -> bool, sink: &mut AnswerSink<'_>) {
        if self.open == 0 {
            return;
        }
        for call in self.all.iter_mut().filter(|call| !call.ended && which(call)) {
            let (block, may_be_cut) = call.block();
            sink.give(block, may_be_cut);
            call.ended = true;
            call.arguments = ArgumentBuffer::default();
            call.rest = Vec::new();
            self.open -= 1;
        }
    }

    /// The blocks of the open calls.
    pub(super) fn into_blocks(self) -> impl Iterator<Item = StreamedBlock> {
        self.all.into_iter().filter(|call| !call.ended).map(|call| call.block().0)
    }
}

impl ChatCall {
    /// Whether its arguments are complete. For text that is never known.
    fn is_whole(&self) -> bool {
        self.sort != ChatCallKind::Custom && self.arguments.is_whole()
    }

    /// Keeps the unknown fields of a piece; the last value of each counts.
    fn keep(
        &mut self,
        piece: &ChatCallPiece<'_>,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        for (name, value) in &piece.rest {
            sink.budget.keep(name.len() + value.get().len())?;
            let value = value.get().to_owned();
            let many = self.rest.len() >= MOST_REST;
            match self.rest.iter_mut().find(|(kept, _)| kept == name) {
                Some((_, kept)) => *kept = value,
                None if many => {}
                None => self.rest.push((name.to_string(), value)),
            }
        }
        Ok(())
    }

    /// The block, and whether it is a call that may have been cut off.
    fn block(&self) -> (StreamedBlock, bool) {
        let given = &self.arguments.text;
        let (id, name) = (quoted(&self.id), quoted(&self.name));
        let mut rest = String::new();
        for (name, value) in &self.rest {
            rest += &format!(",{}:{value}", quoted(name));
        }
        let (call, may_be_cut, called) = if self.sort == ChatCallKind::Custom {
            // Text becomes a JSON string, and its end is never known.
            let input = quoted(given);
            let call = arguments::call(&self.id, &self.name, &input);
            let custom = format!(r#"{{"name":{name},"input":{input}}}"#);
            (call, true, format!(r#"{{"id":{id},"type":"custom","custom":{custom}{rest}}}"#))
        } else {
            let call = arguments::call(&self.id, &self.name, given);
            let may_be_cut = arguments::may_be_cut(&call, given);
            let arguments = quoted(&call.call.arguments);
            let function = format!(r#"{{"name":{name},"arguments":{arguments}}}"#);
            let called = match self.sort {
                ChatCallKind::Legacy => function,
                _ => format!(r#"{{"id":{id},"type":"function","function":{function}{rest}}}"#),
            };
            (call, may_be_cut, called)
        };
        let data = match self.sort {
            ChatCallKind::Legacy => {
                format!(r#"{{"role":"assistant","content":null,"function_call":{called}}}"#)
            }
            _ => format!(r#"{{"role":"assistant","content":null,"tool_calls":[{called}]}}"#),
        };
        (StreamedBlock { data, call: Some(call), partial: false }, may_be_cut)
    }
}
