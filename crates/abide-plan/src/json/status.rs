//! Where statuses stand in a task list in JSON.

use std::ops::Range;

use abide_model::TaskStatus;
use serde_json::value::RawValue;

use super::dialect::{JsonDialect, TaskField};
use super::{json_object_fields, json_text};
use crate::status_edit::{TextEdit, WantedStatuses};

/// The edits that give tasks their statuses.
pub(crate) fn json_status_edits(
    dialect: &JsonDialect,
    document: &str,
    wanted: WantedStatuses<'_>,
) -> Vec<TextEdit> {
    let mut places = JsonStatusPlaces { dialect, document, found: Vec::new() };
    let top = json_object_fields(document).unwrap_or_default();
    if let Some((_, list)) = top.iter().find(|(name, _)| name == dialect.root) {
        places.list(list, 0);
    }
    let edit = |(place, status): (&JsonStatusPlace, &Option<TaskStatus>)| {
        let word = json_text(dialect.word()((*status)?));
        Some(match place {
            JsonStatusPlace::Value(range) => TextEdit { range: range.clone(), text: word },
            JsonStatusPlace::After(title) => places.new_field(title, &word),
        })
    };
    places.found.iter().zip(wanted).filter_map(edit).collect()
}

/// Where the status of a task is.
enum JsonStatusPlace {
    /// The value of its field.
    Value(Range<usize>),
    /// It has none; this is the value of its title.
    After(Range<usize>),
}

struct JsonStatusPlaces<'a> {
    dialect: &'a JsonDialect,
    document: &'a str,
    found: Vec<JsonStatusPlace>,
}

impl<'a> JsonStatusPlaces<'a> {
    /// The tasks of a list, each before its parts. The document was read before, so its depth is
    /// bounded.
    fn list(&mut self, raw: &'a RawValue, level: usize) {
        let items = serde_json::from_str::<Vec<&'a RawValue>>(raw.get()).unwrap_or_default();
        for item in items {
            let (mut status, mut title, mut children) = (None, None, None);
            for (name, value) in json_object_fields(item.get()).unwrap_or_default() {
                match self.dialect.field(&name, level) {
                    Some(TaskField::Status) => status = Some(self.range(value)),
                    Some(TaskField::Title) => title = Some(self.range(value)),
                    Some(TaskField::Children) => children = Some(value),
                    _ => {}
                }
            }
            let title = JsonStatusPlace::After(title.unwrap_or_default());
            self.found.push(status.map_or(title, JsonStatusPlace::Value));
            if let Some(children) = children {
                self.list(children, level + 1);
            }
        }
    }

    /// The range of a value within the document, which it is a part of.
    fn range(&self, value: &RawValue) -> Range<usize> {
        let value = value.get();
        let start = value.as_ptr().addr().saturating_sub(self.document.as_ptr().addr());
        start..start + value.len()
    }

    /// A field behind the title, spaced as the title is.
    fn new_field(&self, title: &Range<usize>, word: &str) -> TextEdit {
        let before = self.document.get(..title.start).unwrap_or_default();
        let colon = before.trim_end();
        let gap = before.get(colon.len()..).unwrap_or_default();
        let key = colon.strip_suffix(':').unwrap_or(colon).trim_end();
        let lead = key.strip_suffix("\"title\"").unwrap_or_default();
        let lead = lead.get(lead.trim_end().len()..).unwrap_or_default();
        let text = format!(",{lead}\"status\":{gap}{word}");
        TextEdit { range: title.end..title.end, text }
    }
}
