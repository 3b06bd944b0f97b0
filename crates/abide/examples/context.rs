//! Renders the context of a session as a request of a model's API. The same session serves every
//! API, so that an agent can change its provider in the middle of a conversation.

#![allow(clippy::print_stdout)]

use std::error::Error;

use abide::{Message, MessageForm, NewSession, Store, ToolCall, ToolResult};
use serde_json::{Value, json, value::to_raw_value};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let project = tempfile::tempdir()?;
    let session = Store::open_or_init(project.path())?.create(NewSession::titled("Ask"))?;
    session.append(Message::text("system", "You answer in one sentence."))?.wait()?;
    session.append(Message::user("How many files are there?"))?.wait()?;
    let arguments = to_raw_value(&json!({"command": "ls | wc -l"}))?;
    session.append(ToolCall::new("call-1", "sh").with_arguments(arguments))?.wait()?;
    session.append(ToolResult::success("call-1").with_result(to_raw_value("7")?))?.wait()?;
    session.append(Message::assistant("There are seven."))?.wait()?;
    session.append(Message::user("And directories?"))?.wait()?;

    let context = session.context()?;
    assert!(!context.is_answered(), "it is the model's turn");
    println!("{} entries, about {} tokens", context.len(), context.tokens().total());
    for form in [MessageForm::OpenAi, MessageForm::Anthropic, MessageForm::Responses] {
        println!("{form:?}: {}", context.render(form).to_json());
    }

    // The rest of the request is the agent's own.
    let rendered = context.render(MessageForm::Anthropic);
    let mut body: Value = serde_json::from_str(&rendered.to_json())?;
    let object = body.as_object_mut().ok_or("a request is an object")?;
    object.insert("model".to_owned(), json!("a-model"));
    object.insert("max_tokens".to_owned(), json!(1024));
    assert!(rendered.system.is_some(), "this API takes the instructions separately");
    println!("a request with {} fields", object.len());
    Ok(session.close()?)
}
