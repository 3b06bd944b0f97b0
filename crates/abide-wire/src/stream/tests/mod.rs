//! Streams of each form: what they bring, wherever they are cut.

mod anthropic;
mod chat;
mod cuts;
mod events;
mod responses;
mod samples;
mod sequence;

use super::*;
use crate::MessageForm;

/// Everything a stream brought.
#[derive(Debug, Default, Clone, PartialEq)]
struct Brought {
    text: String,
    thinking: String,
    refusal: String,
    /// Each call that started, with its arguments as they were told.
    calls: Vec<(String, String, String)>,
    blocks: Vec<StreamedBlock>,
    ended: StreamEnd,
    failed: Option<StreamError>,
}

impl Brought {
    fn hear(&mut self, delta: StreamDelta<'_>) {
        match delta {
            StreamDelta::Text(text) => self.text.push_str(text),
            StreamDelta::Thinking(text) => self.thinking.push_str(text),
            StreamDelta::Refusal(text) => self.refusal.push_str(text),
            StreamDelta::CallStarted { id, name } => {
                self.calls.push((id.to_owned(), name.to_owned(), String::new()));
            }
            StreamDelta::CallArguments { id, text } => {
                let call = self.calls.iter_mut().find(|call| call.0 == id).expect("it started");
                call.2.push_str(text);
            }
            StreamDelta::Block(block) => self.blocks.push(block),
        }
    }

    fn data(&self) -> Vec<&str> {
        self.blocks.iter().map(|block| block.data.as_str()).collect()
    }

    fn partial(&self) -> Vec<&str> {
        assert!(self.ended.partial.iter().all(|block| block.partial));
        self.ended.partial.iter().map(|block| block.data.as_str()).collect()
    }
}

fn feed<'a>(form: MessageForm, chunks: impl IntoIterator<Item = &'a [u8]>) -> Brought {
    feed_within(StreamLimits::default(), form, chunks)
}

fn feed_within<'a>(
    limits: StreamLimits,
    form: MessageForm,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Brought {
    let mut parser = AnswerParser::with_limits(form, limits);
    let mut brought = Brought::default();
    for chunk in chunks {
        let fed = parser.feed(chunk, &mut |delta| brought.hear(delta));
        match (&brought.failed, fed) {
            (None, fed) => brought.failed = fed.err(),
            (Some(before), fed) => assert_eq!(fed.as_ref(), Err(before), "it says so again"),
        }
    }
    brought.ended = parser.finish();
    brought
}

/// Events of a `data` line each.
fn stream(data: &[&str]) -> Vec<u8> {
    data.iter().flat_map(|data| format!("data: {data}\n\n").into_bytes()).collect()
}

fn read(form: MessageForm, data: &[&str]) -> Brought {
    feed(form, [stream(data).as_slice()])
}
