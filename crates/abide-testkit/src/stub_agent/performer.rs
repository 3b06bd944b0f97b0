//! One prompt performed, step by step.

use std::fs;
use std::path::Path;
use std::process::{self, Command};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::StubAgent;
use super::step::{Step, steps};

/// Texts are echoed in chunks of about so many bytes.
const ECHO: usize = 16;

/// The prompt was cancelled.
struct Cancelled;

/// Who performs a prompt.
pub(super) struct Performer<'a> {
    agent: &'a StubAgent,
    /// The prompt's number, by which it is cancelled.
    number: u64,
    session: String,
    usage: Option<Value>,
}

impl<'a> Performer<'a> {
    pub(super) fn new(agent: &'a StubAgent, number: u64, session: String) -> Self {
        Self { agent, number, session, usage: None }
    }

    /// Performs the prompt; the result of its request.
    pub(super) fn perform(mut self, prompt: &Value) -> Value {
        let blocks = prompt.as_array().cloned().unwrap_or_default();
        for block in &blocks {
            self.keep(&json!({"sessionUpdate": "user_message_chunk", "content": block}));
        }
        self.save();
        let script = blocks.iter().rev().find_map(|block| block["text"].as_str());
        let mut stop = "end_turn";
        for step in steps(script.unwrap_or_default()) {
            if self.perform_step(step, &blocks).is_err() {
                stop = "cancelled";
                break;
            }
            self.save();
        }
        match self.usage {
            Some(usage) => json!({"stopReason": stop, "usage": usage}),
            None => json!({"stopReason": stop}),
        }
    }

    fn perform_step(&mut self, step: Step, blocks: &[Value]) -> Result<(), Cancelled> {
        self.check()?;
        match step {
            Step::Say(text) => self.say(&text),
            Step::Think(text) => self.chunk("agent_thought_chunk", &text),
            Step::Chunks { count, size } => {
                for number in 0..count {
                    self.check()?;
                    self.say(&filler(number, size));
                }
            }
            Step::Echo(text) => {
                for part in parts(&text) {
                    self.check()?;
                    self.say(part);
                }
            }
            Step::Tool(name) => {
                let call = self.call(&name);
                self.update(json!({
                    "sessionUpdate": "tool_call_update", "toolCallId": call, "status": "in_progress",
                }));
                self.check()?;
                let path = format!("{}/{name}.txt", self.cwd());
                self.update(json!({
                    "sessionUpdate": "tool_call_update", "toolCallId": call, "status": "completed",
                    "content": [
                        {"type": "content", "content": {"type": "text", "text": format!("{name} done")}},
                        {"type": "diff", "path": path, "oldText": "old\n", "newText": "new\n"},
                    ],
                    "rawOutput": {"ok": true},
                }));
            }
            Step::ToolOpen(name) => {
                self.call(&name);
            }
            Step::Ask => {
                let call = self.next_call("ask");
                let answer = self.request(
                    "session/request_permission",
                    json!({
                        "sessionId": self.session,
                        "toolCall": {"toolCallId": call, "title": "May it?", "kind": "edit"},
                        "options": [
                            {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
                            {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
                        ],
                    }),
                )?;
                self.say_answer(&answer);
            }
            Step::Read(path) => {
                let path = self.absolute(&path);
                let params = json!({"sessionId": self.session, "path": path});
                let answer = self.request("fs/read_text_file", params)?;
                self.say_answer(&answer);
            }
            Step::Write { path, text } => {
                let path = self.absolute(&path);
                let params = json!({"sessionId": self.session, "path": path, "content": text});
                let answer = self.request("fs/write_text_file", params)?;
                self.say_answer(&answer);
            }
            Step::Terminal(command) => self.terminal(&command)?,
            Step::Plan(entries) => {
                let entries: Vec<Value> = entries.iter().map(|entry| plan_entry(entry)).collect();
                self.update(json!({"sessionUpdate": "plan", "entries": entries}));
            }
            Step::Mode(id) => {
                self.update(json!({"sessionUpdate": "current_mode_update", "currentModeId": id}));
            }
            Step::Title(title) => {
                if let Some(session) = self.agent.state().sessions.get_mut(&self.session) {
                    session.title = Some(title.clone());
                }
                self.update(json!({"sessionUpdate": "session_info_update", "title": title}));
            }
            Step::Usage => {
                self.update(json!({
                    "sessionUpdate": "usage_update", "used": 1234, "size": 200_000,
                    "cost": {"amount": 0.25, "currency": "USD"},
                }));
                self.usage = Some(json!({
                    "inputTokens": 1000, "outputTokens": 234, "totalTokens": 1234,
                }));
            }
            Step::Custom => self.custom()?,
            Step::Edit { path, text } => {
                let path = self.absolute(&path);
                let done = fs::write(&path, text);
                self.say(&format!("edited: {}", done.is_ok()));
            }
            Step::Sleep(time) => self.pause(Some(time))?,
            Step::Wait => self.pause(None)?,
            Step::Hang => forever(),
            Step::Die(code) => process::exit(code),
            Step::Kill => {
                let _ = Command::new("kill").args(["-9", &process::id().to_string()]).status();
                forever();
            }
            Step::Garbage => {
                self.agent.send_line(b"this is no JSON {");
                self.agent.send_line(br#"{"this":"is JSON, but no message"}"#);
                self.agent.send_line(b"");
            }
            Step::Flood { megabytes } => self.say(&filler(0, megabytes << 20)),
            Step::Endless { megabytes } => {
                for _ in 0..megabytes {
                    self.check()?;
                    self.agent.send_bytes(&vec![b'x'; 1 << 20]);
                }
                self.agent.send_line(b"");
            }
            Step::Deaf => self.agent.state().deaf = true,
            Step::Recall => {
                let texts = blocks.iter().filter_map(|block| block["text"].as_str());
                let prompt = texts.collect::<Vec<_>>().join("\n");
                let told = self.agent.state().sessions.get(&self.session).map(|known| known.told());
                self.say(&format!("PROMPT\n{prompt}\nSESSION\n{}END", told.unwrap_or_default()));
            }
            Step::Raw(line) => {
                self.agent.send_line(line.replace("$ID", &self.session).as_bytes());
            }
        }
        Ok(())
    }

    fn terminal(&mut self, command: &[String]) -> Result<(), Cancelled> {
        let Some((program, arguments)) = command.split_first() else { return Ok(()) };
        let answer = self.request(
            "terminal/create",
            json!({"sessionId": self.session, "command": program, "args": arguments}),
        )?;
        let terminal = answer["result"]["terminalId"].clone();
        if terminal.is_null() {
            self.say_answer(&answer);
            return Ok(());
        }
        let call = self.next_call(program);
        self.update(json!({
            "sessionUpdate": "tool_call", "toolCallId": call, "title": program, "kind": "execute",
            "status": "in_progress", "content": [{"type": "terminal", "terminalId": terminal}],
        }));
        let params = json!({"sessionId": self.session, "terminalId": terminal});
        self.request("terminal/wait_for_exit", params.clone())?;
        let output = self.request("terminal/output", params.clone())?;
        self.request("terminal/release", params)?;
        self.update(json!({
            "sessionUpdate": "tool_call_update", "toolCallId": call, "status": "completed",
        }));
        self.say_answer(&output);
        Ok(())
    }

    fn custom(&mut self) -> Result<(), Cancelled> {
        self.update(json!({"sessionUpdate": "x_custom", "x": {"deep": [1, null, "two"]}}));
        let params = json!({"sessionId": self.session, "anything": true});
        self.agent.send(&json!({"jsonrpc": "2.0", "method": "_x/y", "params": params}));
        let answer = self.request("_x/ask", json!({"sessionId": self.session, "question": 42}))?;
        self.say_answer(&answer);
        Ok(())
    }

    /// A call that began.
    fn call(&mut self, name: &str) -> String {
        let call = self.next_call(name);
        self.update(json!({
            "sessionUpdate": "tool_call", "toolCallId": call, "title": name, "kind": "edit",
            "status": "pending", "rawInput": {"name": name},
        }));
        call
    }

    fn next_call(&self, name: &str) -> String {
        let mut state = self.agent.state();
        state.calls += 1;
        format!("{name}-{}", state.calls)
    }

    fn say(&mut self, text: &str) {
        self.chunk("agent_message_chunk", text);
    }

    fn say_answer(&mut self, answer: &Value) {
        let answer = answer.get("result").or_else(|| answer.get("error")).unwrap_or(&Value::Null);
        self.say(&format!("answered: {answer}"));
    }

    fn chunk(&mut self, sort: &str, text: &str) {
        self.update(json!({"sessionUpdate": sort, "content": {"type": "text", "text": text}}));
    }

    fn update(&mut self, update: Value) {
        self.keep(&update);
        let params = json!({"sessionId": self.session, "update": update});
        self.agent.send(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
    }

    fn keep(&self, update: &Value) {
        if let Some(session) = self.agent.state().sessions.get_mut(&self.session) {
            session.keep(update);
        }
    }

    fn save(&self) {
        self.agent.save(&self.agent.state());
    }

    fn cwd(&self) -> String {
        let state = self.agent.state();
        state.sessions.get(&self.session).map(|session| session.cwd.clone()).unwrap_or_default()
    }

    fn absolute(&self, path: &str) -> String {
        Path::new(&self.cwd()).join(path).to_string_lossy().into_owned()
    }

    /// Asks the client for something; the message that answers it.
    fn request(&self, method: &str, params: Value) -> Result<Value, Cancelled> {
        let id = {
            let mut state = self.agent.state();
            state.requests += 1;
            let id = state.requests;
            state.asked.insert(id, None);
            id
        };
        self.agent.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let mut state = self.agent.state();
        loop {
            if let Some(Some(answer)) = state.asked.get(&id) {
                let answer = answer.clone();
                state.asked.remove(&id);
                return Ok(answer);
            }
            if state.running.get(&self.number).is_some_and(|(_, cancelled)| *cancelled) {
                state.asked.remove(&id);
                return Err(Cancelled);
            }
            state =
                self.agent.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    fn check(&self) -> Result<(), Cancelled> {
        let state = self.agent.state();
        match state.running.get(&self.number) {
            Some((_, true)) => Err(Cancelled),
            _ => Ok(()),
        }
    }

    /// Waits for so long, or until it is cancelled.
    fn pause(&self, time: Option<Duration>) -> Result<(), Cancelled> {
        let going_on = |state: &mut super::State| {
            state.running.get(&self.number).is_some_and(|(_, cancelled)| !*cancelled)
        };
        let state = self.agent.state();
        match time {
            Some(time) => drop(self.agent.changed.wait_timeout_while(state, time, going_on)),
            None => drop(self.agent.changed.wait_while(state, going_on)),
        }
        self.check()
    }
}

fn forever() -> ! {
    loop {
        thread::park();
    }
}

/// A text of so many bytes that is another one for each number.
fn filler(number: usize, size: usize) -> String {
    let line = format!("chunk {number} of a text that is streamed\n");
    line.chars().cycle().take(size).collect()
}

/// A text in chunks that end at characters.
fn parts(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut at = ECHO.min(rest.len());
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        let (part, after) = rest.split_at(at);
        found.push(part);
        rest = after;
    }
    found
}

fn plan_entry(entry: &str) -> Value {
    let (content, status) = match entry.split_at_checked(1) {
        Some((">", content)) => (content, "in_progress"),
        Some(("=", content)) => (content, "completed"),
        _ => (entry, "pending"),
    };
    json!({"content": content, "priority": "medium", "status": status})
}
