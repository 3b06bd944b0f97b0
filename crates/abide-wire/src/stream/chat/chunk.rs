//! A chunk of Chat Completions, parsed in place.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::super::answer_usage;
use super::super::field::{FieldText, Number, object};
use super::super::sse_event_reader::SseEvent;
use super::chat_call_piece::{ChatCallPiece, Function};

object! {
    pub(super) struct ChatChunk<'a> {
        pub(super) id = "id": FieldText<'a>,
        pub(super) model = "model": FieldText<'a>,
        pub(super) choices = "choices": FirstChoice<'a>,
        pub(super) usage = "usage": Option<&'a RawValue>,
        error = "error": Option<&'a RawValue>,
        object = "object": FieldText<'a>,
    }
}

impl ChatChunk<'_> {
    /// The error that the event reports, if any.
    pub(super) fn failure(&self, event: SseEvent<'_>) -> Option<String> {
        if let Some(error) = self.error.filter(|error| answer_usage::is_error(error.get())) {
            return Some(answer_usage::error(error.get()));
        }
        if self.object.some() == Some("error") || event.name == b"error" {
            return std::str::from_utf8(event.data).ok().map(answer_usage::error);
        }
        None
    }
}

/// The first choice with index 0 or no index. Others are ignored: agents do not request them.
#[derive(Default)]
pub(super) struct FirstChoice<'a>(pub(super) Option<Choice<'a>>);

object! {
    pub(super) struct Choice<'a> {
        index = "index": Number,
        pub(super) delta = "delta": Option<ChatMessage<'a>>,
        /// Boxed because it is rare and would be moved with every chunk.
        pub(super) message = "message": Option<Box<ChatMessage<'a>>>,
        pub(super) finish_reason = "finish_reason": FieldText<'a>,
        pub(super) error = "error": Option<&'a RawValue>,
    }
}

object! {
    pub(super) struct ChatMessage<'a> {
        pub(super) content = "content": ChunkContent<'a>,
        pub(super) reasoning_content = "reasoning_content": FieldText<'a>,
        pub(super) reasoning = "reasoning": FieldText<'a>,
        pub(super) refusal = "refusal": FieldText<'a>,
        pub(super) tool_calls = "tool_calls": Option<Vec<ChatCallPiece<'a>>>,
        /// A call in the legacy form, from before there were several.
        pub(super) function_call = "function_call": Option<Box<Function<'a>>>,
    }
}

object! {
    struct ChatContentPart<'a> {
        text = "text": FieldText<'a>,
        thinking = "thinking": ChunkContent<'a>,
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for FirstChoice<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FirstChoiceVisitor)
    }
}

struct FirstChoiceVisitor;

impl<'de> Visitor<'de> for FirstChoiceVisitor {
    type Value = FirstChoice<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of choices")
    }

    fn visit_unit<E>(self) -> Result<FirstChoice<'de>, E> {
        Ok(FirstChoice(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<FirstChoice<'de>, A::Error> {
        let mut first = None;
        while let Some(choice) = seq.next_element::<Choice<'de>>()? {
            if first.is_none() && choice.index.0.unwrap_or(0) == 0 {
                first = Some(choice);
            }
        }
        Ok(FirstChoice(first))
    }
}

/// The content of a message: text, or parts, each flagged as reasoning or not.
#[derive(Default)]
pub(super) enum ChunkContent<'a> {
    #[default]
    None,
    Text(Cow<'a, str>),
    Parts(Vec<(bool, String)>),
}

impl<'de: 'a, 'a> Deserialize<'de> for ChunkContent<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ChunkContentVisitor)
    }
}

struct ChunkContentVisitor;

impl<'de> Visitor<'de> for ChunkContentVisitor {
    type Value = ChunkContent<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or parts of it")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<ChunkContent<'de>, E> {
        Ok(ChunkContent::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<ChunkContent<'de>, E> {
        Ok(ChunkContent::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<ChunkContent<'de>, E> {
        Ok(ChunkContent::None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<ChunkContent<'de>, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = seq.next_element::<ChatContentPart<'de>>()? {
            match part.thinking {
                ChunkContent::None => parts.push((false, part.text.or_empty().to_owned())),
                ChunkContent::Text(text) => parts.push((true, text.into_owned())),
                ChunkContent::Parts(thoughts) => {
                    parts.extend(thoughts.into_iter().map(|(_, text)| (true, text)));
                }
            }
        }
        Ok(ChunkContent::Parts(parts))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ChunkContent<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(ChunkContent::None)
    }
}
