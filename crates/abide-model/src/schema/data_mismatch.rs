//! Which field of an event's data does not match its kind, and why.

use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{FieldDescription, FieldPresence, KindDescription, ValueType};
use crate::json::{RawJsonFields, decode_string, encoded_string, list};
use crate::{Fact, Kind, ObjectHash, Payload, SessionId, Timestamp};

/// Maximum length of a value that is quoted.
const QUOTED: usize = 40;

/// The field of the data that does not match the kind, and why: `data.role: expected a string, not 5`.
/// `None` if the data matches.
#[must_use]
pub fn data_mismatch(kind: &Kind, data: &Payload) -> Option<String> {
    let described = KindDescription::of(kind.as_str());
    let found = described.zip(RawJsonFields::of(data.as_str()));
    found
        .and_then(|(described, fields)| fields_mismatch(described.fields, &fields, "data"))
        .or_else(|| {
            // What the table does not tell, the parser does. A message may be without content.
            let error = Fact::decode(kind, data).err().filter(|_| *kind != Kind::MESSAGE_ADDED)?;
            Some(format!("data: {}", error.source))
        })
}

fn fields_mismatch(
    described: &[FieldDescription],
    fields: &RawJsonFields<'_>,
    path: &str,
) -> Option<String> {
    for field in described {
        let mut given = fields.all(field.name);
        let path = || format!("{path}.{}", field.name);
        let Some(value) = given.next() else {
            match field.presence {
                FieldPresence::Optional | FieldPresence::Defaulted => continue,
                FieldPresence::Required => {}
                FieldPresence::Unless(other) if fields.any(other).is_some() => continue,
                FieldPresence::Unless(_) => {}
            }
            let wanted = match field.value {
                ValueType::Json => String::new(),
                other => format!(", expected {}", expected(&other)),
            };
            return Some(format!("{}: missing{wanted}", path()));
        };
        if given.next().is_some() {
            return Some(format!("{}: given twice", path()));
        }
        if field.presence == FieldPresence::Optional && value.get() == "null" {
            continue;
        }
        if let Some(mismatch) = value_mismatch(&field.value, value, &path()) {
            return Some(mismatch);
        }
    }
    None
}

fn value_mismatch(wanted: &ValueType, value: &RawValue, path: &str) -> Option<String> {
    let each_mismatch = |(index, (wanted, value)): (usize, (&ValueType, &RawValue))| {
        value_mismatch(wanted, value, &format!("{path}[{index}]"))
    };
    let fits = match wanted {
        ValueType::Json => true,
        ValueType::List(each) => match list(value) {
            Some(values) => {
                let values = values.into_iter().map(|value| (*each, value));
                return values.enumerate().find_map(each_mismatch);
            }
            None => false,
        },
        ValueType::Tuple(each) => match list(value) {
            Some(values) if values.len() == each.len() => {
                return each.iter().zip(values).enumerate().find_map(each_mismatch);
            }
            _ => false,
        },
        ValueType::Map(each) => match RawJsonFields::of(value.get()) {
            Some(fields) => {
                return fields.entries().find_map(|(name, value)| {
                    value_mismatch(each, value, &format!("{path}.{name}"))
                });
            }
            None => false,
        },
        ValueType::Record(record) => match RawJsonFields::of(value.get()) {
            Some(fields) => return fields_mismatch(record.fields, &fields, path),
            None => false,
        },
        ValueType::Flag => matches!(value.get(), "true" | "false"),
        ValueType::Number { least, most } => {
            let number: Option<i128> = value.get().parse().ok();
            number.is_some_and(|number| (i128::from(*least)..=i128::from(*most)).contains(&number))
        }
        ValueType::Text | ValueType::OpenWord(_) => is_a::<String>(value),
        ValueType::Word(words) => {
            let word = encoded_string(value).map(decode_string);
            word.is_some_and(|word| words.contains(&&*word))
        }
        ValueType::Time => is_a::<Timestamp>(value),
        ValueType::SessionId => is_a::<SessionId>(value),
        ValueType::Hash => is_a::<ObjectHash>(value),
    };
    (!fits).then(|| format!("{path}: expected {}, not {}", expected(wanted), quoted(value)))
}

/// Does a value decode as this type, as in a fact?
fn is_a<T: DeserializeOwned>(value: &RawValue) -> bool {
    serde_json::from_str::<T>(value.get()).is_ok()
}

/// The type in the words of a message.
fn expected(wanted: &ValueType) -> String {
    match wanted {
        ValueType::Text | ValueType::OpenWord(_) => "a string".to_owned(),
        ValueType::Flag | ValueType::Json | ValueType::Word(_) => wanted.in_words(),
        ValueType::Number { .. } => "a whole number".to_owned(),
        ValueType::Time => "an RFC 3339 time".to_owned(),
        ValueType::SessionId => "a session id".to_owned(),
        ValueType::Hash => "the hash of an object (64 hexadecimal digits)".to_owned(),
        ValueType::List(_) => "a list".to_owned(),
        ValueType::Tuple(each) => format!("a list of {} values", each.len()),
        ValueType::Map(_) | ValueType::Record(_) => "an object".to_owned(),
    }
}

/// The beginning of a value.
fn quoted(value: &RawValue) -> String {
    let mut text: String = value.get().chars().take(QUOTED).collect();
    if text.len() < value.get().len() {
        let _ = write!(text, "…");
    }
    text
}
