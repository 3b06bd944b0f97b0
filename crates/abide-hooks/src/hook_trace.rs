//! Tells what hooks record, for those who look for a fault: hooks themselves print nothing.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// A file to which a line is added for whatever is recorded.
#[derive(Debug, Clone, Default)]
pub struct HookTrace {
    /// The file; without one nothing is told.
    pub file: Option<PathBuf>,
}

impl HookTrace {
    /// Adds a line. What cannot be told is not.
    pub fn tell(&self, line: impl fmt::Display) {
        let Some(file) = &self.file else { return };
        let mut options = OpenOptions::new();
        if let Ok(mut file) = options.append(true).create(true).mode(0o600).open(file) {
            let _ = file.write_all(format!("{} {line}\n", std::process::id()).as_bytes());
        }
    }
}
