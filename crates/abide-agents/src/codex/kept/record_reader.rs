//! Reads the records of a rollout of Codex.
//!
//! A record is known by its ordinal, or by the number of its line where it has none. What Codex sends to
//! the model and gets from it are items of Responses, and everything that it shows to a person beside
//! them (`event_msg`) says the same once more.

use std::collections::VecDeque;

use abide_model::MessageForm;
use abide_wire::json::{RawJsonFields, list};
use serde::{Deserialize, Serialize};

use super::patched_files::{PATHS, PatchedFile, files_of_call, files_of_changes, was_applied};
use super::thread_usage::{ThreadUsage, UsageOrigin};
use crate::kept::record_fields::{
    ID, PATH, id_field, object_field, push_within, text_within, time_field, touched_event,
};
use crate::output::step::head_of_words;
use crate::{
    KeptFile, ReadRecord, RecordMessage, RecordReader, RecordText, RewindPlace, SessionDetails,
};

/// How many prompts are remembered, to go back to.
const PROMPTS: usize = 48;
/// How many calls with a patch are remembered until they end.
const CALLS: usize = 16;
/// The most bytes of a title.
const TITLE: usize = 500;

/// The reader of one file.
#[derive(Debug)]
pub(super) struct CodexRecordReader {
    /// The thread, by the path.
    thread: Option<String>,
    /// The thread went back before this file: it has another name.
    is_reverted: bool,
    memory: CodexReaderMemory,
}

/// What must be remembered from record to record. It is all that the reader knows of earlier ones.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct CodexReaderMemory {
    /// How many records were read.
    lines: u64,
    /// The thread that this one was forked from.
    parent: Option<String>,
    turn: Option<String>,
    model: Option<String>,
    usage: ThreadUsage,
    /// Calls with a patch that have not ended: their ids and files.
    calls: VecDeque<(String, Vec<PatchedFile>)>,
    /// The last message of the role `user`: a prompt, if an event says so.
    user: Option<UserMessage>,
    /// The last prompts that the conversation did not go back behind.
    prompts: VecDeque<UserMessage>,
    /// Earlier ones were forgotten.
    forgot: bool,
}

/// A message of the role `user`: the id of its record, and that of the message.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct UserMessage(String, Option<String>);

impl RecordReader for CodexRecordReader {
    fn read(&mut self, record: &str) -> ReadRecord {
        self.memory.lines += 1;
        let Some(fields) = RawJsonFields::of(record) else { return ReadRecord::default() };
        let sort = text_within(&fields, "type", ID).unwrap_or_default();
        let ordinal = fields.get("ordinal").and_then(|raw| raw.get().parse::<u64>().ok());
        let id = ordinal.map_or_else(|| format!("line:{}", self.memory.lines), |at| at.to_string());
        let mut read = ReadRecord {
            id: Some(id),
            occurred: time_field(&fields, "timestamp"),
            ..ReadRecord::default()
        };
        let payload = object_field(&fields, "payload");
        match payload {
            Some(payload) if fields.all("payload").count() == 1 => {
                self.payload(&sort, &payload, &mut read);
            }
            _ => self.bare(record, &sort, &fields, &mut read),
        }
        if read.sort.is_empty() {
            read.sort = sort;
        }
        read
    }

    fn memory(&self) -> String {
        serde_json::to_string(&self.memory).unwrap_or_else(|_| "{}".to_owned())
    }
}

impl CodexRecordReader {
    /// Starts at the beginning of a file, or after the records that this memory is of.
    pub(super) fn new(file: &KeptFile, memory: Option<&str>) -> Self {
        let memory = memory.and_then(|memory| serde_json::from_str(memory).ok());
        Self {
            thread: file.session.clone(),
            is_reverted: file.name.contains('_'),
            memory: memory.unwrap_or_default(),
        }
    }

    /// Reads a record by its sort and its payload.
    fn payload(&mut self, sort: &str, payload: &RawJsonFields<'_>, read: &mut ReadRecord) {
        match sort {
            "response_item" | "event_msg" => {
                let Some(inner) = text_within(payload, "type", ID) else { return };
                read.sort = format!("{sort}/{inner}");
                if sort == "event_msg" {
                    self.event(&inner, payload, read);
                } else {
                    self.item(&inner, payload, read);
                }
            }
            "session_meta" => self.meta(payload, read),
            "turn_context" => {
                read.known = true;
                self.memory.turn = id_field(payload, "turn_id").or(self.memory.turn.take());
                let model = id_field(payload, "model");
                self.memory.model = model.clone().or(self.memory.model.take());
                let workspace = text_within(payload, "cwd", PATH);
                read.details = SessionDetails { model, workspace, ..SessionDetails::default() };
            }
            "compacted" => {
                let text = compacted_text(payload);
                read.known = text.is_some();
                read.compaction = text;
                read.keeps = self.kept_prompts(payload);
            }
            "token_usage_record" => {
                read.known = true;
                let (usage, origin) = self.usage();
                let event = usage.answer(payload, origin);
                read.events.extend(event);
            }
            "inter_agent_communication"
            | "inter_agent_communication_metadata"
            | "security_risk_score"
            | "world_state" => read.known = true,
            _ => {}
        }
    }

    /// The counters, and where they stand.
    fn usage(&mut self) -> (&mut ThreadUsage, UsageOrigin<'_>) {
        let memory = &mut self.memory;
        let origin = UsageOrigin {
            thread: memory.parent.as_deref().or(self.thread.as_deref()),
            turn: memory.turn.as_deref(),
            model: memory.model.as_deref(),
        };
        (&mut memory.usage, origin)
    }

    fn meta(&mut self, payload: &RawJsonFields<'_>, read: &mut ReadRecord) {
        read.known = true;
        let id = id_field(payload, "id").or_else(|| id_field(payload, "session_id"));
        // A fork may have a copy of the records of another thread, this one included.
        if self.thread.is_some() && self.thread != id {
            return;
        }
        let parent =
            id_field(payload, "forked_from_id").filter(|parent| id.as_ref() != Some(parent));
        // The thread went back: this file goes on before a record of the one before it.
        if self.is_reverted {
            let base = object_field(payload, "history_base");
            let end = base.and_then(|base| base.get("end_ordinal_exclusive")?.get().parse().ok());
            read.back = end.map(|end: u64| match end.checked_sub(1) {
                Some(last) => RewindPlace::After(last.to_string()),
                None => RewindPlace::Beginning,
            });
        }
        self.memory.parent.clone_from(&parent);
        let git = object_field(payload, "git");
        read.details = SessionDetails {
            id,
            workspace: text_within(payload, "cwd", PATH),
            branch: git.and_then(|git| text_within(&git, "branch", PATH)),
            version: id_field(payload, "cli_version"),
            parent,
            ..SessionDetails::default()
        };
    }

    /// Reads an item of Responses.
    fn item(&mut self, sort: &str, item: &RawJsonFields<'_>, read: &mut ReadRecord) {
        let role = match sort {
            "message" => {
                let text = RecordText::Verbatim { field: "payload", form: MessageForm::Responses };
                let role = item.decoded("role").filter(|_| item.any("content").is_some());
                read.known = role.is_some();
                if role.is_some_and(|role| role == "user") {
                    let record = read.id.clone();
                    self.memory.user =
                        record.map(|record| UserMessage(record, id_field(item, "id")));
                }
                read.message =
                    read.known.then_some(RecordMessage { text, answer: None, replaces: None });
                return;
            }
            // Of the workspace, or of the context of the model: said to nobody.
            "ghost_snapshot" | "compaction" | "compaction_summary" | "compaction_trigger"
            | "context_compaction" => {
                read.known = true;
                return;
            }
            "function_call_output"
            | "custom_tool_call_output"
            | "tool_search_output"
            | "mcp_tool_call_output"
            | "local_shell_call_output" => "tool",
            "reasoning"
            | "function_call"
            | "custom_tool_call"
            | "local_shell_call"
            | "web_search_call"
            | "tool_search_call"
            | "image_generation_call" => "assistant",
            _ => return,
        };
        read.known = true;
        let text = RecordText::Item { field: "payload", role };
        read.message = Some(RecordMessage { text, answer: None, replaces: None });
        let Some(call) = id_field(item, "call_id") else { return };
        if role == "tool" {
            if was_applied(item) {
                self.end_patch(&call, None, read);
            }
            self.memory.calls.retain(|(id, _)| *id != call);
        } else {
            let files = files_of_call(item);
            if !files.is_empty() {
                push_within(&mut self.memory.calls, (call, files), CALLS);
                self.forget_calls();
            }
        }
    }

    /// Forgets the oldest calls while the paths in all are too many.
    fn forget_calls(&mut self) {
        let bytes = |calls: &VecDeque<(String, Vec<PatchedFile>)>| -> usize {
            let files = calls.iter().flat_map(|(_, files)| files);
            files.map(|file| file.path.len() + file.to.as_ref().map_or(0, String::len)).sum()
        };
        while self.memory.calls.len() > 1 && bytes(&self.memory.calls) > PATHS {
            self.memory.calls.pop_front();
        }
    }

    /// The patch of a call was applied: to these files, or else to those in it.
    fn end_patch(&mut self, call: &str, files: Option<Vec<PatchedFile>>, read: &mut ReadRecord) {
        let place = self.memory.calls.iter().position(|(id, _)| id == call);
        let waiting = place.and_then(|place| self.memory.calls.remove(place));
        let files = files.or(waiting.map(|(_, files)| files)).unwrap_or_default();
        let events = files.into_iter().map(|file| touched_event(file.path, file.op, file.to));
        read.events.extend(events.flatten());
    }

    /// Reads what is shown to a person.
    fn event(&mut self, sort: &str, event: &RawJsonFields<'_>, read: &mut ReadRecord) {
        read.known = EVENTS.contains(&sort);
        match sort {
            "token_count" => {
                let (usage, origin) = self.usage();
                let event = usage.count(event, origin);
                read.events.extend(event);
            }
            "task_started" | "turn_started" => {
                self.memory.turn = id_field(event, "turn_id").or(self.memory.turn.take());
            }
            "thread_name_updated" => {
                let title = event.decoded("thread_name").filter(|name| !name.trim().is_empty());
                let title = title.map(|title| head_of_words(&title, TITLE).to_owned());
                read.details.title = title;
            }
            "user_message" => self.prompt(read),
            "thread_rolled_back" => {
                let turns = event.get("num_turns").and_then(|raw| raw.get().parse().ok());
                read.back = turns.and_then(|turns| self.roll_back(turns));
            }
            "patch_apply_end" => {
                if let Some(call) = id_field(event, "call_id") {
                    self.report_patch(&call, event, event.flag("success") == Some(true), read);
                }
            }
            "item_completed" => {
                let Some(item) = object_field(event, "item") else { return };
                match item.decoded("type").as_deref() {
                    Some("UserMessage") => self.prompt(read),
                    Some("FileChange") => {
                        let done =
                            item.decoded("status").is_some_and(|status| status == "completed");
                        if let Some(call) = id_field(&item, "id") {
                            self.report_patch(&call, &item, done, read);
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// What became of a patch, before the output of its call tells it.
    fn report_patch(
        &mut self,
        call: &str,
        report: &RawJsonFields<'_>,
        done: bool,
        read: &mut ReadRecord,
    ) {
        let files = object_field(report, "changes").map(|changes| files_of_changes(&changes));
        if done {
            self.end_patch(call, files, read);
        }
        self.memory.calls.retain(|(id, _)| id != call);
    }

    /// The last message of the role `user` was a prompt of a person.
    fn prompt(&mut self, read: &ReadRecord) {
        let own = || Some(UserMessage(read.id.clone()?, None));
        let Some(prompt) = self.memory.user.take().or_else(own) else { return };
        self.memory.forgot |= push_within(&mut self.memory.prompts, prompt, PROMPTS);
    }

    /// The last turns are dropped: the place before the first of them.
    fn roll_back(&mut self, turns: u64) -> Option<RewindPlace> {
        let prompts = &mut self.memory.prompts;
        let turns = usize::try_from(turns).unwrap_or(usize::MAX);
        if turns == 0 || (turns > prompts.len() && self.memory.forgot) {
            return None;
        }
        let dropped = prompts.split_off(prompts.len().saturating_sub(turns));
        dropped.into_iter().next().map(|prompt| RewindPlace::Before(prompt.0))
    }

    /// The prompts that stay in the context behind a compaction, of those in this file.
    fn kept_prompts(&self, payload: &RawJsonFields<'_>) -> Vec<String> {
        let kept = payload.get("replacement_history").and_then(list).unwrap_or_default();
        let ids =
            kept.into_iter().filter_map(|item| id_field(&RawJsonFields::of(item.get())?, "id"));
        let prompts = &self.memory.prompts;
        let record = |id: String| {
            let found = prompts.iter().find(|prompt| prompt.1.as_ref() == Some(&id));
            found.map(|prompt| prompt.0.clone())
        };
        ids.filter_map(record).collect()
    }

    /// Reads a record of an early version, which has the item itself or the fields of the session.
    fn bare(
        &mut self,
        record: &str,
        sort: &str,
        fields: &RawJsonFields<'_>,
        read: &mut ReadRecord,
    ) {
        match sort {
            "message" if fields.encoded("role").is_some() && fields.any("content").is_some() => {
                read.known = true;
                if fields.decoded("role").is_some_and(|role| role == "user") {
                    let record = read.id.clone();
                    self.memory.user =
                        record.map(|record| UserMessage(record, id_field(fields, "id")));
                }
                let text = RecordText::Made(record.trim().to_owned());
                read.message = Some(RecordMessage { text, answer: None, replaces: None });
            }
            "" if fields.decoded("record_type").is_some_and(|sort| sort == "state") => {
                read.known = true;
                read.sort = "state".to_owned();
            }
            "" if fields.encoded("id").is_some() && fields.encoded("timestamp").is_some() => {
                self.meta(fields, read);
                read.sort = "session_meta".to_owned();
            }
            _ => {}
        }
    }
}

/// What is left of a conversation after a compaction: its summary, or else the last message that stays.
fn compacted_text(payload: &RawJsonFields<'_>) -> Option<String> {
    let text = payload.decoded("message");
    if let Some(text) = text.as_ref().filter(|text| !text.is_empty()) {
        return Some(text.clone().into_owned());
    }
    let kept = payload.get("replacement_history").and_then(list);
    if text.is_none() && kept.is_none() {
        return None;
    }
    let messages = kept.unwrap_or_default().into_iter().rev();
    let texts = messages.filter_map(|item| {
        let item = RawJsonFields::of(item.get())?;
        let mut text = String::new();
        for part in list(item.get("content")?)? {
            let part = RawJsonFields::of(part.get())?;
            text.push_str(&part.decoded("text").unwrap_or_default());
        }
        Some(text).filter(|text| !text.is_empty())
    });
    Some(texts.into_iter().next().unwrap_or_default())
}

/// The sorts of `event_msg`. What they say is in the items, but for what is read above.
const EVENTS: &[&str] = &[
    "agent_message",
    "agent_reasoning",
    "agent_reasoning_raw_content",
    "agent_reasoning_section_break",
    "collab_agent_interaction_end",
    "collab_agent_spawn_end",
    "collab_close_end",
    "collab_resume_end",
    "collab_waiting_end",
    "context_compacted",
    "dynamic_tool_call_request",
    "dynamic_tool_call_response",
    "entered_review_mode",
    "error",
    "exec_command_begin",
    "exec_command_end",
    "exited_review_mode",
    "guardian_assessment",
    "image_generation_end",
    "item_completed",
    "item_started",
    "mcp_tool_call_begin",
    "mcp_tool_call_end",
    "model_reroute",
    "patch_apply_begin",
    "patch_apply_end",
    "plan_update",
    "session_configured",
    "stream_error",
    "sub_agent_activity",
    "task_complete",
    "task_started",
    "thread_goal_updated",
    "thread_name_updated",
    "thread_rolled_back",
    "thread_settings_applied",
    "token_count",
    "turn_aborted",
    "turn_complete",
    "turn_diff",
    "turn_started",
    "undo_completed",
    "user_message",
    "view_image_tool_call",
    "warning",
    "web_search_begin",
    "web_search_end",
];
