//! What providers say about an answer besides what is in it: tokens used, and errors.
//!
//! Providers count differently. Here `input_tokens` are all tokens in, those read from and written
//! to a cache included, and `output_tokens` all tokens out, thought ones included: so that sums
//! over providers mean something.

use abide_model::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::field::{Fields, Text};

/// What OpenAI says of tokens, in Chat Completions and in Responses.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenAiUsage {
    #[serde(alias = "prompt_tokens")]
    input_tokens: Option<u64>,
    #[serde(alias = "completion_tokens")]
    output_tokens: Option<u64>,
    #[serde(alias = "prompt_tokens_details")]
    input_tokens_details: Option<Details>,
    #[serde(alias = "completion_tokens_details")]
    output_tokens_details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

impl OpenAiUsage {
    fn to_usage(&self) -> Usage {
        let input = self.input_tokens_details.as_ref();
        let output = self.output_tokens_details.as_ref();
        Usage {
            input_tokens: self.input_tokens.unwrap_or(0),
            output_tokens: self.output_tokens.unwrap_or(0),
            cache_read_tokens: input.and_then(|of| of.cached_tokens).unwrap_or(0),
            cache_write_tokens: input.and_then(|of| of.cache_write_tokens).unwrap_or(0),
            reasoning_tokens: output.and_then(|of| of.reasoning_tokens).unwrap_or(0),
            ..Usage::default()
        }
    }
}

/// What Anthropic says of tokens. Each number stands until it is said again.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AnthropicUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl AnthropicUsage {
    /// Takes over what is said anew.
    pub(super) fn update(&mut self, new: &Self) {
        let pairs = [
            (&mut self.input_tokens, new.input_tokens),
            (&mut self.output_tokens, new.output_tokens),
            (&mut self.cache_read_input_tokens, new.cache_read_input_tokens),
            (&mut self.cache_creation_input_tokens, new.cache_creation_input_tokens),
        ];
        for (old, new) in pairs {
            *old = new.or(*old);
        }
    }

    pub(super) fn to_usage(&self) -> Usage {
        let cache_read_tokens = self.cache_read_input_tokens.unwrap_or(0);
        let cache_write_tokens = self.cache_creation_input_tokens.unwrap_or(0);
        let uncached = self.input_tokens.unwrap_or(0);
        Usage {
            input_tokens: uncached
                .saturating_add(cache_read_tokens)
                .saturating_add(cache_write_tokens),
            output_tokens: self.output_tokens.unwrap_or(0),
            cache_read_tokens,
            cache_write_tokens,
            ..Usage::default()
        }
    }
}

/// What an error says, given as JSON: an object with a type or code and a message, or just text.
pub(super) fn error(json: &str) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Said<'a> {
        #[serde(borrow)]
        r#type: Text<'a>,
        #[serde(borrow)]
        code: Text<'a>,
        #[serde(borrow)]
        message: Text<'a>,
    }
    if let Ok(text) = serde_json::from_str::<String>(json) {
        return text;
    }
    let said: Said<'_> = serde_json::from_str(json).unwrap_or_default();
    // `error` as a type says no more than that it is one.
    let kind = said.code.some().or(said.r#type.some()).filter(|kind| *kind != "error");
    match (kind, said.message.some()) {
        (Some(kind), Some(message)) => format!("{kind}: {message}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => json.to_owned(),
    }
}

/// Whether an `error` field says that there is one.
pub(super) fn is_error(json: &str) -> bool {
    !matches!(json, "null" | "false" | "{}" | "\"\"")
}

/// What is known of an answer besides what is in it.
#[derive(Debug, Default)]
pub(super) struct About {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) error: Option<String>,
    pub(super) usage: Option<Usage>,
    /// The provider said that the answer is over.
    pub(super) over: bool,
}

impl About {
    /// Takes over the name and the model of an answer, told once or again and again.
    pub(super) fn named(&mut self, id: &Text<'_>, model: &Text<'_>) {
        for (old, new) in [(&mut self.id, id), (&mut self.model, model)] {
            if let (None, Some(new)) = (&old, new.some()) {
                *old = Some(new.to_owned());
            }
        }
    }

    /// Takes over what OpenAI says of tokens; what cannot be read says nothing.
    pub(super) fn used(&mut self, usage: &RawValue) {
        if let Ok(usage) = serde_json::from_str::<OpenAiUsage>(usage.get()) {
            self.usage = Some(usage.to_usage());
        }
    }

    /// Takes over what the object of a whole answer says: `id` and `model`.
    pub(super) fn named_by(&mut self, answer: &Fields<'_>) {
        let text = |name| Text(answer.text(name).map(Into::into));
        self.named(&text("id"), &text("model"));
    }
}
