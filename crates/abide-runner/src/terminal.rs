//! An interactive agent: it runs on a pseudo-terminal connected to the terminal of this process, so
//! that what it prints and what the person types can be recorded.

use std::fs::File;
use std::io::{Error, Read, Write};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use pty_process::blocking::{Command, open};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcgetwinsize, tcsetwinsize};

use crate::child::{ChildEvent, ChildPlan};
use crate::typed_input::TypedEcho;

/// How often the window size is checked.
const LOOK: Duration = Duration::from_millis(100);

/// Starts a program on its own pseudo-terminal and in its own session; returns its output.
pub(crate) fn start(
    program: &str,
    arguments: &[String],
    plan: &ChildPlan,
    job: u64,
    tell: &SyncSender<ChildEvent>,
) -> std::io::Result<(Child, File)> {
    let (terminal, its_end) = open().map_err(Error::other)?;
    let terminal = File::from(OwnedFd::from(terminal));
    let mut size = tcgetwinsize(std::io::stdin()).ok();
    if let Some(size) = size {
        tcsetwinsize(&terminal, size)?;
    }
    let command =
        Command::new(program).args(arguments).env_remove("ABIDE_LANE").env_remove("ABIDE_TASK");
    let command = command.envs(&plan.environment);
    let command = command.current_dir(&plan.directory);
    let child = command.spawn(its_end).map_err(|error| match error {
        pty_process::Error::Io(error) => error,
        error => Error::other(error),
    })?;
    let mut typed = terminal.try_clone()?;
    let tell = tell.clone();
    std::thread::spawn(move || {
        let mut chunk = [0; 1024];
        let mut stdin = std::io::stdin().lock();
        while let Ok(count) = stdin.read(&mut chunk) {
            let bytes = chunk.get(..count).unwrap_or_default();
            // Told first: whatever is printed because of it comes after it.
            let told = ChildEvent::Typed { job, bytes: bytes.to_vec(), echo: echo_of(&typed) };
            if count == 0 || tell.send(told).is_err() || typed.write_all(bytes).is_err() {
                return;
            }
        }
    });
    let sized = terminal.try_clone()?;
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(LOOK);
            let now = tcgetwinsize(std::io::stdin()).ok();
            if let Some(now) = now.filter(|now| !same(size.as_ref(), now)) {
                size = Some(now);
                if tcsetwinsize(&sized, now).is_err() {
                    return;
                }
            }
        }
    });
    Ok((child, terminal))
}

fn same(one: Option<&Winsize>, other: &Winsize) -> bool {
    one.is_some_and(|one| (one.ws_row, one.ws_col) == (other.ws_row, other.ws_col))
}

/// Who shows what is typed now. Both ends of a pseudo-terminal have the same modes.
fn echo_of(terminal: &File) -> TypedEcho {
    match tcgetattr(terminal).map(|modes| modes.local_modes) {
        Ok(modes) if modes.contains(LocalModes::ECHO) => TypedEcho::Terminal,
        Ok(modes) if !modes.contains(LocalModes::ICANON) => TypedEcho::Agent,
        // A line that is not to be seen, or modes that are not known.
        _ => TypedEcho::Hidden,
    }
}
