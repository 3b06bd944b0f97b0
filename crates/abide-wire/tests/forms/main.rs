//! The forms of messages: what goes in comes out equal, and what is rendered an API takes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

mod api;
mod conversion;
mod generated;
mod parts;
mod refused;
mod rendering;
mod samples;

use abide_model::{EventLimits, Payload};
use abide_wire::MessageForm;

const FORMS: [MessageForm; 4] =
    [MessageForm::Abide, MessageForm::Anthropic, MessageForm::OpenAi, MessageForm::Responses];

/// The samples of a form, one message a line.
fn samples(form: MessageForm) -> Vec<&'static str> {
    let text = match form {
        MessageForm::Abide => include_str!("../samples/abide.jsonl"),
        MessageForm::Anthropic => include_str!("../samples/anthropic.jsonl"),
        MessageForm::OpenAi => include_str!("../samples/openai.jsonl"),
        MessageForm::Responses => include_str!("../samples/responses.jsonl"),
    };
    text.lines().collect()
}

fn payload(text: &str) -> Payload {
    Payload::new(text, &EventLimits::default()).unwrap()
}

fn recorded(form: MessageForm, line: &str) -> Payload {
    payload(&abide_wire::record(form, line).unwrap_or_else(|error| panic!("{error}: {line}")))
}
