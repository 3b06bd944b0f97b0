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

/// Run an agent and record it, once or for each task of a plan
///
/// With --plan, the agent is started once for each ready task, in dependency order. It gets the
/// task on stdin, or in an argument that contains {task} (or {prompt}; also {id} and {title}).
/// Without a plan, the command itself is the only task.
///
/// The agent's output is recorded as it is printed: that of Claude Code (--output-format
/// stream-json), Codex (exec --json), Gemini CLI (stream-json) and opencode (run --format json) as
/// messages, tool calls and usage, that of any other command as text. Checkpoints are made at the
/// start, after each task, at intervals and at the end. ABIDE_SESSION, ABIDE_TASK and ABIDE_STORE
/// are set for the agent, so that programs it starts can `abide record` into the same session.
///
/// A prompt in the command of a known agent, or on its stdin, is recorded before the agent starts.
/// What you type at its terminal is recorded too, except lines that the terminal does not echo.
///
/// An interrupted task is run again, in the agent's own session if it has one, and does not count
/// as failed. An edited plan continues in a new session: tasks are matched by title, and completed
/// tasks stay complete.
///
/// With --write-back, task statuses are written into the plan document as they change: boxes are
/// checked, and `status: failed` lines are added and removed; no other byte changes. Your own edits
/// during the run are kept, and the next run reads them.
///
/// With --check, or with a `check` in the task, that command decides whether a task is done after
/// its agent says so. Its output is passed to the agent on the next attempt.
///
/// The agent's command comes last, with its own arguments; options of abide come before it. --agent
/// runs an agent defined as [agents.NAME] in your abide/config.toml or in the project's abide.toml,
/// with its check and limits. Without a command and without --agent, abide runs the agent that
/// [run] names. [run] can also set defaults for other options; options on the command line override
/// them. abide shows what it would use from the project's file and asks first.
///
/// The first Ctrl-C or SIGTERM ends the run when the current task is done; the second asks the agent
/// to end at once, and the third kills it.
/// The exit code is 0 when everything is done, 1 when tasks failed or cannot be started, and 4 when
/// the run was interrupted.
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
    /// Continue the plan's session, or start one if there is none
    #[arg(long = "continue", requires = "plan")]
    go_on: bool,
    /// Run failed tasks again
    #[arg(long)]
    retry_failed: bool,
    /// Title of the session [default: the plan's title]; without one, lists show its first prompt
    /// or its command
    #[arg(long)]
    title: Option<String>,
    /// Run the agent of this name in the configuration
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    agent: Option<String>,
    /// Ignore the project's abide.toml
    #[arg(long)]
    no_project_config: bool,
    /// Run the checks of tasks and use the project's abide.toml without asking
    #[arg(short, long)]
    yes: bool,
    /// Only show which tasks would run, in order
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
                "no agent: give its command (abide run AGENT ARGS…), or its name in the \
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
        opened.make(NewSession::from(fields))
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
