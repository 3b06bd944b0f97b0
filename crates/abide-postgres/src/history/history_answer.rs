//! Answers history queries: updates the index, queries it, and reads the lines at the places found.

use std::collections::HashMap;
use std::sync::Arc;

use abide_journal::JournalLine;
use abide_model::{
    History, HistoryEntry, HistoryQuery, Objects, Search, SearchMatch, Seq, SessionId, StoreError,
    TurnNumber, UsageQuery, UsageReport, searchable_text,
};
use deadpool_postgres::Object;
use tokio::task::JoinSet;

use super::follower::catch_up_history;
use super::places::wanted_places;
use super::query::{IndexMatch, SharedIndexAnswer, ask_history_query, ask_usage};
use crate::error::ServerError;
use crate::postgres_reader::{PostgresReader, PostgresSessionRows, fetch_objects_to_read};
use crate::postgres_store::session_id;
use crate::server_connection::ServerConnection;

/// The most sessions updated at once.
const AT_ONCE: usize = 3;
/// The most excerpts read for an answer, or one for each session in it.
const EXCERPTS: usize = 24;
/// The most characters of an excerpt.
const EXCERPT: usize = 160;

/// Answers history queries.
#[derive(Debug, Clone)]
pub(crate) struct HistoryReader {
    pub(crate) server: Arc<ServerConnection>,
    pub(crate) objects: Arc<dyn Objects>,
    /// The ids of the project whose sessions are searched; all sessions if empty.
    pub(crate) projects: Vec<String>,
}

/// A session that may be ahead of the index.
#[derive(Debug, Clone, Copy)]
struct UnsettledSession {
    sid: i64,
    session: SessionId,
    epoch: i64,
    /// No writer has it open.
    free: bool,
    /// It has more events than the index.
    behind: bool,
}

/// A hit: its line, its turn and that turn's agent.
type HitRow = (Vec<u8>, Option<i64>, Option<String>);

impl HistoryReader {
    /// The sessions that match, and excerpts of the hits.
    pub(crate) async fn history(self, query: HistoryQuery) -> Result<History, StoreError> {
        let mut notes = Vec::new();
        self.bring_up(&mut notes).await?;
        let query = Arc::new(query);
        let asked = self.server.ask("ask the history of", |client| {
            let (query, projects) = (query.clone(), self.projects.clone());
            Box::pin(async move {
                let paths = match &query.file {
                    Some(file) => wanted_places(&client, file).await?,
                    None => Vec::new(),
                };
                let answer = ask_history_query(&client, &query, &projects, &paths).await?;
                let places = answer_hit_places(&client, &answer).await?;
                Ok((answer, places))
            })
        });
        let (answer, places) = asked.await?;
        if answer.cut {
            notes.push(
                "too many hits: only those in the newest sessions were counted; add words to narrow the search, or drop the limit to count all"
                    .to_owned(),
            );
        }
        let shown = query.is_search().then(|| query.shown());
        let mut history = History { entries: Vec::new(), more: Some(answer.more), notes };
        for session in answer.sessions {
            let matches = match &shown {
                Some(search) => self.matches(search, &session, &places).await?,
                None => Vec::new(),
            };
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
        Ok(history)
    }

    /// The tokens that were spent in sessions of these projects. What counts once is looked for in
    /// all sessions.
    pub(crate) async fn usage(self, query: UsageQuery) -> Result<UsageReport, StoreError> {
        let mut notes = Vec::new();
        Self { projects: Vec::new(), ..self.clone() }.bring_up(&mut notes).await?;
        let asked = self.server.ask("ask the usage of", |client| {
            let projects = self.projects.clone();
            Box::pin(async move { ask_usage(&client, &projects).await })
        });
        let (sessions, usage) = asked.await?;
        let mut report = UsageReport::of(&query, sessions, usage);
        report.notes.extend(notes);
        Ok(report)
    }

    /// Updates the index with everything acknowledged before this call.
    pub(crate) async fn bring_up(&self, notes: &mut Vec<String>) -> Result<(), StoreError> {
        let astir = self
            .server
            .ask("ask the history of", |client| {
                let projects = self.projects.clone();
                Box::pin(async move { unsettled_for_answer(&client, &projects).await })
            })
            .await?;
        let mut behind = astir.iter().filter(|session| session.behind).copied();
        let mut following = JoinSet::new();
        let mut denied = 0_usize;
        loop {
            // Once it is known that the index cannot be written, no more are tried.
            while following.len() < AT_ONCE
                && denied == 0
                && let Some(session) = behind.next()
            {
                following.spawn(self.clone().follow(session));
            }
            let Some(followed) = following.join_next().await else { break };
            match followed {
                Ok(Err(trouble)) if trouble.is_denied() => denied += 1,
                Ok(Err(trouble)) if trouble.may_pass() => {
                    return Err(trouble.into_store("bring up the history of", &self.server.place()));
                }
                // The others can be read.
                Ok(Err(trouble)) => notes.push(format!(
                    "a session cannot be read; its latest events are missing here: {}",
                    answer_error_text(&trouble)
                )),
                Ok(Ok(())) | Err(_) => {}
            }
        }
        if denied > 0 {
            let count = denied + behind.count();
            notes.push(format!(
                "{count} {} more events than the history has taken in, and it cannot be brought up to date from here: it may only be read",
                if count == 1 { "session has" } else { "sessions have" }
            ));
            return Ok(());
        }
        let free: Vec<UnsettledSession> =
            astir.into_iter().filter(|session| session.free).collect();
        if !free.is_empty() {
            // If this fails they are checked again the next time, nothing more.
            let _ = self
                .server
                .once(|client| Box::pin(settle_after_answer(client, free.clone())))
                .await;
        }
        Ok(())
    }

    async fn follow(self, session: UnsettledSession) -> Result<(), ServerError> {
        let id = session.session;
        let known = self
            .server
            .once(|client| Box::pin(async move { PostgresSessionRows::find(&client, id).await }))
            .await?;
        let reader = PostgresReader {
            server: self.server,
            objects: self.objects,
            session: id,
            known: Arc::new(known),
            listener: Arc::default(),
            look_every: std::time::Duration::ZERO,
        };
        catch_up_history(&reader).await
    }

    async fn matches(
        &self,
        search: &Search,
        session: &IndexMatch,
        places: &HashMap<(i64, i64), HitRow>,
    ) -> Result<Vec<SearchMatch>, StoreError> {
        let mut matches = Vec::new();
        for hit in &session.hits {
            let Some((raw, turn, agent)) = places.get(&(session.sid, *hit)) else { continue };
            // An unreadable line cannot be shown, but it is still a hit.
            let Ok(line) = JournalLine::read(raw) else { continue };
            let wanted = line.objects().iter().map(|object| object.hash).collect();
            let found = fetch_objects_to_read(&self.objects, wanted).await?;
            let read = |hash| Ok(found.get(&hash).cloned());
            let (Some(event), _) = line.whole_event(session.id, &read) else { continue };
            let seq = Seq(hit.unsigned_abs());
            matches.push(SearchMatch {
                seq,
                turn: turn.map(|turn| TurnNumber(turn.unsigned_abs())),
                agent: agent.clone().filter(|agent| !agent.is_empty()),
                at: event.time(),
                live: session.overview.lineage.contains(seq),
                excerpt: search.excerpt(&searchable_text(&event).unwrap_or_default(), EXCERPT),
                kind: event.kind,
            });
        }
        Ok(matches)
    }
}

/// An error with its causes.
fn answer_error_text(trouble: &ServerError) -> String {
    let mut text = trouble.to_string();
    let mut cause = std::error::Error::source(trouble);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// The sessions that may have more events than the index.
async fn unsettled_for_answer(
    client: &Object,
    projects: &[String],
) -> Result<Vec<UnsettledSession>, ServerError> {
    let sql = "SELECT lease.sid, session.id, lease.epoch, lease.until IS NULL,
            coalesce(overview.indexed, -1)
                < coalesce((SELECT max(seq) FROM event WHERE event.sid = lease.sid), 0)
        FROM lease JOIN session USING (sid) LEFT JOIN overview USING (sid)
        WHERE NOT lease.at_rest AND (cardinality($1::text[]) = 0 OR session.project = ANY($1))";
    let statement = client.prepare_cached(sql).await?;
    let rows = client.query(&statement, &[&projects]).await?;
    let each = rows.iter().map(|row| {
        Ok(UnsettledSession {
            sid: row.try_get(0)?,
            session: session_id(row.try_get(1)?),
            epoch: row.try_get(2)?,
            free: row.try_get(3)?,
            behind: row.try_get(4)?,
        })
    });
    each.collect()
}

/// Marks sessions as settled that no writer has taken since they were checked.
async fn settle_after_answer(
    client: Object,
    free: Vec<UnsettledSession>,
) -> Result<(), ServerError> {
    let sids: Vec<i64> = free.iter().map(|session| session.sid).collect();
    let epochs: Vec<i64> = free.iter().map(|session| session.epoch).collect();
    let sql = "UPDATE lease SET at_rest = true
        FROM unnest($1::bigint[], $2::bigint[]) AS free (sid, epoch), overview
        WHERE lease.sid = free.sid AND lease.epoch = free.epoch AND lease.until IS NULL
            AND overview.sid = free.sid
            AND overview.indexed = (SELECT max(seq) FROM event WHERE event.sid = free.sid)";
    client.execute(sql, &[&sids, &epochs]).await?;
    Ok(())
}

/// The best hit of each session, and more if few sessions match.
async fn answer_hit_places(
    client: &Object,
    answer: &SharedIndexAnswer,
) -> Result<HashMap<(i64, i64), HitRow>, ServerError> {
    let mut more = EXCERPTS.saturating_sub(answer.sessions.len());
    let (mut sids, mut seqs) = (Vec::new(), Vec::new());
    for session in &answer.sessions {
        for (rank, hit) in session.hits.iter().enumerate() {
            if rank > 0 {
                let Some(less) = more.checked_sub(1) else { break };
                more = less;
            }
            sids.push(session.sid);
            seqs.push(*hit);
        }
    }
    if sids.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = "SELECT event.sid, event.seq, event.line, said.turn, turn.agent
        FROM unnest($1::bigint[], $2::bigint[]) AS given (sid, seq)
        JOIN event ON event.sid = given.sid AND event.seq = given.seq
        JOIN said ON said.sid = given.sid AND said.seq = given.seq
        LEFT JOIN turn ON turn.sid = given.sid AND turn.turn = said.turn";
    let statement = client.prepare_cached(sql).await?;
    let rows = client.query(&statement, &[&sids, &seqs]).await?;
    let each = rows.iter().map(|row| {
        let at = (row.try_get(0)?, row.try_get(1)?);
        Ok((at, (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?)))
    });
    each.collect()
}
