//! The prompt of an agent that reads a text on stdin.

/// What an agent makes of a text on stdin: its prompt, alone or with that of its command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptInput {
    before: String,
    behind: String,
}

impl PromptInput {
    /// The text is the whole prompt.
    pub(crate) fn alone() -> Self {
        Self::default()
    }

    /// The text stands between these, one of which has the prompt of the command.
    pub(crate) const fn between(before: String, behind: String) -> Self {
        Self { before, behind }
    }

    /// Whether the command has no other prompt than the text.
    #[must_use]
    pub const fn is_alone(&self) -> bool {
        self.before.is_empty() && self.behind.is_empty()
    }

    /// The prompt, with this text.
    #[must_use]
    pub fn prompt(&self, text: &str) -> String {
        let text = if self.behind.is_empty() { text } else { text.trim_end() };
        [&self.before, text, &self.behind].concat()
    }
}
