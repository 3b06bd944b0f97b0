//! Round trips, differences and bad input.

use abide_model::{DependencyType, Event, Seq, SessionState, TaskId, TaskStatus, Timestamp};
use proptest::prelude::*;
use serde_json::Value;

use crate::{DocumentTask, REMOVED, TaskList, TaskListEvents, TaskListForm, delta};

const BACKLOG: &str = r#"{
  "version": 2,
  "backlog": [
    {
      "type": "Phase",
      "id": "P1",
      "title": "Found\u0061tion",
      "status": "In Progress",
      "description": "All of it",
      "owner": {
        "name": "ann",
        "since": 1.50
      },
      "milestones": [
        {
          "type": "Milestone",
          "id": "P1.M1",
          "title": "First",
          "status": "Planned",
          "description": "",
          "tasks": [
            {
              "type": "Task",
              "id": "P1.M1.T1",
              "title": "Parser",
              "status": "Planned",
              "description": null,
              "subtasks": [
                {
                  "type": "Subtask",
                  "id": "P1.M1.T1.S1",
                  "title": "Lines",
                  "status": "Complete",
                  "story_points": 2,
                  "dependencies": [],
                  "context_scope": "CONTRACT"
                },
                {
                  "story_points": 1,
                  "type": "Subtask",
                  "id": "P1.M1.T1.S2",
                  "title": "Ends",
                  "status": "Ready",
                  "dependencies": [
                    "P1.M1.T1.S1",
                    "P1.M1.T1.S1"
                  ],
                  "context_scope": "CONTRACT",
                  "notes": []
                }
              ]
            }
          ]
        }
      ]
    }
  ],
  "meta": {}
}"#;

fn read(form: TaskListForm, text: &str) -> TaskList {
    TaskList::read(form, text.as_bytes()).unwrap()
}

fn markdown(text: &str) -> TaskList {
    read(TaskListForm::Markdown, text)
}

fn task<'a>(plan: &'a TaskList, title: &str) -> &'a DocumentTask {
    plan.tasks.iter().find(|task| task.title == title).unwrap()
}

/// What a plan says, in a form that can be compared.
fn said(plan: &TaskList) -> Vec<String> {
    plan.tasks
        .iter()
        .map(|task| {
            let result = task.result.as_ref().map(|result| result.get());
            let DocumentTask { id, title, parent, depends, priority, .. } = task;
            let types = &task.dependency_types;
            let DocumentTask { details, documents, check, status, foreign_status, .. } = task;
            format!(
                "{id:?} {title:?} {parent:?} {depends:?} {types:?} {priority} {details:?} {documents:?} \
                 {check:?} {status:?} {foreign_status:?} {result:?}"
            )
        })
        .collect()
}

/// The plan of a session in which this one was recorded.
fn through_session(plan: &TaskList) -> TaskList {
    let mut state = SessionState::default();
    let mut sources = TaskListEvents::new();
    for (at, event) in plan.events().unwrap().into_iter().enumerate() {
        let event: Event = event.into_event(Seq(at as u64 + 5), Timestamp::from_millis(0));
        assert_eq!(state.apply(&event), None, "{}", event.to_json());
        sources.insert(event.seq, event);
    }
    let needed = TaskList::sources(&state);
    sources.retain(|seq, _| needed.contains(seq));
    TaskList::of_session(&state, &sources)
}

#[test]
fn a_backlog_comes_back_byte_for_byte() {
    let plan = read(TaskListForm::Prp, BACKLOG);
    assert_eq!(plan.write(TaskListForm::Prp).unwrap(), BACKLOG);
    assert_eq!(through_session(&plan).write(TaskListForm::Prp).unwrap(), BACKLOG);
    let broken = BACKLOG.replace('\n', "\n ") + "\n";
    let again = read(TaskListForm::Prp, &broken).write(TaskListForm::Prp).unwrap();
    assert_eq!(again, format!("{BACKLOG}\n"));
    assert_eq!(task(&plan, "Foundation").foreign_status.as_deref(), Some("In Progress"));
    assert_eq!(task(&plan, "Foundation").status, TaskStatus::Implementing);
    assert_eq!(task(&plan, "Ends").depends, vec![TaskId::from("P1.M1.T1.S1"); 2]);
    assert_eq!(task(&plan, "Lines").details.as_deref(), Some("CONTRACT"));
}

#[test]
fn a_change_is_written_in_their_words_and_nothing_else_moves() {
    let mut plan = read(TaskListForm::Prp, BACKLOG);
    for task in plan.tasks.iter_mut().filter(|task| task.title == "Ends") {
        task.status = TaskStatus::Failed;
        task.foreign_status = None;
        task.details = Some("Try again".into());
    }
    let written = plan.write(TaskListForm::Prp).unwrap();
    let expected = BACKLOG.replace("\"Ready\"", "\"Failed\"").replacen(
        "\"CONTRACT\",\n                  \"notes\"",
        "\"Try again\",\n                  \"notes\"",
        1,
    );
    assert_eq!(written, expected);
}

#[test]
fn what_is_wrong_is_named_with_its_path() {
    let error = |form, text: &str| TaskList::read(form, text.as_bytes()).unwrap_err().to_string();
    let prp = |text: &str| error(TaskListForm::Prp, text);
    let item = |fields: &str| {
        prp(&format!(
            r#"{{"backlog":[{{"id":"P1","title":"a","status":"Planned","milestones":[{fields}]}}]}}"#
        ))
    };
    assert_eq!(prp("{}"), "$.backlog: it is missing");
    assert_eq!(prp("[]"), "$: it must be an object");
    assert_eq!(prp(r#"{"backlog":{}}"#), "$.backlog: it must be a list");
    assert_eq!(prp(r#"{"backlog":[1]}"#), "$.backlog[0]: it must be an object");
    assert_eq!(
        item(r#"{"id":"x","status":"Planned"}"#),
        "$.backlog[0].milestones[0].title: it is missing"
    );
    assert_eq!(
        item(r#"{"id":"x","title":7,"status":"Planned"}"#),
        "$.backlog[0].milestones[0].title: it must be text"
    );
    assert_eq!(
        item(r#"{"id":"x","title":" ","status":"Planned"}"#),
        "$.backlog[0].milestones[0].title: it must be non-empty text"
    );
    assert_eq!(
        item(r#"{"type":"Task","id":"x","title":"a","status":"Planned"}"#),
        "$.backlog[0].milestones[0].type: it must be \"Milestone\""
    );
    assert!(
        item(r#"{"id":"x","title":"a","status":"Perhaps"}"#)
            .starts_with("$.backlog[0].milestones[0].status: invalid status \"Perhaps\" (Planned,")
    );
    assert_eq!(
        item(r#"{"id":"P1","title":"a","status":"Planned"}"#),
        "$.backlog[0].milestones[0].id: task id \"P1\" is already used by $.backlog[0]"
    );
    assert_eq!(
        item(r#"{"id":"x","title":"a","status":"Planned","dependencies":["P1.M9"]}"#),
        "$.backlog[0].milestones[0].dependencies[0]: there is no task \"P1.M9\""
    );
    assert_eq!(
        item(
            r#"{"id":"x","title":"a","status":"Planned","dependencies":["y"]},{"id":"y","title":"a","status":"Planned","dependencies":["x"]}"#
        ),
        "$.backlog[0].milestones[0].dependencies: these tasks wait for each other: x → y → x"
    );
    assert_eq!(
        item(r#"{"id":"x","title":"a","status":"Planned","dependencies":["P1"]}"#),
        "$.backlog[0].milestones[0].dependencies: these tasks wait for each other: P1 → x → P1"
    );
    // A part waits for what the whole waits for.
    let inherited = r#"{"backlog":[{"id":"P","title":"a","status":"Planned","dependencies":["Q"],"milestones":[{"id":"c","title":"a","status":"Planned"}]},{"id":"Q","title":"a","status":"Planned","milestones":[{"id":"d","title":"a","status":"Planned","dependencies":["c"]}]}]}"#;
    assert_eq!(
        prp(inherited),
        "$.backlog[0].dependencies: these tasks wait for each other: P → Q → d → c → P"
    );
    assert_eq!(
        item(r#"{"id":"x","id":"y","title":"a","status":"Planned"}"#),
        "$.backlog[0].milestones[0].id: duplicate field"
    );
    assert!(prp("{").starts_with("the task list is not valid JSON: EOF while parsing"));
    let json = |text: &str| error(TaskListForm::Json, text);
    assert_eq!(
        json(r#"{"tasks":[{"title":"a","priority":"b"}]}"#),
        "$.tasks[0].priority: it must be a whole number"
    );
    let deep = "{\"title\":\"a\",\"tasks\":[".repeat(65) + &"]}".repeat(65);
    let deep = json(&format!("{{\"tasks\":[{deep}]}}"));
    assert!(deep.ends_with(".tasks[0]: nested deeper than 64 levels"), "{deep}");
    let many = vec![r#"{"title":"a"}"#; 200_001].join(",");
    assert_eq!(json(&format!("{{\"tasks\":[{many}]}}")), "$.tasks[200000]: more than 200000 tasks");
    let foreign =
        format!(r#"{{"tasks":[{{"title":"a","x":{}{}}}]}}"#, "[".repeat(70), "]".repeat(70));
    assert_eq!(json(&foreign), "$.tasks[0].x: nested deeper than 64 levels");
    let toml = |text: &str| error(TaskListForm::Toml, text);
    assert_eq!(toml("[[task]]\nid='a'"), "$.task[0].title: it is missing");
    assert_eq!(
        toml("[[task]]\nid='a'\ntitle='a'\nparent='b'\n[[task]]\nid='b'\ntitle='b'\nparent='a'"),
        "$.task[0].parent: this task is part of itself"
    );
    assert_eq!(toml("[[task]]\ntitle='a'\nparent='b'"), "$.task[0].parent: there is no task \"b\"");
    assert!(toml("[[task]\n").contains("line 1"));
    let typed = |types: &str| {
        toml(&format!("[[task]]\nid='a'\ntitle='a'\n[[task]]\ntitle='b'\ndepends=['a']\n{types}"))
    };
    assert_eq!(
        typed("dependency_types={a='hard'}"),
        "$.task[1].dependency_types.a: it must be \"blocks\", \"needs-result\" or \"soft\""
    );
    assert_eq!(
        typed("dependency_types={b='soft'}"),
        "$.task[1].dependency_types: the task does not depend on \"b\""
    );
    assert_eq!(
        typed("dependency_types='soft'"),
        "$.task[1].dependency_types: it must be a table of task ids and types"
    );
    assert_eq!(
        json(r#"{"tasks":[{"title":"a","dependency_types":["soft"]}]}"#),
        "$.tasks[0].dependency_types: it must be an object of task ids and types"
    );
    let lines = |text: &str| error(TaskListForm::Markdown, text);
    assert_eq!(lines("# T\n- [ ] a\n- [ ] b (after: c)\n"), "line 3: there is no task \"c\"");
    assert_eq!(
        lines("- [ ] a\n- [ ] a\n- [ ] b\n  depends: a\n"),
        "line 3: \"a\" is ambiguous; use the id of the task"
    );
    assert_eq!(
        lines("- [ ] `T1` a\n- [ ] `T1` b\n"),
        "line 2: task id \"T1\" is already used by line 1"
    );
    let bytes = TaskList::read(TaskListForm::Markdown, b"- [ ] a\xff").unwrap_err();
    assert_eq!(bytes.to_string(), "the task list is not UTF-8 (first bad byte at 7)");
}

#[test]
fn a_form_is_known_by_name_and_content() {
    let of = |name: &str, text: &str| TaskListForm::of(name.as_ref(), text.as_bytes());
    assert_eq!(of("a/tasks.json", BACKLOG), Ok(TaskListForm::Prp));
    assert_eq!(of("tasks.json", r#"{"tasks":[]}"#), Ok(TaskListForm::Json));
    assert_eq!(of("PLAN.MD", ""), Ok(TaskListForm::Markdown));
    assert_eq!(of("plan.toml", ""), Ok(TaskListForm::Toml));
    assert!(of("plan", "").is_err() && of("plan.yaml", "").is_err());
    for form in TaskListForm::ALL {
        assert_eq!(form.to_string().parse(), Ok(form));
    }
    assert_eq!(
        crate::sha256(b"abc"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
}

const NOTES: &str = "\
Before everything.

# The parser

status: a draft, and no field of a task

## Background

Why it is.

## Reading

What reading is.

- [x] Lines
  Text of lines.
  - [x] Ends of lines
    ```
    - [ ] not a task
    ```
- [ ] Tabs (after: Lines)
  priority: 3
  document: docs/tabs.md
  * a point

  Another paragraph.
- [-] Pages

## `P9` Writing
1. [ ] T7: Out
   status: failed
   - [ ] deep {#my-own}
     depends: P1.M2, Lines

## Done
- [X] All of it
";

#[test]
fn a_markdown_list_is_a_tree() {
    let plan = markdown(NOTES);
    insta_like(
        &said(&plan).join("\n"),
        r#"TaskId("P1") "Reading" None [] DependencyTypes({}) 0 Some("What reading is.") [] None Planned None None
TaskId("P1.M1") "Lines" Some(TaskId("P1")) [] DependencyTypes({}) 0 Some("Text of lines.") [] None Complete None None
TaskId("P1.M1.T1") "Ends of lines" Some(TaskId("P1.M1")) [] DependencyTypes({}) 0 Some("```\n- [ ] not a task\n```") [] None Complete None None
TaskId("P1.M2") "Tabs" Some(TaskId("P1")) [TaskId("P1.M1")] DependencyTypes({}) 3 Some("* a point\n\nAnother paragraph.") ["docs/tabs.md"] None Planned None None
TaskId("P1.M3") "Pages" Some(TaskId("P1")) [] DependencyTypes({}) 0 None [] None Obsolete None None
TaskId("P9") "Writing" None [] DependencyTypes({}) 0 None [] None Planned None None
TaskId("T7") "Out" Some(TaskId("P9")) [] DependencyTypes({}) 0 None [] None Failed None None
TaskId("my-own") "deep" Some(TaskId("T7")) [TaskId("P1.M2"), TaskId("P1.M1")] DependencyTypes({}) 0 None [] None Planned None None
TaskId("P3") "Done" None [] DependencyTypes({}) 0 None [] None Complete None None
TaskId("P3.M1") "All of it" Some(TaskId("P3")) [] DependencyTypes({}) 0 None [] None Complete None None"#,
    );
    assert_eq!(plan.title.as_deref(), Some("The parser"));
    let written = plan.write(TaskListForm::Markdown).unwrap();
    let again = markdown(&written);
    assert_eq!(said(&again), said(&plan), "{written}");
    assert_eq!(again.write(TaskListForm::Markdown).unwrap(), written);
    assert!(written.contains("status: a draft, and no field of a task"), "{written}");
    assert!(written.contains("**Background**\n\nWhy it is.\n"), "{written}");
}

fn insta_like(found: &str, wanted: &str) {
    for (found, wanted) in found.lines().zip(wanted.lines()) {
        assert_eq!(found, wanted);
    }
    assert_eq!(found.lines().count(), wanted.lines().count(), "{found}");
}

#[test]
fn an_insertion_in_the_middle_is_one_task() {
    let old = "# Plan\n## One\n- [x] a\n- [x] b\n- [x] c\n  after b\n## Two\n- [ ] d\n";
    let mut session = through_session(&markdown(old));
    for task in &mut session.tasks {
        task.status = TaskStatus::Complete;
        task.result = serde_json::value::RawValue::from_string(format!("\"{}\"", task.title)).ok();
    }
    let new = markdown(&old.replace("- [x] b\n", "- [ ] new\n- [ ] b\n").replace("[x]", "[ ]"));
    let delta = delta(&session, new);
    assert_eq!(delta.added, [TaskId::from("P1.M4")]);
    assert!(delta.changed.is_empty() && delta.removed.is_empty());
    let open: Vec<&str> = delta
        .plan
        .tasks
        .iter()
        .filter(|task| task.status != TaskStatus::Complete)
        .map(|task| task.title.as_str())
        .collect();
    // A phase with an open task is open itself.
    assert_eq!(open, ["One", "new"]);
    assert_eq!(task(&delta.plan, "b").id, TaskId::from("P1.M2"));
    assert_eq!(task(&delta.plan, "b").result.as_ref().unwrap().get(), "\"b\"");
}

#[test]
fn what_changes_is_done_again_and_what_goes_is_obsolete() {
    let old = markdown(
        "- [x] a\n- [x] b\n  details\n- [x] c\n  depends: a\n- [x] d\n  - [x] e\n- [x] f\n",
    );
    let new = markdown(
        "- [ ] b\n  other details\n- [ ] a\n- [ ] c\n  depends: b\n- [x] f\n  ticked\n- [ ] g\n",
    );
    let delta = delta(&old, new);
    let ids = |titles: &[&str]| -> Vec<TaskId> {
        titles.iter().map(|title| task(&delta.plan, title).id.clone()).collect()
    };
    assert_eq!(delta.kept, ids(&["a"]));
    assert_eq!(delta.changed, ids(&["b", "c", "f"]));
    assert_eq!(delta.added, ids(&["g"]));
    assert_eq!(delta.removed, ids(&["d", "e"]));
    assert_eq!(task(&delta.plan, "a").status, TaskStatus::Complete);
    assert_eq!(task(&delta.plan, "b").status, TaskStatus::Planned);
    assert_eq!(task(&delta.plan, "f").status, TaskStatus::Complete);
    assert_eq!(task(&delta.plan, "e").status, TaskStatus::Obsolete);
    assert_eq!(task(&delta.plan, "e").reason.as_deref(), Some(REMOVED));
    assert_eq!(task(&delta.plan, "c").depends, [task(&old, "b").id.clone()]);
    assert!(old.tasks.iter().all(|task| task.id != delta.added[0]));
    // What stays out is told once.
    let session = through_session(&delta.plan);
    let back = super::delta(&session, markdown("- [ ] d\n- [ ] a\n"));
    assert!(!back.removed.contains(&task(&old, "e").id));
    assert_eq!(task(&back.plan, "e").status, TaskStatus::Obsolete);
}

#[test]
fn what_stopped_half_way_is_planned_and_what_was_given_up_by_hand_stays_so() {
    let document = "- [ ] a\n- [ ] b\n- [ ] c\n- [ ] d\n";
    let mut old = markdown(document);
    let statuses =
        [TaskStatus::Failed, TaskStatus::Implementing, TaskStatus::Blocked, TaskStatus::Obsolete];
    for (task, status) in old.tasks.iter_mut().zip(statuses) {
        task.status = status;
    }
    let delta = delta(&through_session(&old), markdown(document));
    let found: Vec<TaskStatus> = delta.plan.tasks.iter().map(|task| task.status).collect();
    let (planned, blocked) = (TaskStatus::Planned, TaskStatus::Blocked);
    assert_eq!(found, [TaskStatus::Failed, planned, blocked, TaskStatus::Obsolete]);
    assert_eq!(delta.kept.len(), 4);
}

#[test]
fn a_second_heading_of_the_first_level_loses_nothing() {
    let old = markdown("# One\n- [x] a\n- [x] b\n");
    let new = markdown("# One\n- [ ] a\n- [ ] b\n# Two\n- [ ] c\n");
    let delta = delta(&old, new.clone());
    assert_eq!(task(&delta.plan, "a").status, TaskStatus::Complete);
    assert_eq!(task(&delta.plan, "c").status, TaskStatus::Planned);
    let back = super::delta(&new, markdown("# One\n- [ ] a\n- [ ] b\n"));
    assert_eq!(back.kept.len(), 2);
}

#[test]
fn unknown_fields_of_toml_stay() {
    let text = "title = \"x\"\nkind = \"y\"\n\n[[task]]\nid = \"a\"\ntitle = \"A\"\nstatus = \"complete\"\nwhen = 2026-01-02\n\"odd key\" = { x = [1, { y = 2.5 }] }\n\n[owner]\nname = \"ann\"\n";
    let plan = read(TaskListForm::Toml, text);
    let written = plan.write(TaskListForm::Toml).unwrap();
    let value = |text: &str| toml::from_str::<toml::Table>(text).unwrap();
    assert_eq!(value(&written), value(text), "{written}");
    assert_eq!(through_session(&plan).write(TaskListForm::Toml).unwrap(), written);
}

#[test]
fn types_of_dependencies_are_read_written_and_compared() {
    let toml = "[[task]]\nid = \"a\"\ntitle = \"A\"\n\n[[task]]\nid = \"b\"\ntitle = \"B\"\ndepends = [\"a\"]\ndependency_types = { a = \"soft\" }\n";
    let plan = read(TaskListForm::Toml, toml);
    assert_eq!(task(&plan, "B").dependency_types.of(&"a".into()), DependencyType::Soft);
    assert_eq!(plan.write(TaskListForm::Toml).unwrap(), toml);
    assert_eq!(through_session(&plan).write(TaskListForm::Toml).unwrap(), toml);
    let words = "- [ ] A {#a}\n- [ ] B {#b}\n  depends (needs-result): A\n";
    let stricter = markdown(words);
    assert_eq!(task(&stricter, "B").dependency_types.of(&"a".into()), DependencyType::NeedsResult);
    assert_eq!(stricter.write(TaskListForm::Markdown).unwrap(), words);
    assert_eq!(delta(&plan, stricter).changed, [TaskId::from("b")]);
    // Two that would like to know of each other do not wait for each other.
    let both = r#"{"tasks":[{"id":"a","title":"A","depends":["b"],"dependency_types":{"b":"soft"}},{"id":"b","title":"B","depends":["a"]}]}"#;
    assert_eq!(read(TaskListForm::Json, both).tasks.len(), 2);
}

#[test]
fn what_the_prp_form_does_not_say_of_dependencies_stays() {
    let plan = read(
        TaskListForm::Json,
        r#"{"tasks":[{"id":"a","title":"A"},{"id":"b","title":"B"},{"id":"c","title":"C","depends":["a","b"],"dependency_types":{"a":"soft","b":"needs-result"}}]}"#,
    );
    let prp = plan.write(TaskListForm::Prp).unwrap();
    let read_back = read(TaskListForm::Prp, &prp);
    assert_eq!(task(&read_back, "C").depends, [TaskId::from("b")]);
    let delta = delta(&plan, read_back);
    assert_eq!((delta.kept.len(), delta.changed.len()), (3, 0));
    assert_eq!(task(&delta.plan, "C").dependency_types, task(&plan, "C").dependency_types);
}

/// Trees of tasks with dependencies backwards: `(depth, title, …)` of each.
fn plans() -> impl Strategy<Value = TaskList> {
    let odd = "[a-c \\-#`~\\\\\\[\\]x:*{}1.]{0,12}";
    let title = prop_oneof![3 => "[a-d]", 1 => "[a-zA-Z0-9 #`*:{}().\\-é\"\\[\\]]{1,16}"];
    let line = prop_oneof![
        Just("- [ ] box".to_owned()),
        Just("# head".to_owned()),
        Just("```".to_owned()),
        Just("status: failed".to_owned()),
        odd.prop_map(|text: String| text),
    ];
    let details = proptest::option::of(
        proptest::collection::vec(line, 0..5).prop_map(|lines| lines.join("\n")),
    );
    let one = (0usize..4, title, details, -2i64..3, 0usize..8, any::<(bool, u8)>());
    proptest::collection::vec(one, 0..14).prop_map(|items| {
        let mut plan =
            TaskList { form: TaskListForm::Json, title: None, tasks: Vec::new(), foreign: None };
        let mut open: Vec<TaskId> = Vec::new();
        for (at, (depth, title, details, priority, status, (named, other))) in
            items.into_iter().enumerate()
        {
            open.truncate(depth);
            let id = TaskId(if named { format!("id-{at}") } else { format!("Q{at}") });
            let mut task = DocumentTask {
                id: id.clone(),
                title: if title.trim().is_empty() { "blank".into() } else { title.trim().into() },
                parent: open.last().cloned(),
                priority,
                details: details.filter(|details| !details.is_empty()),
                status: TaskStatus::ALL[status],
                ..DocumentTask::default()
            };
            let earlier = plan.tasks.get(usize::from(other)).map(|task| task.id.clone());
            task.depends = earlier.into_iter().filter(|id| !open.contains(id)).collect();
            if other % 5 == 0 {
                task.documents.push(format!("docs/{other}.md"));
                task.check = Some(format!("test -e '{other}' && make \"x\""));
                task.result =
                    serde_json::value::RawValue::from_string(format!("{{\"n\":{other}}}")).ok();
            }
            open.push(id);
            plan.tasks.push(task);
        }
        plan
    })
}

/// The same with dependencies of every type.
fn typed(mut plan: TaskList) -> TaskList {
    for (at, task) in plan.tasks.iter_mut().enumerate() {
        for id in &task.depends {
            task.dependency_types.set(id.clone(), DependencyType::ALL[at % 3]);
        }
    }
    plan
}

/// As Markdown says it: without blank lines at the ends of a text and spaces at the ends of lines.
fn in_markdown(mut plan: TaskList) -> TaskList {
    for task in &mut plan.tasks {
        task.title = task.title.split_whitespace().collect::<Vec<_>>().join(" ");
        let details = task.details.take().unwrap_or_default();
        let lines: Vec<&str> = details.lines().map(str::trim_end).collect();
        let first = lines.iter().position(|line| !line.is_empty());
        let last = lines.iter().rposition(|line| !line.is_empty());
        if let (Some(first), Some(last)) = (first, last) {
            task.details = Some(lines[first..=last].join("\n"));
        }
    }
    plan
}

/// A document without what a session adds: nothing is done, nothing came of it.
fn document(mut plan: TaskList) -> TaskList {
    for task in &mut plan.tasks {
        task.status = TaskStatus::Planned;
        task.result = None;
    }
    plan
}

/// Nobody is at work, and parents are what follows from their parts.
fn settled(mut plan: TaskList) -> TaskList {
    for at in (0..plan.tasks.len()).rev() {
        let id = plan.tasks[at].id.clone();
        let parts = plan.tasks.iter().filter(|task| task.parent.as_ref() == Some(&id));
        let parts: Vec<TaskStatus> = parts.map(|task| task.status).collect();
        let open = parts.iter().any(|status| !status.is_done());
        let complete = parts.contains(&TaskStatus::Complete);
        let task = &mut plan.tasks[at];
        let status = match task.status {
            TaskStatus::Complete if open => TaskStatus::Planned,
            status if status.is_done() || open => status,
            _ if complete => TaskStatus::Complete,
            _ if !parts.is_empty() => TaskStatus::Obsolete,
            status => status,
        };
        let status = if status.is_active() { TaskStatus::Planned } else { status };
        if status != task.status || status == TaskStatus::Planned {
            (task.status, task.result) = (status, None);
        }
    }
    plan
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 400 } else { 4000 }))]

    #[test]
    fn every_form_gives_back_what_it_took(plan in plans()) {
        for form in [TaskListForm::Json, TaskListForm::Toml, TaskListForm::Prp] {
            let plan = if form == TaskListForm::Prp { plan.clone() } else { typed(plan.clone()) };
            let text = plan.write(form).unwrap();
            let again = read(form, &text);
            prop_assert_eq!(said(&again), said(&plan), "{}", text);
            prop_assert_eq!(&again.write(form).unwrap(), &text);
            let stored = through_session(&again);
            prop_assert_eq!(&stored.write(form).unwrap(), &text);
            if form == TaskListForm::Prp {
                let value: Value = serde_json::from_str(&text).unwrap();
                let pretty = serde_json::to_string(&value).unwrap();
                let back = read(form, &pretty).write(form).unwrap();
                prop_assert_eq!(serde_json::from_str::<Value>(&back).unwrap(), value);
            }
        }
        let plan = in_markdown(typed(plan));
        let text = plan.write(TaskListForm::Markdown).unwrap();
        let again = markdown(&text);
        prop_assert_eq!(said(&again), said(&plan), "{}", text);
        let once = again.write(TaskListForm::Markdown).unwrap();
        prop_assert_eq!(said(&markdown(&once)), said(&plan), "{}", once);
    }

    #[test]
    fn the_same_document_keeps_everything(plan in plans()) {
        let old = settled(plan.clone());
        let delta = delta(&old, document(plan));
        prop_assert_eq!(said(&delta.plan), said(&old));
        prop_assert_eq!(delta.kept.len(), old.tasks.len());
        prop_assert!(delta.changed.is_empty() && delta.added.is_empty() && delta.removed.is_empty());
    }

    #[test]
    fn an_insertion_anywhere_is_one_task(plan in plans(), at in any::<prop::sample::Index>(), below: bool) {
        let old = settled(plan.clone());
        let mut new = document(plan);
        let place = at.index(new.tasks.len() + 1);
        let parent = place.checked_sub(1).map(|before| &new.tasks[before]);
        let parent = parent.and_then(|before| if below { Some(before.id.clone()) } else { before.parent.clone() });
        // Its id is that of another task, as it is when ids are made by place.
        let id = old.tasks.last().map_or_else(|| TaskId::from("Q0"), |task| task.id.clone());
        for task in new.tasks.iter_mut().filter(|task| task.id == id) {
            task.id = "shifted".into();
        }
        let shifted: TaskId = "shifted".into();
        let renamed = |one: &TaskId| if *one == id { shifted.clone() } else { one.clone() };
        for task in &mut new.tasks {
            task.parent = task.parent.as_ref().map(renamed);
            task.depends = task.depends.iter().map(renamed).collect();
        }
        let parent = parent.as_ref().map(renamed);
        let title = "the new one".to_owned();
        new.tasks.insert(place, DocumentTask { id, title, parent, ..DocumentTask::default() });
        let delta = delta(&old, new);
        prop_assert_eq!(delta.added.len(), 1);
        prop_assert_eq!(delta.kept.len(), old.tasks.len());
        prop_assert!(delta.changed.is_empty() && delta.removed.is_empty());
        prop_assert!(old.tasks.iter().all(|task| task.id != delta.added[0]));
        let mut above: Vec<TaskId> = Vec::new();
        let mut next = Some(delta.added[0].clone());
        while let Some(id) = next {
            next = delta.plan.tasks.iter().find(|task| task.id == id).and_then(|task| task.parent.clone());
            above.push(id);
        }
        for task in &old.tasks {
            let now = delta.plan.tasks.iter().find(|other| other.id == task.id).unwrap();
            prop_assert_eq!(&now.depends, &task.depends);
            if above.contains(&task.id) {
                prop_assert!(!now.status.is_done());
            } else {
                prop_assert_eq!(now.status, task.status);
            }
        }
    }

    #[test]
    fn a_removal_makes_that_obsolete(plan in plans(), at in any::<prop::sample::Index>()) {
        prop_assume!(!plan.tasks.is_empty());
        let old = settled(plan.clone());
        let gone = plan.tasks[at.index(plan.tasks.len())].id.clone();
        let mut gone = vec![gone];
        for task in &plan.tasks {
            if task.parent.as_ref().is_some_and(|parent| gone.contains(parent)) && !gone.contains(&task.id) {
                gone.push(task.id.clone());
            }
        }
        // The last of those with the same title goes, as nobody can tell them apart.
        let twins = |task: &&DocumentTask| {
            let first = plan.tasks.iter().find(|other| other.id == gone[0]).unwrap();
            task.parent == first.parent && task.title == first.title
        };
        prop_assume!(plan.tasks.iter().filter(twins).count() == 1);
        let mut new = document(plan);
        new.tasks.retain(|task| !gone.contains(&task.id));
        let mut lost = Vec::new();
        for task in &mut new.tasks {
            let before = task.depends.len();
            task.depends.retain(|id| !gone.contains(id));
            if task.depends.len() < before {
                lost.push(task.id.clone());
            }
        }
        let delta = delta(&old, new);
        prop_assert_eq!(&delta.removed, &gone);
        prop_assert_eq!(&delta.changed, &lost);
        prop_assert!(delta.added.is_empty());
        for task in &delta.plan.tasks {
            prop_assert_eq!(gone.contains(&task.id), task.reason.is_some());
            prop_assert!(!gone.contains(&task.id) || task.status == TaskStatus::Obsolete);
        }
    }

    #[test]
    fn siblings_may_change_places(plan in plans(), seed: u64) {
        // Tasks of the same title are told apart by their order alone.
        let mut titles = std::collections::HashSet::new();
        prop_assume!(plan.tasks.iter().all(|task| titles.insert((task.parent.clone(), task.title.clone()))));
        let old = settled(plan.clone());
        let mut new = document(plan);
        let mut keys: Vec<(u64, usize)> = (0..new.tasks.len())
            .map(|at| ((at as u64 + 1).wrapping_mul(seed | 1).rotate_left(17), at))
            .collect();
        keys.sort_unstable();
        new.tasks = keys.iter().map(|(_, at)| new.tasks[*at].clone()).collect();
        crate::delta::order_delta_tasks(&mut new.tasks);
        let delta = delta(&old, new);
        prop_assert_eq!(delta.kept.len(), old.tasks.len());
        prop_assert!(delta.changed.is_empty() && delta.added.is_empty() && delta.removed.is_empty());
        let mut found = said(&delta.plan);
        let mut wanted = said(&old);
        found.sort_unstable();
        wanted.sort_unstable();
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[ \\-\\[\\]x#`\na-c:(){}1.]{0,120}") {
        for form in TaskListForm::ALL {
            if let Ok(plan) = TaskList::read(form, text.as_bytes())
                && let Ok(written) = plan.write(form)
            {
                prop_assert_eq!(said(&read(form, &written)), said(&plan), "{}", written);
            }
        }
    }
}
