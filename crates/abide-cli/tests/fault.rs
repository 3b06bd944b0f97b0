//! Faults of system calls on a real process: by strace, and by a limit on the size of files.
//!
//! strace counts each sort of call for itself, thread by thread. So a place is a sort of call and
//! a number, and a run without a fault says which there are.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::Path;
use std::process::Command;

use crate::environment::Done;

/// The calls that change something.
const CALLS: &str = "write,pwrite64,writev,pwritev,pwritev2,fsync,fdatasync,syncfs,rename,renameat,\
                     renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,ftruncate,fallocate,fchmod,fchmodat,\
                     symlinkat,link,linkat,copy_file_range,openat";

/// The `at`th call of this sort in its thread.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) at: usize,
}

/// What goes wrong.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// A call is not made, and answered with an error; once, or from then on.
    Error { call: Call, errno: &'static str, for_good: bool },
    /// The process is killed as it comes to the call.
    Kill(Call),
    /// No file may grow past so many bytes. The write that comes to it is cut short; the next
    /// is an error, or the end of the process.
    Limit { bytes: u64, dies: bool },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error { call, errno, for_good } => {
                let from = if *for_good { "+" } else { "" };
                write!(f, "{}:{errno}:{}{from}", call.name, call.at)
            }
            Self::Kill(call) => write!(f, "{}:SIGKILL:{}", call.name, call.at),
            Self::Limit { bytes, dies: false } => write!(f, "limit:{bytes}"),
            Self::Limit { bytes, dies: true } => write!(f, "limit:SIGXFSZ:{bytes}"),
        }
    }
}

/// Says so where faults cannot be made.
pub(crate) fn skipped() -> bool {
    let missing = missing();
    if let Some(reason) = missing {
        eprintln!("skipped: {reason}");
    }
    missing.is_some()
}

/// Why faults cannot be made here, where that is so.
fn missing() -> Option<&'static str> {
    let works = |program: &str, args: &[&str]| {
        Command::new(program).args(args).output().is_ok_and(|done| done.status.success())
    };
    if !works("strace", &["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "true"]) {
        Some("no strace that may trace")
    } else if !works("prlimit", &["--fsize=1", "true"]) || !works("timeout", &["9", "true"]) {
        Some("no prlimit or no timeout")
    } else {
        None
    }
}

/// How to run a command so that its calls are in a log.
pub(crate) fn trace(log: &Path) -> Vec<String> {
    let log = log.to_str().unwrap();
    let options = ["strace", "-f", "-qq", "-s", "0", "-o", log, "-e"];
    let mut way: Vec<String> = options.map(str::to_owned).to_vec();
    way.push(format!("trace={CALLS}"));
    way
}

/// The calls in a log, those left out that open a file to read it, unless the first thread opens it
/// from its directory, as those of the workspace are: another thread's numbers are also those of the
/// libraries that the first one loads.
pub(crate) fn calls(log: &str) -> Vec<Call> {
    let mut counts: HashMap<(&str, &str), usize> = HashMap::new();
    let mut found = BTreeSet::new();
    let mut first = None;
    for line in log.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let is_first = *first.get_or_insert(thread) == thread;
        let Some((name, arguments)) = rest.trim_start().split_once('(') else { continue };
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            continue;
        }
        let count = counts.entry((thread, name)).or_default();
        *count += 1;
        let changes = ["O_CREAT", "O_WRONLY", "O_RDWR"].iter().any(|way| arguments.contains(way));
        let of_workspace = is_first && !arguments.starts_with("AT_FDCWD");
        if name != "openat" || changes || of_workspace {
            found.insert(Call { name: name.to_owned(), at: *count });
        }
    }
    found.into_iter().collect()
}

impl Fault {
    /// Every fault of a call: errors, once and for good, and a kill.
    pub(crate) fn of(call: &Call) -> Vec<Self> {
        let mut all = vec![Self::Kill(call.clone())];
        for errno in ["EIO", "ENOSPC"] {
            for for_good in [false, true] {
                all.push(Self::Error { call: call.clone(), errno, for_good });
            }
        }
        all
    }

    /// The sort of its call, or what else it is.
    pub(crate) fn sort(&self) -> &str {
        match self {
            Self::Error { call, .. } | Self::Kill(call) => &call.name,
            Self::Limit { .. } => "limit",
        }
    }

    /// How to run a command with this fault.
    pub(crate) fn way(&self, log: &Path) -> Vec<String> {
        let inject = match self {
            Self::Error { call, errno, for_good } => {
                let from = if *for_good { "+" } else { "" };
                format!("inject={}:error={errno}:when={}{from}", call.name, call.at)
            }
            Self::Kill(call) => format!("inject={}:signal=SIGKILL:when={}", call.name, call.at),
            Self::Limit { bytes, dies } => {
                let trap = if *dies { "" } else { "trap '' XFSZ; " };
                let script = format!("{trap}exec prlimit --fsize={bytes} --core=0 -- \"$@\"");
                return ["sh", "-c", &script, "sh"].map(str::to_owned).to_vec();
            }
        };
        let mut way = trace(log);
        way.extend(["-e".to_owned(), inject]);
        // Quicker; but a signal is lost on the way.
        if !self.kills() {
            way.push("--seccomp-bpf".to_owned());
        }
        way
    }

    /// Did it happen? A limit is chosen within what a file grows by, so that it always does.
    pub(crate) fn struck(&self, done: &Done, log: &str) -> bool {
        match self {
            Self::Error { .. } => log.contains("(INJECTED)"),
            Self::Kill(_) => !matches!(done.code, 0 | 1),
            Self::Limit { .. } => true,
        }
    }

    /// Is the process ended, so that it has nothing more to say?
    pub(crate) fn kills(&self) -> bool {
        matches!(self, Self::Kill(_) | Self::Limit { dies: true, .. })
    }

    /// Is every write of this sort an error, that of an error's message too?
    pub(crate) fn silences(&self) -> bool {
        matches!(self, Self::Error { call, for_good: true, .. } if call.name == "write")
    }
}
