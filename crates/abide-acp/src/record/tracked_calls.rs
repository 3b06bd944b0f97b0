//! Tool calls: which are open, and the events that begin and end them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use abide::{
    CallId, Kind, LaneId, ToolResult,
    event::{ArtifactCommand, CommandOutcome},
    event::{CallState, FileOp, OUTCOME_UNKNOWN},
    secrets::Redactor,
};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::bounded_map::BoundedMap;
use super::file::AcpFileDirectory;
use super::held_updates::UpdateStage;
use super::lane::text_in_meta;
use super::name::recorded_name;
use super::record_batch::{RecordBatch, UPDATE};
use super::redacted_text::{redacted_json, start_of_text};
use super::update::UpdateData;
use crate::protocol::{AcpToolStatus, is_tool_kind};

/// The most calls remembered.
const CALLS: usize = 4096;
/// The most bytes of a call's result remembered until it ends.
const CONTENT: usize = 256 << 10;
/// The most bytes of results remembered in all.
const ALL_CONTENT: usize = 8 << 20;
/// The most tests and builds in terminals remembered.
const TERMINALS: usize = 64;
/// The most characters of a tool's name.
const NAME: usize = 200;

/// A call or a change of one, in an update or in a permission request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AcpToolCall<'a> {
    #[serde(borrow)]
    tool_call_id: Cow<'a, str>,
    #[serde(borrow)]
    title: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    locations: Option<&'a RawValue>,
    #[serde(borrow)]
    raw_input: Option<&'a RawValue>,
    #[serde(borrow)]
    raw_output: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

fn call_text(json: Option<&RawValue>) -> Option<String> {
    let text: String = serde_json::from_str(json?.get()).ok()?;
    (!text.trim().is_empty()).then_some(text)
}

impl AcpToolCall<'_> {
    /// Its id, as in events.
    pub(super) fn id(&self) -> CallId {
        CallId(recorded_name(&self.tool_call_id))
    }

    /// The agent's title for it, on one line.
    pub(super) fn title(&self) -> Option<String> {
        call_text(self.title)
    }

    fn status(&self) -> Option<AcpToolStatus> {
        AcpToolStatus::read(&call_text(self.status)?)
    }

    /// Whether it succeeded; `None` while it is open.
    fn ended(&self) -> Option<bool> {
        self.status()?.ok()
    }

    /// The tool's name, or the best substitute.
    fn name(&self, redactor: Option<&Redactor>) -> Option<String> {
        let kind = || call_text(self.kind).filter(|kind| is_tool_kind(kind));
        let meta = || text_in_meta(self.meta, "toolName").map(Cow::into_owned);
        let name = call_text(self.name).or_else(meta).or_else(kind).or_else(|| self.title())?;
        Some(start_of_text(redactor, &name, NAME))
    }

    fn arguments(&self) -> Cow<'_, RawValue> {
        #[derive(Serialize)]
        struct CallDetails<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            title: Option<&'a RawValue>,
            #[serde(skip_serializing_if = "Option::is_none")]
            locations: Option<&'a RawValue>,
        }
        // Some agents begin a call before they know its arguments.
        match self.raw_input.filter(|input| input.get() != "{}") {
            Some(input) => Cow::Borrowed(input),
            None => {
                let told = CallDetails { title: self.title, locations: self.locations };
                to_raw_value(&told).map_or(Cow::Borrowed(RawValue::NULL), Cow::Owned)
            }
        }
    }

    /// Its result as message blocks.
    fn blocks(&self) -> Option<Box<RawValue>> {
        let items: Vec<&RawValue> = serde_json::from_str(self.content?.get()).ok()?;
        let blocks: Vec<_> = items.into_iter().map(call_block).collect();
        if blocks.is_empty() { None } else { to_raw_value(&blocks).ok() }
    }

    /// The test or build that it runs. Without arguments the title of a call that executes is the
    /// command.
    fn build(&self) -> Option<ArtifactCommand> {
        match self.raw_input.filter(|input| input.get() != "{}") {
            Some(input) => ArtifactCommand::of_arguments(input),
            None => {
                call_text(self.kind).filter(|kind| kind == "execute")?;
                ArtifactCommand::of_command(self.title()?.trim_matches('`'))
            }
        }
    }

    /// What its content names.
    fn named(&self) -> Option<NamedContent> {
        let items: Vec<&RawValue> = serde_json::from_str(self.content?.get()).ok()?;
        let mut named = NamedContent::default();
        for item in items {
            let Ok(item) = serde_json::from_str::<CallContentItem<'_>>(item.get()) else {
                continue;
            };
            match &*item.r#type {
                "diff" => {
                    let path = call_text(item.path).filter(|path| !named.changed.contains(path));
                    named.changed.extend(path);
                }
                "terminal" => named.terminal = call_text(item.terminal_id).or(named.terminal),
                _ => {}
            }
        }
        Some(named)
    }
}

/// What the content of a call names.
#[derive(Default)]
struct NamedContent {
    /// The files that it reports as changed.
    changed: Vec<String>,
    /// The terminal that shows its output.
    terminal: Option<String>,
}

/// An item of a call's content.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallContentItem<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    path: Option<&'a RawValue>,
    #[serde(borrow)]
    terminal_id: Option<&'a RawValue>,
}

/// An item of a call's content as a message block. A diff or a terminal is only named; the update
/// has its content.
fn call_block(raw: &RawValue) -> Cow<'_, RawValue> {
    #[derive(Serialize)]
    struct ResultTextBlock<'a> {
        r#type: &'a str,
        text: String,
    }
    let Ok(item) = serde_json::from_str::<CallContentItem<'_>>(raw.get()) else {
        return Cow::Borrowed(raw);
    };
    let told = match (&*item.r#type, item.content) {
        ("content", Some(content)) => return Cow::Borrowed(content),
        ("diff", _) => call_text(item.path).map(|path| format!("Changed {path}")),
        ("terminal", _) => call_text(item.terminal_id).map(|id| format!("Terminal {id}")),
        _ => None,
    };
    let block = told.and_then(|text| to_raw_value(&ResultTextBlock { r#type: "text", text }).ok());
    block.map_or(Cow::Borrowed(raw), Cow::Owned)
}

/// A remembered call.
#[derive(Debug, Default)]
struct TrackedCall {
    lane: Option<LaneId>,
    ended: bool,
    /// It was open when the session was opened again.
    resumed: bool,
    /// Its result so far, in case its end does not repeat it.
    result: Option<Box<RawValue>>,
    changed: Vec<String>,
    /// The test or build that it runs.
    build: Option<ArtifactCommand>,
    /// The terminal that shows its output.
    terminal: Option<String>,
}

/// The calls of a session.
#[derive(Debug)]
pub(super) struct TrackedCalls {
    known: BoundedMap<TrackedCall>,
    /// Bytes of results in `known`.
    bytes: usize,
    /// The tests and builds that run in terminals of the client, which record them.
    terminals: BoundedMap<ArtifactCommand>,
    redactor: Option<Redactor>,
}

#[derive(Serialize)]
struct CallMessage<'a> {
    role: &'a str,
    content: [CallBlock<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    acp: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct CallBlock<'a> {
    r#type: &'a str,
    call: &'a CallId,
    name: &'a str,
    arguments: &'a RawValue,
}

#[derive(Serialize)]
struct ToolStartedData<'a> {
    call: &'a CallId,
    name: &'a str,
    arguments: &'a RawValue,
    observed: bool,
}

#[derive(Serialize)]
struct ToolFinishedData<'a> {
    call: &'a CallId,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acp: Option<&'a RawValue>,
}

impl TrackedCalls {
    pub(super) fn new() -> Self {
        let terminals = BoundedMap::new(TERMINALS);
        Self { known: BoundedMap::new(CALLS), bytes: 0, terminals, redactor: None }
    }

    /// Cuts no text within a secret that this redactor finds.
    pub(super) fn redact_with(&mut self, redactor: Option<Redactor>) {
        self.redactor = redactor;
    }

    /// Where in the course of a call this comes.
    pub(super) fn stage(&self, call: &AcpToolCall<'_>, begins: bool) -> UpdateStage {
        if call.ended().is_some() {
            return UpdateStage::Last;
        }
        match self.known.get(call.id().as_str()) {
            Some(known) if !known.ended => UpdateStage::Later,
            // Nothing ends what comes after the end.
            Some(_) if !begins => UpdateStage::Last,
            _ => UpdateStage::First,
        }
    }

    /// Notes that a terminal of the client runs a test or a build.
    pub(super) fn run_in_terminal(&mut self, terminal: &str, command: ArtifactCommand) {
        self.terminals.insert(terminal, command);
    }

    /// Does a terminal of the client run it? Some agents show terminals of their own, and some do not
    /// say in which terminal a call runs.
    fn is_in_terminal(&mut self, terminal: Option<&str>, command: &ArtifactCommand) -> bool {
        if terminal.is_some_and(|name| self.terminals.get(name).is_some()) {
            return true;
        }
        let mut found = false;
        self.terminals.each(|_, known| found |= known.runs_same(command));
        found
    }

    /// Restores a call that was open when the session was opened again.
    pub(super) fn resume(&mut self, id: &str, call: &CallState) {
        let known =
            TrackedCall { lane: call.lane.clone(), resumed: true, ..TrackedCall::default() };
        self.remember(id, known);
    }

    /// The lane of a call; `None` if the call is not known.
    pub(super) fn lane(&self, id: &CallId) -> Option<Option<&LaneId>> {
        self.known.get(id.as_str()).map(|known| known.lane.as_ref())
    }

    /// Records a `tool_call`.
    pub(super) fn began(
        &mut self,
        lane: Option<&LaneId>,
        call: &AcpToolCall<'_>,
        update: &RawValue,
        directory: &AcpFileDirectory,
        batch: &mut RecordBatch,
    ) {
        batch.before();
        let id = call.id();
        match self.known.get(id.as_str()) {
            // Some agents reuse their call ids in each turn.
            Some(known) if known.ended && call.ended().is_none() => {}
            Some(_) => return self.changed(lane, call, update, directory, batch),
            None => {}
        }
        self.open(lane, &id, call, update, batch);
        self.gave(&id, call);
        if let Some(ok) = call.ended() {
            self.finish(&id, ok, call, None, directory, batch);
        }
    }

    /// Records a `tool_call_update`.
    pub(super) fn changed(
        &mut self,
        lane: Option<&LaneId>,
        call: &AcpToolCall<'_>,
        update: &RawValue,
        directory: &AcpFileDirectory,
        batch: &mut RecordBatch,
    ) {
        if call.status().is_some() {
            batch.before();
        }
        let id = call.id();
        let ended = match self.known.get_mut(id.as_str()) {
            Some(known) => {
                // The agent goes on with it.
                known.resumed = false;
                known.ended
            }
            None => {
                self.open(lane, &id, call, update, batch);
                self.gave(&id, call);
                if let Some(ok) = call.ended() {
                    self.finish(&id, ok, call, None, directory, batch);
                }
                return;
            }
        };
        self.gave(&id, call);
        match call.ended().filter(|_| !ended) {
            Some(ok) => self.finish(&id, ok, call, Some(update), directory, batch),
            None => {
                let known = self.known.get(id.as_str()).and_then(|known| known.lane.clone());
                batch.add(UPDATE, lane.or(known.as_ref()), &UpdateData { acp: update });
            }
        }
    }

    /// Records a call that the agent first mentions in a permission request.
    pub(super) fn asked(
        &mut self,
        call: &AcpToolCall<'_>,
        raw: &RawValue,
        batch: &mut RecordBatch,
    ) {
        let id = call.id();
        if self.known.get(id.as_str()).is_some() {
            return;
        }
        // Recorded as a `tool_call` update, so that it can be replayed.
        let mut members: BTreeMap<Cow<'_, str>, &RawValue> =
            serde_json::from_str(raw.get()).unwrap_or_default();
        let sort = to_raw_value("tool_call").ok();
        let title = to_raw_value(&call.title().unwrap_or_default()).ok();
        for (key, value) in [("sessionUpdate", &sort), ("title", &title)] {
            if let Some(value) = value {
                members.insert(Cow::Borrowed(key), value);
            }
        }
        let update = to_raw_value(&members);
        self.open(None, &id, call, update.as_deref().unwrap_or(raw), batch);
        self.gave(&id, call);
    }

    /// Ends the calls still open at the end of a turn; their outcome is unknown.
    pub(super) fn leave_open(&mut self, batch: &mut RecordBatch) {
        self.leave(|_| true, batch);
    }

    /// Ends, at the start of a turn, the calls that were open when the session was opened again and
    /// that the agent has not mentioned since: they died with the process that made them. Their outcome
    /// must precede the prompt.
    pub(super) fn leave_resumed(&mut self, batch: &mut RecordBatch) {
        self.leave(|known| known.resumed, batch);
    }

    fn leave(&mut self, which: impl Fn(&TrackedCall) -> bool, batch: &mut RecordBatch) {
        let unknown = to_raw_value(OUTCOME_UNKNOWN).ok();
        let mut bytes = 0;
        self.known.each(|id, known| {
            if !known.ended && which(known) {
                known.ended = true;
                bytes += known.result.take().map_or(0, |result| result.get().len());
                let id = CallId(id.to_owned());
                let result = unknown.as_deref();
                let finished = ToolFinishedData { call: &id, ok: false, result, acp: None };
                batch.add(Kind::TOOL_FINISHED.as_str(), known.lane.as_ref(), &finished);
            }
        });
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn remember(&mut self, id: &str, known: TrackedCall) {
        if let Some(old) = self.known.remove(id) {
            self.forget(old.result.as_deref());
        }
        if let Some((_, oldest)) = self.known.insert(id, known) {
            self.forget(oldest.result.as_deref());
        }
    }

    fn forget(&mut self, result: Option<&RawValue>) {
        self.bytes = self.bytes.saturating_sub(result.map_or(0, |result| result.get().len()));
    }

    fn open(
        &mut self,
        lane: Option<&LaneId>,
        id: &CallId,
        call: &AcpToolCall<'_>,
        update: &RawValue,
        batch: &mut RecordBatch,
    ) {
        let name = call.name(self.redactor.as_ref()).unwrap_or_else(|| "tool".to_owned());
        let arguments = call.arguments();
        let message = |arguments, acp| CallMessage {
            role: "assistant",
            content: [CallBlock { r#type: "tool_call", call: id, name: &name, arguments }],
            acp,
        };
        let kind = Kind::MESSAGE_ADDED;
        let called =
            |arguments| ToolStartedData { call: id, name: &name, arguments, observed: true };
        let mut arguments: &RawValue = &arguments;
        if !batch.add(kind.as_str(), lane, &message(arguments, Some(update))) {
            arguments = RawValue::NULL;
            batch.add(kind.as_str(), lane, &message(arguments, None));
        }
        batch.add(Kind::TOOL_CALLED.as_str(), lane, &called(arguments));
        self.remember(id.as_str(), TrackedCall { lane: lane.cloned(), ..TrackedCall::default() });
    }

    /// Remembers the result so far of an open call.
    fn gave(&mut self, id: &CallId, call: &AcpToolCall<'_>) {
        let Some(known) = self.known.get_mut(id.as_str()).filter(|known| !known.ended) else {
            return;
        };
        known.build = call.build().or(known.build.take());
        if let Some(named) = call.named() {
            known.changed = named.changed;
            known.changed.truncate(256);
            known.terminal =
                named.terminal.map(|name| recorded_name(&name)).or(known.terminal.take());
        }
        // The final update has its own result; an earlier one is needed only if it does not.
        if call.ended().is_some() && (call.content.is_some() || call.raw_output.is_some()) {
            return;
        }
        let given = call.blocks().or_else(|| call.raw_output.map(ToOwned::to_owned));
        let Some(given) = given else { return };
        let old = known.result.take().map_or(0, |old| old.get().len());
        self.bytes = self.bytes.saturating_sub(old);
        let size = given.get().len();
        if size <= CONTENT && self.bytes + size <= ALL_CONTENT {
            self.bytes += size;
            known.result = Some(given);
        }
    }

    fn finish(
        &mut self,
        id: &CallId,
        ok: bool,
        call: &AcpToolCall<'_>,
        acp: Option<&RawValue>,
        directory: &AcpFileDirectory,
        batch: &mut RecordBatch,
    ) {
        let Some(known) = self.known.get_mut(id.as_str()) else { return };
        known.ended = true;
        let lane = known.lane.clone();
        let so_far = known.result.take();
        let changed = std::mem::take(&mut known.changed);
        let (build, terminal) = (known.build.take(), known.terminal.take());
        self.forget(so_far.as_deref());
        let build = build.filter(|build| !self.is_in_terminal(terminal.as_deref(), build));
        let blocks = call.blocks();
        let result = blocks.as_deref().or(call.raw_output).or(so_far.as_deref());
        let kind = Kind::TOOL_FINISHED;
        if !batch.add(kind.as_str(), lane.as_ref(), &ToolFinishedData { call: id, ok, result, acp })
        {
            let bare = ToolFinishedData { call: id, ok, result: None, acp: None };
            batch.add(kind.as_str(), lane.as_ref(), &bare);
        }
        if let Some(build) = build {
            // An artifact has only the end of the output.
            let told = result.map(|result| redacted_json(self.redactor.as_ref(), result));
            let result = ToolResult { call: id.clone(), ok, result: told };
            let mut outcome = CommandOutcome::of_result(&result);
            outcome.exit = outcome.exit.or(call.raw_output.and_then(CommandOutcome::exit_of));
            for artifact in build.artifacts(&outcome) {
                batch.fact(&Kind::ARTIFACT_RECORDED, lane.as_ref(), artifact);
            }
        }
        for path in changed.iter().filter(|_| ok) {
            directory.touched(path, FileOp::Write, None, lane.as_ref(), batch);
        }
    }
}
