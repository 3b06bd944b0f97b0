//! What an edit means: for what is done next, and for what was done.

use abide_model::{Seq, SessionState, TaskId, TaskStatus, TaskTree, Timestamp};
use serde_json::value::RawValue;

use crate::{DocumentTask, REMOVED, TaskList, TaskListDelta, TaskListEvents, TaskListForm, delta};

fn markdown(text: &str) -> TaskList {
    TaskList::read(TaskListForm::Markdown, text.as_bytes()).unwrap()
}

fn task<'a>(plan: &'a TaskList, title: &str) -> &'a DocumentTask {
    plan.tasks.iter().find(|task| task.title == title).unwrap()
}

/// The plan with some tasks otherwise: title, status, and why or what came of it.
fn with(mut plan: TaskList, changes: &[(&str, TaskStatus, &str)]) -> TaskList {
    for (title, status, said) in changes {
        for task in plan.tasks.iter_mut().filter(|task| task.title == *title) {
            task.status = *status;
            if *status == TaskStatus::Complete {
                task.result = Some(RawValue::from_string(format!("\"{said}\"")).unwrap());
            } else {
                task.reason = Some((*said).to_owned());
            }
        }
    }
    plan
}

/// The state of a session in which a plan was recorded, and its events.
fn session(plan: &TaskList) -> (SessionState, TaskListEvents) {
    let mut state = SessionState::default();
    let mut sources = TaskListEvents::new();
    for (seq, event) in (5..).zip(plan.events().unwrap()) {
        let event = event.into_event(Seq(seq), Timestamp::from_millis(0));
        assert_eq!(state.apply(&event), None, "{}", event.to_json());
        sources.insert(event.seq, event);
    }
    (state, sources)
}

/// The plan as a session gives it back.
fn recorded(plan: &TaskList) -> TaskList {
    let (state, mut sources) = session(plan);
    let needed = TaskList::sources(&state);
    sources.retain(|seq, _| needed.contains(seq));
    TaskList::of_session(&state, &sources)
}

/// The next edit, where this is what is there.
fn edit(now: &TaskList, text: &str) -> TaskListDelta {
    delta(&recorded(now), markdown(text))
}

/// What would be run, one after the other, and how many parents the run would have to settle.
fn ready(plan: &TaskList) -> (Vec<String>, usize) {
    let mut tree = TaskTree::of(&session(plan).0.tasks);
    let settled = tree.settle().len();
    (tree.ready(None).map(|task| task.title.clone()).collect(), settled)
}

fn titles(plan: &TaskList, ids: &[TaskId]) -> Vec<String> {
    let title = |id: &TaskId| plan.tasks.iter().find(|task| task.id == *id).unwrap().title.clone();
    ids.iter().map(title).collect()
}

const NESTED: &str = "## A\n- [ ] one\n- [ ] two\n  - [ ] deep\n## B\n- [ ] three\n";

#[test]
fn what_lost_all_of_its_parts_is_done_itself() {
    let old = TaskList::read(TaskListForm::Json, br#"{"tasks":[{"title":"A","tasks":[{"title":"one"},{"title":"two","tasks":[{"title":"deep"}]}]},{"title":"B"}]}"#).unwrap();
    let new = br#"{"tasks":[{"title":"A"},{"title":"B"}]}"#;
    let mut now = delta(&recorded(&old), TaskList::read(TaskListForm::Json, new).unwrap()).plan;
    assert_eq!(ready(&now), (vec!["A".to_owned(), "B".to_owned()], 0));
    assert_eq!(task(&now, "deep").parent.as_ref(), Some(&task(&now, "two").id));
    // It stays so with the next edit, and a part that comes back is its part again.
    now = delta(&recorded(&now), TaskList::read(TaskListForm::Json, new).unwrap()).plan;
    assert_eq!(ready(&now), (vec!["A".to_owned(), "B".to_owned()], 0));
    let back = br#"{"tasks":[{"title":"A","tasks":[{"title":"two"}]},{"title":"B"}]}"#;
    let back = delta(&recorded(&now), TaskList::read(TaskListForm::Json, back).unwrap());
    assert_eq!(ready(&back.plan), (vec!["two".to_owned(), "B".to_owned()], 0));
    assert_eq!((back.kept.len(), back.added.len(), back.changed.len()), (3, 0, 0));
    assert_eq!(task(&back.plan, "two").id, task(&old, "two").id);
    assert_eq!(task(&back.plan, "one").parent.as_ref(), Some(&task(&back.plan, "A").id));
}

#[test]
fn a_new_task_opens_what_was_made_obsolete_above_it() {
    let obsolete = TaskStatus::Obsolete;
    let old = with(markdown(NESTED), &[("A", obsolete, "not now"), ("two", obsolete, "nor this")]);
    // What was open all the time opens nothing.
    let now = edit(&old, &format!("{NESTED}- [ ] four\n"));
    assert_eq!(ready(&now.plan).0, ["three", "four"]);
    assert_eq!(task(&now.plan, "A").reason.as_deref(), Some("not now"));
    // What is new does, through all that it is below.
    let now = edit(&old, &NESTED.replace("## B", "  - [ ] deeper\n## B"));
    assert_eq!(ready(&now.plan).0, ["one", "deep", "deeper", "three"]);
    assert_eq!(task(&now.plan, "A").reason, None);
    // And so does what is changed.
    let now = edit(&old, &NESTED.replace("- [ ] one", "- [ ] one\n  with care"));
    assert_eq!(ready(&now.plan).0, ["one", "three"]);
    // What the document itself calls obsolete is.
    let old = with(markdown("- [-] A\n  - [ ] one\n- [ ] B\n"), &[]);
    let now = edit(&old, "- [-] A\n  - [ ] one\n  - [ ] two\n- [ ] B\n");
    assert_eq!(ready(&now.plan).0, ["B"]);
}

#[test]
fn parents_follow_their_parts_before_anything_is_recorded() {
    let done = TaskStatus::Complete;
    let old = with(markdown(NESTED), &[("one", done, "1"), ("three", done, "3"), ("B", done, "b")]);
    // The open part of it goes.
    let now = edit(&old, "## A\n- [ ] one\n## B\n- [ ] three\n");
    assert_eq!(task(&now.plan, "A").status, done);
    assert_eq!(ready(&now.plan), (vec![], 0));
    // A done one gets an open part.
    let now = edit(&old, &format!("{NESTED}- [ ] four\n"));
    assert_eq!(task(&now.plan, "B").status, TaskStatus::Planned);
    assert_eq!(ready(&now.plan).1, 0);
    // One that says something else is what its parts are.
    let now = edit(&old, &NESTED.replace("## B", "## B\nwith words"));
    assert_eq!(titles(&now.plan, &now.changed), ["B"]);
    assert_eq!(task(&now.plan, "B").status, done);
    // Nothing of it is left to be done, and nothing of it was.
    let old = with(markdown(NESTED), &[("three", TaskStatus::Obsolete, "no")]);
    assert_eq!(task(&edit(&old, NESTED).plan, "B").status, TaskStatus::Obsolete);
}

#[test]
fn what_comes_back_is_what_it_was() {
    let text = "- [ ] a\n- [ ] b\n  depends: a\n- [ ] c\n- [ ] d\n- [ ] e\n";
    let (done, blocked) = (TaskStatus::Complete, TaskStatus::Blocked);
    let old = with(
        markdown(text),
        &[("a", done, "1"), ("b", done, "2"), ("c", blocked, "no key"), ("d", done, "4")],
    );
    let out = edit(&old, "- [ ] e\n");
    assert_eq!(out.removed.len(), 4);
    for title in ["a", "b", "c", "d"] {
        let task = task(&out.plan, title);
        assert_eq!((task.status, task.reason.as_deref()), (TaskStatus::Obsolete, Some(REMOVED)));
        assert!(task.is_removed() && task.depends.is_empty());
    }
    // Out for two edits, then back.
    let out = edit(&out.plan, "- [ ] e\n- [ ] f\n");
    assert_eq!(out.removed.len(), 0);
    let back = edit(&out.plan, &text.replace("- [ ] d", "- [ ] d\n  otherwise"));
    let standing = |title: &str| {
        let task = task(&back.plan, title);
        let result = task.result.as_ref().map(|result| result.get().to_owned());
        (task.status, task.reason.clone(), result)
    };
    assert_eq!(standing("a"), (done, None, Some("\"1\"".to_owned())));
    assert_eq!(standing("b"), (done, None, Some("\"2\"".to_owned())));
    assert_eq!(standing("c"), (blocked, Some("no key".to_owned()), None));
    assert_eq!(standing("d"), (TaskStatus::Planned, None, None));
    assert_eq!(titles(&back.plan, &back.kept), ["a", "b", "c", "e"]);
    assert_eq!(titles(&back.plan, &back.changed), ["d"]);
    assert_eq!(titles(&back.plan, &back.removed), ["f"]);
    let again = edit(&back.plan, text);
    assert!(!task(&again.plan, "a").is_removed());
    assert_eq!(task(&again.plan, "a").foreign.as_ref().map(|raw| raw.get()), None);
}

#[test]
fn what_is_blocked_or_failed_stays_so_with_its_reason() {
    let text = "- [ ] a\n- [ ] b\n- [ ] c\n- [ ] d\n";
    let (blocked, failed) = (TaskStatus::Blocked, TaskStatus::Failed);
    let changes = [
        ("a", blocked, "no key"),
        ("b", failed, "three times"),
        ("c", TaskStatus::Retrying, "again"),
        ("d", blocked, "no day"),
    ];
    let now = edit(&with(markdown(text), &changes), &format!("{text}- [ ] e\n")).plan;
    let standing = |plan: &TaskList, title: &str| {
        let task = task(plan, title);
        (task.status, task.reason.clone())
    };
    assert_eq!(standing(&now, "a"), (blocked, Some("no key".to_owned())));
    assert_eq!(standing(&now, "b"), (failed, Some("three times".to_owned())));
    assert_eq!(standing(&now, "c"), (TaskStatus::Planned, None));
    assert_eq!(ready(&now).0, ["c", "e"]);
    // Unless the document says otherwise: of what is to be done, or that it is done.
    let text = text.replace("- [ ] a", "- [ ] a\n  with the other key").replace("[ ] d", "[x] d");
    let now = edit(&with(markdown("- [ ] a\n- [ ] b\n- [ ] c\n- [ ] d\n"), &changes), &text).plan;
    assert_eq!(standing(&now, "a"), (TaskStatus::Planned, None));
    assert_eq!(standing(&now, "d"), (TaskStatus::Complete, None));
}

fn backlog(subtasks: &str) -> TaskList {
    let text = format!(
        r#"{{"backlog":[{{"type":"Phase","id":"P1","title":"p","status":"Planned","milestones":[{{"type":"Milestone","id":"P1.M1","title":"m","status":"Planned","tasks":[{{"type":"Task","id":"P1.M1.T1","title":"t","status":"Planned","subtasks":[{subtasks}]}}]}}]}}]}}"#
    );
    TaskList::read(TaskListForm::Prp, text.as_bytes()).unwrap()
}

#[test]
fn what_only_the_other_system_understands_is_compared_too() {
    let one = |status: &str, rest: &str| {
        backlog(&format!(r#"{{"id":"P1.M1.T1.S1","title":"s","status":"{status}"{rest}}}"#))
    };
    let was = r#","context_scope":{"files":["a"],"deep":{"x":1.50,"y":[]}},"points":2,"result":7"#;
    let old = recorded(&one("Complete", was));
    let status = |rest: &str| task(&delta(&old, one("Ready", rest)).plan, "s").status;
    assert_eq!(status(was), TaskStatus::Complete);
    // In another order, in other spelling, with other fields that are not compared.
    let same = r#","points":2,"notes":null,"description":null,"result":[],"context_scope":{"deep":{"y":[],"x":1.5},"files":["\u0061"]}"#;
    assert_eq!(status(same), TaskStatus::Complete);
    for (from, to) in
        [(r#"["a"]"#, r#"["b"]"#), (r#""points":2"#, r#""points":3"#), ("7", r#"7,"d":true"#)]
    {
        assert_eq!(status(&was.replace(from, to)), TaskStatus::Planned, "{to}");
    }
    assert_eq!(status(&was.replace(r#""points":2,"#, "")), TaskStatus::Planned);
    assert_eq!(status(r#","context_scope":"files: a","points":2"#), TaskStatus::Planned);
    // Their own word for what is to be done stays.
    let mut open = old.clone();
    for task in &mut open.tasks {
        (task.status, task.result) = (TaskStatus::Planned, None);
    }
    let now = delta(&open, one("Ready", was)).plan;
    assert_eq!(task(&now, "s").foreign_status.as_deref(), Some("Ready"));
    // A text is compared as a text, however it is written.
    let old = recorded(&one("Complete", r#","context_scope":"a""#));
    let now = delta(&old, one("Planned", r#","context_scope":"\u0061 ""#));
    assert_eq!(now.changed.len(), 0);
    // And fields of TOML.
    let toml = |text: &str| TaskList::read(TaskListForm::Toml, text.as_bytes()).unwrap();
    let old = recorded(&toml("[[task]]\ntitle = 'a'\nwhen = 2026-01-02\nstatus = 'complete'\n"));
    let now = delta(&old, toml("[[task]]\ntitle = 'a'\nwhen = 2026-01-02\n"));
    assert_eq!(task(&now.plan, "a").status, TaskStatus::Complete);
    let now = delta(&old, toml("[[task]]\ntitle = 'a'\nwhen = 2026-01-03\n"));
    assert_eq!(task(&now.plan, "a").status, TaskStatus::Planned);
}

/// The result of each task in the order of the document, `-` where it is to be done.
fn results(plan: &TaskList) -> Vec<String> {
    let result =
        |task: &DocumentTask| task.result.as_ref().map_or("-", |result| result.get()).to_owned();
    plan.tasks.iter().filter(|task| !task.is_removed()).map(result).collect()
}

#[test]
fn siblings_of_one_title_are_told_apart() {
    let numbered = |text: &str| {
        let mut plan = markdown(text);
        for (task, number) in plan.tasks.iter_mut().zip(1..) {
            task.status = TaskStatus::Complete;
            task.result = Some(RawValue::from_string(number.to_string()).unwrap());
        }
        recorded(&plan)
    };
    // By what they say, when another one is put before them, or between.
    let old = numbered("- [ ] a\n  x\n- [ ] a\n  y\n- [ ] b\n");
    let now = delta(&old, markdown("- [ ] a\n  z\n- [ ] a\n  x\n- [ ] a\n  y\n- [ ] b\n"));
    assert_eq!(results(&now.plan), ["-", "1", "2", "3"]);
    assert_eq!((now.added.len(), now.changed.len(), now.kept.len()), (1, 0, 3));
    let now = delta(&old, markdown("- [ ] a\n  y\n"));
    assert_eq!((results(&now.plan), now.removed.len()), (vec!["2".to_owned()], 2));
    // By what they wait for.
    let old = numbered("- [ ] p\n- [ ] q\n- [ ] a\n  after: p\n- [ ] a\n  after: q\n");
    let now = delta(&old, markdown("- [ ] a\n  after: q\n- [ ] q\n- [ ] p\n- [ ] a\n  after: p\n"));
    assert_eq!(results(&now.plan), ["4", "2", "1", "3"]);
    // By an id that somebody gave them, whatever they say; their parts follow.
    let old = numbered("- [ ] a {#one}\n  x\n  - [ ] c\n- [ ] a {#two}\n  y\n  - [ ] c\n");
    let now =
        delta(&old, markdown("- [ ] a {#two}\n  x\n  - [ ] c\n- [ ] a {#one}\n  x\n  - [ ] c\n"));
    assert_eq!(titles(&now.plan, &now.changed), ["a"]);
    assert_eq!(now.changed, ["two".into()]);
    assert_eq!(results(&now.plan), ["-", "4", "1", "2"]);
    // By their order, when nothing else is left.
    let old = numbered("- [ ] a\n  x\n- [ ] a\n  y\n");
    let now = delta(&old, markdown("- [ ] a\n  x\n- [ ] a\n  z\n"));
    assert_eq!(
        (results(&now.plan), now.changed),
        (vec!["1".into(), "-".into()], vec!["P2".into()])
    );
}

#[test]
fn what_was_a_secret_once_is_the_same_task_without_being_one() {
    let done = |text: &str| {
        let mut plan = markdown(text);
        for (task, number) in plan.tasks.iter_mut().zip(1..) {
            task.status = TaskStatus::Complete;
            task.result = Some(RawValue::from_string(number.to_string()).unwrap());
        }
        plan
    };
    let text = "- [ ] Use SECRET now\n  It is\n  SECRET, I say.\n  - [ ] below\n- [ ] other\n";
    let of = |text: &str, secret: &str| text.replace("SECRET", secret);
    let mark = |digits: &str| format!("‹redacted:env:{digits}›");
    let (one, two) = (mark("0123abcd"), mark("4567abcd"));
    // On either side, and wherever the task stands.
    for (before, now) in [(&*one, "hunter22"), ("hunter22", &*one), (&*one, &*two)] {
        let moved = format!("- [ ] new\n{}", of(text, now));
        let now = edit(&done(&of(text, before)), &moved);
        assert_eq!((now.kept.len(), now.added.len(), now.removed.len()), (3, 1, 0), "{moved}");
        assert_eq!(results(&now.plan), ["-", "1", "2", "3"]);
    }
    // Another text around it.
    let now = edit(&done(&of(text, &one)), &of(&text.replace("now", "later"), "hunter22"));
    assert_eq!(results(&now.plan), ["-", "-", "3"]);
    let now = edit(&done(&of(text, &one)), &of(&text.replace("I say", "you say"), "hunter22"));
    assert_eq!(titles(&now.plan, &now.changed), ["Use hunter22 now"]);
    let now = edit(&done(&of(text, &one)), &of(text, "this and that"));
    assert_eq!(results(&now.plan), ["-", "-", "3"]);
    // One that was recorded is one of two at most, and of several the one with the same content.
    let recorded = done(&of("- [ ] Use SECRET\n", &one));
    let now = edit(&recorded, "- [ ] Use hunter22\n- [ ] Use 33retnuh\n");
    assert_eq!((results(&now.plan), now.added.len()), (vec!["1".to_owned(), "-".to_owned()], 1));
    let two = format!("- [ ] Use {one}\n  x\n- [ ] Use {two}\n  y\n");
    let now = edit(&done(&two), "- [ ] Use hunter22\n  y\n- [ ] Use 33retnuh\n  x\n");
    assert_eq!(results(&now.plan), ["2", "1"]);
}

#[test]
fn many_siblings_of_one_title_are_told_apart_in_time() {
    let text = |from: usize| -> String {
        (from..from + 20_000).map(|at| format!("- [ ] a\n  {at}\n")).collect()
    };
    let now = edit(&markdown(&text(0)), &text(1));
    assert_eq!((now.kept.len(), now.changed.len()), (19_999, 1));
}

#[test]
fn a_document_is_written_without_what_was_taken_out_of_it() {
    let out = edit(&markdown(NESTED), "## A\n- [ ] one\n## B\n- [ ] three\n").plan;
    assert_eq!(out.tasks.len(), 6);
    for form in TaskListForm::ALL {
        let written = recorded(&out).write(form).unwrap();
        let again = TaskList::read(form, written.as_bytes()).unwrap();
        let found: Vec<_> = again.tasks.iter().map(|task| task.title.as_str()).collect();
        assert_eq!(found, ["A", "one", "B", "three"], "{written}");
        assert!(!written.contains("removed"), "{written}");
    }
    // What somebody made a part of it later is not lost.
    let mut late = out.clone();
    let parent = Some(task(&out, "two").id.clone());
    let title = "late".to_owned();
    late.tasks.push(DocumentTask { id: "x".into(), title, parent, ..DocumentTask::default() });
    super::order_delta_tasks(&mut late.tasks);
    let written = late.write(TaskListForm::Json).unwrap();
    let found = TaskList::read(TaskListForm::Json, written.as_bytes()).unwrap();
    let found: Vec<_> = found.tasks.iter().map(|task| task.title.as_str()).collect();
    assert_eq!(found, ["A", "one", "two", "late", "B", "three"]);
}

#[test]
fn a_result_of_nothing_stays() {
    for text in [
        r#"{"backlog":[{"id":"P1","title":"p","status":"Complete","result":null,"x":1}]}"#,
        r#"{"tasks":[{"title":"p","result":null,"details":"d"}]}"#,
    ] {
        let form = TaskListForm::of("tasks.json".as_ref(), text.as_bytes()).unwrap();
        let plan = TaskList::read(form, text.as_bytes()).unwrap();
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let root = if form == TaskListForm::Prp { "backlog" } else { "tasks" };
        let written = recorded(&plan).write(form).unwrap();
        assert_eq!(value(&written)[root][0]["result"], serde_json::Value::Null);
        assert!(written.contains("\"result\": null"), "{written}");
        assert!(plan.tasks[0].result.is_none());
        // Until something came of it.
        let plan = with(plan, &[("p", TaskStatus::Complete, "r")]);
        let written = recorded(&plan).write(form).unwrap();
        assert!(written.contains("\"result\": \"r\"") && !written.contains("null"), "{written}");
    }
}

#[test]
fn a_title_that_was_shortened_is_not_made_long_again() {
    let long = "t".repeat(300);
    let plan = markdown(&format!("- [ ] Lines and ends\n- [ ] {long}\n"));
    let (mut state, mut sources) = session(&plan);
    let changed = abide_model::TaskChange {
        task: "P1".into(),
        title: Some("Lines".into()),
        ..abide_model::TaskChange::default()
    };
    let event = abide_model::NewEvent::try_from(changed).unwrap();
    let event = event.into_event(Seq(90), Timestamp::from_millis(0));
    state.apply(&event);
    sources.insert(event.seq, event);
    let plan = TaskList::of_session(&state, &sources);
    assert_eq!(plan.tasks[0].title, "Lines");
    assert_eq!(plan.tasks[1].title, long);
}

#[test]
fn a_stored_document_stays_with_its_task() {
    let mut plan = markdown("- [ ] One\n- [ ] Step\n\n  First.\n- [ ] Step\n\n  Second.\n");
    let second = |plan: &TaskList| {
        let is_second = |task: &DocumentTask| task.details.as_deref() == Some("Second.");
        plan.tasks.iter().position(is_second).unwrap()
    };
    let at = second(&plan);
    plan.tasks[at].status = TaskStatus::Complete;
    plan.tasks[at].documents.push("d.md".to_owned());
    plan.tasks[at].document_texts.insert("d.md".to_owned(), "text".to_owned());
    // The plan does not name it, and the two with the same title change places.
    let text = "- [ ] Step\n\n  Second.\n- [ ] Step\n\n  First.\n- [ ] One\n";
    let first = edit(&plan, text);
    assert_eq!((first.kept.len(), first.changed.len(), first.added.len()), (3, 0, 0));
    let task = &first.plan.tasks[second(&first.plan)];
    assert_eq!((task.status, &*task.documents), (TaskStatus::Complete, &["d.md".to_owned()][..]));
    assert_eq!(task.document_texts["d.md"], "text");
    // Once more; then the plan names it, which says nothing new.
    let again = edit(&first.plan, &format!("{text}- [ ] Two\n"));
    assert_eq!((again.kept.len(), again.added.len()), (3, 1));
    let named = text.replacen("Step\n", "Step\n  document: d.md\n", 1);
    let named = edit(&again.plan, &named);
    assert_eq!((named.kept.len(), named.changed.len()), (3, 0));
    assert_eq!(named.plan.tasks[second(&named.plan)].document_texts["d.md"], "text");
}
