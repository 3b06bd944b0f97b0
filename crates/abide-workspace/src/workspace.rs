//! The workspace: a directory that snapshots are taken of.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_model::{ObjectBatch, ObjectHash, Objects};
use ignore::gitignore::gitconfig_excludes_path;

use crate::error::WorkspaceError;
use crate::file_system::is_native;
use crate::policy::Policy;
use crate::restore::restore_plan::{RestoreAction, RestorePlan, keep_unread, plan};
use crate::restore::uncaptured_paths::UncapturedPaths;
use crate::restore::ways::make_ways;
use crate::snapshot::Snapshot;
use crate::take::base::{BaseRules, PolicyPatterns};
use crate::take::clock;
use crate::take::scan::{self, ScanInputs, ScanResult};
use crate::take::stat::stat_device;
use crate::take::stat_cache::{self, CacheHeader, StatCache};
use crate::watch::Watch;

/// Files modified within this time before a snapshot are hashed again by the next one: a program
/// that writes through a memory map updates the file's time late.
const SETTLE: Duration = Duration::from_secs(35);

/// A directory that snapshots are taken of.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    cache: PathBuf,
    policy: Policy,
    patterns: PolicyPatterns,
    global: Option<PathBuf>,
    settle: Duration,
}

/// The result of taking a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenSnapshot {
    /// The hash of the snapshot object.
    pub hash: ObjectHash,
    /// The snapshot itself.
    pub snapshot: Snapshot,
    /// Number of objects that were stored.
    pub stored_objects: u64,
    /// Bytes that these objects take.
    pub stored_bytes: u64,
    /// True if it equals the previous snapshot.
    pub unchanged: bool,
}

impl Workspace {
    /// Opens the workspace at `root`. `cache` is the path of the stat cache, which remembers the
    /// last snapshot. The file may be missing, and must not be shared between stores.
    ///
    /// The root of the file system, the home directory and its parents are refused.
    pub fn open(root: &Path, cache: &Path, policy: Policy) -> Result<Self, WorkspaceError> {
        let found = root.canonicalize();
        let root = found.map_err(|error| WorkspaceError::io("find", root, error))?;
        refuse_workspace_root(&root)?;
        let patterns = PolicyPatterns::new(&policy)?;
        let global = gitconfig_excludes_path();
        let cache = cache.to_owned();
        Ok(Self { root, cache, policy, patterns, global, settle: SETTLE })
    }

    /// Overrides the settle time.
    #[doc(hidden)]
    #[must_use]
    pub fn with_settle(mut self, settle: Duration) -> Self {
        self.settle = settle;
        self
    }

    /// Overrides the path of git's global excludes file.
    #[doc(hidden)]
    #[must_use]
    pub fn with_global_excludes(mut self, path: Option<PathBuf>) -> Self {
        self.global = path;
        self
    }

    /// The root directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Takes a snapshot. All of it is durable when this returns.
    pub fn snapshot(
        &self,
        objects: &dyn Objects,
        watch: &Watch,
    ) -> Result<TakenSnapshot, WorkspaceError> {
        self.check_disk()?;
        let stat = rustix::fs::stat(&self.root)
            .map_err(|errno| WorkspaceError::io("read", &self.root, errno))?;
        let dev = stat_device(&stat);
        let settle = i64::try_from(self.settle.as_nanos()).unwrap_or(i64::MAX);
        let settled = clock::file_system_clock(&self.cache, dev).saturating_sub(settle);
        let cache = self.remembered(objects, dev)?;
        let global = self.global.as_deref();
        let base = BaseRules::read(&self.root, &self.policy, &self.patterns, global)?;
        let seen = scan::run_scan(&ScanInputs {
            root: &self.root,
            policy: &self.policy,
            base: &base,
            cache: cache.as_ref(),
            objects,
            watch,
            dev,
            settled,
            native: is_native(&self.root),
        })?;
        self.conclude(objects, dev, cache.as_ref(), seen)
    }

    /// Plans how to turn the workspace, whose snapshot `present` was just taken, into `target`: all
    /// of it, or only the given files and directories. Like [`plan`](crate::plan()), but never
    /// deletes a file that may have existed when `target` was taken even though `target` does not
    /// hold it.
    pub fn plan(
        &self,
        objects: &dyn Objects,
        present: &Snapshot,
        target: &Snapshot,
        paths: &[Vec<u8>],
    ) -> Result<RestorePlan, WorkspaceError> {
        let mut plan = plan(objects, present.tree, target.tree, paths)?;
        if plan.steps.iter().any(|step| step.action == RestoreAction::Delete) {
            let global = self.global.as_deref();
            let base = BaseRules::read(&self.root, &self.policy, &self.patterns, global)?;
            UncapturedPaths::new(objects, &base, &self.root, target)?.spare(&mut plan)?;
        }
        keep_unread(&mut plan, present, target, paths);
        Ok(plan)
    }

    /// Like [`plan`](Self::plan), for a restore that was interrupted: `present` is the state before
    /// it. Missing parent directories are created.
    pub fn plan_on(
        &self,
        objects: &dyn Objects,
        present: &Snapshot,
        target: &Snapshot,
        paths: &[Vec<u8>],
    ) -> Result<RestorePlan, WorkspaceError> {
        let mut plan = self.plan(objects, present, target, paths)?;
        make_ways(&self.root, objects, target.tree, &mut plan)?;
        Ok(plan)
    }

    fn check_disk(&self) -> Result<(), WorkspaceError> {
        let place = self.cache.parent().filter(|place| !place.as_os_str().is_empty());
        let place = place.unwrap_or(Path::new("."));
        let disk = rustix::fs::statvfs(place)
            .map_err(|errno| WorkspaceError::io("see the free space of", place, errno))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let floor = self.policy.min_free_bytes;
        // A file system without blocks does not know its size.
        if disk.f_blocks > 0 && free < floor {
            return Err(WorkspaceError::LowDisk { place: place.to_owned(), free, floor });
        }
        Ok(())
    }

    /// The stat cache, if the store still has its snapshot and a random sample of its objects. If
    /// the store lost objects, a sample finds out before long, and everything is stored again.
    /// Whoever finds out which objects are lost removes the cache.
    fn remembered(
        &self,
        objects: &dyn Objects,
        dev: u64,
    ) -> Result<Option<StatCache>, WorkspaceError> {
        let Some(cache) = StatCache::read(&self.cache, dev) else { return Ok(None) };
        // These two objects are verified; for the sampled ones only their presence is checked.
        let there = objects.has(&[cache.hash, cache.snapshot.tree])?;
        // From here on the store deletes nothing. While we waited for that, the remembered objects
        // and the cache may have been removed.
        if !self.cache.exists() {
            return Ok(None);
        }
        let Some(sample) = cache.sample(&|hash| objects.read(hash))? else { return Ok(None) };
        let sample = objects.places(&sample)?;
        let all = there.iter().all(|there| *there) && sample.iter().all(Option::is_some);
        Ok(all.then_some(cache))
    }

    fn conclude(
        &self,
        objects: &dyn Objects,
        dev: u64,
        cache: Option<&StatCache>,
        seen: ScanResult,
    ) -> Result<TakenSnapshot, WorkspaceError> {
        let ScanResult { tree, found } = seen;
        let snapshot = Snapshot {
            version: Snapshot::VERSION,
            tree,
            files: found.files,
            directories: found.directories,
            bytes: found.bytes,
            omitted: found.omitted,
            omissions: found.omissions,
        };
        let plain = snapshot.write();
        let hash = ObjectHash::of(&plain);
        let unchanged = cache.is_some_and(|cache| cache.hash == hash);
        let mut stored = found.stored;
        if !unchanged && !objects.has(&[hash])?.contains(&true) {
            let mut batch = ObjectBatch::default();
            batch.push(hash, &plain);
            stored.objects += 1;
            stored.bytes += objects.put_batch(&batch)?;
        }
        if found.used || !unchanged {
            objects.sync()?;
        }
        let fresh = found.written.iter().any(|record| record.bytes.is_some());
        if fresh || !unchanged {
            let whole = CacheHeader { dev, hash, snapshot: &snapshot };
            // The snapshot is durable. Without the cache the next one only takes longer.
            let _ = stat_cache::write_stat_cache(&self.cache, cache, &whole, found.written);
        }
        Ok(TakenSnapshot {
            hash,
            snapshot,
            stored_objects: stored.objects,
            stored_bytes: stored.bytes,
            unchanged,
        })
    }
}

fn refuse_workspace_root(root: &Path) -> Result<(), WorkspaceError> {
    let refused = |why| Err(WorkspaceError::Refused { root: root.to_owned(), why });
    if root.parent().is_none() {
        return refused("it is the root of the file system");
    }
    if !root.is_dir() {
        return refused("it is not a directory");
    }
    let Some(home) = std::env::home_dir().filter(|home| !home.as_os_str().as_bytes().is_empty())
    else {
        return Ok(());
    };
    let home = home.canonicalize().unwrap_or(home);
    if home == root {
        return refused("it is the home directory; choose a directory in it");
    }
    if home.starts_with(root) {
        return refused("the home directory is in it; choose a directory below");
    }
    Ok(())
}
