//! `abide run`: runs an agent through its tasks, unattended.

mod plan;

use std::path::PathBuf;
use std::sync::Arc;

use abide::{NewSession, SessionFields};
use abide_runner::RunGoal;

use self::plan::MatchedPlan;
use crate::command_context::CommandContext;
use crate::conduct::{
    ConductArgs, ConfigRequest, ConfiguredRun, DefaultsUse, ProjectConfigUse, RequestedAgent,
    RunWork, check_program, open,
};
use crate::daily_cleanup::run_daily_cleanup;
use crate::error::CommandError;
use crate::interrupted_rewind::finish_rewind;
use crate::scoped_store::ScopedStore;

/// Run an agent, or one agent run for each task of a plan; keep it all
///
/// With --plan the agent is started once for each task that is ready, in the order of the
/// dependencies. The task is told on stdin, or in the place of {task} (or {prompt}; also {id} and
/// {title}) in an argument. Without a plan the command itself is the one task.
///
/// What the agent prints is recorded as it prints it: Claude Code (--output-format stream-json),
/// Codex (exec --json), Gemini CLI (stream-json) and opencode (run --format json) as messages, tool
/// calls and usage, any other command as text. A checkpoint is made at the start, at each task's end,
/// at intervals, and at the end. ABIDE_SESSION, ABIDE_TASK and ABIDE_STORE are in the agent's
/// environment: what it starts can `abide record` into the same session.
///
/// The prompt in the command of a known agent, or on its stdin, is recorded before the agent is
/// started, and so is what you type at its terminal, but for lines that the terminal does not echo.
///
/// A task that was interrupted is run again, inside the agent's own session where it has one, and
/// does not count as failed. A plan that was edited goes on in a new session: tasks are matched by
/// their titles, and what was done stays done.
///
/// With --write-back the statuses of the tasks are written into the plan's document as they change:
/// a box is checked, a line `status: failed` comes and goes, every other byte stays. What you edit in
/// the document meanwhile is kept, and read by the next run.
///
/// With --check, or a `check` of the task itself, that command decides whether a task is done once
/// its agent says so. What it printed is told to the agent at the next attempt.
///
/// The agent's command stands last, with its own arguments: options of abide stand before it. --agent
/// runs an agent that is defined as [agents.NAME] in your abide/config.toml or in the project's
/// abide.toml, with its check and its limits; without either, the agent that [run] names there is run.
/// [run] also has defaults for other options, which the options given here override. abide shows what it would take from the project's file and asks
/// before it uses it.
///
/// Ctrl-C or SIGTERM lets what is under way end; asked again, it stops the agent. The exit code is 0
/// when everything is done, 1 when tasks failed or cannot be begun, 4 when it was interrupted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide run claude
  abide run codex exec --json \"fix the failing test\"
  abide run --plan PLAN.md --continue codex exec --json --full-auto -
  abide run --plan tasks.json --jobs 2 --retries 1 \\
    claude -p {task} --output-format stream-json --verbose
  abide run --plan PLAN.md --check 'cargo test' my-agent
  abide run --plan PLAN.md --write-back --agent reviewer
  abide run --plan PLAN.md --dry-run")]
pub(crate) struct RunArgs {
    /// The plan: a Markdown list, tasks.json, TOML or JSON
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Go on with the plan's session, or start it where there is none
    #[arg(long = "continue", requires = "plan")]
    go_on: bool,
    /// Tasks that failed before are run again
    #[arg(long)]
    retry_failed: bool,
    /// What people call the session [default: the plan's title]; without one it is listed under its
    /// first prompt, or the command
    #[arg(long)]
    title: Option<String>,
    /// The name of an agent that is defined in the configuration
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    agent: Option<String>,
    /// Ignore the project's abide.toml
    #[arg(long)]
    no_project_config: bool,
    /// Run the checks that the tasks name, and use what the project's abide.toml says, without asking
    #[arg(short, long)]
    yes: bool,
    /// Only show which tasks would be run, in which order
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    conduct: ConductArgs,
    /// The agent's program and all its arguments [default: the command of --agent, or of the agent that
    /// [run] names]
    #[arg(trailing_var_arg = true, value_name = "AGENT")]
    command: Vec<String>,
}

impl RunArgs {
    pub(crate) fn run(mut self, surroundings: &CommandContext) -> Result<(), CommandError> {
        self.conduct.check_options()?;
        let document = self.plan.as_deref().map(|file| plan::read(file, surroundings));
        let document = document.transpose()?;
        if self.conduct.write_back() == Some(true) {
            plan::check_write_back(document.as_ref())?;
        }
        if self.dry_run {
            let Some(document) = document else {
                return Err(CommandError::Usage("--dry-run needs --plan".to_owned()));
            };
            return self.show(document, surroundings);
        }
        // Before anything is made: the user may say no.
        let configured = self.configured(surroundings)?;
        self.conduct = self.conduct.configured(&configured);
        if let Some(agent) = configured.agent {
            self.command = agent.command;
        }
        check_program(&self.command, &surroundings.current_dir, surroundings)?;
        let opened = surroundings.open_or_init_store()?;
        let goal = if document.is_some() { RunGoal::Tasks } else { RunGoal::Command };
        let id = match document {
            Some(document) => {
                let matched = MatchedPlan::find(document, &opened)?;
                matched.tell();
                matched.session(&opened, self.title, self.go_on, surroundings)?
            }
            None => self.unplanned(&opened, surroundings)?,
        };
        let session = open(&opened, id)?;
        finish_rewind(&session)?;
        run_daily_cleanup(&opened, id);
        let work = RunWork {
            command: self.command,
            directory: surroundings.current_dir.clone(),
            goal,
            primed: false,
            retry_failed: self.retry_failed,
            yes: self.yes,
        };
        self.conduct.run(&opened, Arc::new(session), work, surroundings)
    }

    /// What configuration says about this run.
    fn configured(&self, surroundings: &CommandContext) -> Result<ConfiguredRun, CommandError> {
        let agent = match &self.agent {
            Some(name) => RequestedAgent::Named(name),
            None if self.command.is_empty() => RequestedAgent::Default,
            None => RequestedAgent::Command,
        };
        let request = ConfigRequest {
            agent,
            defaults: DefaultsUse::Used,
            project: ProjectConfigUse::of_option(self.no_project_config),
            directory: &surroundings.current_dir,
            yes: self.yes,
        };
        let configured = ConfiguredRun::find(surroundings, request)?;
        if configured.agent.is_none() && self.command.is_empty() {
            return Err(CommandError::Usage(
                "which agent? give its command (abide run AGENT ARGS…), or its name in the \
                 configuration with --agent"
                    .to_owned(),
            ));
        }
        Ok(configured)
    }

    /// Creates a session for a command without a plan.
    fn unplanned(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<abide::SessionId, CommandError> {
        let fields = SessionFields {
            title: self.title.clone(),
            workspace: Some(surroundings.current_dir.to_string_lossy().into_owned()),
            ..SessionFields::default()
        };
        opened.make(NewSession { fields })
    }

    /// Shows what would be run.
    fn show(
        &self,
        document: abide::tasks::TaskListDocument,
        surroundings: &CommandContext,
    ) -> Result<(), CommandError> {
        let tree = match surroundings.find_store()? {
            Some(opened) => {
                let matched = MatchedPlan::find(document, &opened)?;
                matched.tell();
                matched.tree(&opened)?
            }
            None => plan::tree_of(&document.plan)?,
        };
        let (scope, most) = (self.conduct.scope(), self.conduct.max_tasks());
        plan::dry_run(tree, scope.as_ref(), self.retry_failed, most, self.conduct.json())
    }
}
