//! Finds the session of a plan: the existing one, one for the edited document, or a new one.

use std::path::Path;

use abide::{
    NewSession, Seq, SessionFields, SessionId, SessionRef, SessionState, Timestamp,
    tasks::{TaskId, TaskList, TaskListDocument, TaskListForm, TaskListMatch, TaskTree},
};
use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status};
use crate::error::{CommandError, at};
use crate::noun_count::noun_count;
use crate::scoped_store::ScopedStore;

/// Reads a plan.
pub(super) fn read(
    file: &Path,
    surroundings: &CommandContext,
) -> Result<TaskListDocument, CommandError> {
    let path = surroundings.absolute(file);
    let bytes = std::fs::read(&path).map_err(at("read", &path))?;
    let path = path.canonicalize().unwrap_or(path).to_string_lossy().into_owned();
    let document = TaskListDocument::of(path.clone(), None, &bytes)
        .map_err(|error| CommandError::because(error).on(&path))?;
    if document.plan.tasks.is_empty() {
        check_planned(&document, surroundings)?;
    }
    Ok(document)
}

/// Refuses a document without a task, unless it is a text that `abide plan` has broken into tasks.
fn check_planned(
    document: &TaskListDocument,
    surroundings: &CommandContext,
) -> Result<(), CommandError> {
    let matched = match surroundings.find_store()? {
        Some(opened) => opened.store.match_plan(document)?,
        None => TaskListMatch::New,
    };
    let path = &document.path;
    let hint = match (&matched, document.plan.form) {
        (TaskListMatch::Same(_), _) => return Ok(()),
        (TaskListMatch::Edited { .. }, TaskListForm::Markdown) => {
            let error = format!(
                "no task was found in {path}, and its text was edited since it was planned"
            );
            return Err(CommandError::failed(error)
                .with_hint("`abide plan FILE -- AGENT` has an agent break it into tasks again"));
        }
        (_, TaskListForm::Markdown) => {
            "write each task as a checkbox: `- [ ] What to do`; `abide plan FILE -- AGENT` has an \
            agent break a text into tasks; `abide run AGENT` takes a text as one task"
        }
        (_, TaskListForm::Toml) => "write each task as a table: [[task]] with a title",
        (_, TaskListForm::Json) => "write each task as an object in `tasks`, with a title",
        (_, TaskListForm::Prp) => "write each task as an object in `backlog`",
    };
    Err(CommandError::failed(format!("no task was found in {path}")).with_hint(hint))
}

/// Refuses `--write-back` where there is no place for a status.
pub(super) fn check_write_back(document: Option<&TaskListDocument>) -> Result<(), CommandError> {
    match document {
        None => Err(CommandError::Usage("--write-back needs --plan".to_owned())),
        Some(document) if document.plan.tasks.is_empty() => {
            let path = Path::new(&document.path).to_owned();
            Err(abide::Error::NoTasksInFile { path }.into())
        }
        Some(_) => Ok(()),
    }
}

/// The tasks of a plan as they would be recorded.
pub(super) fn tree_of(plan: &TaskList) -> Result<TaskTree, CommandError> {
    let mut state = SessionState::default();
    let events = plan.events().map_err(abide::Error::from)?;
    for (event, seq) in events.into_iter().zip(1..) {
        state.apply(&event.into_event(Seq(seq), Timestamp::default()));
    }
    Ok(TaskTree::of(&state.tasks))
}

/// A plan and the session it matches.
pub(super) struct MatchedPlan {
    pub(super) document: TaskListDocument,
    pub(super) matched: TaskListMatch,
}

impl MatchedPlan {
    /// Finds the session of a plan.
    pub(super) fn find(
        document: TaskListDocument,
        opened: &ScopedStore,
    ) -> Result<Self, CommandError> {
        let matched = opened.store.match_plan(&document)?;
        Ok(Self { document, matched })
    }

    /// Prints what was found.
    pub(super) fn tell(&self) {
        match &self.matched {
            TaskListMatch::Same(_) | TaskListMatch::New => {}
            TaskListMatch::Edited { parent, delta } => status(format_args!(
                "The plan was edited since session {}: {} unchanged, {} changed, {} new, {} \
                removed",
                parent.short(SessionId::SHORT),
                noun_count(delta.kept.len(), "task"),
                delta.changed.len(),
                delta.added.len(),
                delta.removed.len()
            )),
        }
    }

    /// The session of the plan, created if there is none. `go_on` is required to continue one that
    /// has been run.
    pub(super) fn session(
        self,
        opened: &ScopedStore,
        title: Option<String>,
        go_on: bool,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        if let TaskListMatch::Same(id) = &self.matched
            && !go_on
        {
            let view = opened.store.view(&SessionRef::Id(*id))?;
            let state = view.state()?;
            if state.core.run.is_some() {
                let progress = TaskTree::of(&state.tasks).progress(None);
                let short = id.short(SessionId::SHORT);
                return Err(CommandError::failed(format!(
                    "session {short} already uses this plan: {} of {} tasks done",
                    progress.complete,
                    progress.all - progress.obsolete
                ))
                .with_hint("`--continue` continues it"));
            }
        }
        let workspace = surroundings.current_dir.to_string_lossy().into_owned();
        let fields =
            SessionFields { title, workspace: Some(workspace), ..SessionFields::default() };
        Ok(opened.store.start_plan(&self.document, self.matched, NewSession::from(fields))?)
    }

    /// The tasks as they would be, without recording anything.
    pub(super) fn tree(&self, opened: &ScopedStore) -> Result<TaskTree, CommandError> {
        let plan = match &self.matched {
            TaskListMatch::Same(id) => {
                let state = opened.store.view(&SessionRef::Id(*id))?.state()?;
                return Ok(TaskTree::of(&state.tasks));
            }
            TaskListMatch::Edited { delta, .. } => &delta.plan,
            TaskListMatch::New => &self.document.plan,
        };
        tree_of(plan)
    }
}

/// Shows the tasks in the order they would run.
pub(super) fn dry_run(
    mut tree: TaskTree,
    scope: Option<&TaskId>,
    retry_failed: bool,
    most: Option<u64>,
    json: bool,
) -> Result<(), CommandError> {
    if let Some(scope) = scope
        && tree.get(scope.as_str()).is_none()
    {
        return Err(abide_runner::RunError::NoScope(scope.clone()).into());
    }
    let mut out = CommandOutput::stdout();
    let active: Vec<TaskId> = tree
        .walk(scope)
        .filter(|(node, _)| {
            let failed = retry_failed && node.status == abide::TaskStatus::Failed;
            node.status.is_active() || failed
        })
        .map(|(node, _)| node.id.clone())
        .collect();
    for task in active {
        tree.set_status(task.as_str(), abide::TaskStatus::Planned);
    }
    let mut count = 0;
    loop {
        let Some(next) = tree.ready(scope).next().filter(|_| most != Some(count)) else { break };
        let (task, title) = (next.id.clone(), next.title.clone());
        count += 1;
        if json {
            let line = serde_json::json!({"order": count, "task": task, "title": title});
            out.json(&line.to_string())?;
        } else {
            out.line(format_args!("{count:>4}  {task}  {}", escape::text(&title)))?;
        }
        tree.set_status(task.as_str(), abide::TaskStatus::Complete);
    }
    out.flush()?;
    let progress = tree.progress(scope);
    let stuck = progress.all - progress.complete - progress.obsolete;
    if stuck > 0 {
        let why = match stuck {
            1 => "it failed, is blocked, or waits for such tasks",
            _ => "they failed, are blocked, or wait for such tasks",
        };
        status(format_args!("{} would not be run: {why}", noun_count(stuck, "task")));
    }
    let tasks = noun_count(count, "task");
    status(format_args!("{tasks} would be run; nothing was done"));
    Ok(())
}
