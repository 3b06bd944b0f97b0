//! Reads a task list in Markdown.

use abide_model::TaskStatus;

use super::field::MarkdownField;
use super::line::{LineFence, MarkdownLine, line_indent, parse_markdown_line, unescape_line};
use super::name;
use crate::arrange::{MAX_TASKS, TaskNaming, arrange};
use crate::draft::{DraftPlace, TaskDraft};
use crate::json::json_text;
use crate::task_list::as_foreign;
use crate::{TaskList, TaskListError, TaskListFault, TaskListForm};

/// A heading or a checkbox, to which text can belong.
#[derive(Debug, Default)]
struct MarkdownNode {
    draft: TaskDraft,
    /// The level of a heading; `None` for a checkbox.
    level: Option<usize>,
    indent: usize,
    content: usize,
    /// The words of a heading, verbatim.
    words: String,
    /// The fields in the lines right below the title, each with its line.
    fields: Vec<(MarkdownField, String)>,
    /// The numbers of those lines that say its status.
    statuses: Vec<usize>,
    lines: Vec<String>,
    /// The status was given in words, not by a checkbox.
    stated: bool,
    /// It is a task, or a heading with a task somewhere below.
    task: bool,
}

impl MarkdownNode {
    /// Applies its fields; if it is not a task, they are text.
    fn settle(&mut self) {
        let fields = std::mem::take(&mut self.fields);
        if !self.task {
            self.lines.splice(..0, fields.into_iter().map(|(_, line)| line));
            return;
        }
        for (field, _) in fields {
            let draft = &mut self.draft;
            match field {
                MarkdownField::Depends(kind, name) => {
                    draft.dependency_types.insert(name.clone(), kind);
                    draft.depends.push(name);
                }
                MarkdownField::Priority(priority) => draft.priority = priority,
                MarkdownField::Document(document) => draft.documents.push(document),
                MarkdownField::Check(check) => draft.check = Some(check),
                MarkdownField::Status(standing) => {
                    (draft.status, draft.foreign_status) = standing;
                    self.stated = true;
                }
                MarkdownField::Result(result) => draft.result = Some(result),
            }
        }
    }
}

/// Reads a document.
pub(crate) fn read_markdown(document: &str) -> Result<TaskList, TaskListError> {
    TaskMarkdownReader::of(document)?.finish()
}

/// The lines of a task that say its status, counted from 1.
#[derive(Debug)]
pub(super) struct TaskLines {
    /// Its title.
    pub(super) title: usize,
    /// The column of its text, if it is a checkbox.
    pub(super) content: Option<usize>,
    /// The lines `status: …` below the title.
    pub(super) statuses: Vec<usize>,
}

/// The lines of each task, in the order of the task list.
pub(super) fn markdown_task_lines(document: &str) -> Result<Vec<TaskLines>, TaskListError> {
    let mut reader = TaskMarkdownReader::of(document)?;
    reader.take_title();
    let lines = reader.nodes.into_iter().filter(|node| node.task).map(|node| TaskLines {
        title: match node.draft.place {
            DraftPlace::Line(number) => number,
            DraftPlace::Json(..) => 0,
        },
        content: node.level.is_none().then_some(node.content),
        statuses: node.statuses,
    });
    Ok(lines.collect())
}

#[derive(Default)]
struct TaskMarkdownReader {
    nodes: Vec<MarkdownNode>,
    /// The open headings, outermost first.
    headings: Vec<usize>,
    /// The open checkboxes below the last heading.
    boxes: Vec<usize>,
    /// The text before everything else.
    front: Vec<String>,
    fences: LineFence,
    /// The owner of a fenced block, and the indentation of the block.
    fenced: (Option<usize>, usize),
    /// The last line was blank.
    blank: bool,
    /// The last line was the title of this node or one of its fields.
    fields_of: Option<usize>,
}

impl TaskMarkdownReader {
    fn of(document: &str) -> Result<Self, TaskListError> {
        let mut reader = Self::default();
        for (number, line) in document.lines().enumerate() {
            reader.line(number + 1, line)?;
        }
        Ok(reader)
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), TaskListError> {
        let was_open = self.fences.is_open();
        if self.fences.hold(line) {
            if !was_open {
                self.fenced = self.owner(line_indent(line));
                self.separate(self.fenced.0);
            }
            self.text(self.fenced.0, self.fenced.1, line);
            (self.blank, self.fields_of) = (false, None);
            return Ok(());
        }
        match parse_markdown_line(line) {
            MarkdownLine::Heading { level, text } => {
                self.pop_headings(level);
                self.boxes.clear();
                let parent = self.headings.last().copied();
                let at = self.push(number, text, parent)?;
                self.headings.push(at);
                if let Some(node) = self.nodes.get_mut(at) {
                    node.level = Some(level);
                }
            }
            MarkdownLine::Checkbox { indent, content, status, text } => {
                while self.box_indent().is_some_and(|open| open >= indent) {
                    self.boxes.pop();
                }
                let parent = self.boxes.last().or(self.headings.last()).copied();
                let at = self.push(number, text, parent)?;
                self.boxes.push(at);
                if let Some(node) = self.nodes.get_mut(at) {
                    (node.indent, node.content) = (indent, content);
                    node.draft.status = status;
                    node.task = true;
                }
                self.headings.iter().for_each(|at| {
                    if let Some(node) = self.nodes.get_mut(*at) {
                        node.task = true;
                    }
                });
            }
            MarkdownLine::Fence { .. } | MarkdownLine::Text => {
                if line.trim().is_empty() {
                    (self.blank, self.fields_of) = (true, None);
                    let last = self.boxes.last().or(self.headings.last()).copied();
                    self.text(last, 0, "");
                    return Ok(());
                }
                if let Some(node) = self.fields_of.and_then(|at| self.nodes.get_mut(at))
                    && let Some(field) = MarkdownField::read(line)
                {
                    if let MarkdownField::Status(_) = field {
                        node.statuses.push(number);
                    }
                    node.fields.push((field, line.trim().to_owned()));
                    return Ok(());
                }
                let (owner, content) = self.owner(line_indent(line));
                self.separate(owner);
                self.text(owner, content, &unescape_line(line));
                (self.blank, self.fields_of) = (false, None);
            }
        }
        Ok(())
    }

    fn push(
        &mut self,
        number: usize,
        text: &str,
        parent: Option<usize>,
    ) -> Result<usize, TaskListError> {
        let place = DraftPlace::Line(number);
        let text = name::name_on_one_line(text);
        let name = name::read_task_name(&text);
        let draft = TaskDraft {
            id: name.id.map(str::to_owned),
            title: name.title.to_owned(),
            parent,
            depends: name.after.map(str::to_owned).into_iter().collect(),
            place,
            ..TaskDraft::default()
        };
        let at = self.nodes.len();
        if at >= 2 * MAX_TASKS {
            let fault = TaskListFault::TooMany { limit: MAX_TASKS };
            return Err(TaskListError::at(format!("line {number}"), fault));
        }
        self.nodes.push(MarkdownNode { draft, words: text, ..MarkdownNode::default() });
        (self.blank, self.fields_of) = (false, Some(at));
        Ok(at)
    }

    fn pop_headings(&mut self, level: usize) {
        let open = |at: &usize| self.nodes.get(*at).and_then(|node| node.level);
        while self.headings.last().and_then(open).is_some_and(|open| open >= level) {
            self.headings.pop();
        }
    }

    fn box_indent(&self) -> Option<usize> {
        self.boxes.last().and_then(|at| self.nodes.get(*at)).map(|node| node.indent)
    }

    /// The owner of text at this column, and the column where its text starts. Without a blank line
    /// before it, text continues what was last.
    fn owner(&mut self, column: usize) -> (Option<usize>, usize) {
        let of = |at: usize| self.nodes.get(at).map_or(0, |node| node.content);
        let inside = |at: &&usize| self.nodes.get(**at).is_some_and(|node| node.indent < column);
        let found = match self.boxes.last() {
            Some(last) if !self.blank => Some(last),
            _ => self.boxes.iter().rev().find(inside),
        };
        match found.copied() {
            Some(at) => (Some(at), of(at)),
            None => (self.headings.last().copied(), 0),
        }
    }

    /// Starts a new paragraph if text comes later than the rest of its owner's text.
    fn separate(&mut self, owner: Option<usize>) {
        let lines = match owner.and_then(|at| self.nodes.get_mut(at)) {
            Some(node) => &mut node.lines,
            None => &mut self.front,
        };
        if self.blank && lines.last().is_some_and(|line| !line.is_empty()) {
            lines.push(String::new());
        }
    }

    /// Adds a line of text without the indentation of its owner.
    fn text(&mut self, owner: Option<usize>, content: usize, line: &str) {
        let mut rest = line;
        let mut column = 0;
        while column < content {
            match rest.chars().next() {
                Some(' ') => column += 1,
                Some('\t') => column += 4 - column % 4,
                _ => break,
            }
            rest = rest.get(1..).unwrap_or_default();
        }
        let lines = match owner.and_then(|at| self.nodes.get_mut(at)) {
            Some(node) => &mut node.lines,
            None => &mut self.front,
        };
        lines.push(rest.trim_end().to_owned());
    }

    fn finish(mut self) -> Result<TaskList, TaskListError> {
        let title = self.take_title();
        self.nodes.iter_mut().for_each(MarkdownNode::settle);
        self.fold_headings();
        self.derive_headings();
        // Only tasks stay; their parents get new numbers.
        let mut numbers = vec![None; self.nodes.len()];
        let mut drafts = Vec::with_capacity(self.nodes.len());
        for (at, node) in self.nodes.into_iter().enumerate() {
            if !node.task {
                continue;
            }
            if let Some(number) = numbers.get_mut(at) {
                *number = Some(drafts.len());
            }
            let mut draft = node.draft;
            draft.parent = draft.parent.and_then(|at| numbers.get(at).copied().flatten());
            draft.details = joined_markdown_lines(node.lines);
            draft.foreign = node.level.and_then(|level| {
                as_foreign(TaskListForm::Markdown, &format!("{{\"level\":{level}}}"))
            });
            drafts.push(draft);
        }
        let tasks = arrange(drafts, TaskNaming::IdsAndTitles, "")?;
        let foreign = joined_markdown_lines(self.front).and_then(|front| {
            as_foreign(TaskListForm::Markdown, &format!("{{\"text\":{}}}", json_text(&front)))
        });
        Ok(TaskList { form: TaskListForm::Markdown, title, tasks, foreign })
    }

    /// Takes out the first heading if it is the only one of the first level: the document's title.
    fn take_title(&mut self) -> Option<String> {
        let top = self.nodes.iter().filter(|node| node.level == Some(1)).count();
        let first = self.nodes.first_mut().filter(|node| top == 1 && node.level == Some(1))?;
        first.task = false;
        first.settle();
        join_markdown_lines(&mut self.front, &mut first.lines);
        first.draft = TaskDraft { place: first.draft.place, ..TaskDraft::default() };
        let title = std::mem::take(&mut first.words);
        // Its children become roots.
        for node in self.nodes.iter_mut().skip(1) {
            node.draft.parent = node.draft.parent.filter(|parent| *parent != 0);
        }
        Some(title)
    }

    /// Moves the text of a heading without tasks to the heading above it.
    fn fold_headings(&mut self) {
        for at in 0..self.nodes.len() {
            let Some(node) = self.nodes.get_mut(at) else { continue };
            if node.task || node.level.is_none() || node.words.is_empty() {
                continue;
            }
            let mut lines = vec![format!("**{}**", node.words)];
            join_markdown_lines(&mut lines, &mut node.lines);
            let mut above = node.draft.parent;
            while let Some(parent) = above.and_then(|at| self.nodes.get(at)) {
                if parent.task {
                    break;
                }
                above = parent.draft.parent;
            }
            match above.and_then(|at| self.nodes.get_mut(at)) {
                Some(parent) => join_markdown_lines(&mut parent.lines, &mut lines),
                None => join_markdown_lines(&mut self.front, &mut lines),
            }
        }
    }

    /// Derives the status of a heading from its tasks: done when they all are.
    fn derive_headings(&mut self) {
        let mut parts: Vec<(u64, u64, u64)> = vec![(0, 0, 0); self.nodes.len()];
        for at in (0..self.nodes.len()).rev() {
            let Some(node) = self.nodes.get_mut(at).filter(|node| node.task) else { continue };
            let counts = parts.get(at).copied().unwrap_or_default();
            if node.level.is_some() && !node.stated {
                node.draft.status = derived_heading_status(counts);
            }
            let status = node.draft.status;
            let above = node.draft.parent.and_then(|parent| parts.get_mut(parent));
            if let Some((all, complete, obsolete)) = above {
                *all += 1;
                *complete += u64::from(status == TaskStatus::Complete);
                *obsolete += u64::from(status == TaskStatus::Obsolete);
            }
        }
    }
}

/// The status of a heading from its parts: how many in all, complete and obsolete.
pub(super) const fn derived_heading_status(
    (all, complete, obsolete): (u64, u64, u64),
) -> TaskStatus {
    if complete + obsolete < all || all == 0 {
        TaskStatus::Planned
    } else if complete > 0 {
        TaskStatus::Complete
    } else {
        TaskStatus::Obsolete
    }
}

/// Appends a text to another one, with one blank line between.
fn join_markdown_lines(lines: &mut Vec<String>, more: &mut Vec<String>) {
    let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    lines.truncate(end);
    if end > 0 {
        lines.push(String::new());
    }
    let start = more.iter().position(|line| !line.is_empty()).unwrap_or(more.len());
    lines.extend(more.drain(..).skip(start));
}

/// Lines as one text, without blank lines at either end.
fn joined_markdown_lines(lines: Vec<String>) -> Option<String> {
    let first = lines.iter().position(|line| !line.is_empty())?;
    let last = lines.iter().rposition(|line| !line.is_empty())?;
    Some(lines.get(first..=last)?.join("\n"))
}
