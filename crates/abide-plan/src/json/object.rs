//! A JSON object as written: its fields in order, their values verbatim.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Fields in the order of the document, including duplicates.
type Fields<'a> = Vec<(String, &'a RawValue)>;

struct Object<'a>(Fields<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry::<String, &'de RawValue>()? {
                    fields.push(field);
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// The fields of an object; `None` for anything else.
pub(crate) fn fields(json: &str) -> Option<Fields<'_>> {
    serde_json::from_str::<Object<'_>>(json).ok().map(|object| object.0)
}

/// A text as JSON.
pub(crate) fn text(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}
