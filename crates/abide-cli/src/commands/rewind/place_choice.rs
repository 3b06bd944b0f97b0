//! Lets the user choose where to go back to, among the last checkpoints.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use abide::workspace::{ChangeKind, diff};
use abide::{
    Session, SessionId, SessionRef, SessionView,
    backend::Objects,
    checkpoint::{CheckpointEntry, FileChanges, Trigger},
    event::ObjectHash,
};
use abide_transcript::escape;

use crate::checkpoint_lookup::{changes_text, is_safety_checkpoint, present_tree, snapshot_of};
use crate::command_context::CommandContext;
use crate::command_output::status;
use crate::confirm::{ask_line, confirmation_refused, is_refusal};
use crate::error::CommandError;
use crate::labelled_lines::labelled_lines;
use crate::rewind_report::checkpoint_place;
use crate::scoped_store::ScopedStore;
use crate::session_args::is_label;
use crate::typed_time::time_ago;

/// How many checkpoints are offered, and how many an error names.
const OFFERED: usize = 10;
const NAMED: usize = 3;

/// The error that WHERE is missing, with the last checkpoints.
pub(super) fn missing_place(
    opened: &ScopedStore,
    id: SessionId,
) -> Result<CommandError, CommandError> {
    let view = opened.store.view(&SessionRef::Id(id))?;
    let entries = last_entries(&view, NAMED)?;
    let known = match entry_lines(&view, &entries, &[])?.as_slice() {
        [] => "there is no checkpoint yet".to_owned(),
        last => format!("the last checkpoints are:\n{}", last.join("\n")),
    };
    Ok(CommandError::Usage(format!("WHERE is missing in `abide rewind WHERE`; {known}")))
}

/// The last checkpoints, newest first: of those that were made before a rewind only the newest, and
/// always the first of all.
fn last_entries(view: &SessionView, most: usize) -> Result<Vec<CheckpointEntry>, CommandError> {
    let mut entries = view.checkpoints()?;
    let newest_safety =
        entries.iter().rfind(|entry| is_safety_checkpoint(entry)).map(|entry| entry.seq);
    entries.retain(|entry| !is_safety_checkpoint(entry) || Some(entry.seq) == newest_safety);
    let first = entries.first().cloned();
    entries.reverse();
    entries.truncate(most);
    if let Some(first) = first
        && entries.last().is_some_and(|last| last.seq > first.seq)
    {
        entries.truncate(most - 1);
        entries.push(first);
    }
    Ok(entries)
}

/// A place in the past of a session.
#[derive(Debug)]
pub(super) struct ChosenPlace {
    pub(super) session: SessionId,
    pub(super) place: String,
}

/// The place that the user of a terminal chooses: of the session or, if `others` says where, a label of
/// another one that works here.
pub(super) fn choose_place(
    opened: &ScopedStore,
    session: &Session,
    others: Option<&CommandContext>,
    asked: &Arc<AtomicBool>,
) -> Result<ChosenPlace, CommandError> {
    let view = session.view();
    let entries = last_entries(view, OFFERED)?;
    if entries.is_empty() {
        return Err(CommandError::failed("there is no checkpoint to rewind to")
            .with_hint("`abide save` makes one; `abide rewind turn:2` rewinds to a turn"));
    }
    let objects = opened.store.objects()?;
    let present = present_tree(opened, view, &*objects).ok();
    let since: Vec<Option<FileChanges>> =
        entries.iter().map(|entry| changes_since(entry, present?, &*objects)).collect();
    status("The last checkpoints, and what has changed since each:");
    for line in entry_lines(view, &entries, &since)? {
        status(line);
    }
    let all = view.checkpoints()?.len();
    if all > entries.len() {
        status(format_args!("      … of {all}; `abide saves` lists them all"));
    }
    if let Some(surroundings) = others {
        let mut labelled = opened.labelled_elsewhere(session.id(), surroundings)?;
        // A name means the session's own checkpoint first.
        labelled.retain(|found| {
            let label = found.entry.checkpoint.label.as_deref().unwrap_or_default();
            view.resolve(label).is_err()
        });
        labelled_lines(&labelled).iter().for_each(status);
    }
    let question = "Go back to (a number, a name, turn:3, @41; Enter: cancel)? ";
    loop {
        let place = ask_line(question, Some(asked))?;
        if place.is_empty() || is_refusal(&place) {
            confirmation_refused()?;
        }
        // As it is shown.
        let place = place.trim_matches('"').to_owned();
        let error = match view.resolve(&place) {
            Ok(_) => return Ok(ChosenPlace { session: session.id(), place }),
            Err(_) if place == "latest" => {
                return Ok(ChosenPlace { session: session.id(), place });
            }
            Err(error) => error,
        };
        if is_label(&place)
            && let Some(surroundings) = others
            && let Some((other, _)) = opened.latest_with_checkpoint(surroundings, Some(&place))?
        {
            return Ok(ChosenPlace { session: other, place });
        }
        status(error);
    }
}

/// How the files differ from those of a checkpoint. `None` if that cannot be told.
fn changes_since(
    entry: &CheckpointEntry,
    present: ObjectHash,
    objects: &dyn Objects,
) -> Option<FileChanges> {
    let then = snapshot_of(entry, objects).ok()?;
    let mut changes = FileChanges::default();
    for one in diff(objects, Some(then.tree), present, false).ok()? {
        match one.change {
            ChangeKind::Created => changes.added += 1,
            ChangeKind::Deleted => changes.removed += 1,
            _ => changes.changed += 1,
        }
    }
    Some(changes)
}

/// A line for each checkpoint: number, age, what has changed since, and its name.
fn entry_lines(
    view: &SessionView,
    entries: &[CheckpointEntry],
    since: &[Option<FileChanges>],
) -> Result<Vec<String>, CommandError> {
    let subjects = view.checkpoint_subjects(entries)?;
    let now = jiff::Timestamp::now();
    let rows: Vec<PlaceRow> = entries
        .iter()
        .enumerate()
        .map(|(place, entry)| PlaceRow {
            number: entry.number,
            when: time_ago(entry.at, now),
            since: since.get(place).and_then(Option::as_ref).map(changes_text).unwrap_or_default(),
            name: match (&entry.checkpoint.label, subjects.get(&entry.seq)) {
                (Some(label), _) => format!("{:?}", escape::text(label)),
                _ if entry.checkpoint.trigger == Trigger::Rewind.as_str() => {
                    "before the last rewind".to_owned()
                }
                (None, Some(subject)) => checkpoint_place(entry, subject),
                (None, None) => String::new(),
            },
        })
        .collect();
    let widest = |of: fn(&PlaceRow) -> &str| {
        rows.iter().map(|row| of(row).chars().count()).max().unwrap_or(0)
    };
    let (ago, changed) = (widest(|row| &row.when), widest(|row| &row.since));
    let gap = if changed > 0 { "  " } else { "" };
    let line = |row: &PlaceRow| {
        let PlaceRow { number, when, since, name } = row;
        format!("{number:>4}  {when:<ago$}{gap}{since:<changed$}  {name}").trim_end().to_owned()
    };
    Ok(rows.iter().map(line).collect())
}

/// A checkpoint that is offered.
struct PlaceRow {
    number: u64,
    when: String,
    since: String,
    name: String,
}
