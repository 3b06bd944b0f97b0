//! The error that ends the proxy.

/// Why the proxy ended with an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// No agent command was given.
    #[error("no agent command was given")]
    NoCommand,
    /// The agent could not be started.
    #[error("cannot start the agent {program:?}")]
    NoAgent {
        /// The agent's program.
        program: String,
        /// The underlying error.
        #[source]
        source: std::io::Error,
    },
    /// Reading from or writing to the client or the agent failed.
    #[error("cannot {action}")]
    Io {
        /// What failed.
        action: &'static str,
        /// The underlying error.
        #[source]
        source: std::io::Error,
    },
}
