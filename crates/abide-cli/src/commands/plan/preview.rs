//! Shows the tasks that an agent answered with: as a tree, or as JSON.

use std::collections::HashMap;

use abide::{
    SessionId, TaskStatus,
    tasks::{TaskId, TaskList, TaskListDocument, TaskListMatch},
};
use abide_transcript::escape;
use serde::Serialize;

use crate::command_output::{CommandOutput, status};
use crate::error::CommandError;
use crate::noun_count::noun_count;
use crate::task_mark::task_mark;

/// How a plan relates to the sessions of its document.
pub(super) enum PlannedMatch {
    /// A session has exactly these tasks.
    There {
        /// The session.
        session: SessionId,
        /// Its tasks, as they are now.
        plan: Box<TaskList>,
    },
    /// Any other way.
    Other(TaskListMatch),
}

/// The plan of a text, before and after it was imported.
#[derive(Serialize)]
pub(super) struct PlanPreview {
    session: Option<SessionId>,
    /// `new`, `delta` or `same`.
    outcome: &'static str,
    imported: bool,
    /// The session that recorded the agent's answer.
    planned_in: SessionId,
    title: Option<String>,
    tasks: Vec<PreviewedTask>,
}

/// A task of a plan.
#[derive(Serialize)]
struct PreviewedTask {
    task: TaskId,
    title: String,
    status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<TaskId>,
    depth: usize,
    depends: Vec<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<String>,
}

impl PlanPreview {
    /// The plan as it would be after the import.
    pub(super) fn of(
        document: &TaskListDocument,
        matched: &PlannedMatch,
        planned_in: SessionId,
    ) -> Self {
        let (outcome, session, plan) = match matched {
            PlannedMatch::There { session, plan } => ("same", Some(*session), &**plan),
            PlannedMatch::Other(TaskListMatch::Same(id)) => ("same", Some(*id), &document.plan),
            PlannedMatch::Other(TaskListMatch::New) => ("new", None, &document.plan),
            PlannedMatch::Other(TaskListMatch::Edited { delta, .. }) => {
                ("delta", None, &delta.plan)
            }
        };
        let (title, tasks) = (document.plan.title.clone(), previewed_tasks(plan));
        Self { session, outcome, imported: false, planned_in, title, tasks }
    }

    /// Notes the session that has the tasks now.
    pub(super) fn imported(&mut self, session: SessionId) {
        (self.session, self.imported) = (Some(session), true);
    }

    /// Prints it as a tree.
    pub(super) fn show(&self) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        for task in &self.tasks {
            let mut notes = Vec::new();
            if !task.depends.is_empty() {
                let names: Vec<&str> = task.depends.iter().map(TaskId::as_str).collect();
                notes.push(format!("after {}", names.join(", ")));
            }
            notes.extend(task.check.as_ref().map(|check| format!("check: {check}")));
            let mut line = format!("{} {} {}", task_mark(task.status), task.task, task.title);
            if !notes.is_empty() {
                line.push_str(&format!(" ({})", notes.join(", ")));
            }
            out.line(format_args!("{}{}", "  ".repeat(task.depth), escape::text(&line)))?;
        }
        out.flush()?;
        let count = self.tasks.len();
        let tasks = noun_count(count, "task");
        status(match self.outcome {
            "delta" => format!("{tasks}; the earlier plan continues in a new session"),
            "same" => format!("{tasks}, all planned already"),
            _ => tasks,
        });
        Ok(())
    }

    /// Prints it as a line of JSON.
    pub(super) fn print(&self) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        out.json(&serde_json::to_string(self).unwrap_or_default())?;
        out.flush()
    }
}

fn previewed_tasks(plan: &TaskList) -> Vec<PreviewedTask> {
    let mut depths: HashMap<&TaskId, usize> = HashMap::new();
    let mut tasks = Vec::with_capacity(plan.tasks.len());
    for task in &plan.tasks {
        let above = task.parent.as_ref().and_then(|parent| depths.get(parent));
        let depth = above.map_or(0, |depth| depth + 1);
        depths.insert(&task.id, depth);
        tasks.push(PreviewedTask {
            task: task.id.clone(),
            title: task.title.clone(),
            status: task.status,
            parent: task.parent.clone(),
            depth,
            depends: task.depends.clone(),
            check: task.check.clone(),
            details: task.details.clone(),
        });
    }
    tasks
}
