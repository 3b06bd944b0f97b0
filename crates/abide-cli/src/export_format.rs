//! The formats that a session is exported in.

use std::path::Path;

use abide::MessageForm;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExportFormat {
    /// {"session":{…},"events":[…]}
    Json,
    /// {"seq":…,"at":…,"kind":…,"data":{…}}, one a line
    Jsonl,
    /// Readable text from which every event can be read back
    Transcript,
    /// Markdown without rewound events, as in html
    #[value(alias = "md")]
    Markdown,
    /// One self-contained page without scripts
    Html,
    /// One file with the session and all its objects, for `abide import`
    Bundle,
    /// The agent's own files that the session was imported from, byte for byte but for marks in the place of
    /// secrets; several are written into the directory -o
    Source,
    /// Messages for OpenAI's Chat Completions, one per line; as in responses and anthropic, rewound
    /// messages are left out and compacted ones are not
    Openai,
    /// Messages as items of OpenAI's Responses, one per line
    Responses,
    /// Messages for Anthropic's Messages, one per line
    Anthropic,
}

impl ExportFormat {
    /// As the name of a file says it.
    pub(crate) fn of_name(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "html" | "htm" => Some(Self::Html),
            "md" | "markdown" => Some(Self::Markdown),
            "json" => Some(Self::Json),
            "abide" => Some(Self::Bundle),
            _ => None,
        }
    }

    /// The message format, if it is one.
    pub(crate) const fn form(self) -> Option<MessageForm> {
        match self {
            Self::Openai => Some(MessageForm::OpenAi),
            Self::Responses => Some(MessageForm::Responses),
            Self::Anthropic => Some(MessageForm::Anthropic),
            _ => None,
        }
    }
}
