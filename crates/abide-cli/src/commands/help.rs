//! `abide help`: explains a command or a topic.

use clap::Command;

use crate::command_context::CommandContext;
use crate::command_output::CommandOutput;
use crate::error::CommandError;
use crate::help_groups::with_grouped_help;
use crate::help_topics::HELP_TOPICS;
use crate::pager::PagedOutput;

/// Explain a command, or a topic: `abide help places`
///
/// Without an argument, the commands and the topics are listed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide help rewind
  abide help places      how to name a checkpoint, a turn or an event
  abide help exit-codes")]
pub(crate) struct HelpArgs {
    /// A command, with its sub-command if it has one, or a topic
    #[arg(value_name = "COMMAND|TOPIC")]
    words: Vec<String>,
}

impl HelpArgs {
    pub(crate) fn run(
        self,
        surroundings: &CommandContext,
        whole: clap::Command,
    ) -> Result<(), CommandError> {
        let text = self.text(whole)?;
        if CommandOutput::stdout().is_terminal() {
            let mut out = PagedOutput::start(surroundings.pager.as_deref());
            out.write(&text)?;
            return out.finish();
        }
        let mut out = CommandOutput::stdout();
        out.bytes(text.as_bytes())?;
        out.flush()
    }

    fn text(&self, mut whole: Command) -> Result<String, CommandError> {
        whole.build();
        let [first, others @ ..] = self.words.as_slice() else {
            let mut text = with_grouped_help(whole).render_long_help().to_string();
            text.push_str("\nTopics (`abide help TOPIC`):\n");
            for topic in &HELP_TOPICS {
                text.push_str(&format!("  {:<12} {}\n", topic.name, topic.about));
            }
            return Ok(text);
        };
        if others.is_empty()
            && let Some(topic) = HELP_TOPICS.iter().find(|topic| topic.name == first)
        {
            return Ok(format!("{}\n\n{}", topic.about, topic.text));
        }
        let mut command = &mut whole;
        for word in &self.words {
            command = match command.find_subcommand_mut(word) {
                Some(found) => found,
                None => return Err(unknown_topic_error(&self.words.join(" "))),
            };
        }
        Ok(command.render_long_help().to_string())
    }
}

fn unknown_topic_error(words: &str) -> CommandError {
    let topics: Vec<_> = HELP_TOPICS.iter().map(|topic| topic.name).collect();
    let words = abide_transcript::escape::text(words);
    CommandError::failed(format!("there is no command and no topic `{words}`"))
        .with_hint(format!("`abide help` lists the commands; the topics are {}", topics.join(", ")))
}
