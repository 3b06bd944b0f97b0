//! The plan of a rewind and what came of it, as text and as JSON.

use std::cmp::Ordering;

use abide::workspace::{
    ChangeKind, ChangedPath, RestoreAction, RestorePlan, RestoreReport, is_secret_file_name, stat,
};
use abide::{
    Seq,
    backend::Objects,
    checkpoint::{CheckpointEntry, FinishPlan, GitComparison, RewindPlan, Trigger},
    event::GitState,
};
use abide_transcript::escape;

use crate::command_output::{shown, warning};
use crate::error::CommandError;
use crate::noun_count::noun_count;
use crate::shell_word::shell_quoted;
use crate::typed_time::time_ago;

/// How many paths are listed.
pub(crate) const LISTED: usize = 100;
/// How many lines of a preview fit on a screen.
const SCREEN: usize = 20;
/// The width to which paths are aligned; longer ones stand out.
const WIDEST: usize = 60;
/// How many paths are named in a command.
const UNSTAGED: usize = 10;

/// An error if nothing can be done for a named path.
pub(crate) fn rewind_untouched_error(plan: &RewindPlan) -> Option<CommandError> {
    let named = |path: &[u8]| plan.rewind.paths.iter().any(|named| named.as_bytes() == path);
    let kept = plan.files.kept.iter().filter(|kept| named(&kept.path)).take(LISTED);
    let kept: Vec<_> =
        kept.map(|kept| format!("{} is left unchanged: {}", shown(&kept.path), kept.why)).collect();
    (!kept.is_empty()).then(|| CommandError::failed(kept.join("; ")))
}

/// A checkpoint, for display.
pub(crate) fn checkpoint_in_report(entry: &CheckpointEntry) -> String {
    let label = entry.checkpoint.label.as_deref();
    let label = label.map(|label| format!(" {:?}", escape::text(label))).unwrap_or_default();
    format!("checkpoint {}{label} ({})", entry.number, time_ago(entry.at, jiff::Timestamp::now()))
}

/// How far the files are from the requested point, if they are not exactly its own.
fn rewind_distance(entry: &CheckpointEntry, to: Seq) -> Option<String> {
    let (away, side) = match entry.seq.0.cmp(&to.0) {
        Ordering::Less => (to.0 - entry.seq.0, "before"),
        Ordering::Equal => return None,
        Ordering::Greater => (entry.seq.0 - to.0, "after"),
    };
    let events = if away == 1 { "event" } else { "events" };
    Some(format!(
        "Files are those of {}, {away} {events} {side} that place",
        checkpoint_in_report(entry)
    ))
}

/// Paths and reasons, as JSON.
pub(crate) fn report_path_reasons(paths: &[(Vec<u8>, String)]) -> Vec<serde_json::Value> {
    let pair = |(path, why): &(Vec<u8>, String)| serde_json::json!({"path": String::from_utf8_lossy(path), "why": why});
    paths.iter().map(pair).collect()
}

/// Reports what was left unchanged; a file that could not be restored is an error. `inverse` is the
/// command that takes it back.
pub(crate) fn report_files_left(files: &RestoreReport, inverse: &str) -> Result<(), CommandError> {
    for (path, why) in files.kept.iter().take(LISTED) {
        warning(format_args!("{} was left as it is: {why}", shown(path)));
    }
    if files.failed.is_empty() {
        return Ok(());
    }
    for (path, why) in files.failed.iter().take(LISTED) {
        warning(format_args!("{} could not be restored: {why}", shown(path)));
    }
    Err(CommandError::failed(format!(
        "{} could not be restored",
        noun_count(files.failed.len(), "file")
    ))
    .with_hint(format!("`{inverse}` undoes what was done")))
}

/// Where a checkpoint stands to the prompt that it is named by: one that is made at the prompt has the files
/// from before the work on it.
pub(crate) fn checkpoint_place(entry: &CheckpointEntry, subject: &str) -> String {
    let is_before = entry.checkpoint.trigger == Trigger::Prompt.as_str();
    let word = if is_before { "before" } else { "after" };
    format!("{word} \"{}\"", escape::text(subject))
}

/// A checkpoint, for display, with what it follows if it has no label.
pub(crate) fn named_checkpoint(entry: &CheckpointEntry, follows: Option<&str>) -> String {
    match follows.filter(|_| entry.checkpoint.label.is_none()) {
        Some(subject) => format!(
            "checkpoint {} {} ({})",
            entry.number,
            checkpoint_place(entry, subject),
            time_ago(entry.at, jiff::Timestamp::now())
        ),
        None => checkpoint_in_report(entry),
    }
}

/// The plan of a rewind, for people. `changes` are those of the plan.
pub(crate) fn rewind_report_lines(
    plan: &RewindPlan,
    changes: &[ChangedPath],
    heading: &str,
    to: Option<Seq>,
) -> Vec<String> {
    let mut lines = vec![format!("Back to {heading}")];
    let (events, messages) = plan.left;
    if events > 0 {
        let among = match messages {
            0 => String::new(),
            messages => format!(", {} among them", noun_count(messages, "message")),
        };
        let them = if events == 1 { "it" } else { "them" };
        lines.push(format!(
            "Conversation: {} taken back{among}; `abide show --all` still shows {them}",
            noun_count(events, "event")
        ));
    }
    if !plan.rewind.files {
        return lines;
    }
    let elsewhere =
        plan.checkpoint.as_ref().zip(to).and_then(|(entry, to)| rewind_distance(entry, to));
    lines.extend(elsewhere);
    let root = plan.rewind.workspace.as_deref().unwrap_or_default();
    lines.push(format!("Files in {}:", escape::text(root)));
    lines.extend(report_changes_told(changes, plan.objects()));
    lines.extend(report_kept_told(&plan.files));
    if let Some(git) = &plan.git {
        lines.extend(head_move_told(git));
        lines.extend(unstaged_told(git, &plan.unstaged()));
    }
    lines
}

/// The groups of a preview, in the order in which they are shown.
const GROUPS: [&[&str]; 4] = [&["create"], &["change", "chmod"], &["delete"], &["rename"]];

const fn change_word(change: &ChangeKind) -> &'static str {
    match change {
        ChangeKind::Created => "create",
        ChangeKind::Modified | ChangeKind::KindChanged => "change",
        ChangeKind::ModeChanged => "chmod",
        ChangeKind::Deleted => "delete",
        ChangeKind::Renamed { .. } => "rename",
    }
}

/// A changed path, for display, and what is done to it.
pub(crate) fn change_told(changed: &ChangedPath) -> String {
    let path = shown(&changed.path);
    let word = change_word(&changed.change);
    match &changed.change {
        ChangeKind::Renamed { from } => format!("{word:<7} {} → {path}", shown(from)),
        _ => format!("{word:<7} {path}"),
    }
}

/// How many lines come and go: `+3 -1`. Nothing if that is unknown or none do.
fn change_counts(changed: &ChangedPath, objects: Option<&dyn Objects>) -> String {
    let Some(Ok(counts)) = objects.map(|objects| stat(objects, changed)) else {
        return String::new();
    };
    let sides = [("+", counts.insertions), ("-", counts.deletions)];
    let sides = sides.into_iter().filter(|(_, count)| *count > 0);
    let sides: Vec<String> = sides.map(|(sign, count)| format!("{sign}{count}")).collect();
    if counts.binary { "binary".to_owned() } else { sides.join(" ") }
}

/// What happens to the files: by group, as much as fits on a screen, and the totals.
fn report_changes_told(changes: &[ChangedPath], objects: Option<&dyn Objects>) -> Vec<String> {
    let groups = GROUPS.map(|words| {
        let of_group = |one: &&ChangedPath| words.contains(&change_word(&one.change));
        changes.iter().filter(of_group).collect::<Vec<&ChangedPath>>()
    });
    let room = shares_of_screen(groups.each_ref().map(Vec::len));
    let chosen = groups.iter().zip(room).flat_map(|(group, room)| group.iter().take(room));
    let rows: Vec<(String, String)> =
        chosen.map(|one| (change_told(one), change_counts(one, objects))).collect();
    let widest = rows.iter().map(|(told, _)| told.chars().count().min(WIDEST)).max().unwrap_or(0);
    let mut lines: Vec<String> = rows
        .iter()
        .map(|(told, counts)| format!("  {told:<widest$}  {counts}").trim_end().to_owned())
        .collect();
    if changes.len() > rows.len() {
        lines.push(format!("  … and {} more; `--json` lists all", changes.len() - rows.len()));
    }
    let [created, changed, deleted, renamed] = groups.each_ref().map(Vec::len);
    let renamed = if renamed > 0 { format!(", {renamed} to rename") } else { String::new() };
    lines.push(format!(
        "  {created} to create, {changed} to change, {deleted} to delete{renamed}; everything else \
         is kept"
    ));
    lines.extend(secret_files_told(changes.iter().map(|changed| &changed.path[..])));
    lines
}

/// How many lines each group gets: all if they fit on a screen, else equal parts of it. No group that
/// has something is left out.
fn shares_of_screen(sizes: [usize; 4]) -> [usize; 4] {
    let mut shares = [0; 4];
    let mut left = SCREEN;
    while left > 0 {
        let before = left;
        for (share, size) in shares.iter_mut().zip(sizes) {
            if *share < size && left > 0 {
                *share += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    shares
}

/// What is kept, and why.
fn report_kept_told(files: &RestorePlan) -> Vec<String> {
    let kept = files.kept.iter().take(SCREEN);
    let mut lines: Vec<String> =
        kept.map(|kept| format!("  keep    {} ({})", shown(&kept.path), kept.why)).collect();
    let more = files.kept.len().saturating_sub(SCREEN);
    if more > 0 {
        lines.push(format!("  … and {more} more are kept; `--json` lists all"));
    }
    lines
}

/// Where git's HEAD was and is, if it has moved: by the branches, or by the commit where there is none.
fn head_move_told(git: &GitComparison) -> Option<String> {
    if !git.has_moved() {
        return None;
    }
    let name = |state: &GitState| match (&state.branch, &state.head) {
        (Some(branch), _) => escape::text(branch).into_owned(),
        (None, head) => {
            let head = head.as_deref().unwrap_or("no commit");
            escape::text(head.get(..10).unwrap_or(head)).into_owned()
        }
    };
    let (then, now) = (name(&git.then), name(&git.now));
    let way = if then == now { format!("on {then}") } else { format!("{then} → {now}") };
    Some(format!("Git's HEAD has moved since then, {way}; it stays where it is"))
}

/// What was staged in git and will not be, with the command that stages it again.
fn unstaged_told(git: &GitComparison, unstaged: &[String]) -> Option<String> {
    if unstaged.is_empty() {
        return None;
    }
    let listed = unstaged.iter().take(UNSTAGED);
    let paths: Vec<String> = listed.map(|path| shell_quoted(path)).collect();
    let more = unstaged.len().saturating_sub(UNSTAGED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let repository = shell_quoted(&git.repository.to_string_lossy());
    Some(format!(
        "Git's index stays as it is. Staged then: {}{more}; `git -C {} add -- {}` stages {} again",
        escape::text(&unstaged.iter().take(UNSTAGED).cloned().collect::<Vec<_>>().join(", ")),
        escape::text(&repository),
        escape::text(&paths.join(" ")),
        if unstaged.len() == 1 { "it" } else { "them" }
    ))
}

/// What happens to the files in a directory, step by step.
pub(crate) fn report_files_told(root: &str, files: &RestorePlan) -> Vec<String> {
    let mut lines = vec![format!("Files in {}:", escape::text(root))];
    for step in files.steps.iter().take(SCREEN) {
        lines.push(format!("  {:<7} {}", restore_action_word(step.action), shown(&step.path)));
    }
    let steps = files.steps.len();
    if steps > SCREEN {
        lines.push(format!("  … and {} more; `--json` lists all", steps - SCREEN));
    }
    let count =
        |action: RestoreAction| files.steps.iter().filter(|step| step.action == action).count();
    lines.push(format!(
        "  {} to create, {} to change, {} to delete; everything else is kept",
        count(RestoreAction::Create),
        count(RestoreAction::Change) + count(RestoreAction::Chmod),
        count(RestoreAction::Delete)
    ));
    lines.extend(secret_files_told(files.steps.iter().map(|step| &step.path[..])));
    lines.extend(report_kept_told(files));
    lines
}

/// Names those of the paths that usually hold secrets.
fn secret_files_told<'p>(paths: impl Iterator<Item = &'p [u8]>) -> Option<String> {
    let holds_secrets = |path: &&[u8]| {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        str::from_utf8(name).is_ok_and(is_secret_file_name)
    };
    let mut secrets = paths.filter(holds_secrets);
    let first = secrets.next()?;
    let more = match secrets.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("  among them what usually holds secrets: {}{more}", shown(first)))
}

const fn restore_action_word(action: RestoreAction) -> &'static str {
    match action {
        RestoreAction::Create => "create",
        RestoreAction::Change => "change",
        RestoreAction::Delete => "delete",
        RestoreAction::Chmod => "chmod",
    }
}

/// The steps, and what is kept.
fn report_files_json(files: &RestorePlan) -> (Vec<serde_json::Value>, Vec<serde_json::Value>) {
    let steps = files.steps.iter().map(|step| {
        serde_json::json!({
            "path": String::from_utf8_lossy(&step.path), "action": restore_action_word(step.action),
        })
    });
    let kept = files.kept.iter().map(
        |kept| serde_json::json!({"path": String::from_utf8_lossy(&kept.path), "why": kept.why}),
    );
    (steps.collect(), kept.collect())
}

/// The plan to finish a rewind, as JSON.
pub(crate) fn report_finish_json(plan: &FinishPlan) -> String {
    let (steps, kept) = report_files_json(&plan.files);
    serde_json::json!({
        "rewind": plan.seq,
        "workspace": plan.root.to_string_lossy(),
        "own": plan.own,
        "files": steps,
        "kept": kept,
    })
    .to_string()
}

/// The plan of a rewind, as JSON.
pub(crate) fn rewind_report_json(plan: &RewindPlan) -> String {
    let (steps, kept) = report_files_json(&plan.files);
    let moved = plan.git.as_ref().filter(|git| git.has_moved());
    let head = moved.map(|git| {
        serde_json::json!({
            "then": git.then.head, "now": git.now.head,
            "branch_then": git.then.branch, "branch_now": git.now.branch,
        })
    });
    serde_json::json!({
        "to": plan.rewind.to,
        "checkpoint": plan.checkpoint.as_ref().map(|entry| entry.number),
        "checkpoint_seq": plan.checkpoint.as_ref().map(|entry| entry.seq),
        "workspace": plan.rewind.workspace,
        "events_left": plan.left.0,
        "messages_left": plan.left.1,
        "files": steps,
        "kept": kept,
        "head": head,
        "unstaged": plan.unstaged(),
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_has_a_part_of_the_screen() {
        assert_eq!(shares_of_screen([3, 4, 5, 0]), [3, 4, 5, 0]);
        assert_eq!(shares_of_screen([1000, 0, 0, 0]), [20, 0, 0, 0]);
        assert_eq!(shares_of_screen([1000, 1, 1000, 2]), [9, 1, 8, 2]);
    }
}
