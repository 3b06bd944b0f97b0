//! `abide saves` and `abide checkpoint list`: list the checkpoints of a session.

use abide::{
    SessionId, SessionRef, checkpoint::CheckpointEntry, event::GitState, maintenance::ByteSize,
};
use abide_transcript::{escape, format_duration};
use std::time::Duration;

use crate::checkpoint_lookup::changes_text;
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status};
use crate::error::CommandError;
use crate::labelled_lines::labelled_lines;
use crate::scoped_store::ScopedStore;
use crate::session_args::{SessionArg, SessionOption, SessionPurpose};
use crate::text_table::{TableCell, TableColour, TextTable};
use crate::typed_time::time_ago;

/// List the checkpoints of a session, oldest first
///
/// A checkpoint without a label is shown with the prompt or the task it follows. Without a
/// terminal, each checkpoint is a line of tab-separated fields: number, time, trigger, files,
/// bytes, files changed since the previous checkpoint, label, git branch, commit, files added,
/// changed and removed since the previous checkpoint, and the prompt or task it follows.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckpointListArgs {
    #[command(flatten)]
    session: SessionArg,
    #[command(flatten)]
    options: CheckpointListOptions,
}

/// List the checkpoints of a session, oldest first
///
/// A checkpoint without a label is shown with the prompt or the task it follows. Without a
/// terminal, each checkpoint is a line of tab-separated fields: number, time, trigger, files,
/// bytes, files changed since the previous checkpoint, label, git branch, commit, files added,
/// changed and removed since the previous checkpoint, and the prompt or task it follows.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
`abide diff N` shows what has changed since checkpoint N, `abide rewind N` returns to it. `abide
checkpoint --help` lists the commands that show its details and its files.")]
pub(crate) struct SavesArgs {
    #[command(flatten)]
    session: SessionOption,
    #[command(flatten)]
    options: CheckpointListOptions,
}

/// Which checkpoints are listed, and how.
#[derive(Debug, clap::Args)]
struct CheckpointListOptions {
    /// Include checkpoints that were rewound or whose files retention deleted
    #[arg(long)]
    all: bool,
    /// Print each checkpoint as a line of JSON
    #[arg(long)]
    json: bool,
}

/// A checkpoint as JSON, with where it is and whether it is live.
#[derive(serde::Serialize)]
pub(super) struct ListedCheckpoint<'a> {
    seq: abide::Seq,
    at: abide::Timestamp,
    live: bool,
    thinned: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    follows: Option<&'a str>,
    #[serde(flatten)]
    checkpoint: &'a abide::checkpoint::Checkpoint,
}

impl<'a> ListedCheckpoint<'a> {
    pub(super) fn json(entry: &'a CheckpointEntry, follows: Option<&'a str>) -> String {
        let CheckpointEntry { seq, at, live, thinned, checkpoint, .. } = entry;
        let listed =
            Self { seq: *seq, at: *at, live: *live, thinned: *thinned, follows, checkpoint };
        serde_json::to_string(&listed).unwrap_or_default()
    }
}

impl CheckpointListArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::FilesNear, &opened, surroundings)?;
        self.options.list(&opened, id)
    }
}

impl SavesArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::FilesNear, &opened, surroundings)?;
        self.options.list(&opened, id)?;
        // What was saved by name is found from every session here.
        if !self.session.is_chosen(surroundings) && !self.options.json {
            let labelled = opened.labelled_elsewhere(id, surroundings)?;
            labelled_lines(&labelled).iter().for_each(status);
        }
        Ok(())
    }
}

impl CheckpointListOptions {
    fn list(&self, opened: &ScopedStore, id: SessionId) -> Result<(), CommandError> {
        let view = opened.store.view(&SessionRef::Id(id))?;
        let entries = if self.all { view.all_checkpoints()? } else { view.checkpoints()? };
        let subjects = view.checkpoint_subjects(&entries)?;
        let follows = |entry: &CheckpointEntry| subjects.get(&entry.seq).map(String::as_str);
        let mut out = CommandOutput::stdout();
        if self.json {
            for entry in &entries {
                out.json(&ListedCheckpoint::json(entry, follows(entry)))?;
            }
        } else if out.is_terminal() {
            for line in table(&entries, &follows) {
                out.line(line)?;
            }
        } else {
            for entry in &entries {
                out.line(fields(entry, follows(entry)))?;
            }
        }
        out.flush()?;
        if entries.is_empty() {
            status("There is no checkpoint yet; `abide save` makes one");
        }
        Ok(())
    }
}

fn table<'a>(
    entries: &[CheckpointEntry],
    follows: &dyn Fn(&CheckpointEntry) -> Option<&'a str>,
) -> Vec<String> {
    let now = jiff::Timestamp::now();
    let heading = ["NO", "WHEN", "AFTER", "BY", "FILES", "SIZE", "CHANGED", "GIT", "NAME"];
    let mut table = TextTable::new(heading).right([0, 4, 5, 6]);
    for entry in entries {
        let checkpoint = &entry.checkpoint;
        let counts = checkpoint.workspace.as_ref();
        let count = |count: Option<u64>| count.map(|n| n.to_string()).unwrap_or_default();
        let mut label = match (&checkpoint.label, follows(entry)) {
            (Some(label), _) => label.clone(),
            (None, Some(subject)) => format!("after \"{subject}\""),
            (None, None) => String::new(),
        };
        if checkpoint.pinned {
            label.push_str(" (pinned)");
        }
        if !entry.live {
            label.push_str(" (rewound)");
        }
        if entry.thinned {
            label.push_str(" (files deleted)");
        }
        if checkpoint.error.is_some() {
            label.push_str(" (without files)");
        }
        let colour =
            if entry.live && !entry.thinned { TableColour::Plain } else { TableColour::Dim };
        table.row([
            TableCell::new(entry.number.to_string(), TableColour::Bold),
            TableCell::new(time_ago(entry.at, now), colour),
            TableCell::new(format_duration(Duration::from_millis(checkpoint.duration_ms)), colour),
            TableCell::new(escape::text(&checkpoint.trigger).into_owned(), colour),
            TableCell::new(count(counts.map(|counts| counts.files)), colour),
            TableCell::new(
                counts.map(|counts| ByteSize(counts.bytes).to_string()).unwrap_or_default(),
                colour,
            ),
            TableCell::new(
                match &checkpoint.changes {
                    Some(changes) => changes_text(changes),
                    None => checkpoint.files.len().to_string(),
                },
                colour,
            ),
            TableCell::new(escape::text(&git_text(checkpoint.git.as_ref())).into_owned(), colour),
            TableCell::new(escape::text(label.trim_start()).into_owned(), colour),
        ]);
    }
    table.lines()
}

/// The characters of a commit that are shown.
const COMMIT: usize = 7;

fn short_commit(git: &GitState) -> &str {
    let head = git.head.as_deref().unwrap_or_default();
    head.get(..COMMIT).unwrap_or(head)
}

/// The branch and commit of git; empty without a repository.
pub(super) fn git_text(git: Option<&GitState>) -> String {
    let Some(git) = git.filter(|git| git.error.is_none()) else { return String::new() };
    let branch = git.branch.as_deref().unwrap_or("detached");
    format!("{branch} {}", short_commit(git)).trim_end().to_owned()
}

fn fields(entry: &CheckpointEntry, follows: Option<&str>) -> String {
    let checkpoint = &entry.checkpoint;
    let counts = checkpoint.workspace.clone().unwrap_or_default();
    let label = checkpoint.label.as_deref().unwrap_or_default();
    let git = checkpoint.git.clone().unwrap_or_default();
    let changes = checkpoint.changes.unwrap_or_default();
    format!(
        "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
        entry.number,
        entry.at,
        escape::text(&checkpoint.trigger),
        counts.files,
        counts.bytes,
        checkpoint.files.len(),
        escape::text(label),
        escape::text(git.branch.as_deref().unwrap_or_default()),
        escape::text(short_commit(&git)),
        changes.added,
        changes.changed,
        changes.removed,
        escape::text(follows.unwrap_or_default())
    )
}
