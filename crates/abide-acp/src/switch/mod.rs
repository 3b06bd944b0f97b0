//! The switch: it receives every line from the client and the agent, and forwards or answers it.
//!
//! Each session's messages from the client are handled by a worker of its own, so that a checkpoint
//! or a start of the agent in one session delays no other; cancellations are never delayed.
//! Messages from the agent are handled in order on the thread that reads them.

mod agent;
mod client;
mod compaction;
mod inner;
mod load;
mod prompt;
mod sessions;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use abide::context::CompactionSettings;

use crate::abilities::Abilities;
use crate::acp_recorder::StoreFailure;
use crate::catalog::Catalog;
use crate::deadlines::Deadlines;
use crate::line_worker::LineWorker;
use crate::live_session::LiveSession;
use crate::member_splice::{member, member_text};
use crate::options::StoreOptions;
use crate::pending_request::{OwnRequest, PendingRequest, Purpose, RequestTable};
use crate::port::{AgentPort, ClientPort};
use crate::rpc_message::{self, RpcError, RpcOutcome, RpcRequestId};

/// Options of a switch.
#[derive(Debug, Clone)]
pub(crate) struct SwitchOptions {
    /// Make a checkpoint of the workspace at each prompt.
    pub(crate) checkpoint: bool,
    /// When contexts are compacted by themselves.
    pub(crate) compaction: Option<CompactionSettings>,
    /// How long the agent may take to answer a request, except prompts and logins.
    pub(crate) timeout: Duration,
    /// How long the agent may take to end a cancelled prompt.
    pub(crate) cancel_grace: Duration,
}

/// The client's opening messages, repeated to an agent that is restarted.
#[derive(Debug, Default)]
struct ClientGreeting {
    /// The params of `initialize`.
    initialize: Option<String>,
    /// The params of `authenticate`, once it succeeded.
    authenticate: Option<String>,
    /// The client supports notices.
    notices: bool,
    /// The answer to `initialize` is still to come.
    waiting: bool,
}

/// Sits between a client and an agent.
pub(crate) struct Switch {
    manner: SwitchOptions,
    catalog: Catalog,
    client: Box<dyn ClientPort>,
    agent: Box<dyn AgentPort>,
    /// Writes to the log.
    note: Box<dyn Fn(&str) + Send + Sync>,
    deadlines: Deadlines,
    general: Arc<LineWorker>,
    table: Mutex<RequestTable>,
    greeting: Mutex<ClientGreeting>,
    abilities: Mutex<Abilities>,
    /// Held while an agent is started and initialized.
    starting: Mutex<()>,
    name: String,
    next: AtomicU64,
}

impl Switch {
    pub(crate) fn new(
        manner: SwitchOptions,
        stores: StoreOptions,
        client: Box<dyn ClientPort>,
        agent: Box<dyn AgentPort>,
        note: Box<dyn Fn(&str) + Send + Sync>,
    ) -> std::io::Result<Arc<Self>> {
        let random = getrandom::u64().map_err(std::io::Error::other)?;
        Ok(Arc::new(Self {
            manner,
            catalog: Catalog::new(stores),
            client,
            agent,
            note,
            deadlines: Deadlines::start()?,
            general: LineWorker::new(),
            table: Mutex::default(),
            greeting: Mutex::default(),
            abilities: Mutex::default(),
            starting: Mutex::default(),
            name: format!("abide-{random:016x}"),
            next: AtomicU64::new(1),
        }))
    }

    fn table(&self) -> MutexGuard<'_, RequestTable> {
        lock_switch_state(&self.table)
    }

    fn abilities(&self) -> Abilities {
        lock_switch_state(&self.abilities).clone()
    }

    /// Whether version 1 was negotiated, so that messages can be understood.
    fn understands(&self) -> bool {
        lock_switch_state(&self.abilities).version == 1
    }

    /// A request id that nobody else uses.
    fn own_id(&self) -> RpcRequestId {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        RpcRequestId::text(&format!("{}-{number}", self.name))
    }

    fn refuse(&self, id: &str, failure: &RpcError) {
        self.client.send(&rpc_message::failure_message(id, failure));
    }

    /// Makes sure that an agent runs and was initialized as the client initialized the first.
    fn ready(self: &Arc<Self>) -> Result<(), RpcError> {
        let _one = lock_switch_state(&self.starting);
        let started = self.agent.ensure(self).map_err(RpcError::internal)?;
        if !started {
            return Ok(());
        }
        let (initialize, authenticate) = {
            let greeting = lock_switch_state(&self.greeting);
            (greeting.initialize.clone(), greeting.authenticate.clone())
        };
        let Some(initialize) = initialize else { return Ok(()) };
        let greeted = self.ask("initialize", &initialize).and_then(|result| {
            *lock_switch_state(&self.abilities) = Abilities::read(&result);
            authenticate.map_or(Ok(()), |params| self.ask("authenticate", &params).map(drop))
        });
        greeted.inspect_err(|failure| self.agent.end(&failure.message))
    }

    /// Sends the agent a request of the proxy's own and waits for the answer.
    fn ask(&self, method: &str, params: &str) -> Result<String, RpcError> {
        self.asking(method, params, None)?.wait(self)
    }

    /// Sends the agent a request of the proxy's own.
    fn asking(
        &self,
        method: &str,
        params: &str,
        opens: Option<&Arc<LiveSession>>,
    ) -> Result<SwitchQuestion, RpcError> {
        let id = self.own_id();
        let (answer, answered) = sync_channel(1);
        self.table().own.insert(id.clone(), OwnRequest { answer, opens: opens.cloned() });
        if !self.agent.send(&rpc_message::request_message(&id, method, params)) {
            self.table().own.remove(&id);
            return Err(agent_gone_error());
        }
        Ok(SwitchQuestion { id, method: method.to_owned(), answered })
    }

    /// Forwards a client's request to the agent.
    fn forward(self: &Arc<Self>, line: &str, id: &str, method: &str, purpose: Purpose) {
        self.deliver(line, id, method, purpose);
    }

    /// Forwards a client's request to the agent. Returns whether it was sent; if not, it is
    /// refused.
    fn deliver(self: &Arc<Self>, line: &str, id: &str, method: &str, purpose: Purpose) -> bool {
        let key = match serde_json::from_str(id) {
            Ok(raw) => RpcRequestId::of(raw),
            Err(_) => return false,
        };
        let patient =
            matches!(purpose, Purpose::Prompt(_) | Purpose::Authenticate(_) | Purpose::Other);
        let deadline = (!patient).then(|| {
            let (switch, key) = (Arc::downgrade(self), key.clone());
            self.deadlines.at(Instant::now() + self.manner.timeout, move || {
                if let Some(switch) = switch.upgrade() {
                    // On its own thread: it writes to the store and to the client, which may take a
                    // while.
                    std::thread::spawn(move || switch.give_up(&key));
                }
            })
        });
        let pending = PendingRequest { method: method.to_owned(), purpose, deadline };
        self.table().pending.insert(key.clone(), pending);
        if self.agent.send(line) {
            return true;
        }
        // If it is not there, whoever saw the agent end has answered it.
        let refused = self.table().pending.remove(&key).is_some();
        if refused {
            self.refuse(id, &agent_gone_error());
        }
        !refused
    }

    /// Answers a request that the agent has not answered in time.
    fn give_up(&self, key: &RpcRequestId) {
        let mut table = self.table();
        let Some(pending) = table.pending.remove(key) else { return };
        table.given_up.put(key.clone());
        drop(table);
        match &pending.purpose {
            Purpose::Load(live) | Purpose::Resume(live) => self.close_live_session(&live.id),
            Purpose::Adopt(live) => {
                let _ = self.erase_session(&live.id);
            }
            Purpose::Greet => self.greeting_over(),
            _ => {}
        }
        self.refuse(
            key.json(),
            &RpcError::internal(format!(
                "the agent has not answered {} within {} s",
                pending.method,
                self.manner.timeout.as_secs()
            )),
        );
    }

    /// The answer to `initialize` has come, or never will.
    fn greeting_over(&self) {
        lock_switch_state(&self.greeting).waiting = false;
    }

    /// Shows the user of a session a message of the proxy's own.
    fn tell(&self, live: &LiveSession, severity: &str, what: &str) {
        (self.note)(what);
        let text = serde_json::Value::from(what);
        let update = if lock_switch_state(&self.greeting).notices {
            format!(r#"{{"sessionUpdate":"notice","severity":"{severity}","title":{text}}}"#)
        } else if severity == "info" {
            return;
        } else {
            let text = serde_json::Value::from(format!("[{what}]\n\n"));
            let content = format!(r#"{{"type":"text","text":{text}}}"#);
            format!(r#"{{"sessionUpdate":"agent_message_chunk","content":{content}}}"#)
        };
        self.send_update(&live.id, &update);
    }

    /// Tells the user that the store failed, the first time.
    fn tell_failed(&self, live: &LiveSession, failed: StoreFailure) {
        if let Some(what) = failed.0 {
            self.tell(live, "error", &what);
        }
    }

    fn send_update(&self, session: &str, update: &str) {
        let session = serde_json::Value::from(session);
        let params = format!(r#"{{"sessionId":{session},"update":{update}}}"#);
        self.client.send(&rpc_message::notification_message("session/update", &params));
    }

    /// Marks open sessions as interrupted and closes them after the client is gone.
    pub(crate) fn client_gone(&self) {
        self.deadlines.end();
        let lives: Vec<Arc<LiveSession>> =
            self.table().sessions.drain().map(|(_, live)| live).collect();
        for live in lives {
            let mut book = live.book();
            let recorded = book.translator.interrupted("interrupted");
            let _ = book.write(recorded);
            // Nobody waits for a summary any more.
            live.compactor().take();
            book.close();
        }
    }

    /// Whether no message of the client's is queued.
    pub(crate) fn is_idle(&self) -> bool {
        let table = self.table();
        self.general.is_idle() && table.workers.values().all(|worker| worker.is_idle())
    }
}

/// A request of the proxy's own that was sent to the agent.
struct SwitchQuestion {
    id: RpcRequestId,
    method: String,
    answered: std::sync::mpsc::Receiver<RpcOutcome<String>>,
}

impl SwitchQuestion {
    /// Waits for the answer.
    fn wait(self, switch: &Switch) -> Result<String, RpcError> {
        match self.answered.recv_timeout(switch.manner.timeout) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(agent_refusal(&self.method, &error)),
            Err(_) => {
                let mut table = switch.table();
                table.own.remove(&self.id);
                table.given_up.put(self.id);
                Err(RpcError::internal(format!(
                    "the agent has not answered {} within {} s",
                    self.method,
                    switch.manner.timeout.as_secs()
                )))
            }
        }
    }
}

/// The error for a request that the agent refused.
fn agent_refusal(method: &str, error: &str) -> RpcError {
    let code = member(error, &["code"]).and_then(|raw| raw.get().parse().ok());
    let message = member_text(error, &["message"]).unwrap_or_default();
    RpcError {
        code: code.unwrap_or(-32603),
        message: format!("the agent refused {method}: {message}"),
    }
}

/// The error for an agent that ended before the request was sent.
fn agent_gone_error() -> RpcError {
    RpcError::internal("the agent has ended; send the request again to restart it")
}

fn lock_switch_state<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The directory in params.
fn directory_in_params(params: &str) -> Option<PathBuf> {
    member_text(params, &["cwd"]).map(|cwd| Path::new(&*cwd).to_owned())
}
