//! Erasing in a copy what is erased in the original.

use std::collections::BTreeSet;
use std::time::Duration;

use abide_journal::BundleReader;
use abide_maintain::{EraseError, EraseOutcome};
use abide_model::{
    EventRange, HistoryQuery, NewSession, ObjectHash, Search, Seq, SessionId, Store, StoreError,
};
use abide_postgres::{PostgresOptions, PostgresStore};

use crate::support::{database, new_session, say, store};

const NOW: Duration = Duration::ZERO;
const SECRET: &str = "hunter2";

fn erase(store: &PostgresStore, id: SessionId, seqs: &[Seq]) -> Result<EraseOutcome, EraseError> {
    let plan = store.eraser().plan(id, seqs)?;
    store.eraser().apply(&plan, None, NOW)
}

fn bundle(store: &PostgresStore, id: SessionId) -> Vec<u8> {
    let mut out = Vec::new();
    store.export_bundle(id, &mut out).unwrap();
    out
}

fn unerased(store: &PostgresStore, bundle: &[u8]) -> Vec<Seq> {
    let checked = store.check_bundle(BundleReader::open(bundle).unwrap(), None).unwrap();
    let done = store.import_bundle(BundleReader::open(bundle).unwrap(), None, NOW).unwrap();
    assert_eq!(checked.unerased, done.unerased);
    done.unerased
}

/// The events of a session that have the secret, and the sessions that are found by it.
fn holding(store: &PostgresStore, id: SessionId) -> (Vec<Seq>, usize) {
    let reader = store.read(id).unwrap();
    let page = reader.page(EventRange::ALL).unwrap();
    assert_eq!(page.notes, []);
    let events = page.events.iter().filter(|event| event.to_json().contains(SECRET));
    let search = Some(Search::parse(SECRET).unwrap());
    let query = HistoryQuery { search, ..HistoryQuery::default() };
    let found = store.history(&query).unwrap().entries.len();
    (events.map(|event| event.seq).collect(), found)
}

#[test]
fn a_copy_says_what_is_erased_elsewhere_and_erases_it() {
    let (Some(here), Some(there)) = (database(), database()) else { return };
    let (a, b) =
        (store(&here, PostgresOptions::default()), store(&there, PostgresOptions::default()));
    let (id, writer) = new_session(&*a);
    say(&*writer, &format!("my password is {SECRET}")).unwrap();
    // Larger than what stays in a line.
    say(&*writer, &format!("{SECRET} {}", "x".repeat(100_000))).unwrap();
    say(&*writer, "something else").unwrap();
    writer.close().unwrap();
    let whole = bundle(&a, id);
    assert_eq!(unerased(&b, &whole), []);
    let fork = b.fork(id, Some(Seq(5)), NewSession::default()).unwrap().id;
    let both = [Seq(3), Seq(4)];
    assert_eq!(holding(&a, id), (both.to_vec(), 1));
    assert_eq!(holding(&b, fork).0, both);

    let erased = erase(&a, id, &both).unwrap();
    assert_eq!((erased.payloads, erased.objects, erased.notes), (2, 1, Vec::new()));
    assert_eq!(erase(&a, id, &both).unwrap(), EraseOutcome::default());
    assert_eq!(holding(&a, id), (Vec::new(), 0));
    a.verify(id).unwrap();
    // The lines are the same by their sums, and what is whole is told.
    assert_eq!(unerased(&b, &bundle(&a, id)), both);
    assert_eq!(unerased(&a, &whole), [], "what is erased stays so");
    assert_eq!(holding(&a, id), (Vec::new(), 0));
    erase(&b, id, &both).unwrap();
    assert_eq!(holding(&b, id), (Vec::new(), 0));
    assert_eq!(holding(&b, fork), (Vec::new(), 0));
    assert_eq!(unerased(&b, &bundle(&a, id)), []);
    b.verify(id).unwrap();
    b.verify(fork).unwrap();
}

#[test]
fn an_object_is_not_put_for_an_event_that_is_erased_or_refused() {
    let (Some(here), Some(there)) = (database(), database()) else { return };
    let (a, b) =
        (store(&here, PostgresOptions::default()), store(&there, PostgresOptions::default()));
    let (id, writer) = new_session(&*a);
    let large = format!("{SECRET} {}", "x".repeat(100_000));
    say(&*writer, &large).unwrap();
    writer.close().unwrap();
    let whole = bundle(&a, id);
    erase(&a, id, &[Seq(3)]).unwrap();
    let objects = b.objects().unwrap();
    let has = || objects.has(&[ObjectHash::of(large.as_bytes())]).unwrap() == [true];
    // It came here erased, and the data comes too late.
    unerased(&b, &bundle(&a, id));
    unerased(&b, &whole);
    assert!(!has());
    // A new event that has the same data brings it along.
    let writer = a.write(id, NOW).unwrap();
    say(&*writer, &large).unwrap();
    writer.close().unwrap();
    unerased(&b, &bundle(&a, id));
    assert!(has());
    b.verify(id).unwrap();
}

#[test]
fn an_older_bundle_brings_nothing_back_after_its_session_was_removed() {
    let Some(here) = database() else { return };
    let store = store(&here, PostgresOptions::default());
    let (id, writer) = new_session(&*store);
    say(&*writer, &format!("{SECRET} {}", "x".repeat(100_000))).unwrap();
    let short = bundle(&store, id);
    say(&*writer, &format!("my password is {SECRET}")).unwrap();
    writer.close().unwrap();
    let older = bundle(&store, id);
    erase(&store, id, &[Seq(3), Seq(4)]).unwrap();
    assert!(store.has_erased(id).unwrap());
    let import = |bundle: &[u8]| {
        store.import_bundle(BundleReader::open(bundle).unwrap(), None, NOW).unwrap().kept_erased
    };
    let check = || store.check_bundle(BundleReader::open(&*older).unwrap(), None).unwrap();
    let both = vec![Seq(3), Seq(4)];
    assert_eq!((import(&older), check().kept_erased), (both.clone(), both.clone()), "it is here");
    // As a whole, and as a part that is forwarded.
    for parts in [&[&older][..], &[&short, &older]] {
        store.delete_session(id).unwrap();
        assert_eq!(check().kept_erased, [Seq(3), Seq(4)]);
        let kept: BTreeSet<Seq> = parts.iter().flat_map(|part| import(part)).collect();
        assert_eq!(kept.into_iter().collect::<Vec<_>>(), both);
        assert_eq!(holding(&store, id), (Vec::new(), 0));
        store.verify(id).unwrap();
    }
    store.delete_session(id).unwrap();
    let forgetting = BundleReader::open(&*older).unwrap().bringing_back_erased();
    let back = store.import_bundle(forgetting, None, NOW).unwrap();
    assert_eq!((back.kept_erased, back.brought_back), (Vec::new(), vec![Seq(3), Seq(4)]));
    assert!(!store.has_erased(id).unwrap());
    store.delete_session(id).unwrap();
    assert_eq!(import(&older), []);
    assert_eq!(holding(&store, id), (vec![Seq(3), Seq(4)], 1));
}

#[test]
fn a_fork_that_is_held_does_not_bring_back_what_is_erased() {
    let Some(here) = database() else { return };
    let store = store(&here, PostgresOptions::default());
    let (id, writer) = new_session(&*store);
    say(&*writer, SECRET).unwrap();
    writer.close().unwrap();
    let fork = store.fork(id, None, NewSession::default()).unwrap().id;
    let writer = store.write(fork, NOW).unwrap();
    let held = erase(&store, id, &[Seq(3)]);
    let by_fork = |error: &EraseError| match error {
        EraseError::Store(StoreError::Held { session, .. }) => *session == fork,
        _ => false,
    };
    assert!(held.as_ref().is_err_and(by_fork), "{held:?}");
    assert_eq!(holding(&store, id).0, [Seq(3)]);
    writer.close().unwrap();
    drop(writer);
    erase(&store, id, &[Seq(3)]).unwrap();
    // Both are free again, and neither has it.
    for session in [id, fork] {
        let writer = store.write(session, NOW).unwrap();
        say(&*writer, "more").unwrap();
        writer.close().unwrap();
        assert_eq!(holding(&store, session), (Vec::new(), 0));
        store.verify(session).unwrap();
    }
}

#[test]
fn what_says_how_to_read_a_session_and_one_that_is_held_are_refused() {
    let Some(here) = database() else { return };
    let store = store(&here, PostgresOptions::default());
    let (id, writer) = new_session(&*store);
    say(&*writer, SECRET).unwrap();
    let held = erase(&store, id, &[Seq(3)]);
    assert!(matches!(held, Err(EraseError::Store(StoreError::Held { .. }))), "{held:?}");
    writer.close().unwrap();
    let opened = erase(&store, id, &[Seq(2), Seq(3)]);
    assert!(matches!(opened, Err(EraseError::Structural { seq: Seq(2), .. })), "{opened:?}");
    assert_eq!(holding(&store, id).0, [Seq(3)]);
}
