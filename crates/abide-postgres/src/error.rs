//! What can go wrong with a server, and what of it may be tried again.

use std::sync::Arc;

use abide_model::StoreError;

/// Why the server did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// It said no, or the connection broke.
    #[error(transparent)]
    Server(#[from] tokio_postgres::Error),
    /// No connection was to be had.
    #[error(transparent)]
    Pool(#[from] deadpool_postgres::PoolError),
    /// It did not answer in time.
    #[error("the server did not answer within {0} s")]
    Silent(u64),
    /// What was asked for cannot be: no use in asking again.
    #[error(transparent)]
    Refused(#[from] StoreError),
}

impl Trouble {
    /// May the same question get an answer later: was it the connection, or a server that stops,
    /// starts or is overwhelmed?
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Silent(_) => true,
            Self::Refused(_) => false,
            Self::Server(error) => passes(error),
            Self::Pool(deadpool_postgres::PoolError::Backend(error)) => passes(error),
            Self::Pool(deadpool_postgres::PoolError::Timeout(_)) => true,
            Self::Pool(_) => false,
        }
    }

    /// May this role not write, or nobody here?
    pub(crate) fn is_denied(&self) -> bool {
        let Self::Server(error) = self else { return false };
        error.code().is_some_and(|code| ["42501", "25006"].contains(&code.code()))
    }

    /// In the store's words.
    pub(crate) fn into_store(self, action: &'static str, place: &str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            source => {
                StoreError::Storage { action, place: place.to_owned(), source: Arc::new(source) }
            }
        }
    }
}

fn passes(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else {
        // No answer of the server: a broken connection, or none. What cannot be read as an answer
        // or written as a question will not be better the next time.
        let text = error.to_string();
        return error.is_closed()
            || std::error::Error::source(error)
                .is_some_and(|source| source.is::<std::io::Error>())
            || text.contains("connect");
    };
    let code = code.code();
    // Connection trouble, resources, a deadlock, an operator who stops the server; read only while
    // a standby takes over.
    code.starts_with("08")
        || code.starts_with("53")
        || [
            "40001", "40P01", "57014", "57P01", "57P02", "57P03", "57P05", "25006", "25P03",
            "55P03",
        ]
        .contains(&code)
}
