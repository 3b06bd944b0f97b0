//! One session in the status: what is known of it, and the commands to continue it.

use abide::liveness::{Liveness, LockObservation, SessionLiveness};
use serde_json::{Value, json};

use crate::command_context::CommandContext;
use crate::project_name::project_name;
use crate::scoped_store::ScopedStore;
use crate::shell_word::shell_quoted;

pub(super) struct StatusRow {
    pub(super) short: String,
    /// What it is shown under.
    pub(super) name: Option<String>,
    pub(super) found: SessionLiveness,
    /// Its project, if several projects are listed.
    pub(super) project: Option<String>,
    /// The command to continue it; `None` while it is held.
    pub(super) resume: Option<String>,
    /// The command that shows it.
    pub(super) show: String,
    /// The command that follows it.
    pub(super) follow: String,
}

impl StatusRow {
    pub(super) fn of(
        short: String,
        name: Option<String>,
        found: SessionLiveness,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Self {
        let project = project_name(&found.fields).filter(|_| opened.spans_projects());
        let abide = match &surroundings.store {
            Some(store) => format!("abide --store {}", shell_quoted(&store.to_string())),
            None => "abide".to_owned(),
        };
        let held =
            found.liveness == Liveness::Alive || found.evidence.lock == LockObservation::Held;
        Self {
            resume: (!held).then(|| format!("{abide} record -s {short}")),
            show: format!("{abide} show {short}"),
            follow: format!("{abide} tail -f {short}"),
            short,
            name,
            found,
            project,
        }
    }

    pub(super) fn json(&self) -> Value {
        let found = &self.found;
        json!({
            "session": found.session.to_string(),
            "short": self.short,
            "title": found.fields.title,
            "name": self.name,
            "agent": found.fields.agent,
            "project": project_name(&found.fields),
            "status": found.evidence.status.as_str(),
            "liveness": found.liveness,
            "reason": found.reason,
            "why": found.explain(),
            "evidence": found.evidence,
            "seq": found.seq,
            "at": found.at,
            "open_turns": found.turns,
            "active_tasks": found.tasks,
            "open_calls": found.calls,
            "orphans": found.orphans,
            "resume": self.resume,
            "show": self.show,
        })
    }
}
