//! `[secrets]` of the user's settings: what becomes of secrets in what is recorded. No store decides
//! that: its settings may come with a cloned repository.

use abide_secrets::{OwnRule, OwnRules};
use serde::Deserialize;

/// `[secrets]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SecretsConfig {
    /// Whether marks take the place of secrets.
    pub record: SecretRecording,
    /// Values that are no secrets.
    pub allow: Vec<String>,
    /// The ids of rules that are not used.
    pub disable: Vec<String>,
    /// More rules.
    pub rule: Vec<OwnRule>,
}

/// `record`: how secrets are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretRecording {
    /// As marks.
    #[default]
    Redact,
    /// As they are.
    Keep,
}

impl SecretsConfig {
    /// What it says about rules.
    #[must_use]
    pub fn own_rules(&self) -> OwnRules {
        let Self { allow, disable, rule, .. } = self.clone();
        OwnRules { rules: rule, allowed: allow, disabled: disable }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_redacted_unless_the_settings_say_otherwise() {
        let read = |text: &str| toml::from_str::<SecretsConfig>(text);
        assert_eq!(read("").unwrap().record, SecretRecording::Redact);
        assert_eq!(read("record = 'keep'").unwrap().record, SecretRecording::Keep);
        for wrong in ["record = false", "record = 'off'", "recrod = 'keep'", "rule = ['x']"] {
            read(wrong).unwrap_err();
        }
        let own = read(
            "allow = ['a'] \n disable = ['jwt'] \n [[rule]] \n id = 'x' \n regex = 'x_(.)' \n keywords = ['x_x']",
        );
        let own = own.unwrap().own_rules();
        assert_eq!((own.allowed.len(), own.disabled.len(), own.rules.len()), (1, 1, 1));
    }
}
