//! Updates the index with a session's new events.

use std::sync::Arc;

use abide_model::{
    Event, EventRange, HistoryDelta, Overview, OverviewUpdate, Seq, StoreError, TurnNumber,
};

use super::put::{SharedIndexUpdate, erased_count, put_history_update};
use crate::error::ServerError;
use crate::flusher::place;
use crate::postgres_reader::PostgresReader;
use crate::server_connection::ConnectionRetries;

/// The most bytes put at once.
const PIECE_BYTES: usize = 2 << 20;

/// How far the index is and its overview, and how far the session is.
struct FollowProgress {
    indexed: Option<i64>,
    overview: Overview,
    last: i64,
    /// How many events were erased, of those that it continues too.
    erased: i64,
}

/// Updates the index up to the end of a session. If others do the same, nothing is put twice.
pub(crate) async fn catch_up_history(reader: &PostgresReader) -> Result<(), ServerError> {
    let mut again = ConnectionRetries::new(reader.server.patience());
    loop {
        match follow_step(reader).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(trouble) if trouble.may_pass() && !trouble.is_denied() && again.has_time() => {
                reader.server.forget_idle();
                tokio::time::sleep(again.pause()).await;
            }
            Err(trouble) => return Err(trouble),
        }
    }
}

/// Continues from where the index is; `false` if it does not reach the end.
async fn follow_step(reader: &PostgresReader) -> Result<bool, ServerError> {
    let stand = follow_progress(reader).await?;
    if stand.indexed.is_some_and(|indexed| indexed >= stand.last) {
        return Ok(true);
    }
    let mut following = IndexFollower {
        reader,
        delta: HistoryDelta::new(&reader.session.to_string(), stand.overview),
        past: None,
        turns_before: TurnNumber::default(),
        indexed: stand.indexed,
        erased: stand.erased,
    };
    if stand.indexed.is_none() || reader.known.shared() > Seq::ZERO {
        following.begin(stand.indexed.is_none()).await?;
    }
    let from = stand.indexed.map_or(reader.known.shared(), |seq| Seq(seq.unsigned_abs())).next();
    let last = Seq(stand.last.unsigned_abs());
    let mut range = EventRange { first: from, last, ..EventRange::ALL };
    loop {
        let page = reader.read_page(range).await?;
        for event in page.events {
            following.take_in(event).await?;
        }
        let upto = page.next.map_or(last, |next| next.back(1));
        let due = following.delta.bytes() >= PIECE_BYTES || page.next.is_none();
        if due && !following.put(upto).await? {
            return Ok(false);
        }
        match page.next {
            Some(next) => range.first = next,
            None => return Ok(true),
        }
    }
}

async fn follow_progress(reader: &PostgresReader) -> Result<FollowProgress, ServerError> {
    let sid = reader.known.sid;
    let asked = reader.server.once(|client| {
        Box::pin(async move {
            let sql = "SELECT overview.indexed, overview.outline,
                    coalesce((SELECT max(seq) FROM event WHERE sid = $1), 0)
                FROM session LEFT JOIN overview USING (sid) WHERE sid = $1";
            let erased = erased_count(&client, sid).await?;
            let statement = client.prepare_cached(sql).await?;
            let row = client.query_one(&statement, &[&sid]).await?;
            let json: Option<String> = row.try_get(1)?;
            Ok((row.try_get(0)?, json, row.try_get(2)?, erased))
        })
    });
    let (indexed, json, last, erased) = asked.await?;
    let overview = json.map_or_else(|| Ok(Overview::default()), |json| overview_of(&json))?;
    Ok(FollowProgress { indexed, overview, last, erased })
}

/// Parses an overview from the table.
pub(crate) fn overview_of(json: &str) -> Result<Overview, ServerError> {
    serde_json::from_str(json).map_err(|error| {
        let place = "the overview of a session".to_owned();
        StoreError::Damaged { place, reason: error.to_string() }.into()
    })
}

/// A session that is being read.
struct IndexFollower<'a> {
    reader: &'a PostgresReader,
    delta: HistoryDelta,
    /// Its own events up to here, once it was rewound.
    past: Option<Vec<Event>>,
    /// The number of the last turn before its own: a fork continues the numbers.
    turns_before: TurnNumber,
    indexed: Option<i64>,
    erased: i64,
}

impl IndexFollower<'_> {
    /// Finds out what a fork starts from.
    async fn begin(&mut self, anew: bool) -> Result<(), ServerError> {
        let shared = self.reader.known.shared();
        if shared > Seq::ZERO {
            self.turns_before = self.reader.state_at(shared).await?.core.turns.last;
        }
        if anew {
            self.delta.set_overview(self.beginning());
        }
        Ok(())
    }

    fn beginning(&self) -> Overview {
        let mut overview = Overview::default();
        overview.open.last_turn = self.turns_before;
        overview
    }

    async fn take_in(&mut self, event: Event) -> Result<(), ServerError> {
        let rewound = self.delta.take_in(&event) == OverviewUpdate::Rewound;
        let seq = event.seq;
        if let Some(past) = &mut self.past {
            past.push(event);
        } else if rewound {
            let first = self.reader.known.shared().next();
            self.past = Some(self.reader.events(first, seq).await?);
        }
        if rewound && let Some(past) = &self.past {
            let all = || past.iter().cloned().map(Ok::<_, ServerError>);
            self.delta.set_overview(self.beginning().followed_by(all)?);
        }
        self.delta.identify(self.reader.session);
        Ok(())
    }

    /// Writes what was read so far; `false` if another process was first.
    async fn put(&mut self, upto: Seq) -> Result<bool, ServerError> {
        let upto = place(upto.0);
        let work = Arc::new(SharedIndexUpdate {
            sid: self.reader.known.sid,
            short: self.reader.session.short(12),
            from: self.indexed,
            erased: self.erased,
            upto,
            delta: self.delta.split(),
        });
        let done = self.reader.server.once(|client| {
            let work = work.clone();
            Box::pin(async move { put_history_update(client, &work).await })
        });
        self.indexed = Some(upto);
        done.await
    }
}
