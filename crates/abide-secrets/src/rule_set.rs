//! The rules of a scan: the embedded ones, and those of a user.

use std::collections::BTreeSet;

use crate::keyword_table::Keyword;
use crate::own_rules::{OwnRuleError, OwnRules, check_own_rules};
use crate::packed_rules::{PackedRulesError, packed_version, read_packed_rules};
use crate::rule::Rule;

/// All rules, and the values that are no secrets.
#[derive(Debug)]
pub struct RuleSet {
    pub(crate) rules: Vec<Rule>,
    pub(crate) keywords: Vec<Keyword>,
    pub(crate) allowed: BTreeSet<Vec<u8>>,
    pub(crate) disabled: BTreeSet<u16>,
}

/// A rule, for a list of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleSummary<'r> {
    /// Its id, which stands in marks.
    pub id: &'r str,
    /// Its pattern.
    pub pattern: &'r str,
    /// Whether it is used.
    pub is_enabled: bool,
}

impl RuleSet {
    /// The embedded rules.
    ///
    /// # Errors
    ///
    /// If the embedded list is damaged. Whoever writes what agents say must not start then.
    pub fn load() -> Result<Self, PackedRulesError> {
        let (rules, keywords) = read_packed_rules()?;
        Ok(Self { rules, keywords, allowed: BTreeSet::new(), disabled: BTreeSet::new() })
    }

    /// Adds a user's own rules, and values and rules that the user allows, from TOML:
    ///
    /// ```
    /// # use abide_secrets::RuleSet;
    /// let rules = RuleSet::load()?.with_own(r#"
    ///     [[rule]]
    ///     id = "acme-token"
    ///     regex = 'acme_([0-9a-f]{32})'
    ///     keywords = ["acme_"]
    ///     secret_group = 1        # else the first group of the pattern, or all of it
    ///     entropy = 3.0           # the least, in bits per byte
    ///
    ///     [allow]
    ///     values = ["acme_0123456789abcdef0123456789abcdef"]
    ///     rules = ["jwt"]
    /// "#)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the text is not of this form, a pattern does not compile or matches nothing, or a keyword is too short.
    pub fn with_own(self, toml: &str) -> Result<Self, OwnRuleError> {
        self.with_own_rules(OwnRules::read(toml)?)
    }

    /// The same, of rules that were read already.
    ///
    /// # Errors
    ///
    /// If a pattern does not compile or matches nothing, a keyword is too short, or a rule that is
    /// switched off is not there.
    pub fn with_own_rules(mut self, own: OwnRules) -> Result<Self, OwnRuleError> {
        let read = check_own_rules(own, &self.rules)?;
        self.rules.extend(read.rules);
        self.keywords.extend(read.keywords);
        self.allowed.extend(read.allowed);
        for id in read.disabled {
            let number = self.rules.iter().position(|rule| rule.id == id);
            let number = number.and_then(|number| u16::try_from(number).ok());
            self.disabled.insert(number.ok_or(OwnRuleError::Unknown { id })?);
        }
        Ok(self)
    }

    /// Which version of the upstream rules is embedded.
    #[must_use]
    pub fn version(&self) -> &'static str {
        packed_version()
    }

    /// All rules in their order.
    pub fn rules(&self) -> impl Iterator<Item = RuleSummary<'_>> {
        self.rules.iter().enumerate().map(|(number, rule)| RuleSummary {
            id: &rule.id,
            pattern: &rule.pattern,
            is_enabled: u16::try_from(number).is_ok_and(|number| !self.disabled.contains(&number)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_rule_that_is_there_can_be_switched_off() {
        let without = |id: &str| {
            let own = OwnRules { disabled: vec![id.to_owned()], ..OwnRules::default() };
            RuleSet::load().unwrap().with_own_rules(own)
        };
        let rules = without("jwt").unwrap();
        let off: Vec<&str> = rules.rules().filter(|it| !it.is_enabled).map(|it| it.id).collect();
        assert_eq!(off, ["jwt"]);
        let error = without("jvt").unwrap_err().to_string();
        assert!(error.contains("no rule `jvt`"), "{error}");
    }
}
