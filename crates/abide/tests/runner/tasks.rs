//! A session's tasks in batches: what is refused, what one write holds, and writes that fail.

use std::path::Path;
use std::sync::Arc;

use abide::{
    Error, EventRange, Kind, LocalOptions, LocalStore, Message, NewEvent, NewSession, Payload,
    Session, SessionRef, Store, TaskStatus,
    event::AgentObservation,
    maintenance::Upkeep,
    tasks::{SessionTasks, TaskChange, TaskCreated, TaskError, TaskId, TaskStatusChange, TaskTree},
};
use abide_testkit::{Fault, FaultKind, Lasting, MemoryStore, SimDisk};

fn task(id: &str, parent: &str) -> TaskCreated {
    let parent = (!parent.is_empty()).then(|| parent.into());
    TaskCreated { task: id.into(), title: format!("do {id}"), parent, ..TaskCreated::default() }
}

fn status(id: &str, status: TaskStatus) -> TaskStatusChange {
    TaskStatusChange { task: id.into(), status, ..TaskStatusChange::default() }
}

fn memory() -> Arc<Session> {
    let store = Store::over(Arc::new(MemoryStore::default()));
    Arc::new(store.create(NewSession::default()).unwrap())
}

/// What the tree of the session's state tells, and the one that was kept up.
fn told(tree: &TaskTree) -> String {
    let nodes: Vec<_> = tree.walk(None).collect();
    format!("{nodes:#?} {:?}", tree.progress(None))
}

#[track_caller]
fn agrees(tasks: &SessionTasks) {
    let recorded = tasks.session().view().tasks().unwrap();
    assert_eq!(told(tasks.tree()), told(&recorded));
}

fn kinds(session: &Session) -> Vec<String> {
    let events = session.view().events(EventRange::ALL).map(|event| event.unwrap());
    let facts = events.filter(|event| !event.kind.as_str().starts_with("session."));
    facts.filter(|e| !e.kind.as_str().starts_with("writer.")).map(|e| e.kind.to_string()).collect()
}

#[test]
fn many_changes_are_one_write_and_what_follows_is_among_them() {
    let session = memory();
    let mut tasks = SessionTasks::open(session.clone()).unwrap();
    assert_eq!(tasks.flush().unwrap().items, 0);
    tasks.create(task("a", "")).unwrap();
    let details = TaskCreated {
        details: Some("at length".to_owned()),
        documents: vec!["a.md".to_owned()],
        ..task("b", "a")
    };
    tasks.create(details).unwrap();
    tasks.set(status("b", TaskStatus::Implementing)).unwrap();
    let seen = AgentObservation { session: Some("s-1".to_owned()), ..AgentObservation::default() };
    tasks.also(NewEvent::try_from(seen).unwrap().for_task("b"));
    tasks.also(Message::user("between").try_into().unwrap());
    let result = Some(serde_json::value::RawValue::from_string("{\"n\":1}".to_owned()).unwrap());
    tasks
        .set(TaskStatusChange {
            result,
            foreign: Some("Done".to_owned()),
            ..status("b", TaskStatus::Complete)
        })
        .unwrap();
    assert_eq!(tasks.pending(), 7);
    assert_eq!(session.state().unwrap().tasks.len(), 0, "nothing is written before the flush");
    let flushed = tasks.flush().unwrap();
    assert_eq!((flushed.items, flushed.writes_saved, tasks.pending()), (7, 6, 0));
    assert_eq!(
        kinds(&session),
        [
            "task.created",
            "task.created",
            "task.status",
            "agent.observed",
            "message.added",
            "task.status",
            "task.status"
        ]
    );
    let node = tasks.tree().get("b").unwrap();
    assert_eq!(node.agent_session.as_deref(), Some("s-1"));
    assert_eq!(node.details, Some(node.created));
    assert_eq!(tasks.tree().get("a").unwrap().status, TaskStatus::Complete);
    agrees(&tasks);
    tasks
        .change(TaskChange {
            task: "b".into(),
            title: Some("other".to_owned()),
            documents: Some(Vec::new()),
            details: Some("again".to_owned()),
            priority: Some(3),
            ..TaskChange::default()
        })
        .unwrap();
    tasks.create(task("c", "a")).unwrap();
    assert_eq!(tasks.flush().unwrap().items, 3, "the parent is to be done again");
    agrees(&tasks);
    assert_eq!(session.state().unwrap().core.health.anomalies, 0);
}

#[test]
fn what_is_illegal_is_refused_and_leaves_nothing_behind() {
    let mut tasks = SessionTasks::open(memory()).unwrap();
    tasks.create(task("a", "")).unwrap();
    tasks.create(task("b", "a")).unwrap();
    tasks.flush().unwrap();
    let before = told(tasks.tree());
    let refused = [
        tasks.create(task("a", "")),
        tasks.create(task("", "")),
        tasks.create(task(&"x".repeat(600), "")),
        tasks.create(TaskCreated { depends: vec!["none".into()], ..task("n", "") }),
        tasks.set(status("a", TaskStatus::Complete)),
        tasks.set(status("none", TaskStatus::Complete)),
        tasks.change(TaskChange { task: "none".into(), ..TaskChange::default() }),
        tasks.change(TaskChange {
            task: "b".into(),
            title: Some("taken in with the rest, or not".to_owned()),
            depends: Some(vec!["a".into()]),
            ..TaskChange::default()
        }),
    ];
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
    assert!(matches!(refused[4], Err(Error::Task(TaskError::OpenParts { .. }))));
    assert!(matches!(refused[7], Err(Error::Task(TaskError::Cycle { .. }))));
    assert_eq!((told(tasks.tree()), tasks.pending()), (before, 0));
}

#[test]
fn what_others_wrote_is_read_anew_and_pending_wishes_stay_where_they_are_legal() {
    let session = memory();
    let mut tasks = SessionTasks::open(session.clone()).unwrap();
    tasks.create(task("a", "")).unwrap();
    tasks.create(task("b", "a")).unwrap();
    tasks.flush().unwrap();
    tasks.create(task("new", "")).unwrap();
    tasks.create(task("c", "a")).unwrap();
    tasks.set(status("b", TaskStatus::Complete)).unwrap();
    tasks.set(status("c", TaskStatus::Implementing)).unwrap();
    session.append(task("new", "")).unwrap().wait().unwrap();
    session.append(status("b", TaskStatus::Failed)).unwrap().wait().unwrap();
    let refused = tasks.refresh().unwrap();
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert_eq!(refused[0], TaskError::Exists { task: "new".into() });
    assert!(
        matches!(&refused[1], TaskError::IllegalTransition { task, .. } if task.as_str() == "b")
    );
    assert_eq!(tasks.pending(), 2);
    tasks.flush().unwrap();
    agrees(&tasks);
    // Task facts that go past the checks are taken up after the flush.
    tasks.also(status("b", TaskStatus::Retrying).try_into().unwrap());
    tasks.flush().unwrap();
    agrees(&tasks);
}

#[test]
fn an_event_that_no_session_takes_is_not_in_the_way_of_the_others() {
    let mut tasks = SessionTasks::open(memory()).unwrap();
    tasks.create(task("a", "")).unwrap();
    tasks.also(
        NewEvent::new(Kind::MESSAGE_ADDED, Payload::of(&Message::user("x")).unwrap())
            .with_key("k".repeat(600)),
    );
    tasks.create(task("b", "")).unwrap();
    assert!(matches!(tasks.flush(), Err(Error::Append(_))));
    assert_eq!(tasks.pending(), 2);
    tasks.flush().unwrap();
    agrees(&tasks);
    assert_eq!(tasks.tree().len(), 2);
}

/// `T1`, `T2` …
fn next_id(tree: &TaskTree, _: Option<&TaskId>) -> TaskId {
    TaskId(format!("T{}", tree.len() + 1))
}

#[test]
fn two_that_choose_the_same_id_at_once_get_one_each() {
    let session = memory();
    let mut one = SessionTasks::open(session.clone()).unwrap();
    let mut other = SessionTasks::open(session.clone()).unwrap();
    one.create(task("T1", "")).unwrap();
    let chosen =
        one.create_next(TaskCreated { title: "one's".to_owned(), ..task("", "T1") }, next_id);
    assert_eq!(chosen.unwrap().as_str(), "T2");
    other.create(task("T2", "")).unwrap();
    other.create(task("T3", "")).unwrap();
    other.flush().unwrap();
    let mut told = Vec::new();
    let flushed = one.flush_and(|event| told.extend(event.task.clone())).unwrap();
    assert_eq!(flushed.items, 2);
    assert_eq!(told.iter().map(TaskId::as_str).collect::<Vec<_>>(), ["T1", "T4"]);
    assert_eq!(one.tree().get("T4").unwrap().title, "one's");
    agrees(&one);
    // An id that was asked for is not exchanged, and neither is one that others speak of.
    other.refresh().unwrap();
    for by_name in [true, false] {
        let id = format!("T{}", one.tree().len() + 1);
        if by_name {
            one.create(task(&id, "")).unwrap();
        } else {
            one.create_next(task("", ""), next_id).unwrap();
            one.create(task("part", &id)).unwrap();
        }
        other.create(task(&id, "")).unwrap();
        other.flush().unwrap();
        let refused = one.flush();
        assert!(
            matches!(&refused, Err(Error::Task(TaskError::Exists { task })) if task.as_str() == id),
            "{refused:?}"
        );
    }
    assert_eq!(session.state().unwrap().core.health.anomalies, 0);
}

#[test]
fn what_another_made_illegal_meanwhile_is_refused_and_not_recorded() {
    let session = memory();
    let mut one = SessionTasks::open(session.clone()).unwrap();
    one.create(task("a", "")).unwrap();
    one.create(task("b", "")).unwrap();
    one.flush().unwrap();
    one.set(status("a", TaskStatus::Implementing)).unwrap();
    one.set(status("b", TaskStatus::Implementing)).unwrap();
    session.append(status("a", TaskStatus::Complete)).unwrap().wait().unwrap();
    let refused = one.flush();
    assert!(
        matches!(&refused, Err(Error::Task(TaskError::IllegalTransition { task, .. })) if task.as_str() == "a"),
        "{refused:?}"
    );
    assert_eq!((one.pending(), kinds(&session).len()), (1, 3));
    one.flush().unwrap();
    agrees(&one);
    assert_eq!(one.tree().get("a").unwrap().status, TaskStatus::Complete);
    assert_eq!(session.state().unwrap().core.health.anomalies, 0);
}

#[test]
fn what_is_no_wish_is_recorded_however_odd_it_is() {
    let session = memory();
    let mut tasks = SessionTasks::open(session.clone()).unwrap();
    let odd =
        || NewEvent::parse(r#"{"kind":"tool.finished","data":{"call":"c","ok":true}}"#).unwrap();
    tasks.create(task("a", "")).unwrap();
    tasks.also(odd());
    tasks.also(odd());
    tasks.create(task("b", "")).unwrap();
    let flushed = tasks.flush().unwrap();
    assert_eq!((flushed.items, flushed.writes_saved), (4, 0));
    assert_eq!(kinds(&session), ["task.created", "tool.finished", "tool.finished", "task.created"]);
    assert_eq!(session.state().unwrap().core.health.anomalies, 2);
    agrees(&tasks);
}

#[test]
fn what_is_much_is_written_in_parts() {
    let session = memory();
    let mut tasks = SessionTasks::open(session.clone()).unwrap();
    let details = Some("x".repeat(7 << 20));
    for id in ["a", "b", "c", "d", "e"] {
        tasks.create(TaskCreated { details: details.clone(), ..task(id, "") }).unwrap();
    }
    let large = TaskCreated { details: Some("x".repeat(20 << 20)), ..task("f", "") };
    tasks.create(large).unwrap();
    let flushed = tasks.flush().unwrap();
    assert_eq!((flushed.items, flushed.writes_saved), (6, 2), "two, two, one and the large one");
    agrees(&tasks);
}

fn sim(disk: &SimDisk) -> Store {
    let options = LocalOptions {
        storage: Arc::new(disk.clone()),
        upkeep: Upkeep::ByHand,
        ..LocalOptions::default()
    };
    Store::local(LocalStore::init(Path::new("/sim/.abide"), options).unwrap())
}

/// A write fails at every operation of a flush in turn; with the session opened anew, everything is
/// recorded once.
#[test]
fn a_flush_that_failed_is_tried_again_and_records_everything_once() {
    let mut failed = 0;
    let mut at = 0;
    loop {
        let disk = SimDisk::new(Path::new("/sim"));
        let store = sim(&disk);
        let session = store.create(NewSession::default()).unwrap();
        let id = SessionRef::Id(session.id());
        let mut tasks = SessionTasks::open(Arc::new(session)).unwrap();
        tasks.create(task("a", "")).unwrap();
        tasks.create(task("b", "a")).unwrap();
        tasks.flush().unwrap();
        tasks.create(task("c", "a")).unwrap();
        tasks.set(status("b", TaskStatus::Implementing)).unwrap();
        tasks.set(status("b", TaskStatus::Complete)).unwrap();
        tasks.set(status("c", TaskStatus::Complete)).unwrap();
        assert_eq!(tasks.pending(), 5);
        let past = at / 3;
        let kind = [FaultKind::Io, FaultKind::Full, FaultKind::Short][at as usize % 3];
        disk.set_faults(vec![Fault { at: past, kind, lasting: Lasting::Once }], at);
        let first = tasks.flush();
        at += 1;
        let over = disk.operations() <= past;
        if first.is_err() {
            failed += 1;
            assert_eq!(tasks.pending(), 5, "everything is kept");
            assert!(tasks.flush().is_err(), "a writer that stopped takes nothing");
            assert_eq!(tasks.pending(), 5);
            let pending = tasks.into_pending();
            disk.set_faults(Vec::new(), 0);
            if at % 2 == 0 {
                disk.power_cut(at);
            }
            let session = Arc::new(sim(&disk).open_session(&id).unwrap());
            let (resumed, refused) = SessionTasks::resume(session, &pending).unwrap();
            tasks = resumed;
            assert_eq!(refused, []);
            tasks.flush().unwrap();
        }
        disk.set_faults(Vec::new(), 0);
        agrees(&tasks);
        let kinds = kinds(tasks.session());
        let created = kinds.iter().filter(|kind| *kind == "task.created").count();
        let statuses = kinds.iter().filter(|kind| *kind == "task.status").count();
        assert_eq!((created, statuses), (3, 4), "at {past}: {kinds:?}");
        assert_eq!(tasks.tree().get("a").unwrap().status, TaskStatus::Complete);
        assert_eq!(tasks.session().state().unwrap().core.health.anomalies, 0);
        if over {
            assert!(past > 1, "the flush did nothing");
            break;
        }
    }
    assert!(failed >= 4, "{failed}");
}

/// A write that was cut off leaves the first events of a batch, however many.
#[test]
fn whatever_part_of_a_batch_was_recorded_the_rest_is_recorded_once() {
    for there in 0..=6 {
        let session = memory();
        let mut tasks = SessionTasks::open(session.clone()).unwrap();
        tasks.create(task("a", "")).unwrap();
        tasks.create(task("b", "a")).unwrap();
        tasks.set(status("b", TaskStatus::Complete)).unwrap();
        tasks.flush().unwrap();
        tasks.create(task("c", "a")).unwrap();
        tasks.set(status("c", TaskStatus::Implementing)).unwrap();
        tasks.set(status("c", TaskStatus::Complete)).unwrap();
        tasks.also(Message::user("once").try_into().unwrap());
        assert_eq!(tasks.pending(), 6);
        let left: Vec<NewEvent> = tasks.pending_events().take(there).cloned().collect();
        session.append_all(left).unwrap().wait().unwrap();
        let (mut tasks, refused) = SessionTasks::resume(session, &tasks.into_pending()).unwrap();
        assert_eq!(refused, []);
        tasks.flush().unwrap();
        agrees(&tasks);
        let kinds = kinds(tasks.session());
        let count = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
        assert_eq!((count("task.created"), count("message.added")), (3, 1), "{there}: {kinds:?}");
        assert_eq!(tasks.tree().get("a").unwrap().status, TaskStatus::Complete, "{there}");
        assert_eq!(tasks.session().state().unwrap().core.health.anomalies, 0);
    }
}
