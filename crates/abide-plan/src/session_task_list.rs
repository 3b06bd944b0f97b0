//! The task list of a session.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use abide_model::{
    Event, Fact, Seq, SessionState, TaskCreated, TaskListRecord, TaskState, TaskStatus, is_check,
};

use crate::delta::order_delta_tasks;
use crate::{DocumentTask, TaskList, TaskListForm};

/// The events that hold what a state does not hold about its tasks.
pub type TaskListEvents = BTreeMap<Seq, Event>;

impl TaskList {
    /// The events that [`TaskList::of_session`] needs.
    #[must_use]
    pub fn sources(state: &SessionState) -> BTreeSet<Seq> {
        let mut seqs = BTreeSet::new();
        seqs.extend(session_list_record(state));
        for (_, task) in state.tasks.iter().filter(|(_, task)| task.known) {
            seqs.insert(task.created);
            let told = [task.result, task.details, task.documents, task.check];
            seqs.extend(told.into_iter().flatten());
            // The reason is repeated for whoever continues from here.
            if let TaskStatus::Obsolete | TaskStatus::Blocked | TaskStatus::Failed = task.status {
                seqs.insert(task.changed);
            }
        }
        seqs
    }

    /// The tasks of a session as a task list, from its state and the events of [`TaskList::sources`].
    /// Erased data is left out. Without a recorded task list the format is plain JSON.
    #[must_use]
    pub fn of_session(state: &SessionState, sources: &TaskListEvents) -> Self {
        let mut known: Vec<(&str, &TaskState)> =
            state.tasks.iter().filter(|(_, task)| task.known).collect();
        known.sort_by_key(|(_, task)| task.order);
        let mut facts: HashMap<Seq, Option<Fact>> = HashMap::new();
        let mut tasks: Vec<DocumentTask> = Vec::with_capacity(known.len());
        let there =
            |id: &&abide_model::TaskId| state.tasks.get(id.as_str()).is_some_and(|task| task.known);
        for (id, task) in known {
            let mut fact = |seq: Option<Seq>| {
                let seq = seq?;
                let read = || sources.get(&seq).and_then(|event| event.fact().ok());
                facts.entry(seq).or_insert_with(read).clone()
            };
            let created = match fact(Some(task.created)) {
                Some(Fact::TaskCreated(created)) => created,
                _ => TaskCreated::default(),
            };
            let details = match fact(task.details) {
                Some(Fact::TaskCreated(fact)) => fact.details,
                Some(Fact::TaskChanged(fact)) => fact.details,
                _ => None,
            };
            let (documents, mut document_texts) = match fact(task.documents) {
                Some(Fact::TaskCreated(fact)) => (fact.documents, fact.document_texts),
                Some(Fact::TaskChanged(fact)) => {
                    (fact.documents.unwrap_or_default(), fact.document_texts)
                }
                _ => Default::default(),
            };
            document_texts.retain(|name, _| documents.contains(name));
            let check = match fact(task.check) {
                Some(Fact::TaskCreated(fact)) => fact.check,
                Some(Fact::TaskChanged(fact)) => fact.check,
                _ => None,
            };
            let result = match fact(task.result) {
                Some(Fact::TaskStatus(fact)) => fact.result,
                _ => None,
            };
            let reason = match fact(Some(task.changed)) {
                Some(Fact::TaskStatus(fact)) => fact.reason,
                _ => None,
            };
            // A state holds only the start of a title, and sorts dependencies.
            let whole = created.title == task.title
                || created.title.starts_with(&task.title)
                    && sources
                        .get(&task.created)
                        .is_some_and(|event| session_holds_task(event, id, task));
            let mut depends: Vec<_> = task.depends.iter().filter(there).cloned().collect();
            let mut first = created.depends;
            first.retain(|id| depends.contains(id));
            if depends.iter().all(|id| first.contains(id)) {
                depends = first;
            }
            tasks.push(DocumentTask {
                id: id.into(),
                title: if whole { created.title } else { task.title.clone() },
                parent: task.parent.as_ref().filter(there).cloned(),
                dependency_types: task.dependency_types.among(&depends),
                depends,
                priority: task.priority,
                details: details.filter(|details| !details.is_empty()),
                documents,
                document_texts,
                check: check.filter(|check| is_check(check)),
                status: task.status,
                foreign_status: task.foreign.clone(),
                reason,
                result,
                foreign: created.foreign,
            });
        }
        order_delta_tasks(&mut tasks);
        let record = session_list_record(state).and_then(|seq| sources.get(&seq)?.fact().ok());
        let session = || state.core.fields.title.clone();
        match record {
            Some(Fact::PlanRecorded(TaskListRecord { form, title, foreign })) => {
                Self { form: form.parse().unwrap_or(TaskListForm::Json), title, tasks, foreign }
            }
            _ => Self { form: TaskListForm::Json, title: session(), tasks, foreign: None },
        }
    }
}

/// Does the state hold the start of the title that this event creates the task with?
fn session_holds_task(created: &Event, id: &str, task: &TaskState) -> bool {
    let mut state = SessionState::default();
    state.apply(created);
    state.tasks.get(id).is_some_and(|held| held.title == task.title)
}

/// The event that recorded the task list of the first task: right before it.
fn session_list_record(state: &SessionState) -> Option<Seq> {
    let known = state.tasks.iter().filter(|(_, task)| task.known);
    known.map(|(_, task)| task.created).min().map(|first| first.back(1))
}
