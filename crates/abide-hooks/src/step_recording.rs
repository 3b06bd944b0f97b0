//! Records one report of a hook in its session.

use std::thread::sleep;
use std::time::{Duration, Instant};

use abide::checkpoint::CheckpointOutcome;
use abide::message::RecordedMessage;
use abide::{Durability, Kind, LaneId, NewEvent, Seq, Session};
use abide_agents::{HookReport, HookStep, KeptForm, TurnEnding};
use abide_import::import_into;
use abide_model::message::{PieceContent, Speaker};
use abide_model::{
    AnomalyPolicy, Event, LogRecord, Payload, ToolCall, ToolResult, TurnEnd, TurnStart,
};
use serde_json::{Value, json};

use crate::HooksError;
use crate::hook_inbox::{ReportHead, SessionInbox, stable_hash};
use crate::hook_recorder::{HookRecorder, OwnReport};
use crate::live_state::LiveState;

/// How long the last message of a turn is waited for in the agent's file. Some write it a moment after the
/// turn's end.
const LAST_MESSAGE: Duration = Duration::from_millis(500);
/// How often the file is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(25);
/// Among how many of the newest events the last message of a turn is looked for.
const NEWEST: usize = 64;

/// A prompt without an id that comes again so soon is the same, told by another hook; in milliseconds.
const RESENT: i64 = 2000;

/// A session in which reports are recorded.
pub(crate) struct StepRecording<'a> {
    pub(crate) recorder: &'a HookRecorder<'a>,
    pub(crate) inbox: &'a SessionInbox,
    pub(crate) session: &'a Session,
    pub(crate) state: &'a mut LiveState,
}

impl StepRecording<'_> {
    /// Records a report. One that was recorded before, or that another hook told too, changes nothing.
    pub(crate) fn report(
        &mut self,
        head: &ReportHead,
        report: HookReport,
        files: Option<OwnReport>,
    ) -> Result<(), HooksError> {
        let identity = report.identity();
        let is_named = identity.is_some();
        let key = format!("hook/{}", identity.unwrap_or_else(|| head.id.clone()));
        let lane = report.lane.clone();
        let turn = report.turn;
        let name = step_name(&report.step);
        match report.step {
            HookStep::Prompted { text, by_person } => {
                if is_named || !self.is_resent(head, &text) {
                    self.prompt(&key, turn, &text, by_person, files.as_ref())?;
                }
                self.state.prompted = Some((text_hash(&text), head.at));
                self.files(files.as_ref())?;
            }
            HookStep::TurnFinished { ending, message } => {
                self.import()?;
                if let Some(message) = message.filter(|message| !message.trim().is_empty()) {
                    self.last_message(&key, &message)?;
                }
                let status = match ending {
                    TurnEnding::Completed => "completed",
                    TurnEnding::Interrupted => "interrupted",
                    TurnEnding::Failed => "failed",
                };
                // The end of another turn, which came late, is not that of this one.
                let open = self.state.turn_name.as_ref();
                if open.is_none() || turn.is_none() || open == turn.as_ref() {
                    self.end_open_turn(status)?;
                }
                self.files(files.as_ref())?;
            }
            HookStep::CallFinished { call, tool, arguments, result, ok } => {
                if self.has_file() {
                    self.import()?;
                } else if self.keeps_files() {
                    let call = FinishedCall { call, tool, arguments, result, ok };
                    self.append(call.events(&key, lane))?;
                }
            }
            HookStep::SessionEnded => {
                self.import()?;
                if self.is_turn_open()? {
                    self.files(files.as_ref())?;
                }
                self.end_open_turn("interrupted")?;
                self.state.ended = true;
            }
            HookStep::SessionStarted | HookStep::SubagentFinished { .. } | HookStep::Other => {
                self.import()?;
            }
        }
        let agent = self.inbox.agent.as_str();
        let session = &self.state.session;
        self.recorder.trace.tell(format_args!("{agent}/{session}: recorded {name} ({key})"));
        Ok(())
    }

    /// Records what is new in the agent's own files. What cannot be imported now keeps nothing else from being
    /// recorded.
    pub(crate) fn import(&mut self) -> Result<(), HooksError> {
        match self.try_import() {
            Err(HooksError::Import(error)) => {
                self.recorder.trace.tell(format_args!("not imported: {error}"));
                Ok(())
            }
            done => done,
        }
    }

    fn try_import(&mut self) -> Result<(), HooksError> {
        // A database is copied to be read.
        let stamp = self.recorder.finder.database_stamp(self.inbox.agent);
        if stamp.is_some() && stamp == self.state.database {
            return Ok(());
        }
        let found = self.state.find(self.inbox.agent, self.recorder.finder);
        let Some(found) = found else { return Ok(()) };
        if self.state.position.as_ref().is_some_and(|position| !position.is_behind(&found)) {
            return Ok(());
        }
        let (_, position) = import_into(self.session, &found, self.state.position.as_ref())?;
        if let Some(position) = position {
            self.state.position = Some(position);
            self.state.database = stamp;
        }
        Ok(())
    }

    /// Did another hook tell this prompt a moment ago? Some agents give no id by which it could be told.
    fn is_resent(&self, head: &ReportHead, text: &str) -> bool {
        let known = self.state.prompted.as_ref().filter(|_| self.state.turn.is_some());
        known.is_some_and(|(hash, at)| {
            *hash == text_hash(text) && (0..RESENT).contains(&(head.at - at))
        })
    }

    /// Begins a turn, unless the hook was told twice, or recorded and not noted.
    fn prompt(
        &mut self,
        key: &str,
        turn: Option<String>,
        text: &str,
        by_person: bool,
        files: Option<&OwnReport>,
    ) -> Result<(), HooksError> {
        // What the agent wrote since would hide the event.
        let is_known = self.state.turn.as_deref() == Some(key) || self.is_recorded(key)?;
        self.import()?;
        if !is_known {
            let is_told = !by_person || self.is_prompt_told(text)?;
            // What a person adds to a turn belongs to it.
            let is_added =
                self.state.turn.is_some() && turn.is_some() && self.state.turn_name == turn;
            let mut events = Vec::new();
            if !is_added {
                if self.is_turn_open()? {
                    // Nobody told that it ended. Its files are those that this prompt found.
                    self.files(files)?;
                    self.end_open_turn("interrupted")?;
                }
                let agent = self.inbox.agent.as_str().to_owned();
                let start = TurnStart { agent, ..TurnStart::default() };
                events.push(with_key(NewEvent::try_from(start), key));
            }
            if !is_told {
                events.push(provisional("user", json!(text), &format!("{key}/said")));
            }
            self.append(events)?;
        }
        self.state.turn = Some(key.to_owned());
        self.state.turn_name = turn;
        self.state.ended = false;
        // What was appended before it is synced too.
        self.inbox.write_state(self.state)
    }

    /// Was the first event of a turn recorded, and the turn not noted as open? A drain may have ended in
    /// between.
    fn is_recorded(&self, key: &str) -> Result<bool, HooksError> {
        let newest = self.session.view().last(NEWEST)?;
        Ok(newest.iter().any(|event| event.key.as_deref() == Some(key)))
    }

    fn is_turn_open(&self) -> Result<bool, HooksError> {
        Ok(self.session.state()?.lane("").is_some_and(|lane| lane.turn.is_some()))
    }

    /// Ends the open turn of the agent, if there is one.
    pub(crate) fn end_open_turn(&mut self, status: &str) -> Result<(), HooksError> {
        if self.is_turn_open()? {
            let end = TurnEnd { status: status.to_owned(), ..TurnEnd::default() };
            self.append(vec![NewEvent::try_from(end)])?;
        }
        self.state.turn = None;
        self.state.turn_name = None;
        Ok(())
    }

    /// Records the last message of a turn as the hook told it, unless the agent's file has it.
    fn last_message(&mut self, key: &str, message: &str) -> Result<(), HooksError> {
        let until = Instant::now() + LAST_MESSAGE;
        while !self.says_last(message)? {
            if !self.has_file() || Instant::now() > until {
                return self.append(vec![provisional(
                    "assistant",
                    json!(message),
                    &format!("{key}/said"),
                )]);
            }
            sleep(LOOK);
            self.import()?;
        }
        Ok(())
    }

    /// Did the agent's file tell this prompt already, since the last turn began or ended? What it told in
    /// place of a hook's words is an earlier prompt.
    fn is_prompt_told(&self, prompt: &str) -> Result<bool, HooksError> {
        let is_open = self.is_turn_open()?;
        let newest = self.session.view().last(NEWEST)?;
        // In a turn that is open still, what the model has answered is that turn's prompt.
        let is_other = |event: &&Event| {
            [Kind::TURN_STARTED, Kind::TURN_FINISHED].contains(&event.kind)
                || is_open && message_of(event, Speaker::Assistant).is_some()
        };
        let mut since = newest.iter().rev().take_while(|event| !is_other(event));
        Ok(since.any(|event| {
            let message = message_of(event, Speaker::User).filter(|_| event.replaces().is_none());
            message.is_some_and(|message| !message.marks.provisional && says(&message, prompt))
        }))
    }

    /// Is this the last message of the model, since the prompt and since the turn before this one ended? What
    /// the file told in place of a hook's words stands where they stood. Some agents tell all that was said in
    /// the turn.
    fn says_last(&self, message: &str) -> Result<bool, HooksError> {
        let newest = self.session.view().last(NEWEST)?;
        let place = |event: &Event| event.replaces().unwrap_or(event.seq);
        let began = newest.iter().rposition(|event| event.kind == Kind::TURN_STARTED);
        let before = began.and_then(|began| newest.get(..began)).unwrap_or_default();
        let ended = before.iter().rfind(|event| event.kind == Kind::TURN_FINISHED);
        let is_prompt = |event: &&Event| {
            let message = message_of(event, Speaker::User);
            message.is_some_and(|message| !text_of(&message).trim().is_empty())
        };
        let prompted = newest.iter().filter(is_prompt).map(place).max();
        let since = ended.map(place).max(prompted).unwrap_or(Seq::ZERO);
        let said = newest.iter().filter(|event| place(event) > since);
        let said =
            said.filter_map(|event| Some((place(event), message_of(event, Speaker::Assistant)?)));
        let last = said.max_by_key(|(place, _)| *place);
        let last = last.map(|(_, last)| text_of(&last)).unwrap_or_default();
        let last = last.trim();
        Ok(!last.is_empty() && message.trim().ends_with(last))
    }

    /// Makes a checkpoint of the files that were captured for this report.
    fn files(&mut self, own: Option<&OwnReport>) -> Result<(), HooksError> {
        let Some(own) = own else { return Ok(()) };
        if let Some(captured) = &own.captured {
            let trace = self.recorder.trace;
            if captured.root() != self.state.workspace.as_deref() {
                trace.tell("no checkpoint: the session works in another directory");
                return Ok(());
            }
            match self.session.checkpoint_captured(captured) {
                Ok(CheckpointOutcome::Recorded(made)) => {
                    trace.tell(format_args!("checkpoint {}", made.number));
                }
                Ok(CheckpointOutcome::Unchanged(held)) => {
                    trace.tell(format_args!("no change since {}", held.number));
                }
                // The turn is recorded all the same.
                Err(error) => trace.tell(format_args!("no checkpoint: {error}")),
            }
        } else if let Some(why) = &own.without_files
            && !self.state.said_without_files
        {
            let text = format!("no checkpoints of the files are made: {why}");
            let log = LogRecord { level: "warn".to_owned(), text };
            self.append(vec![NewEvent::try_from(log)])?;
            self.state.said_without_files = true;
        }
        Ok(())
    }

    /// The agent keeps a file of this session.
    fn has_file(&self) -> bool {
        self.state.file.as_ref().is_some_and(|file| file.is_file())
    }

    /// The agent keeps its sessions in files, and not in a database.
    fn keeps_files(&self) -> bool {
        let kept = self.inbox.agent.kept_sessions();
        kept.is_some_and(|kept| matches!(kept.form, KeptForm::Files { .. }))
    }

    fn append(
        &self,
        events: Vec<Result<NewEvent, abide_model::InputError>>,
    ) -> Result<(), HooksError> {
        // What is no event, as one that is too large, is left to the agent's file.
        let events: Vec<NewEvent> = events.into_iter().flatten().collect();
        if events.is_empty() {
            return Ok(());
        }
        let ticket = self.session.append_with(events, Durability::Synced, AnomalyPolicy::Keep)?;
        ticket.wait().map_err(abide::Error::from)?;
        Ok(())
    }
}

/// A call that a hook told of.
struct FinishedCall {
    call: String,
    tool: String,
    arguments: String,
    result: String,
    ok: bool,
}

impl FinishedCall {
    /// Its events where the agent keeps no file: what was said of it, and that it was done.
    fn events(
        self,
        key: &str,
        lane: Option<LaneId>,
    ) -> Vec<Result<NewEvent, abide_model::InputError>> {
        let Self { call, tool, arguments, result, ok } = self;
        let arguments: Value = serde_json::from_str(&arguments).unwrap_or(Value::Null);
        let asked = json!([{"type": "tool_use", "id": call, "name": tool, "input": arguments}]);
        let told = json!([
            {"type": "tool_result", "tool_use_id": call, "content": result, "is_error": !ok}
        ]);
        let called = ToolCall { observed: true, ..ToolCall::new(call.as_str(), tool) };
        let ended = ToolResult { ok, ..ToolResult::success(call.as_str()) };
        let events = [
            provisional("assistant", asked, &format!("{key}/asked")),
            with_key(NewEvent::try_from(called), &format!("{key}/called")),
            with_key(NewEvent::try_from(ended), &format!("{key}/ended")),
            provisional("user", told, &format!("{key}/told")),
        ];
        let in_lane = |event: NewEvent| NewEvent { lane: lane.clone(), ..event };
        events.into_iter().map(|event| event.map(in_lane)).collect()
    }
}

/// A message that the record of the agent's own file will replace.
fn provisional(role: &str, content: Value, key: &str) -> Result<NewEvent, abide_model::InputError> {
    let data = json!({"role": role, "content": content, "abide": {"provisional": true}});
    let limits = abide_model::EventLimits::default();
    let event = Payload::new(&data.to_string(), &limits)
        .map(|data| NewEvent::new(Kind::MESSAGE_ADDED, data));
    with_key(event, key)
}

fn with_key(
    event: Result<NewEvent, abide_model::InputError>,
    key: &str,
) -> Result<NewEvent, abide_model::InputError> {
    event.map(|event| NewEvent { key: Some(key.to_owned()), ..event })
}

/// The message of an event, if it is one of the main lane by this speaker.
fn message_of(event: &Event, speaker: Speaker) -> Option<RecordedMessage> {
    let data = event.data.as_ref().filter(|_| event.kind == Kind::MESSAGE_ADDED)?;
    let message = RecordedMessage::of(data).filter(|_| event.lane.is_none())?;
    (message.speaker() == speaker).then_some(message)
}

fn says(recorded: &RecordedMessage, message: &str) -> bool {
    text_of(recorded).trim() == message.trim()
}

fn text_of(recorded: &RecordedMessage) -> String {
    let texts = recorded.pieces.iter().filter_map(|piece| match &piece.sort {
        PieceContent::Text(text) => Some(text.decoded()),
        _ => None,
    });
    let texts: Vec<String> = texts.map(|text| text.trim().to_owned()).collect();
    texts.join("\n")
}

fn text_hash(text: &str) -> u64 {
    stable_hash(text.trim())
}

const fn step_name(step: &HookStep) -> &'static str {
    match step {
        HookStep::SessionStarted => "the start of the session",
        HookStep::Prompted { .. } => "a prompt",
        HookStep::CallFinished { .. } => "a call",
        HookStep::TurnFinished { .. } => "the end of a turn",
        HookStep::SubagentFinished { .. } => "the end of a subagent",
        HookStep::SessionEnded => "the end of the session",
        HookStep::Other => "what is new",
    }
}
