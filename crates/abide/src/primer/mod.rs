//! The primer: the text that tells an agent about a session it does not know.
//!
//! It is the compacted context of the session's main lane as plain text. If that is too long for
//! one prompt, the session is compacted first by the built-in summarizer: one event, which can be
//! undone like any compaction.

mod primer_writer;
#[cfg(test)]
mod tests;

pub(crate) use self::primer_writer::one_line;

use abide_model::{ContextEntry, Seq};

use self::primer_writer::PrimerWriter;
use crate::context::{
    CompactRequest, CompactionError, ExtractiveSummarizer, SessionContext, Tokenizer,
};
use crate::{Error, Session};

/// The most tokens of a primer, estimated.
const MOST_TOKENS: u64 = 24_000;
/// Tokens reserved for the last messages when the rest is summarized.
const KEPT_TOKENS: u64 = 14_000;
/// The least number of last messages that are kept.
const LEAST_KEPT: usize = 4;
/// The most characters of a message, unless the whole is too long.
const MESSAGE: usize = 40_000;
/// The least characters of a shortened message.
const LEAST_MESSAGE: usize = 200;

const WHOLE: &str = "What follows is the earlier conversation of this session, restored from its \
record because you have not seen it. Go on from where it ends: what was done in it is done and must \
not be done again, and the user's next message comes after it.";
const PART: &str = "What follows was said and done in this session after the part of it that you \
know, restored from its record. Go on from where it ends: what was done in it is done and must not \
be done again, and the user's next message comes after it.";
const END: &str = "This is the end of the earlier conversation.";

impl Session {
    /// The compacted context as text to put before a prompt, with what the session left
    /// [open](Self::open_work); `None` if there is nothing to tell. Call it before that prompt is
    /// recorded.
    pub fn primer(&self) -> Result<Option<String>, Error> {
        let text = self.conversation_for_primer(Seq::ZERO)?;
        let open = self.open_work()?;
        if text.is_empty() && open.is_empty() {
            return Ok(None);
        }
        Ok(Some(format!("{WHOLE}\n\n{text}{open}{END}\n")))
    }

    /// As [`primer`](Self::primer), for an agent that knows the session before event `first`: the
    /// primer starts at that event. `None` if nothing was said since.
    pub fn primer_since(&self, first: Seq) -> Result<Option<String>, Error> {
        let text = self.conversation_for_primer(first)?;
        if text.is_empty() {
            return Ok(None);
        }
        Ok(Some(format!("{PART}\n\n{text}{}{END}\n", self.open_work()?)))
    }

    /// The context from an event on, short enough for one prompt.
    fn conversation_for_primer(&self, first: Seq) -> Result<String, Error> {
        let mut context = self.context()?;
        let mut text = primer_conversation(&context, first, MESSAGE);
        if primer_tokens(&text) > MOST_TOKENS {
            let request = CompactRequest {
                keep: primer_messages_that_fit(&context, first),
                ..CompactRequest::default()
            };
            match self.compact(&request, &ExtractiveSummarizer) {
                Ok(_) => {
                    context = self.context()?;
                    text = primer_conversation(&context, first, MESSAGE);
                }
                // A few long messages, or a summary that would be longer: shorten the messages
                // instead.
                Err(Error::Compaction(
                    CompactionError::Nothing(_)
                    | CompactionError::Longer { .. }
                    | CompactionError::Summary { .. },
                )) => {}
                Err(error) => return Err(error),
            }
        }
        let mut most = MESSAGE;
        while primer_tokens(&text) > MOST_TOKENS && most > LEAST_MESSAGE {
            most /= 2;
            text = primer_conversation(&context, first, most);
        }
        // Thousands of small messages without a summary: drop the oldest.
        let most = usize::try_from(4 * MOST_TOKENS).unwrap_or(usize::MAX);
        Ok(end_of_primer(&text, most).to_owned())
    }
}

/// The entries of a context from an event on, each message cut to `most` characters.
fn primer_conversation(context: &SessionContext, first: Seq, most: usize) -> String {
    let mut telling = PrimerWriter::new(most);
    for entry in primer_entries_from(context, first) {
        telling.entry(entry);
    }
    telling.finish()
}

/// The entries from an event on. A summary that covers part of them is included.
fn primer_entries_from(
    context: &SessionContext,
    first: Seq,
) -> impl DoubleEndedIterator<Item = &ContextEntry> {
    let mut after = false;
    let mut entries = Vec::new();
    for entry in &context.context.entries {
        after = match entry {
            ContextEntry::Summary { seq, .. } => {
                let covering = context.lane.compactions.iter().find(|one| one.at == *seq);
                covering.is_none_or(|one| one.last >= first)
            }
            // An unknown outcome belongs to the call before it.
            ContextEntry::Unknown { .. } => after,
            ContextEntry::Message { seq, .. }
            | ContextEntry::Call { seq, .. }
            | ContextEntry::Result { seq, .. } => *seq >= first,
        };
        if after {
            entries.push(entry);
        }
    }
    entries.into_iter()
}

/// How many of the last messages fit.
fn primer_messages_that_fit(context: &SessionContext, first: Seq) -> usize {
    let mut left = KEPT_TOKENS;
    let fitting = primer_entries_from(context, first).rev().take_while(|entry| {
        let mut telling = PrimerWriter::new(MESSAGE);
        telling.entry(entry);
        let tokens = primer_tokens(&telling.finish());
        let fits = tokens <= left;
        left = left.saturating_sub(tokens);
        fits
    });
    fitting.count().max(LEAST_KEPT)
}

fn primer_tokens(text: &str) -> u64 {
    Tokenizer::estimate().text(text)
}

/// At most the last `most` bytes of a text, from the start of a line.
fn end_of_primer(text: &str, most: usize) -> &str {
    let from = text.len().saturating_sub(most);
    if from == 0 {
        return text;
    }
    let rest = (from..=text.len()).find_map(|at| text.get(at..)).unwrap_or_default();
    rest.split_once('\n').map_or(rest, |(_, lines)| lines)
}
