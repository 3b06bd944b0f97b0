//! Snapshots of a session's state: a small root, and pages of which only those are read that are
//! needed. Derived: one that does not fit the events is passed over.

use abide_journal::Sum;
use abide_model::{Event, PageId, PageRef, PageSink, Seq, SessionState};
use deadpool_postgres::Object;

use crate::error::Trouble;
use crate::flush::place;

/// Pages are written anew when so many were put and not a quarter of them can be live.
const REWRITE: i64 = 4096;

/// A snapshot taken and not written yet.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    seq: i64,
    sum: Vec<u8>,
    root: Vec<u8>,
    first_page: i64,
    /// Place and bytes of those that are new.
    pages: Vec<(i64, Vec<u8>)>,
}

/// Where the pages of a state are, and where the next one goes.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    first: i64,
    next: i64,
    ready: Vec<(i64, Vec<u8>)>,
    /// How many a whole state has, at the least.
    whole: i64,
}

impl PageSink for Pages {
    type Error = std::convert::Infallible;

    fn put(&mut self, page: Vec<u8>) -> Result<PageRef, Self::Error> {
        let length = u32::try_from(page.len()).unwrap_or(u32::MAX);
        let at = self.next;
        self.next += 1;
        self.ready.push((at, page));
        Ok(PageRef(u64::try_from(at).unwrap_or(0), length))
    }
}

impl Pages {
    /// Takes a snapshot of a state whose pages are all there.
    pub(crate) fn take(&mut self, state: &mut SessionState, (seq, sum): (Seq, Sum)) -> Taken {
        let put = self.next - self.first;
        if put > REWRITE && put > self.whole.saturating_mul(4) {
            state.unsave();
            self.first = self.next;
            self.whole = 0;
        }
        let root = match state.save(self) {
            Ok(root) => root,
            Err(never) => match never {},
        };
        let pages = std::mem::take(&mut self.ready);
        self.whole = self.whole.max(i64::try_from(pages.len()).unwrap_or(i64::MAX));
        let sum = sum.as_ascii().to_vec();
        Taken { seq: place(seq.0), sum, root, first_page: self.first, pages }
    }
}

impl Taken {
    /// Writes it, unless there is a later one.
    pub(crate) async fn write(&self, mut client: Object, sid: i64) -> Result<(), Trouble> {
        let transaction = client.transaction().await?;
        let sql = "INSERT INTO snapshot AS old (sid, seq, sum, root, first_page)
            VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (sid) DO UPDATE SET seq = excluded.seq, sum = excluded.sum,
                root = excluded.root, first_page = excluded.first_page
            WHERE old.seq < excluded.seq";
        let given: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&sid, &self.seq, &self.sum, &self.root, &self.first_page];
        if transaction.execute(sql, &given).await? == 0 {
            return Ok(());
        }
        let (places, bytes): (Vec<i64>, Vec<&[u8]>) =
            self.pages.iter().map(|(place, bytes)| (*place, bytes.as_slice())).unzip();
        let sql = "INSERT INTO page (sid, place, bytes)
            SELECT $1, given.place, given.bytes
            FROM unnest($2::bigint[], $3::bytea[]) AS given (place, bytes)
            ON CONFLICT (sid, place) DO UPDATE SET bytes = excluded.bytes";
        transaction.execute(sql, &[&sid, &places, &bytes]).await?;
        let sql = "DELETE FROM page WHERE sid = $1 AND place < $2";
        transaction.execute(sql, &[&sid, &self.first_page]).await?;
        transaction.commit().await?;
        Ok(())
    }
}

/// A state read from a snapshot; its pages are away until they are brought in.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) state: SessionState,
    pub(crate) pages: Pages,
    pub(crate) seq: Seq,
    pub(crate) sum: Sum,
}

impl Restored {
    /// The snapshot of a session, where there is one that this program can read and that fits the
    /// event it was taken behind.
    pub(crate) async fn read(client: &Object, sid: i64) -> Result<Option<Self>, Trouble> {
        let sql = "SELECT snapshot.seq, snapshot.sum, root, first_page,
                (SELECT coalesce(max(place), -1) FROM page WHERE page.sid = snapshot.sid)
            FROM snapshot JOIN event ON event.sid = snapshot.sid AND event.seq = snapshot.seq
                AND event.sum = snapshot.sum
            WHERE snapshot.sid = $1";
        let statement = client.prepare_cached(sql).await?;
        let Some(row) = client.query_opt(&statement, &[&sid]).await? else { return Ok(None) };
        let seq = Seq(u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0));
        let (sum, root): (&[u8], &[u8]) = (row.try_get(1)?, row.try_get(2)?);
        let first: i64 = row.try_get(3)?;
        let next = first.max(row.try_get::<_, i64>(4)? + 1);
        let (Some(sum), Ok(state)) = (Sum::from_ascii(sum), SessionState::restore(root)) else {
            return Ok(None);
        };
        let pages = Pages { first, next, ..Pages::default() };
        Ok((state.core.seq == seq).then_some(Self { state, pages, seq, sum }))
    }

    /// Brings in all pages; `false` when one is not readable.
    pub(crate) async fn bring_all(&mut self, client: &Object, sid: i64) -> Result<bool, Trouble> {
        let away = self.state.away();
        let whole = bring(&mut self.state, client, sid, &away).await?;
        self.pages.whole = i64::try_from(away.len()).unwrap_or(i64::MAX);
        Ok(whole)
    }

    /// Brings in the pages that a lane is looked up in.
    pub(crate) async fn bring_lane(
        &mut self,
        client: &Object,
        sid: i64,
        lane: &str,
    ) -> Result<bool, Trouble> {
        let missing = self.state.missing_lane(lane);
        bring(&mut self.state, client, sid, &missing).await
    }

    /// Brings in the pages that an event needs.
    pub(crate) async fn bring_for(
        &mut self,
        client: &Object,
        sid: i64,
        event: &Event,
    ) -> Result<bool, Trouble> {
        loop {
            let missing = self.state.missing(event);
            if missing.is_empty() {
                return Ok(true);
            }
            if !bring(&mut self.state, client, sid, &missing).await? {
                return Ok(false);
            }
        }
    }
}

async fn bring(
    state: &mut SessionState,
    client: &Object,
    sid: i64,
    wanted: &[PageId],
) -> Result<bool, Trouble> {
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
        let bytes: &[u8] = row.try_get(1)?;
        if state.install(id, bytes).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}
