//! Keeps objects from being removed while somebody stores some: a window is open from the first
//! object looked for or put to the acknowledged event that names it.
//!
//! The lock makes a collection wait. The mark makes it safe: an append compares it, so that one
//! whose window was lost before a collection is refused.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use abide_model::{CollectableObjects, ObjectHash, StoreError};
use uuid::Uuid;

use crate::advisory_lock::{AdvisoryLock, AdvisoryMode};
use crate::collector::CONDEMNED;
use crate::error::ServerError;
use crate::server_connection::ServerConnection;
use crate::store_setting;

/// A window that was opened longer ago is not shared with newcomers, so that a collection gets its
/// turn among those who go on and on.
const SHARED_FOR: Duration = Duration::from_secs(1);
/// How long a newcomer waits for a window of its own while another is open in this process. Then it
/// shares that one: a collection may be waiting for it, and its owner for us.
const TURN: Duration = Duration::from_secs(3);
/// How often to look whether another thread has opened a window.
const OPENING: Duration = Duration::from_millis(2);
/// How long to wait for a collection that runs.
pub(crate) const COLLECTION: Duration = Duration::from_secs(600);

/// The objects outside the database, and the name of the store there.
pub(crate) struct ClaimedObjects {
    objects: Arc<dyn CollectableObjects>,
    claimed: AtomicBool,
}

impl ClaimedObjects {
    pub(crate) fn new(objects: Arc<dyn CollectableObjects>) -> Self {
        Self { objects, claimed: AtomicBool::new(false) }
    }

    /// Notes, before the first object is stored, that this store keeps some there.
    fn claim(&self, server: &Arc<ServerConnection>) -> Result<(), StoreError> {
        if !self.claimed.load(Ordering::Relaxed) {
            self.objects.claim(&name_for_objects(server)?)?;
            self.claimed.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The name of a store among those that may keep objects in the same place.
pub(crate) fn name_for_objects(server: &Arc<ServerConnection>) -> Result<String, StoreError> {
    let asked = server.clone();
    let id = server.block(async move {
        let ask = asked.ask("open", |client| {
            Box::pin(async move { store_setting::objects_claim_setting(&client).await })
        });
        ask.await
    })?;
    Ok(ObjectHash::of(id.as_bytes()).to_string().chars().take(16).collect())
}

/// The windows of a process.
pub(crate) struct StoringLock {
    server: Arc<ServerConnection>,
    /// Held while a window is opened, so that many who come at once share one.
    opening: Mutex<()>,
    windows: Mutex<OpenWindows>,
    elsewhere: Option<ClaimedObjects>,
}

impl std::fmt::Debug for StoringLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoringLock").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct OpenWindows {
    open: Vec<Weak<StoringWindow>>,
    /// The newest, for a moment longer than it is used: opening one takes a connection.
    newest: Option<Arc<StoringWindow>>,
    /// The last mark that was seen.
    mark: Option<Uuid>,
    /// Whether objects were being removed when it was: what was seen of them is not so any more.
    unsure: bool,
}

/// An open window.
#[derive(Debug)]
pub(crate) struct StoringWindow {
    lock: AdvisoryLock,
    /// Objects outside the database whose removal may not have ended. None is added meanwhile.
    condemned: HashSet<ObjectHash>,
    opened: Instant,
}

/// The mark that an append must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoringMark {
    /// No window is open.
    Any,
    /// The mark of all open windows.
    Of(Uuid),
    /// A window was lost, and objects were removed since.
    Lost,
}

impl StoringLock {
    pub(crate) fn new(
        server: Arc<ServerConnection>,
        elsewhere: Option<ClaimedObjects>,
    ) -> Arc<Self> {
        Arc::new(Self { server, opening: Mutex::default(), windows: Mutex::default(), elsewhere })
    }

    /// Opens a window, or shares one. Waits for a collection up to `limit`.
    pub(crate) fn open(
        self: &Arc<Self>,
        limit: Duration,
    ) -> Result<Arc<StoringWindow>, StoreError> {
        let until = Instant::now() + limit;
        if let Some(window) = self.fresh() {
            return Ok(window);
        }
        let _opening = self.begin_to_open(until)?;
        if let Some(window) = self.fresh() {
            return Ok(window);
        }
        if let Some(elsewhere) = &self.elsewhere {
            elsewhere.claim(&self.server)?;
        }
        // Not kept open by us while we wait, or a collection would never get its turn.
        let sharable = self.sharable();
        let left = until.saturating_duration_since(Instant::now());
        let mut taken = None;
        if let Some(sharable) = &sharable {
            taken = self.take(TURN.min(left))?;
            let open = || sharable.upgrade().filter(|window| !window.is_lost());
            if taken.is_none()
                && let Some(window) = open()
            {
                return Ok(window);
            }
        }
        if taken.is_none() {
            taken = self.take(until.saturating_duration_since(Instant::now()))?;
        }
        let Some((lock, condemned)) = taken else { return Err(self.busy()) };
        let window = Arc::new(StoringWindow { lock, condemned, opened: Instant::now() });
        let mut windows = self.windows();
        if windows.mark != Some(window.mark()) || windows.unsure {
            if let Some(elsewhere) = &self.elsewhere {
                elsewhere.objects.forget_known();
            }
            windows.mark = Some(window.mark());
        }
        windows.unsure = !window.condemned.is_empty();
        windows.open.retain(|open| open.strong_count() > 0);
        windows.open.push(Arc::downgrade(&window));
        windows.newest = Some(window.clone());
        drop(windows);
        if let Some(handle) = self.server.runtime() {
            let lock = Arc::downgrade(self);
            handle.spawn(async move {
                tokio::time::sleep(SHARED_FOR).await;
                if let Some(lock) = lock.upgrade() {
                    lock.let_go_of_old();
                }
            });
        }
        Ok(window)
    }

    /// The mark that an append must find now.
    pub(crate) fn mark(&self) -> StoringMark {
        self.open_windows().1
    }

    /// The open windows, lost ones too, and the mark that an append must find.
    fn open_windows(&self) -> (Vec<Arc<StoringWindow>>, StoringMark) {
        let windows: Vec<_> = self.windows().open.iter().filter_map(Weak::upgrade).collect();
        let mut mark = StoringMark::Any;
        for window in &windows {
            mark = match mark {
                StoringMark::Any => StoringMark::Of(window.mark()),
                StoringMark::Of(mark) if mark == window.mark() => StoringMark::Of(mark),
                _ => StoringMark::Lost,
            };
        }
        (windows, mark)
    }

    /// The error for what was stored before objects were removed.
    pub(crate) fn collected(&self) -> StoreError {
        collected_meanwhile(&self.server.place())
    }

    /// The error for an object whose removal may not have ended.
    pub(crate) fn condemned(&self) -> StoreError {
        self.error("an object of the same content is being removed; try again")
    }

    fn error(&self, reason: &str) -> StoreError {
        storing_error(&self.server.place(), reason)
    }

    fn fresh(&self) -> Option<Arc<StoringWindow>> {
        let windows = self.windows();
        let newest = windows.newest.as_ref();
        newest.filter(|it| !it.is_lost() && it.opened.elapsed() < SHARED_FOR).cloned()
    }

    fn take(
        &self,
        wait: Duration,
    ) -> Result<Option<(AdvisoryLock, HashSet<ObjectHash>)>, StoreError> {
        let (server, outside) = (self.server.clone(), self.elsewhere.is_some());
        self.server.block(async move {
            let taken = async {
                let taken = AdvisoryLock::take(&server, AdvisoryMode::Shared, wait).await?;
                let Some(lock) = taken else { return Ok(None) };
                let condemned =
                    if outside { condemned_objects(&lock).await? } else { HashSet::new() };
                Ok(Some((lock, condemned)))
            };
            let taken: Result<_, ServerError> = taken.await;
            taken.map_err(|trouble| trouble.into_store("store objects in", &server.place()))
        })
    }

    /// Lets one at a time open a window.
    fn begin_to_open(&self, until: Instant) -> Result<MutexGuard<'_, ()>, StoreError> {
        loop {
            match self.opening.try_lock() {
                Ok(opening) => return Ok(opening),
                Err(TryLockError::Poisoned(opening)) => return Ok(opening.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    return Err(self.busy());
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(OPENING),
            }
        }
    }

    fn busy(&self) -> StoreError {
        self.error("a cleanup or an erasure is running; try again")
    }

    fn sharable(&self) -> Option<Weak<StoringWindow>> {
        self.let_go_of_old();
        let windows = self.windows();
        let lives = |window: &&Weak<StoringWindow>| {
            window.upgrade().is_some_and(|window| !window.is_lost())
        };
        windows.open.iter().rev().find(lives).cloned()
    }

    fn let_go_of_old(&self) {
        let mut windows = self.windows();
        let old = |it: &Arc<StoringWindow>| it.is_lost() || it.opened.elapsed() >= SHARED_FOR;
        if windows.newest.as_ref().is_some_and(old) {
            windows.newest = None;
        }
        windows.open.retain(|open| open.strong_count() > 0);
    }

    fn windows(&self) -> MutexGuard<'_, OpenWindows> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoringWindow {
    /// The mark at the time it was opened.
    pub(crate) const fn mark(&self) -> Uuid {
        self.lock.mark
    }

    /// Whether an object may still be removed by a collection that has lost the lock.
    pub(crate) fn is_condemned(&self, hash: ObjectHash) -> bool {
        self.condemned.contains(&hash)
    }

    /// Whether the lock is lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.lock.is_lost()
    }
}

async fn condemned_objects(lock: &AdvisoryLock) -> Result<HashSet<ObjectHash>, ServerError> {
    let sql = "SELECT hash FROM condemned
        WHERE since >= clock_timestamp() - make_interval(secs => $1)";
    let rows = lock.ask(sql, &[&CONDEMNED.as_secs_f64()]).await?;
    let hashes = rows.iter().map(|row| Ok(<[u8; 32]>::try_from(row.try_get::<_, &[u8]>(0)?)));
    let hashes: Result<Vec<_>, ServerError> = hashes.collect();
    Ok(hashes?.into_iter().flatten().map(ObjectHash).collect())
}

/// Tells whether what was stored may be named, for one who has an event appended by another process:
/// the mark that this one compares is not ours.
#[derive(Debug, Clone)]
pub struct StoredCheck(Arc<StoringLock>);

impl StoredCheck {
    pub(crate) const fn new(lock: Arc<StoringLock>) -> Self {
        Self(lock)
    }

    /// Refuses if objects were removed since some were stored that nothing names yet. As long as what
    /// is returned lives, and its connection, none are removed; the append must find its mark.
    pub fn cover(&self) -> Result<Option<StoredCover>, StoreError> {
        let (windows, mark) = match self.0.open_windows() {
            (_, StoringMark::Any) => return Ok(None),
            (_, StoringMark::Lost) => return Err(self.0.collected()),
            (windows, StoringMark::Of(mark)) => (windows, mark),
        };
        // One that was lost is made up for by one with the same mark: nothing was removed between.
        for window in &windows {
            let asked = window.clone();
            if self.0.server.block(async move { Ok(asked.lock.check().await.is_ok()) })? {
                return Ok(Some(StoredCover { windows, mark }));
            }
        }
        let window = self.0.open(COLLECTION)?;
        if window.mark() != mark {
            return Err(self.0.collected());
        }
        Ok(Some(StoredCover { windows: vec![window], mark }))
    }
}

/// Keeps what was stored until the event that names it is acknowledged.
#[derive(Debug)]
pub struct StoredCover {
    #[expect(dead_code, reason = "kept open")]
    windows: Vec<Arc<StoringWindow>>,
    mark: Uuid,
}

impl StoredCover {
    /// The mark that the append must find.
    #[must_use]
    pub fn mark(&self) -> String {
        self.mark.to_string()
    }
}

/// The error for what was stored before objects were removed.
pub(crate) fn collected_meanwhile(place: &str) -> StoreError {
    storing_error(place, "objects were removed before the event that names them; try again")
}

fn storing_error(place: &str, reason: &str) -> StoreError {
    let source = std::io::Error::other(reason.to_owned());
    StoreError::Storage {
        action: "store objects in",
        place: place.to_owned(),
        source: Arc::new(source),
    }
}
