//! The state of a session, part by part, as people and programs ask for it.
//!
//! A [`StateReport`] is the fold up to one event, completed from the events where the fold keeps
//! only their seqs. It is read without the writer's lock, while another process writes; what that
//! process writes meanwhile is not in it.

mod part_reports;
mod sources;

pub use abide_model::{Artifact, CallCounts, DependencyResolution, TaskProgress, Usage};
pub use part_reports::{
    AnomalyEntry, ArtifactEntry, ArtifactsReport, CallWithoutResult, CallsReport,
    DependenciesReport, DependencyEntry, FileEntry, FilesReport, GitReport, HealthReport, LogEntry,
    RecoveryEntry, ResourcesReport, TaskEntry, TasksReport, ToolCounts, UsageReport,
};

use abide_model::{ReadFinding, Seq, SessionId, Timestamp};
use serde::Serialize;

use crate::{Error, SessionView};
use sources::StateSources;

/// A part of a session's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StatePart {
    /// Tasks, what they depend on and how far they are.
    Tasks,
    /// Tool calls and requests: counts, and those without a result.
    Calls,
    /// Files that were read, written, deleted or renamed.
    Files,
    /// Tokens and cost, in all, by model and by lane, and rate limits.
    Usage,
    /// Results of builds and tests, and other artifacts.
    Artifacts,
    /// Versions of packages.
    Dependencies,
    /// The git repository.
    Git,
    /// The agent's processes.
    Resources,
    /// Anomalies, recoveries and rewinds.
    Health,
}

impl StatePart {
    /// Every part, in the order of a report.
    pub const ALL: [Self; 9] = [
        Self::Tasks,
        Self::Calls,
        Self::Files,
        Self::Usage,
        Self::Artifacts,
        Self::Dependencies,
        Self::Git,
        Self::Resources,
        Self::Health,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::Calls => "calls",
            Self::Files => "files",
            Self::Usage => "usage",
            Self::Artifacts => "artifacts",
            Self::Dependencies => "dependencies",
            Self::Git => "git",
            Self::Resources => "resources",
            Self::Health => "health",
        }
    }

    /// The part with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.as_str() == name)
    }

    /// Does the fold keep all of it, so that no event is read?
    const fn is_folded(self) -> bool {
        matches!(self, Self::Tasks | Self::Usage)
    }
}

/// Parts of a session's state after one of its events. Parts that were not asked for are `None`.
#[derive(Debug, Clone, Serialize)]
pub struct StateReport {
    /// The session.
    pub session: Option<SessionId>,
    /// The event after which the state is this.
    pub seq: Seq,
    /// Its time.
    pub at: Timestamp,
    /// Tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<TasksReport>,
    /// Calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallsReport>,
    /// Files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesReport>,
    /// Usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageReport>,
    /// Artifacts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<ArtifactsReport>,
    /// Dependencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<DependenciesReport>,
    /// Git.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitReport>,
    /// Resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesReport>,
    /// Health.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthReport>,
    /// Anomalies found in reading: skipped damage, a torn tail.
    #[serde(skip)]
    pub notes: Vec<ReadFinding>,
}

impl SessionView {
    /// These parts of the session's state as of the last readable event.
    pub fn state_report(&self, wanted: &[StatePart]) -> Result<StateReport, Error> {
        let state = self.state()?;
        let sources = if wanted.iter().all(|part| part.is_folded()) {
            StateSources::default()
        } else {
            StateSources::read(self, &state)?
        };
        let is_wanted = |part| wanted.contains(&part);
        let (state, told) = (&state, &sources);
        Ok(StateReport {
            session: state.core.id,
            seq: state.core.seq,
            at: state.core.at,
            tasks: is_wanted(StatePart::Tasks).then(|| TasksReport::of(state)),
            calls: is_wanted(StatePart::Calls).then(|| CallsReport::of(state, told)),
            files: is_wanted(StatePart::Files).then(|| FilesReport::of(state, told)),
            usage: is_wanted(StatePart::Usage).then(|| UsageReport::of(state)),
            artifacts: is_wanted(StatePart::Artifacts).then(|| ArtifactsReport::of(told)),
            dependencies: is_wanted(StatePart::Dependencies).then(|| DependenciesReport::of(told)),
            git: is_wanted(StatePart::Git).then(|| told.git.clone().unwrap_or_default()),
            resources: is_wanted(StatePart::Resources).then(|| ResourcesReport::of(state, told)),
            health: is_wanted(StatePart::Health).then(|| HealthReport::of(state, told)),
            notes: sources.notes.clone(),
        })
    }
}
