//! What a shell may complete an argument to: sessions by id and name, checkpoints by number and label.
//!
//! Completing asks nothing, waits for no server, and shows nothing on errors: what cannot be read has
//! no candidates. As any query it may bring the index up to date.

use abide::{HistoryQuery, SessionRef, locate::StoreLocation};
use abide_transcript::escape;
use clap_complete::CompletionCandidate;

use crate::command_context::CommandContext;
use crate::scoped_store::ScopedStore;

/// The variable by which a shell says that it asks for completions.
pub(crate) const COMPLETION_VARIABLE: &str = "ABIDE_COMPLETE";
/// How many sessions are offered.
const OFFERED: usize = 50;

/// The latest sessions in scope, by short id, with their names.
pub(crate) fn session_candidates() -> Vec<CompletionCandidate> {
    let Some(opened) = completed_store() else { return Vec::new() };
    let query = HistoryQuery { limit: Some(OFFERED), ..HistoryQuery::default() };
    let found = opened.store.history(&query).map(|found| found.entries).unwrap_or_default();
    let candidate = |entry: abide::history::HistoryEntry| {
        let name = entry.overview.name().unwrap_or_default();
        let name = escape::text(&name).into_owned();
        CompletionCandidate::new(entry.short).help(Some(name.into()))
    };
    found.into_iter().map(candidate).collect()
}

/// The checkpoints of the latest session that works here, newest first.
pub(crate) fn place_candidates() -> Vec<CompletionCandidate> {
    let context = CommandContext::of_completion();
    let Some((context, opened)) = context.zip(completed_store()) else { return Vec::new() };
    // As the command itself chooses.
    let session = match &context.session {
        Some(named) => opened.find_unnamed(named).ok(),
        None => opened.latest_in(&context).ok().flatten(),
    };
    let Some(session) = session else { return Vec::new() };
    let view = opened.store.view(&SessionRef::Id(session));
    let entries = view.and_then(|view| view.checkpoints()).unwrap_or_default();
    let candidate = |entry: abide::checkpoint::CheckpointEntry| {
        let label = entry.checkpoint.label.as_deref().unwrap_or_default();
        let label = escape::text(label).into_owned();
        CompletionCandidate::new(entry.number.to_string()).help(Some(label.into()))
    };
    entries.into_iter().rev().take(OFFERED).map(candidate).collect()
}

/// The store, if there is one that may be used without a question.
fn completed_store() -> Option<ScopedStore> {
    let context = CommandContext::of_completion()?;
    // A server may be far away or not there: a shell does not wait for it.
    let place = context.place_if_any().ok().flatten()?;
    if matches!(place.store, StoreLocation::Shared(_)) {
        return None;
    }
    context.find_store().ok().flatten()
}
