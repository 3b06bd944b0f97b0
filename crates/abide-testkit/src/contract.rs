//! What every store must keep. One suite, run unchanged against each.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use abide_model::{
    Anomaly, AnomalyPolicy, AppendError, Durability, EventRange, Fact, FileOp, History,
    HistoryQuery, Kind, Lineage, Message, MessageContent, NewEvent, NewSession, ParentReason,
    Search, Seq, SessionFields, SessionId, SessionRef, SessionStatus, SessionWriter, Store,
    StoreError, block_on,
};

/// A store under test.
pub trait Subject {
    /// Opens the same store once more, as another process would.
    fn open(&self) -> Arc<dyn Store> {
        self.open_for(&[])
    }
    /// The same for a project that is known by these ids; for all, where there are none.
    fn open_for(&self, projects: &[&str]) -> Arc<dyn Store>;
}

/// A part of the contract: panics where it is not kept.
pub type Part = fn(&dyn Subject);

/// The parts of the contract, by name.
pub const PARTS: &[(&str, Part)] = &[
    ("a session is read as it was written", a_session_is_read_as_it_was_written),
    ("ranges go forward and backward in pages", ranges_go_forward_and_backward_in_pages),
    ("a key is used once", a_key_is_used_once),
    ("a key counts within the lineage", a_key_counts_within_the_lineage),
    ("a fork knows the keys of its past", a_fork_knows_the_keys_of_its_past),
    ("a client key names one session", a_client_key_names_one_session),
    ("sessions are found and listed", sessions_are_found_and_listed),
    ("a session is of the project it is made in", a_session_is_of_the_project_it_is_made_in),
    ("a client key counts in its project", a_client_key_counts_in_its_project),
    ("the latest session is not empty", the_latest_session_is_not_empty),
    ("the latest session of a directory", the_latest_session_of_a_directory),
    ("one writer at a time", one_writer_at_a_time),
    ("a batch is taken whole or not at all", a_batch_is_taken_whole_or_not_at_all),
    ("odd events are kept or refused", odd_events_are_kept_or_refused),
    ("the state follows the events", the_state_follows_the_events),
    ("a rewind reverts the state", a_rewind_reverts_the_state),
    ("a fork goes on from a place in the past", a_fork_goes_on_from_a_place_in_the_past),
    ("a fork and its parent go their own ways", a_fork_and_its_parent_go_their_own_ways),
    ("a fork can be forked and rewound", a_fork_can_be_forked_and_rewound),
    ("a fork has a key of its own", a_fork_has_a_key_of_its_own),
    ("only what is there is forked", only_what_is_there_is_forked),
    ("epochs grow", epochs_grow),
    ("payloads are verbatim", payloads_are_verbatim),
    ("a ticket can be awaited", a_ticket_can_be_awaited),
    ("many threads append at once", many_threads_append_at_once),
    ("nothing comes between an event and the one it names", nothing_comes_between),
    ("history lists and filters", history_lists_and_filters),
    ("what was said is found", what_was_said_is_found),
    ("history follows the events", history_follows_the_events),
];

const NOW: Duration = Duration::ZERO;

fn event(json: &str) -> NewEvent {
    NewEvent::parse(json).unwrap()
}

fn message(text: &str) -> NewEvent {
    event(&format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{text}"}}}}"#))
}

fn append(writer: &dyn SessionWriter, events: Vec<NewEvent>) -> Vec<u64> {
    let ticket = writer.append(events, Durability::Synced, AnomalyPolicy::Keep).unwrap();
    ticket.wait().unwrap().iter().map(|event| event.seq.0).collect()
}

fn new_session(store: &dyn Store) -> (abide_model::SessionId, Arc<dyn SessionWriter>) {
    let id = store.create(NewSession::titled("a session")).unwrap().id;
    (id, store.write(id, NOW).unwrap())
}

fn kinds(store: &dyn Store, id: abide_model::SessionId) -> Vec<String> {
    let reader = store.read(id).unwrap();
    let page = reader.page(EventRange::ALL).unwrap();
    assert_eq!(page.notes, []);
    page.events.iter().map(|event| event.kind.to_string()).collect()
}

fn a_session_is_read_as_it_was_written(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    let seqs = append(&*writer, vec![message("one"), message("two")]);
    assert_eq!(seqs, [3, 4]);
    writer.close().unwrap();
    drop(writer);
    let again = subject.open();
    let all =
        ["session.created", "writer.opened", "message.added", "message.added", "writer.closed"];
    assert_eq!(kinds(&*again, id), all);
    let reader = again.read(id).unwrap();
    let page = reader.page(EventRange::ALL).unwrap();
    assert!(page.events.iter().zip(1..).all(|(event, seq)| event.seq == Seq(seq)));
    assert!(page.events.is_sorted_by_key(|event| event.at));
    assert_eq!(
        page.events[2].data.as_ref().unwrap().as_str(),
        r#"{"role":"user","content":"one"}"#
    );
    assert!(reader.acknowledged().unwrap() >= Seq(4));
}

fn ranges_go_forward_and_backward_in_pages(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    append(&*writer, (0..50).map(|n| message(&n.to_string())).collect());
    let reader = store.read(id).unwrap();
    for backward in [false, true] {
        let mut seen = Vec::new();
        let mut range = EventRange { first: Seq(5), last: Seq(40), ..EventRange::ALL }.limit(7);
        if backward {
            range = range.backward();
        }
        loop {
            let page = reader.page(range).unwrap();
            assert!(page.events.len() <= 7);
            seen.extend(page.events.iter().map(|event| event.seq.0));
            match page.next {
                Some(next) if backward => range.last = next,
                Some(next) => range.first = next,
                None => break,
            }
        }
        if backward {
            seen.reverse();
        }
        assert_eq!(seen, (5..=40).collect::<Vec<_>>());
    }
    let last = reader.page(EventRange::ALL.backward().limit(3)).unwrap();
    assert_eq!(last.events.iter().map(|event| event.seq.0).collect::<Vec<_>>(), [52, 51, 50]);
}

fn a_key_is_used_once(subject: &dyn Subject) {
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

fn rewind(to: u64) -> NewEvent {
    event(&format!(r#"{{"kind":"session.rewound","data":{{"to":{to}}}}}"#))
}

fn a_key_counts_within_the_lineage(subject: &dyn Subject) {
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

fn a_fork_knows_the_keys_of_its_past(subject: &dyn Subject) {
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

fn a_client_key_names_one_session(subject: &dyn Subject) {
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

fn sessions_are_found_and_listed(subject: &dyn Subject) {
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

/// Waits for the next millisecond: of two sessions that are made in the same one, either id may be
/// the greater.
fn tick() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let start = now();
    while now() == start {
        std::hint::spin_loop();
    }
}

fn found_by(store: &dyn Store, reference: &SessionRef) -> Option<SessionId> {
    match store.find(reference) {
        Err(StoreError::NoSession { .. }) => None,
        found => Some(found.unwrap()),
    }
}

fn listed(store: &dyn Store) -> Vec<SessionId> {
    store.list().unwrap().iter().map(|session| session.id).collect()
}

fn a_session_is_of_the_project_it_is_made_in(subject: &dyn Subject) {
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

fn a_client_key_counts_in_its_project(subject: &dyn Subject) {
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

fn the_latest_session_is_not_empty(subject: &dyn Subject) {
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

fn the_latest_session_of_a_directory(subject: &dyn Subject) {
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
    red.create(NewSession { fields: at("/work/one") }).unwrap();
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

fn one_writer_at_a_time(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    let other = subject.open();
    let refused = other.write(id, Duration::from_millis(20));
    match refused {
        Err(StoreError::Held { session, holder }) => {
            assert_eq!(session, id);
            assert!(!holder.program.is_empty());
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("two writers"),
    }
    append(&*writer, vec![message("still mine")]);
    drop(writer);
    assert!(other.write(id, NOW).is_ok());
}

fn a_batch_is_taken_whole_or_not_at_all(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    let reserved = event(r#"{"kind":"writer.closed","data":{}}"#);
    let refused =
        writer.append(vec![message("one"), reserved], Durability::Synced, AnomalyPolicy::Keep);
    assert!(matches!(refused, Err(AppendError::Input { index: 1, .. })));
    let key = "x".repeat(1000);
    let refused =
        writer.append(vec![message("one").with_key(key)], Durability::Synced, AnomalyPolicy::Keep);
    assert!(matches!(refused, Err(AppendError::Input { index: 0, .. })));
    assert_eq!(kinds(&*store, id), ["session.created"]);
}

fn odd_events_are_kept_or_refused(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    let result = || event(r#"{"kind":"tool.finished","data":{"call":"nobody"}}"#);
    let refused =
        writer.append(vec![message("one"), result()], Durability::Synced, AnomalyPolicy::Refuse);
    assert!(matches!(refused, Err(AppendError::Odd { index: 1, anomaly: Anomaly::UnknownCall })));
    assert_eq!(kinds(&*store, id), ["session.created"]);
    let kept = writer
        .append(vec![result()], Durability::Synced, AnomalyPolicy::Keep)
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(kept[0].anomaly, Some(Anomaly::UnknownCall));
    assert_eq!(append(&*writer, vec![message("two")]), [4]);
    assert_eq!(writer.state().unwrap().core.health.anomalies, 1);
}

fn the_state_follows_the_events(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    let events = [
        r#"{"kind":"turn.started","data":{"agent":"coder"}}"#,
        r#"{"kind":"task.created","data":{"task":"P1","title":"a task"}}"#,
        r#"{"kind":"tool.called","data":{"call":"c1","name":"bash"}}"#,
        r#"{"kind":"tool.called","data":{"call":"c2","name":"bash"}}"#,
        r#"{"kind":"tool.finished","data":{"call":"c1"}}"#,
        r#"{"kind":"task.status","data":{"task":"P1","status":"complete"}}"#,
        r#"{"kind":"usage.recorded","data":{"model":"m","input_tokens":5}}"#,
    ];
    append(&*writer, events.iter().map(|json| event(json)).collect());
    let state = writer.state().unwrap();
    assert_eq!(state.calls.len(), 1);
    assert!(state.calls.get("c2").is_some());
    assert_eq!(state.core.usage.input_tokens, 5);
    assert_eq!(state.core.fields.title.as_deref(), Some("a session"));
    drop(writer);
    let again = subject.open();
    let reader = again.read(id).unwrap();
    let read = reader.state().unwrap();
    assert_eq!(read.calls.len(), 1);
    let writer = again.write(id, NOW).unwrap();
    assert_eq!(writer.state().unwrap().digest(), read.digest());
}

fn a_rewind_reverts_the_state(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    append(&*writer, vec![message("one")]);
    let before = writer.state().unwrap();
    append(
        &*writer,
        vec![message("two"), event(r#"{"kind":"usage.recorded","data":{"input_tokens":9}}"#)],
    );
    append(
        &*writer,
        vec![event(&format!(
            r#"{{"kind":"session.rewound","data":{{"to":{}}}}}"#,
            before.core.seq
        ))],
    );
    let state = writer.state().unwrap();
    assert_eq!(state.core.messages.total, 1);
    assert_eq!(state.core.usage.input_tokens, 9);
    append(&*writer, vec![message("three")]);
    let digest = writer.state().unwrap().digest();
    let reader = store.read(id).unwrap();
    assert_eq!(reader.state().unwrap().digest(), digest);
    drop(writer);
    let messages = kinds(&*store, id).iter().filter(|kind| *kind == "message.added").count();
    assert_eq!(messages, 3, "what came after a rewind stays readable");
}

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

fn state(store: &dyn Store, id: SessionId) -> abide_model::SessionState {
    store.read(id).unwrap().state().unwrap()
}

/// Reading it event by event, from the first of the past on, must give the state that the store
/// gives, in pages of any size and from behind too.
fn assert_whole(store: &dyn Store, id: SessionId, last: u64) {
    let reader = store.read(id).unwrap();
    let mut events = Vec::new();
    let mut range = EventRange::ALL.limit(3);
    loop {
        let page = reader.page(range).unwrap();
        assert_eq!(page.notes, []);
        events.extend(page.events);
        let Some(next) = page.next else { break };
        range.first = next;
    }
    let seqs: Vec<u64> = events.iter().map(|event| event.seq.0).collect();
    assert_eq!(seqs, (1..=last).collect::<Vec<_>>(), "every event once, in order");
    let rewinds: Vec<_> = events.iter().filter_map(abide_model::rewind_of).collect();
    let lineage = Lineage::at(Seq(last), &rewinds);
    let mut folded = abide_model::SessionState::default();
    for event in &events {
        if lineage.contains(event.seq) {
            folded.apply(event);
        } else {
            folded.apply_dead(event);
        }
    }
    assert_eq!(folded.core, state(store, id).core);
    assert_eq!(folded.digest(), state(store, id).digest(), "the state is that of the events");
    let mut range = EventRange::ALL.backward().limit(4);
    let mut back = Vec::new();
    loop {
        let page = reader.page(range).unwrap();
        back.extend(page.events.iter().map(|event| event.seq.0));
        let Some(next) = page.next else { break };
        range.last = next;
    }
    back.reverse();
    assert_eq!(back, seqs, "the same from behind");
}

fn a_fork_goes_on_from_a_place_in_the_past(subject: &dyn Subject) {
    let store = subject.open();
    let fields = SessionFields {
        title: Some("parent".into()),
        agent: Some("coder".into()),
        key: Some("p".into()),
        ..SessionFields::default()
    };
    let id = store.create(NewSession { fields }).unwrap().id;
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

fn a_fork_and_its_parent_go_their_own_ways(subject: &dyn Subject) {
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

fn a_fork_can_be_forked_and_rewound(subject: &dyn Subject) {
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

fn a_fork_has_a_key_of_its_own(subject: &dyn Subject) {
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

fn only_what_is_there_is_forked(subject: &dyn Subject) {
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

fn epochs_grow(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    append(&*writer, vec![message("one")]);
    let first = writer.epoch();
    drop(writer);
    let second = store.write(id, NOW).unwrap();
    assert!(second.epoch() > first);
    append(&*second, vec![message("two")]);
    drop(second);
    let opened =
        kinds(&*store, id).iter().filter(|kind| *kind == Kind::WRITER_OPENED.as_str()).count();
    assert_eq!(opened, 2);
    // Opening without writing leaves no trace.
    drop(store.write(id, NOW).unwrap());
    assert_eq!(kinds(&*store, id).last().map(String::as_str), Some("writer.closed"));
}

fn payloads_are_verbatim(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    let large = "line \u{1f600} \\n\\u0041 ".repeat(20_000);
    let texts = [
        r#"{"n":123456789012345678901234567890.50,"n":1,"s":"\ud800"}"#.to_owned(),
        r#"{ "spaced" : [ 1 , 2 ] }"#.to_owned(),
        format!(r#"{{"large":"{large}","and":["{large}x"]}}"#),
        r#"{"sum":"a.b.c\"}","data":{"seq":1}}"#.to_owned(),
        // Many large strings behind a key that is larger still.
        format!(
            r#"{{"{}":[{}]}}"#,
            "k".repeat(1 << 20),
            vec![format!("\"{}\"", "v".repeat(70_000)); 80].join(",")
        ),
    ];
    let events =
        texts.iter().map(|text| event(&format!(r#"{{"kind":"x.y","data":{text}}}"#))).collect();
    append(&*writer, events);
    let reader = subject.open().read(id).unwrap();
    let page = reader.page(EventRange::from(Seq(3))).unwrap();
    let read: Vec<_> =
        page.events.iter().map(|event| event.data.as_ref().unwrap().as_str().to_owned()).collect();
    assert_eq!(read, texts);
}

fn a_ticket_can_be_awaited(subject: &dyn Subject) {
    let store = subject.open();
    let (_, writer) = new_session(&*store);
    block_on(async {
        let one =
            writer.append(vec![message("one")], Durability::Synced, AnomalyPolicy::Keep).unwrap();
        let two =
            writer.append(vec![message("two")], Durability::Buffered, AnomalyPolicy::Keep).unwrap();
        assert_eq!(two.await.unwrap()[0].seq, Seq(4));
        assert_eq!(one.await.unwrap()[0].seq, Seq(3));
    });
}

fn many_threads_append_at_once(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let writer = &writer;
            scope.spawn(move || {
                for n in 0..20 {
                    append(&**writer, vec![message(&format!("{thread}.{n}"))]);
                }
            });
        }
    });
    drop(writer);
    let reader = store.read(id).unwrap();
    let page = reader.page(EventRange::ALL).unwrap();
    let mut next = [0; 8];
    for event in page.events.iter().filter(|event| event.kind == Kind::MESSAGE_ADDED) {
        let text = event.data.as_ref().unwrap().as_str();
        let body = text.split("\"content\":\"").nth(1).unwrap().trim_end_matches("\"}");
        let (thread, n) = body.split_once('.').unwrap();
        let thread: usize = thread.parse().unwrap();
        assert_eq!(n.parse::<usize>().unwrap(), next[thread], "a thread's events keep their order");
        next[thread] += 1;
    }
    assert_eq!(next, [20; 8]);
}

fn nothing_comes_between(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    let files = |last: Seq| {
        let json = format!(r#"{{"kind":"session.rewound","data":{{"to":{last},"files":true}}}}"#);
        NewEvent::parse(&json)
    };
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let writer = &writer;
            scope.spawn(move || {
                for n in 0..20 {
                    append(&**writer, vec![message(&format!("{thread} {n}"))]);
                }
            });
        }
        for _ in 0..10 {
            writer.append_behind(&files).unwrap().wait().unwrap();
        }
    });
    // An event that was refused leaves the writer as it was.
    let bad = |_: Seq| NewEvent::parse(r#"{"kind":"writer.opened","data":{}}"#);
    assert!(matches!(writer.append_behind(&bad), Err(AppendError::Input { index: 0, .. })));
    let kept = writer.core().unwrap().0;
    assert_eq!((kept.messages.total, kept.rewinds), (40, 10));
    writer.close().unwrap();
    drop(writer);
    let reader = store.read(id).unwrap();
    let page = reader.page(EventRange::ALL).unwrap();
    for event in page.events.iter().filter(|event| event.kind == Kind::SESSION_REWOUND) {
        let Ok(Fact::Rewind(rewind)) = event.fact() else { panic!("{event:?}") };
        assert_eq!(rewind.to.next(), event.seq);
    }
    assert_eq!(state(&*store, id).core.messages.total, 40, "none has left the lineage");
}

/// A session with these fields and these events, closed.
fn told(store: &dyn Store, fields: SessionFields, events: &[&str]) -> SessionId {
    tick();
    let id = store.create(NewSession { fields }).unwrap().id;
    let writer = store.write(id, NOW).unwrap();
    append(&*writer, events.iter().map(|json| event(json)).collect());
    writer.close().unwrap();
    id
}

fn asked(store: &dyn Store, query: &HistoryQuery) -> History {
    store.history(query).unwrap()
}

fn found(store: &dyn Store, text: &str) -> Vec<SessionId> {
    let query =
        HistoryQuery { search: Some(Search::parse(text).unwrap()), ..HistoryQuery::default() };
    asked(store, &query).entries.iter().map(|entry| entry.id).collect()
}

fn history_lists_and_filters(subject: &dyn Subject) {
    let store = subject.open();
    assert_eq!(asked(&*store, &HistoryQuery::default()).entries, []);
    let coder = |title: &str| SessionFields {
        title: Some(title.to_owned()),
        agent: Some("coder".to_owned()),
        labels: [("team".to_owned(), "red".to_owned())].into(),
        ..SessionFields::default()
    };
    let first = told(
        &*store,
        coder("first"),
        &[
            r#"{"kind":"turn.started","data":{"agent":"planner"}}"#,
            r#"{"kind":"message.added","data":{"role":"user","content":"make it fast"}}"#,
            r#"{"kind":"tool.called","data":{"call":"c1","name":"edit"}}"#,
            r#"{"kind":"file.touched","data":{"path":"src/main.rs","op":"write"}}"#,
            r#"{"kind":"file.touched","data":{"path":"src/main.rs","op":"write"}}"#,
            r#"{"kind":"file.touched","data":{"path":"README.md","op":"read"}}"#,
            r#"{"kind":"turn.finished","data":{"status":"ok","usage":{"input_tokens":10,"output_tokens":2}}}"#,
            r#"{"kind":"session.status","data":{"status":"completed","summary":"it is fast"}}"#,
        ],
    );
    // The clock of some stores tells milliseconds.
    std::thread::sleep(Duration::from_millis(3));
    let second = told(&*store, SessionFields::default(), &[r#"{"kind":"x.y","data":{}}"#]);
    std::thread::sleep(Duration::from_millis(3));
    let third = told(
        &*store,
        coder("third"),
        &[
            r#"{"kind":"file.touched","data":{"path":"src/main.rs","op":"rename","to":"src/lib.rs"}}"#,
        ],
    );
    let again = subject.open();
    let ids = |query: HistoryQuery| -> Vec<SessionId> {
        asked(&*again, &query).entries.iter().map(|entry| entry.id).collect()
    };
    let all = HistoryQuery::default;
    assert_eq!(ids(all()), [third, second, first]);
    let limited = asked(&*again, &HistoryQuery { limit: Some(1), ..all() });
    assert_eq!((limited.entries.len(), limited.more), (1, Some(2)));
    assert_eq!(ids(HistoryQuery { status: vec![SessionStatus::Completed], ..all() }), [first]);
    assert_eq!(ids(HistoryQuery { agent: Some("Planner".to_owned()), ..all() }), [first]);
    assert_eq!(ids(HistoryQuery { agent: Some("coder".to_owned()), ..all() }), [third, first]);
    assert_eq!(ids(HistoryQuery { label: Some("team".to_owned()), ..all() }), [third, first]);
    assert_eq!(ids(HistoryQuery { label: Some("team=red".to_owned()), ..all() }), [third, first]);
    assert_eq!(ids(HistoryQuery { label: Some("team=blue".to_owned()), ..all() }), []);
    let by_file = asked(&*again, &HistoryQuery { file: Some("main.rs".to_owned()), ..all() });
    assert_eq!(by_file.entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [third, first]);
    let touched = &by_file.entries[1].touched;
    assert_eq!(touched.len(), 1);
    assert_eq!((touched[0].path.as_str(), touched[0].op), ("src/main.rs", FileOp::Write));
    assert_eq!((touched[0].count, touched[0].agent.as_deref()), (2, Some("planner")));
    assert_eq!(ids(HistoryQuery { file: Some("src/lib.rs".to_owned()), ..all() }), [third]);
    assert_eq!(
        ids(HistoryQuery {
            file: Some("src".to_owned()),
            agent: Some("coder".to_owned()),
            status: vec![SessionStatus::Completed, SessionStatus::Failed],
            ..all()
        }),
        [first]
    );
    let listed = asked(&*again, &all());
    let entry = &listed.entries[2];
    let overview = &entry.overview;
    assert_eq!(overview.fields.title.as_deref(), Some("first"));
    assert_eq!(overview.request.as_deref(), Some("make it fast"));
    assert_eq!(overview.summary.as_deref(), Some("it is fast"));
    assert_eq!((overview.turns, overview.messages, overview.tool_calls), (1, 1, 1));
    assert_eq!((overview.usage.input_tokens, entry.files), (10, 1));
    let (since, until) = (listed.entries[1].overview.created, listed.entries[1].overview.updated);
    assert_eq!(ids(HistoryQuery { since: Some(since), ..all() }), [third, second]);
    assert_eq!(ids(HistoryQuery { until: Some(until), ..all() }), [second, first]);
    assert_eq!(ids(HistoryQuery { since: Some(since), until: Some(until), ..all() }), [second]);
    assert_eq!(ids(HistoryQuery { unchanged_since: Some(until), ..all() }), [second, first]);
    let before = overview.updated;
    assert_eq!(ids(HistoryQuery { unchanged_since: Some(before), ..all() }), [first]);
}

fn what_was_said_is_found(subject: &dyn Subject) {
    let store = subject.open();
    let titled = |title: &str| NewSession::titled(title).fields;
    let first = told(
        &*store,
        titled("The parser"),
        &[
            r#"{"kind":"turn.started","data":{"agent":"coder"}}"#,
            r#"{"kind":"message.added","data":{"role":"user","content":"It drops the last line of résumé.txt"}}"#,
            r#"{"kind":"tool.called","data":{"call":"c","name":"bash","arguments":{"command":"cargo test --all"}}}"#,
            r#"{"kind":"tool.finished","data":{"call":"c","result":{"stdout":"zebra panicked at parse_line"}}}"#,
            r#"{"kind":"task.created","data":{"task":"P1","title":"Mend the tokenizer"}}"#,
            r#"{"kind":"turn.finished","data":{}}"#,
        ],
    );
    let second = told(
        &*store,
        titled("Another"),
        &[
            r#"{"kind":"x.note","data":{"deep":{"text":"the zebra is here, 日本語"}}}"#,
            r#"{"kind":"message.added","data":{"role":"user","content":"line last"}}"#,
        ],
    );
    let store = subject.open();
    // Made in the same millisecond, either may have the greater id.
    let both = [first.min(second), first.max(second)];
    let one = |text: &str| -> Vec<SessionId> {
        let mut found = found(&*store, text);
        found.sort_unstable();
        found
    };
    assert_eq!(one("zebra"), both);
    assert_eq!(one("ZEB*"), both);
    assert_eq!(one("\"last line\""), [first]);
    assert_eq!(one("\"line last\""), [second]);
    assert_eq!(one("last line"), both);
    assert_eq!(one("resume.txt"), [first]);
    assert_eq!(one("--all"), [first]);
    assert_eq!(one("parse_line zebra"), [first]);
    assert_eq!(one("tokeniz*"), [first]);
    assert_eq!(one("本語"), [second]);
    assert_eq!(one("parser"), [first], "the title");
    assert_eq!(one("tokenizer zebra"), [], "one event must have them all");
    assert_eq!(one("nothing"), []);
    let query =
        HistoryQuery { search: Some(Search::parse("drops").unwrap()), ..HistoryQuery::default() };
    let history = asked(&*store, &query);
    let entry = &history.entries[0];
    assert_eq!((entry.match_count, entry.matches.len()), (1, 1));
    let place = &entry.matches[0];
    assert_eq!((place.seq, place.kind.clone()), (Seq(4), Kind::MESSAGE_ADDED));
    assert_eq!(place.turn.map(|turn| turn.0), Some(1));
    assert_eq!((place.agent.as_deref(), place.live), (Some("coder"), true));
    assert_eq!(place.excerpt.text, "It drops the last line of résumé.txt");
    assert_eq!(place.excerpt.found.first(), Some(&(3..8)));
    assert_eq!(place.excerpt.found.len(), 1);
    let none = HistoryQuery { status: vec![SessionStatus::Failed], ..query };
    assert_eq!(asked(&*store, &none).entries, []);
}

fn history_follows_the_events(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    append(&*writer, vec![message("alpha")]);
    assert_eq!(found(&*store, "alpha"), [id]);
    // The writer still has it.
    append(&*writer, vec![message("beta")]);
    let other = subject.open();
    assert_eq!(found(&*other, "beta"), [id]);
    append(&*writer, vec![message("gamma")]);
    append(&*writer, vec![event(r#"{"kind":"session.rewound","data":{"to":3}}"#)]);
    writer.close().unwrap();
    drop(writer);
    let query =
        HistoryQuery { search: Some(Search::parse("gamma").unwrap()), ..HistoryQuery::default() };
    let history = asked(&*other, &query);
    assert!(!history.entries[0].matches[0].live, "a rewind took it out, and it is still found");
    assert_eq!(history.entries[0].overview.messages, 1);
    let writer = other.write(id, NOW).unwrap();
    append(&*writer, vec![message("delta")]);
    assert_eq!(found(&*store, "delta"), [id]);
    assert_eq!(asked(&*store, &HistoryQuery::default()).entries[0].overview.messages, 2);
}
