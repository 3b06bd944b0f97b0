//! The tasks of a session, as a tree, a table or JSON.

use std::collections::HashSet;

use abide::{
    SessionRef, TaskStatus,
    tasks::{TaskError, TaskId, TaskNode, TaskTree},
};
use abide_transcript::escape;

use super::format::{FormattedTask, ToldTasks, format_task_notes, format_task_progress};
use super::set::parse_task_status as parse_status;
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status, terminal_width};
use crate::error::CommandError;
use crate::session_args::{SessionArg, SessionPurpose};
use crate::task_mark::{task_mark, task_mark_colour};
use crate::text_table::{TableCell, TableColour, TextTable, cut_to_column, table_width_of};

/// What to show, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct TasksListArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Show a tree (the default)
    #[arg(long, conflicts_with_all = ["table", "json"])]
    tree: bool,
    /// Show a table; without a terminal, each task is a line of tab-separated fields: id, status,
    /// ready or waiting, priority, attempts, title
    #[arg(long, conflicts_with = "json")]
    table: bool,
    /// Print one line of JSON for each task, with everything that `abide tasks show` shows
    #[arg(long)]
    json: bool,
    /// Only this task and its parts
    #[arg(long, value_name = "ID")]
    scope: Option<String>,
    /// Only tasks with this status; can be given several times
    #[arg(long, value_name = "STATUS", value_parser = parse_status)]
    status: Vec<TaskStatus>,
    /// Only tasks that can be started now
    #[arg(long)]
    ready: bool,
}

/// Tasks deeper than this are not indented further.
const DEEPEST: usize = 24;

/// A task and what its line needs.
struct TaskRow<'a> {
    task: &'a TaskNode,
    depth: usize,
    ready: bool,
    check: Option<String>,
}

impl TasksListArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::Read, &opened, surroundings)?;
        let view = opened.store.view(&SessionRef::Id(id))?;
        let tree = view.tasks()?;
        let scope = self.scope.clone().map(TaskId);
        if let Some(task) = scope.as_ref().filter(|scope| tree.get(scope.as_str()).is_none()) {
            return Err(abide::Error::from(TaskError::Unknown { task: task.clone() }).into());
        }
        let mut rows = self.rows(&tree, scope.as_ref());
        let mut out = CommandOutput::stdout();
        if self.json {
            let told = ToldTasks::read(&view)?;
            for row in &rows {
                out.json(&FormattedTask::json(&tree, row.task, row.depth, row.ready, &told))?;
            }
            return out.flush();
        }
        for row in &mut rows {
            row.check = view.check_of(row.task)?;
        }
        if tree.is_empty() {
            status("There are no tasks yet; `abide tasks add TITLE` makes one");
            return Ok(());
        }
        if !self.table {
            let coloured = out.is_terminal() && surroundings.colours;
            for row in &rows {
                out.line(task_list_line(&tree, row, terminal_width(), coloured))?;
            }
        } else if out.is_terminal() {
            for line in task_list_table(&tree, &rows) {
                out.line(line)?;
            }
        } else {
            for row in &rows {
                out.line(task_list_fields(&tree, row))?;
            }
            return out.flush();
        }
        out.line(format_task_progress(&tree.progress(scope.as_ref())))?;
        out.flush()
    }

    fn wants(&self, row: &TaskRow<'_>) -> bool {
        (self.status.is_empty() || self.status.contains(&row.task.status))
            && (!self.ready || row.ready)
    }

    /// The matching tasks; in a tree, with their ancestors.
    fn rows<'a>(&self, tree: &'a TaskTree, scope: Option<&TaskId>) -> Vec<TaskRow<'a>> {
        let ready: HashSet<&str> = tree.ready(scope).map(|task| task.id.as_str()).collect();
        let with_parents = !self.table && !self.json;
        let mut rows = Vec::new();
        // Ancestors of the next task that are not shown yet.
        let mut above: Vec<TaskRow<'a>> = Vec::new();
        for (task, depth) in tree.walk(scope) {
            let row = TaskRow { task, depth, ready: ready.contains(task.id.as_str()), check: None };
            while above.last().is_some_and(|above| above.depth >= depth) {
                above.pop();
            }
            if self.wants(&row) {
                rows.append(&mut above);
                rows.push(row);
            } else if with_parents {
                above.push(row);
            }
        }
        rows
    }
}

/// A line of the tree, cut to the width of the terminal.
fn task_list_line(
    tree: &TaskTree,
    row: &TaskRow<'_>,
    most: Option<usize>,
    coloured: bool,
) -> String {
    let task = row.task;
    let indent = "  ".repeat(row.depth.min(DEEPEST));
    let notes = match format_task_notes(tree, task, row.ready, row.check.as_deref()) {
        notes if notes.is_empty() => notes,
        notes => format!(" ({notes})"),
    };
    let head = format!("{indent}{} {}", task_mark(task.status), escape::text(task.id.as_str()));
    let title = escape::text(&task.title);
    let (mut head, mut title, mut notes) = (head, format!(" {title}"), notes);
    if let Some(most) = most {
        head = cut_to_column(&head, most);
        notes = cut_to_column(&notes, (most - table_width_of(&head)) / 2);
        title = cut_to_column(&title, most - table_width_of(&head) - table_width_of(&notes));
    }
    let shade = task_mark_colour(task.status);
    format!(
        "{}{}{}",
        shade.paint(&head, coloured),
        title.trim_end(),
        TableColour::Dim.paint(&notes, coloured)
    )
}

fn task_list_table(tree: &TaskTree, rows: &[TaskRow<'_>]) -> Vec<String> {
    let heading = ["", "TASK", "STATUS", "TRIES", "NOTES", "TITLE"];
    let mut table = TextTable::new(heading).right([3]);
    for row in rows {
        let task = row.task;
        let shade = task_mark_colour(task.status);
        let tries = Some(task.attempts).filter(|tries| *tries > 0);
        table.row([
            TableCell::new(task_mark(task.status).to_owned(), shade),
            TableCell::new(escape::text(task.id.as_str()).into_owned(), TableColour::Bold),
            TableCell::new(task.status.as_str().to_owned(), shade),
            TableCell::plain(tries.map(|tries| tries.to_string()).unwrap_or_default()),
            TableCell::new(
                format_task_notes(tree, task, row.ready, row.check.as_deref()),
                TableColour::Dim,
            ),
            TableCell::plain(escape::text(&task.title).into_owned()),
        ]);
    }
    table.lines()
}

fn task_list_fields(tree: &TaskTree, row: &TaskRow<'_>) -> String {
    let task = row.task;
    let waiting = !task.is_done() && tree.is_waiting(task.id.as_str());
    let can = match (row.ready, waiting) {
        (true, _) => "ready",
        (false, true) => "waiting",
        (false, false) => "",
    };
    format!(
        "{}\t{}\t{can}\t{}\t{}\t{}",
        escape::text(task.id.as_str()),
        task.status.as_str(),
        task.priority,
        task.attempts,
        escape::text(&task.title)
    )
}
