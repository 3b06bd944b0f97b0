//! Sessions of plan documents: finds them, starts them, and continues from them after the document
//! was edited.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use abide_local::{TrustPolicy, find_project};
use abide_model::{
    EventLimits, EventRange, HistoryEntry, HistoryQuery, Kind, NewEvent, NewSession, ParentReason,
    Seq, SessionFields, SessionId, SessionParent, SessionRef, SessionState, SourceDocument,
    StoreError, TaskChange, TaskCreated, TaskId, TaskTree, Timestamp,
};
use abide_plan::{
    DocumentTask, REMOVED, TaskList, TaskListDelta, TaskListError, TaskListEvents, TaskListForm,
    delta, sha256,
};

use crate::redaction::redact_event;
use crate::tasks::apply_change;
use crate::{Error, Session, SessionView, Store, tasks::SessionTasks};

/// The label that holds the path of a session's plan.
pub const PLAN_LABEL: &str = "plan";
/// The label that holds the number of tasks the plan had when it was recorded. It is recorded last:
/// if it is present, the plan is complete.
pub const PLAN_TASKS_LABEL: &str = "plan-tasks";
/// The label that holds the SHA-256 of the text that was last written back into the document. It is
/// recorded before the text is written; `source` has the text before.
pub const PLAN_WRITTEN_LABEL: &str = "plan-written";
/// The label that holds the SHA-256 of the text that was last replaced in the document, and of the one
/// that was to take its place, whoever wrote the former.
pub(crate) const PLAN_REPLACED_LABEL: &str = "plan-replaced";

/// How many forks of forks are followed to the session that knows a text.
const MOST_FORKS: usize = 64;
/// Maximum length of a session key.
const MAX_KEY: usize = 512;
/// Gaps of up to this many events are read through rather than skipped.
const GAP: u64 = 256;
/// Maintenance events, which do not count as work in a session.
const UPKEEP: [Kind; 5] = [
    Kind::WRITER_OPENED,
    Kind::WRITER_CLOSED,
    Kind::RECOVERY_PERFORMED,
    Kind::CHECKPOINT_THINNED,
    Kind::PAYLOAD_ERASED,
];

/// A plan and its file.
#[derive(Debug, Clone)]
pub struct TaskListDocument {
    /// The absolute path of the file.
    pub path: String,
    /// The SHA-256 of its bytes.
    pub sha256: String,
    /// The parsed plan.
    pub plan: TaskList,
}

/// How a plan document relates to the sessions in a store.
#[derive(Debug, Clone)]
pub enum TaskListMatch {
    /// The session of exactly this document.
    Same(SessionId),
    /// The document was edited since.
    Edited {
        /// The session of this path that was worked in last.
        parent: SessionId,
        /// The changes made by the edit.
        delta: TaskListDelta,
    },
    /// There is no session for it.
    New,
}

impl TaskListDocument {
    /// Parses a plan from the bytes of a file. Without a form, the file name decides.
    pub fn of(
        path: impl Into<String>,
        form: Option<TaskListForm>,
        bytes: &[u8],
    ) -> Result<Self, TaskListError> {
        let path = path.into();
        let form = match form {
            Some(form) => form,
            None => TaskListForm::of(Path::new(&path), bytes)?,
        };
        Ok(Self { plan: TaskList::read(form, bytes)?, sha256: sha256(bytes), path })
    }

    /// The key of its session. Two callers that start the same plan at once get the same session,
    /// but continuing from another position with the same text gives a new one.
    fn key(&self, parent: Option<&SessionParent>) -> String {
        let from = parent.map(|parent| format!("{}@{}:", parent.session, parent.seq.0));
        let start = format!("plan:{}:{}", self.sha256, from.unwrap_or_default());
        if start.len() + self.path.len() <= MAX_KEY {
            return start + &self.path;
        }
        start + &sha256(self.path.as_bytes())
    }

    /// The session to create for it.
    fn session(&self, mut session: NewSession, parent: Option<SessionParent>) -> NewSession {
        let stem = || Path::new(&self.path).file_stem().map(|stem| stem.to_string_lossy().into());
        let fields = &mut session.fields;
        fields.title = fields.title.take().or_else(|| self.plan.title.clone()).or_else(stem);
        fields.labels.insert(PLAN_LABEL.to_owned(), self.path.clone());
        fields.source = Some(self.source());
        let key = self.key(parent.as_ref());
        fields.parent = parent;
        session.with_key(key)
    }

    /// Its path and hash, as a session records them.
    #[must_use]
    pub fn source(&self) -> SourceDocument {
        SourceDocument { path: self.path.clone(), sha256: self.sha256.clone() }
    }
}

impl Store {
    /// Finds the session of a document, or the one it continues from: among the sessions of its
    /// path, the one that was worked in last. If that session was started with this text, or wrote
    /// it itself, it is the document's session. Otherwise the document was edited since, perhaps back to an earlier
    /// text. If no session has the document's path, the document was moved, provided that a session
    /// in the same project has the same text and nothing is left at that session's path.
    pub fn match_plan(&self, document: &TaskListDocument) -> Result<TaskListMatch, Error> {
        let label = Some(PLAN_LABEL.to_owned());
        let mut entries = self.history(&HistoryQuery { label, ..HistoryQuery::default() })?.entries;
        // A session whose tasks were never recorded does not know what was done.
        entries.retain(|entry| is_whole_plan(&entry.overview.fields));
        entries.sort_by_key(|entry| Reverse((entry.overview.updated, entry.id)));
        let latest = match self.latest_with_plan(&entries, &document.path)? {
            Some(latest) => Some(latest),
            None => match plan_moved_from(&entries, document) {
                Some(path) => self.latest_with_plan(&entries, &path)?,
                None => None,
            },
        };
        let Some(latest) = latest else { return Ok(TaskListMatch::New) };
        if self.is_text_of_session(&latest.overview.fields, &document.sha256)? {
            return Ok(TaskListMatch::Same(latest.id));
        }
        let delta = self.plan_delta(latest.id, &document.plan)?;
        Ok(TaskListMatch::Edited { parent: latest.id, delta })
    }

    /// What an edited plan means for a session that continues from this one. Both are compared as they
    /// are recorded, with marks in place of secrets.
    pub fn plan_delta(
        &self,
        session: SessionId,
        edited: &TaskList,
    ) -> Result<TaskListDelta, Error> {
        let (old, edited, _) = self.recorded_plans(session, edited)?;
        Ok(delta(&old, edited))
    }

    /// What [`SessionTasks::import`] of a plan would change in a session, or why it would be refused.
    /// Writes nothing, and works while somebody holds the session.
    pub fn import_delta(
        &self,
        session: SessionId,
        plan: &TaskList,
    ) -> Result<TaskListDelta, Error> {
        let (old, plan, state) = self.recorded_plans(session, plan)?;
        let mut tree = TaskTree::of(&state.tasks);
        let delta = plan_delta_into(&old, &tree, plan);
        let (created, changes) = plan_wishes(&delta, &tree);
        for task in created {
            tree.insert(&task)?;
        }
        for change in changes {
            apply_change(&mut tree, &change)?;
        }
        Ok(delta)
    }

    /// The plan of a session and another one, both as that session records them, and its state. What
    /// was recorded before secrets were redacted has none here either.
    fn recorded_plans(
        &self,
        session: SessionId,
        other: &TaskList,
    ) -> Result<(TaskList, TaskList, SessionState), Error> {
        let view = self.view(&SessionRef::Id(session))?;
        let state = view.state()?;
        let (mut old, mut other) = (view.plan_in(&state)?, other.clone());
        let workspace = state.core.fields.workspace.as_deref().map(Path::new);
        if let Some(redactor) = self.redaction().recorder(workspace)? {
            let record = |event| redact_event(&redactor, event);
            (old, other) = (old.as_recorded(record), other.as_recorded(record));
        }
        Ok((old, other, state))
    }

    /// Does a session know the text of this hash: did it, or one that it was forked from, start with
    /// that text or write it?
    pub(crate) fn is_text_of_session(
        &self,
        fields: &SessionFields,
        sha256: &str,
    ) -> Result<bool, Error> {
        let mut fields = fields.clone();
        for _ in 0..MOST_FORKS {
            if is_plan_text(&fields, sha256) {
                return Ok(true);
            }
            let fork = fields.parent.filter(|parent| parent.reason == ParentReason::Fork);
            let Some(parent) = fork else { return Ok(false) };
            fields = self.view(&SessionRef::Id(parent.session))?.state()?.core.fields;
        }
        Ok(false)
    }

    /// The session of a path that was worked in last; the newest if there are several. `entries`
    /// are sorted by their last events.
    fn latest_with_plan<'a>(
        &self,
        entries: &'a [HistoryEntry],
        path: &str,
    ) -> Result<Option<&'a HistoryEntry>, Error> {
        let mut latest: Option<(Timestamp, &HistoryEntry)> = None;
        let here =
            |entry: &&HistoryEntry| planned_source(entry).is_some_and(|source| source.path == path);
        for entry in entries.iter().filter(here) {
            // No work was done after a session's last event, so the remaining ones cannot be later.
            if latest.is_some_and(|(worked, _)| worked > entry.overview.updated) {
                break;
            }
            let worked = self.worked(entry)?;
            if latest.is_none_or(|(time, best)| (time, best.id) < (worked, entry.id)) {
                latest = Some((worked, entry));
            }
        }
        Ok(latest.map(|(_, entry)| entry))
    }

    /// When a session was last worked in, not counting maintenance.
    fn worked(&self, entry: &HistoryEntry) -> Result<Timestamp, Error> {
        let range = EventRange::ALL.backward().limit(16);
        for event in self.view(&SessionRef::Id(entry.id))?.events(range) {
            let event = event?;
            if !UPKEEP.contains(&event.kind) {
                return Ok(event.at);
            }
        }
        Ok(entry.overview.created)
    }

    /// Starts the session of a document, or completes a start that was interrupted. `session` gives
    /// its other fields. Refused while somebody works in the session it continues from, and if the
    /// plan cannot be recorded; in both cases nothing is created.
    pub fn start_plan(
        &self,
        document: &TaskListDocument,
        matched: TaskListMatch,
        session: NewSession,
    ) -> Result<SessionId, Error> {
        match matched {
            TaskListMatch::Same(id) => {
                self.record_plan(id, document, None)?;
                self.follow_plan_document(id, document)?;
                Ok(id)
            }
            TaskListMatch::New => self.begin_plan(document, session, None, document.plan.clone()),
            TaskListMatch::Edited { parent, .. } => {
                // Anyone else who starts it waits here and then finds what this call created.
                let held = self.open_session(&SessionRef::Id(parent))?;
                let plan = self.plan_delta(parent, &document.plan)?.plan;
                let seq = held.view().acknowledged()?;
                let link = SessionParent { session: parent, seq, reason: ParentReason::Delta };
                self.begin_plan(document, session, Some(link), plan)
            }
        }
    }

    fn begin_plan(
        &self,
        document: &TaskListDocument,
        session: NewSession,
        parent: Option<SessionParent>,
        plan: TaskList,
    ) -> Result<SessionId, Error> {
        let limits = EventLimits::default();
        for event in missing_plan_events(&plan, &SessionState::default())? {
            event.check(&limits)?;
        }
        let id = self.make(document.session(session, parent))?;
        self.record_plan(id, document, Some(plan))?;
        Ok(id)
    }

    /// Records the new path of a session's document after it was moved, so that it is found there
    /// after the next edit. If somebody holds the session, this is left for the next time.
    fn follow_plan_document(
        &self,
        id: SessionId,
        document: &TaskListDocument,
    ) -> Result<(), Error> {
        let fields = self.view(&SessionRef::Id(id))?.state()?.core.fields;
        if fields.source.is_none_or(|source| source == document.source()) {
            return Ok(());
        }
        let session = match self.open_session(&SessionRef::Id(id)) {
            Ok(session) => session,
            Err(Error::Store(StoreError::Held { .. })) => return Ok(()),
            Err(error) => return Err(error),
        };
        let labels = [(PLAN_LABEL.to_owned(), document.path.clone())].into();
        let source = Some(document.source());
        session.append(SessionFields { labels, source, ..SessionFields::default() })?.wait()?;
        session.close()
    }

    /// Records what is missing of a session's plan.
    fn record_plan(
        &self,
        id: SessionId,
        document: &TaskListDocument,
        plan: Option<TaskList>,
    ) -> Result<(), Error> {
        let view = self.view(&SessionRef::Id(id))?;
        if is_whole_plan(&view.state()?.core.fields) {
            return Ok(());
        }
        let session = match self.open_session(&SessionRef::Id(id)) {
            Ok(session) => session,
            // Another caller that started it at the same time holds it, and may have finished.
            Err(Error::Store(StoreError::Held { .. }))
                if is_whole_plan(&view.state()?.core.fields) =>
            {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let state = session.state()?;
        if !is_whole_plan(&state.core.fields) {
            let plan = match (plan, plan_delta_parent(&state.core.fields)) {
                (Some(plan), _) => plan,
                (None, Some(parent)) => self.plan_delta(parent, &document.plan)?.plan,
                (None, None) => document.plan.clone(),
            };
            // What is there already is found by its id, which may have a mark.
            let plan = match state.tasks.is_empty() {
                true => plan,
                false => session.recorded_plan(plan),
            };
            session.append_all(missing_plan_events(&plan, &state)?)?.wait()?;
        }
        session.close()
    }
}

fn planned_source(entry: &HistoryEntry) -> Option<&SourceDocument> {
    entry.overview.fields.source.as_ref()
}

/// The path of a document before it was moved: that of the newest session with its text in the same
/// project, if nothing is left at that path. A copy is a different document.
fn plan_moved_from(entries: &[HistoryEntry], document: &TaskListDocument) -> Option<String> {
    let project = project_of_plan(&document.path);
    let same = |source: &&SourceDocument| {
        !Path::new(&source.path).try_exists().unwrap_or(true)
            && project_of_plan(&source.path) == project
    };
    let entries =
        entries.iter().filter(|entry| is_plan_text(&entry.overview.fields, &document.sha256));
    entries.filter_map(planned_source).find(same).map(|source| source.path.clone())
}

/// The project that contains, or contained, a file.
fn project_of_plan(path: &str) -> Option<PathBuf> {
    let there = Path::new(path).ancestors().skip(1).find(|dir| dir.is_dir())?;
    Some(find_project(there, &TrustPolicy::of_process()))
}

/// Was a session started with the text of this hash, or did it write that text itself?
pub(crate) fn is_plan_text(fields: &SessionFields, sha256: &str) -> bool {
    let written = fields.labels.get(PLAN_WRITTEN_LABEL).is_some_and(|written| written == sha256);
    written || fields.source.as_ref().is_some_and(|source| source.sha256 == sha256)
}

fn is_whole_plan(fields: &SessionFields) -> bool {
    fields.labels.contains_key(PLAN_TASKS_LABEL)
}

fn plan_delta_parent(fields: &SessionFields) -> Option<SessionId> {
    let parent = fields.parent.as_ref().filter(|parent| parent.reason == ParentReason::Delta);
    parent.map(|parent| parent.session)
}

/// The events of a plan that a session lacks: all of them, or the rest of an interrupted batch.
fn missing_plan_events(plan: &TaskList, state: &SessionState) -> Result<Vec<NewEvent>, Error> {
    let mut events = Vec::with_capacity(plan.tasks.len() + 2);
    let known = |id: &str| state.tasks.get(id).filter(|task| task.known);
    if !plan.tasks.iter().any(|task| known(task.id.as_str()).is_some()) {
        events.push(plan.recorded()?);
    }
    for task in plan.tasks.iter().filter(|task| known(task.id.as_str()).is_none()) {
        events.push(task.created()?);
    }
    for task in plan.tasks.iter().rev() {
        // Nothing was recorded about it since it was created.
        if known(task.id.as_str()).is_none_or(|state| state.changed == state.created) {
            events.extend(task.standing()?);
        }
    }
    let labels = [(PLAN_TASKS_LABEL.to_owned(), plan.tasks.len().to_string())].into();
    events.push(SessionFields { labels, ..SessionFields::default() }.try_into()?);
    Ok(events)
}

impl SessionTasks {
    /// Merges a plan into the session. Tasks that exist already, matched by their titles from the
    /// root, are updated unless they are done; the others are added. Nothing is removed. Returns
    /// the changes; [`SessionTasks::flush`] records them.
    pub fn import(&mut self, plan: TaskList) -> Result<TaskListDelta, Error> {
        let session = self.session();
        let (old, plan) = (session.recorded_plan(session.plan()?), session.recorded_plan(plan));
        let delta = plan_delta_into(&old, self.tree(), plan);
        if self.tree().is_empty() {
            self.also(delta.plan.recorded()?);
        }
        let (created, changes) = plan_wishes(&delta, self.tree());
        for task in created {
            self.create(task)?;
        }
        for change in changes {
            self.change(change)?;
        }
        let added: HashSet<&TaskId> = delta.added.iter().collect();
        // Subtasks first, so that the status of their parents can follow.
        let there = |task: &&DocumentTask| task.reason.as_deref() != Some(REMOVED);
        for task in delta.plan.tasks.iter().rev().filter(there) {
            let now = self.tree().get(task.id.as_str()).map(|now| now.status).unwrap_or_default();
            let told = task.foreign_status.is_some() || task.result.is_some();
            let wanted = if added.contains(&task.id) {
                task.status != now || told
            } else {
                task.status.is_done() && !now.is_done()
            };
            // A task with open subtasks is not complete, whatever the document says.
            if wanted && self.tree().check_status(task.id.as_str(), task.status).is_ok() {
                self.set(task.standing_fact())?;
            }
        }
        Ok(delta)
    }
}

/// The changes that merging a plan makes to a session: tasks that are done stay as they are, and
/// nothing is removed.
fn plan_delta_into(old: &TaskList, tree: &TaskTree, plan: TaskList) -> TaskListDelta {
    let mut delta = delta(old, plan);
    let is_done = |id: &TaskId| tree.get(id.as_str()).is_some_and(|task| task.status.is_done());
    let (same, changed) = delta.changed.drain(..).partition::<Vec<_>, _>(is_done);
    delta.kept.extend(same);
    delta.changed = changed;
    delta.removed.clear();
    delta
}

/// The new tasks, then the changes to existing tasks.
fn plan_wishes(delta: &TaskListDelta, tree: &TaskTree) -> (Vec<TaskCreated>, Vec<TaskChange>) {
    let added: HashSet<&TaskId> = delta.added.iter().collect();
    let changed: HashSet<&TaskId> = delta.changed.iter().collect();
    let (mut created, mut changes) = (Vec::new(), Vec::new());
    let mut before = HashSet::new();
    for task in delta.plan.tasks.iter().filter(|task| added.contains(&task.id)) {
        let mut fact = task.fact();
        let known = |id: &TaskId| before.contains(id) || tree.get(id.as_str()).is_some();
        if !fact.depends.iter().all(known) {
            // Recorded once all tasks exist.
            changes.push(TaskChange {
                task: task.id.clone(),
                depends: Some(std::mem::take(&mut fact.depends)),
                dependency_types: std::mem::take(&mut fact.dependency_types),
                ..TaskChange::default()
            });
        }
        before.insert(&task.id);
        created.push(fact);
    }
    for task in delta.plan.tasks.iter().filter(|task| changed.contains(&task.id)) {
        changes.push(TaskChange {
            task: task.id.clone(),
            title: None,
            depends: Some(task.depends.clone()),
            dependency_types: task.dependency_types.clone(),
            priority: Some(task.priority),
            details: Some(task.details.clone().unwrap_or_default()),
            documents: Some(task.documents.clone()),
            document_texts: task.document_texts.clone(),
            check: Some(task.check.clone().unwrap_or_default()),
        });
    }
    (created, changes)
}

impl SessionView {
    /// The session's tasks as a plan, with their details, documents and results, and the rest of
    /// the original document.
    pub fn plan(&self) -> Result<TaskList, Error> {
        self.plan_in(&self.state()?)
    }

    /// The tasks of this state of the session.
    fn plan_in(&self, state: &SessionState) -> Result<TaskList, Error> {
        let mut sources = TaskListEvents::new();
        let mut seqs = TaskList::sources(state).into_iter().peekable();
        while let Some(first) = seqs.next() {
            let mut last = first;
            while let Some(next) = seqs.next_if(|next| next.0 - last.0 <= GAP) {
                last = next;
            }
            let range = EventRange { last, ..EventRange::from(first.max(Seq::FIRST)) };
            for event in self.events(range) {
                let event = event?;
                sources.insert(event.seq, event);
            }
        }
        Ok(TaskList::of_session(state, &sources))
    }
}

impl Session {
    /// [`SessionView::plan`] of everything acknowledged so far.
    pub fn plan(&self) -> Result<TaskList, Error> {
        self.view().plan()
    }

    /// A plan as this session records it: with marks in place of secrets.
    pub(crate) fn recorded_plan(&self, plan: TaskList) -> TaskList {
        match self.redactor() {
            Some(redactor) => plan.as_recorded(|event| redact_event(redactor, event)),
            None => plan,
        }
    }
}
