//! Task lists in TOML: a `[[task]]` table for each task, which names its parent.

use std::collections::BTreeMap;
use std::ops::Range;

use abide_model::{DependencyType, TaskStatus, is_check};
use serde::Deserialize;
use serde_json::value::RawValue;
use toml::{Spanned, Table, Value};

use crate::arrange::{MAX_DEPTH, MAX_TASKS, TaskNaming, arrange, arranged_order};
use crate::draft::{DraftPlace, TaskDraft};
use crate::error::{DEPENDENCY_TYPES, DOCUMENT_TEXTS, STRAY_TEXT, ZERO_BYTE};
use crate::json;
use crate::status_edit::{TextEdit, WantedStatuses};
use crate::task_list::{as_foreign, foreign_of};
use crate::{DocumentTask, TaskList, TaskListError, TaskListFault, TaskListForm, status};

/// Reads a document.
pub(crate) fn read_toml(document: &str) -> Result<TaskList, TaskListError> {
    let mut top: Table = toml::from_str(document).map_err(|error| TaskListError::Syntax {
        form: "TOML",
        reason: error.to_string().trim_end().to_owned(),
    })?;
    let title = match top.remove("title") {
        Some(Value::String(title)) => Some(title),
        None => None,
        Some(_) => return Err(TaskListError::at("$.title", TaskListFault::Not { wanted: "text" })),
    };
    let tables = match top.remove("task") {
        Some(Value::Array(tables)) => tables,
        None => Vec::new(),
        Some(_) => {
            return Err(TaskListError::at(
                "$.task",
                TaskListFault::Not { wanted: "[[task]] tables" },
            ));
        }
    };
    let mut drafts = Vec::with_capacity(tables.len());
    for (index, table) in tables.into_iter().enumerate() {
        let place = format!("$.task[{index}]");
        if index >= MAX_TASKS {
            return Err(TaskListError::at(place, TaskListFault::TooMany { limit: MAX_TASKS }));
        }
        let Value::Table(table) = table else {
            return Err(TaskListError::at(place, TaskListFault::Not { wanted: "a table" }));
        };
        drafts.push(toml_draft(table, index, &place)?);
    }
    let tasks = arrange(drafts, TaskNaming::Ids, "depends")?;
    let foreign = kept_toml_fields(top, "$")?;
    Ok(TaskList { form: TaskListForm::Toml, title, tasks, foreign })
}

/// The `[[task]]` tables of a document, with where their values stand.
#[derive(Deserialize)]
struct TomlTaskSpans {
    #[serde(default)]
    task: Vec<TomlTaskSpan>,
}

#[derive(Deserialize)]
struct TomlTaskSpan {
    id: Option<String>,
    parent: Option<String>,
    title: Spanned<String>,
    status: Option<Spanned<String>>,
}

/// The edits that give tasks their statuses.
pub(crate) fn toml_status_edits(
    document: &str,
    wanted: WantedStatuses<'_>,
) -> Result<Vec<TextEdit>, TaskListError> {
    let spans: TomlTaskSpans = toml::from_str(document).map_err(|error| TaskListError::Syntax {
        form: "TOML",
        reason: error.to_string().trim_end().to_owned(),
    })?;
    let draft = |task: &TomlTaskSpan| TaskDraft {
        id: task.id.clone(),
        parent_id: task.parent.clone(),
        ..TaskDraft::default()
    };
    let order = arranged_order(spans.task.iter().map(draft).collect())?;
    let edit = |(at, status): (usize, &Option<TaskStatus>)| {
        let (task, word) = (spans.task.get(at)?, (*status)?.as_str());
        Some(match &task.status {
            Some(said) => TextEdit { range: said.span(), text: format!("\"{word}\"") },
            None => new_toml_status(document, task.title.span(), word),
        })
    };
    Ok(order.into_iter().zip(wanted).filter_map(edit).collect())
}

/// A status behind a title: on a line of its own, or in the same inline table.
fn new_toml_status(document: &str, title: Range<usize>, word: &str) -> TextEdit {
    let rest = document.get(title.end..).unwrap_or_default();
    let line = rest.split_inclusive('\n').next().unwrap_or_default();
    let after = line.trim();
    if !after.is_empty() && !after.starts_with('#') {
        let range = title.end..title.end;
        return TextEdit { range, text: format!(", status = \"{word}\"") };
    }
    let before = document.get(..title.start).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let lead = before.get(start..).unwrap_or_default();
    let lead = lead.get(..lead.len() - lead.trim_start().len()).unwrap_or_default();
    let end = if line.ends_with("\r\n") { "\r\n" } else { "\n" };
    let said = format!("{lead}status = \"{word}\"");
    let text = if line.ends_with('\n') { said + end } else { format!("{end}{said}") };
    let at = title.end + line.len();
    TextEdit { range: at..at, text }
}

fn toml_draft(mut table: Table, index: usize, place: &str) -> Result<TaskDraft, TaskListError> {
    let wrong = |field: &str, fault| TaskListError::at(format!("{place}.{field}"), fault);
    let not = |field: &str, wanted| wrong(field, TaskListFault::Not { wanted });
    let mut text = |field: &str| match table.remove(field) {
        Some(Value::String(text)) => Ok(Some(text)),
        None => Ok(None),
        Some(_) => Err(not(field, "text")),
    };
    let (id, title, parent_id) = (text("id")?, text("title")?, text("parent")?);
    let (details, word, result) = (text("details")?, text("status")?, text("result")?);
    let check = text("check")?;
    let title = title.ok_or_else(|| wrong("title", TaskListFault::Missing))?;
    if title.trim().is_empty() {
        return Err(not("title", "non-empty text"));
    }
    let mut list = |field: &str| -> Result<Vec<String>, TaskListError> {
        let Some(value) = table.remove(field) else { return Ok(Vec::new()) };
        value.try_into().map_err(|_| not(field, "a list of strings"))
    };
    let (depends, documents) = (list("depends")?, list("documents")?);
    let mut dependency_types = BTreeMap::new();
    match table.remove("dependency_types") {
        Some(Value::Table(types)) => {
            for (name, kind) in types {
                let kind = kind
                    .as_str()
                    .and_then(DependencyType::named)
                    .ok_or_else(|| not(&format!("dependency_types.{name}"), DEPENDENCY_TYPES))?;
                dependency_types.insert(name, kind);
            }
        }
        None => {}
        Some(_) => return Err(not("dependency_types", "a table of task ids and types")),
    }
    let document_texts: BTreeMap<String, String> = match table.remove("document_texts") {
        Some(texts) => texts.try_into().map_err(|_| wrong("document_texts", DOCUMENT_TEXTS))?,
        None => BTreeMap::new(),
    };
    if document_texts.keys().any(|name| !documents.contains(name)) {
        return Err(wrong("document_texts", STRAY_TEXT));
    }
    if document_texts.values().any(|text| text.contains('\0')) {
        return Err(wrong("document_texts", ZERO_BYTE));
    }
    let priority = match table.remove("priority") {
        Some(Value::Integer(priority)) => priority,
        None => 0,
        Some(_) => return Err(not("priority", "a whole number")),
    };
    let (status, foreign_status) = match word {
        Some(word) => status::read_status(&word, TaskStatus::as_str)
            .ok_or_else(|| wrong("status", TaskListFault::Status { word }))?,
        None => (TaskStatus::Planned, None),
    };
    let result = match result {
        Some(json) => {
            let result = serde_json::from_str::<&RawValue>(&json).ok();
            let result = result.filter(|raw| json::json_depth(raw.get()) <= MAX_DEPTH);
            let result = result.ok_or_else(|| not("result", "a string of JSON"))?;
            // `null` is not a result and is not recorded as one.
            let result = Some(json::compact_json(result.get())).filter(|result| result != "null");
            result.and_then(|result| RawValue::from_string(result).ok())
        }
        None => None,
    };
    Ok(TaskDraft {
        id,
        title,
        parent_id,
        depends,
        dependency_types,
        priority,
        details: details.filter(|details| !details.is_empty()),
        documents,
        document_texts,
        check: check.filter(|check| is_check(check)),
        status,
        foreign_status,
        result,
        foreign: kept_toml_fields(table, place)?,
        place: DraftPlace::Json("task", index),
        ..TaskDraft::default()
    })
}

/// Fields that abide does not know, kept as TOML, which can express times and the like.
fn kept_toml_fields(table: Table, place: &str) -> Result<Option<Box<RawValue>>, TaskListError> {
    if table.is_empty() {
        return Ok(None);
    }
    if table.values().any(|value| toml_depth(value) > MAX_DEPTH) {
        return Err(TaskListError::at(place, TaskListFault::TooDeep { limit: MAX_DEPTH }));
    }
    let written = toml::to_string(&table).map_err(|_| {
        TaskListError::at(place, TaskListFault::Not { wanted: "a value that can be written back" })
    })?;
    Ok(as_foreign(TaskListForm::Toml, &json::json_text(&written)))
}

/// How deep a value is nested.
fn toml_depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(toml_depth).max().unwrap_or(0),
        Value::Table(table) => 1 + table.values().map(toml_depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn restored_toml_fields(foreign: Option<&RawValue>) -> Table {
    let kept = foreign_of(foreign, TaskListForm::Toml);
    let written = kept.and_then(|kept| serde_json::from_str::<String>(kept.get()).ok());
    written.and_then(|written| toml::from_str(&written).ok()).unwrap_or_default()
}

/// Writes a document.
pub(crate) fn write_toml(plan: &TaskList) -> Result<String, TaskListError> {
    let mut out = String::new();
    if let Some(title) = &plan.title {
        put_toml_field(&mut out, "title", &Value::String(title.clone()));
    }
    // Tables end the fields of the document, so they are written last.
    let mut tables = String::new();
    for (key, value) in restored_toml_fields(plan.foreign.as_deref()) {
        let field = toml::to_string(&Table::from_iter([(key, value)])).unwrap_or_default();
        if field.starts_with('[') {
            tables.push('\n');
            tables.push_str(&field);
        } else {
            out.push_str(&field);
        }
    }
    for task in &plan.tasks {
        write_toml_task(&mut out, task);
    }
    out.push_str(&tables);
    Ok(out)
}

fn put_toml_field(out: &mut String, key: &str, value: &Value) {
    let table = Table::from_iter([(key.to_owned(), value.clone())]);
    out.push_str(&toml::to_string_pretty(&table).unwrap_or_default());
}

fn write_toml_task(out: &mut String, task: &DocumentTask) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str("[[task]]\n");
    let text = |text: &str| Some(Value::String(text.to_owned()));
    let list = |list: Vec<Value>| (!list.is_empty()).then_some(Value::Array(list));
    let depends = task.depends.iter().filter_map(|id| text(id.as_str())).collect();
    let word = status::status_word(task)
        .or((task.status != TaskStatus::Planned).then(|| task.status.as_str()));
    let fields = [
        ("id", text(task.id.as_str())),
        ("title", text(&task.title)),
        ("parent", task.parent.as_ref().and_then(|parent| text(parent.as_str()))),
        ("depends", list(depends)),
        ("dependency_types", types_value(task)),
        ("priority", (task.priority != 0).then_some(Value::Integer(task.priority))),
        ("status", word.and_then(text)),
        ("details", task.details.as_deref().and_then(text)),
        ("documents", list(task.documents.iter().filter_map(|name| text(name)).collect())),
        ("document_texts", texts_value(task)),
        ("check", task.check.as_deref().and_then(text)),
        ("result", task.result.as_ref().and_then(|result| text(&json::compact_json(result.get())))),
    ];
    for (key, value) in fields {
        match value {
            // On one line, so that no table ends the fields of the task.
            Some(value @ Value::Table(_)) => out.push_str(&format!("{key} = {value}\n")),
            Some(value) => put_toml_field(out, key, &value),
            None => {}
        }
    }
    for (key, value) in restored_toml_fields(task.foreign.as_deref()) {
        // On one line, so that no table ends the fields of the task.
        out.push_str(&format!("{} = {}\n", toml_key(&key), value));
    }
}

fn types_value(task: &DocumentTask) -> Option<Value> {
    let types = task.dependency_types.iter();
    let types: Table = types
        .map(|(id, kind)| (id.as_str().to_owned(), Value::String(kind.as_str().to_owned())))
        .collect();
    (!types.is_empty()).then_some(Value::Table(types))
}

fn texts_value(task: &DocumentTask) -> Option<Value> {
    let texts = task.document_texts.iter();
    let texts: Table =
        texts.map(|(name, text)| (name.clone(), Value::String(text.clone()))).collect();
    (!texts.is_empty()).then_some(Value::Table(texts))
}

fn toml_key(key: &str) -> String {
    // Not as a string, which may span several lines; a key never does.
    let field = toml::to_string(&Table::from_iter([(key.to_owned(), Value::Boolean(true))]));
    field.unwrap_or_default().trim_end().trim_end_matches(" = true").to_owned()
}
