//! `abide show`: shows a session, or one turn, task or event of it.

use std::collections::VecDeque;

use abide::{Event, EventRange, Seq, SessionRef, SessionState, event::TurnNumber, tasks::TaskId};
use abide_transcript::{
    PlaceTracker, SessionOverview, TextDetail, TextRenderer, TextStyle, TimelineBuilder,
    TimelineEntry, TimelineRenderer,
};
use jiff::tz::TimeZone;

use crate::clock::clock_day_and_time;
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, terminal_width, warning};
use crate::error::{CommandError, FailureCode};
use crate::pager::PagedOutput;
use crate::session_args::{SessionArg, SessionPurpose};
use crate::session_status::CurrentStatus;

/// The width where lines are not wrapped: in a pipe or a file.
const UNWRAPPED: usize = 1 << 20;
/// How many events before the named one are read for what stands before it.
const READ_BEFORE: u64 = 2000;

/// Show the messages and tool calls of a session
///
/// On a terminal the output is wrapped and coloured, and shown in $PAGER (default: less). Long tool
/// outputs are cut and bookkeeping events are left out; -v shows both. `abide search` prints event
/// numbers such as @36; `abide show abc123 @36 -C 3` shows that event and the entries around it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide show                  the latest session
  abide show abc123 @36 -C 3  event 36, with three entries before and after it
  abide show --no-tools       only the messages
  abide show abc123 --turn 3
  abide show --task P1.M1.T2 --json | jq .kind")]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Show only the entry with this event and the entries around it
    #[arg(value_name = "@EVENT", conflicts_with_all = ["turn", "task"])]
    event: Option<String>,
    /// With an event, the number of entries before and after it
    #[arg(short = 'C', long, value_name = "N", default_value_t = 2)]
    context: usize,
    /// Only this turn
    #[arg(long, value_name = "N")]
    turn: Option<u64>,
    /// Only this task, without its parts
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Only the tool calls
    #[arg(long, conflicts_with_all = ["no_tools", "json"])]
    tools: bool,
    /// Leave out the tool calls
    #[arg(long, conflicts_with = "json")]
    no_tools: bool,
    /// Show bookkeeping events (writers, usage, session updates), all thinking and full outputs
    #[arg(short, long)]
    verbose: bool,
    /// Include what was rewound, marked as such
    #[arg(long)]
    all: bool,
    /// Print the events as JSON lines, as they were recorded
    #[arg(long)]
    json: bool,
}

impl ShowArgs {
    pub(crate) fn run(mut self, surroundings: &CommandContext) -> Result<(), CommandError> {
        if self.event.is_none() {
            self.event = self.session.take_event();
        }
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::Read, &opened, surroundings)?;
        let view = opened.store.view(&SessionRef::Id(id))?;
        let state = view.state()?;
        let selection = ShowSelection::of(&self, &state)?;
        let mut events = view.events(EventRange::from(selection.first));
        let shown = if self.json {
            selection.json(&mut events, &state)?
        } else {
            let whole = self.turn.is_none() && self.task.is_none() && self.event.is_none();
            let now = CurrentStatus::of_session(id, &state.core, &opened.store);
            let (status, shown) = (now.status, Some(now.state.as_str()));
            let title = if whole { view.name()? } else { None };
            let summary = whole.then(|| SessionOverview {
                status,
                state: shown,
                title,
                ..SessionOverview::of(&state)
            });
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
    event: Option<Seq>,
    context: usize,
    calls: ShownCalls,
    detail: TextDetail,
    all: bool,
}

/// Which calls are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShownCalls {
    /// Calls and everything else.
    Too,
    /// Nothing else.
    Only,
    /// None.
    None,
}

/// The entries around the one with the named event.
struct EntryWindow {
    event: Seq,
    context: usize,
    before: VecDeque<TimelineEntry>,
    /// How many entries are to follow, once the event was found.
    after: Option<usize>,
}

impl EntryWindow {
    /// The entries to show now, `None` once nothing more is wanted. An event that is no entry of its
    /// own belongs to the one before it.
    fn step(&mut self, item: TimelineEntry) -> Option<Vec<WindowEntry>> {
        let around = |item| WindowEntry { item, named: false };
        match &mut self.after {
            // An event may have several entries.
            Some(_) if item.holds(self.event) => {
                return Some(vec![WindowEntry { item, named: true }]);
            }
            Some(0) => return None,
            Some(left) => {
                *left -= 1;
                return Some(vec![around(item)]);
            }
            None => {}
        }
        let held = item.holds(self.event);
        if !held && item.seq < self.event {
            self.before.push_back(item);
            // One more than is shown: it may be the one.
            if self.before.len() > self.context + 1 {
                self.before.pop_front();
            }
            return Some(Vec::new());
        }
        if held && self.before.len() > self.context {
            self.before.pop_front();
        }
        let mut found: Vec<_> = self.before.drain(..).map(around).collect();
        if held || found.is_empty() {
            found.push(WindowEntry { item, named: true });
            self.after = Some(self.context);
        } else {
            found.iter_mut().last().into_iter().for_each(|last| last.named = true);
            if self.context > 0 {
                found.push(around(item));
            }
            self.after = Some(self.context.saturating_sub(1));
        }
        Some(found)
    }

    /// The entries to show at the end, if the event was not found by then.
    fn rest(&mut self) -> Vec<WindowEntry> {
        if self.after.is_some() {
            return Vec::new();
        }
        let last = self.before.len().saturating_sub(1);
        let entries = self.before.drain(..).enumerate();
        entries.map(|(at, item)| WindowEntry { item, named: at == last }).collect()
    }
}

/// An entry of a window.
struct WindowEntry {
    item: TimelineEntry,
    /// It has the named event, and is shown in full.
    named: bool,
}

impl ShowSelection {
    fn of(show: &ShowArgs, state: &SessionState) -> Result<Self, CommandError> {
        let mut selection = Self {
            first: Seq::FIRST,
            places: PlaceTracker::default(),
            turn: show.turn.map(TurnNumber),
            task: show.task.as_deref().map(TaskId::from),
            event: show.event.as_deref().map(event_number).transpose()?,
            context: show.context,
            calls: match (show.tools, show.no_tools) {
                (true, _) => ShownCalls::Only,
                (_, true) => ShownCalls::None,
                _ => ShownCalls::Too,
            },
            detail: if show.verbose { TextDetail::Verbose } else { TextDetail::Normal },
            all: show.all,
        };
        if let Some(event) = selection.event {
            let last = state.core.seq;
            if event > last || event == Seq::ZERO {
                let error = CommandError::failed(format!("there is no event @{event}"))
                    .coded(FailureCode::NotFound);
                return Err(error.with_hint(format!("the last event of this session is @{last}")));
            }
            if !show.all && !state.core.lineage.contains(event) {
                let error = CommandError::failed(format!("event @{event} was rewound"));
                return Err(error.with_hint("`--all` shows rewound events"));
            }
            selection.first = event.back(READ_BEFORE).max(Seq::FIRST);
        }
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

    /// Is the event left out of a transcript because it was rewound or replaced?
    fn is_hidden(&self, event: &Event, state: &SessionState) -> bool {
        let live = state.core.lineage.contains(event.seq);
        if self.all && !live { false } else { !state.shows(event) }
    }

    fn takes(&self, turn: Option<TurnNumber>, task: Option<&TaskId>) -> bool {
        (self.turn.is_none() || turn == self.turn)
            && (self.task.is_none() || task == self.task.as_ref())
    }

    /// Is this an entry to show, apart from where it stands?
    fn takes_entry(&self, item: &TimelineEntry) -> bool {
        let named = self.event.is_some_and(|event| item.holds(event));
        let calls = match self.calls {
            ShownCalls::Too => true,
            ShownCalls::Only => item.is_call(),
            ShownCalls::None => !item.is_call(),
        };
        let shown = !item.is_minor() || self.detail == TextDetail::Verbose;
        named || (calls && shown && self.takes(item.place.turn, item.place.task.as_ref()))
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
            if self.event.is_some_and(|named| event.seq > named) {
                break;
            }
            let named = self.event.is_none_or(|named| named == event.seq);
            if named && self.takes(place.turn, place.task.as_ref()) {
                shown = true;
                out.verbatim_json(&event.to_json())?;
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
        let mut text =
            TextRenderer::new(style, width.unwrap_or(UNWRAPPED), clock).with_detail(self.detail);
        let mut window = self.event.map(|event| EntryWindow {
            event,
            context: self.context,
            before: VecDeque::new(),
            after: None,
        });
        let mut story = TimelineBuilder::new()
            .at(self.places.clone())
            .in_workspace(state.core.fields.workspace.as_deref());
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
        let mut more = |story: &mut TimelineBuilder, end: bool| -> Result<bool, CommandError> {
            let mut show = |entries: Vec<WindowEntry>| -> Result<bool, CommandError> {
                for WindowEntry { item, named } in entries {
                    let shown = if named { text.item_in_full(&item) } else { text.item(&item) };
                    if !shown.is_empty() && !write(&shown)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            };
            while let Some(item) = story.next_item() {
                if !self.takes_entry(&item) {
                    continue;
                }
                let entries = match &mut window {
                    Some(window) => window.step(item),
                    None => Some(vec![WindowEntry { item, named: false }]),
                };
                let Some(entries) = entries else { return Ok(false) };
                if !show(entries)? {
                    return Ok(false);
                }
            }
            match window.as_mut().filter(|_| end) {
                Some(window) => show(window.rest()),
                None => Ok(true),
            }
        };
        for event in events {
            let event = event?;
            if self.is_hidden(&event, state) {
                if self.event == Some(event.seq)
                    && let Some(newest) = state.newest_version(&event)
                {
                    return Err(replaced_event(event.seq, newest));
                }
                story.pass(&event);
            } else {
                story.push(&event);
            }
            wanted = wanted && more(&mut story, false)?;
            if !wanted {
                break;
            }
        }
        story.finish();
        if wanted {
            more(&mut story, true)?;
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
                    .coded(FailureCode::NotFound)
            }
            (Some(turn), None) => {
                let last = state.core.turns.last;
                let hint = if last.0 == 0 {
                    "this session has no turns".to_owned()
                } else if turn <= last && !self.all {
                    "it was rewound, or it never existed; `--all` shows rewound events".to_owned()
                } else {
                    format!("the last turn of this session is {last}")
                };
                CommandError::failed(format!("there is no turn {turn}"))
                    .coded(FailureCode::NotFound)
                    .with_hint(hint)
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
                CommandError::failed(format!("there is no task {task}"))
                    .coded(FailureCode::NotFound)
                    .with_hint(hint)
            }
            (None, None) => match self.event {
                Some(event) => CommandError::failed(format!("event @{event} cannot be shown"))
                    .with_hint("`--json` prints it as it was recorded"),
                None => CommandError::failed("there is nothing to show"),
            },
        }
    }
}

/// The error that another version stands for an event.
fn replaced_event(event: Seq, newest: Seq) -> CommandError {
    CommandError::failed(format!("the message @{event} was replaced"))
        .coded(FailureCode::NotFound)
        .with_hint(format!(
            "its newest version is @{newest}; `--json` prints it as it was recorded"
        ))
}

/// The number of an event, as it is typed: `@36` or `36`.
fn event_number(typed: &str) -> Result<Seq, CommandError> {
    let digits = typed.strip_prefix('@').unwrap_or(typed);
    digits
        .parse()
        .map(Seq)
        .map_err(|_| CommandError::Usage(format!("invalid event {typed:?} (example: @36)")))
}
