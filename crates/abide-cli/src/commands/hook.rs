//! What an agent's hook starts: lands the report in the inbox of the store and is gone. Another process
//! records it, which nobody waits for, except a moment for the files.
//!
//! Whatever happens, it prints nothing and ends with 0: agents show what a hook prints to the model, and
//! take other codes for a refusal.

use std::ffi::OsString;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use abide::checkpoint::{AutomaticCheckpointLimits, Trigger};
use abide::locate::{StoreLocation, UserDirs};
use abide::secrets::Redaction;
use abide::{CheckpointRequest, Store};
use abide_hooks::{
    HookInbox, HookStep, HookTrace, LandedReport, OwnReport, SessionInbox, is_below, read_landed,
};
use abide_runner::AgentKind;

use crate::command_context::CommandContext;
use crate::error::CommandError;
use crate::hook_sweep::{TRACE, record_hooks};

/// A hook gives up after this time, whatever it waits for.
const DEADLINE: Duration = Duration::from_secs(1);
/// How long an agent waits for its files to be captured.
const FILES_WAIT: Duration = Duration::from_millis(100);
/// The largest payload that is read.
const PAYLOAD_BYTES: u64 = 16 << 20;
/// Set to `off`, it keeps hooks from recording.
const SWITCH: &str = "ABIDE";

/// The words after `abide hook`.
#[derive(Debug)]
pub(crate) struct HookWords {
    agent: Option<AgentKind>,
    /// The session to record, in the process that nobody waits for.
    session: Option<String>,
    /// The report whose files it captures first: its file is stdin, locked.
    report: Option<String>,
}

impl HookWords {
    /// The words of this process, if it is a hook.
    pub(crate) fn of_process() -> Option<Self> {
        let mut words = std::env::args_os().skip(1);
        if words.next()? != "hook" {
            return None;
        }
        let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        let first = words.first();
        // A person who asks for help gets it.
        if first.is_some_and(|word| matches!(word.as_str(), "-h" | "--help")) {
            return None;
        }
        let after = |name: &str| {
            let place = words.iter().position(|word| word == name)?;
            words.get(place + 1).cloned()
        };
        Some(Self {
            agent: first.and_then(|name| name.parse().ok()),
            session: after("--session"),
            report: after("--report"),
        })
    }

    /// Does what the hook is for. Never fails, prints nothing.
    pub(crate) fn run(self) {
        let trace = HookTrace { file: std::env::var_os(TRACE).map(PathBuf::from) };
        let Some(agent) = self.agent.filter(|agent| agent.hooks().is_some()) else {
            trace.tell("no agent of this name has hooks");
            return;
        };
        let ended = match (&self.session, self.report) {
            (Some(session), report) => record_landed(agent, session, report, &trace),
            (None, _) => {
                end_at_deadline();
                land(agent, &trace)
            }
        };
        if let Err(error) = ended {
            trace.tell(format_args!("{}: {}", agent.as_str(), error.text()));
        }
    }
}

fn end_at_deadline() {
    let watch = move || {
        std::thread::sleep(DEADLINE);
        // Not told: what the trace is written to may be what hangs.
        std::process::exit(0);
    };
    let _ = std::thread::Builder::new().spawn(watch);
}

/// Lands the report on stdin, and starts the process that records it.
fn land(agent: AgentKind, trace: &HookTrace) -> Result<(), CommandError> {
    // All of it, whatever becomes of it: an agent may fail whose hook does not listen.
    let mut payload = Vec::new();
    let mut stdin = std::io::stdin().lock();
    let read = stdin.by_ref().take(PAYLOAD_BYTES + 1).read_to_end(&mut payload);
    read.and_then(|_| std::io::copy(&mut stdin, &mut std::io::sink()))
        .map_err(CommandError::because)?;
    let Some(root) = local_store().filter(|_| is_wanted(trace)) else { return Ok(()) };
    let inboxes = HookInbox::of_store(&root);
    if inboxes.is_paused() {
        trace.tell("paused");
        return Ok(());
    }
    let payload = String::from_utf8_lossy(&payload);
    let reader = agent.hooks().map(|hooks| hooks.reader);
    let Some(report) = reader.and_then(|reader| reader(&payload)) else {
        trace.tell("the payload names no session");
        return Ok(());
    };
    // What waits in the inbox has no secrets either.
    let directory = report.directory.as_deref();
    let redactor = Redaction::default().recorder(directory).map_err(CommandError::because)?;
    let payload = match &redactor {
        Some(redactor) => {
            redactor.redact_json(&payload).map_err(CommandError::because)?.into_text()
        }
        None => payload,
    };
    let inbox = inboxes.session(agent, &report.session);
    let landed = inbox.land(&report.session, &payload).map_err(CommandError::because)?;
    trace.tell(format_args!("{}/{}: landed {}", agent.as_str(), report.session, landed.name));
    let captures = captured_trigger(&report.step).is_some()
        && report.lane.is_none()
        && report.directory.is_some();
    if captures {
        return start_capture(agent, &report.session, landed, &root);
    }
    drop(landed);
    if !inbox.is_drained_by_another() {
        let mut worker = worker(agent, &report.session, &root)?;
        worker.stdin(Stdio::null()).stdout(Stdio::null());
        worker.spawn().map_err(CommandError::because)?;
    }
    Ok(())
}

/// Starts the process that captures the files and records the report, and waits a moment for the files.
fn start_capture(
    agent: AgentKind,
    session: &str,
    landed: LandedReport,
    root: &Path,
) -> Result<(), CommandError> {
    let mut worker = worker(agent, session, root)?;
    worker.arg("--report").arg(&landed.name).stdin(landed.file).stdout(Stdio::piped());
    let mut child = worker.spawn().map_err(CommandError::because)?;
    // It would keep the report locked.
    drop(worker);
    let (done, captured) = mpsc::channel();
    if let Some(mut told) = child.stdout.take() {
        std::thread::spawn(move || {
            let _ = told.read(&mut [0]);
            let _ = done.send(());
        });
        let _ = captured.recv_timeout(FILES_WAIT);
    }
    Ok(())
}

fn worker(agent: AgentKind, session: &str, root: &Path) -> Result<Command, CommandError> {
    let program = std::env::current_exe().map_err(CommandError::because)?;
    let mut worker = Command::new(program);
    worker.args(["hook", agent.as_str(), "--session", session]);
    match named_store() {
        // A relative one would be another place there.
        Some(_) => worker.env("ABIDE_STORE", root),
        None => worker.env_remove("ABIDE_STORE"),
    };
    worker.current_dir("/").stderr(Stdio::null());
    Ok(worker)
}

/// Records what has landed for a session, with the files as they are now if the report asks for them.
fn record_landed(
    agent: AgentKind,
    session: &str,
    report: Option<String>,
    trace: &HookTrace,
) -> Result<(), CommandError> {
    // What ends the agent does not end this.
    let _ = rustix::process::setsid();
    let surroundings = CommandContext { asks: false, ..CommandContext::of_process()? };
    let opened = surroundings.open_import_store()?;
    let root = opened.store.root().map(Path::to_owned).unwrap_or_default();
    let inboxes = HookInbox::of_store(&root);
    let inbox = inboxes.session(agent, session);
    let own = report.map(|name| capture(&opened.store, &inbox, name)).transpose()?;
    record_hooks(&surroundings, &opened, trace, |recorder| {
        recorder.drain(&inbox, own).map_err(CommandError::because)?;
        let Some(files) = opened.store.as_files() else { return Ok(()) };
        let settings = &files.config().hooks;
        let limits =
            AutomaticCheckpointLimits { max_age: settings.max_age, max_bytes: settings.max_size.0 };
        recorder.drop_old_checkpoints(&inboxes, limits).map_err(CommandError::because)
    })
}

/// Captures the files for the report on stdin, and tells the hook that waits for it.
fn capture(store: &Store, inbox: &SessionInbox, name: String) -> Result<OwnReport, CommandError> {
    let stdin = std::io::stdin();
    let mut file =
        std::fs::File::from(stdin.as_fd().try_clone_to_owned().map_err(CommandError::because)?);
    file.seek(SeekFrom::Start(0)).map_err(CommandError::because)?;
    // What cannot be read now is looked at by the drain.
    let landed = read_landed(inbox, &mut file).unwrap_or_default();
    let mut own = OwnReport { name, captured: None, without_files: None, file };
    let captures =
        |root: &PathBuf| store.as_files().is_none_or(|files| files.config().hooks.captures(root));
    if let Some(landed) = landed
        && let Some(root) = landed.workspace.filter(captures)
    {
        let trigger = captured_trigger(&landed.report.step).unwrap_or_default();
        let request = CheckpointRequest { trigger, ..CheckpointRequest::default() };
        match store.capture(&root, &request) {
            Ok(mut captured) => {
                let age = milliseconds_now() - landed.at;
                if age > i64::try_from(FILES_WAIT.as_millis()).unwrap_or(0) {
                    captured.mark_late();
                }
                own.captured = Some(captured);
            }
            Err(error) => own.without_files = Some(CommandError::from(error).text()),
        }
    }
    let mut out = std::io::stdout();
    // The hook may be gone.
    let _ = out.write_all(b".").and_then(|()| out.flush());
    Ok(own)
}

fn captured_trigger(step: &HookStep) -> Option<Trigger> {
    match step {
        HookStep::Prompted { by_person: true, .. } => Some(Trigger::Prompt),
        // A turn that was interrupted may end with its session, and with nothing else.
        HookStep::TurnFinished { .. } | HookStep::SessionEnded => Some(Trigger::Turn),
        _ => None,
    }
}

/// The store of files that hooks record in: the one that is named, if it is there, or the user's own.
fn local_store() -> Option<PathBuf> {
    match named_store() {
        Some(root) => Some(root).filter(|root| root.join("config.toml").is_file()),
        None => UserDirs::of_process().store(),
    }
}

/// The store of files that `ABIDE_STORE` names.
fn named_store() -> Option<PathBuf> {
    let named: OsString = std::env::var_os("ABIDE_STORE").filter(|name| !name.is_empty())?;
    match StoreLocation::from(PathBuf::from(named)) {
        StoreLocation::Files(root) => std::path::absolute(root).ok(),
        StoreLocation::Shared(_) => None,
    }
}

/// Is this hook to record? Not where a person switched it off, nor below `abide run`, which records itself.
fn is_wanted(trace: &HookTrace) -> bool {
    let is_off = std::env::var_os(SWITCH).is_some_and(|word| word == "off" || word == "0");
    if is_off {
        trace.tell("switched off");
        return false;
    }
    let is_run = std::env::var_os("ABIDE_SESSION").is_some() && is_below("abide");
    if is_run {
        trace.tell("the run records it");
    }
    !is_run
}

fn milliseconds_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
