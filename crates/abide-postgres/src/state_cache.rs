//! The state cache of a session: a small root, and pages that are read only if needed. It is
//! derived: one that does not match the events is ignored.
//!
//! A page's place starts with the epoch of the writer that put it, and a writer counts up: so the
//! page at a place never changes, whoever writes when. Each page carries a checksum.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use abide_journal::Sum;
use abide_model::{
    Epoch, Event, ObjectHash, PageRef, Seq, SessionState, StatePageId, StatePageSink,
};
use deadpool_postgres::Object;

use crate::error::ServerError;
use crate::flusher::place;
use crate::lease::lease_epoch_number;

/// Pages are rewritten once this many were put and less than a quarter of them can be in use.
const REWRITE: i64 = 4096;
/// The bytes of a checksum.
const CHECK: usize = 16;

/// A state cache that is not written yet.
#[derive(Debug, Default)]
pub(crate) struct PendingStateCache {
    /// The epoch of its writer.
    epoch: i64,
    seq: i64,
    sum: Vec<u8>,
    root: Vec<u8>,
    first_page: i64,
    /// Place and bytes of the new pages.
    pages: Vec<(i64, Vec<u8>)>,
    failed: Arc<AtomicBool>,
}

/// Where the pages of a state are, and where the next one goes.
#[derive(Debug, Default)]
pub(crate) struct StatePageLayout {
    /// The epoch of the writer that adds pages.
    epoch: i64,
    /// The first page in use.
    first: i64,
    next: i64,
    ready: Vec<(i64, Vec<u8>)>,
    /// How many are in the table.
    put: i64,
    /// The least number of pages of a whole state.
    whole: i64,
    /// The last write failed.
    failed: Arc<AtomicBool>,
}

impl StatePageSink for StatePageLayout {
    type Error = std::convert::Infallible;

    fn put(&mut self, page: Vec<u8>) -> Result<PageRef, Self::Error> {
        let length = u32::try_from(page.len()).unwrap_or(u32::MAX);
        let at = self.next;
        self.next += 1;
        self.ready.push((at, seal_cache(&page)));
        Ok(PageRef(u64::try_from(at).unwrap_or(0), length))
    }
}

impl StatePageLayout {
    /// The same pages, for the writer of this epoch to add to.
    pub(crate) fn of_writer(self, epoch: Epoch) -> Self {
        let epoch = lease_epoch_number(epoch);
        Self { epoch, next: epoch.saturating_mul(1 << 32), ..self }
    }

    /// Makes a state cache of a state whose pages are all loaded.
    pub(crate) fn take(
        &mut self,
        state: &mut SessionState,
        (seq, sum): (Seq, Sum),
    ) -> PendingStateCache {
        let crowded = self.put > REWRITE && self.put > self.whole.saturating_mul(4);
        if crowded || self.failed.swap(false, Ordering::Relaxed) {
            state.unsave();
            (self.first, self.put, self.whole) = (self.next, 0, 0);
        }
        let root = match state.save(self) {
            Ok(root) => root,
            Err(never) => match never {},
        };
        let pages = std::mem::take(&mut self.ready);
        let count = i64::try_from(pages.len()).unwrap_or(i64::MAX);
        (self.put, self.whole) = (self.put.saturating_add(count), self.whole.max(count));
        PendingStateCache {
            epoch: self.epoch,
            seq: place(seq.0),
            sum: sum.as_ascii().to_vec(),
            root: seal_cache(&root),
            first_page: self.first,
            pages,
            failed: self.failed.clone(),
        }
    }
}

/// Bytes with their checksum before them.
fn seal_cache(bytes: &[u8]) -> Vec<u8> {
    let mut sealed = cache_check(bytes).to_vec();
    sealed.extend_from_slice(bytes);
    sealed
}

/// The bytes after a checksum, if it matches.
fn unseal_cache(sealed: &[u8]) -> Option<&[u8]> {
    let (sum, bytes) = sealed.split_at_checked(CHECK)?;
    (sum == cache_check(bytes)).then_some(bytes)
}

fn cache_check(bytes: &[u8]) -> [u8; CHECK] {
    let mut check = [0; CHECK];
    for (to, from) in check.iter_mut().zip(ObjectHash::of(bytes).as_bytes()) {
        *to = *from;
    }
    check
}

impl PendingStateCache {
    /// Writes it, unless there is a later one that matches, or another writer since: it may have
    /// erased what this one has.
    pub(crate) async fn write(&self, mut client: Object, sid: i64) -> Result<(), ServerError> {
        let transaction = client.transaction().await?;
        let sql = "SELECT 1 FROM lease WHERE sid = $1 AND epoch = $2 FOR SHARE";
        if transaction.query_opt(sql, &[&sid, &self.epoch]).await?.is_none() {
            return Ok(());
        }
        let (places, bytes): (Vec<i64>, Vec<&[u8]>) =
            self.pages.iter().map(|(place, bytes)| (*place, bytes.as_slice())).unzip();
        // Its pages in any case: a later cache may have been written first, and needs them.
        let sql = "INSERT INTO page (sid, place, bytes)
            SELECT $1, given.place, given.bytes
            FROM unnest($2::bigint[], $3::bytea[]) AS given (place, bytes)
            ON CONFLICT (sid, place) DO NOTHING";
        transaction.execute(sql, &[&sid, &places, &bytes]).await?;
        let sql = "INSERT INTO snapshot AS old (sid, seq, sum, root, first_page)
            VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (sid) DO UPDATE SET seq = excluded.seq, sum = excluded.sum,
                root = excluded.root, first_page = excluded.first_page
            WHERE old.seq < excluded.seq OR NOT EXISTS (SELECT 1 FROM event
                WHERE event.sid = old.sid AND event.seq = old.seq AND event.sum = old.sum)";
        let given: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&sid, &self.seq, &self.sum, &self.root, &self.first_page];
        if transaction.execute(sql, &given).await? > 0 {
            let sql = "DELETE FROM page WHERE sid = $1 AND place < $2";
            transaction.execute(sql, &[&sid, &self.first_page]).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Notes that it could not be written: the next one must not rely on its pages.
    pub(crate) fn failed(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }
}

/// A state read from the cache; its pages are loaded on request.
#[derive(Debug)]
pub(crate) struct LoadedStateCache {
    pub(crate) state: SessionState,
    pub(crate) pages: StatePageLayout,
    pub(crate) seq: Seq,
    pub(crate) sum: Sum,
}

impl LoadedStateCache {
    /// The state cache of a session, if there is one that this program can read and that matches
    /// the event it was made at.
    pub(crate) async fn read(client: &Object, sid: i64) -> Result<Option<Self>, ServerError> {
        let sql = "SELECT snapshot.seq, snapshot.sum, root, first_page,
                (SELECT count(*) FROM page WHERE page.sid = snapshot.sid)
            FROM snapshot JOIN event ON event.sid = snapshot.sid AND event.seq = snapshot.seq
                AND event.sum = snapshot.sum
            WHERE snapshot.sid = $1";
        let statement = client.prepare_cached(sql).await?;
        let Some(row) = client.query_opt(&statement, &[&sid]).await? else { return Ok(None) };
        let seq = Seq(u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0));
        let (sum, root): (&[u8], &[u8]) = (row.try_get(1)?, row.try_get(2)?);
        let state = unseal_cache(root).and_then(|root| SessionState::restore(root).ok());
        let (Some(sum), Some(state)) = (Sum::from_ascii(sum), state) else { return Ok(None) };
        let pages = StatePageLayout {
            first: row.try_get(3)?,
            put: row.try_get(4)?,
            ..StatePageLayout::default()
        };
        Ok((state.core.seq == seq).then_some(Self { state, pages, seq, sum }))
    }

    /// Loads all pages; `false` if one is not readable.
    pub(crate) async fn bring_all(
        &mut self,
        client: &Object,
        sid: i64,
    ) -> Result<bool, ServerError> {
        let away = self.state.away();
        let whole = bring_cached_pages(&mut self.state, client, sid, &away).await?;
        self.pages.whole = i64::try_from(away.len()).unwrap_or(i64::MAX);
        Ok(whole)
    }

    /// Loads the pages needed to look up a lane.
    pub(crate) async fn bring_lane(
        &mut self,
        client: &Object,
        sid: i64,
        lane: &str,
    ) -> Result<bool, ServerError> {
        let missing = self.state.missing_lane(lane);
        bring_cached_pages(&mut self.state, client, sid, &missing).await
    }

    /// Loads the pages that an event needs.
    pub(crate) async fn bring_for(
        &mut self,
        client: &Object,
        sid: i64,
        event: &Event,
    ) -> Result<bool, ServerError> {
        loop {
            let missing = self.state.missing(event);
            if missing.is_empty() {
                return Ok(true);
            }
            if !bring_cached_pages(&mut self.state, client, sid, &missing).await? {
                return Ok(false);
            }
        }
    }
}

async fn bring_cached_pages(
    state: &mut SessionState,
    client: &Object,
    sid: i64,
    wanted: &[StatePageId],
) -> Result<bool, ServerError> {
    let mut ids = Vec::with_capacity(wanted.len());
    for id in wanted {
        match state.page_ref(*id) {
            Some(PageRef(at, _)) => ids.push((place(at), *id)),
            None => return Ok(false),
        }
    }
    if ids.is_empty() {
        return Ok(true);
    }
    ids.sort_unstable_by_key(|(place, _)| *place);
    let places: Vec<i64> = ids.iter().map(|(place, _)| *place).collect();
    let sql = "SELECT place, bytes FROM page WHERE sid = $1 AND place = ANY($2) ORDER BY place";
    let statement = client.prepare_cached(sql).await?;
    let rows = client.query(&statement, &[&sid, &places]).await?;
    if rows.len() != ids.len() {
        return Ok(false);
    }
    for (row, (_, id)) in rows.iter().zip(ids) {
        let bytes = unseal_cache(row.try_get(1)?);
        if bytes.is_none_or(|bytes| state.install(id, bytes).is_err()) {
            return Ok(false);
        }
    }
    Ok(true)
}
