//! Summaries, which replace the beginning of a conversation that has become too long.
//!
//! A [`Summarizer`] turns a context into a text. There are three: [`ExtractiveSummarizer`] takes sentences
//! from the conversation and needs nothing else; [`SummaryCommand`] runs a program;
//! `SummaryEndpoint` (with the feature `http`) asks a model. Every summary has a size limit, and
//! its content is untrusted.

mod command;
#[cfg(feature = "http")]
mod endpoint;
mod extractive;
#[cfg(test)]
mod sample;
mod summary_line;

pub use command::SummaryCommand;
#[cfg(feature = "http")]
pub use endpoint::{EndpointForm, SummaryEndpoint};
pub use extractive::ExtractiveSummarizer;
pub use summary_line::{LineCall, LineTask, SummaryLine};

use std::borrow::Cow;
use std::time::Duration;

use abide_model::{Context, TaskId, TaskStatus};
use abide_transcript::escape;

/// Bytes of text per token.
const BYTES_A_TOKEN: u64 = 4;

/// Makes summaries.
pub trait Summarizer: Send + Sync {
    /// The author recorded in a compaction, such as `extractive` or `command: my-summarizer`. Must
    /// not contain a key.
    fn name(&self) -> String;

    /// Summarizes.
    ///
    /// # Errors
    ///
    /// No summary could be made. Nothing of a failed attempt is returned.
    fn summarize(&self, request: &SummaryRequest<'_>) -> Result<String, SummaryError>;
}

/// What to summarize.
#[derive(Debug, Clone, Copy)]
pub struct SummaryRequest<'a> {
    /// The conversation, including an earlier summary.
    pub context: &'a Context,
    /// Maximum number of tokens in the summary, at four bytes per token.
    pub most_tokens: u64,
    /// The open tasks.
    pub tasks: &'a [OpenTask],
    /// Files that were touched, newest first; may be empty.
    pub files: &'a [String],
}

impl SummaryRequest<'_> {
    /// Maximum size of the summary in bytes.
    fn most_bytes(&self) -> usize {
        usize::try_from(self.most_tokens.saturating_mul(BYTES_A_TOKEN)).unwrap_or(usize::MAX)
    }
}

/// An open task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTask {
    /// Its id.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: TaskStatus,
}

/// Why no summary was made.
///
/// Messages of a program or server are shortened, escaped and stripped of the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SummaryError {
    /// The token limit is zero.
    #[error("the token limit of the summary is zero")]
    NoRoom,
    /// The program could not be started, or its pipes failed.
    #[error("cannot run the summary command")]
    Command {
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The program failed.
    #[error("the summary command failed with {status}{}", quoted_summary_message(stderr))]
    Failed {
        /// Its exit status.
        status: std::process::ExitStatus,
        /// The last lines of its stderr.
        stderr: String,
    },
    /// The time limit was exceeded.
    #[error("no summary came within {} s{}", after.as_secs_f32(), quoted_summary_message(stderr))]
    TimeOut {
        /// The time limit.
        after: Duration,
        /// The last lines of the program's stderr.
        stderr: String,
    },
    /// The output is too large.
    #[error("the answer is longer than {most_bytes} bytes")]
    TooLong {
        /// The limit.
        most_bytes: u64,
    },
    /// The output is not UTF-8.
    #[error("the summary is not UTF-8")]
    NotText,
    /// The output is empty.
    #[error("the summary is empty{}", quoted_summary_message(stderr))]
    Empty {
        /// The last lines of the program's stderr.
        stderr: String,
    },
    /// The environment variable with the key is not set.
    #[error("there is no key: the environment variable {variable} is not set")]
    NoKey {
        /// The variable.
        variable: String,
    },
    /// The address of the endpoint is invalid.
    #[error("the address of the summary endpoint is not an http or https URL")]
    Address,
    /// The server returned an error.
    #[error(
        "the summary endpoint answered {status} (tries: {tries}){}",
        quoted_summary_message(message)
    )]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The server's message.
        message: String,
        /// The number of attempts.
        tries: u32,
    },
    /// The server could not be reached, or the connection broke.
    #[error("cannot reach the summary endpoint: {reason}")]
    Connection {
        /// The cause.
        reason: String,
    },
    /// The response does not match the API.
    #[error("unexpected answer from the summary endpoint: {reason}")]
    Answer {
        /// What is wrong with it.
        reason: String,
    },
}

/// A quoted message, to append to an error.
fn quoted_summary_message(text: &str) -> Cow<'_, str> {
    if text.is_empty() { "".into() } else { format!(": {text}").into() }
}

/// The first `most_bytes` bytes of a text at most, cut at a character boundary.
fn beginning_of_summary(text: &str, most_bytes: usize) -> &str {
    let end = (0..=most_bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or("")
}

/// A text on one line: white space collapsed, control characters escaped, at most `most_bytes`
/// bytes, with `…` if it was cut.
fn summary_on_one_line(text: &str, most_bytes: usize) -> String {
    // Escaping only makes it longer, so what is far beyond the limit can be skipped. Collapsing
    // white space makes it shorter; allow for a little of that.
    let near = beginning_of_summary(text, most_bytes.saturating_mul(4).saturating_add(64));
    let words: Vec<&str> = near.split_whitespace().collect();
    let line = escape::text(&words.join(" ")).into_owned();
    if line.len() <= most_bytes && near.len() == text.len() {
        return line;
    }
    let room = most_bytes.saturating_sub('…'.len_utf8());
    format!("{}…", beginning_of_summary(&line, room).trim_end())
}

/// A foreign summary, escaped and cut to the limit. The number of bytes cut is stated.
fn fitted_summary(text: &str, most_bytes: usize) -> String {
    let text = escape::lines(text.trim());
    if text.len() <= most_bytes {
        return text;
    }
    let note = |left: usize| format!("\n[{left} more bytes left out]");
    let kept = beginning_of_summary(&text, most_bytes.saturating_sub(note(text.len()).len()));
    if kept.is_empty() {
        return beginning_of_summary(&text, most_bytes).to_owned();
    }
    let note = note(text.len() - kept.len());
    kept.to_owned() + &note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_and_no_longer_than_it_may_be() {
        assert_eq!(summary_on_one_line("  a\n\tb \u{1b}[2J ", 99), "a b \\u{1b}[2J");
        for most in 3..40 {
            let line = summary_on_one_line(
                "Grüße 世界\u{7}, und noch mehr davon, bis es zu viel ist",
                most,
            );
            assert!(line.len() <= most, "{line:?} has more than {most} bytes");
            assert!(line.ends_with('…'), "{line:?}");
        }
        let blank = format!("a{}b", " ".repeat(100_000));
        assert!(
            summary_on_one_line(&blank, 10).ends_with('…'),
            "what is not looked at is left out"
        );
    }

    #[test]
    fn what_others_made_is_cut_and_what_is_cut_is_counted() {
        assert_eq!(fitted_summary(" fine\n\tso \u{9b}\n", 99), "fine\n\tso \\u{9b}");
        let text = "ü".repeat(500);
        for most in 0..120 {
            assert!(fitted_summary(&text, most).len() <= most);
        }
        assert_eq!(fitted_summary(&text, 100).lines().last(), Some("[928 more bytes left out]"));
    }
}
