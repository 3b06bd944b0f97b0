//! What is derived from the journals and can be made from them again: the history index, the
//! transcripts and the caches of the state.

pub(crate) mod changed_sessions;
pub(crate) mod index;
pub(crate) mod state_cache;
pub(crate) mod transcript_worker;
