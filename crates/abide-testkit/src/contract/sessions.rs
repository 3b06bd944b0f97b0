//! Sessions: found, listed, of a project, the latest.

use std::path::PathBuf;

use abide_model::{
    HistoryQuery, NewSession, Search, SessionFields, SessionId, SessionRef, Store, StoreError,
    Timestamp,
};

use super::{
    NOW, Subject, append, asked, event, found, found_by, kinds, message, new_session, rewind, tick,
    told,
};

pub(super) fn sessions_are_found_and_listed(subject: &dyn Subject) {
    let store = subject.open();
    let before = store.list().unwrap().len();
    let ids: Vec<_> = (0..5).map(|_| new_session(&*store).0).collect();
    let listed = subject.open().list().unwrap();
    assert_eq!(listed.len(), before + 5);
    for id in &ids {
        assert_eq!(store.find(&SessionRef::Id(*id)).unwrap(), *id);
        let short = &listed.iter().find(|summary| summary.id == *id).unwrap().short;
        assert_eq!(store.find(&SessionRef::parse(short)).unwrap(), *id);
    }
    assert!(listed.is_sorted_by(|a, b| a.id > b.id), "newest first");
    let none = store.find(&SessionRef::parse("zzzzzzzzz"));
    assert!(matches!(none, Err(StoreError::NoSession { .. })));
}

fn listed(store: &dyn Store) -> Vec<SessionId> {
    store.list().unwrap().iter().map(|session| session.id).collect()
}

pub(super) fn a_session_is_of_the_project_it_is_made_in(subject: &dyn Subject) {
    let [red, blue] = [["red"], ["blue"]].map(|project| subject.open_for(&project));
    let said = [r#"{"kind":"message.added","data":{"role":"user","content":"zebra"}}"#];
    let ours = told(&*red, SessionFields::default(), &said);
    let theirs = told(&*blue, SessionFields::default(), &said);
    let nobodys = told(&*subject.open(), SessionFields::default(), &said);
    tick();
    // A fork is of its parent's project, whoever makes it.
    let fork = blue.fork(ours, None, NewSession::default()).unwrap().id;
    tick();
    let kept = subject.open().fork(ours, None, NewSession::default()).unwrap().id;
    let all = HistoryQuery { all_projects: true, ..HistoryQuery::default() };
    for (store, own) in [(&red, vec![kept, fork, ours]), (&blue, vec![theirs])] {
        assert_eq!(listed(&**store), own, "newest first");
        let mut history: Vec<SessionId> =
            asked(&**store, &HistoryQuery::default()).entries.iter().map(|one| one.id).collect();
        history.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(history, own);
        assert_eq!(found(&**store, "zebra"), own[own.len() - 1..], "a fork shares it");
        assert_eq!(asked(&**store, &all).entries.len(), 5);
        let everywhere =
            HistoryQuery { search: Some(Search::parse("zebra").unwrap()), ..all.clone() };
        assert_eq!(asked(&**store, &everywhere).entries.len(), 3);
        // Another one's session is found by its id.
        for id in [ours, theirs, nobodys, fork, kept] {
            assert_eq!(found_by(&**store, &SessionRef::Id(id)), Some(id));
            assert_eq!(found_by(&**store, &SessionRef::Prefix(id.short(12))), Some(id));
        }
    }
    // What begins all of them: in the project there is one.
    let lone = subject.open_for(&["lone"]);
    let only = told(&*lone, SessionFields::default(), &said);
    let begin: String = only.to_string().chars().take(3).collect();
    assert_eq!(found_by(&*lone, &SessionRef::Prefix(begin.clone())), Some(only));
    let many = red.find(&SessionRef::Prefix(begin));
    assert!(matches!(many, Err(StoreError::Ambiguous { .. })), "{many:?}");
    // By each id that a project is known by, and as another process has it.
    assert_eq!(listed(&*subject.open_for(&["lone", "red"])), [only, kept, fork, ours]);
    assert_eq!(listed(&*subject.open()), [only, kept, fork, nobodys, theirs, ours]);
    let entries = asked(&*subject.open(), &HistoryQuery::default()).entries;
    let project = |id| {
        let entry = entries.iter().find(|entry| entry.id == id).unwrap();
        entry.overview.fields.project_id.clone().unwrap_or_default()
    };
    assert_eq!([ours, theirs, nobodys, fork, kept].map(project), ["red", "blue", "", "red", "red"]);
    // What is said later changes nothing.
    let elsewhere = event(r#"{"kind":"session.updated","data":{"project_id":"blue"}}"#);
    append(&*red.write(ours, NOW).unwrap(), vec![elsewhere]);
    assert_eq!(listed(&*blue), [theirs]);
    assert_eq!(asked(&*blue, &HistoryQuery::default()).entries.len(), 1);
}

pub(super) fn the_latest_session_is_not_empty(subject: &dyn Subject) {
    let red = subject.open_for(&["red"]);
    let latest = |store: &dyn Store| found_by(store, &SessionRef::Latest);
    assert_eq!(latest(&*red), None);
    let said = [r#"{"kind":"note.added","data":{}}"#];
    let first = told(&*red, SessionFields::default(), &said);
    tick();
    let empty = red.create(NewSession::titled("empty")).unwrap().id;
    tick();
    // Opened and closed again, with nothing written.
    red.write(empty, NOW).unwrap().close().unwrap();
    let blue = told(&*subject.open_for(&["blue"]), SessionFields::default(), &said);
    assert_eq!(latest(&*red), Some(first));
    assert_eq!(latest(&*subject.open()), Some(blue));
    assert_eq!(latest(&*subject.open_for(&["green"])), None);
    assert_eq!(latest(&*subject.open_for(&["green", "red"])), Some(first));
    // Once there is something in it, it is the latest, and stays so when that is taken back.
    let writer = red.write(empty, NOW).unwrap();
    append(&*writer, vec![event(said[0])]);
    assert_eq!(latest(&*subject.open_for(&["red"])), Some(empty));
    append(&*writer, vec![rewind(1)]);
    writer.close().unwrap();
    assert_eq!(latest(&*red), Some(empty));
    // A fork has the past that it shares.
    tick();
    let fork = red.fork(first, None, NewSession::default()).unwrap().id;
    assert_eq!(latest(&*red), Some(fork));
    // Very many empty ones behind it.
    let last = told(&*red, SessionFields::default(), &said);
    for _ in 0..40 {
        red.create(NewSession::default()).unwrap();
    }
    assert_eq!(latest(&*red), Some(last));
    assert_eq!(latest(&*subject.open_for(&["green"])), None);
}

pub(super) fn the_latest_session_of_a_directory(subject: &dyn Subject) {
    let at = |workspace: &str| SessionFields {
        workspace: Some(workspace.to_owned()),
        ..SessionFields::default()
    };
    let latest = |projects: &[&str], dir: &str| {
        found_by(&*subject.open_for(projects), &SessionRef::LatestIn(PathBuf::from(dir)))
    };
    let said = [r#"{"kind":"note.added","data":{}}"#];
    let red = subject.open_for(&["red"]);
    let one = told(&*red, at("/work/one"), &said);
    let two = told(&*red, at("/work/two"), &said);
    told(&*red, SessionFields::default(), &said);
    tick();
    red.create(NewSession::from(at("/work/one"))).unwrap();
    let other = told(&*subject.open_for(&["blue"]), at("/work/one"), &said);
    assert_eq!(
        latest(&["red"], "/work/one"),
        Some(one),
        "no empty one, and none of another project"
    );
    assert_eq!(latest(&["red"], "/work/two"), Some(two));
    assert_eq!(latest(&[], "/work/one"), Some(other));
    for dir in ["/work", "/work/one/below", "/", ""] {
        assert_eq!(latest(&["red"], dir), None, "{dir}");
    }
    // A path as it is, whatever is in it.
    let odd = told(&*red, at(r"/work/o\d\x64"), &said);
    assert_eq!(latest(&["red"], r"/work/o\d\x64"), Some(odd));
    // A session that goes on elsewhere is there.
    let moved = event(r#"{"kind":"session.updated","data":{"workspace":"/work/one"}}"#);
    append(&*red.write(two, NOW).unwrap(), vec![moved]);
    assert_eq!(latest(&["red"], "/work/one"), Some(two));
    assert_eq!(latest(&["red"], "/work/two"), None);
    for _ in 0..40 {
        told(&*red, at("/work/many"), &said);
    }
    assert_eq!(latest(&["red"], "/work/one"), Some(two), "however far back it is");
    assert_eq!(latest(&["red"], "/work/two"), None);
    assert_eq!(latest(&["blue"], "/work/one"), Some(other));
}

pub(super) fn a_session_carries_when_it_started(subject: &dyn Subject) {
    let store = subject.open();
    let started = Timestamp::from_millis(1_600_000_000_123);
    let made = store.create(NewSession::titled("an old one").started(started)).unwrap();
    assert_eq!(made.id.created(), started);
    // Another one of the same time is another session.
    let second = store.create(NewSession::titled("a second").started(started)).unwrap();
    assert_ne!(second.id, made.id);
    for name in [made.id.to_string(), made.id.short(SessionId::SHORT)] {
        assert_eq!(found_by(&*store, &SessionRef::parse(&name)), Some(made.id), "{name}");
    }
    let writer = store.write(made.id, NOW).unwrap();
    append(&*writer, vec![message("what was said then")]);
    writer.close().unwrap();
    assert_eq!(kinds(&*store, made.id)[0], "session.created");

    // With a key too, and once.
    let keyed = || NewSession::titled("keyed").started(started).with_key("of a file");
    let made = store.create(keyed()).unwrap();
    assert_eq!(made.id.created(), started);
    assert_eq!(store.create(keyed()).unwrap().id, made.id);

    // A fork starts when it is told to.
    let fork = store.fork(made.id, None, NewSession::default().started(started)).unwrap();
    assert_eq!(fork.id.created(), started);

    // Nothing starts later than now.
    let before = store.create(NewSession::titled("now")).unwrap().id.created();
    let ahead = Timestamp::from_millis(before.as_millis() + 86_400_000);
    let made = store.create(NewSession::titled("of a wrong clock").started(ahead)).unwrap();
    assert!(made.id.created() >= before && made.id.created() < ahead);
}
