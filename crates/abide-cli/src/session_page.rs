//! A session for people to read elsewhere: as a transcript, Markdown or HTML.

use abide::workspace::{ChangedPath, diff, stat, unified};
use abide::{
    EventRange, SessionState, SessionView,
    backend::Objects,
    checkpoint::Snapshot,
    event::{ObjectHash, ReadFinding},
};
use abide_transcript::{
    FileChange, SessionOverview, TimelineBuilder, TimelineRenderer, TranscriptWriter,
};

use crate::command_output::warning;
use crate::error::CommandError;
use crate::export_target::ExportTarget;
use crate::secret_masking::PageMask;

/// The most files whose changes are shown, and the most bytes of their diffs.
const CHANGED_FILES: usize = 1000;
const DIFF_BYTES: usize = 4 << 20;
/// Context lines around a change.
const CONTEXT: usize = 3;

/// Every event, in the form of `transcript.task`.
pub(crate) fn write_transcript(
    view: &SessionView,
    to: &mut ExportTarget,
) -> Result<Vec<ReadFinding>, CommandError> {
    let mut events = view.events(EventRange::ALL);
    let mut writer = TranscriptWriter::new();
    for event in &mut events {
        writer.push(&event?);
        if let Some(chunks) = writer.take_ready() {
            to.text(&chunks)?;
        }
    }
    to.text(&writer.finish())?;
    Ok(events.notes().to_vec())
}

/// The overview of a session with the changes of its files.
pub(crate) fn overview_with_changes(
    view: &SessionView,
    state: &SessionState,
    objects: &dyn Objects,
) -> Result<SessionOverview, CommandError> {
    let mut overview = session_overview(view, state)?;
    // The changes are an extra: a checkpoint that cannot be read must not keep the page back.
    overview.changes = session_changes(state, objects).unwrap_or_else(|error| {
        warning(format_args!("the changed files are not shown: {error}"));
        Vec::new()
    });
    Ok(overview)
}

/// The overview of a session under its name.
pub(crate) fn session_overview(
    view: &SessionView,
    state: &SessionState,
) -> Result<SessionOverview, CommandError> {
    Ok(SessionOverview { title: view.name()?, ..SessionOverview::of(state) })
}

/// The live part of the session, rendered, with its secrets masked.
pub(crate) fn write_session_page(
    view: &SessionView,
    state: &SessionState,
    overview: &SessionOverview,
    mut rendering: impl TimelineRenderer,
    mask: Option<&PageMask>,
    to: &mut ExportTarget,
) -> Result<Vec<ReadFinding>, CommandError> {
    to.text(&rendering.begin(overview))?;
    let mut story = TimelineBuilder::new();
    let mut events = view.events(EventRange::ALL);
    for event in &mut events {
        let mut event = event?;
        if let Some(mask) = mask {
            mask.event(&mut event);
        }
        if !state.shows(&event) {
            story.pass(&event);
            continue;
        }
        story.push(&event);
        while let Some(item) = story.next_item() {
            to.text(&rendering.item(&item))?;
        }
    }
    story.finish();
    while let Some(item) = story.next_item() {
        to.text(&rendering.item(&item))?;
    }
    to.text(&rendering.end())?;
    Ok(events.notes().to_vec())
}

/// What became of the files between the first and the last checkpoint that has them.
fn session_changes(
    state: &SessionState,
    objects: &dyn Objects,
) -> Result<Vec<FileChange>, abide::Error> {
    let mut snapshots: Vec<_> = state
        .checkpoints
        .iter()
        .filter_map(|(_, checkpoint)| Some((checkpoint.seq, checkpoint.snapshot?)))
        .collect();
    snapshots.sort_unstable();
    let (Some((_, first)), Some((_, last))) = (snapshots.first(), snapshots.last()) else {
        return Ok(Vec::new());
    };
    let (Some(first), Some(last)) = (tree(objects, *first)?, tree(objects, *last)?) else {
        return Ok(Vec::new());
    };
    let mut left = DIFF_BYTES;
    let changed = diff(objects, Some(first), last, true)?;
    changed
        .iter()
        .take(CHANGED_FILES)
        .map(|changed| file_change(objects, changed, &mut left))
        .filter(|change| {
            change.as_ref().is_ok_and(|change| !change.path.is_empty()) || change.is_err()
        })
        .collect()
}

/// The tree of a snapshot; `None` if it is not in the store any more.
fn tree(objects: &dyn Objects, snapshot: ObjectHash) -> Result<Option<ObjectHash>, abide::Error> {
    let bytes = objects.read(snapshot)?;
    Ok(bytes.and_then(|bytes| Snapshot::read(&bytes).ok()).map(|snapshot| snapshot.tree))
}

fn file_change(
    objects: &dyn Objects,
    changed: &ChangedPath,
    left: &mut usize,
) -> Result<FileChange, abide::Error> {
    if *left == 0 {
        let stat = stat(objects, changed)?;
        let path = String::from_utf8_lossy(&changed.path).into_owned();
        return Ok(FileChange {
            path,
            added: stat.insertions,
            removed: stat.deletions,
            diff: String::new(),
        });
    }
    let found = unified(objects, changed, CONTEXT)?;
    let shown = found.text.len() <= *left && !found.stat.binary;
    if shown {
        *left -= found.text.len();
    }
    let text =
        if shown { String::from_utf8_lossy(&found.text).into_owned() } else { String::new() };
    // A directory has no diff.
    let path = if found.text.is_empty() { Vec::new() } else { changed.path.to_vec() };
    Ok(FileChange {
        path: String::from_utf8_lossy(&path).into_owned(),
        added: found.stat.insertions,
        removed: found.stat.deletions,
        diff: text,
    })
}
