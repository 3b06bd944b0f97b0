//! Comparing snapshots: changed paths, renames and line diffs.

pub(crate) mod diff;
pub(crate) mod find;
pub(crate) mod read;
pub(crate) mod rename;
pub(crate) mod unified;
pub(crate) mod walk;
