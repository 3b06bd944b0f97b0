//! A description of every kind of event: what it means, its fields, and who may write it.
//!
//! The table is for people and programs that write events: `abide schema` and `docs/events.md` are
//! made from it, and a recording names the fields that it does not have. It decides nothing about
//! what is kept. Tests compare it with the types of the facts, in both directions.

mod data_mismatch;
mod kinds;
mod meant_names;
mod records;
#[cfg(test)]
mod tests;
mod unknown_names;

pub use data_mismatch::data_mismatch;
pub use kinds::KIND_DESCRIPTIONS;
pub use unknown_names::UnknownNames;

/// What a kind of event means.
#[derive(Debug)]
pub struct KindDescription {
    /// Its name: `message.added`.
    pub kind: &'static str,
    /// What it records, in one line.
    pub meaning: &'static str,
    /// Who may write it.
    pub writer: KindWriter,
    /// The fields of its data.
    pub fields: &'static [FieldDescription],
    /// Fields that are read, but not by the fact of this kind: what the APIs of models have in a
    /// message beside its role and its content.
    pub also: &'static [FieldDescription],
}

/// Who may write a kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindWriter {
    /// Any program, with `abide record` or the library.
    Anyone,
    /// The process that holds the session, by itself and not in a batch.
    Holder,
    /// The store alone.
    Store,
}

impl KindWriter {
    /// The same in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anyone => "any program",
            Self::Holder => "the process that holds the session, one event at a time",
            Self::Store => "abide alone",
        }
    }
}

/// A field of an object.
#[derive(Debug)]
pub struct FieldDescription {
    /// Its name.
    pub name: &'static str,
    /// The type of its value.
    pub value: ValueType,
    /// Must it be there?
    pub presence: FieldPresence,
    /// What it means, in one line.
    pub meaning: &'static str,
}

/// Must a field be there?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldPresence {
    /// It must.
    Required,
    /// It must, unless this other field is there.
    Unless(&'static str),
    /// It may be left out or `null`.
    Optional,
    /// It may be left out, but not `null`: it has a default.
    Defaulted,
}

/// An object that is the value of a field.
#[derive(Debug)]
pub struct RecordDescription {
    /// Its name in the documentation.
    pub name: &'static str,
    /// What it is, in one line.
    pub meaning: &'static str,
    /// Its fields.
    pub fields: &'static [FieldDescription],
}

/// The type of a value.
#[derive(Debug, Clone, Copy)]
pub enum ValueType {
    /// A string.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number in this range.
    Number {
        /// The least.
        least: i64,
        /// The greatest.
        most: u64,
    },
    /// An RFC 3339 time.
    Time,
    /// The id of a session: a UUID.
    SessionId,
    /// The hash of an object: 64 hexadecimal digits.
    Hash,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, or one of a later version.
    OpenWord(&'static [&'static str]),
    /// Any JSON.
    Json,
    /// A list of these.
    List(&'static ValueType),
    /// An object whose keys are the caller's own and whose values are these.
    Map(&'static ValueType),
    /// A list of exactly these.
    Tuple(&'static [ValueType]),
    /// An object with known fields.
    Record(&'static RecordDescription),
}

impl ValueType {
    /// A number that counts something.
    pub(crate) const COUNT: Self = Self::Number { least: 0, most: u64::MAX };
    /// A number that may be negative.
    pub(crate) const SIGNED: Self = Self::Number { least: i64::MIN, most: i64::MAX.unsigned_abs() };

    /// The same in words: `string`, `list of numbers`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let quoted = |words: &[&str]| {
            words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Text => "string".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Number { .. } => "whole number".to_owned(),
            Self::Time => "RFC 3339 time".to_owned(),
            Self::SessionId => "session id".to_owned(),
            Self::Hash => "object hash".to_owned(),
            Self::Word(words) => format!("one of {}", quoted(words)),
            Self::OpenWord(words) => format!("{} or another word", quoted(words)),
            Self::Json => "any JSON".to_owned(),
            Self::List(each) => format!("list of {}", each.in_plural()),
            Self::Map(each) => format!("object with {} by name", each.in_plural()),
            Self::Tuple(each) => format!("list of {} values", each.len()),
            Self::Record(record) => record.name.to_owned(),
        }
    }

    fn in_plural(&self) -> String {
        match self {
            Self::Text => "strings".to_owned(),
            Self::Number { .. } => "whole numbers".to_owned(),
            Self::Hash => "object hashes".to_owned(),
            Self::Tuple(each) if each.len() == 2 => {
                format!("pairs of {}", each.first().map(Self::in_plural).unwrap_or_default())
            }
            other => other.in_words(),
        }
    }

    /// The object with known fields that a value consists of, if it does.
    #[must_use]
    pub fn record(&self) -> Option<&'static RecordDescription> {
        match self {
            Self::Record(record) => Some(record),
            Self::List(each) | Self::Map(each) => each.record(),
            _ => None,
        }
    }
}

impl KindDescription {
    /// The description of a kind, by its name.
    #[must_use]
    pub fn of(kind: &str) -> Option<&'static Self> {
        // For each event of a recording: most lengths differ.
        let is_it =
            |described: &&Self| described.kind.len() == kind.len() && described.kind == kind;
        KIND_DESCRIPTIONS.iter().find(is_it)
    }

    /// Every field that is read.
    pub fn read_fields(&self) -> impl Iterator<Item = &'static FieldDescription> {
        self.fields.iter().chain(self.also)
    }

    /// Has its data a field of this name? Data of any kind has `abide` once a secret in it was
    /// redacted.
    #[must_use]
    #[inline]
    pub fn has_field(&self, name: &str) -> bool {
        let is_it = |field: &FieldDescription| field.name.len() == name.len() && field.name == name;
        self.fields.iter().any(is_it) || self.also.iter().any(is_it) || name == "abide"
    }

    /// The objects with known fields in its data, each once and before those that are part of it.
    #[must_use]
    pub fn records(&self) -> Vec<&'static RecordDescription> {
        let mut found: Vec<&'static RecordDescription> = Vec::new();
        let mut open: Vec<&'static RecordDescription> =
            self.read_fields().filter_map(|field| field.value.record()).collect();
        open.reverse();
        while let Some(record) = open.pop() {
            if !found.iter().any(|other| other.name == record.name) {
                found.push(record);
                let inner = record.fields.iter().rev().filter_map(|field| field.value.record());
                open.extend(inner);
            }
        }
        found
    }
}

/// A field that must be there.
const fn required(name: &'static str, value: ValueType, meaning: &'static str) -> FieldDescription {
    FieldDescription { name, value, presence: FieldPresence::Required, meaning }
}

/// A field that may be left out or `null`.
const fn optional(name: &'static str, value: ValueType, meaning: &'static str) -> FieldDescription {
    FieldDescription { name, value, presence: FieldPresence::Optional, meaning }
}

/// A field that may be left out.
const fn defaulted(
    name: &'static str,
    value: ValueType,
    meaning: &'static str,
) -> FieldDescription {
    FieldDescription { name, value, presence: FieldPresence::Defaulted, meaning }
}
