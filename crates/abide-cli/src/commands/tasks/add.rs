//! `abide tasks add`: adds a task.

use abide::tasks::{DependencyType, DependencyTypes, TaskCreated, TaskError, TaskId, TaskTree};

use super::depend::add_dependencies;
use super::writing;
use crate::command_context::CommandContext;
use crate::error::CommandError;
use crate::session_args::SessionOption;

/// Add a task
///
/// Without --id, the task gets the next free id: P1, P2 … at the top level, then P1.M1, P1.M1.T1,
/// P1.M1.T1.S1 by depth.
#[derive(Debug, clap::Args)]
pub(crate) struct TasksAddArgs {
    /// What to do, in one line
    #[arg(value_name = "TITLE")]
    title: String,
    #[command(flatten)]
    session: SessionOption,
    /// Id of the task
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// The task that this one is a part of
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// A task that must be complete or obsolete first; can be given several times
    #[arg(long, value_name = "ID")]
    depends: Vec<String>,
    /// A task that must be complete first, because its result is used; can be given several times
    #[arg(long, value_name = "ID")]
    needs_result: Vec<String>,
    /// A related task that need not be done first; can be given several times
    #[arg(long, value_name = "ID")]
    soft: Vec<String>,
    /// Priority; a higher number goes first
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i64,
    /// What to do, in detail
    #[arg(long, value_name = "TEXT")]
    details: Option<String>,
    /// Path or URL of a document for the task; can be given several times
    #[arg(long, value_name = "PATH")]
    document: Vec<String>,
    /// Shell command that decides whether the task is done; `abide run` asks before running it
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Print {"items":…,"writes_saved":…,"tasks":[…]}
    #[arg(long)]
    json: bool,
}

impl TasksAddArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        if self.title.trim().is_empty() {
            return Err(CommandError::Usage("a task needs a title".to_owned()));
        }
        let mut tasks = writing::open_session_tasks(&self.session, surroundings)?;
        let parent = self.parent.map(TaskId);
        let unknown = |parent: &&TaskId| tasks.tree().get(parent.as_str()).is_none();
        if let Some(task) = parent.as_ref().filter(unknown) {
            return Err(abide::Error::from(TaskError::Unknown { task: task.clone() }).into());
        }
        let mut depends = Vec::new();
        let mut dependency_types = DependencyTypes::default();
        let wanted = [
            (DependencyType::Blocks, self.depends),
            (DependencyType::NeedsResult, self.needs_result),
            (DependencyType::Soft, self.soft),
        ];
        for (kind, ids) in wanted {
            add_dependencies(&mut depends, &mut dependency_types, kind, ids);
        }
        let task = TaskCreated {
            task: self.id.clone().map(TaskId).unwrap_or_default(),
            title: self.title,
            parent,
            depends,
            dependency_types,
            priority: self.priority,
            details: self.details,
            documents: self.document,
            check: self.check,
            ..TaskCreated::default()
        };
        match self.id {
            Some(_) => tasks.create(task)?,
            None => {
                tasks.create_next(task, next_added_id)?;
            }
        }
        writing::write_tasks(tasks, self.json)
    }
}

/// Phase, milestone, task, subtask; everything deeper is a subtask.
const LETTERS: [char; 4] = ['P', 'M', 'T', 'S'];

/// The next free id among the parts of a task.
fn next_added_id(tree: &TaskTree, parent: Option<&TaskId>) -> TaskId {
    let depth = parent.map_or(0, |parent| tree.title_path(parent.as_str()).len());
    let letter = LETTERS.get(depth).or(LETTERS.last()).copied().unwrap_or('S');
    let stem = match parent {
        Some(parent) => format!("{parent}.{letter}"),
        None => letter.to_string(),
    };
    let number = |id: &TaskId| id.as_str().strip_prefix(&stem)?.parse::<u64>().ok();
    let last = match parent {
        Some(parent) => tree.children(parent.as_str()).filter_map(|task| number(&task.id)).max(),
        None => tree.roots().filter_map(|task| number(&task.id)).max(),
    };
    let mut next = last.unwrap_or(0).saturating_add(1);
    while tree.get(&format!("{stem}{next}")).is_some() {
        next = next.wrapping_add(1);
    }
    TaskId(format!("{stem}{next}"))
}
