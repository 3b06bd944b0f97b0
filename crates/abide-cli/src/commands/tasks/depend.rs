//! `abide tasks depend`: changes the dependencies of a task.

use abide::tasks::{DependencyType, DependencyTypes, TaskChange, TaskError, TaskId};

use super::writing;
use crate::command_context::CommandContext;
use crate::error::CommandError;
use crate::session_args::SessionOption;

/// Set what a task depends on
///
/// A task and its parts wait until all tasks that it depends on are complete or obsolete. With
/// --needs-result it waits until the other task is complete; with --soft it does not wait. Each
/// option also changes the type of an existing dependency. Circular dependencies are refused.
#[derive(Debug, clap::Args)]
pub(crate) struct TasksDependArgs {
    /// The task
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    session: SessionOption,
    /// Depend on this task; can be given several times
    #[arg(
        long,
        value_name = "ID",
        required_unless_present_any = ["off", "needs_result", "soft"]
    )]
    on: Vec<String>,
    /// Depend on the result of this task, which must be complete; can be given several times
    #[arg(long, value_name = "ID")]
    needs_result: Vec<String>,
    /// Note this task as related, without waiting for it; can be given several times
    #[arg(long, value_name = "ID")]
    soft: Vec<String>,
    /// Remove the dependency on this task; can be given several times
    #[arg(long, value_name = "ID")]
    off: Vec<String>,
    /// Print {"items":…,"writes_saved":…,"tasks":[…]}
    #[arg(long)]
    json: bool,
}

impl TasksDependArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let mut tasks = writing::open_session_tasks(&self.session, surroundings)?;
        let task = TaskId(self.id);
        let node = tasks.tree().get(task.as_str());
        let node = node.ok_or_else(|| unknown_dependency_error(&task))?;
        let mut depends = node.depends.clone();
        let mut dependency_types = node.dependency_types.clone();
        for off in self.off {
            // An event may say so; a state never has it. What is written now says that it is not.
            if off == task.as_str() {
                continue;
            }
            let place = depends.iter().position(|depend| depend.as_str() == off);
            let place = place.ok_or_else(|| {
                CommandError::failed(format!("task {task} does not depend on {off}"))
            })?;
            depends.remove(place);
        }
        let wanted = [
            (DependencyType::Blocks, self.on),
            (DependencyType::NeedsResult, self.needs_result),
            (DependencyType::Soft, self.soft),
        ];
        for (kind, ids) in wanted {
            add_dependencies(&mut depends, &mut dependency_types, kind, ids);
        }
        let dependency_types = dependency_types.among(&depends);
        let depends = Some(depends);
        tasks.change(TaskChange { task, depends, dependency_types, ..TaskChange::default() })?;
        writing::write_tasks(tasks, self.json)
    }
}

/// Adds dependencies of one type. Of a task that is named twice, the last type counts.
pub(super) fn add_dependencies(
    depends: &mut Vec<TaskId>,
    types: &mut DependencyTypes,
    kind: DependencyType,
    ids: Vec<String>,
) {
    for id in ids.into_iter().map(TaskId) {
        types.set(id.clone(), kind);
        if !depends.contains(&id) {
            depends.push(id);
        }
    }
}

fn unknown_dependency_error(task: &TaskId) -> CommandError {
    abide::Error::from(TaskError::Unknown { task: task.clone() }).into()
}
