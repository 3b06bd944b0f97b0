//! Shows a run as plain lines: events on stderr, the agent's output on stdout.

use std::io::{IsTerminal, Write};

use abide::TaskStatus;
use abide_runner::{ResumeMode, RunEvent, RunGoal, RunOptions, Stream};
use abide_transcript::{escape, format_duration};

use super::view::RunView;
use super::wording;
use crate::command_output::{status, warning};

/// Prints lines.
#[derive(Debug)]
pub(super) struct PlainView {
    /// Pass the agent's output on unchanged: it is the output of the command.
    through: bool,
    /// The agent prints text for people.
    text: bool,
    /// Whether stdout and stderr are terminals.
    terminal: [bool; 2],
    gone: bool,
}

impl PlainView {
    pub(super) fn new(options: &RunOptions) -> Self {
        Self {
            through: options.goal != RunGoal::Tasks,
            text: options.adapter.prints_text(),
            terminal: [std::io::stdout().is_terminal(), std::io::stderr().is_terminal()],
            gone: false,
        }
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        // Output meant for a program is shown by its meaning instead.
        if self.gone || (!self.text && stream == Stream::Out) {
            return;
        }
        let harmless;
        let [out, err] = self.terminal;
        let terminal = if stream == Stream::Out { out } else { err };
        let bytes = if self.through || !terminal {
            bytes
        } else {
            harmless = escape::lines(&String::from_utf8_lossy(bytes));
            harmless.as_bytes()
        };
        let written = match stream {
            Stream::Out => {
                let mut out = std::io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            Stream::Err => std::io::stderr().write_all(bytes),
        };
        self.gone = written.is_err();
    }
}

impl RunView for PlainView {
    fn show(&mut self, event: &RunEvent) {
        match event {
            RunEvent::TaskStarted { task, title, attempt, way, .. } => {
                let mut line = format!("{task} begins: {}", escape::text(title));
                if *attempt > 1 {
                    line.push_str(&format!(" (attempt {attempt})"));
                }
                if let Some(way) = way {
                    line.push_str(&format!(", {}", ResumeMode::told(*way)));
                }
                status(line);
            }
            RunEvent::Step { task, text } => {
                let text = escape::text(text);
                match task {
                    _ if self.text => {}
                    Some(task) => status(format_args!("{task} | {text}")),
                    None => status(text),
                }
            }
            RunEvent::Output { stream, bytes, .. } => self.output(*stream, bytes),
            RunEvent::TaskEnded { task, status: now, reason, took, .. } => {
                let word = wording::task_status_wording(*now);
                let reason = reason.as_deref().map(|reason| format!(": {}", escape::text(reason)));
                let again = if *now == TaskStatus::Planned { ", will be retried" } else { "" };
                status(format_args!(
                    "{task} {word} after {}{}{again}",
                    format_duration(*took),
                    reason.unwrap_or_default()
                ));
            }
            RunEvent::Limit(limit) => warning(wording::limit_wording(limit)),
            RunEvent::Warning(text) => warning(text),
            event => {
                if let Some(line) = wording::run_event_wording(event) {
                    status(line);
                }
            }
        }
    }
}
