//! What abide itself notes about a message, in the field `abide` of its data.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::Payload;

/// Notes about a message. The field also holds the form of the message, which only readers of the
/// forms need.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marks {
    /// The answer it is part of: a streamed answer is recorded block by block.
    pub answer: Option<String>,
    /// The message was cut off.
    pub partial: bool,
}

impl Marks {
    /// The marks of the message with this data.
    #[must_use]
    pub fn of(data: &Payload) -> Self {
        data.field("abide").map(Self::read).unwrap_or_default()
    }

    /// Parses the value of the field. Marks are independent: one with the wrong type is ignored.
    pub(super) fn read(value: &str) -> Self {
        let marks: BTreeMap<String, &RawValue> = serde_json::from_str(value).unwrap_or_default();
        let mark = |name: &str| marks.get(name).map(|raw| raw.get());
        Self {
            answer: mark("answer").and_then(|answer| serde_json::from_str(answer).ok()),
            partial: mark("partial") == Some("true"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_what_it_says_however_it_is_written() {
        let marks = |text: &str| Marks::of(&Payload::from_stored(text.into()));
        let both = Marks { answer: Some("a".to_owned()), partial: true };
        for text in [
            r#"{"role":"user","abide":{"answer":"a","partial":true}}"#,
            r#"{ "abide" : { "partial" : true , "answer" : "\u0061", "form": "openai" } }"#,
        ] {
            assert_eq!(marks(text), both, "{text}");
        }
        for text in [
            r#"{"role":"user","content":"\"partial\":true"}"#,
            r#"{"abide":{"partial":false,"note":"\"partial\":true"}}"#,
            r#"{"abide":{"partial":"true","answer":7}}"#,
            r#"{"abide":true}"#,
            r#"{"content":[{"abide":{"partial":true}}]}"#,
        ] {
            assert_eq!(marks(text), Marks::default(), "{text}");
        }
        assert!(marks(r#"{"abide":{"answer":7,"partial":true}}"#).partial);
    }
}
