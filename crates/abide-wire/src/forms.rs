//! Detects the forms a message may have been recorded in, from its fields.

use std::collections::HashSet;

use abide_model::MessageForm;

use crate::json::{JsonText, RawFields, list};

/// A set of forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forms(u8);

impl Forms {
    pub(crate) const NONE: Self = Self(0);
    const ABIDE: Self = Self(1);
    const ANTHROPIC: Self = Self(2);
    const OPENAI: Self = Self(4);
    const RESPONSES: Self = Self(8);
    const ALL: Self = Self(15);

    pub(crate) const fn only(form: MessageForm) -> Self {
        match form {
            MessageForm::Abide => Self::ABIDE,
            MessageForm::Anthropic => Self::ANTHROPIC,
            MessageForm::OpenAi => Self::OPENAI,
            MessageForm::Responses => Self::RESPONSES,
        }
    }

    pub(crate) const fn has(self, form: MessageForm) -> bool {
        self.0 & Self::only(form).0 != 0
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Of the forms in which a call or a result pairs, those it is sent in as it came, in a message
    /// of this form. An item of Responses must be said to be one: by its looks it may be anything.
    pub(crate) const fn paired_in(self, message: Option<MessageForm>) -> Self {
        match message {
            Some(form) => self.and(Self::only(form)),
            None => self.and(Self::ABIDE.or(Self::ANTHROPIC).or(Self::OPENAI)),
        }
    }

    const fn is_one(self) -> bool {
        self.0.count_ones() == 1
    }
}

/// The name of a form in `abide.form`.
pub(crate) const fn name(form: MessageForm) -> &'static str {
    match form {
        MessageForm::Abide => "abide",
        MessageForm::Anthropic => "anthropic",
        MessageForm::OpenAi => "openai",
        MessageForm::Responses => "responses",
    }
}

pub(crate) fn named(name: &str) -> Option<MessageForm> {
    let all =
        [MessageForm::Abide, MessageForm::Anthropic, MessageForm::OpenAi, MessageForm::Responses];
    all.into_iter().find(|form| self::name(*form) == name)
}

/// The forms that have this block or part; `None` if it is unknown.
pub(crate) fn of_block(sort: &str, fields: &RawFields<'_>) -> Option<Forms> {
    let forms = match sort {
        "text" => {
            let extra = |name: &&str| !matches!(*name, "type" | "text");
            let ours = |name: &str| matches!(name, "cache_control" | "citations");
            match fields.names().filter(extra).all(ours) {
                true if fields.names().any(ours) => Forms::ANTHROPIC,
                true => Forms::ABIDE.or(Forms::ANTHROPIC).or(Forms::OPENAI),
                false => return None,
            }
        }
        "thinking" => Forms::ABIDE.or(Forms::ANTHROPIC),
        "tool_call" => Forms::ABIDE,
        "tool_result" if fields.any("call").is_some() => Forms::ABIDE,
        "image" if fields.any("source").is_none() => return None,
        "redacted_thinking"
        | "image"
        | "document"
        | "search_result"
        | "tool_use"
        | "tool_result"
        | "server_tool_use"
        | "web_search_tool_result"
        | "web_fetch_tool_result"
        | "code_execution_tool_result"
        | "bash_code_execution_tool_result"
        | "text_editor_code_execution_tool_result"
        | "mcp_tool_use"
        | "mcp_tool_result"
        | "container_upload" => Forms::ANTHROPIC,
        "image_url" | "input_audio" | "file" => Forms::OPENAI,
        "refusal" => Forms::OPENAI.or(Forms::RESPONSES),
        _ if is_part(sort) => Forms::RESPONSES,
        _ => return None,
    };
    Some(forms)
}

/// The forms in which a block that was read as a call or a result pairs by the id that was read.
pub(crate) fn of_paired(sort: &str, fields: &RawFields<'_>) -> Forms {
    match sort {
        "tool_call" => Forms::ABIDE,
        "tool_use" => Forms::ANTHROPIC,
        "tool_result" if fields.decoded("call").is_some() => Forms::ABIDE,
        "tool_result" if fields.decoded("tool_use_id").is_some() => Forms::ANTHROPIC,
        "tool_result" => Forms::NONE,
        _ => Forms::RESPONSES,
    }
}

/// Whether this is a part of a Responses message, rather than an item.
pub(crate) fn is_part(sort: &str) -> bool {
    matches!(sort, "input_text" | "output_text" | "input_image" | "input_file" | "refusal")
}

/// The forms a message may be in, judged by its fields. If any field is unknown, the result is
/// the single form that the other fields imply, or none.
pub(crate) fn of_message(fields: &RawFields<'_>) -> Forms {
    let mut looks = FormClues { forms: Forms::ALL, unknown: false };
    // Check a repeated name once: its last value counts.
    let mut seen = HashSet::new();
    for name in fields.names().filter(|name| seen.insert(*name)) {
        looks.field(name, fields);
    }
    if fields.any("role").is_none() {
        return Forms::NONE;
    }
    if fields.any("content").is_none() {
        looks.forms = looks.forms.and(Forms::OPENAI);
    }
    if looks.unknown && !looks.forms.is_one() { Forms::NONE } else { looks.forms }
}

struct FormClues {
    forms: Forms,
    unknown: bool,
}

impl FormClues {
    fn field(&mut self, name: &str, fields: &RawFields<'_>) {
        let forms = match name {
            "abide" => Some(Forms::ALL),
            "role" => of_role(fields),
            "content" => {
                self.content(fields);
                Some(Forms::ALL)
            }
            "type" => {
                let message = fields.decoded("type").is_some_and(|sort| sort == "message");
                message.then_some(Forms::RESPONSES)
            }
            "name" => Some(Forms::ABIDE.or(Forms::OPENAI)),
            "id" | "status" if fields.any("type").is_some() => Some(Forms::RESPONSES),
            "tool_calls" | "tool_call_id" | "function_call" | "refusal" | "reasoning_content"
            | "reasoning" | "audio" | "annotations" => Some(Forms::OPENAI),
            _ => None,
        };
        self.take(forms);
    }

    fn take(&mut self, forms: Option<Forms>) {
        self.unknown |= forms.is_none();
        self.forms = self.forms.and(forms.unwrap_or(Forms::ALL));
    }

    fn content(&mut self, fields: &RawFields<'_>) {
        let Some(content) = fields.get("content") else {
            self.take(Some(Forms::OPENAI));
            return;
        };
        if JsonText::of(content).is_some() {
            return;
        }
        let Some(blocks) = list(content) else {
            self.take(None);
            return;
        };
        for block in blocks {
            let block = RawFields::of(block.get());
            let sort = block.as_ref().and_then(|block| Some((block.decoded("type")?, block)));
            self.take(sort.and_then(|(sort, block)| of_block(&sort, block)));
        }
    }
}

fn of_role(fields: &RawFields<'_>) -> Option<Forms> {
    Some(match &*fields.decoded("role")? {
        "user" | "assistant" => Forms::ALL,
        "system" => Forms::ABIDE.or(Forms::OPENAI).or(Forms::RESPONSES),
        "developer" => Forms::OPENAI.or(Forms::RESPONSES),
        "tool" if fields.any("tool_call_id").is_some() => Forms::OPENAI,
        "tool" => Forms::ABIDE,
        "function" => Forms::OPENAI,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(text: &str) -> Vec<&'static str> {
        let forms = of_message(&RawFields::of(text).unwrap());
        let all = ["abide", "anthropic", "openai", "responses"];
        all.into_iter().filter(|one| forms.has(named(one).unwrap())).collect()
    }

    #[test]
    fn a_form_is_told_by_its_looks() {
        let expected: [(&str, &[&str]); 14] = [
            (r#"{"role":"user","content":"x"}"#, &["abide", "anthropic", "openai", "responses"]),
            (
                r#"{"role":"user","content":[{"type":"text","text":"x"}]}"#,
                &["abide", "anthropic", "openai"],
            ),
            (
                r#"{"role":"user","content":[{"type":"text","text":"x","cache_control":{}}]}"#,
                &["anthropic"],
            ),
            (
                r#"{"role":"assistant","content":[{"type":"tool_use"},{"type":"new"}]}"#,
                &["anthropic"],
            ),
            (r#"{"role":"assistant","content":[{"type":"new"}]}"#, &[]),
            (r#"{"role":"assistant","content":null}"#, &["openai"]),
            (r#"{"role":"assistant","tool_calls":[]}"#, &["openai"]),
            (r#"{"role":"user","content":[{"type":"input_text"}]}"#, &["responses"]),
            (r#"{"type":"message","role":"user","content":"x"}"#, &["responses"]),
            (r#"{"role":"tool","content":[{"type":"tool_result","call":"c"}]}"#, &["abide"]),
            (r#"{"role":"user","content":"x","more":1}"#, &[]),
            (r#"{"role":"system","content":"x"}"#, &["abide", "openai", "responses"]),
            (r#"{"role":7,"content":"x"}"#, &[]),
            (r#"{"role":"user","content":{}}"#, &[]),
        ];
        for (text, expected) in expected {
            assert_eq!(forms(text), expected, "{text}");
        }
    }
}
