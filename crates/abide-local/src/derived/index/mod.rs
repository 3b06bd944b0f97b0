//! The history index of a store, brought up to date by every query.
//!
//! `index.db` is derived data. Before a query is answered, changed journals are read under a lock
//! that one process at a time has. An index that is missing, damaged, of another version or changed
//! by another program is rebuilt. If the store cannot be written, a temporary index is used.
//! Nothing here writes to a journal.

mod index_stamp;
mod journal_follower;

use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_index::{HistoryIndex, IndexAnswer, IndexError, IndexedSession};
use abide_journal::{Access, Disk, JournalError, JournalIdentity, LockMode, Storage, StorageLock};
use abide_model::{
    EventRange, History, HistoryEntry, HistoryQuery, LaneId, Search, SearchMatch, Seq, SessionId,
    StoreError, TurnEntry, UsageQuery, UsageReport, searchable_text,
};

use self::index_stamp::{IndexStamp, StampVerdict};
use self::journal_follower::{FollowOutcome, FollowTask, FollowedSessionOpener, follow_sessions};
use crate::derived::changed_sessions::{self, ChangedSessions};
use crate::error::storage_error;
use crate::sessions::local_reader::LocalReader;
use crate::sessions::local_store::LocalStore;
use crate::store_layout::layout_path_text;

/// The progress of building an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexProgress {
    /// Sessions that are done.
    pub sessions: usize,
    /// Sessions in all.
    pub of: usize,
    /// Events that were read.
    pub events: u64,
}

/// Called with the progress while an index is built, if that takes long.
#[derive(Clone, Default)]
pub struct IndexProgressCallback(Option<Arc<dyn Fn(IndexProgress) + Send + Sync>>);

impl IndexProgressCallback {
    /// Calls `tell`.
    pub fn to(tell: impl Fn(IndexProgress) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    fn tell(&self, step: IndexProgress) {
        if let Some(tell) = &self.0 {
            tell(step);
        }
    }
}

impl std::fmt::Debug for IndexProgressCallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Progress")
    }
}

/// How long to wait for another process that holds the index.
const WAIT: Duration = Duration::from_secs(60);
/// A WAL longer than this is checkpointed.
const LOG_BYTES: u64 = 8 << 20;
/// How many excerpts are read for an answer, or one per session if there are more.
const EXCERPTS: usize = 24;
/// The length of an excerpt in characters.
const EXCERPT: usize = 160;

/// The names of the follower's values in the index.
mod note {
    /// The boot since which the marks of changed sessions can be trusted.
    pub(super) const BOOT: &str = "boot";
    /// How often the index was changed.
    pub(super) const CHANGES: &str = "changes";
    /// The time of the sessions directory when it was last listed.
    pub(super) const LISTED: &str = "listed";
}

/// When to use an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexDemand {
    /// If it is current: it is cheaper than looking at sessions, but not worth building.
    AtHand,
    /// Always, building it if necessary.
    Anyway,
}

/// Why the store's own index cannot be used.
enum IndexFailure {
    /// It must be rebuilt.
    Unusable,
    /// Its directory cannot be written.
    Unwritable(String),
    /// An error that another index would not avoid.
    Store(StoreError),
}

impl From<IndexError> for IndexFailure {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Unusable { .. } => Self::Unusable,
            IndexError::Unwritable(source) => Self::Unwritable(source.to_string()),
            error => Self::Store(index_error(error)),
        }
    }
}

impl From<StoreError> for IndexFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn index_error(error: IndexError) -> StoreError {
    StoreError::Storage { action: "use", place: "the index".to_owned(), source: Arc::new(error) }
}

/// An error of one of the index's own files.
fn unwritable_index(path: &Path) -> impl FnOnce(io::Error) -> IndexFailure {
    let place = layout_path_text(path);
    move |error| IndexFailure::Unwritable(format!("{place}: {error}"))
}

impl FollowedSessionOpener for StoreIndex<'_> {
    fn reader(&self, name: &str) -> Result<Option<LocalReader>, JournalError> {
        let layout = self.store.layout().session(name);
        // Without an id it cannot be named; `doctor` reports it.
        Ok(match self.store.identify(&layout)? {
            JournalIdentity::Known(id) => Some(self.store.reader_at(id, &layout)),
            JournalIdentity::Unknown | JournalIdentity::Empty => None,
        })
    }

    fn is_at_rest(&self, name: &str) -> bool {
        self.store.at_rest(&self.store.layout().session(name)).unwrap_or(false)
    }
}

/// The history index of a store.
#[derive(Debug)]
pub struct StoreIndex<'a> {
    pub(crate) store: &'a LocalStore,
}

impl StoreIndex<'_> {
    /// The matching sessions, and where the search matches.
    pub fn history(&self, query: &HistoryQuery) -> Result<History, StoreError> {
        let projects =
            if query.all_projects { &[] } else { self.store.options().projects.as_slice() };
        self.with_index(|index| {
            let answer = index.query_history(query, projects)?;
            let mut history = History { more: Some(answer.more), ..History::default() };
            if answer.cut {
                history.notes.push(
                    "these words stand in very many places, of which those in the newest sessions were looked at; further words narrow it, and without a limit all are"
                        .to_owned(),
                );
            }
            self.entries(index, query, answer, &mut history)?;
            Ok(history)
        })
        .map(|(mut history, notes)| {
            history.notes.extend(notes);
            history
        })
    }

    /// The tokens that were spent.
    pub fn usage(&self, query: &UsageQuery) -> Result<UsageReport, StoreError> {
        let projects =
            if query.all_projects { &[] } else { self.store.options().projects.as_slice() };
        let (mut report, notes) = self.with_index(|index| {
            let sessions = index.usage_sessions(projects)?;
            let mut usage = Vec::new();
            index.each_usage(|one| usage.push(one))?;
            Ok(UsageReport::of(query, sessions, usage))
        })?;
        report.notes.extend(notes);
        Ok(report)
    }

    /// Queries the index if it is current, or if asked for [`IndexDemand::Anyway`].
    pub(crate) fn ask<T>(
        &self,
        wanted: IndexDemand,
        ask: impl Fn(&HistoryIndex) -> Result<T, IndexError>,
    ) -> Option<T> {
        match wanted {
            IndexDemand::AtHand => ask(&self.index_at_hand()?).ok(),
            IndexDemand::Anyway => self.with_index(ask).ok().map(|(answer, _)| answer),
        }
    }

    /// The turns of a session, in order.
    pub fn turns(&self, session: SessionId) -> Result<Vec<TurnEntry>, StoreError> {
        let layout = self.store.layout_of(session)?;
        let name = layout.name();
        self.with_index(|index| index.query_turns(&name)).map(|(turns, _)| turns)
    }

    /// Brings the index up to date. Not an error if it cannot be written.
    pub fn update(&self) -> Result<(), StoreError> {
        self.with_index(|_| Ok(())).map(|_| ())
    }

    /// The contents of the index, in a form in which two indexes of the same sessions compare
    /// equal.
    pub fn dump(&self) -> Result<Vec<String>, StoreError> {
        self.with_index(HistoryIndex::dump).map(|(dump, _)| dump)
    }

    /// Runs a query on a current index: the store's own, else a temporary one. Also returns notes
    /// about it.
    fn with_index<T>(
        &self,
        ask: impl Fn(&HistoryIndex) -> Result<T, IndexError>,
    ) -> Result<(T, Vec<String>), StoreError> {
        let mut reason = "it reads back differently than written".to_owned();
        let mut bad = None;
        // Try again if the first query finds damage in an index that looked good.
        for _ in 0..2 {
            let mut notes = Vec::new();
            let asked = self.current_index(bad, &mut notes).and_then(|index| {
                bad = IndexStamp::of(&self.store.layout().index()).ok();
                index.begin_look()?;
                let answer = ask(&index)?;
                index.end_look()?;
                Ok(answer)
            });
            match asked {
                Ok(answer) => return Ok((answer, notes)),
                Err(IndexFailure::Unusable) => {}
                Err(IndexFailure::Unwritable(told)) => {
                    reason = told;
                    break;
                }
                Err(IndexFailure::Store(error)) => return Err(error),
            }
        }
        let note = format!("the index cannot be written ({reason}); a temporary one was used");
        let mut notes = vec![note];
        self.with_temporary_index(ask, &mut notes).map(|answer| (answer, notes))
    }

    /// The store's own index, brought up to date. One whose stamp equals `bad` is rebuilt.
    fn current_index(
        &self,
        bad: Option<IndexStamp>,
        notes: &mut Vec<String>,
    ) -> Result<HistoryIndex, IndexFailure> {
        let layout = self.store.layout();
        let _lock = self.lock_index()?;
        let (path, stamp) = (layout.index(), layout.index_stamp());
        let trust = match IndexStamp::of(&path) {
            Ok(now) if Some(now) == bad => StampVerdict::None,
            _ => IndexStamp::trust(&stamp, &path),
        };
        let opened = match trust {
            StampVerdict::None => None,
            StampVerdict::Same => Some(HistoryIndex::open(&path)),
            StampVerdict::Doubtful => Some(HistoryIndex::open(&path).and_then(|index| {
                index.check()?;
                Ok(index)
            })),
        };
        let mut index = match opened {
            Some(Ok(index)) => index,
            None | Some(Err(IndexError::Unusable { .. })) => self.make_index(&path, notes)?,
            Some(Err(error)) => return Err(error.into()),
        };
        self.bring_up(&mut index, trust, notes)?;
        Ok(index)
    }

    /// The store's own index, if it is current and available at once: nobody else holds it, it is
    /// as we left it, every session could be read, and it was followed since the machine started.
    fn index_at_hand(&self) -> Option<HistoryIndex> {
        let layout = self.store.layout();
        let (path, stamp) = (layout.index(), layout.index_stamp());
        if !path.exists() {
            return None;
        }
        let _lock = self.store.storage().lock(&layout.index_lock(), LockMode::Exclusive).ok()??;
        if IndexStamp::trust(&stamp, &path) != StampVerdict::Same {
            return None;
        }
        let mut index = HistoryIndex::open(&path).ok()?;
        if !self.is_followed(&index, IndexStamp::changes(&stamp)).ok()? {
            return None;
        }
        let mut notes = Vec::new();
        self.bring_up(&mut index, StampVerdict::Same, &mut notes).ok()?;
        notes.is_empty().then_some(index)
    }

    /// Updates an index from the journals and stamps its file.
    fn bring_up(
        &self,
        index: &mut HistoryIndex,
        trust: StampVerdict,
        notes: &mut Vec<String>,
    ) -> Result<(), IndexFailure> {
        let (path, stamp) = (self.store.layout().index(), self.store.layout().index_stamp());
        let noted = IndexStamp::changes(&stamp);
        let changes = self.catch_up(index, noted, notes)?;
        let log = path.with_extension("db-wal");
        if std::fs::metadata(&log).is_ok_and(|log| log.size() > LOG_BYTES) {
            IndexStamp::settling(&stamp, &path, changes).map_err(unwritable_index(&stamp))?;
            index.settle()?;
            IndexStamp::settled(&stamp, &path, changes).map_err(unwritable_index(&stamp))?;
        } else if changes != noted || trust == StampVerdict::Doubtful {
            IndexStamp::changed(&stamp, &path, changes).map_err(unwritable_index(&stamp))?;
        }
        Ok(())
    }

    /// Whether the marks of changed sessions can be trusted: the index was followed since the
    /// machine started, and has all the changes that were noted.
    fn is_followed(&self, index: &HistoryIndex, noted: u64) -> Result<bool, IndexError> {
        let boot = &self.store.options().env.boot;
        Ok(boot.is_some() && index.note(note::BOOT)? == *boot && index_changes(index)? >= noted)
    }

    /// What is wrong with the index, if anything. Changes nothing.
    pub(crate) fn trouble(&self) -> Option<String> {
        let (path, stamp) = (self.store.layout().index(), self.store.layout().index_stamp());
        if !path.exists() {
            return None;
        }
        (IndexStamp::trust(&stamp, &path) == StampVerdict::None)
            .then(|| "damaged, or changed by another program".to_owned())
    }

    /// Removes the index with every word in it; the next query rebuilds it. Nobody does so until
    /// the returned lock is dropped.
    pub(crate) fn remove(&self) -> Result<Box<dyn StorageLock>, StoreError> {
        let lock = self.lock_index().map_err(|trouble| match trouble {
            IndexFailure::Store(error) => error,
            IndexFailure::Unwritable(reason) => StoreError::Storage {
                action: "remove",
                place: layout_path_text(&self.store.layout().index()),
                source: Arc::new(io::Error::other(reason)),
            },
            IndexFailure::Unusable => index_error(IndexError::Unusable { reason: String::new() }),
        })?;
        let path = self.store.layout().index();
        // The stamp first: without it nothing that is left is trusted.
        remove_index_file(&self.store.layout().index_stamp())
            .map_err(storage_error("remove", &self.store.layout().index_stamp()))?;
        for end in ["db", "db-wal", "db-shm", "db-journal", "db.new", "db.new-journal"] {
            let path = path.with_extension(end);
            remove_index_file(&path).map_err(storage_error("remove", &path))?;
        }
        Ok(lock)
    }

    fn lock_index(&self) -> Result<Box<dyn StorageLock>, IndexFailure> {
        let path = self.store.layout().index_lock();
        let mut until = Instant::now() + WAIT;
        let mut pause = Duration::from_micros(200);
        let mut seen = None;
        loop {
            let lock = self.store.storage().lock(&path, LockMode::Exclusive);
            if let Some(lock) = lock.map_err(unwritable_index(&path))? {
                return Ok(lock);
            }
            // Building a large index takes time; wait as long as there is progress.
            let progress = ["db.new", "db-wal"].map(|end| {
                let path = self.store.layout().index().with_extension(end);
                std::fs::metadata(path).map(|file| file.size()).ok()
            });
            if seen.replace(progress) != Some(progress) {
                until = Instant::now() + WAIT;
            }
            if Instant::now() > until {
                return Err(IndexFailure::Store(StoreError::Storage {
                    action: "use",
                    place: layout_path_text(&self.store.layout().index()),
                    source: Arc::new(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "another process holds the lock and makes no progress",
                    )),
                }));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Builds the index beside the old one, then replaces that.
    fn make_index(
        &self,
        path: &Path,
        notes: &mut Vec<String>,
    ) -> Result<HistoryIndex, IndexFailure> {
        let new = NewIndexFile::make(&path.with_extension("db.new"))?;
        let stamp = self.store.layout().index_stamp();
        // The marks are consumed before the new index is in place: if that fails, the old one must
        // not be taken for current.
        remove_index_file(&stamp).map_err(unwritable_index(&stamp))?;
        let mut index = HistoryIndex::create(&new.path)?;
        self.follow_all(&mut index, notes)?;
        index.finish()?;
        drop(index);
        // This creates a WAL, which ends up empty.
        HistoryIndex::open(&new.path)?.settle()?;
        File::open(&new.path)
            .and_then(|file| file.sync_all())
            .map_err(unwritable_index(&new.path))?;
        // We hold the lock without which nobody opens the index. A WAL of the old index must not be
        // taken for one of the new.
        for old in ["db-wal", "db-shm", "db-journal"].map(|end| path.with_extension(end)) {
            remove_index_file(&old).map_err(unwritable_index(&old))?;
        }
        std::fs::rename(&new.path, path).map_err(unwritable_index(path))?;
        IndexStamp::settled(&stamp, path, 1).map_err(unwritable_index(&stamp))?;
        Ok(HistoryIndex::open(path)?)
    }

    /// Reads every session into an empty index.
    fn follow_all(
        &self,
        index: &mut HistoryIndex,
        notes: &mut Vec<String>,
    ) -> Result<(), IndexFailure> {
        // All are read, marked or not. Later changes are marked again.
        while let Some(taken) =
            ChangedSessions::next(self.store.layout()).map_err(self.marks_unwritable())?
        {
            let last = !taken.left_over;
            taken.done().map_err(self.marks_unwritable())?;
            if last {
                break;
            }
        }
        let listed = self.listed();
        let outcome = self.read_all(index)?;
        self.mark_again(&note_follow_outcome(outcome, notes))?;
        self.note(index, &listed, 1)
    }

    /// Marks sessions that could not be read, so that they are tried again next time.
    fn mark_again(&self, failed: &[String]) -> Result<(), IndexFailure> {
        changed_sessions::mark_changed(self.store.layout(), failed).map_err(self.marks_unwritable())
    }

    /// Oldest first, so that the newest get the greatest row numbers.
    fn read_all(&self, index: &mut HistoryIndex) -> Result<FollowOutcome, IndexFailure> {
        let names = self.store.names()?.into_iter().rev();
        let work: Vec<FollowTask> = names.map(|name| FollowTask { name, followed: None }).collect();
        Ok(follow_sessions(index, self, &work, &self.store.options().progress)?)
    }

    fn marks_unwritable(&self) -> impl FnOnce(io::Error) -> IndexFailure + use<> {
        let dir = self.store.layout().changed();
        move |error| unwritable_index(&dir)(error)
    }

    /// Updates the index from the journals. `noted` is how many changes of it were noted; returns
    /// how many there are now.
    fn catch_up(
        &self,
        index: &mut HistoryIndex,
        noted: u64,
        notes: &mut Vec<String>,
    ) -> Result<u64, IndexFailure> {
        let changes = index_changes(index)?;
        let trusted = self.is_followed(index, noted)?;
        let listed = self.listed();
        let mut names: Vec<String> = index.watched()?;
        if !trusted {
            names.extend(self.store.names()?);
            names.extend(index.all()?);
            names.sort_unstable();
            names.dedup();
        }
        let mut outcome = self.follow_names(index, names)?;
        while let Some(taken) =
            ChangedSessions::next(self.store.layout()).map_err(self.marks_unwritable())?
        {
            outcome.add(self.follow_names(index, taken.names())?);
            // What an earlier follower left comes before what was marked since.
            let last = !taken.left_over;
            taken.done().map_err(self.marks_unwritable())?;
            if last {
                break;
            }
        }
        let same = listed.is_some() && index.note(note::LISTED)? == listed;
        if trusted && !same {
            outcome.add(self.follow_comers_and_goers(index)?);
        }
        let changed = outcome.changed;
        self.mark_again(&note_follow_outcome(outcome, notes))?;
        if !changed && trusted && same {
            return Ok(changes);
        }
        let changes = changes.max(noted) + 1;
        self.note(index, &listed, changes)?;
        Ok(changes)
    }

    /// Reads sessions that somebody added by hand, and drops those that were removed.
    fn follow_comers_and_goers(
        &self,
        index: &mut HistoryIndex,
    ) -> Result<FollowOutcome, IndexFailure> {
        // Usually there are none: a new session was marked and has already been read.
        let here = self.store.unsorted_names()?;
        let known = index.all()?;
        if index_fingerprint(&here) == index_fingerprint(&known) {
            return Ok(FollowOutcome::default());
        }
        let here: HashSet<String> = here.into_iter().collect();
        let known: HashSet<String> = known.into_iter().collect();
        let mut names: Vec<String> = here.symmetric_difference(&known).cloned().collect();
        names.sort_unstable();
        self.follow_names(index, names)
    }

    fn follow_names(
        &self,
        index: &mut HistoryIndex,
        names: Vec<String>,
    ) -> Result<FollowOutcome, IndexFailure> {
        let mut outcome = FollowOutcome::default();
        // In parts, since what the index has of each is held in memory.
        for names in names.chunks(1000) {
            let mut work = Vec::with_capacity(names.len());
            for name in names {
                work.push(FollowTask { name: name.clone(), followed: index.followed(name)? });
            }
            outcome.add(follow_sessions(index, self, &work, &self.store.options().progress)?);
        }
        Ok(outcome)
    }

    fn note(
        &self,
        index: &mut HistoryIndex,
        listed: &Option<String>,
        changes: u64,
    ) -> Result<(), IndexFailure> {
        let mut update = index.update()?;
        update.note(note::CHANGES, &changes.to_string())?;
        if let Some(boot) = &self.store.options().env.boot {
            update.note(note::BOOT, boot)?;
        }
        if let Some(listed) = listed {
            update.note(note::LISTED, listed)?;
        }
        Ok(update.commit()?)
    }

    /// The time of the sessions directory, which changes as sessions come and go.
    fn listed(&self) -> Option<String> {
        let dir = std::fs::metadata(self.store.layout().sessions()).ok()?;
        Some(format!("{}.{:09}", dir.mtime(), dir.mtime_nsec()))
    }

    fn with_temporary_index<T>(
        &self,
        ask: impl Fn(&HistoryIndex) -> Result<T, IndexError>,
        notes: &mut Vec<String>,
    ) -> Result<T, StoreError> {
        let dir = tempfile::TempDir::with_prefix("abide-index-")
            .map_err(storage_error("create a directory in", &std::env::temp_dir()))?;
        let path = dir.path().join("index.db");
        make_index_file(&path).map_err(storage_error("create", &path))?;
        let mut index = HistoryIndex::create(&path).map_err(index_error)?;
        let outcome = self.read_all(&mut index).map_err(|trouble| match trouble {
            IndexFailure::Unusable => index_error(IndexError::Unusable {
                reason: "it was damaged while being built".to_owned(),
            }),
            IndexFailure::Unwritable(reason) => StoreError::Storage {
                action: "make",
                place: "a temporary index".to_owned(),
                source: Arc::new(io::Error::other(reason)),
            },
            IndexFailure::Store(error) => error,
        })?;
        note_follow_outcome(outcome, notes);
        ask(&index).map_err(index_error)
    }

    fn entries(
        &self,
        index: &HistoryIndex,
        query: &HistoryQuery,
        answer: IndexAnswer,
        history: &mut History,
    ) -> Result<(), IndexError> {
        // The best hit of each session, and more if few sessions match.
        let mut more = EXCERPTS.saturating_sub(answer.sessions.len());
        let shown = query.is_search().then(|| query.shown());
        for session in answer.sessions {
            let mut matches = Vec::new();
            if let Some(search) = &shown {
                for (rank, seq) in session.hits.iter().enumerate() {
                    if rank > 0 {
                        let Some(less) = more.checked_sub(1) else { break };
                        more = less;
                    }
                    matches.extend(self.found(index, search, &session, *seq)?);
                }
            }
            history.entries.push(HistoryEntry {
                id: session.id,
                short: session.short,
                overview: session.overview,
                files: session.files,
                matches,
                match_count: session.hit_count,
                touched: session.touched,
            });
        }
        Ok(())
    }

    /// The excerpt of a hit, read from the journal.
    fn found(
        &self,
        index: &HistoryIndex,
        search: &Search,
        session: &IndexedSession,
        seq: Seq,
    ) -> Result<Option<SearchMatch>, IndexError> {
        let reader = self.store.reader_at(session.id, &self.store.layout().session(&session.name));
        let range = EventRange { last: seq, ..EventRange::from(seq).limit(1) };
        // An event that cannot be read has no excerpt, but is still a hit.
        let Some(event) =
            reader.page_now(range).ok().and_then(|page| page.events.into_iter().next())
        else {
            return Ok(None);
        };
        let lane = event.lane.as_ref().map(LaneId::as_str).unwrap_or_default();
        let turn = index.query_turn_at(&session.name, lane, seq, event.turn)?;
        Ok(Some(SearchMatch {
            seq,
            turn: turn.as_ref().map(|hit| hit.turn).or(event.turn),
            agent: turn.and_then(|hit| hit.agent),
            at: event.time(),
            live: session.overview.lineage.contains(seq),
            excerpt: search.excerpt(&searchable_text(&event).unwrap_or_default(), EXCERPT),
            kind: event.kind,
        }))
    }
}

/// How often an index was changed.
fn index_changes(index: &HistoryIndex) -> Result<u64, IndexError> {
    Ok(index.note(note::CHANGES)?.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Equal for the same names, in any order.
fn index_fingerprint(names: &[String]) -> (usize, u64) {
    let sum = names.iter().fold(0_u64, |sum, name| {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        sum.wrapping_add(hasher.finish())
    });
    (names.len(), sum)
}

fn remove_index_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Adds notes for sessions that cannot be read; returns their names.
fn note_follow_outcome(outcome: FollowOutcome, notes: &mut Vec<String>) -> Vec<String> {
    let mut names = Vec::new();
    for (name, error) in outcome.failed {
        let mut text = format!("session {name} cannot be read and is missing here: {error}");
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        if !notes.contains(&text) {
            notes.push(text);
        }
        names.push(name);
    }
    names
}

/// An index that is being built; removed on drop unless it was renamed.
struct NewIndexFile {
    path: PathBuf,
}

impl NewIndexFile {
    fn make(path: &Path) -> Result<Self, IndexFailure> {
        let new = Self { path: path.to_owned() };
        remove_index_file(path).map_err(unwritable_index(path))?;
        make_index_file(path).map_err(unwritable_index(path))?;
        Ok(new)
    }
}

impl Drop for NewIndexFile {
    fn drop(&mut self) {
        let name = |end: &str| {
            let mut name = self.path.clone().into_os_string();
            name.push(end);
            PathBuf::from(name)
        };
        for path in ["", "-wal", "-shm", "-journal"].map(name) {
            let _ = remove_index_file(&path);
        }
    }
}

/// Creates an empty file that only the user can read.
fn make_index_file(path: &Path) -> io::Result<()> {
    Disk.open(path, Access::CreateNew).map(|_| ())
}
