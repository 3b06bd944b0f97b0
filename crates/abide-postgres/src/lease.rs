//! Who may write to a session: a lease with an epoch that only grows.
//!
//! The time is the server's. Whoever appends sends its epoch along, and an append with another
//! one than the lease has is not taken: it does not matter how long a writer was asleep, or what
//! its clock says. So a lease that ran out while nobody wanted the session is still good.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use abide_journal::{Environment, process_seen};
use abide_model::{Epoch, ProcessSeen, SessionId, StoreError, WriterHolder};
use deadpool_postgres::Object;
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::connection::Server;
use crate::error::Trouble;

/// How long a lease is good without a sign of life.
pub const TIME_TO_LIVE: Duration = Duration::from_secs(15);
/// How often a sign of life is given.
const BEAT: Duration = Duration::from_secs(4);
/// How long to wait before a held session is asked for again.
const PAUSE: Duration = Duration::from_millis(25);

/// A session that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) sid: i64,
    pub(crate) epoch: Epoch,
}

/// What is seen of a lease.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaseSeen {
    pub(crate) epoch: i64,
    /// Who holds it; none when nobody does.
    pub(crate) holder: Option<WriterHolder>,
    /// Has it given a sign of life within the time to live?
    pub(crate) current: bool,
    /// How long ago the last one was.
    pub(crate) age: Duration,
}

impl LeaseSeen {
    /// Looks at a lease.
    pub(crate) async fn look(client: &Object, sid: i64) -> Result<Self, Trouble> {
        let all = Self::look_at(client, &[sid]).await?;
        all.into_iter().map(|(_, seen)| seen).next().ok_or_else(|| {
            Trouble::Refused(StoreError::NoSession { reference: "that is held".to_owned() })
        })
    }

    /// Looks at many.
    pub(crate) async fn look_at(
        client: &Object,
        sids: &[i64],
    ) -> Result<Vec<(i64, Self)>, Trouble> {
        let sql = "SELECT sid, epoch, holder, coalesce(until > clock_timestamp(), false),
                extract(epoch FROM clock_timestamp() - until)::float8
            FROM lease WHERE sid = ANY($1)";
        let statement = client.prepare_cached(sql).await?;
        let rows = client.query(&statement, &[&sids]).await?;
        let each = rows.iter().map(|row| {
            let holder: Option<Json<WriterHolder>> = row.try_get(2)?;
            let over: Option<f64> = row.try_get(4)?;
            let age = over.unwrap_or(0.0) + TIME_TO_LIVE.as_secs_f64();
            let seen = Self {
                epoch: row.try_get(1)?,
                holder: holder.map(|holder| holder.0),
                current: row.try_get(3)?,
                age: Duration::try_from_secs_f64(age).unwrap_or_default(),
            };
            Ok((row.try_get(0)?, seen))
        });
        each.collect()
    }

    /// Is the one that holds it a process of this machine that is gone?
    pub(crate) fn is_left_behind(&self, env: &Environment) -> bool {
        self.process(env)
            .is_some_and(|seen| matches!(seen, ProcessSeen::Gone | ProcessSeen::Another))
    }

    /// What this machine sees of the holder; none where it is on another one.
    pub(crate) fn process(&self, env: &Environment) -> Option<ProcessSeen> {
        let holder = self.holder.as_ref()?;
        if holder.host != env.holder.host {
            return None;
        }
        if holder.boot != env.boot {
            // This machine was started anew since; where it cannot tell, it does not.
            let told = holder.boot.is_some() && env.boot.is_some();
            return told.then_some(ProcessSeen::Gone);
        }
        Some(process_seen(holder.process, holder.started))
    }
}

/// Takes the lease of a session, waiting so long for another holder.
pub(crate) async fn acquire(
    server: &Server,
    env: &Environment,
    (session, sid): (SessionId, i64),
    wait: Duration,
    take_over: bool,
) -> Result<Lease, StoreError> {
    let until = Instant::now().checked_add(wait);
    let mut random = [0; 16];
    (env.random)(&mut random);
    let tenure = Uuid::from_bytes(random);
    let holder = WriterHolder { since: (env.now)(), ..env.holder.clone() };
    // A holder that is known to be gone, or is sent away: by its epoch, so that another one that
    // came meanwhile is not meant.
    let mut gone: i64 = -1;
    loop {
        let taken = server
            .ask("take a session of", |client| {
                let holder = holder.clone();
                Box::pin(async move {
                    let sql = "UPDATE lease SET epoch = epoch + 1, holder = $2, tenure = $3,
                            until = clock_timestamp() + $4 * interval '1 second',
                            at_rest = false
                        WHERE sid = $1 AND (until IS NULL OR until <= clock_timestamp()
                            OR epoch = $5 OR tenure = $3)
                        RETURNING epoch";
                    let statement = client.prepare_cached(sql).await?;
                    let seconds = TIME_TO_LIVE.as_secs_f64();
                    let given: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                        [&sid, &Json(holder), &tenure, &seconds, &gone];
                    match client.query_opt(&statement, &given).await? {
                        Some(row) => Ok(Ok(row.try_get::<_, i64>(0)?)),
                        None => Ok(Err(LeaseSeen::look(&client, sid).await?)),
                    }
                })
            })
            .await?;
        let seen = match taken {
            Ok(epoch) => return Ok(Lease { sid, epoch: Epoch(u64::try_from(epoch).unwrap_or(0)) }),
            Err(seen) => seen,
        };
        if seen.epoch != gone && (seen.is_left_behind(env) || take_over) {
            gone = seen.epoch;
            continue;
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            let holder = Box::new(seen.holder.unwrap_or_default());
            return Err(StoreError::Held { session, holder });
        }
        tokio::time::sleep(left.map_or(PAUSE, |left| left.min(PAUSE))).await;
    }
}

/// Goes on with a greater epoch: the journal came from elsewhere and has this one already.
pub(crate) async fn raise(
    server: &Server,
    lease: Lease,
    above: Epoch,
) -> Result<Lease, StoreError> {
    let (sid, epoch, new) = (lease.sid, number(lease.epoch), number(above) + 1);
    server
        .ask("take a session of", move |client| {
            Box::pin(async move {
                let sql = "UPDATE lease SET epoch = $3 WHERE sid = $1 AND epoch IN ($2, $3)";
                client.execute(sql, &[&sid, &epoch, &new]).await?;
                Ok(())
            })
        })
        .await?;
    Ok(Lease { sid, epoch: above.next() })
}

/// Lets a session go.
pub(crate) async fn release(server: &Server, lease: Lease) -> Result<(), StoreError> {
    let (sid, epoch) = (lease.sid, number(lease.epoch));
    server
        .ask("let go a session of", move |client| {
            Box::pin(async move {
                let sql = "UPDATE lease SET until = NULL, holder = NULL, tenure = NULL,
                        at_rest = coalesce((SELECT indexed FROM overview WHERE sid = $1)
                            = (SELECT max(seq) FROM event WHERE sid = $1), false)
                    WHERE sid = $1 AND epoch = $2";
                client.execute(sql, &[&sid, &epoch]).await?;
                Ok(())
            })
        })
        .await
}

/// An epoch as the table has it.
pub(crate) fn number(epoch: Epoch) -> i64 {
    i64::try_from(epoch.0).unwrap_or(i64::MAX)
}

/// The leases that this process holds, which are kept alive together.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<HashMap<i64, Epoch>>);

impl Leases {
    pub(crate) fn add(&self, lease: Lease) {
        self.lock().insert(lease.sid, lease.epoch);
    }

    pub(crate) fn remove(&self, lease: Lease) {
        let mut held = self.lock();
        if held.get(&lease.sid) == Some(&lease.epoch) {
            held.remove(&lease.sid);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<i64, Epoch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives signs of life as long as the store is there.
pub(crate) async fn keep_alive(server: Weak<Server>, leases: Weak<Leases>) {
    loop {
        tokio::time::sleep(BEAT).await;
        let (Some(server), Some(leases)) = (server.upgrade(), leases.upgrade()) else { return };
        let held: Vec<(i64, i64)> =
            leases.lock().iter().map(|(sid, epoch)| (*sid, number(*epoch))).collect();
        if held.is_empty() {
            continue;
        }
        let held = Arc::new(held.into_iter().unzip::<i64, i64, Vec<_>, Vec<_>>());
        // A beat that is missed is made up by the next one; appends find out for themselves.
        let _ = server
            .once(|client| {
                let held = held.clone();
                Box::pin(async move {
                    let sql =
                        "UPDATE lease SET until = clock_timestamp() + $3 * interval '1 second'
                        FROM unnest($1::bigint[], $2::bigint[]) AS held (sid, epoch)
                        WHERE lease.sid = held.sid AND lease.epoch = held.epoch";
                    let statement = client.prepare_cached(sql).await?;
                    let seconds = TIME_TO_LIVE.as_secs_f64();
                    client.execute(&statement, &[&held.0, &held.1, &seconds]).await?;
                    Ok(())
                })
            })
            .await;
    }
}
