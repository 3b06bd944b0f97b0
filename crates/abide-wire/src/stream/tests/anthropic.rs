//! Messages: blocks that keep what they started with.

use super::*;
use crate::MessageForm::Anthropic;

#[test]
fn blocks_are_whole() {
    let brought = feed(Anthropic, [samples::anthropic().as_slice()]);
    assert_eq!(
        brought.data(),
        [
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"First look.","signature":"EqQB"}]}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"Ich lese \"src/main.rs\" – größer als gedacht: 😀\n\tso","extra":[1, 2],"citations":[{"type":"char_location","cited_text":"x"}]}]}"#,
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"call_a","name":"read","input":{"path":"a b"}}]}"#,
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"call_b","name":"list","input":{}}]}"#,
        ]
    );
    let ended = brought.ended;
    assert_eq!(ended.id.as_deref(), Some("msg_1"));
    assert_eq!(ended.model.as_deref(), Some("claude-sonnet-4-5"));
    assert_eq!(ended.reason.as_deref(), Some("tool_use"));
    let usage = ended.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.cache_write_tokens), (120, 36), "the cached ones too");
}

fn one(start: &str, deltas: &[&str]) -> StreamedBlock {
    let mut data =
        vec![format!(r#"{{"type":"content_block_start","index":0,"content_block":{start}}}"#)];
    data.extend(
        deltas
            .iter()
            .map(|delta| format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#)),
    );
    data.push(r#"{"type":"content_block_stop","index":0}"#.to_owned());
    data.push(r#"{"type":"message_stop"}"#.to_owned());
    let data: Vec<&str> = data.iter().map(String::as_str).collect();
    let mut brought = read(Anthropic, &data);
    assert_eq!((brought.failed, brought.blocks.len()), (None, 1));
    brought.blocks.remove(0)
}

fn content(block: &StreamedBlock) -> &str {
    let inner = block.data.strip_prefix(r#"{"role":"assistant","content":["#);
    inner.and_then(|inner| inner.strip_suffix("]}")).unwrap()
}

#[test]
fn unknown_blocks_keep_what_came() {
    let block = one(
        r#"{"type":"of_tomorrow","words":"a","deep":{"z": 1,"a":[ ]}}"#,
        &[
            r#"{"type":"words_delta","words":"b\n","n":1}"#,
            r#"{"type":"words_delta","words":"c","n":{"m":2}}"#,
        ],
    );
    let wanted = r#"{"type":"of_tomorrow","words":"ab\nc","deep":{"z": 1,"a":[ ]},"n":{"m":2}}"#;
    assert_eq!(content(&block), wanted);
    let redacted = r#"{"type":"redacted_thinking","data":"Eq=="}"#;
    assert_eq!(content(&one(redacted, &[])), redacted);
}

#[test]
fn tools_of_the_provider_are_no_calls() {
    let start = r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{}}"#;
    let block = one(start, &[r#"{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}"#]);
    assert_eq!(block.call, None);
    assert!(content(&block).ends_with(r#""input":{"query":"x"}}"#));
}

#[test]
fn inputs_that_are_none() {
    let start = r#"{"type":"tool_use","id":"c","name":"f","input":{}}"#;
    let json = |text: &str| {
        format!(
            r#"{{"type":"input_json_delta","partial_json":{}}}"#,
            super::super::field::quoted(text)
        )
    };
    for broken in ["{\"x\": tru", "[1]", "{} {}"] {
        let block = one(start, &[&json(broken)]);
        let call = block.call.as_ref().unwrap();
        assert_eq!(call.call.arguments, broken);
        assert!(call.broken.is_some(), "{broken}");
        let data: serde_json::Value = serde_json::from_str(&block.data).unwrap();
        assert_eq!(data["content"][0]["input"]["raw"], broken);
    }
    let block = one(start, &[]);
    assert_eq!(content(&block), start);
    assert_eq!(block.call.unwrap().call.arguments, "{}");
    let whole = r#"{"type":"tool_use","id":"c","name":"f","input":{"x": 1}}"#;
    let block = one(whole, &[]);
    assert_eq!(content(&block), whole);
    assert_eq!(block.call.unwrap().call.arguments, r#"{"x": 1}"#);
}

#[test]
fn a_start_that_holds_text_is_told() {
    let start =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hal"}}"#;
    let delta =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}"#;
    let brought = read(Anthropic, &[start, delta]);
    assert_eq!(brought.text, "Hallo");
    assert_eq!(
        brought.partial(),
        [r#"{"role":"assistant","content":[{"type":"text","text":"Hallo"}]}"#]
    );
    assert_eq!(read(Anthropic, &[delta]).text, "lo", "even when it was never started");
    let empty =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    assert!(read(Anthropic, &[empty]).ended.partial.is_empty());
    let thought = r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"hm"}}"#;
    let brought = read(Anthropic, &[thought]);
    assert_eq!((brought.thinking.as_str(), brought.partial().len()), ("hm", 1));
}

#[test]
fn errors_and_late_usage() {
    let start = r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1,"output_tokens":1}}}"#;
    let text =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#;
    let used = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":5,"cache_read_input_tokens":7,"output_tokens":9}}"#;
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let brought = read(Anthropic, &[start, text, used, error]);
    let ended = &brought.ended;
    assert_eq!(ended.error.as_deref(), Some("overloaded_error: Overloaded"));
    assert!(!ended.complete && brought.partial().len() == 1);
    let usage = ended.usage.as_ref().unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_read_tokens), (12, 9, 7));
    let ended = read(Anthropic, &[start, text, used, r#"{"type":"message_stop"}"#]).ended;
    assert!(ended.complete && ended.partial.is_empty(), "an end that was not told is one");
}

const CALL: &str = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"f","input":{}}}"#;
const STOP: &str = r#"{"type":"content_block_stop","index":0}"#;
const END: &str = r#"{"type":"message_stop"}"#;

#[test]
fn a_call_that_the_limit_cuts_is_partial() {
    let piece = |json: &str| {
        format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"input_json_delta","partial_json":{}}}}}"#,
            super::super::field::quoted(json)
        )
    };
    let (half, whole) = (piece(r#"{"x":"#), piece(r#"{"x":1}"#));
    let reason = |reason: &str| {
        format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}},"usage":{{}}}}"#)
    };
    let (cut, fine) = (reason("max_tokens"), reason("tool_use"));
    for (data, partial) in [
        (vec![CALL, STOP, &cut, END], true),
        (vec![CALL, &half, STOP, &cut, END], true),
        (vec![CALL, &whole, STOP, &cut, END], false),
        (vec![CALL, &whole, &cut, END], true),
        (vec![CALL, STOP, &fine, END], false),
        (vec![CALL, &half, STOP, &fine, END], false),
        // Something came behind it: it was not the one that was cut.
        (vec![CALL, STOP, CALL, &whole, STOP, &cut, END], false),
    ] {
        let brought = read(Anthropic, &data);
        let block = &brought.blocks[0];
        assert_eq!((block.partial, block.call.is_none()), (partial, partial), "{data:?}");
        assert!(brought.ended.complete && brought.ended.partial.is_empty());
    }
    // Nobody said why it stopped.
    let brought = read(Anthropic, &[CALL, STOP]);
    assert!(brought.blocks.is_empty() && brought.partial().len() == 1);
}

#[test]
fn unknown_events_may_look_like_anything() {
    let text =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#;
    for unknown in [
        r#"{"type":"of_tomorrow","delta":"text","index":"seven"}"#,
        r#"{"type":"of_tomorrow","delta":[1],"index":{}}"#,
        r#"{"type":"ping","delta":7}"#,
    ] {
        let brought = read(Anthropic, &[unknown, text]);
        assert_eq!((brought.failed, brought.text.as_str()), (None, "a"), "{unknown}");
    }
    let wrong = r#"{"type":"content_block_delta","index":0,"delta":7}"#;
    let at = stream(&[wrong]).iter().position(|byte| *byte == b'7').unwrap() as u64;
    let Some(StreamError::Malformed { at: told, .. }) = read(Anthropic, &[wrong]).failed else {
        panic!("it is no delta");
    };
    assert!(told.abs_diff(at) <= 1, "{told} {at}");
}

#[test]
fn an_input_that_stands_twice_does_not_hide_what_was_streamed() {
    let start = r#"{"type":"tool_use","id":"c","name":"f","input":{},"id":"d","input":{"old":1}}"#;
    let block = one(start, &[r#"{"type":"input_json_delta","partial_json":"{\"x\":1}"}"#]);
    assert_eq!(content(&block), r#"{"type":"tool_use","id":"d","name":"f","input":{"x":1}}"#);
    let call = block.call.unwrap().call;
    assert_eq!((call.id.as_str(), call.arguments.as_str()), ("d", r#"{"x":1}"#));
}

#[test]
fn a_block_may_grow_by_many_fields() {
    let start = format!(r#"{{"type":"of_tomorrow","long":"{}"}}"#, "x".repeat(100_000));
    let deltas: Vec<String> =
        (0..3000).map(|at| format!(r#"{{"type":"new","f{at}":"y"}}"#)).collect();
    let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
    let block = one(&start, &deltas);
    assert!(content(&block).ends_with(r#","f2998":"y","f2999":"y"}"#));
}
