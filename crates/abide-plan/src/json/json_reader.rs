//! Reads a task list in JSON.

use std::collections::BTreeMap;

use abide_model::{DependencyType, TaskStatus, is_check};
use serde_json::value::RawValue;

use super::dialect::{JsonDialect, TaskField};
use super::{MARKER, NOTHING, compact_json, json_depth, json_object_fields, json_text};
use crate::arrange::{MAX_DEPTH, MAX_TASKS, TaskNaming, arrange};
use crate::draft::{DraftPlace, TaskDraft, draft_fault};
use crate::error::{DEPENDENCY_TYPES, DOCUMENT_TEXTS, STRAY_TEXT, ZERO_BYTE};
use crate::task_list::as_foreign;
use crate::{TaskList, TaskListError, TaskListFault, status};

/// Reads a document.
pub(crate) fn read_json(dialect: &JsonDialect, json: &str) -> Result<TaskList, TaskListError> {
    // Parse the whole document first, so that a syntax error is reported with its line.
    if let Err(error) = serde_json::from_str::<&RawValue>(json) {
        return Err(TaskListError::Syntax { form: "JSON", reason: error.to_string() });
    }
    let object = TaskListFault::Not { wanted: "an object" };
    let top = json_object_fields(json).ok_or_else(|| TaskListError::at("$", object))?;
    let mut reader = TaskJsonReader { dialect, drafts: Vec::new() };
    let mut kept = Vec::new();
    let (mut title, mut found) = (None, false);
    for (name, raw) in top {
        let wrong = |fault| TaskListError::at(format!("$.{name}"), fault);
        if name == dialect.root {
            if std::mem::replace(&mut found, true) {
                return Err(wrong(TaskListFault::Twice));
            }
            reader.list(raw, None, dialect.root, 0)?;
            kept.push((name, MARKER.to_owned()));
        } else if Some(name.as_str()) == dialect.title && title.is_none() {
            let said: String = serde_json::from_str(raw.get())
                .map_err(|_| wrong(TaskListFault::Not { wanted: "text" }))?;
            kept.push((name, kept_json_field(raw, &json_text(&said))));
            title = Some(said);
        } else {
            if json_depth(raw.get()) > MAX_DEPTH {
                return Err(wrong(TaskListFault::TooDeep { limit: MAX_DEPTH }));
            }
            kept.push((name, compact_json(raw.get())));
        }
    }
    if !found {
        return Err(TaskListError::at(format!("$.{}", dialect.root), TaskListFault::Missing));
    }
    let foreign =
        format!("{{\"fields\":{},\"newline\":{}}}", json_object_of(&kept), json.ends_with('\n'));
    let tasks = arrange(reader.drafts, TaskNaming::Ids, dialect.depends)?;
    let foreign = as_foreign(dialect.form, &foreign);
    Ok(TaskList { form: dialect.form, title, tasks, foreign })
}

/// A field to keep: the marker if it is spelled as we would write it, else its own spelling.
fn kept_json_field(raw: &RawValue, ours: &str) -> String {
    let raw = compact_json(raw.get());
    if raw == ours { MARKER.to_owned() } else { raw }
}

fn json_object_of(fields: &[(String, String)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}:{value}", json_text(name))).collect();
    format!("{{{}}}", fields.join(","))
}

struct TaskJsonReader<'a> {
    dialect: &'a JsonDialect,
    drafts: Vec<TaskDraft>,
}

impl TaskJsonReader<'_> {
    fn list(
        &mut self,
        raw: &RawValue,
        parent: Option<usize>,
        name: &'static str,
        level: usize,
    ) -> Result<(), TaskListError> {
        let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
            let wrong = TaskListFault::Not { wanted: "a list" };
            return Err(match parent {
                Some(parent) => draft_fault(&self.drafts, parent, name, wrong),
                None => TaskListError::at(format!("$.{name}"), wrong),
            });
        };
        for (index, item) in items.into_iter().enumerate() {
            self.item(item, parent, DraftPlace::Json(name, index), level)?;
        }
        Ok(())
    }

    fn item(
        &mut self,
        raw: &RawValue,
        parent: Option<usize>,
        place: DraftPlace,
        level: usize,
    ) -> Result<(), TaskListError> {
        let at = self.drafts.len();
        self.drafts.push(TaskDraft { parent, place, ..TaskDraft::default() });
        if at >= MAX_TASKS {
            return Err(self.wrong(at, "", TaskListFault::TooMany { limit: MAX_TASKS }));
        }
        if level >= MAX_DEPTH {
            return Err(self.wrong(at, "", TaskListFault::TooDeep { limit: MAX_DEPTH }));
        }
        let Some(fields) = json_object_fields(raw.get()) else {
            return Err(self.wrong(at, "", TaskListFault::Not { wanted: "an object" }));
        };
        let mut draft = TaskDraft { parent, place, ..TaskDraft::default() };
        let mut seen = Vec::new();
        let mut kept = Vec::with_capacity(fields.len());
        let mut children = None;
        for (name, raw) in fields {
            let field = self.dialect.field(&name, level);
            if let Some(field) = field {
                if seen.contains(&field) {
                    return Err(self.wrong(at, &name, TaskListFault::Twice));
                }
                seen.push(field);
            }
            let value = match field {
                Some(TaskField::Children) => {
                    children = Some(raw);
                    Ok(MARKER.to_owned())
                }
                Some(field) => self.field(&mut draft, field, raw, level),
                None if self.dialect.exact && name == "story_points" && !is_json_points(raw) => {
                    Err(TaskListFault::Not { wanted: "a number, zero or more" })
                }
                None if json_depth(raw.get()) > MAX_DEPTH => {
                    Err(TaskListFault::TooDeep { limit: MAX_DEPTH })
                }
                None => Ok(compact_json(raw.get())),
            };
            let value = value.map_err(|wrong| self.wrong(at, &name, wrong))?;
            kept.push((name, value));
        }
        let required: &[(TaskField, &str)] = if self.dialect.exact {
            &[(TaskField::Id, "id"), (TaskField::Title, "title"), (TaskField::Status, "status")]
        } else {
            &[(TaskField::Title, "title")]
        };
        for (field, name) in required {
            if !seen.contains(field) {
                return Err(self.wrong(at, name, TaskListFault::Missing));
            }
        }
        if draft.document_texts.keys().any(|name| !draft.documents.contains(name)) {
            return Err(self.wrong(at, "document_texts", STRAY_TEXT));
        }
        draft.foreign = as_foreign(self.dialect.form, &json_object_of(&kept));
        if let Some(place) = self.drafts.get_mut(at) {
            *place = draft;
        }
        match (children, self.dialect.children(level)) {
            (Some(children), Some(name)) => self.list(children, Some(at), name, level + 1),
            _ => Ok(()),
        }
    }

    fn wrong(&self, at: usize, field: &str, wrong: TaskListFault) -> TaskListError {
        draft_fault(&self.drafts, at, field, wrong)
    }

    /// Reads a field and returns what to keep of it.
    fn field(
        &self,
        draft: &mut TaskDraft,
        field: TaskField,
        raw: &RawValue,
        level: usize,
    ) -> Result<String, TaskListFault> {
        let no_text = TaskListFault::Not { wanted: "text" };
        let said = || serde_json::from_str::<String>(raw.get()).map_err(|_| no_text.clone());
        let list = || serde_json::from_str::<Vec<String>>(raw.get()).ok();
        let foreign = self.dialect.exact;
        Ok(match field {
            TaskField::Type => {
                if Some(said()?.as_str()) != self.dialect.sort(level) {
                    let wanted = match self.dialect.sort(level) {
                        Some("Phase") => "\"Phase\"",
                        Some("Milestone") => "\"Milestone\"",
                        Some("Task") => "\"Task\"",
                        _ => "\"Subtask\"",
                    };
                    return Err(TaskListFault::Not { wanted });
                }
                compact_json(raw.get())
            }
            TaskField::Id => {
                let id = said()?;
                let kept = kept_json_field(raw, &json_text(&id));
                draft.id = Some(id);
                kept
            }
            TaskField::Title => {
                draft.title = said()?;
                if draft.title.trim().is_empty() {
                    return Err(TaskListFault::Not { wanted: "non-empty text" });
                }
                kept_json_field(raw, &json_text(&draft.title))
            }
            TaskField::Status => {
                let word = said()?;
                let (status, foreign) = status::read_status(&word, self.dialect.word())
                    .ok_or_else(|| TaskListFault::Status { word: word.clone() })?;
                (draft.status, draft.foreign_status) = (status, foreign);
                kept_json_field(raw, &json_text(&word))
            }
            TaskField::Depends => {
                draft.depends =
                    list().ok_or(TaskListFault::Not { wanted: "a list of task ids" })?;
                kept_json_field(raw, &json_texts(&draft.depends))
            }
            TaskField::DependencyTypes => {
                let types = serde_json::from_str::<BTreeMap<String, String>>(raw.get()).ok();
                let types = types
                    .ok_or(TaskListFault::Not { wanted: "an object of task ids and types" })?;
                for (name, kind) in types {
                    let kind = DependencyType::named(&kind);
                    let kind = kind.ok_or(TaskListFault::Not { wanted: DEPENDENCY_TYPES })?;
                    draft.dependency_types.insert(name, kind);
                }
                MARKER.to_owned()
            }
            // The other system writes nothing for a task that has none; an object is understood only
            // by it.
            TaskField::Details
                if foreign && (raw.get() == NOTHING || raw.get().starts_with('{')) =>
            {
                own_json_value(raw)?
            }
            TaskField::Details => {
                let details = said()?;
                let kept = kept_json_field(raw, &json_text(&details));
                draft.details = Some(details).filter(|details| !details.is_empty());
                if draft.details.is_none() { compact_json(raw.get()) } else { kept }
            }
            TaskField::Priority => match serde_json::from_str(raw.get()) {
                Ok(priority) => {
                    draft.priority = priority;
                    kept_json_field(raw, &draft.priority.to_string())
                }
                Err(_) if foreign => own_json_value(raw)?,
                Err(_) => return Err(TaskListFault::Not { wanted: "a whole number" }),
            },
            TaskField::Documents => match list() {
                Some(documents) => {
                    draft.documents = documents;
                    kept_json_field(raw, &json_texts(&draft.documents))
                }
                None if foreign => own_json_value(raw)?,
                None => return Err(TaskListFault::Not { wanted: "a list of strings" }),
            },
            TaskField::DocumentTexts => {
                let texts = serde_json::from_str::<BTreeMap<String, String>>(raw.get());
                draft.document_texts = texts.map_err(|_| DOCUMENT_TEXTS)?;
                if draft.document_texts.values().any(|text| text.contains('\0')) {
                    return Err(ZERO_BYTE);
                }
                kept_json_field(raw, &json_texts_by_name(&draft.document_texts))
            }
            // A check that is not text is understood only by the other system.
            TaskField::Check if foreign && !raw.get().starts_with('"') => own_json_value(raw)?,
            TaskField::Check => {
                let check = said()?;
                let kept = kept_json_field(raw, &json_text(&check));
                draft.check = Some(check).filter(|check| is_check(check));
                if draft.check.is_none() { compact_json(raw.get()) } else { kept }
            }
            TaskField::Result => {
                if json_depth(raw.get()) > MAX_DEPTH {
                    return Err(TaskListFault::TooDeep { limit: MAX_DEPTH });
                }
                let result = compact_json(raw.get());
                if result == NOTHING {
                    return Ok(result);
                }
                draft.result = RawValue::from_string(result).ok();
                MARKER.to_owned()
            }
            TaskField::Children => MARKER.to_owned(),
        })
    }
}

/// A value that only the other system understands.
fn own_json_value(raw: &RawValue) -> Result<String, TaskListFault> {
    let value = compact_json(raw.get());
    if value == MARKER {
        return Err(TaskListFault::Not { wanted: "a value other than true" });
    }
    if json_depth(&value) > MAX_DEPTH {
        return Err(TaskListFault::TooDeep { limit: MAX_DEPTH });
    }
    Ok(value)
}

/// Texts as JSON.
pub(super) fn json_texts(texts: &[String]) -> String {
    compact_json(&serde_json::to_string(texts).unwrap_or_default())
}

/// Texts by their names, as JSON.
pub(super) fn json_texts_by_name(texts: &BTreeMap<String, String>) -> String {
    compact_json(&serde_json::to_string(texts).unwrap_or_default())
}

/// Is it an amount of story points, or nothing?
fn is_json_points(raw: &RawValue) -> bool {
    let points = serde_json::from_str::<Option<f64>>(raw.get());
    points.is_ok_and(|points| points.is_none_or(|points| points >= 0.0))
}

/// Does a kept field still agree with the task?
pub(super) fn json_field_agrees(
    raw: &RawValue,
    field: TaskField,
    task: &crate::DocumentTask,
    dialect: &JsonDialect,
) -> bool {
    let said = || serde_json::from_str::<String>(raw.get()).ok();
    let list = || serde_json::from_str::<Vec<String>>(raw.get()).ok();
    match field {
        TaskField::Id => said().as_deref() == Some(task.id.as_str()),
        TaskField::Title => said().as_ref() == Some(&task.title),
        TaskField::Status => {
            said().and_then(|word| status::read_status(&word, dialect.word())).is_some_and(
                |(status, foreign)| status == task.status && foreign == task.foreign_status,
            )
        }
        TaskField::Depends => list().is_some_and(|list| list == dialect.depends_of(task)),
        TaskField::DependencyTypes => false,
        TaskField::Details => said().filter(|details| !details.is_empty()) == task.details,
        TaskField::Priority => serde_json::from_str(raw.get()).unwrap_or(0) == task.priority,
        TaskField::Documents => list().unwrap_or_default() == task.documents,
        TaskField::DocumentTexts => serde_json::from_str::<BTreeMap<String, String>>(raw.get())
            .is_ok_and(|texts| texts == task.document_texts),
        TaskField::Check => said().filter(|check| is_check(check)) == task.check,
        TaskField::Type => true,
        TaskField::Result => raw.get() == NOTHING && task.result.is_none(),
        TaskField::Children => false,
    }
}

/// The fields of a kept object that say something that the task itself does not hold, by name and
/// normalised. A missing field and `null` are the same.
pub(crate) fn json_fields_beside(
    dialect: &JsonDialect,
    kept: &str,
    depth: usize,
) -> Vec<(String, String)> {
    let mut beside: Vec<(String, String)> = Vec::new();
    for (name, raw) in json_object_fields(kept).unwrap_or_default() {
        let raw = raw.get();
        let held = match dialect.field(&name, depth) {
            None => false,
            Some(TaskField::Details | TaskField::Check) => raw == MARKER || raw.starts_with('"'),
            Some(TaskField::Priority) => raw == MARKER || serde_json::from_str::<i64>(raw).is_ok(),
            Some(TaskField::Documents) => {
                raw == MARKER || serde_json::from_str::<Vec<String>>(raw).is_ok()
            }
            Some(_) => true,
        };
        if !held && raw != NOTHING {
            let value = serde_json::from_str::<serde_json::Value>(raw);
            // serde_json may be built to preserve the order of members.
            let sorted = value.map(|mut value| {
                value.sort_all_objects();
                value.to_string()
            });
            beside.push((name, sorted.unwrap_or_else(|_| raw.to_owned())));
        }
    }
    beside.sort_unstable();
    beside
}

/// Is it just planned, which need not be written?
pub(super) fn is_plain_json_task(task: &crate::DocumentTask) -> bool {
    task.status == TaskStatus::Planned && task.foreign_status.is_none()
}
