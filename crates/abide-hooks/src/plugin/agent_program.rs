//! Commands of an agent's own program: with nothing on stdin, a time limit, and the end of their output kept.

use std::ffi::OsStr;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::plugin_error::PluginError;

/// How often to look whether a command has ended.
pub(super) const GLANCE: Duration = Duration::from_millis(10);
/// How long a program may take to end once it is told to.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// How much of an output is read: its end.
const READ_BACK: u64 = 64 * 1024;
/// The end of an output that is shown.
const SHOWN: usize = 600;

/// The program of this name in a list of directories.
pub(super) fn find_program(search: &OsStr, name: &str) -> Option<PathBuf> {
    let mut directories = std::env::split_paths(search).filter(|directory| directory.is_absolute());
    directories.find_map(|directory| Some(directory.join(name)).filter(|file| is_program(file)))
}

/// Is it a file that can be run?
pub(super) fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// A command as it is shown: with the path of its program, of which there may be several.
pub(super) fn shown_command(program: &Path, arguments: &[String]) -> String {
    let name = program.display().to_string();
    std::iter::once(name).chain(arguments.iter().cloned()).collect::<Vec<_>>().join(" ")
}

/// Runs a command to its end. What it prints on stdout.
pub(super) fn run_program(
    program: &Path,
    arguments: &[String],
    directory: &Path,
    limit: Duration,
    stdin: Stdio,
) -> Result<String, PluginError> {
    let shown = shown_command(program, arguments);
    let failed = |source| PluginError::NotStarted { command: shown.clone(), source };
    // Files and not pipes: what the program leaves running may hold them open for as long as it likes.
    let mut out = tempfile::tempfile().map_err(failed)?;
    let mut err = tempfile::tempfile().map_err(failed)?;
    let mut child = agent_command(program, arguments, directory)
        .stdin(stdin)
        .stdout(out.try_clone().map_err(failed)?)
        .stderr(err.try_clone().map_err(failed)?)
        .spawn()
        .map_err(failed)?;
    let Some(status) = wait_until(&mut child, Instant::now() + limit) else {
        end_program(&mut child);
        return Err(PluginError::TimedOut { command: shown, limit });
    };
    let (told, complained) = (read_back(&mut out), read_back(&mut err));
    if status.success() {
        return Ok(told);
    }
    let output = shown_end(&format!("{told}\n{complained}"));
    Err(PluginError::CommandFailed { command: shown, status: status.to_string(), output })
}

/// A command in a process group of its own, so that it can be ended with all that it starts.
pub(super) fn agent_command(program: &Path, arguments: &[String], directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory).process_group(0);
    command
}

/// Waits for the end of a program; `None` if it does not come in time.
pub(super) fn wait_until(child: &mut Child, until: Instant) -> Option<ExitStatus> {
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= until {
            return None;
        }
        std::thread::sleep(GLANCE);
    }
}

/// Ends a program, and what it started in its process group: first they are told to, then they are killed.
pub(super) fn end_program(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        // It may be in the middle of a write.
        let _ = kill_process_group(group, Signal::TERM);
        let until = Instant::now() + TERM_GRACE;
        while Instant::now() < until && !has_ended(group) {
            std::thread::sleep(GLANCE);
        }
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Has a program ended? It is not collected, so that its number stays its own.
fn has_ended(child: Pid) -> bool {
    let looking = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(child), looking), Ok(None))
}

/// The end of what was written to a file.
fn read_back(file: &mut std::fs::File) -> String {
    let mut bytes = Vec::new();
    let length = file.metadata().map_or(0, |found| found.len());
    let start = SeekFrom::Start(length.saturating_sub(READ_BACK));
    let _ = file.seek(start).and_then(|_| file.take(READ_BACK).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The last lines of an output, on one line.
fn shown_end(output: &str) -> String {
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = lines.join("; ");
    let skipped = line.chars().count().saturating_sub(SHOWN);
    line.chars().skip(skipped).collect()
}
