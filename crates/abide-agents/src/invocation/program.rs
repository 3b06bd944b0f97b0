//! The program of an agent in a command, be it behind others that start it.

use crate::agent_kind::AgentKind;

/// Programs that start another one, whose name stands behind theirs.
const STARTERS: &[&str] = &["env", "npx", "bunx", "pnpx", "node", "bun", "nohup", "exec"];

/// Options of those that have a value behind them.
const STARTER_VALUES: &[&str] =
    &["-u", "--unset", "-C", "--chdir", "-p", "--package", "-r", "--require", "--import"];

/// A program by which an agent is started.
#[derive(Debug)]
pub(crate) struct AgentProgram {
    /// Its name without folder, version and ending.
    name: &'static str,
    /// What its path holds, where its name alone says too little.
    folder: Option<&'static str>,
}

/// An agent's program in a command.
pub(super) struct FoundProgram {
    pub(super) kind: AgentKind,
    /// Where its arguments begin.
    pub(super) arguments: usize,
}

impl AgentProgram {
    /// One that is known by its name.
    pub(crate) const fn named(name: &'static str) -> Self {
        Self { name, folder: None }
    }

    /// Its name without folder, version and ending.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// One whose name says too little: its path holds `folder`, written with a slash at either end.
    pub(crate) const fn within(folder: &'static str, name: &'static str) -> Self {
        Self { name, folder: Some(folder) }
    }

    fn is_at(&self, path: &str) -> bool {
        program_stem(path) == self.name && self.folder.is_none_or(|folder| path.contains(folder))
    }
}

/// Finds the agent's program, be it behind others that start it.
pub(super) fn find_program(command: &[String]) -> Option<FoundProgram> {
    let mut at = 0;
    loop {
        let word = command.get(at)?;
        at += 1;
        if let Some(kind) = program_by_name(word) {
            return Some(FoundProgram { kind, arguments: at });
        }
        if !STARTERS.contains(&program_stem(word)) {
            return None;
        }
        // Its options, and what `env` sets.
        while let Some(option) = command.get(at) {
            let sets = option.contains('=') && !option.starts_with('-') && !option.contains('/');
            let sets = sets || option.split_once('=').is_some_and(|(name, _)| is_variable(name));
            if option.starts_with('-') {
                at += 1 + usize::from(STARTER_VALUES.contains(&option.as_str()));
            } else if sets {
                at += 1;
            } else {
                break;
            }
        }
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn program_by_name(word: &str) -> Option<AgentKind> {
    let path = word.replace('\\', "/");
    AgentKind::all().find(|kind| kind.profile().programs.iter().any(|one| one.is_at(&path)))
}

/// The name of a program without its folder, its version and its ending.
fn program_stem(word: &str) -> &str {
    let name = word.rsplit('/').next().unwrap_or(word);
    let name = name.split('@').find(|part| !part.is_empty()).unwrap_or(name);
    for ending in [".js", ".mjs", ".cjs", ".exe", ".cmd"] {
        if let Some(bare) = name.strip_suffix(ending) {
            return bare;
        }
    }
    name
}
