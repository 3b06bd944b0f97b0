//! The targets, one file each. One that is missing from [`crate::each_target`] is dead code, and
//! does not pass the lints.

pub(crate) mod acp;
pub(crate) mod agent;
pub(crate) mod bundle;
pub(crate) mod config;
pub(crate) mod line;
pub(crate) mod marks;
pub(crate) mod pack;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod sealed;
pub(crate) mod segment;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod stream;
pub(crate) mod transcript;
pub(crate) mod tree;
pub(crate) mod wire;
