//! `abide save` and `abide checkpoint create`: make a checkpoint.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide::{
    CheckpointRequest, NewSession, SessionFields, SessionId, SessionRef,
    checkpoint::{CheckpointOutcome, LargeFile, RecordedCheckpoint, Trigger, UnchangedCheckpoint},
    maintenance::ByteSize,
    workspace::SecretFiles,
};
use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status, warning};
use crate::confirm::{on_terminal, read_answer};
use crate::daily_cleanup::run_daily_cleanup;
use crate::error::CommandError;
use crate::interrupt::interrupt_flag;
use crate::interrupted_rewind::finish_rewind;
use crate::noun_count::noun_count;
use crate::progress;
use crate::scoped_store::ScopedStore;
use crate::session_args::{SessionArg, SessionOption, SessionPurpose, is_label};
use crate::shell_word::shell_quoted;

/// Make a checkpoint of the session and the files of the workspace
///
/// Files that git ignores are left out, except those that `[workspace]` in the store's config.toml
/// includes; --include adds to it. abide warns once when it leaves out files that look like state
/// (data/, state/, db/, *.db, *.sqlite). `[retention]` may delete the files of old checkpoints. Git
/// is asked for the state of its repository without running hooks, filters or monitors. The session
/// is held while the files are captured; `abide checkpoint every` holds it only while it writes.
/// The checkpoint is durable when the command ends. Ctrl-C stops it, with nothing changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide checkpoint create -m \"tests pass\"
  abide checkpoint create --include /data/     include an ignored directory from now on
  abide checkpoint create --trigger risk && rm -rf build/")]
pub(crate) struct CheckpointCreateArgs {
    #[command(flatten)]
    session: SessionArg,
    #[command(flatten)]
    options: CheckpointOptions,
}

/// Make a checkpoint of the files here and of the conversation
///
/// A checkpoint holds every file of the workspace, whether git tracks it or not, and the place in the
/// conversation; `abide rewind` restores both. If there is no session yet, one is created. Without
/// -m, a checkpoint without a name is made if a file has changed since the last one, and none if no
/// file has. With -m, one is always made.
///
/// Files that git ignores are left out, except those that `[workspace]` in the store's config.toml
/// includes; --include adds to it. abide warns once when it leaves out files that look like state
/// (data/, state/, db/, *.db, *.sqlite), and when it captures a large new file that git does not
/// track. `[retention]` may delete the files of old checkpoints. Git is asked for the state of its
/// repository without running hooks, filters or monitors. The checkpoint is durable when the
/// command ends. Ctrl-C stops it, with nothing changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide save
  abide save -m \"tests pass\"
  abide save --include /data/            include an ignored directory from now on
  abide save --trigger risk && rm -rf build/")]
pub(crate) struct SaveArgs {
    #[command(flatten)]
    session: SessionOption,
    #[command(flatten)]
    options: CheckpointOptions,
}

/// What a checkpoint holds, and what people call it.
#[derive(Debug, clap::Args)]
struct CheckpointOptions {
    /// Name of the checkpoint: any text but a number, @N, turn:N, latest and decision
    #[arg(short = 'm', long, aliases = ["message", "name"], value_name = "LABEL")]
    label: Option<String>,
    /// Why the checkpoint is made: hand, turn, prompt, risk, phase, error, shutdown, interval or rewind
    #[arg(long, value_name = "WHAT", default_value = "hand", value_parser = trigger)]
    trigger: Trigger,
    /// Never delete this checkpoint's files
    #[arg(long)]
    pin: bool,
    /// Do not capture the files
    #[arg(long)]
    no_files: bool,
    /// Directory of the files [default: the session's workspace]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Capture files that match this pattern even if git ignores them, now and in later
    /// checkpoints: the pattern is added to `workspace.include` in the store's settings; can be
    /// given several times
    #[arg(long, value_name = "PATTERN", conflicts_with = "no_files")]
    include: Vec<String>,
    /// The agent's process, whose memory and processor time are recorded [default: the
    /// parent process]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Print the checkpoint as JSON
    #[arg(long)]
    json: bool,
}

/// Whether files that have not changed make another checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnchangedPolicy {
    Record,
    Report,
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
        self.options.check_label()?;
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::FilesHere, &opened, surroundings)?;
        self.options.make(opened, id, UnchangedPolicy::Record, surroundings)
    }
}

impl SaveArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        self.options.check_label()?;
        let opened = surroundings.open_or_init_store()?;
        let is_named = self.session.is_named() || surroundings.session.is_some();
        let id = if is_named || opened.latest_in(surroundings)?.is_some() {
            self.session.find(SessionPurpose::FilesHere, &opened, surroundings)?
        } else {
            self.options.new_session(&opened, surroundings)?
        };
        self.options.make(opened, id, UnchangedPolicy::Report, surroundings)
    }
}

impl CheckpointOptions {
    /// Refuses a label that means something else as a place.
    fn check_label(&self) -> Result<(), CommandError> {
        if let Some(label) = self.label.as_deref().filter(|label| !is_label(label)) {
            return Err(CommandError::Usage(format!(
                "{label:?} cannot be the name of a checkpoint: a number, @N, turn:N, latest and decision \
                 mean other places, and a name is not empty"
            )));
        }
        Ok(())
    }

    /// Makes a session for a directory in which nothing was recorded.
    fn new_session(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        let root = surroundings.absolute(self.workspace.as_deref().unwrap_or(Path::new("")));
        // Refuses a directory that cannot be a workspace, before there is a session for it.
        opened.store.workspace(&root)?;
        let title = root.file_name().map(|name| format!("files of {}", name.to_string_lossy()));
        let workspace = Some(root.to_string_lossy().into_owned());
        let fields = SessionFields { title, workspace, ..SessionFields::default() };
        let id = opened.make(NewSession::from(fields))?;
        status(format_args!("Session {} (new)", id.short(SessionId::SHORT)));
        Ok(id)
    }

    fn make(
        self,
        mut opened: ScopedStore,
        id: SessionId,
        unchanged: UnchangedPolicy,
        surroundings: &CommandContext,
    ) -> Result<(), CommandError> {
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
        let outcome = match unchanged {
            UnchangedPolicy::Report => session.checkpoint_changes(&request)?,
            UnchangedPolicy::Record => {
                CheckpointOutcome::Recorded(Box::new(session.checkpoint(&request)?))
            }
        };
        session.close()?;
        drop(line);
        let mut out = CommandOutput::stdout();
        let secret_files = match outcome {
            CheckpointOutcome::Recorded(made) => {
                if self.json {
                    out.json(&json(&made))?;
                } else {
                    out.line(told(&made))?;
                }
                tell_omissions(&made);
                made.secret_files.clone()
            }
            CheckpointOutcome::Unchanged(held) => {
                let UnchangedCheckpoint { number, seq, .. } = held;
                if self.json {
                    let line = serde_json::json!({"unchanged": true, "number": number, "seq": seq});
                    out.json(&line.to_string())?;
                } else {
                    out.line(format_args!("No file has changed since checkpoint {number}"))?;
                    status("`abide save -m NAME` makes one anyway");
                }
                tell_ignored_state(&held.ignored_state);
                held.secret_files
            }
        };
        out.flush()?;
        if secret_files.is_empty() {
            return Ok(());
        }
        let root = match request.workspace {
            Some(root) => root,
            None => {
                let state = opened.store.view(&SessionRef::Id(id))?.state()?;
                opened.store.workspace_root(id, &state.core.fields)?
            }
        };
        // An agent that has a terminal does not answer.
        let is_person = request.trigger == Trigger::Hand && surroundings.session.is_none();
        if is_person && !self.json && on_terminal() && io::stdout().is_terminal() {
            ask_about_secrets(&opened, &root, &secret_files)
        } else {
            tell_secret_files(&opened.store.unnamed_secret_files(&root, &secret_files));
            Ok(())
        }
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
            ": {}, {}; {} stored",
            noun_count(counts.files, "file"),
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

/// Names what looks like state of the project and is not captured.
pub(super) fn tell_ignored_state(ignored_state: &[String]) {
    if let Some(first) = ignored_state.first() {
        let paths = escape::text(&ignored_state.join(", ")).into_owned();
        status(format_args!(
            "Note: ignored, so not in the checkpoint: {paths}; `abide checkpoint create --include \
            {}` includes it from now on (workspace.include)",
            escape::text(&shell_quoted(&include_pattern(first)))
        ));
    }
}

/// Names captured files that usually hold secrets.
pub(super) fn tell_secret_files(files: &[String]) {
    if !files.is_empty() {
        status(format_args!(
            "Note: {} usually {} secrets, and {} in the checkpoint; workspace.secrets = \"omit\" in \
             the store's settings leaves such files out, \"keep\" keeps them without a note",
            escape::text(&files.join(", ")),
            if files.len() == 1 { "holds" } else { "hold" },
            if files.len() == 1 { "is" } else { "are" },
        ));
    }
}

/// How long a person has to answer. Then the setting stays open.
const ANSWER: Duration = Duration::from_secs(60);

/// What a person says of files that usually hold secrets; `None` if that is no answer.
fn secret_files_answer(answer: &str) -> Option<SecretFiles> {
    match answer.to_lowercase().as_str() {
        "" | "y" | "yes" => Some(SecretFiles::Keep),
        "n" | "no" => Some(SecretFiles::Omit),
        _ => None,
    }
}

/// Asks what becomes of files that usually hold secrets, until it is answered once.
fn ask_about_secrets(
    opened: &ScopedStore,
    root: &Path,
    files: &[String],
) -> Result<(), CommandError> {
    status(format_args!(
        "In the checkpoint, and likely to hold secrets: {}",
        escape::text(&files.join(", "))
    ));
    let interrupted = interrupt_flag()?;
    let question = "Keep such files in checkpoints, so that a rewind brings them back? [Y/n] ";
    let answer = read_answer(question, Some(&interrupted), Some(ANSWER)).unwrap_or_default();
    let Some(chosen) = answer.as_deref().and_then(secret_files_answer) else {
        status("That is not decided: the files stay in checkpoints until it is");
        return Ok(());
    };
    if let Err(error) = opened.store.set_secret_files(root, chosen) {
        let error = crate::error::on_one_line(&error);
        warning(format_args!("the checkpoint is made, but the answer could not be kept: {error}"));
        return Ok(());
    }
    match chosen {
        SecretFiles::Keep => status("They are kept (workspace.secrets = \"keep\")"),
        SecretFiles::Omit => status(
            "From the next checkpoint on they are left out (workspace.secrets = \"omit\"); the \
             checkpoints that have them keep them",
        ),
    }
    Ok(())
}

pub(super) fn tell_omissions(made: &RecordedCheckpoint) {
    tell_ignored_state(&made.ignored_state);
    for LargeFile { path, bytes } in &made.large_files {
        status(format_args!(
            "Note: {} ({}) is in the checkpoint, and git does not track it; a line in .abideignore \
             leaves it out from now on",
            escape::text(path),
            ByteSize(*bytes)
        ));
    }
    match made.dropped.len() {
        0 => {}
        1 => status("[retention] deleted the files of 1 old checkpoint"),
        count => status(format_args!("[retention] deleted the files of {count} old checkpoints")),
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
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        secret_files: &'a [String],
    }
    let made = CreatedCheckpoint {
        seq: made.seq,
        checkpoint: &made.checkpoint,
        dropped: &made.dropped,
        ignored_state: &made.ignored_state,
        secret_files: &made.secret_files,
    };
    serde_json::to_string(&made).unwrap_or_default()
}
