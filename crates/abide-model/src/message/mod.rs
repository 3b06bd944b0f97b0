//! Recorded messages, read once: the data of a `message.added` event, in any form, as pieces that
//! keep their raw JSON.
//!
//! [`RecordedMessage::of`] is the one reader. It owns its payload and its pieces are ranges of it, so
//! a message is parsed on its way into a context and not again. [`json`](crate::json) is below it.

mod content;
mod forms;
mod json_text;
mod marks;
mod message_piece;
mod piece_reader;
mod shell;

pub use forms::{Forms, MessageForm, is_part};
pub use json_text::{JsonText, RawJson};
pub use marks::Marks;
pub use message_piece::{
    CallPiece, CallPieceArguments, ImagePiece, MessagePiece, PieceContent, ResultPiece, UnreadPiece,
};
pub use shell::{COMMAND_ARGUMENTS, ShellOutcome, bare_command, shell_command};

use std::borrow::Cow;

use serde_json::value::RawValue;

use self::content::{RawContent, RawMessage};
use self::forms::FormClues;
use self::piece_reader::PieceReader;
use crate::Payload;
use crate::json::RawJsonFields;

/// A recorded message, split into pieces.
#[derive(Debug, Clone)]
pub struct RecordedMessage {
    /// The role.
    pub role: String,
    /// abide's own marks.
    pub marks: Marks,
    /// The forms in which it is valid as it is.
    pub forms: Forms,
    /// The Responses item that it wraps.
    pub item: Option<RawJson>,
    /// Which fields it has.
    pub shape: MessageShape,
    /// Its pieces.
    pub pieces: Vec<MessagePiece>,
    data: Payload,
}

/// Which fields a message has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageShape {
    /// Its field `type`.
    pub sort: TypeField,
    /// It has the field `function_call`.
    pub function_call: bool,
    /// The number of entries of `tool_calls`, if it has the field.
    pub tool_calls: Option<usize>,
    /// The number of blocks, if its content is a list.
    pub blocks: Option<usize>,
    /// It has content, or a field that speaks without it.
    pub speaks: bool,
    marked: bool,
}

/// The field `type` of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeField {
    /// It has none.
    None,
    /// `message`.
    Message,
    /// Anything else.
    Other,
}

/// The speaker of a message, as APIs distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The user, or a tool.
    User,
    /// The model.
    Assistant,
    /// The system or the developer.
    Instructions,
}

impl RecordedMessage {
    /// Reads the data of a `message.added` event; `None` if it is not a message.
    #[must_use]
    pub fn of(data: &Payload) -> Option<Self> {
        #[cfg(test)]
        parse_count::add();
        let reader = PieceReader::new(data)?;
        let fields = RawJsonFields::of(data.as_str())?;
        let mut role = fields.decoded("role")?;
        let marks = Marks::of(&fields);
        let raw = RawMessage::of(fields);
        let shape = MessageShape::of(&raw);
        let mut clues = FormClues::default();
        let wrapped = wrapped_item(&marks, shape, &raw.content);
        let item = wrapped.as_ref().map(|(raw, _)| reader.raw(raw.get()));
        let mut pieces = match wrapped {
            Some((block, item)) => match item.decoded("role") {
                // A Responses message with an unknown part.
                Some(inner) if item.any("content").is_some() => {
                    role = inner;
                    reader.message(&role, &RawMessage::of(item), &mut clues)
                }
                _ => vec![reader.block(block, Some(item), &mut clues)],
            },
            None => reader.message(&role, &raw, &mut clues),
        };
        let forms = marks.form.map_or_else(|| clues.message(&raw.fields), Forms::only);
        // The form of the whole message is that of its pieces. But a call and its result find each
        // other by an id that each form keeps elsewhere.
        let form = marks.form.or(forms.one().filter(|form| *form != MessageForm::Abide));
        for piece in pieces.iter_mut().filter(|piece| piece.raw.is_some()) {
            piece.forms = match (form, &piece.sort) {
                (_, PieceContent::Call(_) | PieceContent::Result(_)) => piece.forms.paired_in(form),
                (Some(form), _) => Forms::only(form),
                (None, _) => piece.forms,
            };
        }
        let role = role.into_owned();
        Some(Self { role, marks, forms, item, shape, pieces, data: data.clone() })
    }

    /// Its data.
    #[must_use]
    pub const fn data(&self) -> &Payload {
        &self.data
    }

    /// The message as it came, without abide's marks.
    #[must_use]
    pub fn as_it_came(&self) -> Cow<'_, str> {
        match &self.item {
            Some(item) => Cow::Borrowed(item.get()),
            None if !self.shape.marked => Cow::Borrowed(self.data.as_str()),
            None => Cow::Owned(marks::without_marks(self.data.as_str())),
        }
    }

    /// Who speaks.
    #[must_use]
    pub fn speaker(&self) -> Speaker {
        match self.role.as_str() {
            "assistant" | "model" => Speaker::Assistant,
            "system" | "developer" => Speaker::Instructions,
            _ => Speaker::User,
        }
    }
}

impl MessageShape {
    fn of(RawMessage { fields, content, tool_calls }: &RawMessage<'_>) -> Self {
        let sort = match fields.any("type") {
            None => TypeField::None,
            Some(_) if fields.decoded("type").is_some_and(|sort| sort == "message") => {
                TypeField::Message
            }
            Some(_) => TypeField::Other,
        };
        let blocks = match content {
            RawContent::Blocks(blocks) => Some(blocks.len()),
            _ => None,
        };
        Self {
            sort,
            function_call: fields.any("function_call").is_some(),
            tool_calls: fields.any("tool_calls").map(|_| tool_calls.len()),
            blocks,
            speaks: fields.any("content").is_some() || speaks_without_content(fields),
            marked: fields.any("abide").is_some(),
        }
    }
}

/// Whether a chat message has a field that it may have instead of `content`.
#[must_use]
pub fn speaks_without_content(fields: &RawJsonFields<'_>) -> bool {
    let names =
        ["tool_calls", "function_call", "refusal", "audio", "reasoning_content", "reasoning"];
    names.iter().any(|name| fields.get(name).is_some())
}

/// The Responses item that a message wraps: its only block, if the message is marked as Responses
/// and the block is not a part of a Responses message.
fn wrapped_item<'a>(
    marks: &Marks,
    shape: MessageShape,
    content: &RawContent<'a>,
) -> Option<(&'a RawValue, RawJsonFields<'a>)> {
    if marks.form != Some(MessageForm::Responses) || shape.sort != TypeField::None {
        return None;
    }
    let RawContent::Blocks(blocks) = content else { return None };
    let [raw] = *blocks.as_slice() else { return None };
    let item = RawJsonFields::of(raw.get())?;
    let part = item.decoded("type").is_some_and(|sort| is_part(&sort));
    (!part).then_some((raw, item))
}

/// Counts the messages that this thread has parsed.
#[cfg(test)]
pub(crate) mod parse_count {
    use std::cell::Cell;

    thread_local! {
        static PARSED: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn add() {
        PARSED.set(PARSED.get() + 1);
    }

    pub(crate) fn get() -> usize {
        PARSED.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventLimits;

    fn message(text: &str) -> RecordedMessage {
        RecordedMessage::of(&Payload::new(text, &EventLimits::default()).unwrap()).unwrap()
    }

    fn native(text: &str) -> Vec<&'static str> {
        let message = message(text);
        let forms = MessageForm::ALL.into_iter();
        forms
            .filter(|form| message.pieces.iter().all(|piece| piece.native(*form).is_some()))
            .map(MessageForm::name)
            .collect()
    }

    #[test]
    fn a_call_goes_out_as_it_came_in_the_form_that_it_is_known_to_have() {
        let ours = r#"{"type":"tool_call","call":"c","name":"n","arguments":{}}"#;
        let theirs = r#"{"type":"tool_use","id":"c","name":"n","input":{}}"#;
        let item = r#"{"type":"function_call","call_id":"c","name":"n","arguments":"{}"}"#;
        let chat = r#""content":null,"tool_calls":[{"id":"c","function":{"name":"n"}}]"#;
        let block = |block: &str| format!(r#""content":[{block}]"#);
        let expected: [(String, &str, &[&str]); 9] = [
            (block(ours), "", &["abide"]),
            (block(theirs), "", &["anthropic"]),
            (chat.to_owned(), "", &["openai"]),
            // By its looks an item may be anything: it must be said to be one of Responses.
            (block(item), "", &[]),
            (block(item), "responses", &["responses"]),
            (block(item), "openai", &[]),
            (block(theirs), "openai", &[]),
            (chat.to_owned(), "openai", &["openai"]),
            (chat.to_owned(), "responses", &[]),
        ];
        for (content, form, forms) in expected {
            let marks = match form {
                "" => String::new(),
                form => format!(r#","abide":{{"form":"{form}"}}"#),
            };
            let text = format!(r#"{{"role":"assistant",{content}{marks}}}"#);
            assert_eq!(native(&text), forms, "{text}");
        }
    }

    #[test]
    fn a_message_is_read_by_what_counts_of_it() {
        let twice = message(
            r#"{"role":"user","role":"assistant","content":"x","content":[{"type":"text","text":"a","text":"b"}],"tool_calls":[1],"tool_calls":[]}"#,
        );
        assert_eq!((twice.role.as_str(), twice.speaker()), ("assistant", Speaker::Assistant));
        let [MessagePiece { sort: PieceContent::Text(text), raw: Some(raw), .. }] =
            twice.pieces.as_slice()
        else {
            panic!("{twice:?}")
        };
        assert_eq!(text.decoded(), "b");
        assert_eq!(raw.get(), r#"{"type":"text","text":"a","text":"b"}"#);
        assert_eq!((twice.shape.tool_calls, twice.shape.blocks), (Some(0), Some(1)));
        let marked = message(r#"{"role":"user","content":"x","abide":{"answer":"a"}}"#);
        assert_eq!(marked.as_it_came(), r#"{"role":"user","content":"x"}"#);
        let source = r#"{"file":"f","at":0,"bytes":9,"record":{"a":"},\"x\":\"SECRET","b":[{}]}}"#;
        for fields in ["", r#","form":"anthropic","answer":"m""#] {
            let marks = format!(r#""source":{source}{fields}"#);
            let text = format!(r#"{{"role":"user","abide":{{{marks}}},"content":"x"}}"#);
            let sourced = message(&text);
            assert_eq!(sourced.as_it_came(), r#"{"role":"user","content":"x"}"#);
            assert!(!format!("{:?}", sourced.pieces).contains("SECRET"));
        }
        for unread in ["{}", r#"{"role":7,"content":"x"}"#, r#"{"role":null,"content":"x"}"#] {
            let data = Payload::new(unread, &EventLimits::default()).unwrap();
            assert!(RecordedMessage::of(&data).is_none(), "{unread}");
        }
        assert!(RecordedMessage::of(&Payload::from_stored("{\"role\":".into())).is_none());
    }

    /// A hostile message of many small blocks.
    #[test]
    fn a_piece_is_small() {
        assert!(size_of::<MessagePiece>() <= 64, "{}", size_of::<MessagePiece>());
    }
}
