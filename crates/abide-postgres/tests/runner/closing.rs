//! What is written while a writer closes, and the snapshot that it leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use abide_model::{
    AnomalyPolicy, Durability, EventRange, Fact, Kind, MessageContent, SessionId, Store,
};
use abide_postgres::{PostgresOptions, PostgresStore};

use crate::support::{database, message, new_session, say, store};

fn said(store: &PostgresStore, id: SessionId) -> Vec<String> {
    let reader = store.read(id).unwrap();
    let page = reader.page(EventRange::ALL).unwrap();
    let texts = page.events.iter().filter_map(|event| match event.fact() {
        Ok(Fact::Message(message)) => match message.content {
            MessageContent::Text(text) => Some(text),
            _ => None,
        },
        _ => None,
    });
    texts.collect()
}

#[test]
fn what_is_acknowledged_while_another_thread_closes_is_there() {
    let Some(url) = database() else { return };
    let store = store(&url, PostgresOptions::default());
    for _ in 0..30 {
        let (id, writer) = new_session(&*store);
        let closed = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (writer, closed) = (writer.clone(), closed.clone());
                std::thread::spawn(move || {
                    let mut acknowledged = Vec::new();
                    for number in 0.. {
                        let text = format!("{thread}/{number}");
                        let after = closed.load(Ordering::Relaxed);
                        match say(&*writer, &text) {
                            Ok(_) if after => panic!("{text}: taken after it was closed"),
                            Ok(_) => acknowledged.push(text),
                            Err(_) => return acknowledged,
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        writer.close().unwrap();
        closed.store(true, Ordering::Relaxed);
        let all: Vec<String> = threads.into_iter().flat_map(|it| it.join().unwrap()).collect();
        let there = said(&store, id);
        for text in &all {
            assert_eq!(there.iter().filter(|it| *it == text).count(), 1, "{text}");
        }
        assert_eq!(there.len(), all.len(), "nothing that was refused is there");
        store.verify(id).unwrap();
    }
}

#[test]
fn a_panic_that_drops_a_writer_closes_its_session() {
    let Some(url) = database() else { return };
    let store = store(&url, PostgresOptions::default());
    let (id, writer) = new_session(&*store);
    let work = move || {
        say(&*writer, "acknowledged").unwrap();
        let staged = vec![message("staged")];
        let _ticket = writer.append(staged, Durability::Synced, AnomalyPolicy::Keep).unwrap();
        panic!("on purpose");
    };
    let panic = std::thread::spawn(work).join().unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"on purpose"), "it is not replaced by another");
    // Nobody holds the session: there is no lease to wait for.
    let writer = store.write(id, Duration::ZERO).unwrap();
    assert_eq!(said(&store, id), ["acknowledged", "staged"]);
    let events = store.read(id).unwrap().page(EventRange::ALL).unwrap().events;
    assert_eq!(events.last().unwrap().kind, Kind::WRITER_CLOSED);
    say(&*writer, "after").unwrap();
    writer.close().unwrap();
    store.verify(id).unwrap();
}

#[test]
fn the_state_is_the_same_with_its_snapshot_and_without() {
    let Some(url) = database() else { return };
    let database = url.to_string();
    let database = database.rsplit_once('/').unwrap().1;
    let server = abide_testkit::PrivatePostgres::shared().unwrap();
    let one = store(&url, PostgresOptions::default());
    let (id, writer) = new_session(&*one);
    for number in 0..50 {
        say(&*writer, &format!("before {number}")).unwrap();
    }
    writer.close().unwrap();
    let digest = |store: &Arc<PostgresStore>| {
        let reader = store.read(id).unwrap();
        reader.state().unwrap().digest()
    };
    let with = digest(&one);
    // A page that was altered is known, and the events are folded anew.
    server.sql(database, "UPDATE abide.page SET bytes = bytes || 'x'::bytea");
    assert_eq!(digest(&one), with);
    let writer = one.write(id, Duration::ZERO).unwrap();
    say(&*writer, "after").unwrap();
    writer.close().unwrap();
    let after = digest(&one);
    server.sql(database, "DELETE FROM abide.page");
    assert_eq!(digest(&one), after);
    server.sql(database, "UPDATE abide.snapshot SET root = 'x'::bytea");
    assert_eq!(digest(&one), after);
    server.sql(database, "DELETE FROM abide.snapshot");
    assert_eq!(digest(&one), after);
}

#[test]
fn a_line_that_was_altered_is_told() {
    let Some(url) = database() else { return };
    let database = url.to_string();
    let database = database.rsplit_once('/').unwrap().1;
    let server = abide_testkit::PrivatePostgres::shared().unwrap();
    let one = store(&url, PostgresOptions::default());
    let (id, writer) = new_session(&*one);
    say(&*writer, "as it was").unwrap();
    say(&*writer, "and on").unwrap();
    writer.close().unwrap();
    assert!(one.verify(id).is_ok());
    server.sql(
        database,
        "UPDATE abide.event SET line = overlay(line PLACING 'X' FROM 60) WHERE seq = 3",
    );
    let damaged = one.verify(id).unwrap_err();
    assert!(damaged.to_string().contains("event 3"), "{damaged}");
    let reader = one.read(id).unwrap();
    let page = reader.page(EventRange::ALL).unwrap();
    assert_eq!((page.events.len(), page.notes.len()), (4, 1), "the others are read");
    // A line that is sound by itself, but of another session; and one that is of another place.
    let (_, writer) = new_session(&*one);
    say(&*writer, "elsewhere").unwrap();
    for from in
        ["other.seq = 3 AND other.sid <> event.sid", "other.seq = 4 AND other.sid = event.sid"]
    {
        let swap = "UPDATE abide.event SET line = other.line, sum = other.sum
            FROM abide.event AS other WHERE event.seq = 3
            AND event.sid = (SELECT min(sid) FROM abide.session)";
        server.sql(database, &format!("{swap} AND {from}"));
        let damaged = one.verify(id).unwrap_err();
        assert!(damaged.to_string().contains("event 3"), "{damaged}");
    }
    let page = reader.page(EventRange::ALL).unwrap();
    assert_eq!((page.events.len(), page.notes.len()), (4, 1), "nothing is given twice");
    server.sql(database, "DELETE FROM abide.event WHERE seq = 3");
    assert!(one.verify(id).unwrap_err().to_string().contains("event 3"));
}
