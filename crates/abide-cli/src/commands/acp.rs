//! `abide acp`: a proxy between an editor and an agent that makes sessions durable.

use std::io::{self, IsTerminal};
use std::time::Duration;

use abide::context::AutoCompaction;
use abide::locate::{Projects, SessionScope, StoreLocation};
use abide_acp::{
    CheckpointSchedule, ProxyError, ProxyOptions, StoreConnector, StoreOptions, run_stdio,
};

use crate::command_context::CommandContext;
use crate::command_output::status;
use crate::command_place::{checked_url, connect_place};
use crate::container;
use crate::duration::duration;
use crate::error::CommandError;

/// Record the traffic between an editor and an agent over ACP
///
/// The Agent Client Protocol uses stdin and stdout: put `abide acp --` before the agent's command
/// in the editor's settings. Messages are forwarded byte for byte. Prompts, tool calls, permissions
/// and results are on stable storage before they are forwarded. Where the agent cannot load, list,
/// resume, delete or fork sessions, abide answers from the store.
///
/// A session is recorded in your own store, in that of its directory's project if there is one
/// (`.abide/`), or in that of --store, which `abide init` creates; every other command of abide
/// works on it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide acp -- opencode acp
  abide acp --checkpoint off -- gemini --acp
  abide acp --store ~/sessions -- codex-acp

In an editor's settings, \"abide\" is the command and \"acp\", \"--\" come before the agent's own
arguments; docs/acp.md has an example for each editor.")]
pub(crate) struct AcpArgs {
    /// When to make checkpoints of the workspace, to which `abide rewind` can return
    #[arg(long, value_enum, default_value_t = AcpCheckpointArg::Turn)]
    checkpoint: AcpCheckpointArg,
    /// Compact the context of a session automatically when it exceeds this share of the model's
    /// window (80%) or this many tokens (120k) at the end of a prompt; `off` for never [default:
    /// compact_over in the settings, else off]
    #[arg(long, value_name = "SHARE|TOKENS")]
    compact_over: Option<AutoCompaction>,
    /// How long to wait for an answer of the agent; prompts and logins have no limit
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 300,
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    timeout: u64,
    /// How long the agent has to end a prompt that was cancelled
    #[arg(long, hide = true, value_name = "TIME", default_value = "10s", value_parser = duration)]
    cancel_grace: Duration,
    /// How long the agent may say nothing once the client is gone, before it is ended
    #[arg(long, hide = true, value_name = "TIME", default_value = "10s", value_parser = duration)]
    quiet: Duration,
    /// How long the agent has to end once it was asked to, before it is killed
    #[arg(long, hide = true, value_name = "TIME", default_value = "2s", value_parser = duration)]
    end_grace: Duration,
    /// The agent's command
    #[arg(last = true, value_name = "AGENT")]
    command: Vec<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum AcpCheckpointArg {
    /// At each prompt
    Turn,
    /// Never
    Off,
}

impl AcpArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err(no_acp_command());
        }
        if io::stdin().is_terminal() {
            status(
                "abide acp speaks the Agent Client Protocol on stdin and stdout, and an editor \
                starts it; `abide acp --help` and docs/acp.md show how. Ctrl-C ends it",
            );
        }
        let stores = acp_stores(surroundings)?;
        warn_of_container(&stores, surroundings);
        let checkpoint = match self.checkpoint {
            AcpCheckpointArg::Turn => CheckpointSchedule::Turn,
            AcpCheckpointArg::Off => CheckpointSchedule::Off,
        };
        let timeout = Duration::from_secs(self.timeout);
        let options = ProxyOptions {
            stores,
            checkpoint,
            compaction: surroundings.compaction(self.compact_over),
            command: self.command,
            timeout,
            cancel_grace: self.cancel_grace,
            quiet: self.quiet,
            end_grace: self.end_grace,
        };
        Ok(run_stdio(&options)?)
    }
}

/// Warns if the first session makes the user's own store, and that goes with the container.
fn warn_of_container(stores: &StoreOptions, surroundings: &CommandContext) {
    if let Ok(place) = stores.finder.find(&surroundings.current_dir)
        && let (StoreLocation::Files(root), SessionScope::Project) = (&place.store, place.scope)
        && !root.join("config.toml").is_file()
    {
        container::warn_of_container(root);
    }
}

/// The stores that hold the sessions.
fn acp_stores(surroundings: &CommandContext) -> Result<StoreOptions, CommandError> {
    let around = surroundings.clone();
    let connect = StoreConnector::new(move |url| {
        let projects = Projects::in_state(&around.person);
        connect_place(url, &around, projects.of(&around.current_dir)?.as_ref())
    });
    let mut finder = surroundings.place_finder()?;
    if let Some(named) = &finder.named {
        if let StoreLocation::Shared(url) = named {
            checked_url(url)?;
        }
        // It exists, and the place it names is accepted.
        let place = surroundings.place_in(&surroundings.current_dir)?;
        finder.named = Some(place.store);
    }
    let (person, consent) = (surroundings.person.clone(), Some(surroundings.consent.clone()));
    Ok(StoreOptions { finder, person, consent, connect })
}

fn no_acp_command() -> CommandError {
    let how = "give the agent's command after `--`, such as `abide acp -- opencode acp`";
    CommandError::Usage(how.to_owned())
}

impl From<ProxyError> for CommandError {
    fn from(error: ProxyError) -> Self {
        match error {
            ProxyError::NoCommand => no_acp_command(),
            ProxyError::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => {
                Self::BrokenPipe
            }
            error @ ProxyError::NoAgent { .. } => Self::because(error).with_hint(
                "after `--` comes the agent's command as it is without abide; an editor's PATH can \
                differ from your shell's: give the program's full path",
            ),
            error => Self::because(error),
        }
    }
}
