//! Answers recorded as they come: nothing that ended is lost, and what was cut off is marked.

use std::io::{self, Read};

use abide::stream::StreamDelta;
use abide::{
    Error, Kind, Message, MessageForm, NewEvent, NewSession, Session, Store,
    context::ContextEntry,
    message::{AnswerRecorder, AnswerRequest},
};
use serde_json::{Value, json};

fn session(dir: &tempfile::TempDir) -> Session {
    let store = Store::open_or_init(dir.path()).unwrap();
    let session = store.create(NewSession::titled("answers")).unwrap();
    session.append(Message::user("Go")).unwrap().wait().unwrap();
    session
}

fn ask(session: &Session, form: MessageForm) -> AnswerRecorder<'_> {
    let model = Some("a-model".to_owned());
    session.answer(AnswerRequest { model, ..AnswerRequest::new(form) }).unwrap()
}

/// The data of every event of a kind.
fn recorded(session: &Session, kind: &Kind) -> Vec<Value> {
    let events = session.view().last(1000).unwrap();
    let of_kind = events.iter().filter(|event| event.kind == *kind);
    of_kind
        .map(|event| serde_json::from_str(event.data.as_ref().unwrap().as_str()).unwrap())
        .collect()
}

fn chat(delta: &Value) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]}))
}

fn chat_call(index: u64, id: &str, arguments: &str) -> String {
    let function = json!({"name": "sh", "arguments": arguments});
    chat(
        &json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}),
    )
}

const CHAT_END: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":90,\"completion_tokens\":10}}\n\ndata: [DONE]\n\n";

const ANTHROPIC: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"role\":\"assistant\",\"model\":\"a-model\",\"content\":[],\"usage\":{\"input_tokens\":90,\"output_tokens\":1}}}\n\n\
    event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
    event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"I will look.\"}}\n\n\
    event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
    event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"c1\",\"name\":\"sh\",\"input\":{}}}\n\n\
    event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"command\\\":\\\"ls\\\"}\"}}\n\n\
    event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n\
    event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":10}}\n\n\
    event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

const RESPONSES: &str = "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"model\":\"a-model\"}}\n\n\
    data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"message\",\"id\":\"m\",\"role\":\"assistant\",\"status\":\"completed\",\"content\":[{\"type\":\"output_text\",\"text\":\"I will look.\",\"annotations\":[]}]}}\n\n\
    data: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"type\":\"function_call\",\"id\":\"f\",\"call_id\":\"c1\",\"name\":\"sh\",\"arguments\":\"{\\\"command\\\":\\\"ls\\\"}\"}}\n\n\
    data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":\"completed\",\"usage\":{\"input_tokens\":90,\"output_tokens\":10}}}\n\n";

/// The same answer in each form: some text and a call.
fn answers() -> [(MessageForm, String); 3] {
    let chat = chat(&json!({"role": "assistant", "content": "I will look."}))
        + &chat_call(0, "c1", r#"{"command":"ls"}"#)
        + CHAT_END;
    [
        (MessageForm::OpenAi, chat),
        (MessageForm::Anthropic, ANTHROPIC.to_owned()),
        (MessageForm::Responses, RESPONSES.to_owned()),
    ]
}

#[test]
fn an_answer_is_one_message_again_in_every_form() {
    for (form, stream) in answers() {
        let dir = tempfile::tempdir().unwrap();
        let session = session(&dir);
        let mut shown = String::new();
        let answered = ask(&session, form)
            .read(stream.as_bytes(), &mut |delta| {
                if let StreamDelta::Text(text) = delta {
                    shown.push_str(text);
                }
            })
            .unwrap();
        assert!(answered.complete, "{form:?}: {answered:?}");
        assert_eq!((answered.text.as_str(), answered.calls.len()), ("I will look.", 1), "{form:?}");
        assert_eq!(shown, answered.text);
        let parts = recorded(&session, &Kind::MESSAGE_ADDED);
        assert_eq!(parts.len(), 3, "{form:?}");
        assert_eq!(parts[1]["abide"]["answer"], parts[2]["abide"]["answer"], "{form:?}");
        let finished = recorded(&session, &Kind::API_FINISHED);
        assert_eq!(finished[0]["usage"]["input_tokens"], 90, "{form:?}");
        assert!(finished[0].get("error").is_none(), "{form:?}");
        let context = session.context().unwrap();
        let [(call, begun)] = &context.pending_calls()[..] else { panic!("{form:?}: {context:?}") };
        assert_eq!(
            (call.id.as_str(), call.arguments.as_str(), *begun),
            ("c1", r#"{"command":"ls"}"#, false)
        );
        // For every API the two parts are one message, with the one result behind it.
        let request: Value =
            serde_json::from_str(&context.render(MessageForm::OpenAi).to_json()).unwrap();
        let messages = request["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 3, "{form:?}: {request}");
        assert_eq!(messages[1]["tool_calls"][0]["id"], "c1", "{form:?}: {request}");
        assert!(messages[1]["content"].to_string().contains("I will look."), "{form:?}: {request}");
        assert!(!request.to_string().contains("abide"), "{form:?}: {request}");
        assert_eq!(context.tokens().reported, 100, "{form:?}");
    }
}

#[test]
fn a_block_is_durable_when_it_ends_and_the_open_one_is_lost_and_marked() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir);
    let mut answer = ask(&session, MessageForm::OpenAi);
    let mut feed = |text: String| answer.feed(text.as_bytes(), &mut |_| {}).unwrap();
    feed(chat(&json!({"content": "First."})));
    feed(chat_call(0, "c1", r#"{"command":"ls"}"#));
    assert_eq!(recorded(&session, &Kind::MESSAGE_ADDED).len(), 2, "the text has ended");
    feed(chat_call(1, "c2", r#"{"comm"#));
    assert_eq!(recorded(&session, &Kind::MESSAGE_ADDED).len(), 3, "the first call has ended");
    // While it is listened to, nobody else ends it.
    drop(ask(&session, MessageForm::OpenAi));
    assert_eq!(session.state().unwrap().calls.len(), 1);
    // The agent dies: nothing more is recorded by it.
    std::mem::forget(answer);
    let (store, id) = (session.store().clone(), session.id());
    session.close().unwrap();
    let session = store.open_session(&abide::SessionRef::Id(id)).unwrap();
    let context = session.context().unwrap();
    assert_eq!(context.pending.iter().map(|call| call.call.0.as_str()).collect::<Vec<_>>(), ["c1"]);
    assert_eq!(session.state().unwrap().calls.len(), 1, "the request is open");
    // The next request ends it.
    let next = ask(&session, MessageForm::OpenAi);
    let finished = recorded(&session, &Kind::API_FINISHED);
    assert_eq!(finished.len(), 2);
    assert_eq!(finished[1]["error"], "interrupted before the answer was complete");
    assert!(!session.context().unwrap().is_answered());
    next.fail("status 429").unwrap();
    assert_eq!(recorded(&session, &Kind::API_FINISHED)[2]["error"], "status 429");
}

#[test]
fn what_is_cancelled_or_cut_off_is_recorded_as_partial() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir);
    let mut answer = ask(&session, MessageForm::OpenAi);
    answer.feed(chat(&json!({"content": "Half a sen"})).as_bytes(), &mut |_| {}).unwrap();
    drop(answer);
    let messages = recorded(&session, &Kind::MESSAGE_ADDED);
    assert_eq!(messages[1]["content"], "Half a sen");
    assert_eq!(messages[1]["abide"]["partial"], true);
    assert_eq!(recorded(&session, &Kind::API_FINISHED)[0]["error"], "cancelled");

    // A call that was cut off is no call.
    let torn = chat_call(0, "c9", r#"{"comm"#);
    let answered = ask(&session, MessageForm::OpenAi).read(torn.as_bytes(), &mut |_| {}).unwrap();
    assert!(!answered.complete && answered.calls.is_empty());
    let context = session.context().unwrap();
    assert!(context.pending.is_empty());
    let request = context.render(MessageForm::OpenAi).to_json();
    assert!(!request.contains("tool_calls"), "{request}");

    struct Broken(bool);
    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if std::mem::replace(&mut self.0, true) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it hangs"));
            }
            let text = chat(&json!({"content": "Then"}));
            buffer[..text.len()].copy_from_slice(text.as_bytes());
            Ok(text.len())
        }
    }
    let error = ask(&session, MessageForm::OpenAi).read(Broken(false), &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::CutOff(_)), "{error:?}");
    assert_eq!(recorded(&session, &Kind::API_FINISHED)[2]["error"], "cut off: it hangs");
    assert!(recorded(&session, &Kind::MESSAGE_ADDED).iter().any(|said| said["content"] == "Then"));
}

#[test]
fn nonsense_and_floods_are_errors_and_lose_nothing_before_them() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir);
    let stream = chat(&json!({"content": "Good."})) + "data: {\"choices\": nonsense}\n\n";
    let error =
        ask(&session, MessageForm::OpenAi).read(stream.as_bytes(), &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Stream(_)), "{error:?}");
    let messages = recorded(&session, &Kind::MESSAGE_ADDED);
    assert_eq!(
        (&messages[1]["content"], &messages[1]["abide"]["partial"]),
        (&json!("Good."), &json!(true))
    );

    /// Two hundred megabytes of an answer.
    struct Flood(usize);
    impl Read for Flood {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let text = chat(&json!({"content": "x".repeat(8000)}));
            self.0 += text.len();
            if self.0 > 200 << 20 {
                return Ok(0);
            }
            buffer[..text.len()].copy_from_slice(text.as_bytes());
            Ok(text.len())
        }
    }
    let mut flood = Flood(0);
    let error = ask(&session, MessageForm::OpenAi).read(&mut flood, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error:?}");
    assert!(flood.0 < 20 << 20, "{} bytes were read", flood.0);
    assert_eq!(recorded(&session, &Kind::API_FINISHED).len(), 2);
    // A call with broken arguments is kept, and says what is wrong.
    let stream = chat_call(0, "c1", r#"{"command": ls}"#) + CHAT_END;
    let answered = ask(&session, MessageForm::OpenAi).read(stream.as_bytes(), &mut |_| {}).unwrap();
    assert!(answered.calls[0].broken.is_some());
    assert_eq!(answered.calls[0].call.arguments, r#"{"command": ls}"#);
    let context = session.context().unwrap();
    for form in [MessageForm::OpenAi, MessageForm::Anthropic, MessageForm::Responses] {
        let request = context.render(form).to_json();
        assert!(serde_json::from_str::<Value>(&request).is_ok());
    }
    assert!(matches!(context.last(), Some(ContextEntry::Unknown { .. })));
}

#[test]
fn an_answer_that_was_cut_off_is_none_however_its_mark_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir);
    for (answered, data) in [
        (true, r#"{"role":"assistant","content":"Done."}"#),
        (false, r#"{"role":"assistant","content":"Do","abide":{"partial":true}}"#),
        (false, r#"{"role":"assistant","content":"Do","abide": { "partial" : true } }"#),
        (true, r#"{ "role" : "assistant","content":"Done.","abide":{"x":{"partial":true}}}"#),
    ] {
        let event = NewEvent::parse(&format!(r#"{{"kind":"message.added","data":{data}}}"#));
        session.append(event.unwrap()).unwrap().wait().unwrap();
        assert_eq!(session.context().unwrap().is_answered(), answered, "{data}");
    }
}
