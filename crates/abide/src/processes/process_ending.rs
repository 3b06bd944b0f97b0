//! Ends processes: first SIGTERM, then SIGKILL.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::Process;

/// Polling interval while waiting for processes to end.
const LOOK: Duration = Duration::from_millis(5);
/// How long to wait for killed processes to end. One that waits for a device can take longer.
const KILLED: Duration = Duration::from_secs(2);

/// Ends these processes: SIGTERM, then SIGKILL for those still running after `grace`. Returns how
/// many of them ran and have ended. Never signals a different process that reuses an id, this
/// process, or process 1. A stopped process is continued so that it can shut down.
pub fn end_processes(pids: &[u32], grace: Duration) -> usize {
    let mut targets: Vec<TargetProcess> =
        pids.iter().filter_map(|id| TargetProcess::new(*id)).collect();
    targets.sort_unstable_by_key(|target| target.id);
    targets.dedup_by_key(|target| target.id);
    for target in &targets {
        target.signal(Signal::TERM);
        target.signal(Signal::CONT);
    }
    if !wait_for_ending(&targets, grace) {
        for target in targets.iter().filter(|target| target.runs()) {
            target.signal(Signal::KILL);
        }
        wait_for_ending(&targets, KILLED);
    }
    targets.iter().filter(|target| !target.runs()).count()
}

/// Waits until none of them runs. Returns false on timeout.
fn wait_for_ending(targets: &[TargetProcess], time: Duration) -> bool {
    let began = Instant::now();
    loop {
        if !targets.iter().any(TargetProcess::runs) {
            return true;
        }
        let Some(left) = time.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) else {
            return false;
        };
        sleep(left.min(LOOK));
    }
}

/// A process that was running when first seen.
struct TargetProcess {
    id: u32,
    pid: Pid,
    started: u64,
    /// A handle on the process itself, so that a signal cannot reach another one with the same id.
    #[cfg(target_os = "linux")]
    handle: Option<rustix::fd::OwnedFd>,
}

impl TargetProcess {
    fn new(id: u32) -> Option<Self> {
        if id <= 1 || id == std::process::id() {
            return None;
        }
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw)?;
        let started = Process::read(id)?.started;
        let target = Self {
            id,
            pid,
            started,
            // Old kernels have no handles; the start time alone must do.
            #[cfg(target_os = "linux")]
            handle: rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok(),
        };
        // Checked again now that the handle exists: it is the same process.
        target.runs().then_some(target)
    }

    /// Returns true if this very process is still running.
    fn runs(&self) -> bool {
        let now = Process::read(self.id);
        now.is_some_and(|now| now.started == self.started && !now.is_gone())
    }

    /// A process that is gone needs no signal.
    fn signal(&self, signal: Signal) {
        #[cfg(target_os = "linux")]
        if let Some(handle) = &self.handle {
            let _ = rustix::process::pidfd_send_signal(handle, signal);
            return;
        }
        if self.runs() {
            let _ = rustix::process::kill_process(self.pid, signal);
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Long enough for anything that ends by itself; not waited for when it does.
    const AMPLE: Duration = Duration::from_secs(60);

    /// A shell that has said that it is ready.
    fn shell(script: &str) -> Child {
        let mut child = Command::new("sh")
            .args(["-c", &format!("{script}\necho ready; while :; do sleep 0.05; done")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        child
    }

    #[test]
    fn one_that_listens_ends_as_it_likes() {
        let mut child = shell("trap 'exit 7' TERM");
        assert_eq!(end_processes(&[child.id(), child.id()], AMPLE), 1);
        assert_eq!(child.wait().unwrap().code(), Some(7));
    }

    #[test]
    fn one_that_does_not_is_killed() {
        let mut child = shell("trap '' TERM");
        assert_eq!(end_processes(&[child.id()], Duration::from_millis(20)), 1);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn one_that_is_stopped_is_woken_to_end() {
        let mut child = shell("trap 'exit 7' TERM");
        let pid = Pid::from_child(&child);
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
        while Process::read(child.id()).unwrap().state != 'T' {
            sleep(LOOK);
        }
        assert_eq!(end_processes(&[child.id()], AMPLE), 1);
        assert_eq!(child.wait().unwrap().code(), Some(7));
    }

    #[test]
    fn those_that_are_gone_and_the_own_one_are_not_counted_nor_hit() {
        let mut child = Command::new("true").spawn().unwrap();
        while !Process::read(child.id()).unwrap().is_gone() {
            sleep(LOOK);
        }
        let own = std::process::id();
        assert_eq!(end_processes(&[child.id(), own, 0, 1, u32::MAX], Duration::ZERO), 0);
        child.wait().unwrap();
        assert_eq!(end_processes(&[child.id()], Duration::ZERO), 0);
        assert_eq!(end_processes(&[], AMPLE), 0);
    }

    #[test]
    fn a_number_that_is_used_again_is_not_hit() {
        let mut child = shell("");
        let mut target = TargetProcess::new(child.id()).unwrap();
        target.started += 1;
        target.handle = None;
        assert!(!target.runs());
        target.signal(Signal::KILL);
        target.started -= 1;
        assert!(target.runs(), "it was not hit");
        target.signal(Signal::KILL);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}
