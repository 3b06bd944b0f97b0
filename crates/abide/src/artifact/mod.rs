//! Tests and builds that an agent runs, recognized from its tool calls: which command it was, how
//! it ended, what it counted. Pure: nothing is run here.
//!
//! An [`ArtifactCommand`] is made from the arguments of a call, and makes [`Artifact`]s from its
//! outcome. What is not known to be a test or a build is none, and so is a run whose outcome the
//! shell hides, as that of `npm test | tail` does where the output has no counts.

mod outcome;
mod shell;
mod summary;
mod tool;
mod wrapper;

pub use outcome::{CommandOutcome, OutcomeReport};

use abide_model::json::{RawJsonFields, decode_string, encoded_string, list};
use abide_model::{Artifact, ArtifactCounts, ToolCall};
use serde_json::value::RawValue;

use self::shell::{ExitSource, OutputCut, ShellRun, ShellScript};
use self::summary::OutputSummary;
use self::tool::{BuildTool, OutputFormat};

/// The longest command that is read.
const COMMAND: usize = 16 << 10;
/// How much of the end of the output an artifact keeps. The result of the call has all of it.
const OUTPUT: usize = 4 << 10;
/// Tools that run shell commands, in lower case. Where such a call succeeds, the command did.
const SHELL_TOOLS: &[&str] = &[
    "bash",
    "shell",
    "exec",
    "terminal",
    "local_shell",
    "shell_command",
    "exec_command",
    "execute_command",
    "run_command",
    "run_shell_command",
    "run_terminal_cmd",
    "container.exec",
];

/// A shell command that runs tests or builds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactCommand {
    command: String,
    /// At least one; one of each format.
    runs: Vec<BuildRun>,
    /// A call that succeeds says that the command succeeded.
    is_shell: bool,
}

/// A test or a build in a shell command.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BuildRun {
    tool: BuildTool,
    shell: ShellRun,
}

impl ArtifactCommand {
    /// The tests or builds that a tool call runs.
    #[must_use]
    pub fn of_call(call: &ToolCall) -> Option<Self> {
        Self::of_tool(&call.name, call.arguments.as_deref()?)
    }

    /// The tests or builds that a call of the tool with this name runs. That a call of a tool that
    /// is not known as a shell succeeded is not taken as the success of a command.
    #[must_use]
    pub fn of_tool(name: &str, arguments: &RawValue) -> Option<Self> {
        let is_shell = SHELL_TOOLS.iter().any(|shell| name.eq_ignore_ascii_case(shell));
        Self::of_arguments(arguments).map(|found| Self { is_shell, ..found })
    }

    /// The tests or builds in the arguments of a tool call: a `command` that is a string or a list of
    /// words. `None` for any other call, and for a command that runs in the background.
    #[must_use]
    pub fn of_arguments(arguments: &RawValue) -> Option<Self> {
        // A file that is written has long arguments, too. They are not looked through.
        if arguments.get().len() > 2 * COMMAND {
            return None;
        }
        let fields = RawJsonFields::of(arguments.get())?;
        if ["run_in_background", "is_background", "background"]
            .iter()
            .any(|name| fields.flag(name) == Some(true))
        {
            return None;
        }
        let command = ["command", "cmd", "script"].iter().find_map(|name| fields.get(name))?;
        if let Some(text) = encoded_string(command) {
            return Self::of_command(&decode_string(text));
        }
        let words: Option<Vec<String>> = list(command)?
            .into_iter()
            .map(|word| Some(decode_string(encoded_string(word)?).into_owned()))
            .collect();
        Self::of_words(&words?)
    }

    /// The tests or builds that a shell command runs.
    #[must_use]
    pub fn of_command(command: &str) -> Option<Self> {
        if command.len() > COMMAND {
            return None;
        }
        Self::of_script(command.to_owned(), &ShellScript::parse(command)?)
    }

    /// The tests or builds that a program with these arguments runs.
    #[must_use]
    pub fn of_words(words: &[String]) -> Option<Self> {
        if words.iter().map(|word| word.len() + 1).sum::<usize>() > COMMAND {
            return None;
        }
        Self::of_script(words.join(" "), &ShellScript::of_words(words.to_vec()))
    }

    fn of_script(command: String, script: &ShellScript) -> Option<Self> {
        let mut found: Vec<BuildRun> = Vec::new();
        for shell in script.runs() {
            if let Some(tool) = BuildTool::of(&shell.words) {
                found.push(BuildRun { tool, shell });
            }
        }
        // A test tells more than the build before it.
        if found.iter().any(|run| run.tool.is_test()) {
            found.retain(|run| run.tool.is_test());
        }
        // Of two with the same form of output, the output ends with the last.
        let mut runs: Vec<BuildRun> = Vec::new();
        for run in found.into_iter().rev() {
            if runs.iter().all(|known| known.tool.format != run.tool.format) {
                runs.insert(0, run);
            }
        }
        (!runs.is_empty()).then_some(Self { command, runs, is_shell: false })
    }

    /// Does it run the same programs with the same arguments?
    #[must_use]
    pub fn runs_same(&self, other: &Self) -> bool {
        let words = |command: &Self| -> Vec<Vec<String>> {
            command.runs.iter().map(|run| run.shell.words.clone()).collect()
        };
        words(self) == words(other)
    }

    /// The records of the runs whose outcome is known.
    #[must_use]
    pub fn artifacts(&self, outcome: &CommandOutcome) -> Vec<Artifact> {
        let text = outcome::plain_text(&outcome.output);
        self.runs.iter().filter_map(|run| self.artifact(run, outcome, &text)).collect()
    }

    /// What the output of the last run counts.
    #[must_use]
    pub fn counts(&self, output: &str) -> Option<ArtifactCounts> {
        let text = outcome::plain_text(output);
        let run = self.runs.last()?;
        Some(self.summary(run, OutputCut::Whole, &text)?.counts).filter(|counts| !counts.is_empty())
    }

    fn artifact(&self, run: &BuildRun, outcome: &CommandOutcome, text: &str) -> Option<Artifact> {
        let cut = run.shell.cut.max(if outcome.is_cut { OutputCut::End } else { OutputCut::Whole });
        let summary = self.summary(run, cut, text);
        // The exit code, where it is known to be that of this run.
        let has_run = summary.is_some() || run.shell.exit == ExitSource::Own;
        let is_own = run.shell.exit <= ExitSource::OwnIfRun && has_run;
        let exit = outcome.exit.filter(|code| is_own || *code == 0);
        let exit = exit.filter(|_| run.shell.exit != ExitSource::Hidden);
        let told = match (exit, outcome.report) {
            _ if run.shell.exit == ExitSource::Hidden => None,
            (Some(code), _) => Some(code == 0),
            (None, OutcomeReport::Success) if outcome.exit.is_none() && self.is_shell => Some(true),
            // A call also fails where it was refused, and nothing ran.
            (None, OutcomeReport::Failure) if is_own && summary.is_some() => Some(false),
            _ => None,
        };
        let ok = match (told, &summary) {
            // An exit code says more than what looks like a summary.
            (Some(ok), _) if exit.is_some() => ok,
            (Some(ok), Some(summary)) => ok && summary.ok != Some(false),
            (Some(ok), None) => ok,
            (None, summary) => summary.as_ref()?.ok?,
        };
        let kept = outcome::output_tail(text, OUTPUT);
        Some(Artifact {
            name: run.tool.name.clone(),
            kind: run.tool.kind.as_str().to_owned(),
            task: None,
            ok,
            object: None,
            command: Some(self.command.clone()),
            exit,
            output: Some(kept.to_owned()).filter(|kept| !kept.is_empty()),
            left_out: (text.len() - kept.len()) as u64,
            counts: summary.map(|summary| summary.counts).filter(|counts| !counts.is_empty()),
        })
    }

    fn summary(&self, run: &BuildRun, cut: OutputCut, text: &str) -> Option<OutputSummary> {
        let others = self.runs.iter().map(|run| run.tool.format);
        let others: Vec<OutputFormat> = others.filter(|one| *one != run.tool.format).collect();
        Some(OutputSummary::read(&run.tool, &others, text)?.of_cut(cut))
    }
}

#[cfg(test)]
mod tests;
