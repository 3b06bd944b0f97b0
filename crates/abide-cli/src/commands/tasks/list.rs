//! The tasks of a session, as a tree, a table or JSON.

use std::collections::HashSet;

use abide::{
    SessionRef, TaskStatus,
    tasks::{TaskError, TaskId, TaskNode, TaskTree},
};
use abide_transcript::escape;

use super::set::status as parse_status;
use super::shown::{ListedTask, notes, progress};
use crate::context::CommandContext;
use crate::error::CommandError;
use crate::output::{CommandOutput, status, terminal_width};
use crate::session_args::{SessionArg, SessionPurpose};
use crate::table::{Cell, Colour, TextTable, cut, width};
use crate::task_mark::{colour, mark};

/// What to show, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct TasksListArgs {
    #[command(flatten)]
    session: SessionArg,
    /// As a tree, which is so anyway
    #[arg(long, conflicts_with_all = ["table", "json"])]
    tree: bool,
    /// As a table; without a terminal each is a line of fields with tabs between: id, status,
    /// ready or waiting, priority, attempts, title
    #[arg(long, conflicts_with = "json")]
    table: bool,
    /// Each as a line of JSON
    #[arg(long)]
    json: bool,
    /// Only this task and its parts
    #[arg(long, value_name = "ID")]
    scope: Option<String>,
    /// Only those of this status; can be given several times
    #[arg(long, value_name = "STATUS", value_parser = parse_status)]
    status: Vec<TaskStatus>,
    /// Only those that can be begun now
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
        let opened = surroundings.open()?;
        let id = self.session.find(SessionPurpose::Read, &opened, surroundings)?;
        let view = opened.store.view(&SessionRef::Id(id))?;
        let tree = view.tasks()?;
        let scope = self.scope.clone().map(TaskId);
        if let Some(task) = scope.as_ref().filter(|scope| tree.get(scope.as_str()).is_none()) {
            return Err(abide::Error::from(TaskError::Unknown { task: task.clone() }).into());
        }
        let mut rows = self.rows(&tree, scope.as_ref());
        for row in &mut rows {
            row.check = view.check_of(row.task)?;
        }
        let mut out = CommandOutput::stdout();
        if self.json {
            for row in &rows {
                let check = row.check.as_deref();
                out.json(&ListedTask::json(&tree, row.task, row.depth, row.ready, check))?;
            }
            return out.flush();
        }
        if tree.is_empty() {
            status("There are no tasks yet; `abide tasks add TITLE` makes one");
            return Ok(());
        }
        if !self.table {
            let coloured = out.is_terminal() && surroundings.colours;
            for row in &rows {
                out.line(line(&tree, row, terminal_width(), coloured))?;
            }
        } else if out.is_terminal() {
            for line in table(&tree, &rows) {
                out.line(line)?;
            }
        } else {
            for row in &rows {
                out.line(fields(&tree, row))?;
            }
            return out.flush();
        }
        out.line(progress(&tree.progress(scope.as_ref())))?;
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
fn line(tree: &TaskTree, row: &TaskRow<'_>, most: Option<usize>, coloured: bool) -> String {
    let task = row.task;
    let indent = "  ".repeat(row.depth.min(DEEPEST));
    let notes = match notes(tree, task, row.ready, row.check.as_deref()) {
        notes if notes.is_empty() => notes,
        notes => format!(" ({notes})"),
    };
    let head = format!("{indent}{} {}", mark(task.status), escape::text(task.id.as_str()));
    let title = escape::text(&task.title);
    let (mut head, mut title, mut notes) = (head, format!(" {title}"), notes);
    if let Some(most) = most {
        head = cut(&head, most);
        notes = cut(&notes, (most - width(&head)) / 2);
        title = cut(&title, most - width(&head) - width(&notes));
    }
    let shade = colour(task.status);
    format!(
        "{}{}{}",
        shade.paint(&head, coloured),
        title.trim_end(),
        Colour::Dim.paint(&notes, coloured)
    )
}

fn table(tree: &TaskTree, rows: &[TaskRow<'_>]) -> Vec<String> {
    let heading = ["", "TASK", "STATUS", "TRIES", "NOTES", "TITLE"];
    let mut table = TextTable::new(heading).right([3]);
    for row in rows {
        let task = row.task;
        let shade = colour(task.status);
        let tries = Some(task.attempts).filter(|tries| *tries > 0);
        table.row([
            Cell::new(mark(task.status).to_owned(), shade),
            Cell::new(escape::text(task.id.as_str()).into_owned(), Colour::Bold),
            Cell::new(task.status.as_str().to_owned(), shade),
            Cell::plain(tries.map(|tries| tries.to_string()).unwrap_or_default()),
            Cell::new(notes(tree, task, row.ready, row.check.as_deref()), Colour::Dim),
            Cell::plain(escape::text(&task.title).into_owned()),
        ]);
    }
    table.lines()
}

fn fields(tree: &TaskTree, row: &TaskRow<'_>) -> String {
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
