//! Takes a snapshot: workers walk the directories, recognise unchanged files by their metadata, and
//! read the rest.

pub(crate) mod base;
pub(crate) mod clock;
pub(crate) mod descriptors;
pub(crate) mod directory_node;
pub(crate) mod directory_record;
pub(crate) mod file_reader;
pub(crate) mod listing;
pub(crate) mod lookup;
pub(crate) mod object_sink;
pub(crate) mod refusal;
pub(crate) mod rules;
pub(crate) mod scan;
pub(crate) mod scan_completion;
pub(crate) mod scan_gathering;
pub(crate) mod scan_worker;
pub(crate) mod stat;
pub(crate) mod stat_cache;
pub(crate) mod work_queue;
