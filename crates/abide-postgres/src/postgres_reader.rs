//! Reads a session, with or without a writer beside it. Everything in the table is acknowledged.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_journal::{JournalLine, Sum};
use abide_model::{
    Event, EventPage, EventRange, LaneId, LaneState, ObjectHash, Objects, ReadDirection,
    ReadFinding, Seq, SessionCore, SessionId, SessionReader, SessionState, StoreError,
    fold_lineage, rewind_target,
};
use deadpool_postgres::Object;

use crate::error::ServerError;
use crate::flusher::place;
use crate::notify::NotifyListener;
use crate::server_connection::{ServerConnection, beside_connection, joined_connection_task};
use crate::state_cache::LoadedStateCache;

/// The most bytes of data in one page.
const PAGE_BYTES: u64 = 8 << 20;
/// Events read at a time when all are read.
const CHUNK: usize = 4096;

/// A range of a session's events: its own, or some that it shares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowRange {
    pub(crate) sid: i64,
    pub(crate) first: Seq,
    pub(crate) last: Seq,
}

/// A session in the table, with the past that it shares.
#[derive(Debug, Clone)]
pub(crate) struct PostgresSessionRows {
    pub(crate) sid: i64,
    /// Oldest first; the last one is the session's own.
    pub(crate) stretches: Vec<RowRange>,
}

impl PostgresSessionRows {
    /// Looks up a session.
    pub(crate) async fn find(client: &Object, session: SessionId) -> Result<Self, ServerError> {
        let sql = "WITH RECURSIVE up AS (
                SELECT sid, parent, parent_seq, 0 AS depth FROM session WHERE id = $1
                UNION ALL
                SELECT session.sid, session.parent, session.parent_seq, depth + 1
                FROM session JOIN up ON session.sid = up.parent WHERE depth < 1000)
            SELECT sid, parent_seq FROM up ORDER BY depth";
        let statement = client.prepare_cached(sql).await?;
        let id = uuid::Uuid::from_bytes(*session.as_bytes());
        let rows = client.query(&statement, &[&id]).await?;
        let mut last = Seq(u64::MAX);
        let mut stretches = Vec::with_capacity(rows.len());
        for row in &rows {
            let before = Seq(u64::try_from(row.try_get::<_, i64>(1)?).unwrap_or(0));
            stretches.push(RowRange { sid: row.try_get(0)?, first: before.next(), last });
            // A fork of a fork may share less than its parent did.
            last = last.min(before);
        }
        let own = stretches.first().map(|stretch| stretch.sid);
        stretches.reverse();
        stretches.retain(|stretch| stretch.first <= stretch.last);
        match own {
            Some(sid) => Ok(Self { sid, stretches }),
            None => Err(StoreError::NoSession { reference: session.to_string() }.into()),
        }
    }

    /// The last event that it shares.
    pub(crate) fn shared(&self) -> Seq {
        self.stretches.last().map_or(Seq::ZERO, |own| own.first.back(1))
    }
}

/// Reads a session.
#[derive(Debug, Clone)]
pub(crate) struct PostgresReader {
    pub(crate) server: Arc<ServerConnection>,
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) session: SessionId,
    pub(crate) known: Arc<PostgresSessionRows>,
    pub(crate) listener: Arc<NotifyListener>,
    /// How often to poll while notifications also come.
    pub(crate) look_every: Duration,
}

/// The end of a session, and the state there.
#[derive(Debug)]
pub(crate) struct StateAtEnd {
    pub(crate) state: SessionState,
    pub(crate) pages: crate::state_cache::StatePageLayout,
    pub(crate) seq: Seq,
    pub(crate) sum: Sum,
}

impl PostgresReader {
    /// Lines of a range in the requested direction, each with its place, and where the next ones
    /// are.
    pub(crate) async fn lines(
        &self,
        range: EventRange,
    ) -> Result<(Vec<(Seq, Vec<u8>)>, Option<Seq>), StoreError> {
        let known = self.known.clone();
        let limit = range.limit.max(1);
        self.server
            .ask("read a session of", |client| {
                let known = known.clone();
                Box::pin(async move {
                    let mut parts: Vec<RowRange> = known.stretches.clone();
                    if range.direction == ReadDirection::Backward {
                        parts.reverse();
                    }
                    let mut lines = Vec::new();
                    for part in parts {
                        let (first, last) =
                            (range.first.max(part.first), range.last.min(part.last));
                        let left = limit + 1 - lines.len();
                        if first > last || left == 0 {
                            continue;
                        }
                        let order = match range.direction {
                            ReadDirection::Forward => "ASC",
                            ReadDirection::Backward => "DESC",
                        };
                        let sql = format!(
                            "SELECT seq, line FROM event WHERE sid = $1 AND seq BETWEEN $2 AND $3
                             ORDER BY seq {order} LIMIT $4"
                        );
                        let statement = client.prepare_cached(&sql).await?;
                        let left = i64::try_from(left).unwrap_or(i64::MAX);
                        let given: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                            [&part.sid, &place(first.0), &place(last.0), &left];
                        for row in client.query(&statement, &given).await? {
                            let seq = Seq(u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0));
                            lines.push((seq, row.try_get::<_, Vec<u8>>(1)?));
                        }
                    }
                    let next = lines.get(limit).map(|(seq, _)| *seq);
                    lines.truncate(limit);
                    Ok((lines, next))
                })
            })
            .await
    }

    /// A page of events, with their objects put back in.
    pub(crate) async fn read_page(&self, range: EventRange) -> Result<EventPage, StoreError> {
        let (lines, mut next) = self.lines(range).await?;
        let mut notes = Vec::new();
        let mut read = Vec::with_capacity(lines.len());
        let (mut bytes, mut wanted) = (0_u64, Vec::new());
        for (seq, raw) in &lines {
            let line = match parse_sound_line(*seq, raw) {
                Ok(line) => line,
                Err(reason) => {
                    notes.push(self.damage(*seq, reason));
                    continue;
                }
            };
            let named = line.objects();
            let size = named.iter().fold(raw.len() as u64, |sum, it| sum.saturating_add(it.size));
            if !read.is_empty() && bytes.saturating_add(size) > PAGE_BYTES {
                next = Some(line.seq);
                break;
            }
            bytes = bytes.saturating_add(size);
            wanted.extend(named.iter().map(|object| object.hash));
            read.push(line);
        }
        let found = fetch_objects_to_read(&self.objects, wanted).await?;
        let mut events = Vec::with_capacity(read.len());
        for line in read {
            let (event, note) =
                line.whole_event(self.session, &|hash| Ok(found.get(&hash).cloned()));
            events.extend(event);
            notes.extend(note);
        }
        Ok(EventPage { events, notes, next })
    }

    fn damage(&self, seq: Seq, reason: String) -> ReadFinding {
        let place = format!("event {seq} of session {}", self.session);
        ReadFinding::Damage { place, reason, lost: Some((seq, seq)) }
    }

    /// Parses a line that later ones depend on.
    fn needed<'a>(&self, seq: Seq, raw: &'a [u8]) -> Result<JournalLine<'a>, StoreError> {
        parse_sound_line(seq, raw).map_err(|reason| StoreError::Damaged {
            place: format!("event {seq} of session {}", self.session),
            reason,
        })
    }

    /// Every event up to `to`, without large strings, which the fold does not need.
    pub(crate) async fn events(&self, from: Seq, to: Seq) -> Result<Vec<Event>, StoreError> {
        let mut events = Vec::new();
        let mut range = EventRange { first: from, last: to, ..EventRange::ALL }.limit(CHUNK);
        loop {
            let (lines, next) = self.lines(range).await?;
            for (seq, raw) in &lines {
                events.extend(self.needed(*seq, raw)?.event());
            }
            match next {
                Some(next) => range.first = next,
                None => return Ok(events),
            }
        }
    }

    /// The state at `to`, folded from the first event.
    pub(crate) async fn state_at(&self, to: Seq) -> Result<SessionState, StoreError> {
        let events = self.events(Seq::FIRST, to).await?;
        let folded = fold_lineage(to, &|visit| {
            events.iter().for_each(&mut *visit);
            Ok::<(), StoreError>(())
        });
        let mut state = folded?;
        // The state of the fork as if rewound to `to`: its own later events count as dead.
        for later in self.known.stretches.iter().filter(|stretch| stretch.first > to) {
            for event in self.events(later.first, later.first).await? {
                state.apply_dead(&event);
            }
        }
        Ok(state)
    }

    /// The sum of an event.
    pub(crate) async fn sum_of(&self, seq: Seq) -> Result<Sum, StoreError> {
        let range = EventRange { first: seq, last: seq, ..EventRange::ALL };
        let (lines, _) = self.lines(range).await?;
        let line = lines.first().map(|(seq, raw)| self.needed(*seq, raw));
        line.unwrap_or_else(|| {
            Err(StoreError::Damaged {
                place: format!("event {seq} of session {}", self.session),
                reason: "missing".to_owned(),
            })
        })
        .map(|line| line.sum)
    }

    /// The last event and its sum.
    pub(crate) async fn last(&self) -> Result<(Seq, Sum), StoreError> {
        let (lines, _) = self.lines(EventRange::ALL.backward().limit(1)).await?;
        match lines.first() {
            Some((seq, raw)) => self.needed(*seq, raw).map(|line| (line.seq, line.sum)),
            None => Ok((Seq::ZERO, Sum::genesis(self.session))),
        }
    }

    /// The end of the session, and the whole state there.
    pub(crate) async fn end(&self) -> Result<StateAtEnd, StoreError> {
        let sid = self.known.sid;
        let restored = self.restored(move |mut restored, client| {
            Box::pin(async move { Ok(restored.bring_all(&client, sid).await?.then_some(restored)) })
        });
        if let Some(restored) = restored.await? {
            let mut end = StateAtEnd {
                seq: restored.seq,
                sum: restored.sum,
                state: restored.state,
                pages: restored.pages,
            };
            if self.go_on(&mut end).await? {
                return Ok(end);
            }
        }
        let (seq, sum) = self.last().await?;
        let state = self.state_at(seq).await?;
        Ok(StateAtEnd { state, pages: crate::state_cache::StatePageLayout::default(), seq, sum })
    }

    /// Applies the events after the state cache; `false` if everything must be folded again.
    async fn go_on(&self, end: &mut StateAtEnd) -> Result<bool, StoreError> {
        let mut range = EventRange::from(end.seq.next()).limit(CHUNK);
        loop {
            let (lines, next) = self.lines(range).await?;
            for (seq, raw) in &lines {
                let line = self.needed(*seq, raw)?;
                if let Some(event) = line.event() {
                    if rewind_target(&event).is_some() {
                        return Ok(false);
                    }
                    end.state.apply(&event);
                }
                (end.seq, end.sum) = (line.seq, line.sum);
            }
            match next {
                Some(next) => range.first = next,
                None => return Ok(true),
            }
        }
    }

    async fn restored(
        &self,
        bring: impl Fn(
            LoadedStateCache,
            Object,
        ) -> crate::server_connection::ServerFuture<Option<LoadedStateCache>>
        + Clone
        + Send
        + Sync
        + 'static,
    ) -> Result<Option<LoadedStateCache>, StoreError> {
        let sid = self.known.sid;
        self.server
            .ask("read a session of", move |client| {
                let bring = bring.clone();
                Box::pin(async move {
                    match LoadedStateCache::read(&client, sid).await? {
                        Some(restored) => bring(restored, client).await,
                        None => Ok(None),
                    }
                })
            })
            .await
    }

    /// The small part of the state at the end and one lane of it. Reads only the pages that these
    /// need.
    async fn lane_at_end(&self, name: String) -> Result<(SessionCore, LaneState), StoreError> {
        let sid = self.known.sid;
        let tail = self.tail_behind_snapshot().await?;
        if let Some(tail) = tail {
            let wanted = name.clone();
            let tail = Arc::new(tail);
            let restored = self.restored(move |mut restored, client| {
                let (name, tail) = (wanted.clone(), tail.clone());
                Box::pin(async move {
                    let taken = restored.seq;
                    for event in tail.iter().filter(|event| event.seq > taken) {
                        if !restored.bring_for(&client, sid, event).await? {
                            return Ok(None);
                        }
                        restored.state.apply(event);
                    }
                    let whole = restored.bring_lane(&client, sid, &name).await?;
                    Ok(whole.then_some(restored))
                })
            });
            if let Some(restored) = restored.await? {
                return Ok(lane_to_read(&restored.state, &name));
            }
        }
        let (seq, _) = self.last().await?;
        Ok(lane_to_read(&self.state_at(seq).await?, &name))
    }

    /// The events after the state cache; `None` if there is no cache, or a rewind to before it.
    async fn tail_behind_snapshot(&self) -> Result<Option<Vec<Event>>, StoreError> {
        let sid = self.known.sid;
        let seq = self
            .server
            .ask("read a session of", move |client| {
                Box::pin(async move {
                    let statement =
                        client.prepare_cached("SELECT seq FROM snapshot WHERE sid = $1").await?;
                    let row = client.query_opt(&statement, &[&sid]).await?;
                    Ok(row.map(|row| row.try_get::<_, i64>(0)).transpose()?)
                })
            })
            .await?;
        let Some(seq) = seq else { return Ok(None) };
        let from = Seq(u64::try_from(seq).unwrap_or(0)).next();
        let tail = self.events(from, Seq(u64::MAX)).await?;
        let rewound = tail.iter().any(|event| rewind_target(event).is_some());
        Ok((!rewound).then_some(tail))
    }

    async fn bytes_now(&self) -> Result<u64, StoreError> {
        let sid = self.known.sid;
        self.server
            .ask("read a session of", move |client| {
                Box::pin(async move {
                    let sql = "SELECT (SELECT coalesce(sum(pg_column_size(event.*)), 0)
                            FROM event WHERE sid = $1)
                        + (SELECT coalesce(sum(pg_column_size(page.*)), 0) FROM page WHERE sid = $1)";
                    let row = client.query_one(sql, &[&sid]).await?;
                    let bytes: i64 = row.try_get(0)?;
                    Ok(u64::try_from(bytes).unwrap_or(0))
                })
            })
            .await
    }
}

/// The objects with these names that exist.
pub(crate) async fn fetch_objects_to_read(
    objects: &Arc<dyn Objects>,
    wanted: Vec<ObjectHash>,
) -> Result<HashMap<ObjectHash, Vec<u8>>, StoreError> {
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let objects = objects.clone();
    let reading = beside_connection(move || {
        let mut found = HashMap::new();
        objects.read_many(&wanted, &mut |index, bytes| {
            if let (Some(hash), Some(bytes)) = (wanted.get(index), bytes) {
                found.insert(*hash, bytes.to_vec());
            }
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(found)
    });
    joined_connection_task(reading.await).unwrap_or_else(|| Ok(HashMap::new()))
}

/// Parses a line and checks its sum and its place; the error says what is wrong.
pub(crate) fn parse_sound_line(seq: Seq, raw: &[u8]) -> Result<JournalLine<'_>, String> {
    let line = JournalLine::read(raw).map_err(|error| error.to_string())?;
    if line.seq != seq {
        return Err(format!("holds event {} instead", line.seq));
    }
    Ok(line)
}

/// How often a follower polls while no notifications come.
const LOOK: Duration = Duration::from_millis(100);

impl PostgresReader {
    /// Waits for more events: until it is notified, or polls and finds them.
    async fn grows(&self, beyond: Seq, within: Duration) -> Result<bool, StoreError> {
        // Subscribe first, then look, so that nothing is missed in between.
        let mut hearing = self.listener.hear(&self.server);
        let until = Instant::now().checked_add(within);
        loop {
            if self.last().await?.0 > beyond {
                return Ok(true);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            let pause = if self.listener.is_up() { self.look_every } else { LOOK };
            let look = Instant::now() + left.map_or(pause, |left| left.min(pause));
            loop {
                let left = look.saturating_duration_since(Instant::now());
                match tokio::time::timeout(left, hearing.recv()).await {
                    Ok(Ok(sids)) if !sids.is_empty() && !sids.contains(&self.known.sid) => {}
                    _ => break,
                }
            }
        }
    }
}

fn lane_to_read(state: &SessionState, name: &str) -> (SessionCore, LaneState) {
    (state.core.clone(), state.lane(name).cloned().unwrap_or_default())
}

impl SessionReader for PostgresReader {
    fn page(&self, range: EventRange) -> Result<EventPage, StoreError> {
        let this = self.clone();
        self.server.block(async move { this.read_page(range).await })
    }

    fn acknowledged(&self) -> Result<Seq, StoreError> {
        let this = self.clone();
        self.server.block(async move { this.last().await.map(|(seq, _)| seq) })
    }

    fn grown(&self, beyond: Seq, within: Duration) -> Result<bool, StoreError> {
        let this = self.clone();
        self.server.block(async move { this.grows(beyond, within).await })
    }

    fn state(&self) -> Result<SessionState, StoreError> {
        let this = self.clone();
        self.server.block(async move { this.end().await.map(|end| end.state) })
    }

    fn lane(
        &self,
        lane: Option<&LaneId>,
        at: Option<Seq>,
    ) -> Result<(SessionCore, LaneState), StoreError> {
        let this = self.clone();
        let name = lane.map(LaneId::as_str).unwrap_or_default().to_owned();
        self.server.block(async move {
            match at {
                Some(at) => Ok(lane_to_read(&this.state_at(at).await?, &name)),
                None => this.lane_at_end(name).await,
            }
        })
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        let this = self.clone();
        self.server.block(async move { this.bytes_now().await })
    }
}
