//! Which objects the events of all sessions name: read once without a lock, and then what has come
//! since.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use abide_maintain::{
    CheckpointNumbers, CollectError, NamedObjects, NamedSnapshots, ObjectAccess, object_names_in,
    recorded_recovery,
};
use abide_model::{ObjectHash, Seq, SessionId, StoreError};
use deadpool_postgres::Object;
use uuid::Uuid;

use crate::error::ServerError;
use crate::postgres_reader::parse_sound_line;
use crate::postgres_store::{PostgresStore, session_id};

/// The sessions, and the lines of each, that are read by one statement.
const SESSIONS: usize = 64;
const LINES: i64 = 64;
/// The most events listed that name objects which stay.
const MOST_NAMED: usize = 10;

/// A line of a session's own events.
struct SurveyedLine {
    sid: i64,
    seq: i64,
    line: Vec<u8>,
}

/// What is known of a session.
struct SurveyedSession {
    id: SessionId,
    snapshots: NamedSnapshots,
    /// The last event that was read.
    last: i64,
    /// Whether it was read since the live objects were last told.
    grown: bool,
    /// What repairs have named as lost, by repair.
    lost: Vec<(Option<String>, Vec<ObjectHash>)>,
}

/// The names in the events of a store.
pub(crate) struct NamedRows<'a> {
    store: &'a PostgresStore,
    sessions: BTreeMap<i64, SurveyedSession>,
    /// Sessions that are taken as removed.
    without: HashSet<SessionId>,
    named: NamedObjects,
    /// Objects whose names are noted.
    asked: HashSet<ObjectHash>,
    /// The first events that name one of those.
    pub(crate) naming: Vec<(SessionId, Seq)>,
}

impl<'a> NamedRows<'a> {
    /// Nothing is read yet. The first events are noted that name one of `asked`.
    pub(crate) fn new(store: &'a PostgresStore, asked: HashSet<ObjectHash>) -> Self {
        Self {
            store,
            sessions: BTreeMap::new(),
            without: HashSet::new(),
            named: NamedObjects::default(),
            asked,
            naming: Vec::new(),
        }
    }

    /// Takes these sessions as removed.
    pub(crate) fn without(self, without: HashSet<SessionId>) -> Self {
        Self { without, ..self }
    }

    /// Reads what was not read yet, and returns every object that it leads to. What is named by
    /// events that were read before is not returned again.
    pub(crate) fn live_objects(
        &mut self,
        notes: &mut Vec<String>,
    ) -> Result<HashSet<ObjectHash>, CollectError> {
        let _primary = self.store.server().only_primary();
        self.read_sessions()?;
        let sids: Vec<i64> = self.sessions.keys().copied().collect();
        for chunk in sids.chunks(SESSIONS) {
            let mut left = chunk.to_vec();
            while !left.is_empty() {
                left = self.read_lines(&left)?;
            }
        }
        let mut named = std::mem::take(&mut self.named);
        for session in self.sessions.values_mut() {
            let lost = session.lost.iter().flat_map(|(_, objects)| objects);
            named.lost.extend(lost.copied());
            if std::mem::take(&mut session.grown) {
                named.staying(session.id, &session.snapshots);
            }
        }
        let objects = self.store.objects_of_store();
        let read = |hash| objects.read(hash);
        let there = |hashes: &[ObjectHash]| self.store.stored_among(hashes);
        named.reached(&ObjectAccess { read: &read, there: &there }, notes)
    }

    fn read_sessions(&mut self) -> Result<(), CollectError> {
        let server = self.store.server().clone();
        let rows = self.store.server().block(async move {
            server
                .ask_much("read the sessions of", |client| {
                    Box::pin(async move { all_session_rows(&client).await })
                })
                .await
        })?;
        for (sid, id, forked_at) in rows {
            if self.sessions.contains_key(&sid) || self.without.contains(&id) {
                continue;
            }
            let last = match forked_at {
                None => 0,
                Some(seq) => match self.store.reader(id) {
                    Ok(reader) => {
                        let state = self.store.server();
                        state
                            .block(async move { reader.state_at(seq).await })?
                            .core
                            .checkpoints
                            .last
                    }
                    // It was deleted meanwhile.
                    Err(StoreError::NoSession { .. }) => continue,
                    Err(error) => return Err(error.into()),
                },
            };
            let snapshots = NamedSnapshots::new(CheckpointNumbers::after(Some(last)));
            let session =
                SurveyedSession { id, snapshots, last: 0, grown: false, lost: Vec::new() };
            self.sessions.insert(sid, session);
        }
        Ok(())
    }

    /// Reads the next lines of these sessions. Returns those that may have more.
    fn read_lines(&mut self, sids: &[i64]) -> Result<Vec<i64>, CollectError> {
        let last = |sid: &i64| self.sessions.get(sid).map_or(0, |session| session.last);
        let asked: Arc<(Vec<i64>, Vec<i64>)> =
            Arc::new((sids.to_vec(), sids.iter().map(last).collect()));
        let server = self.store.server().clone();
        let lines = self.store.server().block(async move {
            server
                .ask("read the sessions of", |client| {
                    let asked = asked.clone();
                    Box::pin(async move { surveyed_lines(&client, &asked).await })
                })
                .await
        })?;
        let mut counts: HashMap<i64, i64> = HashMap::new();
        for row in &lines {
            let Some(session) = self.sessions.get_mut(&row.sid) else { continue };
            *counts.entry(row.sid).or_default() += 1;
            session.last = row.seq;
            session.grown = true;
            let seq = Seq(u64::try_from(row.seq).unwrap_or(0));
            let line =
                parse_sound_line(seq, &row.line).map_err(|reason| CollectError::Unreadable {
                    place: format!("event {seq} of session {}", session.id),
                    reason,
                })?;
            self.named.line(&line, &mut session.snapshots);
            if self.naming.len() < MOST_NAMED
                && object_names_in(line.bytes()).any(|name| self.asked.contains(&name))
            {
                self.naming.push((session.id, seq));
            }
            if let Some(recovery) = recorded_recovery(&line) {
                let repair = recovery.repair;
                if recovery.strategy == "undo" && repair.is_some() {
                    session.lost.retain(|(of, _)| *of != repair);
                }
                session.lost.push((repair, recovery.lost_objects));
            }
        }
        Ok(counts.into_iter().filter(|(_, count)| *count == LINES).map(|(sid, _)| sid).collect())
    }
}

/// Every session, and for a fork the last event that it shares.
async fn all_session_rows(
    client: &Object,
) -> Result<Vec<(i64, SessionId, Option<Seq>)>, ServerError> {
    let sql = "SELECT sid, id, CASE WHEN parent IS NOT NULL THEN parent_seq END FROM session";
    let rows = client.query(sql, &[]).await?;
    let each = rows.iter().map(|row| {
        let at: Option<i64> = row.try_get(2)?;
        let at = at.map(|at| Seq(u64::try_from(at).unwrap_or(0)));
        Ok((row.try_get(0)?, session_id(row.try_get::<_, Uuid>(1)?), at))
    });
    each.collect()
}

async fn surveyed_lines(
    client: &Object,
    (sids, lasts): &(Vec<i64>, Vec<i64>),
) -> Result<Vec<SurveyedLine>, ServerError> {
    let sql = "SELECT given.sid, own.seq, own.line
        FROM unnest($1::bigint[], $2::bigint[]) AS given (sid, last)
        CROSS JOIN LATERAL (
            SELECT event.seq, event.line FROM event
            WHERE event.sid = given.sid AND event.seq > given.last
            ORDER BY event.seq LIMIT $3) AS own
        ORDER BY given.sid, own.seq";
    let statement = client.prepare_cached(sql).await?;
    let rows = client.query(&statement, &[sids, lasts, &LINES]).await?;
    let each = rows.iter().map(|row| {
        Ok(SurveyedLine { sid: row.try_get(0)?, seq: row.try_get(1)?, line: row.try_get(2)? })
    });
    each.collect()
}
