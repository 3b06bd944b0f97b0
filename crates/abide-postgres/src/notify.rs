//! Notifications about sessions that have grown.
//!
//! They promise nothing: a reader that is notified looks, and one that is not polls now and then.
//! An append never waits for them.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, broadcast};
use tokio_postgres::{AsyncMessage, Client, Connection};

use crate::migration::quoted;
use crate::server_connection::{ConnectionRetries, ServerConnection};

/// The least time between two notifications.
const PAUSE: Duration = Duration::from_millis(50);
/// The most bytes of a notification: the server takes a little less than 8,000.
const BYTES: usize = 7_000;
/// The most bytes of a channel's name.
const NAME: usize = 63;
/// The most notifications queued for a follower; beyond that it polls.
const UNHEARD: usize = 64;

/// The channel of a schema. Two schemas that share one get notifications that do not concern them.
fn notify_channel(schema: &str) -> String {
    // Schema names are ASCII.
    format!("abide_{schema}").chars().take(NAME).collect()
}

/// Collects sessions that have grown.
#[derive(Debug, Default)]
pub(crate) struct GrowthNotifier {
    grown: Mutex<BTreeSet<i64>>,
    changed: Notify,
}

impl GrowthNotifier {
    /// Adds sessions that have grown.
    pub(crate) fn add(&self, sids: impl Iterator<Item = i64>) {
        self.grown.lock().unwrap_or_else(PoisonError::into_inner).extend(sids);
        self.changed.notify_one();
    }

    fn take(&self) -> BTreeSet<i64> {
        std::mem::take(&mut *self.grown.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Sends notifications as long as the store exists.
pub(crate) async fn send_notifications(
    server: Weak<ServerConnection>,
    teller: Arc<GrowthNotifier>,
) {
    loop {
        teller.changed.notified().await;
        let Some(server) = server.upgrade() else { return };
        for list in notify_lists(&teller.take()) {
            let channel = notify_channel(server.url().schema());
            // A reader that is not notified polls.
            let _ = server
                .once(|client| {
                    let (channel, list) = (channel.clone(), list.clone());
                    Box::pin(async move {
                        let sql = "SELECT pg_notify($1, $2)";
                        let statement = client.prepare_cached(sql).await?;
                        client.execute(&statement, &[&channel, &list]).await?;
                        Ok(())
                    })
                })
                .await;
        }
        drop(server);
        tokio::time::sleep(PAUSE).await;
    }
}

/// Sessions as they are sent, in as many lists as needed.
fn notify_lists(sids: &BTreeSet<i64>) -> Vec<String> {
    let mut lists: Vec<String> = Vec::new();
    for sid in sids {
        let sid = sid.to_string();
        match lists.last_mut().filter(|list| list.len() + sid.len() < BYTES) {
            Some(list) => {
                list.push(',');
                list.push_str(&sid);
            }
            None => lists.push(sid),
        }
    }
    lists
}

/// The sessions that have grown; if empty, any may have.
type GrownSessions = Arc<[i64]>;

/// Listens for notifications over one connection of the store, made on first use.
#[derive(Debug)]
pub(crate) struct NotifyListener {
    started: AtomicBool,
    up: AtomicBool,
    heard: broadcast::Sender<GrownSessions>,
}

impl Default for NotifyListener {
    fn default() -> Self {
        Self {
            started: AtomicBool::new(false),
            up: AtomicBool::new(false),
            heard: broadcast::Sender::new(UNHEARD),
        }
    }
}

impl NotifyListener {
    /// Subscribes to notifications.
    pub(crate) fn hear(
        self: &Arc<Self>,
        server: &Arc<ServerConnection>,
    ) -> broadcast::Receiver<GrownSessions> {
        let hearing = self.heard.subscribe();
        if !self.started.swap(true, Ordering::Relaxed)
            && let Some(handle) = server.runtime()
        {
            handle.spawn(listen_for_notifications(Arc::downgrade(server), self.clone()));
        }
        hearing
    }

    /// Whether there is a connection to listen on.
    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    fn say(&self, heard: GrownSessions) {
        // There may be no followers now.
        let _ = self.heard.send(heard);
    }
}

/// Listens as long as the store exists, on a new connection when one breaks.
async fn listen_for_notifications(server: Weak<ServerConnection>, listener: Arc<NotifyListener>) {
    let mut again = ConnectionRetries::new(Duration::MAX);
    loop {
        let Some(held) = server.upgrade() else { return };
        let (config, guard) = held.own_line();
        let channel = notify_channel(held.url().schema());
        drop(held);
        // However it ends, it is retried.
        let _ = match config.connect(guard).await {
            Ok((client, connection)) => {
                hear_notifications(client, connection, &channel, &listener).await
            }
            Err(error) => Err(error),
        };
        if listener.up.swap(false, Ordering::Relaxed) {
            again = ConnectionRetries::new(Duration::MAX);
        }
        // Followers poll more often now.
        listener.say(Arc::from([]));
        tokio::time::sleep(again.pause()).await;
    }
}

/// Listens on a connection until it breaks.
async fn hear_notifications<S, T>(
    client: Client,
    mut connection: Connection<S, T>,
    channel: &str,
    listener: &NotifyListener,
) -> Result<(), tokio_postgres::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let sql = format!("LISTEN {}", quoted(channel));
    let mut asked = pin!(client.batch_execute(&sql));
    let mut listening = false;
    poll_fn(|context| {
        loop {
            match connection.poll_message(context) {
                Poll::Ready(Some(Ok(AsyncMessage::Notification(told)))) => {
                    listener.say(told.payload().split(',').flat_map(str::parse).collect());
                }
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => break,
            }
        }
        if !listening && let Poll::Ready(done) = asked.as_mut().poll(context) {
            if let Err(error) = done {
                return Poll::Ready(Err(error));
            }
            listening = true;
            listener.up.store(true, Ordering::Relaxed);
            // Earlier notifications were missed.
            listener.say(Arc::from([]));
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_sessions_are_told_of_in_lists_that_the_server_takes() {
        let sids: BTreeSet<i64> = (1_000_000..1_003_000).collect();
        let lists = notify_lists(&sids);
        assert!(lists.len() > 1 && lists.iter().all(|list| list.len() <= BYTES), "{}", lists.len());
        let told = lists.iter().flat_map(|list| list.split(',').flat_map(str::parse));
        assert_eq!(told.collect::<BTreeSet<i64>>(), sids);
        assert!(notify_channel(&"s".repeat(63)).len() <= NAME);
    }
}
