//! A small pool of connections, made again when they break.

use std::cell::Cell;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use abide_model::StoreError;
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime as Timers};
use tokio::runtime::Runtime;
use tokio::task::{JoinError, JoinHandle};
use tokio_postgres::Config;

use crate::connection_guard::ConnectionGuard;
use crate::error::ServerError;
use crate::migration::SCHEMA_VERSION;
use crate::server_url::{ServerUrl, UrlError};
use crate::tls;

/// The first pause before a retry; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long to wait for a server that has never answered, unless the URL says: most likely there is
/// none.
const FIRST_CONTACT: Duration = Duration::from_secs(2);
/// How long a connection may take to be made, unless the URL says.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a sequence of requests may take.
const MUCH: Duration = Duration::from_secs(3600);
/// The most connections of a process.
const CONNECTIONS: usize = 8;

thread_local! {
    /// Is this one of the threads that a server's tasks run on?
    static WORKER: Cell<bool> = const { Cell::new(false) };
}

/// What is asked of the server, with a connection of its own until it is answered.
pub(crate) type ServerFuture<T> = Pin<Box<dyn Future<Output = Result<T, ServerError>> + Send>>;

/// A server and the threads that talk to it.
pub(crate) struct ServerConnection {
    /// Taken when the store is dropped, possibly where a runtime must not be waited for.
    runtime: Option<Runtime>,
    pool: Pool,
    /// The configuration for connections outside the pool.
    config: Config,
    guard: ConnectionGuard,
    url: ServerUrl,
    /// How long a request is retried before it fails.
    patience: Duration,
    /// How long one request may take.
    answer: Duration,
    /// How long to wait for a server that has never answered.
    first_contact: Duration,
    /// Whether it has ever answered.
    met: AtomicBool,
    /// How many need answers of the primary alone.
    primary: AtomicUsize,
}

/// Until it is dropped, no standby is asked: it may lag behind.
#[derive(Debug)]
pub(crate) struct PrimaryOnly(Arc<ServerConnection>);

impl Drop for PrimaryOnly {
    fn drop(&mut self) {
        self.0.primary.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for ServerConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("url", &self.url).finish_non_exhaustive()
    }
}

impl ServerConnection {
    pub(crate) fn new(
        url: ServerUrl,
        patience: Duration,
        answer: Duration,
    ) -> Result<Self, StoreError> {
        let place = url.to_string();
        let failed = |action: &'static str| {
            let place = place.clone();
            move |source: Arc<dyn std::error::Error + Send + Sync>| StoreError::Storage {
                action,
                place,
                source,
            }
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("abide-postgres")
            .on_thread_start(|| WORKER.set(true))
            .enable_all()
            .build()
            .map_err(|error| failed("start threads for")(Arc::new(error)))?;
        let mut config = url.config.clone();
        // However short the timeout: one attempt gets as long as a running server needs.
        let connect = url.connect_timeout.map_or(CONNECT, |said| said.max(FIRST_CONTACT));
        let first_contact = url.connect_timeout.unwrap_or(FIRST_CONTACT).min(patience);
        config.connect_timeout(connect);
        config.keepalives_idle(Duration::from_secs(30));
        if config.get_application_name().is_none() {
            config.application_name("abide");
        }
        // An acknowledged event is on the server's disk, whatever the database's default.
        let options = format!(
            "{} -c search_path={} -c synchronous_commit=on -c statement_timeout={time} \
             -c idle_in_transaction_session_timeout={time} -c tcp_keepalives_idle=30 \
             -c abide.tables={SCHEMA_VERSION}",
            config.get_options().unwrap_or_default(),
            url.schema,
            time = answer.as_millis(),
        );
        config.options(options);
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let connector =
            url.encrypted().then(|| tls::tls_connector(url.root_certificate.as_deref()));
        let connector = connector
            .transpose()
            .map_err(|error: UrlError| failed("connect to")(Arc::new(error)))?;
        let guard = ConnectionGuard::over(&mut config, connector);
        let manager = Manager::from_config(config.clone(), guard.clone(), recycling);
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .wait_timeout(Some(answer))
            .create_timeout(Some(connect))
            .runtime(Timers::Tokio1)
            .build()
            .map_err(|error| failed("connect to")(Arc::new(error)))?;
        Ok(Self {
            runtime: Some(runtime),
            pool,
            config,
            guard,
            url,
            patience,
            answer,
            first_contact,
            met: AtomicBool::new(false),
            primary: AtomicUsize::new(0),
        })
    }

    pub(crate) const fn url(&self) -> &ServerUrl {
        &self.url
    }

    pub(crate) fn place(&self) -> String {
        self.url.to_string()
    }

    pub(crate) fn runtime(&self) -> Option<&tokio::runtime::Handle> {
        self.runtime.as_ref().map(Runtime::handle)
    }

    /// The configuration and guard for a connection outside the pool.
    pub(crate) fn own_line(&self) -> (Config, ConnectionGuard) {
        (self.config.clone(), self.guard.clone())
    }

    /// A connection from the pool.
    pub(crate) async fn connection(&self) -> Result<Object, ServerError> {
        let client = self.pool.get().await?;
        if self.primary.load(Ordering::Relaxed) > 0 {
            let standby = client.query_one("SELECT pg_is_in_recovery()", &[]).await?.try_get(0)?;
            if standby {
                drop(Object::take(client));
                return Err(self.standby());
            }
        }
        Ok(client)
    }

    /// From now on, until what is returned is dropped, only the primary is asked.
    pub(crate) fn only_primary(self: &Arc<Self>) -> PrimaryOnly {
        self.primary.fetch_add(1, Ordering::Relaxed);
        PrimaryOnly(self.clone())
    }

    /// The error where a standby has answered.
    pub(crate) fn standby(&self) -> ServerError {
        let source = std::io::Error::other("the server is a standby, which may lag behind");
        ServerError::Refused(StoreError::Storage {
            action: "store or remove objects in",
            place: self.place(),
            source: Arc::new(source),
        })
    }

    /// Drops idle connections: their server is gone.
    pub(crate) fn forget_idle(&self) {
        self.pool.retain(|_, _| false);
    }

    /// Sends a request once, within the time that one may take.
    pub(crate) async fn once<T>(
        &self,
        ask: impl Fn(Object) -> ServerFuture<T>,
    ) -> Result<T, ServerError> {
        self.within(self.answer, &ask).await
    }

    async fn within<T>(
        &self,
        limit: Duration,
        ask: &impl Fn(Object) -> ServerFuture<T>,
    ) -> Result<T, ServerError> {
        let asked = async { ask(self.connection().await?).await };
        match tokio::time::timeout(limit, asked).await {
            Ok(answered) => answered,
            Err(_) => Err(ServerError::Silent(limit.as_secs())),
        }
    }

    /// Sends a request until it is answered, as long as a retry may succeed. The request must be
    /// idempotent.
    pub(crate) async fn ask<T>(
        &self,
        action: &'static str,
        ask: impl Fn(Object) -> ServerFuture<T>,
    ) -> Result<T, StoreError> {
        self.ask_within(self.answer, action, ask).await
    }

    /// The same for a sequence of requests: each has the normal time, all of them much more.
    pub(crate) async fn ask_much<T>(
        &self,
        action: &'static str,
        ask: impl Fn(Object) -> ServerFuture<T>,
    ) -> Result<T, StoreError> {
        self.ask_within(MUCH, action, ask).await
    }

    async fn ask_within<T>(
        &self,
        limit: Duration,
        action: &'static str,
        ask: impl Fn(Object) -> ServerFuture<T>,
    ) -> Result<T, StoreError> {
        let met = self.met.load(Ordering::Relaxed);
        let mut again =
            ConnectionRetries::new(if met { self.patience } else { self.first_contact });
        loop {
            let trouble = match self.within(limit, &ask).await {
                Ok(answer) => {
                    self.met.store(true, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(trouble) => trouble,
            };
            if !trouble.is_silence() && !self.met.swap(true, Ordering::Relaxed) {
                // The server is there; it is starting or stopping.
                again = ConnectionRetries::new(self.patience);
            }
            if !trouble.may_pass() || !again.has_time() {
                return Err(trouble.into_store(action, &self.place()));
            }
            self.forget_idle();
            tokio::time::sleep(again.pause()).await;
        }
    }

    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }

    pub(crate) const fn answer(&self) -> Duration {
        self.answer
    }

    /// Waits for something that is done on the server's threads. Any other thread may wait, one of
    /// another runtime too; it is blocked meanwhile.
    pub(crate) fn block<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        debug_assert!(!WORKER.get(), "a thread that gives the answers waits for one");
        let Some(handle) = self.runtime() else { return Err(connection_closed()) };
        // Over a channel, which does not count against the polls that another runtime grants a task of
        // its own that waits here: once those are used up, nothing polled there is ready.
        let (tell, told) = mpsc::sync_channel(1);
        handle.spawn(async move {
            let _ = tell.send(tokio::spawn(work).await);
        });
        told.recv()
            .ok()
            .and_then(joined_connection_task)
            .unwrap_or_else(|| Err(connection_closed()))
    }
}

/// What a task has given; none where it was ended with its runtime. Its panic is passed on.
pub(crate) fn joined_connection_task<T>(outcome: Result<T, JoinError>) -> Option<T> {
    match outcome.map_err(JoinError::try_into_panic) {
        Ok(given) => Some(given),
        Err(Ok(panic)) => resume_unwind(panic),
        Err(Err(_)) => None,
    }
}

/// Does something that blocks, on a thread beside those that give the answers.
pub(crate) fn beside_connection<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    tokio::task::spawn_blocking(move || {
        WORKER.set(false);
        work()
    })
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        // This may be a thread of a runtime, which must not block.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn connection_closed() -> StoreError {
    StoreError::Storage {
        action: "ask",
        place: "the server".to_owned(),
        source: Arc::new(std::io::Error::other("the store was closed")),
    }
}

/// When a request is retried.
#[derive(Debug)]
pub(crate) struct ConnectionRetries {
    until: Option<Instant>,
    pause: Duration,
}

impl ConnectionRetries {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { until: Instant::now().checked_add(patience), pause: FIRST_PAUSE }
    }

    pub(crate) fn has_time(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }

    /// The next pause, each longer than the one before.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// One that is never asked anything.
    fn server() -> Arc<ServerConnection> {
        let url = ServerUrl::parse("postgres://nobody@127.0.0.1:1/nothing").unwrap();
        let second = Duration::from_secs(1);
        Arc::new(ServerConnection::new(url, second, second).unwrap())
    }

    #[test]
    fn a_task_of_another_runtime_may_wait_any_number_of_times() {
        let server = server();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for n in 0..1000 {
                assert_eq!(server.block(async move { Ok(n) }).unwrap(), n);
            }
        });
    }

    #[test]
    fn a_panic_reaches_whoever_waits() {
        let server = server();
        let waited = catch_unwind(AssertUnwindSafe(|| {
            server.block::<()>(async { panic!("as it was said") })
        }));
        let said = waited.unwrap_err();
        assert_eq!(said.downcast_ref::<&str>(), Some(&"as it was said"));
        server.block(async { Ok(()) }).unwrap();
    }

    #[test]
    #[cfg(debug_assertions)]
    fn only_a_thread_beside_those_that_answer_may_wait() {
        let server = server();
        let asking = server.clone();
        let waited = catch_unwind(AssertUnwindSafe(|| {
            server.block(async move { asking.block(async { Ok(()) }) })
        }));
        waited.unwrap_err();
        let asking = server.clone();
        let work = async move {
            joined_connection_task(beside_connection(move || asking.block(async { Ok(7) })).await)
        };
        assert_eq!(server.block(async move { Ok(work.await) }).unwrap().unwrap().unwrap(), 7);
    }
}
