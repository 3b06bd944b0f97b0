//! Asks before checks are run that tasks name: a task list may come from anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use abide::{Consent, Session, secrets::has_mark, tasks::TaskId};
use abide_runner::LeftoverWork;
use abide_transcript::escape;

use crate::command_output::{status, warning};
use crate::confirm::{confirm, on_terminal};
use crate::error::CommandError;

/// The checks of a session's tasks that the user has accepted: before, or now. Asks about those that
/// this run may need: of open tasks, of tasks with an open turn, and of all that these are parts of.
pub(super) fn accepted(
    session: &Session,
    directory: &Path,
    yes: bool,
) -> Result<BTreeSet<String>, CommandError> {
    let (view, consent) = (session.view(), session.store().consent());
    let tree = view.tasks()?;
    let turns = LeftoverWork::of(&session.state()?).turn_tasks(view)?;
    let under_way: BTreeSet<TaskId> = turns.into_values().collect();
    let open = tree.walk(None).map(|(node, _)| node);
    let open = open.filter(|node| !node.is_done() || under_way.contains(&node.id));
    let above = open.flat_map(|node| tree.ancestry(node.id.as_str()));
    let needed: BTreeSet<&TaskId> = above.map(|node| &node.id).collect();
    let mut checks: BTreeMap<String, TaskId> = BTreeMap::new();
    let mut others = BTreeSet::new();
    for (node, _) in tree.walk(None) {
        match view.check_of(node)? {
            Some(check) if needed.contains(&node.id) => {
                checks.entry(check).or_insert_with(|| node.id.clone());
            }
            Some(check) => {
                others.insert(check);
            }
            None => {}
        }
    }
    if let Some((_, task)) = checks.iter().find(|(check, _)| has_mark(check)) {
        let task = escape::text(task.as_str());
        return Err(CommandError::failed(format!(
            "the check of task {task} had a secret in it, which was not recorded; nothing was \
             started"
        ))
        .with_hint(
            "put the secret into an environment variable, and name that in the check: in the plan, \
             or with `abide tasks set ID --check COMMAND`",
        ));
    }
    let new = checks.iter().filter(|(check, _)| !consent.is_command_accepted(directory, check));
    let new: Vec<_> = new.collect();
    if !new.is_empty() {
        let shown = directory.to_string_lossy();
        status(format_args!(
            "The tasks have checks that you have not accepted in {}:",
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
    others.retain(|check| !has_mark(check) && consent.is_command_accepted(directory, check));
    others.extend(checks.into_keys());
    Ok(others)
}

/// Refuses the check of a run if it is what was recorded of one with a secret.
pub(super) fn refuse_marked(check: Option<&str>) -> Result<(), CommandError> {
    if !check.is_some_and(has_mark) {
        return Ok(());
    }
    Err(CommandError::failed(
        "the check of the last run had a secret in it, which was not recorded; nothing was started",
    )
    .with_hint("give it again: --check COMMAND"))
}

/// The recorded check of a run that was begun elsewhere, which was shown, if the user accepts it:
/// before, or now. Where nobody can be asked it is left out.
pub(crate) fn accepted_check(
    consent: &Consent,
    directory: &Path,
    recorded: Option<String>,
    yes: bool,
) -> Result<Option<String>, CommandError> {
    let Some(check) = recorded else { return Ok(None) };
    if consent.is_command_accepted(directory, &check) {
        return Ok(Some(check));
    }
    if !yes && !on_terminal() {
        warning(
            "the recorded check is left out: there is no terminal to ask on; `--yes` accepts it, \
             `--check` gives another",
        );
        return Ok(None);
    }
    confirm("Run the recorded check too?", yes, None)?;
    consent.accept_command(directory, &check)?;
    Ok(Some(check))
}
