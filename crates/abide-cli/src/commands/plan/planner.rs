//! Has an agent answer with tasks. Each answer is a task of a session of its own, so that what the
//! agent was told and what it said are recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide::{
    EventRange, Kind, NewSession, SessionFields, SessionId, SessionRef, SessionView, TaskStatus,
    config::CheckpointSwitch,
    message::{MessagePart, read_message},
    tasks::{
        ANSWER_SCHEMA, MAX_ANSWER_BYTES, SessionTasks, TaskCreated, TaskId, TaskList,
        TaskListDocument, TaskListError,
    },
};
use abide_runner::{RunFinish, RunGoal, RunLimits, RunOptions, Stop};
use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::command_output::status;
use crate::conduct::{ConfiguredRun, heed_run_signals, open, run_with_output_aside};
use crate::error::CommandError;
use crate::scoped_store::ScopedStore;

/// What the agent is told before the schema and the text.
const REQUEST: &str = "\
Break the text below into tasks for a coding agent. Change no file and do nothing else: only answer.

Answer with one JSON object that is valid by the schema below.

- `title` is one line, and no two parts of the same task have the same.
- `details` says all that whoever does the task must know: they see neither the text nor other tasks.
- `tasks` of a task are its parts. Only tasks without parts are done; each should be one piece of work
  whose result can be seen.
- `depends` names, by `id`, tasks that must be done before. No task waits for itself in a circle.
- `check` is a shell command that succeeds when the task is done. Leave it out where there is none.
";

/// What the agent said about a text.
pub(super) struct PlannedTasks {
    pub(super) list: TaskList,
    /// The session that recorded it.
    pub(super) session: SessionId,
}

/// Has an agent break a text into tasks.
pub(super) struct Planner<'a> {
    opened: &'a ScopedStore,
    surroundings: &'a CommandContext,
    options: RunOptions,
    stop: Stop,
}

impl<'a> Planner<'a> {
    /// With the agent of the configuration, else with this command.
    pub(super) fn new(
        opened: &'a ScopedStore,
        surroundings: &'a CommandContext,
        configured: ConfiguredRun,
        command: &[String],
    ) -> Result<Self, CommandError> {
        let ConfiguredRun { agent, defaults, .. } = configured;
        let command = agent.as_ref().map_or(command, |agent| &agent.command);
        let detected = RunOptions::new(command.to_vec(), surroundings.current_dir.clone());
        let adapter = agent.as_ref().and_then(|agent| agent.adapter.as_deref()?.parse().ok());
        let duration = agent.as_ref().and_then(|agent| agent.rules.max_duration);
        let store = opened.at.reveal().to_string_lossy().into_owned();
        let options = RunOptions {
            adapter: adapter.unwrap_or(detected.adapter),
            environment: BTreeMap::from([("ABIDE_STORE".to_owned(), store)]),
            goal: RunGoal::Tasks,
            // An answer that cannot be used is told to it in another task.
            retries: Some(0),
            limits: RunLimits {
                duration: duration.or(defaults.rules.max_duration),
                ..RunLimits::default()
            },
            checkpoint: CheckpointSwitch::Off,
            grace: defaults.grace.unwrap_or(detected.grace),
            ..detected
        };
        let stop = Stop::default();
        heed_run_signals(&stop)?;
        Ok(Self { opened, surroundings, options, stop })
    }

    /// The plan of a text: asks the agent until its answer is one.
    pub(super) fn plan(
        &self,
        document: &TaskListDocument,
        text: &str,
        attempts: u64,
    ) -> Result<PlannedTasks, CommandError> {
        let name = std::path::Path::new(&document.path).file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        let fields = SessionFields {
            title: Some(format!("Plan of {name}")),
            workspace: Some(self.surroundings.current_dir.to_string_lossy().into_owned()),
            source: Some(document.source()),
            ..SessionFields::default()
        };
        let session = self.opened.make(NewSession::from(fields))?;
        let request = format!("{REQUEST}\nThe schema:\n\n{ANSWER_SCHEMA}\nThe text:\n\n{text}");
        let mut wrong: Option<TaskListError> = None;
        for number in 1..=attempts {
            let (title, details) = match &wrong {
                None => (format!("Break {name} into tasks"), request.clone()),
                Some(wrong) => (
                    format!("Break {name} into tasks, and correct the last answer"),
                    format!(
                        "Your last answer cannot be used: {wrong}\nAnswer again, with all of \
                         it.\n\n{request}"
                    ),
                ),
            };
            let task = TaskId(format!("T{number}"));
            let details = Some(details);
            self.ask(
                session,
                TaskCreated { task: task.clone(), title, details, ..TaskCreated::default() },
            )?;
            match recorded_answer(&self.opened.store.view(&SessionRef::Id(session))?, &task)? {
                Ok(list) => return Ok(PlannedTasks { list, session }),
                Err(error) => {
                    let said = error.to_string();
                    status(format_args!("The answer cannot be used: {}", escape::text(&said)));
                    wrong = Some(error);
                }
            }
        }
        let short = session.short(SessionId::SHORT);
        let error = match wrong {
            Some(wrong) => CommandError::because(wrong),
            None => CommandError::failed("it was not asked"),
        };
        Err(error.on("the agent gave no usable answer; nothing was imported").with_hint(format!(
            "`abide show {short}` shows its answers; `--attempts {}` allows more",
            attempts + 1
        )))
    }

    /// Runs the agent on one task.
    fn ask(&self, id: SessionId, task: TaskCreated) -> Result<(), CommandError> {
        let mut tasks = SessionTasks::open(Arc::new(open(self.opened, id)?))?;
        tasks.create(task)?;
        tasks.flush()?;
        let session = tasks.into_session();
        let ended = run_with_output_aside(&session, &self.options, &self.stop)?;
        let short = id.short(SessionId::SHORT);
        match ended.finish {
            RunFinish::Done => Ok(()),
            RunFinish::Stopped => {
                status("Nothing was imported");
                Err(CommandError::Interrupted)
            }
            _ => {
                let reason = failure_reason(session.view())?.or(ended.reason).unwrap_or_default();
                let said = format!("the agent failed, and nothing was imported: {reason}");
                Err(CommandError::failed(said)
                    .with_hint(format!("`abide show {short}` shows what it said")))
            }
        }
    }
}

/// Why the last task of a session failed.
fn failure_reason(view: &SessionView) -> Result<Option<String>, CommandError> {
    let plan = view.plan()?;
    let failed = plan.tasks.into_iter().rfind(|task| task.status == TaskStatus::Failed);
    Ok(failed.and_then(|task| task.reason))
}

/// The plan of a text that an agent answered with before.
pub(super) fn recorded_plan(
    opened: &ScopedStore,
    named: &str,
    document: &TaskListDocument,
) -> Result<PlannedTasks, CommandError> {
    let session = opened.find(named)?;
    let view = opened.store.view(&SessionRef::Id(session))?;
    let short = session.short(SessionId::SHORT);
    let source = view.state()?.core.fields.source;
    let tree = view.tasks()?;
    let Some(last) = tree.walk(None).last().map(|(task, _)| task.id.clone()) else {
        return Err(CommandError::failed(format!("session {short} has no answer of an agent"))
            .with_hint("`--from` needs a session that `abide plan` made"));
    };
    if source.is_none_or(|source| source.sha256 != document.sha256) {
        return Err(CommandError::failed(format!("session {short} is a plan of another text"))
            .with_hint("plan an edited text again: abide plan FILE -- AGENT"));
    }
    match recorded_answer(&view, &last)? {
        Ok(list) => Ok(PlannedTasks { list, session }),
        Err(error) => Err(CommandError::because(error)
            .on(format!("the last answer in session {short} cannot be used"))),
    }
}

/// What the agent answered to a task, read as a task list.
fn recorded_answer(
    view: &SessionView,
    task: &TaskId,
) -> Result<Result<TaskList, TaskListError>, CommandError> {
    let mut answer = String::new();
    for event in view.events(EventRange::ALL) {
        let event = event?;
        // What a subagent says is not an answer.
        let said = event.kind == Kind::MESSAGE_ADDED && event.lane.is_none();
        if !said || event.task.as_ref() != Some(task) {
            continue;
        }
        let message = event.data.as_ref().and_then(read_message);
        let message = message.filter(|message| message.role == "assistant");
        for part in message.into_iter().flat_map(|message| message.parts) {
            if let MessagePart::Text(text) = part {
                // Text that a command prints is recorded in pieces, which may end anywhere.
                answer.push_str(&text);
            }
        }
        if answer.len() > MAX_ANSWER_BYTES {
            break;
        }
    }
    Ok(TaskList::of_answer(&answer))
}
