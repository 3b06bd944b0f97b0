//! How a run is conducted: what `run` and `resume` share.

mod amount;
mod checks;
mod configured;
mod ending;
mod json;
mod plain;
mod program;
mod report;
mod signals;
mod terminal;
mod tree;
mod view;
mod view_kind;
mod wording;

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use abide::{
    Session, SessionId, SessionRef, StoreError, TaskStatus,
    backend::HeldSessionAccess,
    config::{CheckpointSwitch, RunConfig},
    context::AutoCompaction,
    maintenance::ByteSize,
    tasks::TaskId,
};
use abide_runner::{
    AgentKind, InterruptedTask, LeftoverWork, RecordedOptions, ResumeMode, RetryDecision, RunError,
    RunEvent, RunGoal, RunLimits, RunOptions, RunSummary, Stop, Stream,
};
use abide_transcript::escape;
use clap::builder::{PossibleValuesParser, TypedValueParser};

pub(crate) use self::checks::accepted_check;
pub(crate) use self::configured::{
    ConfigRequest, ConfiguredRun, DefaultsUse, ProjectConfigUse, RequestedAgent, own_run_config,
};
use self::ending::RunChanges;
pub(crate) use self::program::check_program;
pub(crate) use self::signals::heed_run_signals;
use self::terminal::TerminalGuard;
use self::view_kind::RunViewKind;
use crate::command_context::CommandContext;
use crate::command_output::{status, warning};
use crate::duration::{checkpoint_interval, duration};
use crate::error::{CommandError, FailureCode};
use crate::scoped_store::ScopedStore;

/// The agents whose output is understood.
fn agent_names() -> PossibleValuesParser {
    AgentKind::all().map(AgentKind::as_str).collect::<Vec<_>>().into()
}

/// `on` and `off`.
fn checkpoint_switch() -> impl TypedValueParser<Value = CheckpointSwitch> {
    let words = [CheckpointSwitch::On, CheckpointSwitch::Off].map(CheckpointSwitch::as_str);
    PossibleValuesParser::new(words).try_map(|word| word.parse::<CheckpointSwitch>())
}

/// How a run is conducted.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ConductArgs {
    /// Only this task and its parts
    #[arg(long, value_name = "ID")]
    scope: Option<String>,
    /// Continue with other tasks when one fails
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    continue_on_error: Option<bool>,
    /// What to do with a task that was interrupted during calls whose outcome is unknown
    #[arg(long, value_enum, default_value_t = OnUnknown::Retry)]
    on_unknown: OnUnknown,
    /// How to resume an interrupted task
    #[arg(long, value_enum, default_value_t = ResumeWayArg::Auto)]
    way: ResumeWayArg,
    /// Start at most this many tasks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tasks: Option<u64>,
    /// Stop after this time and interrupt the tasks in progress (`90m`, `8h`)
    #[arg(long, value_name = "TIME", value_parser = amount::parse_limited_time, allow_negative_numbers = true)]
    max_duration: Option<Duration>,
    /// Stop when the agents have reported this cost in US dollars (`5`, `2.50`)
    #[arg(long, value_name = "DOLLARS", value_parser = amount::parse_cost, allow_negative_numbers = true)]
    max_cost: Option<u64>,
    /// Stop when the agents have reported this many input and output tokens (`200000`, `200k`,
    /// `2M`)
    #[arg(long, value_name = "N", value_parser = amount::parse_token_limit, allow_negative_numbers = true)]
    max_tokens: Option<u64>,
    /// Stop when the agents' processes together use this much memory (`500MB`, `2GB`)
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    max_memory: Option<ByteSize>,
    /// Shell command that decides whether a task is done, for tasks without their own check
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Attempts at a task before it counts as failed [default: 3 with a check, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    attempts: Option<u64>,
    /// Retries of a failed task: one less than --attempts
    #[arg(long, value_name = "N", conflicts_with = "attempts")]
    retries: Option<u64>,
    /// Run this many tasks at the same time, each in its own lane (a conversation beside the others)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64))]
    jobs: Option<u64>,
    /// Whether to make checkpoints [default: on]
    #[arg(long, value_name = "on|off", value_parser = checkpoint_switch())]
    checkpoint: Option<CheckpointSwitch>,
    /// Time between checkpoints [default: depends on --max-duration, else 30m]
    #[arg(long, value_name = "TIME", value_parser = checkpoint_interval)]
    checkpoint_every: Option<Duration>,
    /// Write task statuses back into the plan document, and nothing else [default: false; with
    /// `abide resume`, as in the previous run]
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    write_back: Option<bool>,
    /// Compact the context automatically when it exceeds this share of the model's window (80%) or
    /// this many tokens (120k) at the end of a turn; `off` for never [default: that of the previous
    /// run, else compact_over in the settings, else off]
    #[arg(long, value_name = "SHARE|TOKENS")]
    compact_over: Option<AutoCompaction>,
    /// How long an agent may take to stop before it is killed [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    grace: Option<Duration>,
    /// How to read the agent's output [default: by its command]
    #[arg(long, value_name = "NAME", value_parser = agent_names())]
    adapter: Option<String>,
    /// The name of the agent in the configuration.
    #[arg(skip)]
    agent_name: Option<String>,
    /// Print plain lines, even on a terminal
    #[arg(long, conflicts_with = "json")]
    plain: bool,
    /// Print one line of JSON for each event of the run
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OnUnknown {
    /// Run it again
    Retry,
    /// Ask
    Ask,
    /// Skip it and mark it as blocked
    Skip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ResumeWayArg {
    /// The first of inside, outside and restart that is possible
    Auto,
    /// In the same agent session
    Inside,
    /// In a new agent session, with a prompt that sums up what was done before
    Outside,
    /// From the start
    Restart,
}

impl ConductArgs {
    /// `--json`.
    pub(crate) const fn json(&self) -> bool {
        self.json
    }

    /// `--max-tasks`.
    pub(crate) const fn max_tasks(&self) -> Option<u64> {
        self.max_tasks
    }

    /// `--scope`.
    pub(crate) fn scope(&self) -> Option<TaskId> {
        self.scope.as_deref().map(TaskId::from)
    }

    /// `--write-back`.
    pub(crate) const fn write_back(&self) -> Option<bool> {
        self.write_back
    }

    /// Whether there is a `--check`.
    pub(crate) const fn has_check(&self) -> bool {
        self.check.is_some()
    }

    /// `--retries`, or what `--attempts` means.
    fn retries(&self) -> Option<u64> {
        self.retries.or(self.attempts.map(|attempts| attempts.saturating_sub(1)))
    }

    /// Refuses options that contradict each other.
    pub(crate) fn check_options(&self) -> Result<(), CommandError> {
        if self.checkpoint == Some(CheckpointSwitch::Off) && self.checkpoint_every.is_some() {
            return Err(CommandError::Usage(
                "--checkpoint-every has no meaning with --checkpoint off".to_owned(),
            ));
        }
        Ok(())
    }

    /// Fills in what was not given: as the agent's configuration says, else by the defaults.
    pub(crate) fn configured(mut self, configured: &ConfiguredRun) -> Self {
        let ConfiguredRun { agent, name, defaults } = configured;
        self.agent_name.clone_from(name);
        let rules = agent.as_ref().map(|agent| agent.rules.clone()).unwrap_or_default();
        let rules = rules.or(defaults.rules.clone());
        self.adapter = self.adapter.or_else(|| agent.as_ref()?.adapter.clone());
        self.check = self.check.or(rules.check);
        if self.retries().is_none() {
            self.attempts = rules.attempts;
        }
        self.max_duration = self.max_duration.or(rules.max_duration);
        self.jobs = self.jobs.or(defaults.jobs);
        self.continue_on_error = self.continue_on_error.or(defaults.continue_on_error);
        self.grace = self.grace.or(defaults.grace);
        self.with_checkpoints(defaults.checkpoint, defaults.checkpoint_every)
    }

    /// Fills in what was not given from the user's own configuration, for a run that goes on with the
    /// options of an earlier one: what is not recorded, and of somebody else's run, what protects the
    /// user's files.
    pub(crate) fn configured_again(mut self, own: &RunConfig, before: &EarlierRun) -> Self {
        let agent = match before {
            EarlierRun::Own(options) => options.agent.as_ref(),
            EarlierRun::Strange(_) | EarlierRun::None => None,
        };
        let agent = agent.and_then(|name| own.agents.get(name));
        let of_agent = agent.and_then(|agent| agent.rules.max_duration);
        self.max_duration = self.max_duration.or(of_agent).or(own.run.rules.max_duration);
        self.grace = self.grace.or(own.run.grace);
        match before {
            EarlierRun::Own(_) => self,
            EarlierRun::Strange(_) | EarlierRun::None => {
                self.with_checkpoints(own.run.checkpoint, own.run.checkpoint_every)
            }
        }
    }

    /// Fills in whether and how often checkpoints are made. Whoever gives an interval wants them.
    fn with_checkpoints(
        mut self,
        switch: Option<CheckpointSwitch>,
        every: Option<Duration>,
    ) -> Self {
        let wanted = self.checkpoint_every.map(|_| CheckpointSwitch::On);
        self.checkpoint = self.checkpoint.or(wanted).or(switch);
        self.checkpoint_every = self.checkpoint_every.or(every);
        self
    }

    /// Fills in what was not given from the options of an earlier run.
    pub(crate) fn like(mut self, before: &EarlierRun, adapter: Option<String>) -> Self {
        let before = before.options();
        self.adapter = self.adapter.or(adapter.filter(|name| !name.is_empty()));
        self.agent_name = self.agent_name.or_else(|| before.agent.clone());
        self.scope = self.scope.or_else(|| before.scope.as_ref().map(ToString::to_string));
        let before_on_error = before.continue_on_error.then_some(true);
        self.continue_on_error = self.continue_on_error.or(before_on_error);
        self.write_back = self.write_back.or(before.write_back.then_some(true));
        self.retries = self.retries().or(before.retries);
        self.attempts = None;
        self.check = self.check.or_else(|| before.check.clone());
        self.jobs = self.jobs.or(Some(before.jobs as u64));
        self.compact_over = self.compact_over.or(before.compact_over);
        let every = before.checkpoint_every.map(Duration::from_secs);
        self.with_checkpoints(Some(before.checkpoint), every)
    }

    /// The options of a run of this work.
    fn options(&self, opened: &ScopedStore, work: RunWork) -> RunOptions {
        let store = opened.at.reveal().to_string_lossy().into_owned();
        let detected = RunOptions::new(work.command, work.directory);
        // An agent that gets its prompt on stdin does not get the terminal.
        let free = match work.goal {
            RunGoal::Command => true,
            RunGoal::Tasks => false,
            RunGoal::Conversation => detected.prompts_by_argument(),
        };
        let named = self.adapter.as_deref().and_then(|name| name.parse().ok());
        let adapter = named.unwrap_or(detected.adapter);
        RunOptions {
            adapter,
            agent: self.agent_name.clone(),
            environment: BTreeMap::from([("ABIDE_STORE".to_owned(), store)]),
            goal: work.goal,
            primed: work.primed,
            scope: self.scope(),
            continue_on_error: self.continue_on_error.unwrap_or(false),
            retries: self.retries(),
            check: self.check.clone().filter(|check| !check.trim().is_empty()),
            jobs: self.jobs.and_then(|jobs| usize::try_from(jobs).ok()).unwrap_or(1).max(1),
            max_tasks: self.max_tasks,
            limits: RunLimits {
                duration: self.max_duration,
                cost_micros: self.max_cost,
                tokens: self.max_tokens,
                memory_bytes: self.max_memory.map(|size| size.0),
            },
            checkpoint: self.checkpoint.unwrap_or_default(),
            checkpoint_every: self.checkpoint_every,
            way: match self.way {
                ResumeWayArg::Auto => ResumeMode::Auto,
                ResumeWayArg::Inside => ResumeMode::Inside,
                ResumeWayArg::Outside => ResumeMode::Outside,
                ResumeWayArg::Restart => ResumeMode::Restart,
            },
            retry_failed: work.retry_failed,
            write_back: self.write_back.unwrap_or(false) && work.goal == RunGoal::Tasks,
            grace: self.grace.unwrap_or(detected.grace),
            inherit_stdin: work.goal != RunGoal::Tasks && !std::io::stdin().is_terminal(),
            interactive: free
                && !self.plain
                && !self.json
                && adapter.prints_text()
                && std::io::stdin().is_terminal()
                && std::io::stdout().is_terminal(),
            ..detected
        }
    }

    /// Runs the agent in a session and reports the outcome.
    pub(crate) fn run(
        &self,
        opened: &ScopedStore,
        session: Arc<Session>,
        work: RunWork,
        surroundings: &CommandContext,
    ) -> Result<(), CommandError> {
        let id = session.id();
        let yes = work.yes;
        let goal = work.goal;
        let mut options = self.options(opened, work);
        options.compaction = surroundings.compaction(self.compact_over);
        // A conversation works on no task, so no check is run.
        if options.goal != RunGoal::Conversation {
            checks::refuse_marked(options.check.as_deref())?;
            options.accepted_checks = checks::accepted(&session, &options.directory, yes)?;
        }
        let shown = match (self.json, self.plain) {
            (true, _) => RunViewKind::Json,
            (false, true) => RunViewKind::Plain,
            (false, false) if options.interactive => RunViewKind::Through,
            (false, false) if std::io::stderr().is_terminal() && options.goal == RunGoal::Tasks => {
                RunViewKind::Tree
            }
            (false, false) => RunViewKind::Plain,
        };
        // Ask before anything is drawn and before the agent gets the terminal.
        let mut asked = BTreeMap::new();
        if self.on_unknown == OnUnknown::Ask {
            let left = LeftoverWork::of(&session.state()?);
            for left in left.tasks.iter().filter(|left| !left.unknown.is_empty()) {
                asked.insert(left.task.clone(), ask(left)?);
            }
        }
        let is_told = !options.interactive && !self.json && self.adapter.is_none();
        if let Some(line) = text_only_wording(&options.command).filter(|_| is_told) {
            status(line);
        }
        // Not before: a question ends by Ctrl-C.
        let stop = Stop::default();
        heed_run_signals(&stop)?;
        let mut view = view_kind::view_of_kind(shown, &session, &options);
        let raw = match shown {
            RunViewKind::Through => TerminalGuard::set(),
            RunViewKind::Tree => TerminalGuard::silent(),
            RunViewKind::Plain | RunViewKind::Json => None,
        };
        let mut decide = |left: &InterruptedTask| match self.on_unknown {
            _ if left.unknown.is_empty() => Some(RetryDecision::Retry),
            OnUnknown::Retry => Some(RetryDecision::Retry),
            OnUnknown::Skip => Some(RetryDecision::Skip),
            // Nobody is asked during a run: it ends, and the question comes on resume.
            OnUnknown::Ask => asked.get(&left.task).copied(),
        };
        let mut failure: Option<String> = None;
        let done = abide_runner::run(&session, &options, &stop, &mut decide, &mut |event| {
            if let RunEvent::TaskEnded { status: TaskStatus::Failed, reason, .. } = event {
                failure.clone_from(reason);
            }
            view.show(event);
        });
        drop((view, raw));
        // The other views have shown it.
        if let Some(reason) = failure.filter(|_| shown == RunViewKind::Through) {
            status(format_args!("The task failed: {}", escape::text(&reason)));
        }
        let ended = done.map_err(CommandError::from);
        // Release the session before saying that it can be resumed.
        drop(session);
        self.tell(opened, id, goal, ended, surroundings)
    }

    /// Says how the run ended, which session it is, and what comes next.
    fn tell(
        &self,
        opened: &ScopedStore,
        id: SessionId,
        goal: RunGoal,
        ended: Result<RunSummary, CommandError>,
        surroundings: &CommandContext,
    ) -> Result<(), CommandError> {
        let tell_next = |changed| {
            if !self.json {
                ending::tell_next_steps(opened, id, goal, changed, surroundings);
            }
        };
        let summary = match ended {
            Ok(summary) => summary,
            Err(error) => {
                tell_next(RunChanges::None);
                return Err(error);
            }
        };
        if !self.json {
            report::tell_run_report(&summary, goal);
        }
        tell_next(RunChanges::of(&summary));
        report::exit_by_run_finish(summary.finish)
    }
}

/// The run that another one goes on with.
#[derive(Debug)]
pub(crate) enum EarlierRun {
    /// None.
    None,
    /// The user began it on this machine.
    Own(RecordedOptions),
    /// Somebody else did, as far as is known here.
    Strange(RecordedOptions),
}

impl EarlierRun {
    /// The options that the run which goes on with it has too. Somebody else decides neither whether
    /// checkpoints are made of this user's files nor how often.
    fn options(&self) -> RecordedOptions {
        match self {
            Self::None => RecordedOptions::default(),
            Self::Own(options) => options.clone(),
            Self::Strange(options) => RecordedOptions {
                checkpoint: CheckpointSwitch::On,
                checkpoint_every: None,
                agent: None,
                // A document of somebody else's choice is not written to.
                write_back: false,
                ..options.clone()
            },
        }
    }
}

/// Runs an agent whose stdout is an answer to the command itself: what happens is told on stderr, and
/// nothing goes to stdout.
pub(crate) fn run_with_output_aside(
    session: &Arc<Session>,
    options: &RunOptions,
    stop: &Stop,
) -> Result<RunSummary, CommandError> {
    let mut view = view_kind::view_of_kind(RunViewKind::Plain, session, options);
    let mut decide = |_: &InterruptedTask| Some(RetryDecision::Retry);
    let ended = abide_runner::run(session, options, stop, &mut decide, &mut |event| {
        if !matches!(event, RunEvent::Output { stream: Stream::Out, .. }) {
            view.show(event);
        }
    });
    Ok(ended?)
}

/// Opens a session for a run. After its supervisor was killed, processes that the agent started go
/// on and may hold the session for a moment, again and again: they are ended first.
pub(crate) fn open(opened: &ScopedStore, id: SessionId) -> Result<Session, CommandError> {
    let session = SessionRef::Id(id);
    // One agent at a time: a run holds its session.
    let store = opened.store.clone().with_held_sessions(HeldSessionAccess::Wait);
    let error = match store.open_session(&session) {
        Ok(session) => return Ok(session),
        Err(error) => error,
    };
    if let abide::Error::Store(StoreError::Held { holder, .. }) = &error {
        let mark = format!("{id}/");
        if abide::process::processes_marked(&mark).contains(&holder.process) {
            let processes = abide_runner::end_marked(&mark, Duration::from_secs(5));
            if let Some(line) =
                wording::run_event_wording(&RunEvent::LeftBehind { task: None, processes })
            {
                status(line);
            }
            return Ok(store.open_session(&session)?);
        }
        let short = id.short(SessionId::SHORT);
        let held = format!("session {short} is held by {holder}");
        return Err(CommandError::failed(held).coded(FailureCode::Held).with_hint(format!(
            "only one agent can work in a session at a time: `abide tail -f {short}` follows it, \
            `--wait 30s` waits for it; other commands still work"
        )));
    }
    Err(error.into())
}

/// What to run.
#[derive(Debug)]
pub(crate) struct RunWork {
    pub(crate) command: Vec<String>,
    pub(crate) directory: PathBuf,
    pub(crate) goal: RunGoal,
    /// Each agent is told the earlier conversation, too.
    pub(crate) primed: bool,
    pub(crate) retry_failed: bool,
    /// `--yes`.
    pub(crate) yes: bool,
}

/// What is not recorded of an agent that prints text; `None` if nothing is known that it could print.
fn text_only_wording(command: &[String]) -> Option<String> {
    let agent = AgentKind::started_by(command)?;
    let arguments = agent.event_arguments(command)?;
    Some(format!(
        "Only the text of {} is recorded; with `{arguments}` its tool calls are, too",
        agent.as_str()
    ))
}

/// Asks whether to run a task again.
fn ask(left: &InterruptedTask) -> Result<RetryDecision, CommandError> {
    let mut err = std::io::stderr();
    let title = escape::text(&left.title).into_owned();
    warning(format_args!(
        "task {} ({title}) was interrupted; the outcome of these calls is unknown:",
        left.task
    ));
    for unknown in &left.unknown {
        status(format_args!("  {} ({})", escape::text(&unknown.name), unknown.call));
    }
    if !std::io::stdin().is_terminal() || !err.is_terminal() {
        return Err(CommandError::failed("there is no terminal to ask on; nothing was started")
            .with_hint(
                "`--on-unknown retry` runs such a task again, `--on-unknown skip` skips it",
            ));
    }
    loop {
        let _ = write!(err, "Run it again, skip it, or quit? [r/s/q] ");
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer)?;
        match answer.trim().to_lowercase().as_str() {
            "r" | "retry" | "run" => return Ok(RetryDecision::Retry),
            "s" | "skip" => return Ok(RetryDecision::Skip),
            "q" | "quit" => return Err(CommandError::Cancelled),
            _ if read == 0 => return Err(CommandError::Cancelled),
            _ => {}
        }
    }
}

impl From<RunError> for CommandError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Session(error) => error.into(),
            error @ RunError::Start { .. } => {
                Self::because(error).with_hint("is it installed, and on the PATH?")
            }
            error @ RunError::Stdin(_) => Self::because(error)
                .with_hint("the agent was not started; its stdin is stored in TMPDIR"),
            error @ RunError::Undecided(_) => Self::because(error).with_hint(
                "`abide resume --on-unknown ask` asks on a terminal; `retry` runs it again, `skip` \
                skips it",
            ),
            error @ RunError::NoScope(_) => {
                Self::because(error).with_hint("`abide tasks` shows the tasks with their ids")
            }
        }
    }
}
