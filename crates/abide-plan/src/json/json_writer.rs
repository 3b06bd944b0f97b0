//! Writes a task list in JSON.

use std::collections::HashMap;

use abide_model::TaskId;

use super::dialect::{JsonDialect, TaskField};
use super::json_reader::{is_plain_json_task, json_field_agrees, json_texts, json_texts_by_name};
use super::{MARKER, compact_json, json_object_fields, json_text, pretty_json};
use crate::arrange::MAX_DEPTH;
use crate::task_list::foreign_of;
use crate::{DocumentTask, TaskList, TaskListError, status};

/// The parts of each task, in order. The roots are under `None`.
pub(crate) type PartsByParent<'a> = HashMap<Option<&'a TaskId>, Vec<&'a DocumentTask>>;

/// The parts of each task.
pub(crate) fn json_parts_by_parent(plan: &TaskList) -> PartsByParent<'_> {
    let mut parts = PartsByParent::new();
    for task in &plan.tasks {
        parts.entry(task.parent.as_ref()).or_default().push(task);
    }
    parts
}

/// Writes a document.
pub(crate) fn write_json(dialect: &JsonDialect, plan: &TaskList) -> Result<String, TaskListError> {
    let writer = TaskJsonWriter { dialect, parts: json_parts_by_parent(plan) };
    let mut tasks = String::new();
    writer.list(None, 0, &mut tasks)?;
    let kept = foreign_of(plan.foreign.as_deref(), dialect.form);
    let kept = kept.as_deref().and_then(|kept| json_object_fields(kept.get())).unwrap_or_default();
    let part = |name: &str| kept.iter().find(|(field, _)| field == name).map(|(_, raw)| *raw);
    let newline = part("newline").is_none_or(|raw| raw.get() == "true");
    let mut out = Vec::new();
    let (mut titled, mut listed) = (false, false);
    for (name, raw) in
        part("fields").and_then(|raw| json_object_fields(raw.get())).unwrap_or_default()
    {
        let value = if name == dialect.root && !listed {
            listed = true;
            tasks.clone()
        } else if Some(name.as_str()) == dialect.title && !titled {
            titled = true;
            let Some(title) = &plan.title else { continue };
            let same = serde_json::from_str::<String>(raw.get()).is_ok_and(|said| said == *title);
            if same { compact_json(raw.get()) } else { json_text(title) }
        } else {
            compact_json(raw.get())
        };
        out.push((name, value));
    }
    if let (Some(name), Some(title), false) = (dialect.title, &plan.title, titled) {
        out.insert(0, (name.to_owned(), json_text(title)));
    }
    if !listed {
        out.push((dialect.root.to_owned(), tasks));
    }
    let fields: Vec<String> =
        out.into_iter().map(|(name, value)| format!("{}:{value}", json_text(&name))).collect();
    let mut out = pretty_json(&format!("{{{}}}", fields.join(",")));
    if newline {
        out.push('\n');
    }
    Ok(out)
}

struct TaskJsonWriter<'a> {
    dialect: &'a JsonDialect,
    parts: PartsByParent<'a>,
}

impl TaskJsonWriter<'_> {
    fn list(
        &self,
        parent: Option<&TaskId>,
        level: usize,
        out: &mut String,
    ) -> Result<(), TaskListError> {
        out.push('[');
        for (index, task) in self.parts.get(&parent).into_iter().flatten().enumerate() {
            if index > 0 {
                out.push(',');
            }
            self.task(task, level, out)?;
        }
        out.push(']');
        Ok(())
    }

    fn task(
        &self,
        task: &DocumentTask,
        level: usize,
        out: &mut String,
    ) -> Result<(), TaskListError> {
        let unwritable = |reason| TaskListError::Unwritable {
            task: task.id.to_string(),
            form: self.dialect.form,
            reason,
        };
        if self.dialect.exact && level > 3 {
            return Err(unwritable("a backlog has only four levels"));
        }
        if level >= MAX_DEPTH {
            return Err(unwritable("it is nested too deeply"));
        }
        out.push('{');
        let start = out.len();
        let mut put = |name: &str, value: &str| {
            if out.len() > start {
                out.push(',');
            }
            out.push_str(&json_text(name));
            out.push(':');
            out.push_str(value);
        };
        let mut written = Vec::new();
        let kept = foreign_of(task.foreign.as_deref(), self.dialect.form);
        match kept.as_deref().and_then(|kept| json_object_fields(kept.get())) {
            Some(kept) => {
                for (name, raw) in kept {
                    let field = self.dialect.field(&name, level);
                    written.extend(field);
                    match field {
                        None => put(&name, raw.get()),
                        Some(field)
                            if raw.get() != MARKER
                                && json_field_agrees(raw, field, task, self.dialect) =>
                        {
                            put(&name, raw.get());
                        }
                        Some(field) => {
                            if let Some(value) = self.value(field, task, level)? {
                                put(&name, &value);
                            }
                        }
                    }
                }
            }
            None => {
                for (name, fixed) in self.dialect.usual(level) {
                    let field = self.dialect.field(name, level);
                    written.extend(field);
                    let value = match (fixed, field) {
                        (Some(fixed), _) => Some(fixed),
                        (None, Some(field)) => self.value(field, task, level)?,
                        (None, None) => None,
                    };
                    if let Some(value) = value {
                        put(name, &value);
                    }
                }
            }
        }
        let parts = self.parts.get(&Some(&task.id)).is_some_and(|parts| !parts.is_empty());
        let details = self.dialect.details(level);
        let children = self.dialect.children(level);
        if parts && children.is_none() {
            return Err(unwritable("a subtask cannot have parts"));
        }
        let rest = [
            (TaskField::Id, "id", true),
            (TaskField::Title, "title", true),
            (TaskField::Status, "status", !is_plain_json_task(task)),
            (TaskField::Depends, self.dialect.depends, !self.dialect.depends_of(task).is_empty()),
            (
                TaskField::DependencyTypes,
                "dependency_types",
                !self.dialect.exact && !task.dependency_types.is_empty(),
            ),
            (TaskField::Priority, "priority", task.priority != 0),
            (TaskField::Details, details, task.details.is_some()),
            (TaskField::Documents, "documents", !task.documents.is_empty()),
            (TaskField::DocumentTexts, "document_texts", !task.document_texts.is_empty()),
            (TaskField::Check, "check", task.check.is_some()),
            (TaskField::Result, "result", task.result.is_some()),
            (TaskField::Children, children.unwrap_or_default(), parts),
        ];
        for (field, name, wanted) in rest {
            if wanted
                && !written.contains(&field)
                && let Some(value) = self.value(field, task, level)?
            {
                put(name, &value);
            }
        }
        out.push('}');
        Ok(())
    }

    /// The value of a field as we write it; `None` if there is nothing to write.
    fn value(
        &self,
        field: TaskField,
        task: &DocumentTask,
        level: usize,
    ) -> Result<Option<String>, TaskListError> {
        Ok(match field {
            TaskField::Type => self.dialect.sort(level).map(json_text),
            TaskField::Id => Some(json_text(task.id.as_str())),
            TaskField::Title => Some(json_text(&task.title)),
            TaskField::Status => {
                let own = self.dialect.word();
                Some(json_text(status::status_word(task).unwrap_or_else(|| own(task.status))))
            }
            TaskField::Depends => Some(json_texts(&self.dialect.depends_of(task))),
            TaskField::DependencyTypes => (!task.dependency_types.is_empty()).then(|| {
                compact_json(&serde_json::to_string(&task.dependency_types).unwrap_or_default())
            }),
            TaskField::Details => Some(json_text(task.details.as_deref().unwrap_or_default())),
            TaskField::Priority => Some(task.priority.to_string()),
            TaskField::Documents => Some(json_texts(&task.documents)),
            TaskField::DocumentTexts => {
                (!task.document_texts.is_empty()).then(|| json_texts_by_name(&task.document_texts))
            }
            TaskField::Check => task.check.as_deref().map(json_text),
            TaskField::Result => task.result.as_ref().map(|result| compact_json(result.get())),
            TaskField::Children => {
                let mut list = String::new();
                self.list(Some(&task.id), level + 1, &mut list)?;
                Some(list)
            }
        })
    }
}
