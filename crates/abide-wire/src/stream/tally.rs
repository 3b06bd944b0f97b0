//! What providers say about an answer besides what is in it: tokens used, and errors.
//!
//! Providers count differently. Here `input_tokens` are all tokens in, those read from and written
//! to a cache included, and `output_tokens` all tokens out, thought ones included: so that sums
//! over providers mean something.

use abide_model::Usage;
use serde_json::value::RawValue;

use super::error::harmless;
use super::field::{Fields, Text, object};

/// What OpenAI says of tokens, in Chat Completions (`prompt`, `completion`) and in Responses
/// (`input`, `output`). Some say it in both ways, and mean only one: the greater number counts.
fn openai_usage(usage: &str) -> Usage {
    let usage = Fields::read(usage);
    let tokens = |names: [&str; 2]| {
        names.into_iter().filter_map(|name| usage.number(name)).max().unwrap_or(0)
    };
    let details = |names: [&str; 2], wanted: &str| {
        let told = names.into_iter().filter_map(|name| usage.get(name));
        told.filter_map(|details| Fields::read(details).number(wanted)).max().unwrap_or(0)
    };
    let input = ["prompt_tokens_details", "input_tokens_details"];
    let output = ["completion_tokens_details", "output_tokens_details"];
    Usage {
        input_tokens: tokens(["prompt_tokens", "input_tokens"]),
        output_tokens: tokens(["completion_tokens", "output_tokens"]),
        cache_read_tokens: details(input, "cached_tokens"),
        cache_write_tokens: details(input, "cache_write_tokens"),
        reasoning_tokens: details(output, "reasoning_tokens"),
        ..Usage::default()
    }
}

/// What Anthropic says of tokens. Each number stands until it is said again.
#[derive(Debug, Default)]
pub(super) struct AnthropicUsage {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_creation: Option<u64>,
}

impl AnthropicUsage {
    /// Takes over what is said anew.
    pub(super) fn update(&mut self, usage: &str) {
        let usage = Fields::read(usage);
        for (number, name) in [
            (&mut self.input, "input_tokens"),
            (&mut self.output, "output_tokens"),
            (&mut self.cache_read, "cache_read_input_tokens"),
            (&mut self.cache_creation, "cache_creation_input_tokens"),
        ] {
            *number = usage.number(name).or(*number);
        }
    }

    pub(super) fn to_usage(&self) -> Usage {
        let cache_read_tokens = self.cache_read.unwrap_or(0);
        let cache_write_tokens = self.cache_creation.unwrap_or(0);
        let uncached = self.input.unwrap_or(0);
        Usage {
            input_tokens: uncached
                .saturating_add(cache_read_tokens)
                .saturating_add(cache_write_tokens),
            output_tokens: self.output.unwrap_or(0),
            cache_read_tokens,
            cache_write_tokens,
            ..Usage::default()
        }
    }
}

object! {
    struct Failure<'a> {
        kind = "type": Text<'a>,
        code = "code": Text<'a>,
        message = "message": Text<'a>,
    }
}

/// How much of what a provider says of an error is told, in characters.
const TOLD: usize = 2000;

/// What an error says, given as JSON: an object with a type or code and a message, or just text.
/// It is made harmless, and is not long.
pub(super) fn error(json: &str) -> String {
    if let Ok(text) = serde_json::from_str::<String>(json) {
        return harmless(&text, TOLD);
    }
    let said: Failure<'_> = serde_json::from_str(json).unwrap_or_default();
    // `error` as a type says no more than that it is one.
    let kind = said.code.some().or(said.kind.some()).filter(|kind| *kind != "error");
    match (kind, said.message.some()) {
        (Some(kind), Some(message)) => harmless(&format!("{kind}: {message}"), TOLD),
        (Some(one), None) | (None, Some(one)) => harmless(one, TOLD),
        (None, None) => harmless(json, TOLD),
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
        if usage.get().starts_with('{') {
            self.usage = Some(openai_usage(usage.get()));
        }
    }

    /// Takes over what the object of a whole answer says: `id` and `model`.
    pub(super) fn named_by(&mut self, answer: &Fields<'_>) {
        let text = |name| Text(answer.text(name).map(Into::into));
        self.named(&text("id"), &text("model"));
    }
}
