//! Tries another way from an earlier event. A fork shares the history up to that event with the
//! session it comes from; from there on each goes its own way, and neither changes the other.

#![allow(clippy::print_stdout)]

use std::error::Error;

use abide::{Message, MessageForm, NewSession, SessionRef, Store};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let project = tempfile::tempdir()?;
    let store = Store::open_or_init(project.path())?;

    let first = store.create(NewSession::titled("With a regular expression"))?;
    let asked = first.append(Message::user("Parse the version number."))?.wait()?;
    let asked = asked.last().ok_or("one event was appended")?.seq;
    first.append(Message::assistant("I will use a regular expression."))?.wait()?;

    let parent = SessionRef::Id(first.id());
    let fork = store.fork(&parent, Some(asked), NewSession::titled("By hand"))?;
    let second = store.open_session(&SessionRef::Id(fork))?;
    assert_eq!(second.context()?.len(), 1, "it has the question and not the answer");
    second.append(Message::assistant("I will split it at the dots."))?.wait()?;

    for session in [&first, &second] {
        let title = session.state()?.core.fields.title.unwrap_or_default();
        let context = session.context()?;
        assert_eq!(context.len(), 2);
        println!("{title}: {}", context.render(MessageForm::OpenAi).to_json());
    }
    let fields = second.state()?.core.fields;
    let from = fields.parent.ok_or("a fork knows its parent")?;
    assert_eq!(from.session, first.id());
    println!("forked after event {asked}");
    Ok(())
}
