//! Reads the records of a session of Claude Code, or of one of its subagents.

use std::collections::VecDeque;

use abide_model::{FileOp, LaneId, MessageForm, NewEvent, Usage};
use abide_wire::json::{RawJsonFields, decode_string, encoded_string, list};
use serde::{Deserialize, Serialize};

use super::super::output::{claude_content_text, claude_tool_file, claude_usage};
use super::conversation_tree::{ConversationTree, TreeRole};
use crate::kept::record_fields::{
    ID, PATH, id_field, object_field, push_within, text_within, time_field, touched_event,
    usage_event,
};
use crate::output::step::head_of_words;
use crate::{
    KeptFile, ReadRecord, RecordMessage, RecordReader, RecordText, RewindPlace, SessionDetails,
};

/// How many messages of the model are remembered with what they used. The records of one message follow
/// each other, but for those of subagents that run beside it.
const MESSAGES: usize = 24;
/// How many calls with a file are remembered until they end.
const CALLS: usize = 24;
/// The most bytes of a path that is remembered.
const CALL_PATH: usize = 1024;
/// How many messages that a compaction keeps are remembered until its summary.
const KEPT: usize = 48;
/// The most bytes of a title.
const TITLE: usize = 500;

/// The types of records that have no message, or none that is read here.
const TYPES: &[&str] = &[
    "agent-color",
    "agent-name",
    "agent-setting",
    "api-request",
    "api-request-blob",
    "api-request-shape",
    "atis-latch",
    "attachment",
    "attribution-snapshot",
    "content-replacement",
    "cost-state",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "tag",
    "task-summary",
    "tools-used",
    "worktree-state",
];

/// The subtypes of `system`.
const SUBTYPES: &[&str] = &[
    "agents_killed",
    "api_error",
    "api_metrics",
    "away_summary",
    "bridge_status",
    "compact_boundary",
    "file_snapshot",
    "informational",
    "local_command",
    "memory_saved",
    "microcompact_boundary",
    "permission_retry",
    "scheduled_task_fire",
    "stop_hook_summary",
    "thinking",
    "turn_duration",
];

/// The reader of one file.
#[derive(Debug)]
pub(super) struct ClaudeRecordReader {
    /// The session, if the path tells it.
    session: Option<String>,
    /// The file is that of a subagent.
    is_lane: bool,
    memory: ClaudeReaderMemory,
}

/// What must be remembered from record to record. It is all that the reader knows of earlier ones.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct ClaudeReaderMemory {
    tree: ConversationTree,
    /// What each of the last messages of the model used.
    messages: VecDeque<CountedMessage>,
    /// Calls that have not ended: their ids and files.
    calls: VecDeque<(String, String, FileOp)>,
    /// The messages that the compaction keeps whose summary is next.
    keeps: Vec<String>,
    /// What the session's title is worth: one that a person gave is not overruled.
    title: u8,
    /// The session was told, for a file whose path does not tell it.
    told: bool,
    /// The session that this one was forked from was told.
    parent: bool,
    /// The workspace was told. Later records have the directory of the shell.
    workspace: bool,
}

/// A message of the model, with the most that its records counted: input without the cache, output,
/// read from and written to the cache, thought.
#[derive(Debug, Serialize, Deserialize)]
struct CountedMessage(String, [u64; 5]);

impl RecordReader for ClaudeRecordReader {
    fn read(&mut self, record: &str) -> ReadRecord {
        let Some(fields) = RawJsonFields::of(record) else { return ReadRecord::default() };
        let sort = text_within(&fields, "type", ID).unwrap_or_default();
        let mut read = ReadRecord {
            id: id_field(&fields, "uuid"),
            occurred: time_field(&fields, "timestamp"),
            lane: self.lane(&fields),
            details: self.details(&fields),
            ..ReadRecord::default()
        };
        let mut role = TreeRole::Other;
        match sort.as_str() {
            "assistant" => read.known = self.assistant(&fields, &mut read),
            "user" => (read.known, role) = self.user(&fields, &mut read),
            "system" => {
                let subtype = text_within(&fields, "subtype", ID);
                if let Some(subtype) = subtype {
                    read.known = SUBTYPES.contains(&subtype.as_str());
                    if subtype.ends_with("compact_boundary") {
                        role = TreeRole::Compaction;
                        self.memory.keeps = kept_messages(&fields);
                    }
                    read.sort = format!("system/{subtype}");
                }
            }
            "summary" | "ai-title" | "custom-title" => {
                read.known = true;
                read.details.title = self.title(&sort, &fields);
            }
            "progress" => (read.known, role) = (true, TreeRole::Progress),
            other => read.known = TYPES.contains(&other),
        }
        if read.sort.is_empty() {
            read.sort = sort;
        }
        if !self.is_lane && fields.flag("isSidechain") != Some(true) {
            let (parent, is_root) = (parent(&fields), fields.any("parentUuid").is_some());
            if let Some(id) = &read.id {
                let back = self.memory.tree.add(id, parent.as_deref(), role);
                read.back = back.filter(|place| is_root || *place != RewindPlace::Beginning);
            }
        }
        read
    }

    fn memory(&self) -> String {
        serde_json::to_string(&self.memory).unwrap_or_else(|_| "{}".to_owned())
    }
}

impl ClaudeRecordReader {
    /// Starts at the beginning of a file, or after the records that this memory is of.
    pub(super) fn new(file: &KeptFile, memory: Option<&str>) -> Self {
        let memory = memory.and_then(|memory| serde_json::from_str(memory).ok());
        Self {
            session: file.session.clone(),
            is_lane: file.lane.is_some(),
            memory: memory.unwrap_or_default(),
        }
    }

    /// The lane of a record of a sidechain in the file of the session itself, where it once was.
    fn lane(&mut self, fields: &RawJsonFields<'_>) -> Option<LaneId> {
        if self.is_lane || fields.flag("isSidechain") != Some(true) {
            return None;
        }
        let lane = id_field(fields, "agentId").map(LaneId);
        lane.or_else(|| {
            let (id, parent) = (id_field(fields, "uuid"), parent(fields));
            Some(self.memory.tree.add_side(id.as_deref(), parent.as_deref()))
        })
    }

    fn details(&mut self, fields: &RawJsonFields<'_>) -> SessionDetails {
        let mut details = SessionDetails::default();
        let session = id_field(fields, "sessionId");
        match &self.session {
            // The first one is that of the file: others may follow, in lines that were copied.
            None if !self.memory.told => {
                self.memory.told = session.is_some();
                details.id = session;
            }
            Some(own) if !self.memory.parent && !self.is_lane => {
                let fork = object_field(fields, "forkedFrom");
                let parent = fork.and_then(|fork| id_field(&fork, "sessionId"));
                details.parent = parent.or(session).filter(|parent| parent != own);
                self.memory.parent = details.parent.is_some();
            }
            _ => {}
        }
        if self.is_lane || fields.flag("isSidechain") == Some(true) {
            return details;
        }
        if !self.memory.workspace {
            details.workspace = text_within(fields, "cwd", PATH);
            self.memory.workspace = details.workspace.is_some();
        }
        // So it says where there is no branch.
        let branch = text_within(fields, "gitBranch", PATH);
        details.branch = branch.filter(|branch| branch != "HEAD");
        details.version = id_field(fields, "version");
        details
    }

    /// A title, if it is worth as much as the last one. A summary may be one of another session: it
    /// counts behind the record that it is the summary of.
    fn title(&mut self, sort: &str, fields: &RawJsonFields<'_>) -> Option<String> {
        let (name, worth) = match sort {
            "custom-title" => ("customTitle", 3),
            "ai-title" => ("aiTitle", 2),
            _ => ("summary", 1),
        };
        let leaf = fields.decoded("leafUuid").filter(|_| sort == "summary");
        let is_other = leaf.is_some_and(|leaf| !self.memory.tree.knows(&leaf));
        if worth < self.memory.title || is_other || self.is_lane {
            return None;
        }
        let title = fields.decoded(name).filter(|title| !title.trim().is_empty())?;
        self.memory.title = worth;
        Some(head_of_words(&title, TITLE).to_owned())
    }

    /// Reads a message of the model. Tells whether it is understood.
    fn assistant(&mut self, fields: &RawJsonFields<'_>, read: &mut ReadRecord) -> bool {
        let Some(message) = message(fields) else { return false };
        let answer = id_field(&message, "id");
        read.message = Some(verbatim(answer));
        let model = id_field(&message, "model").filter(|model| model != "<synthetic>");
        read.events.extend(self.usage(fields, &message, model.clone()));
        if read.lane.is_none() && !self.is_lane {
            read.details.model = model;
        }
        for block in message.get("content").and_then(list).unwrap_or_default() {
            let Some(block) = RawJsonFields::of(block.get()) else { continue };
            if block.decoded("type").as_deref() != Some("tool_use") {
                continue;
            }
            let name = block.decoded("name").unwrap_or_default();
            let file = claude_tool_file(&name, block.get("input"));
            let file = file.filter(|(path, _)| !path.is_empty() && path.len() <= CALL_PATH);
            if let (Some(call), Some((path, op))) = (id_field(&block, "id"), file) {
                push_within(&mut self.memory.calls, (call, path, op), CALLS);
            }
        }
        true
    }

    /// What a message used more than its records before said.
    fn usage(
        &mut self,
        fields: &RawJsonFields<'_>,
        message: &RawJsonFields<'_>,
        model: Option<String>,
    ) -> Option<NewEvent> {
        let id = id_field(message, "id").or_else(|| id_field(fields, "requestId"))?;
        // The agent itself made this message.
        if message.decoded("model").is_some_and(|model| model == "<synthetic>") {
            return None;
        }
        let usage = claude_usage(&object_field(message, "usage")?);
        let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
        let counts = [
            usage.input_tokens.saturating_sub(cached),
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
        ];
        let messages = &mut self.memory.messages;
        if !messages.iter().any(|known| known.0 == id) {
            push_within(messages, CountedMessage(id.clone(), [0; 5]), MESSAGES);
        }
        let known = messages.iter_mut().rev().find(|known| known.0 == id)?;
        let mut more = [0; 5];
        for ((before, now), more) in known.1.iter_mut().zip(counts).zip(&mut more) {
            *more = now.saturating_sub(*before);
            *before = now.max(*before);
        }
        let [input, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens] = more;
        let cached = cache_read_tokens.saturating_add(cache_write_tokens);
        let usage = Usage {
            input_tokens: input.saturating_add(cached),
            output_tokens,
            cache_read_tokens,
            cache_write_tokens,
            reasoning_tokens,
            cost_micros: 0,
        };
        usage_event(id, model, usage)
    }

    /// Reads what a person says, what tools return, or what the agent tells the model. Tells whether it
    /// is understood, and what it is to the conversation.
    fn user(&mut self, fields: &RawJsonFields<'_>, read: &mut ReadRecord) -> (bool, TreeRole) {
        let Some(message) = message(fields) else { return (false, TreeRole::Other) };
        if fields.flag("isCompactSummary") == Some(true) {
            read.compaction = Some(claude_content_text(message.get("content")));
            read.keeps = std::mem::take(&mut self.memory.keeps);
            return (true, TreeRole::Compaction);
        }
        read.message = Some(verbatim(None));
        let mut has_results = fields.any("toolUseResult").is_some();
        for block in message.get("content").and_then(list).unwrap_or_default() {
            let Some(block) = RawJsonFields::of(block.get()) else { continue };
            if block.decoded("type").as_deref() != Some("tool_result") {
                continue;
            }
            has_results = true;
            let Some(call) = block.decoded("tool_use_id") else { continue };
            let calls = &mut self.memory.calls;
            let Some(place) = calls.iter().position(|(id, _, _)| *id == call) else { continue };
            if let Some((_, path, op)) = calls.remove(place)
                && block.flag("is_error") != Some(true)
            {
                read.events.extend(touched_event(path, op, None));
            }
        }
        let is_prompt = !has_results && fields.flag("isMeta") != Some(true);
        (true, if is_prompt { TreeRole::Prompt } else { TreeRole::Other })
    }
}

/// The parent of a record; behind a compaction, the record before it.
fn parent(fields: &RawJsonFields<'_>) -> Option<String> {
    id_field(fields, "parentUuid").or_else(|| id_field(fields, "logicalParentUuid"))
}

/// The messages that a compaction keeps as they are: the last ones, too many of them not at all.
fn kept_messages(fields: &RawJsonFields<'_>) -> Vec<String> {
    let told = object_field(fields, "compactMetadata");
    let kept = told.and_then(|told| object_field(&told, "preservedMessages"));
    let ids = kept.and_then(|kept| list(kept.get("uuids")?)).unwrap_or_default();
    let ids: Vec<String> = ids
        .into_iter()
        .filter_map(|id| Some(decode_string(encoded_string(id)?).into_owned()))
        .filter(|id| !id.is_empty() && id.len() <= ID)
        .collect();
    if ids.len() > KEPT { Vec::new() } else { ids }
}

/// The message of a record, if it can stand for itself.
fn message<'a>(fields: &RawJsonFields<'a>) -> Option<RawJsonFields<'a>> {
    let message = object_field(fields, "message")?;
    let speaks = message.encoded("role").is_some() && message.any("content").is_some();
    (speaks && fields.all("message").count() == 1).then_some(message)
}

const fn verbatim(answer: Option<String>) -> RecordMessage {
    let text = RecordText::Verbatim { field: "message", form: MessageForm::Anthropic };
    RecordMessage { text, answer, replaces: None }
}
