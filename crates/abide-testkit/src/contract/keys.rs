//! Keys of events and of sessions.

use abide_model::{
    AnomalyPolicy, Durability, NewSession, Seq, SessionRef, SessionWriter, Store, StoreError,
};

use super::{NOW, Subject, append, assert_whole, found_by, kinds, message, new_session, rewind};

pub(super) fn a_key_is_used_once(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    let first = append(&*writer, vec![message("one").with_key("k")]);
    let ticket = writer
        .append(
            vec![message("other").with_key("k"), message("two")],
            Durability::Synced,
            AnomalyPolicy::Keep,
        )
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!((ticket[0].seq.0, ticket[0].repeated), (first[0], true));
    assert_eq!((ticket[1].seq.0, ticket[1].repeated), (first[0] + 1, false));
    drop(writer);
    let again = subject.open();
    let writer = again.write(id, NOW).unwrap();
    assert_eq!(append(&*writer, vec![message("three").with_key("k")]), first);
    drop(writer);
    let messages = kinds(&*again, id).iter().filter(|kind| *kind == "message.added").count();
    assert_eq!(messages, 2);
}

/// Sends a message with a key; says where it is, and whether it was there before.
fn send(writer: &dyn SessionWriter, text: &str, key: &str) -> (u64, bool) {
    let events = vec![message(text).with_key(key)];
    let ticket = writer.append(events, Durability::Synced, AnomalyPolicy::Keep).unwrap();
    let done = ticket.wait().unwrap();
    (done[0].seq.0, done[0].repeated)
}

pub(super) fn a_key_counts_within_the_lineage(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    assert_eq!(send(&*writer, "one", "a"), (3, false));
    assert_eq!(send(&*writer, "two", "b"), (4, false));
    assert_eq!(send(&*writer, "two", "b"), (4, true));
    let back = || vec![rewind(3).with_key("back")];
    assert_eq!(append(&*writer, back()), [5]);
    assert_eq!(append(&*writer, back()), [5], "a rewind whose answer was lost is not done again");
    assert_eq!(send(&*writer, "one", "a"), (3, true), "what was not taken back is known");
    assert_eq!(send(&*writer, "two again", "b"), (6, false), "what was taken back is not");
    assert_eq!(send(&*writer, "two again", "b"), (6, true), "and the key names the new one");
    assert_eq!(writer.state().unwrap().core.messages.total, 2);
    writer.close().unwrap();
    drop(writer);
    assert_whole(&*store, id, 7);
    // Another process knows the same.
    let again = subject.open();
    let writer = again.write(id, NOW).unwrap();
    assert_eq!(send(&*writer, "one", "a"), (3, true));
    assert_eq!(send(&*writer, "two again", "b"), (6, true));
    // The rewind is undone: what it took back is there again, and what came since is not.
    assert_eq!(append(&*writer, vec![rewind(4)]), [9]);
    assert_eq!(send(&*writer, "two", "b"), (4, true));
    // Back to before everything.
    assert_eq!(append(&*writer, vec![rewind(1)]), [10]);
    assert_eq!(send(&*writer, "one", "a"), (11, false));
    assert_eq!(send(&*writer, "two", "b"), (12, false));
    writer.close().unwrap();
    drop(writer);
    assert_whole(&*again, id, 13);
    let writer = subject.open().write(id, NOW).unwrap();
    assert_eq!(send(&*writer, "one", "a"), (11, true));
    assert_eq!(send(&*writer, "two", "b"), (12, true));
}

pub(super) fn a_fork_knows_the_keys_of_its_past(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    send(&*writer, "one", "a");
    send(&*writer, "two", "b");
    append(&*writer, vec![rewind(3)]);
    assert_eq!(send(&*writer, "other", "b"), (6, false));
    assert_eq!(send(&*writer, "three", "c"), (7, false));
    let fork = store.fork(id, Some(Seq(6)), NewSession::default()).unwrap().id;
    let forked = store.write(fork, NOW).unwrap();
    assert_eq!(send(&*forked, "one", "a"), (3, true), "before the fork's place it is the parent's");
    assert_eq!(send(&*forked, "other", "b"), (6, true));
    assert_eq!(send(&*forked, "three", "c"), (9, false), "behind it the key is free");
    assert_eq!(send(&*forked, "three", "c"), (9, true));
    forked.close().unwrap();
    assert_whole(&*store, fork, 10);
    assert_eq!(send(&*writer, "three", "c"), (7, true), "the parent knows its own");
    // A fork of the fork, in another process; and it goes back to before it was forked.
    let again = subject.open();
    let deep = again.fork(fork, Some(Seq(9)), NewSession::default()).unwrap().id;
    let forked = again.write(deep, NOW).unwrap();
    assert_eq!(send(&*forked, "one", "a"), (3, true));
    assert_eq!(send(&*forked, "three", "c"), (9, true));
    assert_eq!(append(&*forked, vec![rewind(3)]), [12]);
    assert_eq!(send(&*forked, "one", "a"), (3, true));
    assert_eq!(send(&*forked, "other", "b"), (13, false));
    assert_eq!(send(&*forked, "three", "c"), (14, false));
    forked.close().unwrap();
    assert_whole(&*again, deep, 15);
    // A place that a rewind took back is a place to fork from, with what was known there.
    let dead = again.fork(id, Some(Seq(4)), NewSession::default()).unwrap().id;
    let forked = again.write(dead, NOW).unwrap();
    assert_eq!(send(&*forked, "two", "b"), (4, true));
    writer.close().unwrap();
}

pub(super) fn a_client_key_names_one_session(subject: &dyn Subject) {
    let store = subject.open();
    let create = |store: &dyn Store, key: &str| {
        store.create(NewSession::default().with_key(key)).unwrap().id
    };
    let one = create(&*store, "client/1");
    let two = create(&*store, "client/2");
    assert_ne!(one, two);
    assert_eq!(create(&*subject.open(), "client/1"), one);
    assert_eq!(store.find(&SessionRef::Key("client/2".into())).unwrap(), two);
    let none = store.find(&SessionRef::Key("client/3".into()));
    assert!(matches!(none, Err(StoreError::NoSession { .. })));
}

pub(super) fn a_client_key_counts_in_its_project(subject: &dyn Subject) {
    let create = |projects: &[&str]| {
        let store = subject.open_for(projects);
        store.create(NewSession::default().with_key("build")).unwrap().id
    };
    let find = |projects: &[&str]| {
        found_by(&*subject.open_for(projects), &SessionRef::Key("build".to_owned()))
    };
    assert_eq!(find(&["red"]), None);
    let red = create(&["red"]);
    assert_eq!((find(&["blue"]), find(&[])), (None, None));
    let [blue, nobodys] = [create(&["blue"]), create(&[])];
    assert!(red != blue && red != nobodys && blue != nobodys);
    assert_eq!([create(&["red"]), create(&["blue"]), create(&[])], [red, blue, nobodys]);
    assert_eq!([find(&["red"]), find(&["blue"]), find(&[])], [red, blue, nobodys].map(Some));
    // A project that got another id keeps its keys.
    assert_eq!((create(&["new", "red"]), find(&["new", "red"])), (red, Some(red)));
    // A fork that has a key has it where it is made.
    let fork = |projects: &[&str]| {
        let key = NewSession::default().with_key("fork");
        subject.open_for(projects).fork(red, None, key).unwrap().id
    };
    let forks = [fork(&["red"]), fork(&["blue"]), fork(&[])];
    assert_eq!([fork(&["red"]), fork(&["blue"]), fork(&[])], forks);
    assert!(forks[0] != forks[1] && forks[1] != forks[2] && forks[0] != forks[2]);
}
