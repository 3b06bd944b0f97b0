//! `abide resume`: continues an interrupted run, or restarts it from an earlier point.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide::{
    NewSession, Session, SessionId, SessionRef, SessionView, Store,
    event::{ResolvedPosition, RunStart, SessionCore},
    liveness::LastRun,
    secrets::has_mark,
    tasks::PlanFile,
};
use abide_runner::{AgentKind, LeftoverWork, RecordedOptions, RunGoal};
use abide_transcript::escape;

use crate::agent_resume::ImportedFrom;
use crate::apply_args::apply_files_back;
use crate::command_context::CommandContext;
use crate::command_output::{status, warning};
use crate::conduct::{
    ConductArgs, ConfigRequest, ConfiguredRun, DefaultsUse, EarlierRun, ProjectConfigUse,
    RequestedAgent, RunWork, accepted_check, check_program, open, own_run_config,
};
use crate::confirm::confirm;
use crate::daily_cleanup::run_daily_cleanup;
use crate::error::{CommandError, on_one_line};
use crate::interrupted_rewind::finish_rewind;
use crate::scoped_store::{NameMatch, ScopedStore};
use crate::session_args::{SessionArg, tell_latest_session};

/// Resume a session where it stopped
///
/// Completed tasks are not repeated. An interrupted task continues in the agent's own session if it
/// has one (`codex exec resume`, `claude --resume`), else with a prompt that describes what was
/// done before, else from the start; abide says which. Calls whose outcome is unknown are shown
/// first.
///
/// With --at, the session continues from an earlier place, in a fork; the original session is
/// unchanged. With --files, the workspace is rewound to that place too, as by `abide rewind`, after
/// the plan is shown.
///
/// A session in a shared store can be resumed in another clone of the project, on this machine or
/// another. The files of its last checkpoint are restored into that clone, after the plan is shown;
/// --keep-files leaves the clone's files unchanged.
///
/// A session that was not started by `abide run` needs the agent's command after `--`. The agent is
/// given the conversation, the calls whose outcome is unknown, the last decision and the open
/// tasks: as its prompt argument if abide knows the agent (Claude Code, Codex, Gemini CLI,
/// opencode, Aider), else on stdin, or in an argument that contains {prompt} (or {task}). A prompt
/// in the command or on stdin is added at the end. An agent that has worked in the session before
/// continues its own. Without a task list, the session keeps its status whatever the agent's result
/// is.
///
/// A session that was imported continues in its agent, in the agent's own session, after the command and
/// the directory are shown; what the agent writes is imported afterwards. If the agent no longer has it, or
/// for another agent, --with AGENT starts a new one with the conversation.
///
/// A run that you started on this machine is resumed without a question. Any other run (from a
/// clone, a bundle, a copied session, another user or machine) is never chosen as the latest and
/// must be named. abide shows its command, directory and origin, and asks; --yes, a command after
/// `--` or --agent answers the question. With another command, abide asks about the recorded check
/// separately, and skips it without a terminal. Your options and your configuration, not that run,
/// then decide whether checkpoints are made.
///
/// --agent runs an agent defined in your abide/config.toml or in the project's abide.toml. abide
/// shows what it would use from the project's file and asks first. The limits of the previous run
/// do not apply; max_duration and grace of your configuration do.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
WHERE is a checkpoint (its number, label or id), the end of a turn (turn:3), an event (@41), or
`decision`: the last decision of an arbiter.

Examples:
  abide resume
  abide resume abc123 --retry-failed
  abide resume abc123 -- claude -p \"now the tests\"
  abide resume --at turn:3 --files")]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Continue from an earlier place, in a fork
    #[arg(long, value_name = "WHERE")]
    at: Option<String>,
    /// Rewind the workspace to that place too
    #[arg(long, requires = "at")]
    files: bool,
    /// Run another agent of the configuration
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    agent: Option<String>,
    /// Continue in a new session of this agent, with the conversation as its beginning: short for its
    /// program after `--`
    #[arg(long, value_name = "AGENT", conflicts_with_all = ["agent", "command"])]
    with: Option<AgentKind>,
    /// Ignore the project's abide.toml
    #[arg(long)]
    no_project_config: bool,
    /// Do not ask before running a command that was recorded elsewhere or is named by the project's
    /// abide.toml, running checks of tasks, or restoring files
    #[arg(short, long)]
    yes: bool,
    /// In another clone of the project, keep the files that are there
    #[arg(long, conflicts_with = "at")]
    keep_files: bool,
    /// Run failed tasks again
    #[arg(long)]
    retry_failed: bool,
    #[command(flatten)]
    conduct: ConductArgs,
    /// The agent's command [default: that of the last run]
    #[arg(last = true, value_name = "AGENT")]
    command: Vec<String>,
}

impl ResumeArgs {
    pub(crate) fn run(mut self, surroundings: &CommandContext) -> Result<(), CommandError> {
        self.conduct.check_options()?;
        let own_config = own_run_config(surroundings)?;
        let opened = surroundings.open_store()?;
        let id = match self.session.named(NameMatch::Beginning, &opened, surroundings)? {
            Some(named) => named,
            None => latest(&opened, self.needs_run(), surroundings)?,
        };
        let view = opened.store.view(&SessionRef::Id(id))?;
        let place = self.at.as_deref().map(|at| view.resolve(at)).transpose()?;
        let run = opened.store.last_run(&view, place.as_ref().map(|place| place.seq))?;
        if let Some(agent) = self.with {
            self.command = vec![agent.program().to_owned()];
        }
        if run.is_none() && place.is_none() && self.needs_run() {
            let fields = view.state()?.core.fields;
            if let Some(from) = ImportedFrom::of(&fields) {
                return from.resume(id, &fields, &opened, self.yes, surroundings);
            }
        }
        // Before anything is made: the user may say no.
        let accepted_directory = self.use_agent(&opened, &view, run.as_ref(), surroundings)?;
        let strange = run.as_ref().filter(|run| !run.own);
        // In the session itself: the checkpoint of a place may come right after it.
        let files = place.as_ref().filter(|_| self.files);
        let files = files.map(|place| view.files_at(place)).transpose()?;
        let id = match &place {
            Some(place) => {
                self.check_program(&opened, &view, run.as_ref(), surroundings)?;
                if let Some(run) = strange {
                    self.ask(&opened, &view, run, surroundings)?;
                }
                self.fork(&opened, id, place)?
            }
            None => id,
        };
        let session = Arc::new(open(&opened, id)?);
        session.notes().iter().for_each(warning);
        finish_rewind(&session)?;
        let goal = self.goal(&session, run.as_ref())?;
        if goal == RunGoal::Tasks {
            self.bring_plan_up_to_date(&session, run.as_ref());
        }
        if goal != RunGoal::Conversation && self.nothing_left(&session, goal)? {
            return Arc::into_inner(session).map_or(Ok(()), |session| Ok(session.close()?));
        }
        if place.is_none() {
            self.check_program(&opened, &view, run.as_ref(), surroundings)?;
        }
        if let Some(run) = strange.filter(|_| place.is_none()) {
            self.ask(&opened, &view, run, surroundings)?;
        }
        let (has_run, is_strange) = (run.is_some(), strange.is_some());
        let before = run.map(|run| run.start);
        let mut recorded = recorded(before.as_ref());
        let work = RunWork {
            command: self.command(before.as_ref())?,
            directory: existing_directory(&session, before.as_ref(), surroundings)?,
            goal,
            primed: before.is_none() || recorded.primed,
            retry_failed: self.retry_failed,
            yes: self.yes,
        };
        if accepted_directory.is_some_and(|accepted| accepted != work.directory) {
            return Err(CommandError::failed(format!(
                "the session's working directory has just become {}; nothing was started",
                work.directory.display()
            )));
        }
        if work.directory != surroundings.current_dir {
            let directory = work.directory.to_string_lossy();
            status(format_args!("It works in {}", escape::text(&directory)));
        }
        // Whoever gives a command of their own has not been asked about the check.
        if is_strange && !self.command.is_empty() && !self.conduct.has_check() {
            let consent = session.store().consent();
            recorded.check = accepted_check(consent, &work.directory, recorded.check, self.yes)?;
        }
        if !self.command.is_empty() {
            // It is another agent.
            recorded.agent = None;
        }
        tell(&session)?;
        // Only once nothing else can fail.
        if let (Some(place), Some(files)) = (&place, files) {
            apply_files_back(&session, files, place.seq, self.yes)?;
        }
        if self.at.is_none() {
            self.bring_files(&session)?;
        }
        run_daily_cleanup(&opened, id);
        let adapter = self.command.is_empty().then(|| before.map(|run| run.adapter)).flatten();
        let earlier = match (has_run, is_strange) {
            (false, _) => EarlierRun::None,
            (true, false) => EarlierRun::Own(recorded),
            (true, true) => EarlierRun::Strange(recorded),
        };
        let conduct = self.conduct.configured_again(&own_config, &earlier).like(&earlier, adapter);
        conduct.run(&opened, session, work, surroundings)
    }

    /// Is the command that of an earlier run?
    const fn needs_run(&self) -> bool {
        self.command.is_empty() && self.agent.is_none()
    }

    /// Uses the agent of `--agent`, and asks about it if the project defines it. Returns where that
    /// agent may be run.
    fn use_agent(
        &mut self,
        opened: &ScopedStore,
        view: &SessionView,
        run: Option<&LastRun>,
        surroundings: &CommandContext,
    ) -> Result<Option<PathBuf>, CommandError> {
        let Some(name) = &self.agent else { return Ok(None) };
        let core = view.state()?.core;
        let start = run.map(|run| &run.start);
        let directory = directory(&opened.store, view.id(), &core, start, surroundings)?;
        let request = ConfigRequest {
            agent: RequestedAgent::Named(name),
            defaults: DefaultsUse::Unused,
            project: ProjectConfigUse::of_option(self.no_project_config),
            directory: &directory,
            yes: self.yes,
        };
        let configured = ConfiguredRun::find(surroundings, request)?;
        self.conduct = self.conduct.clone().configured(&configured);
        self.command = configured.agent.map(|agent| agent.command).unwrap_or_default();
        Ok(Some(directory))
    }

    /// Refuses a command whose program is not there. One that is not known is refused later.
    fn check_program(
        &self,
        opened: &ScopedStore,
        view: &SessionView,
        run: Option<&LastRun>,
        surroundings: &CommandContext,
    ) -> Result<(), CommandError> {
        let start = run.map(|run| &run.start);
        let Ok(command) = self.command(start) else { return Ok(()) };
        let core = view.state()?.core;
        let directory = directory(&opened.store, view.id(), &core, start, surroundings)?;
        // A directory that is gone is told as such.
        if !directory.is_dir() {
            return Ok(());
        }
        check_program(&command, &directory, surroundings)
    }

    /// Asks before running a command that this machine has no record of: a store, a bundle or a
    /// session may come from anybody. A command given by the user is their own; only where it runs
    /// is printed.
    fn ask(
        &self,
        opened: &ScopedStore,
        view: &SessionView,
        run: &LastRun,
        surroundings: &CommandContext,
    ) -> Result<(), CommandError> {
        let given = !self.command.is_empty();
        let short = view.id().short(SessionId::SHORT);
        let core = view.state()?.core;
        let directory = directory(&opened.store, view.id(), &core, Some(&run.start), surroundings)?;
        status(format_args!(
            "As far as abide knows, you did not start the run of session {short} on this machine"
        ));
        if !given {
            status(format_args!("  command    {}", command_line(&run.start.command)));
        }
        if let Some(check) = recorded(Some(&run.start)).check {
            status(format_args!("  check      {}", escape::text(&check)));
        }
        let directory = directory.to_string_lossy();
        status(format_args!("  directory  {}", escape::text(&directory)));
        let by = run.by.as_deref().unwrap_or("unknown");
        status(format_args!("  started    {} by {}, as recorded", run.at, escape::text(by)));
        status(format_args!("  store      {}", escape::text(&opened.place())));
        if given || self.yes {
            return Ok(());
        }
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return Err(CommandError::failed(
                "there is no terminal to ask on; the recorded command was not run",
            )
            .with_hint(format!(
                "`abide resume {short} --yes` runs it as shown, `abide resume {short} -- COMMAND` \
                runs another one"
            )));
        }
        confirm("Run it?", false, None)
    }

    /// Writes what a run that was killed did not write back into its plan's document.
    fn bring_plan_up_to_date(&self, session: &Arc<Session>, run: Option<&LastRun>) {
        // A document of somebody else's choice is not touched before the user has seen the run.
        let before = match run {
            Some(run) if run.own => recorded(Some(&run.start)).write_back,
            Some(_) => return,
            None => false,
        };
        if !self.conduct.write_back().unwrap_or(before) {
            return;
        }
        let written = PlanFile::open(session.clone()).and_then(|mut file| file.update());
        if let Err(error) = written {
            let why = on_one_line(&error);
            warning(format_args!("the plan's file is not up to date: {}", escape::text(&why)));
        }
    }

    /// Restores the files here if they were last in another clone of the project.
    fn bring_files(&self, session: &Session) -> Result<(), CommandError> {
        let Some(last) = session.files_elsewhere()? else { return Ok(()) };
        if !self.keep_files {
            let then = last.checkpoint.workspace.as_ref().map(|counts| counts.root.as_str());
            status(format_args!(
                "The session's files were last in {}; they are restored here",
                escape::text(then.unwrap_or("another clone"))
            ));
            let place = session.view().resolve(&last.number.to_string())?;
            let files = session.view().files_at(&place)?;
            apply_files_back(session, files, place.seq, self.yes)?;
        }
        Ok(session.note_files(session.core()?.seq)?)
    }

    /// Reports if everything is done. While a turn is open, its task may still have to be checked.
    fn nothing_left(&self, session: &Session, goal: RunGoal) -> Result<bool, CommandError> {
        let tree = session.view().tasks()?;
        let progress = tree.progress(None);
        let done = progress.all > 0 && progress.complete + progress.obsolete == progress.all;
        // A task that its agent completed may not have been checked.
        let done = done && LeftoverWork::of(&session.state()?).turns.is_empty();
        if done && goal == RunGoal::Command {
            let short = session.id().short(SessionId::SHORT);
            status(format_args!(
                "Its command has ended, and nothing is left to do; `abide resume {short} -- AGENT` \
                continues the conversation, `--at` continues from an earlier place"
            ));
        } else if done {
            status(format_args!(
                "Everything is done: {} of {} tasks; `--at` continues from an earlier place",
                progress.complete,
                progress.all - progress.obsolete
            ));
        }
        let failed = progress.failed > 0 && !self.retry_failed;
        if failed && progress.complete + progress.obsolete + progress.failed == progress.all {
            let what = match goal {
                RunGoal::Command => "its command failed".to_owned(),
                RunGoal::Tasks | RunGoal::Conversation => format!(
                    "{} of {} tasks failed, and the others are done",
                    progress.failed, progress.all
                ),
            };
            let short = session.id().short(SessionId::SHORT);
            let again = format!("`abide resume {short} --retry-failed` tries again");
            return Err(CommandError::failed(what).with_hint(again));
        }
        Ok(done)
    }

    /// Forks at an earlier point.
    fn fork(
        &self,
        opened: &ScopedStore,
        id: SessionId,
        place: &ResolvedPosition,
    ) -> Result<SessionId, CommandError> {
        let fork =
            opened.store.fork(&SessionRef::Id(id), Some(place.seq), NewSession::default())?;
        status(format_args!(
            "Session {} continues from @{} of session {}",
            fork.short(SessionId::SHORT),
            place.seq,
            id.short(SessionId::SHORT)
        ));
        Ok(fork)
    }

    /// The agent's command: the given one, or that of the last run.
    fn command(&self, before: Option<&RunStart>) -> Result<Vec<String>, CommandError> {
        match (before, self.command.is_empty()) {
            (_, false) => Ok(self.command.clone()),
            (Some(before), true) if before.command.iter().any(|word| has_mark(word)) => {
                Err(CommandError::failed(
                    "the command of this session had a secret in it, which was not recorded",
                )
                .with_hint("give it again after `--`: abide resume SESSION -- AGENT ARGS…"))
            }
            (Some(before), true) => Ok(before.command.clone()),
            (None, true) => Err(CommandError::failed(
                "this session was not started by `abide run`, so its agent's command is unknown",
            )
            .with_hint("give it after `--`: abide resume SESSION -- AGENT ARGS…")),
        }
    }

    /// What the agent is started for: as in the last run, except that a session of one command goes
    /// on with its conversation when another command is given. A run of the conversation says
    /// nothing about tasks; the one before it does.
    fn goal(&self, session: &Session, run: Option<&LastRun>) -> Result<RunGoal, CommandError> {
        let tasks = session.core()?.tasks.total > 0;
        let given: Vec<String> =
            self.command.iter().map(|word| session.redacted_text(word)).collect();
        let is_recorded = |command: &[String]| given == command;
        let mut run = run.cloned();
        let mut talked = false;
        while let Some(talk) = run.as_ref().filter(|run| run.start.conversation) {
            talked = true;
            run = session.store().last_run(session.view(), Some(talk.seq.back(1)))?;
        }
        Ok(match run.map(|run| run.start) {
            Some(run) if run.planned => RunGoal::Tasks,
            // Somebody talked with the agent, and can go on with that. Any other program might take
            // what it is told for commands.
            Some(run)
                if recorded(Some(&run)).interactive
                    && AgentKind::started_by(&run.command).is_some()
                    && is_over(session)? =>
            {
                RunGoal::Conversation
            }
            Some(run) if !talked && (self.command.is_empty() || is_recorded(&run.command)) => {
                RunGoal::Command
            }
            None if tasks => RunGoal::Tasks,
            Some(_) | None => RunGoal::Conversation,
        })
    }
}

/// Whether all tasks of a session are done.
fn is_over(session: &Session) -> Result<bool, CommandError> {
    let progress = session.view().tasks()?.progress(None);
    Ok(progress.complete + progress.obsolete == progress.all)
}

/// The options of a run, as they were recorded.
fn recorded(run: Option<&RunStart>) -> RecordedOptions {
    let options = run.and_then(|run| run.options.as_ref());
    options.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// Where the session's agent works: where its last run did, or in this clone of its project.
fn directory(
    store: &Store,
    session: SessionId,
    core: &SessionCore,
    before: Option<&RunStart>,
    surroundings: &CommandContext,
) -> Result<PathBuf, CommandError> {
    let recorded =
        before.and_then(|run| run.directory.as_deref()).or(core.fields.workspace.as_deref());
    if store.workspace_here(session)?.is_some() {
        let mut fields = core.fields.clone();
        fields.workspace = recorded.map(str::to_owned);
        return Ok(store.workspace_root(session, &fields)?);
    }
    Ok(recorded.map_or_else(|| surroundings.current_dir.clone(), PathBuf::from))
}

/// The same, which must exist.
fn existing_directory(
    session: &Session,
    before: Option<&RunStart>,
    surroundings: &CommandContext,
) -> Result<PathBuf, CommandError> {
    let core = session.core()?;
    let directory = directory(session.store(), session.id(), &core, before, surroundings)?;
    if !Path::new(&directory).is_dir() {
        return Err(CommandError::failed(format!(
            "its working directory {} does not exist",
            directory.display()
        )));
    }
    Ok(directory)
}

/// The newest session of this workspace that never ran or whose last run was started here. Runs
/// that others started are skipped, and named.
fn latest(
    opened: &ScopedStore,
    needs_run: bool,
    surroundings: &CommandContext,
) -> Result<SessionId, CommandError> {
    let latest = opened.latest_in(surroundings)?;
    let latest = latest.ok_or_else(|| opened.none_here(surroundings))?;
    // What was only recorded, or saved by hand, has no agent to go on with.
    if needs_run && !was_run(opened, latest)? {
        for (id, _) in opened.recent_in(surroundings)? {
            if was_run(opened, id).unwrap_or(false) && is_eligible(opened, id).unwrap_or(false) {
                let short = id.short(SessionId::SHORT);
                status(format_args!("Session {short}, the latest here that `abide run` started"));
                return Ok(id);
            }
        }
    }
    if is_eligible(opened, latest)? {
        tell_latest_session(latest);
        return Ok(latest);
    }
    let short = latest.short(SessionId::SHORT);
    let here = surroundings.workspaces();
    for session in opened.store.sessions()? {
        // Skip one that cannot be read.
        let id = session.id;
        if id != latest && opened.is_in(id, &here) && is_eligible(opened, id).unwrap_or(false) {
            status(format_args!("Session {short} is skipped: its run was not started here"));
            tell_latest_session(id);
            return Ok(id);
        }
    }
    Err(CommandError::failed(format!(
        "no session in {} has a run that you started on this machine",
        opened.place()
    ))
    .with_hint(format!(
        "`abide resume {short}` shows the command of the newest one and asks before running it"
    )))
}

/// Has it a run?
fn was_run(opened: &ScopedStore, id: SessionId) -> Result<bool, CommandError> {
    let view = opened.store.view(&SessionRef::Id(id))?;
    Ok(opened.store.last_run(&view, None)?.is_some())
}

/// May it be resumed without being named?
fn is_eligible(opened: &ScopedStore, id: SessionId) -> Result<bool, CommandError> {
    let view = opened.store.view(&SessionRef::Id(id))?;
    Ok(opened.store.last_run(&view, None)?.is_none_or(|run| run.own))
}

/// A command quoted for a shell and escaped for a terminal.
fn command_line(command: &[String]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@+%".contains(c);
    let words = command.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", escape::text(word).replace('\'', "'\\''"))
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Reports what was interrupted, and the last decision of an arbiter.
fn tell(session: &Session) -> Result<(), CommandError> {
    let state = session.state()?;
    let left = LeftoverWork::of(&state);
    for call in &left.unknown {
        warning(format_args!(
            "the outcome of the call of {} is unknown ({})",
            escape::text(&call.name),
            call.call
        ));
    }
    if let Some(decision) = session.last_decision()? {
        status(format_args!("The last decision: {}", escape::text(&decision)));
    }
    Ok(())
}
