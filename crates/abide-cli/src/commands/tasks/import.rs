//! `abide tasks import`: imports the tasks of a plan document.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide::{
    NewSession, SessionFields, SessionId, SessionRef,
    tasks::{
        SessionTasks, TaskId, TaskList, TaskListDelta, TaskListDocument, TaskListForm,
        TaskListMatch,
    },
};
use abide_transcript::escape;
use serde::Serialize;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status};
use crate::daily_cleanup::run_daily_cleanup;
use crate::error::{CommandError, at};
use crate::scoped_store::{NameMatch, ScopedStore};

/// No plan is larger than this.
const MOST_BYTES: u64 = (64 << 20) + 1;

/// Import the tasks of a plan document
///
/// A document is matched to its session by its SHA-256. If it was edited since, a new session
/// continues from the old one: tasks are matched by their titles from the root; unchanged tasks
/// keep their results, changed and new tasks are planned, and removed tasks become obsolete. With
/// --session, the tasks are imported into that session instead, and none is removed from it. Prints
/// the session.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide tasks import plan.md
  abide tasks import tasks.json --dry-run
  generate-plan | abide tasks import - --format json --session abc123")]
pub(crate) struct TasksImportArgs {
    /// The document: .md, .toml, .json (with a `backlog`: PRP), or - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Format of the document: prp, markdown, toml or json [default: by its file name]
    #[arg(long, value_name = "FORM")]
    format: Option<TaskListForm>,
    /// Import into this session
    #[arg(short, long, value_name = "SESSION")]
    session: Option<String>,
    /// Only show which tasks would be new, changed, obsolete and kept
    #[arg(long)]
    dry_run: bool,
    /// Print {"session":…,"outcome":…,"kept":[…],"changed":[…],"added":[…],"removed":[…]}
    #[arg(long)]
    json: bool,
}

/// The outcome of the import, as JSON.
#[derive(Serialize)]
struct TasksImportReport<'a> {
    session: Option<SessionId>,
    short: Option<String>,
    /// `new`, `same`, `delta` or `into`.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<SessionId>,
    kept: &'a [TaskId],
    changed: &'a [TaskId],
    added: &'a [TaskId],
    removed: &'a [TaskId],
    dry_run: bool,
}

/// What the import would do.
struct TasksImportPlan {
    outcome: &'static str,
    session: Option<SessionId>,
    parent: Option<SessionId>,
    delta: TaskListDelta,
}

impl TasksImportArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let document = self.document(surroundings)?;
        if let Some(named) = &self.session {
            return self.take_into_session(named, document, surroundings);
        }
        let opened = match surroundings.find_store()? {
            None if !self.dry_run => Some(surroundings.open_or_init_store()?),
            found => found,
        };
        let matched = match &opened {
            Some(opened) => opened.store.match_plan(&document)?,
            None => TaskListMatch::New,
        };
        let mut meaning = TasksImportPlan::of(&matched, &document);
        if !self.dry_run
            && let Some(opened) = &opened
        {
            let workspace = surroundings.current_dir.to_string_lossy().into_owned();
            let fields = SessionFields { workspace: Some(workspace), ..SessionFields::default() };
            let id = opened.store.start_plan(&document, matched, NewSession::from(fields))?;
            run_daily_cleanup(opened, id);
            meaning.session = Some(id);
        }
        self.report(&meaning, opened.as_ref())
    }

    fn document(&self, surroundings: &CommandContext) -> Result<TaskListDocument, CommandError> {
        let stdin = self.file.as_os_str() == "-";
        if stdin && self.format.is_none() {
            return Err(CommandError::Usage("a plan from stdin needs --format".to_owned()));
        }
        let path = surroundings.absolute(&self.file);
        let bytes = if stdin {
            read_task_document(io::stdin().lock(), &self.file)?
        } else {
            let file = File::open(&path).map_err(at("open", self.file.as_path()))?;
            read_task_document(file, &self.file)?
        };
        TaskListDocument::of(path.to_string_lossy(), self.format, &bytes).map_err(|error| {
            let name = self.file.display();
            CommandError::from(abide::Error::from(error)).on(format!("cannot import {name}"))
        })
    }

    fn take_into_session(
        &self,
        named: &str,
        document: TaskListDocument,
        surroundings: &CommandContext,
    ) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = opened.find_by(named, NameMatch::Whole)?;
        let delta = if self.dry_run {
            opened.store.import_delta(id, &document.plan)?
        } else {
            let session = opened.store.open_session(&SessionRef::Id(id))?;
            let mut tasks = SessionTasks::open(Arc::new(session))?;
            let delta = tasks.import(document.plan)?;
            tasks.flush()?;
            if let Some(session) = Arc::into_inner(tasks.into_session()) {
                session.close()?;
            }
            delta
        };
        let meaning = TasksImportPlan { outcome: "into", session: Some(id), parent: None, delta };
        self.report(&meaning, Some(&opened))
    }

    fn report(
        &self,
        meaning: &TasksImportPlan,
        opened: Option<&ScopedStore>,
    ) -> Result<(), CommandError> {
        let TasksImportPlan { outcome, session, parent, delta } = meaning;
        let short = match (session, opened) {
            (Some(id), Some(opened)) => {
                let sessions = opened.store.sessions()?;
                let found = sessions.into_iter().find(|session| session.id == *id);
                Some(found.map_or_else(|| id.short(SessionId::SHORT), |session| session.short))
            }
            _ => None,
        };
        let mut out = CommandOutput::stdout();
        if self.json {
            let report = TasksImportReport {
                session: *session,
                short,
                outcome,
                parent: *parent,
                kept: &delta.kept,
                changed: &delta.changed,
                added: &delta.added,
                removed: &delta.removed,
                dry_run: self.dry_run,
            };
            out.json(&serde_json::to_string(&report).unwrap_or_default())?;
            return out.flush();
        }
        if self.dry_run {
            list_import_changes(&mut out, delta)?;
        } else if let Some(short) = &short {
            out.line(short)?;
        }
        out.flush()?;
        let counts = format!(
            "{} new, {} changed, {} obsolete, {} kept",
            delta.added.len(),
            delta.changed.len(),
            delta.removed.len(),
            delta.kept.len()
        );
        let short = short.unwrap_or_default();
        status(match (*outcome, self.dry_run) {
            ("new", true) => format!("Would begin a session: {counts}"),
            ("new", false) => format!("Began session {short}: {counts}"),
            ("same", _) => format!("Session {short} has this plan: {counts}"),
            ("delta", dry_run) => {
                let parent = parent.map(|parent| parent.short(SessionId::SHORT));
                let verb = if dry_run {
                    "Would begin a session".to_owned()
                } else {
                    format!("Began session {short}")
                };
                format!("{verb} that continues from {}: {counts}", parent.unwrap_or_default())
            }
            (_, true) => format!("Would change session {short}: {counts}"),
            (_, false) => format!("Session {short}: {counts}"),
        });
        Ok(())
    }
}

impl TasksImportPlan {
    fn of(matched: &TaskListMatch, document: &TaskListDocument) -> Self {
        let ids = || document.plan.tasks.iter().map(|task| task.id.clone()).collect();
        let plan = || TaskList { tasks: document.plan.tasks.clone(), ..document.plan.clone() };
        let all = |added: Vec<TaskId>, kept: Vec<TaskId>| TaskListDelta {
            plan: plan(),
            kept,
            changed: Vec::new(),
            added,
            removed: Vec::new(),
        };
        match matched {
            TaskListMatch::New => {
                Self { outcome: "new", session: None, parent: None, delta: all(ids(), Vec::new()) }
            }
            TaskListMatch::Same(id) => Self {
                outcome: "same",
                session: Some(*id),
                parent: None,
                delta: all(Vec::new(), ids()),
            },
            TaskListMatch::Edited { parent, delta } => Self {
                outcome: "delta",
                session: None,
                parent: Some(*parent),
                delta: delta.clone(),
            },
        }
    }
}

fn read_task_document(from: impl Read, name: &Path) -> Result<Vec<u8>, CommandError> {
    let mut bytes = Vec::new();
    from.take(MOST_BYTES).read_to_end(&mut bytes).map_err(at("read", name))?;
    Ok(bytes)
}

/// Lists each task and what happens to it, in the order of the plan.
fn list_import_changes(out: &mut CommandOutput, delta: &TaskListDelta) -> Result<(), CommandError> {
    let lists = [
        ("kept", &delta.kept),
        ("changed", &delta.changed),
        ("new", &delta.added),
        ("obsolete", &delta.removed),
    ];
    let becomes: std::collections::HashMap<&TaskId, &str> =
        lists.iter().flat_map(|(word, ids)| ids.iter().map(move |id| (id, *word))).collect();
    for task in &delta.plan.tasks {
        if let Some(word) = becomes.get(&task.id) {
            let text = format!("{word:<9}{:<12}{} {}", task.status.as_str(), task.id, task.title);
            out.line(escape::text(&text))?;
        }
    }
    Ok(())
}
