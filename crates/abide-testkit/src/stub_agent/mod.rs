//! An agent for tests that speaks the Agent Client Protocol (version 1) on stdin and stdout, and
//! does what the prompt says.
//!
//! The last text of a prompt is a little script, see [`USAGE`]; any other text is echoed. What it
//! is able to do beside that is chosen by its command line. It misbehaves on demand: it dies,
//! hangs, floods, talks nonsense, stops reading.
//!
//! The lines that it sends are the same in each run but for the ids of sessions, so that two runs
//! can be compared.

mod options;
mod performer;
mod session;
mod step;

pub use options::StubOptions;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::performer::Performer;
use self::session::{Sessions, StubSession};

/// What the command line and the prompts may hold.
pub const USAGE: &str = "stub-agent [OPTION…]

  --load --resume --list --close --delete --fork   what it is able to do
  --state FILE    keeps sessions there, so that a restarted agent knows them
  --forget N      lacks the last N messages of each session that FILE holds at the start
  --count-ids     session ids are 1, 2 …, anew in each process
  --mute          reads everything and answers nothing
  --log FILE      appends every line that it receives, byte for byte

A prompt's last text is a script, a step in each line or between `;`
  say TEXT, think TEXT, chunks N SIZE, tool NAME, tool-open NAME, plan a|>b|=c, mode ID,
  title TEXT, usage, custom, recall, raw LINE ($ID is the session)
  ask, read PATH, write PATH TEXT, terminal COMMAND…    ask the client, then say the answer
  edit PATH TEXT, sleep MS, wait, hang, die [CODE], kill, deaf,
  garbage, flood MB, endless MB
Any other text is echoed in chunks.";

/// A stubbed agent.
pub struct StubAgent {
    options: StubOptions,
    state: Mutex<State>,
    changed: Condvar,
    output: Mutex<Box<dyn Write + Send>>,
}

#[derive(Default)]
struct State {
    /// Every session that it knows of.
    sessions: Sessions,
    /// Those that were made, loaded, resumed or forked in this process.
    open: BTreeSet<String>,
    /// The prompts that run, with their sessions; `true` when cancelled.
    running: HashMap<u64, (String, bool)>,
    /// The answers to its own requests; nothing as long as one is missing.
    asked: HashMap<u64, Option<Value>>,
    /// Numbers of requests, prompts, calls and sessions.
    requests: u64,
    prompts: u64,
    calls: u64,
    made: u64,
    deaf: bool,
}

/// A message, as far as it must be understood.
#[derive(Deserialize)]
struct Incoming<'a> {
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// An error of JSON-RPC.
struct Refusal(i64, String);

impl StubAgent {
    /// Serves one client until it closes its end.
    ///
    /// # Errors
    ///
    /// When the state file or the log cannot be read or written, or stdout is closed.
    pub fn serve(
        options: StubOptions,
        input: impl BufRead,
        output: Box<dyn Write + Send>,
    ) -> Result<(), String> {
        let sessions = match &options.state {
            Some(path) => session::read(path, options.forget)?,
            None => Sessions::new(),
        };
        let log = options
            .log
            .as_ref()
            .map(|path| {
                let file = OpenOptions::new().create(true).append(true).open(path);
                file.map_err(|error| format!("{}: {error}", path.display()))
            })
            .transpose()?;
        let agent = Arc::new(Self {
            options,
            state: Mutex::new(State { sessions, ..State::default() }),
            changed: Condvar::default(),
            output: Mutex::new(output),
        });
        agent.read(input, log)
    }

    fn read(
        self: &Arc<Self>,
        mut input: impl BufRead,
        mut log: Option<File>,
    ) -> Result<(), String> {
        loop {
            let mut line = Vec::new();
            let count = input.read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
            if count == 0 {
                return Ok(());
            }
            if self.state().deaf {
                loop {
                    thread::park();
                }
            }
            if let Some(log) = &mut log {
                log.write_all(&line).map_err(|error| format!("the log: {error}"))?;
            }
            if self.options.mute {
                continue;
            }
            match serde_json::from_slice::<Incoming>(&line) {
                Ok(message) => self.take(&message, &line),
                Err(error) => {
                    let error = json!({"code": -32700, "message": error.to_string()});
                    self.send(&json!({"jsonrpc": "2.0", "id": null, "error": error}));
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message. A client that went away is seen by the reader.
    fn send(&self, message: &Value) {
        self.send_line(message.to_string().as_bytes());
    }

    fn send_line(&self, line: &[u8]) {
        self.send_bytes(&[line, b"\n"].concat());
    }

    fn send_bytes(&self, bytes: &[u8]) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        if output.write_all(bytes).and_then(|()| output.flush()).is_err() {
            // Nobody hears it any more: what it does further is of no use.
            std::process::exit(0);
        }
    }

    fn take(self: &Arc<Self>, message: &Incoming<'_>, line: &[u8]) {
        // Params that no type can hold, such as numbers out of range, are as good as none.
        let params = message.params.and_then(|params| serde_json::from_str(params.get()).ok());
        let params: Value = params.unwrap_or_default();
        match (message.method.as_deref(), message.id) {
            (Some("session/prompt"), Some(id)) => self.prompt(id.get(), params),
            (Some(method), Some(id)) => {
                let answer = self.answer(method, &params);
                self.send_answer(id.get(), answer);
            }
            (Some("session/cancel"), None) => self.cancel(&params["sessionId"]),
            (Some(_), None) => {}
            (None, Some(id)) => {
                let mut state = self.state();
                let asked = id.get().parse().ok().and_then(|id: u64| state.asked.get_mut(&id));
                if let Some(asked) = asked {
                    *asked = serde_json::from_slice(line).ok();
                    self.changed.notify_all();
                }
            }
            (None, None) => {}
        }
    }

    /// Answers a request, with its id as it was written.
    fn send_answer(&self, id: &str, answer: Result<Value, Refusal>) {
        let answer = match answer {
            Ok(result) => format!(r#""result":{result}"#),
            Err(Refusal(code, message)) => {
                format!(r#""error":{}"#, json!({"code": code, "message": message}))
            }
        };
        self.send_line(format!(r#"{{"jsonrpc":"2.0","id":{id},{answer}}}"#).as_bytes());
    }

    fn cancel(&self, session: &Value) {
        let mut state = self.state();
        for (of, cancelled) in state.running.values_mut() {
            *cancelled |= session == of.as_str();
        }
        self.changed.notify_all();
    }

    /// Performs a prompt beside the reading, so that it can be cancelled.
    fn prompt(self: &Arc<Self>, id: &str, params: Value) {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let number = {
            let mut state = self.state();
            if !state.open.contains(&session) {
                drop(state);
                let message = format!("there is no session `{session}`");
                return self.send_answer(id, Err(Refusal(-32602, message)));
            }
            state.prompts += 1;
            let number = state.prompts;
            state.running.insert(number, (session.clone(), false));
            number
        };
        let (agent, id) = (Arc::clone(self), id.to_owned());
        thread::spawn(move || {
            let result = Performer::new(&agent, number, session).perform(&params["prompt"]);
            agent.state().running.remove(&number);
            agent.send_answer(&id, Ok(result));
        });
    }

    /// The answer to any request but a prompt.
    fn answer(&self, method: &str, params: &Value) -> Result<Value, Refusal> {
        let options = &self.options;
        match method {
            "initialize" => Ok(self.introduction()),
            "authenticate" | "session/set_mode" => Ok(json!({})),
            "session/new" => {
                let id =
                    self.make(StubSession { cwd: text(params, "cwd"), ..StubSession::default() });
                Ok(json!({"sessionId": id, "modes": modes()}))
            }
            "session/load" if options.load => {
                let (id, session) = self.known(params)?;
                for update in &session.updates {
                    let params = json!({"sessionId": id, "update": update});
                    self.send(
                        &json!({"jsonrpc": "2.0", "method": "session/update", "params": params}),
                    );
                }
                self.state().open.insert(id);
                Ok(json!({"modes": modes()}))
            }
            "session/resume" if options.resume => {
                let (id, _) = self.known(params)?;
                self.state().open.insert(id);
                Ok(json!({"modes": modes()}))
            }
            "session/list" if options.list => {
                let wanted = params.get("cwd").and_then(Value::as_str);
                let state = self.state();
                let listed = state
                    .sessions
                    .iter()
                    .filter(|(_, session)| wanted.is_none_or(|cwd| cwd == session.cwd));
                let listed: Vec<Value> = listed
                    .map(|(id, session)| {
                        json!({"sessionId": id, "cwd": session.cwd, "title": session.title})
                    })
                    .collect();
                Ok(json!({"sessions": listed}))
            }
            "session/close" if options.close => {
                let (id, _) = self.known(params)?;
                self.cancel(&json!(id));
                self.state().open.remove(&id);
                Ok(json!({}))
            }
            "session/delete" if options.delete => {
                let (id, _) = self.known(params)?;
                let mut state = self.state();
                state.open.remove(&id);
                state.sessions.remove(&id);
                self.save(&state);
                Ok(json!({}))
            }
            "session/fork" if options.fork => {
                let (_, session) = self.known(params)?;
                let id = self.make(session);
                Ok(json!({"sessionId": id, "modes": modes()}))
            }
            // What is not of the protocol is answered with what was asked.
            _ if method.starts_with('_') => Ok(json!({"asked": params})),
            _ => Err(Refusal(-32601, format!("there is no method `{method}`"))),
        }
    }

    fn introduction(&self) -> Value {
        let options = &self.options;
        let mut sessions = json!({});
        let able = [
            ("resume", options.resume),
            ("list", options.list),
            ("close", options.close),
            ("delete", options.delete),
            ("fork", options.fork),
        ];
        for (name, _) in able.iter().filter(|(_, able)| *able) {
            sessions[name] = json!({});
        }
        json!({
            "protocolVersion": 1,
            "agentInfo": {"name": "stub-agent", "version": "1"},
            "agentCapabilities": {
                "loadSession": options.load,
                "promptCapabilities": {"image": true, "embeddedContext": true},
                "sessionCapabilities": sessions,
            },
            "authMethods": [],
        })
    }

    /// A new session.
    fn make(&self, session: StubSession) -> String {
        let mut state = self.state();
        state.made += 1;
        let id = if self.options.count_ids {
            state.made.to_string()
        } else {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            format!("stub-{:x}-{:x}-{}", since.as_nanos(), std::process::id(), state.made)
        };
        state.open.insert(id.clone());
        state.sessions.insert(id.clone(), session);
        self.save(&state);
        id
    }

    fn known(&self, params: &Value) -> Result<(String, StubSession), Refusal> {
        let id = text(params, "sessionId");
        let session = self.state().sessions.get(&id).cloned();
        session
            .map(|session| (id.clone(), session))
            .ok_or_else(|| Refusal(-32002, format!("there is no session `{id}`")))
    }

    fn save(&self, state: &State) {
        if let Some(path) = &self.options.state
            && let Err(error) = session::write(path, &state.sessions)
        {
            // What is on stderr is for people; a test sees that the session is not there.
            let _ = writeln!(io::stderr(), "Error: {error}");
        }
    }
}

fn modes() -> Value {
    json!({"currentModeId": "ask", "availableModes": [
        {"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"},
    ]})
}

fn text(params: &Value, name: &str) -> String {
    params[name].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
