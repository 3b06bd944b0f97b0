//! Journal files, objects and bundles: the bytes abide stores, and how it writes and reads them.
//!
//! From the bottom up: [`Storage`] abstracts the file system, so everything above it also runs on a
//! simulated disk. A [`JournalLine`] is one event as written. A [`Segment`] is a file of lines, plain or
//! sealed. [`SegmentScan`] tells good lines from damage, and damage from a torn tail. [`Appender`] writes,
//! syncs and rotates. [`CommitQueue`] groups commits: the first waiter commits for all. [`Packs`]
//! hold objects. A bundle ([`BundleWriter`], [`BundleReader`]) is a whole session in one file.
//!
//! This crate never uses an async runtime, never prints, and never panics on what a disk holds.

mod appender;
mod bundle;
mod commit_queue;
mod compression;
mod disk;
mod environment;
mod error;
mod filling;
mod intake;
mod journal;
mod journal_line;
mod journal_walker;
mod owner_directory;
mod pack;
mod pack_collection;
mod pack_index;
mod pack_salvage;
mod pack_writer;
mod packs;
mod process;
mod readable_packs;
mod repair_splice;
mod sealed_segment;
mod segment;
mod segment_header;
mod segment_scan;
mod slots;
mod storage;
mod sum;
mod sync;
mod watermark;
mod whole;

pub use appender::{AppendTarget, Appender, JournalEnd};
pub use bundle::{
    BUNDLE_VERSION, BundleCheck, BundleError, BundleFault, BundleHeader, BundleParent,
    BundleReader, BundleRecord, BundleScreen, BundleWriter, ExportError, ImportError,
    ImportOutcome, ImportedBundle,
};
pub use commit_queue::{Commit, CommitQueue};
pub use compression::{Codec, Compression};
pub use disk::Disk;
pub use environment::{Environment, RandomSource};
pub use error::JournalError;
pub use filling::{FillingPolicy, filling_start};
pub use intake::{
    Intake, IntakeLines, IntakeOutcome, IntakeSalts, IntakeStateSource, OpeningTiming,
    PreparedEvent,
};
pub use journal::{Journal, JournalIdentity, JournalItem, JournalOrigin, JournalWalkStart};
pub use journal_line::{
    JournalLine, LineBody, LineError, LineHead, LineObjectRef, LinePayload, MAX_LINE,
};
pub use pack_collection::CollectionSummary;
pub use pack_writer::PackWriter;
pub use packs::Packs;
pub use process::{SessionProcesses, process_seen};
pub use repair_splice::{RepairSplice, SpliceTarget};
pub use sealed_segment::SealPlan;
pub use segment::{Segment, SegmentForm, SegmentName};
pub use segment_header::{JOURNAL_VERSION, SegmentHeader};
pub use segment_scan::{
    Damage, ScanEnd, ScannedPiece, SegmentDamageReason, SegmentScan, split_scanned,
};
pub use slots::Slots;
pub use storage::{Access, LockMode, Storage, StorageFile, StorageLock, read_full, write_full};
pub use sum::{Link, Salt, Sum};
pub use watermark::{AcknowledgedEnd, Watermark};
pub use whole::ObjectLookup;
