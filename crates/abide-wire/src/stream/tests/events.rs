//! Server-sent events, and what goes wrong in them.

use super::*;
use crate::MessageForm::{Anthropic, OpenAi, Responses};

const HALLO: &str = r#"{"choices":[{"delta":{"content":"Hallo"}}]}"#;

#[test]
fn every_sort_of_line_is_understood() {
    for bytes in [
        format!("data: {HALLO}\n\n"),
        format!("data:{HALLO}\r\n\r\n"),
        format!("\u{feff}data: {HALLO}\r\r"),
        format!(": comment\n:\nid: 7\nretry: 10\nevent: x\ndata: {HALLO}\n\n"),
        format!("\n\n\ndata: {HALLO}\n\n\n\n"),
        format!("data\n\ndata: \n\ndatabase: no\n\ndata: {HALLO}\n\n"),
        "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\r\ndata: \"Hallo\"}}]}\n\n"
            .to_owned(),
    ] {
        let brought = feed(OpenAi, [bytes.as_bytes()]);
        assert_eq!((brought.text.as_str(), &brought.failed), ("Hallo", &None), "{bytes}");
        assert_eq!(feed(OpenAi, bytes.as_bytes().chunks(1)), brought);
    }
}

#[test]
fn the_name_of_an_event_stands_in_for_its_type() {
    let bytes = b"event: content_block_start\ndata: {\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"Hallo\"}}\n\nevent: message_stop\ndata: {}\n\n";
    let brought = feed(Anthropic, [&bytes[..]]);
    assert_eq!(brought.text, "Hallo");
    assert!(brought.ended.complete);
    assert_eq!(brought.blocks.len(), 1);
}

#[test]
fn unknown_events_and_fields_are_passed_over() {
    for form in [OpenAi, Responses, Anthropic] {
        let brought = read(
            form,
            &[r#"{"type":"of.tomorrow","delta":{"x":[1]},"new":{"a":null}}"#, "{}", "[DONE]"],
        );
        assert_eq!(brought.failed, None, "{form:?}");
        assert!(brought.blocks.is_empty() && brought.ended.partial.is_empty());
    }
}

#[test]
fn what_is_malformed_is_shown_with_its_place() {
    for form in [OpenAi, Responses, Anthropic] {
        let mut bytes = stream(&["{}"]);
        let wrong = bytes.len() + "data: {\"type\":".len();
        bytes.extend(b"data: {\"type\":nonsense, \"x\":1}\n\ndata: {}\n\n");
        let brought = feed(form, [bytes.as_slice(), b"data: {}\n\n"]);
        let Some(StreamError::Malformed { at, reason, excerpt }) = &brought.failed else {
            panic!("{form:?}: {:?}", brought.failed);
        };
        assert!((wrong..wrong + 3).contains(&usize::try_from(*at).unwrap()), "{form:?}: {at}");
        assert!(excerpt.contains("nonsense"), "{excerpt}");
        assert!(!reason.contains("line"), "{reason}");
        assert!(!brought.ended.complete);
        assert_eq!(feed(form, bytes.chunks(1)).failed, brought.failed);
    }
}

#[test]
fn after_an_error_what_there_was_is_given() {
    let brought = read(OpenAi, &[HALLO, "{\"choices\":7}", HALLO]);
    assert!(matches!(brought.failed, Some(StreamError::Malformed { .. })));
    assert_eq!(brought.text, "Hallo");
    assert_eq!(brought.partial(), [r#"{"role":"assistant","content":"Hallo"}"#]);
    assert!(!brought.ended.complete);
    let invalid =
        feed(OpenAi, [&b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}\n\n"[..]]);
    assert!(matches!(invalid.failed, Some(StreamError::Malformed { at: 39, .. })));
}

#[test]
fn nothing_grows_without_end() {
    let limits = StreamLimits { event: 200, answer: 1000, blocks: 20, calls: 3 };
    let within = |form, bytes: &[u8]| {
        let whole = feed_within(limits, form, [bytes]);
        assert_eq!(feed_within(limits, form, bytes.chunks(7)), whole, "{form:?}");
        assert!(!whole.ended.complete);
        whole.failed
    };
    let too_long = |at| Some(StreamError::EventTooLong { at, limit: 200 });
    // A line without an end, a long comment, and an event of many lines.
    assert_eq!(within(OpenAi, &[b'x'; 201]), too_long(0));
    assert_eq!(within(OpenAi, format!("\n:{}\n\n", "x".repeat(200)).as_bytes()), too_long(1));
    assert_eq!(within(OpenAi, "data: 0123456789\n".repeat(100).as_bytes()), too_long(6));

    let text = [
        (OpenAi, r#"{"choices":[{"delta":{"content":"0123456789"}}]}"#),
        (
            OpenAi,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"0123456789"}}]}}]}"#,
        ),
        (Responses, r#"{"type":"response.output_text.delta","delta":"0123456789"}"#),
        (
            Anthropic,
            r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"0123456789"}}"#,
        ),
    ];
    for (form, data) in text {
        let failed = within(form, &stream(&[data; 101]));
        assert_eq!(failed, Some(StreamError::AnswerTooLong { limit: 1000 }), "{form:?}");
    }

    let numbered = |data: &str| -> Vec<u8> {
        let events = (0..30).map(|number| data.replace('#', &number.to_string()));
        events.flat_map(|data| format!("data: {data}\n\n").into_bytes()).collect()
    };
    let mut turns = String::new();
    for field in ["content", "refusal"].iter().cycle().take(30) {
        turns += &format!("data: {{\"choices\":[{{\"delta\":{{\"{field}\":\"x\"}}}}]}}\n\n");
    }
    for (form, bytes) in [
        (OpenAi, turns.into_bytes()),
        (Responses, numbered(r#"{"type":"response.output_item.done","output_index":#,"item":{}}"#)),
        (
            Responses,
            numbered(r#"{"type":"response.output_text.delta","content_index":#,"delta":"x"}"#),
        ),
        (Anthropic, numbered(r#"{"type":"content_block_start","index":#,"content_block":{}}"#)),
    ] {
        let failed = within(form, &bytes);
        assert_eq!(failed, Some(StreamError::TooManyBlocks { limit: 20 }), "{form:?}");
    }

    for (form, data) in [
        (
            OpenAi,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":#,"id":"c#","function":{"name":"x","arguments":"{"}}]}}]}"#,
        ),
        (
            Responses,
            r#"{"type":"response.output_item.added","output_index":#,"item":{"type":"function_call","call_id":"c#"}}"#,
        ),
        (
            Anthropic,
            r#"{"type":"content_block_start","index":#,"content_block":{"type":"tool_use","id":"c#"}}"#,
        ),
    ] {
        let failed = within(form, &numbered(data));
        assert_eq!(failed, Some(StreamError::TooManyCalls { limit: 3 }), "{form:?}");
    }
}
