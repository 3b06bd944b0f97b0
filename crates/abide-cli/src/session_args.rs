//! The arguments that name a session, the same for every command.

use abide::SessionId;

use crate::context::CommandContext;
use crate::error::CommandError;
use crate::output::status;
use crate::scoped_store::ScopedStore;

/// Which session a command is about.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SessionArg {
    /// The session: its id, its short id, or the start of either
    /// [default: $ABIDE_SESSION, else the latest]
    #[arg(value_name = "SESSION")]
    positional: Option<String>,
    /// The same, as an option
    #[arg(short, long, value_name = "SESSION", conflicts_with = "positional")]
    session: Option<String>,
}

/// Which session a command is about that has other arguments.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SessionOption {
    /// The session: its id, its short id, or the start of either
    /// [default: $ABIDE_SESSION, else the latest]
    #[arg(short, long, value_name = "SESSION")]
    session: Option<String>,
}

impl SessionOption {
    /// Finds the session to write to. If none was named, its name is printed on stderr.
    pub(crate) fn find_to_write(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        self.arg().find_to_write(opened, surroundings)
    }

    /// The same, for commands on the files of this directory.
    pub(crate) fn find_here(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        self.arg().find_here(opened, surroundings)
    }

    /// The same, for commands that read the files of a session.
    pub(crate) fn find_near(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        self.arg().find_near(opened, surroundings)
    }

    fn arg(&self) -> SessionArg {
        SessionArg { positional: None, session: self.session.clone() }
    }
}

impl SessionArg {
    /// The session named by an argument or the environment.
    pub(crate) fn named(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<Option<SessionId>, CommandError> {
        let named = self.positional.as_ref().or(self.session.as_ref());
        named.or(surroundings.session.as_ref()).map(|named| opened.find(named)).transpose()
    }

    /// Finds the session. If none was named, its name is printed on stderr.
    pub(crate) fn find(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        if let Some(named) = self.named(opened, surroundings)? {
            return Ok(named);
        }
        let latest = opened.latest()?;
        tell_latest(latest);
        Ok(latest)
    }
}

impl SessionArg {
    /// Finds the session to write to. If none is named, only one of this project qualifies.
    pub(crate) fn find_to_write(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        if let Some(named) = self.named(opened, surroundings)? {
            return Ok(named);
        }
        opened.check_one_project(surroundings)?;
        self.find(opened, surroundings)
    }

    /// Finds the session for commands on the files of this directory. If none is named, only one
    /// whose workspace is this directory, in this clone and worktree, qualifies.
    pub(crate) fn find_here(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        if let Some(named) = self.named(opened, surroundings)? {
            return Ok(named);
        }
        let latest = opened.latest_in(surroundings)?;
        let latest = latest.ok_or_else(|| opened.none_here(surroundings))?;
        tell_latest(latest);
        Ok(latest)
    }

    /// Finds the session for commands that read the files of a session. If none is named, the one
    /// whose workspace is this directory, else the latest.
    pub(crate) fn find_near(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        if let Some(named) = self.named(opened, surroundings)? {
            return Ok(named);
        }
        match opened.latest_in(surroundings)? {
            Some(latest) => {
                tell_latest(latest);
                Ok(latest)
            }
            None => self.find(opened, surroundings),
        }
    }
}

/// Prints which session was chosen.
pub(crate) fn tell_latest(latest: SessionId) {
    status(format_args!("Session {} (the latest)", latest.short(SessionId::SHORT)));
}
