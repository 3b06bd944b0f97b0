//! `abide show`: shows a session, or one turn or task of it.

use abide::{Event, EventRange, Seq, SessionRef, SessionState, event::TurnNumber, tasks::TaskId};
use abide_transcript::{
    PlaceTracker, SessionOverview, TextRenderer, TextStyle, TimelineBuilder, TimelineRenderer,
};
use jiff::tz::TimeZone;

use crate::clock::clock_day_and_time;
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, terminal_width, warning};
use crate::error::CommandError;
use crate::pager::PagedOutput;
use crate::session_args::{SessionArg, SessionPurpose};
use crate::session_status::status_of;

/// Show a session as a story: what was said, which tools ran and how that ended
///
/// On a terminal it is coloured and goes through $PAGER (default: less). Long outputs of tools are
/// cut; `abide export` has all of everything.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide show                  the latest session
  abide show abc123 --turn 3
  abide show --task P1.M1.T2 --json | jq .kind")]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Only this turn
    #[arg(long, value_name = "N")]
    turn: Option<u64>,
    /// Only what belongs to this task, and not to its parts
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// With what rewinds have taken back, which is marked
    #[arg(long)]
    all: bool,
    /// The events as JSON lines, as they were recorded
    #[arg(long)]
    json: bool,
}

impl ShowArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::Read, &opened, surroundings)?;
        let view = opened.store.view(&SessionRef::Id(id))?;
        let state = view.state()?;
        let selection = ShowSelection::of(&self, &state)?;
        let mut events = view.events(EventRange::from(selection.first));
        let shown = if self.json {
            selection.json(&mut events, &state)?
        } else {
            let whole = self.turn.is_none() && self.task.is_none();
            let status = status_of(id, &state.core, &opened.store);
            let summary = whole.then(|| SessionOverview { status, ..SessionOverview::of(&state) });
            selection.story(&mut events, &state, summary.as_ref(), surroundings)?
        };
        events.notes().iter().for_each(warning);
        // A killed writer left the transcript behind. It is derived, so a failure to update it is
        // ignored.
        let _ = opened.store.update_transcript(id);
        if shown { Ok(()) } else { Err(selection.nothing(&state)) }
    }
}

/// The events to show.
struct ShowSelection {
    /// The first event that may belong to it.
    first: Seq,
    places: PlaceTracker,
    turn: Option<TurnNumber>,
    task: Option<TaskId>,
    all: bool,
}

impl ShowSelection {
    fn of(show: &ShowArgs, state: &SessionState) -> Result<Self, CommandError> {
        let mut selection = Self {
            first: Seq::FIRST,
            places: PlaceTracker::default(),
            turn: show.turn.map(TurnNumber),
            task: show.task.as_deref().map(TaskId::from),
            all: show.all,
        };
        if let Some(turn) = selection.turn {
            match state.turns.get(&turn.to_string()) {
                Some(known) => {
                    selection.first = known.first;
                    selection.places = PlaceTracker::after(TurnNumber(turn.0.saturating_sub(1)));
                }
                // With --all it may be a turn that was rewound.
                None if show.all => {}
                None => return Err(selection.nothing(state)),
            }
        }
        Ok(selection)
    }

    /// Is the event left out because it was rewound?
    fn is_passed_over(&self, event: &Event, state: &SessionState) -> bool {
        // Events recorded since the state was read are live.
        !self.all && event.seq <= state.core.seq && !state.core.lineage.contains(event.seq)
    }

    fn takes(&self, turn: Option<TurnNumber>, task: Option<&TaskId>) -> bool {
        (self.turn.is_none() || turn == self.turn)
            && (self.task.is_none() || task == self.task.as_ref())
    }

    /// Prints events as JSON. Returns whether there were any.
    fn json(&self, events: &mut abide::Events, state: &SessionState) -> Result<bool, CommandError> {
        let mut out = CommandOutput::stdout();
        let mut places = self.places.clone();
        let mut shown = false;
        for event in events {
            let event = event?;
            if self.is_passed_over(&event, state) {
                places.pass(&event);
                continue;
            }
            let place = places.next(&event);
            if self.takes(place.turn, place.task.as_ref()) {
                shown = true;
                out.json(&event.to_json())?;
            }
        }
        out.flush()?;
        Ok(shown)
    }

    /// Prints events as a transcript. Returns whether there were any.
    fn story(
        &self,
        events: &mut abide::Events,
        state: &SessionState,
        summary: Option<&SessionOverview>,
        surroundings: &CommandContext,
    ) -> Result<bool, CommandError> {
        let width = terminal_width();
        let coloured = surroundings.colours && CommandOutput::stdout().is_terminal();
        let style = if coloured { TextStyle::Coloured } else { TextStyle::Plain };
        let zone = TimeZone::system();
        let clock = Box::new(move |at| clock_day_and_time(&zone, at));
        let mut text = TextRenderer::new(style, width.unwrap_or(100), clock);
        let mut story = TimelineBuilder::new().at(self.places.clone());
        if self.all {
            story = story.with_lineage(state.core.lineage.clone());
        }
        // Start the pager with the first text, so that an error can use the terminal.
        let mut out: Option<PagedOutput> = None;
        let mut write = |text: &str| {
            let out = out.get_or_insert_with(|| PagedOutput::start(surroundings.pager.as_deref()));
            out.write(text)
        };
        let mut wanted = match summary {
            Some(summary) => write(&text.begin(summary))?,
            None => true,
        };
        let mut more = |story: &mut TimelineBuilder| -> Result<bool, CommandError> {
            while let Some(item) = story.next_item() {
                if self.takes(item.place.turn, item.place.task.as_ref())
                    && !write(&text.item(&item))?
                {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        for event in events {
            let event = event?;
            if self.is_passed_over(&event, state) {
                story.pass(&event);
            } else {
                story.push(&event);
            }
            wanted = wanted && more(&mut story)?;
            if !wanted {
                break;
            }
        }
        story.finish();
        if wanted {
            more(&mut story)?;
        }
        let shown = out.is_some();
        out.map_or(Ok(()), PagedOutput::finish)?;
        Ok(shown)
    }

    /// The error that there is nothing to show.
    fn nothing(&self, state: &SessionState) -> CommandError {
        match (self.turn, &self.task) {
            (Some(turn), Some(task)) => {
                CommandError::failed(format!("task {task} has nothing in turn {turn}"))
            }
            (Some(turn), None) => {
                let last = state.core.turns.last;
                let hint = if last.0 == 0 {
                    "this session has no turns".to_owned()
                } else if turn <= last && !self.all {
                    "a rewind took it back, or it never was; `--all` shows what was taken back"
                        .to_owned()
                } else {
                    format!("the last turn of this session is {last}")
                };
                CommandError::failed(format!("there is no turn {turn}")).with_hint(hint)
            }
            (None, Some(task)) => {
                let known = state.tasks.iter().filter(|(_, task)| task.known).map(|(id, _)| id);
                let known: Vec<_> = known.take(8).collect();
                let hint = match state.core.tasks.total {
                    0 => "this session has no tasks".to_owned(),
                    total if total > 8 => {
                        format!("there are {total} tasks, among them {}", known.join(", "))
                    }
                    _ => format!("the tasks are {}", known.join(", ")),
                };
                CommandError::failed(format!("there is no task {task}")).with_hint(hint)
            }
            (None, None) => CommandError::failed("there is nothing to show"),
        }
    }
}
