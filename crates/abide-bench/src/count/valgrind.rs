//! Counting the instructions of a process.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Outcome;

/// The programs to be counted, without their debug information, which valgrind would read.
#[derive(Debug)]
pub(super) struct Valgrind {
    pub(super) bench: PathBuf,
    pub(super) abide: PathBuf,
}

impl Valgrind {
    pub(super) fn with(bench: &Path, abide: &Path, dir: &Path) -> Outcome<Self> {
        Ok(Self { bench: bare(bench, dir)?, abide: bare(abide, dir)? })
    }

    /// How many instructions a command takes, with all of its threads.
    pub(super) fn count(
        &self,
        program: &Path,
        change: impl FnOnce(&mut Command),
        input: &str,
        log: &Path,
    ) -> Outcome<u64> {
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
            // Threads take turns, whatever else the machine does.
            .arg("--fair-sched=try")
            .arg(format!("--log-file={}", log.display()))
            .arg(program)
            // The same for everybody: what is in the environment is copied and looked through.
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", "/nonexistent")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        change(&mut command);
        let mut child =
            command.spawn().map_err(|error| format!("cannot start valgrind: {error}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        let said = std::fs::read_to_string(log).unwrap_or_default();
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("it ended with {}: {errors}{said}", output.status).into());
        }
        let line = said.lines().find_map(|line| line.split_once("I   refs:"));
        let (_, count) = line.ok_or_else(|| format!("valgrind did not count: {said}"))?;
        Ok(count.trim().replace(',', "").parse()?)
    }
}

/// A copy of a program without debug information; the program itself where there is no `strip`.
fn bare(program: &Path, dir: &Path) -> Outcome<PathBuf> {
    let copy = dir.join(program.file_name().ok_or("this program is nowhere")?);
    let stripped =
        Command::new("strip").arg("--strip-debug").arg("-o").arg(&copy).arg(program).status();
    Ok(if stripped.is_ok_and(|status| status.success()) { copy } else { program.to_owned() })
}

/// The processors that this process may use.
pub(super) fn processors() -> Outcome<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).take(4).collect())
}

/// What this thread starts has one processor: how much is done by how many threads is then the same
/// on every machine.
pub(super) fn keep_to(processor: usize) -> Outcome {
    let mut only = CpuSet::new();
    only.set(processor);
    Ok(sched_setaffinity(None, &only)?)
}
