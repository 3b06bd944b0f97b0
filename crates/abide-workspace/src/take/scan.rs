//! The scan behind one snapshot: state shared by the workers, and their combined result.

use std::ffi::CString;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use abide_model::{ObjectHash, Objects};

use crate::error::WorkspaceError;
use crate::policy::Policy;
use crate::snapshot::Omission;
use crate::take::base::BaseRules;
use crate::take::descriptors::Descriptors;
use crate::take::directory_node::{DirectoryOutcome, DirectoryVisit, ScanWork};
use crate::take::object_sink::{Claims, StoredCounts};
use crate::take::rules::IgnoreStatus;
use crate::take::scan_worker::ScanWorker;
use crate::take::stat_cache::{NextRecord, StatCache};
use crate::take::work_queue::WorkQueue;
use crate::watch::{Watch, WatchMeter};

const MAX_THREADS: usize = 8;
/// Maximum number of omissions listed in a snapshot.
const MAX_OMITTED: usize = 1000;

/// The inputs of a scan.
pub(crate) struct ScanInputs<'a> {
    pub(crate) root: &'a Path,
    pub(crate) policy: &'a Policy,
    pub(crate) base: &'a BaseRules<'a>,
    pub(crate) cache: Option<&'a StatCache>,
    pub(crate) objects: &'a dyn Objects,
    pub(crate) watch: &'a Watch,
    /// The device of the root.
    pub(crate) dev: u64,
    /// Files modified before this time can be told apart from those modified later.
    pub(crate) settled: i64,
    /// True if a directory's times change whenever its names do, and names have only one spelling.
    pub(crate) native: bool,
}

/// State shared by the workers.
pub(crate) struct SharedScan<'a> {
    pub(crate) means: &'a ScanInputs<'a>,
    pub(crate) queue: WorkQueue<ScanWork>,
    pub(crate) claims: Claims,
    pub(crate) descriptors: Descriptors,
    pub(crate) meter: WatchMeter<'a>,
    pub(crate) numbers: AtomicU32,
    /// Files and bytes counted against the limits so far.
    pub(crate) files: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) root: Mutex<Option<DirectoryOutcome>>,
    failure: Mutex<Option<WorkspaceError>>,
}

/// The result of one worker.
#[derive(Default)]
pub(crate) struct ScanTally {
    pub(crate) written: Vec<NextRecord>,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) directories: u64,
    pub(crate) omitted: Vec<Omission>,
    pub(crate) omissions: u64,
    pub(crate) stored: StoredCounts,
    /// True if the store was used.
    pub(crate) used: bool,
}

impl ScanTally {
    /// Records an omission. Only the first ones by path are kept.
    pub(crate) fn omit(&mut self, omission: Omission) {
        self.omissions += 1;
        self.omitted.push(omission);
        if self.omitted.len() >= 4 * MAX_OMITTED {
            self.trim();
        }
    }

    fn trim(&mut self) {
        self.omitted.sort_by(|one, other| one.path.cmp(&other.path));
        self.omitted.truncate(MAX_OMITTED);
    }

    fn join(&mut self, other: Self) {
        self.written.extend(other.written);
        self.files += other.files;
        self.bytes += other.bytes;
        self.directories += other.directories;
        self.omitted.extend(other.omitted);
        self.omissions += other.omissions;
        self.stored.objects += other.stored.objects;
        self.stored.bytes += other.stored.bytes;
        self.used |= other.used;
    }
}

/// The combined result of all workers.
pub(crate) struct ScanResult {
    pub(crate) tree: ObjectHash,
    pub(crate) found: ScanTally,
}

/// Scans the workspace.
pub(crate) fn run_scan(means: &ScanInputs<'_>) -> Result<ScanResult, WorkspaceError> {
    let scan = SharedScan::new(means);
    let threads = thread::available_parallelism().map_or(2, usize::from).clamp(2, MAX_THREADS);
    let mut found = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| scan.work())).collect();
        let mut found = scan.work();
        for other in others {
            match other.join() {
                Ok(more) => found.join(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        found
    });
    if let Some(error) = scan.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    scan.meter.finish();
    found.trim();
    let outcome = scan.root.into_inner().unwrap_or_else(PoisonError::into_inner);
    let same = || means.cache.map(|cache| cache.snapshot.tree);
    let tree = match outcome {
        Some(DirectoryOutcome::New { tree, .. }) => Some(tree),
        Some(DirectoryOutcome::Same) => same(),
        _ => None,
    };
    let gone = || {
        let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
        WorkspaceError::io("read", means.root, gone)
    };
    let tree = tree.ok_or_else(gone)?;
    Ok(ScanResult { tree, found })
}

impl<'a> SharedScan<'a> {
    /// A scan that starts at the root.
    pub(crate) fn new(means: &'a ScanInputs<'a>) -> Self {
        let root = DirectoryVisit {
            parent: None,
            name: CString::default(),
            number: 0,
            within: IgnoreStatus::Plain,
            outer: means.base.chain,
        };
        Self {
            means,
            queue: WorkQueue::new(ScanWork::Look(root)),
            claims: Claims::default(),
            descriptors: Descriptors::default(),
            meter: WatchMeter::new(means.watch),
            numbers: AtomicU32::new(means.cache.map_or(1, |cache| cache.count().max(1))),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            root: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    fn work(&self) -> ScanTally {
        // A panic in one worker must not leave the others waiting.
        let _end = EndOnDrop(&self.queue);
        let mut worker = ScanWorker::new(self);
        match worker.run() {
            Ok(()) => worker.finish(),
            Err(error) => {
                self.fail(error);
                ScanTally::default()
            }
        }
    }

    fn fail(&self, error: WorkspaceError) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        self.queue.end();
    }

    /// A number for a new directory.
    pub(crate) fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Ends the scan.
    pub(crate) fn conclude(&self, outcome: DirectoryOutcome) {
        *self.root.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.queue.end();
    }
}

struct EndOnDrop<'a>(&'a WorkQueue<ScanWork>);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
