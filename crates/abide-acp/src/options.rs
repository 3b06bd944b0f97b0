//! Options of the proxy.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use abide::{
    Consent, Error, Store,
    context::CompactionSettings,
    locate::{StoreFinder, StoreUrl, UserDirs},
};

/// When the proxy makes a checkpoint of the workspace files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CheckpointSchedule {
    /// At each prompt.
    #[default]
    Turn,
    /// Never.
    Off,
}

/// Where the stores are and how they are opened.
#[derive(Debug, Clone, Default)]
pub struct StoreOptions {
    /// Decides which store holds a directory's sessions.
    pub finder: StoreFinder,
    /// The user's directories.
    pub person: UserDirs,
    /// The stores and settings that the user has accepted; `None` means none.
    pub consent: Option<Consent>,
    /// Opens shared stores.
    pub connect: StoreConnector,
}

type ConnectFn = dyn Fn(&StoreUrl) -> Result<Store, Error> + Send + Sync;

/// Opens shared stores. The default refuses every URL; pass `Store::connect` where `abide` has its
/// feature `shared`.
#[derive(Clone)]
pub struct StoreConnector(Arc<ConnectFn>);

impl StoreConnector {
    /// Opens stores with this function.
    pub fn new(by: impl Fn(&StoreUrl) -> Result<Store, Error> + Send + Sync + 'static) -> Self {
        Self(Arc::new(by))
    }

    pub(crate) fn open(&self, url: &StoreUrl) -> Result<Store, Error> {
        (self.0)(url)
    }
}

impl Default for StoreConnector {
    fn default() -> Self {
        Self::new(|url| Err(Error::Lacking { what: "connecting", place: url.to_string() }))
    }
}

impl fmt::Debug for StoreConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connect")
    }
}

/// Options of the proxy.
#[derive(Debug, Clone)]
pub struct ProxyOptions {
    /// Where the sessions are stored.
    pub stores: StoreOptions,
    /// When the proxy makes a checkpoint of the workspace files.
    pub checkpoint: CheckpointSchedule,
    /// When the contexts of the sessions are compacted by themselves, and by whom; `None` for never.
    pub compaction: Option<CompactionSettings>,
    /// The agent's program and its arguments.
    pub command: Vec<String>,
    /// How long the agent may take to answer a request, except prompts and logins.
    pub timeout: Duration,
    /// How long the agent may take to end a cancelled prompt.
    pub cancel_grace: Duration,
    /// How long the agent may stay silent after the client is gone before it is ended.
    pub quiet: Duration,
    /// How long the agent may take to exit when asked to, before it is killed.
    pub end_grace: Duration,
}

impl ProxyOptions {
    /// The defaults, for this agent command.
    #[must_use]
    pub fn new(command: Vec<String>) -> Self {
        Self {
            stores: StoreOptions::default(),
            checkpoint: CheckpointSchedule::default(),
            compaction: None,
            command,
            timeout: Duration::from_secs(300),
            cancel_grace: Duration::from_secs(10),
            quiet: Duration::from_secs(10),
            end_grace: Duration::from_secs(2),
        }
    }
}
