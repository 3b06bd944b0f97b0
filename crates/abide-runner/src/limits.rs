//! The limits of a run, and what it has used of them.

use std::time::Duration;

use abide::event::Usage;
use serde::Serialize;

/// At so many percent of a limit the run warns.
const WARN: u128 = 80;

/// The most that a run may use. At four fifths of a limit it warns; at the limit it stops, and the
/// tasks under way can be resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunLimits {
    /// The longest time that it may take.
    pub duration: Option<Duration>,
    /// The most that it may cost, in millionths of a US dollar, as far as agents report it.
    pub cost_micros: Option<u64>,
    /// The most tokens, input and output, as far as agents report them.
    pub tokens: Option<u64>,
    /// The most memory that the processes of its agents may have at a time.
    pub memory_bytes: Option<u64>,
}

/// What a run has used so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunUse {
    pub(crate) duration: Duration,
    pub(crate) usage: Usage,
    /// The memory of all agents' processes.
    pub(crate) memory_bytes: u64,
}

/// Something that is limited. Its name says in what it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum LimitedResource {
    /// The time since the run began, in milliseconds.
    #[serde(rename = "duration_ms")]
    Duration,
    /// The reported cost, in millionths of a US dollar.
    #[serde(rename = "cost_micros")]
    Cost,
    /// The reported tokens, input and output.
    #[serde(rename = "tokens")]
    Tokens,
    /// The memory of the agents' processes at a time, in bytes.
    #[serde(rename = "memory_bytes")]
    Memory,
}

/// How much of a limit is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitLevel {
    /// Less than four fifths.
    Below,
    /// Four fifths or more.
    Near,
    /// All of it, or more.
    Reached,
}

/// A limit, and what is used of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LimitUse {
    /// What is limited.
    pub resource: LimitedResource,
    /// How much is used.
    pub used: u64,
    /// The limit.
    pub limit: u64,
    /// How the two compare.
    pub level: LimitLevel,
}

impl RunLimits {
    /// The limits that are set, each with what is used of it.
    pub(crate) fn compare(&self, used: &RunUse) -> Vec<LimitUse> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let tokens = used.usage.input_tokens.saturating_add(used.usage.output_tokens);
        let all = [
            (LimitedResource::Duration, millis(used.duration), self.duration.map(millis)),
            (LimitedResource::Cost, used.usage.cost_micros, self.cost_micros),
            (LimitedResource::Tokens, tokens, self.tokens),
            (LimitedResource::Memory, used.memory_bytes, self.memory_bytes),
        ];
        let set = all.into_iter().filter_map(|(resource, used, limit)| {
            let limit = limit?;
            Some(LimitUse { resource, used, limit, level: LimitLevel::of(used, limit) })
        });
        set.collect()
    }
}

impl LimitLevel {
    fn of(used: u64, limit: u64) -> Self {
        if used >= limit {
            Self::Reached
        } else if u128::from(used) * 100 >= u128::from(limit) * WARN {
            Self::Near
        } else {
            Self::Below
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_near_at_four_fifths() {
        let limits = RunLimits { tokens: Some(1000), ..RunLimits::default() };
        let level = |input_tokens, output_tokens| {
            let usage = Usage { input_tokens, output_tokens, ..Usage::default() };
            let used = RunUse { usage, ..RunUse::default() };
            let all = limits.compare(&used);
            assert_eq!(all.len(), 1);
            all[0].level
        };
        assert_eq!(level(700, 99), LimitLevel::Below);
        assert_eq!(level(700, 100), LimitLevel::Near);
        assert_eq!(level(1, 999), LimitLevel::Reached);
        assert_eq!(level(u64::MAX, 1), LimitLevel::Reached);
    }
}
