//! The translator of one session.

use std::path::Path;

use abide::{
    Kind, LaneId, SessionFields, SessionState,
    event::{FileOp, ObjectHash},
    secrets::Redactor,
};
use serde_json::value::RawValue;

use super::chunk_block::{ChunkBlocks, ChunkKind, MessageEnd};
use super::file::{AcpFileDirectory, FileParams};
use super::held_updates::{HeldUpdates, UpdateStage};
use super::lane::lane_of_meta;
use super::name::recorded_name;
use super::plan_tasks::PlanTasks;
use super::record_batch::{RecordBatch, UPDATE};
use super::redacted_text::start_of_text;
use super::request::{OpenRequest, OpenRequests, ResponseSubject};
use super::terminal::{TerminalParams, Terminals, terminal_build};
use super::tracked_calls::{AcpToolCall, TrackedCalls};
use super::update::{UpdateData, UpdateHead, UpdateParams, UpdateParamsData, parse_update_object};
use super::{RecordedEvents, permission, prompt, request, settings};
use crate::protocol::{AcpUpdate, UpdateKind};

/// The longest path that is remembered.
const PATH: usize = 16 << 10;

/// Translates the messages of one session into events.
#[derive(Debug)]
pub struct Translator {
    agent: String,
    redactor: Option<Redactor>,
    directory: AcpFileDirectory,
    /// Prompts without an answer so far.
    turns: usize,
    blocks: ChunkBlocks,
    calls: TrackedCalls,
    /// Updates whose texts may go on.
    held: HeldUpdates,
    requests: OpenRequests,
    terminals: Terminals,
    plan: PlanTasks,
    /// The hash of the last `usage_update`.
    usage: Option<ObjectHash>,
    /// The context window that it told, in tokens.
    window: Option<u64>,
}

impl Translator {
    /// A translator for a session with the agent of this name.
    #[must_use]
    pub fn new(agent: &str) -> Self {
        Self {
            agent: agent.to_owned(),
            redactor: None,
            directory: AcpFileDirectory::default(),
            turns: 0,
            blocks: ChunkBlocks::default(),
            calls: TrackedCalls::new(),
            held: HeldUpdates::new(),
            requests: OpenRequests::new(),
            terminals: Terminals::new(),
            plan: PlanTasks::default(),
            usage: None,
            window: None,
        }
    }

    /// The context window of the main agent's model, in tokens, if the agent has told it.
    pub(crate) fn window(&self) -> Option<u64> {
        self.window
    }

    /// Records paths in this directory relative to it.
    #[must_use]
    pub fn in_directory(mut self, directory: &Path) -> Self {
        self.directory = AcpFileDirectory::new(directory);
        self
    }

    /// Records for a session whose secrets this redactor replaces: no text is cut where it cuts one.
    #[must_use]
    pub fn redacted_by(mut self, redactor: Option<Redactor>) -> Self {
        self.redact_with(redactor);
        self
    }

    /// Records from here on for a session whose secrets this redactor replaces.
    pub(crate) fn redact_with(&mut self, redactor: Option<Redactor>) {
        self.blocks.redact_with(redactor.clone());
        self.calls.redact_with(redactor.clone());
        self.held.redact_with(redactor.clone());
        self.terminals.redact_with(redactor.clone());
        self.plan.redact_with(redactor.clone());
        self.redactor = redactor;
    }

    /// Continues a session that was opened again: with the tasks of its plan and its open calls.
    #[must_use]
    pub fn resuming(mut self, state: &SessionState) -> Self {
        self.plan.resume(state);
        for (id, call) in state.calls.iter().filter(|(_, call)| !call.request) {
            self.calls.resume(id, call);
        }
        self
    }

    /// Records a prompt: the params of `session/prompt`, as the client sent them.
    pub fn prompt(&mut self, params: &RawValue) -> RecordedEvents {
        let mut batch = RecordBatch::default();
        batch.before();
        // A prompt sent before the last one was answered belongs to the same turn.
        let begins = self.turns == 0;
        if begins {
            self.calls.leave_resumed(&mut batch);
        }
        self.blocks.end_all(MessageEnd::Whole, &mut batch);
        if begins {
            prompt::begin_turn(&self.agent, self.redactor.as_ref(), &mut batch);
        }
        self.turns = self.turns.saturating_add(1);
        prompt::record_prompt(params, &mut batch);
        batch.finish()
    }

    /// Records the agent's answer to the prompt: its result or its error.
    pub fn prompted(&mut self, outcome: Result<&RawValue, &RawValue>) -> RecordedEvents {
        if self.turns > 1 {
            self.turns -= 1;
            let mut batch = RecordBatch::default();
            batch.before();
            self.blocks.end_all(MessageEnd::Whole, &mut batch);
            prompt::record_prompt_usage(outcome, &mut batch);
            return batch.finish();
        }
        self.end_turn(MessageEnd::Whole, |redactor, batch| {
            prompt::end_prompt_turn(outcome, redactor, batch);
        })
    }

    /// Records that the turn ended without an answer; `why` is its status.
    pub fn interrupted(&mut self, why: &str) -> RecordedEvents {
        self.end_turn(MessageEnd::Partial, |redactor, batch| {
            prompt::break_off_prompt(why, redactor, batch);
        })
    }

    fn end_turn(
        &mut self,
        end: MessageEnd,
        finish: impl FnOnce(Option<&Redactor>, &mut RecordBatch),
    ) -> RecordedEvents {
        let mut batch = RecordBatch::default();
        batch.before();
        self.blocks.end_all(end, &mut batch);
        self.terminals.end_turn(end, &mut batch);
        self.held.end_all(&mut batch);
        self.calls.leave_open(&mut batch);
        if std::mem::take(&mut self.turns) > 0 {
            finish(self.redactor.as_ref(), &mut batch);
        }
        batch.finish()
    }

    /// Records an update: the params of a `session/update`.
    pub fn update(&mut self, params: &RawValue) -> RecordedEvents {
        self.update_in(None, params)
    }

    /// Records an update of a child session, which has a lane of its own.
    pub fn update_in(&mut self, lane: Option<&str>, params: &RawValue) -> RecordedEvents {
        let mut batch = RecordBatch::default();
        let lane = lane.map(|lane| LaneId(recorded_name(lane)));
        let Some(UpdateParams { update }) = parse_update_object(params) else {
            batch.add(UPDATE, lane.as_ref(), &UpdateParamsData { params });
            return batch.finish();
        };
        let Some(head) = parse_update_object::<UpdateHead<'_>>(update) else {
            batch.add(UPDATE, lane.as_ref(), &UpdateData { acp: update });
            return batch.finish();
        };
        let lane = lane.or_else(|| lane_of_meta(head.meta));
        let lane = lane.as_ref();
        let chunk = ChunkKind::of(&head.session_update).zip(head.content);
        let taken = chunk.is_some_and(|(sort, content)| {
            self.blocks.chunk(sort, lane, head.message_id, content, &mut batch)
        });
        if !taken {
            self.other(lane, &head, update, &mut batch);
        }
        batch.finish()
    }

    /// Records an update that is not a chunk.
    fn other(
        &mut self,
        lane: Option<&LaneId>,
        head: &UpdateHead<'_>,
        update: &RawValue,
        batch: &mut RecordBatch,
    ) {
        // These come at any moment and do not end a message.
        let beside = ["usage_update", "available_commands_update", "session_info_update"];
        if !beside.contains(&&*head.session_update) {
            self.blocks.end(lane, MessageEnd::Whole, batch);
        }
        let keep = |batch: &mut RecordBatch| {
            batch.add(UPDATE, lane, &UpdateData { acp: update });
        };
        let Some(read) = AcpUpdate::read(update.get()) else { return keep(batch) };
        match read.kind() {
            UpdateKind::ToolCall | UpdateKind::ToolCallUpdate => {
                let Some(told) = parse_update_object::<AcpToolCall<'_>>(update) else {
                    return keep(batch);
                };
                let stage = self.calls.stage(&told, read.kind() == UpdateKind::ToolCall);
                let passed = self.held.pass(told.id().as_str(), lane, &read, stage, batch);
                let whole = passed.whole.as_deref().unwrap_or(update);
                let call = parse_update_object::<AcpToolCall<'_>>(whole).unwrap_or(told);
                let shown = match stage {
                    UpdateStage::Last => whole,
                    _ => passed.shown.as_deref().unwrap_or(update),
                };
                if read.kind() == UpdateKind::ToolCall {
                    self.calls.began(lane, &call, shown, &self.directory, batch);
                } else {
                    self.calls.changed(lane, &call, shown, &self.directory, batch);
                }
            }
            UpdateKind::Plan => {
                keep(batch);
                // Only the main agent's plan becomes the session's tasks.
                if lane.is_none() {
                    self.plan.plan(read.entries(), batch);
                }
            }
            UpdateKind::SessionInfo => {
                keep(batch);
                let title = read.text("title").filter(|title| !title.trim().is_empty());
                if let Some(title) = title.filter(|_| lane.is_none()) {
                    let title = Some(start_of_text(self.redactor.as_ref(), title, 4096));
                    let fields = SessionFields { title, ..SessionFields::default() };
                    batch.fact(&Kind::SESSION_UPDATED, None, fields);
                }
            }
            UpdateKind::Usage => {
                let hash = Some(ObjectHash::of(update.get().as_bytes()));
                if self.usage != hash {
                    self.usage = hash;
                    keep(batch);
                }
                if lane.is_none() {
                    self.window = read.number("size").filter(|size| *size > 0).or(self.window);
                }
            }
            UpdateKind::Other => {
                let Some(subject) = message_of(&read, lane) else { return keep(batch) };
                if read.text("sessionUpdate").is_some_and(|sort| sort.ends_with("_chunk")) {
                    self.held.end_other_messages(&subject, lane, batch);
                    let passed = self.held.pass(&subject, lane, &read, UpdateStage::Later, batch);
                    let acp = passed.shown.as_deref().unwrap_or(update);
                    batch.add(UPDATE, lane, &UpdateData { acp });
                } else {
                    // A compaction that goes on has more chunks.
                    if read.text("status") != Some("in_progress") {
                        self.held.end(&subject, batch);
                    }
                    keep(batch);
                }
            }
            _ => keep(batch),
        }
    }

    /// Records a request from the agent to the client: permissions, files, terminals, anything.
    pub fn asked(
        &mut self,
        id: &RawValue,
        method: &str,
        params: Option<&RawValue>,
    ) -> RecordedEvents {
        let mut batch = RecordBatch::default();
        let file = || params.and_then(parse_update_object::<FileParams>);
        let terminal = || {
            params
                .and_then(parse_update_object::<TerminalParams>)
                .map(|read| recorded_name(&read.terminal_id))
        };
        let waiting = match method {
            "session/request_permission" => {
                let lane = permission::permission_lane(params, &self.calls);
                self.blocks.end(lane.as_ref(), MessageEnd::Whole, &mut batch);
                let asked =
                    permission::record_permission_request(params, &mut self.calls, &mut batch);
                OpenRequest::Permission(Box::new(asked))
            }
            "fs/read_text_file" => match file().filter(|file| file.path.len() <= PATH) {
                Some(file) => OpenRequest::File { path: file.path, op: FileOp::Read, after: None },
                None => OpenRequest::Other { terminal: None },
            },
            "fs/write_text_file" => {
                batch.before();
                request::record_request(id, method, params, &mut batch);
                match file().filter(|file| file.path.len() <= PATH) {
                    Some(file) => {
                        let after = file.content.map(|text| ObjectHash::of(text.as_bytes()));
                        OpenRequest::File { path: file.path, op: FileOp::Write, after }
                    }
                    None => OpenRequest::Other { terminal: None },
                }
            }
            "terminal/output" | "terminal/wait_for_exit" => match (method, terminal()) {
                ("terminal/output", Some(terminal)) => OpenRequest::TerminalOutput { terminal },
                (_, terminal) => OpenRequest::Other { terminal },
            },
            _ => {
                let terminal = if method.starts_with("terminal/") { terminal() } else { None };
                let ends = matches!(method, "terminal/kill" | "terminal/release");
                if let Some(terminal) = terminal.as_ref().filter(|_| ends) {
                    self.terminals.ended(terminal, &mut batch);
                }
                if matches!(method, "terminal/create" | "terminal/kill" | "elicitation/create") {
                    batch.before();
                }
                request::record_request(id, method, params, &mut batch);
                match method {
                    "terminal/create" => {
                        let build = params.and_then(terminal_build).map(Box::new);
                        OpenRequest::TerminalCreate { build }
                    }
                    _ => OpenRequest::Other { terminal },
                }
            }
        };
        self.requests.ask(id, method, waiting);
        batch.finish()
    }

    /// Records the client's answer to the agent's request with this id.
    pub fn answered(
        &mut self,
        id: &RawValue,
        outcome: Result<&RawValue, &RawValue>,
    ) -> RecordedEvents {
        let mut batch = RecordBatch::default();
        let Some((method, waiting)) = self.requests.answer(id) else { return batch.finish() };
        match (waiting, outcome) {
            (OpenRequest::Permission(asked), outcome) => {
                permission::record_permission_answer(&asked, outcome, &mut batch);
            }
            (OpenRequest::File { path, op, after }, outcome) => {
                if op == FileOp::Write {
                    batch.before();
                }
                match outcome {
                    Ok(_) => self.directory.touched(&path, op, after, None, &mut batch),
                    Err(_) => {
                        let about =
                            ResponseSubject { path: Some(&path), ..ResponseSubject::default() };
                        request::record_request_answer(id, &method, about, outcome, &mut batch);
                    }
                }
            }
            (OpenRequest::TerminalOutput { terminal }, Ok(result)) => {
                self.terminals.output(&terminal, result, &mut batch);
            }
            (OpenRequest::TerminalOutput { terminal }, Err(_)) => {
                let about =
                    ResponseSubject { terminal: Some(&terminal), ..ResponseSubject::default() };
                request::record_request_answer(id, &method, about, outcome, &mut batch);
            }
            (OpenRequest::TerminalCreate { build }, outcome) => {
                if let (Some(build), Ok(result)) = (build, outcome)
                    && let Some(name) = self.terminals.created((*build).clone(), result, &mut batch)
                {
                    self.calls.run_in_terminal(&name, *build);
                }
                request::record_request_answer(
                    id,
                    &method,
                    ResponseSubject::default(),
                    outcome,
                    &mut batch,
                );
            }
            (OpenRequest::Other { terminal }, outcome) => {
                if let (Some(terminal), Ok(result)) = (&terminal, outcome)
                    && method == "terminal/wait_for_exit"
                {
                    self.terminals.exited(terminal, result);
                }
                let about =
                    ResponseSubject { terminal: terminal.as_deref(), ..ResponseSubject::default() };
                request::record_request_answer(id, &method, about, outcome, &mut batch);
            }
        }
        batch.finish()
    }

    /// Records a mode or an option that the client set and the agent accepted.
    pub fn configured(
        &mut self,
        method: &str,
        params: &RawValue,
        result: &RawValue,
    ) -> RecordedEvents {
        let mut batch = RecordBatch::default();
        settings::record_setting(method, params, result, &mut batch);
        batch.finish()
    }
}

/// The name of a compaction or of a subagent's message, whose text comes in chunks.
fn message_of(update: &AcpUpdate, lane: Option<&LaneId>) -> Option<String> {
    let id = update.text("compactionId").or_else(|| update.text("messageId"))?;
    let lane = lane.map(LaneId::as_str).unwrap_or_default();
    Some(recorded_name(&format!("message {lane} {id}")))
}
