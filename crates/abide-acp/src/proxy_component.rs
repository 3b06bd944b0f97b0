//! The proxy as a component of the official SDK, for use in a chain of proxies.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use agent_client_protocol::{Conductor, ConnectTo, Error, TransportFrame};
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender};
use futures::channel::oneshot;
use futures::future::{Either, select};

use crate::chain::{ChainAgentPort, ChainClientPort, ChainConnection, ConnectionSide};
use crate::options::{CheckpointSchedule, ProxyOptions};
use crate::switch::{Switch, SwitchOptions};

/// A proxy that makes the sessions of a chain durable.
///
/// Put it into the list of proxies that a conductor is given. What comes after it in the chain is
/// its agent, what comes before it is its client: messages are recorded as earlier proxies changed
/// them.
///
/// Like [`run_stdio`](crate::run_stdio), it records messages before it forwards them, and answers
/// from the store what the agent cannot do itself. The differences:
/// - messages keep their JSON, including unknown fields and methods, and their order, but not their
///   bytes: the SDK delivers messages already parsed;
/// - the agent belongs to the chain: the command in the options is not used, and an agent that has
///   ended is not restarted;
/// - queues are held in memory without a bound, as the SDK's channels have none.
///
/// It needs no particular runtime: work that waits for the disk runs on its own threads. They end
/// when the connection does, or when its future is dropped.
///
/// ```
/// use abide_acp::{Proxy, ProxyOptions};
/// use agent_client_protocol::{Conductor, DynConnectTo};
///
/// let abide = Proxy::new(ProxyOptions::new(Vec::new())).with_notes(|note| eprintln!("abide: {note}"));
/// // For `ConductorImpl` of the crate `agent-client-protocol-conductor`, or any other conductor.
/// let proxies: Vec<DynConnectTo<Conductor>> = vec![DynConnectTo::new(abide)];
/// # assert_eq!(proxies.len(), 1);
/// ```
#[derive(Clone)]
pub struct Proxy {
    options: ProxyOptions,
    note: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Proxy {
    /// Makes a proxy with these options. The command in them is not used.
    #[must_use]
    pub fn new(options: ProxyOptions) -> Self {
        Self { options, note: Arc::new(|_| {}) }
    }

    /// Calls `note` with messages meant for a log; without it they are dropped.
    #[must_use]
    pub fn with_notes(mut self, note: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.note = Arc::new(note);
        self
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("options", &self.options).finish_non_exhaustive()
    }
}

impl ConnectTo<Conductor> for Proxy {
    async fn connect_to(
        self,
        conductor: impl ConnectTo<agent_client_protocol::Proxy>,
    ) -> Result<(), Error> {
        let (ends, mut driver) = conductor.into_channel_and_future();
        let (mut frames, out) = ends.into_parts();
        let (threads, done) =
            ComponentThreads::start(&self, out).map_err(Error::into_internal_error)?;
        loop {
            match next_component_frame(&mut frames, driver.as_mut()).await {
                ConnectionStep::Frame(frame) => threads.take(frame),
                ConnectionStep::End => break,
                ConnectionStep::Driven(driven) => {
                    driven?;
                    // Frames it had delivered before are still to be handled.
                    driver = None;
                    frames.close();
                }
            }
        }
        drop(threads);
        let Some(driver) = driver else {
            let _ = done.await;
            return Ok(());
        };
        // The driver must also deliver the last frames.
        match select(done, driver).await {
            Either::Left((_, mut driver)) => {
                let _ = driver.request_finish();
                driver.await
            }
            Either::Right((driven, done)) => {
                let _ = done.await;
                driven
            }
        }
    }
}

/// The next thing that happens on a connection.
enum ConnectionStep {
    Frame(TransportFrame),
    /// No more frames.
    End,
    /// The driver has finished.
    Driven(Result<(), Error>),
}

async fn next_component_frame(
    frames: &mut UnboundedReceiver<TransportFrame>,
    driver: Option<&mut (impl Future<Output = Result<(), Error>> + Unpin)>,
) -> ConnectionStep {
    let frame = match driver {
        None => frames.next().await,
        Some(driver) => match select(frames.next(), driver).await {
            Either::Left((frame, _)) => frame,
            Either::Right((driven, _)) => return ConnectionStep::Driven(driven),
        },
    };
    frame.map_or(ConnectionStep::End, ConnectionStep::Frame)
}

/// The threads that handle each side's lines: the switch waits for the disk, which an executor must
/// not.
struct ComponentThreads {
    chain: Arc<ChainConnection>,
    client: Sender<String>,
    agent: Sender<String>,
}

impl ComponentThreads {
    /// Starts the threads. They end once this is dropped; the receiver resolves when they have
    /// handled and sent everything.
    fn start(
        proxy: &Proxy,
        out: UnboundedSender<TransportFrame>,
    ) -> std::io::Result<(Self, oneshot::Receiver<()>)> {
        let chain = ChainConnection::new(out, Arc::clone(&proxy.note));
        let options = &proxy.options;
        let manner = SwitchOptions {
            checkpoint: options.checkpoint == CheckpointSchedule::Turn,
            compaction: options.compaction.clone(),
            timeout: options.timeout,
            cancel_grace: options.cancel_grace,
        };
        let note = Arc::clone(&proxy.note);
        let switch = Switch::new(
            manner,
            options.stores.clone(),
            Box::new(ChainClientPort(Arc::clone(&chain))),
            Box::new(ChainAgentPort(Arc::clone(&chain))),
            Box::new(move |what| note(what)),
        )?;
        let (client, from_client) = channel::<String>();
        let (agent, from_agent) = channel::<String>();
        let (finished, done) = oneshot::channel();
        let taker = Arc::clone(&switch);
        let agents = std::thread::Builder::new().name("from-agent".into()).spawn(move || {
            for line in from_agent {
                taker.from_agent(&line);
            }
        })?;
        let line = Arc::clone(&chain);
        std::thread::Builder::new().name("from-client".into()).spawn(move || {
            take_component_lines(&switch, from_client);
            let _ = agents.join();
            end_component(&switch, &line);
            let _ = finished.send(());
        })?;
        Ok((Self { chain, client, agent }, done))
    }

    fn take(&self, frame: TransportFrame) {
        let Some((side, line)) = self.chain.take(frame) else { return };
        // The threads run until `self` is dropped, so this cannot fail.
        let _ = match side {
            ConnectionSide::Client => self.client.send(line),
            ConnectionSide::Agent => self.agent.send(line),
        };
    }
}

fn take_component_lines(switch: &Arc<Switch>, lines: Receiver<String>) {
    for line in lines {
        switch.from_client(line);
    }
}

/// Ends the switch after both sides are gone. The client's last messages are still handled, and
/// answered where that needs no agent.
fn end_component(switch: &Arc<Switch>, chain: &ChainConnection) {
    chain.end_agent();
    loop {
        // Repeated, so that a request that began to wait for the agent just now is told too.
        switch.agent_gone("the connection to the agent has ended");
        if switch.is_idle() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    switch.client_gone();
    chain.close();
}
