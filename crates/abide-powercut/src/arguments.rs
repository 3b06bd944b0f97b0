//! What can be asked for.

use std::path::PathBuf;

use crate::filesystem::FileSystem;

/// Cut the power under abide on real file systems
#[derive(Debug, Clone, clap::Parser)]
pub(crate) struct Arguments {
    /// Only this file system; can be given more than once
    #[arg(long = "fs", value_name = "NAME")]
    pub(crate) kinds: Vec<FileSystem>,
    /// So many cuts, over all file systems together
    #[arg(long, default_value_t = 300)]
    pub(crate) cuts: usize,
    /// Events of each writer in a run
    #[arg(long, default_value_t = 60)]
    pub(crate) events: usize,
    /// Generations of the files in a run
    #[arg(long, default_value_t = 9)]
    pub(crate) generations: u64,
    #[arg(long, env = "ABIDE_SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Runs at once on a file system, each with work of its own
    #[arg(long, default_value_t = 2)]
    pub(crate) shards: usize,
    /// The binary of abide [default: the one beside this one]
    #[arg(long, value_name = "PATH")]
    pub(crate) abide: Option<PathBuf>,
    /// Make a cut of a run again that was kept because of a fault
    #[arg(long, value_name = "FILE", requires = "cut")]
    pub(crate) trace: Option<PathBuf>,
    /// The number of that cut
    #[arg(long, value_name = "N", requires = "trace")]
    pub(crate) cut: Option<usize>,
    /// Where runs with faults are kept
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) traces: PathBuf,
    /// Say what the lying disk gave, and what `doctor` warned of
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Only see whether the file system can be mounted here
    #[arg(long, hide = true)]
    pub(crate) probe: bool,
    /// This process is a shard: it does the work in the mounts of its own
    #[arg(long, hide = true, value_name = "DIR")]
    pub(crate) room: Option<PathBuf>,
}
