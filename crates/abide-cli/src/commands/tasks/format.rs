//! Formats a task for people and for programs.

use std::collections::{BTreeMap, HashMap};

use abide::{
    Seq, SessionView, TaskStatus,
    tasks::{
        DependencyType, DependencyTypes, DocumentTask, TaskHistory, TaskId, TaskNode, TaskProgress,
        TaskTree,
    },
};
use abide_transcript::escape;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::CommandError;

/// The most dependencies named on a line.
const NAMED: usize = 3;

/// Notes on a task besides its title, escaped.
pub(super) fn format_task_notes(
    tree: &TaskTree,
    task: &TaskNode,
    ready: bool,
    check: Option<&str>,
) -> String {
    let mut notes = Vec::new();
    if !tree.is_leaf(task.id.as_str()) {
        let progress = tree.progress(Some(&task.id));
        notes.push(format!("{}/{}", progress.done(), progress.all));
    }
    match task.status {
        TaskStatus::Planned if ready => notes.push("ready".to_owned()),
        TaskStatus::Planned | TaskStatus::Complete | TaskStatus::Obsolete => {}
        status => notes.push(status.as_str().to_owned()),
    }
    if let Some(foreign) = &task.foreign {
        notes.push(format!("{foreign:?}"));
    }
    if task.attempts > 1 {
        notes.push(format!("attempt {}", task.attempts));
    }
    if task.priority != 0 {
        notes.push(format!("priority {}", task.priority));
    }
    if !task.is_done() {
        let open = tree.own_waits_for(task.id.as_str()).into_iter().map(|need| &need.id);
        notes.extend(format_few(open.collect()).map(|names| format!("after {names}")));
        let soft = task.dependency_types.iter().filter(|(id, kind)| {
            let done = tree.get(id.as_str()).is_some_and(TaskNode::is_done);
            *kind == DependencyType::Soft && !done
        });
        let soft = format_few(soft.map(|(id, _)| id).collect());
        notes.extend(soft.map(|names| format!("preferably after {names}")));
    }
    notes.extend(check.map(|check| format!("check: {check}")));
    escape::text(&notes.join(", ")).into_owned()
}

/// The first of some tasks; `None` without any.
fn format_few(tasks: Vec<&TaskId>) -> Option<String> {
    let more = format!("{} more", tasks.len().saturating_sub(NAMED));
    let names = tasks.iter().take(NAMED).map(|id| id.as_str());
    let names: Vec<&str> = names.chain((tasks.len() > NAMED).then_some(more.as_str())).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The progress in one line.
pub(super) fn format_task_progress(progress: &TaskProgress) -> String {
    let mut text = format!("{} of {} done", progress.done(), progress.all);
    let rest = [
        (progress.obsolete, "obsolete"),
        (progress.failed, "failed"),
        (progress.blocked, "blocked"),
        (progress.active, "active"),
        (progress.ready, "ready"),
    ];
    for (count, what) in rest.into_iter().filter(|(count, _)| *count > 0) {
        let among = if what == "obsolete" { " of them" } else { "" };
        text.push_str(&format!(", {count}{among} {what}"));
    }
    text
}

/// What the events tell about tasks that the tree does not.
#[derive(Debug, Default)]
pub(super) struct ToldTasks {
    documents: HashMap<TaskId, DocumentTask>,
    histories: BTreeMap<TaskId, TaskHistory>,
}

impl ToldTasks {
    /// Reads the events of a session.
    pub(super) fn read(view: &SessionView) -> Result<Self, CommandError> {
        let documents = view.plan()?.tasks.into_iter().map(|task| (task.id.clone(), task));
        Ok(Self { documents: documents.collect(), histories: view.task_histories()? })
    }

    /// What the task list says about a task.
    pub(super) fn document(&self, task: &TaskId) -> Option<&DocumentTask> {
        self.documents.get(task)
    }

    /// What happened to a task.
    pub(super) fn history(&self, task: &TaskId) -> Option<&TaskHistory> {
        self.histories.get(task)
    }
}

/// A task as a line of JSON.
#[derive(Serialize)]
pub(super) struct FormattedTask<'a> {
    task: &'a TaskId,
    title: &'a str,
    status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    foreign: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a TaskId>,
    depth: usize,
    leaf: bool,
    ready: bool,
    depends: &'a [TaskId],
    /// Those that do not just block.
    #[serde(skip_serializing_if = "DependencyTypes::is_empty")]
    dependency_types: &'a DependencyTypes,
    /// Only its own: each ancestor has a line of its own.
    waits_for: Vec<&'a TaskId>,
    priority: i64,
    attempts: u64,
    failures: u64,
    created: Seq,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    documents: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_session: Option<&'a str>,
    progress: TaskProgress,
    #[serde(skip_serializing_if = "Option::is_none")]
    details_text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_value: Option<&'a RawValue>,
    document_names: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    document_texts: Option<&'a BTreeMap<String, String>>,
    #[serde(flatten)]
    history: Option<&'a TaskHistory>,
}

impl<'a> FormattedTask<'a> {
    pub(super) fn json(
        tree: &'a TaskTree,
        task: &'a TaskNode,
        depth: usize,
        ready: bool,
        told: &'a ToldTasks,
    ) -> String {
        let id = task.id.as_str();
        let document = told.document(&task.id);
        let texts = document.map(|document| &document.document_texts);
        let waits_for = if task.is_done() { Vec::new() } else { tree.own_waits_for(id) };
        let listed = Self {
            task: &task.id,
            title: &task.title,
            status: task.status,
            foreign: task.foreign.as_deref(),
            parent: task.parent.as_ref(),
            depth,
            leaf: tree.is_leaf(id),
            ready,
            depends: &task.depends,
            dependency_types: &task.dependency_types,
            waits_for: waits_for.into_iter().map(|task| &task.id).collect(),
            priority: task.priority,
            attempts: task.attempts,
            failures: task.failures,
            created: task.created,
            result: task.result,
            details: task.details,
            documents: task.documents,
            check: document.and_then(|document| document.check.as_deref()),
            agent_session: task.agent_session.as_deref(),
            progress: tree.progress(Some(&task.id)),
            details_text: document.and_then(|document| document.details.as_deref()),
            result_value: document.and_then(|document| document.result.as_deref()),
            document_names: document.map(|document| &*document.documents).unwrap_or_default(),
            document_texts: texts.filter(|texts| !texts.is_empty()),
            history: told.history(&task.id),
        };
        serde_json::to_string(&listed).unwrap_or_default()
    }
}
