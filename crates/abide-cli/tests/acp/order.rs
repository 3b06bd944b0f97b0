//! What matters is in the journal when the other side hears of it.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::{Value, json};

use super::lab::{AcpLab, consenting};

fn has(events: &[Value], kind: &str, call: &str) -> bool {
    events.iter().any(|event| event["kind"] == kind && event["data"]["call"] == call)
}

#[test]
fn prompts_calls_results_and_answers_are_durable_before_they_are_passed_on() {
    let lab = Rc::new(AcpLab::new());
    let mut client = lab.proxy(&[]);
    let session = lab.open(&mut client);
    let asked = Rc::new(RefCell::new(0));
    let (theirs, counted) = (Rc::clone(&lab), Rc::clone(&asked));
    client.answering(move |request| {
        if request["method"] == "session/request_permission" {
            *counted.borrow_mut() += 1;
            assert_eq!(theirs.count("permission.asked"), *counted.borrow());
            assert_eq!(theirs.count("permission.answered"), *counted.borrow() - 1);
            // The agent asks because it heard the prompt.
            let said = theirs.events().into_iter().any(|event| {
                event["kind"] == "message.added"
                    && event["data"]["content"][0]["text"]
                        .as_str()
                        .is_some_and(|text| text.starts_with("ask; sleep 1"))
            });
            assert!(said);
        }
        consenting(request)
    });
    for _ in 0..3 {
        let id = client.prompt(&session, "ask; sleep 1; tool a; tool b; tool-open c");
        loop {
            let line = client.next().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            let update = &message["params"]["update"];
            let call = update["toolCallId"].as_str().unwrap_or_default();
            if update["sessionUpdate"] == "tool_call" {
                assert!(has(&lab.events(), "tool.called", call), "{line}");
            }
            if update["status"] == "completed" {
                assert!(has(&lab.events(), "tool.finished", call), "{line}");
            }
            if update["sessionUpdate"] == "agent_message_chunk" {
                // It says what was answered: so the answer had reached it.
                assert_eq!(lab.count("permission.answered"), *asked.borrow());
            }
            if message["id"] == id && message.get("method").is_none() {
                break;
            }
        }
        assert_eq!(lab.count("turn.finished"), *asked.borrow());
    }
    assert_eq!(*asked.borrow(), 3);
}

#[test]
fn a_permission_that_is_never_answered_is_in_the_journal_as_asked() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    client.answering(|_| None);
    let session = lab.open(&mut client);
    let id = client.prompt(&session, "ask");
    client.until("the question", |message| message["method"] == "session/request_permission");
    client.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(client.answer(id)["result"]["stopReason"], "cancelled");
    assert_eq!((lab.count("permission.asked"), lab.count("turn.finished")), (1, 1));
}
