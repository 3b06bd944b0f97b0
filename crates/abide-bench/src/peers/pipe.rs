//! abide as a program in Rust uses it without its library: `abide record` on a pipe, `abide tail` to read.
//!
//! It does what `peers/abide_pipe.py` does, so that the pipe stands beside raw files in the same language.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::peers::clock::{Appended, Clock};
use crate::peers::work::Peer;

/// The environment variable with the path of the program.
pub(crate) const PROGRAM: &str = "ABIDE";
/// `session.created`, `writer.opened` and `writer.closed` are events too.
const OTHERS: usize = 3;

/// A program that writes a line and waits for its answer.
#[derive(Debug)]
pub(crate) struct RecordPipe;

/// A line, as it goes into the pipe and as `abide tail` gives it back.
#[derive(Serialize, Deserialize)]
struct PipedEvent<K, D> {
    kind: K,
    data: D,
}

#[derive(Serialize)]
struct PipedMessage<'t> {
    role: &'static str,
    content: &'t str,
}

/// What `abide record` says of a line.
#[derive(Deserialize)]
struct PipeAnswer {
    seq: Option<u64>,
}

impl RecordPipe {
    /// The program with these arguments, on the store of a directory.
    fn program(dir: &Path, arguments: &[&str]) -> Command {
        let program = std::env::var_os(PROGRAM).unwrap_or_else(|| "abide".into());
        let mut command = Command::new(program);
        command.args(arguments).arg("--store").arg(dir.join(".abide"));
        command
    }
}

impl Peer for RecordPipe {
    fn version(&self) -> Option<String> {
        Some(env!("CARGO_PKG_VERSION").to_owned())
    }

    fn append(&self, dir: &Path, texts: &[String]) -> Outcome<Appended> {
        let init = Self::program(dir, &["init"]).stdout(Stdio::null()).status()?;
        if !init.success() {
            return Err("abide init failed".into());
        }
        let mut record = Self::program(dir, &["record", "--key", "session"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut input = record.stdin.take().ok_or("the child has no input")?;
        let mut output = BufReader::new(record.stdout.take().ok_or("the child has no output")?);
        let (mut line, mut answer) = (Vec::new(), String::new());
        let clock = Clock::start();
        for text in texts {
            line.clear();
            let data = PipedMessage { role: "assistant", content: text };
            serde_json::to_writer(&mut line, &PipedEvent { kind: "message.added", data })?;
            line.push(b'\n');
            input.write_all(&line)?;
            answer.clear();
            output.read_line(&mut answer)?;
            if serde_json::from_str::<PipeAnswer>(&answer)?.seq.is_none() {
                return Err(format!("abide record said {answer}").into());
            }
        }
        let appended = clock.stop();
        drop(input);
        if !record.wait()?.success() {
            return Err("abide record failed".into());
        }
        Ok(appended)
    }

    fn load(&self, dir: &Path) -> Outcome<Vec<String>> {
        self.last(dir, usize::MAX - OTHERS)
    }

    fn last(&self, dir: &Path, count: usize) -> Outcome<Vec<String>> {
        let lines = (count + OTHERS).to_string();
        let mut tail = Self::program(dir, &["tail", "--json", "-n", &lines]);
        let output = tail.stderr(Stdio::null()).output()?;
        if !output.status.success() {
            return Err("abide tail failed".into());
        }
        let mut texts = Vec::new();
        for line in output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let event: PipedEvent<String, serde_json::Value> = serde_json::from_slice(line)?;
            if event.kind == "message.added" {
                let text = event.data["content"].as_str().ok_or("a message without a text")?;
                texts.push(text.to_owned());
            }
        }
        Ok(texts.split_off(texts.len().saturating_sub(count)))
    }
}
