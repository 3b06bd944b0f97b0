//! Sessions on PostgreSQL, for a team whose agents work on many machines.
//!
//! A store of files keeps lines in journals; here the same lines are rows, byte for byte, with the
//! same sums and the same chain. A server needs two more things: a lease instead of a lock, and
//! retries that change nothing.
//!
//! An append is one statement in one transaction: it checks and holds the lease and inserts the
//! lines, all or none. The first thread to append sends what all threads have staged, of every
//! session that this process writes. A statement whose answer was lost is sent again; a line that
//! is already there with the same sum is not inserted twice.

mod bundle;
mod connection;
mod deletion;
mod erasure;
mod error;
mod flush;
mod guard;
mod history;
mod lease;
mod liveness;
mod migration;
mod notify;
mod objects;
mod reader;
mod setting;
mod state_cache;
mod store;
mod tls;
mod url;
mod verify;
mod writer;

pub use erasure::ErasedRows;
pub use error::{ServerError, ServerErrorKind};
pub use migration::{MigratedVersions, SCHEMA_VERSION};
pub use setting::DatabaseSpace;
pub use store::{PostgresOptions, PostgresStore, StoreStatus};
pub use url::{ServerUrl, UrlError};
