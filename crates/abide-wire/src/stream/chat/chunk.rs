//! A chunk of Chat Completions, read in place.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::super::event::Event;
use super::super::field::Text;
use super::super::tally;

#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) choices: First<'a>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    object: Text<'a>,
}

impl Chunk<'_> {
    /// What failed, when the event says that something did.
    pub(super) fn failure(&self, event: Event<'_>) -> Option<String> {
        if let Some(error) = self.error.filter(|error| tally::is_error(error.get())) {
            return Some(tally::error(error.get()));
        }
        if self.object.some() == Some("error") || event.name == b"error" {
            return std::str::from_utf8(event.data).ok().map(tally::error);
        }
        None
    }
}

/// The choice with the index 0 or none. Others are not asked for by agents and are passed over.
#[derive(Default)]
pub(super) struct First<'a>(pub(super) Option<Choice<'a>>);

#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Choice<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    pub(super) delta: Option<Message<'a>>,
    /// Boxed, for it is rare and would be moved about with every chunk.
    #[serde(borrow)]
    pub(super) message: Option<Box<Message<'a>>>,
    #[serde(borrow)]
    pub(super) finish_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) content: Content<'a>,
    #[serde(borrow)]
    pub(super) reasoning_content: Text<'a>,
    #[serde(borrow)]
    pub(super) reasoning: Text<'a>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<Piece<'a>>>,
}

/// A piece of a call.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Piece<'a> {
    pub(super) index: Option<i64>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) function: Option<Function<'a>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl Piece<'_> {
    pub(super) fn name(&self) -> Option<&str> {
        self.function.as_ref()?.name.some()
    }

    /// The arguments. Some providers give the object itself and not its text.
    pub(super) fn arguments(&self) -> Cow<'_, str> {
        let Some(raw) = self.function.as_ref().and_then(|function| function.arguments) else {
            return Cow::Borrowed("");
        };
        match raw.get() {
            "null" => Cow::Borrowed(""),
            text if text.starts_with('"') => serde_json::from_str::<Text<'_>>(text)
                .ok()
                .and_then(|text| text.0)
                .unwrap_or(Cow::Borrowed(text)),
            object => Cow::Borrowed(object),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for First<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FirstVisitor)
    }
}

struct FirstVisitor;

impl<'de> Visitor<'de> for FirstVisitor {
    type Value = First<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of choices")
    }

    fn visit_unit<E>(self) -> Result<First<'de>, E> {
        Ok(First(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<First<'de>, A::Error> {
        let mut first = None;
        while let Some(choice) = seq.next_element::<Choice<'de>>()? {
            if first.is_none() && choice.index.unwrap_or(0) == 0 {
                first = Some(choice);
            }
        }
        Ok(First(first))
    }
}

/// What a message says: text, or parts of which each is a thought or not.
#[derive(Default)]
pub(super) enum Content<'a> {
    #[default]
    None,
    Text(Cow<'a, str>),
    Parts(Vec<(bool, String)>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or parts of it")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Content<'de>, E> {
        Ok(Content::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Content<'de>, E> {
        Ok(Content::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Content<'de>, E> {
        Ok(Content::None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content<'de>, A::Error> {
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct Part<'a> {
            #[serde(borrow)]
            text: Text<'a>,
            #[serde(borrow)]
            thinking: Content<'a>,
        }
        let mut parts = Vec::new();
        while let Some(part) = seq.next_element::<Part<'de>>()? {
            match part.thinking {
                Content::None => parts.push((false, part.text.or_empty().to_owned())),
                Content::Text(text) => parts.push((true, text.into_owned())),
                Content::Parts(thoughts) => {
                    parts.extend(thoughts.into_iter().map(|(_, text)| (true, text)));
                }
            }
        }
        Ok(Content::Parts(parts))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Content::None)
    }
}
