//! `abide plan`: an agent breaks a text into tasks.

mod planner;
mod preview;

use std::path::PathBuf;

use abide::{
    NewSession, SessionFields, SessionId, SessionRef,
    locate::read_small_file,
    tasks::{TaskListDocument, TaskListForm, TaskListMatch},
};
use abide_transcript::escape;

use self::planner::{PlannedTasks, Planner};
use self::preview::{PlanPreview, PlannedMatch};
use crate::command_context::CommandContext;
use crate::command_output::status;
use crate::conduct::{
    ConfigRequest, ConfiguredRun, DefaultsUse, ProjectConfigUse, RequestedAgent, check_program,
};
use crate::confirm::{confirm, on_terminal};
use crate::daily_cleanup::run_daily_cleanup;
use crate::error::{CommandError, at};
use crate::interrupt::interrupt_flag;
use crate::scoped_store::ScopedStore;
use crate::shell_word::shell_quoted;

/// The largest text.
const MOST_BYTES: u64 = 1 << 20;

/// Have an agent break a text into tasks
///
/// The agent gets the text of FILE and the JSON schema of a task tree, on stdin or in an argument
/// that contains {task}. It is run and recorded as by `abide run`, in its own session, without
/// checkpoints. If its answer is invalid, the agent is told why and may answer again.
///
/// The tasks are shown, and you are asked whether to import them. They are then the plan of FILE:
/// `abide run --plan FILE -- AGENT` works through them. If FILE was planned before, even if it was
/// edited since, the new plan continues from the old one: unchanged tasks with the same title keep
/// their results.
///
/// Without a terminal, the tasks are only shown, unless --yes is given. --from imports them later,
/// without running the agent again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide plan IDEA.md -- my-agent {task}
  abide plan IDEA.md --agent planner --yes
  abide plan IDEA.md --json --dry-run -- my-agent -
  abide plan IDEA.md --from 1a2b3c --yes")]
pub(crate) struct PlanArgs {
    /// The text to plan from
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Run the agent of this name in the configuration
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    agent: Option<String>,
    /// Ignore the project's abide.toml
    #[arg(long)]
    no_project_config: bool,
    /// How often the agent may answer
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=20))]
    attempts: u64,
    /// Use the answer recorded in this session instead of running an agent
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["agent", "command", "attempts"])]
    from: Option<String>,
    /// Import the tasks and use the project's abide.toml without asking
    #[arg(short, long)]
    yes: bool,
    /// Only show the tasks
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Print {"session":…,"outcome":…,"imported":…,"planned_in":…,"title":…,"tasks":[…]}; nothing is asked
    #[arg(long)]
    json: bool,
    /// The agent's command [default: that of --agent, or of the agent that [run] names]
    #[arg(last = true, value_name = "AGENT")]
    command: Vec<String>,
}

impl PlanArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let PlannedText { mut document, text } = self.read(surroundings)?;
        let (opened, planned) = match &self.from {
            Some(from) => {
                let opened = surroundings.open_store()?;
                let planned = planner::recorded_plan(&opened, from, &document)?;
                (opened, planned)
            }
            None => {
                // Before anything is made: the user may say no.
                let configured = self.configured(surroundings)?;
                let agent = configured.agent.as_ref();
                let command = agent.map_or(&self.command, |agent| &agent.command);
                check_program(command, &surroundings.current_dir, surroundings)?;
                let opened = surroundings.open_or_init_store()?;
                let planner = Planner::new(&opened, surroundings, configured, &self.command)?;
                let planned = planner.plan(&document, &text, self.attempts)?;
                (opened, planned)
            }
        };
        document.plan = planned.list.clone();
        let matched = match_planned(&opened, &document)?;
        let mut preview = PlanPreview::of(&document, &matched, planned.session);
        let asks = !self.json && on_terminal();
        if !self.json {
            preview.show()?;
        }
        if self.dry_run || !(self.yes || asks) {
            if self.json {
                preview.print()?;
            }
            self.tell_later(&planned);
            return Ok(());
        }
        if !self.yes {
            let interrupted = interrupt_flag()?;
            let confirmed = confirm("Import these tasks?", false, Some(&interrupted));
            if confirmed.is_err() {
                self.tell_later(&planned);
            }
            confirmed?;
        }
        let id = match matched {
            PlannedMatch::There { session, .. } => session,
            PlannedMatch::Other(matched) => {
                let workspace = surroundings.current_dir.to_string_lossy().into_owned();
                let fields =
                    SessionFields { workspace: Some(workspace), ..SessionFields::default() };
                opened.store.start_plan(&document, matched, NewSession::from(fields))?
            }
        };
        run_daily_cleanup(&opened, id);
        preview.imported(id);
        if self.json {
            preview.print()?;
        }
        status(format_args!(
            "The tasks are in session {}. Work through them with: abide run --plan {} -- AGENT",
            id.short(SessionId::SHORT),
            self.file_word()
        ));
        Ok(())
    }

    /// The text as a document whose tasks are not known yet.
    fn read(&self, surroundings: &CommandContext) -> Result<PlannedText, CommandError> {
        let path = surroundings.absolute(&self.file);
        let bytes = read_small_file(&path, MOST_BYTES).map_err(at("read", self.file.as_path()))?;
        let path = path.canonicalize().unwrap_or(path).to_string_lossy().into_owned();
        let document = TaskListDocument::of(path.clone(), None, &bytes)
            .map_err(|error| CommandError::because(error).on(&path))?;
        let name = self.file.display();
        if !document.plan.tasks.is_empty() || document.plan.form != TaskListForm::Markdown {
            let hint = format!("`abide run --plan {} -- AGENT` works through it", self.file_word());
            return Err(CommandError::failed(format!("{name} is a plan already")).with_hint(hint));
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if text.trim().is_empty() {
            return Err(CommandError::failed(format!("{name} is empty")));
        }
        Ok(PlannedText { document, text })
    }

    /// The agent that configuration names, if it is not given as a command.
    fn configured(&self, surroundings: &CommandContext) -> Result<ConfiguredRun, CommandError> {
        let (agent, defaults) = match &self.agent {
            Some(name) => (RequestedAgent::Named(name), DefaultsUse::Unused),
            None if self.command.is_empty() => (RequestedAgent::Default, DefaultsUse::Used),
            None => (RequestedAgent::Command, DefaultsUse::Unused),
        };
        let request = ConfigRequest {
            agent,
            defaults,
            project: ProjectConfigUse::of_option(self.no_project_config),
            directory: &surroundings.current_dir,
            yes: self.yes,
        };
        let configured = ConfiguredRun::find(surroundings, request)?;
        if configured.agent.is_none() && self.command.is_empty() {
            return Err(CommandError::Usage(
                "no agent: give its command after `--` (abide plan FILE -- AGENT ARGS…), or its \
                name with --agent"
                    .to_owned(),
            ));
        }
        Ok(configured)
    }

    /// Says how to import what was only shown.
    fn tell_later(&self, planned: &PlannedTasks) {
        status(format_args!(
            "Nothing was imported. To import these tasks: abide plan {} --from {} --yes",
            self.file_word(),
            planned.session.short(SessionId::SHORT)
        ));
    }

    /// The file, as an argument of a command that is shown.
    fn file_word(&self) -> String {
        let file = self.file.to_string_lossy();
        escape::text(&shell_quoted(&file)).into_owned()
    }
}

/// A text, and the document that its plan becomes.
struct PlannedText {
    document: TaskListDocument,
    text: String,
}

/// Finds the session of the text. One that was planned before, with other tasks, counts as edited.
fn match_planned(
    opened: &ScopedStore,
    document: &TaskListDocument,
) -> Result<PlannedMatch, CommandError> {
    let parent = match opened.store.match_plan(document)? {
        TaskListMatch::Same(id) => id,
        other => return Ok(PlannedMatch::Other(other)),
    };
    let delta = opened.store.plan_delta(parent, &document.plan)?;
    if delta.added.is_empty() && delta.changed.is_empty() && delta.removed.is_empty() {
        let old = opened.store.view(&SessionRef::Id(parent))?.plan()?;
        return Ok(PlannedMatch::There { session: parent, plan: Box::new(old) });
    }
    Ok(PlannedMatch::Other(TaskListMatch::Edited { parent, delta }))
}
