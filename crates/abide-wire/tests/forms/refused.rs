//! What the APIs refuse, and what goes out in its place.

use abide_model::{CallId, ContextEntry, OUTCOME_UNKNOWN, Seq};
use abide_wire::{MessageForm, MessagePart, export, render};
use serde_json::{Value, json};

use crate::rendering::{context, in_message, json_of, message};
use crate::{api, payload};

fn data(value: &Value) -> ContextEntry {
    message(payload(&value.to_string()))
}

fn user() -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": "do"}]})
}

/// A part of an answer of Anthropic.
fn part(answer: &str, block: &Value) -> Value {
    json!({"role": "assistant", "content": [block], "abide": {"form": "anthropic", "answer": answer}})
}

fn cut(mut part: Value) -> Value {
    part["abide"]["partial"] = json!(true);
    part
}

/// An item of an answer of Responses.
fn item(answer: &str, item: &Value) -> Value {
    json!({"role": "assistant", "content": [item], "abide": {"form": "responses", "answer": answer}})
}

/// A message of an answer of Responses, which is recorded as it is.
fn spoken(answer: &str, message: &Value) -> Value {
    let mut message = message.clone();
    message["abide"] = json!({"form": "responses", "answer": answer});
    message
}

fn thought(id: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "zz"})
}

fn said(id: &str) -> Value {
    let content = json!([{"type": "output_text", "text": "well", "annotations": []}]);
    json!({"type": "message", "id": id, "status": "completed", "role": "assistant", "content": content})
}

fn called(id: &str) -> Value {
    json!({"type": "function_call", "id": id, "call_id": format!("c_{id}"), "name": "t", "arguments": "{}"})
}

fn without_id(item: &Value) -> Value {
    let mut item = item.clone();
    item.as_object_mut().unwrap().remove("id");
    item
}

fn unknown(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": format!("c_{id}"), "output": OUTCOME_UNKNOWN})
}

fn responses(entries: Vec<Value>) -> Value {
    let entries = entries.iter().map(data).collect();
    let request = json_of(&render(MessageForm::Responses, &context(entries)));
    api::responses(&request).unwrap_or_else(|error| panic!("{error}"));
    request["input"].clone()
}

fn anthropic(entries: Vec<Value>) -> Value {
    let entries = entries.iter().map(data).collect();
    let request = json_of(&render(MessageForm::Anthropic, &context(entries)));
    api::anthropic(&request).unwrap_or_else(|error| panic!("{error}"));
    request["messages"].clone()
}

#[test]
fn the_items_of_a_streamed_answer_keep_their_ids() {
    assert_eq!(
        responses(vec![
            item("1", &thought("rs_1")),
            spoken("1", &said("msg_1")),
            item("1", &called("fc_1")),
        ]),
        json!([thought("rs_1"), said("msg_1"), called("fc_1"), unknown("fc_1")])
    );
}

#[test]
fn what_a_cut_off_answer_thought_does_not_lead_to_the_next() {
    let unmarked =
        json!({"role": "assistant", "content": [called("fc_2")], "abide": {"form": "responses"}});
    for last in [item("2", &called("fc_2")), unmarked] {
        assert_eq!(
            responses(vec![item("1", &thought("rs_1")), last]),
            json!([without_id(&called("fc_2")), unknown("fc_2")])
        );
    }
    // Nor does a thought that is not whole, or one to words that are not.
    assert_eq!(
        responses(vec![cut(item("1", &thought("rs_1"))), spoken("1", &said("msg_1"))]),
        json!([without_id(&said("msg_1"))])
    );
    let words = json!({"type": "message", "role": "assistant", "content": said("")["content"]});
    assert_eq!(
        responses(vec![item("1", &thought("rs_1")), cut(spoken("1", &said("msg_1")))]),
        json!([words])
    );
}

#[test]
fn an_item_whose_reasoning_is_gone_has_no_id() {
    assert_eq!(
        responses(vec![
            spoken("1", &said("msg_1")),
            item("1", &called("fc_1")),
            item("2", &thought("rs_2")),
            item("2", &called("fc_2")),
            item("2", &called("fc_3")),
        ]),
        json!([
            without_id(&said("msg_1")),
            without_id(&called("fc_1")),
            unknown("fc_1"),
            thought("rs_2"),
            called("fc_2"),
            called("fc_3"),
            unknown("fc_2"),
            unknown("fc_3"),
        ])
    );
}

#[test]
fn a_turn_does_not_end_in_a_thought() {
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let text = json!({"type": "text", "text": "well"});
    assert_eq!(
        anthropic(vec![user(), part("1", &thought), user()]),
        json!([{"role": "user", "content": [user()["content"][0], user()["content"][0]]}])
    );
    assert_eq!(
        anthropic(vec![user(), part("1", &text), part("1", &thought), part("2", &text)]),
        json!([user(), {"role": "assistant", "content": [text, text]}])
    );
}

#[test]
fn only_an_answer_that_was_cut_off_is_followed_by_a_word_of_the_user() {
    let text = part("1", &json!({"type": "text", "text": "well"}));
    let ended = anthropic(vec![user(), text.clone()]);
    assert_eq!(ended.as_array().unwrap().len(), 2);
    let goes_on = json!({"role": "user", "content": [{"type": "text", "text": "(the conversation goes on)"}]});
    let half = cut(part("1", &json!({"type": "tool_use", "id": "c", "name": "t", "input": {}})));
    for last in [vec![cut(text.clone())], vec![text.clone(), half], vec![cut(text.clone()), text]] {
        let all = [vec![user()], last].concat();
        assert_eq!(anthropic(all)[2], goes_on);
    }
}

#[test]
fn the_last_four_marks_of_the_cache_are_kept() {
    let block = |text: &str, marked: bool| match marked {
        true => json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}),
        false => json!({"type": "text", "text": text}),
    };
    let entries = vec![
        data(&json!({"role": "system", "content": [block("s", true)]})),
        data(&json!({"role": "user", "content": [block("1", true), block("2", true)]})),
        data(&json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "t", "input": {"cache_control": 1}}]})),
        ContextEntry::Result {
            seq: Seq(3),
            call: CallId("c".to_owned()),
            result: in_message(&payload(&json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": [block("3", true), block("4", true)]},
            ]}).to_string())),
        },
        data(&json!({"role": "user", "content": [block("5", true)]})),
    ];
    assert_eq!(
        json_of(&render(MessageForm::Anthropic, &context(entries))),
        json!({"system": [block("s", false)], "messages": [
            {"role": "user", "content": [block("1", false), block("2", true)]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "t", "input": {"cache_control": 1}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": [block("3", true), block("4", true)]},
                block("5", true),
            ]},
        ]})
    );
}

#[test]
fn what_failed_is_told_in_words_and_its_images_stand_behind() {
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "t", "input": {}});
    let gave = |id: &str, content: Value| {
        let block =
            json!({"type": "tool_result", "tool_use_id": id, "is_error": true, "content": content});
        ContextEntry::Result {
            seq: Seq(id.len() as u64),
            call: CallId(id.to_owned()),
            result: in_message(&payload(&json!({"role": "user", "content": [block]}).to_string())),
        }
    };
    let entries = vec![
        data(&user()),
        data(&json!({"role": "assistant", "content": [call("a"), call("bb"), call("ccc")]})),
        gave("a", json!([image, {"type": "text", "text": "no"}])),
        gave("bb", json!([image])),
        gave("ccc", json!("gone")),
    ];
    let request = json_of(&render(MessageForm::Anthropic, &context(entries)));
    let failed = |id: &str, text: &str| json!({"type": "tool_result", "tool_use_id": id, "is_error": true, "content": [{"type": "text", "text": text}]});
    let last =
        json!({"type": "tool_result", "tool_use_id": "ccc", "is_error": true, "content": "gone"});
    assert_eq!(
        request["messages"][2]["content"],
        json!([failed("a", "no"), failed("bb", "failed"), last, image, image])
    );
}

#[test]
fn a_tool_of_the_server_goes_out_with_its_result_or_not_at_all() {
    let used =
        |id: &str| json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}});
    let gave =
        |id: &str| json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []});
    let text = json!({"type": "text", "text": "well"});
    let model = |blocks: &[Value]| json!({"role": "assistant", "content": blocks});
    assert_eq!(
        anthropic(vec![
            user(),
            model(&[used("a"), gave("a"), gave("b"), used("b"), text.clone()]),
            cut(part("1", &used("c"))),
            user(),
            model(&[used("d")]),
        ]),
        json!([user(), model(&[used("a"), gave("a"), text]), user()])
    );
}

#[test]
fn a_call_that_was_cut_off_is_exported_in_words() {
    let half = cut(part(
        "1",
        &json!({"type": "tool_use", "id": "c", "name": "rm", "input": {"raw": "{"}}),
    ));
    for form in crate::FORMS {
        let out = export(form, &payload(&half.to_string())).unwrap();
        assert_eq!(out.len(), 1);
        assert!(out[0].get().contains("cut off before it was made"), "{}", out[0].get());
        assert!(!out[0].get().contains("\"name\""), "{}", out[0].get());
    }
    let words = cut(part("1", &json!({"type": "text", "text": "we"})));
    let out = export(MessageForm::Anthropic, &payload(&words.to_string())).unwrap();
    assert_eq!(out[0].get(), r#"{"role":"assistant","content":[{"type":"text","text":"we"}]}"#);
}

#[test]
fn what_is_said_aloud_is_not_lost() {
    let words = json!({"role": "assistant", "content": null, "audio": {"id": "audio_1", "transcript": "Hello."}});
    let sound = json!({"role": "assistant", "content": null, "audio": {"id": "audio_1"}});
    for (message, text) in [(words, "Hello."), (sound, r#"{"id":"audio_1"}"#)] {
        let out = |form| json_of(&render(form, &context(vec![data(&message)])));
        assert_eq!(out(MessageForm::OpenAi)["messages"], json!([message]));
        let block = &out(MessageForm::Anthropic)["messages"][1]["content"][0];
        assert_eq!(block, &json!({"type": "text", "text": text}));
    }
}

#[test]
fn thoughts_in_chat_go_by_either_name() {
    for name in ["reasoning", "reasoning_content"] {
        let message = json!({"role": "assistant", "content": "well", name: "hm"});
        let read = abide_wire::read(&payload(&message.to_string())).unwrap();
        let Some(MessagePart::Thinking { text, .. }) = read.parts.first() else { panic!("{name}") };
        assert_eq!(text, "hm");
        let out = json_of(&render(MessageForm::OpenAi, &context(vec![data(&message)])));
        assert_eq!(out["messages"], json!([message]));
    }
}

#[test]
fn what_a_local_shell_gave_is_found_by_its_own_name() {
    let call = json!({"type": "local_shell_call", "id": "lsh_1", "call_id": "c", "action": {"type": "exec"}});
    let gave = json!({"type": "local_shell_call_output", "id": "c", "output": "ok"});
    let held = json!({"role": "tool", "content": [gave], "abide": {"form": "responses"}});
    let entries = vec![
        data(&item("1", &call)),
        ContextEntry::Result {
            seq: Seq(2),
            call: CallId("c".to_owned()),
            result: in_message(&payload(&held.to_string())),
        },
    ];
    let out = json_of(&render(MessageForm::Responses, &context(entries)));
    assert_eq!(out["input"], json!([call, gave]));
}

#[test]
fn a_reference_to_a_tool_stays_in_its_result() {
    let block = json!({"type": "tool_result", "tool_use_id": "c", "content": [{"type": "tool_reference", "tool_name": "t"}]});
    let call = json!({"type": "tool_use", "id": "c", "name": "search", "input": {}});
    let entries = vec![
        data(&json!({"role": "assistant", "content": [call]})),
        ContextEntry::Result {
            seq: Seq(2),
            call: CallId("c".to_owned()),
            result: in_message(&payload(&json!({"role": "user", "content": [block]}).to_string())),
        },
    ];
    let out = json_of(&render(MessageForm::Anthropic, &context(entries)));
    assert_eq!(out["messages"][2]["content"], json!([block]));
}

#[test]
fn a_call_of_responses_that_is_not_said_to_be_one_is_written_anew() {
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "t", "arguments": "{}", "status": "completed"});
    let anew = json!({"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"});
    let gave =
        json!({"type": "function_call_output", "id": "fo_1", "call_id": "c", "output": "ok"});
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "ok"});
    let came = json!({"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}", "status": "completed"});
    for (marks, expected) in
        [(json!({}), [&anew, &output]), (json!({"form": "responses"}), [&came, &gave])]
    {
        let answer = json!({"role": "assistant", "content": [call], "abide": marks});
        let held = json!({"role": "tool", "content": [gave], "abide": marks});
        let entries = vec![
            data(&answer),
            ContextEntry::Result {
                seq: Seq(2),
                call: CallId("c".to_owned()),
                result: in_message(&payload(&held.to_string())),
            },
        ];
        let out = json_of(&render(MessageForm::Responses, &context(entries)));
        assert_eq!(out["input"], json!(expected), "{marks}");
    }
}
