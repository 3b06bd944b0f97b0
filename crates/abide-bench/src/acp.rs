//! `abide acp`: what it adds to a message, how much passes through it, how soon a session is shown.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use abide::{Message, NewSession, Store, message::MessageContent};
use serde_json::{Value, json};

use crate::Outcome;
use crate::bench::Bench;
use crate::calibration::millis;
use crate::figure::{Better, Figure, Target, median};

/// Messages of which each must be durable: a call, and its end.
const CALLS: usize = 400;
/// Streamed chunks.
const CHUNKS: usize = 4_000;
/// Bytes that are streamed at once, and in chunks of how many.
const FLOOD: (usize, usize) = (256 << 20, 16 << 10);
/// Messages of a session that is loaded.
const MESSAGES: usize = 10_000;

/// What a durable message and a chunk cost beside the direct way, and how much passes.
pub(crate) fn pass(bench: &Bench) -> Outcome {
    if !bench.abide.is_file() {
        bench.skip("acp.pass", "no abide binary");
        return Ok(());
    }
    let calls = bench.scale.of(CALLS);
    let chunks = bench.scale.of(CHUNKS);
    let flood = bench.scale.of(FLOOD.0);
    let mut durable = Figure::new("acp.durable", "ms", Better::Lower, Target::AtMost(1.0));
    let mut chunk = Figure::new("acp.chunk", "µs", Better::Lower, Target::AtMost(100.0));
    let mut through = Figure::new("acp.through", "MB/s", Better::Higher, Target::AtLeast(50.0));
    for _ in 0..bench.rounds {
        let fresh = bench.fresh()?;
        let mut direct = Talk::start(None, fresh.path())?;
        let mut proxied = Talk::start(Some(&bench.abide), fresh.path())?;
        let write = median(&appends(fresh.path(), calls)?);
        let (bare, ours) = (direct.latencies("calls", calls)?, proxied.latencies("calls", calls)?);
        durable.push_with_raw((median(&ours) - median(&bare)) / 1000.0 - write, write);
        let bare = direct.latencies("chunks", chunks)?;
        let ours = proxied.latencies("chunks", chunks)?;
        chunk.push_with_raw(median(&ours) - median(&bare), median(&bare));
        let (bare, ours) = (direct.flood(flood)?, proxied.flood(flood)?);
        through.push_with_raw(ours, bare);
        direct.end()?;
        proxied.end()?;
    }
    durable.note("raw", "the durable append alone, ms");
    durable.note("messages", calls);
    chunk.note("raw", "the direct way, µs");
    chunk.note("chunks", chunks);
    through.note("raw", "the direct way, MB/s");
    through.note("bytes", flood);
    bench.report(&durable)?;
    bench.report(&chunk)?;
    bench.report(&through)
}

/// How soon the client sees the first of a long session, when the agent cannot load.
pub(crate) fn load(bench: &Bench) -> Outcome {
    if !bench.abide.is_file() {
        bench.skip("acp.load", "no abide binary");
        return Ok(());
    }
    let count = bench.scale.of(MESSAGES);
    let mut first = Figure::new("acp.load.first", "ms", Better::Lower, Target::AtMost(20.0));
    let mut whole = Figure::new("acp.load.whole", "ms", Better::Lower, Target::None);
    for _ in 0..bench.rounds {
        let fresh = bench.fresh()?;
        let store = Store::open_or_init(fresh.path())?;
        let session = store.create(NewSession::titled("long").with_key("acp:long"))?;
        for batch in 0..count.div_ceil(500) {
            let from = batch * 500;
            let messages = (from..count.min(from + 500)).map(|n| {
                let role = if n % 2 == 0 { "user" } else { "assistant" };
                let text = format!("message {n}: {}", "as it was said. ".repeat(12));
                Ok(Message { role: role.into(), content: MessageContent::Text(text) }.try_into()?)
            });
            let messages = messages.collect::<Outcome<Vec<_>>>()?;
            session.append_all(messages)?.wait()?;
        }
        session.close()?;
        let mut talk = Talk::start(Some(&bench.abide), fresh.path())?;
        let params = json!({"sessionId": "long", "cwd": fresh.path(), "mcpServers": []});
        let began = Instant::now();
        talk.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "session/load", "params": params}))?;
        let line = talk.line()?;
        if !line.contains("message 0") {
            return Err(format!("not the first message: {line}").into());
        }
        first.push(millis(began.elapsed()));
        let mut shown = 1;
        loop {
            let line = talk.line()?;
            if line.contains("session/update") {
                shown += 1;
            } else {
                break;
            }
        }
        if shown != count {
            return Err(format!("{shown} of {count} messages were shown").into());
        }
        whole.push(millis(began.elapsed()));
        talk.end()?;
    }
    first.note("messages", count);
    bench.report(&first)?;
    bench.report(&whole)
}

/// The times of durable appends of a call, in milliseconds.
fn appends(dir: &Path, count: usize) -> Outcome<Vec<f64>> {
    let store = Store::open_or_init(dir)?;
    let session = store.create(NewSession::titled("bare"))?;
    let mut times = Vec::new();
    for n in 0..count {
        let text = update_of("calls", n, 0).to_string();
        let message = Message { role: "assistant".into(), content: MessageContent::Text(text) };
        let began = Instant::now();
        session.append(message)?.wait()?;
        times.push(millis(began.elapsed()));
    }
    session.close()?;
    Ok(times)
}

/// A client that talks to an agent, directly or through the proxy.
struct Talk {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Talk {
    fn start(abide: Option<&Path>, dir: &Path) -> Outcome<Self> {
        let program = std::env::current_exe()?;
        let mut command = match abide {
            Some(abide) => {
                let mut command = Command::new(abide);
                command.args(["acp", "--checkpoint", "off", "--"]).arg(&program);
                command
            }
            None => Command::new(&program),
        };
        let mut child = command
            .arg("acp-agent")
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::with_capacity(1 << 20, child.stdout.take().ok_or("no output")?);
        let mut talk = Self { child, input, output };
        talk.ask("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}))?;
        talk.ask("session/new", json!({"cwd": dir, "mcpServers": []}))?;
        Ok(talk)
    }

    fn send(&mut self, message: &Value) -> Outcome {
        writeln!(self.input, "{message}")?;
        Ok(())
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err("the other side is gone".into());
        }
        Ok(line)
    }

    fn ask(&mut self, method: &str, params: Value) -> Outcome {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))?;
        let answer = self.line()?;
        if !answer.contains("\"result\"") {
            return Err(format!("{method}: {answer}").into());
        }
        Ok(())
    }

    fn prompt(&mut self, text: String) -> Outcome {
        let prompt = json!([{"type": "text", "text": text}]);
        let params = json!({"sessionId": "bench", "prompt": prompt});
        self.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": params}))
    }

    /// From when the agent sends an update until it is here, in microseconds.
    fn latencies(&mut self, what: &str, count: usize) -> Outcome<Vec<f64>> {
        self.prompt(format!("{what} {count}"))?;
        let mut times = Vec::with_capacity(count);
        loop {
            let line = self.line()?;
            let now = nanos()?;
            let Some((_, rest)) = line.split_once("\"sent\":") else { break };
            let sent: String = rest.chars().take_while(char::is_ascii_digit).collect();
            times.push((now.saturating_sub(sent.parse()?)) as f64 / 1000.0);
        }
        if times.len() != count {
            return Err(format!("{} of {count} updates came", times.len()).into());
        }
        Ok(times)
    }

    /// How fast many bytes come, in megabytes a second.
    fn flood(&mut self, bytes: usize) -> Outcome<f64> {
        self.prompt(format!("flood {bytes}"))?;
        let (mut came, mut line) = (0, Vec::new());
        let began = Instant::now();
        loop {
            line.clear();
            came += self.output.read_until(b'\n', &mut line)?;
            if line.is_empty() {
                return Err("the other side is gone".into());
            }
            if line.len() < 200 {
                break;
            }
        }
        Ok(came as f64 / 1e6 / began.elapsed().as_secs_f64())
    }

    fn end(mut self) -> Outcome {
        drop(self.input);
        self.child.wait()?;
        Ok(())
    }
}

fn nanos() -> Outcome<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())?)
}

fn update_of(what: &str, n: usize, sent: u64) -> Value {
    let meta = json!({"sent": sent});
    match what {
        "calls" => json!({
            "sessionUpdate": "tool_call", "toolCallId": format!("call-{n}"), "title": "Read a file",
            "kind": "read", "status": "pending", "rawInput": {"path": "src/main.rs"}, "_meta": meta,
        }),
        _ => json!({
            "sessionUpdate": "agent_message_chunk", "_meta": meta,
            "content": {"type": "text", "text": "a few words of an answer "},
        }),
    }
}

/// An agent that sends what it is asked for.
pub(crate) fn agent() -> Outcome {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": 1, "agentCapabilities": {}}),
            Some("session/new") => json!({"sessionId": "bench"}),
            Some("session/prompt") => {
                let text = message["params"]["prompt"][0]["text"].as_str().unwrap_or_default();
                let (what, count) = text.split_once(' ').ok_or("no count")?;
                send(&mut out, &message["params"]["sessionId"], what, count.parse()?)?;
                json!({"stopReason": "end_turn"})
            }
            _ => continue,
        };
        writeln!(out, "{}", json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))?;
        out.flush()?;
    }
    Ok(())
}

fn send(out: &mut impl Write, session: &Value, what: &str, count: usize) -> Outcome {
    let line = |update: Value| {
        let params = json!({"sessionId": session, "update": update});
        json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string()
    };
    if what == "flood" {
        let text = "x".repeat(FLOOD.1);
        let content = json!({"type": "text", "text": text});
        let line = line(json!({"sessionUpdate": "agent_message_chunk", "content": content}));
        for _ in 0..count / FLOOD.1 {
            writeln!(out, "{line}")?;
        }
        return Ok(());
    }
    for n in 0..count {
        writeln!(out, "{}", line(update_of(what, n, nanos()?)))?;
        out.flush()?;
        // One after the other, as a model speaks: not how much passes, but how soon.
        std::thread::sleep(Duration::from_micros(if what == "calls" { 4_000 } else { 300 }));
    }
    Ok(())
}
