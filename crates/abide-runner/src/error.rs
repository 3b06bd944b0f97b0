//! The error that ends a run.

/// Why a run ended with an error.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An operation on the session failed.
    #[error(transparent)]
    Session(#[from] abide::Error),
    /// The agent could not be started.
    #[error("cannot start {program:?}")]
    Start {
        /// The agent's program.
        program: String,
        /// The underlying error.
        #[source]
        source: std::io::Error,
    },
    /// What stands on stdin for the agent could not be read or kept.
    #[error("cannot read stdin for the agent")]
    Stdin(#[source] std::io::Error),
    /// A task was interrupted in the middle of calls, and `decide` did not say what to do with it.
    #[error("task {0} was interrupted in the middle of calls whose outcome is unknown")]
    Undecided(abide::tasks::TaskId),
    /// The session has no such task.
    #[error("there is no task {0} in this session")]
    NoScope(abide::tasks::TaskId),
}

impl From<abide::event::InputError> for RunError {
    fn from(error: abide::event::InputError) -> Self {
        Self::Session(error.into())
    }
}
