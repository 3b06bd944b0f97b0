//! The overview of a session: what a list of sessions shows. Folded from the events alone, so that
//! a follower of the journal can keep it current without the rest of the state.

use serde::{Deserialize, Serialize};

use super::{ActivitySpan, EventTraits, WaitingCommands};
use crate::{
    Event, Fact, Kind, Lineage, OpenTurns, RunStart, Seq, SessionFields, SessionId, SessionStatus,
    Timestamp, Usage, WriterOpened,
};

/// Maximum length of a request or a summary in characters.
const CLIP: usize = 500;

/// A session in a few lines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Overview {
    /// The last event.
    pub seq: Seq,
    /// Its id, once `session.created` was seen.
    pub id: Option<SessionId>,
    /// When it was created, or began where its events say when they happened.
    pub created: Timestamp,
    /// The time of its last activity.
    pub updated: Timestamp,
    /// The times of its activity.
    #[serde(skip_serializing_if = "ActivitySpan::is_empty")]
    pub activity: ActivitySpan,
    /// Title, workspace, agent and so on.
    pub fields: SessionFields,
    /// Its status.
    pub status: SessionStatus,
    /// When it was completed, if that is its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// The reason for that status.
    pub reason: Option<String>,
    /// A summary of the outcome.
    pub summary: Option<String>,
    /// The first prompt of a person in the main lane.
    pub request: Option<String>,
    /// The first and the newest version of the message with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_at: Option<(Seq, Seq)>,
    /// The command of its first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Live turns.
    pub turns: u64,
    /// The open turn of each lane.
    #[serde(flatten)]
    pub open: OpenTurns,
    /// Live messages.
    pub messages: u64,
    /// Live tool calls.
    pub tool_calls: u64,
    /// Its usage, including rewound turns.
    pub usage: Usage,
    /// It has only events of the store's own bookkeeping, and is not a fork.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub empty: bool,
    /// A writer has it open, or died with it open.
    pub writing: bool,
    /// Who wrote to it last: `user@host`, as far as it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Its last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunOutline>,
    /// The shell calls that wait for their results.
    #[serde(skip_serializing_if = "WaitingCommands::is_empty")]
    pub commands: WaitingCommands,
    /// The live events.
    pub lineage: Lineage,
}

/// What a list needs to know of the last run of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOutline {
    /// It works on a task list, or goes on with the conversation of a session that such a run has.
    pub planned: bool,
    /// It goes on with a conversation: it says nothing about the session's status.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub conversation: bool,
    /// It has ended.
    pub finished: bool,
    /// The event that began it.
    pub started: Seq,
}

/// The effect of applying an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverviewUpdate {
    /// The overview is current.
    Done,
    /// The session was rewound: rebuild the overview with [`Overview::of`].
    Rewound,
}

impl Overview {
    /// The overview of these events, including rewinds. Visits them twice.
    pub fn of<I, E>(events: impl Fn() -> I) -> Result<Self, E>
    where
        I: Iterator<Item = Result<Event, E>>,
    {
        Self::default().followed_by(events)
    }

    /// The overview of these events, starting from this one. The events of a fork continue its turn
    /// numbers.
    pub fn followed_by<I, E>(self, events: impl Fn() -> I) -> Result<Self, E>
    where
        I: Iterator<Item = Result<Event, E>>,
    {
        let mut rewinds = Vec::new();
        let mut end = Seq::ZERO;
        for event in events() {
            let event = event?;
            end = event.seq;
            rewinds.extend(rewind_of(&event));
        }
        let lineage = Lineage::at(end, &rewinds);
        let mut overview = self;
        for event in events() {
            let event = event?;
            if lineage.contains(event.seq) {
                overview.apply(&event);
            } else {
                overview.apply_dead(&event);
            }
        }
        overview.lineage = lineage;
        Ok(overview)
    }

    /// The overview after a rewind to where it was `before`, plus what never reverts.
    #[must_use]
    pub fn rewound(&self, before: &Self) -> Self {
        let mut lineage = before.lineage.clone();
        lineage.extend(self.seq);
        let open = OpenTurns { last_turn: self.open.last_turn, ..before.open.clone() };
        Self {
            seq: self.seq,
            created: self.created,
            updated: self.updated,
            activity: self.activity,
            commands: self.commands.clone(),
            open,
            usage: self.usage.clone(),
            empty: self.empty,
            writing: self.writing,
            who: self.who.clone(),
            lineage,
            ..before.clone()
        }
    }

    /// Applies the next event.
    pub fn apply(&mut self, event: &Event) -> OverviewUpdate {
        let traits = EventTraits::of(event, &self.commands);
        self.apply_with(event, &traits)
    }

    /// Applies the next event, whose traits were read.
    pub(super) fn apply_with(&mut self, event: &Event, traits: &EventTraits) -> OverviewUpdate {
        self.commands.note(traits);
        self.seq = event.seq;
        self.note_time(event);
        self.lineage.extend(event.seq);
        self.empty &= event.kind.is_reserved();
        self.apply_name(event);
        if event.kind == Kind::MESSAGE_ADDED {
            // All versions of a message are one.
            self.messages += u64::from(event.replaces().is_none());
            return OverviewUpdate::Done;
        }
        let fact = event.fact();
        if let Ok(fact) = &fact {
            self.open.apply(event, fact);
        }
        match fact {
            Ok(Fact::SessionCreated(fact)) => {
                if self.id.is_none() {
                    self.id = Some(fact.session);
                    self.note_creation(event);
                    self.empty = event.seq == Seq::FIRST;
                    self.recorded_in(&fact.fields);
                }
                self.fields.update(fact.fields);
            }
            Ok(Fact::SessionUpdated(fact)) => self.fields.update(fact),
            Ok(Fact::SessionStatus(fact)) => {
                let completed = fact.status == SessionStatus::Completed;
                self.completed_at = completed.then_some(event.time());
                self.status = fact.status;
                self.reason = fact.reason.map(clip_overview_text);
                self.summary = fact.summary.map(clip_overview_text).or(self.summary.take());
            }
            Ok(Fact::ToolCall(_)) => self.tool_calls += 1,
            Ok(Fact::TurnStarted(_)) => self.turns += 1,
            Ok(Fact::TurnFinished(fact)) => self.usage.add(&fact.usage.unwrap_or_default()),
            Ok(Fact::ApiResult(fact)) => self.usage.add(&fact.usage.unwrap_or_default()),
            Ok(Fact::Usage(fact)) => self.usage.add(&fact.usage),
            Ok(Fact::RunStarted(start)) => self.begin_run(event.seq, &start),
            Ok(Fact::RunFinished(_)) => self.run.iter_mut().for_each(|run| run.finished = true),
            Ok(Fact::WriterOpened(opened)) => self.open_writer(opened),
            Ok(Fact::WriterClosed) => self.writing = false,
            Ok(Fact::Rewind(_)) if rewind_of(event).is_some() => return OverviewUpdate::Rewound,
            _ => {}
        }
        OverviewUpdate::Done
    }

    /// Notes when an event happened, rewound or not.
    fn note_time(&mut self, event: &Event) {
        self.updated = self.updated.max(event.at);
        self.activity.add(&event.kind, event.at, event.occurred);
        if let Some((first, last)) = self.activity.dated() {
            self.created = first;
            self.updated = last;
        }
    }

    /// Notes when it was created; its activity may be older.
    fn note_creation(&mut self, event: &Event) {
        self.created = self.activity.dated().map_or(event.at, |(first, _)| first);
    }

    /// Sets the project that a session is created in; keeps the known one if none is given.
    fn recorded_in(&mut self, fields: &SessionFields) {
        if fields.project_id.is_some() {
            self.fields.project_id.clone_from(&fields.project_id);
        }
    }

    /// Applies an event that was rewound: only what never reverts.
    fn apply_dead(&mut self, event: &Event) {
        let traits = EventTraits::of(event, &self.commands);
        self.commands.note(&traits);
        self.seq = event.seq;
        self.note_time(event);
        self.empty &= event.kind.is_reserved();
        match event.fact() {
            // A fork stays a fork, however far it is rewound.
            Ok(Fact::SessionCreated(fact)) if fact.fields.forked_from(event.seq).is_some() => {
                self.id = Some(fact.session);
                self.note_creation(event);
                self.recorded_in(&fact.fields);
                self.fields.update(fact.fields);
            }
            Ok(fact @ Fact::TurnStarted(_)) => self.open.apply_dead(&fact),
            Ok(Fact::TurnFinished(fact)) => self.usage.add(&fact.usage.unwrap_or_default()),
            Ok(Fact::ApiResult(fact)) => self.usage.add(&fact.usage.unwrap_or_default()),
            Ok(Fact::Usage(fact)) => self.usage.add(&fact.usage),
            Ok(Fact::WriterOpened(opened)) => self.open_writer(opened),
            Ok(Fact::WriterClosed) => self.writing = false,
            _ => {}
        }
    }

    fn open_writer(&mut self, opened: WriterOpened) {
        self.writing = true;
        self.who = opened.who.map(clip_overview_text).or(self.who.take());
    }

    fn begin_run(&mut self, started: Seq, start: &RunStart) {
        let before = self.run.is_some_and(|run| run.planned);
        let planned = if start.conversation { before } else { start.planned };
        let conversation = start.conversation;
        self.run = Some(RunOutline { planned, conversation, finished: false, started });
    }

    /// The last run, unless some of it was taken back: there is nothing to go on with then.
    #[must_use]
    pub fn standing_run(&self) -> Option<RunOutline> {
        self.run.filter(|run| !self.lineage.is_rewound_after(run.started))
    }
}

/// The seq and the target of a rewind; `None` if the event is not a valid rewind.
#[must_use]
pub fn rewind_of(event: &Event) -> Option<(Seq, Seq)> {
    if event.kind != Kind::SESSION_REWOUND {
        return None;
    }
    match event.fact() {
        Ok(Fact::Rewind(rewind)) if rewind.to < event.seq && rewind.to > Seq::ZERO => {
            Some((event.seq, rewind.to))
        }
        _ => None,
    }
}

pub(super) fn clip_overview_text(text: String) -> String {
    if text.len() <= CLIP { text } else { text.chars().take(CLIP).collect() }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use crate::{NewEvent, SessionState};

    use super::*;

    fn events(lines: &[&str]) -> Vec<Event> {
        let event = |(at, line): (usize, &&str)| {
            let seq = Seq(at as u64 + 1);
            NewEvent::parse(line).unwrap().into_event(seq, Timestamp::from_millis(at as i64))
        };
        lines.iter().enumerate().map(event).collect()
    }

    #[test]
    fn the_last_run_and_the_last_writer_are_told() {
        let mut overview = Overview::default();
        let mut told = |line: &str| {
            let event = NewEvent::parse(line).unwrap();
            overview.apply(&event.into_event(overview.seq.next(), Timestamp::from_millis(0)));
            let run = overview.run.map(|run| RunOutline { started: Seq::ZERO, ..run });
            (overview.who.clone(), run)
        };
        let run = |planned, conversation, finished| {
            Some(RunOutline { planned, conversation, finished, started: Seq::ZERO })
        };
        let ana = Some("ana@box".to_owned());
        let opened = r#"{"kind":"writer.opened","data":{"epoch":1,"who":"ana@box"}}"#;
        assert_eq!(told(opened), (ana.clone(), None));
        let planned = r#"{"kind":"run.started","data":{"command":["a"],"planned":true}}"#;
        assert_eq!(told(planned).1, run(true, false, false));
        let finished = r#"{"kind":"run.finished","data":{"status":"failed"}}"#;
        assert_eq!(told(finished).1, run(true, false, true));
        // A conversation does not make another session of it.
        let talk = r#"{"kind":"run.started","data":{"command":["a"],"conversation":true}}"#;
        assert_eq!(told(talk).1, run(true, true, false));
        let command = r#"{"kind":"run.started","data":{"command":["b"]}}"#;
        assert_eq!(told(command).1, run(false, false, false));
        assert_eq!(told(talk).1, run(false, true, false));
        // A writer that does not say who it is leaves the last one that did.
        assert_eq!(told(r#"{"kind":"writer.opened","data":{"epoch":2}}"#).0, ana);
    }

    #[test]
    fn a_run_that_was_taken_back_does_not_stand() {
        let mut lines = vec![
            r#"{"kind":"run.started","data":{"command":["a"]}}"#,
            r#"{"kind":"turn.started","data":{}}"#,
            r#"{"kind":"run.finished","data":{"status":"done"}}"#,
            r#"{"kind":"session.rewound","data":{"to":1}}"#,
        ];
        let standing = |lines: &[&str]| {
            let events = events(lines);
            let of = Overview::of(|| events.iter().cloned().map(Ok::<_, Infallible>)).unwrap();
            of.standing_run().map(|run| run.started)
        };
        assert_eq!(standing(&lines[..3]), Some(Seq(1)));
        assert_eq!(standing(&lines), None);
        lines.push(r#"{"kind":"run.started","data":{"command":["a"]}}"#);
        assert_eq!(standing(&lines), Some(Seq(5)));
    }

    /// What the whole state says and the overview says must be the same.
    #[test]
    fn it_says_what_the_state_says_rewinds_included() {
        let events = events(&[
            r#"{"kind":"session.updated","data":{"title":"one","labels":{"team":"a"}}}"#,
            r#"{"kind":"writer.opened","data":{"epoch":1}}"#,
            r#"{"kind":"turn.started","data":{"agent":"coder"}}"#,
            r#"{"kind":"message.added","data":{"role":"user","content":[{"type":"text","text":"do it"}]}}"#,
            r#"{"kind":"tool.called","data":{"call":"c","name":"bash"}}"#,
            r#"{"kind":"turn.finished","data":{"status":"ok","usage":{"input_tokens":5}}}"#,
            r#"{"kind":"turn.started","data":{"agent":"coder"},"lane":"b"}"#,
            r#"{"kind":"session.updated","data":{"title":"two"}}"#,
            r#"{"kind":"session.rewound","data":{"to":4}}"#,
            r#"{"kind":"usage.recorded","data":{"input_tokens":7}}"#,
            r#"{"kind":"session.rewound","data":{"to":99}}"#,
            r#"{"kind":"turn.started","data":{"agent":"coder"}}"#,
            r#"{"kind":"session.status","data":{"status":"completed","summary":"done"}}"#,
            r#"{"kind":"writer.closed","data":{}}"#,
        ]);
        let overview = Overview::of(|| events.iter().cloned().map(Ok::<_, Infallible>)).unwrap();
        let lineage = Lineage::at(Seq(14), &[(Seq(9), Seq(4))]);
        let mut state = SessionState::default();
        for event in &events {
            if lineage.contains(event.seq) {
                state.apply(event);
            } else {
                state.apply_dead(event);
            }
        }
        let core = state.core;
        assert_eq!(overview.fields, core.fields);
        assert_eq!(overview.fields.title.as_deref(), Some("one"));
        assert_eq!(overview.status, core.status);
        assert_eq!(overview.summary, core.summary);
        assert_eq!(overview.turns, core.turns.total);
        assert_eq!(overview.open.last_turn, core.turns.last);
        assert_eq!(overview.messages, core.messages.total);
        assert_eq!(overview.tool_calls, core.calls.tools);
        assert_eq!(overview.usage, core.usage);
        assert_eq!(overview.writing, core.writing);
        assert_eq!(overview.lineage, core.lineage);
        assert_eq!(overview.request.as_deref(), Some("do it"));
        assert_eq!(overview.seq, Seq(14));
        let json = serde_json::to_string(&overview).unwrap();
        assert!(
            json.contains(r#""turns":2,"last_turn":3,"open_turns":{"":3},"messages":"#),
            "{json}"
        );
        assert_eq!(serde_json::from_str::<Overview>(&json).unwrap(), overview);
        // Event by event it is the same, until the session goes back.
        let mut step = Overview::default();
        for event in events.iter().take(8) {
            assert_eq!(step.apply(event), OverviewUpdate::Done);
        }
        assert_eq!(step.apply(&events[8]), OverviewUpdate::Rewound);
        let upto = |last: usize| {
            Overview::of(|| events.iter().take(last).cloned().map(Ok::<_, Infallible>)).unwrap()
        };
        assert_eq!(step.rewound(&upto(4)), upto(9));
    }
}
