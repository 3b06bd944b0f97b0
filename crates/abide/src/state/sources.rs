//! What only the events of a session tell about its state.

use std::collections::{BTreeMap, HashMap, HashSet};

use abide_model::{Event, EventRange, Fact, Kind, ReadFinding, Seq, SessionState, Timestamp};

use super::part_reports::{
    ArtifactEntry, DependencyEntry, GitReport, LogEntry, RecoveryEntry, ResourceObservation,
    ToolCounts,
};
use crate::{Error, SessionView};

/// What the events tell, gathered in one pass over them.
#[derive(Debug, Default)]
pub(super) struct StateSources {
    /// The times of events that the state names.
    pub(super) times: HashMap<Seq, Timestamp>,
    /// Calls by tool.
    pub(super) tools: BTreeMap<String, ToolCounts>,
    /// The newest of each artifact, by name.
    pub(super) artifacts: BTreeMap<String, ArtifactEntry>,
    /// The newest resolution of each lock file.
    pub(super) dependencies: BTreeMap<DependencySource, DependencyEntry>,
    pub(super) git: Option<GitReport>,
    pub(super) resources: Option<ResourceObservation>,
    pub(super) recoveries: Vec<RecoveryEntry>,
    pub(super) last_error: Option<LogEntry>,
    pub(super) notes: Vec<ReadFinding>,
    /// The tools of calls without a result so far.
    open: HashMap<String, String>,
}

/// A package manager and its lock file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DependencySource {
    manager: String,
    lockfile: Option<String>,
}

impl StateSources {
    /// Reads the live events of a state.
    pub(super) fn read(view: &SessionView, state: &SessionState) -> Result<Self, Error> {
        let mut sources = Self::default();
        let files = state.files.iter().map(|(_, file)| file.seq);
        let named: HashSet<Seq> =
            files.chain(state.calls.iter().map(|(_, call)| call.seq)).collect();
        let mut events = view.events(EventRange { last: state.core.seq, ..EventRange::ALL });
        for event in &mut events {
            let event = event?;
            if !state.core.lineage.contains(event.seq) {
                // Recoveries happened, whatever was rewound since.
                if event.kind == Kind::RECOVERY_PERFORMED {
                    sources.observe(&event);
                }
                continue;
            }
            if named.contains(&event.seq) {
                sources.times.insert(event.seq, event.at);
            }
            sources.observe(&event);
        }
        sources.notes.extend(events.notes().iter().cloned());
        Ok(sources)
    }

    fn observe(&mut self, event: &Event) {
        let (seq, at) = (event.seq, event.at);
        // A message may be long, and tells nothing here.
        if event.kind == Kind::MESSAGE_ADDED {
            return;
        }
        match event.fact() {
            Ok(Fact::ToolCall(call)) => {
                self.tools.entry(call.name.clone()).or_default().calls += 1;
                self.open.insert(call.call.0, call.name);
            }
            Ok(Fact::ToolResult(result)) => {
                if let Some(tool) = self.open.remove(result.call.as_str()) {
                    let counts = self.tools.entry(tool).or_default();
                    counts.finished += 1;
                    counts.failed += u64::from(!result.ok);
                }
            }
            Ok(Fact::Artifact(mut artifact)) => {
                artifact.task = artifact.task.or_else(|| event.task.clone());
                self.artifacts.insert(artifact.name.clone(), ArtifactEntry { seq, at, artifact });
            }
            Ok(Fact::Dependencies(resolved)) => {
                let source = DependencySource {
                    manager: resolved.manager.clone(),
                    lockfile: resolved.lockfile.clone(),
                };
                self.dependencies.insert(source, DependencyEntry { seq, at, resolved });
            }
            Ok(Fact::Git(git)) => self.git = Some(GitReport::new(event, git)),
            Ok(Fact::Resources(sample)) => {
                self.resources = Some(ResourceObservation { seq, at, sample });
            }
            Ok(Fact::Checkpoint(checkpoint)) => {
                if let Some(git) = checkpoint.git {
                    self.git = Some(GitReport::new(event, git));
                }
                if let Some(sample) = checkpoint.resources {
                    self.resources = Some(ResourceObservation { seq, at, sample });
                }
            }
            Ok(Fact::Recovery(recovery)) => {
                self.recoveries.push(RecoveryEntry { seq, at, recovery });
            }
            Ok(Fact::Log(log)) if log.level == "error" => {
                self.last_error = Some(LogEntry { seq, at, text: log.text });
            }
            _ => {}
        }
    }
}
