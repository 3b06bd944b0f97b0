//! A piece of a Chat Completions call, parsed in place.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::super::field::{FieldText, Number, object};

/// The kind of tool that is called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ChatCallKind {
    /// A function, which takes JSON.
    #[default]
    Function,
    /// A custom tool, which takes text.
    Custom,
    /// The single function of a message, from before there were several.
    Legacy,
}

/// A piece of a call.
#[derive(Default)]
pub(super) struct ChatCallPiece<'a> {
    pub(super) index: Option<i64>,
    pub(super) id: FieldText<'a>,
    pub(super) sort: ChatCallKind,
    pub(super) function: Option<Function<'a>>,
    /// Its unknown fields, such as what a provider wants sent back.
    pub(super) rest: Vec<(Cow<'a, str>, &'a RawValue)>,
}

object! {
    #[derive(Clone)]
    pub(super) struct Function<'a> {
        name = "name": FieldText<'a>,
        arguments = "arguments": Option<&'a RawValue>,
        input = "input": Option<&'a RawValue>,
    }
}

impl<'a> ChatCallPiece<'a> {
    /// A piece of a call in the legacy form.
    pub(super) fn legacy(function: &Function<'a>) -> Self {
        Self { sort: ChatCallKind::Legacy, function: Some(function.clone()), ..Self::default() }
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.function.as_ref()?.name.some()
    }

    /// The arguments. Some providers send the object itself instead of its text.
    pub(super) fn arguments(&self) -> Cow<'_, str> {
        let given = self.function.as_ref().and_then(|function| match self.sort {
            ChatCallKind::Custom => function.input,
            ChatCallKind::Function | ChatCallKind::Legacy => function.arguments,
        });
        let Some(raw) = given else { return Cow::Borrowed("") };
        match raw.get() {
            "null" => Cow::Borrowed(""),
            text if text.starts_with('"') => serde_json::from_str::<FieldText<'_>>(text)
                .ok()
                .and_then(|text| text.0)
                .unwrap_or(Cow::Borrowed(text)),
            object => Cow::Borrowed(object),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ChatCallPiece<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(CallPieceVisitor)
    }
}

struct CallPieceVisitor;

impl<'de> Visitor<'de> for CallPieceVisitor {
    type Value = ChatCallPiece<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a piece of a call")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ChatCallPiece<'de>, A::Error> {
        let mut piece = ChatCallPiece::default();
        while let Some(FieldText(key)) = map.next_key::<FieldText<'de>>()? {
            let key = key.unwrap_or_default();
            match &*key {
                "index" => piece.index = map.next_value::<Number>()?.0,
                "id" => piece.id = map.next_value()?,
                // The kind follows from the other fields.
                "type" => {
                    if map.next_value::<FieldText<'_>>()?.some() == Some("custom") {
                        piece.sort = ChatCallKind::Custom;
                    }
                }
                "function" => piece.function = map.next_value::<Option<_>>()?.or(piece.function),
                "custom" => {
                    if let Some(custom) = map.next_value::<Option<_>>()? {
                        piece.function = Some(custom);
                        piece.sort = ChatCallKind::Custom;
                    }
                }
                _ => {
                    if let Some(value) = map.next_value::<Option<&'de RawValue>>()? {
                        piece.rest.push((key, value));
                    }
                }
            }
        }
        Ok(piece)
    }
}
