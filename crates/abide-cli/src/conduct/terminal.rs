//! Hands the terminal to an agent that talks with the user.

use std::io::Write;

use abide_runner::RunEvent;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::view::RunView;

/// A changed terminal mode, restored when dropped.
pub(super) struct TerminalGuard(Termios);

impl TerminalGuard {
    /// Turns echo off, so that typing does not disturb the display. `None` if stdin is not a
    /// terminal.
    pub(super) fn silent() -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut silent = before.clone();
        silent.local_modes -= LocalModes::ECHO;
        tcsetattr(std::io::stdin(), OptionalActions::Now, &silent).ok()?;
        Some(Self(before))
    }

    /// Passes input through unchanged (raw mode). `None` if stdin is not a terminal.
    pub(super) fn set() -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self(before))
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Shows only the agent's own output, behind a line that says how it goes on with earlier work.
#[derive(Debug)]
pub(super) struct TerminalPassthrough;

impl RunView for TerminalPassthrough {
    fn show(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Output { bytes, .. } => {
                let mut out = std::io::stdout().lock();
                // If the terminal is gone, the run still goes on to its end.
                let _ = out.write_all(bytes).and_then(|()| out.flush());
            }
            RunEvent::TaskStarted { way: Some(way), .. }
            | RunEvent::AgentStarted { way: Some(way), .. } => {
                // The terminal is raw: a line feed alone would not go to the left.
                let _ = write!(std::io::stderr(), "The agent continues {}\r\n", way.told());
            }
            _ => {}
        }
    }
}
