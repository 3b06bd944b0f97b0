//! Sessions: the store that holds them, their writers, readers and recovery, and how they are found.

pub(crate) mod ancestry;
pub(crate) mod directory;
pub(crate) mod find;
pub(crate) mod fork;
pub(crate) mod heartbeat;
pub(crate) mod keys;
pub(crate) mod liveness;
pub(crate) mod objects;
pub(crate) mod reader;
pub(crate) mod recovery;
pub(crate) mod sealer;
pub(crate) mod settle;
pub(crate) mod store;
pub(crate) mod store_id;
pub(crate) mod writer;
