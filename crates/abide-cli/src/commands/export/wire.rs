//! Exports the messages of a lane in the format of an API, one per line.

use std::collections::HashSet;

use abide::{
    EventRange, Kind, LaneId, MessageForm, Seq, SessionState, SessionView, context::Conversation,
};
use abide_wire::{export, export_called, export_finished};

use super::omissions::ExportOmissions;
use crate::command_output::status;
use crate::error::CommandError;
use crate::export_target::ExportTarget;

/// The newest version of every live message of a lane, in journal order, and the calls and results that were recorded only
/// as tool use.
pub(super) fn export_wire_messages(
    view: &SessionView,
    form: MessageForm,
    lane: &Option<LaneId>,
    to: &mut ExportTarget,
) -> Result<ExportOmissions, CommandError> {
    let state = view.state()?;
    let shown = shown_to_model(view, &state, lane)?;
    let (mut erased, mut silent) = (0_u64, 0_u64);
    let mut refused = Vec::new();
    let mut events = view.events(EventRange::ALL);
    for event in &mut events {
        let event = event?;
        let message = event.kind == Kind::MESSAGE_ADDED && event.lane == *lane;
        let called = event.kind == Kind::TOOL_CALLED && shown.contains(&event.seq);
        let finished = event.kind == Kind::TOOL_FINISHED && shown.contains(&event.seq);
        if !state.shows(&event) || !(message || called || finished) {
            continue;
        }
        let written = match &event.data {
            Some(data) if message => export(form, data),
            Some(data) if called => export_called(form, data),
            Some(data) => export_finished(form, data),
            None => {
                erased += 1;
                continue;
            }
        };
        match written {
            Ok(messages) => {
                silent += u64::from(messages.is_empty());
                messages.iter().try_for_each(|message| to.json(message.get()))?;
            }
            Err(why) => refused.push((event.seq, why)),
        }
    }
    if erased > 0 {
        let s = if erased == 1 { " was" } else { "s were" };
        status(format_args!("Note: {erased} message{s} erased and cannot be exported"));
    }
    if silent > 0 {
        let s = if silent == 1 { " holds" } else { "s hold" };
        status(format_args!(
            "Note: {silent} message{s} nothing, or thoughts that another API would not accept"
        ));
    }
    Ok(ExportOmissions { notes: events.notes().to_vec(), refused })
}

/// The events of this lane that a model is shown.
fn shown_to_model(
    view: &SessionView,
    state: &SessionState,
    lane: &Option<LaneId>,
) -> Result<HashSet<Seq>, CommandError> {
    let mut conversation = Conversation::default();
    let mut there = lane.is_none();
    for event in view.events(EventRange::ALL) {
        let event = event?;
        there |= event.lane == *lane;
        // Everything is exported, even if it was summarised.
        if state.shows(&event) && event.kind != Kind::CONTEXT_COMPACTED {
            conversation.event(&event, &event.fact());
        }
    }
    if let Some(lane) = lane.as_ref().filter(|_| !there) {
        return Err(CommandError::failed(format!("the session has no lane {:?}", lane.as_str())));
    }
    let shown = conversation.valid_order().into_iter().filter(|shown| shown.lane == *lane);
    Ok(shown.map(|shown| shown.seq).collect())
}
