//! Erases payloads and the objects that only they name.
//!
//! 1. One transaction erases the payloads, drops what is derived from them, and records the erasure
//!    in `erasure`: it has not begun, or is known until it is finished.
//! 2. The session records what was erased.
//! 3. The objects that nothing names any more are removed, as by a collection.
//! 4. The tables are vacuumed, so that no deleted row stays in their files.
//! 5. The erasure is no longer recorded.
//!
//! Whatever interrupts it, the next erasure or cleanup goes on with step 2.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use abide_maintain::{
    CollectError, EraseError, EraseOutcome, ErasePlan, PendingErasure, reached_from,
};
use abide_model::{Erasure, ObjectHash, Seq, StoreError};
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::erase_search::noted_erasure;
use crate::error::ServerError;
use crate::postgres_reader::parse_sound_line;
use crate::postgres_store::PostgresStore;

/// What a user needs to erase, to collect or to clean up.
const TO_ERASE: [(&str, &str); 7] = [
    ("event", "UPDATE"),
    ("quarantine", "UPDATE"),
    ("erasure", "INSERT"),
    ("erasure", "UPDATE"),
    ("erasure", "DELETE"),
    ("collection", "UPDATE"),
    ("session", "UPDATE"),
];
const TO_COLLECT: [(&str, &str); 1] = [("collection", "UPDATE")];
const TO_CLEAN: [(&str, &str); 5] = [
    ("collection", "UPDATE"),
    ("event", "DELETE"),
    ("lease", "UPDATE"),
    ("lease", "DELETE"),
    ("session", "DELETE"),
];

/// Erases payloads and files from a store.
#[derive(Debug)]
pub struct PostgresEraser<'a> {
    pub(crate) store: &'a PostgresStore,
}

impl PostgresEraser<'_> {
    /// Applies an erasure. Waits up to `wait` for writers to close, and again for those who store
    /// objects. Interrupted erasures are finished first.
    pub fn apply(
        &self,
        plan: &ErasePlan,
        reason: Option<&str>,
        wait: Duration,
    ) -> Result<EraseOutcome, EraseError> {
        let mut erased = EraseOutcome::default();
        let each = &mut |_: &ErasePlan, done: &EraseOutcome| erased = done.clone();
        let notes = self.apply_all(std::slice::from_ref(plan), reason, wait, each)?;
        erased.notes.extend(notes);
        Ok(erased)
    }

    /// Applies erasures one after the other, and calls `each` with what was done. The tables are
    /// vacuumed once, at the end. Returns notes on all of them.
    pub fn apply_all(
        &self,
        plans: &[ErasePlan],
        reason: Option<&str>,
        wait: Duration,
        each: &mut dyn FnMut(&ErasePlan, &EraseOutcome),
    ) -> Result<Vec<String>, EraseError> {
        self.store.check_may_erase()?;
        let has_objects = |plan| PendingErasure::of(plan, None).has_objects();
        if plans.iter().any(has_objects) {
            self.store.check_objects_are_ours()?;
        }
        let mut notes = self.finish_all(wait)?.1.notes;
        let mut erased = Vec::new();
        let mut failed = None;
        for plan in plans {
            let pending = PendingErasure::of(plan, reason);
            match self.erase(&pending, wait) {
                Ok((id, done)) => {
                    each(plan, &done);
                    erased.push(id);
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        notes.extend(self.end(&erased)?);
        failed.map_or(Ok(notes), Err)
    }

    fn erase(
        &self,
        pending: &PendingErasure,
        wait: Duration,
    ) -> Result<(Uuid, EraseOutcome), EraseError> {
        let id = self.new_id();
        let payloads = self.store.erase_rows(pending, id, wait)?;
        let mut done = EraseOutcome { payloads, ..EraseOutcome::default() };
        self.go_on((id, pending), wait, &mut done)?;
        Ok((id, done))
    }

    /// The last two steps.
    fn end(&self, erased: &[Uuid]) -> Result<Vec<String>, StoreError> {
        if erased.is_empty() {
            return Ok(Vec::new());
        }
        // It is tried again with the next erasure or cleanup.
        let notes = match self.store.vacuum() {
            Ok(notes) => notes,
            Err(error) => return Ok(vec![unvacuumed(&error)]),
        };
        self.forget(erased)?;
        Ok(notes)
    }

    /// Finishes interrupted erasures. Returns how many, and what was done. Those that cannot be
    /// finished stay recorded, with a note.
    pub fn finish(&self, wait: Duration) -> Result<(u64, EraseOutcome), EraseError> {
        if self.pending()?.is_empty() {
            return Ok((0, EraseOutcome::default()));
        }
        self.store.check_may_erase()?;
        Ok(self.finish_all(wait)?)
    }

    /// Whether an erasure is in progress or was interrupted.
    pub fn is_erasing(&self) -> Result<bool, StoreError> {
        Ok(!self.pending()?.is_empty())
    }

    /// Removes every object that nothing names, however new.
    pub fn erase_unnamed(&self, wait: Duration) -> Result<EraseOutcome, EraseError> {
        self.store.check_may_erase()?;
        let mut done = EraseOutcome::default();
        let removed = self.store.collector().collect(Duration::ZERO, wait, &mut done.notes);
        done.objects = removed.map_err(unnamed_error)?.objects_removed;
        done.notes.extend(self.store.vacuum().unwrap_or_else(|error| vec![unvacuumed(&error)]));
        Ok(done)
    }

    fn finish_all(&self, wait: Duration) -> Result<(u64, EraseOutcome), StoreError> {
        let (mut ids, mut finished) = (Vec::new(), EraseOutcome::default());
        for (id, pending) in self.pending()? {
            let mut done = EraseOutcome::default();
            match self.go_on((id, &pending), wait, &mut done) {
                Ok(()) => {
                    ids.push(id);
                    finished.objects += done.objects;
                    finished.shared.extend(done.shared);
                    finished.notes.extend(done.notes);
                }
                Err(error) => finished.notes.push(pending.note(&error)),
            }
        }
        finished.notes.extend(self.end(&ids)?);
        Ok((ids.len() as u64, finished))
    }

    /// The two steps after the payloads were erased. Each may be repeated.
    fn go_on(
        &self,
        (id, pending): (Uuid, &PendingErasure),
        wait: Duration,
        done: &mut EraseOutcome,
    ) -> Result<(), EraseError> {
        // A session that is in use records it later; its objects go at once.
        let noted = self.note_erased(pending, wait);
        if pending.has_objects() {
            self.erase_objects((id, pending), wait, done).map_err(|error| match error {
                CollectError::Store(error) => EraseError::Store(error),
                error => EraseError::Objects(error),
            })?;
        }
        Ok(noted?)
    }

    /// Records in the session what was erased, except what is already recorded.
    fn note_erased(&self, pending: &PendingErasure, wait: Duration) -> Result<(), StoreError> {
        let reader = match self.store.reader(pending.session) {
            // It was deleted meanwhile.
            Err(StoreError::NoSession { .. }) => return Ok(()),
            reader => reader?,
        };
        let mut noted: BTreeSet<(Seq, bool)> = BTreeSet::new();
        self.each_own_line(&reader, &mut |seq, raw| {
            let line = parse_sound_line(seq, raw);
            noted.extend(line.ok().and_then(|line| noted_erasure(&line)));
            Ok::<_, StoreError>(())
        })?;
        let payloads = pending.events.iter().map(|seq| (*seq, false));
        let files = pending.rewinds.iter().map(|seq| (*seq, true));
        let reason = &pending.reason;
        let erasures: Vec<Erasure> = payloads
            .chain(files)
            .filter(|erasure| !noted.contains(erasure))
            .map(|(seq, files)| Erasure { seq, files, reason: reason.clone() })
            .collect();
        if erasures.is_empty() {
            return Ok(());
        }
        let writer = self.store.writer(pending.session, wait)?;
        writer.note_erased(&erasures)?;
        abide_model::SessionWriter::close(&writer)
    }

    /// Removes what nothing names any more of what the payloads named.
    fn erase_objects(
        &self,
        (id, pending): (Uuid, &PendingErasure),
        wait: Duration,
        done: &mut EraseOutcome,
    ) -> Result<(), CollectError> {
        let mut named: HashSet<ObjectHash> = pending.objects.iter().copied().collect();
        named.extend(self.snapshots_of(pending)?);
        // A standby that lags behind does not have all that is to go.
        let _primary = self.store.server().only_primary();
        let collector = self.store.collector();
        let mut unnamed = collector.unnamed(named.clone(), &mut done.notes)?;
        let objects = self.store.objects_of_store();
        let mut reached: BTreeSet<[u8; 32]> =
            pending.reached.iter().map(|hash| *hash.as_bytes()).collect();
        let known = reached.len();
        let now = reached_from(&named, &|hash| objects.read(hash))?;
        reached.extend(now.into_iter().map(|hash| *hash.as_bytes()));
        let reached: Vec<ObjectHash> = reached.into_iter().map(ObjectHash).collect();
        if reached.len() > known {
            // Before the first of them goes.
            self.keep_reached(id, &PendingErasure { reached: reached.clone(), ..pending.clone() })?;
        }
        let there = self.store.stored_among(&reached)?;
        let reached: Vec<ObjectHash> =
            reached.into_iter().zip(there).filter(|(_, there)| *there).map(|(it, _)| it).collect();
        if reached.is_empty() {
            return Ok(());
        }
        let removed = collector.remove(&mut unnamed, reached.clone(), wait, &mut done.notes)?;
        let removed: HashSet<ObjectHash> = removed.into_iter().collect();
        done.objects += removed.len() as u64;
        for hash in reached.iter().filter(|hash| !removed.contains(hash)) {
            match named.contains(hash) {
                true => done.shared.push(*hash),
                false => done.shared_files += 1,
            }
        }
        done.shared.sort_unstable_by_key(|hash| hash.0);
        if !done.shared.is_empty() {
            done.named_by = unnamed.naming();
        }
        Ok(())
    }

    /// Adds to a recorded erasure what is reached from its objects.
    fn keep_reached(&self, id: Uuid, pending: &PendingErasure) -> Result<(), StoreError> {
        let (server, pending) = (self.store.server().clone(), Arc::new(pending.clone()));
        self.store.server().block(async move {
            server
                .ask_much("erase in", |client| {
                    let pending = pending.clone();
                    Box::pin(async move {
                        let sql = "UPDATE erasure SET plan = $2 WHERE id = $1";
                        client.execute(sql, &[&id, &Json(&*pending)]).await?;
                        Ok(())
                    })
                })
                .await
        })
    }

    /// The snapshots of the rewinds whose files are erased.
    fn snapshots_of(&self, pending: &PendingErasure) -> Result<Vec<ObjectHash>, StoreError> {
        if pending.rewinds.is_empty() {
            return Ok(Vec::new());
        }
        let reader = match self.store.reader(pending.session) {
            Err(StoreError::NoSession { .. }) => return Ok(Vec::new()),
            reader => reader?,
        };
        let erased = self.named_snapshots(&reader)?;
        let rewinds = erased.erased().filter(|(seq, _)| pending.rewinds.contains(seq));
        Ok(rewinds.map(|(_, snapshot)| snapshot).collect())
    }

    fn new_id(&self) -> Uuid {
        let mut random = [0; 16];
        (self.store.options().env.random)(&mut random);
        Uuid::from_bytes(random)
    }

    /// The erasures that are recorded, oldest first.
    fn pending(&self) -> Result<Vec<(Uuid, PendingErasure)>, StoreError> {
        let server = self.store.server().clone();
        self.store.server().block(async move {
            server
                .ask("read the erasures of", |client| {
                    Box::pin(async move {
                        let sql = "SELECT id, plan FROM erasure ORDER BY begun, id";
                        let rows = client.query(sql, &[]).await?;
                        let each = rows.iter().map(|row| {
                            let Json(plan): Json<PendingErasure> = row.try_get(1)?;
                            Ok((row.try_get(0)?, plan))
                        });
                        each.collect()
                    })
                })
                .await
        })
    }

    fn forget(&self, ids: &[Uuid]) -> Result<(), StoreError> {
        let ids = Arc::new(ids.to_vec());
        let server = self.store.server().clone();
        self.store.server().block(async move {
            server
                .ask("erase in", |client| {
                    let ids = ids.clone();
                    Box::pin(async move {
                        client.execute("DELETE FROM erasure WHERE id = ANY($1)", &[&*ids]).await?;
                        Ok(())
                    })
                })
                .await
        })
    }
}

impl PostgresStore {
    /// Refuses users who may not erase, before anything is changed.
    pub(crate) fn check_may_erase(&self) -> Result<(), StoreError> {
        self.check_privileges("erase in", self.and_objects(&TO_ERASE))
    }

    /// Refuses users who may not remove objects.
    pub(crate) fn check_may_collect(&self) -> Result<(), StoreError> {
        self.check_privileges("remove objects from", self.and_objects(&TO_COLLECT))
    }

    /// Refuses users who may not remove sessions and the objects that only they name, before anything
    /// is changed.
    pub(crate) fn check_may_clean(&self) -> Result<(), StoreError> {
        self.check_privileges("remove sessions from", self.and_objects(&TO_CLEAN))
    }

    /// These privileges, and the one that the removal of objects takes.
    fn and_objects(
        &self,
        needed: &[(&'static str, &'static str)],
    ) -> Vec<(&'static str, &'static str)> {
        let objects = self.objects_elsewhere().is_none().then_some(("object", "DELETE"));
        needed.iter().copied().chain(objects).collect()
    }

    /// Refuses users who lack one of these privileges.
    pub(crate) fn check_privileges(
        &self,
        action: &'static str,
        needed: Vec<(&'static str, &'static str)>,
    ) -> Result<(), StoreError> {
        let (server, place) = (self.server().clone(), self.place());
        let needed = Arc::new(needed);
        let lacking: Vec<String> = self.server().block(async move {
            server
                .ask(action, |client| {
                    let needed = needed.clone();
                    Box::pin(async move {
                        let (tables, rights): (Vec<&str>, Vec<&str>) =
                            needed.iter().copied().unzip();
                        let sql = "SELECT given.privilege || ' on ' || given.name
                            FROM unnest($1::text[], $2::text[]) AS given (name, privilege)
                            WHERE NOT has_table_privilege(name, privilege)";
                        let rows = client.query(sql, &[&tables, &rights]).await?;
                        let each = rows.iter().map(|row| Ok(row.try_get(0)?));
                        each.collect::<Result<_, ServerError>>()
                    })
                })
                .await
        })?;
        if lacking.is_empty() {
            return Ok(());
        }
        let reason = format!(
            "the database user lacks the privilege: {}; an admin of the store has it",
            lacking.join(", ")
        );
        let source = Arc::new(std::io::Error::new(std::io::ErrorKind::PermissionDenied, reason));
        Err(StoreError::Storage { action, place, source })
    }
}

/// Why erased rows are still in the files of the tables.
fn unvacuumed(error: &StoreError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!(
        "the erased rows are still in the files of the database ({error}{}); the next `abide erase` or \
         `abide cleanup` takes them out",
        cause.unwrap_or_default()
    )
}

fn unnamed_error(error: CollectError) -> EraseError {
    match error {
        CollectError::Busy => EraseError::NotBegun(CollectError::Busy),
        CollectError::Store(error) => EraseError::Store(error),
        error => EraseError::Unnamed(error),
    }
}
