//! Where statuses stand in a task list in Markdown.

use std::ops::Range;

use abide_model::TaskStatus;

use super::line::line_indent;
use super::markdown_reader::{TaskLines, markdown_task_lines};
use crate::TaskListError;
use crate::status_edit::{TextEdit, WantedStatuses};

/// The edits that give tasks their statuses.
pub(crate) fn markdown_status_edits(
    document: &str,
    wanted: WantedStatuses<'_>,
) -> Result<Vec<TextEdit>, TaskListError> {
    let lines = DocumentLines::of(document);
    let mut edits = Vec::new();
    for (task, status) in markdown_task_lines(document)?.iter().zip(wanted) {
        if let Some(status) = *status {
            lines.set_status(task, status, &mut edits);
        }
    }
    Ok(edits)
}

/// The lines of a document, with their ends.
struct DocumentLines<'a> {
    document: &'a str,
    ranges: Vec<Range<usize>>,
}

impl<'a> DocumentLines<'a> {
    fn of(document: &'a str) -> Self {
        let mut start = 0;
        let ranges = document.split_inclusive('\n').map(|line| {
            let range = start..start + line.len();
            start = range.end;
            range
        });
        Self { document, ranges: ranges.collect() }
    }

    /// The range of a line, counted from 1, and the line.
    fn line(&self, number: usize) -> (Range<usize>, &'a str) {
        let range = self.ranges.get(number.wrapping_sub(1)).cloned().unwrap_or_default();
        let line = self.document.get(range.clone()).unwrap_or_default();
        (range, line)
    }

    /// The range of a line with its end. The last line of a document without one has that of the
    /// line before it.
    fn whole_line(&self, number: usize) -> Range<usize> {
        let (range, line) = self.line(number);
        if line.ends_with('\n') {
            return range;
        }
        let before = self.document.get(..range.start).unwrap_or_default();
        let kept = before.strip_suffix('\n').unwrap_or(before);
        kept.strip_suffix('\r').unwrap_or(kept).len()..range.end
    }

    /// Edits the lines of one task.
    fn set_status(&self, task: &TaskLines, status: TaskStatus, edits: &mut Vec<TextEdit>) {
        if let Some(content) = task.content {
            self.check_box(task.title, status, edits);
            if matches!(status, TaskStatus::Planned | TaskStatus::Complete | TaskStatus::Obsolete) {
                for number in &task.statuses {
                    edits.push(TextEdit { range: self.whole_line(*number), text: String::new() });
                }
                return;
            }
            if task.statuses.is_empty() {
                edits.push(self.new_status_line(task.title, content, status));
                return;
            }
        }
        // The last one counts. A heading without one follows its tasks.
        if let Some(number) = task.statuses.last() {
            let (range, line) = self.line(*number);
            let key = line.find(':').map_or(line.len(), |at| at + 1);
            let rest = line.get(key..).unwrap_or_default();
            let start = range.start + key + (rest.len() - rest.trim_start().len());
            let value = start..start + rest.trim().len();
            edits.push(TextEdit { range: value, text: status.as_str().to_owned() });
        }
    }

    /// Sets the mark in a box, unless it means that already.
    fn check_box(&self, title: usize, status: TaskStatus, edits: &mut Vec<TextEdit>) {
        let (range, line) = self.line(title);
        let Some((before, rest)) = line.split_once('[') else { return };
        let Some((mark, _)) = rest.split_once(']') else { return };
        let (means_it, wanted) = match status {
            TaskStatus::Complete => (matches!(mark, "x" | "X"), "x"),
            TaskStatus::Obsolete => (mark == "-", "-"),
            _ => (matches!(mark, " " | ""), " "),
        };
        if !means_it {
            let start = range.start + before.len() + 1;
            let range = start..start + mark.len();
            edits.push(TextEdit { range, text: wanted.to_owned() });
        }
    }

    /// A line below a title that says the status.
    fn new_status_line(&self, title: usize, content: usize, status: TaskStatus) -> TextEdit {
        let (range, line) = self.line(title);
        // As far in as the text of the task, by the same characters where that is possible.
        let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        let lead = line.get(..indent).unwrap_or_default();
        let more = content.saturating_sub(line_indent(lead));
        let end = if self.document.contains("\r\n") { "\r\n" } else { "\n" };
        let said = format!("{lead}{}status: {}", " ".repeat(more), status.as_str());
        let text = if line.ends_with('\n') { said + end } else { format!("{end}{said}") };
        TextEdit { range: range.end..range.end, text }
    }
}
