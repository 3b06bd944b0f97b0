//! What can go wrong with a server, and what of it may be tried again.

use std::sync::Arc;

use abide_model::StoreError;
use tokio_postgres::error::SqlState;

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
    /// This user may not do it.
    #[error("this user of the database may not do that: {0}")]
    NotAllowed(String),
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
            Self::Refused(_) | Self::NotAllowed(_) => false,
            Self::Server(error) => passes(error),
            Self::Pool(deadpool_postgres::PoolError::Backend(error)) => passes(error),
            Self::Pool(deadpool_postgres::PoolError::Timeout(_)) => true,
            Self::Pool(_) => false,
        }
    }

    /// In the store's words.
    pub(crate) fn into_store(self, action: &'static str, place: &str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            source => {
                let source = Arc::new(source.told());
                StoreError::Storage { action, place: place.to_owned(), source }
            }
        }
    }
}

impl Trouble {
    /// A refusal for want of rights in plain words.
    fn told(self) -> Self {
        match &self {
            Self::Server(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                let said = error.as_db_error().map(|said| said.message().to_owned());
                Self::NotAllowed(said.unwrap_or_default())
            }
            _ => self,
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
        || ["40001", "40P01", "57014", "57P01", "57P02", "57P03", "25006", "55P03"].contains(&code)
}
