//! The check of a task: a command that decides whether the task is done.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use abide::event::Artifact;
use abide::event::ArtifactCommand;
use abide::tasks::TaskId;

use crate::job_ending::{JobEnding, is_kill};

/// How much of the end of a check's output is recorded.
const OUTPUT: usize = 1 << 20;
/// The kind of the artifact that records a check.
pub(crate) const KIND: &str = "check";

/// A check that runs.
#[derive(Debug)]
pub(crate) struct TaskCheck {
    pub(crate) command: String,
    started: Instant,
    output: Vec<u8>,
    left_out: u64,
}

impl TaskCheck {
    pub(crate) fn new(command: String) -> Self {
        Self { command, started: Instant::now(), output: Vec::new(), left_out: 0 }
    }

    /// The program that runs it, and its arguments.
    pub(crate) fn program(command: &str) -> Vec<String> {
        ["sh", "-c", command].map(str::to_owned).into()
    }

    /// Keeps what it printed.
    pub(crate) fn printed(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        // Not at every chunk: what is dropped moves the rest.
        if self.output.len() >= 2 * OUTPUT {
            self.trim();
        }
    }

    fn trim(&mut self) {
        let over = self.output.len().saturating_sub(OUTPUT);
        self.output.drain(..over);
        self.left_out += over as u64;
    }

    pub(crate) fn took(&self) -> Duration {
        self.started.elapsed()
    }

    /// How it ended. One that was ended by others says nothing about the task.
    pub(crate) fn ending(&self, exit: Option<&ExitStatus>, was_asked: WasAsked) -> JobEnding {
        if was_asked == WasAsked::Yes {
            return JobEnding::Interrupted("its check was stopped".to_owned());
        }
        if exit.is_some_and(ExitStatus::success) {
            return JobEnding::Done;
        }
        let signal = exit.and_then(ExitStatusExt::signal);
        if let Some(signal) = signal.filter(|signal| is_kill(*signal)) {
            return JobEnding::Interrupted(format!("its check was killed by signal {signal}"));
        }
        let how = match (exit.and_then(ExitStatus::code), signal) {
            (Some(code), _) => format!("exit code {code}"),
            (_, Some(signal)) => format!("signal {signal}"),
            _ => "unknown exit status".to_owned(),
        };
        let text = String::from_utf8_lossy(&self.output);
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
        let last = last.map(|line| format!(": {}", line.chars().take(300).collect::<String>()));
        JobEnding::Failed(format!("the check failed: {how}{}", last.unwrap_or_default()))
    }

    /// The record of it.
    pub(crate) fn artifact(&mut self, task: &TaskId, exit: Option<&ExitStatus>) -> Artifact {
        self.trim();
        let output = String::from_utf8_lossy(&self.output).into_owned();
        let command = ArtifactCommand::of_command(&self.command);
        // Without its beginning, sums are too small.
        let counts = command.filter(|_| self.left_out == 0).and_then(|run| run.counts(&output));
        Artifact {
            name: task.to_string(),
            kind: KIND.to_owned(),
            task: Some(task.clone()),
            ok: exit.is_some_and(ExitStatus::success),
            object: None,
            command: Some(self.command.clone()),
            exit: exit.and_then(ExitStatus::code),
            output: Some(output),
            left_out: self.left_out,
            counts,
        }
    }
}

/// Was the process asked to exit?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WasAsked {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_output_is_kept_and_the_rest_counted() {
        let mut check = TaskCheck::new("make".to_owned());
        for _ in 0..5 {
            check.printed(&vec![b'x'; OUTPUT - 1]);
        }
        check.printed(b"last\n");
        let failed = ExitStatus::from_raw(2 << 8);
        let ending = check.ending(Some(&failed), WasAsked::No);
        assert!(
            matches!(ending, JobEnding::Failed(why) if why.starts_with("the check failed: exit code 2: x"))
        );
        let artifact = check.artifact(&"T1".into(), Some(&failed));
        let output = artifact.output.unwrap();
        assert_eq!((output.len(), artifact.left_out), (OUTPUT, 4 * OUTPUT as u64));
        assert!(output.ends_with("last\n"));
        assert_eq!((artifact.exit, artifact.ok), (Some(2), false));
    }
}
