//! What the journal knows of a task: what is to be done, and what was done of it so far.

use std::collections::HashSet;

use abide::{
    Context, Entry, Event, EventRange, Extractive, Fact, Kind, Part, Seq, Session, Summarizer,
    SummaryRequest, TaskId, TaskNode, TaskStatus, Usage, read_message,
};

use crate::RunError;
use crate::prompt::Told;

/// The most events that an account is made of.
const EVENTS: usize = 2000;
/// The most tokens of it.
const TOKENS: u64 = 2500;
/// So far back it is looked for a task's last attempt.
const LOOK: usize = 20_000;

/// What is to be done, at length, and the documents that belong to it.
pub(crate) fn told(session: &Session, node: &TaskNode) -> Result<Told, RunError> {
    let mut told = Told::default();
    if let Some(seq) = node.details {
        told.details = match event(session, seq)?.and_then(|event| event.fact().ok()) {
            Some(Fact::TaskCreated(fact)) => fact.details,
            Some(Fact::TaskChanged(fact)) => fact.details,
            _ => None,
        };
    }
    if let Some(seq) = node.documents {
        told.documents = match event(session, seq)?.and_then(|event| event.fact().ok()) {
            Some(Fact::TaskCreated(fact)) => fact.documents,
            Some(Fact::TaskChanged(fact)) => fact.documents.unwrap_or_default(),
            _ => Vec::new(),
        };
    }
    Ok(told)
}

fn event(session: &Session, seq: Seq) -> Result<Option<Event>, RunError> {
    let range = EventRange { first: seq, last: seq, ..EventRange::ALL };
    Ok(session.view().page(range)?.events.pop())
}

/// Why the last attempt at a task failed, as far as it is known.
pub(crate) fn last_failure(session: &Session, task: &TaskId) -> Result<Option<String>, RunError> {
    for event in session.view().events(EventRange::ALL.backward()).take(LOOK) {
        let event = event?;
        if event.kind == Kind::TASK_STATUS
            && let Ok(Fact::TaskStatus(fact)) = event.fact()
            && fact.task == *task
            && fact.status == TaskStatus::Failed
        {
            return Ok(fact.reason);
        }
    }
    Ok(None)
}

/// What was recorded of the usage of the agent's own session, over all that worked in it.
pub(crate) fn used(session: &Session, task: &TaskId, own: &str) -> Result<Usage, RunError> {
    let mut used = Usage::default();
    for event in session.view().events(EventRange::ALL.backward()).take(LOOK) {
        let event = event?;
        if event.task.as_ref() != Some(task) {
            continue;
        }
        match event.fact() {
            Ok(Fact::Usage(fact)) => used.add(&fact.usage),
            // Before that it was another one.
            Ok(Fact::AgentObserved(seen)) if seen.session.as_deref().is_some_and(|s| s != own) => {
                break;
            }
            _ => {}
        }
    }
    Ok(used)
}

/// What was done of a task so far, in short; none where nothing was said.
pub(crate) fn account(session: &Session, task: &TaskId) -> Result<Option<String>, RunError> {
    let mut entries = Vec::new();
    let mut files = Vec::new();
    let backward = EventRange::ALL.backward();
    for event in session.view().events(backward).take(LOOK) {
        let event = event?;
        if event.task.as_ref() != Some(task) {
            continue;
        }
        if event.kind == Kind::FILE_TOUCHED {
            if let Ok(Fact::FileTouched(fact)) = event.fact() {
                files.push(fact.path);
            }
        } else if event.kind == Kind::TOOL_CALLED || event.kind == Kind::TOOL_FINISHED {
            entries.extend(executed(&event));
        } else if event.kind == Kind::MESSAGE_ADDED
            && let Some(data) = event.data
        {
            // The task itself is told anyway.
            if !data.field("role").is_some_and(|role| role == "\"user\"" && is_text(&data)) {
                entries.push(Entry::Message { seq: event.seq, data });
            }
        } else if event.kind == Kind::TASK_CREATED {
            break;
        }
        if entries.len() >= EVENTS {
            break;
        }
    }
    if entries.is_empty() {
        return Ok(None);
    }
    entries.reverse();
    each_call_once(&mut entries);
    files.dedup();
    let context = Context { lane: None, entries };
    let request =
        SummaryRequest { context: &context, most_tokens: TOKENS, tasks: &[], files: &files };
    Ok(Extractive.summarize(&request).ok().filter(|account| !account.trim().is_empty()))
}

/// A call or its result, as it was executed.
fn executed(event: &Event) -> Option<Entry> {
    let (seq, data) = (event.seq, event.data.clone()?);
    match event.fact().ok()? {
        Fact::ToolCall(fact) => Some(Entry::Call { seq, call: fact.call, data }),
        Fact::ToolResult(fact) => {
            Some(Entry::Result { seq, call: fact.call, data, executed: true })
        }
        _ => None,
    }
}

/// Leaves out the calls that a message holds.
fn each_call_once(entries: &mut Vec<Entry>) {
    let held: HashSet<String> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Message { data, .. } => read_message(data),
            _ => None,
        })
        .flat_map(|said| said.parts)
        .filter_map(|part| match part {
            Part::Call(call) => Some(call.id),
            _ => None,
        })
        .collect();
    entries.retain(|entry| match entry {
        Entry::Call { call, .. } => !held.contains(call.as_str()),
        _ => true,
    });
}

/// Is its content plain text, as the prompts are?
fn is_text(data: &abide::Payload) -> bool {
    data.field("content").is_some_and(|content| content.starts_with('"'))
}
