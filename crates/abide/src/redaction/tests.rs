//! Every way into a store, with a secret in it.

use std::fs;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use abide_local::{BundleReader, LocalOptions, LocalStore};
use abide_model::{
    AnomalyPolicy, Durability, Event, EventRange, Message, NewEvent, NewSession, SessionRef,
};
use abide_testkit::MemoryStore;
use tempfile::TempDir;

use super::*;
use crate::bundle::Copier;
use crate::{Error, Session, Store};

const SECRET: &str = "correct-horse-42";

/// A redaction that knows one secret of an environment, and nothing of this machine.
fn redaction(dir: &TempDir, settings: &str) -> Redaction {
    Redaction::new(RedactionOptions {
        settings: RedactionSettings::Known(Box::new(toml::from_str(settings).unwrap())),
        variables: Some(vec![("MY_TOKEN".into(), SECRET.into())]),
        directory: None,
        state: Some(dir.path().join("state")),
    })
}

fn memory(dir: &TempDir) -> Store {
    Store::over(Arc::new(MemoryStore::default())).with_redaction(redaction(dir, ""))
}

fn local(dir: &TempDir, name: &str) -> Store {
    let store = LocalStore::init(&dir.path().join(name), LocalOptions::default()).unwrap();
    Store::local(store).with_redaction(redaction(dir, ""))
}

fn events(session: &Session) -> Vec<Event> {
    session.view().events(EventRange::ALL).map(Result::unwrap).collect()
}

#[track_caller]
fn assert_marked(session: &Session) {
    let all: String = events(session).iter().map(Event::to_json).collect();
    assert!(!all.contains(SECRET), "{all}");
    assert!(all.contains("‹redacted:env:"), "{all}");
}

fn said() -> NewEvent {
    Message::user(format!("it is {SECRET}")).try_into().unwrap()
}

#[test]
fn every_way_of_appending_redacts() {
    let dir = tempfile::tempdir().unwrap();
    for store in [memory(&dir), local(&dir, "store")] {
        let appended = |append: &dyn Fn(&Session)| {
            let session = store.create(NewSession::titled("a")).unwrap();
            append(&session);
            assert_marked(&session);
        };
        appended(&|session| drop(session.append(said()).unwrap().wait().unwrap()));
        appended(&|session| drop(session.append_all(vec![said()]).unwrap().wait().unwrap()));
        appended(&|session| {
            let events = vec![said(), said().with_key(SECRET).in_lane(SECRET).for_task(SECRET)];
            let odd = AnomalyPolicy::Keep;
            session.append_with(events, Durability::Buffered, odd).unwrap().wait().unwrap();
        });
        appended(&|session| {
            session.writer().append_behind(&|_| Ok(said())).unwrap().wait().unwrap();
        });
    }
}

#[test]
fn what_another_process_records_through_the_holder_is_redacted_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = local(&dir, "store");
    let session = store.create(NewSession::titled("a")).unwrap();
    let service = session.serve_children(|_| ()).unwrap();
    // One that redacts nothing, as an older abide or another library.
    let other = LocalStore::open(&dir.path().join("store"), LocalOptions::default()).unwrap();
    let writer = other.write_through_holder(session.id(), Duration::from_secs(5)).unwrap();
    assert!(writer.is_relayed());
    let ticket = writer.append(vec![said()], Durability::Synced, AnomalyPolicy::Keep).unwrap();
    ticket.wait().unwrap();
    assert_marked(&session);
    drop((writer, service));
}

#[test]
fn a_fork_inherits_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let store = local(&dir, "store");
    let before = store.clone().with_redaction(Redaction::off());
    let mut new = NewSession::titled(format!("use {SECRET}"));
    new.fields.labels = [("a".to_owned(), SECRET.to_owned())].into();
    let parent = before.make(new).unwrap();
    let id = store.fork(&SessionRef::Id(parent), None, NewSession::default()).unwrap();
    let fields = store.view(&SessionRef::Id(id)).unwrap().state().unwrap().core.fields;
    let shown = format!("{:?} {:?}", fields.title, fields.labels);
    assert!(!shown.contains(SECRET) && shown.contains("use ‹redacted:env:"), "{shown}");
    let kept = store.fork(&SessionRef::Id(parent), None, NewSession::titled("mine")).unwrap();
    let fields = store.view(&SessionRef::Id(kept)).unwrap().state().unwrap().core.fields;
    assert_eq!(fields.title.as_deref(), Some("mine"));
}

#[test]
fn a_key_that_marks_make_too_long_is_marked_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let session = memory(&dir).create(NewSession::titled("a")).unwrap();
    let key = format!("{SECRET} {}", "k".repeat(490));
    for repeated in [false, true] {
        let done = session.append(said().with_key(&key)).unwrap().wait().unwrap();
        assert_eq!(done[0].repeated, repeated);
    }
    assert_marked(&session);
}

#[test]
fn an_allowed_value_is_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let allowed = redaction(&dir, &format!("allow = ['{SECRET}']"));
    let store = memory(&dir).with_redaction(allowed);
    let session = store.create(NewSession::titled("a")).unwrap();
    session.append(said()).unwrap().wait().unwrap();
    assert!(events(&session).iter().any(|event| event.to_json().contains(SECRET)));
}

#[test]
fn a_session_whose_key_was_recorded_with_its_secret_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = local(&dir, "store");
    let before = store.clone().with_redaction(Redaction::off());
    let new = || NewSession::titled("a").with_key(SECRET);
    let id = before.make(new()).unwrap();
    assert_eq!(store.make(new()).unwrap(), id);
    assert_eq!(store.find(&SessionRef::Key(SECRET.to_owned())).unwrap(), id);
}

#[test]
fn the_names_of_a_new_session_and_of_a_fork_are_redacted() {
    let dir = tempfile::tempdir().unwrap();
    for store in [memory(&dir), local(&dir, "store")] {
        let new = || NewSession::titled(format!("use {SECRET}")).with_key(SECRET);
        let first = store.create(new()).unwrap();
        assert_marked(&first);
        let id = first.id();
        first.close().unwrap();
        assert_eq!(store.make(new()).unwrap(), id, "the same key");
        assert_eq!(store.find(&SessionRef::Key(SECRET.to_owned())).unwrap(), id);
        let fork = NewSession::titled(SECRET).with_key(format!("fork {SECRET}"));
        let fork = store.fork(&SessionRef::Key(SECRET.to_owned()), None, fork).unwrap();
        assert_marked(&store.open_session(&SessionRef::Id(fork)).unwrap());
    }
}

#[test]
fn the_secrets_of_a_workspace_are_known_in_its_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    fs::write(workspace.join(".env"), "DB_PASSWORD=battery-staple-7\n").unwrap();
    let store = memory(&dir);
    let mut new = NewSession::titled("battery-staple-7");
    new.fields.workspace = Some(workspace.to_string_lossy().into_owned());
    let session = store.create(new).unwrap();
    session.append(Message::user("battery-staple-7")).unwrap().wait().unwrap();
    let all: String = events(&session).iter().map(Event::to_json).collect();
    assert!(!all.contains("battery-staple-7"), "{all}");
    assert_eq!(session.redacted_text("a battery-staple-7").split(':').next(), Some("a ‹redacted"));
}

#[test]
fn rules_that_do_not_load_stop_every_writer() {
    let dir = tempfile::tempdir().unwrap();
    let store = memory(&dir);
    let id = store.make(NewSession::titled("before")).unwrap();
    let broken = "[[rule]]\nid = 'mine'\nregex = '('\nkeywords = ['mine']\n";
    let store = store.with_redaction(redaction(&dir, broken));
    let refused = |error: Error| assert!(matches!(error, Error::Redaction(_)), "{error:?}");
    refused(store.make(NewSession::titled("after")).unwrap_err());
    refused(store.open_session(&SessionRef::Id(id)).unwrap_err());
    refused(store.fork(&SessionRef::Id(id), None, NewSession::default()).unwrap_err());
    let finding = store.redaction().finding("here").unwrap();
    assert!(finding.message.contains("mine"), "{finding:?}");
    let kept = store.with_redaction(Redaction::off());
    let session = kept.open_session(&SessionRef::Id(id)).unwrap();
    session.append(said()).unwrap().wait().unwrap();
    assert!(events(&session).iter().any(|event| event.to_json().contains(SECRET)));
    assert!(kept.redaction().finding("here").unwrap().message.contains("keep"));
}

#[test]
fn who_writes_nothing_loads_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = memory(&dir);
    let is_loaded = || store.redaction().0.ready.lock().unwrap().is_some();
    let id = store.make(NewSession::titled("a")).unwrap();
    assert!(is_loaded());
    let store = store.clone().with_redaction(redaction(&dir, ""));
    store.view(&SessionRef::Id(id)).unwrap().state().unwrap();
    store.sessions().unwrap();
    assert!(store.redaction().0.ready.lock().unwrap().is_none());
    // The key is made with the first mark.
    let session = store.open_session(&SessionRef::Id(id)).unwrap();
    session.append(Message::user("hello")).unwrap().wait().unwrap();
    assert!(!dir.path().join("state/mark-key").exists());
    session.append(said()).unwrap().wait().unwrap();
    assert!(dir.path().join("state/mark-key").exists());
}

#[test]
fn a_bundle_and_a_copy_with_secrets_are_refused_unless_they_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let from = local(&dir, "from").with_redaction(Redaction::off());
    let session = from.create(NewSession::titled("a")).unwrap();
    session.append(said()).unwrap().wait().unwrap();
    let large = format!("{} {SECRET}", "x".repeat(100 << 10));
    session.append(Message::user(large)).unwrap().wait().unwrap();
    let id = session.id();
    session.close().unwrap();
    let mut bundle = Vec::new();
    from.export_bundle(id, &mut bundle).unwrap();
    let read = || BundleReader::open(Box::new(&bundle[..]) as Box<dyn Read>).unwrap();
    let to = local(&dir, "to");
    let refused = |error: Error| match error {
        Error::HasSecrets { found } => assert_eq!(found, "env 2"),
        other => panic!("{other:?}"),
    };
    refused(to.check_bundle(read()).unwrap_err());
    refused(to.import_bundle(read(), Duration::ZERO).unwrap_err());
    refused(Copier::new(from.clone(), to.clone(), Duration::ZERO).copy(id).unwrap_err());
    assert!(to.sessions().unwrap().is_empty());
    let kept = to.clone().with_redaction(Redaction::off());
    Copier::new(from, kept.clone(), Duration::ZERO).copy(id).unwrap();
    assert_eq!(kept.sessions().unwrap().len(), 1);
    // One without any passes.
    let clean = local(&dir, "clean");
    let session = clean.create(NewSession::titled("a")).unwrap();
    session.append(said()).unwrap().wait().unwrap();
    let id = session.id();
    session.close().unwrap();
    Copier::new(clean, to, Duration::ZERO).copy(id).unwrap();
}
