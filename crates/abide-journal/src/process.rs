//! Information about processes. Linux provides it in `/proc`; elsewhere only the existence of a pid
//! is known.

use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use abide_model::doing::OrphanProcess;
use abide_model::{ProcessObservation, SessionId};
use rustix::io::Errno;
use rustix::process::{Pid, getuid, test_kill_process};

/// The variable that tells a program and its children which session they belong to.
const SESSION: &[u8] = b"ABIDE_SESSION=";
/// Bounds the walk to the ancestors. There should be no loop, but that is not trusted.
const ANCESTORS: usize = 1024;

/// The most characters of a user's name that are kept.
const USER: usize = 64;

/// The relevant fields of `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProcessStat {
    program: String,
    state: char,
    parent: u32,
    started: u64,
}

impl ProcessStat {
    /// The program name is in parentheses and may hold any character.
    fn parse(stat: &str) -> Option<Self> {
        let (before, rest) = stat.rsplit_once(") ")?;
        let program = before.split_once('(')?.1.to_owned();
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        // Field 22 of the line.
        let started = fields.nth(17)?.parse().ok()?;
        Some(Self { program, state, parent, started })
    }

    fn read(process: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    /// A zombie (ended but not reaped by its parent) counts as gone.
    const fn is_gone(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// The name of the user of this process: as the environment says, else as the system's list of users
/// does. It only informs people.
pub(crate) fn user_name() -> Option<String> {
    let named = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    let listed = || user_in(&std::fs::read_to_string("/etc/passwd").ok()?, getuid().as_raw());
    let name = named.into_iter().find(|name| !name.is_empty()).or_else(listed)?;
    Some(name.chars().filter(|c| !c.is_control()).take(USER).collect())
}

/// The user with this number in a list of users: `name:x:number:…` in each line.
fn user_in(list: &str, number: u32) -> Option<String> {
    let number = number.to_string();
    let named = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        (fields.nth(1) == Some(number.as_str())).then_some(name)
    };
    list.lines().find_map(named).filter(|name| !name.is_empty())
}

/// When this process started, in clock ticks after boot.
pub(crate) fn process_started() -> Option<u64> {
    ProcessStat::read(std::process::id()).map(|stat| stat.started)
}

/// The observed state of a process that started at `started`, if that is known.
#[must_use]
pub fn process_seen(process: u32, started: Option<u64>) -> ProcessObservation {
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else {
        return ProcessObservation::Unknown;
    };
    match ProcessStat::read(process) {
        Some(stat) if started.is_some_and(|started| started != stat.started) => {
            ProcessObservation::Another
        }
        Some(stat) if stat.is_gone() => ProcessObservation::Gone,
        Some(stat) if matches!(stat.state, 'T' | 't') => ProcessObservation::Stopped,
        Some(_) => ProcessObservation::Lives,
        // `/proc` may be missing, or hide the processes of others.
        None => match test_kill_process(pid) {
            Err(Errno::SRCH) => ProcessObservation::Gone,
            Ok(()) | Err(Errno::PERM) => ProcessObservation::Lives,
            Err(_) => ProcessObservation::Unknown,
        },
    }
}

/// The processes of this user that name a session, by pid, except the calling process and its
/// ancestors.
#[derive(Debug, Default)]
pub struct SessionProcesses(BTreeMap<u32, (String, String)>);

impl SessionProcesses {
    /// Scans all processes, skipping those that cannot be read.
    #[must_use]
    pub fn scan() -> Self {
        let above = process_ancestors(std::process::id());
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            else {
                continue;
            };
            if above.contains(&process) {
                continue;
            }
            let said = process_said_session(entry.path());
            if let (Some(said), Some(stat)) = (said, ProcessStat::read(process))
                && !stat.is_gone()
            {
                found.insert(process, (said, stat.program));
            }
        }
        Self(found)
    }

    /// The processes of this session.
    #[must_use]
    pub fn of(&self, session: SessionId, key: Option<&str>) -> Vec<OrphanProcess> {
        let fits = self.0.iter().filter(|(_, (said, _))| process_means_session(said, session, key));
        fits.map(|(process, (_, program))| OrphanProcess {
            process: *process,
            program: program.clone(),
        })
        .collect()
    }
}

fn process_ancestors(of: u32) -> HashSet<u32> {
    let mut above = HashSet::from([of]);
    let mut next = of;
    for _ in 0..ANCESTORS {
        match ProcessStat::read(next) {
            Some(stat) if stat.parent > 0 && above.insert(stat.parent) => next = stat.parent,
            _ => break,
        }
    }
    above
}

/// The session named in the environment of a process of this user.
fn process_said_session(process: PathBuf) -> Option<String> {
    if std::fs::metadata(&process).ok()?.uid() != getuid().as_raw() {
        return None;
    }
    let environment = match std::fs::read(process.join("environ")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        read => read.ok()?,
    };
    let mut variables = environment.split(|byte| *byte == 0);
    let said = variables.find_map(|variable| variable.strip_prefix(SESSION))?;
    Some(String::from_utf8_lossy(said).into_owned()).filter(|said| !said.is_empty())
}

/// Does the text mean this session: its id, a prefix of it at least as long as a short id, or its
/// key?
fn process_means_session(said: &str, session: SessionId, key: Option<&str>) -> bool {
    let lower = said.to_ascii_lowercase();
    let begins = session.to_string().starts_with(&lower) || session.short(12).starts_with(&lower);
    (lower.len() >= SessionId::SHORT && begins) || key == Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_mislead() {
        let stat = "7 (a) b) (c) T 3 7 7 0 -1 4194560 1 0 0 0 11 22 0 0 20 0 1 0 99 1000 55 0";
        let stat = ProcessStat::parse(stat).unwrap();
        assert_eq!((stat.state, stat.parent, stat.started), ('T', 3, 99));
        assert_eq!(stat.program, "a) b) (c");
        for bad in ["", "7 (a", "7 (a) S", "7 (a) S 3 7 7 0"] {
            assert_eq!(ProcessStat::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_session_is_meant_by_its_id_its_beginning_or_its_key() {
        let id: SessionId = "0199a3c5-0000-7000-8000-00deadbeef12".parse().unwrap();
        let (whole, short) = (id.to_string(), id.short(SessionId::SHORT));
        for said in [whole.as_str(), &whole.to_uppercase(), short.as_str(), &id.short(12), "k/1"] {
            assert!(process_means_session(said, id, Some("k/1")), "{said}");
        }
        for said in ["0", &short[..5], "k/2", "latest"] {
            assert!(!process_means_session(said, id, Some("k/1")), "{said}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_seen_as_it_is() {
        assert_eq!(process_seen(std::process::id(), process_started()), ProcessObservation::Lives);
        assert_eq!(process_seen(std::process::id(), Some(1)), ProcessObservation::Another);
        assert_eq!(process_seen(std::process::id(), None), ProcessObservation::Lives);
        assert_eq!(process_seen(0, None), ProcessObservation::Unknown);
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let began = ProcessStat::read(child.id()).map(|stat| stat.started);
        assert_eq!(process_seen(child.id(), began), ProcessObservation::Lives);
        child.kill().unwrap();
        // Until it is fetched it has a number still.
        while ProcessStat::read(child.id()).is_some_and(|stat| stat.state != 'Z') {
            std::thread::yield_now();
        }
        assert_eq!(process_seen(child.id(), began), ProcessObservation::Gone);
        child.wait().unwrap();
        assert_eq!(process_seen(child.id(), began), ProcessObservation::Gone);
    }

    #[test]
    fn a_user_is_found_in_the_list_by_number() {
        let list = "root:x:0:0:root:/root:/bin/sh\nana:x:1000:100::/home/ana:\n:x:7::\nbad\n";
        assert_eq!(user_in(list, 1000).as_deref(), Some("ana"));
        assert_eq!(user_in(list, 0).as_deref(), Some("root"));
        assert_eq!((user_in(list, 100), user_in(list, 7)), (None, None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_was_told_a_session_is_found_and_the_asking_one_is_not() {
        let id: SessionId = "0199a3c5-0000-7000-8000-00deadbeef34".parse().unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .env("ABIDE_SESSION", id.to_string())
            .spawn()
            .unwrap();
        // Its environment is there once it has begun.
        let found = loop {
            let found = SessionProcesses::scan().of(id, None);
            if found.iter().any(|orphan| orphan.program == "sleep") {
                break found;
            }
            std::thread::yield_now();
        };
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [OrphanProcess { process: child.id(), program: "sleep".to_owned() }]);
        assert_eq!(SessionProcesses::scan().of(id, None), []);
        assert!(process_ancestors(std::process::id()).len() > 1);
    }
}
