//! The state of a session now: what was recorded of it, and what is seen of its writer.
//!
//! People read a [`DisplayedState`], in every command. It is decided here alone, by
//! [`displayed_state`]. Programs read the recorded status beside it, which a live writer makes
//! `running` and a dead one `interrupted`.

use std::collections::HashMap;
use std::fmt;

use abide::{
    SessionId, SessionStatus, Store,
    event::{Epoch, RunState, SessionCore},
    history::{HistoryEntry, Overview, RunOutline},
    liveness::{Liveness, LockObservation, SessionLiveness},
};

use crate::text_table::TableColour;

/// What a session does, in the words that people read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum DisplayedState {
    /// A live process has it open.
    Running,
    /// Whether its writer lives cannot be told from here.
    Unclear,
    /// Its writer died with it open.
    Crashed,
    /// Its run, or what recorded it, said that it failed.
    Failed,
    /// Its run was ended before everything was done.
    Stopped,
    /// It was closed, and can go on.
    Idle,
    /// Nothing has happened in it yet.
    New,
    /// It has come to its end.
    Ended,
}

impl DisplayedState {
    /// Every state, in the order in which lists have them.
    pub(crate) const ALL: [Self; 8] = [
        Self::Running,
        Self::Unclear,
        Self::Crashed,
        Self::Failed,
        Self::Stopped,
        Self::Idle,
        Self::New,
        Self::Ended,
    ];

    /// The word for it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Unclear => "unclear",
            Self::Crashed => "crashed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Idle => "idle",
            Self::New => "new",
            Self::Ended => "ended",
        }
    }

    /// The word as a heading.
    pub(crate) const fn heading(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Unclear => "Unclear",
            Self::Crashed => "Crashed",
            Self::Failed => "Failed",
            Self::Stopped => "Stopped",
            Self::Idle => "Idle",
            Self::New => "New",
            Self::Ended => "Ended",
        }
    }

    /// The colour of the word.
    pub(crate) const fn colour(self) -> TableColour {
        match self {
            Self::Running => TableColour::Green,
            Self::Unclear | Self::Stopped => TableColour::Yellow,
            Self::Crashed | Self::Failed => TableColour::Red,
            Self::Idle | Self::New => TableColour::Plain,
            Self::Ended => TableColour::Dim,
        }
    }
}

impl fmt::Display for DisplayedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What was recorded of a session, as far as its state depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordedOutcome {
    pub(crate) status: SessionStatus,
    /// Nothing happened in it but the store's own bookkeeping.
    pub(crate) empty: bool,
    /// It has a run whose end was not recorded.
    pub(crate) open_run: bool,
}

impl RecordedOutcome {
    /// As the index has it.
    pub(crate) fn of_overview(overview: &Overview) -> Self {
        let is_open = |run: RunOutline| !run.finished;
        let open_run = overview.standing_run().is_some_and(is_open);
        Self { status: overview.status, empty: overview.empty, open_run }
    }

    /// As its state has it.
    pub(crate) fn of_core(core: &SessionCore) -> Self {
        let is_open =
            |run: RunState| run.finished.is_none() && !core.lineage.is_rewound_after(run.started);
        let open_run = core.run.is_some_and(is_open);
        Self { status: core.status, empty: core.epoch == Epoch::default(), open_run }
    }
}

/// The state of a session: the only place where it is decided.
pub(crate) const fn displayed_state(recorded: RecordedOutcome, writer: Liveness) -> DisplayedState {
    match (writer, recorded.status) {
        (Liveness::Alive, _) => DisplayedState::Running,
        (Liveness::Stale, _) => DisplayedState::Unclear,
        // Also one that died after it had said how it ended.
        (_, SessionStatus::Completed) => DisplayedState::Ended,
        (_, SessionStatus::Failed) => DisplayedState::Failed,
        (Liveness::Crashed, _) => DisplayedState::Crashed,
        (Liveness::Idle, SessionStatus::Interrupted) => DisplayedState::Stopped,
        // The run crashed, and something else has closed the session since.
        (Liveness::Idle, _) if recorded.open_run => DisplayedState::Stopped,
        (Liveness::Idle, SessionStatus::Pending) if recorded.empty => DisplayedState::New,
        (Liveness::Idle, _) => DisplayedState::Idle,
    }
}

/// A session's state for people, and its status for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CurrentStatus {
    pub(crate) state: DisplayedState,
    pub(crate) status: SessionStatus,
}

impl CurrentStatus {
    fn of(recorded: RecordedOutcome, writer: WriterTrace, liveness: Liveness) -> Self {
        let status =
            if recorded.empty { recorded.status } else { with_writer(recorded.status, writer) };
        Self { state: displayed_state(recorded, liveness), status }
    }

    /// By what was seen of its writer.
    pub(crate) fn seen(recorded: RecordedOutcome, found: &SessionLiveness) -> Self {
        Self::of(recorded, WriterTrace::seen(found), found.liveness)
    }

    /// Of a session that was closed.
    pub(crate) fn closed(recorded: RecordedOutcome) -> Self {
        Self::of(recorded, WriterTrace::Left, Liveness::Idle)
    }

    /// Of one that was not closed, and whose writer cannot be looked at.
    fn unseen(recorded: RecordedOutcome) -> Self {
        Self::of(recorded, WriterTrace::Died, Liveness::Stale)
    }

    /// Of a session whose state is known.
    pub(crate) fn of_session(id: SessionId, core: &SessionCore, store: &Store) -> Self {
        let recorded = RecordedOutcome::of_core(core);
        match core.writing {
            false => Self::closed(recorded),
            true => store
                .liveness(id)
                .map_or_else(|_| Self::unseen(recorded), |found| Self::seen(recorded, &found)),
        }
    }

    /// Of listed sessions. A lock is looked at only for those that were not closed.
    pub(crate) fn of_entries(entries: &[HistoryEntry], store: &Store) -> Vec<Self> {
        let open = entries.iter().filter(|entry| entry.overview.writing).map(|entry| entry.id);
        let open: Vec<SessionId> = open.collect();
        let found: HashMap<SessionId, SessionLiveness> = open
            .iter()
            .copied()
            .zip(store.livenesses(&open))
            .filter_map(|(id, found)| Some((id, found.ok()?)))
            .collect();
        let status = |entry: &HistoryEntry| {
            let recorded = RecordedOutcome::of_overview(&entry.overview);
            match found.get(&entry.id) {
                _ if !entry.overview.writing => Self::closed(recorded),
                // It may have been closed since.
                Some(found) => Self::seen(
                    RecordedOutcome { status: found.evidence.status, empty: false, ..recorded },
                    found,
                ),
                None => Self::unseen(RecordedOutcome { empty: false, ..recorded }),
            }
        };
        entries.iter().map(status).collect()
    }
}

/// What is seen of a session's writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriterTrace {
    /// Somebody has the session open.
    Here,
    /// It did not close the session, and is gone.
    Died,
    /// It closed the session.
    Left,
}

impl WriterTrace {
    fn seen(found: &SessionLiveness) -> Self {
        let held = found.evidence.lock == LockObservation::Held;
        match found.evidence.writing {
            _ if held || found.liveness == Liveness::Alive => Self::Here,
            true => Self::Died,
            false => Self::Left,
        }
    }
}

const fn with_writer(recorded: SessionStatus, writer: WriterTrace) -> SessionStatus {
    match (writer, recorded) {
        (WriterTrace::Here, _) => SessionStatus::Running,
        (WriterTrace::Died, SessionStatus::Completed | SessionStatus::Failed) => recorded,
        (WriterTrace::Died, _) => SessionStatus::Interrupted,
        (WriterTrace::Left, SessionStatus::Pending | SessionStatus::Running) => SessionStatus::Idle,
        (WriterTrace::Left, _) => recorded,
    }
}

/// A word by which lists are filtered: a state, or a status as programs read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatusWord(&'static str);

impl StatusWord {
    /// The statuses that are no states.
    const STATUSES: [SessionStatus; 3] =
        [SessionStatus::Pending, SessionStatus::Interrupted, SessionStatus::Completed];

    /// Parses an argument.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let states = DisplayedState::ALL.map(DisplayedState::as_str);
        let statuses = Self::STATUSES.map(SessionStatus::as_str);
        let typed = text.to_lowercase();
        let known = states.into_iter().chain(statuses).find(|word| *word == typed);
        known.map(Self).ok_or_else(|| format!("expected one of: {}", states.join(", ")))
    }

    /// Is this session meant?
    pub(crate) fn fits(&self, now: CurrentStatus) -> bool {
        self.0 == now.state.as_str() || self.0 == now.status.as_str()
    }
}

/// The recorded statuses of sessions that may fit one of these words now. An empty list means any.
pub(crate) fn recorded_statuses(words: &[StatusWord]) -> Vec<SessionStatus> {
    const OPEN: [SessionStatus; 4] = [
        SessionStatus::Pending,
        SessionStatus::Running,
        SessionStatus::Idle,
        SessionStatus::Interrupted,
    ];
    let mut recorded = Vec::new();
    for StatusWord(word) in words {
        match *word {
            "pending" | "new" => recorded.push(SessionStatus::Pending),
            "completed" | "ended" => recorded.push(SessionStatus::Completed),
            "failed" => recorded.push(SessionStatus::Failed),
            "idle" | "interrupted" | "crashed" | "stopped" => recorded.extend(OPEN),
            // Whatever was recorded, a session that a process has open is running.
            _ => return Vec::new(),
        }
    }
    recorded
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [SessionStatus; 6] = [
        SessionStatus::Pending,
        SessionStatus::Running,
        SessionStatus::Idle,
        SessionStatus::Interrupted,
        SessionStatus::Completed,
        SessionStatus::Failed,
    ];
    const SEEN: [(WriterTrace, Liveness); 4] = [
        (WriterTrace::Here, Liveness::Alive),
        (WriterTrace::Died, Liveness::Stale),
        (WriterTrace::Died, Liveness::Crashed),
        (WriterTrace::Left, Liveness::Idle),
    ];

    /// Everything that may be recorded of a session.
    fn outcomes() -> impl Iterator<Item = RecordedOutcome> {
        ALL.into_iter().flat_map(|status| {
            [(false, false), (true, false), (false, true)]
                .map(|(empty, open_run)| RecordedOutcome { status, empty, open_run })
        })
    }

    #[test]
    fn a_state_says_what_the_writer_does_and_else_how_it_ended() {
        use DisplayedState as State;
        let plain = |status| RecordedOutcome { status, empty: false, open_run: false };
        for recorded in outcomes() {
            assert_eq!(displayed_state(recorded, Liveness::Alive), State::Running);
            assert_eq!(displayed_state(recorded, Liveness::Stale), State::Unclear);
            let crashed = displayed_state(recorded, Liveness::Crashed);
            assert_eq!(
                crashed,
                match recorded.status {
                    SessionStatus::Completed => State::Ended,
                    SessionStatus::Failed => State::Failed,
                    _ => State::Crashed,
                }
            );
        }
        let closed = |recorded| displayed_state(recorded, Liveness::Idle);
        let states = ALL.map(|status| closed(plain(status)));
        let [idle, stopped] = [State::Idle, State::Stopped];
        assert_eq!(states, [idle, idle, idle, stopped, State::Ended, State::Failed]);
        let new = RecordedOutcome { empty: true, ..plain(SessionStatus::Pending) };
        assert_eq!(closed(new), State::New);
        // A run that crashed, and whose session was closed by another command, has not ended.
        let killed = RecordedOutcome { open_run: true, ..plain(SessionStatus::Running) };
        assert_eq!(closed(killed), State::Stopped);
    }

    /// A conversation that nobody completed is never done.
    #[test]
    fn a_chat_is_idle_or_has_ended() {
        for status in [SessionStatus::Pending, SessionStatus::Running, SessionStatus::Idle] {
            let chat = RecordedOutcome { status, empty: false, open_run: false };
            assert_eq!(CurrentStatus::closed(chat).state, DisplayedState::Idle);
        }
        let words = DisplayedState::ALL.map(DisplayedState::as_str);
        assert!(!words.contains(&"done") && !words.contains(&"completed"));
    }

    #[test]
    fn the_recorded_statuses_cover_every_status_now() {
        for recorded in outcomes() {
            for (writer, liveness) in SEEN {
                let now = CurrentStatus::of(recorded, writer, liveness);
                for word in [now.state.as_str(), now.status.as_str()] {
                    let word = StatusWord::parse(word).unwrap();
                    assert!(word.fits(now));
                    let asked = recorded_statuses(&[word]);
                    assert!(asked.is_empty() || asked.contains(&recorded.status), "{now:?}");
                }
            }
        }
    }
}
