//! Finds processes by the mark of their run.
//!
//! Whatever an agent starts inherits its environment, unless it takes care not to. So even a
//! process that has left its parents and its process group can be found.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Process, own_process_line, read_process_file};

/// The environment variable that tells an agent which run it was started for.
pub const RUN_VARIABLE: &str = "ABIDE_RUN";

/// At most this much of an environment is read.
const ENVIRONMENT: u64 = 8 << 20;
/// Large enough for most environments.
const USUAL: usize = 8 << 10;

/// This user's processes whose [`RUN_VARIABLE`] starts with `mark`, except this process and its
/// ancestors. An empty mark finds none. The environment is the one the program was started with.
#[must_use]
pub fn processes_marked(mark: &str) -> Vec<u32> {
    if mark.is_empty() {
        return Vec::new();
    }
    let user = rustix::process::geteuid().as_raw();
    let own: HashSet<u32> = own_process_line();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if !own.contains(&id)
            && entry.metadata().is_ok_and(|metadata| metadata.uid() == user)
            && marked_environment(&entry.path())
                .is_some_and(|all| environment_is_marked(&all, mark))
            && Process::read(id).is_some_and(|process| !process.is_gone())
        {
            found.push(id);
        }
    }
    found.sort_unstable();
    found
}

fn marked_environment(process: &Path) -> Option<Vec<u8>> {
    read_process_file(&process.join("environ"), USUAL, ENVIRONMENT)
}

/// Returns true if the environment has the variable with a value that starts with `mark`.
fn environment_is_marked(environment: &[u8], mark: &str) -> bool {
    let value = |entry: &[u8]| -> bool {
        let value = entry.strip_prefix(RUN_VARIABLE.as_bytes());
        let value = value.and_then(|rest| rest.strip_prefix(b"="));
        value.is_some_and(|value| value.starts_with(mark.as_bytes()))
    };
    environment.split(|byte| *byte == 0).any(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_variable_itself_counts_and_its_beginning() {
        assert!(environment_is_marked(b"A=1\0ABIDE_RUN=r1/lane\0B=2\0", "r1"));
        assert!(environment_is_marked(b"ABIDE_RUN=r1", "r1"));
        for other in [
            &b"XABIDE_RUN=r1\0"[..],
            b"ABIDE_RUNS=r1\0",
            b"ABIDE_RUN\0r1\0",
            b"A=ABIDE_RUN=r1\0",
            b"ABIDE_RUN=xr1\0",
            b"ABIDE_RUN=r\0",
            b"",
        ] {
            assert!(!environment_is_marked(other, "r1"), "{:?}", String::from_utf8_lossy(other));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_found_by_its_mark_when_it_has_left_its_parent() {
        use std::process::{Command, Stdio};
        use std::time::Duration;

        let mark = format!("marked-test-{}", std::process::id());
        // A daemon: its own session, and its parent ends at once.
        let daemon = Command::new("sh")
            .args(["-c", "setsid sleep 30 >/dev/null 2>&1 & echo $!"])
            .env(RUN_VARIABLE, format!("{mark}/one"))
            .stderr(Stdio::null())
            .output()
            .unwrap();
        let daemon: u32 = String::from_utf8(daemon.stdout).unwrap().trim().parse().unwrap();
        let mut child = Command::new("sleep")
            .arg("30")
            .env(RUN_VARIABLE, format!("{mark}/two"))
            .spawn()
            .unwrap();
        let mut unmarked = Command::new("sleep").arg("30").spawn().unwrap();
        assert!(!super::super::descendant_processes(std::process::id()).contains(&daemon));
        let mut expected = vec![daemon, child.id()];
        expected.sort_unstable();
        // While a program is being replaced by another one, its environment is empty.
        while processes_marked(&format!("{mark}/one")).is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(processes_marked(&mark), expected);
        assert_eq!(processes_marked(&format!("{mark}/one")), [daemon]);
        assert_eq!(processes_marked(&format!("{mark}/three")), [0_u32; 0]);
        assert_eq!(processes_marked(""), [0_u32; 0]);
        assert_eq!(super::super::end_processes(&expected, Duration::from_secs(30)), 2);
        assert_eq!(processes_marked(&mark), [0_u32; 0]);
        child.wait().unwrap();
        unmarked.kill().unwrap();
        unmarked.wait().unwrap();
    }
}
