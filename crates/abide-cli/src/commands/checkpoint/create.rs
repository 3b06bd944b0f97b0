//! `abide checkpoint create`: creates a checkpoint.

use std::path::{Path, PathBuf};

use abide::{
    CheckpointRequest, SessionId, SessionRef,
    checkpoint::{RecordedCheckpoint, Trigger},
    maintenance::ByteSize,
};
use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status, warning};
use crate::daily_cleanup::run_daily_cleanup;
use crate::error::CommandError;
use crate::interrupt::interrupt_flag;
use crate::interrupted_rewind::finish_rewind;
use crate::progress;
use crate::scoped_store::ScopedStore;
use crate::session_args::{SessionArg, SessionPurpose};
use crate::shell_word::shell_quoted;

/// Make a checkpoint: the place in the session, and the files of the workspace as they are
///
/// What git ignores is left out; `[workspace]` in the store's config.toml says what is taken all the
/// same, and --include adds to it. What looks like state (data/, state/, db/, *.db, *.sqlite) and is
/// left out is named once. `[retention]` may let old checkpoints go when one is made. Git is asked for
/// the state of its repository, and runs no hook, filter or monitor for it.
/// The session is held while the files are captured; `abide checkpoint every` holds it only to write.
/// The checkpoint is durable when the command ends. Ctrl-C stops it, with nothing changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide checkpoint create -m \"tests pass\"
  abide checkpoint create --include /data/     the ignored directory too, from now on
  abide checkpoint create --trigger risk && rm -rf build/")]
pub(crate) struct CheckpointCreateArgs {
    #[command(flatten)]
    session: SessionArg,
    /// What people call it
    #[arg(short = 'm', long, value_name = "LABEL")]
    label: Option<String>,
    /// What brings it about
    #[arg(long, value_name = "WHAT", default_value = "hand", value_parser = trigger)]
    trigger: Trigger,
    /// It stays when checkpoints are thinned
    #[arg(long)]
    pin: bool,
    /// Without the files
    #[arg(long)]
    no_files: bool,
    /// Where the files are [default: the session's workspace]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Capture what this pattern names although git ignores it, now and from now on: it is added to
    /// `workspace.include` in the store's settings; can be given several times
    #[arg(long, value_name = "PATTERN", conflicts_with = "no_files")]
    include: Vec<String>,
    /// The agent's process, whose memory and processor time are noted [default: the one that runs
    /// this command]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Print the checkpoint as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn trigger(text: &str) -> Result<Trigger, String> {
    let found = Trigger::ALL.into_iter().find(|trigger| trigger.as_str() == text);
    found.ok_or_else(|| {
        let names: Vec<_> = Trigger::ALL.iter().map(|trigger| trigger.as_str()).collect();
        format!("one of {}", names.join(", "))
    })
}

/// The process that started this one: the agent, or its shell.
pub(super) fn parent() -> Option<u32> {
    let parent = rustix::process::getppid()?;
    u32::try_from(parent.as_raw_nonzero().get()).ok()
}

impl CheckpointCreateArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let mut opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::FilesHere, &opened, surroundings)?;
        let workspace = self.workspace.map(|dir| surroundings.absolute(&dir));
        if !self.include.is_empty() {
            include(&opened, id, workspace.as_deref(), &self.include)?;
            opened = surroundings.open_store()?;
        }
        let session = opened.store.open_session(&SessionRef::Id(id))?;
        finish_rewind(&session)?;
        run_daily_cleanup(&opened, id);
        let (watch, line) = progress::capturing_progress(interrupt_flag()?);
        let request = CheckpointRequest {
            label: self.label,
            trigger: self.trigger,
            pinned: self.pin,
            without_files: self.no_files,
            workspace,
            process: self.pid.or_else(parent),
            names_ignored: true,
            watch,
            ..CheckpointRequest::default()
        };
        let made = session.checkpoint(&request)?;
        session.close()?;
        drop(line);
        let mut out = CommandOutput::stdout();
        if self.json {
            out.json(&json(&made))?;
        } else {
            out.line(told(&made))?;
        }
        tell_omissions(&made);
        out.flush()
    }
}

/// Adds patterns to what is captured of a session's workspace.
fn include(
    opened: &ScopedStore,
    id: SessionId,
    workspace: Option<&Path>,
    patterns: &[String],
) -> Result<(), CommandError> {
    if patterns.iter().any(|pattern| pattern.trim().is_empty()) {
        return Err(CommandError::Usage("a pattern must not be empty".to_owned()));
    }
    let root = match workspace {
        Some(root) => root.to_owned(),
        None => {
            let state = opened.store.view(&SessionRef::Id(id))?.state()?;
            opened.store.workspace_root(id, &state.core.fields)?
        }
    };
    Ok(opened.store.include(&root, patterns)?)
}

/// A new checkpoint, in one line.
pub(super) fn told(made: &RecordedCheckpoint) -> String {
    let label = made.checkpoint.label.as_deref();
    let label = label.map(|label| format!(" {label:?}")).unwrap_or_default();
    let files = match &made.checkpoint.workspace {
        Some(counts) => format!(
            ": {} files, {}; {} stored",
            counts.files,
            ByteSize(counts.bytes),
            ByteSize(counts.stored.1)
        ),
        None => String::new(),
    };
    format!("Checkpoint {}{label}{files}", made.number)
}

/// The pattern that includes this path and no other.
fn include_pattern(path: &str) -> String {
    let mut pattern = String::from("/");
    for c in path.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | '!' | '#') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

pub(super) fn tell_omissions(made: &RecordedCheckpoint) {
    if let Some(first) = made.ignored_state.first() {
        let paths = escape::text(&made.ignored_state.join(", ")).into_owned();
        status(format_args!(
            "Note: ignored, so not in the checkpoint: {paths}; `abide checkpoint create --include {}` \
             takes it in from now on (workspace.include)",
            escape::text(&shell_quoted(&include_pattern(first)))
        ));
    }
    match made.dropped.len() {
        0 => {}
        1 => status("1 old checkpoint was let go, as [retention] says"),
        count => status(format_args!("{count} old checkpoints were let go, as [retention] says")),
    }
    if let Some(error) = &made.checkpoint.error {
        warning(format_args!("the files were not captured: {error}"));
    }
    let Some(snapshot) = made.snapshot.as_ref().filter(|snapshot| snapshot.omissions > 0) else {
        return;
    };
    let named: Vec<_> = snapshot
        .omitted
        .iter()
        .take(5)
        .map(|omission| format!("{} ({})", omission.path, omission.reason))
        .collect();
    let more = snapshot.omissions - named.len() as u64;
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    warning(format_args!("not in the checkpoint: {}{more}", named.join(", ")));
}

pub(super) fn json(made: &RecordedCheckpoint) -> String {
    #[derive(serde::Serialize)]
    struct CreatedCheckpoint<'a> {
        seq: abide::Seq,
        #[serde(flatten)]
        checkpoint: &'a abide::checkpoint::Checkpoint,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        dropped: &'a [u64],
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        ignored_state: &'a [String],
    }
    let made = CreatedCheckpoint {
        seq: made.seq,
        checkpoint: &made.checkpoint,
        dropped: &made.dropped,
        ignored_state: &made.ignored_state,
    };
    serde_json::to_string(&made).unwrap_or_default()
}
