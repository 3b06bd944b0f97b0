//! A chunk of Chat Completions, parsed in place.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::super::event::Event;
use super::super::field::{Number, Text, object};
use super::super::tally;
use super::piece::{Function, Piece};

object! {
    pub(super) struct Chunk<'a> {
        pub(super) id = "id": Text<'a>,
        pub(super) model = "model": Text<'a>,
        pub(super) choices = "choices": First<'a>,
        pub(super) usage = "usage": Option<&'a RawValue>,
        error = "error": Option<&'a RawValue>,
        object = "object": Text<'a>,
    }
}

impl Chunk<'_> {
    /// The error that the event reports, if any.
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

/// The first choice with index 0 or no index. Others are ignored: agents do not request them.
#[derive(Default)]
pub(super) struct First<'a>(pub(super) Option<Choice<'a>>);

object! {
    pub(super) struct Choice<'a> {
        index = "index": Number,
        pub(super) delta = "delta": Option<Message<'a>>,
        /// Boxed because it is rare and would be moved with every chunk.
        pub(super) message = "message": Option<Box<Message<'a>>>,
        pub(super) finish_reason = "finish_reason": Text<'a>,
        pub(super) error = "error": Option<&'a RawValue>,
    }
}

object! {
    pub(super) struct Message<'a> {
        pub(super) content = "content": Content<'a>,
        pub(super) reasoning_content = "reasoning_content": Text<'a>,
        pub(super) reasoning = "reasoning": Text<'a>,
        pub(super) refusal = "refusal": Text<'a>,
        pub(super) tool_calls = "tool_calls": Option<Vec<Piece<'a>>>,
        /// A call in the legacy form, from before there were several.
        pub(super) function_call = "function_call": Option<Box<Function<'a>>>,
    }
}

object! {
    struct Part<'a> {
        text = "text": Text<'a>,
        thinking = "thinking": Content<'a>,
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
            if first.is_none() && choice.index.0.unwrap_or(0) == 0 {
                first = Some(choice);
            }
        }
        Ok(First(first))
    }
}

/// The content of a message: text, or parts, each flagged as reasoning or not.
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
