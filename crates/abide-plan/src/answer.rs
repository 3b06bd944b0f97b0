//! A task list in the answer of a model: JSON of a fixed schema, with words around it.

use abide_model::TaskStatus;
use serde_json::value::RawValue;

use crate::json::json_object_fields;
use crate::{TaskList, TaskListError, TaskListFault, TaskListForm};

/// The largest answer, in bytes.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;
/// How many bytes are read in all to find the list among the words.
const MAX_SEARCH_BYTES: usize = 16 << 20;

/// The JSON schema of a task list in an answer.
pub const ANSWER_SCHEMA: &str = r##"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "required": ["tasks"],
  "additionalProperties": false,
  "properties": {
    "title": { "type": "string", "description": "What all of it is called" },
    "tasks": { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/task" } }
  },
  "$defs": {
    "task": {
      "type": "object",
      "required": ["title"],
      "additionalProperties": false,
      "properties": {
        "id": { "type": "string", "description": "No two tasks have the same" },
        "title": { "type": "string", "minLength": 1, "description": "One line" },
        "details": { "type": "string", "description": "All that whoever does the task must know" },
        "depends": { "type": "array", "items": { "type": "string" }, "description": "The ids of tasks that must be done before; never in a circle" },
        "check": { "type": "string", "description": "A shell command that succeeds when the task is done" },
        "priority": { "type": "integer", "description": "Higher goes first" },
        "documents": { "type": "array", "items": { "type": "string" }, "description": "Paths or URLs of what belongs to the task" },
        "tasks": { "type": "array", "items": { "$ref": "#/$defs/task" }, "description": "The parts of the task" }
      }
    }
  }
}
"##;

/// The fields of the list itself.
const LIST_FIELDS: AnswerFields = AnswerFields { names: &["title", "tasks"], told: "title, tasks" };
/// The fields of a task.
const TASK_FIELDS: AnswerFields = AnswerFields {
    names: &["id", "title", "details", "depends", "check", "priority", "documents", "tasks"],
    told: "id, title, details, depends, check, priority, documents, tasks",
};

/// The fields that an object of an answer may have.
#[derive(Debug, Clone, Copy)]
struct AnswerFields {
    names: &'static [&'static str],
    told: &'static str,
}

impl TaskList {
    /// Reads the task list that an answer holds: the last JSON object in it that has `tasks`. It must
    /// be as [`ANSWER_SCHEMA`] says. All of its tasks are planned.
    ///
    /// # Errors
    ///
    /// The answer is too large or holds no list, or the list is wrong; the error names the place.
    pub fn of_answer(answer: &str) -> Result<Self, TaskListError> {
        if answer.len() > MAX_ANSWER_BYTES {
            return Err(TaskListError::TooLarge { limit: MAX_ANSWER_BYTES });
        }
        let object = last_task_object(answer).ok_or(TaskListError::NoList)?;
        let mut list = Self::read(TaskListForm::Json, object.as_bytes())?;
        // It is nested no deeper than a list may be, since it was read.
        check_answer_fields(object, "$", LIST_FIELDS)?;
        if list.tasks.is_empty() {
            let wanted = "a list with at least one task";
            return Err(TaskListError::at("$.tasks", TaskListFault::Not { wanted }));
        }
        for task in &mut list.tasks {
            task.status = TaskStatus::Planned;
        }
        Ok(list)
    }
}

/// Refuses fields that the schema does not have.
fn check_answer_fields(
    object: &str,
    place: &str,
    fields: AnswerFields,
) -> Result<(), TaskListError> {
    for (name, raw) in json_object_fields(object).unwrap_or_default() {
        if !fields.names.contains(&name.as_str()) {
            let fault = TaskListFault::UnknownField { known: fields.told };
            return Err(TaskListError::at(format!("{place}.{name}"), fault));
        }
        if name == "tasks" {
            let parts = serde_json::from_str::<Vec<&RawValue>>(raw.get()).unwrap_or_default();
            for (index, part) in parts.into_iter().enumerate() {
                check_answer_fields(part.get(), &format!("{place}.tasks[{index}]"), TASK_FIELDS)?;
            }
        }
    }
    Ok(())
}

/// The last object in a text that has `tasks` and is not inside another one.
fn last_task_object(text: &str) -> Option<&str> {
    let (mut rest, mut last) = (text, None);
    let mut searched = 0;
    // Up to here is the inside of an object that cannot be read: nothing in it is the answer.
    let mut broken = 0;
    while let Some((_, from)) = rest.find('{').and_then(|at| rest.split_at_checked(at)) {
        let mut values = serde_json::Deserializer::from_str(from).into_iter::<&RawValue>();
        let read = match values.next() {
            Some(Ok(found)) => {
                let end = text.len() - from.len() + found.get().len();
                let fields = json_object_fields(found.get()).filter(|_| end > broken);
                if fields.is_some_and(|fields| fields.iter().any(|(name, _)| name == "tasks")) {
                    last = Some(found.get());
                }
                found.get().len()
            }
            Some(Err(error)) => {
                // Objects that are never closed would be read to the end again and again.
                let failed = failed_after(&error, from);
                broken = broken.max(text.len() - from.len() + failed);
                searched += failed;
                1
            }
            None => 1,
        };
        if searched > MAX_SEARCH_BYTES {
            break;
        }
        rest = from.get(read..).unwrap_or_default();
    }
    last
}

/// How many bytes were read before an error.
fn failed_after(error: &serde_json::Error, text: &str) -> usize {
    if error.is_eof() {
        return text.len();
    }
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    lines.map(str::len).sum::<usize>() + error.column()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(answer: &str) -> Result<Vec<String>, String> {
        let list = TaskList::of_answer(answer).map_err(|error| error.to_string())?;
        Ok(list.tasks.into_iter().map(|task| task.title).collect())
    }

    #[test]
    fn the_list_is_found_among_words() {
        let list =
            r#"{"title":"T","tasks":[{"title":"A","tasks":[{"title":"B","check":"true"}]}]}"#;
        let wanted = Ok(vec!["A".to_owned(), "B".to_owned()]);
        assert_eq!(titles(list), wanted);
        assert_eq!(
            titles(&format!("Here {{it}} is:\n```json\n{list}\n```\nGood luck {{}}")),
            wanted
        );
        assert_eq!(titles(&format!("{{\"tasks\":[{{\"title\":\"old\"}}]}} no, {list}")), wanted);
        assert_eq!(titles(&format!("{{ \"never\": closed, {list}")), wanted);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cut = r#"{"title":"T","tasks":[{"title":"A","tasks":[{"title":"B"}]},{"title":"C""#;
        let comma = r#"{"tasks":[{"title":"A","tasks":[{"title":"B"}]},]}"#;
        for text in ["", "I cannot do that.", "{\"steps\":[]}", "{\"tasks\":[", "{{{{", cut, comma]
        {
            assert_eq!(
                titles(text),
                Err("the answer holds no complete JSON object with `tasks`".to_owned()),
                "{text}"
            );
        }
        let said = |text: &str| titles(text).unwrap_err();
        assert_eq!(said(r#"{"tasks":[]}"#), "$.tasks: it must be a list with at least one task");
        assert_eq!(said(r#"{"tasks":[{"details":"x"}]}"#), "$.tasks[0].title: it is missing");
        assert_eq!(
            said(r#"{"tasks":[{"title":"A","depends":["z"]}]}"#),
            r#"$.tasks[0].depends[0]: there is no task "z""#
        );
        assert_eq!(
            said(r#"{"tasks":[{"title":"A","tasks":[{"title":"B","owner":"me"}]}]}"#),
            "$.tasks[0].tasks[0].owner: unknown field (id, title, details, depends, check, priority, documents, tasks)"
        );
        assert_eq!(
            said(r#"{"tasks":[{"title":"A"}],"steps":1}"#),
            "$.steps: unknown field (title, tasks)"
        );
        // What was done is not for an answer to say.
        assert!(
            said(r#"{"tasks":[{"title":"A","status":"complete"}]}"#).contains("status: unknown")
        );
        let same = r#"{"tasks":[{"id":"a","title":"A"},{"id":"a","title":"B"}]}"#;
        assert!(said(same).contains("is already used by"), "{}", said(same));
        let circle = r#"{"tasks":[{"id":"a","title":"A","depends":["b"]},{"id":"b","title":"B","depends":["a"]}]}"#;
        assert!(said(circle).contains("wait for each other"), "{}", said(circle));
        assert!(said(&"x".repeat(MAX_ANSWER_BYTES + 1)).contains("larger than 1048576 bytes"));
    }

    #[test]
    fn the_schema_has_the_fields_that_are_read() {
        let schema: serde_json::Value = serde_json::from_str(ANSWER_SCHEMA).unwrap();
        let names = |object: &serde_json::Value| {
            let mut names: Vec<_> =
                object["properties"].as_object().unwrap().keys().cloned().collect();
            names.sort();
            names
        };
        let sorted = |fields: AnswerFields| {
            let mut names: Vec<_> = fields.names.iter().map(|name| (*name).to_owned()).collect();
            names.sort();
            assert_eq!(fields.names.join(", "), fields.told);
            names
        };
        assert_eq!(names(&schema), sorted(LIST_FIELDS));
        assert_eq!(names(&schema["$defs"]["task"]), sorted(TASK_FIELDS));
    }

    #[test]
    fn objects_that_are_never_closed_take_bounded_time() {
        assert_eq!(last_task_object(&r#"{"a":"#.repeat(MAX_ANSWER_BYTES / 5)), None);
        assert_eq!(last_task_object(&"{\n".repeat(MAX_ANSWER_BYTES / 2)), None);
    }
}
