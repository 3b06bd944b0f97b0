//! Tests and builds that an agent runs, recognized from its tool calls: which command it was, how
//! it ended, what it counted. Pure: nothing is run here.
//!
//! An [`ArtifactCommand`] is made from the arguments of a call, and makes the [`Artifact`] from its
//! outcome. What is not known to be a test or a build is none, and so is a run whose outcome the
//! shell hides, as that of `npm test | tail` does where the output has no counts.

mod outcome;
mod shell;
mod summary;
mod tool;

pub use outcome::{CommandOutcome, OutcomeReport};

use abide_model::json::{RawFields, decode_string, encoded_string, list};
use abide_model::{Artifact, ToolCall};
use serde_json::value::RawValue;

use self::shell::{ExitSource, ShellScript};
use self::summary::OutputSummary;
use self::tool::BuildTool;

/// The longest command that is read.
const COMMAND: usize = 16 << 10;
/// How much of the end of the output an artifact keeps. The result of the call has all of it.
const OUTPUT: usize = 4 << 10;

/// A shell command that runs a test or a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactCommand {
    command: String,
    tool: BuildTool,
    exit: ExitSource,
}

impl ArtifactCommand {
    /// The test or build that a tool call runs, by its arguments: a `command` that is a string or a
    /// list of words. `None` for any other call, and for a command that runs in the background.
    #[must_use]
    pub fn of_call(call: &ToolCall) -> Option<Self> {
        Self::of_arguments(call.arguments.as_deref()?)
    }

    /// The test or build in the arguments of a tool call.
    #[must_use]
    pub fn of_arguments(arguments: &RawValue) -> Option<Self> {
        // A file that is written has long arguments, too. They are not looked through.
        if arguments.get().len() > 2 * COMMAND {
            return None;
        }
        let fields = RawFields::of(arguments.get())?;
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

    /// The test or build that a shell command runs.
    #[must_use]
    pub fn of_command(command: &str) -> Option<Self> {
        if command.len() > COMMAND {
            return None;
        }
        Self::of_script(command.to_owned(), ShellScript::parse(command)?)
    }

    /// The test or build that a program with these arguments runs.
    #[must_use]
    pub fn of_words(words: &[String]) -> Option<Self> {
        if words.iter().map(String::len).sum::<usize>() > COMMAND {
            return None;
        }
        Self::of_script(words.join(" "), ShellScript::of_words(words.to_vec()))
    }

    fn of_script(command: String, script: ShellScript) -> Option<Self> {
        let script = script.unwrapped();
        // A test tells more than the build before it; of two tests, the output ends with the last.
        let tools: Vec<Option<BuildTool>> =
            script.commands.iter().map(|one| BuildTool::of(&one.words)).collect();
        let is_test = |tool: &Option<BuildTool>| tool.as_ref().is_some_and(BuildTool::is_test);
        let at =
            tools.iter().rposition(is_test).or_else(|| tools.iter().rposition(Option::is_some))?;
        let tool = tools.into_iter().nth(at).flatten()?;
        Some(Self { command, tool, exit: script.exit_source(at) })
    }

    /// The record of the run. `None` where the outcome is not known.
    #[must_use]
    pub fn artifact(&self, outcome: &CommandOutcome) -> Option<Artifact> {
        let text = outcome::plain_text(&outcome.output);
        let summary = OutputSummary::read(&self.tool, &text);
        let told = match outcome.exit {
            Some(code) => Some(code == 0),
            None => match outcome.report {
                OutcomeReport::Success => Some(true),
                // A call also fails where it was refused, and nothing ran.
                OutcomeReport::Failure if summary.is_some() => Some(false),
                OutcomeReport::Failure | OutcomeReport::Unknown => None,
            },
        };
        let told = match self.exit {
            ExitSource::Own => told,
            // That all of it succeeded says it of each part.
            ExitSource::Shared => told.filter(|ok| *ok),
            ExitSource::Hidden => None,
        };
        let ok = match (told, summary.as_ref()) {
            (Some(ok), Some(summary)) => ok && summary.ok,
            (Some(ok), None) => ok,
            (None, Some(summary)) => summary.ok,
            (None, None) => return None,
        };
        let kept = outcome::output_tail(&text, OUTPUT);
        Some(Artifact {
            name: self.tool.name.clone(),
            kind: self.tool.kind.as_str().to_owned(),
            task: None,
            ok,
            object: None,
            command: Some(self.command.clone()),
            exit: outcome.exit.filter(|_| self.exit == ExitSource::Own),
            output: Some(kept.to_owned()).filter(|kept| !kept.is_empty()),
            left_out: (text.len() - kept.len()) as u64,
            counts: summary.map(|summary| summary.counts).filter(|counts| !counts.is_empty()),
        })
    }
}

#[cfg(test)]
mod tests;
