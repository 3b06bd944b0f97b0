//! Records what hooks left, before a command looks at the store.

use std::path::{Path, PathBuf};

use abide_hooks::{HookInbox, HookRecorder, HookTrace};

use crate::command_context::CommandContext;
use crate::error::CommandError;
use crate::scoped_store::ScopedStore;

/// Names the file of the trace.
pub(crate) const TRACE: &str = "ABIDE_HOOK_TRACE";

/// Records what hooks told before, imports what agents wrote since, and ends the turns of agents that are
/// gone. What cannot be done is left to the next time.
pub(crate) fn sweep_hooks(surroundings: &CommandContext, opened: &ScopedStore) {
    let Some(root) = opened.store.as_files().and(opened.store.root()) else { return };
    let inboxes = HookInbox::of_store(root);
    let trace = HookTrace { file: std::env::var_os(TRACE).map(PathBuf::from) };
    let _ = record_hooks(surroundings, opened, &trace, |recorder| {
        recorder.sweep(&inboxes);
        Ok(())
    });
}

/// Does something with the recorder of what hooks told.
pub(crate) fn record_hooks(
    surroundings: &CommandContext,
    opened: &ScopedStore,
    trace: &HookTrace,
    act: impl FnOnce(&HookRecorder<'_>) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let projects = surroundings.projects_of_import(opened);
    let finder = surroundings.source_finder();
    let project = |dir: &Path| projects.for_recording(dir).ok().map(|identity| identity.id);
    act(&HookRecorder { store: &opened.store, project: &project, finder: &finder, trace })
}
