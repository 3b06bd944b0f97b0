//! Reads the records of a chat, as Gemini CLI itself does when it resumes a session.

use abide_model::{
    CallId, EventLimits, Kind, LogRecord, NewEvent, Payload, ToolResult, Usage, UsageRecord,
};
use abide_wire::json::{RawJsonFields, list};

use super::chat_memory::ChatMemory;
use super::chat_message::{ChatRecord, ChatResult};
use crate::kept::record_fields::{ended_call_events, touched_event};
use crate::kept::{
    ReadRecord, RecordMessage, RecordReader, RecordText, RewindPlace, SessionDetails,
};
use crate::output::spent_since;

/// What a summary has in it with which the agent replaces its history.
const SUMMARY: &str = "<state_snapshot>";

/// Reads the records of one file.
#[derive(Debug)]
pub(super) struct ChatReader {
    /// The file is a subagent's, whose records name another session than the one it belongs to.
    subagent: bool,
    memory: ChatMemory,
}

impl RecordReader for ChatReader {
    fn read(&mut self, record: &str) -> ReadRecord {
        let mut read = ReadRecord::default();
        let Some(fields) = RawJsonFields::of(record) else { return read };
        // The order in which the agent looks for them.
        if let Some(id) = fields.decoded("$rewindTo") {
            read.sort = "$rewindTo".to_owned();
            read.known = true;
            read.back = Some(self.rewind(&id));
        } else if fields.decoded("id").is_some() {
            if let Some(message) = ChatRecord::of(fields) {
                self.message(&message, &mut read);
            }
        } else if let Some(set) = fields.get("$set").and_then(|raw| RawJsonFields::of(raw.get())) {
            self.set(&set, &mut read);
        } else if fields.decoded("sessionId").is_some() && fields.decoded("projectHash").is_some() {
            self.header(&fields, &mut read);
        }
        read
    }

    fn memory(&self) -> String {
        self.memory.to_json()
    }
}

impl ChatReader {
    pub(super) fn new(subagent: bool, memory: Option<&str>) -> Self {
        Self { subagent, memory: memory.map(ChatMemory::parse).unwrap_or_default() }
    }

    fn rewind(&mut self, id: &str) -> RewindPlace {
        let known = self.memory.knows(id);
        self.memory.drop_from(id);
        if known || self.memory.forgotten > 0 {
            RewindPlace::Before(id.to_owned())
        } else {
            // This is what the agent does.
            RewindPlace::Beginning
        }
    }

    fn message(&mut self, message: &ChatRecord<'_>, read: &mut ReadRecord) {
        read.sort = message.sort.to_string();
        read.id = Some(message.id.to_string());
        read.occurred = message.written();
        read.known = true;
        self.memory.begun_again = false;
        read.details.model = message.model();
        match &*message.sort {
            "user" | "gemini" => {
                let data = message.data();
                let before = self.memory.add(&message.id, data.is_some());
                if let Some(data) = data {
                    let changed = self.memory.report_message(&message.id, &data);
                    read.message = Some(RecordMessage {
                        text: RecordText::Made(data),
                        answer: None,
                        replaces: before.then(|| message.id.to_string()),
                    })
                    .filter(|_| !before || changed);
                }
                if before && read.message.is_none() {
                    // The message of this id is where it was.
                    read.id = None;
                }
                for result in message.results() {
                    if self.memory.report_call(&result.call) {
                        tell_result(result, &mut read.events);
                    }
                }
                self.usage(message, &mut read.events);
            }
            "info" | "warning" | "error" => {
                self.memory.add(&message.id, false);
                let level = if message.sort == "warning" { "warn" } else { &*message.sort };
                let text = message.text();
                if !text.trim().is_empty() {
                    let log = LogRecord { level: level.to_owned(), text };
                    read.events.extend(NewEvent::try_from(log).ok());
                }
            }
            _ => {
                self.memory.add(&message.id, false);
                read.known = false;
            }
        }
    }

    /// Reports by how much the usage of a message has grown.
    fn usage(&mut self, message: &ChatRecord<'_>, events: &mut Vec<NewEvent>) {
        let usage = message.usage();
        if usage == Usage::default() {
            return;
        }
        let usage = spent_since(&usage, &self.memory.report_usage(&message.id, &usage));
        if usage == Usage::default() {
            return;
        }
        let id = match &self.memory.session {
            Some(session) => format!("{session}:{}", message.id),
            None => message.id.to_string(),
        };
        let record = UsageRecord { id: Some(id), model: message.model(), usage };
        events.extend(NewEvent::try_from(record).ok());
    }

    fn header(&mut self, fields: &RawJsonFields<'_>, read: &mut ReadRecord) {
        read.sort = "session".to_owned();
        read.known = true;
        read.occurred = fields.decoded("startTime").and_then(|time| time.parse().ok());
        self.memory.begun_again = self.memory.messages() > 0;
        self.details(fields, &mut read.details);
        self.history(fields, read);
    }

    fn set(&mut self, set: &RawJsonFields<'_>, read: &mut ReadRecord) {
        read.sort = "$set".to_owned();
        read.known = true;
        read.occurred = set.decoded("lastUpdated").and_then(|time| time.parse().ok());
        self.details(set, &mut read.details);
        self.history(set, read);
    }

    fn details(&mut self, fields: &RawJsonFields<'_>, details: &mut SessionDetails) {
        let text = |name: &str| fields.decoded(name).map(|text| text.into_owned());
        if let Some(id) = text("sessionId") {
            self.memory.set_session(&id);
            details.id = Some(id).filter(|_| !self.subagent);
        }
        details.title = text("summary").filter(|_| !self.subagent);
    }

    /// A list of messages takes the place of all before. The agent writes one when a session is resumed, in
    /// which nothing is new but the form; when it takes back an answer; and when it has summed up.
    fn history(&mut self, fields: &RawJsonFields<'_>, read: &mut ReadRecord) {
        let Some(all) = fields.get("messages").and_then(list) else { return };
        let all = all.into_iter().filter_map(|raw| RawJsonFields::of(raw.get()));
        let all: Vec<_> = all.filter_map(ChatRecord::of).collect();
        // The results of a resumed session have the ids of the messages that called.
        let mut shown: Vec<(&ChatRecord<'_>, String)> = Vec::new();
        for message in &all {
            if shown.iter().all(|(known, _)| known.id != message.id) {
                shown.extend(message.data().map(|data| (message, data)));
            }
        }
        let ids: Vec<&str> = shown.iter().map(|(message, _)| &*message.id).collect();
        let (before, mut same) = (self.memory.messages(), self.memory.common(&ids));
        if self.memory.begun_again && same < before && same == ids.len() {
            // A resumed chat is written with its context alone at first, and whole a moment later.
            return;
        }
        self.memory.begun_again = false;
        let back = same < before;
        let known: Vec<bool> = ids.iter().map(|id| self.memory.knows(id)).collect();
        if back {
            let summary = shown.first().filter(|(message, _)| same == 0 && message.sort == "user");
            let summary = summary.map(|(message, _)| message.text());
            read.compaction = summary.filter(|text| text.contains(SUMMARY));
            if read.compaction.is_none() {
                let last = same.checked_sub(1).and_then(|last| ids.get(last));
                let after = last.map(|id| RewindPlace::After((*id).to_owned()));
                read.back = Some(after.unwrap_or(RewindPlace::Beginning));
            }
            self.memory.keep_messages(same);
            if let Some((message, _)) = shown.first().filter(|_| read.compaction.is_some()) {
                self.memory.add(&message.id, true);
                same = 1;
            }
        }
        for ((message, data), known) in shown.iter().zip(known).skip(same) {
            self.memory.add(&message.id, true);
            self.memory.report_message(&message.id, data);
            if let Some(mut event) = added(data) {
                event.occurred = message.written();
                read.events.push(event);
            }
            for result in message.results() {
                // What was told went back with the message.
                if self.memory.report_call(&result.call) || back {
                    tell_result(result, &mut read.events);
                }
            }
            if !known && self.memory.forgotten == 0 {
                self.usage(message, &mut read.events);
            }
        }
        for message in &all {
            self.memory.add(&message.id, false);
        }
    }
}

fn added(data: &str) -> Option<NewEvent> {
    let data = Payload::new(data, &EventLimits::default()).ok()?;
    Some(NewEvent::new(Kind::MESSAGE_ADDED, data))
}

fn tell_result(result: ChatResult, events: &mut Vec<NewEvent>) {
    let ChatResult { call, name, ok, result, file } = result;
    events.extend(ended_call_events(&name, ToolResult { call: CallId(call), ok, result }));
    events.extend(file.and_then(|(path, op)| touched_event(path, op, None)));
}
