//! The primer: the text that tells an agent about a session it does not know.
//!
//! It is the compacted context of the session's main lane as plain text. If that is too long for
//! one prompt, the session is compacted first by the built-in summarizer: one event, which can be
//! undone like any compaction.

mod said;
#[cfg(test)]
mod tests;

use abide::{
    Error, Seq, Session, TaskStatus,
    context::{
        CompactRequest, CompactionError, ContextEntry, ExtractiveSummarizer, SessionContext,
        Tokenizer,
    },
    tasks::TaskState,
};

use self::said::PrimerWriter;

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
/// The most open tasks listed.
const TASKS: usize = 50;
/// The most characters of a task's title.
const TITLE: usize = 200;

const WHOLE: &str = "What follows is the earlier conversation of this session, restored from its \
record because you have not seen it. Go on from where it ends: what was done in it is done and must \
not be done again, and the user's next message comes after it.";
const PART: &str = "What follows was said and done in this session after the part of it that you \
know, restored from its record. Go on from where it ends: what was done in it is done and must not \
be done again, and the user's next message comes after it.";
const END: &str = "This is the end of the earlier conversation.";

/// The compacted context of a session as text to put before a prompt; `None` if there is nothing to
/// tell. Call it before that prompt is recorded.
pub fn primer(session: &Session) -> Result<Option<String>, Error> {
    told(session, Seq::ZERO, WHOLE)
}

/// As [`primer`], for an agent that knows the session before event `first`: the primer starts at
/// that event.
pub fn primer_since(session: &Session, first: Seq) -> Result<Option<String>, Error> {
    told(session, first, PART)
}

fn told(session: &Session, first: Seq, opening: &str) -> Result<Option<String>, Error> {
    let mut context = session.context()?;
    let mut text = conversation(&context, first, MESSAGE);
    if text.is_empty() {
        return Ok(None);
    }
    if tokens(&text) > MOST_TOKENS {
        let request = CompactRequest { keep: keep(&context, first), ..CompactRequest::default() };
        match session.compact(&request, &ExtractiveSummarizer) {
            Ok(_) => {
                context = session.context()?;
                text = conversation(&context, first, MESSAGE);
            }
            // A few long messages, or a summary that would be longer: shorten the messages instead.
            Err(Error::Compaction(
                CompactionError::Nothing(_)
                | CompactionError::Longer { .. }
                | CompactionError::Summary { .. },
            )) => {}
            Err(error) => return Err(error),
        }
    }
    let mut most = MESSAGE;
    while tokens(&text) > MOST_TOKENS && most > LEAST_MESSAGE {
        most /= 2;
        text = conversation(&context, first, most);
    }
    // Thousands of small messages without a summary: drop the oldest.
    let text = end_of(&text, usize::try_from(4 * MOST_TOKENS).unwrap_or(usize::MAX));
    let tasks = open_tasks(session)?;
    Ok(Some(format!("{opening}\n\n{text}{tasks}{END}\n")))
}

/// The entries of a context from an event on, each message cut to `most` characters.
fn conversation(context: &SessionContext, first: Seq, most: usize) -> String {
    let mut telling = PrimerWriter::new(most);
    for entry in from(context, first) {
        telling.entry(entry);
    }
    telling.finish()
}

/// The entries from an event on. A summary that covers part of them is included.
fn from(context: &SessionContext, first: Seq) -> impl DoubleEndedIterator<Item = &ContextEntry> {
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
fn keep(context: &SessionContext, first: Seq) -> usize {
    let mut left = KEPT_TOKENS;
    let fitting = from(context, first).rev().take_while(|entry| {
        let mut telling = PrimerWriter::new(MESSAGE);
        telling.entry(entry);
        let tokens = tokens(&telling.finish());
        let fits = tokens <= left;
        left = left.saturating_sub(tokens);
        fits
    });
    fitting.count().max(LEAST_KEPT)
}

fn tokens(text: &str) -> u64 {
    Tokenizer::estimate().text(text)
}

/// The open tasks, in order.
fn open_tasks(session: &Session) -> Result<String, Error> {
    let state = session.state()?;
    let open = state.tasks.iter().filter(|(_, task)| task.known && !task.status.is_done());
    let mut open: Vec<(&str, &TaskState)> = open.collect();
    if open.is_empty() {
        return Ok(String::new());
    }
    open.sort_unstable_by_key(|(_, task)| task.order);
    let mut text = "Tasks that are open:\n".to_owned();
    for (id, task) in open.iter().take(TASKS) {
        let title = if task.title.is_empty() { id } else { task.title.as_str() };
        let status = match task.status {
            TaskStatus::Planned => String::new(),
            status => format!(" ({})", status.as_str()),
        };
        text.push_str(&format!("- {}{status}\n", said::one_line(title, TITLE)));
    }
    if open.len() > TASKS {
        text.push_str(&format!("- … and {} more\n", open.len() - TASKS));
    }
    text.push('\n');
    Ok(text)
}

/// At most the last `most` bytes of a text, from the start of a line.
fn end_of(text: &str, most: usize) -> &str {
    let from = text.len().saturating_sub(most);
    if from == 0 {
        return text;
    }
    let rest = (from..=text.len()).find_map(|at| text.get(at..)).unwrap_or_default();
    rest.split_once('\n').map_or(rest, |(_, lines)| lines)
}
