//! Checkpoints: numbered positions in a session, with the state at that point.

pub use crate::automatic_checkpoints::{AutomaticCheckpointLimits, DroppedAutomaticCheckpoints};
pub use crate::checkpointer::{CheckpointerEvent, CheckpointerOptions};
pub use crate::git_comparison::GitComparison;
pub use crate::rewind::{FinishPlan, RewindPlan, RewindReport, RewindWatch, UnfinishedRewind};
pub use crate::undo_history::{ReversibleAct, ReversibleActKind, UndoHistory};
pub use abide_model::{
    Checkpoint, CheckpointState, FileChanges, Manifest, ManifestTask, TaskDependency,
};
pub use abide_workspace::Snapshot;

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use abide_model::{
    Anomaly, AnomalyPolicy, AppendError, CheckpointFacts, Durability, Event, EventLimits,
    EventRange, FOLD_VERSION, Fact, FileOp, NewEvent, ObjectHash, Objects, Seq, SessionCore,
    SessionFields, SessionId, SessionState, TaskStatus, Thinning, Timestamp, WorkspaceCounts,
};
use abide_workspace::{ChangeKind, ChangedPath, Reach, TakenSnapshot, Watch, Workspace, diff};

use crate::lock_file::changed_dependencies;
use crate::{Error, Session, SessionView, Store, event::git_state, process::process_tree};

/// How often a checkpoint whose number another process takes is numbered anew.
const NUMBER_TRIES: usize = 20;
/// Maximum number of changed paths listed in a checkpoint.
const MOST_PATHS: usize = 1000;

/// Why a checkpoint is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trigger {
    /// Requested by the user.
    #[default]
    Hand,
    /// A turn ended.
    Turn,
    /// A prompt is about to be worked on.
    Prompt,
    /// A risky operation is about to start.
    Risk,
    /// A phase of the work ended.
    Phase,
    /// An error occurred.
    Error,
    /// The agent is shutting down.
    Shutdown,
    /// The checkpoint interval elapsed.
    Interval,
    /// A rewind is about to start.
    Rewind,
}

impl Trigger {
    /// All triggers.
    pub const ALL: [Self; 9] = [
        Self::Hand,
        Self::Turn,
        Self::Prompt,
        Self::Risk,
        Self::Phase,
        Self::Error,
        Self::Shutdown,
        Self::Interval,
        Self::Rewind,
    ];

    /// The name of the trigger.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hand => "hand",
            Self::Turn => "turn",
            Self::Prompt => "prompt",
            Self::Risk => "risk",
            Self::Phase => "phase",
            Self::Error => "error",
            Self::Shutdown => "shutdown",
            Self::Interval => "interval",
            Self::Rewind => "rewind",
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a checkpoint should contain.
#[derive(Debug, Clone, Default)]
pub struct CheckpointRequest {
    /// A label for display.
    pub label: Option<String>,
    /// Why the checkpoint is made.
    pub trigger: Trigger,
    /// Never thin this checkpoint.
    pub pinned: bool,
    /// Don't snapshot files.
    pub without_files: bool,
    /// The directory to snapshot; by default the session's workspace.
    pub workspace: Option<PathBuf>,
    /// The agent's process; the resource usage of it and its descendants is recorded.
    pub process: Option<u32>,
    /// If the workspace cannot be captured, record that in the checkpoint instead of failing.
    pub lenient: bool,
    /// Look for state that is ignored and for files that usually hold secrets. The caller shows
    /// [`RecordedCheckpoint::ignored_state`]: it is not found again.
    pub names_ignored: bool,
    /// Progress callback and cancellation flag for the snapshot.
    pub watch: Watch,
}

/// A checkpoint that was made.
#[derive(Debug, Clone)]
pub struct RecordedCheckpoint {
    /// Its number.
    pub number: u64,
    /// Its event.
    pub seq: Seq,
    /// Its content.
    pub checkpoint: Checkpoint,
    /// Its snapshot.
    pub snapshot: Option<Snapshot>,
    /// The checkpoints that retention dropped now that there is this one.
    pub dropped: Vec<u64>,
    /// What looks like state of the project and is not in the snapshot because it is ignored: paths
    /// that were not reported for this workspace before. Empty unless the request asks for it.
    pub ignored_state: Vec<String>,
    /// Captured files that usually hold secrets, if `workspace.secrets` is not set. Empty unless the
    /// request asks for it.
    pub secret_files: Vec<String>,
    /// Large files that the checkpoint before does not hold and that git does not track.
    pub large_files: Vec<LargeFile>,
}

/// A large file that a checkpoint took in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeFile {
    /// Its path in the workspace.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
}

impl LargeFile {
    /// Larger files are reported, in bytes.
    pub const LEAST: u64 = 10_000_000;
    /// Maximum number that is reported.
    const MOST: usize = 20;
}

/// What came of a request for a checkpoint of what changed.
#[derive(Debug, Clone)]
pub enum CheckpointOutcome {
    /// A checkpoint was made.
    Recorded(Box<RecordedCheckpoint>),
    /// None was made: the files are those of this one.
    Unchanged(UnchangedCheckpoint),
}

/// The checkpoint that holds the present files already.
#[derive(Debug, Clone)]
pub struct UnchangedCheckpoint {
    /// Its number.
    pub number: u64,
    /// Its event.
    pub seq: Seq,
    /// Its snapshot.
    pub snapshot: Snapshot,
    /// See [`RecordedCheckpoint::ignored_state`].
    pub ignored_state: Vec<String>,
    /// See [`RecordedCheckpoint::secret_files`].
    pub secret_files: Vec<String>,
}

/// The captured state around a session, which [`Session::checkpoint_captured`] records. Its objects are
/// protected until it is dropped.
#[derive(Debug)]
pub struct CapturedCheckpoint {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) root: Option<PathBuf>,
    pub(crate) taken: Option<TakenSnapshot>,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) ignored_state: Vec<String>,
    pub(crate) secret_files: Vec<String>,
}

impl Store {
    /// The directory of a session's files: the recorded one, or the local clone of its project if a
    /// shared store is used from there.
    pub fn workspace_root(
        &self,
        session: SessionId,
        fields: &SessionFields,
    ) -> Result<PathBuf, Error> {
        if let Some(here) = self.workspace_here(session)? {
            let recorded = fields.workspace.as_deref().or(fields.project.as_deref());
            let recorded = recorded.map(Path::new).filter(|dir| dir.is_dir());
            // A subdirectory of this clone is used as it is.
            if let Some(within) = recorded.filter(|dir| is_within(dir, &here)) {
                return Ok(within.to_owned());
            }
            // A subdirectory of another clone maps to the same one in this clone.
            let part = fields.workspace.as_ref().zip(fields.project.as_ref());
            let part = part.and_then(|(part, whole)| Path::new(part).strip_prefix(whole).ok());
            let part = part.filter(|part| !part.as_os_str().is_empty()).map(|part| here.join(part));
            let part = part.filter(|part| part.is_dir());
            return Ok(part.unwrap_or(here));
        }
        match fields.workspace.as_deref().or(fields.project.as_deref()) {
            Some(root) if Path::new(root).is_absolute() && Path::new(root).is_dir() => {
                Ok(PathBuf::from(root))
            }
            Some(root) => Err(Error::NoWorkspace { root: Some(root.into()) }),
            None => {
                // The parent of a store that is not a project's own is not a workspace.
                let project = self.project().ok_or(Error::NoWorkspace { root: None })?;
                // The store's path may be relative; a workspace's must not be.
                std::path::absolute(project).map_err(Error::file("find", project))
            }
        }
    }

    /// The workspace in this directory, with the store's settings.
    pub fn workspace(&self, root: &Path) -> Result<Workspace, Error> {
        let mut policy = self.workspace_policy(root);
        // A project's own store is excluded by its name.
        let store = self.root().filter(|_| self.project().is_none());
        policy.exclude.extend(store.and_then(|store| pattern_within(store, root)));
        Ok(Workspace::open(root, &self.stat_cache(root)?, policy)?)
    }

    /// Captures files of this workspace from now on although they are ignored, by adding patterns to
    /// `workspace.include` in the store's settings. Applies to stores that are opened after it.
    /// Refuses patterns that are malformed.
    pub fn include(&self, root: &Path, patterns: &[String]) -> Result<(), Error> {
        let files = self.files("workspace.include")?;
        let mut policy = self.workspace_policy(root);
        policy.include.extend(patterns.iter().cloned());
        Workspace::open(root, &self.stat_cache(root)?, policy)?;
        Ok(files.include(root, patterns)?)
    }

    /// Captures the files of a directory for a checkpoint that a session records later. It does not
    /// need the session, so nobody waits for it meanwhile.
    pub fn capture(
        &self,
        root: &Path,
        request: &CheckpointRequest,
    ) -> Result<CapturedCheckpoint, Error> {
        self.capture_root(Ok(root.to_owned()), request)
    }

    /// Captures everything around a session that a checkpoint contains.
    pub(crate) fn capture_for_checkpoint(
        &self,
        session: SessionId,
        fields: &SessionFields,
        request: &CheckpointRequest,
    ) -> Result<CapturedCheckpoint, Error> {
        let root = match &request.workspace {
            Some(root) => Ok(root.clone()),
            None => self.workspace_root(session, fields),
        };
        self.capture_root(root, request)
    }

    fn capture_root(
        &self,
        root: Result<PathBuf, Error>,
        request: &CheckpointRequest,
    ) -> Result<CapturedCheckpoint, Error> {
        let objects = self.objects()?;
        let (root, missing) = match root {
            Ok(root) => (Some(root), None),
            Err(error) => (None, Some(error)),
        };
        let wanted = !request.without_files;
        let (taken, git) = std::thread::scope(|scope| {
            let git = root.as_ref().map(|root| scope.spawn(|| git_state(root)));
            let taken = match (&root, missing) {
                (Some(root), _) if wanted => {
                    self.snapshot_for_checkpoint(root, &*objects, request).map(Some)
                }
                (None, Some(error)) if wanted => Err(error),
                _ => Ok(None),
            };
            (taken, git.and_then(|git| git.join().ok().flatten()))
        });
        let mut checkpoint = Checkpoint {
            id: Some(self.new_checkpoint_id()),
            label: request.label.clone(),
            trigger: request.trigger.to_string(),
            pinned: request.pinned,
            git,
            resources: request.process.and_then(process_tree),
            ..Checkpoint::default()
        };
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) if request.lenient && !error.is_cancelled() => {
                checkpoint.error = Some(error.to_string());
                None
            }
            Err(error) => return Err(error),
        };
        if let (Some(taken), Some(root)) = (&taken, &root) {
            checkpoint.snapshot = Some(taken.hash);
            checkpoint.workspace = Some(WorkspaceCounts {
                root: root.to_string_lossy().into_owned(),
                files: taken.snapshot.files,
                bytes: taken.snapshot.bytes,
                omitted: taken.snapshot.omissions,
                stored: (taken.stored_objects, taken.stored_bytes),
            });
        }
        let (ignored_state, secret_files) = match (&taken, &root) {
            (Some(taken), Some(root)) if request.names_ignored => (
                self.unreported_state(root, &*objects, &taken.snapshot),
                self.secret_files(root, &*objects, &taken.snapshot),
            ),
            _ => Default::default(),
        };
        Ok(CapturedCheckpoint { objects, root, taken, checkpoint, ignored_state, secret_files })
    }

    fn snapshot_for_checkpoint(
        &self,
        root: &Path,
        objects: &dyn Objects,
        request: &CheckpointRequest,
    ) -> Result<TakenSnapshot, Error> {
        // From here on nothing is removed, so that what is remembered of the objects holds.
        objects.has(&[])?;
        Ok(self.workspace(root)?.snapshot(objects, &request.watch)?)
    }
}

/// The pattern that excludes a store from the snapshots of a workspace that contains it, as the
/// user's own store may be. Its files are neither captured nor restored.
fn pattern_within(store: &Path, workspace: &Path) -> Option<String> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (store, workspace) = (real(store), real(workspace));
    let within = store.strip_prefix(&workspace).ok()?;
    let mut pattern = String::new();
    for part in within {
        pattern.push('/');
        for c in part.to_string_lossy().chars() {
            match c {
                // Invalid UTF-8 matches anything: better to exclude too much than too little.
                char::REPLACEMENT_CHARACTER => pattern.push('*'),
                '*' | '?' | '[' | ']' | '\\' | ' ' => pattern.extend(['\\', c]),
                _ => pattern.push(c),
            }
        }
    }
    Some(pattern).filter(|pattern| !pattern.is_empty())
}

fn is_within(dir: &Path, root: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(dir).starts_with(real(root))
}

impl CapturedCheckpoint {
    /// The directory that was captured.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Notes that others went on while the files were captured: the snapshot may hold what they did.
    pub const fn mark_late(&mut self) {
        self.checkpoint.late = true;
    }

    /// The newest checkpoint with files, if it holds the captured files already. `None` if this one
    /// is to be made all the same.
    pub(crate) fn held_by(
        &self,
        core: &SessionCore,
        state: impl FnOnce() -> Result<SessionState, Error>,
    ) -> Result<Option<UnchangedCheckpoint>, Error> {
        let is_wanted = self.checkpoint.label.is_some() || self.checkpoint.pinned;
        // What could not be captured may have changed.
        let is_whole = |taken: &&TakenSnapshot| !is_wanted && taken.snapshot.omissions == 0;
        let Some(taken) = self.taken.as_ref().filter(is_whole) else { return Ok(None) };
        if core.checkpoints.snapshot != Some(taken.hash) {
            return Ok(None);
        }
        let state = state()?;
        let with_files = state.checkpoints.iter().filter(|(_, known)| known.snapshot.is_some());
        let newest = with_files.max_by_key(|(_, known)| known.seq);
        let held = newest.and_then(|(number, known)| {
            let number = number.parse().ok()?;
            let is_there = !state.core.checkpoints.is_thinned(number);
            // After a rewind the session goes on from its target, not from the checkpoint before it.
            let is_current = state.core.last_rewind.is_none_or(|rewind| known.seq > rewind);
            (is_there && is_current && known.snapshot == Some(taken.hash)).then(|| {
                UnchangedCheckpoint {
                    number,
                    seq: known.seq,
                    snapshot: taken.snapshot.clone(),
                    ignored_state: self.ignored_state.clone(),
                    secret_files: self.secret_files.clone(),
                }
            })
        });
        Ok(held)
    }

    /// Does git track this path of the workspace? `None` if that is not known.
    fn is_tracked(&self, path: &str) -> Option<bool> {
        let Some(git) = &self.checkpoint.git else { return Some(false) };
        let root = self.root.as_deref().filter(|_| git.error.is_none())?;
        let repository = root.ancestors().find(|dir| dir.join(".git").exists())?;
        let path = root.strip_prefix(repository).ok()?.join(path);
        // A directory of which nothing is tracked is listed in place of its files.
        Some(!git.untracked.iter().any(|untracked| path.starts_with(untracked)))
    }
}

/// Reads a snapshot.
pub(crate) fn read_snapshot(objects: &dyn Objects, hash: ObjectHash) -> Result<Snapshot, Error> {
    let missing =
        || Error::Snapshot { hash, reason: "it is missing from the store or damaged".into() };
    let bytes = objects.read(hash)?.ok_or_else(missing)?;
    Snapshot::read(&bytes).map_err(|error| Error::Snapshot { hash, reason: error.to_string() })
}

impl Session {
    /// Makes a checkpoint. The snapshot is durable before the event that refers to it.
    pub fn checkpoint(&self, request: &CheckpointRequest) -> Result<RecordedCheckpoint, Error> {
        let core = self.core()?;
        let captured = self.store().capture_for_checkpoint(self.id(), &core.fields, request)?;
        self.put_checkpoint(&captured)
    }

    /// Makes a checkpoint unless the newest one with files holds the present files already. One that
    /// has a label or is pinned is always made.
    pub fn checkpoint_changes(
        &self,
        request: &CheckpointRequest,
    ) -> Result<CheckpointOutcome, Error> {
        let core = self.core()?;
        let captured = self.store().capture_for_checkpoint(self.id(), &core.fields, request)?;
        // The same files in another directory are no checkpoint of that directory.
        match request.workspace {
            None => self.checkpoint_captured(&captured),
            Some(_) => Ok(CheckpointOutcome::Recorded(Box::new(self.put_checkpoint(&captured)?))),
        }
    }

    /// Makes a checkpoint of captured files of the session's workspace, unless the newest one with files
    /// holds them already.
    pub fn checkpoint_captured(
        &self,
        captured: &CapturedCheckpoint,
    ) -> Result<CheckpointOutcome, Error> {
        if let Some(held) = captured.held_by(&self.core()?, || self.state())? {
            self.note_files(held.seq)?;
            return Ok(CheckpointOutcome::Unchanged(held));
        }
        Ok(CheckpointOutcome::Recorded(Box::new(self.put_checkpoint(captured)?)))
    }

    /// Appends the checkpoint event for a captured state. If another process makes a checkpoint at
    /// the same time, this one gets the next number.
    pub(crate) fn put_checkpoint(
        &self,
        captured: &CapturedCheckpoint,
    ) -> Result<RecordedCheckpoint, Error> {
        let mut left = NUMBER_TRIES;
        // Before the state is looked at: lock files may be long, and others go on writing.
        let mut changes = SnapshotChanges::since(self.core()?.checkpoints.snapshot, captured);
        loop {
            left -= 1;
            match self.try_checkpoint(captured, &mut changes) {
                Err(Error::Append(AppendError::Odd {
                    anomaly: Anomaly::DuplicateCheckpoint,
                    ..
                })) if left > 0 => {
                    // The other one can be read once it is written.
                    self.writer().flush()?;
                }
                done => return done,
            }
        }
    }

    fn try_checkpoint(
        &self,
        captured: &CapturedCheckpoint,
        changes: &mut SnapshotChanges,
    ) -> Result<RecordedCheckpoint, Error> {
        let (core, digest) = self.digested_core()?;
        let number = core.checkpoints.last.saturating_add(1);
        let now = self.store().now();
        let mut checkpoint = captured.checkpoint.clone();
        checkpoint.number = Some(number);
        checkpoint.duration_ms =
            u64::try_from(now.as_millis() - core.created.as_millis()).unwrap_or(0);
        checkpoint.manifest = self.checkpoint_manifest(&core)?;
        checkpoint.digest = Some(digest.to_string());
        checkpoint.after = Some(core.seq);
        checkpoint.fold = FOLD_VERSION;
        if changes.before != core.checkpoints.snapshot {
            *changes = SnapshotChanges::since(core.checkpoints.snapshot, captured);
        }
        checkpoint.files.clone_from(&changes.paths);
        checkpoint.changes = changes.counts;
        // Before the checkpoint, so that a rewind to it keeps them.
        let mut events = changes.dependencies.clone();
        events.push(NewEvent::try_from(checkpoint.clone())?);
        let ticket = self.append_with(events, Durability::Synced, AnomalyPolicy::Refuse)?;
        let seq = ticket.wait()?.last().map_or(core.seq.next(), |done| done.seq);
        let snapshot = captured.taken.as_ref().map(|taken| taken.snapshot.clone());
        if snapshot.is_some() && checkpoint.trigger != Trigger::Rewind.as_str() {
            self.note_files(seq)?;
        }
        // A rewind may be on its way to one of them.
        let dropped = if checkpoint.trigger == Trigger::Rewind.as_str() {
            Vec::new()
        } else {
            // The checkpoint is made; what cannot be dropped now is dropped by the next one.
            self.drop_checkpoints(&core).unwrap_or_default()
        };
        Ok(RecordedCheckpoint {
            number,
            seq,
            checkpoint,
            snapshot,
            dropped,
            ignored_state: captured.ignored_state.clone(),
            secret_files: captured.secret_files.clone(),
            large_files: changes.large.clone(),
        })
    }

    /// Drops the checkpoints that retention does not keep. `before` is the state before the newest.
    fn drop_checkpoints(&self, before: &SessionCore) -> Result<Vec<u64>, Error> {
        let Some(files) = self.store().as_files() else { return Ok(Vec::new()) };
        let cleaner = files.cleaner();
        if !cleaner.drops_checkpoints(&before.fields) {
            return Ok(Vec::new());
        }
        let facts = droppable_checkpoints(&self.state()?);
        let plan =
            cleaner.plan_dropped_checkpoints(self.id(), &before.fields, before.at, &facts)?;
        if !plan.numbers.is_empty() {
            self.append(Thinning { checkpoints: plan.numbers.clone() })?.wait()?;
        }
        Ok(plan.numbers.clone())
    }

    fn checkpoint_manifest(&self, core: &SessionCore) -> Result<Manifest, Error> {
        let tasks = |status: &[TaskStatus]| {
            status.iter().filter_map(|status| core.tasks.by_status.get(status)).sum()
        };
        let modified = [FileOp::Write, FileOp::Delete, FileOp::Rename];
        let under_way = if core.tasks.total > 0 {
            TasksUnderWay::of(&self.state()?)
        } else {
            TasksUnderWay::default()
        };
        Ok(Manifest {
            total_tasks: core.tasks.total,
            completed_tasks: tasks(&[TaskStatus::Complete]),
            active_tasks: tasks(&[
                TaskStatus::Researching,
                TaskStatus::Implementing,
                TaskStatus::Retrying,
            ]),
            file_modifications: modified.iter().filter_map(|op| core.files.get(op)).sum(),
            messages: core.messages.total,
            storage_bytes: self.view().bytes()?,
            dependencies: core.tasks.dependencies,
            active: under_way.active,
            depends: under_way.depends,
        })
    }
}

/// The session's own checkpoints, as retention sees them. Those that it needs stay as if they were
/// pinned.
pub(crate) fn droppable_checkpoints(state: &SessionState) -> Vec<CheckpointFacts> {
    // Those of the session that it was forked from are not its own.
    let forked_at = state.core.fields.parent.as_ref().map(|parent| parent.seq);
    let is_own = |seq: Seq| forked_at.is_none_or(|at| seq > at);
    let needed = state.needed_checkpoints();
    state
        .checkpoints
        .iter()
        .filter(|(_, checkpoint)| is_own(checkpoint.seq))
        .filter_map(|(number, checkpoint)| {
            let number = number.parse().ok()?;
            Some(CheckpointFacts {
                number,
                at: checkpoint.at,
                pinned: checkpoint.pinned || needed.contains(&number),
                thinned: state.core.checkpoints.is_thinned(number),
            })
        })
        .collect()
}

/// The tasks that a manifest names.
#[derive(Default)]
struct TasksUnderWay {
    active: Vec<ManifestTask>,
    depends: Vec<TaskDependency>,
}

impl TasksUnderWay {
    fn of(state: &SessionState) -> Self {
        let mut open: Vec<_> =
            state.tasks.iter().filter(|(_, task)| task.known && !task.status.is_done()).collect();
        open.sort_by_key(|(_, task)| task.order);
        let mut under_way = Self::default();
        for (id, task) in open {
            if task.status.is_active() && under_way.active.len() < Manifest::MOST {
                let (task_id, title) = (id.into(), task.title.clone());
                let status = task.status;
                under_way.active.push(ManifestTask { task: task_id, title, status });
            }
            let room = Manifest::MOST.saturating_sub(under_way.depends.len());
            under_way.depends.extend(task.depends.iter().take(room).map(|on| TaskDependency {
                task: id.into(),
                on: on.clone(),
                kind: task.dependency_types.of(on),
            }));
        }
        under_way
    }
}

/// How files differ from the previous snapshot. Informational.
struct SnapshotChanges {
    /// The previous snapshot.
    before: Option<ObjectHash>,
    /// The first thousand paths.
    paths: Vec<String>,
    /// `None` if there is no previous snapshot, or if it cannot be read.
    counts: Option<FileChanges>,
    /// What the lock files among them resolve to.
    dependencies: Vec<NewEvent>,
    /// The large files among them that are new and that git does not track.
    large: Vec<LargeFile>,
}

impl SnapshotChanges {
    fn since(before: Option<ObjectHash>, captured: &CapturedCheckpoint) -> Self {
        let none = Self {
            before,
            paths: Vec::new(),
            counts: None,
            dependencies: Vec::new(),
            large: Vec::new(),
        };
        let objects = &*captured.objects;
        let Some(taken) = &captured.taken else { return none };
        let Some(hash) = before else {
            if taken.snapshot.bytes <= LargeFile::LEAST {
                return none;
            }
            let all = diff(objects, None, taken.snapshot.tree, false).unwrap_or_default();
            return Self { large: large_files(&all, captured), ..none };
        };
        let changed = if hash == taken.hash {
            Vec::new()
        } else {
            let tree = read_snapshot(objects, hash).ok().map(|snapshot| snapshot.tree);
            let changed =
                tree.and_then(|tree| diff(objects, Some(tree), taken.snapshot.tree, false).ok());
            let Some(changed) = changed else { return none };
            changed
        };
        let mut counts = FileChanges::default();
        for one in &changed {
            match one.change {
                ChangeKind::Created => counts.added += 1,
                ChangeKind::Deleted => counts.removed += 1,
                _ => counts.changed += 1,
            }
        }
        let resolved = changed_dependencies(objects, &changed).into_iter();
        // One that is no event must not keep the checkpoint from being made.
        let events = resolved.filter_map(|found| NewEvent::try_from(found).ok());
        let dependencies =
            events.filter(|event| event.check(&EventLimits::default()).is_ok()).collect();
        let large = large_files(&changed, captured);
        let paths = changed.into_iter().take(MOST_PATHS);
        let paths =
            paths.map(|changed| String::from_utf8_lossy(&changed.path).into_owned()).collect();
        Self { before, paths, counts: Some(counts), dependencies, large }
    }
}

/// The large ones of the files that are new and that git does not track.
fn large_files(changed: &[ChangedPath], captured: &CapturedCheckpoint) -> Vec<LargeFile> {
    let new = changed.iter().filter(|one| one.change == ChangeKind::Created);
    let large = new.filter_map(|one| {
        let bytes = one.new.as_ref().map(|entry| entry.size).filter(|b| *b > LargeFile::LEAST)?;
        let path = String::from_utf8_lossy(&one.path).into_owned();
        (captured.is_tracked(&path) == Some(false)).then_some(LargeFile { path, bytes })
    });
    large.take(LargeFile::MOST).collect()
}

/// A checkpoint of a session.
#[derive(Debug, Clone)]
pub struct CheckpointEntry {
    /// Its number.
    pub number: u64,
    /// Its event.
    pub seq: Seq,
    /// When it was made.
    pub at: Timestamp,
    /// Its content.
    pub checkpoint: Checkpoint,
    /// True unless a rewind took it back.
    pub live: bool,
    /// True if retention removed its snapshot.
    pub thinned: bool,
}

/// Totals over a list of checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckpointSummary {
    /// The number of checkpoints.
    pub total: u64,
    /// From the start of the session to the last checkpoint.
    pub duration: Duration,
    /// Every path that changed between checkpoints, without duplicates.
    pub files: Vec<String>,
    /// Peak memory usage.
    pub peak_rss_bytes: u64,
}

/// The checkpoint that an event records. `number` overrides the one in the event.
fn checkpoint_entry(
    state: &SessionState,
    event: &Event,
    number: Option<u64>,
) -> Option<CheckpointEntry> {
    let Ok(Fact::Checkpoint(checkpoint)) = event.fact() else { return None };
    let number = number.or(checkpoint.number).unwrap_or(0);
    Some(CheckpointEntry {
        number,
        seq: event.seq,
        at: event.at,
        live: state.core.lineage.contains(event.seq),
        thinned: state.core.checkpoints.is_thinned(number),
        checkpoint: *checkpoint,
    })
}

impl SessionView {
    /// The session's checkpoints, oldest first, without those that were rewound or thinned.
    pub fn checkpoints(&self) -> Result<Vec<CheckpointEntry>, Error> {
        let state = self.state()?;
        let mut entries = Vec::new();
        for (number, known) in state.checkpoints.iter() {
            let range = EventRange { first: known.seq, last: known.seq, ..EventRange::ALL };
            for event in self.page(range)?.events {
                entries.extend(checkpoint_entry(&state, &event, number.parse().ok()));
            }
        }
        entries.retain(|entry| !entry.thinned);
        entries.sort_by_key(|entry| entry.seq);
        Ok(entries)
    }

    /// Every checkpoint the session ever had, oldest first. Reads the whole journal.
    pub fn all_checkpoints(&self) -> Result<Vec<CheckpointEntry>, Error> {
        let state = self.state()?;
        let mut entries = Vec::new();
        for event in self.events(EventRange::ALL) {
            let event = event?;
            if event.kind == abide_model::Kind::CHECKPOINT_CREATED {
                entries.extend(checkpoint_entry(&state, &event, None));
            }
        }
        entries.sort_by_key(|entry| entry.seq);
        Ok(entries)
    }

    /// The newest checkpoint whose snapshot is complete, and the later ones that are not, newest
    /// first.
    pub fn latest_checkpoint(
        &self,
        objects: &dyn Objects,
    ) -> Result<(Option<CheckpointEntry>, Vec<CheckpointEntry>), Error> {
        self.latest_checkpoint_of(objects, |_| true)
    }

    /// The same, of the checkpoints that count.
    pub fn latest_checkpoint_of(
        &self,
        objects: &dyn Objects,
        counts: impl Fn(&CheckpointEntry) -> bool,
    ) -> Result<(Option<CheckpointEntry>, Vec<CheckpointEntry>), Error> {
        let mut damaged = Vec::new();
        for entry in self.checkpoints()?.into_iter().rev().filter(|entry| counts(entry)) {
            let whole = match entry.checkpoint.snapshot {
                Some(snapshot) => is_whole_snapshot(objects, snapshot),
                None => true,
            };
            if whole {
                return Ok((Some(entry), damaged));
            }
            damaged.push(entry);
        }
        Ok((None, damaged))
    }
}

/// Returns true if everything in a snapshot can be read.
pub(crate) fn is_whole_snapshot(objects: &dyn Objects, hash: ObjectHash) -> bool {
    let mut reach = Reach::default();
    let reached = reach.add(&|hash| objects.read(hash), hash);
    let all: Vec<ObjectHash> = reach.objects.into_iter().collect();
    let mut whole = reached.is_ok();
    let read = objects.read_many(&all, &mut |_, bytes| {
        whole &= bytes.is_some();
        if whole { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    whole && read.is_ok()
}

/// Computes the totals.
#[must_use]
pub fn summarize(checkpoints: &[CheckpointEntry]) -> CheckpointSummary {
    let mut files: Vec<String> =
        checkpoints.iter().flat_map(|entry| entry.checkpoint.files.iter().cloned()).collect();
    files.sort_unstable();
    files.dedup();
    let last = checkpoints.last().map_or(0, |entry| entry.checkpoint.duration_ms);
    let memory = checkpoints.iter().filter_map(|entry| entry.checkpoint.resources.as_ref());
    CheckpointSummary {
        total: checkpoints.len() as u64,
        duration: Duration::from_millis(last),
        files,
        peak_rss_bytes: memory.map(|sample| sample.rss_bytes).max().unwrap_or(0),
    }
}
