//! Usage since the last report, and what it cost.

use abide_model::Usage;
use serde_json::value::RawValue;

/// How much more there is now than before.
pub(crate) fn spent_since(all: &Usage, before: &Usage) -> Usage {
    Usage {
        input_tokens: all.input_tokens.saturating_sub(before.input_tokens),
        output_tokens: all.output_tokens.saturating_sub(before.output_tokens),
        cache_read_tokens: all.cache_read_tokens.saturating_sub(before.cache_read_tokens),
        cache_write_tokens: all.cache_write_tokens.saturating_sub(before.cache_write_tokens),
        reasoning_tokens: all.reasoning_tokens.saturating_sub(before.reasoning_tokens),
        cost_micros: all.cost_micros.saturating_sub(before.cost_micros),
    }
}

/// Is one a sum that the other is a part of?
pub(crate) fn spent_includes(all: &Usage, before: &Usage) -> bool {
    all.input_tokens >= before.input_tokens
        && all.output_tokens >= before.output_tokens
        && all.cache_read_tokens >= before.cache_read_tokens
        && all.cache_write_tokens >= before.cache_write_tokens
        && all.reasoning_tokens >= before.reasoning_tokens
}

/// A cost in millionths of a dollar, where dollars are told.
pub(crate) fn spent_micros(dollars: Option<&RawValue>) -> u64 {
    let dollars = dollars.and_then(|raw| raw.get().parse::<f64>().ok()).unwrap_or(0.0);
    // The conversion saturates at both ends.
    (dollars * 1e6).round() as u64
}
