//! A JSON object that deltas extend.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use super::field::{OrderedFields, quoted};

/// An object that is extended by deltas. Its initial value is parsed once, however many deltas
/// follow.
#[derive(Debug)]
pub(super) struct GrowingObject {
    fields: Vec<(String, GrowingValue)>,
    places: HashMap<String, usize>,
    /// The field that changed last; the next change is usually there too.
    last: usize,
    grown: bool,
}

#[derive(Debug)]
enum GrowingValue {
    /// Unchanged JSON.
    Json(String),
    Text(String),
    Items(Vec<String>),
}

impl GrowingObject {
    /// Starts with these fields.
    pub(super) fn new(start: &OrderedFields<'_>) -> Self {
        let started =
            start.iter().map(|(name, json)| (name.to_owned(), GrowingValue::Json(json.into())));
        let fields: Vec<_> = started.collect();
        let places = fields.iter().enumerate().map(|(at, (name, _))| (name.clone(), at));
        let places = places.collect();
        Self { fields, places, last: 0, grown: false }
    }

    /// Whether anything changed since the start.
    pub(super) fn has_grown(&self) -> bool {
        self.grown
    }

    /// Appends to the text of a field.
    pub(super) fn append(&mut self, name: &str, text: &str) {
        let Some(grown) = self.change(name) else { return };
        if let GrowingValue::Text(all) = grown {
            all.push_str(text);
            return;
        }
        let mut all = grown.text().unwrap_or_default();
        all.push_str(text);
        *grown = GrowingValue::Text(all);
    }

    /// Appends an item to the list in a field.
    pub(super) fn add(&mut self, name: &str, item: &str) {
        let Some(grown) = self.change(name) else { return };
        if let GrowingValue::Items(items) = grown {
            items.push(item.to_owned());
            return;
        }
        let before: Option<Vec<&RawValue>> = match grown {
            GrowingValue::Json(json) => serde_json::from_str(json).ok(),
            _ => None,
        };
        let before = before.into_iter().flatten().map(|item| item.get().to_owned());
        *grown = GrowingValue::Items(before.chain([item.to_owned()]).collect());
    }

    /// Sets a field to a JSON value, in place or at the end.
    pub(super) fn set(&mut self, name: &str, json: String) {
        if let Some(grown) = self.change(name) {
            *grown = GrowingValue::Json(json);
        }
    }

    /// The value of a string field.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.text()
    }

    /// The value of a field, as JSON.
    pub(super) fn json(&self, name: &str) -> Option<Cow<'_, str>> {
        self.get(name).map(GrowingValue::json)
    }

    /// The object, as JSON.
    pub(super) fn to_json(&self) -> String {
        let fields = self.fields.iter();
        let fields = fields.map(|(name, grown)| format!("{}:{}", quoted(name), grown.json()));
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    }

    fn get(&self, name: &str) -> Option<&GrowingValue> {
        self.fields.get(*self.places.get(name)?).map(|(_, grown)| grown)
    }

    /// A field about to change, created if it is missing.
    fn change(&mut self, name: &str) -> Option<&mut GrowingValue> {
        self.grown = true;
        if self.fields.get(self.last).is_none_or(|(last, _)| last != name) {
            self.last = match self.places.get(name) {
                Some(place) => *place,
                None => {
                    self.places.insert(name.to_owned(), self.fields.len());
                    self.fields.push((name.to_owned(), GrowingValue::Json("null".to_owned())));
                    self.fields.len() - 1
                }
            };
        }
        self.fields.get_mut(self.last).map(|(_, grown)| grown)
    }
}

impl GrowingValue {
    fn text(&self) -> Option<String> {
        match self {
            Self::Json(json) => serde_json::from_str(json).ok(),
            Self::Text(text) => Some(text.clone()),
            Self::Items(_) => None,
        }
    }

    fn json(&self) -> Cow<'_, str> {
        match self {
            Self::Json(json) => json.into(),
            Self::Text(text) => quoted(text).into(),
            Self::Items(items) => format!("[{}]", items.join(",")).into(),
        }
    }
}
