//! Chat Completions, as OpenAI and as others write them.

use super::*;
use crate::MessageForm::OpenAi;

fn chunk(delta: &str) -> String {
    format!(r#"{{"id":"r1","choices":[{{"index":0,"delta":{delta}}}]}}"#)
}

fn piece(piece: &str) -> String {
    chunk(&format!(r#"{{"tool_calls":[{piece}]}}"#))
}

const FINISH: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;

/// The calls that pieces give, as id, name and arguments.
fn calls(pieces: &[&str]) -> Vec<(String, String, String)> {
    let mut data: Vec<String> = pieces.iter().map(|text| piece(text)).collect();
    data.push(FINISH.to_owned());
    let data: Vec<&str> = data.iter().map(String::as_str).collect();
    let brought = read(OpenAi, &data);
    assert_eq!(brought.failed, None);
    assert!(brought.ended.partial.is_empty() && brought.ended.complete);
    let given = brought.blocks.iter().map(|block| {
        let streamed = block.call.as_ref().unwrap();
        assert_eq!(streamed.broken, None);
        let call = &streamed.call;
        (call.id.clone(), call.name.clone(), call.arguments.clone())
    });
    let given: Vec<_> = given.collect();
    let mut told = brought.calls.clone();
    for call in told.iter_mut().filter(|call| call.2.is_empty()) {
        call.2 = "{}".to_owned();
    }
    let mut sorted = given.clone();
    sorted.sort();
    told.sort();
    assert_eq!(sorted, told, "what is told and what is given");
    given
}

fn named(id: &str, name: &str, arguments: &str) -> (String, String, String) {
    (id.to_owned(), name.to_owned(), arguments.to_owned())
}

#[test]
fn blocks_are_messages_of_their_own() {
    let brought = feed(OpenAi, [samples::chat().as_slice()]);
    assert_eq!(
        brought.data(),
        [
            r#"{"role":"assistant","content":null,"reasoning_content":"First look."}"#,
            r#"{"role":"assistant","content":"Ich lese \"src/main.rs\" – größer als gedacht: 😀\n\tso"}"#,
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call_a","type":"function","function":{"name":"read","arguments":"{\"path\":\"a b\"}"}}]}"#,
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call_b","type":"function","function":{"name":"list","arguments":"{}"}}]}"#,
        ]
    );
    let ended = brought.ended;
    assert_eq!(ended.id.as_deref(), Some("chatcmpl-1"));
    assert_eq!(ended.model.as_deref(), Some("gpt-5-mini"));
    assert_eq!(ended.reason.as_deref(), Some("tool_calls"));
    assert_eq!(ended.usage.unwrap().reasoning_tokens, 8);
}

#[test]
fn a_block_is_given_as_soon_as_it_is_complete() {
    let mut parser = AnswerParser::new(OpenAi);
    let mut given = Vec::new();
    for data in [
        chunk(r#"{"content":"a"}"#),
        piece(r#"{"index":0,"id":"x","function":{"name":"f","arguments":"{}"}}"#),
        piece(r#"{"index":1,"id":"y","function":{"name":"f","arguments":"{}"}}"#),
        FINISH.to_owned(),
    ] {
        let mut blocks = 0;
        let bytes = stream(&[&data]);
        let mut tell =
            |delta: StreamDelta<'_>| blocks += usize::from(matches!(delta, StreamDelta::Block(_)));
        parser.feed(&bytes, &mut tell).unwrap();
        given.push(blocks);
    }
    assert_eq!(given, [0, 1, 1, 1]);
}

#[test]
fn refusals_and_the_other_name_of_thoughts() {
    let data = [chunk(r#"{"reasoning":"hm","content":""}"#), chunk(r#"{"refusal":"No"}"#)];
    let brought = read(OpenAi, &[&data[0], &data[1], &chunk(r#"{"refusal":"."}"#), "[DONE]"]);
    assert_eq!((brought.thinking.as_str(), brought.refusal.as_str()), ("hm", "No."));
    assert_eq!(
        brought.data(),
        [
            r#"{"role":"assistant","content":null,"reasoning":"hm"}"#,
            r#"{"role":"assistant","content":null,"refusal":"No."}"#,
        ]
    );
    assert!(brought.ended.complete);
}

#[test]
fn content_in_parts() {
    let parts = r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"Yes"}]}"#;
    let brought = read(OpenAi, &[&chunk(parts), "[DONE]"]);
    assert_eq!((brought.thinking.as_str(), brought.text.as_str()), ("hm", "Yes"));
    assert_eq!(brought.blocks.len(), 2);
}

#[test]
fn a_whole_message_where_nothing_is_streamed() {
    let whole = r#"{"id":"r1","choices":[{"message":{"role":"assistant","content":"Yes"},"finish_reason":"stop"}]}"#;
    let brought = read(OpenAi, &[whole]);
    assert_eq!(brought.data(), [r#"{"role":"assistant","content":"Yes"}"#]);
    assert!(brought.ended.complete);
}

#[test]
fn pieces_in_turns() {
    let given = calls(&[
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}"#,
        r#"{"index":1,"id":"b","function":{"name":"g","arguments":"{\"}"}}"#,
        r#"{"index":0,"function":{"arguments":":1}"}}"#,
        r#"{"index":1,"function":{"arguments":"\\\"\":2}"}}"#,
    ]);
    assert_eq!(given, [named("a", "f", r#"{"x":1}"#), named("b", "g", r#"{"}\"":2}"#)]);
}

#[test]
fn pieces_without_an_index() {
    let given = calls(&[
        r#"{"id":"a","function":{"name":"f","arguments":"{\"x\""}}"#,
        r#"{"function":{"arguments":":1"}}"#,
        r#"{"id":"a","function":{"arguments":"}"}}"#,
        r#"{"id":"b","function":{"name":"g","arguments":""}}"#,
    ]);
    assert_eq!(given, [named("a", "f", r#"{"x":1}"#), named("b", "g", "{}")]);
}

#[test]
fn id_and_name_in_every_piece() {
    let given = calls(&[
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}"#,
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":":1"}}"#,
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}"#,
        r#"{"index":0,"id":"","function":{"name":"","arguments":" "}}"#,
    ]);
    assert_eq!(given, [named("a", "f", r#"{"x":1} "#)]);
}

#[test]
fn whole_calls_with_one_index() {
    let given = calls(&[
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}"#,
        r#"{"index":0,"id":"b","function":{"name":"f","arguments":"{\"x\":2}"}}"#,
        r#"{"index":0,"id":"c","function":{"name":"f","arguments":"{\"x\":3}"}},{"index":0,"id":"d","function":{"name":"f","arguments":{"x":4}}}"#,
    ]);
    let wanted = [("a", 1), ("b", 2), ("c", 3), ("d", 4)];
    assert_eq!(given, wanted.map(|(id, x)| named(id, "f", &format!(r#"{{"x":{x}}}"#))));
}

#[test]
fn calls_without_ids_get_one() {
    let given = calls(&[
        r#"{"index":0,"function":{"name":"f","arguments":"{}"}}"#,
        r#"{"index":0,"function":{"name":"f","arguments":"{}"}}"#,
        r#"{"function":{"name":"g","arguments":""}}"#,
    ]);
    assert_eq!(
        given,
        [
            named("r1_call_0", "f", "{}"),
            named("r1_call_1", "f", "{}"),
            named("r1_call_2", "g", "{}")
        ]
    );
}

#[test]
fn broken_arguments_are_kept() {
    let data = piece(r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\": tru"}}"#);
    let brought = read(OpenAi, &[&data, FINISH]);
    let [block] = brought.blocks.as_slice() else { panic!("{:?}", brought.blocks) };
    let streamed = block.call.as_ref().unwrap();
    assert_eq!(streamed.call.arguments, r#"{"x": tru"#);
    assert!(streamed.broken.as_ref().unwrap().contains("EOF"), "{:?}", streamed.broken);
    assert!(block.data.contains(r#""arguments":"{\"x\": tru""#), "{}", block.data);
    assert!(!block.partial);
}

#[test]
fn errors_of_the_provider() {
    let text = chunk(r#"{"content":"a"}"#);
    for (error, wanted) in [
        (
            r#"{"error":{"message":"Overloaded","type":"server_error","code":null}}"#,
            "server_error: Overloaded",
        ),
        (
            r#"{"error":{"message":"Slow down","code":429},"choices":[{"delta":{},"finish_reason":"error"}]}"#,
            "429: Slow down",
        ),
        (r#"{"error":"gone"}"#, "gone"),
        (r#"{"object":"error","message":"bad","type":"BadRequest"}"#, "BadRequest: bad"),
    ] {
        let brought = read(OpenAi, &[&text, error, "[DONE]"]);
        assert_eq!(brought.ended.error.as_deref(), Some(wanted));
        assert!(!brought.ended.complete, "{error}");
    }
    let brought = read(OpenAi, &[&text, r#"{"error":"gone"}"#]);
    assert_eq!(brought.partial(), [r#"{"role":"assistant","content":"a"}"#]);
}

#[test]
fn other_choices_are_passed_over() {
    let data = r#"{"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"yes"}}]}"#;
    assert_eq!(read(OpenAi, &[data]).text, "yes");
}

#[test]
fn a_call_that_the_limit_cuts_is_partial() {
    let whole = r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}"#;
    for (last, reason, partial) in [
        ("", "length", true),
        (r#"{\"x\": "#, "length", true),
        (r#"{\"x\": "#, "content_filter", true),
        (r#"{\"x\":2}"#, "length", false),
        ("", "tool_calls", false),
        ("", "stop", false),
    ] {
        let last =
            format!(r#"{{"index":1,"id":"b","function":{{"name":"f","arguments":"{last}"}}}}"#);
        let finish = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#);
        let brought = read(OpenAi, &[&piece(whole), &piece(&last), &finish, "[DONE]"]);
        let given: Vec<_> =
            brought.blocks.iter().map(|block| (block.partial, block.call.is_none())).collect();
        assert_eq!(given, [(false, false), (partial, partial)], "{last} {reason}");
        assert!(brought.ended.complete && brought.ended.partial.is_empty());
    }
}

#[test]
fn usage_in_both_spellings() {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":7,"input_tokens":7,"completion_tokens":5,"output_tokens":0,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":3},"input_tokens_details":null,"completion_tokens":5}}"#;
    let used = read(OpenAi, &[usage]).ended.usage.unwrap();
    assert_eq!((used.input_tokens, used.output_tokens, used.cache_read_tokens), (7, 5, 3));
    let none = r#"{"choices":[],"usage":"many"}"#;
    assert_eq!(read(OpenAi, &[none]).ended.usage, None);
}

#[test]
fn what_is_not_known_of_a_call_is_kept() {
    let data = [
        piece(
            r#"{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"old"}},"none":null}"#,
        ),
        piece(r#"{"index":0,"extra_content":{"google": {"thought_signature":"Eq=="}},"n":1}"#),
    ];
    let brought = read(OpenAi, &[&data[0], &data[1], FINISH]);
    assert_eq!(
        brought.data(),
        [
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google": {"thought_signature":"Eq=="}},"n":1}]}"#
        ]
    );
}

#[test]
fn custom_calls_take_text() {
    let data = [
        piece(r#"{"index":0,"id":"a","type":"custom","custom":{"name":"patch","input":""}}"#),
        piece(r#"{"index":0,"custom":{"input":"a {}\n"}}"#),
        piece(r#"{"index":0,"custom":{"input":"b"}}"#),
        piece(r#"{"index":1,"id":"b","type":"custom","custom":{"name":"patch","input":"c"}}"#),
    ];
    let mut data: Vec<&str> = data.iter().map(String::as_str).collect();
    data.push(FINISH);
    let brought = read(OpenAi, &data);
    assert_eq!(
        brought.data()[0],
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"custom","custom":{"name":"patch","input":"a {}\nb"}}]}"#
    );
    let call = brought.blocks[0].call.as_ref().unwrap();
    assert_eq!((call.call.name.as_str(), call.broken.as_ref()), ("patch", None));
    assert_eq!(call.call.arguments, r#""a {}\nb""#);
    assert_eq!(brought.calls, [named("a", "patch", "a {}\nb"), named("b", "patch", "c")]);
    // Nobody knows whether text is over.
    *data.last_mut().unwrap() = r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#;
    assert!(read(OpenAi, &data).blocks.iter().all(|block| block.partial && block.call.is_none()));
}

#[test]
fn the_one_call_of_old() {
    let data = [
        chunk(r#"{"function_call":{"name":"f","arguments":"{\"x\""}}"#),
        chunk(r#"{"function_call":{"arguments":":1}"}}"#),
        r#"{"choices":[{"delta":{},"finish_reason":"function_call"}]}"#.to_owned(),
    ];
    let brought = read(OpenAi, &[&data[0], &data[1], &data[2]]);
    assert_eq!(
        brought.data(),
        [
            r#"{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"x\":1}"}}"#
        ]
    );
    assert_eq!(brought.calls, [named("f", "f", r#"{"x":1}"#)]);
    let call = &brought.blocks[0].call.as_ref().unwrap().call;
    assert_eq!((call.id.as_str(), call.arguments.as_str()), ("f", r#"{"x":1}"#));
}

#[test]
fn errors_are_short_and_harmless() {
    let long = "x".repeat(5000);
    let error = format!(r#"{{"error":{{"message":"\u001b[2J\n{long}"}}}}"#);
    let told = read(OpenAi, &[&error]).ended.error.unwrap();
    assert!(told.starts_with("\\u{1b}[2J\\nxxx") && told.ends_with("x…"), "{told}");
    assert!(told.chars().count() < 2020, "{}", told.len());
    let brought = read(OpenAi, &["{\"choices\":\u{1b}[2J}"]);
    let error = brought.failed.unwrap().to_string();
    assert!(!error.contains(char::is_control) && error.contains("\\u{1b}[2J"), "{error}");
}

#[test]
fn of_a_key_that_stands_twice_the_last_counts() {
    let data = r#"{"id":"a","id":"b","choices":[{"index":1,"index":0,"delta":{"content":"no","content":"yes"}}]}"#;
    let brought = read(OpenAi, &[data]);
    assert_eq!((brought.failed, brought.text.as_str()), (None, "yes"));
    assert_eq!(brought.ended.id.as_deref(), Some("b"));
}

#[test]
fn half_of_a_surrogate_pair_is_replaced() {
    let half = chunk(r#"{"content":"a\ud83db\\ud83d"}"#);
    let pair = chunk(r#"{"content":"\uD83D\uDE00"}"#);
    let brought = read(OpenAi, &[&half, &pair]);
    assert_eq!((brought.failed, brought.text.as_str()), (None, "a\u{fffd}b\\ud83d😀"));
}
