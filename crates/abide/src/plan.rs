//! Sessions of plan documents: found again, begun, gone on from when the document was edited.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use abide_local::{Trust, find_project};
use abide_model::{
    EventRange, HistoryEntry, HistoryQuery, Kind, Limits, NewEvent, NewSession, Parent,
    ParentReason, Seq, SessionFields, SessionId, SessionRef, SessionState, Source, StoreError,
    TaskChange, TaskCreated, TaskId, TaskTree, Timestamp,
};
use abide_plan::{
    Plan, PlanDelta, PlanError, PlanForm, PlanSources, PlanTask, REMOVED, delta, sha256,
};

use crate::tasks::apply_change;
use crate::{Error, Session, SessionView, Store, Tasks};

/// The label that has the path of a session's plan.
pub const PLAN_LABEL: &str = "plan";
/// The label that says how many tasks the plan had when it was recorded. It is the last thing to be
/// recorded of a plan: with it, the plan is whole.
pub const PLAN_TASKS_LABEL: &str = "plan-tasks";

/// The longest key of a session.
const MAX_KEY: usize = 512;
/// Events that are read for nothing rather than looked for one by one.
const GAP: u64 = 256;
/// Events of upkeep, which is no work in a session.
const UPKEEP: [Kind; 5] = [
    Kind::WRITER_OPENED,
    Kind::WRITER_CLOSED,
    Kind::RECOVERY_PERFORMED,
    Kind::CHECKPOINT_THINNED,
    Kind::PAYLOAD_ERASED,
];

/// A plan with the file it is in.
#[derive(Debug, Clone)]
pub struct PlanDocument {
    /// The absolute path of the file.
    pub path: String,
    /// The SHA-256 of its bytes.
    pub sha256: String,
    /// What it says.
    pub plan: Plan,
}

/// What a store has of a plan.
#[derive(Debug, Clone)]
pub enum PlanMatch {
    /// The session of this very document.
    Same(SessionId),
    /// The document was edited since.
    Edited {
        /// The session of its path in which something was done last.
        parent: SessionId,
        /// What the edit means.
        delta: PlanDelta,
    },
    /// Nothing.
    New,
}

impl PlanDocument {
    /// The plan in the bytes of a file; without a form, in the form that its name tells.
    pub fn of(
        path: impl Into<String>,
        form: Option<PlanForm>,
        bytes: &[u8],
    ) -> Result<Self, PlanError> {
        let path = path.into();
        let form = match form {
            Some(form) => form,
            None => PlanForm::of(Path::new(&path), bytes)?,
        };
        Ok(Self { plan: Plan::read(form, bytes)?, sha256: sha256(bytes), path })
    }

    /// The key of its session, so that two who begin it at once get the same; but whoever goes on
    /// from another place with the same text does not.
    fn key(&self, parent: Option<&Parent>) -> String {
        let from = parent.map(|parent| format!("{}@{}:", parent.session, parent.seq.0));
        let start = format!("plan:{}:{}", self.sha256, from.unwrap_or_default());
        if start.len() + self.path.len() <= MAX_KEY {
            return start + &self.path;
        }
        start + &sha256(self.path.as_bytes())
    }

    /// The session to be made for it.
    fn session(&self, mut session: NewSession, parent: Option<Parent>) -> NewSession {
        let stem = || Path::new(&self.path).file_stem().map(|stem| stem.to_string_lossy().into());
        let fields = &mut session.fields;
        fields.title = fields.title.take().or_else(|| self.plan.title.clone()).or_else(stem);
        fields.labels.insert(PLAN_LABEL.to_owned(), self.path.clone());
        fields.source = Some(self.source());
        let key = self.key(parent.as_ref());
        fields.parent = parent;
        session.with_key(key)
    }

    fn source(&self) -> Source {
        Source { path: self.path.clone(), sha256: self.sha256.clone() }
    }
}

impl Store {
    /// The session of a document, or the one that it goes on from: of those of its path the one in
    /// which something was done last. It is the session of this document when it was begun with this
    /// text; where it was begun with another one, the document was edited since, be it back to what
    /// it was before. A document that is at no path of a session is one that was moved, when there
    /// is a session of the same text in the same project whose own path is free.
    pub fn match_plan(&self, document: &PlanDocument) -> Result<PlanMatch, Error> {
        let label = Some(PLAN_LABEL.to_owned());
        let mut entries = self.history(&HistoryQuery { label, ..HistoryQuery::default() })?.entries;
        // One whose tasks were never recorded knows nothing of what was done.
        entries.retain(|entry| is_whole(&entry.overview.fields));
        entries.sort_by_key(|entry| Reverse((entry.overview.updated, entry.id)));
        let latest = match self.latest(&entries, &document.path)? {
            Some(latest) => Some(latest),
            None => match moved_from(&entries, document) {
                Some(path) => self.latest(&entries, &path)?,
                None => None,
            },
        };
        let Some(latest) = latest else { return Ok(PlanMatch::New) };
        if source(latest).is_some_and(|source| source.sha256 == document.sha256) {
            return Ok(PlanMatch::Same(latest.id));
        }
        let old = self.view(&SessionRef::Id(latest.id))?.plan()?;
        let delta = delta(&old, document.plan.clone());
        Ok(PlanMatch::Edited { parent: latest.id, delta })
    }

    /// The session of a path in which something was done last, the newest of several. `entries`
    /// are in the order of their last events.
    fn latest<'a>(
        &self,
        entries: &'a [HistoryEntry],
        path: &str,
    ) -> Result<Option<&'a HistoryEntry>, Error> {
        let mut latest: Option<(Timestamp, &HistoryEntry)> = None;
        let here = |entry: &&HistoryEntry| source(entry).is_some_and(|source| source.path == path);
        for entry in entries.iter().filter(here) {
            // Nothing was done in it after its last event, nor in those behind it.
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

    /// When something was last done in a session, other than upkeep.
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

    /// Begins the session of a document, or mends its beginning where that was cut off. What the
    /// new session is, other than that, `session` says. One that goes on from another is refused
    /// for as long as somebody works in that one, and so is a plan that cannot be recorded, before
    /// anything is made.
    pub fn start_plan(
        &self,
        document: &PlanDocument,
        matched: PlanMatch,
        session: NewSession,
    ) -> Result<SessionId, Error> {
        match matched {
            PlanMatch::Same(id) => {
                self.record_plan(id, document, None)?;
                self.follow_document(id, document)?;
                Ok(id)
            }
            PlanMatch::New => self.begin_plan(document, session, None, document.plan.clone()),
            PlanMatch::Edited { parent, .. } => {
                // Whoever else begins it waits for its turn, and finds what is made here.
                let held = self.open_session(&SessionRef::Id(parent))?;
                let plan = delta(&held.plan()?, document.plan.clone()).plan;
                let seq = held.view().acknowledged()?;
                let link = Parent { session: parent, seq, reason: ParentReason::Delta };
                self.begin_plan(document, session, Some(link), plan)
            }
        }
    }

    fn begin_plan(
        &self,
        document: &PlanDocument,
        session: NewSession,
        parent: Option<Parent>,
        plan: Plan,
    ) -> Result<SessionId, Error> {
        let limits = Limits::default();
        for event in missing(&plan, &SessionState::default())? {
            event.check(&limits)?;
        }
        let id = self.make(document.session(session, parent))?;
        self.record_plan(id, document, Some(plan))?;
        Ok(id)
    }

    /// Notes where the document of a session is, when it was moved, so that it is found there when
    /// it is edited next. Where somebody has the session, that is for the next time.
    fn follow_document(&self, id: SessionId, document: &PlanDocument) -> Result<(), Error> {
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

    /// Records what is not recorded yet of a session's plan.
    fn record_plan(
        &self,
        id: SessionId,
        document: &PlanDocument,
        plan: Option<Plan>,
    ) -> Result<(), Error> {
        let view = self.view(&SessionRef::Id(id))?;
        if is_whole(&view.state()?.core.fields) {
            return Ok(());
        }
        let session = match self.open_session(&SessionRef::Id(id)) {
            Ok(session) => session,
            // Whoever began it at the same time has it, and may be done.
            Err(Error::Store(StoreError::Held { .. })) if is_whole(&view.state()?.core.fields) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let state = session.state()?;
        if !is_whole(&state.core.fields) {
            let plan = match (plan, delta_parent(&state.core.fields)) {
                (Some(plan), _) => plan,
                (None, Some(parent)) => {
                    let old = self.view(&SessionRef::Id(parent))?.plan()?;
                    delta(&old, document.plan.clone()).plan
                }
                (None, None) => document.plan.clone(),
            };
            session.append_all(missing(&plan, &state)?)?.wait()?;
        }
        session.close()
    }
}

fn source(entry: &HistoryEntry) -> Option<&Source> {
    entry.overview.fields.source.as_ref()
}

/// The path at which a document was before it was moved: of the newest session of its text, in the
/// same project, with nothing at its path any more. A copy is another document.
fn moved_from(entries: &[HistoryEntry], document: &PlanDocument) -> Option<String> {
    let project = project_of(&document.path);
    let same = |source: &&Source| {
        source.sha256 == document.sha256
            && !Path::new(&source.path).try_exists().unwrap_or(true)
            && project_of(&source.path) == project
    };
    entries.iter().filter_map(source).find(same).map(|source| source.path.clone())
}

/// The project that a file is in, or was in.
fn project_of(path: &str) -> Option<PathBuf> {
    let there = Path::new(path).ancestors().skip(1).find(|dir| dir.is_dir())?;
    Some(find_project(there, &Trust::of_process()))
}

fn is_whole(fields: &SessionFields) -> bool {
    fields.labels.contains_key(PLAN_TASKS_LABEL)
}

fn delta_parent(fields: &SessionFields) -> Option<SessionId> {
    let parent = fields.parent.as_ref().filter(|parent| parent.reason == ParentReason::Delta);
    parent.map(|parent| parent.session)
}

/// The events of a plan that a session does not have: all of them, or the rest of a batch that was
/// cut off.
fn missing(plan: &Plan, state: &SessionState) -> Result<Vec<NewEvent>, Error> {
    let mut events = Vec::with_capacity(plan.tasks.len() + 2);
    let known = |id: &str| state.tasks.get(id).filter(|task| task.known);
    if !plan.tasks.iter().any(|task| known(task.id.as_str()).is_some()) {
        events.push(plan.recorded()?);
    }
    for task in plan.tasks.iter().filter(|task| known(task.id.as_str()).is_none()) {
        events.push(task.created()?);
    }
    for task in plan.tasks.iter().rev() {
        // Nothing was said of it since it was created.
        if known(task.id.as_str()).is_none_or(|state| state.changed == state.created) {
            events.extend(task.standing()?);
        }
    }
    let labels = [(PLAN_TASKS_LABEL.to_owned(), plan.tasks.len().to_string())].into();
    events.push(SessionFields { labels, ..SessionFields::default() }.try_into()?);
    Ok(events)
}

impl Tasks {
    /// Takes a plan into the session: tasks that it has already, by their titles from the root, get
    /// what is said of them now, unless they are done; the others are new. Nothing is taken out.
    /// Gives what is otherwise; [`Tasks::flush`] records it.
    pub fn import(&mut self, plan: Plan) -> Result<PlanDelta, Error> {
        let delta = delta_into(&self.session().plan()?, self.tree(), plan);
        if self.tree().is_empty() {
            self.also(delta.plan.recorded()?);
        }
        let (created, changes) = wishes(&delta, self.tree());
        for task in created {
            self.create(task)?;
        }
        for change in changes {
            self.change(change)?;
        }
        let added: HashSet<&TaskId> = delta.added.iter().collect();
        // Parts first, so that what they are parts of may follow.
        let there = |task: &&PlanTask| task.reason.as_deref() != Some(REMOVED);
        for task in delta.plan.tasks.iter().rev().filter(there) {
            let now = self.tree().get(task.id.as_str()).map(|now| now.status).unwrap_or_default();
            let told = task.foreign_status.is_some() || task.result.is_some();
            let wanted = if added.contains(&task.id) {
                task.status != now || told
            } else {
                task.status.is_done() && !now.is_done()
            };
            // What has open parts is not complete, whatever the document says.
            if wanted && self.tree().check_status(task.id.as_str(), task.status).is_ok() {
                self.set(task.standing_fact())?;
            }
        }
        Ok(delta)
    }
}

/// What a plan means for a session that it is taken into: what is done stays as it is, and nothing
/// is taken out.
fn delta_into(old: &Plan, tree: &TaskTree, plan: Plan) -> PlanDelta {
    let mut delta = delta(old, plan);
    let is_done = |id: &TaskId| tree.get(id.as_str()).is_some_and(|task| task.status.is_done());
    let (same, changed) = delta.changed.drain(..).partition::<Vec<_>, _>(is_done);
    delta.kept.extend(same);
    delta.changed = changed;
    delta.removed.clear();
    delta
}

/// The tasks that are new, and then what is otherwise about tasks.
fn wishes(delta: &PlanDelta, tree: &TaskTree) -> (Vec<TaskCreated>, Vec<TaskChange>) {
    let added: HashSet<&TaskId> = delta.added.iter().collect();
    let changed: HashSet<&TaskId> = delta.changed.iter().collect();
    let (mut created, mut changes) = (Vec::new(), Vec::new());
    let mut before = HashSet::new();
    for task in delta.plan.tasks.iter().filter(|task| added.contains(&task.id)) {
        let mut fact = task.fact();
        let known = |id: &TaskId| before.contains(id) || tree.get(id.as_str()).is_some();
        if !fact.depends.iter().all(known) {
            // Said when all of them are there.
            let depends = Some(std::mem::take(&mut fact.depends));
            changes.push(TaskChange { task: task.id.clone(), depends, ..TaskChange::default() });
        }
        before.insert(&task.id);
        created.push(fact);
    }
    for task in delta.plan.tasks.iter().filter(|task| changed.contains(&task.id)) {
        changes.push(TaskChange {
            task: task.id.clone(),
            title: None,
            depends: Some(task.depends.clone()),
            priority: Some(task.priority),
            details: Some(task.details.clone().unwrap_or_default()),
            documents: Some(task.documents.clone()),
        });
    }
    (created, changes)
}

impl SessionView {
    /// What [`Tasks::import`] of a plan would change, or why it would be refused. Nothing is written,
    /// and the session may be held by somebody.
    pub fn import_delta(&self, plan: Plan) -> Result<PlanDelta, Error> {
        let mut tree = self.tasks()?;
        let delta = delta_into(&self.plan()?, &tree, plan);
        let (created, changes) = wishes(&delta, &tree);
        for task in created {
            tree.insert(&task)?;
        }
        for change in changes {
            apply_change(&mut tree, &change)?;
        }
        Ok(delta)
    }

    /// The session's tasks as a plan, with their details, documents and results, and with what the
    /// document that they came from says beside.
    pub fn plan(&self) -> Result<Plan, Error> {
        let state = self.state()?;
        let mut sources = PlanSources::new();
        let mut seqs = Plan::sources(&state).into_iter().peekable();
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
        Ok(Plan::of_session(&state, &sources))
    }
}

impl Session {
    /// [`SessionView::plan`], of all that is acknowledged.
    pub fn plan(&self) -> Result<Plan, Error> {
        self.view().plan()
    }
}
