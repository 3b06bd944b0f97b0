//! The agent whose hook this process is.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::hook_inbox::stable_hash;

/// Programs between an agent and its hook.
const BETWEEN: &[&str] = &["sh", "bash", "dash", "zsh", "ash", "fish", "env", "timeout", "nice"];
/// How many of them are looked behind.
const MOST: usize = 8;

/// How many ancestors are looked at.
const MOST_ANCESTORS: usize = 64;

/// A process, told from a later one with the same number by its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskingProcess {
    process: u32,
    /// When it was started, in ticks since the machine was.
    started: u64,
    /// The machine's start and the container, in which alone the number means something.
    #[serde(default)]
    place: u64,
}

impl AskingProcess {
    /// The process that started this one, but for shells; `None` where the system does not tell.
    pub(crate) fn of_this() -> Option<Self> {
        let mut process = std::os::unix::process::parent_id();
        for _ in 0..MOST {
            let stat = ListedProcess::read(process)?;
            if !BETWEEN.contains(&stat.name.as_str()) {
                // The first process takes over what others left: it is not the agent.
                return (process > 1).then(|| Self {
                    process,
                    started: stat.started,
                    place: place(),
                });
            }
            process = stat.parent;
        }
        None
    }

    /// Has it ended? `None` if that cannot be told here.
    pub(crate) fn is_gone(self) -> Option<bool> {
        ListedProcess::read(std::process::id())?;
        if self.place != place() {
            return None;
        }
        Some(match ListedProcess::read(self.process) {
            Some(stat) => stat.started != self.started || matches!(stat.state, 'Z' | 'X'),
            None => true,
        })
    }
}

/// Where numbers of processes mean the same: since this start of the machine, in this container.
fn place() -> u64 {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let container = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    stable_hash(&format!("{boot}{}", container.display()))
}

/// Was this process started, at whatever remove, by a program of this name? True where the system does not
/// tell.
#[must_use]
pub fn is_below(program: &str) -> bool {
    let mut process = std::os::unix::process::parent_id();
    if ListedProcess::read(process).is_none() {
        return true;
    }
    for _ in 0..MOST_ANCESTORS {
        let Some(stat) = ListedProcess::read(process) else { return false };
        if stat.name == program {
            return true;
        }
        process = stat.parent;
    }
    false
}

/// What `/proc` tells of a process.
struct ListedProcess {
    name: String,
    state: char,
    parent: u32,
    started: u64,
}

impl ListedProcess {
    fn read(process: u32) -> Option<Self> {
        let text = fs::read(format!("/proc/{process}/stat")).ok()?;
        let text = String::from_utf8_lossy(&text);
        // The name is in parentheses and may hold any character.
        let (head, rest) = text.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_owned();
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let started = fields.nth(17)?.parse().ok()?;
        Some(Self { name, state, parent, started })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_is_told_from_one_that_ended() {
        let Some(stat) = ListedProcess::read(std::process::id()) else { return };
        let this =
            AskingProcess { process: std::process::id(), started: stat.started, place: place() };
        assert_eq!(this.is_gone(), Some(false));
        let other = AskingProcess { started: stat.started + 1, ..this };
        assert_eq!(other.is_gone(), Some(true));
        let elsewhere = AskingProcess { place: 0, ..other };
        assert_eq!(elsewhere.is_gone(), None, "of another container nothing is known");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let started = ListedProcess::read(child.id()).unwrap().started;
        let child_process = AskingProcess { process: child.id(), started, place: place() };
        child.wait().unwrap();
        assert_eq!(child_process.is_gone(), Some(true));
    }
}
