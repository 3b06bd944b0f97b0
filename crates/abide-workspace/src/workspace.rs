//! A workspace: a directory whose files are taken into snapshots.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_model::{ObjectBatch, ObjectHash, Objects};
use ignore::gitignore::gitconfig_excludes_path;

use crate::error::WorkspaceError;
use crate::file_system::is_native;
use crate::policy::Policy;
use crate::restore::plan::{Action, Plan, plan};
use crate::restore::unseen::Unseen;
use crate::restore::ways::make_ways;
use crate::snapshot::Snapshot;
use crate::take::base::{Base, Patterns};
use crate::take::cache::{self, Cache, Whole};
use crate::take::clock;
use crate::take::scan::{self, Means, Seen};
use crate::take::stat::device;
use crate::watch::Watch;

/// What was touched within this time before a snapshot is hashed again by the next: a program that
/// writes through a memory map moves the file's time late.
const SETTLE: Duration = Duration::from_secs(35);

/// A directory whose files are taken into snapshots.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    cache: PathBuf,
    policy: Policy,
    patterns: Patterns,
    global: Option<PathBuf>,
    settle: Duration,
}

/// A snapshot that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The object that holds it.
    pub hash: ObjectHash,
    /// What it says.
    pub snapshot: Snapshot,
    /// The objects that were stored.
    pub stored_objects: u64,
    /// The bytes that they take.
    pub stored_bytes: u64,
    /// Is it the same as the one before?
    pub unchanged: bool,
}

impl Workspace {
    /// Opens the workspace at `root`. `cache` is the file that remembers its last snapshot: it may
    /// be missing, and belongs to one store.
    ///
    /// The file system's root, the home directory and what contains it are refused.
    pub fn open(root: &Path, cache: &Path, policy: Policy) -> Result<Self, WorkspaceError> {
        let found = root.canonicalize();
        let root = found.map_err(|error| WorkspaceError::io("find", root, error))?;
        refuse(&root)?;
        let patterns = Patterns::new(&policy)?;
        let global = gitconfig_excludes_path();
        let cache = cache.to_owned();
        Ok(Self { root, cache, policy, patterns, global, settle: SETTLE })
    }

    /// Another time to settle.
    #[doc(hidden)]
    #[must_use]
    pub fn with_settle(mut self, settle: Duration) -> Self {
        self.settle = settle;
        self
    }

    /// Another file of git's global excludes, or none.
    #[doc(hidden)]
    #[must_use]
    pub fn with_global_excludes(mut self, path: Option<PathBuf>) -> Self {
        self.global = path;
        self
    }

    /// Its directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Takes a snapshot. When this returns, all of it is durable.
    pub fn snapshot(&self, objects: &dyn Objects, watch: &Watch) -> Result<Taken, WorkspaceError> {
        self.check_disk()?;
        let stat = rustix::fs::stat(&self.root)
            .map_err(|errno| WorkspaceError::io("read", &self.root, errno))?;
        let dev = device(&stat);
        let settle = i64::try_from(self.settle.as_nanos()).unwrap_or(i64::MAX);
        let settled = clock::now(&self.cache, dev).saturating_sub(settle);
        let cache = self.remembered(objects, dev)?;
        let global = self.global.as_deref();
        let base = Base::read(&self.root, &self.policy, &self.patterns, global)?;
        let seen = scan::run(&Means {
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

    /// What makes the workspace, whose snapshot was just taken, into `target`: in all, or only
    /// these files and directories. As [`plan`](crate::plan()), except that nothing is deleted that
    /// may have been there at that time although `target` does not hold it.
    pub fn plan(
        &self,
        objects: &dyn Objects,
        present: &Snapshot,
        target: &Snapshot,
        paths: &[Vec<u8>],
    ) -> Result<Plan, WorkspaceError> {
        let mut plan = plan(objects, present.tree, target.tree, paths)?;
        if plan.steps.iter().any(|step| step.action == Action::Delete) {
            let global = self.global.as_deref();
            let base = Base::read(&self.root, &self.policy, &self.patterns, global)?;
            Unseen::new(objects, &base, &self.root, target)?.spare(&mut plan)?;
        }
        Ok(plan)
    }

    /// As [`plan`](Self::plan), for a restore that was cut off: `present` is what was there before it.
    /// Directories on the way that are not there any more are made.
    pub fn plan_on(
        &self,
        objects: &dyn Objects,
        present: &Snapshot,
        target: &Snapshot,
        paths: &[Vec<u8>],
    ) -> Result<Plan, WorkspaceError> {
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

    /// The cache, if the store still has the snapshot that it speaks of, and of the rest what is
    /// asked for. A store that lost a part is found out before long, and gets everything again. Where
    /// it is known what is lost, who found it removes the cache.
    fn remembered(&self, objects: &dyn Objects, dev: u64) -> Result<Option<Cache>, WorkspaceError> {
        let Some(cache) = Cache::read(&self.cache, dev) else { return Ok(None) };
        // The first two are looked over; of the others it is asked only where they are.
        let there = objects.has(&[cache.hash, cache.snapshot.tree])?;
        // From here on nothing is taken out of the store. While this waited for that, what is
        // remembered may have been removed.
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
        cache: Option<&Cache>,
        seen: Seen,
    ) -> Result<Taken, WorkspaceError> {
        let Seen { tree, found } = seen;
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
            let whole = Whole { dev, hash, snapshot: &snapshot };
            // The snapshot is durable; without the cache the next one only takes longer.
            let _ = cache::write(&self.cache, cache, &whole, found.written);
        }
        Ok(Taken {
            hash,
            snapshot,
            stored_objects: stored.objects,
            stored_bytes: stored.bytes,
            unchanged,
        })
    }
}

fn refuse(root: &Path) -> Result<(), WorkspaceError> {
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
