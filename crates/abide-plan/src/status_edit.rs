//! Changes statuses in the text of a document, and no other byte of it.

use std::ops::Range;

use abide_model::{TaskId, TaskStatus};

use crate::matching::TaskMatcher;
use crate::{DocumentTask, TaskList, TaskListError, TaskListForm, json, markdown, toml};

/// The text that a range of a document is replaced by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextEdit {
    pub(crate) range: Range<usize>,
    pub(crate) text: String,
}

/// The statuses that tasks of a document are to get, in the order of its task list; `None` for those
/// that stay.
pub(crate) type WantedStatuses<'a> = &'a [Option<TaskStatus>];

impl TaskList {
    /// The document, whose text this is, with other statuses: in the order of the tasks, `None` for
    /// those that stay as they are. In Markdown a box is checked, and a status that no box has stands
    /// in a line `status: …` below it; the status of a heading follows from what is below it and is
    /// changed only where it is written. Every other byte stays.
    ///
    /// # Errors
    ///
    /// The text is not this document, or cannot be changed without changing more than statuses.
    pub fn with_statuses(
        &self,
        text: &str,
        wanted: &[Option<TaskStatus>],
    ) -> Result<String, TaskListError> {
        let body = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mark = text.get(..text.len() - body.len()).unwrap_or_default();
        let differs = |(task, wanted): (&DocumentTask, &Option<TaskStatus>)| {
            wanted.filter(|wanted| *wanted != task.status)
        };
        let wanted: Vec<Option<TaskStatus>> = self.tasks.iter().zip(wanted).map(differs).collect();
        if wanted.iter().all(Option::is_none) {
            return Ok(text.to_owned());
        }
        let mut edits = match self.form {
            TaskListForm::Markdown => markdown::markdown_status_edits(body, &wanted)?,
            TaskListForm::Json => json::json_status_edits(&json::PLAIN, body, &wanted),
            TaskListForm::Prp => json::json_status_edits(&json::PRP, body, &wanted),
            TaskListForm::Toml => toml::toml_status_edits(body, &wanted)?,
        };
        edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
        let mut out = mark.to_owned();
        let mut done = 0;
        for edit in &edits {
            out.push_str(body.get(done..edit.range.start).unwrap_or_default());
            out.push_str(&edit.text);
            done = edit.range.end;
        }
        out.push_str(body.get(done..).unwrap_or_default());
        self.check_edited(&out, &wanted)?;
        Ok(out)
    }

    /// Checks that an edited text says the same as this document but for the statuses.
    fn check_edited(&self, text: &str, wanted: WantedStatuses<'_>) -> Result<(), TaskListError> {
        let refused = |task: &DocumentTask| TaskListError::Unwritable {
            task: task.id.to_string(),
            form: self.form,
            reason: "its status cannot be changed without changing more of the text",
        };
        let edited = Self::read(self.form, text.as_bytes())?;
        let statuses = wanted.iter().copied().chain(std::iter::repeat(None));
        for ((at, before), wanted) in self.tasks.iter().enumerate().zip(statuses) {
            let after = edited.tasks.get(at).filter(|after| is_same_but_status(before, after));
            let after = after.ok_or_else(|| refused(before))?;
            let follows = self.form == TaskListForm::Markdown && before.foreign.is_some();
            // The status of a heading may follow from those below it.
            if !follows && after.status != wanted.unwrap_or(before.status) {
                return Err(refused(before));
            }
        }
        match edited.tasks.get(self.tasks.len()) {
            Some(more) => Err(refused(more)),
            None => Ok(()),
        }
    }

    /// For each task of an edited document the task of this list that it is.
    #[must_use]
    pub fn matching_ids(&self, edited: &Self) -> Vec<Option<TaskId>> {
        let gone = |id: &TaskId| {
            self.tasks.iter().any(|task| task.id == *id && DocumentTask::is_removed(task))
        };
        let found = TaskMatcher::new(self, edited).find(gone);
        let id = |at: usize| self.tasks.get(at).map(|task| task.id.clone());
        found.into_iter().map(|at| at.and_then(id)).collect()
    }
}

/// Do two tasks say the same but for their statuses?
fn is_same_but_status(before: &DocumentTask, after: &DocumentTask) -> bool {
    let result = |task: &DocumentTask| task.result.as_ref().map(|result| result.get().to_owned());
    before.id == after.id
        && before.title == after.title
        && before.parent == after.parent
        && before.depends == after.depends
        && before.dependency_types == after.dependency_types
        && before.priority == after.priority
        && before.details == after.details
        && before.documents == after.documents
        && before.document_texts == after.document_texts
        && before.check == after.check
        && result(before) == result(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [TaskStatus; 8] = [
        TaskStatus::Planned,
        TaskStatus::Researching,
        TaskStatus::Implementing,
        TaskStatus::Retrying,
        TaskStatus::Complete,
        TaskStatus::Failed,
        TaskStatus::Blocked,
        TaskStatus::Obsolete,
    ];

    /// Sets the status of the task with this title.
    fn set(form: TaskListForm, text: &str, title: &str, status: TaskStatus) -> String {
        let list = TaskList::read(form, text.as_bytes()).unwrap();
        let wanted: Vec<_> =
            list.tasks.iter().map(|task| (task.title == title).then_some(status)).collect();
        list.with_statuses(text, &wanted).unwrap()
    }

    /// The lines that differ, as a person sees them.
    fn changed(before: &str, after: &str) -> Vec<String> {
        let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
        let gone = old.iter().filter(|line| !new.contains(line)).map(|line| format!("-{line}"));
        let come = new.iter().filter(|line| !old.contains(line)).map(|line| format!("+{line}"));
        gone.chain(come).collect()
    }

    const MARKDOWN: &str = "# Plan\n\nWords, `- [ ] not a task`.\n\n## Phase\n\n* [X]  Shouted\n1. [ ] One  \n   depends: Two\n\n   Details.\n   ```\n   - [ ] One\n   ```\n   - [-] Inner\n- [ ] Two\n  status: blocked\n  priority: 3\n\ttail";

    #[test]
    fn a_box_is_checked_and_nothing_else_changes() {
        let form = TaskListForm::Markdown;
        for (title, status, wanted) in [
            ("One", TaskStatus::Complete, &["-1. [ ] One  ", "+1. [x] One  "][..]),
            ("One", TaskStatus::Obsolete, &["-1. [ ] One  ", "+1. [-] One  "]),
            ("One", TaskStatus::Failed, &["+   status: failed"]),
            ("Shouted", TaskStatus::Complete, &[]),
            ("Shouted", TaskStatus::Planned, &["-* [X]  Shouted", "+* [ ]  Shouted"]),
            (
                "Inner",
                TaskStatus::Implementing,
                &["-   - [-] Inner", "+   - [ ] Inner", "+     status: implementing"],
            ),
            ("Two", TaskStatus::Failed, &["-  status: blocked", "+  status: failed"]),
            ("Two", TaskStatus::Complete, &["-- [ ] Two", "-  status: blocked", "+- [x] Two"]),
            ("Phase", TaskStatus::Complete, &[]),
        ] {
            let edited = set(form, MARKDOWN, title, status);
            assert_eq!(changed(MARKDOWN, &edited), wanted, "{title} {status:?}:\n{edited}");
        }
    }

    #[test]
    fn line_ends_marks_and_the_last_line_stay() {
        let form = TaskListForm::Markdown;
        let text = "\u{feff}- [ ] A\r\n- [ ] B";
        assert_eq!(
            set(form, text, "A", TaskStatus::Failed),
            "\u{feff}- [ ] A\r\n  status: failed\r\n- [ ] B"
        );
        let failed = set(form, text, "B", TaskStatus::Failed);
        assert_eq!(failed, "\u{feff}- [ ] A\r\n- [ ] B\r\n  status: failed");
        assert_eq!(set(form, &failed, "B", TaskStatus::Complete), "\u{feff}- [ ] A\r\n- [x] B");
        assert_eq!(set(form, "- [] A\n", "A", TaskStatus::Complete), "- [x] A\n");
        let heading = "## H\nstatus: blocked\n- [ ] A\n";
        assert_eq!(set(form, heading, "H", TaskStatus::Failed), "## H\nstatus: failed\n- [ ] A\n");
    }

    #[test]
    fn there_and_back_is_the_same_text() {
        let toml = "title = \"T\" # all\n\n[[task]] # first\ntitle = \"A\"   # of all\nowner = \"x\"\n\n[[task]]\nparent = \"b\"\ntitle = \"C\"\nstatus = 'planned'\n[[task]]\nid = \"b\"\n  title = '''B'''\n";
        let inline = "task = [{ title = \"A\" }, { title = \"B\", id = \"b\" }, { title = \"C\", parent = \"b\" }]\n";
        let json = "{ \"tasks\" : [ {\"title\":\"A\"},\n  { \"title\": \"B\",\n    \"tasks\": [{\n      \"status\" : \"todo\",\n      \"title\": \"C\"\n    }]\n  } ], \"version\": 1.0 }\n";
        let prp = "{\"backlog\":[{\"type\":\"Phase\",\"id\":\"P1\",\"title\":\"A\",\"status\":\"In Progress\",\"milestones\":[{\"type\":\"Milestone\",\"id\":\"M\",\"title\":\"C\",\"status\":\"Planned\"}]},{\"type\":\"Phase\",\"id\":\"P2\",\"title\":\"B\",\"status\":\"Planned\"}]}";
        let markdown = "- [ ] A\n- [ ] B\n  - [ ] C\n";
        for (form, text) in [
            (TaskListForm::Toml, toml),
            (TaskListForm::Toml, inline),
            (TaskListForm::Json, json),
            (TaskListForm::Prp, prp),
            (TaskListForm::Markdown, markdown),
        ] {
            let statuses = |text: &str| -> Vec<TaskStatus> {
                let list = TaskList::read(form, text.as_bytes()).unwrap();
                list.tasks.iter().map(|task| task.status).collect()
            };
            let before = statuses(text);
            for title in ["A", "B", "C"] {
                for status in ALL {
                    let edited = set(form, text, title, status);
                    let at = TaskList::read(form, text.as_bytes()).unwrap();
                    let at = at.tasks.iter().position(|task| task.title == title).unwrap();
                    let mut wanted = before.clone();
                    wanted[at] = status;
                    assert_eq!(statuses(&edited), wanted, "{edited}");
                    // All lines but that of the status are there, in order.
                    let kept = edited.lines().filter(|line| text.lines().any(|old| old == *line));
                    assert!(kept.count() + 1 >= text.lines().count(), "{edited}");
                }
            }
        }
        // The first insertion stays; from then on it is the same text again.
        for (form, text) in [
            (TaskListForm::Toml, toml),
            (TaskListForm::Json, json),
            (TaskListForm::Markdown, markdown),
        ] {
            let failed = set(form, text, "A", TaskStatus::Failed);
            let done = set(form, &failed, "A", TaskStatus::Complete);
            assert_eq!(set(form, &done, "A", TaskStatus::Failed), failed, "{form}");
        }
        assert!(
            set(TaskListForm::Toml, toml, "A", TaskStatus::Failed)
                .contains("title = \"A\"   # of all\nstatus = \"failed\"\nowner")
        );
        assert!(
            set(TaskListForm::Json, json, "B", TaskStatus::Failed)
                .contains("{ \"title\": \"B\", \"status\": \"failed\",\n")
        );
        assert!(
            set(TaskListForm::Json, json, "C", TaskStatus::Complete)
                .contains("\"status\" : \"complete\",\n")
        );
        assert!(
            set(TaskListForm::Prp, prp, "A", TaskStatus::Complete)
                .contains("\"title\":\"A\",\"status\":\"Complete\",\"milestones\"")
        );
    }

    #[test]
    fn a_status_that_is_there_already_is_not_respelled() {
        let json = r#"{"tasks":[{"title":"A","status":"todo"}]}"#;
        assert_eq!(set(TaskListForm::Json, json, "A", TaskStatus::Planned), json);
        let prp = r#"{"backlog":[{"type":"Phase","id":"P1","title":"A","status":"In Progress"}]}"#;
        assert_eq!(set(TaskListForm::Prp, prp, "A", TaskStatus::Implementing), prp);
    }

    #[test]
    fn tasks_are_found_again_in_an_edited_document() {
        let form = TaskListForm::Markdown;
        let old = TaskList::read(form, b"- [ ] A\n- [ ] B\n").unwrap();
        let new = TaskList::read(form, b"- [ ] New\n- [x] B\n- [ ] A\n").unwrap();
        let ids: Vec<_> = old.matching_ids(&new).into_iter().map(|id| id.map(|id| id.0)).collect();
        assert_eq!(ids, [None, Some("P2".to_owned()), Some("P1".to_owned())]);
    }
}
