//! Errors of a server, and which of them can be retried.

use std::sync::Arc;

use abide_model::StoreError;
use tokio_postgres::error::SqlState;

use crate::connection_guard::ConnectionRefusal;

/// Why a request to the server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The server refused, or the connection broke.
    #[error("{}", server_error_text(.0))]
    Server(tokio_postgres::Error),
    /// No connection was available.
    #[error("no connection was free in time, or none could be made")]
    Pool(#[source] deadpool_postgres::PoolError),
    /// The server did not answer in time.
    #[error("the server did not answer within {0} s")]
    Silent(u64),
    /// The request cannot succeed: do not retry.
    #[error(transparent)]
    Refused(#[from] StoreError),
}

/// The cause of an error, as far as a user can do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerErrorKind {
    /// Nothing answers at that address.
    Unreachable,
    /// The server rejects the user or the password.
    Credentials,
    /// The server asks for the password in clear over an unencrypted connection.
    ClearPassword,
    /// The database does not exist.
    NoDatabase,
    /// The user lacks the privilege.
    Forbidden,
    /// Another cause.
    Other,
}

impl From<tokio_postgres::Error> for ServerError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl From<deadpool_postgres::PoolError> for ServerError {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            deadpool_postgres::PoolError::Backend(error) => Self::Server(error),
            error => Self::Pool(error),
        }
    }
}

impl ServerError {
    /// The cause of the error.
    #[must_use]
    pub fn obstacle(&self) -> ServerErrorKind {
        let error = match self {
            Self::Server(error) => error,
            Self::Silent(_) | Self::Pool(_) => return ServerErrorKind::Unreachable,
            Self::Refused(_) => return ServerErrorKind::Other,
        };
        if let Some(ConnectionRefusal::ClearPassword) = ConnectionRefusal::behind(error) {
            return ServerErrorKind::ClearPassword;
        }
        let Some(code) = error.code() else {
            // Without the password that the server asks for, the client fails before it answers.
            let credentials = error_chain(error).contains("password");
            return match credentials {
                true => ServerErrorKind::Credentials,
                false if error_passes(error) => ServerErrorKind::Unreachable,
                false => ServerErrorKind::Other,
            };
        };
        match code.code() {
            code if code.starts_with("28") => ServerErrorKind::Credentials,
            "3D000" => ServerErrorKind::NoDatabase,
            "42501" => ServerErrorKind::Forbidden,
            code if code.starts_with("08") => ServerErrorKind::Unreachable,
            _ => ServerErrorKind::Other,
        }
    }

    /// Whether nothing answered at all.
    pub(crate) fn is_silence(&self) -> bool {
        match self {
            Self::Server(error) => error.code().is_none(),
            Self::Silent(_) | Self::Pool(_) => true,
            Self::Refused(_) => false,
        }
    }

    /// Whether a retry may succeed: the connection failed, or the server is stopping, starting or
    /// overloaded.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Silent(_) => true,
            Self::Refused(_) => false,
            Self::Server(error) => error_passes(error),
            Self::Pool(deadpool_postgres::PoolError::Timeout(_)) => true,
            Self::Pool(_) => false,
        }
    }

    /// Whether this role, or anyone here, may not write.
    pub(crate) fn is_denied(&self) -> bool {
        let Self::Server(error) = self else { return false };
        error.code().is_some_and(|code| ["42501", "25006"].contains(&code.code()))
    }

    /// Turns it into an error of the store.
    pub(crate) fn into_store(self, action: &'static str, place: &str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            source => {
                let source = Arc::new(source);
                StoreError::Storage { action, place: place.to_owned(), source }
            }
        }
    }
}

/// The server's own message, or how the connection failed.
fn server_error_text(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(answer) if answer.code() == &SqlState::INSUFFICIENT_PRIVILEGE => {
            format!("the database user lacks the privilege: {}", answer.message())
        }
        Some(answer) => format!("the server says: {}", answer.message()),
        None => error_chain(error),
    }
}

fn error_chain(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let next = error.to_string();
        // Some errors already include their cause.
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

/// Whether a row refers to one that is gone, or is referred to by one that is there.
pub(crate) fn is_reference_error(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::FOREIGN_KEY_VIOLATION)
}

fn error_passes(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else {
        // No answer from the server: the connection broke or could not be made. A refusal, an
        // unreadable answer or an unwritable request will not be better the next time.
        if ConnectionRefusal::behind(error).is_some() {
            return false;
        }
        let text = error.to_string();
        return error.is_closed()
            || std::error::Error::source(error)
                .is_some_and(|source| source.is::<std::io::Error>())
            || text.contains("connect");
    };
    let code = code.code();
    // Connection failures, lack of resources, deadlocks, a shutdown; read-only while a standby
    // takes over.
    code.starts_with("08")
        || code.starts_with("53")
        || [
            "40001", "40P01", "57014", "57P01", "57P02", "57P03", "57P05", "25006", "25P03",
            "55P03",
        ]
        .contains(&code)
}
