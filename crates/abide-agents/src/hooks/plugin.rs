//! How abide is put into an agent and taken out of it: which files, which of the agent's own commands,
//! and how either is seen. Pure: somebody else writes, runs and looks.

use std::path::PathBuf;

use serde_json::Value;

use crate::KeptDirectory;

/// How abide is put into an agent.
#[derive(Debug)]
pub struct AgentPlugin {
    /// The agent's directory of settings.
    pub config: KeptDirectory,
    /// What the plugin consists of at a site; `None` where the agent has no such place.
    pub parts: fn(&PluginSite) -> Option<PluginParts>,
    /// How a person's trust in the hooks is asked for and told; `None` where the agent runs them as they are.
    pub trust: Option<HookTrust>,
}

/// Where a plugin goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginSite {
    /// The agent's directory of settings.
    pub config: PathBuf,
    /// abide's own directory for what this agent reads in place.
    pub own: PathBuf,
    /// The project whose settings are meant; `None` for those of all projects.
    pub project: Option<PathBuf>,
    /// abide's program, by an absolute path.
    pub program: String,
}

/// What a plugin consists of.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PluginParts {
    /// The files that abide writes.
    pub files: Vec<PluginFile>,
    /// Whose it is what stands there already.
    pub signs: Vec<PluginSign>,
    /// The arguments of the agent's program that install it, in order. Each may be repeated.
    pub install: Vec<Vec<String>>,
    /// What else is there where it is installed.
    pub marks: Vec<PluginMark>,
    /// The arguments of the agent's program that remove it, in order.
    pub remove: Vec<PluginRemoval>,
    /// What is of abide alone: removed, whatever it holds, after the agent's own removal.
    pub own: Vec<PluginPlace>,
    /// The same, where all projects share it: removed with the last of them.
    pub shared: Vec<PluginPlace>,
    /// What may have come with the plugin: removed at last if it holds nothing and was not there before.
    pub emptied: Vec<PluginPlace>,
}

/// A file that abide writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFile {
    /// Its path.
    pub path: PathBuf,
    /// All that is in it.
    pub text: String,
}

/// What tells that something of the plugin's name is abide's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginSign {
    /// What may be there.
    pub place: PluginPlace,
    /// What is looked at: a file that contains the text, or a setting that is the text.
    pub proof: PluginPlace,
    /// The text.
    pub text: String,
}

/// Something that is there where a plugin is installed.
#[derive(Debug, Clone, PartialEq)]
pub enum PluginMark {
    /// A value in a file of settings.
    Setting {
        /// The file, which ends in `.json` or `.toml`.
        file: PathBuf,
        /// The keys that lead to it.
        keys: Vec<String>,
        /// The value.
        value: Value,
    },
    /// A file of settings that does not say this.
    NotSetting {
        /// The file.
        file: PathBuf,
        /// The keys that lead to it.
        keys: Vec<String>,
        /// The value.
        value: Value,
    },
    /// A file with this text, which the agent copied.
    Copy(PluginFile),
    /// A directory with these files in it and no others.
    Only {
        /// The directory.
        directory: PathBuf,
        /// The files in it, and in the directories in it.
        files: Vec<PathBuf>,
    },
}

/// A command that removes a plugin, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginRemoval {
    /// The arguments of the agent's program.
    pub arguments: Vec<String>,
    /// It is needed if one of these is there.
    pub needed: Vec<PluginPlace>,
    /// It would take the plugin from other projects too, and is run only where there are none.
    pub last_only: bool,
}

/// A place that is looked at or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginPlace {
    /// A file. It holds nothing if it is blank, or an object of JSON with nothing in it but the version
    /// of its form.
    File(PathBuf),
    /// A directory.
    Directory(PathBuf),
    /// A value in a file of settings that ends in `.json` or `.toml`.
    Setting {
        /// The file.
        file: PathBuf,
        /// The keys that lead to it. A last key that ends in `*` means all that begin so.
        keys: Vec<String>,
    },
    /// The line that begins a table of TOML. It holds nothing if only inner tables stand in the table,
    /// which need no such line.
    Header {
        /// The file.
        file: PathBuf,
        /// The keys that lead to the table.
        keys: Vec<String>,
    },
}

/// How an agent is told that a person trusts hooks: a conversation of lines with a server of its own.
#[derive(Debug)]
pub struct HookTrust {
    /// What is there where the hooks are trusted, as far as is known: the server is only asked where it is
    /// not.
    pub marks: fn(&PluginSite) -> Vec<PluginMark>,
    /// The command of every hook of abide.
    pub command: fn(&PluginSite) -> String,
    /// The arguments of the agent's program that start the server.
    pub server: &'static [&'static str],
    /// The lines that ask which hooks there are.
    pub question: &'static [&'static str],
    /// Reads a line of the server: the hooks of abide, if it answers the question.
    pub answer: fn(line: &str) -> Option<Vec<HookApproval>>,
    /// The line that says that these are trusted.
    pub approval: fn(&[HookApproval]) -> String,
    /// Reads a line of the server: what it made of the approval, if it answers that.
    pub approved: fn(line: &str) -> Option<Result<(), String>>,
    /// What a person does in the agent instead.
    pub by_hand: &'static str,
}

/// A hook of abide, and whether the agent runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookApproval {
    /// The agent's name for it.
    pub key: String,
    /// The event that starts it.
    pub event: String,
    /// The command that it starts.
    pub command: String,
    /// What is trusted: a hash of it all.
    pub hash: String,
    /// A person switched it off.
    pub switched_off: bool,
    /// The agent runs it.
    pub trusted: bool,
}

impl PluginPlace {
    /// A value in a file of settings.
    pub(crate) fn setting(file: impl Into<PathBuf>, keys: &[&str]) -> Self {
        Self::Setting { file: file.into(), keys: keys.iter().map(|&key| key.to_owned()).collect() }
    }
}

impl PluginMark {
    /// A value in a file of settings.
    pub(crate) fn setting(file: impl Into<PathBuf>, keys: &[&str], value: Value) -> Self {
        let keys = keys.iter().map(|&key| key.to_owned()).collect();
        Self::Setting { file: file.into(), keys, value }
    }
}

/// The arguments of a command.
pub(crate) fn plugin_arguments(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
