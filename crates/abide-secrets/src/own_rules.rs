//! Rules that a user adds, as TOML.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Deserialize;

use crate::keyword_table::{Keyword, KeywordTarget};
use crate::rule::{Rule, RuleLimits};

/// Rules of a user that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnRuleError {
    /// The text is no list of rules.
    #[error("the rules cannot be read")]
    Toml(#[source] Box<toml::de::Error>),
    /// The id has other characters than small letters, digits, `-`, `_` and `.`, or is too long.
    #[error("`{id}` cannot be the id of a rule; use small letters, digits and `-`, at most 64")]
    Id {
        /// The id.
        id: String,
    },
    /// Two rules have the same id.
    #[error("there is already a rule `{id}`")]
    Duplicate {
        /// The id.
        id: String,
    },
    /// A rule has no keyword, or one that is too short to look for.
    #[error("rule `{id}` needs keywords of at least 3 bytes: text that stands near every match")]
    Keywords {
        /// The rule.
        id: String,
    },
    /// The pattern does not compile, or has no such group.
    #[error("the pattern of rule `{id}` cannot be used")]
    Pattern {
        /// The rule.
        id: String,
        /// Why.
        #[source]
        source: Box<regex_automata::meta::BuildError>,
    },
    /// The pattern matches an empty text.
    #[error("the pattern of rule `{id}` matches an empty text")]
    EmptyMatch {
        /// The rule.
        id: String,
    },
    /// The pattern has no such group.
    #[error("the pattern of rule `{id}` has no group {group}")]
    Group {
        /// The rule.
        id: String,
        /// The group.
        group: usize,
    },
    /// A rule that is switched off is not there.
    #[error("there is no rule `{id}` to switch off; `abide secrets rules` lists them")]
    Unknown {
        /// The id.
        id: String,
    },
    /// There are too many rules.
    #[error("there are too many rules")]
    TooMany,
}

/// What a user says about rules.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OwnRules {
    /// More rules.
    pub rules: Vec<OwnRule>,
    /// Values that are no secrets.
    pub allowed: Vec<String>,
    /// The ids of rules that are not used.
    pub disabled: Vec<String>,
}

/// A rule of a user.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnRule {
    /// Its id, which stands in marks.
    pub id: String,
    /// The pattern.
    pub regex: String,
    /// Text that stands near every match, whatever its case.
    pub keywords: Vec<String>,
    /// Which group of the pattern is the secret; else the first, or all of it.
    #[serde(default)]
    pub secret_group: Option<usize>,
    /// The least entropy of a secret, in bits per byte.
    #[serde(default)]
    pub entropy: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnRuleList {
    #[serde(default)]
    rule: Vec<OwnRule>,
    #[serde(default)]
    allow: AllowList,
}

impl OwnRules {
    /// Reads them from TOML.
    pub(crate) fn read(text: &str) -> Result<Self, OwnRuleError> {
        let OwnRuleList { rule, allow } =
            toml::from_str(text).map_err(|error| OwnRuleError::Toml(Box::new(error)))?;
        Ok(Self { rules: rule, allowed: allow.values, disabled: allow.rules })
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct AllowList {
    /// Values that are no secrets.
    #[serde(default)]
    values: Vec<String>,
    /// Rules that are not used.
    #[serde(default)]
    rules: Vec<String>,
}

/// Own rules that were checked.
pub(crate) struct CheckedOwnRules {
    pub rules: Vec<Rule>,
    pub keywords: Vec<Keyword>,
    pub allowed: BTreeSet<Vec<u8>>,
    pub disabled: Vec<String>,
}

/// How far around a keyword an own rule looks.
const REACH: usize = 512;

/// Checks own rules. Their numbers go on from `taken`.
pub(crate) fn check_own_rules(
    own: OwnRules,
    taken: &[Rule],
) -> Result<CheckedOwnRules, OwnRuleError> {
    let OwnRules { rules, allowed, disabled } = own;
    let mut read = CheckedOwnRules {
        rules: Vec::new(),
        keywords: Vec::new(),
        allowed: allowed.into_iter().map(String::into_bytes).collect(),
        disabled,
    };
    for own in rules {
        let OwnRule { id, regex, keywords, secret_group, entropy } = own;
        if !crate::mark::is_rule_id(&id) {
            return Err(OwnRuleError::Id { id });
        }
        if taken.iter().chain(&read.rules).any(|rule| rule.id == id) {
            return Err(OwnRuleError::Duplicate { id });
        }
        if keywords.is_empty() || keywords.iter().any(|word| word.len() < 3 || word.len() > 64) {
            return Err(OwnRuleError::Keywords { id });
        }
        let number =
            u16::try_from(taken.len() + read.rules.len()).map_err(|_| OwnRuleError::TooMany)?;
        for word in keywords {
            let text = Cow::Owned(word.to_ascii_lowercase().into_bytes());
            read.keywords.push(Keyword { text, exact: false, target: KeywordTarget::Rule(number) });
        }
        let limits = RuleLimits {
            before: REACH,
            after: REACH,
            wide: true,
            entropy,
            ..RuleLimits::default()
        };
        let rule =
            Rule::new(Cow::Owned(id.clone()), Cow::Owned(regex), limits).with_group(secret_group);
        match rule.check() {
            Err(source) => return Err(OwnRuleError::Pattern { id, source }),
            Ok(pattern) if pattern.matches_empty => return Err(OwnRuleError::EmptyMatch { id }),
            Ok(pattern) => {
                if let Some(group) = secret_group.filter(|group| *group >= pattern.groups) {
                    return Err(OwnRuleError::Group { id, group });
                }
            }
        }
        read.rules.push(rule);
    }
    Ok(read)
}
