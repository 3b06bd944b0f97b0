//! The place of the prompt in an agent's command.

use super::arguments::arguments_before_dashes;

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

    /// The prompt is the value of the first of these options, behind it or joined to it by `=`.
    pub(crate) fn named(arguments: &[String], names: &[&str]) -> Option<Self> {
        for (at, word) in arguments_before_dashes(arguments).iter().enumerate() {
            if names.contains(&word.as_str()) {
                return Self::at(arguments, at + 1);
            }
            if let Some((name, own)) = word.split_once('=')
                && names.contains(&name)
            {
                let before = [arguments.get(..at)?, &[name.to_owned()]].concat();
                let behind = arguments.get(at + 1..)?.to_vec();
                return Some(Self { before, own: Some(own.to_owned()), behind });
            }
        }
        None
    }

    /// The prompt is these arguments, with a blank between them.
    pub(crate) fn words(arguments: &[String], words: &[usize]) -> Option<Self> {
        let first = *words.first()?;
        let own: Vec<&str> =
            words.iter().filter_map(|at| Some(arguments.get(*at)?.as_str())).collect();
        let rest = arguments.iter().enumerate().skip(first);
        let behind = rest.filter(|(at, _)| !words.contains(at)).map(|(_, word)| word.clone());
        Some(Self {
            before: arguments.get(..first)?.to_vec(),
            own: Some(own.join(" ")),
            behind: behind.collect(),
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
