//! The paths that are counted. What is made before is another function: it is not counted.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use abide::{
    Durability, HistoryQuery, LocalStore, Message, MessageForm, NewEvent, NewSession, Session,
    SessionId, SessionRef, TaskStatus, Timestamp,
    event::AnomalyPolicy,
    history::Search,
    tasks::{SessionTasks, TaskCreated, TaskId, TaskStatusChange},
};
use abide_acp::Translator;
use abide_agents::AgentReader;
use abide_workspace::{Policy, Watch, Workspace};
use serde_json::json;
use serde_json::value::RawValue;

use super::fixed::{When, options, place, text};
use super::valgrind::Valgrind;
use crate::Outcome;

/// A path that is counted.
#[derive(Debug)]
pub(super) struct HotPath {
    pub(super) name: &'static str,
    /// Makes what it works on.
    before: fn(&Path) -> Outcome,
    pub(super) way: Way,
}

/// How it is counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    /// In this program: so and so often, and twice as often.
    ///
    /// How work falls to threads differs a little from run to run: of several tries the least counts.
    Within { times: usize, tries: usize, work: fn(&Path, usize) -> Outcome },
    /// `abide` with these arguments and this input, from its start to its end. [`SESSION`] stands for
    /// the session.
    Process { arguments: &'static [&'static str], input: &'static str },
}

const SESSION: &str = "{session}";
const MESSAGE: &str = "{\"kind\":\"message.added\",\"data\":{\"role\":\"user\",\"content\":\"Does it still build?\"}}\n";

/// All of them.
pub(super) const PATHS: [HotPath; 15] = [
    within("session.fold", closed_without_snapshot, 1, fold),
    with_threads("checkpoint.changed", taken, 4, checkpoint_changed),
    with_threads("checkpoint.unchanged", taken, 4, checkpoint),
    within("journal.check", closed_without_snapshot, 1, check),
    within("tasks.status", planned, 100, status),
    within("history.search", indexed, 1, search),
    within("history.list", indexed, 2, list),
    within("context.read", dialogue, 2, context),
    within("append.one", short, 50, append),
    within("append.batch", short, 4, append_batch),
    within("session.open", long, 10, open),
    within("agent.read", nothing, 40, agent),
    within("acp.update", nothing, 100, acp),
    HotPath {
        name: "process.version",
        before: nothing,
        way: Way::Process { arguments: &["--version"], input: "" },
    },
    HotPath {
        name: "process.record",
        before: recorded,
        way: Way::Process { arguments: &["record", "-s", SESSION], input: MESSAGE },
    },
];

const fn within(
    name: &'static str,
    before: fn(&Path) -> Outcome,
    times: usize,
    work: fn(&Path, usize) -> Outcome,
) -> HotPath {
    HotPath { name, before, way: Way::Within { times, tries: 1, work } }
}

const fn with_threads(
    name: &'static str,
    before: fn(&Path) -> Outcome,
    times: usize,
    work: fn(&Path, usize) -> Outcome,
) -> HotPath {
    HotPath { name, before, way: Way::Within { times, tries: 3, work } }
}

pub(super) fn find(name: &str) -> Outcome<&'static HotPath> {
    let found = PATHS.iter().find(|path| path.name == name);
    Ok(found.ok_or_else(|| format!("there is no path {name}"))?)
}

impl HotPath {
    /// The instructions of doing it once.
    pub(super) fn count(&self, valgrind: &Valgrind, dir: &Path) -> Outcome<u64> {
        let prepared = |sort: &str| {
            let dir = dir.join(format!("{}-{sort}", self.name));
            std::fs::create_dir(&dir)?;
            (self.before)(&dir)?;
            Outcome::Ok(dir)
        };
        match self.way {
            Way::Within { times, tries, .. } => {
                let counted = |sort: &str, times: usize| {
                    let dir = prepared(sort)?;
                    let change = |command: &mut std::process::Command| {
                        command.args(["count-one", self.name]).arg(&dir).arg(times.to_string());
                    };
                    valgrind.count(&valgrind.bench, change, "", &dir.join("valgrind.log"))
                };
                let least = |sort: &str, times: usize| {
                    let mut least = counted(sort, times)?;
                    for again in 1..tries {
                        least = least.min(counted(&format!("{sort}-{again}"), times)?);
                    }
                    Outcome::Ok(least)
                };
                let (once, twice) = (least("1", times)?, least("2", times * 2)?);
                Ok(twice.saturating_sub(once) / times as u64)
            }
            Way::Process { arguments, input } => {
                let dir = prepared("1")?;
                let mut arguments: Vec<_> =
                    arguments.iter().map(|text| (*text).to_owned()).collect();
                for argument in arguments.iter_mut().filter(|argument| *argument == SESSION) {
                    *argument = the_session(&dir)?.to_string();
                }
                let change = |command: &mut std::process::Command| {
                    command.args(arguments).current_dir(&dir);
                };
                valgrind.count(&valgrind.abide, change, input, &dir.join("valgrind.log"))
            }
        }
    }
}

fn nothing(_: &Path) -> Outcome {
    Ok(())
}

fn the_session(dir: &Path) -> Outcome<SessionId> {
    let place = place(dir, When::Counted)?;
    Ok(place.store.sessions()?.first().ok_or("there is no session")?.id)
}

fn opened(dir: &Path) -> Outcome<Session> {
    let id = the_session(dir)?;
    place(dir, When::Counted)?.open(id)
}

fn say(session: &Session, first: usize, count: usize) -> Outcome {
    let events: Result<Vec<NewEvent>, _> =
        (first..first + count).map(|number| Message::assistant(text(number)).try_into()).collect();
    session.append_with(events?, Durability::Synced, AnomalyPolicy::Keep)?.wait()?;
    Ok(())
}

/// A closed session with so many messages.
fn filled(dir: &Path, count: usize) -> Outcome {
    let session = place(dir, When::Before)?.session()?;
    for first in (0..count).step_by(500) {
        say(&session, first, 500.min(count - first))?;
    }
    Ok(session.close()?)
}

fn short(dir: &Path) -> Outcome {
    filled(dir, 10)
}

/// As `abide record` leaves it: with its transcript.
fn recorded(dir: &Path) -> Outcome {
    short(dir)?;
    let id = the_session(dir)?;
    Ok(place(dir, When::Before)?.local.update_transcript(id)?)
}

fn long(dir: &Path) -> Outcome {
    filled(dir, 10_000)
}

fn append(dir: &Path, times: usize) -> Outcome {
    let session = opened(dir)?;
    let text = text(0);
    for _ in 0..times {
        session.append(Message::assistant(text.as_str()))?.wait()?;
    }
    Ok(())
}

fn append_batch(dir: &Path, times: usize) -> Outcome {
    let session = opened(dir)?;
    let text = text(0);
    for _ in 0..times {
        let events: Result<Vec<NewEvent>, _> =
            (0..64).map(|_| Message::assistant(text.as_str()).try_into()).collect();
        session.append_all(events?)?.wait()?;
    }
    Ok(())
}

/// By the snapshot of its state.
fn open(dir: &Path, times: usize) -> Outcome {
    let id = the_session(dir)?;
    for _ in 0..times {
        place(dir, When::Counted)?.open(id)?.close()?;
    }
    Ok(())
}

fn closed_without_snapshot(dir: &Path) -> Outcome {
    filled(dir, 1000)?;
    for session in std::fs::read_dir(dir.join(".abide/sessions"))? {
        let state = session?.path().join("state");
        if state.is_dir() {
            std::fs::remove_dir_all(&state)?;
            std::fs::create_dir(&state)?;
        }
    }
    Ok(())
}

fn fold(dir: &Path, times: usize) -> Outcome {
    let id = the_session(dir)?;
    for _ in 0..times {
        let view = place(dir, When::Counted)?.store.view(&SessionRef::Id(id))?;
        black_box(view.state()?);
    }
    Ok(())
}

fn check(dir: &Path, times: usize) -> Outcome {
    let id = the_session(dir)?;
    let local = place(dir, When::Counted)?.local;
    for _ in 0..times {
        let checked = local.doctor().verify_journal(id)?;
        if !checked.findings.is_empty() {
            return Err(format!("{:?}", checked.findings).into());
        }
    }
    Ok(())
}

/// Questions, calls, results and answers.
fn dialogue(dir: &Path) -> Outcome {
    let session = place(dir, When::Before)?.session()?;
    for number in 0..200 {
        let piece = text(number);
        let call = format!("call_{}", number / 4);
        let message = match number % 4 {
            0 => json!({ "role": "user", "content": piece }),
            1 => {
                let function =
                    json!({ "name": "edit", "arguments": json!({ "text": piece }).to_string() });
                let calls = json!([{ "id": call, "type": "function", "function": function }]);
                json!({ "role": "assistant", "content": null, "tool_calls": calls })
            }
            2 => json!({ "role": "tool", "tool_call_id": call, "content": piece }),
            _ => json!({ "role": "assistant", "content": piece }),
        };
        let data = abide::Payload::of(&message)?;
        session.append(NewEvent::new(abide::Kind::MESSAGE_ADDED, data))?.wait()?;
    }
    Ok(session.close()?)
}

fn context(dir: &Path, times: usize) -> Outcome {
    let id = the_session(dir)?;
    for _ in 0..times {
        let view = place(dir, When::Counted)?.store.view(&SessionRef::Id(id))?;
        black_box(view.context(None)?.render(MessageForm::OpenAi).to_json());
    }
    Ok(())
}

/// A thousand tasks: phases of nine, each task after the one before it.
fn planned(dir: &Path) -> Outcome {
    let session = Arc::new(place(dir, When::Before)?.session()?);
    let mut tasks = SessionTasks::open(session)?;
    for phase in 0..100 {
        let parent = TaskId(format!("P{phase}"));
        let title = format!("What is to be done in phase {phase}");
        tasks.create(TaskCreated { task: parent.clone(), title, ..TaskCreated::default() })?;
        let mut depends = Vec::new();
        for number in 0..9 {
            let task = leaf(phase, number);
            tasks.create(TaskCreated {
                title: format!("What is to be done in {task}, told in a line of the usual length"),
                task: task.clone(),
                parent: Some(parent.clone()),
                depends: std::mem::replace(&mut depends, vec![task]),
                ..TaskCreated::default()
            })?;
        }
    }
    tasks.flush()?;
    Ok(Arc::into_inner(tasks.into_session()).ok_or("the session is held")?.close()?)
}

fn leaf(phase: usize, number: usize) -> TaskId {
    TaskId(format!("P{phase}.T{number}"))
}

fn status(dir: &Path, times: usize) -> Outcome {
    let mut tasks = SessionTasks::open(Arc::new(opened(dir)?))?;
    for number in 0..times {
        let task = leaf(number * 37 % 100, number % 9);
        let status = TaskStatus::Implementing;
        tasks.set(TaskStatusChange { task, status, ..TaskStatusChange::default() })?;
        tasks.flush()?;
    }
    Ok(())
}

/// Sessions with titles and a few messages, in the index.
fn indexed(dir: &Path) -> Outcome {
    let place = place(dir, When::Before)?;
    for number in 0..60 {
        let session = place.store.create(NewSession::titled(format!("Session {number}")))?;
        say(&session, number * 5, 5)?;
        session.close()?;
    }
    place.local.index().update()?;
    Ok(())
}

fn search(dir: &Path, times: usize) -> Outcome {
    let local = LocalStore::open(&dir.join(".abide"), options(When::Counted))?;
    for _ in 0..times {
        for words in ["buffer", "fails because", "pars*", "\"the last\""] {
            let search = Some(Search::parse(words)?);
            let query = HistoryQuery { search, limit: Some(20), ..HistoryQuery::default() };
            if local.index().history(&query)?.entries.is_empty() {
                return Err(format!("{words} is not found").into());
            }
        }
    }
    Ok(())
}

fn list(dir: &Path, times: usize) -> Outcome {
    let local = LocalStore::open(&dir.join(".abide"), options(When::Counted))?;
    for _ in 0..times {
        black_box(local.index().history(&HistoryQuery::default())?);
    }
    Ok(())
}

/// Four hundred files in twenty directories, and a snapshot of them.
fn taken(dir: &Path) -> Outcome {
    for number in 0..400 {
        let inner = dir.join(format!("tree/{:02}", number / 20));
        std::fs::create_dir_all(&inner)?;
        std::fs::write(inner.join(format!("{number}.txt")), text(number))?;
    }
    // A file that is as young as its snapshot is read again by the next.
    std::thread::sleep(Duration::from_millis(50));
    checkpoint(dir, 1)
}

/// Opened anew, as a new process would.
fn checkpoint(dir: &Path, times: usize) -> Outcome {
    for _ in 0..times {
        snapshot(dir)?;
    }
    Ok(())
}

fn snapshot(dir: &Path) -> Outcome {
    let objects = LocalStore::init(&dir.join("store"), options(When::Counted))?.objects()?;
    let workspace =
        Workspace::open(&dir.join("tree"), &dir.join("store/workspace"), Policy::default())?;
    let workspace = workspace.with_global_excludes(None).with_settle(Duration::from_millis(20));
    black_box(workspace.snapshot(&objects, &Watch::default())?);
    Ok(())
}

fn checkpoint_changed(dir: &Path, times: usize) -> Outcome {
    for number in 0..times {
        std::fs::write(dir.join(format!("tree/03/{}.txt", 60 + number)), text(1000 + number))?;
        std::thread::sleep(Duration::from_millis(50));
        snapshot(dir)?;
    }
    Ok(())
}

/// A message and a call of a tool, as Claude Code prints them.
fn agent(_: &Path, times: usize) -> Outcome {
    let mut reader = AgentReader::new("claude".parse()?);
    let mut seen = 0;
    let text = text(0);
    for number in 0..times {
        let mut lines = String::new();
        let message = json!({ "role": "assistant", "id": format!("msg_{number}"), "content": [
            { "type": "text", "text": text },
            { "type": "tool_use", "id": format!("toolu_{number}"), "name": "Bash",
              "input": { "command": "cargo test" } },
        ], "usage": { "input_tokens": 10, "output_tokens": 20 } });
        writeln!(
            lines,
            "{}",
            json!({ "type": "assistant", "session_id": "s", "message": message })
        )?;
        let result = json!({ "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": format!("toolu_{number}"), "content": text },
        ] });
        writeln!(lines, "{}", json!({ "type": "user", "session_id": "s", "message": result }))?;
        reader.feed(lines.as_bytes(), Timestamp::from_millis(0), &mut |_| seen += 1);
    }
    reader.finish(&mut |_| seen += 1);
    if seen < times { Err("nothing was seen".into()) } else { Ok(()) }
}

/// A chunk of an answer, a call of a tool and its end, as ACP has them.
fn acp(_: &Path, times: usize) -> Outcome {
    let mut translator = Translator::new("agent");
    let text = text(0);
    let raw = |value: serde_json::Value| RawValue::from_string(value.to_string());
    let prompt = json!({ "sessionId": "s", "prompt": [{ "type": "text", "text": "go" }] });
    black_box(translator.prompt(&raw(prompt)?));
    for number in 0..times {
        let call = format!("call-{number}");
        for update in [
            json!({ "sessionUpdate": "agent_message_chunk",
                    "content": { "type": "text", "text": "a few words of an answer " } }),
            json!({ "sessionUpdate": "tool_call", "toolCallId": call, "title": "Read a file",
                    "kind": "read", "status": "pending", "rawInput": { "path": "src/main.rs" } }),
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": call,
                    "status": "completed", "rawOutput": { "text": text } }),
        ] {
            let params = json!({ "sessionId": "s", "update": update });
            black_box(translator.update(&raw(params)?));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_can_be_done() {
        let dir = tempfile::tempdir().unwrap();
        for path in &PATHS {
            let inner = dir.path().join(path.name);
            std::fs::create_dir(&inner).unwrap();
            (path.before)(&inner).unwrap();
            if let Way::Within { work, .. } = path.way {
                work(&inner, 1).unwrap_or_else(|error| panic!("{}: {error}", path.name));
            }
        }
        let record = dir.path().join("process.record");
        assert_eq!(
            the_session(&record).unwrap(),
            the_session(&dir.path().join("append.one")).unwrap()
        );
    }
}
