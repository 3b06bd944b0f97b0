//! The inbox: what hooks told, each report a file, until it is recorded in its session.
//!
//! A hook lands its report first and looks for a way into the session afterwards. So a report is durable
//! whoever holds the session, and a hook that is killed later loses nothing. Whoever drains a session's
//! inbox holds its lock; he looks again after he has let go of it, so that a report that landed meanwhile
//! is not left behind.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use abide_agents::{AgentKind, HookReport};
use serde::{Deserialize, Serialize};

use crate::HooksError;
use crate::asking_process::AskingProcess;
use crate::live_state::LiveState;

/// The directory of the inboxes, in the store's.
const HOOKS: &str = "hooks";
/// How the names of reports end.
const REPORT: &str = ".json";
/// Whoever drains an inbox holds this file's lock.
const LOCK: &str = "lock";
/// What is known of the session.
const STATE: &str = "state.json";
/// The directory for what is remembered of sessions that nobody works in, beside those of the others.
const KNOWN: &str = ".known";
/// While this file is in the directory of the inboxes, nothing is recorded.
const PAUSED: &str = "paused";
/// When this file was written, old checkpoints were dropped.
const UPKEEP: &str = "upkeep";
/// How often that is done.
const UPKEEP_EVERY: Duration = Duration::from_secs(24 * 3600);
/// When this file in an agent's directory was written, the agent last told something.
pub(crate) const HEARD: &str = "heard";
/// Half of a report that is older than this was left by a hook that was killed.
const LEFT_OVER: Duration = Duration::from_secs(3600);
/// How often a report is landed again in a directory that was removed meanwhile.
const MOST_TRIES: usize = 5;
/// An id with more bytes is no name of a directory.
const PLAIN_ID: usize = 100;

/// The inboxes of a store.
#[derive(Debug, Clone)]
pub struct HookInbox {
    root: PathBuf,
}

/// The inbox of one session of an agent.
#[derive(Debug, Clone)]
pub struct SessionInbox {
    pub(crate) agent: AgentKind,
    pub(crate) dir: PathBuf,
}

/// What stands before the payload in a report's file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ReportHead {
    /// The version of the form.
    pub(crate) v: u32,
    /// The agent's id of the session.
    pub(crate) session: String,
    /// Unlike that of any other report.
    pub(crate) id: String,
    /// When it landed, in milliseconds.
    pub(crate) at: i64,
    /// The agent's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) asking: Option<AskingProcess>,
}

/// A report that has landed. While it is held, nobody else records it.
#[derive(Debug)]
pub struct LandedReport {
    /// Its file, locked.
    pub file: File,
    /// The name of its file.
    pub name: String,
}

impl HookInbox {
    /// The inboxes of the store in this directory, which need not be there yet.
    #[must_use]
    pub fn of_store(store: &Path) -> Self {
        Self { root: store.join(HOOKS) }
    }

    /// The inbox of a session, by the agent's id of it.
    #[must_use]
    pub fn session(&self, agent: AgentKind, id: &str) -> SessionInbox {
        let is_plain = !id.is_empty()
            && id.len() <= PLAIN_ID
            && !id.starts_with('.')
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let name = if is_plain { id.to_owned() } else { format!("~{:016x}", stable_hash(id)) };
        SessionInbox { agent, dir: self.root.join(agent.as_str()).join(name) }
    }

    /// All inboxes that are there.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionInbox> {
        let mut found = Vec::new();
        for agent in AgentKind::all().filter(|agent| agent.hooks().is_some()) {
            let entries = fs::read_dir(self.root.join(agent.as_str())).into_iter().flatten();
            let is_inbox =
                |entry: &fs::DirEntry| entry.path().is_dir() && entry.file_name() != KNOWN;
            let dirs = entries.flatten().filter(is_inbox);
            found.extend(dirs.map(|entry| SessionInbox { agent, dir: entry.path() }));
        }
        found.sort_by(|left, right| left.dir.cmp(&right.dir));
        found
    }

    /// Nothing is to be recorded now.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        let Ok(text) = fs::read_to_string(self.root.join(PAUSED)) else { return false };
        // A pause without an end lasts until it is ended.
        let until: Option<u64> = text.trim().parse().ok();
        until.is_none_or(|until| seconds_now() < until)
    }

    /// Records nothing from now on, for so long or until [`resume`](Self::resume).
    pub fn pause(&self, length: Option<Duration>) -> Result<(), HooksError> {
        make_dir(&self.root).map_err(HooksError::inbox(&self.root))?;
        let path = self.root.join(PAUSED);
        let until = length.map(|length| (seconds_now() + length.as_secs()).to_string());
        fs::write(&path, until.unwrap_or_default()).map_err(HooksError::inbox(&path))
    }

    /// Is the upkeep of the day still to be done? It is noted as done.
    pub(crate) fn claims_upkeep(&self) -> bool {
        let path = self.root.join(UPKEEP);
        let written = fs::metadata(&path).and_then(|metadata| metadata.modified());
        let age = written.ok().map(|written| SystemTime::now().duration_since(written));
        // A clock that was set back has none of a time to come.
        let is_due = age.is_none_or(|age| age.map_or(true, |age| age > UPKEEP_EVERY));
        is_due && fs::write(&path, b"").is_ok()
    }

    /// Ends a pause. Returns false if there was none.
    pub fn resume(&self) -> Result<bool, HooksError> {
        let was_paused = self.is_paused();
        let path = self.root.join(PAUSED);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(HooksError::inbox(&path)(error))
            }
            _ => Ok(was_paused),
        }
    }
}

impl SessionInbox {
    /// Lands a report: it is on stable storage when this returns.
    pub fn land(&self, session: &str, payload: &str) -> Result<LandedReport, HooksError> {
        let mut landed = self.try_land(session, payload);
        for _ in 0..MOST_TRIES {
            match landed {
                // The directory was forgotten in between.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    landed = self.try_land(session, payload);
                }
                _ => break,
            }
        }
        if landed.is_ok() {
            self.note_heard();
        }
        landed.map_err(HooksError::inbox(&self.dir))
    }

    /// Notes that the agent told something just now. It is for people, and need not last.
    fn note_heard(&self) {
        let Some(agent) = self.dir.parent() else { return };
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let _ =
            options.open(agent.join(HEARD)).and_then(|file| file.set_modified(SystemTime::now()));
    }

    fn try_land(&self, session: &str, payload: &str) -> io::Result<LandedReport> {
        make_dir(&self.dir)?;
        let micros = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let id = format!("{:016x}{micros:x}", RandomState::new().build_hasher().finish());
        let head = ReportHead {
            v: 1,
            session: session.to_owned(),
            id: id.clone(),
            at: i64::try_from(micros / 1000).unwrap_or(0),
            asking: AskingProcess::of_this(),
        };
        let temporary = self.dir.join(format!(".{id}.tmp"));
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create_new(true).mode(0o600).open(&temporary)?;
        let landed = (|| {
            file.lock()?;
            let mut bytes = serde_json::to_vec(&head)?;
            bytes.push(b'\n');
            bytes.extend_from_slice(payload.as_bytes());
            file.write_all(&bytes)?;
            file.sync_all()?;
            // After those that are there, whatever the clock says.
            let newest = self.report_names()?.pop();
            let newest = newest.and_then(|name| name.split('-').next()?.parse::<u128>().ok());
            let number = newest.map_or(micros, |newest| micros.max(newest + 1));
            let name = format!("{number:020}-{id}{REPORT}");
            fs::rename(&temporary, self.dir.join(&name))?;
            File::open(&self.dir)?.sync_all()?;
            Ok(name)
        })();
        match landed {
            Ok(name) => Ok(LandedReport { file, name }),
            Err(error) => {
                let _ = fs::remove_file(&temporary);
                Err(error)
            }
        }
    }

    /// The names of the reports that have landed, oldest first.
    pub(crate) fn report_names(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.ends_with(REPORT) && name.starts_with(|first: char| first.is_ascii_digit()) {
                names.push(name);
            } else if name.ends_with(".tmp") && is_left_over(&entry.path()) {
                let _ = fs::remove_file(entry.path());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// No report waits here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.report_names().map_or(true, |names| names.is_empty())
    }

    /// The lock of whoever drains it; `None` if another process has it and it is not waited for.
    pub(crate) fn lock(&self, wait: bool) -> Result<Option<File>, HooksError> {
        let path = self.dir.join(LOCK);
        let failed = || HooksError::inbox(&path);
        loop {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = match file.open(&path) {
                Ok(file) => file,
                // The session was forgotten meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(failed()(error)),
            };
            if wait {
                file.lock().map_err(failed())?;
            } else {
                match file.try_lock() {
                    Ok(()) => {}
                    Err(TryLockError::WouldBlock) => return Ok(None),
                    Err(TryLockError::Error(error)) => return Err(failed()(error)),
                }
            }
            // The one that was locked may have been forgotten, and another be in its place.
            let locked = file.metadata().map_err(failed())?;
            if fs::metadata(&path).is_ok_and(|there| there.ino() == locked.ino()) {
                return Ok(Some(file));
            }
        }
    }

    /// Somebody drains it. He looks again when he has let go of it.
    #[must_use]
    pub fn is_drained_by_another(&self) -> bool {
        matches!(self.lock(false), Ok(None))
    }

    /// The file of a report; `None` if it is gone.
    pub(crate) fn open_report(&self, name: &str) -> Result<Option<File>, HooksError> {
        let path = self.dir.join(name);
        match File::open(&path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(HooksError::inbox(&path)(error)),
        }
    }

    pub(crate) fn remove_report(&self, name: &str) -> Result<(), HooksError> {
        let path = self.dir.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(HooksError::inbox(&path)(error))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn state(&self) -> LiveState {
        let text = fs::read(self.dir.join(STATE)).or_else(|_| fs::read(self.known()));
        serde_json::from_slice(&text.unwrap_or_default()).unwrap_or_default()
    }

    /// What is remembered of the session after it was forgotten here: where no command looks for reports.
    fn known(&self) -> PathBuf {
        let name = self.dir.file_name().unwrap_or_default();
        self.dir.with_file_name(KNOWN).join(name)
    }

    pub(crate) fn write_state(&self, state: &LiveState) -> Result<(), HooksError> {
        let path = self.dir.join(STATE);
        let temporary = self.dir.join(format!("{STATE}.{}.tmp", std::process::id()));
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary);
        let text = serde_json::to_vec(state).unwrap_or_default();
        // It is derived: without it the session is read.
        file.and_then(|mut file| file.write_all(&text))
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(HooksError::inbox(&path))
    }

    /// Forgets the session, if no report waits: no command looks here any more until one lands. The caller
    /// holds its lock.
    pub(crate) fn forget(&self) {
        if !self.is_empty() {
            return;
        }
        let known = self.known();
        if let Some(dir) = known.parent() {
            let _ = make_dir(dir);
        }
        let _ = fs::rename(self.dir.join(STATE), &known);
        let _ = fs::remove_file(self.dir.join(LOCK));
        // Fails if a report has landed since.
        let _ = fs::remove_dir(&self.dir);
    }
}

/// The head and the payload of a report; `None` if it is not one.
pub(crate) fn read_report(file: &mut File) -> io::Result<Option<(ReportHead, String)>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let Some((head, payload)) = text.split_once('\n') else { return Ok(None) };
    Ok(serde_json::from_str(head).ok().map(|head| (head, payload.to_owned())))
}

/// A report that has landed, as it is read.
#[derive(Debug)]
pub struct LandedHook {
    /// What it tells.
    pub report: HookReport,
    /// The directory whose files are captured for it.
    pub workspace: Option<PathBuf>,
    /// When it landed, in milliseconds.
    pub at: i64,
}

/// Reads the file of a report that has landed; `None` if it is not one.
pub fn read_landed(
    inbox: &SessionInbox,
    file: &mut File,
) -> Result<Option<LandedHook>, HooksError> {
    let read = read_report(file).map_err(HooksError::inbox(&inbox.dir))?;
    Ok(read.and_then(|(head, payload)| {
        let report = (inbox.agent.hooks()?.reader)(&payload)?;
        let workspace = inbox.state().workspace_of(&report);
        Some(LandedHook { report, workspace, at: head.at })
    }))
}

fn make_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    // So that what lands in it is there after a power cut.
    for parent in dir.ancestors().skip(1).take(3) {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

fn is_left_over(path: &Path) -> bool {
    let written = fs::metadata(path).and_then(|metadata| metadata.modified());
    let age = written.ok().and_then(|written| SystemTime::now().duration_since(written).ok());
    age.is_some_and(|age| age > LEFT_OVER)
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A hash that is the same in every process (FNV-1a).
pub(crate) fn stable_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
