//! The plan of a rewind and what came of it, as text and as JSON.

use std::cmp::Ordering;

use abide::workspace::{RestoreAction, RestorePlan, RestoreReport};
use abide::{
    Seq,
    checkpoint::{CheckpointEntry, FinishPlan, RewindPlan},
};
use abide_transcript::escape;

use crate::command_output::{shown, warning};
use crate::error::CommandError;
use crate::typed_time::time_ago;

/// How many paths are listed.
pub(crate) const LISTED: usize = 100;

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

/// Reports what was left unchanged; a file that could not be restored is an error.
pub(crate) fn report_files_left(files: &RestoreReport) -> Result<(), CommandError> {
    for (path, why) in files.kept.iter().take(LISTED) {
        warning(format_args!("{} was left as it is: {why}", shown(path)));
    }
    if files.failed.is_empty() {
        return Ok(());
    }
    for (path, why) in files.failed.iter().take(LISTED) {
        warning(format_args!("{} could not be put back: {why}", shown(path)));
    }
    Err(CommandError::failed(format!("{} files could not be restored", files.failed.len()))
        .with_hint("`abide undo` takes the rewind back"))
}

/// The plan of a rewind, for people.
pub(crate) fn rewind_report_lines(
    plan: &RewindPlan,
    heading: &str,
    to: Option<Seq>,
) -> Vec<String> {
    let mut lines = vec![format!("Back to {heading}")];
    let (events, messages) = plan.left;
    if events > 0 {
        lines.push(format!(
            "Conversation: {events} events leave it, {messages} of them messages; \
             `abide show --all` still shows them"
        ));
    }
    if !plan.rewind.files {
        return lines;
    }
    let elsewhere =
        plan.checkpoint.as_ref().zip(to).and_then(|(entry, to)| rewind_distance(entry, to));
    lines.extend(elsewhere);
    lines.extend(report_files_told(
        plan.rewind.workspace.as_deref().unwrap_or_default(),
        &plan.files,
    ));
    if let Some((then, now)) = &plan.head {
        let short = |head: &Option<String>| {
            let head = head.as_deref().unwrap_or("no commit");
            escape::text(head.get(..10).unwrap_or(head)).into_owned()
        };
        lines.push(format!(
            "Git's HEAD has moved since then, from {} to {}; it stays where it is",
            short(then),
            short(now)
        ));
    }
    lines
}

/// What happens to the files in a directory.
pub(crate) fn report_files_told(root: &str, files: &RestorePlan) -> Vec<String> {
    let mut lines = vec![format!("Files in {}:", escape::text(root))];
    for step in files.steps.iter().take(LISTED) {
        lines.push(format!("  {:<7} {}", restore_action_word(step.action), shown(&step.path)));
    }
    let steps = files.steps.len();
    if steps > LISTED {
        lines.push(format!("  … and {} more; --json lists all", steps - LISTED));
    }
    let count =
        |action: RestoreAction| files.steps.iter().filter(|step| step.action == action).count();
    lines.push(format!(
        "  {} to create, {} to change, {} to delete; everything else is kept",
        count(RestoreAction::Create),
        count(RestoreAction::Change) + count(RestoreAction::Chmod),
        count(RestoreAction::Delete)
    ));
    for kept in files.kept.iter().take(LISTED) {
        lines.push(format!("  keep    {} ({})", shown(&kept.path), kept.why));
    }
    lines
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
    serde_json::json!({
        "to": plan.rewind.to,
        "checkpoint": plan.checkpoint.as_ref().map(|entry| entry.number),
        "checkpoint_seq": plan.checkpoint.as_ref().map(|entry| entry.seq),
        "workspace": plan.rewind.workspace,
        "events_left": plan.left.0,
        "messages_left": plan.left.1,
        "files": steps,
        "kept": kept,
        "head": plan.head.as_ref().map(|(then, now)| serde_json::json!({"then": then, "now": now})),
    })
    .to_string()
}
