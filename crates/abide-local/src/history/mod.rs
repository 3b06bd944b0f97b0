//! History: the index over a store's sessions, kept current by whoever asks.
//!
//! `index.db` is derived. Before a question is answered, the journals that have changed are read
//! on, under a lock that one process at a time has; an index that is missing, damaged, of another
//! version or changed by somebody else is made anew. A store that cannot be written is answered
//! from a temporary index. Nothing here writes to a journal.

mod follower;
mod stamp;

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_index::{Answer, Index, IndexError, IndexedSession};
use abide_journal::{Identity, JournalError, Lock, LockMode};
use abide_model::{
    EventRange, History, HistoryEntry, HistoryQuery, LaneId, Match, Search, Seq, SessionId,
    StoreError, TurnEntry, searchable,
};

use self::follower::{FollowError, Sessions, Work, follow};
use self::stamp::{Stamp, Trust};
use crate::changed::Taken;
use crate::error::{storage_error, store_error};
use crate::layout::shown;
use crate::reader::LocalReader;
use crate::store::LocalStore;

/// How far the making of an index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Sessions that are done.
    pub sessions: usize,
    /// Of so many.
    pub of: usize,
    /// Events that were read.
    pub events: u64,
}

/// Is told how far the making of an index is, while it takes long.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Fn(Step) + Send + Sync>>);

impl Progress {
    /// Tells this.
    pub fn to(tell: impl Fn(Step) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    fn tell(&self, step: Step) {
        if let Some(tell) = &self.0 {
            tell(step);
        }
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Progress")
    }
}

/// So long another process that has the index is waited for.
const WAIT: Duration = Duration::from_secs(60);
/// A log longer than this is brought into the index's file.
const LOG_BYTES: u64 = 8 << 20;
/// So many excerpts are read for an answer, or one for each session of it.
const EXCERPTS: usize = 24;
/// Characters of an excerpt.
const EXCERPT: usize = 160;

/// The follower's notes in the index.
mod note {
    /// The boot since when marks of changes can be trusted.
    pub(super) const BOOT: &str = "boot";
    /// How often the index was changed.
    pub(super) const CHANGES: &str = "changes";
    /// The time of the directory of sessions when it was last listed.
    pub(super) const LISTED: &str = "listed";
}

/// Why the store's own index cannot be used.
enum Trouble {
    /// It must be made anew.
    Unusable,
    /// This place cannot be written.
    Unwritable(String),
    /// Something that another index would not help with.
    Store(StoreError),
}

impl From<IndexError> for Trouble {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Unusable { .. } => Self::Unusable,
            IndexError::Unwritable(source) => Self::Unwritable(source.to_string()),
            error => Self::Store(index_error(error)),
        }
    }
}

impl From<FollowError> for Trouble {
    fn from(error: FollowError) -> Self {
        match error {
            FollowError::Index(error) => error.into(),
            FollowError::Journal(error) => Self::Store(store_error(error)),
        }
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn index_error(error: IndexError) -> StoreError {
    StoreError::Storage { action: "use", place: "the index".to_owned(), source: Arc::new(error) }
}

/// An error of a file of the index's own.
fn unwritable(path: &Path) -> impl FnOnce(io::Error) -> Trouble {
    let place = shown(path);
    move |error| Trouble::Unwritable(format!("{place}: {error}"))
}

impl Sessions for LocalStore {
    fn reader(&self, name: &str) -> Result<Option<LocalReader>, JournalError> {
        let layout = self.layout().session(name);
        // Without an id there is nothing to name it by; `doctor` tells of it.
        Ok(match self.identify(&layout)? {
            Identity::Known(id) => Some(self.reader_at(id, &layout)),
            Identity::Unknown | Identity::Empty => None,
        })
    }
}

impl LocalStore {
    /// The sessions that fit, and where what was searched for stands.
    pub fn history(&self, query: &HistoryQuery) -> Result<History, StoreError> {
        self.with_index(|index| {
            let answer = index.history(query)?;
            let mut history = History { more: Some(answer.more), ..History::default() };
            if answer.cut {
                history.notes.push(
                    "these words stand in very many places, of which the newest were looked at; further words narrow it, and no limit looks at all"
                        .to_owned(),
                );
            }
            self.entries(index, query, answer, &mut history)?;
            Ok(history)
        })
        .map(|(mut history, note)| {
            history.notes.extend(note);
            history
        })
    }

    /// The turns of a session, in order.
    pub fn turns(&self, session: SessionId) -> Result<Vec<TurnEntry>, StoreError> {
        let layout = self.layout_of(session)?;
        let name = layout.name();
        self.with_index(|index| index.turns(&name)).map(|(turns, _)| turns)
    }

    /// Makes the index current. Says nothing where it cannot be written.
    pub fn update_index(&self) -> Result<(), StoreError> {
        self.with_index(|_| Ok(())).map(|_| ())
    }

    /// All that the index has, in a form in which two indexes of the same sessions are equal.
    pub fn dump_index(&self) -> Result<Vec<String>, StoreError> {
        self.with_index(Index::dump).map(|(dump, _)| dump)
    }

    /// Asks an index that is current: the store's own, else a temporary one. The second part of
    /// the answer says why it is one.
    fn with_index<T>(
        &self,
        ask: impl Fn(&Index) -> Result<T, IndexError>,
    ) -> Result<(T, Option<String>), StoreError> {
        let mut last = String::new();
        // A second time where the first has found damage in an index that looked good.
        for _ in 0..2 {
            let asked = self.current_index().and_then(|index| ask(&index).map_err(Trouble::from));
            match asked {
                Ok(answer) => return Ok((answer, None)),
                Err(Trouble::Unusable) => {
                    let _ = std::fs::remove_file(self.layout().index());
                }
                Err(Trouble::Unwritable(reason)) => {
                    last = reason;
                    break;
                }
                Err(Trouble::Store(error)) => return Err(error),
            }
        }
        let note = format!("the index cannot be written ({last}); a temporary one was used");
        self.with_temporary_index(ask).map(|answer| (answer, Some(note)))
    }

    /// The store's own index, with all that the journals have.
    fn current_index(&self) -> Result<Index, Trouble> {
        let layout = self.layout();
        let _lock = self.lock_index()?;
        let (path, lock) = (layout.index(), layout.index_lock());
        let opened = match Stamp::trust(&lock, &path) {
            Trust::None => None,
            Trust::Same => Some(Index::open(&path)),
            Trust::Doubtful => Some(Index::open(&path).and_then(|index| {
                index.check()?;
                Ok(index)
            })),
        };
        let mut index = match opened {
            Some(Ok(index)) => index,
            None | Some(Err(IndexError::Unusable { .. })) => self.make_index(&path)?,
            Some(Err(error)) => return Err(error.into()),
        };
        let changes = self.catch_up(&mut index, Stamp::changes(&lock))?;
        let log = path.with_extension("db-wal");
        if std::fs::metadata(&log).is_ok_and(|log| log.size() > LOG_BYTES) {
            Stamp::settling(&lock, &path, changes).map_err(unwritable(&lock))?;
            index.settle()?;
            Stamp::settled(&lock, &path, changes).map_err(unwritable(&lock))?;
        } else if changes != Stamp::changes(&lock) {
            Stamp::changed(&lock, &path, changes).map_err(unwritable(&lock))?;
        }
        Ok(index)
    }

    fn lock_index(&self) -> Result<Box<dyn Lock>, Trouble> {
        let path = self.layout().index_lock();
        let until = Instant::now() + WAIT;
        let mut pause = Duration::from_micros(200);
        loop {
            let lock = self.storage().lock(&path, LockMode::Exclusive);
            if let Some(lock) = lock.map_err(unwritable(&path))? {
                return Ok(lock);
            }
            if Instant::now() > until {
                return Err(Trouble::Store(StoreError::Storage {
                    action: "use",
                    place: shown(&self.layout().index()),
                    source: Arc::new(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "another process has been updating it for a minute",
                    )),
                }));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Makes the index anew, beside the old one, and puts it in its place.
    fn make_index(&self, path: &Path) -> Result<Index, Trouble> {
        let new = path.with_extension("db.new");
        let lock = self.layout().index_lock();
        remove(&new).map_err(unwritable(&new))?;
        make_file(&new).map_err(unwritable(&new))?;
        let mut index = Index::create(&new)?;
        self.follow_all(&mut index)?;
        drop(index);
        File::open(&new).and_then(|file| file.sync_all()).map_err(unwritable(&new))?;
        // Nobody opens the index without the lock that we have, and a log of the old one must not
        // be taken for one of the new.
        for old in [path.with_extension("db-wal"), path.with_extension("db-shm")] {
            remove(&old).map_err(unwritable(&old))?;
        }
        std::fs::rename(&new, path).map_err(unwritable(path))?;
        let index = Index::open(path)?;
        index.settle()?;
        Stamp::settled(&lock, path, 1).map_err(unwritable(&lock))?;
        Ok(index)
    }

    /// Reads every session into an empty index.
    fn follow_all(&self, index: &mut Index) -> Result<(), Trouble> {
        // What changes from here on is marked again.
        let taken: Vec<Taken> = self.take_all()?;
        let listed = self.listed();
        // Oldest first, so that the newest have the greatest numbers.
        let names = self.names()?;
        let work: Vec<Work> =
            names.into_iter().rev().map(|name| Work { name, followed: None }).collect();
        follow(index, self, &work, &self.options().progress)?;
        self.note(index, &listed, 1)?;
        taken.into_iter().for_each(Taken::done);
        Ok(())
    }

    /// Every mark there is, so that none of them is older than what is read next.
    fn take_all(&self) -> Result<Vec<Taken>, Trouble> {
        let first = Taken::next(self.layout()).map_err(unwritable(&self.layout().changed()))?;
        Ok(first.into_iter().collect())
    }

    /// Brings the index up to what the journals have. Given how many changes of it were noted,
    /// says how many there are now.
    fn catch_up(&self, index: &mut Index, noted: u64) -> Result<u64, Trouble> {
        let changes = index.note(note::CHANGES)?.and_then(|text| text.parse().ok()).unwrap_or(0);
        let boot = index.note(note::BOOT)?;
        let trusted = self.options().env.boot.is_some()
            && boot == self.options().env.boot
            && changes >= noted;
        let listed = self.listed();
        let mut names: Vec<String> = index.in_writing()?;
        if !trusted {
            names.extend(self.names()?);
            names.extend(index.all()?);
            names.sort_unstable();
            names.dedup();
        }
        let mut changed = self.follow_names(index, names)?;
        // Each taking may be followed by marks that came meanwhile; those wait for the next time.
        for _ in 0..2 {
            let taken = Taken::next(self.layout());
            let Some(taken) = taken.map_err(unwritable(&self.layout().changed()))? else { break };
            changed |= self.follow_names(index, taken.names.clone())?;
            taken.done();
        }
        let same = listed.is_some() && index.note(note::LISTED)? == listed;
        if trusted && !same {
            changed |= self.follow_comers_and_goers(index)?;
        }
        if !changed && trusted && same {
            return Ok(changes);
        }
        let changes = changes.max(noted) + 1;
        self.note(index, &listed, changes)?;
        Ok(changes)
    }

    /// Reads the sessions that somebody put here by hand, and forgets those that were taken away.
    fn follow_comers_and_goers(&self, index: &mut Index) -> Result<bool, Trouble> {
        // Mostly there are none: somebody made a session, which was marked and read already.
        let here = self.unsorted_names()?;
        let known = index.all()?;
        if fingerprint(&here) == fingerprint(&known) {
            return Ok(false);
        }
        let here: HashSet<String> = here.into_iter().collect();
        let known: HashSet<String> = known.into_iter().collect();
        let mut names: Vec<String> = here.symmetric_difference(&known).cloned().collect();
        names.sort_unstable();
        self.follow_names(index, names)
    }

    /// Says whether there was anything new.
    fn follow_names(&self, index: &mut Index, names: Vec<String>) -> Result<bool, Trouble> {
        if names.is_empty() {
            return Ok(false);
        }
        let mut work = Vec::with_capacity(names.len());
        for name in names {
            let followed = index.followed(&name)?;
            work.push(Work { name, followed });
        }
        Ok(follow(index, self, &work, &self.options().progress)?)
    }

    fn note(
        &self,
        index: &mut Index,
        listed: &Option<String>,
        changes: u64,
    ) -> Result<(), Trouble> {
        let mut update = index.update()?;
        update.note(note::CHANGES, &changes.to_string())?;
        if let Some(boot) = &self.options().env.boot {
            update.note(note::BOOT, boot)?;
        }
        if let Some(listed) = listed {
            update.note(note::LISTED, listed)?;
        }
        Ok(update.commit()?)
    }

    /// The time of the directory of sessions: another one where sessions came or went.
    fn listed(&self) -> Option<String> {
        let dir = std::fs::metadata(self.layout().sessions()).ok()?;
        Some(format!("{}.{:09}", dir.mtime(), dir.mtime_nsec()))
    }

    fn with_temporary_index<T>(
        &self,
        ask: impl Fn(&Index) -> Result<T, IndexError>,
    ) -> Result<T, StoreError> {
        let dir = tempfile::TempDir::with_prefix("abide-index-")
            .map_err(storage_error("create a directory in", &std::env::temp_dir()))?;
        let path = dir.path().join("index.db");
        let told = |trouble| match trouble {
            Trouble::Unusable => index_error(IndexError::Unusable {
                reason: "it was damaged while it was made".to_owned(),
            }),
            Trouble::Unwritable(reason) => StoreError::Storage {
                action: "make",
                place: "a temporary index".to_owned(),
                source: Arc::new(io::Error::other(reason)),
            },
            Trouble::Store(error) => error,
        };
        make_file(&path).map_err(storage_error("create", &path))?;
        let mut index = Index::create(&path).map_err(index_error)?;
        let names = self.names()?;
        let work: Vec<Work> =
            names.into_iter().rev().map(|name| Work { name, followed: None }).collect();
        follow(&mut index, self, &work, &self.options().progress).map_err(|e| told(e.into()))?;
        ask(&index).map_err(index_error)
    }

    fn entries(
        &self,
        index: &Index,
        query: &HistoryQuery,
        answer: Answer,
        history: &mut History,
    ) -> Result<(), IndexError> {
        // The best place of each session, and more where few sessions fit.
        let mut more = EXCERPTS.saturating_sub(answer.sessions.len());
        for session in answer.sessions {
            let mut matches = Vec::new();
            if let Some(search) = &query.search {
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

    /// What stands at a place that was found. The text is read from the journal.
    fn found(
        &self,
        index: &Index,
        search: &Search,
        session: &IndexedSession,
        seq: Seq,
    ) -> Result<Option<Match>, IndexError> {
        let reader = self.reader_at(session.id, &self.layout().session(&session.name));
        let range = EventRange { last: seq, ..EventRange::from(seq).limit(1) };
        // What cannot be read cannot be shown; that it was said is still so.
        let Some(event) =
            reader.page_now(range).ok().and_then(|page| page.events.into_iter().next())
        else {
            return Ok(None);
        };
        let lane = event.lane.as_ref().map(LaneId::as_str).unwrap_or_default();
        let turn = index.turn_at(&session.name, lane, seq, event.turn)?;
        Ok(Some(Match {
            seq,
            turn: turn.as_ref().map(|hit| hit.turn).or(event.turn),
            agent: turn.and_then(|hit| hit.agent),
            at: event.at,
            live: session.overview.lineage.contains(seq),
            excerpt: search.excerpt(&searchable(&event).unwrap_or_default(), EXCERPT),
            kind: event.kind,
        }))
    }
}

/// The same for the same names, in whatever order.
fn fingerprint(names: &[String]) -> (usize, u64) {
    let sum = names.iter().fold(0_u64, |sum, name| {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        sum.wrapping_add(hasher.finish())
    });
    (names.len(), sum)
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// An empty file that nobody else reads.
fn make_file(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(|_| ())
}
