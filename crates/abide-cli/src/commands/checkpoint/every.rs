//! `abide checkpoint every`: makes checkpoints at intervals, beside any agent.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use abide::{
    CheckpointRequest, Checkpointer, CheckpointerEvent, CheckpointerOptions, SessionRef,
    SessionStatus, format_duration, process_tree,
};

use super::create::{json, parent, tell_omissions, told};
use crate::commands::record::duration;
use crate::error::CommandError;
use crate::interrupt::interruptible;
use crate::output::{Output, status, warning};
use crate::store::{SessionArg, Surroundings};

/// How often it is looked whether the session has ended.
const PAUSE: Duration = Duration::from_millis(500);

/// Make a checkpoint at intervals, until the session ends
///
/// It runs in the background of any agent and takes the session only for the moment in which a
/// checkpoint is written. It ends when the session is completed or has failed, when the process
/// given by --pid is gone, and at Ctrl-C; each time with a last checkpoint and a summary.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Sessions of under an hour do well with 10 to 15 minutes, up to three hours with 15 to 20, up to six
with 20 to 30, longer ones with 30.

Examples:
  abide checkpoint every 15m &
  abide checkpoint every 30m --pid $AGENT_PID")]
pub(crate) struct Every {
    /// The time between two checkpoints
    #[arg(value_name = "INTERVAL", default_value = "30m", value_parser = interval)]
    interval: Duration,
    #[command(flatten)]
    session: SessionArg,
    /// Where the files are [default: the session's workspace]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// The agent's process: what it uses is noted, and its end ends this command
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Print each checkpoint as a line of JSON
    #[arg(long)]
    json: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if interval < Duration::from_secs(1) {
        return Err("at least 1s".to_owned());
    }
    Ok(interval)
}

impl Every {
    pub(crate) fn run(self, surroundings: &Surroundings) -> Result<(), CommandError> {
        let opened = surroundings.open()?;
        let id = self.session.find(&opened, surroundings)?;
        let asked = interruptible()?;
        let view = opened.store.view(&SessionRef::Id(id))?;
        let over = || -> Result<bool, CommandError> {
            let ended = matches!(
                view.state()?.core.status,
                SessionStatus::Completed | SessionStatus::Failed
            );
            let gone = self.pid.is_some_and(|pid| process_tree(pid).is_none());
            Ok(ended || gone || asked.load(Ordering::Relaxed))
        };
        let options = CheckpointerOptions {
            interval: self.interval,
            request: CheckpointRequest {
                workspace: self.workspace.as_ref().map(|dir| surroundings.absolute(dir)),
                process: self.pid.or_else(parent),
                lenient: true,
                ..CheckpointRequest::default()
            },
        };
        let store = opened.store.clone();
        let (checkpointer, events) = Checkpointer::start_beside(store, id, options)?;
        let mut out = Output::stdout();
        loop {
            match events.recv_timeout(PAUSE) {
                Ok(event) => tell(&mut out, self.json, &event)?,
                Err(RecvTimeoutError::Timeout) if over()? => break,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let stopped = checkpointer.stop();
        while let Ok(event) = events.try_recv() {
            tell(&mut out, self.json, &event)?;
        }
        stopped?;
        out.flush()
    }
}

fn tell(out: &mut Output, as_json: bool, event: &CheckpointerEvent) -> Result<(), CommandError> {
    match event {
        CheckpointerEvent::Started { interval } => {
            status(format_args!("A checkpoint every {}", format_duration(*interval)));
        }
        CheckpointerEvent::Checkpoint(made) => {
            if as_json {
                out.json(&json(made))?;
            } else {
                out.line(told(made))?;
            }
            tell_omissions(made);
        }
        CheckpointerEvent::Failed(error) => {
            warning(format_args!("{}", crate::error::on_one_line(error)));
        }
        CheckpointerEvent::Stopped(summary) => status(format_args!(
            "{} checkpoints in {}, {} files changed",
            summary.total,
            format_duration(summary.duration),
            summary.files.len()
        )),
    }
    out.flush()
}
