//! What ends the proxy before its time.

/// What ends the proxy before its time.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// No agent was named.
    #[error("no agent was named")]
    NoCommand,
    /// The agent could not be started.
    #[error("cannot start the agent {program:?}")]
    NoAgent {
        /// Its program.
        program: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The client or the agent could not be read from or written to.
    #[error("cannot {action}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}
