//! Finds secrets in text and in JSON, and replaces them by marks.
//!
//! A [`RuleSet`] says what secrets look like: most rules belong to one vendor. [`Literals`] are values
//! that the caller knows to be secret. A [`Redactor`] scans a text once for the keywords of all rules and
//! looks closer only where one stands. What it finds becomes a mark such as
//! `‹redacted:github-token:7f3a91c2›`: the rule, and eight digits of a keyed hash, so that the same secret is
//! the same mark everywhere, and a mark does not give the secret away.
//!
//! Nothing here reads a file, a clock or the environment. A scan has a bound on its work; a text over it
//! is not returned ([`ScanOverrun`]).
//!
//! ```
//! use abide_secrets::{Literals, MarkKey, Redactor, RuleSet};
//!
//! let mut literals = Literals::default();
//! literals.add("env", "correct-horse-42");
//! let redactor = Redactor::new(RuleSet::load()?, literals, MarkKey::new([7; 32]));
//! let redacted = redactor.redact_text("the password is correct-horse-42, keep it")?;
//! assert!(redacted.text().starts_with("the password is ‹redacted:env:"));
//! assert_eq!(redacted.tally().total(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod byte_class;
mod dotenv;
mod json_redaction;
mod json_string;
mod keyword_table;
mod literals;
mod mark;
mod opaque;
mod own_rules;
mod packed_rules;
mod pem;
mod plausibility;
mod prefix_set;
mod redactor;
mod rule;
mod rule_set;
mod scanner;
mod secret_names;
mod stream_redactor;
mod tally;

pub use dotenv::{EnvAssignment, read_dotenv};
pub use json_redaction::NotJson;
pub use literals::Literals;
pub use mark::{MarkKey, has_mark, unscanned_mark};
pub use own_rules::{OwnRule, OwnRuleError, OwnRules};
pub use packed_rules::PackedRulesError;
pub use redactor::{RedactedText, Redactor};
pub use rule_set::{RuleSet, RuleSummary};
pub use scanner::ScanOverrun;
pub use secret_names::{is_secret_name, is_secret_value};
pub use stream_redactor::StreamRedactor;
pub use tally::{RedactionTally, RuleTally};
