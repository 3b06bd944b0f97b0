//! PostgreSQL for tests: a server of one's own in a temporary directory, that can be killed and
//! started again, and one that all tests of a process share.
//!
//! Whatever becomes of the process that started it, a server ends with it and its directory goes: a
//! small shell waits on a pipe that only that process holds. Only processes that were started here are
//! ended.

mod programs;
mod server;

use std::env;
use std::error::Error;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Deref;
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use programs::Programs;
pub use server::PostgresServer;

/// A start or an end that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks whether something has happened.
const PAUSE: Duration = Duration::from_millis(10);

/// What the guard does: it waits until its input ends, stops the server that is left, and removes
/// the directory.
const GUARD: &str = r#"
while read -r _; do :; done
lock=$1/data/postmaster.pid
left=100
if read -r pid 2>/dev/null <"$lock"; then
    kill -QUIT "$pid" 2>/dev/null
    while [ -e "$lock" ] && [ "$left" -gt 0 ] && kill -0 "$pid" 2>/dev/null; do
        left=$((left - 1))
        sleep 0.1
    done
    [ ! -e "$lock" ] || kill -KILL "$pid" 2>/dev/null
fi
rm -rf "$1"
"#;

/// There is no server, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAvailable(String);

impl NotAvailable {
    fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    fn doing(what: &str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self(format!("{what}: {error}"))
    }
}

impl fmt::Display for NotAvailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL is not available: {}", self.0)
    }
}

impl Error for NotAvailable {}

/// Does a commit wait for the disk?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fsync {
    /// As in earnest.
    On,
    /// What is committed outlives the server's processes, not the machine.
    #[default]
    Off,
}

/// What a server shows to those that ask for TLS, in PEM.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// Its certificate, with those it is signed by.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// How a server is started.
#[derive(Debug, Clone, Default)]
pub struct PostgresSettings {
    /// Does a commit wait for the disk?
    pub fsync: Fsync,
    /// With TLS.
    pub tls: Option<ServerTls>,
    /// At this port; at a free one where it is `None`.
    pub port: Option<u16>,
    /// Further settings, as in `postgresql.conf`.
    pub options: Vec<(String, String)>,
}

/// A server of one's own. It lets every user of this machine in, on loopback alone.
#[derive(Debug)]
pub struct PrivatePostgres {
    server: PostgresServer,
    programs: Programs,
    settings: PostgresSettings,
    port: u16,
    directory: PathBuf,
    postmaster: Mutex<Option<Child>>,
    guard: Guard,
}

impl PrivatePostgres {
    /// Makes a database cluster and starts a server on it.
    pub fn start(settings: PostgresSettings) -> Result<Self, NotAvailable> {
        let programs = Programs::find()?;
        let directory = tempfile::Builder::new()
            .prefix("abide-postgres-")
            .tempdir()
            .map_err(NotAvailable::doing("a temporary directory"))?
            .keep();
        let guard = Guard::over(&directory).map_err(NotAvailable::doing("sh"))?;
        give(&programs, &directory)?;
        make_cluster(&programs, &directory)?;
        if let Some(tls) = &settings.tls {
            write_private(&programs, &directory.join("server.crt"), &tls.certificate)?;
            write_private(&programs, &directory.join("server.key"), &tls.key)?;
        }
        let mut attempts = 0;
        loop {
            let port = settings.port.map_or_else(free_port, Ok)?;
            match run(&programs, &directory, &settings, port) {
                Ok(postmaster) => {
                    let url = format!("postgres://postgres@127.0.0.1:{port}");
                    return Ok(Self {
                        server: PostgresServer::with_psql(&url, programs.psql().to_owned())?,
                        programs,
                        settings,
                        port,
                        directory,
                        postmaster: Mutex::new(Some(postmaster)),
                        guard,
                    });
                }
                // Somebody may have taken the port in between.
                Err(_) if settings.port.is_none() && attempts < 3 => attempts += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// The server that all tests of this process share: the one that `ABIDE_TEST_POSTGRES` names (a URL
    /// of its superuser), else one of its own. `None` where there is no PostgreSQL, which is said once.
    pub fn shared() -> Option<&'static PostgresServer> {
        /// Kept to the end of the process: its guard stops it then.
        static SHARED: OnceLock<Option<Shared>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| {
            let found = match env::var("ABIDE_TEST_POSTGRES") {
                Ok(url) => PostgresServer::at(&url).map(Shared::Named),
                Err(_) => Self::start(PostgresSettings::default())
                    .map(|server| Shared::Own(Box::new(server))),
            };
            found.inspect_err(|error| eprintln!("{error}")).ok()
        });
        match shared.as_ref()? {
            Shared::Named(server) => Some(server),
            Shared::Own(server) => Some(server),
        }
    }

    /// The port on loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills every process of the server, all at once. Returns when they are gone.
    pub fn kill(&self) {
        let mut postmaster = self.postmaster.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut child) = postmaster.take() else { return };
        let pid = Pid::from_child(&child);
        // Stopped, so that it starts no further one while its children are looked for.
        let _ = kill_process(pid, Signal::STOP);
        let children = children_of(child.id());
        let _ = child.kill();
        for pid in &children {
            let _ = kill_process(*pid, Signal::KILL);
        }
        let _ = child.wait();
        wait_until(|| !children.iter().any(|pid| lives(*pid)));
        // It names a process that is gone, whose number may come again.
        let _ = fs::remove_file(lock_file(&self.directory));
    }

    /// Starts the server again where it was, after [`kill`](Self::kill).
    ///
    /// # Panics
    ///
    /// When it does not start, or runs.
    pub fn restart(&self) {
        let mut postmaster = self.postmaster.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(postmaster.is_none(), "the server runs");
        let started = run(&self.programs, &self.directory, &self.settings, self.port);
        *postmaster = Some(started.unwrap_or_else(|error| panic!("{error}")));
    }

    /// What the server has written to its log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read(log_file(&self.directory))
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }
}

impl Deref for PrivatePostgres {
    type Target = PostgresServer;

    fn deref(&self) -> &PostgresServer {
        &self.server
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        let postmaster = self.postmaster.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut child) = postmaster.take() {
            let _ = kill_process(Pid::from_child(&child), Signal::QUIT);
            if !wait_until(|| !matches!(child.try_wait(), Ok(None))) {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        self.guard.release();
    }
}

enum Shared {
    Named(PostgresServer),
    Own(Box<PrivatePostgres>),
}

/// What stops a server and removes its directory when we are gone.
#[derive(Debug)]
struct Guard(Child);

impl Guard {
    fn over(directory: &Path) -> std::io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "guard"]).arg(directory);
        // In a group of its own: an interrupt at the terminal is not for it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Self)
    }

    /// Has the directory removed.
    fn release(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.release();
    }
}

fn lock_file(directory: &Path) -> PathBuf {
    directory.join("data").join("postmaster.pid")
}

fn log_file(directory: &Path) -> PathBuf {
    directory.join("log")
}

/// Makes a file or directory that of the user that runs the server.
fn give(programs: &Programs, path: &Path) -> Result<(), NotAvailable> {
    let Some(user) = programs.user else { return Ok(()) };
    chown(path, Some(user.user), Some(user.group)).map_err(NotAvailable::doing("chown"))
}

fn write_private(programs: &Programs, path: &Path, text: &str) -> Result<(), NotAvailable> {
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(path);
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(NotAvailable::doing("a file of the server"))?;
    give(programs, path)
}

fn make_cluster(programs: &Programs, directory: &Path) -> Result<(), NotAvailable> {
    let mut said = String::new();
    // Not every system has the first one.
    for locale in ["C.UTF-8", "C"] {
        let mut command = programs.command("initdb");
        command.arg("-D").arg(directory.join("data")).current_dir(directory);
        command.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale"]);
        let output = command.arg(locale).output().map_err(NotAvailable::doing("initdb"))?;
        if output.status.success() {
            return Ok(());
        }
        said = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    Err(NotAvailable(format!("initdb: {said}")))
}

/// Starts the server and waits until it takes connections.
fn run(
    programs: &Programs,
    directory: &Path,
    settings: &PostgresSettings,
    port: u16,
) -> Result<Child, NotAvailable> {
    let log = File::options().create(true).append(true).open(log_file(directory));
    let log = log.map_err(NotAvailable::doing("the server's log"))?;
    let mut command = programs.command("postgres");
    command.arg("-D").arg(directory.join("data")).current_dir(directory);
    command.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
    // The path of a socket has at most about a hundred bytes.
    let sockets = if directory.as_os_str().len() < 80 { directory } else { Path::new("") };
    command.arg("-k").arg(sockets);
    let mut set = |name: &str, value: &str| {
        command.arg("-c").arg(format!("{name}={value}"));
    };
    set("max_connections", "500");
    if settings.fsync == Fsync::Off {
        set("fsync", "off");
        set("full_page_writes", "off");
    }
    if settings.tls.is_some() {
        set("ssl", "on");
        set("ssl_cert_file", &directory.join("server.crt").display().to_string());
        set("ssl_key_file", &directory.join("server.key").display().to_string());
    }
    for (name, value) in &settings.options {
        set(name, value);
    }
    // In a group of its own: an interrupt at the terminal is not for it.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let mut child = command.spawn().map_err(NotAvailable::doing("postgres"))?;
    let mut ended = false;
    wait_until(|| {
        ended = !matches!(child.try_wait(), Ok(None));
        ended || is_ready(directory, child.id())
    });
    if !ended && is_ready(directory, child.id()) {
        return Ok(child);
    }
    let _ = child.kill();
    let _ = child.wait();
    let log = fs::read(log_file(directory)).unwrap_or_default();
    Err(NotAvailable(format!("postgres did not start: {}", String::from_utf8_lossy(&log))))
}

/// Does this server take connections? It says so in the eighth line of its lock file.
fn is_ready(directory: &Path, postmaster: u32) -> bool {
    let Ok(lock) = fs::read_to_string(lock_file(directory)) else { return false };
    let mut lines = lock.lines();
    lines.next() == Some(&postmaster.to_string())
        && lines.nth(6).is_some_and(|state| state.trim() == "ready")
}

fn free_port() -> Result<u16, NotAvailable> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
    bound.map(|address| address.port()).map_err(NotAvailable::doing("a free port"))
}

/// Looks again and again, for a bounded time. Did it happen?
fn wait_until(mut happened: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    loop {
        if happened() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(PAUSE);
    }
}

/// The children of a process, where the system shows its processes as files. Elsewhere those of a
/// server that was killed see it themselves, and go.
fn children_of(parent: u32) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let (_, its_parent) = state_of(pid)?;
            (its_parent == parent).then(|| Pid::from_raw(pid))?
        })
        .collect()
}

/// Has it not ended?
fn lives(pid: Pid) -> bool {
    // One that has ended may wait long until somebody asks for its exit code.
    state_of(pid.as_raw_nonzero().get()).is_some_and(|(state, _)| state != "Z" && state != "X")
}

/// A process's state, and its parent.
fn state_of(pid: i32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before them may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}
