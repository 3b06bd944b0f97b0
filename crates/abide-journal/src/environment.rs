//! Clock, randomness and process identity.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use abide_model::{Timestamp, WriterHolder};

use crate::process;

/// Fills a buffer with random bytes.
pub type RandomSource = dyn Fn(&mut [u8]) + Send + Sync;

/// Clock, randomness and identity, passed in so that tests can fix them.
#[derive(Clone)]
pub struct Environment {
    /// The current time.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Fills a buffer with random bytes.
    pub random: Arc<RandomSource>,
    /// This process, as other processes see it while it holds a session.
    pub holder: WriterHolder,
    /// The machine's boot id, which changes with every boot. `None` if unknown.
    pub boot: Option<String>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("holder", &self.holder).finish_non_exhaustive()
    }
}

impl Default for Environment {
    /// The system's clock, randomness and process.
    fn default() -> Self {
        let holder = WriterHolder { since: system_now(), ..PROCESS.clone() };
        let boot = holder.boot.clone();
        Self { now: Arc::new(system_now), random: Arc::new(system_random), holder, boot }
    }
}

/// What stays constant while the process runs. Queried once.
static PROCESS: LazyLock<WriterHolder> = LazyLock::new(|| {
    let program = std::env::current_exe()
        .ok()
        .and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()))
        .unwrap_or_else(|| "?".to_owned());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    WriterHolder {
        process: std::process::id(),
        program,
        host,
        user: process::user_name(),
        boot: boot_id(),
        started: process::process_started(),
        ..WriterHolder::default()
    }
});

fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

fn system_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn system_random(buffer: &mut [u8]) {
    if getrandom::fill(buffer).is_err() {
        // Without the system's source, derive the bytes from the time and the process: ids stay
        // distinct, though a salt could be guessed.
        let seed = format!("{:?} {}", SystemTime::now(), std::process::id());
        blake3::Hasher::new().update(seed.as_bytes()).finalize_xof().fill(buffer);
    }
}
