//! What a cleanup knows of the sessions of a store.
//!
//! Of most sessions the index and the last lines tell enough, a few statements for many of them. A
//! session that the index does not have up to its last event is read, and so is each one before it is
//! removed, all of its own lines: nothing goes on the word of the index, and what is damaged stays.

use std::collections::HashMap;
use std::path::PathBuf;

use abide_journal::{Environment, Sum};
use abide_maintain::{
    SessionRemoval, SessionTally, StoredSession, is_session_use, note_recovery, recorded_recovery,
    status_at_cleanup,
};
use abide_model::{
    Seq, SessionCore, SessionFacts, SessionFields, SessionId, SessionReader, StoreError, Timestamp,
};
use deadpool_postgres::Object;
use uuid::Uuid;

use crate::error::ServerError;
use crate::history::overview_of;
use crate::lease::LeaseStatus;
use crate::postgres_reader::parse_sound_line;
use crate::postgres_store::{PostgresStore, session_id};
use crate::row_walk::RowWalk;

/// The sessions that are asked about at once.
const SESSIONS: i64 = 64;
/// The last lines of each that are looked at: seldom are so many of them of maintenance.
const TAIL: i64 = 8;

/// Every session of a store.
pub(crate) struct SessionSurvey<'a> {
    store: &'a PostgresStore,
    /// The time, by the server's clock.
    pub(crate) now: Timestamp,
    pub(crate) sessions: Vec<StoredSession>,
    rows: HashMap<SessionId, SurveyedRow>,
}

/// Where a session is, and whether it was read.
struct SurveyedRow {
    sid: i64,
    place: usize,
    read: bool,
}

/// A session as the tables have it.
struct SessionOutline {
    sid: i64,
    id: SessionId,
    project: String,
    parent: Option<SessionId>,
    /// How far the index is, and what it says.
    indexed: Option<i64>,
    overview: Option<String>,
    /// Its last lines, the newest first.
    tail: Vec<(i64, Vec<u8>)>,
    /// A writer has it.
    held: bool,
}

impl<'a> SessionSurvey<'a> {
    /// Looks at every session.
    pub(crate) fn of(store: &'a PostgresStore) -> Result<Self, StoreError> {
        let now = server_time(store)?;
        let mut survey = Self { store, now, sessions: Vec::new(), rows: HashMap::new() };
        let mut after = 0;
        loop {
            let (server, env) = (store.server().clone(), store.options().env.clone());
            let outlines = store.server().block(async move {
                server
                    .ask_much("read the sessions of", |client| {
                        let env = env.clone();
                        Box::pin(async move { session_outlines(&client, after, &env).await })
                    })
                    .await
            })?;
            let Some(last) = outlines.last() else { return Ok(survey) };
            after = last.sid;
            for outline in outlines {
                survey.add(outline)?;
            }
        }
    }

    fn add(&mut self, outline: SessionOutline) -> Result<(), StoreError> {
        let (sid, place) = (outline.sid, self.sessions.len());
        let (mut session, known) = outline.session();
        let read = !known && !session.facts.in_use;
        if read {
            read_through(self.store, &mut session)?;
        }
        self.rows.insert(session.facts.id, SurveyedRow { sid, place, read });
        self.sessions.push(session);
        Ok(())
    }

    /// Reads all lines of those of these sessions that were not read yet; `false` if there was none.
    pub(crate) fn read(
        &mut self,
        sessions: impl Iterator<Item = SessionId>,
    ) -> Result<bool, StoreError> {
        let mut any = false;
        for id in sessions {
            if let Some(row) = self.rows.get_mut(&id).filter(|row| !row.read)
                && let Some(session) = self.sessions.get_mut(row.place)
            {
                read_through(self.store, session)?;
                row.read = true;
                any = true;
            }
        }
        Ok(any)
    }

    /// Takes over what was found when a plan was made, of a session that has not grown since.
    pub(crate) fn take_over(&mut self, removal: &SessionRemoval) {
        if let Some(row) = self.rows.get_mut(&removal.id)
            && let Some(session) = self.sessions.get_mut(row.place)
            && session.last == removal.last
        {
            session.title.clone_from(&removal.title);
            session.facts.bytes = removal.bytes;
            row.read = true;
        }
    }

    /// The row of a session.
    pub(crate) fn sid(&self, session: SessionId) -> Option<i64> {
        self.rows.get(&session).map(|row| row.sid)
    }

    /// What is known of a session, if it is still there.
    pub(crate) fn session(&self, session: SessionId) -> Option<&StoredSession> {
        self.sessions.get(self.rows.get(&session)?.place)
    }
}

impl SessionOutline {
    /// What this says of the session, and whether that is enough.
    fn session(self) -> (StoredSession, bool) {
        let id = self.id;
        let mut last_used = None;
        let mut damaged = self.tail.is_empty();
        for (seq, raw) in &self.tail {
            match parse_sound_line(seq_of(*seq), raw) {
                Ok(line) if last_used.is_none() && is_session_use(&line) => {
                    last_used = line.head().map(|head| head.at);
                }
                Ok(_) => {}
                Err(_) => damaged = true,
            }
        }
        let whole = i64::try_from(self.tail.len()).is_ok_and(|count| count < TAIL);
        let last = self.tail.first().map_or(0, |(seq, _)| *seq);
        let overview = self.overview.filter(|_| self.indexed == Some(last));
        let overview = overview.and_then(|json| overview_of(&json).ok());
        let known = overview.is_some() && (last_used.is_some() || whole);
        let overview = overview.unwrap_or_default();
        // Where its events say when they happened, the last of them need not be the latest.
        let dated = overview.activity.dated().map(|(_, last)| last);
        let facts = SessionFacts {
            id,
            last_used: dated.unwrap_or(last_used.unwrap_or_default().max(id.created())),
            status: status_at_cleanup(overview.status, overview.writing, !self.held),
            bytes: 0,
            parent: self.parent,
            in_use: self.held || damaged,
            group: 0,
        };
        let session = StoredSession {
            facts,
            title: overview.fields.title.clone(),
            last: seq_of(last),
            checkpoints: Vec::new(),
            project: Some(self.project).filter(|project| !project.is_empty()),
            workspace: workspace_of(&overview.fields),
        };
        (session, known)
    }
}

fn workspace_of(fields: &SessionFields) -> Option<PathBuf> {
    fields.workspace.as_deref().map(PathBuf::from)
}

/// What the lines of a session say.
struct OwnLines {
    core: SessionCore,
    tally: SessionTally,
    bytes: u64,
}

/// Reads a session. One that is damaged, or that grows or goes meanwhile, counts as in use.
fn read_through(store: &PostgresStore, session: &mut StoredSession) -> Result<(), StoreError> {
    let read = match own_lines(store, session.facts.id) {
        Err(StoreError::Damaged { .. } | StoreError::NoSession { .. }) => None,
        read => Some(read?),
    };
    let Some(read) = read.filter(|read| read.core.seq == read.tally.last) else {
        session.facts.in_use = true;
        return Ok(());
    };
    let facts = &mut session.facts;
    let at_rest = !facts.in_use;
    facts.status = status_at_cleanup(read.core.status, read.core.writing, at_rest);
    facts.last_used = read.tally.last_used;
    facts.bytes = read.bytes.saturating_add(read.tally.bytes);
    session.last = read.tally.last;
    session.workspace = workspace_of(&read.core.fields);
    session.title = read.core.fields.title;
    Ok(())
}

/// The own lines of a session, checked like those of a journal: each is sound and follows from the one
/// before, but for what a repair has named as lost.
fn own_lines(store: &PostgresStore, id: SessionId) -> Result<OwnLines, StoreError> {
    let reader = store.reader(id)?;
    let (core, _) = reader.core()?;
    let doctor = store.doctor();
    let (reached, _) = doctor.reached(&reader)?;
    let (shared, genesis) = (reader.known.shared(), Sum::genesis(id));
    let sum = match shared {
        Seq::ZERO => Some(genesis),
        shared => {
            let asked = reader.clone();
            match store.server().block(async move { asked.sum_of(shared).await }) {
                Ok(sum) => Some(sum),
                // A repair may have named it as lost.
                Err(StoreError::Damaged { .. }) => None,
                Err(error) => return Err(error),
            }
        }
    };
    let mut walk = RowWalk::after(shared, sum, genesis);
    let (mut tally, mut bytes, mut recoveries) = (SessionTally::new(id), 0_u64, Vec::new());
    store.eraser().each_own_line(&reader, &mut |seq, raw| {
        if let Some(line) = walk.row(seq, raw) {
            tally.line(&line);
            bytes = bytes.saturating_add(raw.len() as u64);
            if let Some(recovery) = recorded_recovery(&line) {
                note_recovery(&mut recoveries, seq, recovery);
            }
        }
        Ok::<_, StoreError>(())
    })?;
    walk.reaches(reached);
    let named: Vec<_> = recoveries.iter().flat_map(|(_, fact)| fact.lost.clone()).collect();
    if !walk.is_whole_but(&named) {
        return Err(StoreError::Damaged {
            place: format!("session {id}"),
            reason: "events are missing or cannot be read".to_owned(),
        });
    }
    Ok(OwnLines { core, tally, bytes })
}

fn seq_of(row: i64) -> Seq {
    Seq(u64::try_from(row).unwrap_or(0))
}

/// The time by the server's clock: the clocks of those who write may differ.
fn server_time(store: &PostgresStore) -> Result<Timestamp, StoreError> {
    let server = store.server().clone();
    store.server().block(async move {
        server
            .ask("look at", |client| {
                Box::pin(async move {
                    let sql = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
                    let now: i64 = client.query_one(sql, &[]).await?.try_get(0)?;
                    Ok(Timestamp::from_millis(now))
                })
            })
            .await
    })
}

/// The next sessions after this row. None is left out that is there before and after.
async fn session_outlines(
    client: &Object,
    after: i64,
    env: &Environment,
) -> Result<Vec<SessionOutline>, ServerError> {
    let sql = "SELECT session.sid, session.id, session.project, parent.id, overview.indexed,
            overview.outline
        FROM session LEFT JOIN session AS parent ON parent.sid = session.parent
            LEFT JOIN overview ON overview.sid = session.sid
        WHERE session.sid > $1 ORDER BY session.sid LIMIT $2";
    let statement = client.prepare_cached(sql).await?;
    let mut outlines = Vec::new();
    for row in client.query(&statement, &[&after, &SESSIONS]).await? {
        outlines.push(SessionOutline {
            sid: row.try_get(0)?,
            id: session_id(row.try_get(1)?),
            project: row.try_get(2)?,
            parent: row.try_get::<_, Option<Uuid>>(3)?.map(session_id),
            indexed: row.try_get(4)?,
            overview: row.try_get(5)?,
            tail: Vec::new(),
            held: true,
        });
    }
    let sids: Vec<i64> = outlines.iter().map(|outline| outline.sid).collect();
    let sql = "SELECT given.sid, own.seq, own.line FROM unnest($1::bigint[]) AS given (sid)
        CROSS JOIN LATERAL (SELECT event.seq, event.line FROM event
            WHERE event.sid = given.sid ORDER BY event.seq DESC LIMIT $2) AS own
        ORDER BY given.sid, own.seq DESC";
    let statement = client.prepare_cached(sql).await?;
    let mut tails: HashMap<i64, Vec<(i64, Vec<u8>)>> = HashMap::new();
    for row in client.query(&statement, &[&sids, &TAIL]).await? {
        tails.entry(row.try_get(0)?).or_default().push((row.try_get(1)?, row.try_get(2)?));
    }
    let leases: HashMap<i64, LeaseStatus> =
        LeaseStatus::look_at(client, &sids).await?.into_iter().collect();
    for outline in &mut outlines {
        outline.tail = tails.remove(&outline.sid).unwrap_or_default();
        // One without a lease was deleted just now.
        outline.held = leases.get(&outline.sid).is_none_or(|lease| lease.is_held(env));
    }
    Ok(outlines)
}
