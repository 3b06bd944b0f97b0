//! Answers after each other: where one begins and ends.

use super::*;

fn fed(form: MessageForm, events: &[&str]) -> AnswerParser {
    let mut parser = AnswerParser::new(form);
    for event in events {
        parser.feed_event(b"", event.as_bytes(), &mut |_| {}).expect("it is sound");
    }
    parser
}

#[test]
fn an_event_of_chat_completions_begins_another_answer() {
    let said = r#"{"id":"1","choices":[{"index":0,"delta":{"content":"a"}}]}"#;
    let stopped = r#"{"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let failed = r#"{"error":{"message":"overloaded"}}"#;
    let other = r#"{"id":"2","choices":[{"index":0,"delta":{"content":"b"}}]}"#;
    let role = r#"{"id":"2","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
    let unnamed = r#"{"choices":[{"index":0,"delta":{"content":"b"}}]}"#;
    let usage = r#"{"id":"2","choices":[],"usage":{"prompt_tokens":1}}"#;
    for (events, next, wanted) in [
        (vec![said], said, false),
        (vec![said], role, true),
        // Every chunk has an id of its own.
        (vec![said], other, false),
        (vec![said, stopped], other, true),
        (vec![said, stopped], usage, false),
        (vec![said], unnamed, false),
        (vec![said, stopped], unnamed, true),
        (vec![failed], said, true),
        (vec![failed], "[DONE]", false),
    ] {
        let parser = fed(MessageForm::OpenAi, &events);
        assert_eq!(parser.is_next(b"", next.as_bytes()), wanted, "{events:?} {next}");
    }
}

#[test]
fn an_event_that_begins_or_ends_an_answer_is_known_by_its_type_or_its_name() {
    use MessageForm::{Anthropic, OpenAi, Responses};
    for (form, name, data, begins, ends) in [
        (Anthropic, "", r#"{"type":"message_start"}"#, true, false),
        (Anthropic, "message_start", "{}", true, false),
        (Anthropic, "", r#"{"type":"message_stop"}"#, true, true),
        (Anthropic, "message_stop", "{", true, true),
        (Anthropic, "", r#"{"type":"error"}"#, true, true),
        (Anthropic, "", r#"{"type":"response.created"}"#, false, false),
        (Anthropic, "", r#"{"type":"later"}"#, false, false),
        (Responses, "", r#"{"type":"response.created"}"#, true, false),
        (Responses, "", r#"{"type":"response.failed"}"#, true, true),
        (Responses, "", r#"{"type":"error"}"#, true, false),
        (Responses, "", r#"{"choices":[]}"#, false, false),
        (OpenAi, "", r#"{"choices":[]}"#, true, false),
        (OpenAi, "", r#"{"error":{}}"#, true, false),
        (OpenAi, "", r#"{"type":"message_stop"}"#, false, false),
        (OpenAi, "", "[DONE]", false, true),
    ] {
        let told = format!("{form:?} {name} {data}");
        assert_eq!(begins_answer(form, name.as_bytes(), data.as_bytes()), begins, "{told}");
        assert_eq!(ends_answer(form, name.as_bytes(), data.as_bytes()), ends, "{told}");
    }
    assert!(is_silent(b"", b"[DONE]") && is_silent(b"", br#"{"type":"ping"}"#));
    assert!(is_silent(b"ping", b"{}") && !is_silent(b"", b"{}"));
}
