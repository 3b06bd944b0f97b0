//! A session's overview, shown at the top of a rendering.

use abide_model::{
    FileOp, ParentReason, SessionId, SessionParent, SessionState, SessionStatus, TaskId,
    TaskStatus, Timestamp, TurnNumber, Usage,
};

/// The most turns, tasks and files listed, each.
const LISTED: usize = 2000;

/// The overview of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionOverview {
    /// Its id.
    pub id: Option<SessionId>,
    /// Its title, or what else it is named by.
    pub title: Option<String>,
    /// Its status.
    pub status: SessionStatus,
    /// What it does now, in the word that people read for it; `None` shows the status.
    pub state: Option<&'static str>,
    /// The reason for its status.
    pub reason: Option<String>,
    /// The summary of its outcome.
    pub summary: Option<String>,
    /// Agent, model, project and other fields, as label and value.
    pub fields: Vec<(&'static str, String)>,
    /// When it was created.
    pub created: Timestamp,
    /// The time of its last event.
    pub last: Timestamp,
    /// Number of messages.
    pub messages: u64,
    /// Number of tool calls.
    pub calls: u64,
    /// Number of tool calls that failed.
    pub failed: u64,
    /// Total tokens and cost.
    pub usage: Usage,
    /// Its turns.
    pub turns: Vec<TurnSummary>,
    /// Its tasks, each parent before its subtasks.
    pub tasks: Vec<TaskSummary>,
    /// Files it changed, with the last operation, by path.
    pub files: Vec<(FileOp, String)>,
    /// What became of files between the first and the last checkpoint, if that was compared.
    pub changes: Vec<FileChange>,
    /// Number of turns, tasks and files that are not listed.
    pub unlisted: u64,
}

/// The change of a file between two checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileChange {
    /// The path.
    pub path: String,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
    /// The change as a unified diff; empty if it cannot be shown by lines.
    pub diff: String,
}

/// A turn in the overview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSummary {
    /// Its number.
    pub number: TurnNumber,
    /// The agent.
    pub agent: String,
    /// When it started.
    pub started: Timestamp,
    /// How it ended; `None` while it runs.
    pub status: Option<String>,
}

/// A task in the overview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSummary {
    /// Its id.
    pub task: TaskId,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: TaskStatus,
    /// Its depth in the task tree; 0 for a root.
    pub depth: usize,
}

impl SessionOverview {
    /// The overview of a session whose state is loaded completely.
    #[must_use]
    pub fn of(state: &SessionState) -> Self {
        let core = &state.core;
        let fields = &core.fields;
        let named = [
            ("Agent", fields.agent.clone()),
            ("Model", core.model.as_ref().map(|(model, _)| model.clone()).or(fields.model.clone())),
            ("Project", fields.project.clone()),
            ("Workspace", fields.workspace.clone()),
            ("Key", fields.key.clone()),
            ("Forked", fields.parent.as_ref().map(forked_from)),
        ];
        let named = named.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let labels = fields.labels.iter().map(|(name, value)| ("Label", format!("{name}={value}")));
        let mut turns: Vec<_> = state
            .turns
            .iter()
            .filter_map(|(number, turn)| {
                Some(TurnSummary {
                    number: TurnNumber(number.parse().ok()?),
                    agent: turn.agent.clone(),
                    started: turn.started,
                    status: turn.last.map(|_| turn.status.clone()),
                })
            })
            .collect();
        turns.sort_by_key(|turn| turn.number);
        let changed = state.files.iter().filter(|(_, file)| file.op != FileOp::Read);
        let mut files: Vec<_> = changed.map(|(path, file)| (file.op, path.to_owned())).collect();
        let mut tasks = task_summaries(state);
        // A run without a task list makes a task of its command.
        let agent = fields.agent.as_deref();
        let is_command = |task: &TaskSummary| {
            let program = task.title.split_whitespace().next().unwrap_or_default();
            agent.is_some() && program.rsplit('/').next() == agent
        };
        if core.run.is_some() {
            tasks.retain(|task| !is_command(task));
        }
        let mut unlisted = 0;
        let mut cut = |len: usize| {
            unlisted += u64::try_from(len.saturating_sub(LISTED)).unwrap_or(u64::MAX);
        };
        cut(turns.len());
        cut(files.len());
        cut(tasks.len());
        turns.truncate(LISTED);
        files.truncate(LISTED);
        tasks.truncate(LISTED);
        Self {
            id: core.id,
            title: fields.title.clone(),
            status: core.status,
            state: None,
            reason: core.reason.clone(),
            summary: core.summary.clone(),
            fields: named.chain(labels).collect(),
            created: core.created,
            last: core.at,
            messages: core.messages.total,
            calls: core.calls.tools,
            failed: core.calls.failed,
            usage: core.usage.clone(),
            turns,
            tasks,
            files,
            changes: Vec::new(),
            unlisted,
        }
    }

    /// The title, or a placeholder made from the id.
    pub(crate) fn heading(&self) -> String {
        let short = |id: SessionId| format!("Session {}", id.short(SessionId::SHORT));
        let title = self.title.clone().filter(|title| !title.trim().is_empty());
        title.or_else(|| self.id.map(short)).unwrap_or_else(|| "A session".to_owned())
    }

    /// The line of figures: duration, counts, files with the lines added and removed.
    pub(crate) fn figures(&self) -> Vec<String> {
        use crate::short::{short_count, short_duration_between};
        let mut figures = vec![short_duration_between(self.created, self.last)];
        figures.extend(self.counts());
        let files = if self.changes.is_empty() { self.files.len() } else { self.changes.len() };
        if files > 0 {
            let mut words = short_count(u64::try_from(files).unwrap_or(u64::MAX), "file");
            if !self.changes.is_empty() {
                let added: u64 = self.changes.iter().map(|change| change.added).sum();
                let removed: u64 = self.changes.iter().map(|change| change.removed).sum();
                words.push_str(&format!(" +{added} −{removed}"));
            }
            figures.push(words);
        }
        figures
    }

    /// The counts that apply: `3 turns`, `12 messages`, `4 calls (1 failed)`, tokens.
    pub(crate) fn counts(&self) -> Vec<String> {
        use crate::short::short_count;
        let turns = u64::try_from(self.turns.len()).unwrap_or(u64::MAX);
        let mut counts = Vec::new();
        if turns > 0 {
            counts.push(short_count(turns, "turn"));
        }
        counts.push(short_count(self.messages, "message"));
        if self.calls > 0 {
            let failed = match self.failed {
                0 => String::new(),
                failed => format!(" ({failed} failed)"),
            };
            counts.push(format!("{}{failed}", short_count(self.calls, "call")));
        }
        if self.usage != Usage::default() {
            counts.push(crate::note::usage_note(&self.usage));
        }
        counts
    }
}

/// `from abc123 at @41`, or how else the session derives from its parent.
pub(crate) fn forked_from(parent: &SessionParent) -> String {
    let from = parent.session.short(SessionId::SHORT);
    match parent.reason {
        ParentReason::Fork => format!("from {from} at @{}", parent.seq),
        ParentReason::Delta => format!("as the plan of {from}, edited"),
    }
}

/// The tasks in tree order: each after its parent, siblings in creation order.
fn task_summaries(state: &SessionState) -> Vec<TaskSummary> {
    use std::collections::BTreeMap;
    let mut children: BTreeMap<Option<&str>, Vec<(u64, &str)>> = BTreeMap::new();
    for (id, task) in state.tasks.iter().filter(|(_, task)| task.known) {
        let parent = task.parent.as_ref().map(TaskId::as_str);
        let parent = parent.filter(|parent| state.tasks.get(parent).is_some_and(|task| task.known));
        children.entry(parent).or_default().push((task.order, id));
    }
    for parts in children.values_mut() {
        parts.sort_unstable_by(|one, other| other.cmp(one));
    }
    let mut listed = Vec::new();
    let mut open: Vec<(usize, &str)> = Vec::new();
    let roots = children.remove(&None).unwrap_or_default();
    open.extend(roots.into_iter().map(|(_, id)| (0, id)));
    while let Some((depth, id)) = open.pop() {
        if let Some(task) = state.tasks.get(id) {
            listed.push(TaskSummary {
                task: TaskId(id.to_owned()),
                title: task.title.clone(),
                status: task.status,
                depth,
            });
        }
        // Each list is removed once, so a cycle of parents ends.
        let parts = children.remove(&Some(id)).unwrap_or_default();
        open.extend(parts.into_iter().map(|(_, id)| (depth + 1, id)));
    }
    listed
}
