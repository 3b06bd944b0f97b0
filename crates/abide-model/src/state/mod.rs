//! The state of a session: a pure fold over its events.
//!
//! A state restored from a cache plus the events since then equals a full replay;
//! [`SessionState::digest`] proves it. The state holds no payloads, only the seqs of their events.
//! What grows with the session is in [`StateTable`]s, which are divided into pages.

mod apply;
mod digest;
mod needed_checkpoints;
mod revisions;
mod savepoint;
mod session_core;
mod state_entry;
mod state_table;
mod tasks;
#[cfg(test)]
mod tests;

pub use self::session_core::{CallCounts, RunState, SessionCore};
pub use digest::Digest;
pub use savepoint::Savepoint;
pub use state_entry::{
    CallState, CheckpointState, FileState, LaneState, LiveCompaction, TaskState, TurnState,
};
pub use state_table::{PageRef, StateTable};
pub(crate) use tasks::TASK_TITLE;

use serde::{Deserialize, Serialize};

use self::session_core::SessionHealth;
use crate::fact::{SessionFields, SessionStatus, Usage};
use crate::{Epoch, Event, Fact, Kind, LaneId, Seq, TaskId, Timestamp};
use revisions::replaced_key;
use state_entry::UsageEntry;
use state_table::TableRoot;

/// The version of the fold. A state cache of another version is rebuilt; it is not damage.
pub const FOLD_VERSION: u32 = 8;

/// How many keys are remembered at least.
const KEYS: u64 = 10_000;

/// The state of a session after its events so far.
#[derive(Debug, Clone)]
pub struct SessionState {
    /// The part that does not grow.
    pub core: SessionCore,
    /// Tasks by id.
    pub tasks: StateTable<TaskState>,
    /// Calls without a result, by call id.
    pub calls: StateTable<CallState>,
    /// Turns by number.
    pub turns: StateTable<TurnState>,
    /// Named lanes; see [`SessionState::lane`].
    pub lanes: StateTable<LaneState>,
    /// Files by path.
    pub files: StateTable<FileState>,
    /// Checkpoints by number.
    pub checkpoints: StateTable<CheckpointState>,
    /// The newest event of each artifact, by name.
    pub artifacts: StateTable<Seq>,
    /// Usage by `model:…` and `lane:…`; never reverts. The usage of a turn is in `turns`.
    pub usage: StateTable<UsageEntry>,
    /// The live events that have a key, by hash of the key. Two generations.
    keys: [StateTable<Seq>; 2],
    /// The newer version of each message that was replaced; see [`SessionState::is_replaced`].
    replaced: StateTable<Seq>,
}

impl Default for SessionState {
    fn default() -> Self {
        Self {
            core: SessionCore::default(),
            tasks: StateTable::new("tasks"),
            calls: StateTable::new("calls"),
            turns: StateTable::new("turns"),
            lanes: StateTable::new("lanes"),
            files: StateTable::new("files"),
            checkpoints: StateTable::new("checkpoints"),
            artifacts: StateTable::new("artifacts"),
            usage: StateTable::new("usage"),
            keys: [StateTable::new("keys"), StateTable::new("keys")],
            replaced: StateTable::new("replaced"),
        }
    }
}

/// A page of one of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatePageId {
    table: usize,
    page: usize,
}

/// Stores the pages of a state cache.
pub trait StatePageSink {
    /// Why storing failed.
    type Error;
    /// Stores these bytes and returns where they are.
    fn put(&mut self, page: Vec<u8>) -> Result<PageRef, Self::Error>;
}

/// Why a state cache could not be used. It is derived data: rebuild it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatePageError {
    /// Unreadable.
    #[error("the state cache is unreadable")]
    Unreadable(#[from] serde_json::Error),
    /// Made by another version of the fold.
    #[error("the state cache has fold version {found}, not {FOLD_VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
}

#[derive(Serialize, Deserialize)]
struct StateRoot {
    fold: u32,
    core: SessionCore,
    tables: Vec<TableRoot>,
}

/// Runs `$body` with `$table` bound to each table, in the order of their numbers.
macro_rules! each_table {
    ($state:expr, |$index:ident, $table:ident| $body:expr) => {{
        let [keys_new, keys_old] = &mut $state.keys;
        {
            let ($index, $table) = (0usize, &mut $state.tasks);
            $body
        }
        {
            let ($index, $table) = (1usize, &mut $state.calls);
            $body
        }
        {
            let ($index, $table) = (2usize, &mut $state.turns);
            $body
        }
        {
            let ($index, $table) = (3usize, &mut $state.lanes);
            $body
        }
        {
            let ($index, $table) = (4usize, &mut $state.files);
            $body
        }
        {
            let ($index, $table) = (5usize, &mut $state.checkpoints);
            $body
        }
        {
            let ($index, $table) = (6usize, &mut $state.artifacts);
            $body
        }
        {
            let ($index, $table) = (7usize, &mut $state.usage);
            $body
        }
        {
            let ($index, $table) = (8usize, keys_new);
            $body
        }
        {
            let ($index, $table) = (9usize, keys_old);
            $body
        }
        {
            let ($index, $table) = (10usize, &mut $state.replaced);
            $body
        }
    }};
}

use each_table;

impl SessionState {
    /// A digest of the whole state. Two states are equal if their digests are.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut digest =
            Digest::of("core", "", &serde_json::to_vec(&self.core).unwrap_or_default());
        let [keys_new, keys_old] = &self.keys;
        let tables = [
            self.tasks.digest(),
            self.calls.digest(),
            self.turns.digest(),
            self.lanes.digest(),
            self.files.digest(),
            self.checkpoints.digest(),
            self.artifacts.digest(),
            self.usage.digest(),
            keys_new.digest(),
            keys_old.digest(),
            self.replaced.digest(),
        ];
        tables.into_iter().for_each(|table| digest.add(table));
        digest
    }

    /// The live event with this key, if still remembered. The key of a rewound event is free.
    #[must_use]
    pub fn key(&self, key: &str) -> Option<Seq> {
        let hashed = state_hashed_key(key);
        self.keys.iter().find_map(|table| table.get(&hashed)).copied()
    }

    /// Writes the pages that changed since the last save. Returns the root as JSON.
    pub fn save<S: StatePageSink>(&mut self, sink: &mut S) -> Result<Vec<u8>, S::Error> {
        let mut tables = Vec::with_capacity(NAMES.len());
        let mut put = |bytes| sink.put(bytes);
        each_table!(self, |_index, table| tables.push(table.save(&mut put)?));
        let root = StateRoot { fold: FOLD_VERSION, core: self.core.clone(), tables };
        Ok(serde_json::to_vec(&root).unwrap_or_default())
    }

    /// Forgets where pages were written: the next [`SessionState::save`] writes every loaded page.
    /// Load those of [`SessionState::away`] first.
    pub fn unsave(&mut self) {
        each_table!(self, |_index, table| table.unsave());
    }

    /// The state of a root, with no page loaded yet.
    pub fn restore(root: &[u8]) -> Result<Self, StatePageError> {
        #[derive(Deserialize)]
        struct FoldVersion {
            fold: u32,
        }
        let version: FoldVersion = serde_json::from_slice(root)?;
        if version.fold != FOLD_VERSION {
            return Err(StatePageError::Version { found: version.fold });
        }
        let root: StateRoot = serde_json::from_slice(root)?;
        let mut state = Self { core: root.core, ..Self::default() };
        let mut tables = root.tables.into_iter();
        each_table!(state, |_index, table| {
            if let Some(root) = tables.next() {
                *table = StateTable::restore(NAMES.get(_index).copied().unwrap_or_default(), root);
            }
        });
        Ok(state)
    }

    /// The pages to load before `event` is applied. Call again after loading them, because the page
    /// of a task names its neighbours.
    #[must_use]
    pub fn missing(&mut self, event: &Event) -> Vec<StatePageId> {
        let mut wanted: Vec<(usize, String)> = Vec::new();
        let lane = event.lane.as_ref().map(LaneId::as_str).unwrap_or_default();
        if !lane.is_empty() {
            wanted.push((3, lane.to_owned()));
        }
        if let Some(key) = &event.key {
            let hashed = state_hashed_key(key);
            wanted.extend([(8, hashed.clone()), (9, hashed)]);
        }
        let mut tasks: Vec<TaskId> = Vec::new();
        let versions = event.replaces().map(|old| self.versions_since(lane, old));
        wanted.extend(versions.into_iter().flatten().map(|seq| (10, replaced_key(lane, seq))));
        if event.kind != Kind::MESSAGE_ADDED {
            match event.fact() {
                Ok(Fact::ToolCall(fact)) => wanted.push((1, fact.call.0)),
                Ok(Fact::ToolResult(fact)) => wanted.push((1, fact.call.0)),
                Ok(Fact::ApiCall(fact)) => wanted.extend(fact.call.map(|call| (1, call.0))),
                Ok(Fact::ApiResult(fact)) => {
                    wanted.extend(fact.call.map(|call| (1, call.0)));
                    wanted
                        .extend(state_usage_keys(fact.model.as_deref(), lane).map(|key| (7, key)));
                    wanted.extend(self.turn_of(event).map(|turn| (2, turn)));
                }
                Ok(Fact::Usage(fact)) => {
                    wanted
                        .extend(state_usage_keys(fact.model.as_deref(), lane).map(|key| (7, key)));
                    wanted.extend(self.turn_of(event).map(|turn| (2, turn)));
                }
                Ok(Fact::TurnStarted(fact)) => {
                    let turn = fact.turn.unwrap_or(self.core.turns.last.next());
                    wanted.push((2, turn.to_string()));
                }
                Ok(Fact::TurnDecided(fact)) => {
                    wanted
                        .extend(self.turn_named(fact.turn, lane).map(|turn| (2, turn.to_string())));
                }
                Ok(Fact::TurnFinished(fact)) => {
                    wanted
                        .extend(self.turn_named(fact.turn, lane).map(|turn| (2, turn.to_string())));
                    wanted.extend(state_usage_keys(None, lane).map(|key| (7, key)));
                    wanted.extend(self.turn_of(event).map(|turn| (2, turn)));
                }
                Ok(Fact::FileTouched(fact)) => {
                    wanted.extend(fact.to.map(|path| (4, path)));
                    wanted.push((4, fact.path));
                }
                Ok(Fact::Artifact(fact)) => wanted.push((6, fact.name)),
                Ok(Fact::Checkpoint(fact)) => {
                    let number =
                        fact.number.unwrap_or(self.core.checkpoints.last.saturating_add(1));
                    wanted.push((5, number.to_string()));
                }
                Ok(Fact::TaskCreated(fact)) => {
                    tasks.extend(self.task_neighbours(&fact.task));
                    tasks.extend(fact.parent);
                    tasks.extend(fact.depends);
                }
                Ok(Fact::TaskChanged(fact)) => {
                    tasks.extend(self.task_neighbours(&fact.task));
                    tasks.extend(fact.depends.unwrap_or_default());
                }
                Ok(Fact::TaskStatus(fact)) => tasks.extend(self.task_neighbours(&fact.task)),
                Ok(Fact::AgentObserved(_)) => tasks.extend(event.task.clone()),
                _ => {}
            }
        }
        wanted.extend(tasks.into_iter().map(|task| (0, task.0)));
        let mut missing = Vec::new();
        each_table!(self, |index, table| {
            for (_, key) in wanted.iter().filter(|(wanted, _)| *wanted == index) {
                for page in
                    table.missing(key).into_iter().map(|page| StatePageId { table: index, page })
                {
                    if !missing.contains(&page) {
                        missing.push(page);
                    }
                }
            }
        });
        missing
    }

    /// The pages to load before this lane is looked up.
    #[must_use]
    pub fn missing_lane(&self, lane: &str) -> Vec<StatePageId> {
        if lane.is_empty() {
            return Vec::new();
        }
        let pages = self.lanes.missing(lane).into_iter();
        pages.map(|page| StatePageId { table: 3, page }).collect()
    }

    /// Do the entries match the stored digests? Needs every page.
    #[must_use]
    pub fn is_sound(&mut self) -> bool {
        let mut sound = true;
        each_table!(self, |_index, table| sound &= table.is_sound());
        sound
    }

    /// Is every page loaded?
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let [keys_new, keys_old] = &self.keys;
        self.tasks.is_whole()
            && self.calls.is_whole()
            && self.turns.is_whole()
            && self.lanes.is_whole()
            && self.files.is_whole()
            && self.checkpoints.is_whole()
            && self.artifacts.is_whole()
            && self.usage.is_whole()
            && keys_new.is_whole()
            && keys_old.is_whole()
            && self.replaced.is_whole()
    }

    /// Every page that is not loaded.
    #[must_use]
    pub fn away(&mut self) -> Vec<StatePageId> {
        let mut away = Vec::new();
        each_table!(self, |index, table| {
            away.extend(table.away().into_iter().map(|page| StatePageId { table: index, page }));
        });
        away
    }

    /// Where a page that is not loaded is stored.
    #[must_use]
    pub fn page_ref(&mut self, page: StatePageId) -> Option<PageRef> {
        let mut found = None;
        each_table!(self, |index, table| if index == page.table {
            found = table.page_ref(page.page);
        });
        found
    }

    /// Loads a page.
    pub fn install(&mut self, page: StatePageId, bytes: &[u8]) -> Result<(), StatePageError> {
        each_table!(self, |index, table| if index == page.table {
            table.install(page.page, bytes)?;
        });
        Ok(())
    }

    /// The state that a fork starts with: the history is shared, but nothing was used, opened or
    /// recovered in the new session. The keys of the history stay known.
    #[must_use]
    pub fn forked(self) -> Self {
        let core = self.core;
        let fields = SessionFields { parent: None, key: None, project_id: None, ..core.fields };
        let core = SessionCore {
            id: None,
            created: Timestamp::default(),
            fields,
            status: SessionStatus::default(),
            reason: None,
            summary: None,
            epoch: Epoch::default(),
            writing: false,
            usage: Usage::default(),
            health: SessionHealth::default(),
            rewinds: 0,
            last_rewind: None,
            restoring: None,
            ..core
        };
        Self { core, usage: StateTable::new("usage"), ..self }
    }

    /// The state after a rewind. `base` is the state at the target, `before` the state just before
    /// the rewind. What never reverts is taken from `before`.
    #[must_use]
    pub fn rewound(base: Self, before: Self) -> Self {
        let mut state = base;
        let core = before.core;
        state.core.seq = core.seq;
        state.core.at = core.at;
        state.core.epoch = core.epoch;
        state.core.writing = core.writing;
        state.core.turns.last = core.turns.last;
        state.core.checkpoints.last = core.checkpoints.last;
        state.core.checkpoints.thinned = core.checkpoints.thinned;
        state.core.usage = core.usage;
        state.core.health.recoveries = core.health.recoveries;
        state.core.health.requires_validation = core.health.requires_validation;
        state.core.health.erased = core.health.erased;
        state.core.rewinds = core.rewinds;
        state.core.last_rewind = core.last_rewind;
        state.core.restoring = core.restoring;
        state.usage = before.usage;
        state
    }
}

const NAMES: [&str; 11] = [
    "tasks",
    "calls",
    "turns",
    "lanes",
    "files",
    "checkpoints",
    "artifacts",
    "usage",
    "keys",
    "keys",
    "replaced",
];

/// Keys are stored by hash, because they may be long.
fn state_hashed_key(key: &str) -> String {
    let hash = blake3::hash(key.as_bytes());
    hash.to_hex().as_str().chars().take(24).collect()
}

/// The keys under which usage of a model in a lane is added up.
fn state_usage_keys(model: Option<&str>, lane: &str) -> impl Iterator<Item = String> {
    let model = model.map(|model| format!("model:{model}"));
    model.into_iter().chain(std::iter::once(format!("lane:{lane}")))
}
