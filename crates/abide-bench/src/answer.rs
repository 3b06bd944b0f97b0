//! Reading streamed answers, beside what any reader of them must do: find the lines, parse the JSON.

use std::hint::black_box;
use std::time::Instant;

use abide_wire::MessageForm;
use abide_wire::stream::{AnswerParser, StreamDelta};
use serde::de::IgnoredAny;

use crate::Outcome;
use crate::bench::Bench;
use crate::figure::{Better, Figure, Target};

/// How many bytes a read from a connection brings.
const READ: usize = 8 << 10;

/// How many bytes a call's arguments and a text are streamed in, as tokens are.
const WORDS: [&str; 8] =
    ["The", " parser", " takes", " \\\"bytes\\\"", ",\\n", " gr\u{f6}\u{df}e", " and", " goes on"];

pub(crate) fn measure(bench: &Bench) -> Outcome {
    let forms = [
        ("chat", MessageForm::OpenAi, chat as fn(&str, usize) -> String),
        ("responses", MessageForm::Responses, responses),
        ("anthropic", MessageForm::Anthropic, anthropic),
    ];
    let count = bench.scale.of(100_000);
    for (name, form, event) in forms {
        let words = WORDS.iter().cycle().take(count).enumerate();
        let bytes: String = words.map(|(number, word)| event(word, number)).collect();
        measure_form(bench, name, form, bytes.as_bytes(), count)?;
    }
    Ok(())
}

fn measure_form(
    bench: &Bench,
    name: &str,
    form: MessageForm,
    bytes: &[u8],
    count: usize,
) -> Outcome {
    let name = format!("answer.stream.{name}");
    let mut figure = Figure::new(name, "MB/s", Better::Higher, Target::AtLeast(200.0));
    let mut lines = Vec::new();
    for _ in 0..bench.rounds {
        let mut told = 0;
        let parsed = rate(bytes, || told = parse(form, bytes));
        if told < count * 3 {
            return Err(format!("{told} bytes of text were told").into());
        }
        figure.push_with_raw(parsed, rate(bytes, || ignore(bytes)));
        lines.push(rate(bytes, || {
            black_box(bytes.split(|byte| *byte == b'\n').count());
        }));
    }
    figure.note("raw", "serde_json over the data lines into nothing");
    figure.note("lines", crate::figure::rounded(crate::figure::median(&lines)));
    figure.note("event_bytes", bytes.len() / count);
    bench.report(&figure)
}

/// Megabytes a second.
fn rate(bytes: &[u8], work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    bytes.len() as f64 / 1e6 / start.elapsed().as_secs_f64()
}

/// How many bytes of text the stream brought.
fn parse(form: MessageForm, bytes: &[u8]) -> usize {
    let mut parser = AnswerParser::new(form);
    let mut told = 0;
    for read in bytes.chunks(READ) {
        let mut tell = |delta: StreamDelta<'_>| {
            if let StreamDelta::Text(text) = delta {
                told += text.len();
            }
        };
        parser.feed(read, &mut tell).expect("a sound stream");
    }
    black_box(parser.finish());
    told
}

fn ignore(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Some(data) = line.strip_prefix(b"data: ") {
            let _: IgnoredAny = black_box(serde_json::from_slice(data)).expect("JSON");
        }
    }
}

fn chat(word: &str, _: usize) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-9xK2vQ\",\"object\":\"chat.completion.chunk\",\"created\":1763200000,\"model\":\"gpt-5-mini\",\"system_fingerprint\":\"fp_44709d6fcb\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{word}\"}},\"logprobs\":null,\"finish_reason\":null}}]}}\n\n"
    )
}

fn responses(word: &str, number: usize) -> String {
    format!(
        "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\"sequence_number\":{number},\"item_id\":\"msg_68a1c4\",\"output_index\":0,\"content_index\":0,\"delta\":\"{word}\",\"logprobs\":[],\"obfuscation\":\"p0Xb4c\"}}\n\n"
    )
}

fn anthropic(word: &str, _: usize) -> String {
    format!(
        "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{word}\"}}}}\n\n"
    )
}
