//! The forms of messages, and which of them a message may have been recorded in, by its fields.

use std::collections::HashSet;

use super::content::RawContent;
use crate::json::RawJsonFields;

/// The form in which a message was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MessageForm {
    /// Our own: `tool_call` and `tool_result` blocks.
    Abide,
    /// Anthropic's: `tool_use` blocks, results in a user message.
    Anthropic,
    /// OpenAI's Chat Completions: `tool_calls`, and a message of the role `tool` for each result.
    OpenAi,
    /// OpenAI's Responses: `function_call` and `function_call_output` items, each as the only block
    /// of a message.
    Responses,
}

impl MessageForm {
    pub(super) const ALL: [Self; 4] = [Self::Abide, Self::Anthropic, Self::OpenAi, Self::Responses];

    /// Its name in the marks of a message.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Abide => "abide",
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Responses => "responses",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }
}

/// A set of forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forms(u8);

impl Forms {
    pub(super) const NONE: Self = Self(0);
    const ABIDE: Self = Self(1);
    const ANTHROPIC: Self = Self(2);
    const OPENAI: Self = Self(4);
    const RESPONSES: Self = Self(8);
    const ALL: Self = Self(15);

    /// One form.
    #[must_use]
    pub const fn only(form: MessageForm) -> Self {
        match form {
            MessageForm::Abide => Self::ABIDE,
            MessageForm::Anthropic => Self::ANTHROPIC,
            MessageForm::OpenAi => Self::OPENAI,
            MessageForm::Responses => Self::RESPONSES,
        }
    }

    /// Whether this form is one of them.
    #[must_use]
    pub const fn has(self, form: MessageForm) -> bool {
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
    pub(super) fn paired_in(self, message: Option<MessageForm>) -> Self {
        match message {
            Some(form) => self.and(Self::only(form)),
            None => self.and(Self::ABIDE.or(Self::ANTHROPIC).or(Self::OPENAI)),
        }
    }

    /// The form that it is, if it is only one.
    pub(super) fn one(self) -> Option<MessageForm> {
        MessageForm::ALL.into_iter().find(|form| Self::only(*form) == self)
    }

    /// The forms that a message may be in, by its fields.
    #[must_use]
    pub fn of_message(fields: &RawJsonFields<'_>) -> Self {
        let mut clues = FormClues::default();
        match RawContent::of(fields) {
            RawContent::Blocks(blocks) => {
                for block in blocks {
                    let block = RawJsonFields::of(block.get());
                    let typed = block.and_then(|block| Some((block.decoded("type")?, block)));
                    clues.take(typed.and_then(|(sort, block)| of_block(&sort, &block)));
                }
            }
            other => clues.content(&other),
        }
        clues.message(fields)
    }
}

/// The forms that have this block or part; `None` if it is unknown.
pub(super) fn of_block(sort: &str, fields: &RawJsonFields<'_>) -> Option<Forms> {
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

/// The forms in which a block that was read as a result pairs by the id that was read.
pub(super) fn of_result(sort: &str, fields: &RawJsonFields<'_>) -> Forms {
    match sort {
        "tool_result" if fields.decoded("call").is_some() => Forms::ABIDE,
        "tool_result" if fields.decoded("tool_use_id").is_some() => Forms::ANTHROPIC,
        "tool_result" => Forms::NONE,
        _ => Forms::RESPONSES,
    }
}

/// Whether this is a part of a Responses message, rather than an item.
#[must_use]
pub fn is_part(sort: &str) -> bool {
    matches!(sort, "input_text" | "output_text" | "input_image" | "input_file" | "refusal")
}

/// What the fields and blocks of a message tell about its form.
#[derive(Debug)]
pub(super) struct FormClues {
    forms: Forms,
    unknown: bool,
}

impl Default for FormClues {
    fn default() -> Self {
        Self { forms: Forms::ALL, unknown: false }
    }
}

impl FormClues {
    /// Adds the forms that have a field or a block; `None` if it is unknown.
    pub(super) fn take(&mut self, forms: Option<Forms>) {
        self.unknown |= forms.is_none();
        self.forms = self.forms.and(forms.unwrap_or(Forms::ALL));
    }

    /// Adds a content without its blocks.
    pub(super) fn content(&mut self, content: &RawContent<'_>) {
        match content {
            RawContent::None => self.take(Some(Forms::OPENAI)),
            RawContent::Other(_) => self.take(None),
            RawContent::Text(_) | RawContent::Blocks(_) => {}
        }
    }

    /// The forms of the message with these fields, once its content was added. If any field is
    /// unknown, the result is the single form that the others imply, or none.
    pub(super) fn message(mut self, fields: &RawJsonFields<'_>) -> Forms {
        // Check a repeated name once: its last value counts.
        let mut seen = HashSet::new();
        for name in fields.names().filter(|name| seen.insert(*name)) {
            self.take(of_field(name, fields));
        }
        let told = !self.unknown || self.forms.one().is_some();
        if told && fields.any("role").is_some() { self.forms } else { Forms::NONE }
    }
}

fn of_field(name: &str, fields: &RawJsonFields<'_>) -> Option<Forms> {
    match name {
        "abide" | "content" => Some(Forms::ALL),
        "role" => of_role(fields),
        "type" => {
            let message = fields.decoded("type").is_some_and(|sort| sort == "message");
            message.then_some(Forms::RESPONSES)
        }
        "name" => Some(Forms::ABIDE.or(Forms::OPENAI)),
        "id" | "status" if fields.any("type").is_some() => Some(Forms::RESPONSES),
        "tool_calls" | "tool_call_id" | "function_call" | "refusal" | "reasoning_content"
        | "reasoning" | "audio" | "annotations" => Some(Forms::OPENAI),
        _ => None,
    }
}

fn of_role(fields: &RawJsonFields<'_>) -> Option<Forms> {
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
        let forms = Forms::of_message(&RawJsonFields::of(text).unwrap());
        let all = MessageForm::ALL.into_iter();
        all.filter(|form| forms.has(*form)).map(MessageForm::name).collect()
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
