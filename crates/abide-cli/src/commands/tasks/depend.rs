//! `abide tasks depend`: changes the dependencies of a task.

use abide::tasks::{TaskChange, TaskError, TaskId};

use super::written;
use crate::context::CommandContext;
use crate::error::CommandError;
use crate::session_args::SessionOption;

/// Say what a task depends on
///
/// A task waits until all that it depends on is complete or obsolete, and so do its parts. Tasks
/// that would wait for each other are refused.
#[derive(Debug, clap::Args)]
pub(crate) struct TasksDependArgs {
    /// The task
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    session: SessionOption,
    /// It depends on this; can be given several times
    #[arg(long, value_name = "ID", required_unless_present = "off")]
    on: Vec<String>,
    /// It does not depend on this any more; can be given several times
    #[arg(long, value_name = "ID")]
    off: Vec<String>,
    /// Print {"items":…,"writes_saved":…,"tasks":[…]}
    #[arg(long)]
    json: bool,
}

impl TasksDependArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let mut tasks = written::open(&self.session, surroundings)?;
        let task = TaskId(self.id);
        let node = tasks.tree().get(task.as_str());
        let node = node.ok_or_else(|| unknown(&task))?;
        let mut depends = node.depends.clone();
        for off in self.off {
            let place = depends.iter().position(|depend| depend.as_str() == off);
            let place = place.ok_or_else(|| {
                CommandError::failed(format!("task {task} does not depend on {off}"))
            })?;
            depends.remove(place);
        }
        depends.extend(self.on.into_iter().map(TaskId));
        tasks.change(TaskChange { task, depends: Some(depends), ..TaskChange::default() })?;
        written::write(tasks, self.json)
    }
}

fn unknown(task: &TaskId) -> CommandError {
    abide::Error::from(TaskError::Unknown { task: task.clone() }).into()
}
