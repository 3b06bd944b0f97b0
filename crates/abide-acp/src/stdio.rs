//! A proxy on stdin and stdout, with the agent as a child process.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::agent_process::{AgentLines, AgentProcess};
use crate::error::ProxyError;
use crate::options::{CheckpointSchedule, ProxyOptions};
use crate::port::ClientPort;
use crate::switch::{Switch, SwitchOptions};

/// Runs a proxy until the client closes its end, a signal asks to stop, or the agent cannot be
/// started. Only protocol messages go to stdout; messages for people go to stderr, as does the
/// agent's own stderr.
pub fn run_stdio(options: &ProxyOptions) -> Result<(), ProxyError> {
    let Some(program) = options.command.first() else { return Err(ProxyError::NoCommand) };
    let end = Arc::new(StdioEnd::default());
    let stdout =
        std::io::stdout().as_fd().try_clone_to_owned().map_err(stdio_failure("write to stdout"))?;
    let agent = AgentProcess::new(options.command.clone(), options.end_grace);
    let client = StdioClient {
        file: Mutex::new(File::from(stdout)),
        end: Arc::clone(&end),
        gone: AtomicBool::new(false),
    };
    let manner = SwitchOptions {
        checkpoint: options.checkpoint == CheckpointSchedule::Turn,
        compaction: options.compaction.clone(),
        timeout: options.timeout,
        cancel_grace: options.cancel_grace,
    };
    let stores = options.stores.clone();
    let switch =
        Switch::new(manner, stores, Box::new(client), Box::new(Arc::clone(&agent)), stdio_notes())
            .map_err(stdio_failure("begin"))?;
    agent
        .start(&switch)
        .map_err(|source| ProxyError::NoAgent { program: program.clone(), source })?;
    heed_stdio_signals(&end).map_err(stdio_failure("watch for signals"))?;
    let (reader, ended) = (Arc::clone(&switch), Arc::clone(&end));
    let reading = std::thread::Builder::new().name("from-client".into()).spawn(move || {
        let mut lines = AgentLines::new(std::io::stdin());
        let why = loop {
            match lines.next() {
                Ok(Some(line)) => reader.from_client(line),
                Ok(None) => break StdioEndReason::Closed,
                Err(_) => break StdioEndReason::Lost,
            }
        };
        ended.set(why);
    });
    reading.map_err(stdio_failure("read from stdin"))?;
    match end.wait() {
        StdioEndReason::Closed => {
            // The client's last messages are still to be handled and answered.
            while !switch.is_idle() && !end.is_lost() {
                std::thread::sleep(Duration::from_millis(5));
            }
            agent.close(options.quiet, &|| end.is_lost());
        }
        StdioEndReason::Lost => agent.kill(),
    }
    switch.client_gone();
    Ok(())
}

/// Wraps an I/O error with what failed.
fn stdio_failure(action: &'static str) -> impl FnOnce(std::io::Error) -> ProxyError {
    move |source| ProxyError::Io { action, source }
}

/// Why a proxy ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StdioEndReason {
    /// The client has closed its end.
    Closed,
    /// The client is gone, or a signal asked to stop.
    Lost,
}

/// Why the proxy ends, once it does.
#[derive(Default)]
struct StdioEnd {
    why: Mutex<Option<StdioEndReason>>,
    come: Condvar,
}

impl StdioEnd {
    fn set(&self, why: StdioEndReason) {
        let mut end = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        // `Lost` takes precedence over `Closed`.
        if *end != Some(StdioEndReason::Lost) {
            *end = Some(why);
        }
        self.come.notify_all();
    }

    fn is_lost(&self) -> bool {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) == Some(StdioEndReason::Lost)
    }

    fn wait(&self) -> StdioEndReason {
        let mut end = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *end {
                Some(why) => return why,
                None => end = self.come.wait(end).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Ends the proxy, and the agent with it, on a signal.
fn heed_stdio_signals(end: &Arc<StdioEnd>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let end = Arc::clone(end);
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            end.set(StdioEndReason::Lost);
        }
    })?;
    Ok(())
}

/// The client's end.
struct StdioClient {
    file: Mutex<File>,
    end: Arc<StdioEnd>,
    gone: AtomicBool,
}

impl ClientPort for StdioClient {
    fn send(&self, line: &str) {
        if self.gone.load(Ordering::Relaxed) {
            return;
        }
        let mut whole = Vec::with_capacity(line.len() + 1);
        whole.extend_from_slice(line.as_bytes());
        whole.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.write_all(&whole).is_err() {
            self.gone.store(true, Ordering::Relaxed);
            self.end.set(StdioEndReason::Lost);
        }
    }
}

/// Prints notes to stderr: the first 20, then one in a thousand.
fn stdio_notes() -> Box<dyn Fn(&str) + Send + Sync> {
    let count = AtomicU64::new(0);
    Box::new(move |what| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        if number < 20 || number.is_multiple_of(1000) {
            let _ = writeln!(std::io::stderr(), "abide: {what}");
        }
    })
}
