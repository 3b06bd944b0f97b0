//! States: the fold of the events, and what a rewind reverts.

use super::{NOW, Subject, append, event, kinds, message, new_session};

pub(super) fn the_state_follows_the_events(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    let events = [
        r#"{"kind":"turn.started","data":{"agent":"coder"}}"#,
        r#"{"kind":"task.created","data":{"task":"P1","title":"a task"}}"#,
        r#"{"kind":"tool.called","data":{"call":"c1","name":"bash"}}"#,
        r#"{"kind":"tool.called","data":{"call":"c2","name":"bash"}}"#,
        r#"{"kind":"tool.finished","data":{"call":"c1"}}"#,
        r#"{"kind":"task.status","data":{"task":"P1","status":"complete"}}"#,
        r#"{"kind":"usage.recorded","data":{"model":"m","input_tokens":5}}"#,
    ];
    append(&*writer, events.iter().map(|json| event(json)).collect());
    let state = writer.state().unwrap();
    assert_eq!(state.calls.len(), 1);
    assert!(state.calls.get("c2").is_some());
    assert_eq!(state.core.usage.input_tokens, 5);
    assert_eq!(state.core.fields.title.as_deref(), Some("a session"));
    drop(writer);
    let again = subject.open();
    let reader = again.read(id).unwrap();
    let read = reader.state().unwrap();
    assert_eq!(read.calls.len(), 1);
    let writer = again.write(id, NOW).unwrap();
    assert_eq!(writer.state().unwrap().digest(), read.digest());
}

pub(super) fn a_rewind_reverts_the_state(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    append(&*writer, vec![message("one")]);
    let before = writer.state().unwrap();
    append(
        &*writer,
        vec![message("two"), event(r#"{"kind":"usage.recorded","data":{"input_tokens":9}}"#)],
    );
    append(
        &*writer,
        vec![event(&format!(
            r#"{{"kind":"session.rewound","data":{{"to":{}}}}}"#,
            before.core.seq
        ))],
    );
    let state = writer.state().unwrap();
    assert_eq!(state.core.messages.total, 1);
    assert_eq!(state.core.usage.input_tokens, 9);
    append(&*writer, vec![message("three")]);
    let digest = writer.state().unwrap().digest();
    let reader = store.read(id).unwrap();
    assert_eq!(reader.state().unwrap().digest(), digest);
    drop(writer);
    let messages = kinds(&*store, id).iter().filter(|kind| *kind == "message.added").count();
    assert_eq!(messages, 3, "what came after a rewind stays readable");
}
