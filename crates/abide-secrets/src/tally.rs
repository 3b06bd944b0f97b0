//! What was redacted: how often by which rule, and how many bytes.

use std::collections::BTreeMap;

/// What one rule found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuleTally {
    /// How many marks it made.
    pub marks: u64,
    /// How many bytes of secrets they stand for.
    pub bytes: u64,
}

/// Counts by rule. Texts that were not scanned to their end count under the rule `unscanned`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RedactionTally {
    rules: BTreeMap<String, RuleTally>,
}

impl RedactionTally {
    /// The count of a text of so many bytes that was left out because it could not be scanned.
    #[must_use]
    pub fn of_unscanned(bytes: usize) -> Self {
        let mut tally = Self::default();
        tally.add("unscanned", bytes);
        tally
    }

    /// Counts one mark.
    pub(crate) fn add(&mut self, rule: &str, bytes: usize) {
        if !self.rules.contains_key(rule) {
            self.rules.insert(rule.to_owned(), RuleTally::default());
        }
        if let Some(tally) = self.rules.get_mut(rule) {
            tally.marks += 1;
            tally.bytes += bytes as u64;
        }
    }

    /// Adds the counts of another text.
    pub fn merge(&mut self, other: &Self) {
        for (rule, tally) in &other.rules {
            let own = self.rules.entry(rule.clone()).or_default();
            own.marks += tally.marks;
            own.bytes += tally.bytes;
        }
    }

    /// Whether nothing was redacted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// How many marks were made.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.rules.values().map(|tally| tally.marks).sum()
    }

    /// The counts of each rule, by its id.
    pub fn by_rule(&self) -> impl Iterator<Item = (&str, RuleTally)> {
        self.rules.iter().map(|(rule, tally)| (rule.as_str(), *tally))
    }
}
