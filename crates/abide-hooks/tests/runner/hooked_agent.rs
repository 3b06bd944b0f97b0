//! An agent whose hooks report, the file that it keeps, and a store in which its session is recorded.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use abide::secrets::Redaction;
use abide::{Event, EventRange, Kind, LocalOptions, LocalStore, SessionRef, SessionView, Store};
use abide_agents::AgentKind;
use abide_hooks::{HookInbox, HookRecorder, HookTrace, OwnReport, SessionInbox};
use abide_import::SourceFinder;
use abide_model::ContextEntry;
use abide_model::message::{PieceContent, Speaker};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const ID: &str = "11111111-2222-4333-8444-555555555555";

/// A longer wait is a failure.
const LIMIT: Duration = Duration::from_secs(60);

/// An agent with hooks, with a home and a store of its own.
pub(crate) struct HookedAgent {
    dir: TempDir,
    pub(crate) store: Store,
    pub(crate) kind: AgentKind,
}

impl HookedAgent {
    pub(crate) fn new() -> Self {
        Self::of("claude")
    }

    pub(crate) fn of(agent: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        let store = LocalStore::init(&dir.path().join("store"), LocalOptions::default()).unwrap();
        let store = Store::local(store).with_redaction(Redaction::off());
        Self { dir, store, kind: agent.parse().unwrap() }
    }

    /// The directory that it works in.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// The file in which it keeps the session.
    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join(".claude/projects/-work").join(format!("{ID}.jsonl"))
    }

    /// Adds a line to that file.
    pub(crate) fn writes(&self, line: &str) {
        fs::create_dir_all(self.file().parent().unwrap()).unwrap();
        let mut file = fs::OpenOptions::new().append(true).create(true).open(self.file()).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(crate) fn inboxes(&self) -> HookInbox {
        HookInbox::of_store(&self.dir.path().join("store"))
    }

    pub(crate) fn inbox(&self) -> SessionInbox {
        self.inboxes().session(self.kind, ID)
    }

    /// The files of the inbox with this ending, by their names.
    pub(crate) fn inbox_files(&self, ending: &str) -> Vec<PathBuf> {
        let dir = self.dir.path().join("store/hooks").join(self.kind.as_str()).join(ID);
        let entries = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
        let is_wanted = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.ends_with(ending) && !name.starts_with('.')
        };
        let mut files: Vec<PathBuf> = entries.filter(is_wanted).collect();
        files.sort();
        files
    }

    /// The reports that wait, oldest first.
    pub(crate) fn waiting(&self) -> Vec<PathBuf> {
        let mut files = self.inbox_files(".json");
        files.retain(|path| !path.ends_with("state.json"));
        files
    }

    /// A hook that lands its report and is gone. Gives the report's file.
    pub(crate) fn lands(&self, payload: &str) -> PathBuf {
        let name = self.inbox().land(ID, payload).unwrap().name;
        self.dir.path().join("store/hooks").join(self.kind.as_str()).join(ID).join(name)
    }

    /// Lands a report and records it.
    pub(crate) fn tells(&self, payload: &str) {
        self.lands(payload);
        self.drains();
    }

    pub(crate) fn with_recorder<T>(&self, act: impl FnOnce(&HookRecorder<'_>) -> T) -> T {
        self.with_recorder_in(None, act)
    }

    /// A recorder for which every directory is of this project.
    pub(crate) fn with_recorder_in<T>(
        &self,
        project: Option<&str>,
        act: impl FnOnce(&HookRecorder<'_>) -> T,
    ) -> T {
        let finder = SourceFinder { home: self.dir.path().to_owned(), ..SourceFinder::default() };
        let trace = HookTrace::default();
        let project = |_: &Path| project.map(str::to_owned);
        act(&HookRecorder { store: &self.store, project: &project, finder: &finder, trace: &trace })
    }

    /// Drains the inbox as a hook does that captured no files.
    pub(crate) fn drains_once(&self, own: Option<OwnReport>) {
        self.with_recorder(|recorder| recorder.drain(&self.inbox(), own).unwrap());
    }

    /// Drains the inbox until it is empty: a process that another test starts just now may hold the lock
    /// of a report until it has become another program.
    pub(crate) fn drains(&self) {
        until("the inbox is empty", || {
            self.drains_once(None);
            self.inbox().is_empty()
        });
    }

    pub(crate) fn sweeps(&self) {
        self.with_recorder(|recorder| recorder.sweep(&self.inboxes()));
    }

    pub(crate) fn view(&self) -> SessionView {
        let key = format!("{}/{ID}", self.kind.as_str());
        self.store.view(&SessionRef::Key(key)).unwrap()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.view().events(EventRange::ALL).map(Result::unwrap).collect()
    }

    /// The conversation as the model would see it: who says what, each call and each result.
    pub(crate) fn context(&self) -> Vec<String> {
        let context = self.view().context(None).unwrap();
        context.context.entries.iter().map(context_line).collect()
    }

    /// Every turn that was opened (`+`) and how it ended.
    pub(crate) fn turns(&self) -> Vec<String> {
        let mut told = Vec::new();
        for event in self.events() {
            if event.kind == Kind::TURN_STARTED {
                told.push("+".to_owned());
            } else if event.kind == Kind::TURN_FINISHED {
                told.push(data_of(&event)["status"].as_str().unwrap().to_owned());
            }
        }
        told
    }

    /// Each event that a person or a model would miss or see twice, by its kind.
    pub(crate) fn count(&self, kind: &Kind) -> usize {
        self.events().iter().filter(|event| event.kind == *kind).count()
    }

    /// A payload of an event, with these fields beside those that all have.
    pub(crate) fn payload(&self, event: &str, fields: Value) -> String {
        let mut all = json!({
            "session_id": ID,
            "transcript_path": self.file(),
            "cwd": self.work(),
            "hook_event_name": event,
        });
        let fields = fields.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(fields);
        all.to_string()
    }

    pub(crate) fn started(&self) -> String {
        self.payload("SessionStart", json!({"source": "startup"}))
    }

    pub(crate) fn prompted(&self, turn: &str, text: &str) -> String {
        self.payload("UserPromptSubmit", json!({"prompt_id": turn, "prompt": text}))
    }

    pub(crate) fn called(&self, turn: &str, call: &str) -> String {
        let fields = json!({
            "prompt_id": turn, "tool_name": "Bash", "tool_input": {"command": "ls"},
            "tool_response": "a.txt", "tool_use_id": call,
        });
        self.payload("PostToolUse", fields)
    }

    pub(crate) fn stopped(&self, turn: &str, message: &str) -> String {
        self.payload("Stop", json!({"prompt_id": turn, "last_assistant_message": message}))
    }

    pub(crate) fn ended(&self) -> String {
        self.payload("SessionEnd", json!({"reason": "other"}))
    }
}

/// Waits for a condition.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A process that lasts until it is killed.
pub(crate) fn lasting_process(stdin: Stdio) -> Child {
    Command::new("sleep").arg("100000").stdin(stdin).spawn().unwrap()
}

/// The data of an event.
pub(crate) fn data_of(event: &Event) -> Value {
    serde_json::from_str(event.data.as_ref().unwrap().as_str()).unwrap()
}

fn context_line(entry: &ContextEntry) -> String {
    match entry {
        ContextEntry::Message { message, .. } => {
            let who = match message.speaker() {
                Speaker::User => "user",
                Speaker::Assistant => "model",
                _ => "other",
            };
            let pieces = message.pieces.iter().filter_map(|piece| match &piece.sort {
                PieceContent::Text(text) => Some(text.decoded().to_string()),
                _ => piece.call().map(|call| format!("calls {}", call.id)),
            });
            format!("{who}: {}", pieces.collect::<Vec<_>>().join(" "))
        }
        ContextEntry::Call { call, .. } => format!("call {call}"),
        ContextEntry::Result { call, .. } => format!("result {call}"),
        ContextEntry::Unknown { call, .. } => format!("unknown {call}"),
        ContextEntry::Summary { text, .. } => format!("summary {text}"),
    }
}

/// The lines of the agent's file for a turn with one call: prompt, call, result, last message.
pub(crate) fn lines_of_turn(prompt: &str, call: &str, last: &str) -> [String; 4] {
    lines_after(None, prompt, call, last)
}

/// The same after the turn with this call.
pub(crate) fn lines_after(
    before: Option<&str>,
    prompt: &str,
    call: &str,
    last: &str,
) -> [String; 4] {
    let line = |sort: &str, n: u8, message: Value| {
        let parent = match n {
            1 => before.map(|before| format!("{before}-4")),
            _ => Some(format!("{call}-{}", n - 1)),
        };
        json!({
            "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": "/work",
            "sessionId": ID, "version": "2.1", "type": sort, "message": message,
            "uuid": format!("{call}-{n}"), "timestamp": format!("2026-01-02T03:04:0{n}.000Z"),
        })
        .to_string()
    };
    let answer = |id: &str, block: Value| {
        json!({
            "id": format!("{call}-{id}"), "type": "message", "role": "assistant", "model": "m-1",
            "content": [block], "usage": {"input_tokens": 3, "output_tokens": 4},
        })
    };
    let asked = json!({"type": "tool_use", "id": call, "name": "Bash", "input": {"command": "ls"}});
    let told = json!([{"type": "tool_result", "tool_use_id": call, "content": "a.txt"}]);
    [
        line("user", 1, json!({"role": "user", "content": prompt})),
        line("assistant", 2, answer("m1", asked)),
        line("user", 3, json!({"role": "user", "content": told})),
        line("assistant", 4, answer("m2", json!({"type": "text", "text": last}))),
    ]
}
