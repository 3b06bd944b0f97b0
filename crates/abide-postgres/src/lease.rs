//! Who may write to a session: a lease with an epoch that only grows.
//!
//! Time is the server's. Every append carries its epoch, and is refused if the lease has another
//! one: it does not matter how long a writer slept or what its clock says. So a lease that expired
//! while nobody wanted the session is still valid.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use abide_journal::{Environment, process_seen};
use abide_model::{Epoch, ProcessObservation, SessionId, StoreError, WriterHolder};
use deadpool_postgres::{ClientWrapper as Client, Transaction};
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::error::ServerError;
use crate::server_connection::ServerConnection;

/// How long a lease is valid without a heartbeat.
pub const TIME_TO_LIVE: Duration = Duration::from_secs(15);
/// The time between two heartbeats.
const BEAT: Duration = Duration::from_secs(4);
/// The pause before trying again to take a held session.
const PAUSE: Duration = Duration::from_millis(25);

/// What a lease is read by.
const LOOK: &str = "SELECT sid, epoch, holder, coalesce(until > clock_timestamp(), false),
        extract(epoch FROM clock_timestamp() - until)::float8
    FROM lease WHERE sid = ANY($1)";

/// A held session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) sid: i64,
    pub(crate) epoch: Epoch,
    /// Identifies this acquisition.
    tenure: Uuid,
}

/// The state of a lease.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaseStatus {
    pub(crate) epoch: i64,
    /// The holder; `None` if there is none.
    pub(crate) holder: Option<WriterHolder>,
    /// Whether its last heartbeat is within the time to live.
    pub(crate) current: bool,
    /// The age of its last heartbeat.
    pub(crate) age: Duration,
}

impl LeaseStatus {
    /// Reads the lease of a session.
    pub(crate) async fn look(client: &Client, sid: i64) -> Result<Self, ServerError> {
        let all = Self::look_at(client, &[sid]).await?;
        all.into_iter().map(|(_, seen)| seen).next().ok_or_else(|| {
            ServerError::Refused(StoreError::NoSession { reference: "that is held".to_owned() })
        })
    }

    /// Reads the leases of many sessions.
    pub(crate) async fn look_at(
        client: &Client,
        sids: &[i64],
    ) -> Result<Vec<(i64, Self)>, ServerError> {
        let statement = client.prepare_cached(LOOK).await?;
        let rows = client.query(&statement, &[&sids]).await?;
        rows.iter().map(Self::of_row).collect()
    }

    /// Reads the lease of a session and keeps it as it is until the transaction ends: nobody takes
    /// the session meanwhile, and nobody appends. `None` if there is no such session.
    pub(crate) async fn look_and_lock(
        transaction: &Transaction<'_>,
        sid: i64,
    ) -> Result<Option<Self>, ServerError> {
        let row = transaction.query_opt(&format!("{LOOK} FOR UPDATE"), &[&vec![sid]]).await?;
        Ok(row.as_ref().map(Self::of_row).transpose()?.map(|(_, seen)| seen))
    }

    fn of_row(row: &Row) -> Result<(i64, Self), ServerError> {
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
    }

    /// Whether a writer holds it, as far as can be told from here.
    pub(crate) fn is_held(&self, env: &Environment) -> bool {
        self.current && !self.is_left_behind(env)
    }

    /// Whether the holder is a process of this machine that is gone.
    pub(crate) fn is_left_behind(&self, env: &Environment) -> bool {
        self.process(env).is_some_and(|seen| {
            matches!(seen, ProcessObservation::Gone | ProcessObservation::Another)
        })
    }

    /// What this machine knows of the holder's process; `None` if it is on another machine.
    pub(crate) fn process(&self, env: &Environment) -> Option<ProcessObservation> {
        let holder = self.holder.as_ref()?;
        if holder.host != env.holder.host {
            return None;
        }
        let (run, space) = holder.boot.as_deref().and_then(|boot| boot.split_once(' '))?;
        if run != env.boot.as_deref()? {
            // This machine was rebooted since.
            return Some(ProcessObservation::Gone);
        }
        // A process id of another container means nothing here.
        (space == lease_process_space()).then(|| process_seen(holder.process, holder.started))
    }
}

/// Takes the lease of a session, waiting up to `wait` for another holder.
pub(crate) async fn acquire_lease(
    server: &ServerConnection,
    env: &Environment,
    (session, sid): (SessionId, i64),
    wait: Duration,
    take_over: bool,
) -> Result<Lease, StoreError> {
    let until = Instant::now().checked_add(wait);
    let mut random = [0; 16];
    (env.random)(&mut random);
    let tenure = Uuid::from_bytes(random);
    let boot = env.boot.as_ref().map(|boot| format!("{boot} {}", lease_process_space()));
    let holder = WriterHolder { since: (env.now)(), boot, ..env.holder.clone() };
    // The epoch of a holder that is gone or is to be replaced, so that a newer holder is not
    // affected.
    let mut gone: i64 = -1;
    loop {
        let taken = server
            .ask("take a session of", |client| {
                let holder = holder.clone();
                Box::pin(async move {
                    let sql = "UPDATE lease SET holder = $2, tenure = $3,
                            epoch = CASE WHEN tenure = $3 THEN epoch ELSE epoch + 1 END,
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
                        None => Ok(Err(LeaseStatus::look(&client, sid).await?)),
                    }
                })
            })
            .await?;
        let seen = match taken {
            Ok(epoch) => {
                let epoch = Epoch(u64::try_from(epoch).unwrap_or(0));
                return Ok(Lease { sid, epoch, tenure });
            }
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

/// Raises the epoch: the journal came from elsewhere and already has this one.
pub(crate) async fn raise_lease(
    server: &ServerConnection,
    session: SessionId,
    lease: Lease,
    above: Epoch,
) -> Result<Lease, StoreError> {
    let (sid, tenure) = (lease.sid, lease.tenure);
    let new = lease_epoch_number(above).checked_add(1).ok_or_else(|| StoreError::Damaged {
        place: format!("session {session}"),
        reason: format!("there is no epoch above {}", above.0),
    })?;
    let raised = server
        .ask("take a session of", move |client| {
            Box::pin(async move {
                // By the tenure: a writer that took over meanwhile has another one.
                let sql = "UPDATE lease SET epoch = $2 WHERE sid = $1 AND tenure = $3";
                Ok(client.execute(sql, &[&sid, &new, &tenure]).await?)
            })
        })
        .await?;
    if raised == 0 {
        let by = "another writer while it was opened".to_owned();
        return Err(StoreError::TakenOver { session, by });
    }
    Ok(Lease { epoch: above.next(), ..lease })
}

/// Releases a session.
pub(crate) async fn release_lease(
    server: &ServerConnection,
    lease: Lease,
) -> Result<(), StoreError> {
    let (sid, tenure) = (lease.sid, lease.tenure);
    server
        .ask("let go a session of", move |client| {
            Box::pin(async move {
                let sql = "UPDATE lease SET until = NULL, holder = NULL, tenure = NULL,
                        at_rest = coalesce((SELECT indexed FROM overview WHERE sid = $1)
                            = (SELECT max(seq) FROM event WHERE sid = $1), false)
                    WHERE sid = $1 AND tenure = $2";
                client.execute(sql, &[&sid, &tenure]).await?;
                Ok(())
            })
        })
        .await
}

/// The process id namespace; empty if the system has none.
fn lease_process_space() -> String {
    let link = std::fs::read_link("/proc/self/ns/pid");
    link.map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
}

/// An epoch as stored in the table.
pub(crate) fn lease_epoch_number(epoch: Epoch) -> i64 {
    i64::try_from(epoch.0).unwrap_or(i64::MAX)
}

/// The leases of this process, kept alive together.
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

/// Sends heartbeats as long as the store exists.
pub(crate) async fn keep_lease_alive(server: Weak<ServerConnection>, leases: Weak<Leases>) {
    loop {
        tokio::time::sleep(BEAT).await;
        let (Some(server), Some(leases)) = (server.upgrade(), leases.upgrade()) else { return };
        let held: Vec<(i64, i64)> =
            leases.lock().iter().map(|(sid, epoch)| (*sid, lease_epoch_number(*epoch))).collect();
        if held.is_empty() {
            continue;
        }
        let held = Arc::new(held.into_iter().unzip::<i64, i64, Vec<_>, Vec<_>>());
        // The next heartbeat makes up for a missed one; appends check the lease themselves.
        let beat = server.once(|client| {
            let held = held.clone();
            Box::pin(async move {
                // In the same order in which appends lock the rows, so that they do not deadlock;
                // and none that was released since.
                let sql = "WITH mine AS MATERIALIZED (
                        SELECT lease.sid FROM lease
                        JOIN unnest($1::bigint[], $2::bigint[]) AS held (sid, epoch)
                            ON lease.sid = held.sid AND lease.epoch = held.epoch
                        WHERE lease.tenure IS NOT NULL
                        ORDER BY lease.sid FOR NO KEY UPDATE OF lease)
                    UPDATE lease SET until = clock_timestamp() + $3 * interval '1 second'
                    FROM mine WHERE lease.sid = mine.sid";
                let statement = client.prepare_cached(sql).await?;
                let seconds = TIME_TO_LIVE.as_secs_f64();
                client.execute(&statement, &[&held.0, &held.1, &seconds]).await?;
                Ok(())
            })
        });
        if !matches!(tokio::time::timeout(BEAT, beat).await, Ok(Ok(()))) {
            server.forget_idle();
        }
    }
}
