//! A task list as a session records it: marks may take the place of parts of its texts.

use abide_model::{Fact, NewEvent, TaskCreated};

use crate::{DocumentTask, TaskList};

impl TaskList {
    /// The task list as a session gives it back, if each event is recorded as `record` returns it: with
    /// marks in place of secrets. What a document says is compared in this form with what a session
    /// holds. A task that cannot be recorded stays as it is.
    #[must_use]
    pub fn as_recorded(mut self, record: impl Fn(NewEvent) -> NewEvent) -> Self {
        let list = self.recorded().ok().and_then(|event| changed_fact(event, &record));
        if let Some(Fact::PlanRecorded(list)) = list {
            self.title = list.title;
            self.foreign = list.foreign;
        }
        for task in &mut self.tasks {
            let fact = task.created().ok().and_then(|event| changed_fact(event, &record));
            if let Some(Fact::TaskCreated(fact)) = fact {
                task.take_fact(fact);
            }
        }
        self
    }
}

impl DocumentTask {
    /// Takes over all that the fact says about the task. Its status stays.
    fn take_fact(&mut self, fact: TaskCreated) {
        *self = Self {
            id: fact.task,
            title: fact.title,
            parent: fact.parent,
            depends: fact.depends,
            dependency_types: fact.dependency_types,
            priority: fact.priority,
            details: fact.details,
            documents: fact.documents,
            document_texts: fact.document_texts,
            check: fact.check,
            foreign: fact.foreign,
            ..std::mem::take(self)
        };
    }
}

/// What an event says as it is recorded, if that differs.
fn changed_fact(event: NewEvent, record: &impl Fn(NewEvent) -> NewEvent) -> Option<Fact> {
    let before = event.data.clone();
    let after = record(event);
    if after.data == before {
        return None;
    }
    Fact::decode(&after.kind, &after.data).ok()
}

#[cfg(test)]
mod tests {
    use abide_model::TaskStatus;

    use super::*;
    use crate::{TaskListForm, delta};

    const PLAN: &str = r#"{"title":"For SECRET","owner":"SECRET","tasks":[
        {"id":"SECRET","title":"Use SECRET","details":"It is\nSECRET","check":"test SECRET","status":"done","tag":"SECRET"},
        {"id":"b","title":"Then","depends":["SECRET"],"documents":["SECRET.md"]}]}"#;

    /// Puts a mark with these digits in the place of the secret.
    fn marks(digits: &str) -> impl Fn(NewEvent) -> NewEvent {
        let mark = format!("‹redacted:env:{digits}›");
        move |event: NewEvent| {
            let text = event.to_json().replace("SECRET", &mark);
            NewEvent::parse(&text).unwrap()
        }
    }

    fn read(text: &str) -> TaskList {
        TaskList::read(TaskListForm::Json, text.as_bytes()).unwrap()
    }

    #[test]
    fn every_text_is_as_it_is_recorded_and_the_status_stays() {
        let list = read(PLAN).as_recorded(marks("0123abcd"));
        assert!(!format!("{list:?}").contains("SECRET"), "{list:?}");
        let [first, second] = &list.tasks[..] else { panic!("two") };
        assert_eq!(first.details.as_deref(), Some("It is\n‹redacted:env:0123abcd›"));
        assert_eq!(first.status, TaskStatus::Complete);
        assert_eq!(second.depends, std::slice::from_ref(&first.id));
        let again = list.clone().as_recorded(marks("0123abcd"));
        assert_eq!(format!("{again:?}"), format!("{list:?}"));
        let plain = read(r#"{"tasks":[{"title":"A"}]}"#);
        let same = plain.clone().as_recorded(marks("0123abcd"));
        assert_eq!(format!("{same:?}"), format!("{plain:?}"));
    }

    #[test]
    fn nothing_has_changed_although_marks_were_recorded() {
        let old = read(PLAN).as_recorded(marks("0123abcd"));
        // With the same key, with that of another machine, and with more digits.
        for digits in ["0123abcd", "99999999", "0123456789abcdef0123456789abcdef"] {
            let found = delta(&old, read(PLAN).as_recorded(marks(digits)));
            assert_eq!(found.kept.len(), 2, "{found:?}");
            assert!(found.changed.is_empty() && found.added.is_empty() && found.removed.is_empty());
            assert_eq!(found.plan.tasks[0].status, TaskStatus::Complete);
        }
        let edited = PLAN.replace("It is", "It was").replace("Then", "Later");
        let found = delta(&old, read(&edited).as_recorded(marks("99999999")));
        let counts = [&found.kept, &found.changed, &found.added, &found.removed].map(Vec::len);
        assert_eq!(counts, [0, 1, 1, 1], "{found:?}");
    }
}
