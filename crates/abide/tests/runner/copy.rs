//! Sessions copied from store to store, while others erase on the other side.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide::{
    CheckpointRequest, LocalOptions, LocalStore, Message, NewSession, SessionId, SessionRef, Store,
    bundle::Copier, liveness::Environment,
};

const WAIT: Duration = Duration::ZERO;

/// A project with a file.
fn project() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "what is in it").unwrap();
    let store = Store::open_or_init(dir.path()).unwrap();
    (dir, store)
}

fn session(store: &Store, dir: &Path) -> SessionId {
    let mut new = NewSession::titled("work");
    new.fields.workspace = Some(dir.to_string_lossy().into_owned());
    let session = store.create(new).unwrap();
    let id = session.id();
    session.close().unwrap();
    id
}

fn say(store: &Store, id: SessionId, text: &str) {
    let session = store.open_session(&SessionRef::Id(id)).unwrap();
    session.append(Message::user(text)).unwrap().wait().unwrap();
    session.close().unwrap();
}

fn checkpoint(store: &Store, id: SessionId) {
    let session = store.open_session(&SessionRef::Id(id)).unwrap();
    session.checkpoint(&CheckpointRequest::default()).unwrap();
    session.close().unwrap();
}

/// The session's checkpoint is there with its files.
#[track_caller]
fn assert_whole(store: &Store, id: SessionId) {
    let view = store.view(&SessionRef::Id(id)).unwrap();
    let (newest, damaged) = view.latest_checkpoint(&*store.objects().unwrap()).unwrap();
    assert!(newest.is_some() && damaged.is_empty(), "{damaged:?}");
}

#[test]
fn what_is_being_copied_is_not_erased_by_others() {
    let (near, from) = project();
    let id = session(&from, near.path());
    checkpoint(&from, id);
    let far = tempfile::tempdir().unwrap();
    let root = far.path().join(".abide");
    LocalStore::init(&root, LocalOptions::default()).unwrap();
    // Somebody erases there whenever the import asks for the time, so when it has its lock.
    let tries = Arc::new(Mutex::new(Vec::new()));
    let (noted, place) = (tries.clone(), root.clone());
    let clock = Environment::default().now;
    let now = Arc::new(move || {
        let other = LocalStore::open(&place, LocalOptions::default()).unwrap();
        noted
            .lock()
            .unwrap()
            .push(other.eraser().erase_unnamed(WAIT).ok().map(|erased| erased.objects));
        clock()
    });
    let env = Environment { now, ..Environment::default() };
    let to = LocalStore::open(&root, LocalOptions { env, ..LocalOptions::default() }).unwrap();
    let copied = Copier::new(from, Store::local(to), WAIT).copy(id).unwrap();
    assert!(copied.objects >= 3 && copied.notes.is_empty(), "{copied:?}");
    let tries = tries.lock().unwrap();
    assert!(tries.contains(&None) && !tries.iter().flatten().any(|gone| *gone > 0), "{tries:?}");
    assert_whole(&Store::open(far.path()).unwrap(), id);
}

#[test]
fn what_a_refused_session_left_is_not_taken_to_be_there() {
    let (near, from) = project();
    let [one, two] = [(); 2].map(|()| session(&from, near.path()));
    let far = tempfile::tempdir().unwrap();
    let to = Store::open_or_init(far.path()).unwrap();
    Copier::new(from.clone(), to.clone(), WAIT).copy(one).unwrap();
    // Both have gone on, and share the files of a session that is copied after it.
    say(&to, one, "here");
    say(&from, one, "there");
    for id in [one, two] {
        checkpoint(&from, id);
    }
    let mut copier = Copier::new(from, to.clone(), WAIT);
    copier.copy(one).unwrap_err();
    // A process that another test starts may have the lock until it has become what it runs.
    let wait = Duration::from_secs(10);
    assert!(to.as_files().unwrap().eraser().erase_unnamed(wait).unwrap().objects >= 3);
    assert!(copier.copy(two).unwrap().objects >= 3);
    assert_whole(&to, two);
}

#[test]
fn a_session_stays_in_its_project_whoever_copies_it() {
    let opened = |dir: &tempfile::TempDir, project: &str| {
        let projects = Some(project.to_owned()).filter(|it| !it.is_empty()).into_iter().collect();
        let options = LocalOptions { projects, ..LocalOptions::default() };
        Store::local(LocalStore::init(dir.path(), options).unwrap())
    };
    let dirs = [(); 4].map(|()| tempfile::tempdir().unwrap());
    let [origin, from, to, own] = &dirs;
    // Its own first event names no project: the one that it was put into is told beside it.
    let store = opened(origin, "");
    let [told, untold] = ["told", "untold"].map(|key| {
        let session = store.create_or_get(key, NewSession::titled("work")).unwrap();
        let id = session.id();
        session.close().unwrap();
        id
    });
    Copier::new(store, opened(from, "red"), WAIT).copy(told).unwrap();
    Copier::new(opened(origin, ""), opened(from, ""), WAIT).copy(untold).unwrap();
    let all = opened(from, "");
    assert_eq!(all.project_of(told).unwrap().as_deref(), Some("red"));
    let mut rehearsal = Copier::rehearsal(all.clone(), Some(opened(to, "blue")));
    let mut copier = Copier::new(all.clone(), opened(to, "blue"), WAIT);
    for id in [told, untold] {
        rehearsal.copy(id).unwrap();
        copier.copy(id).unwrap();
    }
    let there = opened(to, "");
    assert_eq!(there.project_of(told).unwrap().as_deref(), Some("red"));
    assert_eq!(there.project_of(untold).unwrap().as_deref(), Some("blue"), "it has none");
    // Its key counts in its project.
    let by_key = |project: &str| opened(to, project).find(&SessionRef::Key("told".to_owned()));
    assert_eq!(by_key("red").unwrap(), told);
    by_key("blue").unwrap_err();
    // A store that tells no projects apart puts it into none.
    Copier::new(all, opened(own, ""), WAIT).copy(told).unwrap();
    assert_eq!(opened(own, "").project_of(told).unwrap(), None);
}
