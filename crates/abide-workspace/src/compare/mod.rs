//! Comparing snapshots: which paths differ, what was renamed, and the lines that came and went.

pub(crate) mod diff;
pub(crate) mod read;
pub(crate) mod rename;
pub(crate) mod unified;
pub(crate) mod walk;
