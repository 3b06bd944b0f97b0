//! Responses: items as they came, and put together where they never were done.

use super::*;
use crate::MessageForm::Responses;

#[test]
fn items_are_kept_as_they_came() {
    let brought = feed(Responses, [samples::responses().as_slice()]);
    let data = brought.data();
    assert_eq!(
        data[0],
        r#"{"role":"assistant","content":[{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"First look."}],"encrypted_content":"gAAA"}]}"#
    );
    assert!(data[1].starts_with(r#"{"id":"msg_1","type":"message","status":"completed""#));
    assert_eq!(
        data[2],
        r#"{"role":"assistant","content":[{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"path\":\"a b\"}","call_id":"call_a","name":"read"}]}"#
    );
    let ended = brought.ended;
    assert_eq!(ended.id.as_deref(), Some("resp_1"));
    assert_eq!(ended.model.as_deref(), Some("gpt-5"));
    assert_eq!(ended.reason.as_deref(), Some("completed"));
    assert_eq!(ended.usage.unwrap().reasoning_tokens, 8);
}

const ADDED: [&str; 3] = [
    r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"rs","type":"reasoning","summary":[]}}"#,
    r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"m","type":"message","status":"in_progress","role":"assistant","content":[]}}"#,
    r#"{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","status":"in_progress","arguments":"","call_id":"c","name":"f"}}"#,
];

#[test]
fn what_was_not_done_is_put_together() {
    let mut data = ADDED.to_vec();
    assert_eq!(
        read(Responses, &data).partial(),
        [
            r#"{"role":"assistant","content":[{"type":"function_call","status":"incomplete","arguments":"","call_id":"c","name":"f"}]}"#
        ]
    );
    data.extend([
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"two"}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"one"}"#,
        r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"Hal"}"#,
        r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"lo"}"#,
        r#"{"type":"response.refusal.delta","output_index":1,"content_index":1,"delta":"No"}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"x\""}"#,
    ]);
    let brought = read(Responses, &data);
    assert_eq!(
        brought.partial(),
        [
            r#"{"role":"assistant","content":[{"id":"rs","type":"reasoning","summary":[{"type":"summary_text","text":"one"},{"type":"summary_text","text":"two"}]}]}"#,
            r#"{"id":"m","type":"message","status":"incomplete","role":"assistant","content":[{"type":"output_text","text":"Hallo","annotations":[]},{"type":"refusal","refusal":"No"}]}"#,
            r#"{"role":"assistant","content":[{"type":"function_call","status":"incomplete","arguments":"{\"x\"","call_id":"c","name":"f"}]}"#,
        ]
    );
    assert_eq!(brought.refusal, "No");
    assert!(brought.ended.partial.iter().all(|block| block.call.is_none()), "none is to be run");
}

#[test]
fn deltas_may_be_left_out() {
    let mut data = ADDED[1..].to_vec();
    data.extend([
        r#"{"type":"response.output_text.done","output_index":1,"content_index":0,"text":"Hallo"}"#,
        r#"{"type":"response.function_call_arguments.done","output_index":2,"arguments":"{\"x\":1}"}"#,
        r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"reasoning"},{"type":"message","role":"assistant","content":[]},{"type":"function_call","call_id":"c","name":"f","arguments":"{\"x\":1}"}]}}"#,
    ]);
    let brought = read(Responses, &data);
    assert_eq!(brought.text, "Hallo");
    assert_eq!(brought.calls[0].2, "{\"x\":1}");
    assert_eq!(brought.blocks.len(), 3, "{:?}", brought.blocks);
    assert!(brought.ended.complete && brought.ended.partial.is_empty());
}

#[test]
fn tools_of_every_sort() {
    let done = |item: &str| {
        let data =
            format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{item}}}"#);
        let brought = read(Responses, &[&data, r#"{"type":"response.completed"}"#]);
        brought.blocks[0].clone()
    };
    let call = |item: &str| done(item).call.map(|it| (it.call.name, it.call.arguments, it.broken));
    let made = |name: &str, arguments: &str| Some((name.to_owned(), arguments.to_owned(), None));
    assert_eq!(
        call(r#"{"type":"custom_tool_call","call_id":"c","name":"patch","input":"a\nb"}"#),
        made("patch", r#""a\nb""#)
    );
    assert_eq!(
        call(r#"{"type":"local_shell_call","call_id":"c","action":{"command":["ls"]}}"#),
        made("local_shell", r#"{"command":["ls"]}"#)
    );
    assert_eq!(call(r#"{"type":"function_call","call_id":"c","name":"f"}"#), made("f", "{}"));
    assert_eq!(call(r#"{"type":"web_search_call","id":"ws","action":{}}"#), None);
    let broken = call(r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{x"}"#);
    let (_, arguments, why) = broken.unwrap();
    assert_eq!(arguments, "{x");
    assert!(why.is_some());
    let output = done(r#"{"type":"local_shell_call_output","call_id":"c"}"#);
    assert!(output.data.starts_with(r#"{"role":"tool","content":["#) && output.call.is_none());
}

#[test]
fn ends_that_are_no_success() {
    let text = r#"{"type":"response.output_text.delta","output_index":0,"delta":"a"}"#;
    let failed = r#"{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"server_error","message":"Try again"},"usage":{"input_tokens":3}}}"#;
    let ended = read(Responses, &[text, failed]).ended;
    assert_eq!(ended.error.as_deref(), Some("server_error: Try again"));
    assert_eq!(ended.usage.unwrap().input_tokens, 3);
    assert!(!ended.complete && ended.partial.len() == 1);

    let error =
        r#"{"type":"error","code":"rate_limit_exceeded","message":"Slow down","param":null}"#;
    let ended = read(Responses, &[error]).ended;
    assert_eq!(ended.error.as_deref(), Some("rate_limit_exceeded: Slow down"));
    let error = r#"{"type":"error","error":{"type":"invalid_request_error","message":"No"}}"#;
    assert_eq!(read(Responses, &[error]).ended.error.unwrap(), "invalid_request_error: No");

    let incomplete = r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}"#;
    let ended = read(Responses, &[text, incomplete]).ended;
    assert_eq!(ended.reason.as_deref(), Some("max_output_tokens"));
    assert!(ended.complete && ended.error.is_none());
}

#[test]
fn a_malformed_response_is_shown_with_its_place() {
    let bytes = stream(&[r#"{"type":"response.completed","response":{"id":"r","output":7}}"#]);
    let wrong = bytes.iter().position(|byte| *byte == b'7').unwrap();
    let brought = feed(Responses, [bytes.as_slice()]);
    let Some(StreamError::Malformed { at, .. }) = brought.failed else {
        panic!("{:?}", brought.failed);
    };
    assert!(at.abs_diff(wrong as u64) <= 1, "{at} {wrong}");
}

#[test]
fn a_call_that_the_limit_cuts_is_partial() {
    let done = |rest: &str| {
        format!(
            r#"{{"type":"response.output_item.done","output_index":0,"item":{{"type":"function_call","call_id":"c","name":"f"{rest}}}}}"#
        )
    };
    let cut = r#"{"type":"response.incomplete","response":{"status":"incomplete"}}"#;
    let bare = r#"{"type":"response.incomplete"}"#;
    let fine = r#"{"type":"response.completed","response":{"status":"completed"}}"#;
    for (rest, end, partial) in [
        (r#","arguments":"""#, cut, true),
        (r#","arguments":"{\"x\"""#, cut, true),
        (r#","arguments":"{\"x\"""#, bare, true),
        (r#","arguments":"{}""#, cut, false),
        (r#","arguments":"","status":"completed""#, cut, false),
        (r#","arguments":"""#, fine, false),
        (r#","arguments":"{}","status":"incomplete""#, fine, true),
    ] {
        let brought = read(Responses, &[&done(rest), end]);
        let [block] = brought.blocks.as_slice() else { panic!("{:?}", brought.blocks) };
        assert_eq!((block.partial, block.call.is_none()), (partial, partial), "{rest} {end}");
    }
}

#[test]
fn items_are_known_by_their_ids() {
    let item = |id: &str, text: &str| {
        format!(
            r#"{{"id":"{id}","type":"message","role":"assistant","content":[{{"type":"output_text","text":"{text}"}}]}}"#
        )
    };
    // Without places, and with one for all.
    for place in ["", r#","output_index":0"#] {
        let event = |kind: &str, item: &str| {
            format!(r#"{{"type":"response.output_item.{kind}"{place},"item":{item}}}"#)
        };
        let delta = |id: &str, text: &str| {
            format!(
                r#"{{"type":"response.output_text.delta"{place},"item_id":"{id}","delta":"{text}"}}"#
            )
        };
        let (a, b) = (item("a", "one"), item("b", "two"));
        let empty = |id: &str| {
            format!(r#"{{"id":"{id}","type":"message","role":"assistant","content":[]}}"#)
        };
        let output = format!(
            r#"{{"type":"response.completed","response":{{"status":"completed","output":[{a},{b}]}}}}"#
        );
        let started = [event("added", &empty("a")), event("added", &empty("b")), delta("a", "one")];
        let mut data: Vec<&str> = started.iter().map(String::as_str).collect();
        let rest = [delta("b", "two"), event("done", &b), event("done", &a), output];
        data.extend(rest.iter().map(String::as_str));
        let brought = read(Responses, &data);
        assert_eq!(brought.data(), [b.as_str(), a.as_str()], "{place}");
        assert!(brought.ended.partial.is_empty(), "{:?}", brought.ended);

        // One behind the other, and twice.
        let data = [event("done", &a), event("done", &b), event("done", &b), rest[3].clone()];
        let data: Vec<&str> = data.iter().map(String::as_str).collect();
        let brought = read(Responses, &data);
        assert_eq!(brought.data(), [a.as_str(), b.as_str()], "{place}");

        // Nothing that was told is lost.
        let brought = read(Responses, &[&started[0], &started[2], &event("done", &b)]);
        assert_eq!((brought.blocks.len(), brought.partial().len()), (1, 1), "{place}");
    }
}

#[test]
fn ids_that_change_are_no_other_items() {
    let added = r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"x1","type":"message","role":"assistant","content":[]}}"#;
    let delta =
        r#"{"type":"response.output_text.delta","output_index":0,"item_id":"x2","delta":"a"}"#;
    let done = r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"x3","type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}}"#;
    let output = r#"{"type":"response.completed","response":{"output":[{"id":"x4","type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}]}}"#;
    let brought = read(Responses, &[added, delta, done, output]);
    assert_eq!((brought.text.as_str(), brought.blocks.len()), ("a", 1));
    assert!(brought.ended.partial.is_empty());
}

#[test]
fn an_item_that_is_replaced_is_partial() {
    let added = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message","role":"assistant","content":[]}}"#;
    let delta = r#"{"type":"response.output_text.delta","output_index":0,"delta":"a"}"#;
    let brought = read(Responses, &[added, delta, added, delta]);
    assert_eq!(brought.blocks.len(), 1);
    assert!(brought.blocks[0].partial && brought.blocks[0].data.contains(r#""text":"a""#));
    assert_eq!(brought.partial().len(), 1);
}
