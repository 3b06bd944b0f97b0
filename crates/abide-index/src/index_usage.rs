//! The tokens that were spent.

use std::collections::{BTreeMap, HashMap};

use abide_model::{HistoryQuery, SessionId, SessionUsage, Usage, UsageKey, UsageSession};
use rusqlite::params_from_iter;

use crate::history_index::overview_of;
use crate::index_query::{query_count, query_filter};
use crate::{HistoryIndex, IndexError};

impl HistoryIndex {
    /// The usage of all sessions, in the order of its ids.
    pub fn each_usage(&self, mut visit: impl FnMut(SessionUsage)) -> Result<(), IndexError> {
        let mut sessions: HashMap<i64, SessionId> = HashMap::new();
        let mut find = self.connection.prepare_cached("SELECT row, id FROM sessions")?;
        let mut rows = find.query([])?;
        while let Some(row) = rows.next()? {
            if let Ok(id) = row.get::<_, String>(1)?.parse() {
                sessions.insert(row.get(0)?, id);
            }
        }
        let mut find = self.connection.prepare_cached(
            "SELECT id, session, span, model, input, output, cache_read, cache_write, reasoning
             FROM usage ORDER BY id",
        )?;
        let mut rows = find.query([])?;
        while let Some(row) = rows.next()? {
            let Some(session) = sessions.get(&row.get::<_, i64>(1)?) else { continue };
            let usage = Usage {
                input_tokens: query_count(row, 4)?,
                output_tokens: query_count(row, 5)?,
                cache_read_tokens: query_count(row, 6)?,
                cache_write_tokens: query_count(row, 7)?,
                reasoning_tokens: query_count(row, 8)?,
                cost_micros: 0,
            };
            let key = UsageKey { id: row.get(0)?, span: row.get(2)?, model: row.get(3)? };
            visit(SessionUsage { session: *session, key, usage });
        }
        Ok(())
    }

    /// The sessions of these projects that have usage.
    pub fn usage_sessions(
        &self,
        projects: &[String],
    ) -> Result<BTreeMap<SessionId, UsageSession>, IndexError> {
        let (filter, values) = query_filter(&HistoryQuery::default(), projects);
        let and = if filter.is_empty() { "WHERE" } else { "AND" };
        let sql = format!(
            "SELECT id, overview FROM sessions {filter} {and}
             EXISTS (SELECT 1 FROM usage WHERE usage.session = sessions.row)"
        );
        let mut find = self.connection.prepare_cached(&sql)?;
        let mut rows = find.query(params_from_iter(values.iter()))?;
        let mut sessions = BTreeMap::new();
        while let Some(row) = rows.next()? {
            if let Ok(id) = row.get::<_, String>(0)?.parse() {
                let overview = overview_of(&row.get::<_, String>(1)?)?;
                let name = overview.name();
                sessions.insert(id, UsageSession { name, fields: overview.fields });
            }
        }
        Ok(sessions)
    }
}
