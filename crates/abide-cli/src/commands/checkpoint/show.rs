//! `abide checkpoint show`: shows everything a checkpoint holds.

use std::time::Duration;

use abide::{
    SessionRef,
    backend::Objects,
    checkpoint::{CheckpointEntry, Snapshot},
    maintenance::ByteSize,
    tasks::DependencyType,
};
use abide_transcript::{escape, format_duration};
use jiff::tz::TimeZone;

use super::list::ListedCheckpoint;
use crate::checkpoint_lookup::{changes_text, find_checkpoint};
use crate::clock::clock_day_and_time;
use crate::command_context::CommandContext;
use crate::command_output::CommandOutput;
use crate::error::CommandError;
use crate::noun_count::noun_count;
use crate::session_args::{SessionOption, SessionPurpose};

/// Show the details of a checkpoint
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide checkpoint show           the newest
  abide checkpoint show 3
  abide checkpoint show \"tests pass\" --json")]
pub(crate) struct CheckpointShowArgs {
    /// The checkpoint: its number, its label or its id [default: the newest]
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: Option<String>,
    #[command(flatten)]
    session: SessionOption,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

impl CheckpointShowArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::FilesNear, &opened, surroundings)?;
        let view = opened.store.view(&SessionRef::Id(id))?;
        let entry = find_checkpoint(&view, self.checkpoint.as_deref())?;
        let subjects = view.checkpoint_subjects(std::slice::from_ref(&entry))?;
        let follows = subjects.get(&entry.seq).map(String::as_str);
        let mut out = CommandOutput::stdout();
        if self.json {
            out.json(&ListedCheckpoint::json(&entry, follows))?;
            return out.flush();
        }
        let objects = opened.store.objects()?;
        for line in lines(&entry, follows, &*objects) {
            out.line(line)?;
        }
        out.flush()
    }
}

fn lines(entry: &CheckpointEntry, follows: Option<&str>, objects: &dyn Objects) -> Vec<String> {
    let checkpoint = &entry.checkpoint;
    let mut lines = Vec::new();
    let mut field = |name: &str, value: String| lines.push(format!("{name:<12} {value}"));
    let label = checkpoint.label.as_deref().map(|label| format!(" {:?}", escape::text(label)));
    field("Checkpoint", format!("{}{}", entry.number, label.unwrap_or_default()));
    if let Some(subject) = follows {
        field("Follows", format!("\"{}\"", escape::text(subject)));
    }
    if let Some(id) = &checkpoint.id {
        field("Id", escape::text(id).into_owned());
    }
    field("Made", clock_day_and_time(&TimeZone::system(), entry.at));
    field("After", format_duration(Duration::from_millis(checkpoint.duration_ms)));
    field("By", escape::text(&checkpoint.trigger).into_owned());
    field("Place", format!("@{}{}", entry.seq, if entry.live { "" } else { " (rewound)" }));
    let manifest = &checkpoint.manifest;
    field(
        "Session",
        format!(
            "{}, {} ({} done, {} under way), {}, {}",
            noun_count(manifest.messages, "message"),
            noun_count(manifest.total_tasks, "task"),
            manifest.completed_tasks,
            manifest.active_tasks,
            noun_count(manifest.file_modifications, "file operation"),
            ByteSize(manifest.storage_bytes)
        ),
    );
    for task in &manifest.active {
        let title = escape::text(&task.title);
        let about =
            format!("{} {title} ({})", escape::text(task.task.as_str()), task.status.as_str());
        field("Under way", about);
    }
    for one in &manifest.depends {
        let kind = match one.kind {
            DependencyType::Blocks => String::new(),
            kind => format!(" ({kind})"),
        };
        let (task, on) = (escape::text(one.task.as_str()), escape::text(one.on.as_str()));
        field("Waiting", format!("{task} depends on {on}{kind}"));
    }
    if let Some(digest) = &checkpoint.digest {
        field("State", format!("{} (fold {})", escape::text(digest), checkpoint.fold));
    }
    if let Some(git) = &checkpoint.git {
        let place = git.branch.as_deref().unwrap_or("detached");
        let head =
            git.head.as_deref().map_or("no commit yet", |head| head.get(..12).unwrap_or(head));
        let state = match &git.error {
            Some(error) => escape::text(error).into_owned(),
            None => format!(
                "{} at {head}: {} staged, {} modified, {} untracked, {} renamed",
                escape::text(place),
                git.staged.len(),
                git.modified.len(),
                git.untracked.len(),
                git.renamed.len()
            ),
        };
        field("Git", state);
    }
    if let Some(used) = &checkpoint.resources {
        field(
            "Processes",
            format!(
                "{}, {} of memory, {} of processor time",
                used.processes,
                ByteSize(used.rss_bytes),
                format_duration(Duration::from_millis(used.cpu_ms))
            ),
        );
    }
    if let Some(counts) = &checkpoint.workspace {
        field("Workspace", escape::text(&counts.root).into_owned());
        field("Files", format!("{}, {}", counts.files, ByteSize(counts.bytes)));
    }
    if let Some(error) = &checkpoint.error {
        field("No files", escape::text(error).into_owned());
    }
    if entry.thinned {
        field("Deleted", "by retention".to_owned());
    }
    if let Some(hash) = checkpoint.snapshot {
        let bytes = objects.read(hash).ok().flatten();
        match bytes.and_then(|bytes| Snapshot::read(&bytes).ok()) {
            Some(snapshot) if snapshot.omissions > 0 => {
                field("Left out", snapshot.omissions.to_string());
                for omission in &snapshot.omitted {
                    let path = escape::text(&omission.path).into_owned();
                    lines.push(format!("  {path} ({})", omission.reason));
                }
            }
            Some(_) => {}
            None if entry.thinned => {}
            None => lines.push("Warning: its snapshot is missing or damaged".to_owned()),
        }
    }
    if !checkpoint.files.is_empty() {
        let counts = checkpoint.changes.map(|changes| format!(" ({})", changes_text(&changes)));
        let counts = counts.unwrap_or_default();
        let count = checkpoint.files.len();
        lines.push(format!("Changed since the checkpoint before: {count}{counts}"));
        let paths = checkpoint.files.iter().map(|path| format!("  {}", escape::text(path)));
        lines.extend(paths);
    }
    lines
}
