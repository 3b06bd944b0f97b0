//! Cleanup: applies retention to the sessions of the store, planned first and then applied.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use abide_journal::{
    Access, JournalIdentity, JournalItem, JournalWalkStart, LockMode, StorageLock, read_full,
    write_full,
};
use abide_maintain::{
    CleanupOutcome, CleanupPlan, CleanupRules, ClockJump, SessionTally, StoredSession,
    status_at_cleanup,
};
use abide_model::{
    AnomalyPolicy, CheckpointFacts, Durability, Fact, Kind, NewEvent, Payload, Retention,
    RetentionOverrides, Seq, SessionFacts, SessionFields, SessionId, SessionReader, SessionWriter,
    StoreError, Thinning, Timestamp, plan_checkpoints, read_session_name,
};

use crate::error::{storage_error, store_error};
use crate::maintain::collector::AssumedRemovals;
use crate::maintain::disk_use::disk_use_below;
use crate::sessions::local_store::LocalStore;
use crate::sessions::session_ancestry::MissingParentPolicy;
use crate::store_layout::{SessionLayout, layout_path_text};

const DAY: i64 = 86_400_000;
/// Younger objects are not collected: whoever stored them may be about to name them.
const GRACE: Duration = Duration::from_secs(3600);
/// The daily cleanup compresses about this many bytes: a command waits for it.
const DAILY_BYTES: u64 = 64 << 20;
/// The index is rebuilt when at least one in this many sessions was removed.
pub(crate) const INDEX_PART: usize = 8;
/// How long a cleanup waits for forks being created, and for another cleanup.
const CLEANUP_WAIT: Duration = Duration::from_secs(1);
/// How long the creation of a fork waits for a cleanup.
const FORK_WAIT: Duration = Duration::from_secs(10);
/// Events that determine the numbers of checkpoints.
const CHECKPOINTS: [Kind; 2] = [Kind::CHECKPOINT_CREATED, Kind::CHECKPOINT_THINNED];

/// Checkpoints to drop. While it lives, no fork is created that could rewind to them.
#[derive(Debug, Default)]
pub struct DroppedCheckpoints {
    /// Their numbers.
    pub numbers: Vec<u64>,
    _lock: Option<Box<dyn StorageLock>>,
}

/// The result of the daily cleanup.
#[derive(Debug)]
pub enum DailyCleanup {
    /// It is not due, or there is nothing to remove.
    NotDue,
    /// Nothing was done: the clock seems to have jumped.
    Doubted(ClockJump),
    /// It ran.
    Cleaned(CleanupOutcome),
}

/// The sessions of the store.
#[derive(Default)]
struct StoreInventory {
    sessions: Vec<StoredSession>,
    /// Sessions that cannot be read, and why. Each may be a fork of any other.
    unknown: Vec<String>,
}

/// Plans and applies cleanups of a store.
#[derive(Debug)]
pub struct Cleaner<'a> {
    pub(crate) store: &'a LocalStore,
}

impl Cleaner<'_> {
    /// The rules of a cleanup, from the store's settings.
    #[must_use]
    pub fn rules(&self) -> CleanupRules {
        let config = self.store.config();
        CleanupRules {
            retention: config.retention.clone(),
            projects: config
                .project
                .iter()
                .filter(|(_, it)| it.retention != RetentionOverrides::default())
                .map(|(name, it)| (name.clone(), it.retention.clone()))
                .collect(),
            only: Vec::new(),
            known_by: self.store.options().projects.clone(),
        }
    }

    /// Plans a cleanup by these rules. Changes nothing.
    pub fn plan(&self, rules: impl Into<CleanupRules>) -> Result<CleanupPlan, StoreError> {
        let now = (self.store.options().env.now)();
        let mut plan = self.plan_sessions(&rules.into(), now, None)?;
        plan.leftovers = self.store.remover().leftovers()?.len() as u64;
        plan.unsealed = self.unsealed()?;
        let without = AssumedRemovals {
            sessions: plan.sessions.iter().map(|session| session.id).collect(),
            checkpoints: plan
                .checkpoints
                .iter()
                .map(|(id, numbers)| (*id, numbers.iter().copied().collect()))
                .collect(),
        };
        match self.store.collector().preview(&without, GRACE, &mut plan.notes) {
            Ok(objects) => plan.objects = Some(objects),
            Err(error) => plan.notes.push(format!("no objects will be collected: {error}")),
        }
        Ok(plan)
    }

    /// Applies a plan as far as it still holds: a session that was used since stays.
    pub fn apply(
        &self,
        plan: &CleanupPlan,
        rules: impl Into<CleanupRules>,
    ) -> Result<CleanupOutcome, StoreError> {
        let lock = self.hold_cleanup()?;
        let mut cleaned = self.apply_locked(plan, &rules.into())?;
        // Sealing takes long, and holds the lock of each session.
        drop(lock);
        cleaned.sealed = self.seal_unsealed(u64::MAX, None, &mut cleaned.notes)?;
        Ok(cleaned)
    }

    /// Takes the lock over cleanups and erasures; an error if another process holds it, or if a
    /// fork is being created and does not finish shortly.
    pub(crate) fn hold_cleanup(&self) -> Result<Box<dyn StorageLock>, StoreError> {
        let held = "a cleanup or an erasure is running, or a fork is being created";
        self.wait_for_cleanup(LockMode::Exclusive, CLEANUP_WAIT, held)
    }

    /// Keeps all sessions in the store until it is dropped. The creation of a fork holds it from
    /// before the parent is looked up.
    pub(crate) fn keep_sessions(&self) -> Result<Box<dyn StorageLock>, StoreError> {
        let held = "a cleanup or an erasure is running";
        self.wait_for_cleanup(LockMode::Shared, FORK_WAIT, held)
    }

    /// The cleanup that commands that write start with, at most once a day: it compresses what was
    /// not written for a day, and removes what the settings say. The session `about` stays.
    pub fn clean_up_daily(&self, about: SessionId) -> Result<DailyCleanup, StoreError> {
        let rules = &self.rules();
        let now = (self.store.options().env.now)();
        let mut note = self.read_cleaned();
        let since = |at: Timestamp| now.as_millis().saturating_sub(at.as_millis());
        let recent = |at: Option<Timestamp>| at.is_some_and(|at| (0..DAY).contains(&since(at)));
        if !recent(note.sealed)
            && let Some(lock) = self.lock_cleanup(LockMode::Exclusive)?
        {
            note.sealed = Some(now);
            self.write_cleaned(note)?;
            drop(lock);
            // What cannot be compressed stays as it is; `abide cleanup` tells.
            let _ = self.seal_unsealed(DAILY_BYTES, Some(about), &mut Vec::new());
        }
        if !rules.any(Retention::is_set) || recent(note.at) || recent(note.doubted) {
            return Ok(DailyCleanup::NotDue);
        }
        let Some(_lock) = self.lock_cleanup(LockMode::Exclusive)? else {
            return Ok(DailyCleanup::NotDue);
        };
        if note.at.is_some_and(|at| since(at) < 0) {
            // The clock went back; measure from here on.
            self.write_cleaned(note.done(now))?;
            return Ok(DailyCleanup::NotDue);
        }
        let jumped = |seen: Timestamp| {
            rules.any(|settings| settings.needs_clock() && settings.clock_jumped(seen, now))
        };
        let plan = match note.clock().filter(|at| jumped(*at)) {
            Some(seen) => {
                CleanupPlan { jumped: Some(ClockJump { seen, now }), ..CleanupPlan::default() }
            }
            None => self.plan_sessions(rules, now, Some(about))?,
        };
        if let Some(jump) = plan.jumped {
            note.doubted = Some(now);
            self.write_cleaned(note)?;
            return Ok(DailyCleanup::Doubted(jump));
        }
        if plan.sessions.is_empty() && plan.checkpoints.is_empty() {
            self.write_cleaned(note.done(now))?;
            if !plan.notes.is_empty() {
                return Ok(DailyCleanup::Cleaned(CleanupOutcome {
                    notes: plan.notes,
                    ..CleanupOutcome::default()
                }));
            }
            return Ok(DailyCleanup::NotDue);
        }
        self.apply_locked(&plan, rules).map(DailyCleanup::Cleaned)
    }

    fn apply_locked(
        &self,
        plan: &CleanupPlan,
        rules: &CleanupRules,
    ) -> Result<CleanupOutcome, StoreError> {
        let mut cleaned = CleanupOutcome::default();
        if let Err(error) = self.store.remover().delete_leftovers() {
            cleaned.notes.push(format!("could not delete what earlier cleanups left: {error}"));
        }
        let now = (self.store.options().env.now)();
        let count = self.store.unsorted_names()?.len();
        // Plan again: what has changed since the plan was shown stays.
        let fresh = self.plan_sessions(rules, now, None)?;
        let new = fresh.notes.iter().filter(|note| !plan.notes.contains(note));
        cleaned.notes.extend(new.cloned());
        self.remove_planned(plan, &fresh, &mut cleaned);
        self.thin_planned(plan, &fresh, &mut cleaned);
        if cleaned.sessions.len() * INDEX_PART >= count.max(1) {
            drop(self.store.index().remove()?);
        }
        match self.store.collector().collect_noting(GRACE, &mut cleaned.notes) {
            Ok(objects) => cleaned.objects = objects,
            Err(error) => cleaned.notes.push(format!("no objects were collected: {error}")),
        }
        // A cleanup of one project leaves the rest due today.
        let note = self.read_cleaned();
        let note = match rules.only.is_empty() {
            true => note.done(now),
            false => CleanupRecord { doubted: None, seen: Some(now), ..note },
        };
        self.write_cleaned(note)?;
        Ok(cleaned)
    }

    /// Removes the sessions that both plans name, forks before their parents.
    fn remove_planned(
        &self,
        plan: &CleanupPlan,
        fresh: &CleanupPlan,
        cleaned: &mut CleanupOutcome,
    ) {
        let shown: HashMap<SessionId, Seq> =
            plan.sessions.iter().map(|session| (session.id, session.last)).collect();
        for session in &fresh.sessions {
            let Some(last) = shown.get(&session.id) else { continue };
            if let Some(fork) = fresh.fork_that_stays(session.id, &cleaned.sessions) {
                let note = format!("session {} stays: its fork {fork} does", session.id);
                cleaned.notes.push(note);
                continue;
            }
            match self.store.remover().remove(session.id, *last, &mut cleaned.notes) {
                Ok(()) => cleaned.sessions.push(session.clone()),
                Err(error) => {
                    cleaned.notes.push(format!("session {} stays: {error}", session.id));
                }
            }
        }
    }

    /// Removes the checkpoints that both plans name.
    fn thin_planned(&self, plan: &CleanupPlan, fresh: &CleanupPlan, cleaned: &mut CleanupOutcome) {
        for (id, numbers) in &fresh.checkpoints {
            let shown = plan.checkpoints_of(*id);
            let both: Vec<u64> =
                numbers.iter().copied().filter(|one| shown.contains(one)).collect();
            // A fork that stays after all can rewind to them.
            if both.is_empty() || fresh.fork_that_stays(*id, &cleaned.sessions).is_some() {
                continue;
            }
            match self.thin(*id, &both) {
                Ok(()) => cleaned.checkpoints += both.len() as u64,
                Err(error) => {
                    cleaned.notes.push(format!("the checkpoints of session {id} stay: {error}"));
                }
            }
        }
    }

    /// Which sessions and checkpoints to remove.
    fn plan_sessions(
        &self,
        rules: &CleanupRules,
        now: Timestamp,
        about: Option<SessionId>,
    ) -> Result<CleanupPlan, StoreError> {
        let StoreInventory { sessions: mut here, unknown } = self.sessions_here()?;
        if !unknown.is_empty() {
            let mut plan = CleanupPlan { notes: unknown, ..CleanupPlan::default() };
            if rules.any(Retention::is_set) {
                let note = "no session and no checkpoint goes: what cannot be read may be a fork \
                            of any session; `abide doctor` tells more";
                plan.notes.push(note.to_owned());
            }
            return Ok(plan);
        }
        for here in here.iter_mut().filter(|here| Some(here.facts.id) == about) {
            here.facts.in_use = true;
        }
        let mut planned = CleanupPlan::of(&mut here, rules, now, self.read_cleaned().clock());
        for removal in &mut planned.sessions {
            // What cannot be read has no name.
            let reader = self.store.reader(removal.id);
            let name = reader.and_then(|reader| read_session_name(&reader));
            removal.name = name.unwrap_or_default();
        }
        Ok(planned)
    }

    fn sessions_here(&self) -> Result<StoreInventory, StoreError> {
        let mut present = StoreInventory::default();
        for name in self.store.names()? {
            let layout = self.store.layout().session(&name);
            let looked = match self.store.identify(&layout).map_err(store_error) {
                Ok(JournalIdentity::Known(id)) => self.look_at(id, &layout),
                Ok(JournalIdentity::Unknown) => Err(StoreError::Damaged {
                    place: layout_path_text(&layout.dir),
                    reason: "no segment names the session".to_owned(),
                }),
                Ok(JournalIdentity::Empty) => continue,
                Err(error) => Err(error),
            };
            match looked {
                Ok(here) => present.sessions.push(here),
                Err(error) => present.unknown.push(format!("session {name} stays: {error}")),
            }
        }
        Ok(present)
    }

    fn look_at(&self, id: SessionId, layout: &SessionLayout) -> Result<StoredSession, StoreError> {
        let reader = self.store.reader_at(id, layout);
        let core = reader.look(MissingParentPolicy::PassOver).map_err(store_error)?.state.core;
        let past = reader.past().map_err(store_error)?;
        // The start of the journal decides, not what was recorded later.
        let parent = past.link().or_else(|| core.fields.parent.clone());
        if past.is_fork() && parent.is_none() {
            return Err(StoreError::Damaged {
                place: layout_path_text(&layout.dir),
                reason: "it is a fork, and its parent cannot be read".to_owned(),
            });
        }
        let at_rest = self.store.at_rest(layout)?;
        let mut damaged = false;
        let mut tally = SessionTally::new(id);
        let bytes = disk_use_below(&**self.store.storage(), &layout.dir)?;
        let mut numbers = reader.checkpoints_in_ancestry().map_err(store_error)?;
        let mut checkpoints: Vec<CheckpointFacts> = Vec::new();
        let mark = reader.mark().map_err(store_error)?;
        let walked = reader.journal().walk(JournalWalkStart::beginning(), mark, &mut |found| {
            match found {
                JournalItem::Event { line, .. } => {
                    tally.line(&line);
                    let Some(head) = line.head() else { return ControlFlow::Continue(()) };
                    if !CHECKPOINTS.contains(&head.kind) {
                        return ControlFlow::Continue(());
                    }
                    let Some(Ok(fact)) = line.event().map(|event| event.fact()) else {
                        return ControlFlow::Continue(());
                    };
                    let number = numbers.take(&head.kind, &fact);
                    if let (Fact::Checkpoint(fact), Some(number)) = (fact, number) {
                        checkpoints.push(CheckpointFacts {
                            number,
                            at: head.at,
                            pinned: fact.pinned,
                            thinned: core.checkpoints.is_thinned(number),
                        });
                    }
                }
                JournalItem::Damage(_) => damaged = true,
                JournalItem::Torn { .. } | JournalItem::Splice { .. } => {}
            }
            ControlFlow::Continue(())
        });
        walked.map_err(store_error)?;
        if !checkpoints.is_empty() {
            // Where the state cannot be read, nobody knows what is needed.
            let needed = reader.state().ok().map(|state| state.needed_checkpoints());
            for checkpoint in &mut checkpoints {
                let is_needed = |needed: &BTreeSet<u64>| needed.contains(&checkpoint.number);
                checkpoint.pinned |= needed.as_ref().is_none_or(is_needed);
            }
        }
        let facts = SessionFacts {
            id,
            last_used: tally.last_used,
            status: status_at_cleanup(core.status, core.writing, at_rest),
            bytes: bytes.saturating_add(tally.bytes),
            parent: parent.map(|parent| parent.session),
            in_use: !at_rest || damaged,
            group: 0,
        };
        let fields = core.fields;
        let project = reader.find_project(fields.project_id)?;
        let workspace = fields.workspace.map(PathBuf::from);
        Ok(StoredSession {
            facts,
            title: fields.title,
            last: tally.last,
            checkpoints,
            project,
            workspace,
        })
    }

    /// Whether the settings drop checkpoints of a session with these fields.
    #[must_use]
    pub fn drops_checkpoints(&self, fields: &SessionFields) -> bool {
        self.retention_of(fields).is_some_and(|settings| settings.drops_checkpoints())
    }

    fn retention_of(&self, fields: &SessionFields) -> Option<Retention> {
        let rules = self.rules();
        let workspace = fields.workspace.as_deref().map(Path::new);
        let group = rules.group_of(fields.project_id.as_deref(), workspace)?;
        rules.groups().into_iter().nth(group)
    }

    /// Which checkpoints of a session the settings drop now that one was made. `seen` is the time of
    /// the event before it: if the clock has jumped since, or since the last cleanup, only their number counts. None of a
    /// session with forks, nor while a cleanup runs or a fork is being created.
    pub fn plan_dropped_checkpoints(
        &self,
        session: SessionId,
        fields: &SessionFields,
        seen: Timestamp,
        checkpoints: &[CheckpointFacts],
    ) -> Result<DroppedCheckpoints, StoreError> {
        let Some(mut settings) = self.retention_of(fields) else {
            return Ok(DroppedCheckpoints::default());
        };
        let now = (self.store.options().env.now)();
        // The first event at a wrong time hides the jump from those after it; the last cleanup does not.
        let cleaned = self.read_cleaned().clock();
        if [Some(seen), cleaned].into_iter().flatten().any(|at| settings.clock_jumped(at, now)) {
            settings = settings.without_clock();
        }
        self.lock_dropped_checkpoints(session, plan_checkpoints(now, checkpoints, &settings))
    }

    /// These checkpoints of a session, to be dropped. None of a session with forks, nor while a cleanup runs
    /// or a fork is being created.
    pub fn lock_dropped_checkpoints(
        &self,
        session: SessionId,
        numbers: Vec<u64>,
    ) -> Result<DroppedCheckpoints, StoreError> {
        if numbers.is_empty() {
            return Ok(DroppedCheckpoints::default());
        }
        let Some(lock) = self.lock_cleanup(LockMode::Exclusive)? else {
            return Ok(DroppedCheckpoints::default());
        };
        if self.store.remover().fork_of(session)?.is_some() {
            return Ok(DroppedCheckpoints::default());
        }
        Ok(DroppedCheckpoints { numbers, _lock: Some(lock) })
    }

    fn thin(&self, id: SessionId, numbers: &[u64]) -> Result<(), StoreError> {
        let fresh: BTreeSet<u64> = numbers.iter().copied().collect();
        let thinning = Thinning { checkpoints: fresh.into_iter().collect() };
        let data = Payload::of(&thinning).map_err(|source| {
            StoreError::Append(abide_model::AppendError::Input {
                index: 0,
                source: std::sync::Arc::new(source),
            })
        })?;
        let writer = self.store.writer(id, Duration::ZERO)?;
        let event = NewEvent::new(Kind::CHECKPOINT_THINNED, data);
        writer.append(vec![event], Durability::Synced, AnomalyPolicy::Keep)?.wait()?;
        Ok(())
    }

    pub(crate) fn lock_cleanup(
        &self,
        mode: LockMode,
    ) -> Result<Option<Box<dyn StorageLock>>, StoreError> {
        let path = self.store.layout().cleanup_lock();
        self.store.storage().lock(&path, mode).map_err(storage_error("lock", &path))
    }

    fn wait_for_cleanup(
        &self,
        mode: LockMode,
        wait: Duration,
        held: &str,
    ) -> Result<Box<dyn StorageLock>, StoreError> {
        let until = Instant::now() + wait;
        loop {
            if let Some(lock) = self.lock_cleanup(mode)? {
                return Ok(lock);
            }
            if Instant::now() >= until {
                let path = self.store.layout().cleanup_lock();
                return Err(storage_error("lock", &path)(std::io::Error::other(held.to_owned())));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn read_cleaned(&self) -> CleanupRecord {
        let read = || {
            let file =
                self.store.storage().open(&self.store.layout().cleaned(), Access::Read).ok()?;
            let mut bytes = [0; 256];
            let read = read_full(&*file, &mut bytes, 0).ok()?;
            String::from_utf8(bytes.get(..read)?.to_vec()).ok()
        };
        let text = read().unwrap_or_default();
        let time = |label: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(label))?;
            Timestamp::from_ascii(line.trim().as_bytes())
        };
        CleanupRecord {
            at: time("cleaned "),
            doubted: time("doubted "),
            seen: time("seen "),
            sealed: time("sealed "),
        }
    }

    fn write_cleaned(&self, note: CleanupRecord) -> Result<(), StoreError> {
        let mut text = String::new();
        let lines = [
            ("cleaned", note.at),
            ("doubted", note.doubted),
            ("seen", note.seen),
            ("sealed", note.sealed),
        ];
        for (label, at) in lines {
            if let Some(at) = at {
                text.push_str(&format!("{label} {at}\n"));
            }
        }
        let path = self.store.layout().cleaned();
        let temporary = path.with_extension("tmp");
        let storage = self.store.storage();
        let file = storage
            .open(&temporary, Access::Create)
            .map_err(storage_error("create", &temporary))?;
        let written = file.truncate(0).and_then(|()| write_full(&*file, text.as_bytes(), 0));
        written.and_then(|()| file.sync()).map_err(storage_error("write", &temporary))?;
        storage.rename(&temporary, &path).map_err(storage_error("write", &path))
    }
}

/// The contents of the file `cleaned`.
#[derive(Debug, Clone, Copy)]
struct CleanupRecord {
    /// When a cleanup of the store last ran, or found nothing to do.
    at: Option<Timestamp>,
    /// When a jump of the clock was last reported.
    doubted: Option<Timestamp>,
    /// When a single project was cleaned up since: the user saw the clock then.
    seen: Option<Timestamp>,
    /// When sessions at rest were last compressed.
    sealed: Option<Timestamp>,
}

impl CleanupRecord {
    /// After a complete cleanup.
    const fn done(self, now: Timestamp) -> Self {
        Self { at: Some(now), doubted: None, seen: None, sealed: self.sealed }
    }

    /// When the clock was last taken to be right.
    fn clock(self) -> Option<Timestamp> {
        self.at.max(self.seen)
    }
}
