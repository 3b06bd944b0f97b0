//! `abide tasks export`: exports the tasks of a session as a plan document.

use std::collections::HashSet;
use std::path::PathBuf;

use abide::{
    SessionRef,
    tasks::{TaskError, TaskId, TaskList, TaskListForm},
};
use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::error::CommandError;
use crate::export_target::ExportTarget;
use crate::session_args::{SessionArg, SessionPurpose};

/// Write a session's tasks as a plan document
///
/// In the format of the imported plan, everything that the plan said is written again; any other
/// format leaves out what it cannot represent.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide tasks export -o tasks.json
  abide tasks export abc123 --format markdown --scope P1.M2")]
pub(crate) struct TasksExportArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Output format: prp, markdown, toml or json [default: that of the plan, else json]
    #[arg(long, value_name = "FORM")]
    format: Option<TaskListForm>,
    /// Write to this file, pipe or device; a file appears only when it is complete [default:
    /// stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only this task, its parts and the tasks that contain it
    #[arg(long, value_name = "ID")]
    scope: Option<String>,
}

impl TasksExportArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::Read, &opened, surroundings)?;
        let mut plan = opened.store.view(&SessionRef::Id(id))?.plan()?;
        if let Some(scope) = self.scope {
            narrow_task_export(&mut plan, TaskId(scope))?;
        }
        let text = plan.write(self.format.unwrap_or(plan.form)).map_err(abide::Error::from)?;
        let mut target = ExportTarget::of(self.output.map(|path| surroundings.absolute(&path)))?;
        if target.is_terminal() {
            target.text(&escape::lines(&text))?;
        } else {
            target.text(&text)?;
        }
        target.finish()
    }
}

/// Keeps a task, its parts and its ancestors, and drops dependencies on the rest.
fn narrow_task_export(plan: &mut TaskList, scope: TaskId) -> Result<(), CommandError> {
    let parent = |id: &TaskId| {
        plan.tasks.iter().find(|task| task.id == *id).and_then(|task| task.parent.clone())
    };
    if !plan.tasks.iter().any(|task| task.id == scope) {
        return Err(abide::Error::from(TaskError::Unknown { task: scope }).into());
    }
    let mut wanted: HashSet<TaskId> = HashSet::new();
    let mut above = Some(scope.clone());
    while let Some(id) = above {
        above = parent(&id);
        wanted.insert(id);
    }
    // Parts come after what they are part of.
    let mut inside = HashSet::from([scope]);
    for task in &plan.tasks {
        if task.parent.as_ref().is_some_and(|parent| inside.contains(parent)) {
            inside.insert(task.id.clone());
        }
    }
    wanted.extend(inside);
    plan.tasks.retain(|task| wanted.contains(&task.id));
    for task in &mut plan.tasks {
        task.depends.retain(|id| wanted.contains(id));
        task.dependency_types = task.dependency_types.among(&task.depends);
    }
    Ok(())
}
