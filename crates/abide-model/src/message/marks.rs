//! What abide itself notes about a message, in the field `abide` of its data.

use super::MessageForm;
use crate::json::{RawJsonFields, decode_string};
use crate::{Seq, payload_string_end};

/// Notes about a message. They are independent: one of the wrong type is ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marks {
    /// The form of the message, if its fields do not tell.
    pub form: Option<MessageForm>,
    /// The answer it is part of: a streamed answer is recorded block by block.
    pub answer: Option<String>,
    /// The message was cut off.
    pub partial: bool,
    /// The earlier message that this one replaces.
    pub replaces: Option<Seq>,
    /// A hook of the agent told it: the record of the agent's own file is still to come.
    pub provisional: bool,
}

impl Marks {
    /// The name of the mark of a revision, as it stands in a message that has it.
    pub(crate) const REPLACES: &str = "\"replaces\"";

    /// The marks among the fields of a message.
    pub(crate) fn of(fields: &RawJsonFields<'_>) -> Self {
        let Some(raw) = fields.get("abide") else { return Self::default() };
        let Some(ours) = RawJsonFields::of(raw.get()) else { return Self::default() };
        // A name with escapes is none: revisions are found without parsing every message.
        let replaces = ours.get("replaces").filter(|_| raw.get().contains(Self::REPLACES));
        Self {
            form: ours.decoded("form").and_then(|name| MessageForm::named(&name)),
            answer: ours.decoded("answer").map(|answer| answer.into_owned()),
            partial: ours.flag("partial").unwrap_or_default(),
            replaces: replaces.and_then(|seq| seq.get().parse().ok()).map(Seq),
            provisional: ours.flag("provisional").unwrap_or_default(),
        }
    }
}

/// Removes the marks from a message. All other bytes stay as they are.
pub(super) fn without_marks(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut kept = String::with_capacity(text.len());
    // The end of the copied input; the start and the name of the current field.
    let (mut copied, mut start, mut name): (usize, usize, Option<(usize, usize)>) = (0, 1, None);
    let (mut depth, mut at, mut first) = (0_usize, 0_usize, true);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = payload_string_end(bytes, at);
                if depth == 1 && name.is_none() {
                    name = Some((at, end));
                }
                at = end;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b',' | b'}' | b']' if depth == 1 => {
                let key = name.take().and_then(|(from, to)| text.get(from..to));
                let ours = key.is_some_and(|key| decode_string(key) == "abide");
                if ours {
                    // Drop the comma before it, or else the one after it.
                    kept.push_str(text.get(copied..start).unwrap_or_default());
                    copied = if first && byte == b',' { at + 1 } else { at };
                } else {
                    first = false;
                }
                start = at;
                depth -= usize::from(byte != b',');
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    kept.push_str(text.get(copied..).unwrap_or_default());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_what_it_says_however_it_is_written() {
        let marks = |text: &str| Marks::of(&RawJsonFields::of(text).unwrap());
        let both = Marks { answer: Some("a".to_owned()), partial: true, ..Marks::default() };
        for text in [
            r#"{"role":"user","abide":{"answer":"a","partial":true}}"#,
            r#"{ "abide" : { "partial" : true , "answer" : "\u0061", "form": "new" } }"#,
            r#"{"abide":{"partial":false},"abide":{"answer":"b","partial":true,"answer":"a"}}"#,
        ] {
            assert_eq!(marks(text), both, "{text}");
        }
        for text in [
            r#"{"role":"user","content":"\"partial\":true"}"#,
            r#"{"abide":{"partial":false,"note":"\"partial\":true"}}"#,
            r#"{"abide":{"partial":"true","answer":7,"form":7}}"#,
            r#"{"abide":true}"#,
            r#"{"content":[{"abide":{"partial":true}}]}"#,
        ] {
            assert_eq!(marks(text), Marks::default(), "{text}");
        }
        assert!(marks(r#"{"abide":{"answer":7,"partial":true}}"#).partial);
        for (text, replaces) in [
            (r#"{"abide":{"replaces":7}}"#, Some(Seq(7))),
            (r#"{"abide":{"replaces":7,"source":{"replaces":8,"record":[]}}}"#, Some(Seq(7))),
            (r#"{"abide":{"source":{"replaces":8}}}"#, None),
            // A name with escapes is none.
            (r#"{"abide":{"replace\u0073":7}}"#, None),
            (r#"{"abide":{"replaces":"7"}}"#, None),
        ] {
            assert_eq!(marks(text).replaces, replaces, "{text}");
        }
        let form = marks(r#"{"abide":{"form":"openai"}}"#).form;
        assert_eq!(form, Some(MessageForm::OpenAi));
    }

    #[test]
    fn what_is_ours_is_taken_out_and_nothing_else() {
        for (text, left) in [
            (r#"{"a":1,"abide":{"form":"x"}}"#, r#"{"a":1}"#),
            (r#"{"a":1 ,"abide":{"form":"x"}}"#, r#"{"a":1 }"#),
            (r#"{"abide":{},"a":[{"abide":1}] }"#, r#"{"a":[{"abide":1}] }"#),
            (r#"{"a":1,"abide":7,"b":{"c":"abide"}}"#, r#"{"a":1,"b":{"c":"abide"}}"#),
            (r#"{"abide":1,"abide":2,"a":3,"abide":4}"#, r#"{"a":3}"#),
            (r#"{"abide":1}"#, "{}"),
            (r#"{"a":"},\"abide\":1"}"#, r#"{"a":"},\"abide\":1"}"#),
            ("{ }", "{ }"),
        ] {
            assert_eq!(without_marks(text), left);
        }
    }
}
