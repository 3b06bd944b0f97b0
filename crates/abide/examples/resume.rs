//! Goes on after a crash. A call that was started has an unknown outcome, and the model is told so
//! instead of running it twice; a call that was only requested is run now.

#![allow(clippy::print_stdout)]

use std::error::Error;

use abide::event::{EventLimits, OUTCOME_UNKNOWN};
use abide::{Kind, Message, MessageForm, NewEvent, NewSession, Payload, Session, Store};
use abide::{ToolCall, ToolResult, message::record_message};
use serde_json::{json, value::to_raw_value};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let project = tempfile::tempdir()?;
    let store = Store::open_or_init(project.path())?;

    let session = open(&store)?;
    session.append(Message::user("Release it, then tell the team."))?.wait()?;
    // What the model answered, as its API sent it.
    let call = |id, name| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
    let answer = json!({
        "role": "assistant", "content": null,
        "tool_calls": [call("call-1", "release"), call("call-2", "tell")],
    });
    let answer = record_message(MessageForm::OpenAi, &answer.to_string())?;
    let answer = Payload::new(&answer, &EventLimits::default())?;
    session.append(NewEvent::new(Kind::MESSAGE_ADDED, answer))?.wait()?;
    session.append(ToolCall::new("call-1", "release"))?.wait()?;
    // The agent dies here, while the first tool runs.
    drop(session);

    let session = open(&store)?;
    assert_eq!(session.context()?.pending_calls().len(), 2);
    for (call, was_started) in session.context()?.pending_calls() {
        let id = call.id.as_str();
        let result = if was_started {
            ToolResult::failure(id).with_result(to_raw_value(OUTCOME_UNKNOWN)?)
        } else {
            session.append(ToolCall::new(id, &*call.name))?.wait()?;
            ToolResult::success(id).with_result(to_raw_value("told")?)
        };
        println!("{}: {}", call.name, if was_started { "outcome unknown" } else { "run now" });
        session.append(result)?.wait()?;
    }
    let context = session.context()?;
    assert!(context.pending_calls().is_empty());
    assert!(context.render(MessageForm::OpenAi).to_json().contains(OUTCOME_UNKNOWN));
    println!("every call has a result: the model can go on");
    Ok(session.close()?)
}

/// Opens the session of this job; the first process creates it.
fn open(store: &Store) -> Result<Session, abide::Error> {
    store.create_or_get("my-agent/release-7", NewSession::titled("Release"))
}
