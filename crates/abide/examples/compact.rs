//! Compacts a context that has grown too long: a summary replaces all but the last messages. The
//! extractive summarizer needs no model. Nothing is lost: the journal keeps every event, and a
//! compaction can be undone.

#![allow(clippy::print_stdout)]

use std::error::Error;

use abide::context::{CompactRequest, ExtractiveSummarizer, Threshold};
use abide::{Message, NewSession, Store};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let project = tempfile::tempdir()?;
    let session = Store::open_or_init(project.path())?.create(NewSession::titled("Long"))?;
    let rule = session.append(Message::user("Never touch the directory `vendor`."))?.wait()?;
    let mut steps = Vec::new();
    for step in 1..=50 {
        let look = "I looked at it again and found nothing. ".repeat(5);
        steps.push(Message::user(format!("Do step {step}.")).try_into()?);
        steps.push(Message::assistant(format!("Step {step} is done. {look}")).try_into()?);
    }
    session.append_all(steps)?.wait()?;

    // What must stay word for word is pinned.
    let rule = rule.first().ok_or("one event was appended")?.seq;
    session.pin(None, rule)?;

    let over: Threshold = "2k".parse()?;
    let request = CompactRequest { keep: 6, ..CompactRequest::default() };
    let made = session
        .compact_over(over, &request, &ExtractiveSummarizer)?
        .ok_or("the context is over the threshold")?;
    let compaction = &made.compaction;
    println!("covered {} messages", made.covered);
    println!("tokens: {} before, {} after", compaction.before_tokens, compaction.after_tokens);
    println!("summary:\n{}", compaction.summary);
    assert!(compaction.after_tokens < compaction.before_tokens);
    let context = session.context()?.context;
    assert_eq!(context.entries.len(), 8, "the rule, the summary and six messages");
    assert!(context.entries.iter().any(|entry| entry.seq() == Some(rule)));

    session.undo_compaction(None)?;
    assert_eq!(session.context()?.len(), 101);
    println!("undone: 101 messages again");
    Ok(session.close()?)
}
