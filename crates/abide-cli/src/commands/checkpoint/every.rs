//! `abide checkpoint every`: creates checkpoints at intervals, beside any agent.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use abide::{
    CheckpointRequest, Checkpointer, Seq, SessionId, SessionRef, SessionStatus, SessionView,
    checkpoint::{CheckpointerEvent, CheckpointerOptions},
};
use abide_transcript::format_duration;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::create::{json, parent, tell_ignored_state, tell_omissions, tell_secret_files, told};
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status, warning};
use crate::duration::checkpoint_interval;
use crate::error::CommandError;
use crate::interrupt::interrupt_flag;
use crate::noun_count::noun_count;
use crate::session_args::{SessionArg, SessionPurpose};

/// How often to check whether the session has ended.
const PAUSE: Duration = Duration::from_millis(500);

/// Make a checkpoint at intervals if files have changed, until the session ends
///
/// It runs in the background, beside any agent. If another process holds the session, such as a
/// long `abide record`, the checkpoint is written through that process; otherwise the session is
/// held only while a checkpoint is written. No checkpoint can be written during a rewind: abide
/// reports this once and tries again every 30 seconds, or at each interval if that is shorter.
/// Files that a rewind changes during the capture are captured again.
///
/// It ends when the session is completed or has failed, when the process of --pid ends, or at
/// Ctrl-C, each time with a last checkpoint if files have changed, and a summary. If the last
/// checkpoint cannot be made, the command fails.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Suggested intervals: 10 to 15 minutes for sessions under an hour, 15 to 20 for up to three hours, 20
to 30 for up to six, 30 for longer ones.

Examples:
  abide checkpoint every 15m &
  abide checkpoint every 30m --pid $AGENT_PID")]
pub(crate) struct CheckpointEveryArgs {
    /// Time between two checkpoints
    #[arg(value_name = "INTERVAL", default_value = "30m", value_parser = checkpoint_interval)]
    interval: Duration,
    #[command(flatten)]
    session: SessionArg,
    /// Directory of the files [default: the session's workspace]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// The agent's process: its memory and processor time are recorded, and this command ends with
    /// it
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Print each checkpoint as a line of JSON, after a line {"event":"started",…} and before a line
    /// {"event":"stopped",…}
    #[arg(long)]
    json: bool,
}

impl CheckpointEveryArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::FilesHere, &opened, surroundings)?;
        let asked = interrupt_flag()?;
        let mut end = CheckpointEveryWatch::of(opened.store.view(&SessionRef::Id(id))?);
        let mut over = || -> Result<bool, CommandError> {
            let gone = self.pid.is_some_and(is_gone);
            Ok(gone || asked.load(Ordering::Relaxed) || end.is_reached()?)
        };
        let options = CheckpointerOptions {
            interval: self.interval,
            request: CheckpointRequest {
                workspace: self.workspace.as_ref().map(|dir| surroundings.absolute(dir)),
                process: self.pid.or_else(parent),
                lenient: true,
                names_ignored: true,
                ..CheckpointRequest::default()
            },
        };
        let store = opened.store.clone();
        let (checkpointer, events) = Checkpointer::start_beside(store, id, options)?;
        let mut teller = CheckpointEveryReporter {
            session: id,
            out: CommandOutput::stdout(),
            json: self.json,
            failure: None,
            secret_files: BTreeSet::new(),
        };
        loop {
            match events.recv_timeout(PAUSE) {
                Ok(event) => teller.tell(&event)?,
                Err(RecvTimeoutError::Timeout) if over()? => break,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let stopped = checkpointer.stop();
        while let Ok(event) = events.try_recv() {
            teller.tell(&event)?;
        }
        stopped?;
        Ok(())
    }
}

/// Tells whether a session has ended. Reads its state only when something was recorded.
struct CheckpointEveryWatch {
    view: SessionView,
    seen: Option<Seq>,
    reached: bool,
}

impl CheckpointEveryWatch {
    const fn of(view: SessionView) -> Self {
        Self { view, seen: None, reached: false }
    }

    fn is_reached(&mut self) -> Result<bool, CommandError> {
        let last = self.view.acknowledged()?;
        if self.seen != Some(last) {
            let status = self.view.state()?.core.status;
            self.reached = matches!(status, SessionStatus::Completed | SessionStatus::Failed);
            self.seen = Some(last);
        }
        Ok(self.reached)
    }
}

/// Is there no such process? A process of another user exists.
fn is_gone(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_none_or(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Reports what a checkpointer does.
struct CheckpointEveryReporter {
    session: SessionId,
    out: CommandOutput,
    json: bool,
    /// The last failure reported, until a checkpoint succeeds.
    failure: Option<String>,
    /// Files that usually hold secrets and were named.
    secret_files: BTreeSet<String>,
}

impl CheckpointEveryReporter {
    fn tell_new_secret_files(&mut self, files: &[String]) {
        let is_new = |file: &&String| self.secret_files.insert((*file).clone());
        let new: Vec<String> = files.iter().filter(is_new).cloned().collect();
        tell_secret_files(&new);
    }

    fn tell(&mut self, event: &CheckpointerEvent) -> Result<(), CommandError> {
        match event {
            CheckpointerEvent::Started { interval } => {
                if self.json {
                    let started = serde_json::json!({
                        "event": "started",
                        "session": self.session,
                        "interval_ms": millis(*interval),
                    });
                    self.out.json(&started.to_string())?;
                }
                status(format_args!("A checkpoint every {}", format_duration(*interval)));
            }
            CheckpointerEvent::Checkpoint(made) => {
                self.failure = None;
                if self.json {
                    self.out.json(&json(made))?;
                } else {
                    self.out.line(told(made))?;
                }
                tell_omissions(made);
                self.tell_new_secret_files(&made.secret_files);
            }
            CheckpointerEvent::Unchanged(held) => {
                self.failure = None;
                tell_ignored_state(&held.ignored_state);
                self.tell_new_secret_files(&held.secret_files);
            }
            CheckpointerEvent::Failed(error) => {
                let failure = format!("no checkpoint: {}", crate::error::on_one_line(error));
                if self.failure.as_ref() != Some(&failure) {
                    warning(format_args!("{failure}; abide will try again"));
                    self.failure = Some(failure);
                }
            }
            CheckpointerEvent::Stopped(summary) => {
                if self.json {
                    let stopped = serde_json::json!({
                        "event": "stopped",
                        "session": self.session,
                        "total": summary.total,
                        "duration_ms": millis(summary.duration),
                        "files": summary.files,
                        "peak_rss_bytes": summary.peak_rss_bytes,
                    });
                    self.out.json(&stopped.to_string())?;
                }
                status(format_args!(
                    "{} in {}, {} changed",
                    noun_count(summary.total, "checkpoint"),
                    format_duration(summary.duration),
                    noun_count(summary.files.len(), "file")
                ));
            }
        }
        self.out.flush()
    }
}
