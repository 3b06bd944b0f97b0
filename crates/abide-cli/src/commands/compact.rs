//! `abide compact`: replaces a part of the context by a summary.

use std::time::Duration;

use abide::{
    LaneId, Session, SessionRef, SessionView,
    context::{
        CompactRequest, CompactionEntry, CompactionResult, Summarizer, SummarizerType, Threshold,
    },
};
use abide_transcript::escape;
use serde_json::json;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status};
use crate::error::CommandError;
use crate::noun_count::noun_count;
use crate::session_args::{SessionArg, SessionPurpose};
use crate::summarizer_choice::SummarizerChoice;

/// Replace older messages of the context with a summary
///
/// The messages stay in the journal: `abide show` shows them, `abide context --at WHERE` shows what
/// the model saw, and `abide undo` undoes the compaction. A call is never split from its result;
/// pinned messages (`abide context --pin`) and the instructions at the beginning are kept. If no
/// summary is made, or it would not be shorter, the context is unchanged.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide compact --dry-run
  abide compact --keep 20 --over 80%
  abide compact --summarizer-cmd 'my-summarizer --short'
  abide compact --summarizer openai --model gpt-5-mini
  abide compact --list")]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Keep this many of the last messages, or more if a call would be split from its result
    #[arg(long, value_name = "N", default_value_t = abide::context::KEEP)]
    keep: usize,
    /// Compact only if the context exceeds this many tokens (100k) or this share of the model's
    /// window (80%)
    #[arg(long, value_name = "TOKENS|SHARE")]
    over: Option<Threshold>,
    /// Use this lane instead of the main lane
    #[arg(long, value_name = "LANE")]
    lane: Option<String>,
    /// Maximum length of the summary in tokens [default: a quarter of what it replaces, at most
    /// 4000]
    #[arg(long, value_name = "TOKENS")]
    most: Option<u64>,
    /// What makes the summary [default: that of your settings, else extractive]
    #[arg(long, value_enum)]
    summarizer: Option<SummarizerArg>,
    /// Command that makes the summary: it reads the messages as JSON lines and prints the summary
    #[arg(long, value_name = "COMMAND", conflicts_with = "summarizer")]
    summarizer_cmd: Option<String>,
    /// Model to request from an endpoint
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// URL of the endpoint [default: the provider's own]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The environment variable that holds the endpoint's key
    /// [default: OPENAI_API_KEY or ANTHROPIC_API_KEY]
    #[arg(long, value_name = "NAME")]
    key_variable: Option<String>,
    /// How long a command or an endpoint may take
    #[arg(long, value_name = "TIME", value_parser = crate::duration::duration)]
    timeout: Option<Duration>,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// List the compactions so far
    #[arg(long, conflicts_with_all = ["dry_run", "over", "summarizer_cmd"])]
    list: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SummarizerArg {
    /// Built in: extracts the goal, decisions, files, tasks, errors and the last state from the
    /// messages
    Extractive,
    /// An OpenAI-compatible endpoint
    Openai,
    /// Anthropic's endpoint
    Anthropic,
}

impl From<SummarizerArg> for SummarizerType {
    fn from(arg: SummarizerArg) -> Self {
        match arg {
            SummarizerArg::Extractive => Self::Extractive,
            SummarizerArg::Openai => Self::OpenAi,
            SummarizerArg::Anthropic => Self::Anthropic,
        }
    }
}

impl CompactArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::Write, &opened, surroundings)?;
        if self.list {
            let view = opened.store.view(&SessionRef::Id(id))?;
            return self.list(&view.compactions()?);
        }
        let choice = self.choice(surroundings)?;
        let summarizer = choice.summarizer().map_err(CommandError::failed)?;
        if self.dry_run {
            let view = opened.store.view(&SessionRef::Id(id))?;
            // Other summarizers may cost time and money: only the range is shown.
            let built_in = choice.is_built_in().then_some(&*summarizer);
            return self.plan(&view, built_in);
        }
        let session = opened.store.open_session(&SessionRef::Id(id))?;
        self.compact(&session, &*summarizer)?;
        Ok(session.close()?)
    }

    /// The summarizer of the options, else that of the user's settings.
    fn choice(&self, surroundings: &CommandContext) -> Result<SummarizerChoice, CommandError> {
        let mut choice = match (&self.summarizer_cmd, self.summarizer) {
            (None, None) => surroundings.context_config()?.into(),
            (command, by) => SummarizerChoice {
                by: by.map(SummarizerType::from).unwrap_or_default(),
                command: command.clone(),
                ..SummarizerChoice::default()
            },
        };
        choice.model = self.model.clone().or(choice.model);
        choice.url = self.url.clone().or(choice.url);
        choice.key_variable = self.key_variable.clone().or(choice.key_variable);
        choice.timeout = self.timeout;
        Ok(choice)
    }

    fn request(&self) -> CompactRequest {
        // The main lane has no name.
        let lane = self.lane.clone().filter(|lane| !lane.is_empty()).map(LaneId);
        CompactRequest { lane, keep: self.keep, most_tokens: self.most }
    }

    /// Shows what would be done, without locking the session.
    fn plan(&self, view: &SessionView, by: Option<&dyn Summarizer>) -> Result<(), CommandError> {
        let request = self.request();
        let context = view.context(request.lane.as_ref())?;
        if let Some(over) = self.over
            && !context.is_over(over).map_err(abide::Error::from)?
        {
            return self.nothing(over);
        }
        let made = match by {
            Some(by) => view.summarize(&context, &request, by)?,
            None => context.plan_compaction(self.keep).map_err(abide::Error::from)?,
        };
        self.tell(&made)
    }

    fn compact(&self, session: &Session, by: &dyn Summarizer) -> Result<(), CommandError> {
        let request = self.request();
        let made = match self.over {
            Some(over) => match session.compact_over(over, &request, by)? {
                Some(made) => made,
                None => return self.nothing(over),
            },
            None => session.compact(&request, by)?,
        };
        self.tell(&made)
    }

    fn nothing(&self, over: Threshold) -> Result<(), CommandError> {
        if self.json {
            let mut out = CommandOutput::stdout();
            out.json(r#"{"compacted":false}"#)?;
            return out.flush();
        }
        status(format_args!("Nothing to do: the context is not over {over}"));
        Ok(())
    }

    fn tell(&self, made: &CompactionResult) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        let one = &made.compaction;
        if self.json {
            let mut line = json!(one);
            if let Some(fields) = line.as_object_mut() {
                fields.insert("seq".to_owned(), json!(made.seq));
                fields.insert("covered".to_owned(), json!(made.covered));
                fields.insert("compacted".to_owned(), json!(made.seq.is_some()));
            }
            out.json(&line.to_string())?;
            return out.flush();
        }
        let how = one.tokens.map(|how| format!(" ({how})")).unwrap_or_default();
        let (first, last) = (one.first, one.last);
        let covered = made.covered;
        let kept = if one.keeps.is_empty() {
            String::new()
        } else {
            match one.keeps.len() {
                1 => "; 1 pinned event stays".to_owned(),
                count => format!("; {count} pinned events stay"),
            }
        };
        if made.seq.is_none() {
            out.line(format_args!(
                "Would cover {covered} of {}, @{first} to @{last}{kept}; {} now{how}",
                noun_count(one.before_messages, "message"),
                noun_count(one.before_tokens, "token")
            ))?;
        } else {
            out.line(format_args!(
                "Compacted {}, @{first} to @{last}{kept}",
                noun_count(covered, "message")
            ))?;
        }
        if !one.summary.is_empty() {
            out.line(format_args!(
                "Messages {} → {}, tokens {} → {}{how}; summary by {}",
                one.before_messages,
                one.after_messages,
                one.before_tokens,
                one.after_tokens,
                escape::text(&one.by)
            ))?;
            out.line("")?;
            out.line(escape::lines(&one.summary))?;
        }
        if made.seq.is_some() {
            status("`abide undo` undoes it; `abide show` shows all messages");
        }
        out.flush()
    }

    fn list(&self, entries: &[CompactionEntry]) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        for entry in entries {
            let one = &entry.compaction;
            if self.json {
                let mut line = json!(one);
                if let Some(fields) = line.as_object_mut() {
                    fields.insert("seq".to_owned(), json!(entry.seq));
                    fields.insert("at".to_owned(), json!(entry.at));
                    fields.insert("lane".to_owned(), json!(entry.lane));
                    fields.insert("undone".to_owned(), json!(entry.undone));
                }
                out.json(&line.to_string())?;
                continue;
            }
            let lane =
                entry.lane.as_ref().map(|lane| format!(" lane {}", escape::text(lane.as_str())));
            let undone = if entry.undone { ", undone" } else { "" };
            out.line(format_args!(
                "@{} {}{} @{} to @{}, messages {} → {}, tokens {} → {}, by {}{undone}",
                entry.seq,
                entry.at,
                lane.unwrap_or_default(),
                one.first,
                one.last,
                one.before_messages,
                one.after_messages,
                one.before_tokens,
                one.after_tokens,
                if one.by.is_empty() { "the agent".into() } else { escape::text(&one.by) },
            ))?;
        }
        if entries.is_empty() && !self.json {
            status("This session was never compacted");
        }
        out.flush()
    }
}
