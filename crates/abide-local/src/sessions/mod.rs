//! Sessions: the store that holds them, their writers, readers and recovery, and how they are found.

pub(crate) mod forker;
pub(crate) mod heartbeat;
pub(crate) mod keys;
pub(crate) mod liveness_checker;
pub(crate) mod local_objects;
pub(crate) mod local_reader;
pub(crate) mod local_store;
pub(crate) mod local_writer;
pub(crate) mod recovery;
pub(crate) mod sealer;
pub(crate) mod session_ancestry;
pub(crate) mod session_directory;
pub(crate) mod session_finder;
pub(crate) mod settle;
pub(crate) mod store_id;
