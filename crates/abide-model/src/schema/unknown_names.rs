//! Names in an event that this version does not know.

use super::KindDescription;
use super::meant_names::{meant_field, meant_kind};
use crate::json::decode_string;
use crate::{Kind, near_names};

/// Names in an event that this version does not know: they are kept, but they may be mistakes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnknownNames {
    /// The kind, if it is neither in the vocabulary nor the caller's own (`x.…`).
    pub kind: Option<String>,
    /// Fields of the data that its kind does not have.
    pub fields: Vec<String>,
    /// What is likely meant, by the name as given.
    pub meant: Vec<(String, &'static str)>,
}

/// Maximum number of fields that are named.
const MOST: usize = 20;

impl UnknownNames {
    /// Is there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kind.is_none() && self.fields.is_empty()
    }

    /// The description of the kind; without one, the kind is noted unless it is the caller's own.
    pub(crate) fn note_kind(&mut self, kind: &Kind) -> Option<&'static KindDescription> {
        let name = kind.as_str();
        if name.starts_with("x.") {
            return None;
        }
        let described = KindDescription::of(name);
        if described.is_none() {
            self.kind = Some(name.to_owned());
            let near = || near_names(name, Kind::VOCABULARY.iter().copied()).first().copied();
            let meant = meant_kind(name).or_else(near);
            self.meant.extend(meant.map(|meant| (name.to_owned(), meant)));
        }
        described
    }

    /// Notes a field, given as a JSON string, if the kind does not have it.
    #[inline]
    pub(crate) fn note_field(&mut self, kind: &KindDescription, name: &str) {
        let plain = name.get(1..name.len().saturating_sub(1)).unwrap_or_default();
        if !kind.has_field(plain) {
            self.note_odd_field(kind, name);
        }
    }

    #[cold]
    fn note_odd_field(&mut self, kind: &KindDescription, name: &str) {
        // A name may be written with escapes.
        let name = decode_string(name).into_owned();
        if kind.has_field(&name) || self.fields.contains(&name) || self.fields.len() == MOST {
            return;
        }
        let near =
            || near_names(&name, kind.read_fields().map(|field| field.name)).first().copied();
        let meant = meant_field(kind, &name).or_else(near);
        self.meant.extend(meant.map(|meant| (name.clone(), meant)));
        self.fields.push(name);
    }
}
