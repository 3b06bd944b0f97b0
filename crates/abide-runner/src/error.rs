//! What ends a run before its time.

/// What ends a run before its time.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The session could not do what was asked.
    #[error(transparent)]
    Session(#[from] abide::Error),
    /// The agent could not be started.
    #[error("cannot start {program:?}")]
    Start {
        /// Its program.
        program: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A task was interrupted in the middle of calls, and nobody decided what becomes of it.
    #[error("task {0} was interrupted in the middle of calls whose outcome is unknown")]
    Undecided(abide::TaskId),
    /// There is no such task.
    #[error("there is no task {0} in this session")]
    NoScope(abide::TaskId),
}

impl From<abide::InputError> for RunError {
    fn from(error: abide::InputError) -> Self {
        Self::Session(error.into())
    }
}
