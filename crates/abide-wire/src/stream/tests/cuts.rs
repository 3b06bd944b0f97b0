//! Where the bytes are cut makes no difference; where they end does.

use proptest::prelude::*;
use serde_json::Value;

use super::samples::{TEXT, all};
use super::*;

/// Everything told, as the samples say it.
fn is_the_sample(brought: &Brought) {
    assert_eq!(brought.failed, None);
    assert_eq!(brought.text, TEXT);
    assert_eq!(brought.thinking, "First look.");
    let call = |id: &str, name: &str, arguments: &str| {
        (id.to_owned(), name.to_owned(), arguments.to_owned())
    };
    assert_eq!(
        brought.calls,
        [call("call_a", "read", r#"{"path":"a b"}"#), call("call_b", "list", "{}")]
    );
    assert_eq!(brought.blocks.len(), 4);
    assert!(brought.blocks.iter().all(|block| !block.partial));
    let asked: Vec<_> = brought.blocks.iter().filter_map(|block| block.call.as_ref()).collect();
    assert_eq!(asked.len(), 2);
    for (asked, told) in asked.iter().zip(&brought.calls) {
        assert_eq!(asked.broken, None);
        assert_eq!((&asked.call.id, &asked.call.name, &asked.call.arguments), {
            (&told.0, &told.1, &told.2)
        });
    }
    let ended = &brought.ended;
    assert!(ended.complete && ended.partial.is_empty() && ended.error.is_none());
    let usage = ended.usage.as_ref().unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (120, 40));
    assert_eq!(usage.cache_read_tokens, 64);
}

/// The text that blocks hold.
fn texts<'a>(blocks: impl Iterator<Item = &'a StreamedBlock>) -> String {
    let mut all = String::new();
    for block in blocks {
        let data: Value = serde_json::from_str(&block.data).unwrap();
        match &data["content"] {
            Value::String(text) => all.push_str(text),
            Value::Array(parts) => {
                all.extend(parts.iter().filter_map(|part| part["text"].as_str()));
            }
            _ => {}
        }
    }
    all
}

#[test]
fn each_sample_brings_what_it_says() {
    for (form, bytes) in all() {
        let brought = feed(form, [bytes.as_slice()]);
        is_the_sample(&brought);
        assert_eq!(texts(brought.blocks.iter()), TEXT, "{form:?}");
    }
}

#[test]
fn one_cut_anywhere_changes_nothing() {
    for (form, bytes) in all() {
        let whole = feed(form, [bytes.as_slice()]);
        for cut in 0..=bytes.len() {
            let (one, other) = bytes.split_at(cut);
            assert_eq!(feed(form, [one, other]), whole, "{form:?} cut at {cut}");
        }
        assert_eq!(feed(form, bytes.chunks(1)), whole, "{form:?} byte by byte");
    }
}

#[test]
fn the_last_empty_line_may_be_missing() {
    for (form, bytes) in all() {
        let bytes = bytes.trim_ascii_end();
        is_the_sample(&feed(form, [bytes]));
    }
}

#[test]
fn a_stream_that_breaks_off_gives_a_beginning() {
    for (form, bytes) in all() {
        let whole = feed(form, [bytes.as_slice()]);
        let (mut marked, mut cut_calls) = (0, 0);
        for cut in 0..bytes.len() {
            let brought = feed(form, [&bytes[..cut]]);
            assert_eq!(brought.failed, None, "{form:?} cut at {cut}");
            assert!(TEXT.starts_with(&brought.text));
            let ended = &brought.ended;
            let said = texts(brought.blocks.iter().chain(&ended.partial));
            assert!(TEXT.starts_with(&said), "{form:?} cut at {cut}: {said}");
            assert!(said.starts_with(&brought.text), "nothing told is lost: {form:?}, {cut}");
            for (block, wanted) in brought.blocks.iter().zip(&whole.blocks) {
                assert_eq!(block, wanted, "what was complete is complete");
            }
            for block in &ended.partial {
                // A whole event without its empty line may complete a block.
                assert!(block.partial || whole.blocks.contains(block), "{form:?} cut at {cut}");
                marked += usize::from(block.partial);
                assert!(!block.partial || block.call.is_none(), "what is cut is not to be run");
                cut_calls += usize::from(block.partial && block.data.contains("call_a"));
            }
            if ended.complete {
                assert!(ended.partial.iter().all(|block| !block.partial), "{form:?} {cut}");
            }
        }
        assert!(marked > 100 && cut_calls > 10, "{form:?}: {marked} {cut_calls}");
    }
}

proptest! {
    #[test]
    fn many_cuts_change_nothing(
        form in 0_usize..3,
        cuts in prop::collection::vec(0_usize..8192, 0..40),
    ) {
        let (form, bytes) = all().swap_remove(form);
        let whole = feed(form, [bytes.as_slice()]);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let ends = cuts.iter().copied().chain([bytes.len()]);
        let starts = [0].into_iter().chain(cuts.iter().copied());
        let chunks = starts.zip(ends).map(|(start, end)| &bytes[start..end]);
        prop_assert_eq!(feed(form, chunks), whole);
    }

    /// Whatever the bytes are, the cut makes no difference.
    #[test]
    fn cuts_in_anything_change_nothing(
        form in 0_usize..3,
        place in 0_usize..8192,
        byte: u8,
        gone in 0_usize..200,
        cut in 0_usize..8192,
    ) {
        let (form, mut bytes) = all().swap_remove(form);
        let place = place % bytes.len();
        bytes[place] = byte;
        bytes.drain(place..(place + gone).min(bytes.len()));
        let (one, other) = bytes.split_at(cut % (bytes.len() + 1));
        let whole = feed(form, [bytes.as_slice()]);
        let both = feed(form, [one, other]);
        prop_assert_eq!(&both.failed, &whole.failed);
        prop_assert_eq!(both, whole);
    }
}
