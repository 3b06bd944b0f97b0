//! The place of the prompt in an agent's command.

/// The place of the prompt in an agent's command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSlot {
    before: Vec<String>,
    own: Option<String>,
    behind: Vec<String>,
}

impl PromptSlot {
    /// The prompt is this argument.
    pub(crate) fn at(arguments: &[String], at: usize) -> Option<Self> {
        let own = arguments.get(at)?;
        Some(Self {
            before: arguments.get(..at)?.to_vec(),
            own: Some(own.clone()),
            behind: arguments.get(at + 1..)?.to_vec(),
        })
    }

    /// There is no prompt; one may stand between these.
    pub(crate) const fn between(before: Vec<String>, behind: Vec<String>) -> Self {
        Self { before, own: None, behind }
    }

    /// The same, behind the program and what starts it.
    pub(super) fn behind(self, program: &[String]) -> Self {
        Self { before: [program, &self.before].concat(), ..self }
    }

    /// The prompt that the command has.
    #[must_use]
    pub fn own(&self) -> Option<&str> {
        self.own.as_deref()
    }

    /// The command with this prompt in the place of its own.
    #[must_use]
    pub fn fill(self, prompt: String) -> Vec<String> {
        [self.before, vec![prompt], self.behind].concat()
    }
}
