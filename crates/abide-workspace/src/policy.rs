//! Which files of a workspace are captured, and the limits on a snapshot.

use serde::Deserialize;

/// `[workspace]` in `config.toml`.
///
/// Patterns use `.gitignore` syntax, relative to the root. `exclude` overrides `include`, and
/// `include` overrides every ignore file. Files that git tracks although they are ignored are not
/// detected: name them in `include`. A pattern without a slash can match at any depth, so ignored
/// directories must be searched for it; a pattern with a leading slash keeps the walk short.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Files to capture even if they are ignored.
    pub include: Vec<String>,
    /// Files to leave out even if nothing ignores them.
    pub exclude: Vec<String>,
    /// What becomes of files that usually hold secrets. `None` captures them, and whoever makes
    /// checkpoints for people asks.
    pub secrets: Option<SecretFiles>,
    /// Larger files are left out.
    pub max_file_bytes: u64,
    /// The maximum number of files in a snapshot.
    pub max_files: u64,
    /// The maximum total size of the files in a snapshot.
    pub max_bytes: u64,
    /// No snapshot is taken if the store's disk has fewer free bytes than this.
    pub min_free_bytes: u64,
}

/// `workspace.secrets`: what becomes of files that usually hold secrets, by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretFiles {
    /// Captured as they are: a rewind brings them back whole.
    Keep,
    /// Left out, as if `exclude` named them.
    Omit,
}

/// The names of files that usually hold secrets, as patterns. With an ending, `id_…` is no key of SSH;
/// directories of such names often hold code.
pub const SECRET_FILE_NAMES: [&str; 9] = [
    ".env*",
    "*.pem",
    "id_*",
    "!id_*.*",
    "credentials*",
    "!.env*/",
    "!*.pem/",
    "!id_*/",
    "!credentials*/",
];

impl SecretFiles {
    /// Its name in the settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Omit => "omit",
        }
    }
}

/// Whether a file of this name usually holds secrets, as [`SECRET_FILE_NAMES`] says.
#[must_use]
pub fn is_secret_file_name(name: &str) -> bool {
    name.starts_with(".env")
        || name.ends_with(".pem")
        || name.starts_with("credentials")
        || name.strip_prefix("id_").is_some_and(|rest| !rest.contains('.'))
}

impl Policy {
    /// The patterns of files that are left out.
    pub(crate) fn excluded(&self) -> impl Iterator<Item = &str> {
        let secrets: &[&str] = match self.secrets {
            None | Some(SecretFiles::Keep) => &[],
            Some(SecretFiles::Omit) => &SECRET_FILE_NAMES,
        };
        self.exclude.iter().map(String::as_str).chain(secrets.iter().copied())
    }
}

/// Settings that override a policy. Settings that are `None` keep the policy's value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyOverrides {
    /// See [`Policy::include`].
    pub include: Option<Vec<String>>,
    /// See [`Policy::exclude`].
    pub exclude: Option<Vec<String>>,
    /// See [`Policy::secrets`].
    pub secrets: Option<SecretFiles>,
    /// See [`Policy::max_file_bytes`].
    pub max_file_bytes: Option<u64>,
    /// See [`Policy::max_files`].
    pub max_files: Option<u64>,
    /// See [`Policy::max_bytes`].
    pub max_bytes: Option<u64>,
    /// See [`Policy::min_free_bytes`].
    pub min_free_bytes: Option<u64>,
}

impl PolicyOverrides {
    /// Returns the policy with these settings applied.
    #[must_use]
    pub fn over(&self, policy: &Policy) -> Policy {
        Policy {
            include: self.include.as_ref().unwrap_or(&policy.include).clone(),
            exclude: self.exclude.as_ref().unwrap_or(&policy.exclude).clone(),
            secrets: self.secrets.or(policy.secrets),
            max_file_bytes: self.max_file_bytes.unwrap_or(policy.max_file_bytes),
            max_files: self.max_files.unwrap_or(policy.max_files),
            max_bytes: self.max_bytes.unwrap_or(policy.max_bytes),
            min_free_bytes: self.min_free_bytes.unwrap_or(policy.min_free_bytes),
        }
    }
}

const GIB: u64 = 1 << 30;

impl Default for Policy {
    fn default() -> Self {
        Self {
            include: Vec::new(),
            exclude: Vec::new(),
            secrets: None,
            max_file_bytes: GIB,
            max_files: 1_000_000,
            max_bytes: 20 * GIB,
            min_free_bytes: GIB,
        }
    }
}

#[cfg(test)]
mod tests {
    use ignore::Match;
    use ignore::gitignore::GitignoreBuilder;

    use super::*;

    #[test]
    fn the_names_of_secret_files_are_those_of_the_patterns() {
        let mut patterns = GitignoreBuilder::new("/");
        for pattern in SECRET_FILE_NAMES {
            patterns.add_line(None, pattern).unwrap();
        }
        let patterns = patterns.build().unwrap();
        for name in [
            ".env",
            ".env.local",
            ".envrc",
            "env",
            "a.env",
            "key.pem",
            ".pem",
            "pem",
            "key.pem.txt",
            "id_rsa",
            "id_",
            "id_ed25519",
            "id_rsa.pub",
            "id_x.rs",
            "id",
            "an_id_rsa",
            "credentials",
            "credentials.json",
            "credential",
            "my-credentials",
            "x",
        ] {
            let matched = |is_dir| matches!(patterns.matched(name, is_dir), Match::Ignore(_));
            assert_eq!(is_secret_file_name(name), matched(false), "{name}");
            assert!(!matched(true), "{name}/");
        }
    }
}
