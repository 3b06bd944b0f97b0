//! Metadata of an answer: tokens used, and errors.
//!
//! Providers count differently. Here `input_tokens` includes tokens read from and written to a
//! cache, and `output_tokens` includes reasoning tokens, so that sums over providers are
//! meaningful.

use abide_model::Usage;
use serde_json::value::RawValue;

use super::error::harmless;
use super::field::{FieldText, OrderedFields, object};

/// Reads OpenAI's usage, of Chat Completions (`prompt`, `completion`) and of Responses (`input`,
/// `output`). Some providers send both and fill only one: the greater number counts.
fn openai_usage(usage: &str) -> Usage {
    let usage = OrderedFields::read(usage);
    let tokens = |names: [&str; 2]| {
        names.into_iter().filter_map(|name| usage.number(name)).max().unwrap_or(0)
    };
    let details = |names: [&str; 2], wanted: &str| {
        let told = names.into_iter().filter_map(|name| usage.get(name));
        told.filter_map(|details| OrderedFields::read(details).number(wanted)).max().unwrap_or(0)
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

/// Anthropic's usage. Each number holds until it is sent again.
#[derive(Debug, Default)]
pub(super) struct AnthropicUsage {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_creation: Option<u64>,
}

impl AnthropicUsage {
    /// Updates the numbers that are present.
    pub(super) fn update(&mut self, usage: &str) {
        let usage = OrderedFields::read(usage);
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
    struct ProviderError<'a> {
        kind = "type": FieldText<'a>,
        code = "code": FieldText<'a>,
        message = "message": FieldText<'a>,
    }
}

/// The most characters kept of a provider's error.
const TOLD: usize = 2000;

/// The message of an error given as JSON: an object with a type or code and a message, or plain
/// text. It is escaped and bounded in length.
pub(super) fn error(json: &str) -> String {
    if let Ok(text) = serde_json::from_str::<String>(json) {
        return harmless(&text, TOLD);
    }
    let said: ProviderError<'_> = serde_json::from_str(json).unwrap_or_default();
    // The type `error` carries no information.
    let kind = said.code.some().or(said.kind.some()).filter(|kind| *kind != "error");
    match (kind, said.message.some()) {
        (Some(kind), Some(message)) => harmless(&format!("{kind}: {message}"), TOLD),
        (Some(one), None) | (None, Some(one)) => harmless(one, TOLD),
        (None, None) => harmless(json, TOLD),
    }
}

/// Whether the value of an `error` field reports an error.
pub(super) fn is_error(json: &str) -> bool {
    !matches!(json, "null" | "false" | "{}" | "\"\"")
}

/// The metadata of an answer.
#[derive(Debug, Default)]
pub(super) struct AnswerInfo {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) error: Option<String>,
    pub(super) usage: Option<Usage>,
    /// The provider ended the answer.
    pub(super) over: bool,
}

impl AnswerInfo {
    /// Sets the id and model, which may be sent once or repeatedly: the first counts.
    pub(super) fn named(&mut self, id: &FieldText<'_>, model: &FieldText<'_>) {
        for (old, new) in [(&mut self.id, id), (&mut self.model, model)] {
            if let (None, Some(new)) = (&old, new.some()) {
                *old = Some(new.to_owned());
            }
        }
    }

    /// Sets OpenAI's usage. Ignores what cannot be parsed.
    pub(super) fn used(&mut self, usage: &RawValue) {
        if usage.get().starts_with('{') {
            self.usage = Some(openai_usage(usage.get()));
        }
    }

    /// Sets `id` and `model` from the object of a whole answer.
    pub(super) fn named_by(&mut self, answer: &OrderedFields<'_>) {
        let text = |name| FieldText(answer.text(name).map(Into::into));
        self.named(&text("id"), &text("model"));
    }
}
