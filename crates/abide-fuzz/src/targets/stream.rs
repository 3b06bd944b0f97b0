//! A streamed answer of any form, whole and cut.
//!
//! The first byte says which form and how narrow the limits are, the next ones how long the chunks
//! are, in turns.

use abide_wire::MessageForm;
use abide_wire::stream::{
    AnswerParser, StreamDelta, StreamEnd, StreamError, StreamLimits, StreamedBlock,
};

/// How many lengths of chunks an input begins with.
const LENGTHS: usize = 4;

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let Some(([wish, lengths @ ..], bytes)) = data.split_first_chunk::<{ LENGTHS + 1 }>() else {
        return false;
    };
    let form = match wish % 3 {
        0 => MessageForm::OpenAi,
        1 => MessageForm::Responses,
        _ => MessageForm::Anthropic,
    };
    let limits = if wish & 0x80 == 0 {
        StreamLimits::default()
    } else {
        StreamLimits { event: 512, answer: 256, blocks: 8, calls: 2 }
    };
    let whole = feed(form, limits, [bytes].into_iter());
    let mut rest = bytes;
    let mut lengths = lengths.iter().cycle();
    let cut = feed(
        form,
        limits,
        std::iter::from_fn(|| {
            let length = lengths.next().map_or(1, |length| usize::from(*length) + 1);
            let (chunk, behind) = rest.split_at(length.min(rest.len()));
            rest = behind;
            (!chunk.is_empty()).then_some(chunk)
        }),
    );
    assert_eq!(whole, cut, "a cut made a difference");
    check(&whole, limits);
    !whole.blocks.is_empty()
}

#[derive(Debug, Default, PartialEq)]
struct Brought {
    /// Everything told but blocks, one after the other.
    told: Vec<String>,
    blocks: Vec<StreamedBlock>,
    ended: StreamEnd,
    failed: Option<StreamError>,
}

fn feed<'a>(
    form: MessageForm,
    limits: StreamLimits,
    chunks: impl Iterator<Item = &'a [u8]>,
) -> Brought {
    let mut parser = AnswerParser::with_limits(form, limits);
    let mut brought = Brought::default();
    for chunk in chunks {
        let mut tell = |delta: StreamDelta<'_>| match delta {
            StreamDelta::Block(block) => brought.blocks.push(block),
            other => brought.told.push(format!("{other:?}")),
        };
        if let Err(error) = parser.feed(chunk, &mut tell) {
            brought.failed = Some(error);
        }
    }
    brought.ended = parser.finish();
    brought
}

/// What is given is whole, and no more than is allowed.
fn check(brought: &Brought, limits: StreamLimits) {
    let blocks = brought.blocks.iter().chain(&brought.ended.partial);
    assert!(blocks.clone().count() <= limits.blocks);
    // Escapes make six bytes of one, and each block has a frame of its own.
    let bytes: usize = blocks.clone().map(|block| block.data.len()).sum();
    assert!(bytes <= limits.answer.saturating_mul(6) + limits.blocks * 256, "{bytes} bytes");
    for block in blocks {
        let data: Result<&serde_json::value::RawValue, _> = serde_json::from_str(&block.data);
        assert!(data.is_ok_and(|data| data.get().starts_with('{')), "{}", block.data);
        if let Some(streamed) = &block.call {
            let arguments: Result<serde::de::IgnoredAny, _> =
                serde_json::from_str(&streamed.call.arguments);
            assert!(streamed.broken.is_some() || arguments.is_ok());
        }
    }
    let all = || brought.blocks.iter().chain(&brought.ended.partial);
    assert!(all().all(|block| !block.partial || block.call.is_none()));
    assert!(!(brought.ended.complete && brought.failed.is_some()));
    if let Some(StreamError::Malformed { excerpt, .. }) = &brought.failed {
        assert!(excerpt.len() <= 512);
    }
}
