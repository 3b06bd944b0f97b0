//! Sessions of plan documents: found again, begun, gone on from when the document was edited.

use std::collections::HashSet;
use std::path::Path;

use abide_model::{
    EventRange, HistoryEntry, HistoryQuery, NewEvent, NewSession, Parent, ParentReason, Seq,
    SessionFields, SessionId, SessionRef, SessionState, Source, StoreError, TaskChange, TaskId,
};
use abide_plan::{
    Plan, PlanDelta, PlanError, PlanForm, PlanSources, PlanTask, REMOVED, delta, sha256,
};

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
        /// The newest session of its path.
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

    /// The key of its session, so that two who begin it at once get the same.
    fn key(&self) -> String {
        let key = format!("plan:{}:{}", self.sha256, self.path);
        if key.len() <= MAX_KEY {
            return key;
        }
        format!("plan:{}:{}", self.sha256, sha256(self.path.as_bytes()))
    }

    /// The session to be made for it.
    fn session(&self, mut session: NewSession, parent: Option<Parent>) -> NewSession {
        let stem = || Path::new(&self.path).file_stem().map(|stem| stem.to_string_lossy().into());
        let fields = &mut session.fields;
        fields.title = fields.title.take().or_else(|| self.plan.title.clone()).or_else(stem);
        fields.labels.insert(PLAN_LABEL.to_owned(), self.path.clone());
        fields.source = Some(Source { path: self.path.clone(), sha256: self.sha256.clone() });
        fields.parent = parent;
        session.with_key(self.key())
    }
}

impl Store {
    /// The session of a document, or the one that it goes on from.
    pub fn match_plan(&self, document: &PlanDocument) -> Result<PlanMatch, Error> {
        match self.find(&SessionRef::Key(document.key())) {
            Ok(session) => return Ok(PlanMatch::Same(session)),
            Err(Error::Store(StoreError::NoSession { .. })) => {}
            Err(error) => return Err(error),
        }
        let label = Some(PLAN_LABEL.to_owned());
        let mut entries = self.history(&HistoryQuery { label, ..HistoryQuery::default() })?.entries;
        // The newest first: an id tells when its session was made.
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.id));
        let source = |entry: &HistoryEntry| entry.overview.fields.source.clone();
        let same = |entry: &&HistoryEntry| {
            source(entry).is_some_and(|source| source.sha256 == document.sha256)
        };
        let here = |entry: &&HistoryEntry| {
            source(entry).is_some_and(|source| source.path == document.path)
        };
        if let Some(entry) = entries.iter().filter(same).max_by_key(|entry| here(entry)) {
            return Ok(PlanMatch::Same(entry.id));
        }
        // One whose tasks were never recorded knows nothing of what was done.
        let whole = |entry: &&HistoryEntry| is_whole(&entry.overview.fields);
        let Some(parent) = entries.iter().filter(here).find(whole).map(|entry| entry.id) else {
            return Ok(PlanMatch::New);
        };
        let old = self.view(&SessionRef::Id(parent))?.plan()?;
        Ok(PlanMatch::Edited { parent, delta: delta(&old, document.plan.clone()) })
    }

    /// Begins the session of a document, or mends its beginning where that was cut off. What the
    /// new session is, other than that, `session` says.
    pub fn start_plan(
        &self,
        document: &PlanDocument,
        matched: PlanMatch,
        session: NewSession,
    ) -> Result<SessionId, Error> {
        let (id, plan) = match matched {
            PlanMatch::Same(id) => (id, None),
            PlanMatch::New => {
                (self.make(document.session(session, None))?, Some(document.plan.clone()))
            }
            PlanMatch::Edited { parent, delta } => {
                let seq = self.view(&SessionRef::Id(parent))?.acknowledged()?;
                let link = Parent { session: parent, seq, reason: ParentReason::Delta };
                (self.make(document.session(session, Some(link)))?, Some(delta.plan))
            }
        };
        self.record_plan(id, document, plan)?;
        Ok(id)
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
                // Somebody else made it, and from another parent.
                (_, Some(parent)) => {
                    let old = self.view(&SessionRef::Id(parent))?.plan()?;
                    delta(&old, document.plan.clone()).plan
                }
                (Some(plan), None) => plan,
                (None, None) => document.plan.clone(),
            };
            session.append_all(missing(&plan, &state)?)?.wait()?;
        }
        session.close()
    }
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
        let old = self.session().plan()?;
        let mut delta = delta(&old, plan);
        if self.tree().is_empty() {
            self.also(delta.plan.recorded()?);
        }
        let is_done = |tasks: &Self, id: &TaskId| {
            tasks.tree().get(id.as_str()).is_some_and(|task| task.status.is_done())
        };
        let (same, changed) =
            delta.changed.drain(..).partition::<Vec<_>, _>(|id| is_done(self, id));
        delta.kept.extend(same);
        delta.changed = changed;
        delta.removed.clear();
        let added: HashSet<&TaskId> = delta.added.iter().collect();
        let changed: HashSet<&TaskId> = delta.changed.iter().collect();
        let mut later = Vec::new();
        for task in delta.plan.tasks.iter().filter(|task| added.contains(&task.id)) {
            let mut created = task.fact();
            let known = |id: &TaskId| self.tree().get(id.as_str()).is_some();
            if !created.depends.iter().all(known) {
                created.depends.clear();
                later.push(task);
            }
            self.create(created)?;
        }
        for task in later {
            let depends = Some(task.depends.clone());
            let task = task.id.clone();
            self.change(TaskChange { task, depends, ..TaskChange::default() })?;
        }
        for task in delta.plan.tasks.iter().filter(|task| changed.contains(&task.id)) {
            self.change(TaskChange {
                task: task.id.clone(),
                title: None,
                depends: Some(task.depends.clone()),
                priority: Some(task.priority),
                details: Some(task.details.clone().unwrap_or_default()),
                documents: Some(task.documents.clone()),
            })?;
        }
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

impl SessionView {
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
