//! The formats of task list documents.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::{TaskListError, json};

/// The format of a task list document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskListForm {
    /// `tasks.json` with a `backlog` of phases, milestones, tasks and subtasks.
    Prp,
    /// Headings and checkboxes.
    Markdown,
    /// `[[task]]` tables.
    Toml,
    /// `{"tasks":[…]}`, nested.
    Json,
}

impl TaskListForm {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::Prp, Self::Markdown, Self::Toml, Self::Json];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prp => "prp",
            Self::Markdown => "markdown",
            Self::Toml => "toml",
            Self::Json => "json",
        }
    }

    /// The format of a file, by its extension; JSON with a `backlog` is PRP.
    pub fn of(path: &Path, bytes: &[u8]) -> Result<Self, TaskListError> {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let unknown = || TaskListError::UnknownForm { name: name.to_string() };
        let end = path.extension().and_then(|end| end.to_str()).ok_or_else(unknown)?;
        match end.to_ascii_lowercase().as_str() {
            "md" | "markdown" => Ok(Self::Markdown),
            "toml" => Ok(Self::Toml),
            "json" if json::has_backlog(bytes) => Ok(Self::Prp),
            "json" => Ok(Self::Json),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for TaskListForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TaskListForm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|form| form.as_str() == text).ok_or_else(|| {
            format!("unknown format {text:?} (expected prp, markdown, toml or json)")
        })
    }
}
