//! A stubbed model as a program, for scripts that run agents against it.
//!
//! `stub-model PORT SCRIPT [LOG]` prints the port it listens at (any free one for 0) and serves
//! until it is killed. With LOG the body of every request is appended there as a line.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;
use std::thread;

use abide_testkit::stub_model::{Conversation, Failure, Script, StubAnswer, StubModel, Tasks};
use serde_json::json;

const USAGE: &str = "stub-model PORT SCRIPT [LOG]

SCRIPT is one of
  echo        says what the user said last
  tools:N     asks N times for the tool `bash`, one after the other, then says `Done.`
  file:PATH   a conversation: {\"steps\":[[{\"name\":…,\"arguments\":{…}},…],…],\"last\":…}
  tasks:PATH  tasks: {\"tasks\":[{\"when\":…,\"steps\":[…],\"last\":…,\"wait\":{\"step\":N,\"until\":PATH}},…]}
              does the one of which the user spoke last, by its words `when`
  status:N    refuses with the status N
  too-many    refuses every other request with 429 and `retry-after: 0`, else as echo
  hang, flood, close, malformed   what they say";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("Error: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let (port, name, log) = match arguments {
        [port, name] => (port, name, None),
        [port, name, log] => (port, name, Some(log)),
        _ => return Err(USAGE.to_owned()),
    };
    let port = port.parse::<u16>().map_err(|_| format!("`{port}` is no port\n{USAGE}"))?;
    let script = script(name)?;
    let log = log
        .map(|path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.map_err(|error| format!("{path}: {error}"))
        })
        .transpose()?;
    let logged: Script = Box::new(move |request| {
        if let Some(mut log) = log.as_ref() {
            // One write a line, so that lines of two requests do not mix.
            if let Err(error) = log.write_all(format!("{}\n", request.body).as_bytes()) {
                eprintln!("Error: the log: {error}");
            }
        }
        script(request)
    });
    let server = StubModel::start(port, logged).map_err(|error| error.to_string())?;
    println!("{}", server.address().port());
    loop {
        thread::park();
    }
}

fn script(name: &str) -> Result<Script, String> {
    let failing = |failure: Failure| -> Result<Script, String> {
        Ok(Box::new(move |_| StubAnswer::failing(failure.clone())))
    };
    let echo = |said: Option<String>| StubAnswer::text(said.unwrap_or_default());
    match name.split_once(':') {
        Some(("tools", count)) => {
            let count = count.parse::<usize>().map_err(|error| format!("{name}: {error}"))?;
            let calls = (0..count).map(|at| ("bash", json!({"command": format!("echo {at}")})));
            let conversation = Conversation::of(calls, "Done.");
            Ok(Box::new(move |request| conversation.answer(request)))
        }
        Some(("file", path)) => {
            let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
            let conversation: Conversation =
                serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
            Ok(Box::new(move |request| conversation.answer(request)))
        }
        Some(("tasks", path)) => {
            let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
            let tasks: Tasks =
                serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
            Ok(Box::new(move |request| tasks.answer(request)))
        }
        Some(("status", code)) => {
            let code = code.parse::<u16>().map_err(|error| format!("{name}: {error}"))?;
            Ok(Box::new(move |_| StubAnswer::status(code, "refused by the script")))
        }
        _ => match name {
            "echo" => Ok(Box::new(move |request| echo(request.last_said()))),
            "too-many" => Ok(Box::new(move |request| {
                if request.number.is_multiple_of(2) {
                    StubAnswer::too_many("0")
                } else {
                    echo(request.last_said())
                }
            })),
            "hang" => failing(Failure::Hang),
            "flood" => failing(Failure::Flood),
            "close" => failing(Failure::CloseAfter(40)),
            "malformed" => failing(Failure::Malformed),
            _ => Err(format!("there is no script `{name}`\n{USAGE}")),
        },
    }
}
