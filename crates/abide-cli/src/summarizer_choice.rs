//! Which summarizer is used, and when contexts are compacted by themselves: by options, and by the
//! user's own settings. A project's settings name no summarizer.

use std::sync::Arc;
use std::time::Duration;

use abide::{
    context::{
        AutoCompaction, CompactionSettings, EndpointForm, ExtractiveSummarizer, Summarizer,
        SummarizerType, SummaryCommand, SummaryEndpoint, UserContextConfig,
    },
    locate::UserConfig,
};

use crate::command_context::CommandContext;
use crate::command_output::warning;
use crate::error::on_one_line;

/// A summarizer, and how it is reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct SummarizerChoice {
    pub(crate) by: SummarizerType,
    /// A command, in the place of `by`.
    pub(crate) command: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) url: Option<String>,
    pub(crate) key_variable: Option<String>,
    pub(crate) timeout: Option<Duration>,
}

impl From<UserContextConfig> for SummarizerChoice {
    fn from(config: UserContextConfig) -> Self {
        Self {
            by: config.summarizer.unwrap_or_default(),
            command: config.summarizer_cmd,
            model: config.model,
            url: config.url,
            key_variable: config.key_variable,
            timeout: None,
        }
    }
}

impl SummarizerChoice {
    /// Whether it is the built-in one, which costs nothing.
    pub(crate) fn is_built_in(&self) -> bool {
        self.command.is_none() && self.by == SummarizerType::Extractive
    }

    /// The summarizer, or why there is none.
    pub(crate) fn summarizer(&self) -> Result<Arc<dyn Summarizer>, &'static str> {
        let is_endpoint = self.command.is_none() && self.by != SummarizerType::Extractive;
        let for_endpoint = [&self.model, &self.url, &self.key_variable];
        if !is_endpoint && for_endpoint.iter().any(|option| option.is_some()) {
            return Err(
                "a model, a URL and a key variable need an endpoint: the summarizer openai or \
                anthropic",
            );
        }
        if let Some(command) = &self.command {
            let mut by = SummaryCommand::new(command);
            if let Some(timeout) = self.timeout {
                by = by.within(timeout);
            }
            return Ok(Arc::new(by));
        }
        let (form, base) = match self.by {
            SummarizerType::Extractive => return Ok(Arc::new(ExtractiveSummarizer)),
            SummarizerType::OpenAi => (EndpointForm::OpenAi, "https://api.openai.com/v1"),
            SummarizerType::Anthropic => (EndpointForm::Anthropic, "https://api.anthropic.com/v1"),
        };
        let Some(model) = &self.model else {
            return Err(
                "an endpoint needs a model: --model NAME, or `model` under [context] in your settings",
            );
        };
        let mut by = SummaryEndpoint::new(form, self.url.as_deref().unwrap_or(base), model);
        if let Some(name) = &self.key_variable {
            by = by.key_from(name);
        }
        if let Some(timeout) = self.timeout {
            by = by.answer_within(timeout);
        }
        Ok(Arc::new(by))
    }
}

impl CommandContext {
    /// `[context]` of the user's settings.
    pub(crate) fn context_config(&self) -> Result<UserContextConfig, abide::Error> {
        let read = self.person.config.as_deref().map(UserConfig::read).transpose()?;
        Ok(read.unwrap_or_default().context)
    }

    /// When contexts are compacted by themselves, and by whom; `asked` is `--compact-over`. Settings
    /// that cannot be used are a warning: what is recorded must not depend on them.
    pub(crate) fn compaction(&self, asked: Option<AutoCompaction>) -> Option<CompactionSettings> {
        if asked == Some(AutoCompaction::Off) {
            return None;
        }
        let config = self.context_config().map_err(|error| on_one_line(&error));
        let made = config.and_then(|config| {
            let usual = config.compact_over;
            let summarizer = SummarizerChoice::from(config).summarizer()?;
            Ok(CompactionSettings { asked, usual, summarizer })
        });
        made.inspect_err(|why| {
            warning(format_args!("contexts are not compacted automatically: {why}"));
        })
        .ok()
    }
}
