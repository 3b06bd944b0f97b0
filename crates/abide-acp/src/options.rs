//! How the proxy is to go.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use abide::{Consent, Error, Person, Store, StoreFinder, StoreUrl};

/// When the files of the workspace are kept, so that one can go back to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CheckpointWhen {
    /// At each prompt.
    #[default]
    Turn,
    /// Never.
    Off,
}

/// Which stores sessions are in.
#[derive(Debug, Clone, Default)]
pub struct StoreOptions {
    /// Decides which store a directory's sessions are in.
    pub finder: StoreFinder,
    /// The user's directories.
    pub person: Person,
    /// What the user has accepted; without it, nothing.
    pub consent: Option<Consent>,
    /// Opens shared stores.
    pub connect: Connect,
}

type Connector = dyn Fn(&StoreUrl) -> Result<Store, Error> + Send + Sync;

/// Opens shared stores. The default one refuses: whoever has the feature `shared` of `abide` gives its
/// `Store::connect`.
#[derive(Clone)]
pub struct Connect(Arc<Connector>);

impl Connect {
    /// By this function.
    pub fn new(by: impl Fn(&StoreUrl) -> Result<Store, Error> + Send + Sync + 'static) -> Self {
        Self(Arc::new(by))
    }

    pub(crate) fn open(&self, url: &StoreUrl) -> Result<Store, Error> {
        (self.0)(url)
    }
}

impl Default for Connect {
    fn default() -> Self {
        Self::new(|url| Err(Error::Lacking { what: "connecting", place: url.to_string() }))
    }
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connect")
    }
}

/// How the proxy is to go.
#[derive(Debug, Clone)]
pub struct ProxyOptions {
    /// Which stores the sessions are in.
    pub stores: StoreOptions,
    /// When the files of the workspace are kept.
    pub checkpoint: CheckpointWhen,
    /// The agent's program and its arguments.
    pub command: Vec<String>,
    /// So long the agent has for an answer, prompts and logins left aside.
    pub timeout: Duration,
    /// So long an agent may take to end a prompt that was cancelled.
    pub cancel_grace: Duration,
    /// So long an agent may say nothing once the client is gone, before it is ended.
    pub quiet: Duration,
    /// So long an agent has to end once it was asked to, before it is killed.
    pub end_grace: Duration,
}

impl ProxyOptions {
    /// For this agent, with the defaults.
    #[must_use]
    pub fn new(command: Vec<String>) -> Self {
        Self {
            stores: StoreOptions::default(),
            checkpoint: CheckpointWhen::default(),
            command,
            timeout: Duration::from_secs(300),
            cancel_grace: Duration::from_secs(10),
            quiet: Duration::from_secs(10),
            end_grace: Duration::from_secs(2),
        }
    }
}
