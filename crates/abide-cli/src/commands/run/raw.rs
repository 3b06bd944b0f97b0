//! The terminal, handed to an agent that talks with the person at it.

use std::io::Write;

use abide_runner::RunEvent;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::view::View;

/// The terminal in another way; dropped, it is as it was.
pub(super) struct Raw(Termios);

impl Raw {
    /// What is typed is not shown: it would get into what is drawn. None where stdin is no terminal.
    pub(super) fn silent() -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut silent = before.clone();
        silent.local_modes -= LocalModes::ECHO;
        tcsetattr(std::io::stdin(), OptionalActions::Now, &silent).ok()?;
        Some(Self(before))
    }

    /// It passes on what is typed as it is. None where stdin is no terminal.
    pub(super) fn set() -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Shows what the agent shows.
#[derive(Debug)]
pub(super) struct Through;

impl View for Through {
    fn show(&mut self, event: &RunEvent) {
        if let RunEvent::Output { bytes, .. } = event {
            let mut out = std::io::stdout().lock();
            // Where the terminal is gone, the run goes on to its end.
            let _ = out.write_all(bytes).and_then(|()| out.flush());
        }
    }
}
