//! Deleting one session, and power cuts at every storage operation of it.

use std::path::Path;
use std::time::Duration;

use abide_local::{DeleteError, LocalOptions, LocalStore};
use abide_model::{
    AnomalyPolicy, Durability, HistoryQuery, NewEvent, NewSession, Search, SessionId, SessionRef,
    SessionWriter, Store, StoreError,
};
use abide_testkit::{FaultRun, SimDisk};

use crate::power::cut_everywhere;
use crate::run::{exists, healthy, open_store, options, small, store_path};

fn made(store: &LocalStore, key: &str) -> SessionId {
    let id = store.create(NewSession::default().with_key(key)).unwrap().id;
    let said = format!(
        r#"{{"kind":"message.added","data":{{"role":"user","content":"zebra {}"}}}}"#,
        key.repeat(900)
    );
    let writer = store.writer(id, Duration::ZERO).unwrap();
    let events = vec![NewEvent::parse(&said).unwrap()];
    writer.append(events, Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
    writer.close().unwrap();
    id
}

fn simulated(seed: u64) -> (SimDisk, LocalStore) {
    let disk = SimDisk::new(Path::new("/sim"));
    let store = small(LocalStore::init(&store_path(), options(&disk, seed)).unwrap());
    (disk, store)
}

#[test]
fn a_deleted_session_leaves_nothing_and_its_key_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join(".abide");
    let store = crate::with_transcripts(LocalStore::init(&root, LocalOptions::default()).unwrap());
    let ids: Vec<SessionId> = (0..10).map(|number| made(&store, &format!("k{number}"))).collect();
    let query = HistoryQuery { search: Search::parse("zebra").ok(), ..HistoryQuery::default() };
    let listed = || -> Vec<SessionId> {
        let mut ids: Vec<_> =
            store.history(&query).unwrap().entries.iter().map(|entry| entry.id).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(listed(), ids);
    store.update_transcript(ids[4]).unwrap();
    assert_eq!(store.remover().delete(ids[4]).unwrap(), [""; 0]);
    let rest: Vec<SessionId> = ids.iter().copied().filter(|id| *id != ids[4]).collect();
    assert_eq!(listed(), rest);
    assert!(store.foreign_files().unwrap().is_empty());
    assert_eq!(store.list().unwrap().len(), 9);
    let left = std::fs::read_dir(root.join("removed")).map_or(0, Iterator::count);
    assert_eq!(left, 0);
    for reference in [SessionRef::Id(ids[4]), SessionRef::Key("k4".to_owned())] {
        let gone = store.find(&reference);
        assert!(matches!(gone, Err(StoreError::NoSession { .. })), "{gone:?}");
    }
    assert!(matches!(
        store.remover().delete(ids[4]),
        Err(DeleteError::Store(StoreError::NoSession { .. }))
    ));
    assert_ne!(made(&store, "k4"), ids[4]);
    // Of the last eight the index is made anew each time.
    for id in &rest {
        store.remover().delete(*id).unwrap();
    }
    assert_eq!(listed().len(), 1);
}

#[test]
fn a_session_that_is_held_or_forked_stays() {
    let (_, store) = simulated(4);
    let parent = made(&store, "a");
    let writer = store.writer(parent, Duration::ZERO).unwrap();
    let held = store.remover().delete(parent).unwrap_err();
    let DeleteError::Store(StoreError::Held { session, .. }) = held else { panic!("{held:?}") };
    assert_eq!(session, parent);
    writer.close().unwrap();
    drop(writer);
    let fork = store.forker().fork(parent, None, NewSession::default()).unwrap().id;
    let forked = store.remover().delete(parent).unwrap_err();
    assert!(
        matches!(forked, DeleteError::Forked { session, fork: by } if session == parent && by == fork),
        "{forked:?}"
    );
    healthy(&store, parent).unwrap();
    store.remover().delete(fork).unwrap();
    store.remover().delete(parent).unwrap();
    assert!(!exists(&store, parent) && !exists(&store, fork));
}

#[test]
fn nothing_is_deleted_beside_a_session_that_cannot_be_read() {
    let (disk, store) = simulated(5);
    let (parent, other) = (made(&store, "a"), made(&store, "b"));
    let fork = store.forker().fork(parent, None, NewSession::default()).unwrap().id;
    let dir = store.reader(fork).unwrap().journal().dir().to_owned();
    disk.set_bytes(&dir.join("00000001.jsonl"), b"nothing\n".to_vec());
    let store = open_store(&disk, 9).unwrap();
    for id in [parent, other] {
        let error = store.remover().delete(id).unwrap_err();
        assert!(error.to_string().contains("may be a fork"), "{error}");
        healthy(&store, id).unwrap();
    }
}

#[test]
fn a_power_cut_leaves_the_session_whole_or_deleted() {
    let (disk, store) = simulated(3);
    let ids = ["a", "b"].map(|key| (key, made(&store, key)));
    disk.keep_history();
    store.remover().delete(ids[0].1).unwrap();
    let moments = disk.take_history();
    let cuts = cut_everywhere(&moments, FaultRun::from_env().count(6, 60), &|disk, _, seed| {
        let store = open_store(disk, seed + 50).map_err(|error| format!("{error:?}"))?;
        healthy(&store, ids[1].1)?;
        let (key, gone) = ids[0];
        if exists(&store, gone) {
            healthy(&store, gone)?;
            let found = store.find(&SessionRef::Key(key.to_owned()));
            if found.as_ref().ok() != Some(&gone) {
                return Err(format!("its key leads to {found:?}"));
            }
            store.remover().delete(gone).map_err(|error| format!("{error:?}"))?;
        }
        let new = store.create(NewSession::default().with_key(key));
        let new = new.map_err(|error| format!("{error:?}"))?.id;
        healthy(&store, new)?;
        if new == gone {
            return Err("what was deleted is there again".to_owned());
        }
        Ok(())
    });
    FaultRun::from_env().report("power cuts during a deletion", cuts, 100);
}
