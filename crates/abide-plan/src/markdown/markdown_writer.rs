//! Writes a task list in Markdown.

use std::collections::{HashMap, HashSet};

use abide_model::{DependencyType, TaskId, TaskStatus};

use super::field::MarkdownField;
use super::line::{LineFence, escape_line};
use super::markdown_reader::derived_heading_status;
use super::name::{self, name_on_one_line};
use crate::arrange::{MAX_DEPTH, arranged_id};
use crate::json::{compact_json, json_object_fields, json_parts_by_parent};
use crate::task_list::foreign_of;
use crate::{DocumentTask, TaskList, TaskListError, TaskListForm, status};

/// The deepest heading level.
const DEEPEST: usize = 6;
/// Down to which depth tasks of other formats become headings.
const PHASES: usize = 3;

/// Writes a document.
pub(crate) fn write_markdown(plan: &TaskList) -> Result<String, TaskListError> {
    let names = MarkdownDependencyNames::of(plan);
    let mut writer = TaskMarkdownWriter {
        parts: json_parts_by_parent(plan),
        names,
        form: plan.form,
        out: String::new(),
    };
    if let Some(title) =
        plan.title.as_deref().map(name_on_one_line).filter(|title| !title.is_empty())
    {
        writer.out.push_str(&format!("# {}\n", closed_markdown_heading(&title)));
    }
    let kept = foreign_of(plan.foreign.as_deref(), TaskListForm::Markdown);
    let front = kept.as_deref().and_then(|kept| {
        let front = json_object_fields(kept.get())?.into_iter().find(|(name, _)| name == "text")?;
        serde_json::from_str::<String>(front.1.get()).ok()
    });
    if let Some(front) = front {
        writer.blank();
        writer.text(&front, 0);
    }
    writer.list(None, &ListNesting { depth: 0, level: 1, indent: None })?;
    Ok(writer.out)
}

/// The position of a list of tasks.
struct ListNesting {
    depth: usize,
    /// The level of the heading above.
    level: usize,
    /// The indentation of the checkboxes; `None` below a heading.
    indent: Option<usize>,
}

struct TaskMarkdownWriter<'a> {
    parts: HashMap<Option<&'a TaskId>, Vec<&'a DocumentTask>>,
    names: MarkdownDependencyNames<'a>,
    form: TaskListForm,
    out: String,
}

/// How dependencies are named: by title, which stays when positions change, or by an id written
/// with the task if the title is not usable.
struct MarkdownDependencyNames<'a> {
    titles: HashMap<&'a TaskId, String>,
    by_id: HashSet<&'a TaskId>,
}

impl<'a> MarkdownDependencyNames<'a> {
    fn of(plan: &'a TaskList) -> Self {
        let ids: HashSet<&str> = plan.tasks.iter().map(|task| task.id.as_str()).collect();
        let mut counts: HashMap<String, usize> = HashMap::new();
        for task in &plan.tasks {
            *counts.entry(name_on_one_line(&task.title)).or_default() += 1;
        }
        let named: HashSet<&TaskId> = plan.tasks.iter().flat_map(|task| &task.depends).collect();
        let mut names = Self { titles: HashMap::new(), by_id: HashSet::new() };
        for task in plan.tasks.iter().filter(|task| named.contains(&task.id)) {
            let title = name_on_one_line(&task.title);
            if counts.get(&title) == Some(&1) && !ids.contains(title.as_str()) {
                names.titles.insert(&task.id, title);
            } else {
                names.by_id.insert(&task.id);
            }
        }
        names
    }
}

impl TaskMarkdownWriter<'_> {
    fn list(&mut self, parent: Option<&TaskId>, above: &ListNesting) -> Result<(), TaskListError> {
        let tasks = self.parts.get(&parent).cloned().unwrap_or_default();
        // Everything after a heading is below it, so headings come last.
        let headings = match above.indent {
            None => tasks.iter().rev().take_while(|task| self.is_heading(task, above)).count(),
            Some(_) => 0,
        };
        let boxes = tasks.len() - headings;
        if boxes > 0 && above.indent.is_none() {
            self.blank();
        }
        for (number, task) in tasks.iter().enumerate() {
            let place = arranged_id(parent.map(TaskId::as_str), above.depth, number + 1);
            let placed = place == task.id.as_str() && !self.names.by_id.contains(&task.id);
            let words = markdown_title_line(task, placed)?;
            if above.depth >= MAX_DEPTH {
                return Err(unwritable_markdown(task, "it is nested too deeply"));
            }
            let below = if number < boxes {
                let indent = above.indent.unwrap_or(0);
                let mark = match task.status {
                    TaskStatus::Complete => 'x',
                    TaskStatus::Obsolete => '-',
                    _ => ' ',
                };
                self.out.extend(std::iter::repeat_n(' ', indent));
                self.out.push_str(&format!("- [{mark}] {words}\n"));
                ListNesting { depth: above.depth + 1, level: above.level, indent: Some(indent + 2) }
            } else {
                let level = self.level(task).unwrap_or(0).clamp(above.level + 1, DEEPEST);
                self.blank();
                self.out.extend(std::iter::repeat_n('#', level));
                self.out.push_str(&format!(" {}\n", closed_markdown_heading(&words)));
                ListNesting { depth: above.depth + 1, level, indent: None }
            };
            self.about(task, &below)?;
            self.list(Some(&task.id), &below)?;
        }
        Ok(())
    }

    /// The heading level of a task in its own document.
    fn level(&self, task: &DocumentTask) -> Option<usize> {
        let kept = foreign_of(task.foreign.as_deref(), TaskListForm::Markdown)?;
        let fields = json_object_fields(kept.get())?;
        let (_, level) = fields.into_iter().find(|(name, _)| name == "level")?;
        level.get().parse().ok()
    }

    fn is_heading(&self, task: &DocumentTask, above: &ListNesting) -> bool {
        let wanted = match self.form {
            TaskListForm::Markdown => self.level(task).is_some(),
            _ => above.depth < PHASES,
        };
        wanted && above.level < DEEPEST && self.parts.contains_key(&Some(&task.id))
    }

    /// The lines below a task's title: fields that the title does not express, and the description.
    fn about(&mut self, task: &DocumentTask, below: &ListNesting) -> Result<(), TaskListError> {
        let indent = below.indent.unwrap_or(0);
        let mut lines = Vec::new();
        let word = status::status_word(task);
        let shown = match (task.status, below.indent) {
            (status, None) => status == self.derived(&task.id),
            (status, Some(_)) => {
                matches!(status, TaskStatus::Planned | TaskStatus::Complete | TaskStatus::Obsolete)
            }
        };
        if !shown || word.is_some() {
            lines.push(format!("status: {}", word.unwrap_or_else(|| task.status.as_str())));
        }
        let names = &self.names.titles;
        lines.extend(task.depends.iter().map(|id| {
            let name = names.get(id).map_or(id.as_str(), String::as_str);
            match task.dependency_types.of(id) {
                DependencyType::Blocks => format!("depends: {name}"),
                kind => format!("depends ({kind}): {name}"),
            }
        }));
        if task.priority != 0 {
            lines.push(format!("priority: {}", task.priority));
        }
        for document in task.documents.iter().filter(|document| !document.is_empty()) {
            if document.trim() != document || document.contains('\n') {
                return Err(unwritable_markdown(
                    task,
                    "the name of a document has a line break or outer spaces",
                ));
            }
            lines.push(format!("document: {document}"));
        }
        if let Some(check) = &task.check {
            if check.trim() != check || check.contains('\n') {
                return Err(unwritable_markdown(
                    task,
                    "its check has a line break or outer spaces",
                ));
            }
            lines.push(format!("check: {check}"));
        }
        lines.extend(
            task.result.iter().map(|result| format!("result: {}", compact_json(result.get()))),
        );
        for line in lines {
            self.out.extend(std::iter::repeat_n(' ', indent));
            self.out.push_str(&line);
            self.out.push('\n');
        }
        if let Some(details) = &task.details {
            let first = details.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            if below.indent.is_none() || MarkdownField::read(first).is_some() {
                self.blank();
            }
            self.text(details, indent);
        }
        Ok(())
    }

    /// The status of a heading, derived from what is below it.
    fn derived(&self, task: &TaskId) -> TaskStatus {
        let parts = self.parts.get(&Some(task));
        let count = |wanted: Option<TaskStatus>| {
            let fits = |task: &&&DocumentTask| wanted.is_none_or(|wanted| task.status == wanted);
            parts.into_iter().flatten().filter(fits).count() as u64
        };
        let (complete, obsolete) = (Some(TaskStatus::Complete), Some(TaskStatus::Obsolete));
        derived_heading_status((count(None), count(complete), count(obsolete)))
    }

    /// A blank line, unless at the start.
    fn blank(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// Writes text line by line, escaped so that it is read as text.
    fn text(&mut self, text: &str, indent: usize) {
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let first = lines.iter().position(|line| !line.is_empty()).unwrap_or(lines.len());
        let last = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        let lines = lines.get(first..last).unwrap_or_default();
        let mut until = 0;
        for (at, line) in lines.iter().enumerate() {
            if at >= until {
                until = markdown_code_end(lines, at);
            }
            let line = if at < until { (*line).to_owned() } else { escape_line(line) };
            if !line.is_empty() {
                self.out.extend(std::iter::repeat_n(' ', indent));
                self.out.push_str(&line);
            }
            self.out.push('\n');
        }
    }
}

/// The line after the code block that starts here; this line if there is none or it is not closed.
fn markdown_code_end(lines: &[&str], at: usize) -> usize {
    let mut fences = LineFence::default();
    for (count, line) in lines.iter().skip(at).enumerate() {
        if !fences.hold(line) {
            return at;
        }
        if !fences.is_open() {
            return at + count + 1;
        }
    }
    at
}

/// The title line of a task, without its id if that is the id of its position.
fn markdown_title_line(task: &DocumentTask, placed: bool) -> Result<String, TaskListError> {
    let title = name_on_one_line(&task.title);
    if title.is_empty() {
        return Err(unwritable_markdown(task, "it has no title"));
    }
    let id = task.id.as_str();
    let plain =
        name::read_task_name(&title) == name::TaskLabel { id: None, title: &title, after: None };
    if plain && placed {
        return Ok(title);
    }
    let led = format!("`{id}` {title}");
    if plain
        && name::read_task_name(&led)
            == (name::TaskLabel { id: Some(id), title: &title, after: None })
    {
        return Ok(led);
    }
    if id.is_empty()
        || id.contains(|c: char| c.is_whitespace() || c.is_control() || "{}".contains(c))
    {
        return Err(unwritable_markdown(task, "its id contains spaces or braces"));
    }
    Ok(format!("{title} {{#{id}}}"))
}

/// The words of a heading, protected from number signs at the end, which would close it.
fn closed_markdown_heading(words: &str) -> String {
    if words.ends_with('#') { format!("{words} #") } else { words.to_owned() }
}

fn unwritable_markdown(task: &DocumentTask, reason: &'static str) -> TaskListError {
    TaskListError::Unwritable { task: task.id.to_string(), form: TaskListForm::Markdown, reason }
}
