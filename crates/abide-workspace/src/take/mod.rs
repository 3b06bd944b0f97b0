//! Takes a snapshot: workers walk the directories, recognise unchanged files by their metadata, and
//! read the rest.

pub(crate) mod base;
pub(crate) mod cache;
pub(crate) mod clock;
pub(crate) mod completion;
pub(crate) mod descriptors;
pub(crate) mod file;
pub(crate) mod gathering;
pub(crate) mod listing;
pub(crate) mod lookup;
pub(crate) mod node;
pub(crate) mod queue;
pub(crate) mod record;
pub(crate) mod refusal;
pub(crate) mod rules;
pub(crate) mod scan;
pub(crate) mod sink;
pub(crate) mod stat;
pub(crate) mod worker;
