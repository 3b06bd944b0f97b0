//! `[hooks]`: what is kept of the files that hooks of agents capture.

use std::path::{Path, PathBuf};

use abide_model::{ByteSize, TimeSpan};
use serde::Deserialize;

/// `[hooks]`: what is kept of the files that hooks of agents capture.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HooksConfig {
    /// Whether checkpoints are made before and after each turn.
    pub checkpoints: bool,
    /// Directories at and below which none are made.
    pub exclude: Vec<PathBuf>,
    /// Drop the oldest of these checkpoints when they have stored more than this.
    pub max_size: ByteSize,
    /// Drop those that are older.
    pub max_age: TimeSpan,
}

impl Default for HooksConfig {
    fn default() -> Self {
        Self {
            checkpoints: true,
            exclude: Vec::new(),
            max_size: ByteSize(5_000_000_000),
            max_age: TimeSpan::from_millis(30 * 24 * 3600 * 1000),
        }
    }
}

impl HooksConfig {
    /// Are files of this directory captured?
    #[must_use]
    pub fn captures(&self, workspace: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let workspace = real(workspace);
        self.checkpoints && !self.exclude.iter().any(|dir| workspace.starts_with(real(dir)))
    }
}
