//! `abide import`: imports sessions from agents' own files, and from bundles.

mod agent_files;
mod bundles;

use std::path::{Path, PathBuf};

use abide_runner::AgentKind;

use self::agent_files::{AgentFilesImport, ImportSelection};
use self::bundles::BundleImport;
use crate::command_context::CommandContext;
use crate::error::CommandError;
use crate::typed_time::TypedTime;

/// Import the sessions of your agents, or bundles
///
/// Without WHAT, everything that Claude Code, Codex, Gemini CLI and opencode keep on this machine is
/// imported; the name of an agent (claude, codex, gemini, opencode) imports its sessions, and a directory,
/// a .jsonl file or a database of an agent what is in it. The agents' files are read and never written.
/// Every record is kept, also those that abide does not know: `abide export --format source` gives the files
/// back. A second import reads only what is new. What was erased stays erased, and a session that was removed
/// here is not imported again.
///
/// The sessions go to your own store, unless --store names another one. They are found by `abide ls -A`,
/// `abide search -A`, and by AGENT/ID, the agent's own id. `abide resume` continues them in their agent.
/// A session that a running abide holds is left to it.
///
/// A bundle is checked line by line before anything becomes visible. A session keeps its id. An existing
/// session is fast-forwarded; a diverged one is refused, and so is one whose key belongs to another session
/// here. A bundle that does not fit on the disk is refused before it is unpacked. Its events cannot be
/// changed without breaking their chain, so a bundle with secrets is refused: `abide erase` removes them
/// where it comes from, --keep-secrets takes it as it is. What was erased here stays erased; --forget brings
/// it back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide import                         everything that is new, of all agents
  abide import claude --since 30d
  abide import --dry-run               what there is
  abide import session.abide
  ssh build abide export --format bundle abc123 | abide import -")]
pub(crate) struct ImportArgs {
    /// An agent, a directory or file of one, or a bundle; `-` is a bundle on stdin
    #[arg(value_name = "WHAT")]
    what: Vec<PathBuf>,
    /// Only sessions of agents that were written to since this time: 2026-11-15, 3d, 2w, yesterday
    #[arg(long, value_name = "TIME")]
    since: Option<TypedTime>,
    /// Only sessions of agents in this project
    #[arg(long)]
    project: bool,
    /// Check everything and only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Import into a shared store without asking
    #[arg(short, long)]
    yes: bool,
    /// Record secrets as they are
    #[arg(long)]
    keep_secrets: bool,
    /// Bring back data of a bundle that was erased here
    #[arg(long)]
    forget: bool,
    /// Unpack a bundle even if it grows to more than 64 MiB and 200 times its own size
    #[arg(long)]
    large: bool,
    /// Print one JSON object for each bundle, or one for all agents
    #[arg(long)]
    json: bool,
}

impl ImportArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let mut selections = Vec::new();
        let mut files = Vec::new();
        for what in self.what {
            match selection(&what, surroundings) {
                Some(selection) => selections.push(selection),
                None => files.push(what),
            }
        }
        let of_agents = !selections.is_empty() || files.is_empty();
        if of_agents && !files.is_empty() {
            return Err(CommandError::Usage(
                "import bundles and sessions of agents in two commands".to_owned(),
            ));
        }
        if of_agents {
            let import = AgentFilesImport {
                selections,
                since: self.since,
                project: self.project,
                dry_run: self.dry_run,
                yes: self.yes,
                keep_secrets: self.keep_secrets,
                json: self.json,
            };
            return import.run(surroundings);
        }
        if self.since.is_some() || self.project {
            return Err(CommandError::Usage(
                "--since and --project are for sessions of agents, not for bundles".to_owned(),
            ));
        }
        let (dry_run, keep_secrets, json) = (self.dry_run, self.keep_secrets, self.json);
        let (forget, large) = (self.forget, self.large);
        BundleImport { files, dry_run, keep_secrets, forget, large, json }.run(surroundings)
    }
}

/// What is named of agents' sessions; `None` for a bundle.
fn selection(what: &Path, surroundings: &CommandContext) -> Option<ImportSelection> {
    let named = what.to_str().and_then(|name| name.parse::<AgentKind>().ok());
    if let Some(agent) = named.filter(|agent| agent.kept_sessions().is_some()) {
        return Some(ImportSelection::Agent(agent));
    }
    let path = surroundings.absolute(what);
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let is_source = path.is_dir() || matches!(ending, "jsonl" | "zst" | "db");
    is_source.then_some(ImportSelection::Within(path))
}
