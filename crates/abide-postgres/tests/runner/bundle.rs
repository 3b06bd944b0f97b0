//! Bundles out of a store and into another one.

use std::time::Duration;

use abide_journal::{BundleReader, ImportError, ImportOutcome};
use abide_model::{EventRange, NewSession, Seq, SessionId, Store, StoreError};
use abide_postgres::{PostgresOptions, PostgresStore};

use crate::support::{database, new_session, say, store};

const NOW: Duration = Duration::ZERO;

fn bundle(store: &PostgresStore, id: SessionId) -> Vec<u8> {
    let mut out = Vec::new();
    store.export_bundle(id, &mut out).unwrap();
    out
}

fn take_in(store: &PostgresStore, bundle: &[u8]) -> Result<ImportOutcome, ImportError> {
    let checked = store.check_bundle(BundleReader::open(bundle)?, None)?.outcome;
    let done = store.import_bundle(BundleReader::open(bundle)?, None, NOW)?.outcome;
    assert_eq!(checked, done, "what was said before");
    Ok(done)
}

fn lines(store: &PostgresStore, id: SessionId) -> Vec<String> {
    let reader = store.read(id).unwrap();
    let page = reader.page(EventRange::ALL).unwrap();
    assert_eq!(page.notes, []);
    page.events.iter().map(|event| event.to_json()).collect()
}

#[test]
fn a_session_goes_over_and_on() {
    let (Some(here), Some(there)) = (database(), database()) else { return };
    let (a, b) =
        (store(&here, PostgresOptions::default()), store(&there, PostgresOptions::default()));
    let (id, writer) = new_session(&*a);
    // Larger than what stays in a line.
    let long = "x".repeat(100_000);
    say(&*writer, &long).unwrap();
    writer.close().unwrap();
    assert_eq!(take_in(&b, &bundle(&a, id)).unwrap(), ImportOutcome::Made);
    assert_eq!(lines(&a, id), lines(&b, id));
    assert_eq!(take_in(&b, &bundle(&a, id)).unwrap(), ImportOutcome::Same);
    b.verify(id).unwrap();

    // It goes on there, with an epoch above those of the journal, and comes back.
    let writer = b.write(id, NOW).unwrap();
    assert_eq!(writer.epoch().0, 2);
    say(&*writer, "there").unwrap();
    writer.close().unwrap();
    assert_eq!(take_in(&b, &bundle(&a, id)).unwrap(), ImportOutcome::Behind { here: Seq(7) });
    assert_eq!(take_in(&a, &bundle(&b, id)).unwrap(), ImportOutcome::Forwarded { from: Seq(4) });
    assert_eq!(lines(&a, id), lines(&b, id));
    let writer = a.write(id, NOW).unwrap();
    assert_eq!(writer.epoch().0, 3);

    // While somebody writes, nothing is put behind his back.
    say(&*writer, "here").unwrap();
    drop(writer);
    let writer = b.write(id, NOW).unwrap();
    say(&*writer, "another thing there").unwrap();
    drop(writer);
    let diverged = take_in(&a, &bundle(&b, id)).unwrap_err();
    assert!(matches!(diverged, ImportError::Diverged { seq: Seq(8), .. }), "{diverged}");
    a.verify(id).unwrap();
}

#[test]
fn a_session_that_is_held_does_not_grow_by_an_import() {
    let (Some(here), Some(there)) = (database(), database()) else { return };
    let (a, b) =
        (store(&here, PostgresOptions::default()), store(&there, PostgresOptions::default()));
    let (id, writer) = new_session(&*a);
    say(&*writer, "one").unwrap();
    writer.close().unwrap();
    take_in(&b, &bundle(&a, id)).unwrap();
    let writer = a.write(id, NOW).unwrap();
    say(&*writer, "two").unwrap();
    writer.close().unwrap();
    let longer = bundle(&a, id);
    let writer = b.write(id, NOW).unwrap();
    let held = b.import_bundle(BundleReader::open(&longer[..]).unwrap(), None, NOW);
    assert!(matches!(held, Err(ImportError::Store(StoreError::Held { .. }))), "{held:?}");
    say(&*writer, "mine").unwrap();
    writer.close().unwrap();
    let diverged = b.import_bundle(BundleReader::open(&longer[..]).unwrap(), None, NOW);
    assert!(matches!(diverged, Err(ImportError::Diverged { .. })), "{diverged:?}");
    b.verify(id).unwrap();
}

#[test]
fn a_fork_needs_its_parent_and_a_key_leads_to_one() {
    let (Some(here), Some(there)) = (database(), database()) else { return };
    let (a, b) =
        (store(&here, PostgresOptions::default()), store(&there, PostgresOptions::default()));
    let (parent, writer) = new_session(&*a);
    say(&*writer, "one").unwrap();
    let fork = a.fork(parent, Some(Seq(3)), NewSession::default().with_key("k")).unwrap().id;
    say(&*writer, "two").unwrap();
    writer.close().unwrap();
    let orphan = take_in(&b, &bundle(&a, fork)).unwrap_err();
    assert!(matches!(orphan, ImportError::NoParent { .. }), "{orphan}");
    take_in(&b, &bundle(&a, parent)).unwrap();
    let other = b.create(NewSession::default().with_key("k")).unwrap().id;
    let taken = take_in(&b, &bundle(&a, fork)).unwrap_err();
    assert!(matches!(taken, ImportError::KeyTaken { session, .. } if session == other), "{taken}");
    b.delete_session(other).unwrap();
    assert_eq!(take_in(&b, &bundle(&a, fork)).unwrap(), ImportOutcome::Made);
    assert_eq!(lines(&a, fork), lines(&b, fork));
    b.verify(fork).unwrap();
    let kept = b.delete_session(parent).unwrap_err();
    assert!(kept.to_string().contains("is a fork of it"), "{kept}");
}
