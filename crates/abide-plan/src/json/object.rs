//! A JSON object as written: its fields in order, their values verbatim.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Fields in the order of the document, including duplicates.
type DocumentFields<'a> = Vec<(String, &'a RawValue)>;

struct DocumentObject<'a>(DocumentFields<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for DocumentObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DocumentObjectVisitor;
        impl<'de> Visitor<'de> for DocumentObjectVisitor {
            type Value = DocumentObject<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<DocumentObject<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry::<String, &'de RawValue>()? {
                    fields.push(field);
                }
                Ok(DocumentObject(fields))
            }
        }
        deserializer.deserialize_map(DocumentObjectVisitor)
    }
}

/// The fields of an object; `None` for anything else.
pub(crate) fn json_object_fields(json: &str) -> Option<DocumentFields<'_>> {
    serde_json::from_str::<DocumentObject<'_>>(json).ok().map(|object| object.0)
}

/// A text as JSON.
pub(crate) fn json_text(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}
