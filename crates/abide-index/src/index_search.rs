//! Searches: which texts match, and how well.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use abide_model::{HistoryQuery, Search, SearchTerm, Seq, Timestamp};
use rusqlite::functions::FunctionFlags;
use rusqlite::{OptionalExtension, params};

use crate::index_query::IndexAnswer;
use crate::schema::{project_word, text_place};
use crate::{HistoryIndex, IndexError};

/// When a query is limited, only this many of the newest hits are ranked; older ones are ignored.
/// Otherwise a word that occurs nearly everywhere would cost as much as it has occurrences.
const RANKED: usize = 5_000;

/// Of the texts with the words of a search, how many of the newest are weighed to order those with a
/// trait.
const WEIGHED: usize = 4 * RANKED;
/// How a text is weighed: a part of a word counts half, a trait nothing.
const RANK: &str = "bm25(texts, 1.0, 0.5, 0.0)";

/// The most hits named for a session.
const HITS: usize = 3;

#[derive(Debug, Default)]
struct SessionMatches {
    best: f64,
    count: u64,
    hits: Vec<(f64, Seq)>,
}

impl HistoryIndex {
    /// The sessions with hits, best first.
    pub(crate) fn query_matches(
        &self,
        query: &HistoryQuery,
        projects: &[String],
        allowed: Option<HashSet<i64>>,
        limit: usize,
    ) -> Result<IndexAnswer, IndexError> {
        let ranked = if limit == usize::MAX { usize::MAX - 1 } else { RANKED };
        let (found, cut) = self.query_hits(query, projects, allowed, ranked)?;
        let mut updated =
            self.connection.prepare_cached("SELECT updated FROM sessions WHERE row = ?1")?;
        let mut ranked: Vec<(i64, i64, SessionMatches)> = Vec::new();
        for (row, found) in found {
            // A session that was removed has left its words behind.
            let updated = updated.query_row([row], |row| row.get(0)).optional()?;
            ranked.extend(updated.map(|updated| (updated, row, found)));
        }
        ranked.sort_by(|(a_updated, a_row, a), (b_updated, b_row, b)| {
            a.best
                .total_cmp(&b.best)
                .then(b.count.cmp(&a.count))
                .then(b_updated.cmp(a_updated))
                .then(b_row.cmp(a_row))
        });
        let mut answer = IndexAnswer { cut, ..IndexAnswer::default() };
        let mut find = self
            .connection
            .prepare_cached("SELECT name, id, overview, files FROM sessions WHERE row = ?1")?;
        for (_, row, found) in ranked {
            if answer.sessions.len() >= limit {
                answer.more += 1;
                continue;
            }
            let session = find.query_row([row], |row| Ok(self.queried_session(row))).optional()?;
            if let Some(mut session) = session.transpose()?.flatten() {
                session.hits = found.hits.iter().map(|(_, seq)| *seq).collect();
                session.hit_count = found.count;
                answer.sessions.push(session);
            }
        }
        Ok(answer)
    }

    /// The hits, by session.
    fn query_hits(
        &self,
        query: &HistoryQuery,
        projects: &[String],
        allowed: Option<HashSet<i64>>,
        most: usize,
    ) -> Result<(HashMap<i64, SessionMatches>, bool), IndexError> {
        let mut filter = String::new();
        if let Some(allowed) = allowed {
            let allowed = Arc::new(allowed);
            self.connection.create_scalar_function(
                "allowed",
                1,
                FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY,
                move |context| Ok(allowed.contains(&text_place(context.get(0)?).0)),
            )?;
            filter.push_str(" AND allowed(rowid)");
        }
        if query.since.is_some() || query.until.is_some() {
            filter.push_str(
                " AND (SELECT at FROM text_times WHERE text = texts.rowid) BETWEEN ?3 AND ?4",
            );
        }
        let traits = query.trait_terms();
        let is_weighed = query.search.as_ref().is_some_and(is_weighed);
        // FTS5 would look at all texts with a trait to weigh it. Where one is asked for, what was found is
        // weighed by its words alone.
        let rank = if is_weighed && traits.is_empty() { RANK } else { "0.0" };
        let sql = format!(
            "SELECT rowid, {rank} FROM texts WHERE texts MATCH ?1 {filter}
             ORDER BY rowid DESC LIMIT ?2"
        );
        let mut find = self.connection.prepare(&sql)?;
        let words = to_fts5(query.search.as_ref(), &traits, projects);
        let limit = i64::try_from(most).map_or(-1, |most| most + 1);
        let mut hits: Vec<(i64, f64)> = Vec::new();
        let mut rows = if query.since.is_some() || query.until.is_some() {
            let since = query.since.map_or(i64::MIN, Timestamp::as_millis);
            let until = query.until.map_or(i64::MAX, Timestamp::as_millis);
            find.query(params![words, limit, since, until])?
        } else {
            find.query(params![words, limit])?
        };
        while let Some(row) = rows.next()? {
            hits.push((row.get(0)?, row.get(1)?));
        }
        let cut = hits.len() > most;
        hits.truncate(most);
        if let Some(search) = query.search.as_ref().filter(|_| is_weighed && !traits.is_empty()) {
            self.weigh_hits(search, &mut hits)?;
        }
        let mut found: HashMap<i64, SessionMatches> = HashMap::new();
        for (number, score) in hits {
            let (session, seq) = text_place(number);
            let entry = found.entry(session).or_default();
            entry.count += 1;
            entry.best = entry.best.min(score);
            // Keep the best few. Rows come newest first, so among equals the newest stays first.
            let at = entry.hits.partition_point(|(other, _)| *other <= score);
            if at < HITS {
                entry.hits.insert(at, (score, Seq(seq)));
                entry.hits.truncate(HITS);
            }
        }
        Ok((found, cut))
    }

    /// Weighs hits, newest first, by their words alone, as far as they are among the newest.
    fn weigh_hits(&self, search: &Search, hits: &mut [(i64, f64)]) -> Result<(), IndexError> {
        let (Some((newest, _)), Some((oldest, _))) = (hits.first(), hits.last()) else {
            return Ok(());
        };
        let sql = format!(
            "SELECT rowid, {RANK} FROM texts WHERE texts MATCH ?1 AND rowid BETWEEN ?2 AND ?3
             ORDER BY rowid DESC LIMIT ?4"
        );
        let mut find = self.connection.prepare_cached(&sql)?;
        let words = to_fts5(Some(search), &[], &[]);
        let most = i64::try_from(WEIGHED).unwrap_or(i64::MAX);
        let mut rows = find.query(params![words, oldest, newest, most])?;
        let mut hits = hits.iter_mut().peekable();
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            while hits.next_if(|(hit, _)| *hit > number).is_some() {}
            if let Some((_, score)) = hits.next_if(|(hit, _)| *hit == number) {
                *score = row.get(1)?;
            }
        }
        Ok(())
    }
}

/// To weigh a prefix, FTS5 would gather all its words a second time. Such a search is ranked by the
/// number of hits.
fn is_weighed(search: &Search) -> bool {
    !search.terms().iter().any(|term| term.prefix)
}

/// The search as an FTS5 query: every word is quoted, so nothing in it is an operator.
fn to_fts5(search: Option<&Search>, traits: &[Vec<SearchTerm>], projects: &[String]) -> String {
    let term = |term: &SearchTerm| {
        let star = if term.prefix { " *" } else { "" };
        format!("\"{}\"{star}", term.words.join(" "))
    };
    let any = |terms: Vec<String>| format!("({})", terms.join(" OR "));
    let mut parts: Vec<String> =
        search.iter().flat_map(|search| search.terms()).map(term).collect();
    parts.extend(traits.iter().map(|terms| any(terms.iter().map(term).collect())));
    if !projects.is_empty() {
        parts.push(any(projects.iter().map(|p| format!("\"{}\"", project_word(p))).collect()));
    }
    parts.join(" AND ")
}
