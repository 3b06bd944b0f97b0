//! Summaries: what takes the place of the beginning of a conversation that is too long.
//!
//! A [`Summarizer`] reads a context and gives a text. There are three: [`Extractive`] takes
//! sentences out of it and needs nothing; [`SummaryCommand`] asks any program;
//! `SummaryEndpoint` (with the feature `http`) asks a model. Whoever makes it, a summary has a
//! limit, and what it is made of is anybody's text: it is not trusted.

mod command;
#[cfg(feature = "http")]
mod endpoint;
mod extractive;
mod line;
#[cfg(test)]
mod sample;

pub use command::SummaryCommand;
#[cfg(feature = "http")]
pub use endpoint::{EndpointForm, SummaryEndpoint};
pub use extractive::Extractive;
pub use line::{LineCall, LineTask, SummaryLine};

use std::borrow::Cow;
use std::time::Duration;

use abide_model::{Context, TaskId, TaskStatus};
use abide_transcript::escape;

/// Bytes of text that count as one token.
const BYTES_A_TOKEN: u64 = 4;

/// Makes summaries.
pub trait Summarizer: Send + Sync {
    /// What a compaction says of who made it, such as `extractive` or `command: my-summarizer`.
    /// Never a key.
    fn name(&self) -> String;

    /// Summarizes.
    ///
    /// # Errors
    ///
    /// When there is no summary. Nothing of a failed one is given.
    fn summarize(&self, request: &SummaryRequest<'_>) -> Result<String, SummaryError>;
}

/// What is to be summarized.
#[derive(Debug, Clone, Copy)]
pub struct SummaryRequest<'a> {
    /// The conversation, an earlier summary included.
    pub context: &'a Context,
    /// The summary is to be no longer, at four bytes a token.
    pub most_tokens: u64,
    /// The tasks that are not done.
    pub tasks: &'a [OpenTask],
    /// Paths of files that were touched, the newest first; may be empty.
    pub files: &'a [String],
}

impl SummaryRequest<'_> {
    /// How many bytes the summary may have.
    fn most_bytes(&self) -> usize {
        usize::try_from(self.most_tokens.saturating_mul(BYTES_A_TOKEN)).unwrap_or(usize::MAX)
    }
}

/// A task that is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTask {
    /// Which.
    pub id: TaskId,
    /// What is to be done.
    pub title: String,
    /// How it stands.
    pub status: TaskStatus,
}

/// Why there is no summary.
///
/// What a program or a server said is in it in short, made harmless, and without the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SummaryError {
    /// No summary fits into nothing.
    #[error("a summary of no tokens was asked for")]
    NoRoom,
    /// The program could not be started, or its pipes failed.
    #[error("the summary command could not be run")]
    Command {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The program failed.
    #[error("the summary command failed with {status}{}", said(stderr))]
    Failed {
        /// How it ended.
        status: std::process::ExitStatus,
        /// The last lines it wrote to stderr.
        stderr: String,
    },
    /// It took too long.
    #[error("no summary came within {} s{}", after.as_secs_f32(), said(stderr))]
    TimeOut {
        /// How long it had.
        after: Duration,
        /// The last lines that a program wrote to stderr.
        stderr: String,
    },
    /// It gave too much.
    #[error("the answer is longer than {most_bytes} bytes")]
    TooLong {
        /// The limit.
        most_bytes: u64,
    },
    /// It gave something that is not text.
    #[error("the summary is not UTF-8")]
    NotText,
    /// It gave nothing.
    #[error("the summary is empty{}", said(stderr))]
    Empty {
        /// The last lines that a program wrote to stderr.
        stderr: String,
    },
    /// The variable with the key is not there.
    #[error("there is no key: the environment variable {variable} is not set")]
    NoKey {
        /// Its name.
        variable: String,
    },
    /// The address of the endpoint is none.
    #[error("the address of the summary endpoint is no http or https address")]
    Address,
    /// The server refused.
    #[error("the summary endpoint answered {status} (tries: {tries}){}", said(message))]
    Refused {
        /// With what status.
        status: u16,
        /// What it said.
        message: String,
        /// How often it was asked.
        tries: u32,
    },
    /// The server was not reached, or the connection broke.
    #[error("the summary endpoint could not be asked: {reason}")]
    Connection {
        /// Why.
        reason: String,
    },
    /// The server answered something else than its API says.
    #[error("the summary endpoint gave no answer of its API: {reason}")]
    Answer {
        /// What is wrong with it.
        reason: String,
    },
}

/// What somebody said, for the end of a message.
fn said(text: &str) -> Cow<'_, str> {
    if text.is_empty() { "".into() } else { format!(": {text}").into() }
}

/// The beginning of a text, as long as it may be in bytes, cut at a character.
fn beginning(text: &str, most_bytes: usize) -> &str {
    let end = (0..=most_bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or("")
}

/// A text on one line: white space as one space, control characters escaped, at most so many
/// bytes, with `…` where something is left out.
fn one_line(text: &str, most_bytes: usize) -> String {
    // Escapes only make it longer: what is far beyond the limit need not be looked at. White
    // space makes it shorter, of which a little is expected.
    let near = beginning(text, most_bytes.saturating_mul(4).saturating_add(64));
    let words: Vec<&str> = near.split_whitespace().collect();
    let line = escape::text(&words.join(" ")).into_owned();
    if line.len() <= most_bytes && near.len() == text.len() {
        return line;
    }
    let room = most_bytes.saturating_sub('…'.len_utf8());
    format!("{}…", beginning(&line, room).trim_end())
}

/// A summary that somebody else made, made harmless and as long as it may be. What is cut off is
/// counted.
fn fitted(text: &str, most_bytes: usize) -> String {
    let text = escape::lines(text.trim());
    if text.len() <= most_bytes {
        return text;
    }
    let note = |left: usize| format!("\n[{left} more bytes left out]");
    let kept = beginning(&text, most_bytes.saturating_sub(note(text.len()).len()));
    if kept.is_empty() {
        return beginning(&text, most_bytes).to_owned();
    }
    let note = note(text.len() - kept.len());
    kept.to_owned() + &note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_and_no_longer_than_it_may_be() {
        assert_eq!(one_line("  a\n\tb \u{1b}[2J ", 99), "a b \\u{1b}[2J");
        for most in 3..40 {
            let line = one_line("Grüße 世界\u{7}, und noch mehr davon, bis es zu viel ist", most);
            assert!(line.len() <= most, "{line:?} has more than {most} bytes");
            assert!(line.ends_with('…'), "{line:?}");
        }
        let blank = format!("a{}b", " ".repeat(100_000));
        assert!(one_line(&blank, 10).ends_with('…'), "what is not looked at is left out");
    }

    #[test]
    fn what_others_made_is_cut_and_what_is_cut_is_counted() {
        assert_eq!(fitted(" fine\n\tso \u{9b}\n", 99), "fine\n\tso \\u{9b}");
        let text = "ü".repeat(500);
        for most in 0..120 {
            assert!(fitted(&text, most).len() <= most);
        }
        assert_eq!(fitted(&text, 100).lines().last(), Some("[928 more bytes left out]"));
    }
}
