//! In-place JSON parsing: text borrowed where possible, objects with their keys in order.

use std::borrow::Cow;
use std::fmt;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Declares an object of which some fields are parsed. The last duplicate counts; unknown fields
/// are ignored.
macro_rules! object {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident<'a> {
            $($(#[$doc:meta])* $of:vis $field:ident = $key:literal: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Default)]
        $vis struct $name<'a> {
            $($(#[$doc])* $of $field: $type,)*
        }

        impl<'de: 'a, 'a> serde::de::Deserialize<'de> for $name<'a> {
            fn deserialize<D>(deserializer: D) -> Result<Self, D::Error>
            where
                D: serde::de::Deserializer<'de>,
            {
                struct ObjectVisitor;
                impl<'de> serde::de::Visitor<'de> for ObjectVisitor {
                    type Value = $name<'de>;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A>(self, mut map: A) -> Result<$name<'de>, A::Error>
                    where
                        A: serde::de::MapAccess<'de>,
                    {
                        let mut object = $name::default();
                        while let Some(key) = map.next_key::<$crate::stream::field::FieldText<'de>>()? {
                            match key.or_empty() {
                                $($key => object.$field = map.next_value()?,)*
                                _ => {
                                    map.next_value::<serde::de::IgnoredAny>()?;
                                }
                            }
                        }
                        Ok(object)
                    }
                }
                deserializer.deserialize_map(ObjectVisitor)
            }
        }
    };
}
pub(super) use object;

/// An integer; anything else becomes `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Number(pub(super) Option<i64>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = deserializer.deserialize_any(TextFieldVisitor)?;
        Ok(Self(text.some().and_then(|text| text.parse().ok())))
    }
}

/// Text; a number becomes its digits, anything else `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldText<'a>(pub(super) Option<Cow<'a, str>>);

impl FieldText<'_> {
    /// The text, unless it is missing or empty.
    pub(super) fn some(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.is_empty())
    }

    /// The text, or an empty string.
    pub(super) fn or_empty(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for FieldText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextFieldVisitor)
    }
}

struct TextFieldVisitor;

impl<'de> Visitor<'de> for TextFieldVisitor {
    type Value = FieldText<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<FieldText<'de>, E> {
        Ok(FieldText(Some(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<FieldText<'de>, E> {
        Ok(FieldText(Some(Cow::Owned(text.to_owned()))))
    }

    fn visit_u64<E>(self, number: u64) -> Result<FieldText<'de>, E> {
        Ok(FieldText(Some(Cow::Owned(number.to_string()))))
    }

    fn visit_i64<E>(self, number: i64) -> Result<FieldText<'de>, E> {
        Ok(FieldText(Some(Cow::Owned(number.to_string()))))
    }

    fn visit_f64<E>(self, _: f64) -> Result<FieldText<'de>, E> {
        Ok(FieldText(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<FieldText<'de>, E> {
        Ok(FieldText(None))
    }

    fn visit_unit<E>(self) -> Result<FieldText<'de>, E> {
        Ok(FieldText(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<FieldText<'de>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(FieldText(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FieldText<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(FieldText(None))
    }
}

/// The fields of an object in order, each value as raw JSON.
#[derive(Debug, Clone, Default)]
pub(super) struct OrderedFields<'a> {
    all: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    places: HashMap<Cow<'a, str>, usize>,
}

impl<'a> OrderedFields<'a> {
    /// Parses a JSON object; anything else has no fields.
    pub(super) fn read(json: &'a str) -> Self {
        serde_json::from_str(json).unwrap_or_default()
    }

    /// The fields: name and value as JSON.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.all.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The value of a field, as JSON. The last duplicate counts.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all.get(*self.places.get(name)?).map(|(_, value)| &**value)
    }

    /// The value of a field that is an unsigned integer.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// The value of a string field.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// Sets a field to a JSON value, in place or at the end.
    pub(super) fn set(&mut self, name: &'a str, json: String) {
        self.put(Cow::Borrowed(name), Cow::Owned(json));
    }

    fn put(&mut self, name: Cow<'a, str>, json: Cow<'a, str>) {
        match self.places.entry(name) {
            Entry::Occupied(place) => {
                if let Some((_, value)) = self.all.get_mut(*place.get()) {
                    *value = json;
                }
            }
            Entry::Vacant(place) => {
                self.all.push((place.key().clone(), json));
                place.insert(self.all.len() - 1);
            }
        }
    }

    /// The object, as JSON.
    pub(super) fn to_json(&self) -> String {
        let fields = self.all.iter().map(|(key, value)| format!("{}:{value}", quoted(key)));
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for OrderedFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = OrderedFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderedFields<'de>, A::Error> {
        let mut fields = OrderedFields::default();
        while let Some((key, value)) = map.next_entry::<FieldText<'de>, &'de RawValue>()? {
            fields.put(key.0.unwrap_or_default(), Cow::Borrowed(value.get()));
        }
        Ok(fields)
    }
}

/// Encodes text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    // Writing text to memory cannot fail.
    serde_json::to_string(text).unwrap_or_default()
}
