//! Plans and their sessions: found again, gone on from, mended.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Barrier};

use abide::{
    Error, NewEvent, NewSession, SessionFields, SessionId, SessionRef, Store, StoreError,
    TaskStatus,
    event::{ParentReason, SourceDocument},
    secrets::{Redaction, RedactionOptions, RedactionSettings, has_mark},
    tasks::{
        PLAN_LABEL, PLAN_TASKS_LABEL, PlanFile, SessionTasks, TaskCreated, TaskList,
        TaskListDocument, TaskListForm, TaskListMatch, TaskStatusChange,
    },
};

const PLAN: &str =
    "# Parser\n\n## Reading\n- [ ] Lines\n  Every line.\n- [ ] Ends\n  depends: Lines\n";

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_or_init(dir.path()).unwrap();
    (dir, store)
}

fn document(text: &str) -> TaskListDocument {
    TaskListDocument::of("/project/plan.md", None, text.as_bytes()).unwrap()
}

fn start(store: &Store, document: &TaskListDocument) -> SessionId {
    let matched = store.match_plan(document).unwrap();
    store.start_plan(document, matched, NewSession::default()).unwrap()
}

fn plan(store: &Store, session: SessionId) -> TaskList {
    store.view(&SessionRef::Id(session)).unwrap().plan().unwrap()
}

/// Title and status of each task.
fn standing(plan: &TaskList) -> Vec<(&str, TaskStatus)> {
    plan.tasks.iter().map(|task| (task.title.as_str(), task.status)).collect()
}

fn set(store: &Store, session: SessionId, task: &str, status: TaskStatus, result: Option<&str>) {
    let session = store.open_session(&SessionRef::Id(session)).unwrap();
    let result = result.map(|json| serde_json::value::RawValue::from_string(json.into()).unwrap());
    let change =
        TaskStatusChange { task: task.into(), status, result, ..TaskStatusChange::default() };
    session.append(change).unwrap().wait().unwrap();
    session.close().unwrap();
}

#[test]
fn a_document_finds_its_session() {
    let (_dir, store) = store();
    let first = document(PLAN);
    assert!(matches!(store.match_plan(&first).unwrap(), TaskListMatch::New));
    let id = start(&store, &first);
    let events = store.view(&SessionRef::Id(id)).unwrap().acknowledged().unwrap();
    assert_eq!(start(&store, &first), id);
    let view = store.view(&SessionRef::Id(id)).unwrap();
    assert_eq!(view.acknowledged().unwrap(), events, "nothing more was recorded");
    let fields = view.state().unwrap().core.fields;
    assert_eq!(fields.title.as_deref(), Some("Parser"));
    assert_eq!(fields.labels[PLAN_LABEL], "/project/plan.md");
    assert_eq!(fields.labels[PLAN_TASKS_LABEL], "3");
    assert_eq!(fields.source.unwrap().sha256, abide_plan::sha256(PLAN.as_bytes()));
    assert_eq!(view.state().unwrap().core.health.anomalies, 0);
    // The same bytes elsewhere are the same plan; other bytes elsewhere are another one.
    let moved = TaskListDocument { path: "/elsewhere/plan.md".into(), ..first.clone() };
    assert!(matches!(store.match_plan(&moved).unwrap(), TaskListMatch::Same(same) if same == id));
    let other = TaskListDocument { sha256: "0".repeat(64), ..moved };
    assert!(matches!(store.match_plan(&other).unwrap(), TaskListMatch::New));
    assert_eq!(
        plan(&store, id).write(TaskListForm::Markdown).unwrap().replace("\n\n-", "\n-"),
        PLAN
    );
}

#[test]
fn an_edited_document_goes_on_from_the_newest_session_of_its_path() {
    let (_dir, store) = store();
    let first = start(&store, &document(PLAN));
    set(&store, first, "P1.M1", TaskStatus::Complete, Some(r#"{"commit":"abc"}"#));
    set(&store, first, "P1.M2", TaskStatus::Failed, None);
    let edited = document(&PLAN.replace("- [ ] Ends", "- [ ] Tabs\n- [ ] Ends"));
    let TaskListMatch::Edited { parent, delta } = store.match_plan(&edited).unwrap() else {
        panic!("it is edited")
    };
    assert_eq!((parent, delta.added.len(), delta.kept.len()), (first, 1, 3));
    let second = start(&store, &edited);
    let state = store.view(&SessionRef::Id(second)).unwrap().state().unwrap();
    let link = state.core.fields.parent.unwrap();
    assert_eq!((link.session, link.reason), (first, ParentReason::Delta));
    assert_eq!(link.seq, store.view(&SessionRef::Id(first)).unwrap().acknowledged().unwrap());
    let now = plan(&store, second);
    let (planned, complete) = (TaskStatus::Planned, TaskStatus::Complete);
    assert_eq!(
        standing(&now),
        [
            ("Reading", planned),
            ("Lines", complete),
            ("Tabs", planned),
            ("Ends", TaskStatus::Failed)
        ]
    );
    assert_eq!(now.tasks[1].result.as_ref().unwrap().get(), r#"{"commit":"abc"}"#);
    assert_eq!(now.tasks[1].details.as_deref(), Some("Every line."));
    // A third one goes on from the second, not the first.
    set(&store, second, now.tasks[2].id.as_str(), complete, None);
    let third =
        start(&store, &document(&PLAN.replace("- [ ] Ends\n  depends: Lines\n", "- [ ] Tabs\n")));
    let last = plan(&store, third);
    assert_eq!(
        standing(&last),
        [
            ("Reading", complete),
            ("Lines", complete),
            ("Tabs", complete),
            ("Ends", TaskStatus::Obsolete)
        ]
    );
}

#[test]
fn an_edit_that_is_taken_back_undoes_nothing() {
    let (_dir, store) = store();
    let (here, there) = (document(PLAN), document(&PLAN.replace("Ends", "Tabs")));
    let first = start(&store, &here);
    let second = start(&store, &there);
    set(&store, second, "P1.M1", TaskStatus::Complete, Some("1"));
    let TaskListMatch::Edited { parent, delta } = store.match_plan(&here).unwrap() else {
        panic!("what was done since is in another session")
    };
    assert_eq!((parent, delta.kept.len()), (second, 3));
    let third = start(&store, &here);
    assert!(third != first && third != second);
    assert_eq!(standing(&plan(&store, third))[1], ("Lines", TaskStatus::Complete));
    // From there on it is the session of this text.
    assert_eq!(start(&store, &here), third);
    set(&store, third, "P1.M2", TaskStatus::Complete, Some("2"));
    let fourth = start(&store, &there);
    assert!(fourth != second);
    let fifth = start(&store, &here);
    assert!(![first, second, third, fourth].contains(&fifth));
    // The clock must tell what comes next from what was before.
    std::thread::sleep(std::time::Duration::from_millis(5));
    // Unless somebody goes on with an earlier one; then that one is gone on from, as it is now.
    set(&store, first, "P1.M2", TaskStatus::Blocked, None);
    assert_eq!(start(&store, &here), first);
    let TaskListMatch::Edited { parent, .. } = store.match_plan(&there).unwrap() else {
        panic!("it is edited")
    };
    assert_eq!(parent, first);
    let last = start(&store, &there);
    assert!(last != second && last != fourth, "the old one does not know what was done since");
}

#[test]
fn a_look_at_an_earlier_session_is_no_work_in_it() {
    let (_dir, store) = store();
    let first = start(&store, &document(PLAN));
    let edited = document(&PLAN.replace("Ends", "Tabs"));
    let second = start(&store, &edited);
    let before = store.view(&SessionRef::Id(first)).unwrap().acknowledged().unwrap();
    store.open_session(&SessionRef::Id(first)).unwrap().close().unwrap();
    assert_eq!(store.view(&SessionRef::Id(first)).unwrap().acknowledged().unwrap(), before);
    assert_eq!(start(&store, &edited), second);
}

#[test]
fn nothing_goes_on_from_a_session_that_somebody_works_in() {
    let (_dir, store) = store();
    let store = store.waiting(std::time::Duration::ZERO);
    let first = start(&store, &document(PLAN));
    let edited = document(&PLAN.replace("Ends", "Tabs"));
    let held = store.open_session(&SessionRef::Id(first)).unwrap();
    let matched = store.match_plan(&edited).unwrap();
    let refused = store.start_plan(&edited, matched.clone(), NewSession::default());
    let Err(Error::Store(StoreError::Held { session, holder })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((session, holder.process), (first, std::process::id()));
    assert_eq!(store.sessions().unwrap().len(), 1);
    // What was done until it is let go is known, although it was matched before.
    let change = TaskStatusChange {
        task: "P1.M1".into(),
        status: TaskStatus::Complete,
        ..TaskStatusChange::default()
    };
    held.append(change).unwrap().wait().unwrap();
    held.close().unwrap();
    let second = store.start_plan(&edited, matched, NewSession::default()).unwrap();
    assert_eq!(standing(&plan(&store, second))[1], ("Lines", TaskStatus::Complete));
}

#[test]
fn a_document_that_is_moved_takes_its_session_along() {
    let (dir, store) = store();
    let at = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        TaskListDocument::of(path.to_string_lossy(), None, text.as_bytes()).unwrap()
    };
    let is_new = |document: &TaskListDocument| {
        matches!(store.match_plan(document).unwrap(), TaskListMatch::New)
    };
    let first = at("plan.md", PLAN);
    let id = start(&store, &first);
    // A copy is another document.
    let moved = at("docs/plan.md", PLAN);
    assert!(is_new(&moved));
    std::fs::remove_file(&first.path).unwrap();
    // So is one of another project with the same store.
    std::fs::create_dir(dir.path().join("other")).unwrap();
    std::fs::write(dir.path().join("other/.abide"), "../.abide\n").unwrap();
    assert!(is_new(&at("other/plan.md", PLAN)));
    assert_eq!(start(&store, &moved), id);
    set(&store, id, "P1.M1", TaskStatus::Complete, None);
    // Edited there, it goes on.
    let edited = at("docs/plan.md", &PLAN.replace("Ends", "Tabs"));
    let second = start(&store, &edited);
    assert_eq!(standing(&plan(&store, second))[1], ("Lines", TaskStatus::Complete));
    let fields = store.view(&SessionRef::Id(second)).unwrap().state().unwrap().core.fields;
    assert_eq!(fields.parent.unwrap().session, id);
    // Moved again with the text from before: what was done last at its path counts.
    std::fs::remove_file(&edited.path).unwrap();
    let last = at("last.md", PLAN);
    let TaskListMatch::Edited { parent, .. } = store.match_plan(&last).unwrap() else {
        panic!("it is edited")
    };
    assert_eq!(parent, second);
    // What is at the first path now is nobody's.
    assert!(is_new(&at("plan.md", "- [ ] other\n")));
}

#[test]
fn a_plan_that_cannot_be_recorded_leaves_no_session() {
    let (_dir, store) = store();
    let mut wrong = document(PLAN);
    wrong.plan.tasks[2].id = "x".repeat(600).as_str().into();
    let refused = store.start_plan(&wrong, TaskListMatch::New, NewSession::default());
    assert!(matches!(refused, Err(Error::Input(_))), "{refused:?}");
    assert_eq!(store.sessions().unwrap().len(), 0);
    start(&store, &document(PLAN));
    let mut wrong = document(&PLAN.replace("Ends", "Tabs"));
    wrong.plan.tasks[2].id = "x".repeat(600).as_str().into();
    let matched = store.match_plan(&wrong).unwrap();
    assert!(store.start_plan(&wrong, matched, NewSession::default()).is_err());
    assert_eq!(store.sessions().unwrap().len(), 1);
}

/// The session as a process leaves it that is killed when `count` events of its plan are recorded.
fn cut_off(store: &Store, document: &TaskListDocument, plan: &TaskList, count: usize) -> SessionId {
    let parent = match store.match_plan(document).unwrap() {
        TaskListMatch::Edited { parent: session, .. } => {
            let seq = store.view(&SessionRef::Id(session)).unwrap().acknowledged().unwrap();
            Some(abide::event::SessionParent { session, seq, reason: ParentReason::Delta })
        }
        _ => None,
    };
    let from = parent.as_ref().map(|parent| format!("{}@{}:", parent.session, parent.seq.0));
    let from = from.unwrap_or_default();
    let fields = SessionFields {
        key: Some(format!("plan:{}:{from}{}", document.sha256, document.path)),
        labels: [(PLAN_LABEL.to_owned(), document.path.clone())].into(),
        source: Some(SourceDocument {
            path: document.path.clone(),
            sha256: document.sha256.clone(),
        }),
        parent,
        ..SessionFields::default()
    };
    let session = store.create(NewSession::from(fields)).unwrap();
    let events = plan.events().unwrap();
    if count > 0 {
        session.append_all(events[..count].to_vec()).unwrap().wait().unwrap();
    }
    let id = session.id();
    session.close().unwrap();
    id
}

#[test]
fn a_beginning_that_was_cut_off_anywhere_is_mended() {
    let first = document(&PLAN.replace("[ ] Ends", "[x] Ends"));
    let edited = document(&PLAN.replace("Every line.", "Every line, and the last."));
    for count in 0..=6 {
        let (_dir, store) = store();
        let id =
            cut_off(&store, &first, &first.plan, count.min(first.plan.events().unwrap().len()));
        if count < 3 {
            // It knows nothing of what was done, so that nothing goes on from it.
            assert!(matches!(store.match_plan(&edited).unwrap(), TaskListMatch::New));
        }
        assert_eq!(start(&store, &first), id);
        let whole = plan(&store, id);
        assert_eq!(
            standing(&whole),
            [
                ("Reading", TaskStatus::Planned),
                ("Lines", TaskStatus::Planned),
                ("Ends", TaskStatus::Complete)
            ]
        );
        let state = store.view(&SessionRef::Id(id)).unwrap().state().unwrap();
        assert_eq!((state.core.health.anomalies, state.core.tasks.total), (0, 3), "at {count}");
        // The same for a session that goes on from this one.
        let TaskListMatch::Edited { delta, .. } = store.match_plan(&edited).unwrap() else {
            panic!("it is edited")
        };
        let next =
            cut_off(&store, &edited, &delta.plan, count.min(delta.plan.events().unwrap().len()));
        // A later edit does not take the half one for what was done.
        let later = document(&PLAN.replace("## Reading", "## Reading\n- [ ] Begin"));
        let TaskListMatch::Edited { parent, .. } = store.match_plan(&later).unwrap() else {
            panic!("it is edited")
        };
        assert_eq!(parent, id);
        assert_eq!(start(&store, &edited), next);
        assert_eq!(standing(&plan(&store, next))[2], ("Ends", TaskStatus::Complete));
        let TaskListMatch::Edited { parent, .. } = store.match_plan(&later).unwrap() else {
            panic!("it is edited")
        };
        assert_eq!(parent, next);
    }
}

#[test]
fn what_was_done_since_is_not_undone_by_starting_again() {
    let (_dir, store) = store();
    let first = document("- [-] a\n- [x] b\n");
    let id = start(&store, &first);
    set(&store, id, "P1", TaskStatus::Planned, None);
    assert_eq!(start(&store, &first), id);
    assert_eq!(
        standing(&plan(&store, id)),
        [("a", TaskStatus::Planned), ("b", TaskStatus::Complete)]
    );
}

/// The sessions that several get who start at once.
fn start_at_once(dir: &std::path::Path, document: &TaskListDocument) -> Vec<SessionId> {
    let both = Barrier::new(4);
    std::thread::scope(|scope| {
        let starters: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let store = Store::open(dir).unwrap();
                    let store = store.waiting(std::time::Duration::from_secs(60));
                    let matched = store.match_plan(document).unwrap();
                    both.wait();
                    store.start_plan(document, matched, NewSession::default()).unwrap()
                })
            })
            .collect();
        starters.into_iter().map(|starter| starter.join().unwrap()).collect()
    })
}

#[test]
fn two_that_start_at_once_have_one_session() {
    let (dir, _) = store();
    let ids = start_at_once(dir.path(), &document(PLAN));
    let store = Store::open(dir.path()).unwrap();
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(store.sessions().unwrap().len(), 1);
    let state = store.view(&SessionRef::Id(ids[0])).unwrap().state().unwrap();
    assert_eq!((state.core.tasks.total, state.core.health.anomalies), (3, 0));
    // The same for an edit, and for going back.
    for (text, count) in [(PLAN.replace("Ends", "Tabs"), 2), (PLAN.to_owned(), 3)] {
        let ids = start_at_once(dir.path(), &document(&text));
        assert!(ids.iter().all(|id| *id == ids[0]));
        assert_eq!(store.sessions().unwrap().len(), count);
    }
}

#[test]
fn a_session_that_is_held_is_not_waited_for_when_its_plan_is_whole() {
    let (_dir, store) = store();
    let store = store.waiting(std::time::Duration::ZERO);
    let whole = document(PLAN);
    let id = start(&store, &whole);
    let held = store.open_session(&SessionRef::Id(id)).unwrap();
    assert_eq!(start(&store, &whole), id);
    drop(held);
    let half = document("- [ ] a\n");
    let id = cut_off(&store, &half, &half.plan, 0);
    let _held = store.open_session(&SessionRef::Id(id)).unwrap();
    let refused = store.start_plan(&half, TaskListMatch::Same(id), NewSession::default());
    assert!(matches!(refused, Err(Error::Store(StoreError::Held { .. }))), "{refused:?}");
}

#[test]
fn tasks_of_any_session_make_a_plan() {
    let (_dir, store) = store();
    let long = "t".repeat(300);
    let session = store.create(NewSession::titled("by hand")).unwrap();
    for json in [
        r#"{"kind":"task.created","data":{"task":"b","title":"B","parent":"a","depends":["a","ghost"]}}"#.to_owned(),
        format!(r#"{{"kind":"task.created","data":{{"task":"a","title":"{long}","details":"first"}}}}"#),
        r#"{"kind":"task.changed","data":{"task":"a","details":"second","documents":["x.md"],"priority":4}}"#.to_owned(),
        r#"{"kind":"task.created","data":{"task":"c","title":"C","parent":"nobody"}}"#.to_owned(),
        r#"{"kind":"task.status","data":{"task":"b","status":"failed","foreign":"Broken","result":[1,2]}}"#.to_owned(),
    ] {
        session.append(abide::NewEvent::parse(&json).unwrap()).unwrap().wait().unwrap();
    }
    let plan = session.plan().unwrap();
    let ids: Vec<_> = plan.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!((ids, plan.form), (vec!["a", "b", "c"], TaskListForm::Json));
    assert_eq!(plan.title.as_deref(), Some("by hand"));
    let [a, b, c] = &plan.tasks[..] else { panic!("three") };
    assert_eq!((&a.title, a.details.as_deref(), a.priority), (&long, Some("second"), 4));
    assert_eq!(a.documents, ["x.md"]);
    assert_eq!((b.depends.len(), b.result.as_ref().unwrap().get()), (1, "[1,2]"));
    assert_eq!(b.foreign_status.as_deref(), Some("Broken"));
    assert_eq!(c.parent, None);
}

#[test]
fn what_a_plan_would_change_is_told_while_somebody_holds_the_session() {
    let (dir, store) = store();
    let session = store.create(NewSession::default()).unwrap();
    let id = session.id();
    let json = |text: &str| {
        TaskListDocument::of("/project/plan.json", None, text.as_bytes()).unwrap().plan
    };
    let first = r#"{"tasks":[{"id":"a","title":"A","depends":["b"]},{"id":"b","title":"B","status":"done"}]}"#;
    let edited = r#"{"tasks":[{"id":"a","title":"A","details":"more"},{"id":"b","title":"B","details":"late"},{"id":"c","title":"C"}]}"#;
    let other = Store::open(dir.path()).unwrap();
    assert!(matches!(
        other.open_session(&SessionRef::Id(id)),
        Err(Error::Store(StoreError::Held { .. }))
    ));
    let mut tasks = SessionTasks::open(Arc::new(session)).unwrap();
    for text in [first, edited] {
        let would = other.import_delta(id, &json(text)).unwrap();
        let does = tasks.import(json(text)).unwrap();
        assert_eq!(format!("{would:?}"), format!("{does:?}"));
        assert!(!does.added.is_empty());
        tasks.flush().unwrap();
    }
}

/// The store on a machine with its own key of marks, which is kept there.
fn on_machine(store: &Store, state: &Path) -> Store {
    store.clone().with_redaction(Redaction::new(RedactionOptions {
        settings: RedactionSettings::Known(Box::default()),
        variables: Some(Vec::new()),
        directory: None,
        state: Some(state.to_owned()),
    }))
}

fn token() -> String {
    format!("ghp_{}", "R7kQ2mZx9LbT4vWc8NdY1sHf6JgP3aUe5KoX")
}

/// A plan with a secret in every text.
fn secret_plan() -> String {
    let token = token();
    format!(
        "# For {token}\n\n- [ ] Use {token}\n  check: test {token}\n\n  It is {token}.\n- [ ] Then\n  depends: Use {token}\n"
    )
}

#[test]
fn a_task_with_a_secret_is_the_same_in_an_edited_document() {
    let (_dir, store) = store();
    let states = tempfile::tempdir().unwrap();
    let here = on_machine(&store, &states.path().join("here"));
    let there = on_machine(&store, &states.path().join("there"));
    let text = secret_plan();
    let first = start(&here, &document(&text));
    let recorded = plan(&here, first);
    assert!(!format!("{recorded:?}").contains(&token()), "{recorded:?}");
    assert!(has_mark(&recorded.tasks[0].title) && recorded.tasks[0].check.is_some());
    set(&here, first, recorded.tasks[0].id.as_str(), TaskStatus::Complete, Some("1"));
    let edited = document(&format!("{text}- [ ] Last\n"));
    let counts = |store: &Store, document: &TaskListDocument| {
        let TaskListMatch::Edited { delta, .. } = store.match_plan(document).unwrap() else {
            panic!("it is edited")
        };
        [delta.kept.len(), delta.changed.len(), delta.added.len(), delta.removed.len()]
    };
    assert_eq!(counts(&here, &edited), [2, 0, 1, 0]);
    assert_eq!(counts(&there, &edited), [2, 0, 1, 0], "the marks are others");
    let other = document(&text.replace("It is", "It was"));
    assert_eq!(counts(&here, &other), [1, 1, 0, 0]);
    let second = start(&there, &edited);
    let now = plan(&there, second);
    let statuses: Vec<_> = now.tasks.iter().map(|task| task.status).collect();
    assert_eq!(statuses, [TaskStatus::Complete, TaskStatus::Planned, TaskStatus::Planned]);
    assert!(!format!("{now:?}").contains(&token()), "{now:?}");
    assert_eq!(start(&here, &edited), second);
}

#[test]
fn what_was_recorded_with_its_secrets_is_not_done_again() {
    let (_dir, store) = store();
    let states = tempfile::tempdir().unwrap();
    let text = secret_plan();
    let kept = store.clone().with_redaction(Redaction::off());
    let first = start(&kept, &document(&text));
    let id = plan(&kept, first).tasks[0].id.clone();
    set(&kept, first, id.as_str(), TaskStatus::Complete, None);
    let now = on_machine(&store, &states.path().join("state"));
    let second = start(&now, &document(&format!("{text}- [ ] Last\n")));
    assert_eq!(plan(&now, second).tasks[0].status, TaskStatus::Complete);
}

#[test]
fn an_import_of_the_same_plan_changes_nothing_although_it_has_secrets() {
    let (_dir, store) = store();
    let states = tempfile::tempdir().unwrap();
    let store = on_machine(&store, &states.path().join("state"));
    let session = store.create(NewSession::default()).unwrap();
    let id = session.id();
    let mut tasks = SessionTasks::open(Arc::new(session)).unwrap();
    let list = document(&secret_plan()).plan;
    assert_eq!(tasks.import(list.clone()).unwrap().added.len(), 2);
    tasks.flush().unwrap();
    let would = store.import_delta(id, &list).unwrap();
    let does = tasks.import(list).unwrap();
    for delta in [would, does] {
        assert_eq!((delta.kept.len(), delta.changed.len(), delta.added.len()), (2, 0, 0));
    }
    assert_eq!(tasks.pending(), 0);
}

#[test]
fn a_batch_with_secrets_is_known_once_it_is_recorded() {
    let (_dir, store) = store();
    let states = tempfile::tempdir().unwrap();
    let store = on_machine(&store, &states.path().join("state"));
    let session = Arc::new(store.create(NewSession::default()).unwrap());
    let mut tasks = SessionTasks::open(session.clone()).unwrap();
    let task = TaskCreated {
        task: token().as_str().into(),
        title: format!("Use {}", token()),
        ..TaskCreated::default()
    };
    tasks.create(task).unwrap();
    tasks.also(NewEvent::parse(r#"{"kind":"x.y","data":{}}"#).unwrap().with_key(token()));
    assert!(tasks.tree().get(&token()).is_none(), "it is recorded with a mark");
    let ids: Vec<_> = tasks.tree().walk(None).map(|(node, _)| node.id.clone()).collect();
    // The answer to this write was lost.
    let batch: Vec<_> = tasks.pending_events().cloned().collect();
    session.append_all(batch).unwrap().wait().unwrap();
    assert!(tasks.refresh().unwrap().is_empty());
    assert_eq!(tasks.pending(), 0);
    let again: Vec<_> = tasks.tree().walk(None).map(|(node, _)| node.id.clone()).collect();
    assert_eq!((again.len(), &again), (1, &ids));
}

#[test]
fn a_document_with_secrets_gets_statuses_and_keeps_every_other_byte() {
    let (dir, store) = store();
    let states = tempfile::tempdir().unwrap();
    let path = dir.path().join("PLAN.md");
    let text = secret_plan();
    fs::write(&path, &text).unwrap();
    let here = on_machine(&store, &states.path().join("here"));
    let document = TaskListDocument::of(path.to_string_lossy(), None, text.as_bytes()).unwrap();
    let id = start(&here, &document);
    let ids: Vec<_> = plan(&here, id).tasks.into_iter().map(|task| task.id).collect();
    let update = |store: &Store, task: usize| {
        let session = Arc::new(store.open_session(&SessionRef::Id(id)).unwrap());
        let mut file = PlanFile::open(session.clone()).unwrap();
        let (task, status) = (ids[task].clone(), TaskStatus::Complete);
        let change = TaskStatusChange { task, status, ..TaskStatusChange::default() };
        session.append(change).unwrap().wait().unwrap();
        file.update().unwrap();
        fs::read_to_string(&path).unwrap()
    };
    let first = text.replace("- [ ] Use", "- [x] Use");
    assert_eq!(update(&here, 0), first);
    // Somebody adds a task, and the run goes on where marks are others.
    fs::write(&path, format!("{first}- [ ] Last\n")).unwrap();
    let there = on_machine(&store, &states.path().join("there"));
    let both = first.replace("- [ ] Then", "- [x] Then");
    assert_eq!(update(&there, 1), format!("{both}- [ ] Last\n"));
}
