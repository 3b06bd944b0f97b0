//! What is taken of a workspace, and how much of it.

use serde::Deserialize;

/// `[workspace]` in `config.toml`.
///
/// Patterns are those of `.gitignore`, seen from the root. `exclude` goes before `include`, and
/// `include` before every ignore file. What git tracks although it is ignored is not known here:
/// name it in `include`. A pattern without a slash can match at any depth, so that ignored
/// directories are looked through for it; one that begins with a slash keeps the walk short.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// What is taken although it is ignored.
    pub include: Vec<String>,
    /// What is not taken although nothing ignores it.
    pub exclude: Vec<String>,
    /// A larger file is left out.
    pub max_file_bytes: u64,
    /// The most files in a snapshot.
    pub max_files: u64,
    /// The most bytes of files in a snapshot.
    pub max_bytes: u64,
    /// No snapshot is taken when the store's disk has less free.
    pub min_free_bytes: u64,
}

/// Settings in the place of others; what is not given stays as those have it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyOverrides {
    /// See [`Policy::include`].
    pub include: Option<Vec<String>>,
    /// See [`Policy::exclude`].
    pub exclude: Option<Vec<String>>,
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
    /// That policy with these settings in their place.
    #[must_use]
    pub fn over(&self, policy: &Policy) -> Policy {
        Policy {
            include: self.include.as_ref().unwrap_or(&policy.include).clone(),
            exclude: self.exclude.as_ref().unwrap_or(&policy.exclude).clone(),
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
            max_file_bytes: GIB,
            max_files: 1_000_000,
            max_bytes: 20 * GIB,
            min_free_bytes: GIB,
        }
    }
}
