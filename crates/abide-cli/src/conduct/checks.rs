//! Asks before checks are run that tasks name: a task list may come from anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use abide::{Session, tasks::TaskId};
use abide_transcript::escape;

use crate::confirm::{confirm, on_terminal};
use crate::error::CommandError;
use crate::output::status;

/// The checks of a session's open tasks, all of them accepted by the user: before, or now.
pub(super) fn accepted(
    session: &Session,
    directory: &Path,
    yes: bool,
) -> Result<BTreeSet<String>, CommandError> {
    let (view, consent) = (session.view(), session.store().consent());
    let tree = view.tasks()?;
    let mut checks: BTreeMap<String, TaskId> = BTreeMap::new();
    for (node, _) in tree.walk(None).filter(|(node, _)| !node.is_done()) {
        if let Some(check) = view.check_of(node)? {
            checks.entry(check).or_insert_with(|| node.id.clone());
        }
    }
    let new = checks.iter().filter(|(check, _)| !consent.is_command_accepted(directory, check));
    let new: Vec<_> = new.collect();
    if !new.is_empty() {
        let shown = directory.to_string_lossy();
        status(format_args!(
            "The tasks name checks that you have not accepted in {}:",
            escape::text(&shown)
        ));
        for (check, task) in &new {
            status(format_args!("  {}  {}", escape::text(task.as_str()), escape::text(check)));
        }
        if !yes && !on_terminal() {
            return Err(CommandError::failed(
                "there is no terminal to ask on; nothing was started",
            )
            .with_hint("`--yes` accepts the checks as they are shown"));
        }
        confirm("Run them?", yes, None)?;
        for (check, _) in new {
            consent.accept_command(directory, check)?;
        }
    }
    Ok(checks.into_keys().collect())
}
