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

mod advisory_lock;
mod bundle;
mod cleaner;
mod collector;
mod connection_guard;
mod deletion;
mod doctor;
mod erase_search;
mod erased_record;
mod eraser;
mod erasure;
mod error;
mod flusher;
mod history;
mod lease;
mod liveness;
mod migration;
mod named_rows;
mod notify;
mod postgres_reader;
mod postgres_store;
mod postgres_writer;
mod row_repair;
mod row_walk;
mod server_connection;
mod server_url;
mod session_survey;
mod state_cache;
mod store_setting;
mod storing_lock;
mod storing_objects;
mod table_objects;
mod tls;
mod vacuum;
mod verify;

pub use cleaner::PostgresCleaner;
pub use collector::PostgresCollector;
pub use doctor::PostgresDoctor;
pub use eraser::PostgresEraser;
pub use error::{ServerError, ServerErrorKind};
pub use migration::{MigratedVersions, SCHEMA_VERSION};
pub use postgres_store::{PostgresOptions, PostgresStore, StoreStatus};
pub use server_url::{ServerUrl, UrlError};
pub use store_setting::DatabaseSpace;
pub use storing_lock::{StoredCheck, StoredCover};
