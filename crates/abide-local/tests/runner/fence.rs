//! One writer: a replaced lock, a foreign append, a store that cannot be written.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_local::{LocalOptions, LocalStore};
use abide_model::{
    AnomalyPolicy, AppendError, Durability, EventRange, NewEvent, NewSession, SessionId,
    SessionWriter, Store,
};

fn store(dir: &Path) -> LocalStore {
    LocalStore::init(&dir.join(".abide"), LocalOptions::default()).unwrap()
}

fn session_dir(dir: &Path) -> PathBuf {
    crate::session_dirs(&dir.join(".abide")).remove(0)
}

fn append(writer: &dyn SessionWriter, n: u32) -> Result<u64, AppendError> {
    let event = NewEvent::parse(&format!(r#"{{"kind":"x.n","data":{{"n":{n}}}}}"#)).unwrap();
    let ticket = writer.append(vec![event], Durability::Synced, AnomalyPolicy::Keep)?;
    Ok(ticket.wait()?[0].seq.0)
}

fn count(store: &LocalStore, id: SessionId) -> usize {
    let reader = store.read(id).unwrap();
    let page = reader.page(EventRange::ALL).unwrap();
    assert_eq!(page.notes, []);
    page.events.iter().filter(|event| event.kind.as_str() == "x.n").count()
}

#[test]
fn a_writer_whose_lock_was_unlinked_is_fenced_off() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = store.create(NewSession::default()).unwrap().id;
    let first = store.writer(id, Duration::ZERO).unwrap();
    append(&first, 1).unwrap();
    fs::remove_file(session_dir(dir.path()).join("lock")).unwrap();
    let second = store.writer(id, Duration::ZERO).unwrap();
    append(&second, 2).unwrap();
    assert!(matches!(append(&first, 3), Err(AppendError::Stopped { .. })));
    append(&second, 4).unwrap();
    drop((first, second));
    assert_eq!(count(&store, id), 3);
}

#[test]
fn a_writer_does_not_write_over_what_somebody_else_appended() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = store.create(NewSession::default()).unwrap().id;
    let writer = store.writer(id, Duration::ZERO).unwrap();
    append(&writer, 1).unwrap();
    let segment = session_dir(dir.path()).join("journal/00000001.jsonl");
    let mut bytes = fs::read(&segment).unwrap();
    bytes.extend_from_slice(b"not ours\n");
    fs::write(&segment, &bytes).unwrap();
    assert!(matches!(append(&writer, 2), Err(AppendError::Stopped { .. })));
    drop(writer);
    assert_eq!(fs::read(&segment).unwrap(), bytes, "what is there is left as it is");
}

#[test]
fn nothing_is_put_into_a_store_that_took_the_place_of_the_writers() {
    let dir = tempfile::tempdir().unwrap();
    let first = store(dir.path());
    let mut config = first.config().clone();
    config.journal.segment_bytes = 4096;
    let first = first.with_config(config);
    let id = first.create(NewSession::default()).unwrap().id;
    let writer = first.writer(id, Duration::ZERO).unwrap();
    append(&writer, 1).unwrap();
    // Moved away, with a copy in its place.
    let (here, away) = (dir.path().join(".abide"), dir.path().join("away"));
    fs::rename(&here, &away).unwrap();
    let copied = std::process::Command::new("cp").arg("-a").args([&away, &here]).status();
    assert!(copied.unwrap().success());
    let journal = session_dir(dir.path()).join("journal");
    let listed = || {
        let entries = fs::read_dir(&journal).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect::<Vec<_>>()
    };
    let before = listed();
    let large = format!(r#"{{"kind":"x.n","data":{{"text":"{}"}}}}"#, "x".repeat(3000));
    let stopped = (0..1000).find_map(|_| {
        let event = NewEvent::parse(&large).unwrap();
        let ticket = writer.append(vec![event], Durability::Synced, AnomalyPolicy::Keep);
        ticket.and_then(|ticket| ticket.wait()).err()
    });
    assert!(matches!(stopped, Some(AppendError::Stopped { .. })), "{stopped:?}");
    drop(writer);
    assert_eq!(listed(), before);
}

#[test]
fn the_holder_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = store.create(NewSession::default()).unwrap().id;
    let _writer = store.writer(id, Duration::ZERO).unwrap();
    let refused = store.writer(id, Duration::from_millis(30)).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
}

#[test]
fn opening_by_hand_over_reads_no_more_at_a_thousand_events_than_at_ten() {
    let read_at_open = |events: u32| {
        let disk = abide_testkit::SimDisk::new(Path::new("/sim"));
        let options = crate::run::options(&disk, 4);
        let store = LocalStore::init(&crate::run::store_path(), options).unwrap();
        let id = store.create(NewSession::default()).unwrap().id;
        let writer = store.writer(id, Duration::ZERO).unwrap();
        for n in 0..events {
            append(&writer, n).unwrap();
        }
        drop(writer);
        let before = disk.operations();
        let writer = store.writer(id, Duration::ZERO).unwrap();
        append(&writer, events).unwrap();
        drop(writer);
        disk.operations() - before
    };
    let (few, many) = (read_at_open(10), read_at_open(1000));
    assert!(many <= few + 8, "{few} operations at ten events, {many} at a thousand");
}
