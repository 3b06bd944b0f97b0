//! Exports a session for people: as a transcript, Markdown or HTML.

use abide::{EventRange, SessionView, event::ReadFinding};
use abide_transcript::{SessionOverview, TimelineBuilder, TimelineRenderer, TranscriptWriter};

use crate::error::CommandError;
use crate::export_target::ExportTarget;

/// Every event, in the form of `transcript.task`.
pub(super) fn export_transcript(
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

/// The live part of the session, rendered.
pub(super) fn export_rendered_page(
    view: &SessionView,
    mut rendering: impl TimelineRenderer,
    to: &mut ExportTarget,
) -> Result<Vec<ReadFinding>, CommandError> {
    let state = view.state()?;
    to.text(&rendering.begin(&SessionOverview::of(&state)))?;
    let mut story = TimelineBuilder::new();
    let mut events = view.events(EventRange::ALL);
    for event in &mut events {
        let event = event?;
        if event.seq <= state.core.seq && !state.core.lineage.contains(event.seq) {
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
