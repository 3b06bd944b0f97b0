//! What was used, which limits were met, which model is set.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Timestamp;

/// Tokens and money.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens in.
    pub input_tokens: u64,
    /// Tokens out.
    pub output_tokens: u64,
    /// Tokens in that came from the provider's cache.
    pub cache_read_tokens: u64,
    /// Tokens in that went to the provider's cache.
    pub cache_write_tokens: u64,
    /// Tokens out that were thought, not said.
    pub reasoning_tokens: u64,
    /// Money, in millionths of a US dollar.
    pub cost_micros: u64,
}

impl Usage {
    /// Adds another, without overflow.
    pub fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.input_tokens, other.input_tokens),
            (&mut self.output_tokens, other.output_tokens),
            (&mut self.cache_read_tokens, other.cache_read_tokens),
            (&mut self.cache_write_tokens, other.cache_write_tokens),
            (&mut self.reasoning_tokens, other.reasoning_tokens),
            (&mut self.cost_micros, other.cost_micros),
        ];
        for (sum, more) in pairs {
            *sum = sum.saturating_add(more);
        }
    }
}

/// `usage.recorded`: usage that no `api.finished` or `turn.finished` tells.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UsageRecord {
    /// Which model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How much.
    #[serde(flatten)]
    pub usage: Usage,
}

/// `limit.observed`: a rate limit as the provider tells it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitObservation {
    /// Which limit: `requests`, `tokens`, `five_hour` …
    pub name: String,
    /// How much there is in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How much is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
    /// When it is whole again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets: Option<Timestamp>,
}

/// `model.configured`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelConfiguration {
    /// Which model.
    pub model: String,
    /// Who serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// How many tokens its context holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Any other setting, as it is.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Box<RawValue>>,
}
