//! Shows a run as lines of JSON.

use std::io::Write;

use abide_runner::{RunEvent, RunFinish, StopUrgency, Stream};
use serde_json::{Value, json};

use super::view::RunView;
use crate::answer_json::{data_line, numbered};
use crate::session_status::DisplayedState;

/// Prints each event as a line of JSON.
#[derive(Debug, Default)]
pub(super) struct JsonView {
    /// Nobody reads the output any more.
    gone: bool,
}

impl RunView for JsonView {
    fn show(&mut self, event: &RunEvent) {
        if self.gone {
            return;
        }
        let line = run_event_json(event).to_string();
        let mut line = data_line(&numbered(&line)).into_owned();
        line.push('\n');
        let mut out = std::io::stdout().lock();
        self.gone = out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err();
    }
}

/// The state of the session behind a run. A conversation leaves it as it was: it can go on.
const fn run_state(finish: RunFinish) -> DisplayedState {
    match finish {
        RunFinish::Done => DisplayedState::Ended,
        RunFinish::Ended => DisplayedState::Idle,
        RunFinish::Failed => DisplayedState::Failed,
        RunFinish::ScopeDone
        | RunFinish::EnoughTasks
        | RunFinish::Stuck
        | RunFinish::Stopped
        | RunFinish::TimeUp
        | RunFinish::LimitReached
        | RunFinish::Broken => DisplayedState::Stopped,
    }
}

/// The event as JSON, with its name first.
fn run_event_json(event: &RunEvent) -> Value {
    match event {
        RunEvent::Started { session, interval } => json!({
            "event": "started", "session": session, "checkpoint_every_s": interval.map(|interval| interval.as_secs()),
        }),
        RunEvent::LeftBehind { task, processes } => json!({
            "event": "left_behind", "task": task, "processes": processes,
        }),
        RunEvent::Interrupted { left, decision } => json!({
            "event": "interrupted", "task": left.task, "title": left.title, "decision": decision,
            "unknown": left.unknown.iter().map(|call| json!({
                "call": call.call, "name": call.name,
            })).collect::<Vec<_>>(),
        }),
        RunEvent::TaskStarted { task, title, attempt, lane, way, process } => json!({
            "event": "task_started", "task": task, "title": title, "attempt": attempt,
            "lane": lane, "way": way, "process": process,
        }),
        RunEvent::AgentStarted { way, process } => json!({
            "event": "agent_started", "way": way, "process": process,
        }),
        RunEvent::AgentEnded { turn, reason, took } => json!({
            "event": "agent_ended", "turn": turn, "reason": reason,
            "duration_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        }),
        RunEvent::Step { task, text } => json!({"event": "step", "task": task, "text": text}),
        RunEvent::Message { task, data } => {
            let data: Value = serde_json::from_str(data).unwrap_or(Value::Null);
            json!({"event": "message", "task": task, "message": data})
        }
        RunEvent::Output { task, stream, bytes } => json!({
            "event": "output", "task": task,
            "stream": match stream { Stream::Out => "stdout", Stream::Err => "stderr" },
            "text": String::from_utf8_lossy(bytes),
        }),
        RunEvent::Usage { task, usage } => json!({"event": "usage", "task": task, "usage": usage}),
        RunEvent::Waiting { task, until, why } => json!({
            "event": "waiting", "task": task, "until": until, "why": why,
        }),
        RunEvent::CheckStarted { task, command, process } => json!({
            "event": "check_started", "task": task, "command": command, "process": process,
        }),
        RunEvent::CheckEnded { task, command, ok, exit, took } => json!({
            "event": "check_ended", "task": task, "command": command, "ok": ok, "exit": exit,
            "duration_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        }),
        RunEvent::TaskEnded { task, title, status, reason, took } => json!({
            "event": "task_ended", "task": task, "title": title, "status": status,
            "reason": reason, "duration_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        }),
        RunEvent::Checkpoint(made) => json!({
            "event": "checkpoint", "number": made.number, "seq": made.seq,
            "trigger": made.checkpoint.trigger, "files": made.checkpoint.files.len(),
        }),
        RunEvent::Limit(limit) => json!({
            "event": "limit", "resource": limit.resource, "used": limit.used,
            "limit": limit.limit, "level": limit.level,
        }),
        RunEvent::Compacted { lane, result } => json!({
            "event": "compacted", "seq": result.seq, "lane": lane, "covered": result.covered,
            "before_tokens": result.compaction.before_tokens,
            "after_tokens": result.compaction.after_tokens,
        }),
        RunEvent::Warning(text) => json!({"event": "warning", "text": text}),
        RunEvent::Stopping(urgency) => json!({
            "event": "stopping", "urgency": match urgency {
                StopUrgency::None => "none",
                StopUrgency::AfterStep => "after_step",
                StopUrgency::Now => "now",
                StopUrgency::Kill => "kill",
            },
        }),
        RunEvent::Stopped(summary) => {
            let mut value = serde_json::to_value(summary).unwrap_or(Value::Null);
            if let Value::Object(fields) = &mut value {
                fields.insert("event".to_owned(), Value::from("stopped"));
                fields.insert("state".to_owned(), Value::from(run_state(summary.finish).as_str()));
            }
            value
        }
    }
}
