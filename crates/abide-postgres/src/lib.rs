//! Sessions on PostgreSQL, for a team whose agents work on many machines.
//!
//! The same lines that a store of files keeps in its journals are rows here, byte for byte, with
//! the same sums and the same chain. What is added is what a server needs: a lease instead of a
//! lock, and retries that change nothing.
//!
//! An append is one statement in one transaction: the lease is looked at and held, and the lines
//! are put, all or none. Whoever comes first sends what everybody has staged, of all sessions
//! that this process writes. A statement whose answer was lost is sent again; lines that are there
//! with the same sum are there once.

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
mod snapshot;
mod store;
mod tls;
mod url;
mod verify;
mod writer;

pub use erasure::ErasedRows;
pub use error::{Obstacle, Trouble};
pub use migration::{Migrated, SCHEMA_VERSION};
pub use setting::Space;
pub use store::{Options, PostgresStore, StoreStatus};
pub use url::{ServerUrl, UrlError};
