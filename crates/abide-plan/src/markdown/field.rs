//! Fields of a task in the lines right below its title: `depends: …` and the like.

use abide_model::{DependencyType, TaskStatus};
use serde_json::value::RawValue;

use super::name::name_on_one_line;
use crate::arrange::MAX_DEPTH;
use crate::json::{compact_json, json_depth};
use crate::status::{self, StatusWord};

/// A field of a task.
#[derive(Debug)]
pub(super) enum MarkdownField {
    Depends(DependencyType, String),
    Priority(i64),
    Document(String),
    Check(String),
    Status(StatusWord),
    Result(Box<RawValue>),
}

impl MarkdownField {
    /// Reads a line; `None` for text.
    pub(super) fn read(line: &str) -> Option<Self> {
        let line = line.trim();
        let (key, value) = line.strip_prefix("- ").unwrap_or(line).split_once(':')?;
        let value = value.trim();
        if value.is_empty() {
            return None;
        }
        match key.to_ascii_lowercase().as_str() {
            "depends" | "depends on" => {
                Some(Self::Depends(DependencyType::Blocks, name_on_one_line(value)))
            }
            "depends (needs-result)" => {
                Some(Self::Depends(DependencyType::NeedsResult, name_on_one_line(value)))
            }
            "depends (soft)" => Some(Self::Depends(DependencyType::Soft, name_on_one_line(value))),
            "priority" => value.parse().ok().map(Self::Priority),
            "document" => Some(Self::Document(value.to_owned())),
            "check" => Some(Self::Check(value.to_owned())),
            "status" => status::read_status(value, TaskStatus::as_str).map(Self::Status),
            // `null` is not a result and is not recorded as one.
            "result" if value != "null" => {
                serde_json::from_str::<&RawValue>(value).ok()?;
                let shallow = json_depth(value) <= MAX_DEPTH;
                shallow.then(|| RawValue::from_string(compact_json(value)).ok())?.map(Self::Result)
            }
            _ => None,
        }
    }
}
