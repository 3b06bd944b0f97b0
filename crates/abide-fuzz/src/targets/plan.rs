//! Plan documents of every form: whatever can be read can be written and is read the same again,
//! is told by events, and differs in nothing from itself.

use abide_model::{Seq, SessionState, Timestamp};
use abide_plan::{TaskList, TaskListError, TaskListEvents, TaskListForm, delta};

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let mut is_accepted = false;
    for form in TaskListForm::ALL {
        let Ok(plan) = TaskList::read(form, data) else { continue };
        is_accepted = true;
        let text = plan.write(form).unwrap_or_else(|error| panic!("{form}: {error}"));
        let again = TaskList::read(form, text.as_bytes())
            .unwrap_or_else(|error| panic!("{form}: {error}\n{text}"));
        assert_eq!(said(&again), said(&plan), "{form}:\n{text}");
        assert_eq!(again.write(form).as_ref(), Ok(&text), "{form}");
        let kept = delta(&plan, again);
        assert_eq!(kept.kept.len(), plan.tasks.len(), "{form}");
        recorded(form, &plan, &text);
        for other in TaskListForm::ALL {
            match plan.write(other) {
                Ok(text) => {
                    let back = TaskList::read(other, text.as_bytes());
                    let back = back.unwrap_or_else(|error| panic!("{other}: {error}\n{text}"));
                    assert_eq!(back.tasks.len(), plan.tasks.len(), "{other}:\n{text}");
                }
                Err(error) => assert!(matches!(error, TaskListError::Unwritable { .. }), "{error}"),
            }
        }
    }
    is_accepted
}

/// Recorded in a session it is the same plan.
fn recorded(form: TaskListForm, plan: &TaskList, text: &str) {
    let mut state = SessionState::default();
    let mut sources = TaskListEvents::new();
    // Numbers that a payload cannot hold are refused when they are recorded.
    let Ok(events) = plan.events() else { return };
    for (at, event) in events.into_iter().enumerate() {
        let event = event.into_event(Seq(at as u64 + 1), Timestamp::from_millis(0));
        assert_eq!(state.apply(&event), None, "{form}: {}", event.to_json());
        sources.insert(event.seq, event);
    }
    if !plan.tasks.is_empty() {
        assert_eq!(
            TaskList::of_session(&state, &sources).write(form).as_deref(),
            Ok(text),
            "{form}"
        );
    }
}

/// What a plan says, in a form that can be compared.
fn said(plan: &TaskList) -> Vec<String> {
    let tasks = plan.tasks.iter().map(|task| {
        format!(
            "{:?} {:?} {:?} {:?} {:?} {} {:?} {:?} {:?} {:?} {:?} {:?}",
            task.id,
            task.title,
            task.parent,
            task.depends,
            task.dependency_types,
            task.priority,
            task.details,
            task.documents,
            task.check,
            task.status,
            task.foreign_status,
            task.result.as_ref().map(|result| result.get()),
        )
    });
    tasks.collect()
}
