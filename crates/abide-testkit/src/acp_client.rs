//! A client of the Agent Client Protocol for tests: it starts an agent, or what stands before one,
//! and keeps every line that it sends and receives as it was.
//!
//! It waits for long, and says what it has seen when it waited in vain. It panics where a test
//! would: nothing else uses it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Nothing takes as long as this; what does hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// What answers the requests of agents: given a request, its `result` or its `error`; nothing where
/// the test answers itself, or never.
pub type Answering = Box<dyn FnMut(&Value) -> Option<Result<Value, Value>>>;

/// A client with an agent at the other end.
pub struct AcpClient {
    child: Child,
    input: Option<Sender<Vec<u8>>>,
    output: Receiver<String>,
    threads: Vec<JoinHandle<()>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    answering: Answering,
    requests: u64,
    /// Every line that was sent, without its end.
    pub sent: Vec<String>,
    /// Every line that was received, in the order they came, without its end.
    pub received: Vec<String>,
}

impl AcpClient {
    /// Starts an agent. Requests of it are refused as unknown methods until
    /// [`answering`](Self::answering) says otherwise.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (input, lines) = mpsc::channel();
        let stdin = child.stdin.take().unwrap();
        // Written beside the test: an agent that does not read must not stop it.
        thread::spawn(move || write(stdin, &lines));
        let (sender, output) = mpsc::channel();
        let stdout = child.stdout.take().unwrap();
        let reader = thread::spawn(move || read(stdout, &sender));
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&stderr);
        let mut pipe = child.stderr.take().unwrap();
        let collector = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                let mut kept = theirs.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(&buffer[..count]);
            }
        });
        let refused = |request: &Value| {
            let message = format!("there is no method {}", request["method"]);
            Some(Err(json!({"code": -32601, "message": message})))
        };
        Self {
            child,
            input: Some(input),
            output,
            threads: vec![reader, collector],
            stderr,
            answering: Box::new(refused),
            requests: 0,
            sent: Vec::new(),
            received: Vec::new(),
        }
    }

    /// Answers the agent's requests from now on. It is called when the line has come and before
    /// anything else is read.
    pub fn answering<F>(&mut self, answering: F)
    where
        F: FnMut(&Value) -> Option<Result<Value, Value>> + 'static,
    {
        self.answering = Box::new(answering);
    }

    /// The process at the other end.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// What came on stderr until now.
    #[must_use]
    pub fn stderr(&self) -> String {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }

    /// Sends a line as it is.
    pub fn send(&mut self, line: &str) {
        self.sent.push(line.to_owned());
        if let Some(input) = &self.input {
            // An agent that is gone is seen when something is waited for.
            let _ = input.send(format!("{line}\n").into_bytes());
        }
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Sends a request; its id.
    pub fn request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.requests;
        self.requests += 1;
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&line.to_string());
        id
    }

    /// Sends a request and waits for the message that answers it.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer(id)
    }

    /// Sends a request that must succeed; its result.
    ///
    /// # Panics
    ///
    /// When it is refused.
    #[track_caller]
    pub fn must(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params);
        match answer.get("result") {
            Some(result) => result.clone(),
            None => self.give_up(&format!("{method} was refused: {answer}")),
        }
    }

    /// Waits for the message that answers a request.
    #[track_caller]
    pub fn answer(&mut self, id: u64) -> Value {
        // It may have come while another was waited for.
        let known = self.received.iter().rev().find_map(|line| {
            let message: Value = serde_json::from_str(line).ok()?;
            (message["id"] == id && message.get("method").is_none()).then_some(message)
        });
        if let Some(answer) = known {
            return answer;
        }
        let line = self.until(&format!("an answer to {id}"), |message| {
            message["id"] == id && message.get("method").is_none()
        });
        serde_json::from_str(&line).unwrap_or_default()
    }

    /// Waits for a line that holds such a message; the line. Those before it are kept in `received`.
    ///
    /// # Panics
    ///
    /// When there is none for a long time, or the other end went away.
    #[track_caller]
    pub fn until(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> String {
        loop {
            match self.next() {
                Some(line) => {
                    // What is no JSON is no such message.
                    if serde_json::from_str(&line).is_ok_and(|message| wanted(&message)) {
                        return line;
                    }
                }
                None => self.give_up(&format!("the other end went away before {what}")),
            }
        }
    }

    /// The next line; nothing when the other end closed. Requests are answered.
    ///
    /// # Panics
    ///
    /// When there is none for a long time.
    #[allow(clippy::should_implement_trait)]
    #[track_caller]
    pub fn next(&mut self) -> Option<String> {
        let line = match self.output.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => self.give_up("nothing came for a long time"),
        };
        self.received.push(line.clone());
        if let Ok(message) = serde_json::from_str::<Value>(&line)
            && message.get("method").is_some()
            && let Some(id) = message.get("id")
        {
            match (self.answering)(&message) {
                Some(Ok(result)) => {
                    let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
                    self.send(&answer.to_string());
                }
                Some(Err(error)) => {
                    let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
                    self.send(&answer.to_string());
                }
                None => {}
            }
        }
        Some(line)
    }

    /// The updates of a session that came since the line `from` of `received`.
    #[must_use]
    pub fn updates(&self, session: &str, from: usize) -> Vec<Value> {
        let messages = self.received.iter().skip(from);
        messages
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|message| message["params"]["sessionId"] == session)
            .filter_map(|message| match message["method"].as_str() {
                Some("session/update") => Some(message["params"]["update"].clone()),
                // A question about a call tells of the call.
                Some("session/request_permission") => {
                    let mut call = message["params"]["toolCall"].clone();
                    call["sessionUpdate"] = json!("tool_call");
                    Some(call)
                }
                _ => None,
            })
            .collect()
    }

    /// Introduces itself, able to do all that a client can; the result.
    #[track_caller]
    pub fn initialize(&mut self) -> Value {
        self.must(
            "initialize",
            json!({
                "protocolVersion": 1,
                "clientInfo": {"name": "test-client", "version": "1"},
                "clientCapabilities": {
                    "fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true,
                },
            }),
        )
    }

    /// Prompts with a text; the id of the request.
    pub fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.request("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }

    /// Prompts with a text and waits for the end of the turn; the message that answers it.
    #[track_caller]
    pub fn turn(&mut self, session: &str, text: &str) -> Value {
        let id = self.prompt(session, text);
        self.answer(id)
    }

    /// Kills the other end with SIGKILL and waits until it is gone. What it had sent is received.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.input = None;
        // A child of it may hold the pipe open: then what is there already is enough.
        while let Ok(line) = self.output.recv_timeout(Duration::from_millis(200)) {
            self.received.push(line);
        }
    }

    /// Closes stdin, as a client does that goes away, and waits for the end of the process.
    ///
    /// # Panics
    ///
    /// When it does not end.
    #[track_caller]
    pub fn close(mut self) -> ExitStatus {
        self.input = None;
        let until = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status,
                Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(5)),
                other => self.give_up(&format!("it does not end: {other:?}")),
            }
        }
    }

    #[track_caller]
    fn give_up(&self, what: &str) -> ! {
        let short = |line: &String| line.chars().take(400).collect::<String>();
        let sent: Vec<String> = self.sent.iter().map(short).collect();
        let from = self.received.len().saturating_sub(60);
        let received: Vec<String> = self.received[from..].iter().map(short).collect();
        panic!(
            "{what}\nsent:\n  {}\nreceived:\n  {}\nstderr:\n{}",
            sent.join("\n  "),
            received.join("\n  "),
            self.stderr()
        );
    }
}

impl Drop for AcpClient {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The threads end with the pipes, which a child of the process may hold open for longer.
        self.threads.clear();
    }
}

fn write(mut stdin: ChildStdin, lines: &Receiver<Vec<u8>>) {
    while let Ok(line) = lines.recv() {
        if stdin.write_all(&line).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

fn read(stdout: impl Read, lines: &Sender<String>) {
    let mut stdout = BufReader::with_capacity(1 << 16, stdout);
    loop {
        let mut line = Vec::new();
        match stdout.read_until(b'\n', &mut line) {
            Ok(1..) => {}
            _ => return,
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        let line = String::from_utf8(line)
            .unwrap_or_else(|error| format!("not UTF-8: {:?}", error.into_bytes()));
        if lines.send(line).is_err() {
            return;
        }
    }
}
