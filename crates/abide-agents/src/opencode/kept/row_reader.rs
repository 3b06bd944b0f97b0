//! Reads the rows of a session: the session's own, its messages, their parts, its to-dos. A row that was
//! updated comes once more.

use abide_model::{CallId, FileOp, LogRecord, NewEvent, Timestamp, ToolResult};
use abide_wire::json::{RawJsonFields, decode_string, list};
use serde_json::value::RawValue;

use super::super::output::{OpencodeCall, opencode_file, opencode_object, opencode_usage};
use super::row_memory::{PartMark, RowMemory};
use crate::kept::record_fields::{ended_call_events, touched_event, usage_event};
use crate::kept::short_hash::short_hash;
use crate::kept::{ReadRecord, RecordMessage, RecordReader, RecordText, RewindPlace};
use crate::output::message::{blocks_message, call_block, text_block, thought_block};

/// With what the title of a session begins that nobody gave.
const UNTITLED: &str = "New session - ";

/// Reads the rows of one session.
#[derive(Debug)]
pub(super) struct RowReader {
    memory: RowMemory,
}

/// The row of a part, with what the row of its message says of it.
struct PartRow<'a> {
    id: String,
    message: String,
    role: String,
    model: Option<String>,
    /// Its message sums up the conversation.
    summary: bool,
    data: RawJsonFields<'a>,
}

impl RecordReader for RowReader {
    fn read(&mut self, record: &str) -> ReadRecord {
        let mut read = ReadRecord::default();
        let Some(row) = RawJsonFields::of(record) else { return read };
        let text = |name: &str| row.decoded(name).map(|text| text.into_owned());
        read.sort = text("table").unwrap_or_default();
        read.id = text("id");
        read.occurred = millis(row.get("time_created"));
        let data = opencode_object(&row, "data").unwrap_or_default();
        match read.sort.as_str() {
            "session" => session(&row, &mut read),
            "message" => self.message(&row, &data, &mut read),
            "part" => {
                let part = PartRow {
                    id: text("id").unwrap_or_default(),
                    message: text("message_id").unwrap_or_default(),
                    role: text("role").unwrap_or_default(),
                    model: text("model"),
                    summary: row.get("summary").is_some_and(|raw| raw.get() == "1"),
                    data,
                };
                self.part(&part, &mut read);
            }
            "todo" => {
                read.known = true;
                read.id = None;
            }
            _ => {}
        }
        read
    }

    fn memory(&self) -> String {
        self.memory.to_json()
    }
}

fn session(row: &RawJsonFields<'_>, read: &mut ReadRecord) {
    let text = |name: &str| row.decoded(name).map(|text| text.into_owned());
    read.known = true;
    let details = &mut read.details;
    details.id = text("id");
    details.workspace = text("directory");
    details.title = text("title").filter(|title| !title.starts_with(UNTITLED));
    details.version = text("version");
    details.parent = text("parent_id");
    let model = opencode_object(row, "model");
    details.model = model.and_then(|model| model.decoded("id").map(|id| id.into_owned()));
}

impl RowReader {
    pub(super) fn new(memory: Option<&str>) -> Self {
        Self { memory: memory.map(RowMemory::parse).unwrap_or_default() }
    }

    fn message(
        &mut self,
        row: &RawJsonFields<'_>,
        data: &RawJsonFields<'_>,
        read: &mut ReadRecord,
    ) {
        let role = data.decoded("role").unwrap_or_default();
        read.sort = format!("message/{role}");
        read.known = matches!(&*role, "user" | "assistant");
        read.details.model = data.decoded("modelID").map(|model| model.into_owned());
        let Some(id) = row.decoded("id") else { return };
        let is_new = !self.memory.knows_message(&id);
        let gone = self.memory.add_message(&id, row.decoded("after").as_deref());
        read.back = gone.map(RewindPlace::Before);
        // The conversation goes back to where a message was first.
        read.id = read.id.take().filter(|_| is_new);
        if let Some(error) = opencode_object(data, "error")
            && self.memory.report_error(&id)
        {
            log("error", &error, &mut read.events);
        }
    }

    fn part(&mut self, part: &PartRow<'_>, read: &mut ReadRecord) {
        let sort = part.data.decoded("type").unwrap_or_default();
        read.sort = format!("part/{sort}");
        read.known = true;
        let before = self.memory.part(&part.id);
        let mut mark = before.unwrap_or_default();
        let text = part.data.decoded("text").unwrap_or_default();
        let block = match &*sort {
            _ if text.trim().is_empty() && matches!(&*sort, "text" | "reasoning") => None,
            // This is shown to the user alone.
            "text" if part.data.flag("ignored") == Some(true) => None,
            "text" if part.summary => {
                read.compaction = Some(text.into_owned()).filter(|_| mark.data == 0);
                mark.data = 1;
                None
            }
            "text" => Some(text_block(&text)),
            "reasoning" => Some(thought_block(&text)),
            "file" => opencode_file(&part.data),
            "tool" => tool_block(part),
            "step-finish" if before.is_none() => {
                let (id, model) = (part.message.clone(), part.model.clone());
                read.events.extend(usage_event(id, model, opencode_usage(&part.data)));
                None
            }
            "retry" if before.is_none() => {
                let error = opencode_object(&part.data, "error").unwrap_or_default();
                log("warn", &error, &mut read.events);
                None
            }
            "patch" if before.is_none() => {
                self.patch(part, &mut read.events);
                None
            }
            "step-finish" | "retry" | "patch" | "step-start" | "snapshot" | "agent" | "subtask"
            | "compaction" => None,
            _ => {
                read.known = false;
                None
            }
        };
        read.message = block.and_then(|block| part_message(part, &block, &mut mark));
        if before.is_some() && read.message.is_none() {
            // The message of the part is where it was.
            read.id = None;
        }
        if sort == "tool" && !mark.finished {
            mark.finished = self.finish(part, &mut read.events);
        }
        self.memory.set_part(&part.id, mark);
    }

    /// Reports the result of a call and its files. Has it ended?
    fn finish(&mut self, part: &PartRow<'_>, events: &mut Vec<NewEvent>) -> bool {
        let Some(call) = OpencodeCall::of(&part.data) else { return false };
        let (ok, result) = (!call.failed, call.result());
        let files = if ok { call.files() } else { Vec::new() };
        let result = ToolResult { call: CallId(call.id), ok, result };
        let state = opencode_object(&part.data, "state").unwrap_or_default();
        let time = opencode_object(&state, "time").unwrap_or_default();
        let mut ended = ended_call_events(&call.name, result);
        if let Some(event) = ended.last_mut() {
            event.occurred = millis(time.get("end"));
        }
        events.extend(ended);
        for (path, op) in files {
            if op != FileOp::Read {
                self.memory.report_file(&part.message, &path);
            }
            events.extend(touched_event(path, op, None));
        }
        true
    }

    /// A patch names the files that have changed in an answer: those of its calls, and those that its
    /// commands have written.
    fn patch(&mut self, part: &PartRow<'_>, events: &mut Vec<NewEvent>) {
        for file in part.data.get("files").and_then(list).unwrap_or_default() {
            if !file.get().starts_with('"') {
                continue;
            }
            let path = decode_string(file.get());
            if self.memory.report_file(&part.message, &path) {
                events.extend(touched_event(path.into_owned(), FileOp::Write, None));
            }
        }
    }
}

fn tool_block(part: &PartRow<'_>) -> Option<String> {
    let state = opencode_object(&part.data, "state").unwrap_or_default();
    let call = part.data.decoded("callID").or_else(|| part.data.decoded("id"))?;
    let name = part.data.decoded("tool").unwrap_or_default();
    Some(call_block(&call, &name, state.get("input")))
}

/// The message of a part, unless it is as it was.
fn part_message(part: &PartRow<'_>, block: &str, mark: &mut PartMark) -> Option<RecordMessage> {
    let role = if part.role == "user" { "user" } else { "assistant" };
    let data = blocks_message(role, &[block.to_owned()])?;
    let hash = short_hash(&data).max(1);
    let before = std::mem::replace(&mut mark.data, hash);
    Some(RecordMessage {
        text: RecordText::Made(data),
        answer: Some(part.message.clone()).filter(|_| role == "assistant"),
        replaces: Some(part.id.clone()).filter(|_| before != 0),
    })
    .filter(|_| before != hash)
}

fn log(level: &str, error: &RawJsonFields<'_>, events: &mut Vec<NewEvent>) {
    let message = opencode_object(error, "data")
        .and_then(|data| data.decoded("message").map(|text| text.into_owned()));
    let own = |name: &str| error.decoded(name).map(|text| text.into_owned());
    let text = message.or_else(|| own("message")).or_else(|| own("name")).unwrap_or_default();
    let log = LogRecord { level: level.to_owned(), text };
    events.extend(NewEvent::try_from(log).ok());
}

/// A time in milliseconds.
fn millis(raw: Option<&RawValue>) -> Option<Timestamp> {
    raw?.get().parse().ok().map(Timestamp::from_millis)
}
