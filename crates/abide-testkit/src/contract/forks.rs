//! Forks: where they begin, and what they share with their parent.

use abide_model::{
    EventRange, Fact, Lineage, Message, MessageContent, NewSession, ParentReason, Seq,
    SessionFields, SessionId, SessionRef, SessionStatus, Store, StoreError,
};

use super::{NOW, Subject, append, assert_whole, event, message, new_session, state};

fn texts(store: &dyn Store, id: SessionId) -> Vec<(u64, String)> {
    let reader = store.read(id).unwrap();
    let page = reader.page(EventRange::ALL).unwrap();
    assert_eq!(page.notes, []);
    let said = |event: &abide_model::Event| match event.fact() {
        Ok(Fact::Message(Message { content: MessageContent::Text(text), .. })) => {
            Some((event.seq.0, text))
        }
        _ => None,
    };
    page.events.iter().filter_map(said).collect()
}

pub(super) fn a_fork_goes_on_from_a_place_in_the_past(subject: &dyn Subject) {
    let store = subject.open();
    let fields = SessionFields {
        title: Some("parent".into()),
        agent: Some("coder".into()),
        key: Some("p".into()),
        ..SessionFields::default()
    };
    let id = store.create(NewSession::from(fields)).unwrap().id;
    let writer = store.write(id, NOW).unwrap();
    append(&*writer, vec![event(r#"{"kind":"turn.started","data":{"agent":"coder"}}"#)]);
    append(&*writer, vec![message("one").with_key("k")]);
    append(
        &*writer,
        vec![
            event(r#"{"kind":"tool.called","data":{"call":"c","name":"bash"}}"#),
            event(r#"{"kind":"usage.recorded","data":{"input_tokens":7}}"#),
            event(r#"{"kind":"session.status","data":{"status":"completed"}}"#),
            event(r#"{"kind":"checkpoint.created","data":{"label":"here"}}"#),
            message("not shared"),
        ],
    );
    let new = NewSession::titled("fork");
    let fork = store.fork(id, Some(Seq(8)), new).unwrap().id;
    assert_ne!(fork, id);
    assert_eq!(texts(&*store, fork), [(4, "one".to_owned())]);
    assert_whole(&*store, fork, 9);
    let core = state(&*store, fork).core;
    assert_eq!((core.id, core.seq), (Some(fork), Seq(9)));
    let parent = core.fields.parent.clone().unwrap();
    assert_eq!((parent.session, parent.seq, parent.reason), (id, Seq(8), ParentReason::Fork));
    assert_eq!(core.fields.title.as_deref(), Some("fork"));
    assert_eq!(
        core.fields.agent.as_deref(),
        Some("coder"),
        "what it is not told it has from there"
    );
    assert_eq!(core.fields.key, None);
    assert_eq!(core.status, SessionStatus::default());
    assert_eq!(core.usage, abide_model::Usage::default(), "what was used was the parent's");
    assert_eq!((core.turns.last.0, core.checkpoints.last), (1, 1), "numbers go on");
    assert!(state(&*store, fork).calls.get("c").is_some(), "a call without a result stays one");

    // Another process goes on with it.
    let again = subject.open();
    let writer = again.write(fork, NOW).unwrap();
    assert_eq!(writer.epoch().0, 1);
    assert_eq!(append(&*writer, vec![message("two")]), [11]);
    append(&*writer, vec![event(r#"{"kind":"turn.started","data":{"agent":"coder"}}"#)]);
    assert!(writer.state().unwrap().turns.get("2").is_some());
    writer.close().unwrap();
    assert_whole(&*again, fork, 13);
    assert_eq!(texts(&*again, id).len(), 2, "the parent is as it was");
}

pub(super) fn a_fork_and_its_parent_go_their_own_ways(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    append(&*writer, vec![message("one"), message("two"), message("three")]);
    // The parent is open, goes on and goes back, and the fork does not care.
    let fork = store.fork(id, Some(Seq(4)), NewSession::default()).unwrap().id;
    append(&*writer, vec![message("four")]);
    append(&*writer, vec![event(r#"{"kind":"session.rewound","data":{"to":3}}"#)]);
    let forked = store.write(fork, NOW).unwrap();
    append(&*forked, vec![message("other")]);
    forked.close().unwrap();
    let expected = [(3, "one"), (4, "two"), (7, "other")];
    assert_eq!(texts(&*store, fork), expected.map(|(seq, text)| (seq, text.to_owned())));
    assert_whole(&*store, fork, 8);
    let core = state(&*store, fork).core;
    assert_eq!(core.lineage.ranges(), [(Seq(1), Seq(8))]);
    assert_eq!(core.fields.title.as_deref(), Some("a session"));
    // A place that a rewind took back can be forked, and so can what went back.
    let dead = store.fork(id, Some(Seq(6)), NewSession::default()).unwrap().id;
    let core = state(&*store, dead).core;
    assert_eq!((core.messages.total, core.lineage.ranges()), (4, &[(Seq(1), Seq(7))][..]));
    let back = store.fork(id, None, NewSession::default()).unwrap().id;
    let core = state(&*store, back).core;
    assert_eq!(core.messages.total, 1);
    assert_eq!(core.lineage.ranges(), [(Seq(1), Seq(3)), (Seq(7), Seq(8))]);
    assert_eq!((core.rewinds, core.last_rewind), (0, None));
    writer.close().unwrap();
}

pub(super) fn a_fork_can_be_forked_and_rewound(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    append(&*writer, vec![message("a3"), message("a4")]);
    writer.close().unwrap();
    let grow = |id: SessionId, texts: &[&str]| {
        let writer = store.write(id, NOW).unwrap();
        let seqs = append(&*writer, texts.iter().map(|text| message(text)).collect());
        writer.close().unwrap();
        seqs
    };
    let middle = store.fork(id, Some(Seq(4)), NewSession::titled("middle")).unwrap().id;
    assert_eq!(grow(middle, &["b7", "b8"]), [7, 8]);
    let last = store.fork(middle, Some(Seq(7)), NewSession::titled("last")).unwrap().id;
    assert_eq!(grow(last, &["c10", "c11"]), [10, 11]);
    let said = |id| texts(&*store, id).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
    assert_eq!(said(last), ["a3", "a4", "b7", "c10", "c11"]);
    assert_whole(&*store, last, 12);
    // A fork of a fork at a place that is not the fork's own.
    let deep = store.fork(middle, Some(Seq(3)), NewSession::default()).unwrap().id;
    assert_eq!(said(deep), ["a3"]);
    assert_whole(&*store, deep, 4);
    // It goes back to before it was forked, and is still itself.
    let writer = store.write(last, NOW).unwrap();
    append(&*writer, vec![event(r#"{"kind":"session.rewound","data":{"to":3}}"#)]);
    append(&*writer, vec![message("c15")]);
    let now = writer.state().unwrap();
    assert_eq!(now.core.id, Some(last));
    assert_eq!(now.core.fields.title.as_deref(), Some("last"));
    assert_eq!(now.core.fields.parent.as_ref().map(|parent| parent.session), Some(middle));
    assert_eq!(now.core.messages.total, 2);
    assert_eq!(now.core.lineage.ranges(), [(Seq(1), Seq(3)), (Seq(14), Seq(15))]);
    writer.close().unwrap();
    assert_whole(&*store, last, 16);
    let again = subject.open();
    assert_eq!(state(&*again, last).core.lineage, Lineage::at(Seq(16), &[(Seq(14), Seq(3))]));
    let reopened = again.write(last, NOW).unwrap();
    assert_eq!(reopened.state().unwrap().core.messages.total, 2);
}

pub(super) fn a_fork_has_a_key_of_its_own(subject: &dyn Subject) {
    let store = subject.open();
    let parent = store.create(NewSession::titled("p").with_key("parent")).unwrap().id;
    let forked =
        |key: &str| store.fork(parent, None, NewSession::default().with_key(key)).unwrap().id;
    let fork = forked("fork");
    assert_ne!(fork, parent);
    assert_eq!(forked("fork"), fork, "the same key, the same fork");
    assert_eq!(forked("parent"), parent);
    let find = |key: &str| store.find(&SessionRef::Key(key.to_owned())).unwrap();
    assert_eq!((find("fork"), find("parent")), (fork, parent));
}

pub(super) fn only_what_is_there_is_forked(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    append(&*writer, vec![message("one")]);
    for seq in [0, 4, 99] {
        let refused = store.fork(id, Some(Seq(seq)), NewSession::default());
        assert!(
            matches!(refused, Err(StoreError::NoEvent { seq: Seq(asked), last: Seq(3), .. }) if asked == seq),
            "{refused:?}"
        );
    }
    let nobody: SessionId = "019a8519-0200-7503-9294-f2065da4d5ae".parse().unwrap();
    let refused = store.fork(nobody, None, NewSession::default());
    assert!(matches!(refused, Err(StoreError::NoSession { .. })), "{refused:?}");
    assert_eq!(store.list().unwrap().len(), 1, "nothing was made");
}
