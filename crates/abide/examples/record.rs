//! Records a session and reads it back. Each event is on stable storage once its ticket was waited
//! on; a key makes sure that an event is recorded once, even if it is sent again.

#![allow(clippy::print_stdout)]

use std::error::Error;

use abide::{EventRange, Message, NewEvent, NewSession, SessionRef, Store};
use abide::{ToolCall, ToolResult, TurnEnd, TurnStart};
use serde_json::value::to_raw_value;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let project = tempfile::tempdir()?;
    let store = Store::open_or_init(project.path())?;
    let session = store.create(NewSession::titled("Fix the parser"))?;

    session.append(TurnStart { agent: "example".to_owned(), ..TurnStart::default() })?.wait()?;
    let request = Message::user("The parser drops the last line.");
    let request = NewEvent::try_from(request)?.with_key("request-1");
    session.append(request.clone())?.wait()?;

    // The call is durable before the tool runs, so that a crash cannot hide what it did.
    let arguments = to_raw_value(&["cargo", "test"])?;
    session.append(ToolCall::new("call-1", "sh").with_arguments(arguments))?.wait()?;
    let output = to_raw_value("test parses_the_last_line ... ok")?;
    session.append(ToolResult::success("call-1").with_result(output))?.wait()?;
    session.append(Message::assistant("The parser keeps the last line now."))?.wait()?;
    session.append(TurnEnd { status: "done".to_owned(), ..TurnEnd::default() })?.wait()?;

    // The same event once more, as after a restart: nothing is written.
    let again = session.append(request)?.wait()?;
    assert!(again.iter().all(|event| event.repeated));
    session.close()?;

    // Anybody may read a session, with or without a writer.
    let view = store.view(&SessionRef::Latest)?;
    for event in view.events(EventRange::ALL) {
        let event = event?;
        println!("{:>2} {}", event.seq, event.kind);
    }
    let state = view.state()?;
    assert_eq!(state.core.messages.total, 2);
    assert!(state.calls.is_empty(), "every call has a result");
    println!("2 messages, no open calls");
    Ok(())
}
