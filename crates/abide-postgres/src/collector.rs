//! Removes objects that nothing names, while others go on writing.
//!
//! Which objects are named is read first, without a lock. Then the lock is held alone, the mark is
//! changed, and what was appended since is read: whoever stored an object has named it by then, or is
//! refused. Objects in the database are removed over the connection that holds the lock. Those outside
//! are condemned over it first: nobody stores one again before it is known that it was removed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use abide_journal::CollectionSummary;
use abide_maintain::CollectError;
use abide_model::{ObjectHash, Seq, SessionId, StoreError, StoredObject};
use tokio_postgres::types::ToSql;

use crate::advisory_lock::{AdvisoryLock, AdvisoryMode};
use crate::error::ServerError;
use crate::named_rows::NamedRows;
use crate::postgres_store::PostgresStore;
use crate::storing_lock::name_for_objects;

/// How long to wait at least for those who store objects: each of them takes a moment.
const LEAST_WAIT: Duration = Duration::from_secs(5);
/// The objects removed at a time.
const AT_ONCE: usize = 64;
/// The objects listed by one statement.
const LISTED: i64 = 10_000;

/// How long removals outside the database may begin after it was seen that the lock is held. Far
/// less than [`CONDEMNED`], although some are tried again.
const REMOVING: Duration = Duration::from_secs(10);
/// How long an object is not stored again whose removal has begun and whose end is not known.
pub(crate) const CONDEMNED: Duration = Duration::from_secs(30 * 60);

/// Notes that objects are about to be removed outside the database. What somebody else has noted
/// stays theirs: we do not know what still happens to it.
const CONDEMN: &str = "INSERT INTO condemned (hash, mark) SELECT unnest($1::bytea[]), $2::uuid
    ON CONFLICT (hash) DO UPDATE SET since = clock_timestamp()";
/// Notes that they were removed.
const ACQUIT: &str = "DELETE FROM condemned WHERE hash = ANY($1) AND mark = $2";
const FORGET: &str =
    "DELETE FROM condemned WHERE since < clock_timestamp() - make_interval(secs => $1)";

/// The objects of a store that may be removed, told without a lock.
pub(crate) struct CollectableRows<'a> {
    rows: NamedRows<'a>,
    /// Every object that was named.
    pub(crate) live: HashSet<ObjectHash>,
}

impl CollectableRows<'_> {
    /// The first events that name one of the objects that were asked about.
    pub(crate) fn naming(self) -> Vec<(SessionId, Seq)> {
        self.rows.naming
    }
}

/// Removes the objects of a store that nothing names.
#[derive(Debug)]
pub struct PostgresCollector<'a> {
    pub(crate) store: &'a PostgresStore,
}

impl PostgresCollector<'_> {
    /// What [`PostgresCollector::collect`] would remove. Changes nothing.
    pub fn preview(
        &self,
        grace: Duration,
        notes: &mut Vec<String>,
    ) -> Result<CollectionSummary, CollectError> {
        self.preview_without(&HashSet::new(), grace, notes)
    }

    /// What it would remove if these sessions were gone.
    pub(crate) fn preview_without(
        &self,
        sessions: &HashSet<SessionId>,
        grace: Duration,
        notes: &mut Vec<String>,
    ) -> Result<CollectionSummary, CollectError> {
        let rows = NamedRows::new(self.store, HashSet::new()).without(sessions.clone());
        Ok(summary(&self.unnamed_for(rows, grace, notes)?.1))
    }

    /// Removes objects that nothing names and that were stored longer ago than `grace`. Waits up to
    /// `wait` for those who store objects.
    pub fn collect(
        &self,
        grace: Duration,
        wait: Duration,
        notes: &mut Vec<String>,
    ) -> Result<CollectionSummary, CollectError> {
        self.store.check_may_collect()?;
        let rows = NamedRows::new(self.store, HashSet::new());
        let (mut unnamed, mut stored) = self.unnamed_for(rows, grace, notes)?;
        if stored.is_empty() {
            return Ok(CollectionSummary::default());
        }
        let hashes = stored.iter().map(|object| object.hash).collect();
        let removed: HashSet<ObjectHash> =
            self.remove(&mut unnamed, hashes, wait, notes)?.into_iter().collect();
        stored.retain(|object| removed.contains(&object.hash));
        Ok(summary(&stored))
    }

    fn unnamed_for<'r>(
        &self,
        rows: NamedRows<'r>,
        grace: Duration,
        notes: &mut Vec<String>,
    ) -> Result<(CollectableRows<'r>, Vec<StoredObject>), CollectError> {
        // Listed first: what is stored after it may be named after the events were read.
        let mut stored = self.store.stored_objects()?;
        let unnamed = self.read_unnamed(rows, notes)?;
        stored.retain(|object| object.age >= grace && !unnamed.live.contains(&object.hash));
        Ok((unnamed, stored))
    }

    /// Reads what is named, noting the first events that name one of `asked`.
    pub(crate) fn unnamed(
        &self,
        asked: HashSet<ObjectHash>,
        notes: &mut Vec<String>,
    ) -> Result<CollectableRows<'_>, CollectError> {
        self.read_unnamed(NamedRows::new(self.store, asked), notes)
    }

    fn read_unnamed<'r>(
        &self,
        mut rows: NamedRows<'r>,
        notes: &mut Vec<String>,
    ) -> Result<CollectableRows<'r>, CollectError> {
        self.store.forget_known_objects();
        let live = rows.live_objects(notes)?;
        Ok(CollectableRows { rows, live })
    }

    /// Removes those of these objects that nothing names by now. Returns them.
    pub(crate) fn remove(
        &self,
        unnamed: &mut CollectableRows<'_>,
        objects: Vec<ObjectHash>,
        wait: Duration,
        notes: &mut Vec<String>,
    ) -> Result<Vec<ObjectHash>, CollectError> {
        self.store.check_objects_are_ours()?;
        let lock = Arc::new(self.lock(wait)?);
        self.store.forget_known_objects();
        unnamed.live.extend(unnamed.rows.live_objects(notes)?);
        let gone: Vec<ObjectHash> =
            objects.into_iter().filter(|hash| !unnamed.live.contains(hash)).collect();
        for chunk in gone.chunks(AT_ONCE) {
            match self.store.objects_elsewhere() {
                None => self.on(&lock, "DELETE FROM object WHERE hash = ANY($1)", chunk)?,
                Some(elsewhere) => {
                    self.on(&lock, CONDEMN, chunk)?;
                    elsewhere.remove(chunk, REMOVING)?;
                    self.on(&lock, ACQUIT, chunk)?;
                }
            }
        }
        drop(lock);
        if let Some(elsewhere) = self.store.objects_elsewhere()
            && let Err(error) = elsewhere.remove_remains()
        {
            notes.push(format!("what was left half written could not be removed: {error}"));
        }
        Ok(gone)
    }

    /// Changes the mark: nobody relies any more on what they remember of objects.
    pub(crate) fn change_mark(&self, wait: Duration) -> Result<(), CollectError> {
        self.lock(wait).map(drop)
    }

    /// Takes the lock alone, and changes the mark.
    fn lock(&self, wait: Duration) -> Result<AdvisoryLock, CollectError> {
        let server = self.store.server().clone();
        let taken = self.store.server().block(async move {
            let taken = async {
                let mode = AdvisoryMode::Exclusive;
                let taken = AdvisoryLock::take(&server, mode, wait.max(LEAST_WAIT)).await?;
                let Some(mut lock) = taken else { return Ok(None) };
                let sql = "UPDATE collection SET mark = gen_random_uuid() RETURNING mark";
                let marks = lock.ask(sql, &[]).await?;
                if let Some(mark) = marks.first() {
                    lock.mark = mark.try_get(0)?;
                }
                lock.ask(FORGET, &[&CONDEMNED.as_secs_f64()]).await?;
                Ok(Some(lock))
            };
            let taken: Result<_, ServerError> = taken.await;
            taken.map_err(|trouble| trouble.into_store("remove objects from", &server.place()))
        })?;
        taken.ok_or(CollectError::Busy)
    }

    /// Does something with these objects while the lock is held, and only then.
    fn on(
        &self,
        lock: &Arc<AdvisoryLock>,
        sql: &'static str,
        chunk: &[ObjectHash],
    ) -> Result<(), StoreError> {
        let (server, lock) = (self.store.server().clone(), lock.clone());
        let hashes: Vec<Vec<u8>> = chunk.iter().map(|hash| hash.as_bytes().to_vec()).collect();
        self.store.server().block(async move {
            let given: [&(dyn ToSql + Sync); 2] = [&hashes, &lock.mark];
            let given = if sql.contains("$2") { &given[..] } else { &given[..1] };
            let done = lock.ask(sql, given).await;
            done.map(drop)
                .map_err(|trouble| trouble.into_store("remove objects from", &server.place()))
        })
    }
}

impl PostgresStore {
    /// Removes objects that nothing names.
    #[must_use]
    pub const fn collector(&self) -> PostgresCollector<'_> {
        PostgresCollector { store: self }
    }

    /// Refuses to remove objects where another store keeps some too: what names them is not known
    /// here.
    pub(crate) fn check_objects_are_ours(&self) -> Result<(), StoreError> {
        let Some(elsewhere) = self.objects_elsewhere() else { return Ok(()) };
        let ours = name_for_objects(self.server())?;
        let others = elsewhere.claimed_by()?.into_iter().filter(|store| *store != ours);
        let others: Vec<String> = others.map(|store| format!("stores/{store}")).collect();
        if others.is_empty() {
            return Ok(());
        }
        let reason = format!(
            "another store keeps its objects in the same place, as {} there says; if that was this \
             store before it was moved, restored or upgraded, or is gone, remove that file first",
            others.join(", ")
        );
        Err(StoreError::Storage {
            action: "remove objects from",
            place: self.place(),
            source: Arc::new(std::io::Error::other(reason)),
        })
    }

    /// Changes whenever objects are removed.
    pub fn objects_mark(&self) -> Result<String, StoreError> {
        let server = self.server().clone();
        self.server().block(async move {
            server
                .ask("look at", |client| {
                    Box::pin(async move {
                        let sql = "SELECT mark::text FROM collection";
                        Ok(client.query_one(sql, &[]).await?.try_get(0)?)
                    })
                })
                .await
        })
    }

    /// Every object in the store.
    pub(crate) fn stored_objects(&self) -> Result<Vec<StoredObject>, StoreError> {
        let mut stored = Vec::new();
        if let Some(elsewhere) = self.objects_elsewhere() {
            elsewhere.each_stored(&mut |object| stored.push(object))?;
            return Ok(stored);
        }
        loop {
            let after = stored.last().map(|object: &StoredObject| object.hash);
            let after: Arc<Vec<u8>> =
                Arc::new(after.map(|hash| hash.as_bytes().to_vec()).unwrap_or_default());
            let server = self.server().clone();
            let more = self.server().block(async move {
                server
                    .ask("list the objects of", |client| {
                        let after = after.clone();
                        Box::pin(async move { list_object_rows(&client, &after).await })
                    })
                    .await
            })?;
            let count = more.len();
            stored.extend(more);
            if i64::try_from(count).is_ok_and(|count| count < LISTED) {
                return Ok(stored);
            }
        }
    }

    /// Which of these objects are in the store, damaged ones too.
    pub(crate) fn stored_among(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError> {
        let mut there = Vec::with_capacity(hashes.len());
        for chunk in hashes.chunks(AT_ONCE * 16) {
            there.extend(self.objects_of_store().has(chunk)?);
        }
        Ok(there)
    }

    /// Asks the store anew which objects it has.
    pub(crate) fn forget_known_objects(&self) {
        if let Some(elsewhere) = self.objects_elsewhere() {
            elsewhere.forget_known();
        }
    }
}

async fn list_object_rows(
    client: &deadpool_postgres::Object,
    after: &[u8],
) -> Result<Vec<StoredObject>, ServerError> {
    let sql = "SELECT hash, octet_length(bytes)::bigint,
            greatest(extract(epoch FROM clock_timestamp() - stored), 0)::float8
        FROM object WHERE hash > $1 ORDER BY hash LIMIT $2";
    let statement = client.prepare_cached(sql).await?;
    let rows = client.query(&statement, &[&after, &LISTED]).await?;
    let mut listed = Vec::with_capacity(rows.len());
    for row in &rows {
        let (hash, bytes): (&[u8], i64) = (row.try_get(0)?, row.try_get(1)?);
        let hash = <[u8; 32]>::try_from(hash).map_err(|_| StoreError::Damaged {
            place: "the table `object`".to_owned(),
            reason: "a name that is no hash".to_owned(),
        })?;
        let age = Duration::try_from_secs_f64(row.try_get(2)?).unwrap_or_default();
        let bytes = u64::try_from(bytes).unwrap_or(0);
        listed.push(StoredObject { hash: ObjectHash(hash), bytes, age });
    }
    Ok(listed)
}

fn summary(objects: &[StoredObject]) -> CollectionSummary {
    CollectionSummary {
        objects_removed: objects.len() as u64,
        bytes_freed: objects.iter().map(|object| object.bytes).sum(),
        ..CollectionSummary::default()
    }
}
