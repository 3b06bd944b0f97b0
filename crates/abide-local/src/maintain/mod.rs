//! Maintenance of a store: examination and repair, erasure, retention, garbage collection, bundles.

pub(crate) mod cleanup;
pub(crate) mod cleanup_sealing;
pub(crate) mod collector;
pub(crate) mod disk_use;
pub(crate) mod doctor;
pub(crate) mod erase;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod session_remover;
