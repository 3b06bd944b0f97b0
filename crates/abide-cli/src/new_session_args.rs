//! The arguments that describe a new session.

use std::path::{Path, PathBuf};

use abide::{NewSession, SessionFields};

use crate::command_context::CommandContext;

/// What a new session is.
#[derive(Debug, clap::Args)]
pub(crate) struct NewSessionArgs {
    /// Title of the session
    #[arg(long)]
    title: Option<String>,
    /// The agent that works in the session
    #[arg(long)]
    agent: Option<String>,
    /// Directory of the session's files [default: the current directory]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
}

impl NewSessionArgs {
    /// The session to create.
    pub(crate) fn into_session(
        self,
        key: Option<String>,
        surroundings: &CommandContext,
    ) -> NewSession {
        let workspace = self.workspace.as_deref().unwrap_or(Path::new(""));
        let workspace = surroundings.absolute(workspace);
        NewSession::from(SessionFields {
            title: self.title,
            agent: self.agent,
            workspace: Some(workspace.to_string_lossy().into_owned()),
            key,
            ..SessionFields::default()
        })
    }
}
