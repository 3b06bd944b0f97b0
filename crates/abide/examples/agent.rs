//! A complete small agent that outlives itself: kill it at any point, start it again, and it goes
//! on. No finished tool call is made again; one that was cut off is reported as unknown.
//!
//! `OPENAI_BASE_URL=http://127.0.0.1:8080/v1 cargo run -p abide --example agent -- "Tidy up" [DIR]`
//!
//! `OPENAI_API_KEY`, `MODEL` and `COMPACT_OVER` (tokens, 100000) are looked at too.

#![allow(clippy::print_stdout)]

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use abide::stream::StreamDelta;
use abide::{
    Message, MessageForm,
    context::{CompactRequest, ExtractiveSummarizer},
    message::{AnswerRequest, RequestedCall},
};
use abide::{NewEvent, NewSession, Session, Store, context::Threshold, event::OUTCOME_UNKNOWN};
use abide::{ToolCall, ToolResult};
use serde_json::{Value, json};

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let prompt = arguments.next().ok_or("what is to be done?")?;
    work(&prompt, &arguments.next().unwrap_or_else(|| ".".to_owned()))
}

/// Works until the model has said its last word, from wherever an earlier run was.
pub fn work(prompt: &str, dir: &str) -> Result<(), Failed> {
    let over: Threshold = variable("COMPACT_OVER", "100000").parse()?;
    // The session has this key for ever: whoever starts next gets the same one.
    let key = format!("examples/agent/{prompt}");
    let session = Store::open_or_init(dir)?.create_or_get(&key, NewSession::titled(prompt))?;
    // Under a key an event is recorded once, however often the agent starts.
    let system = Message::text("system", "Use the tool `sh` to do what you are asked.");
    let messages = [(system, "system"), (Message::user(prompt), "prompt")];
    let events = messages.map(|(message, key)| Ok(NewEvent::try_from(message)?.with_key(key)));
    session.append_all(events.into_iter().collect::<Result<_, Failed>>()?)?.wait()?;
    loop {
        // What the model asked for and has not got, in this round or in one that was cut off.
        for (call, begun) in session.context()?.pending_calls() {
            execute(&session, &call, begun, dir)?;
        }
        if session.context()?.is_answered() {
            println!();
            return Ok(session.close()?);
        }
        // One that cannot be compacted now may be later.
        match session.compact_over(over, &CompactRequest::default(), &ExtractiveSummarizer) {
            Ok(Some(made)) => println!("[compacted {} messages]", made.covered),
            Ok(None) | Err(abide::Error::Compaction(_)) => {}
            Err(error) => return Err(error.into()),
        }
        ask(&session)?;
    }
}

/// Asks the model. Each block of its answer is durable as soon as it has come.
fn ask(session: &Session) -> Result<(), Failed> {
    let model = variable("MODEL", "gpt-5-mini");
    let body = json!({
        "model": model, "stream": true, "stream_options": {"include_usage": true},
        "messages": session.context()?.render(MessageForm::OpenAi).messages,
        "tools": [{"type": "function", "function": {
            "name": "sh", "description": "Runs a shell command.",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
        }}],
    });
    let request = AnswerRequest { model: Some(model), ..AnswerRequest::new(MessageForm::OpenAi) };
    let answer = session.answer(request)?;
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_recv_response(Some(Duration::from_secs(60)))
        .timeout_recv_body(Some(Duration::from_secs(600)))
        .build()
        .into();
    let base = variable("OPENAI_BASE_URL", "https://api.openai.com/v1");
    let sent = agent
        .post(format!("{base}/chat/completions"))
        .header("authorization", format!("Bearer {}", variable("OPENAI_API_KEY", "none")))
        .header("content-type", "application/json")
        .send(body.to_string());
    let response = match sent {
        Ok(response) => response,
        Err(error) => {
            answer.fail(&error)?;
            return Err(error.into());
        }
    };
    let answered = answer.read(response.into_body().into_reader(), &mut |delta| {
        if let StreamDelta::Text(text) = delta {
            print!("{text}");
            let _ = std::io::stdout().flush();
        }
    })?;
    match answered.error {
        Some(error) => Err(error.into()),
        None if answered.text.is_empty() && answered.calls.is_empty() => Err("no answer".into()),
        None => Ok(()),
    }
}

/// Runs a call: recorded before it has an effect, and its result after.
fn execute(session: &Session, call: &RequestedCall, begun: bool, dir: &str) -> Result<(), Failed> {
    let (ok, text) = if begun {
        (false, OUTCOME_UNKNOWN.to_owned())
    } else {
        let arguments = Some(serde_json::value::to_raw_value(&call.arguments)?);
        let (id, name) = (call.id.as_str().into(), call.name.clone());
        session.append(ToolCall { call: id, name, arguments, observed: false })?.wait()?;
        run(call, dir)
    };
    println!("[{} {} → {}]", call.name, call.arguments, text.trim_end());
    let result = Some(serde_json::value::to_raw_value(&text)?);
    session.append(ToolResult { call: call.id.as_str().into(), ok, result })?.wait()?;
    Ok(())
}

fn run(call: &RequestedCall, dir: &str) -> (bool, String) {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let Some(command) = arguments.get("command").and_then(Value::as_str) else {
        return (false, format!("no such tool, or no command: {} {}", call.name, call.arguments));
    };
    match Command::new("sh").arg("-c").arg(command).current_dir(dir).output() {
        Ok(out) => (out.status.success(), String::from_utf8_lossy(&out.stdout).into_owned()),
        Err(error) => (false, error.to_string()),
    }
}

fn variable(name: &str, otherwise: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| otherwise.to_owned())
}
