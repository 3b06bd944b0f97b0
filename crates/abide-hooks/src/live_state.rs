//! What is remembered of a session between two hooks.

use std::fs;
use std::path::PathBuf;

use abide::SessionId;
use abide_agents::{AgentKind, HookReport, HookStep};
use abide_import::{FoundSession, ImportPosition, SourceFinder};
use serde::{Deserialize, Serialize};

use crate::asking_process::AskingProcess;
use crate::hook_inbox::ReportHead;

/// What is remembered of a session between two hooks. Without it the session is found by its key and read, and
/// nothing is recorded twice; only that it was removed here is not known then.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LiveState {
    /// The agent's id of the session.
    pub(crate) session: String,
    /// The session that holds it.
    pub(crate) held_in: Option<SessionId>,
    /// The directory whose files are captured.
    pub(crate) workspace: Option<PathBuf>,
    /// The file in which the agent keeps the session.
    pub(crate) file: Option<PathBuf>,
    /// How far that file was imported.
    pub(crate) position: Option<ImportPosition>,
    /// What its database looked like then, where it is kept in one.
    pub(crate) database: Option<String>,
    /// The key of the open turn's first event.
    pub(crate) turn: Option<String>,
    /// The agent's own id of the open turn.
    pub(crate) turn_name: Option<String>,
    /// The hash of the last prompt, and when it was told, in milliseconds.
    pub(crate) prompted: Option<(u64, i64)>,
    /// The agent's process.
    pub(crate) asking: Option<AskingProcess>,
    /// When a hook reported last, in milliseconds.
    pub(crate) heard: i64,
    /// It was said that its files are not kept.
    pub(crate) said_without_files: bool,
    /// The agent has ended the session.
    pub(crate) ended: bool,
}

impl LiveState {
    /// Notes what a report tells of the session.
    pub(crate) fn see(&mut self, head: &ReportHead, report: &HookReport) {
        self.session.clone_from(&report.session);
        self.workspace = self.workspace_of(report);
        let is_own = report.lane.is_none();
        if let Some(file) = report.file.as_ref().filter(|_| is_own || self.file.is_none()) {
            if self.file.as_ref() != Some(file) {
                // The position is that of the other file; this one may have been imported before.
                self.position = None;
            }
            self.file = Some(file.clone());
        }
        self.asking = head.asking.or(self.asking);
        self.heard = self.heard.max(head.at);
        self.ended &= report.step == HookStep::SessionEnded;
    }

    /// The directory whose files are captured for a report: the one in which the session began.
    pub(crate) fn workspace_of(&self, report: &HookReport) -> Option<PathBuf> {
        self.workspace.clone().or_else(|| report.directory.clone())
    }

    /// The session in the agent's own files.
    pub(crate) fn find(&self, agent: AgentKind, finder: &SourceFinder) -> Option<FoundSession> {
        let mut within: Vec<PathBuf> = self.file.iter().cloned().collect();
        // Agents keep what else belongs to a session in a directory of the file's name.
        within.extend(self.file.as_ref().map(|file| file.with_extension("")));
        // Not what a link leads to, nor all that is below a directory that was named in place of a file.
        let file = self.file.as_deref();
        within.retain(|path| {
            fs::symlink_metadata(path).is_ok_and(|metadata| {
                if Some(path.as_path()) == file { metadata.is_file() } else { metadata.is_dir() }
            })
        });
        finder.find_session(agent, &self.session, &within)
    }
}
