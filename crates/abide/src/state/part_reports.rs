//! The parts of a state report. Their JSON is documented in `docs/state.md` and only grows.

use std::collections::BTreeMap;

use abide_model::{
    Anomaly, Artifact, CallCounts, DependencyResolution, DependencyTypes, Event, FileOp, GitState,
    LaneId, LimitObservation, ObjectHash, Recovery, ResourceSample, Seq, SessionState,
    SessionStatus, TaskId, TaskProgress, TaskStatus, TaskTree, Timestamp, Usage,
};
use serde::Serialize;

use super::sources::StateSources;

/// The tasks of a session.
#[derive(Debug, Clone, Serialize)]
pub struct TasksReport {
    /// How far they are.
    pub progress: TaskProgress,
    /// The task that was started last.
    pub active: Option<TaskId>,
    /// The number of dependencies between them.
    pub dependencies: u64,
    /// Each task before its parts, in order.
    pub list: Vec<TaskEntry>,
}

/// A task.
#[derive(Debug, Clone, Serialize)]
pub struct TaskEntry {
    /// Its id.
    pub task: TaskId,
    /// Its title, at most 200 characters.
    pub title: String,
    /// Its status.
    pub status: TaskStatus,
    /// The task it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// How many tasks are above it.
    pub depth: usize,
    /// Can it be started now?
    pub ready: bool,
    /// The tasks it depends on.
    pub depends: Vec<TaskId>,
    /// The types of these dependencies, where they do not just block.
    #[serde(skip_serializing_if = "DependencyTypes::is_empty")]
    pub dependency_types: DependencyTypes,
    /// Those of them that keep it from starting.
    pub waits_for: Vec<TaskId>,
    /// Its priority; higher goes first.
    pub priority: i64,
    /// How often it was started.
    pub attempts: u64,
    /// How often it failed.
    pub failures: u64,
    /// The event that created it.
    pub created: Seq,
    /// The event with its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Seq>,
}

impl TasksReport {
    pub(super) fn of(state: &SessionState) -> Self {
        let tree = TaskTree::of(&state.tasks);
        let ready: std::collections::HashSet<&TaskId> =
            tree.ready(None).map(|task| &task.id).collect();
        let list = tree.walk(None).map(|(task, depth)| {
            let waits_for =
                if task.is_done() { Vec::new() } else { tree.own_waits_for(task.id.as_str()) };
            TaskEntry {
                task: task.id.clone(),
                title: task.title.clone(),
                status: task.status,
                parent: task.parent.clone(),
                depth,
                ready: ready.contains(&task.id),
                depends: task.depends.clone(),
                dependency_types: task.dependency_types.clone(),
                waits_for: waits_for.into_iter().map(|need| need.id.clone()).collect(),
                priority: task.priority,
                attempts: task.attempts,
                failures: task.failures,
                created: task.created,
                result: task.result,
            }
        });
        Self {
            progress: tree.progress(None),
            active: state.core.tasks.active.clone(),
            dependencies: state.core.tasks.dependencies,
            list: list.collect(),
        }
    }
}

/// The calls of a session.
#[derive(Debug, Clone, Serialize)]
pub struct CallsReport {
    /// Counts of tool calls and requests.
    pub counts: CallCounts,
    /// Calls without a result, oldest first. After a crash their outcome is unknown.
    pub open: Vec<CallWithoutResult>,
    /// Tool calls by the name of the tool.
    pub tools: BTreeMap<String, ToolCounts>,
}

/// A call without a result.
#[derive(Debug, Clone, Serialize)]
pub struct CallWithoutResult {
    /// Its id.
    pub call: String,
    /// The tool, or `api` for a request to a model.
    pub name: String,
    /// Its event.
    pub seq: Seq,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Is it a request to a model?
    pub request: bool,
    /// Was it only observed?
    pub observed: bool,
    /// Its lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneId>,
    /// Its task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
}

/// How often a tool was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ToolCounts {
    /// Calls.
    pub calls: u64,
    /// Calls with a result.
    pub finished: u64,
    /// Calls that failed.
    pub failed: u64,
}

impl CallsReport {
    pub(super) fn of(state: &SessionState, sources: &StateSources) -> Self {
        let mut open: Vec<CallWithoutResult> = state
            .calls
            .iter()
            .map(|(id, call)| CallWithoutResult {
                call: id.to_owned(),
                name: call.name.clone(),
                seq: call.seq,
                at: sources.times.get(&call.seq).copied(),
                request: call.request,
                observed: call.observed,
                lane: call.lane.clone(),
                task: call.task.clone(),
            })
            .collect();
        open.sort_by_key(|call| call.seq);
        Self { counts: state.core.calls.clone(), open, tools: sources.tools.clone() }
    }
}

/// The files that a session's agent touched.
#[derive(Debug, Clone, Serialize)]
pub struct FilesReport {
    /// Operations by their names.
    pub counts: BTreeMap<FileOp, u64>,
    /// Each file with its last operation, the newest first.
    pub list: Vec<FileEntry>,
}

/// A file and the last operation on it.
#[derive(Debug, Clone, Serialize)]
pub struct FileEntry {
    /// Its path, relative to the workspace.
    pub path: String,
    /// The operation.
    pub op: FileOp,
    /// The event of the operation.
    pub seq: Seq,
    /// When it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The hash of its content then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<ObjectHash>,
}

impl FilesReport {
    pub(super) fn of(state: &SessionState, sources: &StateSources) -> Self {
        let mut list: Vec<FileEntry> = state
            .files
            .iter()
            .map(|(path, file)| FileEntry {
                path: path.to_owned(),
                op: file.op,
                seq: file.seq,
                at: sources.times.get(&file.seq).copied(),
                after: file.after,
            })
            .collect();
        list.sort_by_key(|file| std::cmp::Reverse(file.seq));
        Self { counts: state.core.files.clone(), list }
    }
}

/// What a session used.
#[derive(Debug, Clone, Serialize)]
pub struct UsageReport {
    /// In all.
    pub total: Usage,
    /// By model.
    pub models: BTreeMap<String, Usage>,
    /// By lane; the main lane is "".
    pub lanes: BTreeMap<String, Usage>,
    /// The model as last configured.
    pub model: Option<String>,
    /// The size of its context window in tokens.
    pub window: Option<u64>,
    /// Rate limits as last observed, by name.
    pub limits: BTreeMap<String, LimitObservation>,
}

impl UsageReport {
    pub(super) fn of(state: &SessionState) -> Self {
        let under = |prefix: &str| -> BTreeMap<String, Usage> {
            let entries = state.usage.iter();
            let entries =
                entries.filter_map(|(key, usage)| Some((key.strip_prefix(prefix)?, usage.clone())));
            entries.map(|(name, usage)| (name.to_owned(), usage)).collect()
        };
        let core = &state.core;
        Self {
            total: core.usage.clone(),
            models: under("model:"),
            lanes: under("lane:"),
            model: core.model.as_ref().map(|(name, _)| name.clone()),
            window: core.window,
            limits: core.limits.clone(),
        }
    }
}

/// The artifacts of a session.
#[derive(Debug, Clone, Serialize)]
pub struct ArtifactsReport {
    /// The newest of each name. The newest test result comes first, the others follow, newest first.
    pub list: Vec<ArtifactEntry>,
}

/// An artifact.
#[derive(Debug, Clone, Serialize)]
pub struct ArtifactEntry {
    /// Its event.
    pub seq: Seq,
    /// When it was recorded.
    pub at: Timestamp,
    /// What was recorded.
    #[serde(flatten)]
    pub artifact: Artifact,
}

impl ArtifactsReport {
    pub(super) fn of(sources: &StateSources) -> Self {
        let mut list: Vec<ArtifactEntry> = sources.artifacts.values().cloned().collect();
        list.sort_by_key(|entry| std::cmp::Reverse(entry.seq));
        if let Some(test) = list.iter().position(|entry| entry.artifact.kind == "test") {
            let test = list.remove(test);
            list.insert(0, test);
        }
        Self { list }
    }
}

/// The packages that a session's project depends on.
#[derive(Debug, Clone, Serialize)]
pub struct DependenciesReport {
    /// The newest resolution of each lock file.
    pub list: Vec<DependencyEntry>,
}

/// A resolution of packages.
#[derive(Debug, Clone, Serialize)]
pub struct DependencyEntry {
    /// Its event.
    pub seq: Seq,
    /// When it was recorded.
    pub at: Timestamp,
    /// What was recorded.
    #[serde(flatten)]
    pub resolved: DependencyResolution,
}

impl DependenciesReport {
    pub(super) fn of(sources: &StateSources) -> Self {
        Self { list: sources.dependencies.values().cloned().collect() }
    }
}

/// The git repository as last observed, by itself or with a checkpoint. Without an observation all
/// is empty.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GitReport {
    /// The event of the observation.
    pub seq: Option<Seq>,
    /// Its time.
    pub at: Option<Timestamp>,
    /// What was observed.
    #[serde(flatten)]
    pub git: GitState,
}

impl GitReport {
    pub(super) const fn new(event: &Event, git: GitState) -> Self {
        Self { seq: Some(event.seq), at: Some(event.at), git }
    }
}

/// A sample of the agent's processes.
#[derive(Debug, Clone)]
pub(super) struct ResourceObservation {
    pub(super) seq: Seq,
    pub(super) at: Timestamp,
    pub(super) sample: ResourceSample,
}

/// The agent's processes as last sampled, by themselves or with a checkpoint.
#[derive(Debug, Clone, Serialize)]
pub struct ResourcesReport {
    /// The event of the sample.
    pub seq: Option<Seq>,
    /// Its time.
    pub at: Option<Timestamp>,
    /// The sample; zeros without one.
    #[serde(flatten)]
    pub sample: ResourceSample,
    /// The highest memory usage seen, in bytes.
    pub peak_rss_bytes: u64,
}

impl ResourcesReport {
    pub(super) fn of(state: &SessionState, sources: &StateSources) -> Self {
        let seen = sources.resources.as_ref();
        let sample = seen.map(|seen| seen.sample.clone()).unwrap_or_default();
        Self {
            seq: seen.map(|seen| seen.seq),
            at: seen.map(|seen| seen.at),
            peak_rss_bytes: state.core.peak_rss_bytes.max(sample.rss_bytes),
            sample,
        }
    }
}

/// What went wrong in a session and how it was set right.
#[derive(Debug, Clone, Serialize)]
pub struct HealthReport {
    /// The status of the session.
    pub status: SessionStatus,
    /// The last writer has not closed the session. `abide status` tells whether it lives.
    pub writing: bool,
    /// Events with an anomaly.
    pub anomalies: u64,
    /// The newest of them.
    pub last_anomaly: Option<AnomalyEntry>,
    /// A person should review the session.
    pub requires_validation: bool,
    /// Recoveries, oldest first.
    pub recoveries: Vec<RecoveryEntry>,
    /// Payloads that were erased.
    pub erased: u64,
    /// Rewinds.
    pub rewinds: u64,
    /// A rewind whose files may be partly restored.
    pub restoring: Option<Seq>,
    /// Log lines by level.
    pub logs: BTreeMap<String, u64>,
    /// The newest error in the log.
    pub last_error: Option<LogEntry>,
}

/// An event with an anomaly.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct AnomalyEntry {
    /// The event.
    pub seq: Seq,
    /// Its anomaly.
    pub anomaly: Anomaly,
}

/// A recovery.
#[derive(Debug, Clone, Serialize)]
pub struct RecoveryEntry {
    /// Its event.
    pub seq: Seq,
    /// When it was done.
    pub at: Timestamp,
    /// What was found and done.
    #[serde(flatten)]
    pub recovery: Recovery,
}

/// A log line.
#[derive(Debug, Clone, Serialize)]
pub struct LogEntry {
    /// Its event.
    pub seq: Seq,
    /// When it was recorded.
    pub at: Timestamp,
    /// The message.
    pub text: String,
}

impl HealthReport {
    pub(super) fn of(state: &SessionState, sources: &StateSources) -> Self {
        let core = &state.core;
        let last = core.health.last_anomaly;
        Self {
            status: core.status,
            writing: core.writing,
            anomalies: core.health.anomalies,
            last_anomaly: last.map(|(seq, anomaly)| AnomalyEntry { seq, anomaly }),
            requires_validation: core.health.requires_validation,
            recoveries: sources.recoveries.clone(),
            erased: core.health.erased,
            rewinds: core.rewinds,
            restoring: core.restoring,
            logs: core.logs.clone(),
            last_error: sources.last_error.clone(),
        }
    }
}
