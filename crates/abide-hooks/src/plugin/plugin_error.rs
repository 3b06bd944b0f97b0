//! Why a plugin could not be put in or taken out.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a plugin could not be put in or taken out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// A file could not be read or written.
    #[error("{}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file of settings is not what it should be. It is left as it is.
    #[error("{} cannot be read, and is left as it is: {reason}", file.display())]
    Settings {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A link stands where abide writes, and may lead anywhere.
    #[error("{} is a symbolic link, and abide writes through none", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// Something that somebody else put there has the plugin's name.
    #[error("{place} was not written by abide, and is left as it is: remove or rename it first")]
    NotOurs {
        /// What it is.
        place: String,
    },
    /// Another command changes plugins, or a program that one started still runs.
    #[error("another command changes plugins, or an agent that one started still runs")]
    Busy,
    /// A path cannot be noted.
    #[error("{} is not UTF-8, and cannot be noted", path.display())]
    NotUtf8 {
        /// The path.
        path: PathBuf,
    },
    /// The agent is not installed.
    #[error("{program} is not installed: there is no such program in PATH")]
    NoProgram {
        /// Its program.
        program: String,
    },
    /// The agent has no settings of a project that abide can be put into.
    #[error("{agent} cannot be told for one project alone; leave out --project")]
    NoProject {
        /// The agent.
        agent: String,
    },
    /// Nothing is known of how abide is put into this agent.
    #[error("abide has no plugin for {agent}")]
    NoPlugin {
        /// The agent.
        agent: String,
    },
    /// A command of the agent's could not be started.
    #[error("`{command}` could not be started")]
    NotStarted {
        /// The command.
        command: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A command of the agent's did not end in time, and was ended.
    #[error("`{command}` did not end within {} seconds, and was ended", limit.as_secs())]
    TimedOut {
        /// The command.
        command: String,
        /// The time that it had.
        limit: Duration,
    },
    /// A command of the agent's failed.
    #[error("`{command}` failed ({status}): {output}")]
    CommandFailed {
        /// The command.
        command: String,
        /// How it ended.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// The agent's own commands ended well, and still something is missing.
    #[error("{agent} was told, but {missing} is not there")]
    NotInstalled {
        /// The agent.
        agent: String,
        /// What is missing.
        missing: String,
    },
    /// The agent did not take the person's trust in the hooks.
    #[error("{agent} was not told of the trust in its hooks: {reason}")]
    NotTrusted {
        /// The agent.
        agent: String,
        /// Why.
        reason: String,
    },
}

impl PluginError {
    /// An error of this file.
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + use<'_> {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}
